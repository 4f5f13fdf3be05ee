//! The minimum round-trip time, and ProbeRTT, which drains the queue to measure it (sections 5.3.4
//! and 5.5.7).

use perhop_core::{Duration, Time};

use super::phases::{AckPhase, BbrPhase};
use super::{Bbr, Delivered};
use crate::congestion::{PathModel, Window};

/// Time for which a minimum is valid (BBR.MinRTTFilterLen).
const FILTER: Duration = Duration::from_secs(10);
/// Time without a lower sample until ProbeRTT (BBR.ProbeRTTInterval).
const INTERVAL: Duration = Duration::from_secs(5);
/// Duration of ProbeRTT (BBR.ProbeRTTDuration).
const DURATION: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
pub(super) struct MinRtt {
    /// Minimum over ten seconds; [`Duration::MAX`] for none.
    least: Duration,
    since: Time,
    /// Minimum over five seconds, after which ProbeRTT is due.
    recent: Duration,
    recent_since: Time,
}

impl MinRtt {
    pub fn new() -> Self {
        Self {
            least: Duration::MAX,
            since: Time::ZERO,
            recent: Duration::MAX,
            recent_since: Time::ZERO,
        }
    }

    pub fn begin(&mut self, now: Time, smoothed: Duration) {
        if smoothed > Duration::ZERO {
            (self.least, self.recent) = (smoothed, smoothed);
        }
        (self.since, self.recent_since) = (now, now);
    }

    pub fn known(&self) -> Option<Duration> {
        (self.least < Duration::MAX).then_some(self.least)
    }

    /// Updates the minima: UpdateMinRTT. Returns `true` if ProbeRTT is due.
    pub fn update(&mut self, now: Time, rtt: Option<Duration>) -> bool {
        let expired = now > self.recent_since + INTERVAL;
        if let Some(rtt) = rtt
            && (rtt < self.recent || expired)
        {
            (self.recent, self.recent_since) = (rtt, now);
        }
        if self.recent < self.least || now > self.since + FILTER {
            (self.least, self.since) = (self.recent, self.recent_since);
        }
        expired
    }
}

impl Bbr {
    /// Enters and continues ProbeRTT: CheckProbeRTT. Returns `true` if rate samples are to be
    /// ignored.
    pub(super) fn check_probe_rtt(
        &mut self,
        ack: &Delivered,
        window: &mut Window,
        expired: bool,
    ) -> bool {
        if !matches!(self.phase, BbrPhase::ProbeRtt { .. }) && expired && !self.idle_restart {
            // The window before is kept, unless recovery has reduced it.
            self.prior_window =
                if ack.recovering { self.prior_window.max(window.cwnd) } else { window.cwnd };
            self.phase = BbrPhase::ProbeRtt { until: None, round_done: false };
            self.ack_phase = AckPhase::Stopping;
            self.start_round(ack.sample.total);
        }
        self.idle_restart &= ack.sample.delivered == 0;
        let BbrPhase::ProbeRtt { until, round_done } = self.phase else { return false };
        match until {
            None if ack.in_flight as f64 <= self.probe_rtt_window() => {
                let until = Some(ack.now + DURATION);
                self.phase = BbrPhase::ProbeRtt { until, round_done: false };
                self.start_round(ack.sample.total);
            }
            None => {}
            Some(_) => {
                let round_done = round_done || self.round_start;
                self.phase = BbrPhase::ProbeRtt { until, round_done };
                if round_done {
                    self.check_probe_rtt_done(window, ack.now, ack.sample.total);
                }
            }
        }
        true
    }

    /// Ends ProbeRTT: CheckProbeRTTDone and ExitProbeRTT.
    pub(super) fn check_probe_rtt_done(&mut self, window: &mut Window, now: Time, delivered: u64) {
        let BbrPhase::ProbeRtt { until: Some(until), .. } = self.phase else { return };
        if now <= until {
            return;
        }
        self.min_rtt.recent_since = now;
        self.on_recovered(window);
        self.short_term.forget();
        if self.full_pipe.reached {
            self.start_down(now, delivered);
            self.phase = BbrPhase::Cruise;
        } else {
            self.phase = BbrPhase::Startup;
        }
    }
}
