//! RED, random early detection (Floyd and Jacobson, *Random Early Detection Gateways for Congestion
//! Avoidance*, IEEE/ACM Transactions on Networking 1(4), 1993), and WRED, with thresholds for each
//! DSCP.

use perhop_core::{Bytes, Dscp, Duration, Header, Packet, Stream, Time, power};

use super::signal::signal;
use super::waiting::Waiting;
use crate::{Backlog, Cause, Dequeue, Discipline, Ledger, Limit, Pass};

/// Unit of RED's average and thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase", deny_unknown_fields))]
pub enum Measure {
    /// Packets.
    Packets,
    /// Bytes; the probability of a packet is then in proportion to its length, and a packet of
    /// `mean` bytes has the probability of the formula (section 4 of the paper).
    Bytes {
        /// Length of a typical packet, in bytes.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
        mean: u32,
    },
}

/// RED's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RedConfig {
    /// Limit of the queue.
    pub limit: Limit,
    /// Unit of the average and the thresholds.
    pub measure: Measure,
    /// Weight of the current length in the average: 0.002 (section 6 of the paper).
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::share"))]
    #[cfg_attr(feature = "serde", schemars(with = "u32"))]
    pub weight: f64,
    /// Transmission time of a typical packet. While the queue is empty, the average decays as if
    /// packets of this length had arrived back to back and found it empty.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub packet_time: Duration,
    /// True if the probability rises to one between the upper threshold and its double, instead of
    /// at once (Floyd, *Recommendation on using the gentle variant of RED*, 2000).
    pub gentle: bool,
    /// True if packets with an ECN-capable transport are marked instead of dropped between the
    /// thresholds.
    pub ecn: bool,
    /// True if these packets are dropped like others above the thresholds (RFC 3168, section 7).
    /// Otherwise they are marked there, too, as in Linux without `harddrop`.
    pub harddrop: bool,
}

/// Thresholds on the average, in the unit of the measure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RedProfile {
    /// Average below which nothing is dropped early.
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::whole"))]
    #[cfg_attr(feature = "serde", schemars(with = "u64"))]
    pub min: f64,
    /// Average from which every packet is dropped; with `gentle`, twice this.
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::whole"))]
    #[cfg_attr(feature = "serde", schemars(with = "u64"))]
    pub max: f64,
    /// Drop probability at `max`.
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::share"))]
    #[cfg_attr(feature = "serde", schemars(with = "u32"))]
    pub probability: f64,
}

/// Thresholds of some DSCPs.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RedRule {
    /// DSCPs.
    pub dscps: Vec<Dscp>,
    /// Thresholds of these DSCPs.
    pub thresholds: RedProfile,
}

/// RED's settings, and its thresholds by DSCP.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct RedSpec {
    /// Settings for all DSCPs.
    pub config: RedConfig,
    /// Thresholds; the first are those of DSCPs that no rule names. Not empty.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub rules: Vec<RedRule>,
}

/// A queue that drops or marks arrivals at random and evenly spaced, with a probability that grows
/// with its average length.
#[derive(Debug)]
pub struct Red<B> {
    config: RedConfig,
    profiles: Vec<(RedProfile, Spacing)>,
    /// Index of the profile of each DSCP.
    by_dscp: [u8; Dscp::COUNT],
    random: Stream,
    average: f64,
    /// Time at which the queue became empty; `None` while packets wait.
    idle_since: Option<Time>,
    waiting: Waiting<B>,
}

/// Packets of a profile since the last signal, or their lengths in typical packets.
#[derive(Clone, Copy, Debug, Default)]
struct Spacing(f64);

enum Decision {
    Pass,
    /// Selected at random: mark or drop.
    Taken,
    /// Above the thresholds: drop, or mark without `harddrop`.
    Forced,
}

impl<B> Red<B> {
    /// Creates an empty queue with profiles, and the index of a profile for every DSCP.
    ///
    /// # Panics
    /// If the index of a profile is out of range.
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

    /// Creates an empty queue with these settings.
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

    /// Returns the average length of the queue as of the last arrival, in packets or bytes.
    pub fn average(&self) -> f64 {
        self.average
    }

    /// Returns the average with an arrival at `now`: a moving average of the queue's lengths. An
    /// idle time counts with as many lengths of zero as whole packets could have been sent in it,
    /// and one for the arrival that ends it.
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

    /// Returns the number of typical packets that could have been sent in `span`.
    fn packets_in(&self, span: Duration) -> u64 {
        span.as_picos() / self.config.packet_time.as_picos().max(1)
    }

    /// Decides on an arrival at the present average: at random, or above the thresholds.
    fn decide(&mut self, packet: &Packet<B>) -> Decision {
        let place = self.by_dscp[usize::from(packet.header.dscp().get())];
        let (profile, spacing) = &mut self.profiles[usize::from(place)];
        let RedProfile { min, max, probability } = *profile;
        let average = self.average;
        // A signal for a queue of one packet would be useless.
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
    /// Returns `true` if a packet of this length, in typical packets, is selected.
    ///
    /// This is method 2 of section 7 of the paper: with probability p / (1 - n p) after n that
    /// passed, so that the n-th packet is selected with equal probability for n from 1 to 1/p.
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
            // The idle time that has been counted does not count again; the rest, less than a
            // packet, will.
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

    fn pass(&mut self, now: Time, header: &Header) -> Pass {
        if !self.config.limit.admits(Backlog::default(), header.size()) {
            return Pass::Enqueue;
        }
        // An empty queue signals nothing.
        self.average = self.average_at(now);
        self.idle_since = Some(now);
        let place = self.by_dscp[usize::from(header.dscp().get())];
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
