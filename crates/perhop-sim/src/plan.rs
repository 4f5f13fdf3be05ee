//! A scenario with every name and unit resolved: what the engine is given.
//!
//! Flows and pings are numbered in the order in which they stand; units are those of the network's
//! plan.

use perhop_plan::NetworkPlan;
use perhop_workload::{FlowPlan, PingPlan};
use serde::Deserialize;

/// Everything that a run needs to know.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The network, and when it is measured.
    pub network: NetworkPlan,
    /// The marks at which the distributions of delays begin anew.
    #[serde(default)]
    pub cuts: Vec<u64>,
    /// The flows.
    pub flows: Vec<FlowPlan>,
    /// The pings.
    pub pings: Vec<PingPlan>,
}
