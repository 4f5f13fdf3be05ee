//! Spurious losses, and the undoing of the response to them.

use super::*;

/// Returns the threshold and the window at the end of 400 segments, some of which are late or lost.
fn after(config: SenderConfig, lost: &[u64], late: &[(u64, Duration)]) -> (f64, u64) {
    let connection = Connection::transfer_late(config, 400, lost, late);
    (connection.sender.window.ssthresh, connection.sender.retransmits())
}

/// RFC 3522: the timestamp that an acknowledgement echoes identifies the copy that arrived.
#[test]
fn a_late_segment_costs_no_window_with_timestamps() {
    let late = [(100, Duration::from_millis(15))];
    for congestion in [Congestion::Reno, cubic(HyStartKind::default(), true)] {
        for loss_detection in [LossDetection::Sack, LossDetection::Rack] {
            for prr in [false, true] {
                let config = |timestamps, undo| SenderConfig {
                    congestion: congestion.clone(),
                    loss_detection,
                    prr,
                    timestamps,
                    undo,
                    ..config()
                };
                let (ssthresh, retransmits) = after(config(true, true), &[], &late);
                assert!(retransmits > 0);
                assert_eq!(ssthresh, f64::INFINITY, "{congestion:?}, {loss_detection:?}");
                assert!(after(config(true, false), &[], &late).0 < f64::INFINITY);
                // A real loss has its usual effect.
                assert!(after(config(true, true), &[100], &[]).0 < f64::INFINITY);
            }
        }
    }
}

/// Every retransmission arrived in addition to its original, and the receiver reports it (RFC
/// 3708).
#[test]
fn reported_duplicates_give_the_window_back() {
    let late = [(100, Duration::from_millis(15))];
    for undo in [false, true] {
        let config = SenderConfig { undo, ..rack() };
        assert_eq!(after(config, &[], &late).0 == f64::INFINITY, undo);
    }
    // One of two was lost: one congestion signal remains.
    let (ssthresh, _) = after(rack(), &[102], &late);
    assert!(ssthresh < f64::INFINITY);
}

/// RFC 5682: if everything is delayed, the first segment is retransmitted, and no other; without
/// timestamps and reports of duplicates.
#[test]
fn a_delay_spike_is_no_loss() {
    let late: Vec<_> = (100..500).map(|number| (number, Duration::from_millis(500))).collect();
    for loss_detection in [LossDetection::Duplicates, LossDetection::Sack] {
        let config = |frto| SenderConfig { loss_detection, frto, ..config() };
        let (ssthresh, retransmits) = after(config(true), &[], &late);
        assert_eq!((ssthresh, retransmits), (f64::INFINITY, 1), "{loss_detection:?}");
        let (ssthresh, retransmits) = after(config(false), &[], &late);
        assert!(ssthresh < f64::INFINITY && retransmits > 10, "{ssthresh}, {retransmits}");
    }
    // A timeout after a loss remains one: all of a flight is lost, or all but its last segment.
    for lost in [(100..160).collect::<Vec<_>>(), (100..159).collect()] {
        assert!(after(config(), &lost, &[]).0 < f64::INFINITY);
    }
}

/// Sarolahti and Kuznetsov, section 5: after a late arrival the sender waits longer the next time.
#[test]
fn the_threshold_follows_reordering() {
    let late: Vec<_> =
        (100..3000).step_by(20).map(|number| (number, Duration::from_millis(5))).collect();
    let in_vain = |adaptive_reordering| {
        let config = SenderConfig { adaptive_reordering, timestamps: true, ..config() };
        Connection::transfer_late(config, 3500, &[], &late).sender.retransmits()
    };
    let (adaptive, fixed) = (in_vain(true), in_vain(false));
    assert!(5 * adaptive < fixed, "{adaptive} in vain, {fixed} with a threshold of three");
}
