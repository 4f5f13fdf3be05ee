//! Tunnels of a network.

use perhop_core::{Dscp, InnerFlow};
use perhop_net::{Carrier, TunnelOverhead, TunnelSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::build::BuildError;
use crate::classes::{DisciplinePlan, ShaperPlan};
use crate::names::Names;

/// A tunnel between two nodes.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelPlan {
    /// Name, for tables.
    pub name: String,
    /// Ends.
    pub ends: [String; 2],
    /// Bytes that it adds to a packet.
    pub overhead: TunnelOverhead,
    /// Protocol of outer packets.
    pub carrier: Carrier,
    /// Extent to which queues see the flows of inner packets.
    pub flows: InnerFlow,
    /// Longest inner packet, in bytes.
    pub mtu: u32,
    /// DSCP of outer packets, if it is not that of the inner packet.
    pub dscp: Option<Dscp>,
    /// True if the exit copies the outer DSCP into the inner packet.
    pub uniform: bool,
    /// Devices at the ends, in their order, where packets wait before they enter.
    #[serde(default)]
    pub devices: [Option<DevicePlan>; 2],
}

/// The device of a tunnel at an end. It has no rate: only a shaper holds packets.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DevicePlan {
    /// Name in tables, among those of directed links, such as `r1>r2#vpn`. It seeds the random
    /// streams of the discipline.
    pub name: String,
    /// Discipline before packets enter.
    pub discipline: DisciplinePlan,
    /// Shaper of inner packets, if there is one.
    #[serde(default)]
    pub shape: Option<ShaperPlan>,
}

impl TunnelPlan {
    /// Returns the tunnel in the types of the network.
    ///
    /// # Errors
    /// [`BuildError::UnknownNode`].
    pub fn spec(&self, names: &Names) -> Result<TunnelSpec, BuildError> {
        let [first, second] = &self.ends;
        Ok(TunnelSpec {
            ends: [names.node(first)?, names.node(second)?],
            overhead: self.overhead,
            carrier: self.carrier,
            flows: self.flows,
            mtu: self.mtu,
            dscp: self.dscp,
            uniform: self.uniform,
        })
    }
}
