//! RED, random early detection (Floyd and Jacobson, *Random Early Detection Gateways for Congestion
//! Avoidance*, IEEE/ACM Transactions on Networking 1(4), 1993), and WRED, which has thresholds of
//! its own for each DSCP.

use perhop_core::{Bytes, Dscp, Duration, Packet, Stream, Time, power};

use super::signal::signal;
use super::waiting::Waiting;
use crate::{Backlog, Cause, Dequeue, Discipline, Ledger, Limit, Pass};

/// What the average and the thresholds of RED count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase", deny_unknown_fields))]
pub enum Measure {
    /// Packets.
    Packets,
    /// Bytes; the probability of a packet is then in proportion to its length, a packet of `mean`
    /// bytes having that of the formula (section 4 of the paper).
    Bytes {
        /// The length of a usual packet, in bytes.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
        mean: u32,
    },
}

/// RED's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RedConfig {
    /// How much the queue holds.
    pub limit: Limit,
    /// What is averaged.
    pub measure: Measure,
    /// The weight of the current length in the average: 0.002 (section 6 of the paper).
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::share"))]
    #[cfg_attr(feature = "serde", schemars(with = "u32"))]
    pub weight: f64,
    /// How long a usual packet takes to send. While nothing waits, the average decays as if so
    /// many packets had found an empty queue as could have been sent.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub packet_time: Duration,
    /// Whether the probability rises on to one at twice the upper threshold, instead of at once
    /// (Floyd, *Recommendation on using the gentle variant of RED*, 2000).
    pub gentle: bool,
    /// Whether packets whose transport understands ECN are marked where chance decides.
    pub ecn: bool,
    /// Whether such packets are dropped like others above the thresholds (RFC 3168, section 7),
    /// and not marked there, too, as Linux does unless it is told `harddrop`.
    pub harddrop: bool,
}

/// Thresholds on the average, in packets or bytes as the measure says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RedProfile {
    /// Below it nothing is dropped early.
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::whole"))]
    #[cfg_attr(feature = "serde", schemars(with = "u64"))]
    pub min: f64,
    /// From it on, or with `gentle` from its double, everything is.
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::whole"))]
    #[cfg_attr(feature = "serde", schemars(with = "u64"))]
    pub max: f64,
    /// The probability that the formula reaches at `max`.
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::share"))]
    #[cfg_attr(feature = "serde", schemars(with = "u32"))]
    pub probability: f64,
}

/// Thresholds of some code points.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RedRule {
    /// The code points.
    pub dscps: Vec<Dscp>,
    /// Their thresholds.
    pub thresholds: RedProfile,
}

/// RED's settings, and its thresholds by code point.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RedSpec {
    /// What all code points have in common.
    pub config: RedConfig,
    /// Thresholds; the first are those of code points that no rule names. Not empty.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub rules: Vec<RedRule>,
}

/// A queue that drops or marks arrivals at random, the more the longer it has been on average,
/// spaced evenly.
#[derive(Debug)]
pub struct Red<B> {
    config: RedConfig,
    profiles: Vec<(RedProfile, Spacing)>,
    /// Which profile a DSCP has.
    by_dscp: [u8; Dscp::COUNT],
    random: Stream,
    average: f64,
    /// Since when nothing waits; none while something does.
    idle_since: Option<Time>,
    waiting: Waiting<B>,
}

/// Packets of a profile, or their lengths in usual packets, that chance let pass since it last
/// took one.
#[derive(Clone, Copy, Debug, Default)]
struct Spacing(f64);

enum Decision {
    Pass,
    /// Chance took it: mark or drop.
    Taken,
    /// It is above the thresholds: drop, or mark without `harddrop`.
    Forced,
}

impl<B> Red<B> {
    /// An empty queue with thresholds for every DSCP: a profile, and its place for each of them.
    ///
    /// # Panics
    /// If a DSCP has a profile that there is not.
    pub fn new(
        config: RedConfig,
        profiles: &[RedProfile],
        by_dscp: [u8; Dscp::COUNT],
        random: Stream,
    ) -> Self {
        assert!(by_dscp.iter().all(|place| usize::from(*place) < profiles.len()));
        Self {
            config,
            profiles: profiles.iter().map(|profile| (*profile, Spacing::default())).collect(),
            by_dscp,
            random,
            average: 0.0,
            idle_since: Some(Time::ZERO),
            waiting: Waiting::new(),
        }
    }

    /// An empty queue with these settings.
    ///
    /// # Panics
    /// Without a rule.
    pub fn of(spec: &RedSpec, random: Stream) -> Self {
        let mut by_dscp = [0; Dscp::COUNT];
        for (place, rule) in spec.rules.iter().enumerate() {
            for dscp in &rule.dscps {
                by_dscp[usize::from(dscp.get())] = place as u8;
            }
        }
        let profiles: Vec<_> = spec.rules.iter().map(|rule| rule.thresholds).collect();
        Self::new(spec.config, &profiles, by_dscp, random)
    }

    /// The average length of the queue as of the last arrival, in packets or bytes.
    pub fn average(&self) -> f64 {
        self.average
    }

    /// The average with an arrival at `now`: a moving average of the queue's lengths. Those of idle
    /// time are zero, as many as whole packets could have been sent, and so is that which ends it.
    fn average_at(&self, now: Time) -> f64 {
        let weight = self.config.weight;
        match self.idle_since {
            Some(since) => {
                self.average * power(1.0 - weight, 1 + self.packets_in(now.since(since)))
            }
            None => {
                let Backlog { packets, bytes } = self.waiting.backlog();
                let length = match self.config.measure {
                    Measure::Packets => packets,
                    Measure::Bytes { .. } => bytes.get(),
                };
                self.average + weight * (length as f64 - self.average)
            }
        }
    }

    /// How many usual packets could have been sent in such a time.
    fn packets_in(&self, span: Duration) -> u64 {
        span.as_picos() / self.config.packet_time.as_picos().max(1)
    }

    /// Whether an arrival is taken by chance, or by force, at the present average.
    fn decide(&mut self, packet: &Packet<B>) -> Decision {
        let place = self.by_dscp[usize::from(packet.header.dscp().get())];
        let (profile, spacing) = &mut self.profiles[usize::from(place)];
        let RedProfile { min, max, probability } = *profile;
        let average = self.average;
        // Of one packet that waits nobody can be asked to send less.
        let chance = if average < min || self.waiting.backlog().packets <= 1 {
            *spacing = Spacing::default();
            return Decision::Pass;
        } else if average < max {
            probability * (average - min) / (max - min)
        } else if self.config.gentle && average < 2.0 * max {
            probability + (1.0 - probability) * (average - max) / max
        } else {
            *spacing = Spacing::default();
            return Decision::Forced;
        };
        let length = match self.config.measure {
            Measure::Packets => 1.0,
            Measure::Bytes { mean } => f64::from(packet.header.size) / f64::from(mean),
        };
        if spacing.takes(chance, length, &mut self.random) {
            Decision::Taken
        } else {
            Decision::Pass
        }
    }
}

impl Spacing {
    /// Whether chance takes a packet of this length, in usual packets.
    ///
    /// Method 2 of section 7 of the paper: with probability p / (1 - n p) after n that passed, so
    /// that the n-th packet is taken with equal chance for n from 1 to 1/p.
    fn takes(&mut self, chance: f64, length: f64, random: &mut Stream) -> bool {
        let left = 1.0 - self.0 * chance;
        let taken = left <= 0.0 || random.unit() < chance * length / left;
        self.0 = if taken { 0.0 } else { self.0 + length };
        taken
    }
}

impl<B> Discipline<B> for Red<B> {
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        self.average = self.average_at(now);
        if let Some(since) = self.idle_since {
            // What has decayed does not decay again; the part of a packet that is left will.
            let packets = self.packets_in(now.since(since));
            self.idle_since = Some(since + self.config.packet_time * packets);
        }
        let RedConfig { ecn, harddrop, .. } = self.config;
        let signalled = match self.decide(&packet) {
            Decision::Pass => Some(packet),
            Decision::Taken => signal(ecn, packet, ledger),
            Decision::Forced => signal(ecn && !harddrop, packet, ledger),
        };
        let Some(packet) = signalled else { return };
        if self.config.limit.admits(self.waiting.backlog(), packet.size()) {
            self.waiting.push(now, packet);
            self.idle_since = None;
        } else {
            ledger.drop(packet, Cause::Limit);
        }
    }

    fn dequeue(&mut self, now: Time, _ledger: &mut Ledger<B>) -> Dequeue<B> {
        let Some((_, packet)) = self.waiting.pop(now) else { return Dequeue::Idle };
        if self.waiting.is_empty() {
            self.idle_since = Some(now);
        }
        Dequeue::Packet(packet)
    }

    fn pass(&mut self, now: Time, packet: &mut Packet<B>) -> Pass {
        if !self.config.limit.admits(Backlog::default(), packet.size()) {
            return Pass::Enqueue;
        }
        // Nothing is taken from a queue that is empty.
        self.average = self.average_at(now);
        self.idle_since = Some(now);
        let place = self.by_dscp[usize::from(packet.header.dscp().get())];
        self.profiles[usize::from(place)].1 = Spacing::default();
        Pass::Send
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
