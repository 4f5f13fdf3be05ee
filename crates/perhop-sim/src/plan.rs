//! A scenario with every unit resolved: the input of the engine.
//!
//! Units are those of the network's plan.

use perhop_core::Time;
use perhop_plan::NetworkPlan;
use perhop_workload::{FlowPlan, PingPlan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Plan of a run.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The network, and the times of measurement.
    pub network: NetworkPlan,
    /// Marks at which the distributions of delays are reset.
    #[serde(default)]
    pub cuts: Vec<Time>,
    /// Flows.
    pub flows: Vec<FlowPlan>,
    /// Pings.
    pub pings: Vec<PingPlan>,
}
