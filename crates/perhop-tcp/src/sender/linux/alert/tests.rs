//! Reactions by tables, compared with Linux's code by hand.

use super::super::tests::{Parts, at};
use super::super::{INFINITE, Linux};
use super::*;
use crate::LossDetection::{self, Duplicates, Rack};

fn parts(loss_detection: LossDetection, segments: u64) -> Parts {
    let mut parts = Parts::new(loss_detection, segments);
    parts.linux.high = parts.sender.scoreboard.end();
    parts
}

/// tcp_init_undo: retransmissions under way, and a probe that was one; none at all is not zero.
#[test]
fn undo_counts_what_is_under_way() {
    for (resent, probe, unreported) in [
        (0, None, -1),
        (2, None, 2),
        (2, Some((9, true)), 3),
        (0, Some((9, true)), 1),
        (2, Some((9, false)), 2),
    ] {
        let mut parts = parts(Rack, 5);
        (0..resent).for_each(|n| parts.sender.scoreboard.send_again(1 + 1000 * n, at(9), false));
        parts.linux.probe = probe;
        parts.run(10, |machine| machine.begin_undo());
        assert_eq!((parts.linux.unreported, parts.linux.undo_from), (unreported, Some(1)));
    }
}

/// tcp_init_cwnd_reduction and tcp_enter_recovery: half of 21 segments; what is restored is known
/// unless marks or an earlier reduction were the cause.
#[test]
fn recovery_begins_with_half_of_the_window() {
    for (state, echo, threshold, before, reduces) in [
        (State::Open, false, 10, Some(15), true),
        (State::Disorder, false, 10, Some(15), true),
        (State::Open, true, 10, None, true),
        (State::Cwr, false, 7, None, false),
    ] {
        let mut parts = parts(Rack, 5);
        let linux = &mut *parts.linux;
        (linux.window, linux.threshold, linux.state) = (21, 7, state);
        (linux.delivered, linux.sent, linux.credit, linux.high) = (3, 4, 5, 6);
        (linux.probe, linux.first_resent) = (Some((9, true)), Some(8));
        parts.run(10, |machine| machine.enter_recovery(echo));
        let linux = &*parts.linux;
        assert_eq!((linux.state, linux.threshold, linux.window), (State::Recovery, threshold, 21));
        assert_eq!(linux.threshold_before, before, "{state:?} {echo}");
        assert_eq!((linux.first_resent, linux.undo_from, linux.unreported), (None, Some(1), 1));
        let counts = (linux.delivered, linux.sent, linux.credit, linux.high, linux.window_before);
        let expected = if reduces { (0, 0, 0, 5_001, 21) } else { (3, 4, 5, 6, 0) };
        assert_eq!((counts, linux.probe.is_none()), (expected, reduces), "{state:?} {echo}");
    }
}

/// tcp_end_cwnd_reduction: to the threshold, unless what had reduced it was undone.
#[test]
fn a_reduction_ends_at_its_threshold() {
    for (state, undo_from, threshold, window) in [
        (State::Cwr, None, 10, 10),
        (State::Cwr, Some(1), 10, 10),
        (State::Recovery, Some(1), 10, 10),
        (State::Recovery, None, 10, 20),
        (State::Recovery, Some(1), INFINITE, INFINITE),
    ] {
        let mut parts = parts(Rack, 5);
        let linux = &mut *parts.linux;
        (linux.state, linux.undo_from, linux.threshold) = (state, undo_from, threshold);
        parts.run(10, |machine| machine.end_reduction());
        assert_eq!(parts.linux.window, window, "{state:?} {undo_from:?}");
    }
}

/// tcp_packet_delayed and tcp_may_undo: first retransmission and echo in milliseconds, whether all
/// of the state's data is acknowledged, retransmissions not reported; and whether it may be undone.
#[test]
fn what_may_be_undone() {
    for (sack, first, echo, all, unreported, delayed) in [
        (Rack, Some(10), Some(9), false, 1, true),
        (Rack, Some(10), Some(10), false, 1, false),
        (Rack, Some(10), None, false, 1, false),
        (Rack, None, None, true, 1, true),
        (Duplicates, None, None, true, 1, false),
        (Duplicates, None, None, false, 1, true),
        (Rack, Some(10), Some(10), false, 0, false),
        (Rack, Some(10), Some(10), false, -1, false),
    ] {
        let mut parts = parts(sack, 5);
        let linux = &mut *parts.linux;
        (linux.first_resent, linux.unreported) = (first, unreported);
        linux.high = if all { 1 } else { 2 };
        let seen = Seen { echoed: echo, ..parts.seen() };
        let case = (sack, first, echo, all, unreported);
        assert_eq!(parts.run(20, |machine| machine.was_delayed(&seen)), delayed, "{case:?}");
        assert!(!parts.run(20, |machine| machine.may_undo(&seen)), "nothing to undo");
        parts.linux.undo_from = Some(1);
        let may = parts.run(20, |machine| machine.may_undo(&seen));
        assert_eq!(may, delayed || unreported == 0, "{case:?}");
    }
}

/// tcp_undo_cwnd_reduction: window and threshold do not fall; without a known threshold they stay.
#[test]
fn undoing_restores_the_larger_values() {
    for (before, threshold_before, after) in [
        (30, Some(25), (30, 25)),
        (15, Some(25), (20, 25)),
        (30, Some(8), (30, 10)),
        (30, None, (20, 10)),
    ] {
        for unmark in [false, true] {
            let mut parts = parts(Rack, 5);
            parts.sender.scoreboard.mark_first();
            let linux = &mut *parts.linux;
            (linux.window_before, linux.threshold_before) = (before, threshold_before);
            (linux.undo_from, linux.rack.advanced) = (Some(1), false);
            parts.run(20, |machine| machine.undo(unmark));
            let Linux { window, threshold, undo_from, .. } = *parts.linux;
            assert_eq!(((window, threshold), undo_from), (after, None), "{before}");
            assert!(parts.linux.rack.advanced);
            assert_eq!(parts.sender.scoreboard.counts().lost, u32::from(!unmark));
        }
    }
}

/// tcp_try_undo_recovery: undone or not, recovery ends, which narrows the time for reordering after
/// sixteen; but without SACK not before data beyond it is acknowledged.
#[test]
fn recovery_ends_undone_or_not() {
    for (sack, unreported, persist, high, window, after, state, stays) in [
        (Rack, 0, 5, 1, 30, 5, State::Open, false),
        (Rack, 2, 5, 1, 20, 4, State::Open, false),
        (Rack, 2, 0, 1, 20, 0, State::Open, false),
        (Duplicates, 2, 5, 1, 20, 4, State::Recovery, true),
        (Duplicates, 2, 5, 0, 20, 4, State::Open, false),
    ] {
        let mut parts = parts(sack, 5);
        let linux = &mut *parts.linux;
        (linux.state, linux.undo_from, linux.first_resent) = (State::Recovery, Some(1), Some(10));
        (linux.unreported, linux.persist, linux.high) = (unreported, persist, high);
        (linux.window_before, linux.threshold_before) = (30, Some(25));
        let seen = parts.seen();
        assert_eq!(parts.run(20, |machine| machine.undo_recovery(&seen)), stays, "{sack:?}");
        let Linux { window: now, persist, state: in_state, first_resent, .. } = *parts.linux;
        assert_eq!((now, persist, in_state), (window, after, state), "{sack:?} {unreported}");
        // Nothing is under way, so that the stamp says nothing of what comes.
        assert_eq!(first_resent, if stays { None } else { Some(10) });
    }
}

/// tcp_try_undo_dsack.
#[test]
fn reports_of_all_undo_a_reduction() {
    for (undo_from, unreported, persist, undone, after) in [
        (Some(1), 0, 3, true, 4),
        (Some(1), 0, 16, true, 16),
        (Some(1), 1, 3, false, 3),
        (Some(1), -1, 3, false, 3),
        (None, 0, 3, false, 3),
    ] {
        let mut parts = parts(Rack, 5);
        let linux = &mut *parts.linux;
        (linux.undo_from, linux.unreported, linux.persist) = (undo_from, unreported, persist);
        (linux.window_before, linux.threshold_before) = (30, Some(25));
        assert_eq!(parts.run(20, |machine| machine.undo_by_duplicates()), undone);
        assert_eq!(
            (parts.linux.persist, parts.linux.window),
            (after, if undone { 30 } else { 20 })
        );
    }
}

/// tcp_try_undo_partial: without retransmissions under way everything is undone.
#[test]
fn a_hole_that_was_filled_late() {
    for (undo_from, echoed, resent, returns, undone) in [
        (Some(1), Some(9), 0, false, true),
        (Some(1), Some(9), 1, true, false),
        (Some(1), Some(10), 0, false, false),
        (None, Some(9), 0, false, false),
    ] {
        let mut parts = parts(Rack, 8);
        parts.sender.scoreboard.mark_first();
        (0..resent).for_each(|_| parts.sender.scoreboard.send_again(1, at(10), false));
        parts.sack(4, 6);
        let linux = &mut *parts.linux;
        (linux.state, linux.undo_from, linux.first_resent) = (State::Recovery, undo_from, Some(10));
        (linux.window_before, linux.threshold_before, linux.unreported) = (30, Some(25), 1);
        let seen = Seen { echoed, ..parts.seen() };
        assert_eq!(parts.run(20, |machine| machine.undo_partial(&seen)), returns);
        let state = if undone { State::Disorder } else { State::Recovery };
        assert_eq!(
            (parts.linux.state, parts.linux.undo_from.is_none()),
            (state, undone || undo_from.is_none())
        );
        let lost = parts.sender.scoreboard.counts().lost;
        assert_eq!((parts.linux.window, lost), if undone { (30, 0) } else { (20, 1) });
        // The highest arrival is six segments beyond the late one.
        let late = undone || returns;
        assert_eq!(
            (parts.linux.reordering, parts.linux.reordering_seen),
            (if late { 6 } else { 3 }, late)
        );
    }
}

/// tcp_enter_loss, with 5 of 20 segments outstanding: state and number of timeouts before, end of
/// the state's data; threshold and window before it, if they are new, and whether F-RTO begins.
#[test]
fn timeouts_begin_a_state() {
    for (state, timeouts, high, fresh, frto) in [
        (State::Open, 0, 5_001, true, true),
        (State::Disorder, 0, 5_001, true, true),
        (State::Cwr, 0, 5_001, false, true),
        (State::Cwr, 0, 1, true, true),
        (State::Recovery, 0, 5_001, false, false),
        (State::Recovery, 0, 1, true, false),
        (State::Recovery, 1, 5_001, false, true),
        (State::Loss, 0, 5_001, true, false),
        (State::Loss, 1, 5_001, false, true),
    ] {
        for allowed in [false, true] {
            let mut parts = parts(Rack, 5);
            parts.sender.config.frto = allowed;
            let linux = &mut *parts.linux;
            (linux.state, linux.timeouts, linux.high) = (state, timeouts, high);
            (linux.threshold, linux.window_before, linux.credit) = (17, 77, 5);
            (linux.probe, linux.rack.rtt) = (Some((9, true)), Duration::from_millis(40));
            parts.run(100, |machine| machine.enter_loss());
            let linux = &*parts.linux;
            let case = (state, timeouts, high);
            // Of the current threshold, 17, or 15 of the window.
            let before = fresh.then_some(17);
            assert_eq!(linux.threshold_before, before, "{case:?}");
            let (threshold, window) = if fresh { (10, 20) } else { (17, 77) };
            assert_eq!((linux.threshold, linux.window_before), (threshold, window), "{case:?}");
            assert_eq!((linux.window, linux.credit, linux.probe), (1, 0, None), "{case:?}");
            assert_eq!((linux.state, linux.high), (State::Loss, 5_001));
            assert_eq!(linux.frto, allowed && frto, "{case:?}");
            assert_eq!(parts.sender.scoreboard.counts().lost, 5);
        }
    }
    // What was sent just before is under way: sent at 3 and 4 ms.
    let mut young = parts(Rack, 5);
    young.linux.rack.rtt = Duration::from_millis(40);
    young.run(42, |machine| machine.enter_loss());
    assert_eq!((young.linux.window, young.sender.scoreboard.counts().lost), (3, 3));
    // Three that arrived despite a greater count of reordering: that was too great.
    for (sacked, state, reordering) in
        [(3, State::Disorder, 3), (2, State::Disorder, 9), (3, State::Cwr, 9)]
    {
        let mut parts = parts(Rack, 5);
        (parts.linux.reordering, parts.linux.state) = (9, state);
        parts.sack(1, 1 + sacked);
        parts.run(100, |machine| machine.enter_loss());
        assert_eq!(parts.linux.reordering, reordering, "{sacked} {state:?}");
    }
    // Without SACK duplicates are forgotten.
    let mut newreno = parts(Duplicates, 5);
    newreno.linux.duplicates = 2;
    newreno.run(100, |machine| machine.enter_loss());
    assert_eq!((newreno.linux.duplicates, newreno.linux.window), (0, 1));
}

/// tcp_try_keep_open: disordered while something is SACKed, lost or sent again. A new state begins
/// with the data sent until now.
#[test]
fn a_connection_is_open_if_nothing_is_missing() {
    for (sacked, lost, resent, before, after, high) in [
        (0, false, false, State::Disorder, State::Open, 5_001),
        (0, false, false, State::Open, State::Open, 7),
        (1, false, false, State::Open, State::Disorder, 5_001),
        (0, true, false, State::Open, State::Disorder, 5_001),
        (0, false, true, State::Open, State::Disorder, 5_001),
        (1, false, false, State::Disorder, State::Disorder, 7),
    ] {
        let mut parts = parts(Rack, 5);
        parts.sack(1, 1 + sacked);
        if lost {
            parts.sender.scoreboard.mark_first();
        }
        if resent {
            parts.sender.scoreboard.send_again(1, at(9), true);
        }
        (parts.linux.state, parts.linux.high) = (before, 7);
        parts.run(20, |machine| machine.keep_open());
        assert_eq!((parts.linux.state, parts.linux.high), (after, high));
    }
}

/// tcp_enter_cwr: once, and not in recovery; it cannot be undone.
#[test]
fn marks_reduce_an_open_connection() {
    for (state, after, threshold, undo_from) in [
        (State::Open, State::Cwr, 10, None),
        (State::Disorder, State::Cwr, 10, None),
        (State::Cwr, State::Cwr, 7, Some(1)),
        (State::Recovery, State::Recovery, 7, Some(1)),
        (State::Loss, State::Loss, 7, Some(1)),
    ] {
        let mut parts = parts(Rack, 5);
        let linux = &mut *parts.linux;
        (linux.state, linux.threshold) = (state, 7);
        (linux.undo_from, linux.threshold_before) = (Some(1), Some(30));
        parts.run(20, |machine| machine.enter_cwr());
        let Linux { state: now, threshold: limit, undo_from: from, .. } = *parts.linux;
        assert_eq!((now, limit, from), (after, threshold, undo_from), "{state:?}");
        assert_eq!(parts.linux.threshold_before, None);
    }
}

/// tcp_rack_reo_wnd: a quarter of the least round-trip time, but the smoothed one of 40 ms at most;
/// nothing once three are SACKed or in recovery, unless reordering was seen.
#[test]
fn the_time_for_reordering() {
    for (seen, state, sacked, reordering, least, quarters, expected) in [
        (false, State::Open, 2, 3, 20, 1, 5),
        (false, State::Open, 3, 3, 20, 1, 0),
        (false, State::Open, 3, 4, 20, 1, 5),
        (false, State::Cwr, 2, 3, 20, 1, 5),
        (false, State::Recovery, 0, 3, 20, 1, 0),
        (false, State::Loss, 0, 3, 20, 1, 0),
        (true, State::Recovery, 3, 3, 20, 1, 5),
        (true, State::Recovery, 3, 3, 20, 3, 15),
        (true, State::Open, 0, 3, 20, 8, 40),
        (true, State::Open, 0, 3, 20, 9, 40),
        (true, State::Open, 0, 3, 0, 1, 40),
    ] {
        let mut parts = parts(Rack, 5);
        parts.sack(1, 1 + sacked);
        let linux = &mut *parts.linux;
        (linux.reordering_seen, linux.state, linux.reordering) = (seen, state, reordering);
        linux.least_rtt = if least > 0 { Duration::from_millis(least) } else { Duration::MAX };
        linux.quarters = quarters;
        let window = parts.run(20, |machine| machine.reordering_window());
        assert_eq!(window, Duration::from_millis(expected), "{seen} {state:?} {sacked}");
    }
}

/// tcp_rack_update_reo_wnd: once in a round, until 16 recoveries have passed.
#[test]
fn reported_duplicates_widen_the_time_for_reordering() {
    for (newest, reported, widened_at, persist, quarters, after) in [
        (Some(4), true, None, 0, 1, (2, 16, Some(5))),
        (Some(4), true, Some(3), 7, 2, (3, 16, Some(5))),
        (Some(4), true, Some(4), 7, 2, (2, 7, Some(4))),
        (Some(4), false, Some(3), 7, 2, (2, 7, Some(3))),
        (Some(4), false, Some(3), 0, 2, (1, 0, Some(3))),
        (Some(4), true, None, 7, 255, (255, 16, Some(5))),
        (Some(4), true, None, 7, 254, (255, 16, Some(5))),
    ] {
        let mut parts = parts(Rack, 5);
        let linux = &mut *parts.linux;
        (linux.duplicate_seen, linux.widened_at) = (reported, widened_at);
        (linux.persist, linux.quarters) = (persist, quarters);
        let mut seen = parts.seen();
        seen.arrival.newest = newest;
        parts.run(20, |machine| machine.widen(&seen));
        let linux = &*parts.linux;
        assert_eq!((linux.quarters, linux.persist, linux.widened_at), after, "{widened_at:?}");
        assert!(!linux.duplicate_seen);
    }
    // Without an arrival nothing happens.
    let mut parts = parts(Rack, 5);
    (parts.linux.duplicate_seen, parts.linux.quarters) = (true, 2);
    let seen = parts.seen();
    parts.run(20, |machine| machine.widen(&seen));
    assert_eq!((parts.linux.duplicate_seen, parts.linux.quarters), (true, 2));
}

/// tcp_process_tlp_ack of a probe that ended at 3001: acknowledged up to, and what else is said; is
/// the probe still unanswered, and is the window reduced.
#[test]
fn answers_to_a_probe() {
    type Change = fn(&mut Seen);
    let cases: [(bool, Offset, Change, bool, bool); 9] = [
        (true, 3_000, |_| {}, true, false),
        (false, 3_001, |_| {}, false, false),
        (true, 3_001, |_| {}, false, false),
        (true, 3_001, |seen| seen.advanced = true, true, false),
        (true, 3_001, |seen| seen.not_duplicate = true, true, false),
        (true, 3_001, |seen| seen.arrival.sacked = true, true, false),
        (true, 3_002, |seen| seen.duplicate_of_probe = true, false, true),
        (true, 3_002, |seen| seen.duplicate_reported = true, false, true),
        (
            true,
            3_002,
            |seen| (seen.duplicate_of_probe, seen.duplicate_reported) = (true, true),
            false,
            false,
        ),
    ];
    for (number, (retransmission, ack, change, waits, reduces)) in cases.into_iter().enumerate() {
        let mut parts = parts(Rack, 5);
        parts.linux.probe = Some((3_001, retransmission));
        let mut seen = parts.seen();
        change(&mut seen);
        parts.run(20, |machine| machine.judge_probe(ack, &seen));
        assert_eq!(parts.linux.probe.is_some(), waits, "case {number}");
        assert_eq!(parts.linux.window, if reduces { 10 } else { 20 }, "case {number}");
        assert_eq!(parts.linux.state, State::Open);
    }
}

/// tcp_add_reno_sack, tcp_remove_reno_sacks and tcp_check_reno_reordering, with five segments
/// outstanding: duplicates before, seen and acknowledged; duplicates after, delivered, and whether
/// that shows reordering by so many.
#[test]
fn duplicates_without_sack() {
    for (before, new, acked, after, delivered, reordering) in [
        (0, 1, 0, 1, 1, None),
        (3, 1, 0, 4, 1, None),
        (4, 1, 0, 4, 0, Some(5)), // one is missing at least
        (0, 0, 0, 0, 0, None),
        // Of three that are acknowledged, two had been seen as duplicates.
        (2, 0, 3, 0, 1, None),
        (1, 0, 3, 0, 2, None),
        (0, 0, 3, 0, 3, None),
        (4, 0, 2, 3, 1, None),
        (3, 0, 3, 1, 1, None),
        (7, 0, 2, 4, 1, Some(7)),
    ] {
        let mut parts = parts(Duplicates, 5);
        parts.linux.duplicates = before;
        let mut seen = parts.seen();
        (seen.duplicates, seen.arrival.acked, seen.arrival.delivered) = (new, acked, acked);
        parts.run(20, |machine| match acked {
            0 => machine.add_duplicates(&mut seen),
            _ => machine.remove_duplicates(&mut seen),
        });
        let case = (before, new, acked);
        assert_eq!(
            (parts.linux.duplicates, seen.arrival.delivered),
            (after, delivered),
            "{case:?}"
        );
        let found = parts.linux.reordering_seen.then_some(parts.linux.reordering);
        assert_eq!(found, reordering, "{case:?}");
    }
    // With SACK they are not counted.
    let mut sack = parts(Rack, 5);
    let mut seen = Seen { duplicates: 1, ..sack.seen() };
    sack.run(20, |machine| machine.add_duplicates(&mut seen));
    assert_eq!((sack.linux.duplicates, seen.arrival.delivered), (0, 0));
    // Three hundred at most.
    let mut many = parts(Duplicates, 400);
    many.linux.duplicates = 400;
    many.run(20, |machine| machine.limit_duplicates(0));
    assert_eq!((many.linux.duplicates, many.linux.reordering), (399, 300));
}
