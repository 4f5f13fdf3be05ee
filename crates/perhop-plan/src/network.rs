//! A network: nodes, links, and what stands before their transmitters.
//!
//! Rates are bits per second, times picoseconds, sizes bytes, shares parts per billion.

use std::net::Ipv4Addr;

use perhop_core::{Duration, Overhead, Rate, Time};
use perhop_net::{Balance, IcmpErrors, NodeKind, Reorder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::changes::ChangePlan;
use crate::classes::{DisciplinePlan, MatchPlan, Shape};

/// A network, what changes in it, and when it is measured.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkPlan {
    /// Decides every random number.
    pub seed: u64,
    /// The instants at which every counter is read, rising, the end of the run last.
    pub marks: Vec<Time>,
    /// The nodes.
    pub nodes: Vec<NodePlan>,
    /// The links.
    pub links: Vec<LinkPlan>,
    /// Changes, in order of time.
    #[serde(default)]
    pub changes: Vec<ChangePlan>,
}

/// A node.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NodePlan {
    /// Its name.
    pub name: String,
    /// What it does with packets for others.
    pub kind: NodeKind,
    /// Its address, as captures have it.
    #[serde(default = "nowhere")]
    pub address: Ipv4Addr,
    /// How it shares load among links and paths that cost the same.
    #[serde(default)]
    pub balance: Balance,
    /// How many ICMP errors it sends.
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
    /// Its ends. The first one's name seeds the link's random streams.
    pub ends: [EndPlan; 2],
    /// Rate with layer-2 overhead.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// The most by which a packet is late beyond it.
    pub jitter: Duration,
    /// Share of packets lost at random.
    #[serde(with = "perhop_core::spelling::share")]
    #[schemars(with = "u32")]
    pub loss: u32,
    /// Share of packets of which a copy arrives.
    #[serde(default, with = "perhop_core::spelling::share")]
    #[schemars(with = "u32")]
    pub duplicate: u32,
    /// Which packets others overtake.
    #[serde(default)]
    pub reorder: Option<Reorder>,
    /// Layer-2 overhead.
    pub overhead: Overhead,
    /// The longest packet that it takes, if there is a limit.
    #[serde(default)]
    pub mtu: Option<u32>,
}

/// A node's end of a link.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EndPlan {
    /// The node.
    pub node: String,
    /// The directed link into which the node sends here, such as `r1>r2`.
    pub name: String,
    /// What stands before the transmitter.
    pub discipline: DisciplinePlan,
    /// What the transmitter may send, of IP bytes, if that is not what the rate allows.
    #[serde(default)]
    pub shape: Option<Shape>,
    /// Rules by which packets are marked that arrive here; the first that matches decides.
    #[serde(default)]
    pub remark: Vec<RemarkPlan>,
}

/// A rule by which packets are marked.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RemarkPlan {
    /// Which packets.
    #[serde(rename = "match")]
    pub matches: MatchPlan,
    /// Their new code point.
    pub dscp: perhop_core::Dscp,
}
