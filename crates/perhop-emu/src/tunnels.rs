//! Real packets in modelled tunnels.

use std::collections::HashMap;

use perhop_core::{Header, NodeId, Packet};
use perhop_net::Carrier;
use perhop_wire::{DONT_FRAGMENT, Ipv4Repr, complete_outer};

use crate::icmp::Addresses;
use crate::store::Buffer;

/// Packets that are in tunnels. A packet keeps its buffer with its own bytes; those of outer
/// headers are written only for captures and ICMP errors.
#[derive(Debug, Default)]
pub(crate) struct Enclosed(HashMap<Buffer, Vec<Inner>>);

/// Header of a packet in an outer packet, whose protocol has this number.
type Inner = (Header, u8);

impl Enclosed {
    /// Puts a packet into an outer one; returns the body of that.
    pub fn enclose(&mut self, packet: Packet<Buffer>, carrier: Carrier) -> Buffer {
        self.0.entry(packet.body).or_default().push((packet.header, carrier.number()));
        packet.body
    }

    /// Returns `true` if a body is that of an outer packet.
    pub fn contains(&self, body: Buffer) -> bool {
        self.0.contains_key(&body)
    }

    /// Takes the packet out of an outer one; `None` if the body is not that of an outer packet.
    pub fn disclose(&mut self, body: Buffer) -> Option<Packet<Buffer>> {
        let inner = self.0.get_mut(&body)?;
        let (header, _) = inner.pop()?;
        if inner.is_empty() {
            self.0.remove(&body);
        }
        Some(Packet { header, body })
    }

    /// Takes a packet out of all tunnels.
    pub fn bare(&mut self, packet: Packet<Buffer>) -> Packet<Buffer> {
        let none = self.0.is_empty();
        let inner = if none { None } else { self.0.remove(&packet.body) };
        match inner.and_then(|inner| inner.into_iter().next()) {
            Some((header, _)) => Packet { header, ..packet },
            None => packet,
        }
    }

    /// Notes that a buffer is a copy of another.
    pub fn copy(&mut self, from: Buffer, to: Buffer) {
        if let Some(inner) = self.0.get(&from).cloned() {
            self.0.insert(to, inner);
        }
    }

    /// Writes the bytes of an outer packet; returns `false` if the packet is in no tunnel.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        packet: &Packet<Buffer>,
        address: impl Fn(NodeId) -> Addresses,
    ) -> bool {
        let Some((_, number)) = self.0.get(&packet.body).and_then(|inner| inner.last()) else {
            return false;
        };
        let header = &packet.header;
        let ip = Ipv4Repr {
            traffic_class: header.traffic_class,
            total_length: header.size as u16,
            identification: 0, // never in fragments (RFC 6864, section 4.1)
            fragment: DONT_FRAGMENT,
            ttl: header.ttl,
            protocol: *number,
            source: address(header.source).v4,
            destination: address(header.destination).v4,
        };
        out.clear();
        out.extend_from_slice(&ip.emit());
        complete_outer(out, header, *number);
        out.resize(header.size as usize, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use perhop_core::{AckHint, Dscp, Protocol, TrafficClass};
    use perhop_net::IcmpError;
    use perhop_wire::IpPacket;

    use super::*;
    use crate::icmp;
    use crate::store::Store;

    fn address(node: NodeId) -> Addresses {
        let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, node.0);
        Addresses { v4: Ipv4Addr::new(10, 0, 0, node.0 as u8), v6 }
    }

    fn header(size: u32, ends: (u16, u16), protocol: Protocol) -> Header {
        Header {
            size,
            source: NodeId(ends.0),
            destination: NodeId(ends.1),
            source_port: 4500,
            destination_port: 4500,
            protocol: protocol.into(),
            traffic_class: TrafficClass::new(Dscp::EF),
            ttl: 60,
            ack: AckHint::NONE,
        }
    }

    #[test]
    fn packets_come_out_in_the_order_in_which_they_went_in() {
        let (mut store, mut enclosed) = (Store::new(1500, 1 << 22), Enclosed::default());
        let body = store.take().unwrap();
        let packets = [(100, (1, 9)), (120, (2, 3)), (160, (4, 5))]
            .map(|(size, ends)| Packet { header: header(size, ends, Protocol::Other), body });
        let [inner, middle, outer] = packets;
        assert_eq!(enclosed.enclose(inner, Carrier::Ip(47)), body);
        assert_eq!(enclosed.enclose(middle, Carrier::Udp(4500)), body);
        let copy = store.copy(body).unwrap();
        enclosed.copy(body, copy);

        let mut out = vec![7; 3];
        assert!(enclosed.write(&mut out, &outer, address));
        let parsed = IpPacket::parse(&out).unwrap();
        assert_eq!((parsed.length, parsed.number, parsed.ports), (160, 17, [4500, 4500]));
        assert!(out[28..].iter().all(|&byte| byte == 0) && !parsed.may_be_fragmented);

        assert_eq!(enclosed.bare(Packet { body: copy, ..outer }), Packet { body: copy, ..inner });
        assert_eq!([enclosed.disclose(copy), enclosed.disclose(body)], [None, Some(middle)]);
        assert!(
            enclosed.write(&mut out, &middle, address) && out[9] == 47 && out[20..] == [0; 100]
        );
        assert_eq!(enclosed.disclose(body), Some(inner));
        assert_eq!(enclosed.disclose(body), None);
        assert!(!enclosed.write(&mut out, &inner, address) && enclosed.0.is_empty());
        assert_eq!(enclosed.bare(inner), inner);
    }

    #[test]
    fn errors_about_outer_packets_name_the_ends_and_the_mtu() {
        let mut enclosed = Enclosed::default();
        let body = Store::new(1500, 1 << 22).take().unwrap();
        let inner = Packet { header: header(1400, (1, 9), Protocol::Udp), body };
        let outer = Packet { header: header(1420, (2, 3), Protocol::Other), body };
        let told = |about: &[u8], error| {
            let mut out = vec![0; 1500];
            let parsed = IpPacket::parse(about).unwrap();
            let length = icmp::error(&mut out, address(NodeId(7)), (about, &parsed), error);
            out.truncate(length);
            let told = icmp::too_big(&out, &IpPacket::parse(&out).unwrap());
            told.map(|(quoted, mtu)| ([quoted.source, quoted.destination], quoted.number, mtu))
        };
        let ends = [2, 3].map(|node| IpAddr::V4(address(NodeId(node)).v4));
        for carrier in [Carrier::Ip(4), Carrier::Ip(50), Carrier::Hashed(4789)] {
            enclosed.enclose(inner, carrier);
            let mut bytes = Vec::new();
            assert!(enclosed.write(&mut bytes, &outer, address));
            let expected = Some((ends, carrier.number(), 1300));
            assert_eq!(told(&bytes, IcmpError::TooBig { mtu: 1300 }), expected);
            assert_eq!(told(&bytes, IcmpError::TimeExceeded), None);
        }
    }
}
