//! What is to be sent and measured, with every unit resolved.

use std::net::IpAddr;

use perhop_core::{Duration, Time};
use perhop_workload::{CongestionPlan, FlowPlan, PingPlan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::TrafficError;
use crate::live::{End, LiveJob};
use crate::stream::Ends;

/// Flows and pings between hosts with real network stacks.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Decides every random number.
    pub seed: u64,
    /// The instants at which every counter is read, rising; the last is the end.
    pub marks: Vec<Time>,
    /// The marks at which the distributions of delays begin anew.
    #[serde(default)]
    pub cuts: Vec<Time>,
    /// The nodes that flows and pings name.
    pub nodes: Vec<NodeJob>,
    /// The timers that Linux has by itself. A flow that asks for these sets no option, which
    /// kernels may lack.
    pub timers: Timers,
    /// The flows.
    #[serde(default)]
    pub flows: Vec<FlowPlan>,
    /// The pings.
    #[serde(default)]
    pub pings: Vec<PingPlan>,
    /// The lateness of a thread from which it counts as a stall; no lateness counts if not given.
    #[serde(default)]
    pub bearable: Option<Duration>,
    /// Whether threads request real-time priority.
    #[serde(default)]
    pub real_time: bool,
    /// How flows between hosts find each other, where a process has one end only.
    #[serde(default)]
    pub live: Option<LiveJob>,
}

/// TCP's timers.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Timers {
    /// The floor of the retransmission timeout.
    pub min_rto: Duration,
    /// How long a receiver holds back an acknowledgement.
    pub delayed_ack: Duration,
}

/// A node.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NodeJob {
    /// Its name.
    pub name: String,
    /// The number of its network namespace. `None`: no socket is opened. The node is a router or,
    /// in a [live](Job::live) job, a host elsewhere.
    pub namespace: Option<usize>,
    /// Its addresses; the first is the one that it sends from and is sent to at.
    pub addresses: Vec<IpAddr>,
    /// Settings of its network stack that are made before anything is opened, such as
    /// `net.ipv4.tcp_sack`; none in a live job.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
}

impl Job {
    /// The number of the node of this name.
    pub(crate) fn number(&self, name: &str) -> Result<u16, TrafficError> {
        let place = self.nodes.iter().position(|node| node.name == name);
        place.map(|place| place as u16).ok_or_else(|| TrafficError::UnknownNode(name.into()))
    }

    /// Which ends of a flow or a ping are in this process.
    pub(crate) fn here(&self, from: &str, to: &str) -> Result<Ends, TrafficError> {
        let here = |name| self.node(name).map(|node| node.namespace.is_some());
        Ok(Ends { source: here(from)?, destination: here(to)? })
    }

    /// Which end of a flow opens its connections.
    pub(crate) fn opens(&self, flow: usize) -> End {
        let live = self.live.as_ref().and_then(|live| live.flows.get(flow));
        live.map_or(End::Source, |flow| flow.opens)
    }

    /// The node of this name.
    pub(crate) fn node(&self, name: &str) -> Result<&NodeJob, TrafficError> {
        self.number(name).map(|number| &self.nodes[usize::from(number)])
    }
}

/// What Linux calls a congestion control.
pub(crate) const fn linux_name(plan: CongestionPlan) -> &'static str {
    match plan {
        CongestionPlan::Reno => "reno",
        CongestionPlan::Cubic => "cubic",
        CongestionPlan::Ledbat => "ledbat++",
        CongestionPlan::Dctcp => "dctcp",
        CongestionPlan::Prague => "prague",
        // Linux's is version 1; plans with version 3 are refused before they come here.
        CongestionPlan::Bbr | CongestionPlan::Bbr1 => "bbr",
    }
}
