//! Jobs: the flows and pings to send and measure, with every unit resolved.

use std::net::{IpAddr, SocketAddr};

use perhop_core::{Duration, Time};
use perhop_workload::{CongestionPlan, FlowPlan, PingPlan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::TrafficError;
use crate::live::{End, Iperf3Server, LiveFlow, LiveJob};
use crate::stream::Ends;

/// Flows and pings between hosts with real network stacks.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Seed of all random numbers.
    pub seed: u64,
    /// The instants at which all counters are read, in rising order; the last is the end.
    pub marks: Vec<Time>,
    /// The marks at which new distributions of delays begin.
    #[serde(default)]
    pub cuts: Vec<Time>,
    /// The nodes that flows and pings name.
    pub nodes: Vec<NodeJob>,
    /// The default timers of Linux. A flow with these sets no socket option, because older kernels
    /// lack it.
    pub timers: Timers,
    /// The flows.
    #[serde(default)]
    pub flows: Vec<FlowPlan>,
    /// The pings.
    #[serde(default)]
    pub pings: Vec<PingPlan>,
    /// Lateness of a thread above which it counts as a stall; none does by default.
    #[serde(default)]
    pub stall_threshold: Option<Duration>,
    /// True if threads request real-time priority.
    #[serde(default)]
    pub real_time: bool,
    /// Connections between processes that have one end of a flow each (a live job).
    #[serde(default)]
    pub live: Option<LiveJob>,
}

/// TCP's timers.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Timers {
    /// The floor of the retransmission timeout.
    pub min_rto: Duration,
    /// The delay of acknowledgements at a receiver.
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
    /// Its addresses; the first is the source and the destination of its traffic.
    pub addresses: Vec<IpAddr>,
    /// Settings of its network stack that are made before sockets are opened, such as
    /// `net.ipv4.tcp_sack`; none in a live job.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
}

impl Job {
    /// Returns the number of the node with this name.
    pub(crate) fn number(&self, name: &str) -> Result<u16, TrafficError> {
        let place = self.nodes.iter().position(|node| node.name == name);
        place.map(|place| place as u16).ok_or_else(|| TrafficError::UnknownNode(name.into()))
    }

    /// Returns the ends of a flow that are in this process and whose sockets `Traffic` opens.
    pub(crate) fn here(&self, flow: usize) -> Result<Ends, TrafficError> {
        let FlowPlan { from, to, .. } = &self.flows[flow];
        let ours = self.server(flow).is_none();
        let here = |name| self.node(name).map(|node| ours && node.namespace.is_some());
        Ok(Ends { source: here(from)?, destination: here(to)? })
    }

    fn live_flow(&self, flow: usize) -> Option<&LiveFlow> {
        self.live.as_ref()?.flows.get(flow)
    }

    /// Returns the end of a flow that opens its connections.
    pub(crate) fn opens(&self, flow: usize) -> End {
        let clients = self.flows.get(flow).is_some_and(|flow| flow.application.is_some());
        let usual = if clients { End::Destination } else { End::Source };
        self.live_flow(flow).map_or(usual, |flow| flow.opens)
    }

    /// Returns the server of iperf3 that is an end of a flow.
    pub fn server(&self, flow: usize) -> Option<Iperf3Server> {
        self.live_flow(flow)?.server
    }

    /// Returns the STAMP reflector that answers a ping.
    pub fn reflector(&self, ping: usize) -> Option<SocketAddr> {
        let port = (*self.live.as_ref()?.reflectors.get(ping)?)?;
        let destination = self.node(&self.pings.get(ping)?.to).ok()?;
        Some(SocketAddr::new(*destination.addresses.first()?, port))
    }

    /// Returns the node with this name.
    pub(crate) fn node(&self, name: &str) -> Result<&NodeJob, TrafficError> {
        self.number(name).map(|number| &self.nodes[usize::from(number)])
    }
}

/// Returns the name of a congestion control in Linux.
pub const fn linux_name(plan: CongestionPlan) -> &'static str {
    match plan {
        CongestionPlan::Reno => "reno",
        CongestionPlan::Cubic => "cubic",
        CongestionPlan::Ledbat => "ledbat++",
        CongestionPlan::Dctcp => "dctcp",
        CongestionPlan::Prague => "prague",
        // Linux has version 1; plans with version 3 are refused earlier.
        CongestionPlan::Bbr | CongestionPlan::Bbr1 => "bbr",
    }
}
