//! Marks and counts as Linux keeps them, by tables.
//!
//! Segments have 100 bytes, and one was sent each millisecond. Each is written by its marks: `S` if
//! SACKed, `L` if lost, `R` if its retransmission is under way, `A` if it was ever sent again, `.`
//! if it has none.

use super::super::linux::{Arrival, Counts, Facts, LinuxRack};
use super::super::sent::Sent;
use super::*;

/// Returns a scoreboard with these marks.
fn marked(marks: &str) -> Scoreboard {
    let mut board = Scoreboard::by_time();
    for (index, marks) in marks.split(' ').enumerate() {
        board.send(100, MS(index as u64));
        let has = |mark| marks.contains(mark);
        let before = board.segments.get(index);
        let after = Sent {
            sacked: has('S'),
            lost: has('L'),
            retransmitted: has('R'),
            ambiguous: has('A'),
            ..before
        };
        board.put(index, &before, after);
        if has('S') {
            board.sacked += 1;
            board.sacked_bytes += 100;
            board.sacked_end = index as u32 + 1;
        }
        if has('L') {
            board.lost_end = index as u32 + 1;
        }
    }
    board
}

/// Returns the marks; checks that the counts agree with them.
#[track_caller]
fn marks(board: &Scoreboard) -> String {
    let segments: Vec<Sent> = board.segments.iter().collect();
    let count = |has: fn(&Sent) -> bool| segments.iter().filter(|sent| has(sent)).count() as u32;
    let Counts { lost, resent, .. } = board.counts();
    assert_eq!((lost, resent), (count(|sent| sent.lost), count(|sent| sent.retransmitted)));
    assert_eq!(board.sacked, count(|sent| sent.sacked));
    assert_eq!(board.pipe(), segments.iter().map(Sent::in_pipe).sum::<u64>());
    let sacked = segments.iter().filter(|sent| sent.sacked);
    assert_eq!(board.sacked_bytes(), sacked.map(|sent| u64::from(sent.length)).sum::<u64>());
    let marks = segments.iter().map(|sent| {
        let Sent { sacked, lost, retransmitted, ambiguous, .. } = *sent;
        let all = [(sacked, 'S'), (lost, 'L'), (retransmitted, 'R'), (ambiguous, 'A')];
        let marks: String = all.iter().filter(|mark| mark.0).map(|mark| mark.1).collect();
        if marks.is_empty() { ".".to_owned() } else { marks }
    });
    marks.collect::<Vec<_>>().join(" ")
}

/// An acknowledgement at 100 ms, in a state that began with three segments sent.
fn facts() -> Facts {
    Facts { now: MS(100), high: 300, min_rtt: Duration::ZERO, echo: None }
}

#[track_caller]
fn assert_alike(found: Arrival, expected: Arrival, case: &str) {
    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{case}");
}

fn times(first: u64, last: u64) -> Option<(Time, Time)> {
    Some((MS(first), MS(last)))
}

/// tcp_sacktag_one: marks, block, marks after; delivered, original, overtaken, times, newest.
#[test]
fn blocks_mark_whole_segments() {
    for (before, block, after, delivered, original, overtaken, at, newest) in [
        (". . . . .", (100, 300), ". S S . .", 2, true, 500, times(1, 2), Some(2)),
        (". . . . .", (150, 300), ". . S . .", 1, true, 500, times(2, 2), Some(2)),
        (". . . . .", (100, 299), ". S . . .", 1, true, 500, times(1, 1), Some(1)),
        (". . . . .", (300, 500), ". . . S S", 2, false, 500, times(3, 4), Some(4)),
        (". S . . .", (100, 300), ". S S . .", 1, true, 500, times(2, 2), Some(2)),
        // Overtaken by what is SACKed above.
        (". . . S .", (100, 300), ". S S S .", 2, true, 100, times(1, 2), Some(2)),
        (". . . S .", (400, 500), ". . . S S", 1, false, 500, times(4, 4), Some(4)),
        // It was not lost, or its retransmission has arrived; that of a segment which is not lost
        // is still under way. What was sent again has no time.
        (". L . . .", (100, 200), ". S . . .", 1, true, 500, times(1, 1), Some(1)),
        (". LRA . . .", (100, 200), ". SA . . .", 1, false, 500, None, Some(1)),
        (". RA . . .", (100, 200), ". SRA . . .", 1, false, 500, None, Some(1)),
        (". LA . S .", (100, 200), ". SA . S .", 1, false, 500, None, Some(1)),
    ] {
        let mut board = marked(before);
        let (mut rack, mut found) = (LinuxRack::default(), Arrival::new(500));
        board.tag(block, &facts(), &mut rack, &mut found);
        assert_eq!(marks(&board), after, "{before} {block:?}");
        let expected = Arrival {
            delivered,
            bytes: 100 * u64::from(delivered),
            sacked: true,
            original,
            overtaken,
            sacked_at: at,
            newest,
            ..Arrival::new(500)
        };
        assert_alike(found, expected, before);
        assert!(rack.advanced);
        // The same block says nothing new.
        let mut again = Arrival::new(500);
        board.tag(block, &facts(), &mut rack, &mut again);
        assert_alike(again, Arrival::new(500), before);
    }
}

/// tcp_shift_skb_data: SACKed neighbours of equal length are one buffer, which was sent again if
/// one of them was.
#[test]
fn neighbours_are_joined() {
    for (before, block, after) in [
        (". SA . . .", (200, 300), ". SA SA . ."),
        (". S S A .", (300, 400), ". SA SA SA ."),
        (". S . SA .", (200, 300), ". SA SA SA ."),
        (". SA . S S", (200, 300), ". SA SA SA SA"),
        (". SA . . S", (200, 300), ". SA SA . S"),
        (". S S . SA", (300, 400), ". SA SA SA SA"),
        // Only to those before it.
        (". . . SA .", (200, 300), ". . S SA ."),
        (". . . SA .", (400, 500), ". . . SA SA"),
        (". S . S .", (200, 300), ". S S S ."),
        // A retransmission under way keeps it apart.
        (". SRA . . .", (200, 300), ". SRA S . ."),
        (". S . SRA .", (200, 300), ". S S SRA ."),
        (". SA RA . .", (200, 300), ". SA SRA . ."),
    ] {
        let mut board = marked(before);
        board.tag(block, &facts(), &mut LinuxRack::default(), &mut Arrival::new(500));
        assert_eq!(marks(&board), after, "{before}");
    }
    // A segment of another length is a buffer of its own.
    let mut board = Scoreboard::by_time();
    [100, 100, 60].into_iter().for_each(|length| _ = board.send(length, MS(0)));
    board.send_again(100, MS(1), true);
    for block in [(100, 200), (200, 260)] {
        board.tag(block, &facts(), &mut LinuxRack::default(), &mut Arrival::new(260));
    }
    assert_eq!(marks(&board), ". SA S");
}

/// tcp_rack_advance and tcp_rack_skb_timeout.
#[test]
fn rack_knows_the_last_transmission_that_has_arrived() {
    let board = marked(". . A");
    let [first, second, again] = [0, 1, 2].map(|index| board.segments.get(index));
    let mut rack = LinuxRack::default();
    // Sent again 98 ms ago: faster than the path, so that the original has arrived.
    rack.advance(&again, &Facts { min_rtt: Duration::from_micros(98_001), ..facts() });
    assert_eq!((rack.order, rack.advanced), (None, false));
    rack.advance(&second, &Facts { min_rtt: Duration::from_millis(200), ..facts() });
    assert_eq!((rack.order, rack.rtt, rack.advanced), (Some(1), Duration::from_millis(99), true));
    rack.advance(&first, &facts());
    assert_eq!((rack.order, rack.rtt), (Some(1), Duration::from_millis(100)), "processed last");
    rack.advance(&again, &Facts { min_rtt: Duration::from_millis(98), ..facts() });
    assert_eq!((rack.order, rack.rtt), (Some(2), Duration::from_millis(98)));
    // Sent at 1 ms: overdue after 98 ms and the window.
    for (now, window, left) in [(99, 0, 0), (98, 0, 1), (100, 5, 4), (104, 5, 0), (200, 5, 0)] {
        let window = Duration::from_millis(window);
        assert_eq!(rack.left(&second, MS(now), window), Duration::from_millis(left), "{now}");
    }
}

/// tcp_dsack_seen and tcp_check_dsack: range, end of what was acknowledged when it began; number
/// reported, marks after, and overtaken.
#[test]
fn duplicates_end_retransmissions() {
    for (before, range, from, reported, after, overtaken) in [
        (". RA . . .", (100, 200), 0, 1, ". A . . .", 500),
        (". RA . . .", (100, 200), 199, 1, ". A . . .", 500),
        (". RA . . .", (100, 200), 200, 0, ". A . . .", 500),
        (". SRA . . .", (100, 200), 0, 1, ". SA . . .", 100),
        (". SA SA . .", (100, 300), 0, 2, ". SA SA . .", 100),
        ("A A A . .", (100, 300), 0, 2, "A A A . .", 500),
        ("A A A . .", (0, 299), 0, 2, "A A A . .", 500),
        (". S . . .", (100, 200), 0, 0, ". S . . .", 500),
        ("LRA . . . .", (0, 100), 0, 1, "LA . . . .", 500),
    ] {
        let mut board = marked(before);
        let mut found = Arrival::new(500);
        assert_eq!(board.tag_duplicate(range, from, &mut found), reported, "{before} {range:?}");
        assert_eq!((marks(&board), found.overtaken), (after.to_owned(), overtaken), "{before}");
    }
    // A range that begins below what is outstanding.
    let mut board = marked(". A .");
    board.clean(100, &facts(), true, &mut LinuxRack::default(), &mut Arrival::new(300));
    assert_eq!(board.tag_duplicate((0, 200), 0, &mut Arrival::new(300)), 1);
}

/// tcp_clean_rtx_queue: acknowledged up to; marks after, removed, delivered, sent again, original,
/// overtaken and times.
#[test]
fn acknowledgements_remove_segments() {
    for (before, ack, after, acked, delivered, again, original, overtaken, at) in [
        (". . . . .", 200, ". . .", 2, 2, false, true, 0, times(0, 1)),
        (". . . . .", 199, ". . . .", 1, 1, false, true, 0, times(0, 0)),
        ("S . . . .", 200, ". . .", 2, 1, false, true, 100, times(1, 1)),
        ("S S . . .", 200, ". . .", 2, 0, false, false, 500, None),
        ("A . . . .", 100, ". . . .", 1, 1, true, false, 500, None),
        ("A . . . .", 200, ". . .", 2, 2, true, true, 100, times(1, 1)),
        ("LRA L . RA .", 200, ". RA .", 2, 2, true, true, 100, times(1, 1)),
        // Sent after the state began.
        ("A A A . .", 400, ".", 4, 4, true, false, 300, times(3, 3)),
    ] {
        let mut board = marked(before);
        let (mut rack, mut found) = (LinuxRack::default(), Arrival::new(500));
        board.clean(ack, &facts(), true, &mut rack, &mut found);
        assert_eq!((marks(&board), board.acknowledged()), (after.to_owned(), ack), "{before}");
        let newest = (delivered > 0).then(|| acked - 1);
        let bytes = 100 * u64::from(delivered);
        let expected = Arrival {
            delivered,
            bytes,
            acked,
            again,
            original,
            overtaken,
            acked_at: at,
            newest,
            ..Arrival::new(500)
        };
        assert_alike(found, expected, before);
        assert_eq!(rack.advanced, delivered > 0);
    }
    // Part of a segment that was SACKed.
    let mut board = marked("S S .");
    board.clean(130, &facts(), true, &mut LinuxRack::default(), &mut Arrival::new(300));
    assert_eq!((marks(&board), board.sacked_bytes(), board.pipe()), ("S .".to_owned(), 70, 100));
    // Without SACK, or if the echo is older than the retransmission, nothing is known of what
    // arrived.
    for (sack, echo, known) in
        [(true, None, true), (false, None, false), (true, Some(1), false), (true, Some(2), true)]
    {
        let mut board = marked("A A A");
        board.clean(200, &facts(), true, &mut LinuxRack::default(), &mut Arrival::new(300));
        let mut rack = LinuxRack::default();
        board.clean(300, &Facts { echo, ..facts() }, sack, &mut rack, &mut Arrival::new(300));
        assert_eq!(rack.order, known.then_some(2), "{sack} {echo:?}");
    }
    let mut board = marked(". .");
    let mut rack = LinuxRack::default();
    board.clean(200, &Facts { echo: Some(0), ..facts() }, true, &mut rack, &mut Arrival::new(200));
    assert_eq!(rack.order, Some(1), "sent once");
}

/// tcp_rack_detect_loss, with a round-trip time of 10 ms and order number 3 as the last arrival:
/// time, window, marks after, losses, and the time until the last may be late.
#[test]
fn late_segments_are_lost() {
    for (before, now, window, after, losses, left) in [
        (". . . . .", 12, 0, "L L L . .", 3, None),
        (". . . . .", 11, 0, "L L . . .", 2, Some(1)),
        (". . . . .", 11, 2, ". . . . .", 0, Some(3)),
        (". . . . .", 100, 0, "L L L . .", 3, None),
        ("S . . . .", 100, 0, "S L L . .", 2, None),
        // A loss that waits for its retransmission is none again, one that was sent again is.
        ("L . . . .", 10, 0, "L . . . .", 0, Some(2)),
        ("LRA RA . . .", 12, 0, "LA LRA L . .", 3, None),
    ] {
        let mut board = marked(before);
        let rtt = Duration::from_millis(10);
        let rack = LinuxRack { order: Some(3), rtt, advanced: true };
        let found = board.detect_late(MS(now), &rack, Duration::from_millis(window));
        assert_eq!(found, left.map(Duration::from_millis), "{before} {now} {window}");
        assert_eq!(marks(&board), after, "{before} {now} {window}");
        assert_eq!(board.counts().ever, losses);
        let waits = after.split(' ').position(|marks| marks == "L" || marks == "LA");
        let start = waits.map(|index| 100 * index as u64);
        assert_eq!(board.next_lost().map(|span| span.start), start, "{before}");
    }
    assert_eq!(marked(". .").detect_late(MS(99), &LinuxRack::default(), Duration::ZERO), None);
    let mut board = marked(". . .");
    let rack = LinuxRack { order: Some(2), rtt: Duration::from_millis(10), advanced: true };
    for (now, after, left) in [(10, "L . .", Some(1)), (11, "L L .", None)] {
        let found = board.detect_late(MS(now), &rack, Duration::ZERO);
        assert_eq!((marks(&board), found), (after.to_owned(), left.map(Duration::from_millis)));
    }
}

/// tcp_newreno_mark_lost, and tcp_timeout_mark_lost with a round-trip time of 10 ms: the first, and
/// those that are as old.
#[test]
fn timeouts_mark_what_is_old() {
    let rack = LinuxRack { rtt: Duration::from_millis(10), ..LinuxRack::default() };
    for (before, now, after, ever) in [
        (". . . .", 12, "L L L .", 3),
        (". . . .", 9, "L . . .", 1),
        ("S . . .", 11, "S L . .", 1),
        ("LRA . . .", 9, "LA . . .", 1),
        ("L RA . .", 11, "L LRA . .", 1),
    ] {
        let mut board = marked(before);
        board.next_lost = 4;
        board.mark_all(MS(now), &rack);
        assert_eq!((marks(&board), board.counts().ever), (after.to_owned(), ever), "{before}");
        assert_eq!(board.next_lost, 0);
        board.unmark_all();
        let unmarked = after.replace("LRA", "RA").replace("LA", "A").replace('L', ".");
        assert_eq!(marks(&board), unmarked);
        assert_eq!((board.next_lost, board.lost_end, board.next_lost()), (0, 0, None));
    }
    for (before, after, ever) in [(". .", "L .", 1), ("L .", "L .", 0), ("LRA .", "LRA .", 0)] {
        let mut board = marked(before);
        board.mark_first();
        assert_eq!((marks(&board), board.counts().ever), (after.to_owned(), ever), "{before}");
    }
    Scoreboard::by_time().mark_first();
}

/// tcp_retransmit_skb: a probe is no retransmission. Linux counts one of a segment whose last one
/// is under way as another, until all is acknowledged.
#[test]
fn retransmissions_are_counted() {
    for (before, probe, after, resent) in [
        (". L .", false, ". LRA .", 1),
        (". . .", true, ". A .", 0),
        (". RA .", true, ". RA .", 1),
        (". RA .", false, ". RA .", 2),
    ] {
        let mut board = marked(before);
        board.send_again(100, MS(50), probe);
        assert_eq!(board.counts().resent, resent, "{before} {probe}");
        let again = board.segments.get(1);
        assert_eq!((again.at, again.order, board.last_order()), (MS(50), 3, 3));
        let mut recounted = board.clone();
        recounted.recount();
        assert_eq!(marks(&recounted), after);
        board.clean(300, &facts(), true, &mut LinuxRack::default(), &mut Arrival::new(300));
        assert_eq!((marks(&board), board.counts().resent), (String::new(), 0));
    }
    // tcp_any_retrans_done; tcp_packets_in_flight; tcp_highest_sack_seq.
    for (marks, any, in_flight, highest) in [
        (". . .", false, 3, 0),
        ("A . .", true, 3, 0),
        (". A .", false, 3, 0),
        (". RA .", true, 4, 0),
        ("L S .", false, 1, 200),
        ("LRA S S", true, 1, 300),
    ] {
        let board = marked(marks);
        assert_eq!((board.any_sent_again(), board.in_flight()), (any, in_flight), "{marks}");
        assert_eq!(board.highest_sacked(), highest, "{marks}");
        assert_eq!(board.first(), Some(Span { start: 0, length: 100 }));
        assert_eq!(board.last(), Some(Span { start: 200, length: 100 }));
    }
    let empty = Scoreboard::by_time();
    assert_eq!((empty.any_sent_again(), empty.first(), empty.last()), (false, None, None));
    assert_eq!(empty.last_order(), (1 << 28) - 1);
}
