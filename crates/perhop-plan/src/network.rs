//! A network: nodes, links, and the disciplines before their transmitters.
//!
//! Rates are bits per second, times picoseconds, sizes bytes, shares parts per billion.

use std::net::Ipv4Addr;

use perhop_core::{Duration, Overhead, Rate, Time};
use perhop_net::{Balance, Gilbert, IcmpErrors, NodeKind, Reorder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::changes::ChangePlan;
use crate::classes::{DisciplinePlan, MatchRulePlan, Shape};

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
    /// Address in captures.
    #[serde(default = "nowhere")]
    pub address: Ipv4Addr,
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

/// A link.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkPlan {
    /// Ends. The name of the first one seeds the link's random streams.
    pub ends: [EndPlan; 2],
    /// Rate with layer-2 overhead.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// Greatest additional delay of a packet.
    pub jitter: Duration,
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
    /// MTU in bytes, if there is one.
    #[serde(default)]
    pub mtu: Option<u32>,
}

/// The end of a link at a node.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EndPlan {
    /// Node.
    pub node: String,
    /// Name of the directed link into which the node sends, such as `r1>r2`.
    pub name: String,
    /// Discipline before the transmitter.
    pub discipline: DisciplinePlan,
    /// Shaper of the transmitter, in IP bytes, if there is one.
    #[serde(default)]
    pub shape: Option<Shape>,
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
