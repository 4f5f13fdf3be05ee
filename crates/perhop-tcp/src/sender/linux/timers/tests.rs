//! Timers in ticks of 4 ms, by hand: each expires in the tick after.

use super::super::tests::{Parts, at};
use super::*;
use crate::LossDetection::{Duplicates, Rack};
use crate::RttEstimator;

/// tcp_rearm_rto: 60 ticks from now, or from the transmission of the first segment if the timer was
/// that of a probe or of reordering; a microsecond, that is a tick, if that has passed.
#[test]
fn retransmission_timers() {
    for (pending, now, due) in [
        (Pending::Nothing, 100, 344),        // ticks 25 + 60 + 1
        (Pending::Retransmission, 100, 344), //
        (Pending::Probe, 100, 244),          // 140 ms left: 25 + 35 + 1
        (Pending::Reordering, 100, 244),
        (Pending::Probe, 239, 244), // 1 ms left: 59 + 1 + 1
        (Pending::Probe, 240, 248),
        (Pending::Probe, 300, 308),
    ] {
        let mut parts = Parts::new(Rack, 3);
        parts.linux.pending = pending;
        parts.run(now, |machine| machine.rearm());
        assert_eq!(
            (parts.linux.pending, parts.sender.deadline),
            (Pending::Retransmission, at(due))
        );
    }
    let mut idle = Parts::new(Rack, 0);
    (idle.linux.pending, idle.sender.deadline) = (Pending::Probe, at(7));
    idle.run(100, |machine| machine.rearm());
    assert_eq!((idle.linux.pending, idle.sender.deadline), (Pending::Nothing, Time::MAX));
}

/// tcp_schedule_loss_probe: two round trips of 40 ms and 2 ms, or 200 ms for one segment alone; but
/// no later than the timeout, from now or from the first transmission on.
#[test]
fn probe_timers() {
    use State::*;
    for (state, segments, advances, now, due) in [
        (Open, 3, true, 100, Some(188)), // 82 ms are 21 ticks: 25 + 21 + 1
        (Cwr, 3, true, 100, Some(188)),
        (Disorder, 3, true, 100, None),
        (Recovery, 3, true, 100, None),
        (Loss, 3, true, 100, None),
        (Open, 0, true, 100, None),
        (Open, 2, true, 100, Some(188)),
        (Open, 1, true, 100, Some(344)), // 280 ms, but 60 ticks
        (Open, 3, false, 100, Some(188)),
        (Open, 3, false, 200, Some(244)), // 40 ms left: 50 + 10 + 1
        (Open, 3, false, 300, Some(388)), // the timeout has passed
        (Open, 1, false, 100, Some(244)),
    ] {
        let mut parts = Parts::new(Rack, segments);
        (parts.linux.state, parts.sender.deadline) = (state, at(7));
        let scheduled = parts.run(now, |machine| machine.schedule_probe(advances));
        let case = (state, segments, advances, now);
        assert_eq!(scheduled, due.is_some(), "{case:?}");
        assert_eq!(parts.sender.deadline, at(due.unwrap_or(7)), "{case:?}");
        let pending = if scheduled { Pending::Probe } else { Pending::Nothing };
        assert_eq!(parts.linux.pending, pending, "{case:?}");
        // Otherwise the timer is that of retransmissions.
        let mut set = Parts::new(Rack, segments);
        (set.linux.state, set.sender.deadline) = (state, at(7));
        set.run(now, |machine| machine.set_timer());
        let expected = match (state, segments) {
            (_, 0) => Pending::Nothing,
            (Open | Cwr, _) => Pending::Probe,
            _ => Pending::Retransmission,
        };
        assert_eq!(set.linux.pending, expected, "{case:?}");
    }
    // Without SACK, or before the connection is open, there is none.
    assert!(!Parts::new(Duplicates, 3).run(100, |machine| machine.schedule_probe(true)));
    let mut opening = Parts::new(Rack, 0);
    opening.sender.scoreboard = crate::scoreboard::Scoreboard::by_time();
    opening.sender.scoreboard.send(1, Time::ZERO);
    assert!(!opening.run(100, |machine| machine.schedule_probe(true)));
    // A second without a round-trip time, although the timeout is three after a lost SYN.
    let mut lost = Parts::new(Rack, 3);
    lost.sender.rtt = RttEstimator::new(crate::RtoRule::Linux, Duration::from_millis(200));
    lost.sender.rtt.opened(true);
    assert!(lost.run(20, |machine| machine.schedule_probe(true)));
    assert_eq!(lost.sender.deadline, at(1_024)); // 5 + 250 + 1 ticks, in units of eight
}

/// tcp_rack_detect_loss: the time left and 2 ms, but no longer than the timeout.
#[test]
fn reordering_timers() {
    for (left, due) in [
        (0, 108),       // 2 ms: 25 + 1 + 1
        (2_000, 108),   // 4 ms
        (2_001, 112),   // 4.001 ms
        (300_000, 344), // 302 ms, but 60 ticks
    ] {
        let mut parts = Parts::new(Rack, 3);
        parts.run(100, |machine| machine.wait_for_reordering(Duration::from_micros(left)));
        assert_eq!((parts.linux.pending, parts.sender.deadline), (Pending::Reordering, at(due)));
    }
}

/// tcp_retransmit_timer: the timeout doubles, but not for the first four SYNs
/// (tcp_syn_linear_timeouts). tcp_send_loss_probe: one probe at a time.
#[test]
fn what_timers_do() {
    // 240 ms, then 480 ms: 120 ticks from 75 on, in units of eight.
    let mut parts = Parts::new(Rack, 3);
    parts.linux.pending = Pending::Retransmission;
    parts.run(300, |machine| machine.on_timer());
    assert_eq!((parts.linux.timeouts, parts.linux.due), (1, Due::First));
    assert_eq!((parts.linux.state, parts.sender.deadline), (State::Loss, at(800)));
    assert_eq!(parts.linux.pending, Pending::Retransmission);
    for (timeouts, seconds) in [(0, 1), (3, 1), (4, 2)] {
        let mut opening = Parts::new(Rack, 0);
        opening.sender.scoreboard = crate::scoreboard::Scoreboard::by_time();
        opening.sender.scoreboard.send(1, Time::ZERO);
        opening.sender.rtt = RttEstimator::new(crate::RtoRule::Linux, Duration::from_millis(200));
        (opening.linux.pending, opening.linux.timeouts) = (Pending::Retransmission, timeouts);
        opening.run(1_000, |machine| machine.on_timer());
        assert_eq!(opening.sender.rtt.timeout(), Duration::from_secs(seconds), "{timeouts}");
        assert_eq!(opening.linux.timeouts, timeouts + 1);
    }
    for (segments, probe, due, deadline) in [
        (3, None, Due::Probe, at(344)), // after it, the timeout from now
        (3, Some((3_001, true)), Due::Nothing, at(244)),
        (0, None, Due::Nothing, Time::MAX),
    ] {
        let mut parts = Parts::new(Rack, segments);
        (parts.linux.pending, parts.linux.probe) = (Pending::Probe, probe);
        parts.run(100, |machine| machine.on_timer());
        assert_eq!((parts.linux.due, parts.sender.deadline), (due, deadline), "{segments}");
    }
    // Nothing is due, or nothing is outstanding.
    for (pending, segments) in [(Pending::Nothing, 3), (Pending::Retransmission, 0)] {
        let mut parts = Parts::new(Rack, segments);
        (parts.linux.pending, parts.sender.deadline) = (pending, at(7));
        parts.run(100, |machine| machine.on_timer());
        assert_eq!((parts.linux.state, parts.linux.timeouts), (State::Open, 0));
        assert_eq!(parts.sender.deadline, Time::MAX);
    }
}

/// tcp_rack_reo_timeout: recovery begins with the window of rate reduction if something is lost,
/// and retransmissions follow; the timer then is that of the first segment.
#[test]
fn the_end_of_the_time_for_reordering() {
    for (state, now, lost, window, resend) in [
        (State::Disorder, 45, 1, 3, Resend::Lost),
        (State::Recovery, 45, 1, 20, Resend::Lost),
        (State::Disorder, 38, 0, 20, Resend::No),
    ] {
        // The fourth of four has arrived; the first are late from 40 ms and the window of 5 ms on.
        let mut parts = Parts::new(Rack, 4);
        parts.sack(3, 4);
        (parts.linux.rack.rtt, parts.linux.least_rtt) =
            (Duration::from_millis(37), Duration::from_millis(20));
        (parts.linux.state, parts.linux.pending) = (state, Pending::Reordering);
        parts.linux.reordering_seen = true;
        parts.linux.rack.rtt = Duration::from_millis(40);
        parts.run(now, |machine| machine.on_timer());
        assert_eq!(parts.sender.scoreboard.counts().lost, lost, "{state:?} {now}");
        assert_eq!((parts.linux.window, parts.linux.resend), (window, resend), "{state:?} {now}");
        // 240 ms after the first transmission.
        assert_eq!(parts.sender.deadline, at(244));
        let after = if lost > 0 { State::Recovery } else { state };
        assert_eq!((parts.linux.state, parts.linux.pending), (after, Pending::Retransmission));
    }
}
