//! Load sharing among paths of equal cost.

use perhop_core::{Header, NodeId, Protocol};

use crate::PortId;

/// Method by which a node chooses among links and paths of equal cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Balance {
    /// By a hash of addresses, protocol and ports: a flow stays on one path and in order (RFC 2992
    /// compares such hashes).
    #[default]
    PerFlow,
    /// By a hash of the destination's address.
    PerDestination,
    /// In turn, for each packet: even shares, but reordering if paths differ in delay.
    PerPacket,
}

/// Ports of a node that lead to the same destination at equal cost.
#[derive(Debug)]
pub(crate) struct Group {
    pub node: NodeId,
    pub ports: Vec<PortId>,
    pub balance: Balance,
    /// Initial value of hashes.
    pub salt: u64,
    /// Index of the next port in turn.
    pub turn: usize,
}

impl Group {
    /// Returns the port that takes a packet.
    #[inline]
    pub fn choose(&mut self, header: &Header) -> PortId {
        let hash = match self.balance {
            Balance::PerFlow => header.outer_hash(self.salt),
            Balance::PerDestination => destination(header).outer_hash(self.salt),
            Balance::PerPacket => {
                let port = self.ports[self.turn];
                self.turn = if self.turn + 1 == self.ports.len() { 0 } else { self.turn + 1 };
                return port;
            }
        };
        let share = (hash >> 32) * self.ports.len() as u64;
        self.ports[(share >> 32) as usize]
    }
}

/// Returns a header with nothing but the destination, for hashing.
fn destination(header: &Header) -> Header {
    let nobody = NodeId(0);
    Header {
        source: nobody,
        source_port: 0,
        destination_port: 0,
        protocol: Protocol::Icmp.into(),
        ..*header
    }
}
