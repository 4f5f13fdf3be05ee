//! Active queue management in a plan: settings, and the queues that they make.
//!
//! Times are picoseconds, sizes bytes, shares and probabilities parts per billion, as everywhere
//! in a plan.

use perhop_core::{Dscp, Duration, Stream};
use perhop_queue::{
    Codel, CodelConfig, DualPi2, DualPi2Config, FqCodel, FqCodelConfig, Measure, Pie, PieConfig,
    Queue, Red, RedConfig, RedProfile, StandingBacklog,
};
use serde::Deserialize;

use crate::build::BuildError;
use crate::network::LimitPlan;

/// RED, or WRED with profiles by DSCP.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedPlan {
    /// Names its random stream.
    pub stream: String,
    /// How much it holds.
    pub limit: LimitPlan,
    /// The length of a usual packet.
    pub packet: u32,
    /// How long a usual packet takes to send.
    pub packet_time: u64,
    /// Whether thresholds are bytes and not packets.
    pub bytes: bool,
    /// The weight of the current length in the average.
    pub weight_ppb: u32,
    /// Whether the probability rises on above the upper threshold.
    pub gentle: bool,
    /// Whether packets are marked that understand it.
    pub ecn: bool,
    /// Whether those are dropped above the thresholds.
    pub harddrop: bool,
    /// Thresholds, the first of them for DSCPs that no other names.
    pub profiles: Vec<RedProfilePlan>,
}

/// Thresholds of RED.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedProfilePlan {
    /// The code points that have them.
    pub dscps: Vec<u8>,
    /// Lower threshold.
    pub min: u64,
    /// Upper threshold.
    pub max: u64,
    /// The probability at the upper threshold.
    pub probability_ppb: u32,
}

/// CoDel.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodelPlan {
    /// How much it holds.
    pub limit: LimitPlan,
    /// The delay that is acceptable.
    pub target: u64,
    /// Over how long it is judged.
    pub interval: u64,
    /// Whether packets are marked that understand it.
    pub ecn: bool,
}

/// FQ-CoDel.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FqCodelPlan {
    /// Names its random stream.
    pub stream: String,
    /// CoDel for each flow queue; the limit is that of all.
    pub codel: CodelPlan,
    /// How many flow queues there are.
    pub flows: u16,
    /// Bytes that each may send in its turn.
    pub quantum: u32,
    /// Which backlog must exceed one packet before a flow queue's delay counts.
    pub standing: StandingPlan,
}

/// The backlog that CoDel compares with the longest packet, in FQ-CoDel.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StandingPlan {
    /// That of all flow queues together.
    All,
    /// That of the flow queue alone.
    Flow,
}

/// PIE.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PiePlan {
    /// Names its random stream.
    pub stream: String,
    /// How much it holds.
    pub limit: LimitPlan,
    /// The delay that is aimed at.
    pub target: u64,
    /// Time between updates.
    pub update: u64,
    /// How long a burst is let through.
    pub burst: u64,
    /// Whether packets are marked that understand it.
    pub ecn: bool,
}

/// DualPI2.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DualPi2Plan {
    /// How much it holds.
    pub limit: LimitPlan,
    /// The Classic delay that is aimed at.
    pub target: u64,
    /// The longest round-trip time that is usual.
    pub max_rtt: u64,
    /// The coupling factor.
    pub coupling: u32,
    /// The delay from which L4S packets are marked.
    pub threshold: u64,
    /// How much longer the delay is from which all are.
    pub range: u64,
    /// The Classic queue's share of the link.
    pub classic_share_ppb: u32,
}

fn share(ppb: u32) -> f64 {
    f64::from(ppb) / 1e9
}

fn time(picos: u64, what: &'static str) -> Result<Duration, BuildError> {
    if picos == 0 { Err(BuildError::Zero(what)) } else { Ok(Duration::from_picos(picos)) }
}

impl RedPlan {
    pub(crate) fn queue<B>(&self, seed: u64) -> Result<Queue<B>, BuildError> {
        if self.packet == 0 || self.profiles.is_empty() {
            return Err(BuildError::Zero("a usual packet, or the number of profiles"));
        }
        let config = RedConfig {
            limit: self.limit.limit(),
            measure: if self.bytes {
                Measure::Bytes { mean: self.packet }
            } else {
                Measure::Packets
            },
            weight: share(self.weight_ppb),
            packet_time: time(self.packet_time, "a usual packet's time")?,
            gentle: self.gentle,
            ecn: self.ecn,
            harddrop: self.harddrop,
        };
        let mut by_dscp = [0; Dscp::COUNT];
        let mut profiles = Vec::with_capacity(self.profiles.len());
        for (place, plan) in self.profiles.iter().enumerate() {
            for &dscp in &plan.dscps {
                by_dscp[usize::from(Dscp::new(dscp)?.get())] = place as u8;
            }
            profiles.push(RedProfile {
                min: plan.min as f64,
                max: plan.max as f64,
                probability: share(plan.probability_ppb),
            });
        }
        let random = Stream::new(seed, &self.stream);
        Ok(Queue::Red(Box::new(Red::new(config, &profiles, by_dscp, random))))
    }
}

impl CodelPlan {
    fn config(&self) -> Result<CodelConfig, BuildError> {
        Ok(CodelConfig {
            limit: self.limit.limit(),
            target: time(self.target, "CoDel's target")?,
            interval: time(self.interval, "CoDel's interval")?,
            ecn: self.ecn,
        })
    }

    pub(crate) fn queue<B>(&self) -> Result<Queue<B>, BuildError> {
        Ok(Queue::Codel(Box::new(Codel::new(self.config()?))))
    }
}

impl FqCodelPlan {
    pub(crate) fn queue<B>(&self, seed: u64) -> Result<Queue<B>, BuildError> {
        if self.flows == 0 || self.quantum == 0 {
            return Err(BuildError::Zero("FQ-CoDel's quantum, or the number of its queues"));
        }
        let Self { flows, quantum, .. } = *self;
        let standing = match self.standing {
            StandingPlan::All => StandingBacklog::All,
            StandingPlan::Flow => StandingBacklog::Flow,
        };
        let config = FqCodelConfig { codel: self.codel.config()?, flows, quantum, standing };
        let mut random = Stream::new(seed, &self.stream);
        Ok(Queue::FqCodel(Box::new(FqCodel::new(config, &mut random))))
    }
}

impl PiePlan {
    /// The gains of RFC 8033, section 4.2.
    const ALPHA: f64 = 0.125;
    const BETA: f64 = 1.25;

    pub(crate) fn queue<B>(&self, seed: u64) -> Result<Queue<B>, BuildError> {
        let config = PieConfig {
            limit: self.limit.limit(),
            target: time(self.target, "PIE's target")?,
            update: time(self.update, "PIE's time between updates")?,
            alpha: Self::ALPHA,
            beta: Self::BETA,
            burst: Duration::from_picos(self.burst),
            ecn: self.ecn,
        };
        Ok(Queue::Pie(Box::new(Pie::new(config, Stream::new(seed, &self.stream)))))
    }
}

impl DualPi2Plan {
    pub(crate) fn queue<B>(&self) -> Result<Queue<B>, BuildError> {
        // A third of it is the time between updates.
        if self.max_rtt < 3 {
            return Err(BuildError::Zero("DualPI2's round-trip time"));
        }
        Ok(Queue::DualPi2(Box::new(DualPi2::new(DualPi2Config {
            limit: self.limit.limit(),
            target: time(self.target, "DualPI2's target")?,
            max_rtt: Duration::from_picos(self.max_rtt),
            coupling: f64::from(self.coupling),
            min_threshold: Duration::from_picos(self.threshold),
            range: Duration::from_picos(self.range),
            classic_share_ppb: self.classic_share_ppb,
        }))))
    }
}
