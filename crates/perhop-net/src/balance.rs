//! Several ways to the same place, and which packet takes which.

use perhop_core::{Header, NodeId, Protocol};

use crate::PortId;

/// How a node chooses among links and paths that cost the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Balance {
    /// By a hash of addresses, protocol and ports: a flow keeps to one way and stays in order
    /// (RFC 2992 compares such hashes).
    #[default]
    PerFlow,
    /// By a hash of the destination's address.
    PerDestination,
    /// In turn, whatever the packet: even shares, and disorder where ways differ in delay.
    PerPacket,
}

/// A node's ports that lead to the same place.
#[derive(Debug)]
pub(crate) struct Group {
    pub node: NodeId,
    pub ports: Vec<PortId>,
    pub balance: Balance,
    /// What hashes begin with.
    pub salt: u64,
    /// The port whose turn it is.
    pub turn: usize,
}

impl Group {
    /// Returns the port that takes a packet.
    #[inline]
    pub fn choose(&mut self, header: &Header) -> PortId {
        let hash = match self.balance {
            Balance::PerFlow => header.flow_hash(self.salt),
            Balance::PerDestination => destination(header).flow_hash(self.salt),
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

/// Returns a header that says only where a packet goes.
fn destination(header: &Header) -> Header {
    let nobody = NodeId(0);
    Header {
        source: nobody,
        source_port: 0,
        destination_port: 0,
        protocol: Protocol::Icmp,
        ..*header
    }
}
