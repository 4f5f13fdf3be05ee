//! BBR's state machine: Startup, Drain and the cycle of ProbeBW (sections 5.3.1 to 5.3.3).

use perhop_core::{Duration, Time};

use super::{BETA, Bbr, Delivered, LOSS_THRESHOLD};
use crate::congestion::{PathModel, Window};

/// Number of acknowledgements with losses in a round trip that end Startup (section 5.3.1.3:
/// BBRStartupFullLossCnt, which counts ranges).
const STARTUP_LOSSES: u32 = 6;
/// Greatest number of round trips in Drain (section 5.3.2).
const DRAIN_ROUNDS: u64 = 3;
/// Greatest number of round trips between probes (section 5.3.3.8).
const PROBE_ROUNDS: f64 = 63.0;

/// State of the state machine (section 5.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BbrPhase {
    Startup,
    Drain,
    /// ProbeBW: sending slower than the bandwidth.
    Down,
    /// ProbeBW: sending at the bandwidth.
    Cruise,
    /// ProbeBW: sending at the bandwidth without the short-term bounds, to fill the pipe.
    Refill,
    /// ProbeBW: sending faster than the bandwidth.
    Up,
    /// Half of the bandwidth-delay product, until an instant; `None` before the flight is down to
    /// that.
    ProbeRtt {
        until: Option<Time>,
        round_done: bool,
    },
}

impl BbrPhase {
    /// Returns the pacing gain of section 5.6.1.
    pub fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => 2.77,
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Up => 1.25,
            Self::Cruise | Self::Refill | Self::ProbeRtt { .. } => 1.0,
        }
    }

    /// Returns the window gain of section 5.6.1.
    pub fn window_gain(self) -> f64 {
        match self {
            Self::Up => 2.25,
            Self::ProbeRtt { .. } => 0.5,
            _ => 2.0,
        }
    }

    fn is_probing_bandwidth(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }
}

/// Data that acknowledgements cover, relative to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

impl Bbr {
    /// Ends Startup at a plateau of the rate, or after losses (section 5.3.1).
    pub(super) fn check_startup_done(&mut self, ack: &Delivered) {
        if self.phase != BbrPhase::Startup {
            return;
        }
        let lossy = ack.recovering
            && self.short_term.round_start
            && self.short_term.loss_events >= STARTUP_LOSSES
            && is_too_high(ack);
        if lossy && !self.full_pipe.reached {
            self.full_pipe.reached = true;
            self.inflight_longterm = self.bdp(1.0).max(self.short_term.latest_volume);
        }
        if self.full_pipe.reached {
            self.phase = BbrPhase::Drain;
            self.drained_from = self.round;
        }
    }

    /// Ends Drain (section 5.3.2).
    pub(super) fn check_drain_done(&mut self, ack: &Delivered) {
        let drained = ack.in_flight as f64 <= self.inflight(1.0);
        if self.phase == BbrPhase::Drain
            && (drained || self.round > self.drained_from + DRAIN_ROUNDS)
        {
            self.start_down(ack.now, ack.sample.total);
        }
    }

    /// Advances the ProbeBW cycle: UpdateProbeBWCyclePhase (section 5.3.3.9).
    pub(super) fn advance_cycle(&mut self, ack: &Delivered, window: &Window) {
        if !self.full_pipe.reached || self.adapt_long_term(ack, window) {
            return;
        }
        let in_flight = ack.in_flight as f64;
        match self.phase {
            BbrPhase::Down | BbrPhase::Cruise if self.is_time_to_probe(ack.now, window) => {
                self.start_refill(ack.sample.total);
            }
            BbrPhase::Down => {
                // Headroom for other flows, and an empty queue.
                let room = in_flight <= self.with_headroom();
                let at_most = self.max_bandwidth.get() * self.min_rtt().as_secs_f64();
                if room && in_flight <= self.quantised(at_most) {
                    self.phase = BbrPhase::Cruise;
                }
            }
            BbrPhase::Refill if self.round_start => {
                self.probe_sample = true;
                self.start_up(ack.sample.total, ack.sample.rate, window);
            }
            BbrPhase::Up => self.end_probe_in_time(ack, window),
            _ => {}
        }
    }

    pub(super) fn start_down(&mut self, now: Time, delivered: u64) {
        self.short_term.reset_signals();
        self.probe_per_segment = f64::INFINITY;
        self.rounds_since_probe = self.random.up_to(1);
        let wait = 2.0 + self.random.unit();
        self.probe_wait = Duration::from_picos((wait * 1e12) as u64);
        self.cycle_began = now;
        self.ack_phase = AckPhase::Stopping;
        self.start_round(delivered);
        self.phase = BbrPhase::Down;
    }

    fn start_refill(&mut self, delivered: u64) {
        self.short_term.forget();
        self.probe_rounds = 0;
        self.probe_acked = 0.0;
        self.precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(delivered);
        self.phase = BbrPhase::Refill;
    }

    pub(super) fn start_up(&mut self, delivered: u64, rate: f64, window: &Window) {
        self.ack_phase = AckPhase::Starting;
        self.start_round(delivered);
        self.full_pipe.reset(rate);
        self.phase = BbrPhase::Up;
        self.raise_slope(window);
    }

    /// Returns `true` if a probe is due: after two to three seconds, or as often as Reno would have
    /// a loss (section 5.3.3.8).
    fn is_time_to_probe(&self, now: Time, window: &Window) -> bool {
        let reno_rounds = (self.target_inflight(window) / self.mss).min(PROBE_ROUNDS);
        now > self.cycle_began + self.probe_wait || self.rounds_since_probe as f64 >= reno_rounds
    }

    fn end_probe_in_time(&mut self, ack: &Delivered, window: &Window) {
        if self.is_time_to_go_down(ack, window) {
            self.too_high = false;
            self.start_down(ack.now, ack.sample.total);
        }
    }

    fn is_time_to_go_down(&mut self, ack: &Delivered, window: &Window) -> bool {
        if self.too_high && ack.in_flight as f64 >= self.inflight_longterm {
            self.precautionary = true;
            return true;
        }
        if self.is_window_limited() && window.cwnd >= self.inflight_longterm {
            // The bound limits the rate, and not the path.
            self.full_pipe.reset(ack.sample.rate);
            return false;
        }
        self.full_pipe.now
    }

    /// Returns the estimated bandwidth-delay product, unless congestion reduced the window further.
    fn target_inflight(&self, window: &Window) -> f64 {
        self.bdp(1.0).min(window.cwnd)
    }

    /// Doubles the growth of the long-term bound in each round trip of a probe.
    fn raise_slope(&mut self, window: &Window) {
        let growth = (1_u64 << self.probe_rounds) as f64;
        self.probe_rounds = (self.probe_rounds + 1).min(30);
        self.probe_per_segment = (window.cwnd / growth).max(self.mss);
    }

    fn raise_long_term(&mut self, ack: &Delivered, window: &Window) {
        if !self.is_window_limited() || window.cwnd < self.inflight_longterm {
            return;
        }
        self.probe_acked += ack.newly as f64;
        let segments = (self.probe_acked / self.probe_per_segment) as u64 as f64;
        self.probe_acked -= segments * self.probe_per_segment;
        self.inflight_longterm += segments * self.mss;
        if self.round_start {
            self.raise_slope(window);
        }
    }

    /// Evaluates a probe's acknowledgements, and raises the long-term bound if losses are rare:
    /// AdaptLongTermModel. Returns `true` if it has changed the state.
    fn adapt_long_term(&mut self, ack: &Delivered, window: &Window) -> bool {
        if self.ack_phase == AckPhase::Starting && self.round_start {
            self.ack_phase = AckPhase::Feedback;
        }
        if self.ack_phase == AckPhase::Stopping && self.round_start {
            self.probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.phase.is_probing_bandwidth() {
                if !ack.sample.app_limited {
                    self.max_bandwidth.advance();
                }
                if self.precautionary && !self.too_high {
                    self.start_refill(ack.sample.total);
                    return true;
                }
            }
        }
        if !is_too_high(ack) && self.inflight_longterm.is_finite() {
            let in_flight = ack.sample.in_flight as f64;
            self.inflight_longterm = self.inflight_longterm.max(in_flight);
            if self.phase == BbrPhase::Up {
                self.raise_long_term(ack, window);
            }
        }
        false
    }

    /// Responds to a probe that lost too much with `in_flight` bytes: HandleInflightTooHigh
    /// (section 5.5.10.2).
    pub(super) fn handle_too_high(
        &mut self,
        window: &Window,
        (now, delivered): (Time, u64),
        in_flight: f64,
        app_limited: bool,
    ) {
        self.too_high = true;
        self.probe_sample = false;
        if !app_limited {
            self.inflight_longterm = in_flight.max(self.target_inflight(window) * BETA);
        }
        if self.phase == BbrPhase::Up {
            self.start_down(now, delivered);
        }
    }
}

/// Returns `true` if the data of the sample lost too much: IsInflightTooHigh.
fn is_too_high(ack: &Delivered) -> bool {
    ack.sample.lost as f64 > ack.sample.in_flight as f64 * LOSS_THRESHOLD
}
