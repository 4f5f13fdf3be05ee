//! DualPI2, a dual-queue coupled AQM (RFC 9332).

use perhop_core::{Bytes, Duration, Ecn, Header, Packet, Time};

use super::signal::{mark, signal};
use super::waiting::Waiting;
use crate::{Backlog, Cause, Dequeue, Discipline, Ledger, Limit, Pass};

/// DualPI2's settings, with the defaults of RFC 9332, appendix A.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct DualPi2Config {
    /// Limit of both queues together.
    pub limit: Limit,
    /// Target delay of the Classic queue: 15 ms.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub target: Duration,
    /// Longest usual round-trip time, for which the controller is tuned: 100 ms; not zero.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "usual_rtt"))]
    pub max_rtt: Duration,
    /// The coupling factor k: 2. L4S packets are marked with k times the base probability,
    /// Classic ones dropped or marked with its square.
    pub coupling: u32,
    /// Delay from which the L4S queue marks packets: 800 µs.
    pub threshold: Duration,
    /// Range of delays above the threshold over which the share of marked packets rises to all: 400
    /// µs. With a range of zero the threshold is a step.
    pub range: Duration,
    /// The Classic queue's share of the link while both queues are backlogged, in parts per
    /// billion, above zero: 1/16 (section 4.1).
    #[cfg_attr(
        feature = "serde",
        serde(rename = "classic_share", with = "perhop_core::spelling::share")
    )]
    #[cfg_attr(feature = "serde", schemars(with = "u32"))]
    pub classic_share_ppb: u32,
}

/// Reads a round-trip time; a third of it, the time between updates, must not be zero.
#[cfg(feature = "serde")]
fn usual_rtt<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    use serde::{Deserialize, de::Error};
    let rtt = Duration::deserialize(from)?;
    if rtt.as_picos() < 3 { Err(D::Error::custom("must be 3 ps or more")) } else { Ok(rtt) }
}

const WHOLE_PPB: u64 = 1_000_000_000;

/// Two queues: one for Classic packets, and a short one for L4S packets, those marked ECT(1) or CE.
/// A PI controller on the delay computes a base probability. The Classic queue drops with its
/// square, and the L4S queue marks in proportion to it, so that flows of both kinds get equal rates
/// (RFC 9332, section 2.1).
///
/// Both signals are evenly spaced instead of random (appendix A.1, `recur`). The L4S queue gets the
/// link except for the Classic queue's share. When the L4S probability saturates, L4S packets are
/// dropped like Classic ones (appendix A.2).
#[derive(Debug)]
pub struct DualPi2<B> {
    config: DualPi2Config,
    /// Time between two updates: the target or a third of the longest round-trip time, whichever is
    /// less.
    interval: Duration,
    /// Rise of the base probability, per update and second of delay above the target.
    alpha: f64,
    /// Rise of the base probability, per update and second by which the delay has grown.
    beta: f64,
    l4s: Waiting<B>,
    classic: Waiting<B>,
    /// Base probability, p'.
    base: f64,
    /// Delay at the last update.
    old_delay: Duration,
    next_update: Time,
    l4s_marks: Recur,
    l4s_drops: Recur,
    classic_signals: Recur,
    /// Lead of the L4S queue over its share, in bytes times parts per billion.
    ahead: i64,
}

/// Turns a probability into evenly spaced positive decisions.
#[derive(Clone, Copy, Debug, Default)]
struct Recur(f64);

impl Recur {
    fn takes(&mut self, likelihood: f64) -> bool {
        self.0 += likelihood;
        let taken = self.0 > 1.0;
        if taken {
            self.0 -= 1.0;
        }
        taken
    }
}

impl<B> DualPi2<B> {
    /// Creates empty queues.
    ///
    /// # Panics
    /// If the target or the longest round-trip time is zero.
    pub fn new(config: DualPi2Config) -> Self {
        let interval = config.target.min(config.max_rtt / 3);
        assert!(interval > Duration::ZERO, "updates at no distance");
        let max_rtt = config.max_rtt.as_secs_f64();
        Self {
            config,
            interval,
            alpha: 0.1 * interval.as_secs_f64() / (max_rtt * max_rtt),
            beta: 0.3 / max_rtt,
            l4s: Waiting::new(),
            classic: Waiting::new(),
            base: 0.0,
            old_delay: Duration::ZERO,
            next_update: Time::ZERO + interval,
            l4s_marks: Recur::default(),
            l4s_drops: Recur::default(),
            classic_signals: Recur::default(),
            ahead: 0,
        }
    }

    /// Returns the probability p_C with which Classic packets are dropped or marked.
    pub fn classic_probability(&self) -> f64 {
        self.base * self.base
    }

    /// Returns the probability p_CL with which L4S packets are marked because of the Classic queue.
    pub fn coupled_probability(&self) -> f64 {
        (f64::from(self.config.coupling) * self.base).min(1.0)
    }

    /// Returns the L4S queue's own probability for a packet that has waited for `delay`.
    fn native_probability(&self, delay: Duration) -> f64 {
        if delay < self.config.threshold {
            return 0.0;
        }
        let above = Duration::from_picos(delay.as_picos() - self.config.threshold.as_picos());
        if above >= self.config.range {
            1.0
        } else {
            above.as_picos() as f64 / self.config.range.as_picos() as f64
        }
    }

    /// Performs the updates that were due before `now`, with the longer of the two delays at those
    /// times (appendix A.2).
    fn catch_up(&mut self, now: Time) {
        let oldest = [self.l4s.since(), self.classic.since()].into_iter().flatten().min();
        while self.next_update <= now {
            let due = self.next_update;
            self.next_update += self.interval;
            let delay = oldest.map_or(Duration::ZERO, |since| due.since(since));
            let before = (self.base, self.old_delay);
            self.update(delay);
            if (self.base, self.old_delay) == before && oldest.is_none() && self.next_update <= now
            {
                // Further updates would change nothing.
                let updates = now.since(self.next_update).as_picos() / self.interval.as_picos();
                self.next_update += self.interval * (updates + 1);
            }
        }
    }

    fn update(&mut self, delay: Duration) {
        let seconds = Duration::as_secs_f64;
        let above = seconds(delay) - seconds(self.config.target);
        let growth = seconds(delay) - seconds(self.old_delay);
        let change = self.alpha * above + self.beta * growth;
        self.base = (self.base + change).clamp(0.0, 1.0);
        self.old_delay = delay;
    }

    /// Returns `true` if the L4S queue is served next.
    fn l4s_is_next(&self) -> bool {
        !self.l4s.is_empty() && (self.classic.is_empty() || self.ahead <= 0)
    }

    /// Updates the lead of the L4S queue while both queues are backlogged.
    fn charge(&mut self, l4s: bool, size: Bytes) {
        let share = if l4s {
            i64::from(self.config.classic_share_ppb)
        } else {
            -(WHOLE_PPB as i64 - i64::from(self.config.classic_share_ppb))
        };
        self.ahead += size.get() as i64 * share;
    }

    /// Signals congestion by an L4S packet: returns it, marked or not; drops it in overload.
    fn signal_l4s(
        &mut self,
        mut packet: Packet<B>,
        delay: Duration,
        ledger: &mut Ledger<B>,
    ) -> Option<Packet<B>> {
        let coupled = self.coupled_probability();
        let likelihood = if coupled < 1.0 {
            // A packet behind which none waits does not make a queue (Th_len).
            let native = if self.l4s.is_empty() { 0.0 } else { self.native_probability(delay) };
            native.max(coupled)
        } else {
            if self.l4s_drops.takes(self.classic_probability()) {
                ledger.drop(packet, Cause::Early);
                return None;
            }
            coupled
        };
        if self.l4s_marks.takes(likelihood) {
            mark(&mut packet, ledger);
        }
        Some(packet)
    }

    /// Signals congestion by a Classic packet: returns it, marked or not; drops it if it cannot be
    /// marked, or in overload.
    fn signal_classic(&mut self, packet: Packet<B>, ledger: &mut Ledger<B>) -> Option<Packet<B>> {
        let probability = self.classic_probability();
        if !self.classic_signals.takes(probability) {
            return Some(packet);
        }
        let overload = self.coupled_probability() >= 1.0;
        signal(!overload, packet, ledger)
    }
}

impl<B> Discipline<B> for DualPi2<B> {
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        self.catch_up(now);
        if !self.config.limit.admits(self.backlog(), packet.size()) {
            return ledger.drop(packet, Cause::Limit);
        }
        match packet.header.ecn() {
            Ecn::Ect1 | Ecn::Ce => self.l4s.push(now, packet),
            Ecn::NotEct | Ecn::Ect0 => self.classic.push(now, packet),
        }
    }

    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B> {
        self.catch_up(now);
        loop {
            let contended = !self.l4s.is_empty() && !self.classic.is_empty();
            let l4s = self.l4s_is_next();
            let queue = if l4s { &mut self.l4s } else { &mut self.classic };
            let Some((delay, packet)) = queue.pop(now) else { return Dequeue::Idle };
            let size = packet.size();
            let next = if l4s {
                self.signal_l4s(packet, delay, ledger)
            } else {
                self.signal_classic(packet, ledger)
            };
            if let Some(packet) = next {
                if contended {
                    self.charge(l4s, size);
                } else {
                    self.ahead = 0;
                }
                return Dequeue::Packet(packet);
            }
        }
    }

    fn pass(&mut self, now: Time, header: &Header) -> Pass {
        self.catch_up(now);
        if self.base > 0.0 || !self.config.limit.admits(Backlog::default(), header.size()) {
            return Pass::Enqueue;
        }
        self.ahead = 0;
        Pass::Send
    }

    fn head(&mut self, _now: Time) -> Option<Bytes> {
        if self.l4s_is_next() { self.l4s.head() } else { self.classic.head() }
    }

    fn backlog(&self) -> Backlog {
        let (l4s, classic) = (self.l4s.backlog(), self.classic.backlog());
        Backlog { packets: l4s.packets + classic.packets, bytes: l4s.bytes + classic.bytes }
    }

    fn drain(self, packets: &mut Vec<Packet<B>>) {
        self.l4s.drain(packets);
        self.classic.drain(packets);
    }
}
