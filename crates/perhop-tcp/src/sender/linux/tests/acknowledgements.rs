//! What an acknowledgement says, compared with Linux's code by hand.

use super::*;
use crate::{Flags, SackBlocks, Seq};

const RACK: LossDetection = LossDetection::Rack;

/// Returns a connection with segments of these lengths outstanding, sent at 0 ms, 1 ms and so on.
fn outstanding(lengths: &[u32]) -> Parts {
    let mut parts = Parts::new(RACK, 0);
    for (ms, &length) in (0..).zip(lengths) {
        parts.sender.scoreboard.send(length, at(ms));
    }
    parts
}

fn facts(now: u64, echo: Option<u64>) -> Facts {
    Facts { now: at(now), high: 0, min_rtt: Duration::ZERO, echo }
}

/// tcp_clean_rtx_queue and tcp_ack_update_rtt: lengths, whether the second was SACKed before, the
/// segment that was sent again, acknowledged up to, time, and echo in ms; the sample in µs, and the
/// minimum, to which the acknowledgement of a short segment alone does not count, as it may have
/// been delayed.
#[test]
fn samples_of_the_round_trip() {
    type Row<'a> =
        (&'a [u32], bool, Option<u64>, Offset, u64, Option<u64>, Option<u64>, Option<u64>);
    let cases: [Row; 11] = [
        (&[1_000], false, None, 1_001, 40, None, Some(40_000), Some(40_000)),
        (&[500], false, None, 501, 40, None, Some(40_000), None),
        (&[999], false, None, 1_000, 40, None, Some(40_000), None),
        (&[500, 400], false, None, 901, 40, None, Some(40_000), Some(39_000)),
        (&[500, 1_000], true, None, 501, 40, None, Some(40_000), Some(40_000)),
        (&[1_000, 1_000], false, None, 1_001, 40, None, Some(40_000), Some(40_000)),
        // Sent again: only an echo tells, in whole milliseconds, and one at least.
        (&[1_000], false, Some(1), 1_001, 40, None, None, None),
        (&[1_000], false, Some(1), 1_001, 40, Some(25), Some(15_000), Some(15_000)),
        (&[1_000], false, Some(1), 1_001, 40, Some(40), Some(1_000), Some(1_000)),
        (&[1_000], false, None, 1_001, 0, None, Some(0), Some(1)),
        (&[1_000], false, None, 1, 40, None, None, None),
    ];
    for (lengths, sacked, again, ack, now, echo, rtt, least) in cases {
        let mut parts = outstanding(lengths);
        if let Some(start) = again {
            parts.sender.scoreboard.send_again(start, at(20), false);
        }
        if sacked {
            let range = (501, 1_501);
            let board = &mut parts.sender.scoreboard;
            board.tag(range, &facts(30, None), &mut parts.linux.rack, &mut Arrival::new(1_501));
        }
        let highest = parts.sender.scoreboard.highest_sacked();
        let mut seen = parts.seen();
        let elapsed = echo.map(|echo| Duration::from_millis(now - echo));
        let found = parts
            .run(now, |machine| machine.clean(ack, highest, &facts(now, echo), elapsed, &mut seen));
        let case = (lengths, ack, now, echo);
        assert_eq!(found, rtt.map(Duration::from_micros), "{case:?}");
        let minimum = least.map_or(Duration::MAX, Duration::from_micros);
        assert_eq!(parts.linux.least_rtt, minimum, "{case:?}");
        assert_eq!((seen.set_timer, seen.not_duplicate), (ack > 1, ack > 1), "{case:?}");
    }
    // A SACK gives a sample, and restarts the timer if it is of data sent before the first segment
    // was last sent.
    for (resent, sets) in [(false, false), (true, true)] {
        let mut parts = outstanding(&[1_000, 1_000, 1_000]);
        if resent {
            parts.sender.scoreboard.send_again(1, at(20), false);
        }
        let mut seen = parts.seen();
        let (board, rack) = (&mut parts.sender.scoreboard, &mut parts.linux.rack);
        board.tag((1_001, 3_001), &facts(40, None), rack, &mut seen.arrival);
        let found = parts.run(40, |machine| machine.clean(1, 1, &facts(40, None), None, &mut seen));
        assert_eq!((found, seen.set_timer), (Some(Duration::from_millis(39)), sets));
        assert_eq!(parts.linux.least_rtt, Duration::from_millis(38));
        assert!(!seen.not_duplicate);
    }
}

/// tcp_check_sack_reordering: segments from the one that was overtaken to the highest SACKed, which
/// ends at 9001; the count of duplicates rises to them, and to 300 at most.
#[test]
fn reordering_is_counted_in_segments() {
    for (start, before, after, seen) in [
        (1, 3, 9, true),
        (1_001, 3, 8, true),
        (1_000, 3, 9, true),
        (6_001, 3, 3, true),
        (5_001, 3, 4, true),
        (1, 12, 12, true),
        (9_001, 3, 3, false),
        (9_000, 3, 3, true),
    ] {
        let mut parts = outstanding(&[1_000; 12]);
        parts.sack(8, 9);
        parts.linux.reordering = before;
        parts.run(40, |machine| machine.note_reordering(start));
        assert_eq!((parts.linux.reordering, parts.linux.reordering_seen), (after, seen), "{start}");
        // The same by a cumulative acknowledgement, which may have removed the highest.
        let mut parts = outstanding(&[1_000; 12]);
        parts.linux.reordering = before;
        if start < 9_001 {
            parts.run(40, |machine| machine.note_reordering_below(start, 9_001));
            assert_eq!(parts.linux.reordering, after, "{start}");
            assert!(parts.linux.reordering_seen);
        }
    }
    let mut parts = outstanding(&[1_000; 400]);
    parts.sack(399, 400);
    parts.run(40, |machine| machine.note_reordering(1));
    assert_eq!(parts.linux.reordering, 300);
    let mut parts = outstanding(&[1_000; 400]);
    parts.run(40, |machine| machine.note_reordering_below(1, 400_001));
    assert_eq!(parts.linux.reordering, 300);
    // The highest that is SACKed now counts, if it is higher.
    let mut parts = outstanding(&[1_000; 12]);
    parts.sack(8, 9);
    parts.run(40, |machine| machine.note_reordering_below(1, 2_001));
    assert_eq!(parts.linux.reordering, 9);
}

/// tcp_check_dsack and tcp_dsack_seen: range, probe, segments reported before and sent again, and
/// whether reordering was seen; accepted, segments, that of the probe, and a wider time.
#[test]
fn reports_of_duplicates() {
    for (range, probe, before, resent, reordered, accepted, segments, of_probe, widens) in [
        ((1, 1_001), None, 0, 1, true, true, 1, false, true),
        ((1, 1_001), None, 0, 1, false, true, 1, false, false),
        ((1, 1_001), None, 1, 1, true, false, 1, false, false),
        ((1, 2_001), None, 0, 2, true, true, 2, false, true),
        ((1, 2_001), None, 0, 1, true, false, 2, false, false),
        ((1, 1_002), None, 0, 2, true, true, 2, false, true),
        ((1, 1_001), Some((1_001, true)), 0, 1, true, true, 1, true, false),
        ((1, 1_001), Some((2_001, true)), 0, 1, true, true, 1, false, true),
        ((1, 2_001), Some((2_001, true)), 0, 2, true, true, 2, false, true),
    ] {
        let mut parts = outstanding(&[1_000; 5]);
        parts.sender.retransmits = resent;
        let linux = &mut *parts.linux;
        (linux.reported, linux.probe, linux.reordering_seen) = (before, probe, reordered);
        let mut seen = parts.seen();
        let found = parts.run(40, |machine| machine.count_duplicate(range, &mut seen));
        assert_eq!((found, seen.duplicate_reported), (accepted, accepted), "{range:?} {probe:?}");
        assert_eq!(parts.linux.reported, before + segments);
        let delivered = if accepted { segments as u32 } else { 0 };
        assert_eq!(seen.arrival.delivered, delivered, "{range:?}");
        assert_eq!((seen.duplicate_of_probe, parts.linux.duplicate_seen), (of_probe, widens));
    }
    // Retransmissions that were in vain: below what is acknowledged, but beyond the beginning.
    for (una, undo_from, unreported, after) in [
        (3_001, Some(1_001), 3, 1),
        (3_001, Some(2_999), 3, 1),
        (3_001, Some(3_001), 3, 3),
        (3_000, Some(1_001), 3, 3),
        (3_001, None, 3, 3),
        (3_001, Some(1_001), 1, 0),
        (3_001, Some(1_001), 0, 0),
        (3_001, Some(1_001), -1, -1),
    ] {
        let mut parts = outstanding(&[1_000; 5]);
        parts.sender.retransmits = 9;
        (parts.linux.undo_from, parts.linux.unreported) = (undo_from, unreported);
        let mut seen = Seen { una, ..parts.seen() };
        parts.run(40, |machine| machine.count_duplicate((1_001, 3_001), &mut seen));
        assert_eq!(parts.linux.unreported, after, "{una} {undo_from:?} {unreported}");
    }
}

/// Returns an acknowledgement with these blocks, in segments.
fn answer(ack: Offset, blocks: &[(u64, u64)]) -> Segment {
    let mut sack = SackBlocks::default();
    blocks.iter().for_each(|&(first, end)| sack.push(1 + 1000 * first, 1 + 1000 * end));
    let ack = Seq::from_offset(ack);
    Segment { flags: Flags::ACK, ack, window: 1 << 20, sack, ..Segment::default() }
}

/// tcp_sacktag_write_queue: blocks, of which the first may be a duplicate: below what is
/// acknowledged, or within the second. Blocks of data that was not sent say nothing.
#[test]
fn blocks_and_duplicates() {
    for (blocks, reported, sacked) in [
        (vec![(0, 1)], 1, 0),
        (vec![(0, 1), (2, 3)], 1, 1),
        (vec![(2, 3)], 0, 1),
        (vec![(2, 3), (2, 4)], 1, 2),
        (vec![(3, 4), (2, 4)], 1, 2),
        (vec![(2, 4), (3, 4)], 0, 2),
        (vec![(2, 4), (2, 3)], 0, 2),
        (vec![(4, 6)], 0, 0),
        (vec![(3, 3)], 0, 0),
        (vec![(3, 4), (1, 2)], 0, 1), // the second begins where the acknowledgement ends
        (vec![(3, 4), (2, 3), (4, 5)], 0, 3),
    ] {
        let mut parts = outstanding(&[1_000; 5]);
        parts.sender.retransmits = 9;
        parts.run(40, |machine| {
            machine.clean(1_001, 1, &facts(40, None), None, &mut machine_seen())
        });
        let mut seen = parts.seen();
        let segment = answer(1_001, &blocks);
        parts.run(40, |machine| machine.tag(&segment, 1_001, &facts(40, None), &mut seen));
        assert_eq!(parts.linux.reported, reported, "{blocks:?}");
        assert_eq!(parts.sender.scoreboard.sacked_segments(), sacked, "{blocks:?}");
    }
    // A report of a segment in flight ends its retransmission.
    let mut parts = outstanding(&[1_000; 5]);
    parts.sender.scoreboard.send_again(2_001, at(20), false);
    (parts.sender.retransmits, parts.linux.undo_from, parts.linux.unreported) = (1, Some(1), 1);
    let (segment, mut seen) = (answer(1, &[(2, 3), (2, 4)]), parts.seen());
    parts.run(40, |machine| machine.tag(&segment, 1, &facts(40, None), &mut seen));
    assert_eq!((parts.linux.unreported, parts.sender.scoreboard.counts().resent), (0, 0));
    // After a timeout that cannot be undone what is overtaken is no sign of reordering.
    for (state, undo_from, counts) in
        [(State::Loss, None, false), (State::Loss, Some(1), true), (State::Recovery, None, true)]
    {
        let mut parts = outstanding(&[1_000; 9]);
        parts.sack(7, 8);
        (parts.linux.state, parts.linux.undo_from) = (state, undo_from);
        let (segment, mut seen) = (answer(1, &[(2, 3)]), parts.seen());
        parts.run(40, |machine| machine.tag(&segment, 1, &facts(40, None), &mut seen));
        assert_eq!(parts.linux.reordering_seen, counts, "{state:?} {undo_from:?}");
    }
}

fn machine_seen() -> Seen {
    Seen { una: 1, ..Parts::new(RACK, 0).seen() }
}

/// tcp_ack_update_window: new data or an acknowledgement of it, a wider window or none; anything
/// older has no effect. The widest window is remembered.
#[test]
fn windows_of_the_peer() {
    for (ack, seq, window, taken) in [
        (1_001, 5, 700, true), // acknowledges data
        (1, 6, 700, true),     // follows the peer's last segment
        (1, 5, 700, false),
        (1, 5, 1_001, true), // wider
        (1, 5, 1_000, false),
        (1, 5, 0, true),
        (1, 4, 900, false),
        (0, 9, 5_000, false),
    ] {
        let mut parts = outstanding(&[1_000; 5]);
        (parts.linux.peer, parts.linux.widest) = ((5, 1_000), 900);
        parts.sender.receive_window = 1_000;
        let segment = Segment { seq: Seq(seq), window, ..answer(ack, &[]) };
        parts.run(40, |machine| machine.take(&segment, ack));
        let expected = if taken { u64::from(window) } else { 1_000 };
        assert_eq!(parts.sender.receive_window, expected, "{ack} {seq} {window}");
        assert_eq!(parts.linux.peer.1, expected, "{ack} {seq} {window}");
        assert_eq!(parts.linux.peer.0, if taken { seq } else { 5 });
        assert_eq!(parts.linux.widest, if taken { 900.max(u64::from(window)) } else { 900 });
    }
}

/// tcp_ack: a duplicate has no news; progress ends the count of timeouts.
#[test]
fn duplicates_have_no_news() {
    for (ack, payload, window, counted) in [
        (1, 0, 1_000, 1),
        (1, 10, 1_000, 0), // has data
        (1, 0, 1_001, 0),  // a wider window
        (1_001, 0, 1_000, 0),
    ] {
        let mut parts = Parts::new(LossDetection::Duplicates, 5);
        (parts.linux.peer, parts.linux.timeouts) = ((0, 1_000), 2);
        let segment = Segment { payload, window, ..answer(ack, &[]) };
        parts.run(40, |machine| machine.take(&segment, ack));
        assert_eq!(parts.linux.duplicates, counted, "{ack} {payload} {window}");
        assert_eq!(parts.linux.timeouts, if ack > 1 { 0 } else { 2 });
    }
}

/// tcp_cong_control: a reduction follows what is delivered; otherwise the window grows by what is
/// delivered if something is acknowledged, or SACKed while much reordering was seen.
#[test]
fn windows_follow_deliveries() {
    for (state, reordering, acked, sacked, limited, window) in [
        (State::Open, 3, 1, false, true, 22),
        (State::Open, 3, 1, false, false, 20),
        (State::Open, 3, 0, true, true, 20),
        (State::Open, 4, 0, true, true, 22),
        (State::Open, 4, 1, false, true, 22),
        (State::Open, 4, 0, false, true, 20),
        (State::Disorder, 3, 1, true, true, 22),
        (State::Loss, 3, 1, false, true, 22),
        // Half of two delivered: five in flight and one more, up to a threshold that is far.
        (State::Recovery, 3, 1, false, true, 7),
        (State::Cwr, 3, 1, false, true, 7),
    ] {
        let mut parts = Parts::new(RACK, 5);
        let linux = &mut *parts.linux;
        (linux.state, linux.reordering, linux.limited) = (state, reordering, limited);
        (linux.threshold, linux.window_before, linux.sent) = (30, 20, 1);
        let mut seen = parts.seen();
        (seen.arrival.acked, seen.arrival.sacked, seen.arrival.delivered) = (acked, sacked, 2);
        parts.run(40, |machine| machine.control_congestion(&seen, true));
        assert_eq!(parts.linux.window, window, "{state:?} {reordering} {acked} {sacked}");
    }
    // One more if the acknowledgement advances without a new loss.
    for (advanced, lost, window) in [(true, false, 8), (true, true, 7), (false, false, 7)] {
        let mut parts = Parts::new(RACK, 5);
        let linux = &mut *parts.linux;
        (linux.state, linux.threshold, linux.window_before) = (State::Recovery, 30, 20);
        linux.sent = 1;
        let mut seen = Seen { advanced, ..parts.seen() };
        seen.arrival.delivered = 2;
        parts.run(40, |machine| machine.control_congestion(&seen, lost));
        assert_eq!(parts.linux.window, window, "{advanced} {lost}");
    }
}

/// tcp_ack: an acknowledgement below what is acknowledged says only what it SACKs; without anything
/// outstanding only a duplicate that is reported counts.
#[test]
fn old_acknowledgements_and_late_reports() {
    let mut parts = Parts::new(RACK, 5);
    parts.run(40, |machine| machine.take(&answer(2_001, &[]), 2_001));
    for (blocks, sacked, state) in [(vec![], 0, State::Open), (vec![(3, 4)], 1, State::Disorder)] {
        let window = parts.linux.window;
        let rtt = parts.run(50, |machine| machine.take(&answer(1_001, &blocks), 1_001));
        assert_eq!((rtt, parts.sender.scoreboard.sacked_segments()), (None, sacked));
        assert_eq!((parts.linux.state, parts.linux.window), (state, window));
        assert_eq!(parts.sender.scoreboard.acknowledged(), 2_001);
    }
    for (blocks, window) in [(vec![(4, 5)], 30), (vec![], 20)] {
        let mut parts = Parts::new(RACK, 5);
        parts.run(40, |machine| machine.take(&answer(5_001, &[]), 5_001));
        parts.sender.retransmits = 1;
        let linux = &mut *parts.linux;
        (linux.undo_from, linux.unreported, linux.window) = (Some(1), 1, 20);
        (linux.window_before, linux.threshold_before) = (30, Some(25));
        let rtt = parts.run(50, |machine| machine.take(&answer(5_001, &blocks), 5_001));
        assert_eq!((rtt, parts.linux.window), (None, window), "{blocks:?}");
    }
}
