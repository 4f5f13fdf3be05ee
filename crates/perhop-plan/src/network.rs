//! A network: nodes, links, and the disciplines before their transmitters.
//!
//! Rates are bits per second, times picoseconds, sizes bytes, shares parts per billion.

use std::net::{Ipv4Addr, Ipv6Addr};

use perhop_core::{Duration, Encapsulation, Overhead, Rate, Time};
use perhop_net::{
    Balance, Gilbert, IcmpErrors, Lte, NodeKind, Reorder, Trace, TraceError, TraceMedium,
    TraceStep, Variation, Wifi,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::changes::ChangePlan;
use crate::classes::{DisciplinePlan, MatchRulePlan, ShaperPlan};
use crate::tunnels::TunnelPlan;

/// A network, its changes, and the times of measurement.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkPlan {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Instants at which all counters are read, rising; the last is the end of the run.
    pub marks: Vec<Time>,
    /// Nodes.
    pub nodes: Vec<NodePlan>,
    /// Links.
    pub links: Vec<LinkPlan>,
    /// Tunnels between nodes.
    #[serde(default)]
    pub tunnels: Vec<TunnelPlan>,
    /// Channels that links share.
    #[serde(default)]
    pub channels: Vec<ChannelPlan>,
    /// Changes, in order of time.
    #[serde(default)]
    pub changes: Vec<ChangePlan>,
}

/// A node.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NodePlan {
    /// Name.
    pub name: String,
    /// Host or router.
    pub kind: NodeKind,
    /// IPv4 address.
    #[serde(default = "nowhere")]
    pub address: Ipv4Addr,
    /// IPv6 address.
    #[serde(default = "nowhere_v6")]
    pub address_v6: Ipv6Addr,
    /// Load sharing among links and paths of equal cost.
    #[serde(default)]
    pub balance: Balance,
    /// Limit of its ICMP errors.
    #[serde(default)]
    pub icmp_errors: IcmpErrors,
}

fn nowhere() -> Ipv4Addr {
    Ipv4Addr::UNSPECIFIED
}

fn nowhere_v6() -> Ipv6Addr {
    Ipv6Addr::UNSPECIFIED
}

/// A link.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkPlan {
    /// Ends. The name of the first one seeds the link's random streams.
    pub ends: [EndPlan; 2],
    /// MTU in bytes, if there is one.
    #[serde(default)]
    pub mtu: Option<u32>,
    /// Tag or label of its packets, if they carry any. Its length is part of the overhead.
    #[serde(default)]
    pub encapsulation: Option<Encapsulation>,
}

/// A radio channel.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelPlan {
    /// Name, which seeds its random stream.
    pub name: String,
    /// Names of the directed links on it.
    pub on: Vec<String>,
    /// How they share it.
    pub access: AccessPlan,
}

/// How links share a channel.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessPlan {
    /// Senders contend for it.
    Wifi(Wifi),
    /// A base station schedules it.
    Lte(CellPlan),
}

/// A cell of LTE.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CellPlan {
    /// Name of the base station, an end of all links on the channel.
    pub base: String,
    /// Settings.
    pub settings: Lte,
}

/// The transmission medium from a node to another.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MediumPlan {
    /// Rate with layer-2 overhead.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// Greatest additional delay of a packet.
    pub jitter: Duration,
    /// Variation of the delay, with which packets overtake each other.
    #[serde(default)]
    pub variation: Option<Variation>,
    /// Packets that the delay holds at the same time, if it has a limit.
    #[serde(default)]
    pub delay_limit: Option<u32>,
    /// Share of packets lost at random, in parts per billion.
    #[serde(with = "perhop_core::spelling::share")]
    #[schemars(with = "u32")]
    pub loss: u32,
    /// Share of packets that are duplicated, in parts per billion.
    #[serde(default, with = "perhop_core::spelling::share")]
    #[schemars(with = "u32")]
    pub duplicate: u32,
    /// Reordering of packets.
    #[serde(default)]
    pub reorder: Option<Reorder>,
    /// Correlated loss, beside `loss`.
    #[serde(default)]
    pub gilbert: Option<Gilbert>,
    /// Layer-2 overhead.
    pub overhead: Overhead,
}

/// The rate, and perhaps delay, jitter and loss, of a direction of a link over time.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TracePlan {
    /// Delivery opportunities of 1500 bytes, in milliseconds, as in files of mahimahi.
    Opportunities(Vec<u32>),
    /// Rates.
    Rates(RatesPlan),
}

/// Steps of a trace of rates, column by column.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RatesPlan {
    /// Begin of each step; the first is zero.
    pub at: Vec<Duration>,
    /// Rate of each step with layer-2 overhead, in bit/s; perhaps zero.
    pub rate: Vec<u64>,
    /// Delay of each step, if the trace has delays.
    #[serde(default)]
    pub delay: Option<Vec<Duration>>,
    /// Jitter of each step, if the trace has any.
    #[serde(default)]
    pub jitter: Option<Vec<Duration>>,
    /// Loss of each step in parts per billion, if the trace has losses.
    #[serde(default)]
    pub loss: Option<Vec<u32>>,
    /// Time after which the trace begins again, if it does.
    #[serde(default)]
    pub period: Option<Duration>,
}

impl TracePlan {
    /// Returns the trace in the types of the network.
    ///
    /// # Errors
    /// [`TraceError`] if steps are not in order, or a packet could wait for ever.
    pub fn trace(&self) -> Result<Trace, TraceError> {
        let plan = match self {
            Self::Opportunities(times) => return Trace::opportunities(times),
            Self::Rates(plan) => plan,
        };
        let has_medium = plan.delay.is_some() || plan.jitter.is_some() || plan.loss.is_some();
        let step = |(number, (&at, &rate)): (usize, (&Duration, &u64))| {
            let duration = |column: &Option<Vec<Duration>>| column.as_ref()?.get(number).copied();
            let medium = TraceMedium {
                delay: duration(&plan.delay),
                jitter: duration(&plan.jitter),
                loss: plan.loss.as_ref().and_then(|column| column.get(number).copied()),
            };
            TraceStep { at, rate, medium: has_medium.then_some(medium) }
        };
        Trace::new(plan.at.iter().zip(&plan.rate).enumerate().map(step).collect(), plan.period)
    }
}

/// The end of a link at a node.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EndPlan {
    /// Node.
    pub node: String,
    /// Name of the directed link into which the node sends, such as `r1>r2`.
    pub name: String,
    /// Transmission medium into which the node sends.
    pub medium: MediumPlan,
    /// Discipline before the transmitter.
    pub discipline: DisciplinePlan,
    /// Shaper of the transmitter, if there is one.
    #[serde(default)]
    pub shape: Option<ShaperPlan>,
    /// Trace of the rate at which the node sends, if there is one.
    #[serde(default)]
    pub trace: Option<TracePlan>,
    /// Rules that remark arriving packets; the first that matches decides.
    #[serde(default)]
    pub remark: Vec<RemarkPlan>,
}

/// A rule that remarks packets.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RemarkPlan {
    /// Filter of its packets.
    #[serde(rename = "match")]
    pub matches: Vec<MatchRulePlan>,
    /// Their new DSCP.
    pub dscp: perhop_core::Dscp,
}
