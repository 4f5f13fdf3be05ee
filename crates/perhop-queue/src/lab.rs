//! What several tests of this crate need.

use perhop_core::{AckHint, Dscp, Header, NodeId, Packet, Protocol, TrafficClass};

/// Returns a packet of this size and DSCP.
pub fn packet(size: u32, dscp: u8) -> Packet<()> {
    let header = Header {
        size,
        source: NodeId(0),
        destination: NodeId(1),
        source_port: 0,
        destination_port: 0,
        protocol: Protocol::Udp.into(),
        traffic_class: TrafficClass::new(Dscp::new(dscp).unwrap()),
        ttl: Header::TTL,
        ack: AckHint::NONE,
    };
    Packet { header, body: () }
}
