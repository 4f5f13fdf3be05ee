//! What arrivals and losses tell, by tables. Segments have 100 bytes, and one was sent each
//! millisecond.

use super::super::progress::{age, next_order};
use super::super::sent::Sent;
use super::*;

/// Transmissions are numbered modulo 2²⁸: less than half of that ahead, one is after another.
#[test]
fn transmissions_are_numbered_around_a_circle() {
    let last = (1 << 28) - 1;
    let half = 1 << 27;
    for (order, other, after, passed) in [
        (1, 0, true, 1),
        (0, 0, false, 0),
        (0, 1, false, last),
        (0, last, true, 1),
        (last, 0, false, last),
        (half - 1, 0, true, half - 1),
        (half + 1, 0, false, half + 1),
        (5, 3, true, 2),
    ] {
        assert_eq!(is_after(order, other), after, "{order} {other}");
        assert_eq!(age(order, other), passed, "{order} {other}");
    }
    assert_eq!([0, 1, last].map(next_order), [1, 2, 0]);
}

/// RFC 8985, section 6.2, and RFC 5682: sent at 60 ms and arrived at 100 ms; whether it was sent
/// again, the highest that arrived before, the minimum round-trip time in µs, the echo, and the end
/// of what was sent before a timeout; whether it counts as the newest, was late, and is an
/// original.
#[test]
fn arrivals_by_what_is_known_of_them() {
    for (again, fack, min_rtt, echo, point, counts, late, original) in [
        (false, 0, 0, None, 0, true, false, false),
        (false, 300, 0, None, 0, true, false, false),
        (false, 301, 0, None, 0, true, true, false),
        (false, 0, 0, None, 299, true, false, false),
        (false, 0, 0, None, 300, true, false, true),
        (false, 0, 40_001, Some(59_999), 0, true, false, false),
        (true, 301, 40_000, None, 300, true, false, false),
        (true, 0, 40_001, None, 0, false, false, false),
        (true, 0, 0, Some(59_999), 0, false, false, false),
        (true, 0, 0, Some(60_000), 0, true, false, false),
    ] {
        let sent = Sent {
            start: 200,
            at: MS(60),
            length: 100,
            order: 7,
            sacked: false,
            lost: false,
            retransmitted: again,
            ambiguous: again,
        };
        let min_rtt = Duration::from_micros(min_rtt);
        let mut progress = Progress::default();
        (progress.min_rtt, progress.echo, progress.point) = (min_rtt, echo, point);
        let mut highest = fack;
        progress.cover(&sent, MS(100), &mut highest);
        let case = (again, fack, min_rtt, echo, point);
        assert_eq!((progress.delivered, highest), (100, fack.max(300)), "{case:?}");
        let rtt = Duration::from_millis(40);
        assert_eq!(progress.newest, counts.then_some(Newest { order: 7, rtt }), "{case:?}");
        assert_eq!((progress.reordered, progress.overtaken), (late, late.then_some(200)));
        assert_eq!(progress.rtt, (!again).then_some(rtt), "{case:?}");
        assert_eq!(progress.brought_original(true), original, "{case:?}");
        assert_eq!(progress.brought_original(false), original, "{case:?}");
        // One that was sent again leaves no sample, and without SACK no original.
        let other = Sent { retransmitted: true, ambiguous: true, ..sent };
        progress.cover(&other, MS(100), &mut highest);
        assert_eq!((progress.rtt, progress.delivered), (None, 200));
        assert_eq!(progress.brought_original(true), original);
        assert!(!progress.brought_original(false));
        progress.cover(&Sent { ambiguous: false, ..sent }, MS(100), &mut highest);
        assert_eq!(progress.rtt, None, "Karn's algorithm");
    }
}

/// Of several arrivals the longest round trip, the last one sent, and the lowest overtaken.
#[test]
fn several_arrivals_at_once() {
    let mut board = board(8);
    let _ = sack(&mut board, 700, 800);
    let mut progress = sack(&mut board, 400, 600);
    board.sack(100, 200, MS(100), &mut progress);
    board.sack(200, 300, MS(100), &mut progress);
    assert_eq!((progress.delivered, progress.rtt), (400, Some(Duration::from_millis(99))));
    assert_eq!((progress.overtaken, progress.reordered), (Some(100), true));
    let newest = Newest { order: 5, rtt: Duration::from_millis(95) };
    assert_eq!(progress.newest, Some(newest));
}

/// The threshold is the number of segments from the late one to the highest that has arrived, three
/// at least and 127 at most.
#[test]
fn the_threshold_is_that_of_the_greatest_reordering() {
    for (highest, late, threshold) in [
        (1_000, 0, 10),
        (1_000, 1, 10),
        (1_000, 100, 9),
        (1_000, 700, 3),
        (1_000, 900, 3),
        (1_000, 1_100, 3),
        (12_700, 0, 127),
        (12_800, 0, 127),
    ] {
        let mut board = Scoreboard::by_count(true);
        (0..200).for_each(|ms| _ = board.send(100, MS(ms)));
        let _ = sack(&mut board, highest - 100, highest);
        board.note_reordering(100, late);
        assert_eq!(board.threshold, Some(threshold), "{highest} {late}");
        board.note_reordering(100, highest - 500);
        assert_eq!(board.threshold, Some(threshold.max(5)), "it does not fall");
        board.forget_reordering();
        assert_eq!(board.threshold, Some(3));
        let mut fixed = Scoreboard::by_count(false);
        fixed.note_reordering(100, late);
        assert_eq!(fixed.threshold, None);
    }
    // With five, four SACKed segments are no sign of a loss.
    let mut board = Scoreboard::by_count(true);
    (0..9).for_each(|ms| _ = board.send(100, MS(ms)));
    board.fack = 500;
    board.note_reordering(100, 0);
    let _ = sack(&mut board, 100, 500);
    assert!(!board.detect_losses());
    let _ = sack(&mut board, 500, 600);
    assert!(board.detect_losses());
    assert_eq!(board.next_lost().map(|span| span.start), Some(0));
}

/// RFC 8985, section 6.2, step 5: segments 0 to 2 were sent before the one that has arrived, at 0,
/// 1 and 2 ms; then 0 and 1 again, at 50 and 51 ms.
#[test]
fn transmissions_before_the_newest_are_overdue() {
    for (limit, lost, waiting) in [(0, 1, Some(1)), (1, 2, Some(2)), (2, 3, None), (9, 3, None)] {
        let mut board = Scoreboard::by_time().sampling();
        (0..5).for_each(|ms| _ = board.send(100, MS(ms)));
        let newest = sack(&mut board, 300, 400).newest.unwrap();
        let found = board.detect_overdue(newest, MS(limit));
        assert_eq!((found.lost, found.retransmission), (true, None));
        assert_eq!(found.waiting_since, waiting.map(MS), "{limit}");
        let ones: Vec<_> = board.segments.iter().map(|sent| sent.lost).collect();
        assert_eq!(ones, (0..5).map(|segment| segment < lost).collect::<Vec<_>>());
        let losses: Vec<u64> = board.take_losses().map(|lost| lost.length).collect();
        assert_eq!(losses, vec![100; lost]);
        assert!(!board.detect_overdue(newest, MS(limit)).lost, "once");
    }
    for (limit, retransmission, waiting) in
        [(49, None, Some(50)), (50, Some(50), Some(51)), (51, Some(51), None)]
    {
        let mut board = Scoreboard::by_time();
        (0..5).for_each(|ms| _ = board.send(100, MS(ms)));
        let newest = sack(&mut board, 300, 400).newest.unwrap();
        board.detect_overdue(newest, MS(1));
        board.retransmit(0, MS(50));
        board.retransmit(100, MS(51));
        board.send(100, MS(52));
        let newest = sack(&mut board, 500, 600).newest.unwrap();
        let found = board.detect_overdue(newest, MS(limit));
        assert_eq!((found.lost, found.retransmission), (true, retransmission.map(MS)), "{limit}");
        assert_eq!(found.waiting_since, waiting.map(MS), "{limit}");
        assert_eq!(board.has_retransmissions(), limit < 51);
    }
}

/// RFC 8985, section 6.3: what is SACKed, or sent after the limit, is not lost, but the first is.
/// Losses are told once, and so are those of retransmissions.
#[test]
fn a_timeout_loses_what_is_old() {
    let mut board = Scoreboard::default().sampling();
    (0..5).for_each(|ms| _ = board.send(100, MS(10 * ms)));
    let _ = sack(&mut board, 100, 200);
    for (limit, losses, pipe) in [(19, 1, 300), (20, 1, 200), (20, 0, 200), (40, 2, 0)] {
        board.lose_all(MS(limit));
        assert_eq!((board.take_losses().count(), board.pipe()), (losses, pipe), "{limit}");
    }
    board.retransmit(200, MS(60));
    assert!(board.has_losses() && board.has_retransmissions());
    board.lose_all(MS(60));
    assert_eq!((board.take_losses().count(), board.has_retransmissions()), (1, false));
    board.unmark_lost();
    assert_eq!((board.has_losses(), board.pipe(), board.next_lost()), (false, 400, None));
    let _ = sack(&mut board, 0, 500);
    assert_eq!((board.has_losses(), board.pipe()), (false, 0));
}

/// NextSeg rule 3 skips what is SACKed, lost or sent again, and ends at the highest SACKed segment;
/// rule 4 is about the last one.
#[test]
fn segments_that_may_be_lost() {
    let mut board = board(8);
    assert_eq!(board.next_unsure(), None);
    assert_eq!(board.last_unsacked(), Some(Span { start: 700, length: 100 }));
    let _ = sack(&mut board, 500, 600);
    assert_eq!(board.next_unsure().map(|span| span.start), Some(0));
    board.retransmit(0, MS(50));
    assert_eq!(board.next_unsure().map(|span| span.start), Some(100));
    let _ = sack(&mut board, 100, 200);
    let _ = sack(&mut board, 300, 400);
    assert!(board.detect_losses());
    assert_eq!(board.next_unsure().map(|span| span.start), Some(200));
    let _ = sack(&mut board, 200, 500);
    assert_eq!(board.next_unsure(), None);
    let _ = sack(&mut board, 700, 800);
    assert_eq!(board.last_unsacked(), None);
    assert_eq!(board.next_unsure().map(|span| span.start), Some(600));
}

/// Segments of 100, 101 and 102 bytes: those that exceed the path's are lost, and nothing is new if
/// none of them was in flight.
#[test]
fn segments_that_are_too_long() {
    for (longest, lost) in [(102, 0), (101, 1), (100, 2), (99, 3)] {
        let mut board = Scoreboard::default();
        [100, 101, 102].into_iter().for_each(|length| _ = board.send(length, MS(0)));
        assert_eq!(board.lose_longer(longest), lost > 0, "{longest}");
        assert_eq!(board.segments.iter().filter(|sent| sent.lost).count(), lost);
        assert!(!board.lose_longer(longest), "nothing more");
    }
    // The rest of a short one goes to the next, if that is sent again, too, and is not a FIN.
    for (next, waits, expected) in [
        (100, true, vec![(0, 60), (60, 140)]),
        (100, false, vec![(0, 60), (60, 40), (100, 100)]),
        (2, true, vec![(0, 60), (60, 42)]),
        (1, true, vec![(0, 60), (60, 40), (100, 1)]),
    ] {
        let mut board = Scoreboard::by_time();
        board.send(100, MS(0));
        board.send(next, MS(0));
        board.lose_all(MS(0));
        if !waits {
            board.retransmit(100, MS(1));
        }
        let span = board.next_lost().unwrap();
        assert_eq!(board.shorten(span, 60), Span { start: 0, length: 60 });
        let spans: Vec<_> = board.segments.iter().map(|sent| (sent.start, sent.length)).collect();
        assert_eq!(spans, expected);
        let waiting = board.segments.iter().filter(|sent| sent.lost && !sent.retransmitted);
        assert_eq!(waiting.count(), expected.len() - usize::from(!waits));
    }
}
