//! Parts of the sender that follows the RFCs, by tables. Segments have 1000 bytes, the first of
//! which begins at 1.

use super::super::pacing::Pacer;
use super::super::prr::Prr;
use super::super::undo::Frto;
use super::super::usage::Usage;
use super::*;
use crate::congestion::{DecreaseFrom, Marked};

pub(super) fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// Returns an open connection with so many segments outstanding, sent at 0 ms, 1 ms and so on. The
/// round-trip time is 40 ms, the timeout 240 ms, and the window 20 segments.
pub(super) fn open(config: SenderConfig, segments: u64) -> Sender {
    let mut sender = Sender::new(SenderConfig { rto_rule: RtoRule::Linux, ..config });
    sender.scoreboard.send(1, at(0));
    sender.scoreboard.acknowledge(1, at(0), &mut Progress::default());
    (0..segments).for_each(|ms| _ = sender.scoreboard.send(1000, at(ms)));
    sender.rtt.sample(Duration::from_millis(40), 1, 1);
    sender.receive_window = 1 << 20;
    sender.written = sender.scoreboard.end();
    sender.window = Window { cwnd: 20_000.0, ssthresh: 30_000.0 };
    sender
}

pub(super) fn newreno() -> SenderConfig {
    SenderConfig { loss_detection: LossDetection::Duplicates, ..config() }
}

pub(super) fn sack(sender: &mut Sender, first: u64, end: u64) -> Progress {
    let mut progress = Progress::default();
    sender.scoreboard.sack(1 + 1000 * first, 1 + 1000 * end, at(40), &mut progress);
    progress
}

pub(super) const FAST: Recovery = Recovery::Fast { point: 5_001, urgent: false, rescued: false };
pub(super) const TIMEOUT: Recovery = Recovery::Timeout { point: 5_001, frto: Frto::Off };

/// Use of the window in a round trip that ends at `until`.
fn used(limited: bool, flight: u64, until: u64) -> Usage {
    Usage { limited, flight, until }
}

/// RFC 5681, section 3.2, step 4: duplicates before, another one, bytes acknowledged, and
/// duplicates after: of the segments that are acknowledged, one is no duplicate.
#[test]
fn duplicates_count_segments_that_have_left() {
    for (before, duplicate, acked, outstanding, after) in [
        (0, true, 0, 5, 1),
        (2, true, 0, 5, 3),
        (0, true, 0, 0, 0),
        (3, false, 0, 5, 3),
        (5, false, 1_000, 5, 5),
        (5, false, 2_001, 5, 3),
        (5, false, 3_000, 5, 3),
        (1, false, 5_000, 5, 0),
    ] {
        let mut sender = open(newreno(), outstanding);
        sender.duplicates = before;
        sender.count_duplicates(duplicate, acked);
        assert_eq!(sender.duplicates, after, "{before} {duplicate} {acked}");
    }
}

/// RFC 5681, equation 4: what was in flight, as far as the window permits.
#[test]
fn a_loss_halves_what_was_in_flight() {
    for (decrease_from_window, cwnd, acked, expected) in [
        (false, 20_000.0, 0, DecreaseFrom::Flight(5_000.0)),
        (false, 20_000.0, 2_000, DecreaseFrom::Flight(7_000.0)),
        (false, 6_000.0, 2_000, DecreaseFrom::Flight(6_000.0)),
        (true, 6_000.0, 2_000, DecreaseFrom::Window),
    ] {
        let mut sender = open(SenderConfig { decrease_from_window, ..config() }, 5);
        sender.window.cwnd = cwnd;
        assert_eq!(sender.decrease_from(acked), expected);
    }
}

/// RFC 5681, sections 3.1 and 4.3, and RFC 5682, section 3.1: with 8 segments in flight, state and
/// whether F-RTO is used; the threshold, and F-RTO after.
#[test]
fn timeouts_reduce_the_threshold_once() {
    for (recovery, frto, threshold, after) in [
        (Recovery::Open, true, 4_000.0, Frto::Resent),
        (Recovery::Open, false, 4_000.0, Frto::Off),
        (FAST, true, 4_000.0, Frto::Off),
        (TIMEOUT, true, 30_000.0, Frto::Resent),
        (TIMEOUT, false, 30_000.0, Frto::Off),
    ] {
        for undo in [false, true] {
            let mut sender = open(SenderConfig { frto, undo, ..rack() }, 8);
            (sender.recovery, sender.duplicates) = (recovery, 3);
            (sender.reducing, sender.probe_due) = (true, true);
            sender.time_out(at(300));
            let case = (recovery, frto, undo);
            assert_eq!(sender.window, Window { cwnd: 1_000.0, ssthresh: threshold }, "{case:?}");
            assert_eq!(sender.recovery, Recovery::Timeout { point: 8_001, frto: after });
            // The timeout doubles.
            assert_eq!((sender.deadline, sender.duplicates), (at(780), 0));
            assert!(!sender.reducing && !sender.probe_due);
            assert_eq!(sender.undoable, undo && recovery == Recovery::Open, "{case:?}");
            assert_eq!(sender.deadline(), at(780), "no other timer");
        }
    }
    // A SYN that is lost says nothing of the path.
    let mut opening = Sender::new(config());
    let _ = opening.poll(at(0));
    opening.time_out(at(1_000));
    assert_eq!(opening.window.ssthresh, f64::INFINITY);
    assert_eq!(opening.deadline, at(3_000));
    // RFC 8985, section 6.3: what was sent a round trip ago is lost.
    let mut young = open(rack(), 8);
    let newest = sack(&mut young, 7, 8).newest;
    young.rack.as_mut().unwrap().0.on_ack(Some(Duration::from_millis(33)), newest, true);
    young.rack.as_mut().unwrap().0.min_rtt = Duration::from_millis(8);
    // 33 ms and a quarter of 8 ms: sent until 3 ms.
    young.time_out(at(38));
    assert_eq!((young.scoreboard.pipe(), young.window.cwnd), (3_000, 4_000.0));
}

/// RFC 8985, section 7.4: a loss that a probe has repaired reduces an open window; a recovery has
/// reduced it already.
#[test]
fn repaired_losses_reduce_the_window() {
    let modelled = Congestion::bbr1(Stream::new(1, "test"));
    for (recovery, congestion, ack, threshold) in [
        (Recovery::Open, Congestion::Reno, 5_002, 4_000.0),
        (Recovery::Open, Congestion::Reno, 5_001, 30_000.0),
        (FAST, Congestion::Reno, 5_002, 30_000.0),
        (Recovery::Open, modelled, 5_002, 30_000.0),
    ] {
        let mut sender = open(SenderConfig { congestion, ..rack() }, 8);
        sender.recovery = recovery;
        sender.rack.as_mut().unwrap().1.on_probe(5_001, true);
        sender.judge_probe(at(50), ack, None, false);
        assert_eq!(sender.window.ssthresh, threshold, "{recovery:?} {ack}");
        assert!(!sender.undoable);
    }
}

/// RFC 3168, section 6.1.2: one response for the data sent before the last, and none in recovery;
/// with eight segments in flight and two just acknowledged.
#[test]
fn marks_are_answered_once_a_window() {
    for (recovery, until, ack, answers) in [
        (Recovery::Open, 0, 1, true),
        (Recovery::Open, 3_000, 3_001, true),
        (Recovery::Open, 3_001, 3_001, false),
        (TIMEOUT, 0, 1, true),
        (FAST, 0, 1, false),
    ] {
        for (prr, scalable) in [(false, false), (true, false), (true, true)] {
            let congestion = if scalable { Congestion::dctcp() } else { Congestion::Reno };
            let mut sender = open(SenderConfig { prr, congestion, ..config() }, 8);
            sender.note_reduction(at(0), true, false);
            sender.reduction.as_mut().unwrap().until = until;
            sender.recovery = recovery;
            let marked = Marked {
                now: at(50),
                ack,
                end: 8_001,
                delivered: 2_000,
                marked: 1_000,
                smoothed_rtt: Duration::from_millis(40),
            };
            sender.answer_marks(marked, 2_000);
            let case = (recovery, until, ack, prr, scalable);
            // Half of ten segments in flight, or of the window as alpha is 1.
            let threshold = if scalable { 10_000.0 } else { 5_000.0 };
            let expected = if answers { threshold } else { 30_000.0 };
            assert_eq!(sender.window.ssthresh, expected, "{case:?}");
            assert_eq!(sender.reducing, answers && prr && !scalable, "{case:?}");
            assert_eq!(sender.undoable, !answers, "{case:?}");
            if sender.reducing {
                let reduction = sender.reduction.as_ref().unwrap();
                assert_eq!(reduction.prr, Prr::new(10_000, 5_000));
            }
        }
    }
}

/// RFC 7661 by tcp_is_cwnd_limited: in slow start while less than half of the window was used.
#[test]
fn windows_grow_while_they_are_used() {
    for (limited, cwnd, ssthresh, flight, grows) in [
        (true, 20_000.0, 10_000.0, 0, true),
        (false, 20_000.0, 20_001.0, 10_000, false),
        (false, 20_000.0, 20_001.0, 10_001, true),
        (false, 20_000.0, 20_000.0, 10_001, false),
    ] {
        let usage = used(limited, flight, 0);
        assert_eq!(usage.lets_grow(&Window { cwnd, ssthresh }), grows, "{limited} {flight}");
    }
    // tcp_cwnd_validate, in a round trip that ends at 3001: now and before limited, most in flight
    // before and now five; then limited and most.
    for (una, limited, was, most, after) in [
        (1, false, false, 6_000, (false, 6_000)),
        (1, false, false, 4_000, (false, 5_000)),
        (1, false, false, 5_000, (false, 5_000)),
        (1, false, true, 4_000, (true, 4_000)),
        (1, true, false, 6_000, (true, 5_000)),
        (3_001, false, true, 9_000, (false, 5_000)),
    ] {
        let mut sender = open(config(), 5 + (una - 1) / 1000);
        sender.scoreboard.acknowledge(una, at(40), &mut Progress::default());
        sender.usage = used(was, most, 3_001);
        sender.note_usage(limited);
        let until = if after == (was, most) { 3_001 } else { sender.scoreboard.end() };
        let case = (una, limited, was, most);
        assert_eq!(
            format!("{:?}", sender.usage),
            format!("{:?}", used(after.0, after.1, until)),
            "{case:?}"
        );
    }
}

/// RFC 8985, section 7.2: two round trips of 40 ms, and 200 ms more for a segment alone, but no
/// later than the timer; not in recovery, nor while something is SACKed.
#[test]
fn probes_are_scheduled() {
    for (recovery, segments, sacked, measured, deadline, due) in [
        (Recovery::Open, 3, 0, true, 500, Some(180)),
        (Recovery::Open, 3, 0, true, 150, Some(150)),
        (Recovery::Open, 1, 0, true, 500, Some(380)),
        (Recovery::Open, 3, 1, true, 500, None),
        (Recovery::Open, 0, 0, true, 500, None),
        (Recovery::Open, 3, 0, false, 500, None),
        (FAST, 3, 0, true, 500, None),
        (TIMEOUT, 3, 0, true, 500, None),
    ] {
        let mut sender = open(rack(), segments);
        if sacked > 0 {
            let _ = sack(&mut sender, 2, 3);
        }
        (sender.recovery, sender.deadline) = (recovery, at(deadline));
        if measured {
            sender.rack.as_mut().unwrap().1.on_measurement();
        }
        sender.schedule_probe(at(100));
        let found = sender.rack.as_ref().unwrap().1.deadline;
        assert_eq!(found, due.map_or(Time::MAX, at), "{recovery:?} {segments} {sacked}");
    }
}

/// RFC 6298, section 5: the timer starts with data and restarts with an acknowledgement. A probe
/// replaces it, and it follows the probe.
#[test]
fn timers_start_and_restart() {
    let mut sender = open(rack(), 2);
    sender.arm_timer(at(100));
    assert_eq!(sender.deadline, at(340));
    sender.arm_timer(at(200));
    assert_eq!(sender.deadline, at(340), "it runs");
    sender.restart_timer(at(200));
    assert_eq!(sender.deadline, at(440));
    sender.scoreboard.acknowledge(2_001, at(200), &mut Progress::default());
    sender.restart_timer(at(200));
    assert_eq!(sender.deadline, Time::MAX);
    for (recovery, segments, due) in
        [(Recovery::Open, 2, true), (FAST, 2, false), (Recovery::Open, 0, false)]
    {
        for (now, expired) in [(179, false), (180, true)] {
            let mut sender = open(rack(), segments);
            (sender.recovery, sender.deadline) = (recovery, at(340));
            sender.rack.as_mut().unwrap().1.deadline = at(180);
            sender.on_timer(at(now));
            assert_eq!(sender.probe_due, due && expired, "{recovery:?} {segments} {now}");
            let deadline = if expired { 420 } else { 340 };
            assert_eq!(sender.deadline, at(deadline), "{recovery:?} {segments} {now}");
        }
    }
}

/// tcp_update_pacing_rate: two windows in a round trip of 40 ms below half of the threshold, else
/// 1.2, or Prague's one; of what is in flight if that is more.
#[test]
fn pacing_rates() {
    for (congestion, cwnd, ssthresh, segments, rate) in [
        (Congestion::Reno, 20_000.0, 40_001.0, 5, 1_000_000.0),
        (Congestion::Reno, 20_000.0, 40_000.0, 5, 600_000.0),
        (Congestion::Reno, 20_000.0, 40_000.0, 30, 900_000.0),
        (Congestion::prague(), 20_000.0, 40_000.0, 5, 500_000.0),
        (Congestion::prague(), 20_000.0, 40_001.0, 5, 1_000_000.0),
    ] {
        let mut sender = open(SenderConfig { congestion, pacing: true, ..config() }, segments);
        sender.window = Window { cwnd, ssthresh };
        let found = sender.pacing_rate().unwrap();
        assert!((found - rate).abs() < 1e-6, "{found} for {rate}");
    }
    assert_eq!(open(config(), 5).pacing_rate(), None);
    // A segment at 1 MB/s takes a millisecond. Pauses are not made up for.
    let mut sender = open(SenderConfig { pacing: true, ..config() }, 5);
    sender.window = Window { cwnd: 20_000.0, ssthresh: f64::INFINITY };
    let waits = |sender: &Sender| sender.pacer.as_deref().map(Pacer::deadline);
    sender.pace(at(50), 1_000);
    sender.pace(at(50), 500);
    assert_eq!(waits(&sender), Some(Time::MAX), "nothing waits");
    assert!(sender.is_held(at(51)));
    assert_eq!(waits(&sender), Some(at(50) + Duration::from_micros(1_500)));
    assert!(!sender.is_held(at(50) + Duration::from_micros(1_500)));
    assert_eq!(waits(&sender), Some(Time::MAX));
    sender.pace(at(100), 1_000);
    assert!(sender.is_held(at(100)) && !sender.is_held(at(101)));
    // A paced sender that has data is limited by its window.
    for (written, limited) in [(5_001, false), (6_001, true)] {
        let mut sender = open(SenderConfig { pacing: true, ..config() }, 5);
        sender.written = written;
        sender.pace(at(50), 1_000);
        assert!(sender.is_held(at(50)));
        assert_eq!(format!("{:?}", sender.usage).contains("limited: true"), limited, "{written}");
    }
}

/// RFC 1191, section 6.4: room for header, options and data; the window keeps its segments.
#[test]
fn segments_fit_the_path() {
    for (timestamps, room, mss) in [
        (false, Some(520), 500),
        (true, Some(532), 500),
        (true, Some(520), 488),
        (false, Some(2_000), 1_000),
        (false, Some(20), 1),
        (false, Some(5), 1),
        (false, None, 1_000),
    ] {
        let mut sender = open(SenderConfig { timestamps, ..config() }, 5);
        sender.limit_segments(room);
        assert_eq!(sender.config.mss, mss, "{timestamps} {room:?}");
        let factor = f64::from(mss) / 1_000.0;
        assert_eq!(sender.window.cwnd, 20_000.0 * factor);
        assert_eq!(sender.window.ssthresh, 30_000.0 * factor);
        sender.limit_segments(None);
        assert_eq!(sender.config.mss, 1_000);
    }
    // tcp_simple_retransmit: the threshold does not fall below three quarters, unless a recovery
    // had set it; and nothing else is due.
    for (recovery, ssthresh, after) in [
        (Recovery::Open, 8_000.0, 7_500.0),
        (Recovery::Open, 18_000.0, 9_000.0),
        (FAST, 8_000.0, 4_000.0),
    ] {
        let mut sender = open(rack(), 5);
        (sender.recovery, sender.window.ssthresh) = (recovery, ssthresh);
        (sender.undoable, sender.reducing, sender.probe_due) = (true, true, true);
        (sender.duplicates, sender.deadline) = (2, at(150));
        let (rack, tlp) = &mut **sender.rack.as_mut().unwrap();
        (rack.deadline, tlp.deadline) = (at(120), at(130));
        sender.on_too_big(at(100), Seq(2_001), 520);
        assert_eq!(sender.window, Window { cwnd: 10_000.0, ssthresh: after }, "{recovery:?}");
        let point = 5_001;
        assert_eq!(sender.recovery, Recovery::Timeout { point, frto: Frto::Off });
        assert!(!sender.undoable && !sender.reducing && !sender.probe_due);
        assert_eq!((sender.duplicates, sender.deadline()), (0, at(340)));
    }
    // All of them fit: nothing is lost.
    let mut sender = open(config(), 5);
    sender.on_too_big(at(100), Seq(2_001), 1_020);
    assert_eq!(sender.recovery, Recovery::Open);
}

/// RFC 2883, section 4: the first block is a duplicate if it is below what is acknowledged, or in
/// the second; with five segments in flight and one acknowledged.
#[test]
fn duplicates_that_a_receiver_reports() {
    for (blocks, duplicate, sacked) in [
        (vec![(0, 1)], Some(1_001), 0),
        (vec![(0, 1), (2, 3)], Some(1_001), 1_000),
        (vec![(2, 3)], None, 1_000),
        (vec![(2, 3), (2, 4)], Some(3_001), 2_000),
        (vec![(2, 3), (1, 3)], Some(3_001), 1_000),
        (vec![(3, 4), (2, 5)], Some(4_001), 3_000),
        (vec![(2, 4), (3, 4)], None, 2_000),
        (vec![(2, 3), (3, 5)], None, 3_000),
        (vec![(2, 3), (4, 5), (2, 5)], None, 3_000),
        (vec![(4, 6)], None, 0), // not sent
        (vec![(3, 3)], None, 0),
        (vec![(4, 5)], None, 1_000),
    ] {
        let mut sender = open(rack(), 5);
        let mut progress = Progress::default();
        sender.scoreboard.acknowledge(1_001, at(40), &mut progress);
        let mut sack = SackBlocks::default();
        blocks.iter().for_each(|&(first, end)| sack.push(1 + 1000 * first, 1 + 1000 * end));
        let segment = Segment { sack, ..Segment::default() };
        let found = sender.take_sack(at(40), 1_001, &segment, &mut progress);
        assert_eq!((found, sender.scoreboard.sacked_bytes()), (duplicate, sacked), "{blocks:?}");
    }
}

/// What an acknowledgement of two segments, one of which had not been SACKed before, does to a
/// window of ten in slow start: state, whether it echoes a mark, end of what was sent before a
/// reduction that goes on, and acknowledged up to; RFC 6582, section 3.2, and 3168, section 6.1.2.
#[test]
fn progress_grows_the_window() {
    for (base, recovery, marked, until, ack, cwnd) in [
        (config(), Recovery::Open, false, None, 2_001, 12_000.0),
        (config(), Recovery::Open, true, None, 2_001, 10_000.0),
        (config(), FAST, false, None, 5_000, 10_000.0),
        (config(), FAST, false, None, 5_001, 11_000.0),
        (config(), TIMEOUT, false, None, 5_000, 12_000.0),
        (config(), TIMEOUT, false, None, 5_001, 11_000.0),
        (newreno(), FAST, false, None, 5_000, 10_000.0),
        (newreno(), FAST, false, None, 5_001, 10_000.0),
        (newreno(), TIMEOUT, false, None, 5_001, 12_000.0),
        (config(), Recovery::Open, false, Some(3_001), 3_001, 10_000.0),
        // It ends at its threshold of 20 segments, where a window grows by a segment.
        (config(), Recovery::Open, false, Some(3_000), 3_001, 20_100.0),
        (config(), Recovery::Open, true, Some(3_000), 3_001, 20_000.0),
        (config(), FAST, false, Some(5_001), 5_001, 20_050.0),
    ] {
        let mut sender = open(base, 8);
        sender.window = Window { cwnd: 10_000.0, ssthresh: 20_000.0 };
        if let Some(until) = until {
            sender.note_reduction(at(0), false, false);
            sender.reduction.as_mut().unwrap().until = until;
            sender.reducing = true;
        }
        (sender.recovery, sender.usage) = (recovery, used(true, 0, 0));
        let mut progress = Progress::default();
        (progress.acked, progress.delivered) = (2_000, 1_000);
        sender.advance(at(50), ack, &progress, marked);
        let case = (recovery, marked, until, ack);
        assert_eq!(sender.window.cwnd, cwnd, "{case:?}");
        assert_eq!(sender.deadline, at(290), "{case:?}");
        let ends = recovery == Recovery::Open || ack == 5_001;
        assert_eq!(sender.recovery, if ends { Recovery::Open } else { recovery }, "{case:?}");
        assert_eq!(
            sender.reducing,
            until.is_some_and(|until| ack <= until && recovery == Recovery::Open)
        );
        // Without SACK a partial acknowledgement shows the next hole.
        let hole = !sender.uses_sack() && recovery == FAST && ack < 5_001;
        assert_eq!(sender.scoreboard.has_losses(), hole, "{case:?}");
    }
    // RFC 6675, section 5: what was lost since begins another recovery; for a model of the path the
    // same goes on.
    let modelled = Congestion::bbr1(Stream::new(1, "test"));
    for (congestion, goes_on) in [(Congestion::Reno, false), (modelled, true)] {
        let mut sender = open(SenderConfig { congestion, ..config() }, 8);
        sender.scoreboard.lose_first();
        (sender.recovery, sender.usage) = (FAST, used(true, 0, 0));
        let mut progress = Progress::default();
        (progress.acked, progress.delivered) = (2_000, 2_000);
        sender.advance(at(50), 5_001, &progress, false);
        assert_eq!((sender.window.cwnd, sender.lost_since), (20_000.0, !goes_on));
        let on = Recovery::Fast { point: 8_001, urgent: false, rescued: false };
        assert_eq!(sender.recovery, if goes_on { on } else { Recovery::Open });
        if !goes_on {
            sender.detect_losses(at(50), &progress);
            let again = Recovery::Fast { point: 8_001, urgent: true, rescued: false };
            assert_eq!((sender.recovery, sender.window.ssthresh), (again, 4_000.0));
        }
    }
}

/// RFC 9937, section 6.1: RecoverFS is what was in flight without what was SACKed before, and with
/// what is acknowledged now. RFC 3168, section 6.1.2: a reduction by marks in the window of data
/// that is lost stands for both.
#[test]
fn recoveries_begin_with_what_is_in_flight() {
    for (sacked, delivered, acked, flight) in [
        (0, 0, 0, 8_000),
        (4, 1_000, 0, 5_000),
        (4, 1_000, 2_000, 7_000),
        (1, 2_000, 2_000, 10_000), // one of the two that were SACKed was acknowledged
    ] {
        for prr in [false, true] {
            let mut sender = open(SenderConfig { prr, ..config() }, 8);
            let _ = sack(&mut sender, 2, 2 + sacked);
            let mut progress = Progress::default();
            (progress.acked, progress.delivered) = (acked, delivered);
            sender.begin_recovery(at(50), &progress);
            assert_eq!((sender.window.ssthresh, sender.reducing), (4_000.0, prr));
            let expected = if prr { Prr::new(flight, 4_000) } else { Prr::default() };
            assert_eq!(sender.reduction.as_ref().unwrap().prr, expected, "{sacked} {acked}");
        }
    }
    for (by_marks, until, scalable, recovery, reduces) in [
        (true, 2, false, Recovery::Open, false),
        (true, 1, false, Recovery::Open, true),
        (false, 2, false, Recovery::Open, true),
        (true, 2, true, Recovery::Open, true),
        (true, 2, false, TIMEOUT, true),
    ] {
        let congestion = if scalable { Congestion::dctcp() } else { Congestion::Reno };
        let mut sender = open(SenderConfig { congestion, prr: true, ..rack() }, 8);
        sender.note_reduction(at(40), true, by_marks);
        sender.reduction.as_mut().unwrap().until = until;
        sender.recovery = recovery;
        sender.rack.as_mut().unwrap().1.on_probe(5_001, true);
        sender.begin_recovery(at(50), &Progress::default());
        let case = (by_marks, until, scalable, recovery);
        assert_eq!(sender.window.ssthresh, if reduces { 4_000.0 } else { 30_000.0 }, "{case:?}");
        assert_eq!(sender.reducing, reduces, "{case:?}");
        assert_eq!(sender.undoable, reduces && recovery == Recovery::Open, "{case:?}");
        let tlp = &mut sender.rack.as_mut().unwrap().1;
        assert_eq!(tlp.on_ack(5_002, None, false), super::super::tlp::Verdict::Nothing);
    }
}
