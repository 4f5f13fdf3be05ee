//! Control parameters: the pacing rate and the window (section 4.2).

use perhop_core::Duration;

use super::{Bbr1, Delivered, HIGH_GAIN, LEAST, Mode, Recovery};
use crate::congestion::Window;

/// Factor between pacing rate and estimate.
const MARGIN: f64 = 0.99;
/// Greatest burst, in bytes (section 4.2.2: send_quantum).
const LARGEST_BURST: f64 = 65_535.0;
/// Rate below which a burst has one segment, in bytes per second.
const SINGLE: f64 = 1_200_000.0 / 8.0;
/// Greatest time for which aggregation adds to the window, in seconds.
const AGGREGATION: f64 = 0.1;

impl Bbr1 {
    /// Sets the pacing rate before there is a rate: the initial window per round trip (section
    /// 4.2.1).
    pub(super) fn init_pacing_rate(&mut self, smoothed: Duration) {
        let round = if smoothed > Duration::ZERO { smoothed } else { Duration::from_millis(1) };
        let nominal = self.initial_window / round.as_secs_f64();
        self.pacing_rate = Some(HIGH_GAIN * nominal * MARGIN);
    }

    /// Sets the pacing rate. Before the pipe was full the rate only grows.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.rate() * MARGIN;
        if rate > 0.0 && (self.full_pipe.reached || rate > self.pacing_rate.unwrap_or(0.0)) {
            self.pacing_rate = Some(rate);
        }
    }

    /// Returns the size of a burst in Linux: a millisecond at the pacing rate, in whole segments,
    /// at least one or two. Segments are sent one by one here, but the window has the same room for
    /// bursts.
    pub(super) fn burst(&self) -> f64 {
        let rate = self.pacing_rate.unwrap_or(0.0);
        let segments = ((rate / 1024.0).min(LARGEST_BURST) / self.mss).floor();
        segments.max(if rate < SINGLE { 1.0 } else { 2.0 }) * self.mss
    }

    /// Returns `gain` times the bandwidth-delay product (section 4.2.3.1).
    fn bdp(&self, rate: f64, gain: f64) -> f64 {
        match self.min_rtt {
            None => self.initial_window,
            Some((rtt, _)) => gain * rate * rtt.as_secs_f64(),
        }
    }

    /// Adds room for three bursts: an even number of segments, and two more while probing.
    fn quantised(&self, inflight: f64) -> f64 {
        let segments = (inflight / self.mss).ceil() + 3.0 * (self.burst() / self.mss);
        let even = (segments / 2.0).ceil() * 2.0;
        let probe = if self.mode == Mode::ProbeBw(0) { 2.0 } else { 0.0 };
        (even + probe) * self.mss
    }

    pub(super) fn inflight(&self, rate: f64, gain: f64) -> f64 {
        self.quantised(self.bdp(rate, gain))
    }

    /// Returns the extra data of aggregated acknowledgements, once the pipe was full.
    fn aggregated(&self) -> f64 {
        if !self.full_pipe.reached {
            return 0.0;
        }
        self.aggregation.get().min(self.rate() * AGGREGATION)
    }

    /// Moves the window towards the target by the delivered bytes (section 4.2.3.6). In the first
    /// round trip of recovery as much is sent as is delivered (section 4.2.3.4).
    pub(super) fn set_window(&mut self, window: &mut Window, ack: &Delivered) {
        let newly = ack.newly as f64;
        let kept = ack.in_flight as f64 + newly;
        if self.newly_lost > 0 {
            window.cwnd = (window.cwnd - self.newly_lost as f64).max(self.mss);
        }
        if self.recovery == Recovery::Beginning {
            self.recovery = Recovery::Fast { conserving: true };
            self.round_ends = ack.sample.total;
            // Small segments count as one each in Linux.
            window.cwnd = kept.max(self.mss);
        }
        if self.recovery == (Recovery::Fast { conserving: true }) {
            window.cwnd = window.cwnd.max(kept);
        } else {
            let target =
                self.quantised(self.bdp(self.rate(), self.window_gain()) + self.aggregated());
            if self.full_pipe.reached {
                window.cwnd = (window.cwnd + newly).min(target);
            } else if window.cwnd < target || (ack.sample.total as f64) < self.initial_window {
                window.cwnd += newly;
            }
            window.cwnd = window.cwnd.max(LEAST * self.mss);
        }
        if matches!(self.mode, Mode::ProbeRtt { .. }) {
            window.cwnd = window.cwnd.min(LEAST * self.mss);
        }
    }
}
