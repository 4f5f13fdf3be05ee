//! Control parameters of BBR: the pacing rate and the window (section 5.6).

use perhop_core::Duration;

use super::phases::BbrPhase;
use super::{Bbr, Delivered, HEADROOM, LEAST};
use crate::congestion::Window;

/// Factor between pacing rate and bandwidth (BBR.PacingMarginPercent).
const MARGIN: f64 = 0.99;
/// Least data in flight, in segments: three quanta of two, the minimum of section 5.6.3, since
/// segments are sent one by one (section 5.5.8.1).
const BUDGET: f64 = 6.0;

impl Bbr {
    /// Sets the pacing rate before there is a bandwidth: the initial window per round trip.
    pub(super) fn init_pacing_rate(&mut self, smoothed: Duration) {
        let round = if smoothed > Duration::ZERO { smoothed } else { Duration::from_millis(1) };
        let nominal = self.initial_window / round.as_secs_f64();
        self.pacing_rate = Some(BbrPhase::Startup.pacing_gain() * nominal);
    }

    pub(super) fn set_pacing_rate(&mut self) {
        self.pace_with(self.phase.pacing_gain());
    }

    /// Sets the pacing rate. Before the pipe was full the rate only grows.
    pub(super) fn pace_with(&mut self, gain: f64) {
        let rate = gain * self.bandwidth * MARGIN;
        let now = self.pacing_rate.unwrap_or(0.0);
        if rate > 0.0 && (self.full_pipe.reached || rate > now) {
            self.pacing_rate = Some(rate);
        }
    }

    /// Returns `gain` times the bandwidth-delay product: BDPMultiple.
    pub(super) fn bdp(&self, gain: f64) -> f64 {
        match self.min_rtt.known() {
            None => self.initial_window,
            Some(rtt) => gain * self.bandwidth * rtt.as_secs_f64(),
        }
    }

    /// Returns the data in flight with the quantisation budget: QuantizationBudget.
    pub(super) fn quantised(&self, inflight: f64) -> f64 {
        let least = inflight.max(BUDGET * self.mss).max(LEAST * self.mss);
        if self.phase == BbrPhase::Up { least + 2.0 * self.mss } else { least }
    }

    pub(super) fn inflight(&self, gain: f64) -> f64 {
        self.quantised(self.bdp(gain))
    }

    /// Returns the long-term bound less headroom for other flows: InflightWithHeadroom.
    pub(super) fn with_headroom(&self) -> f64 {
        if self.inflight_longterm.is_infinite() {
            return f64::INFINITY;
        }
        let headroom = (HEADROOM * self.inflight_longterm).max(self.mss);
        (self.inflight_longterm - headroom).max(LEAST * self.mss)
    }

    pub(super) fn probe_rtt_window(&self) -> f64 {
        let gain = BbrPhase::ProbeRtt { until: None, round_done: false }.window_gain();
        self.bdp(gain).max(LEAST * self.mss)
    }

    /// Moves the window towards the model's bound, by no more than is acknowledged (section
    /// 5.6.4.6).
    pub(super) fn set_window(&mut self, window: &mut Window, ack: &Delivered) {
        let most = self.quantised(self.bdp(self.phase.window_gain()) + self.aggregation.get());
        let newly = ack.newly as f64;
        if self.full_pipe.reached {
            window.cwnd = (window.cwnd + newly).min(most);
        } else if window.cwnd < most || (ack.sample.total as f64) < self.initial_window {
            window.cwnd += newly;
        }
        window.cwnd = window.cwnd.max(LEAST * self.mss);
        if matches!(self.phase, BbrPhase::ProbeRtt { .. }) {
            window.cwnd = window.cwnd.min(self.probe_rtt_window());
        }
        // Section 5.6.4.7.
        let long_term = match self.phase {
            BbrPhase::Down | BbrPhase::Refill | BbrPhase::Up => self.inflight_longterm,
            BbrPhase::ProbeRtt { .. } | BbrPhase::Cruise => self.with_headroom(),
            BbrPhase::Startup | BbrPhase::Drain => f64::INFINITY,
        };
        let bound = long_term.min(self.short_term.inflight).max(LEAST * self.mss);
        window.cwnd = window.cwnd.min(bound);
    }
}
