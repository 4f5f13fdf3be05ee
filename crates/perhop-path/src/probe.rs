//! Probe packets. All probes of a flow take the same path through per-flow load balancers, because
//! the fields that balancers hash stay the same (Augustin et al., "Avoiding traceroute anomalies
//! with Paris traceroute", IMC 2006).

use std::net::IpAddr;

use perhop_core::TrafficClass;
use perhop_wire::{
    DONT_FRAGMENT, ICMP_HEADER, IPV4_HEADER, IPV6_HEADER, IcmpRepr, Ipv4Repr, Ipv6Repr,
    UDP_CHECKSUM, UDP_HEADER, UdpRepr, fold, icmpv4, icmpv6, number, pseudo_header, sum_of_words,
};
use serde::{Deserialize, Serialize};

/// Protocol of probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeProtocol {
    /// Datagrams to a port that should be closed. The destination answers with an ICMP error.
    #[default]
    Udp,
    /// Echo requests.
    Icmp,
}

/// Fields that all probes to a destination share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Protocol of the probes.
    pub protocol: ProbeProtocol,
    /// Source port of flow 0, or identifier of its echo requests. Flow `n` has this plus `n`.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// IPv6 flow label of flow 0 (RFC 6437). Flow `n` has this plus `n`.
    pub flow_label: u32,
}

/// Fields in which probes differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Number of the flow.
    pub flow: u16,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// DSCP and ECN.
    pub class: TrafficClass,
    /// Length of the IP packet, in bytes; at least [`Target::shortest`].
    pub size: u16,
}

impl Target {
    /// Returns the length of the headers and of the two bytes that adjust the checksum.
    pub const fn shortest(&self) -> u16 {
        (self.ip_header() + UDP_HEADER + 2) as u16
    }

    const fn ip_header(&self) -> usize {
        if self.source.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER }
    }

    /// Returns the source port, or the identifier, of a flow.
    pub const fn port_of(&self, flow: u16) -> u16 {
        self.source_port.wrapping_add(flow)
    }

    /// Writes a probe. `identity` is a number from 1 to 65534. UDP carries it as its checksum, as
    /// Paris traceroute does, and over IPv4 also as the packet's identification. Echo requests
    /// carry it as their sequence number. Packets have Don't Fragment set.
    pub fn write(&self, probe: &Probe, identity: u16, out: &mut Vec<u8>) {
        let header = self.ip_header();
        let size = usize::from(probe.size.max(self.shortest()));
        let length = size - header;
        out.clear();
        let protocol = match (self.protocol, self.source) {
            (ProbeProtocol::Udp, _) => number::UDP,
            (ProbeProtocol::Icmp, IpAddr::V4(_)) => number::ICMP,
            (ProbeProtocol::Icmp, IpAddr::V6(_)) => number::ICMPV6,
        };
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let ip = Ipv4Repr {
                    traffic_class: probe.class,
                    total_length: size as u16,
                    identification: identity,
                    fragment: DONT_FRAGMENT,
                    ttl: probe.ttl,
                    protocol,
                    source,
                    destination,
                };
                out.extend_from_slice(&ip.emit());
            }
            (source, destination) => {
                let v6 = |address| match address {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                    IpAddr::V6(v6) => v6,
                };
                let ip = Ipv6Repr {
                    traffic_class: probe.class,
                    flow_label: self.flow_label.wrapping_add(probe.flow.into()) & 0xf_ffff,
                    payload_length: length as u16,
                    next_header: protocol,
                    hop_limit: probe.ttl,
                    source: v6(source),
                    destination: v6(destination),
                };
                out.extend_from_slice(&ip.emit());
            }
        }
        let port = self.port_of(probe.flow);
        let (place, wanted) = match self.protocol {
            ProbeProtocol::Udp => {
                let udp = UdpRepr {
                    source_port: port,
                    destination_port: self.destination_port,
                    length: length as u16,
                };
                out.extend_from_slice(&udp.emit());
                (UDP_CHECKSUM, identity)
            }
            ProbeProtocol::Icmp => {
                let kind = match self.source {
                    IpAddr::V4(_) => icmpv4::ECHO_REQUEST,
                    IpAddr::V6(_) => icmpv6::ECHO_REQUEST,
                };
                let mut echo = IcmpRepr::echo(kind, port, identity).emit();
                echo[2..4].fill(0);
                out.extend_from_slice(&echo);
                // The same for all probes of a flow, because some balancers hash it.
                (2, checksum_of(port))
            }
        };
        out.resize(size, 0);
        // The words that follow the transport's header make the checksum what it should be.
        let covered = match protocol {
            number::ICMP => 0,
            _ => pseudo_header(out, protocol, length),
        };
        let sum = fold(covered + sum_of_words(&out[header..]));
        let adjustment = fold(u64::from(!wanted) + u64::from(!sum));
        out[header + place..][..2].copy_from_slice(&wanted.to_be_bytes());
        out[header + ICMP_HEADER..][..2].copy_from_slice(&adjustment.to_be_bytes());
    }
}

/// Returns the checksum of all echo requests with this identifier: neither zero nor all ones.
const fn checksum_of(identifier: u16) -> u16 {
    identifier % 0xfffe + 1
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use perhop_wire::{IpPacket, checksum};
    use proptest::prelude::*;

    pub(crate) fn target(v6: bool, protocol: ProbeProtocol) -> Target {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        Target {
            source: address(if v6 { "2001:db8::1" } else { "192.0.2.1" }),
            destination: address(if v6 { "2001:db8::9" } else { "198.51.100.9" }),
            protocol,
            source_port: 51_000,
            destination_port: 33_434,
            flow_label: 0x4_2000,
        }
    }

    proptest! {
        /// The checksum is right, and the flow's fields do not depend on the probe.
        #[test]
        fn probes_are_valid_and_of_one_flow(
            v6: bool,
            icmp: bool,
            identity in 1_u16..0xffff,
            flow in 0_u16..300,
            ttl in 1_u8..64,
            octet: u8,
            size in 0_u16..1500,
        ) {
            let protocol = if icmp { ProbeProtocol::Icmp } else { ProbeProtocol::Udp };
            let target = target(v6, protocol);
            let class = TrafficClass::from_octet(octet);
            let mut bytes = Vec::new();
            target.write(&Probe { flow, ttl, class, size }, identity, &mut bytes);
            prop_assert_eq!(bytes.len(), usize::from(size.max(target.shortest())));
            let packet = IpPacket::parse(&bytes).unwrap();
            prop_assert_eq!(packet.length, bytes.len());
            prop_assert_eq!((packet.traffic_class, packet.ttl), (class, ttl));
            let transport = packet.payload(&bytes);
            let pseudo = match (v6, icmp) {
                (false, true) => 0,
                _ => pseudo_header(&bytes, packet.number, transport.len()),
            };
            prop_assert_eq!(checksum(pseudo + sum_of_words(transport)), 0);
            if icmp {
                let (sum, id) = (checksum_of(target.port_of(flow)), target.port_of(flow));
                prop_assert_eq!(&transport[2..4], sum.to_be_bytes());
                prop_assert_eq!(&transport[4..6], id.to_be_bytes());
                prop_assert_eq!(&transport[6..8], identity.to_be_bytes());
            } else {
                prop_assert_eq!(packet.ports, [target.port_of(flow), 33_434]);
                prop_assert_eq!(&transport[6..8], identity.to_be_bytes());
            }
            if !v6 {
                prop_assert!(!packet.may_be_fragmented);
                prop_assert_eq!(packet.fragment.identification, u32::from(identity));
            }
        }
    }
}
