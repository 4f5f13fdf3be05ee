//! BBR version 3 (draft-ietf-ccwg-bbr-06): a model of the path, with its bandwidth, its round-trip
//! time and the data in flight that it holds, sets the pacing rate and the window.
//!
//! Sections in these files are the draft's. It ignores ECN, for which the draft specifies no
//! response (section 3.7), so that its packets are not ECN-capable. Amounts are bytes, rates bytes
//! per second.

mod control;
mod model;
mod phases;
mod probe_rtt;

use perhop_core::{Duration, Stream, Time};

use super::Window;
use super::path_model::{Delivered, PathModel};
use crate::delivery::{LostSegment, RateSample};

pub(super) use model::Aggregation;

use model::{FullPipe, MaxFilter, ShortTerm};
use phases::{AckPhase, BbrPhase};
use probe_rtt::MinRtt;

/// Loss rate that is too high (section 2.8: BBR.LossThresh).
const LOSS_THRESHOLD: f64 = 0.02;
/// Factor by which bounds shrink at most in a round trip (BBR.Beta).
const BETA: f64 = 0.7;
/// Share of the long-term bound that is left to other flows (BBR.Headroom).
const HEADROOM: f64 = 0.15;
/// Least window, in segments (BBR.MinPipeCwnd).
const LEAST: f64 = 4.0;

#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    random: Stream,
    mss: f64,
    initial_window: f64,
    phase: BbrPhase,
    /// Pacing rate; `None` before the first acknowledgement.
    pacing_rate: Option<f64>,
    /// Window before recovery or ProbeRTT reduced it.
    prior_window: f64,

    /// Number of the round trip, counted by packets (section 5.5.1).
    round: u64,
    round_ends: u64,
    round_start: bool,
    /// Last round trip in which the window limited the sender.
    window_full: Option<u64>,

    max_bandwidth: MaxFilter,
    /// Bandwidth in use: the maximum, within the short-term bound.
    bandwidth: f64,
    min_rtt: MinRtt,
    full_pipe: FullPipe,
    aggregation: Aggregation,
    short_term: ShortTerm,
    /// Data in flight without too much loss; infinite while unknown.
    inflight_longterm: f64,

    /// Round trip in which Drain began.
    drained_from: u64,
    /// This ProbeBW cycle: its beginning, its time until the next probe, and the round trips since
    /// the last probe.
    cycle_began: Time,
    probe_wait: Duration,
    rounds_since_probe: u64,
    ack_phase: AckPhase,
    /// True if acknowledgements cover data that was sent while probing.
    probe_sample: bool,
    /// True if the last probe lost too much, and true if it ended early to avoid that.
    too_high: bool,
    precautionary: bool,
    /// Growth of the long-term bound while probing: rounds, bytes acknowledged towards the next
    /// segment, and bytes per segment of growth.
    probe_rounds: u32,
    probe_acked: f64,
    probe_per_segment: f64,
    /// True if the sender was idle and sends again.
    idle_restart: bool,
    /// Values that this round trip's losses may have changed (section 5.5.11.1).
    before_loss: Option<BeforeLoss>,
}

/// The model at the first loss of a round trip.
#[derive(Clone, Copy, Debug)]
struct BeforeLoss {
    phase: BbrPhase,
    bandwidth: f64,
    inflight: f64,
    inflight_longterm: f64,
}

impl Bbr {
    /// Creates the model in its initial state (section 5.2.1).
    pub fn new(random: Stream) -> Self {
        Self {
            random,
            mss: 0.0,
            initial_window: 0.0,
            phase: BbrPhase::Startup,
            pacing_rate: None,
            prior_window: 0.0,
            round: 0,
            round_ends: 0,
            round_start: false,
            window_full: None,
            max_bandwidth: MaxFilter::default(),
            bandwidth: 0.0,
            min_rtt: MinRtt::new(),
            full_pipe: FullPipe::default(),
            aggregation: Aggregation::default(),
            short_term: ShortTerm::new(),
            inflight_longterm: f64::INFINITY,
            drained_from: 0,
            cycle_began: Time::ZERO,
            probe_wait: Duration::ZERO,
            rounds_since_probe: 0,
            ack_phase: AckPhase::Init,
            probe_sample: false,
            too_high: false,
            precautionary: false,
            probe_rounds: 0,
            probe_acked: 0.0,
            probe_per_segment: f64::INFINITY,
            idle_restart: false,
            before_loss: None,
        }
    }

    /// Returns `true` if the window limited the sender in this round trip or the last.
    fn is_window_limited(&self) -> bool {
        self.window_full.is_some_and(|round| self.round - round <= 1)
    }

    /// Counts round trips (section 5.5.1).
    fn update_round(&mut self, sample: &RateSample) {
        self.round_start = sample.prior_delivered >= self.round_ends;
        if self.round_start {
            self.start_round(sample.total);
            self.round += 1;
            self.rounds_since_probe += 1;
        }
    }

    fn start_round(&mut self, delivered: u64) {
        self.round_ends = delivered;
    }

    /// Adapts the short-term bounds to loss once a round trip (section 5.5.10.3).
    fn adapt_to_loss(&mut self, window: f64) {
        let probing = matches!(self.phase, BbrPhase::Startup | BbrPhase::Refill | BbrPhase::Up);
        self.short_term.adapt(probing, self.max_bandwidth.get(), window);
    }
}

impl PathModel for Bbr {
    fn begin(&mut self, window: &Window, mss: f64) {
        (self.mss, self.initial_window) = (mss, window.cwnd);
    }

    fn resize(&mut self, mss: f64) {
        self.mss = mss;
    }

    fn pacing_rate(&self) -> Option<f64> {
        self.pacing_rate
    }

    fn min_rtt(&self) -> Duration {
        self.min_rtt.known().unwrap_or(Duration::ZERO)
    }

    /// Updates the model and the control parameters (section 5.2.3).
    fn on_ack(&mut self, window: &mut Window, ack: Delivered) -> bool {
        if self.pacing_rate.is_none() {
            self.init_pacing_rate(ack.smoothed_rtt);
            self.min_rtt.begin(ack.now, ack.smoothed_rtt);
            self.aggregation.restart(ack.now);
        }
        let sample = &ack.sample;
        // The model and the state machine.
        self.short_term.take_sample(sample);
        self.update_round(sample);
        self.max_bandwidth.update(sample.rate, sample.app_limited);
        self.adapt_to_loss(window.cwnd);
        let half = if self.full_pipe.reached { 5 } else { 1 };
        self.aggregation.update(&ack, self.bandwidth, window.cwnd, self.round, half);
        if self.round_start {
            self.full_pipe.check(sample);
        }
        self.check_startup_done(&ack);
        self.check_drain_done(&ack);
        self.advance_cycle(&ack, window);
        let expired = self.min_rtt.update(ack.now, sample.rtt);
        let limits = self.check_probe_rtt(&ack, window, expired);
        self.short_term.end_round(sample);
        self.bandwidth = self.max_bandwidth.get().min(self.short_term.bandwidth);
        // The control parameters.
        self.set_pacing_rate();
        self.set_window(window, &ack);
        limits
    }

    /// HandleLostPacket (section 5.5.10.2).
    fn on_lost(&mut self, window: &Window, now: Time, lost: LostSegment, delivered: u64) {
        if self.short_term.note_loss(delivered) {
            self.before_loss = Some(BeforeLoss {
                phase: self.phase,
                bandwidth: self.short_term.bandwidth,
                inflight: self.short_term.inflight,
                inflight_longterm: self.inflight_longterm,
            });
        }
        if !self.probe_sample {
            return;
        }
        let (lost_since, in_flight) = (lost.lost as f64, lost.in_flight as f64);
        if lost_since <= in_flight * LOSS_THRESHOLD {
            return;
        }
        // The data in flight at which losses crossed the threshold.
        let length = lost.length as f64;
        let before = in_flight - length;
        let prefix = (LOSS_THRESHOLD * before - (lost_since - length)) / (1.0 - LOSS_THRESHOLD);
        self.handle_too_high(window, (now, delivered), before + prefix, lost.app_limited);
    }

    /// Saves the window (section 5.6.4.4).
    fn on_recovery(&mut self, window: &Window, recovering: bool) {
        self.prior_window = if recovering || matches!(self.phase, BbrPhase::ProbeRtt { .. }) {
            self.prior_window.max(window.cwnd)
        } else {
            window.cwnd
        };
    }

    fn on_recovered(&mut self, window: &mut Window) {
        window.cwnd = window.cwnd.max(self.prior_window);
    }

    /// Restores the bounds to at least their values before the losses, and continues a probe
    /// (section 5.5.11.2).
    fn on_spurious_loss(&mut self, window: &mut Window, delivered: u64) {
        let Some(before) = self.before_loss.take() else { return };
        self.short_term.restore(before.bandwidth, before.inflight);
        self.full_pipe.reset(0.0);
        self.inflight_longterm = self.inflight_longterm.max(before.inflight_longterm);
        if matches!(self.phase, BbrPhase::ProbeRtt { .. }) || self.phase == before.phase {
            return;
        }
        match before.phase {
            BbrPhase::Startup => self.phase = BbrPhase::Startup,
            BbrPhase::Up => self.start_up(delivered, self.bandwidth, window),
            _ => {}
        }
    }

    fn on_window_full(&mut self) {
        self.window_full = Some(self.round);
    }

    /// Restarts from idle (section 5.4.1).
    fn on_restart(&mut self, window: &mut Window, now: Time, delivered: u64) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        match self.phase {
            BbrPhase::ProbeRtt { .. } => self.check_probe_rtt_done(window, now, delivered),
            BbrPhase::Down | BbrPhase::Cruise | BbrPhase::Refill | BbrPhase::Up => {
                self.pace_with(1.0)
            }
            BbrPhase::Startup | BbrPhase::Drain => {}
        }
    }
}

#[cfg(test)]
mod tests;
