//! A scenario with every unit resolved: what the engine is given.
//!
//! Units are those of the network's plan.

use perhop_core::Time;
use perhop_plan::NetworkPlan;
use perhop_workload::{FlowPlan, PingPlan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that a run needs to know.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The network, and when it is measured.
    pub network: NetworkPlan,
    /// The marks at which the distributions of delays begin anew.
    #[serde(default)]
    pub cuts: Vec<Time>,
    /// The flows.
    pub flows: Vec<FlowPlan>,
    /// The pings.
    pub pings: Vec<PingPlan>,
}
