//! What BBR believes of the path (section 5.5), a part at a time.

use perhop_core::Time;

use super::{BETA, Delivered};
use crate::scoreboard::RateSample;

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

    /// A cycle has ended. One without a sample does not count.
    pub fn advance(&mut self) {
        if self.current > 0.0 {
            (self.last, self.current) = (self.current, 0.0);
        }
    }
}

/// Whether the pipe is full: the rate grows no more (section 5.3.1.2).
#[derive(Clone, Debug, Default)]
pub(super) struct FullPipe {
    /// The rate to grow from.
    rate: f64,
    rounds: u32,
    /// Since the estimation began.
    pub now: bool,
    /// Since the connection began.
    pub reached: bool,
}

impl FullPipe {
    /// Begins anew, from a rate.
    pub fn reset(&mut self, rate: f64) {
        *self = Self { rate, rounds: 0, now: false, reached: self.reached };
    }

    /// At the start of a round trip. An acknowledgement that tells no rate is no sign of a plateau.
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

/// How much more is acknowledged at once than the bandwidth accounts for (section 5.5.9): the
/// maximum over ten round trips, or one in Startup, in two halves.
#[derive(Clone, Debug, Default)]
pub(in crate::congestion) struct Aggregation {
    began: Time,
    delivered: f64,
    halves: [f64; 2],
    /// The round trip in which the newer half began.
    since: u64,
}

impl Aggregation {
    pub fn restart(&mut self, now: Time) {
        self.began = now;
    }

    /// Returns the extra data in bytes.
    pub fn get(&self) -> f64 {
        self.halves[0].max(self.halves[1])
    }

    /// Takes an acknowledgement, `half` being the round trips of half of the window.
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

/// Bounds that answer to loss at once, and are forgotten when the next probe begins
/// (section 5.5.10.3).
#[derive(Clone, Debug)]
pub(super) struct ShortTerm {
    /// Infinite where they do not bind.
    pub bandwidth: f64,
    pub inflight: f64,
    /// The greatest rate and volume delivered in this round trip.
    latest_rate: f64,
    pub latest_volume: f64,
    /// The round trip ends when what is sent after so many bytes were delivered is.
    round_ends: u64,
    pub round_start: bool,
    loss_in_round: bool,
    /// Acknowledgements of this round trip that came with losses.
    pub loss_events: u32,
    /// True if losses were marked since the last acknowledgement.
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

    /// Near the start of an acknowledgement: UpdateLatestDeliverySignals.
    pub fn take_sample(&mut self, sample: &RateSample) {
        self.latest_rate = self.latest_rate.max(sample.rate);
        self.latest_volume = self.latest_volume.max(sample.delivered as f64);
        self.round_start = sample.prior_delivered >= self.round_ends;
        if self.round_start {
            self.round_ends = sample.total;
        }
        self.loss_events += u32::from(std::mem::take(&mut self.fresh));
    }

    /// A segment was marked as lost: NoteLoss. Returns whether it is the first of this
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

    /// The losses were none, and the bounds before them these.
    pub fn restore(&mut self, bandwidth: f64, inflight: f64) {
        self.loss_in_round = false;
        self.bandwidth = self.bandwidth.max(bandwidth);
        self.inflight = self.inflight.max(inflight);
    }

    /// At the end of a round trip with loss the bounds go down to what was delivered, or by beta:
    /// UpdateCongestionSignals.
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

    /// Near the end of an acknowledgement: AdvanceLatestDeliverySignals.
    pub fn end_round(&mut self, sample: &RateSample) {
        if self.round_start {
            self.latest_rate = sample.rate;
            self.latest_volume = sample.delivered as f64;
            self.loss_events = 0;
        }
    }

    /// ResetCongestionSignals.
    pub fn reset_signals(&mut self) {
        self.loss_in_round = false;
        self.latest_rate = 0.0;
        self.latest_volume = 0.0;
    }

    /// ResetShortTermModel.
    pub fn forget(&mut self) {
        self.bandwidth = f64::INFINITY;
        self.inflight = f64::INFINITY;
    }
}
