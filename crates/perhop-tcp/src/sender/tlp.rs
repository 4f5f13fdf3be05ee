//! Tail loss probe (RFC 8985, section 7): when acknowledgements are overdue, one segment is sent to
//! request one, so that the end of a burst is repaired without a timeout.

use perhop_core::{Duration, Time};

use crate::Offset;

/// Greatest delay of an acknowledgement at a receiver (TLP.max_ack_delay; section 7.2 suggests the
/// 200 ms of common receivers).
const ACK_DELAY: Duration = Duration::from_millis(200);
/// Timeout before there is a round-trip time.
const INITIAL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct Tlp {
    /// Time at which a probe is due; [`Time::MAX`] if none is.
    pub deadline: Time,
    /// State of a probe that is not acknowledged yet: SND.NXT after it, and true if it was a
    /// retransmission.
    probe: Option<(Offset, bool)>,
    /// True if a round-trip time was measured since the last probe: repeated probes must not
    /// prevent updates of the estimate.
    measured: bool,
}

/// Result of an acknowledgement for the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No probe was sent, or the result is not known yet.
    Nothing,
    /// The acknowledged data had arrived without the probe.
    Unneeded,
    /// The probe repaired a loss, which congestion control must learn of.
    Repaired,
}

impl Tlp {
    pub fn new() -> Self {
        Self { deadline: Time::MAX, probe: None, measured: false }
    }

    /// Returns the time between the last transmission and a probe, with `flight` outstanding
    /// segments (section 7.2).
    pub fn timeout(smoothed: Option<Duration>, flight: usize) -> Duration {
        match smoothed {
            None => INITIAL,
            Some(smoothed) if flight == 1 => smoothed * 2 + ACK_DELAY,
            Some(smoothed) => smoothed * 2,
        }
    }

    /// Returns `true` if a probe may be sent (section 7.3): one at a time, and each after a sample
    /// of the round-trip time since the last one.
    pub fn may_probe(&self) -> bool {
        self.probe.is_none() && self.measured
    }

    pub fn on_probe(&mut self, end: Offset, retransmission: bool) {
        self.probe = Some((end, retransmission));
        self.measured = false;
    }

    pub fn on_measurement(&mut self) {
        self.measured = true;
    }

    /// Discards the probe when a timeout or recovery begins.
    pub fn forget(&mut self) {
        self.probe = None;
        self.deadline = Time::MAX;
    }

    /// Determines from an acknowledgement up to `ack` whether the probe repaired a loss (section
    /// 7.4.2). `duplicate` is the end of the segment that a DSACK reports; `plain` is true if the
    /// acknowledgement neither advances nor carries SACK blocks.
    pub fn on_ack(&mut self, ack: Offset, duplicate: Option<Offset>, plain: bool) -> Verdict {
        let Some((end, retransmission)) = self.probe else { return Verdict::Nothing };
        if ack < end {
            return Verdict::Nothing;
        }
        let verdict = if !retransmission || duplicate == Some(end) || ack == end && plain {
            Verdict::Unneeded
        } else if ack > end {
            Verdict::Repaired
        } else {
            return Verdict::Nothing;
        };
        self.probe = None;
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_lone_segment_waits_for_a_delayed_acknowledgement() {
        assert_eq!(Tlp::timeout(None, 3), MS(1000));
        assert_eq!(Tlp::timeout(Some(MS(50)), 3), MS(100));
        assert_eq!(Tlp::timeout(Some(MS(50)), 1), MS(300));
    }

    /// Section 7.4.2, case by case.
    #[test]
    fn an_acknowledgement_tells_whether_the_probe_was_needed() {
        let probed = |retransmission| {
            let mut tlp = Tlp::new();
            tlp.on_probe(1000, retransmission);
            tlp
        };
        assert_eq!(Tlp::new().on_ack(2000, None, false), Verdict::Nothing);
        assert_eq!(probed(false).on_ack(1000, None, false), Verdict::Unneeded);
        assert_eq!(probed(true).on_ack(900, None, true), Verdict::Nothing);
        assert_eq!(probed(true).on_ack(1000, Some(1000), false), Verdict::Unneeded);
        assert_eq!(probed(true).on_ack(1000, None, true), Verdict::Unneeded);
        assert_eq!(probed(true).on_ack(2000, None, false), Verdict::Repaired);
        let mut tlp = probed(true);
        assert_eq!(tlp.on_ack(1000, None, false), Verdict::Nothing);
        assert!(tlp.probe.is_some());
        assert_eq!(tlp.on_ack(1500, None, false), Verdict::Repaired);
        assert!(tlp.probe.is_none());
    }

    /// Section 7.3: both conditions.
    #[test]
    fn a_probe_waits_for_the_answer_to_the_last_and_for_a_measurement() {
        let mut tlp = Tlp::new();
        assert!(!tlp.may_probe());
        tlp.on_measurement();
        assert!(tlp.may_probe());
        tlp.on_probe(1000, true);
        tlp.on_measurement();
        assert!(!tlp.may_probe());
        assert_eq!(tlp.on_ack(1000, Some(1000), false), Verdict::Unneeded);
        assert!(tlp.may_probe());
        tlp.on_probe(1000, true);
        assert_eq!(tlp.on_ack(1000, Some(1000), false), Verdict::Unneeded);
        assert!(!tlp.may_probe());
    }

    /// Section 7.4.2: whether it was reported as a duplicate matters only for the probe itself.
    #[test]
    fn reports_of_other_segments_say_nothing_of_the_probe() {
        for (ack, duplicate, plain, verdict) in [
            (999, Some(1_000), true, Verdict::Nothing),
            (1_000, Some(900), false, Verdict::Nothing),
            (2_000, Some(900), false, Verdict::Repaired),
            (2_000, Some(1_000), false, Verdict::Unneeded),
            (2_000, None, true, Verdict::Repaired),
        ] {
            let mut tlp = Tlp::new();
            tlp.on_probe(1_000, true);
            assert_eq!(tlp.on_ack(ack, duplicate, plain), verdict, "{ack} {duplicate:?}");
            assert_eq!(tlp.probe.is_some(), verdict == Verdict::Nothing);
        }
        let mut tlp = Tlp::new();
        tlp.on_probe(1_000, true);
        tlp.deadline = Time::ZERO;
        tlp.forget();
        assert_eq!((tlp.probe, tlp.deadline), (None, Time::MAX));
    }
}
