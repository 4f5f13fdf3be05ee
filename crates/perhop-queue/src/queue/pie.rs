//! PIE, proportional integral controller enhanced (RFC 8033).

use perhop_core::{Bytes, Duration, Header, Packet, Stream, Time};

use super::signal::signal;
use super::waiting::Waiting;
use crate::{Backlog, Cause, Dequeue, Discipline, Ledger, Limit, Pass};

/// PIE's settings, with RFC 8033's names in sections 4 and 5.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct PieConfig {
    /// Limit of the queue.
    pub limit: Limit,
    /// QDELAY_REF, the target delay: 15 ms.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub target: Duration,
    /// T_UPDATE, the time between two updates of the probability: 15 ms; not zero.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub update: Duration,
    /// Rise of the probability, per update and second of delay above the target: 0.125.
    #[cfg_attr(feature = "serde", serde(skip, default = "alpha"))]
    pub alpha: f64,
    /// Rise of the probability, per update and second by which the delay has grown: 1.25.
    #[cfg_attr(feature = "serde", serde(skip, default = "beta"))]
    pub beta: f64,
    /// MAX_BURST, the time without early drops after a period without congestion: 150 ms.
    pub burst: Duration,
    /// True if packets with an ECN-capable transport are marked instead of dropped while the
    /// probability is below a tenth (section 5.1).
    pub ecn: bool,
}

impl PieConfig {
    /// ALPHA of RFC 8033, section 4.2.
    pub const ALPHA: f64 = 0.125;
    /// BETA of RFC 8033, section 4.2.
    pub const BETA: f64 = 1.25;
}

#[cfg(feature = "serde")]
fn alpha() -> f64 {
    PieConfig::ALPHA
}

#[cfg(feature = "serde")]
fn beta() -> f64 {
    PieConfig::BETA
}

/// Probability above which ECN-capable packets are dropped, too (section 5.1).
const MARK_LIMIT: f64 = 0.1;
/// Mean packet size, in bytes: a queue of up to two such packets is not congested (section 4.1).
const MEAN_PACKET: u64 = 1500;

/// A queue that drops arrivals at random with a probability that is updated at regular intervals,
/// from the difference between the delay and its target and from the change of the delay.
///
/// The delay is the waiting time of the last packet that was sent (section 4.2 allows it, and a
/// simulated clock costs nothing), and zero when no packet waits, so that no rate has to be
/// estimated. Drops are spaced by section 5.4. The probability does not depend on a packet's
/// length, and the controller is always on.
#[derive(Debug)]
pub struct Pie<B> {
    config: PieConfig,
    control: Control,
    random: Stream,
    waiting: Waiting<B>,
}

impl<B> Pie<B> {
    /// Creates an empty queue.
    ///
    /// # Panics
    /// If the time between two updates is zero.
    pub fn new(config: PieConfig, random: Stream) -> Self {
        Self { config, control: Control::new(&config), random, waiting: Waiting::new() }
    }

    /// Returns the drop probability of arrivals, as of the last update.
    pub fn probability(&self) -> f64 {
        self.control.controller.probability
    }

    /// Returns the remaining time without early drops, as of the last update.
    pub fn burst_allowance(&self) -> Duration {
        self.control.controller.burst_allowance
    }
}

/// State of PIE besides the queue itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    controller: Controller,
    /// Delay of the last packet that was sent.
    delay: Duration,
    /// Time of the next update.
    next_update: Time,
    /// Sum of the probabilities since the last drop (section 5.4).
    accumulated: f64,
}

/// State of the controller.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Controller {
    probability: f64,
    /// Delay at the last update.
    old_delay: Duration,
    /// Remaining time without early drops.
    burst_allowance: Duration,
}

impl Control {
    /// Creates the state of an empty queue.
    ///
    /// # Panics
    /// If the time between two updates is zero.
    pub fn new(config: &PieConfig) -> Self {
        assert!(config.update > Duration::ZERO, "updates at no distance");
        Self {
            controller: Controller {
                probability: 0.0,
                old_delay: Duration::ZERO,
                burst_allowance: config.burst,
            },
            delay: Duration::ZERO,
            next_update: Time::ZERO + config.update,
            accumulated: 0.0,
        }
    }

    /// Performs the updates that were due before `now`. The queue has not changed since, so that
    /// each has the same result as it would have had in time.
    pub fn catch_up(&mut self, config: &PieConfig, is_empty: bool, now: Time) {
        while self.next_update <= now {
            let delay = if is_empty { Duration::ZERO } else { self.delay };
            let before = self.controller;
            self.controller.update(config, delay);
            self.next_update += config.update;
            if self.controller == before && self.next_update <= now {
                // Further updates would change nothing.
                let updates = now.since(self.next_update).as_picos() / config.update.as_picos();
                self.next_update += config.update * (updates + 1);
            }
        }
    }

    /// Returns an arrival that may wait, marked if it is to be; `None` if it is dropped early.
    pub fn admit<B>(
        &mut self,
        config: &PieConfig,
        backlog: Backlog,
        packet: Packet<B>,
        random: &mut Stream,
        ledger: &mut Ledger<B>,
    ) -> Option<Packet<B>> {
        if !self.drop_early(config, backlog.bytes, random) {
            return Some(packet);
        }
        signal(config.ecn && self.controller.probability < MARK_LIMIT, packet, ledger)
    }

    /// Records that an arrival found the queue full.
    pub fn full(&mut self) {
        self.accumulated = 0.0; // a drop is a drop (appendix B)
    }

    /// Takes the next packet out of the queue, and records its delay.
    pub fn dequeue<B>(&mut self, waiting: &mut Waiting<B>, now: Time) -> Option<Packet<B>> {
        let (delay, packet) = waiting.pop(now)?;
        self.delay = delay;
        Some(packet)
    }

    /// Returns `true` if an arrival is to be dropped or marked (section 4.1, with section 5.4).
    fn drop_early(&mut self, config: &PieConfig, waiting: Bytes, random: &mut Stream) -> bool {
        let Controller { probability, old_delay, burst_allowance } = self.controller;
        let calm = old_delay < config.target / 2 && probability < 0.2;
        let short = waiting <= Bytes::new(2 * MEAN_PACKET);
        if burst_allowance > Duration::ZERO || calm || short {
            return false;
        }
        if probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += probability;
        let drop = match self.accumulated {
            ..0.85 => false,
            8.5.. => true,
            _ => random.unit() < probability,
        };
        if drop {
            self.accumulated = 0.0;
        }
        drop
    }
}

impl Controller {
    /// Performs the update of section 4.2, with the cap of section 5.5 on the rise of the
    /// probability, and the burst allowance of section 4.4.
    fn update(&mut self, config: &PieConfig, delay: Duration) {
        let seconds = Duration::as_secs_f64;
        let above = seconds(delay) - seconds(config.target);
        // Most updates of a long wait are alike, and a conversion is a division.
        let growth = match delay == self.old_delay {
            true => 0.0,
            false => seconds(delay) - seconds(self.old_delay),
        };
        let mut change = config.alpha * above + config.beta * growth;
        change *= match self.probability {
            ..0.000_001 => 1.0 / 2048.0,
            ..0.000_01 => 1.0 / 512.0,
            ..0.000_1 => 1.0 / 128.0,
            ..0.001 => 1.0 / 32.0,
            ..0.01 => 1.0 / 8.0,
            ..0.1 => 1.0 / 2.0,
            _ => 1.0,
        };
        if self.probability >= 0.1 && change > 0.02 {
            change = 0.02;
        }
        self.probability += change;
        if delay == Duration::ZERO && self.old_delay == Duration::ZERO {
            self.probability *= 0.98; // calm times end sooner
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        let half = config.target / 2;
        let left = self.burst_allowance.as_picos().saturating_sub(config.update.as_picos());
        let calm = self.probability == 0.0 && delay < half && self.old_delay < half;
        self.burst_allowance = if calm { config.burst } else { Duration::from_picos(left) };
        self.old_delay = delay;
    }
}

impl<B> Discipline<B> for Pie<B> {
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        self.control.catch_up(&self.config, self.waiting.is_empty(), now);
        let backlog = self.waiting.backlog();
        if !self.config.limit.admits(backlog, packet.size()) {
            self.control.full();
            return ledger.drop(packet, Cause::Limit);
        }
        let random = &mut self.random;
        let admitted = self.control.admit(&self.config, backlog, packet, random, ledger);
        if let Some(packet) = admitted {
            self.waiting.push(now, packet);
        }
    }

    fn dequeue(&mut self, now: Time, _ledger: &mut Ledger<B>) -> Dequeue<B> {
        self.control.catch_up(&self.config, self.waiting.is_empty(), now);
        match self.control.dequeue(&mut self.waiting, now) {
            Some(packet) => Dequeue::Packet(packet),
            None => Dequeue::Idle,
        }
    }

    fn pass(&mut self, now: Time, header: &Header) -> Pass {
        // An empty queue is not congested, whatever the probability.
        self.control.catch_up(&self.config, self.waiting.is_empty(), now);
        if self.config.limit.admits(Backlog::default(), header.size()) {
            self.control.delay = Duration::ZERO;
            Pass::Send
        } else {
            Pass::Drop(Cause::Limit)
        }
    }

    fn head(&mut self, _now: Time) -> Option<Bytes> {
        self.waiting.head()
    }

    fn backlog(&self) -> Backlog {
        self.waiting.backlog()
    }

    fn drain(self, packets: &mut Vec<Packet<B>>) {
        self.waiting.drain(packets);
    }
}

#[cfg(test)]
mod tests;
