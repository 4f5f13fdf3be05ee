//! What is to be sent and measured, with every name and unit resolved.

use std::net::IpAddr;

use perhop_workload::{CongestionPlan, FlowPlan, PingPlan, TransportPlan};
use serde::Deserialize;

/// Flows and pings between hosts with real network stacks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Decides every random number.
    pub seed: u64,
    /// The instants at which every counter is read, rising, in picoseconds; the last is the end.
    pub marks: Vec<u64>,
    /// The marks at which the distributions of delays begin anew.
    #[serde(default)]
    pub cuts: Vec<u64>,
    /// The nodes that flows and pings name by number.
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
    /// How late, in picoseconds, a thread may be before it counts as a stall; never if not given.
    #[serde(default)]
    pub bearable: Option<u64>,
    /// Whether threads are to go before those that do not compute in real time.
    #[serde(default)]
    pub real_time: bool,
}

/// TCP's timers in picoseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timers {
    /// The floor of the retransmission timeout.
    pub min_rto: u64,
    /// How long a receiver holds back an acknowledgement.
    pub delayed_ack: u64,
}

/// A node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeJob {
    /// The number of its network namespace; none where no socket can be opened.
    pub namespace: Option<usize>,
    /// Its addresses; the first is the one that it sends from and is sent to at.
    pub addresses: Vec<IpAddr>,
    /// What its network stack is set to before anything is opened, such as `net.ipv4.tcp_sack`.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
}

/// What a flow is called.
pub(crate) fn flow_name(flow: &FlowPlan) -> &str {
    match &flow.transport {
        TransportPlan::Tcp(tcp) => &tcp.name,
        TransportPlan::Udp(udp) => &udp.name,
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
