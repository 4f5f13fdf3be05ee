//! Spurious losses, lost retransmissions and what is sent, by tables. Segments have 1000 bytes, the
//! first of which begins at 1.

use super::super::undo::Frto;
use super::tables::{FAST, TIMEOUT, at, newreno, open, sack};
use super::*;

/// RFC 3522, 3708 and 5682: eight segments were lost, of which the first was sent again at 40 ms;
/// before, the window had 20 segments, now ten. State, acknowledged up to, echo in µs, whether the
/// retransmission was reported as a duplicate, and whether it is still under way; is the window
/// restored, are the losses none, and is that reordering.
#[test]
fn spurious_losses_are_undone() {
    for (recovery, ack, echo, reported, under_way, restored, unmarked, reordered) in [
        (FAST, 5_001, 39_999, false, false, true, false, false),
        (FAST, 5_001, 40_000, true, false, true, false, false),
        (FAST, 5_001, 40_000, false, false, false, false, false),
        (FAST, 5_000, 39_999, false, false, true, true, true),
        (FAST, 5_000, 39_999, false, true, false, false, true),
        (FAST, 5_000, 40_000, false, false, false, false, false),
        (FAST, 5_000, 40_000, true, false, true, false, false),
        (FAST, 1, 39_999, false, false, false, false, false),
        (FAST, 1, 40_000, true, false, true, false, false),
        (Recovery::Open, 1, 40_000, true, false, true, false, false),
        (Recovery::Open, 5_001, 39_999, false, false, false, false, false),
        (TIMEOUT, 5_000, 39_999, false, false, true, true, false),
        (TIMEOUT, 5_000, 40_000, true, false, true, true, false),
        (TIMEOUT, 5_000, 40_000, false, false, false, false, false),
        (TIMEOUT, 1, 39_999, false, false, false, false, false),
        (TIMEOUT, 1, 40_000, true, false, false, false, false),
    ] {
        for undoable in [true, false] {
            let mut sender = open(rack(), 8);
            sender.note_reduction(at(39), undoable, false);
            sender.window = Window { cwnd: 10_000.0, ssthresh: 10_000.0 };
            sender.scoreboard.lose_all(Time::MAX);
            if under_way {
                sender.scoreboard.retransmit(1, at(40));
            }
            if let Some(undo) = sender.undo_mut() {
                undo.on_retransmission(at(40));
                if reported {
                    undo.on_duplicate(1_001);
                }
            }
            (sender.recovery, sender.reducing, sender.duplicates) = (recovery, true, 2);
            let mut progress = Progress::default();
            progress.acked = ack - 1;
            sender.judge_loss(ack, Some(echo), &progress);
            let case = (recovery, ack, echo, reported, under_way, undoable);
            let (restored, unmarked) = (restored && undoable, unmarked && undoable);
            let window = if restored { (20_000.0, 30_000.0) } else { (10_000.0, 10_000.0) };
            assert_eq!((sender.window.cwnd, sender.window.ssthresh), window, "{case:?}");
            assert_eq!(sender.scoreboard.has_losses(), !unmarked, "{case:?}");
            assert_eq!(sender.recovery == Recovery::Open, restored || recovery == Recovery::Open);
            assert_eq!(
                (sender.reducing, sender.duplicates),
                if restored { (false, 0) } else { (true, 2) }
            );
            assert_eq!(sender.lost_since, restored && !unmarked, "{case:?}");
            assert_eq!(sender.undoable, undoable && !restored, "{case:?}");
            // A reduction that was undone ends no window of data.
            let until = sender.reduction.as_ref().unwrap().until;
            assert_eq!(until, if restored { 0 } else { 8_001 }, "{case:?}");
            let rack = &mut sender.rack.as_mut().unwrap().0;
            rack.min_rtt = Duration::from_millis(4);
            let waits = rack.window(true, 0, Duration::from_millis(40)) > Duration::ZERO;
            assert_eq!(waits, reordered && undoable, "{case:?}");
        }
    }
}

/// RFC 5682, section 2.1: after the timeout of eight segments the first was sent again. What is
/// acknowledged and SACKed, and whether there is new data; F-RTO and the end of what was sent
/// before after it, or that the timeout was spurious.
#[test]
fn a_timeout_may_prove_spurious() {
    let (resent, probing) = (Frto::Resent, Frto::Probing);
    for (before, ack, sacked, new_data, after) in [
        (resent, 1_001, None, true, Some((Frto::Probing, 8_001))),
        (resent, 1_001, None, false, Some((Frto::Off, 8_001))),
        (resent, 1, None, true, Some((Frto::Resent, 8_001))),
        (resent, 2_001, None, true, None),
        (resent, 1, Some(4), true, None),
        (resent, 8_001, None, true, None),
        (probing, 2_001, None, true, None),
        (probing, 1, None, true, Some((Frto::Probing, 8_001))),
        (Frto::Off, 2_001, None, true, Some((Frto::Off, 8_001))),
    ] {
        let mut sender = open(config(), 8);
        sender.note_reduction(at(300), true, false);
        sender.scoreboard.lose_all(Time::MAX);
        sender.scoreboard.retransmit(1, at(300));
        sender.recovery = Recovery::Timeout { point: 8_001, frto: before };
        sender.window = Window { cwnd: 1_000.0, ssthresh: 4_000.0 };
        sender.written += if new_data { 5_000 } else { 0 };
        let mut progress = Progress::default();
        progress.point = 8_001;
        sender.scoreboard.acknowledge(ack, at(340), &mut progress);
        if let Some(segment) = sacked {
            let start = 1 + 1000 * segment;
            sender.scoreboard.sack(start, start + 1_000, at(340), &mut progress);
        }
        sender.judge_loss(ack, None, &progress);
        let case = (before, ack, sacked, new_data);
        match after {
            Some((frto, point)) => {
                assert_eq!(sender.recovery, Recovery::Timeout { point, frto }, "{case:?}");
                assert_eq!(sender.window.cwnd, 1_000.0);
            }
            None => {
                assert_eq!(sender.recovery, Recovery::Open, "{case:?}");
                assert_eq!(sender.window.cwnd, 20_000.0);
            }
        }
    }
    // A duplicate without SACK ends the attempt.
    let mut sender = open(newreno(), 8);
    sender.recovery = Recovery::Timeout { point: 8_001, frto: resent };
    sender.duplicates = 1;
    sender.judge_loss(1, None, &Progress::default());
    assert_eq!(sender.recovery, Recovery::Timeout { point: 8_001, frto: Frto::Off });
}

/// RFC 8985, section 6.2, and RFC 5681, section 4.3: the loss of what was sent in a recovery is
/// another signal if it was sent after the reduction; as in Linux, not in fast recovery. Eight are
/// in flight, of which the first was sent again at 50 ms; what has arrived was sent after it.
#[test]
fn lost_retransmissions_reduce_the_window_again() {
    for (recovery, reduced_at, whole, begins) in [
        (FAST, 50, false, true),
        (FAST, 51, false, false),
        (FAST, 50, true, false),
        (TIMEOUT, 50, false, true),
        (TIMEOUT, 50, true, true),
        (TIMEOUT, 51, true, false),
    ] {
        let mut sender =
            open(SenderConfig { decrease_from_window: whole, prr: false, ..rack() }, 8);
        sender.note_reduction(at(reduced_at), false, false);
        sender.window = Window { cwnd: 12_000.0, ssthresh: 10_000.0 };
        sender.scoreboard.lose_first();
        sender.scoreboard.retransmit(1, at(50));
        sender.scoreboard.send(1000, at(60));
        sender.recovery = recovery;
        let progress = sack(&mut sender, 1, 9);
        sender.rack.as_mut().unwrap().0.on_ack(
            Some(Duration::from_millis(20)),
            progress.newest,
            false,
        );
        assert!(sender.detect_overdue(at(120), &progress));
        let case = (recovery, reduced_at, whole);
        // Half of the window, of which all is in flight.
        let (threshold, state) = match (begins, whole) {
            (true, false) => (4_500.0, 9_001),
            (true, true) => (6_000.0, 9_001),
            (false, _) => (10_000.0, 5_001),
        };
        assert_eq!(sender.window.ssthresh, threshold, "{case:?}");
        match sender.recovery {
            Recovery::Fast { point, .. } | Recovery::Timeout { point, .. } => {
                assert_eq!(point, state, "{case:?}");
            }
            Recovery::Open => panic!("{case:?}"),
        }
    }
}

/// What may be sent with eight segments outstanding: method, limited transmit (RFC 3042), state,
/// segments SACKed from the third on, duplicates, and the least window with which a ninth is sent.
#[test]
fn windows_have_room_for_what_is_not_in_the_network() {
    use LossDetection::{Duplicates, Rack, Sack};
    for (loss_detection, limited_transmit, recovery, sacked, duplicates, least) in [
        (Sack, true, Recovery::Open, 0, 0, 9_000.0),
        (Sack, true, Recovery::Open, 3, 0, 6_000.0),
        (Sack, false, Recovery::Open, 3, 0, 9_000.0),
        (Sack, false, FAST, 3, 0, 6_000.0),
        (Rack, true, Recovery::Open, 3, 0, 6_000.0),
        (Rack, false, Recovery::Open, 3, 0, 9_000.0),
        (Duplicates, true, Recovery::Open, 0, 2, 7_000.0),
        (Duplicates, false, Recovery::Open, 0, 2, 9_000.0),
        (Duplicates, false, FAST, 0, 2, 7_000.0),
        (Duplicates, true, FAST, 0, 9, 1_000.0),
    ] {
        for (less, sends) in [(1.0, false), (0.0, true)] {
            let config = SenderConfig { loss_detection, limited_transmit, ..config() };
            let mut sender = open(config, 8);
            let _ = sack(&mut sender, 2, 2 + sacked);
            (sender.recovery, sender.duplicates) = (recovery, duplicates);
            sender.window.cwnd = least - less;
            sender.written += 1_000;
            let sent = sender.poll(at(50));
            let case = (loss_detection, limited_transmit, recovery, sacked, duplicates);
            let new = sent.filter(|sent| sent.seq == Seq(8_001));
            assert_eq!(new.is_some(), sends, "{case:?} {less}");
        }
    }
    // The receiver's window and the send buffer.
    for (receive_window, buffer, sends) in [
        (9_000, 1 << 20, true),
        (8_999, 1 << 20, false),
        (1 << 20, 9_000, true),
        (1 << 20, 8_999, false),
    ] {
        let mut sender = open(SenderConfig { window: buffer, ..config() }, 8);
        (sender.receive_window, sender.written) = (receive_window, 1 << 30);
        assert_eq!(sender.poll(at(50)).is_some(), sends, "{receive_window} {buffer}");
    }
}

/// RFC 6675, section 5, and RFC 6582: the first retransmission of a recovery does not wait for the
/// window, and without SACK none does; during F-RTO's probe new data comes first.
#[test]
fn retransmissions_wait_for_the_window_or_not() {
    let fast = |urgent| Recovery::Fast { point: 8_001, urgent, rescued: false };
    let timeout = |frto| Recovery::Timeout { point: 8_001, frto };
    for (base, recovery, cwnd, sent) in [
        (config(), fast(true), 1.0, Some(1)),
        (config(), fast(false), 1.0, None),
        (config(), fast(false), 8_000.0, Some(1)), // seven in the network
        (config(), fast(false), 7_999.0, None),
        (newreno(), fast(false), 1.0, Some(1)),
        (newreno(), Recovery::Open, 1.0, None),
        (config(), timeout(Frto::Resent), 8_000.0, Some(1)),
        (config(), timeout(Frto::Resent), 7_999.0, None),
        (config(), timeout(Frto::Probing), 8_000.0, Some(8_001)),
    ] {
        let mut sender = open(base, 8);
        sender.scoreboard.lose_first();
        (sender.recovery, sender.window.cwnd, sender.written) = (recovery, cwnd, 1 << 30);
        let first = sender.poll(at(50));
        assert_eq!(first.map(|sent| sent.seq.0), sent, "{recovery:?} {cwnd}");
        if sent == Some(1) {
            assert_eq!((sender.retransmits, sender.deadline), (1, at(290)), "{recovery:?}");
            assert!(first.is_some_and(|sent| sent.flags.has(Flags::RETRANSMISSION)));
            if cwnd == 1.0 {
                assert_eq!(sender.poll(at(50)), None, "one");
            }
        }
    }
    // Others do not restart the timer.
    let mut sender = open(config(), 8);
    sender.scoreboard.lose_all(Time::MAX);
    sender.scoreboard.retransmit(1, at(50));
    sender.deadline = at(70);
    sender.recovery = timeout(Frto::Off);
    assert_eq!(sender.poll(at(60)).map(|sent| sent.seq.0), Some(1_001));
    assert_eq!(sender.deadline, at(70));
}

/// RFC 6675, section 4, NextSeg rules 3 and 4: with room for a segment and no new data, those below
/// the highest SACKed one, then once the last.
#[test]
fn recovery_sends_what_may_be_lost() {
    let fast = Recovery::Fast { point: 8_001, urgent: false, rescued: false };
    for (base, recovery, cwnd, expected) in [
        (config(), fast, 9_000.0, vec![1, 1_001, 7_001]),
        (config(), fast, 7_999.0, vec![1]),
        (config(), fast, 6_999.0, vec![]),
        (config(), Recovery::Open, 9_000.0, vec![]),
        (rack(), fast, 9_000.0, vec![]),
    ] {
        // The third and the fourth were SACKed, so that six are in the network.
        let mut sender = open(base, 8);
        let _ = sack(&mut sender, 2, 4);
        (sender.recovery, sender.window.cwnd) = (recovery, cwnd);
        let sent: Vec<u32> =
            std::iter::from_fn(|| sender.poll(at(50))).map(|sent| sent.seq.0).collect();
        assert_eq!(sent, expected, "{recovery:?} {cwnd}");
    }
}

/// RFC 8985, section 7.3: a probe is new data whatever the congestion window, or the last segment.
#[test]
fn probes_are_sent_whatever_the_window() {
    for (written, receive_window, sent, again) in
        [(8_001, 1 << 20, 7_001, true), (9_001, 1 << 20, 8_001, false), (9_001, 8_999, 7_001, true)]
    {
        let mut sender = open(rack(), 8);
        (sender.written, sender.receive_window) = (written, receive_window);
        (sender.window.cwnd, sender.probe_due) = (1.0, true);
        sender.rack.as_mut().unwrap().1.deadline = at(60);
        let probe = sender.poll(at(50)).unwrap();
        assert_eq!((probe.seq.0, probe.flags.has(Flags::RETRANSMISSION)), (sent, again));
        let (_, tlp) = &mut **sender.rack.as_mut().unwrap();
        assert_eq!((tlp.deadline, tlp.may_probe()), (Time::MAX, false));
        let end = if again { 8_001 } else { 9_001 };
        // More than it is acknowledged: it has repaired a loss if it was sent again.
        let repaired = tlp.on_ack(end + 1, None, false) == super::super::tlp::Verdict::Repaired;
        assert_eq!(repaired, again);
        assert_eq!(sender.poll(at(50)), None, "one");
    }
}
