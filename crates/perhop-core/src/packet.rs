//! Packets as the network sees them.

use crate::{Bytes, Dscp, TrafficClass};

/// A node of the network: a host or a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl NodeId {
    /// The node's place in tables that are indexed by node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The transport protocols that perhop tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Internet control message protocol; its ports are zero.
    Icmp,
    /// Transmission control protocol.
    Tcp,
    /// User datagram protocol.
    Udp,
}

/// What routers read of a packet. Addresses are nodes: a prefix is resolved to the nodes in it
/// when a scenario is compiled, so that IPv4 and IPv6 cost the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the IP packet in bytes, headers included.
    pub size: u32,
    /// Where it comes from.
    pub source: NodeId,
    /// Where it goes.
    pub destination: NodeId,
    /// Source port; zero for ICMP.
    pub source_port: u16,
    /// Destination port; zero for ICMP.
    pub destination_port: u16,
    /// What the packet carries.
    pub protocol: Protocol,
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
}

impl Header {
    /// Length of the IP packet, headers included.
    pub const fn size(&self) -> Bytes {
        Bytes::new(self.size as u64)
    }

    /// The code point that names the packet's per-hop behaviour.
    pub const fn dscp(&self) -> Dscp {
        self.traffic_class.dscp()
    }
}

/// A packet: its header, and a body that the network carries without looking at it. A modelled
/// host puts a segment there, an emulated one the real packet's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<B> {
    /// What routers read.
    pub header: Header,
    /// What hosts read.
    pub body: B,
}

impl<B> Packet<B> {
    /// Length of the IP packet, headers included.
    pub const fn size(&self) -> Bytes {
        self.header.size()
    }
}
