//! Parts of BBR's model of the path (section 5.5).

use perhop_core::Time;

use super::{BETA, Delivered};
use crate::delivery::RateSample;

/// The greatest delivery rate of this ProbeBW cycle and of the last (sections 5.5.5 and 5.5.6).
#[derive(Clone, Debug, Default)]
pub(super) struct MaxFilter {
    last: f64,
    current: f64,
}

impl MaxFilter {
    pub fn get(&self) -> f64 {
        self.last.max(self.current)
    }

    pub fn update(&mut self, rate: f64, app_limited: bool) {
        if rate > 0.0 && (rate >= self.get() || !app_limited) {
            self.current = self.current.max(rate);
        }
    }

    /// Ends a cycle. One without a sample does not count.
    pub fn advance(&mut self) {
        if self.current > 0.0 {
            (self.last, self.current) = (self.current, 0.0);
        }
    }
}

/// Detection that the pipe is full: the rate no longer grows (section 5.3.1.2).
#[derive(Clone, Debug, Default)]
pub(super) struct FullPipe {
    /// Rate from which growth is measured.
    rate: f64,
    rounds: u32,
    /// True if the pipe was full since the estimation began.
    pub now: bool,
    /// True if the pipe was full since the connection began.
    pub reached: bool,
}

impl FullPipe {
    /// Begins the estimation again, from a rate.
    pub fn reset(&mut self, rate: f64) {
        *self = Self { rate, rounds: 0, now: false, reached: self.reached };
    }

    /// Checks the growth at the start of a round trip. An acknowledgement without a rate is not a
    /// sign of a plateau.
    pub fn check(&mut self, sample: &RateSample) {
        if self.now || sample.app_limited || sample.rate <= 0.0 {
            return;
        }
        if sample.rate >= self.rate * 1.25 {
            self.reset(sample.rate);
            return;
        }
        self.rounds += 1;
        self.now = self.rounds >= 3;
        self.reached |= self.now;
    }
}

/// Extra data of aggregated acknowledgements beyond the bandwidth (section 5.5.9): the maximum over
/// ten round trips, or one in Startup, in two halves.
#[derive(Clone, Debug, Default)]
pub(in crate::congestion) struct Aggregation {
    began: Time,
    delivered: f64,
    halves: [f64; 2],
    /// Round trip in which the newer half began.
    since: u64,
}

impl Aggregation {
    pub fn restart(&mut self, now: Time) {
        self.began = now;
    }

    /// Returns the extra data, in bytes.
    pub fn get(&self) -> f64 {
        self.halves[0].max(self.halves[1])
    }

    /// Takes an acknowledgement; `half` is the number of round trips in half of the filter's
    /// window.
    pub fn update(&mut self, ack: &Delivered, rate: f64, window: f64, round: u64, half: u64) {
        if round >= self.since + half {
            self.halves = [self.halves[1], 0.0];
            self.since = round;
        }
        let mut expected = rate * ack.now.since(self.began).as_secs_f64();
        if self.delivered <= expected {
            (self.began, self.delivered, expected) = (ack.now, 0.0, 0.0);
        }
        self.delivered += ack.newly as f64;
        let extra = (self.delivered - expected).min(window);
        self.halves[1] = self.halves[1].max(extra);
    }
}

/// Bounds that respond to loss at once, and are reset when the next probe begins (section
/// 5.5.10.3).
#[derive(Clone, Debug)]
pub(super) struct ShortTerm {
    /// Bound of the bandwidth; infinite if there is none.
    pub bandwidth: f64,
    pub inflight: f64,
    /// Greatest rate and volume delivered in this round trip.
    pub latest_rate: f64,
    pub latest_volume: f64,
    /// The round trip ends when data is acknowledged that was sent after this many bytes were
    /// delivered.
    round_ends: u64,
    pub round_start: bool,
    loss_in_round: bool,
    /// Acknowledgements of this round trip with losses.
    pub loss_events: u32,
    /// True if segments were marked as lost since the last acknowledgement.
    fresh: bool,
}

impl ShortTerm {
    pub fn new() -> Self {
        Self {
            bandwidth: f64::INFINITY,
            inflight: f64::INFINITY,
            latest_rate: 0.0,
            latest_volume: 0.0,
            round_ends: 0,
            round_start: false,
            loss_in_round: false,
            loss_events: 0,
            fresh: false,
        }
    }

    /// Updates rate and volume near the start of an acknowledgement: UpdateLatestDeliverySignals.
    pub fn take_sample(&mut self, sample: &RateSample) {
        self.latest_rate = self.latest_rate.max(sample.rate);
        self.latest_volume = self.latest_volume.max(sample.delivered as f64);
        self.round_start = sample.prior_delivered >= self.round_ends;
        if self.round_start {
            self.round_ends = sample.total;
        }
        self.loss_events += u32::from(std::mem::take(&mut self.fresh));
    }

    /// Records that a segment was marked as lost: NoteLoss. Returns `true` for the first of this
    /// round trip.
    pub fn note_loss(&mut self, delivered: u64) -> bool {
        let first = !self.loss_in_round;
        if first {
            self.round_ends = delivered;
        }
        self.loss_in_round = true;
        self.fresh = true;
        first
    }

    /// Restores the bounds before spurious losses.
    pub fn restore(&mut self, bandwidth: f64, inflight: f64) {
        self.loss_in_round = false;
        self.bandwidth = self.bandwidth.max(bandwidth);
        self.inflight = self.inflight.max(inflight);
    }

    /// Reduces the bounds at the end of a round trip with loss to the delivered rate and volume, or
    /// by beta: UpdateCongestionSignals.
    pub fn adapt(&mut self, probing: bool, rate: f64, window: f64) {
        if !self.round_start {
            return;
        }
        if self.loss_in_round && !probing {
            let bandwidth = if self.bandwidth.is_finite() { self.bandwidth } else { rate };
            let inflight = if self.inflight.is_finite() { self.inflight } else { window };
            self.bandwidth = self.latest_rate.max(BETA * bandwidth);
            self.inflight = self.latest_volume.max(BETA * inflight);
        }
        self.loss_in_round = false;
    }

    /// Ends the round trip near the end of an acknowledgement: AdvanceLatestDeliverySignals.
    pub fn end_round(&mut self, sample: &RateSample) {
        if self.round_start {
            self.latest_rate = sample.rate;
            self.latest_volume = sample.delivered as f64;
            self.loss_events = 0;
        }
    }

    /// Resets the signals of the round trip: ResetCongestionSignals.
    pub fn reset_signals(&mut self) {
        self.loss_in_round = false;
        self.latest_rate = 0.0;
        self.latest_volume = 0.0;
    }

    /// Removes the bounds: ResetShortTermModel.
    pub fn forget(&mut self) {
        self.bandwidth = f64::INFINITY;
        self.inflight = f64::INFINITY;
    }
}
