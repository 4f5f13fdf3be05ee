//! Echo requests, datagrams to closed ports, and the answers to both: ICMP (RFC 792) and ICMPv6
//! (RFC 4443) as raw sockets deliver them.
//!
//! Input is not trusted: truncated, contradictory and irrelevant messages are ignored.

use std::net::{IpAddr, Ipv4Addr};

use perhop_core::TrafficClass;
use perhop_net::IcmpError;
use perhop_wire::{
    ICMP_HEADER, IPV4_HEADER, IcmpHeader, IcmpRepr, Ipv4Repr, QuotedPacket, UDP_HEADER, UdpHeader,
    UdpRepr, fill_transport_checksum, icmpv4, icmpv6, number,
};

/// Identity of a probe: values that its answer repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Probe {
    /// An echo, with its identifier and sequence number.
    Echo { identifier: u16, sequence: u16 },
    /// A datagram, with its ports and number: over IPv4 the identification of the packet, over IPv6
    /// its payload.
    Datagram { source_port: u16, destination_port: u16, number: u16 },
}

/// Event of a ping, at the host that answers or the one that sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// An echo request has arrived.
    Request(Probe),
    /// An echo reply has arrived.
    Reply(Probe),
    /// An error has arrived, with the DSCP, the ECN field and the destination of the quoted packet.
    Error { error: IcmpError, probe: Probe, class: TrafficClass, destination: IpAddr },
}

/// Returns the DSCP and ECN field of an IPv4 packet, and the bytes after its header.
pub(crate) fn ipv4(packet: &[u8]) -> Option<(TrafficClass, &[u8])> {
    let quoted = QuotedPacket::parse(packet).filter(|packet| packet.source.is_ipv4())?;
    Some((quoted.traffic_class, quoted.transport))
}

/// Parses an ICMP message.
pub(crate) fn message(bytes: &[u8]) -> Option<Message> {
    let header = IcmpHeader::of(bytes)?;
    let error = match (header.kind(), header.code()) {
        (icmpv4::ECHO_REQUEST, _) => return Some(Message::Request(echo(&header))),
        (icmpv4::ECHO_REPLY, _) => return Some(Message::Reply(echo(&header))),
        (icmpv4::TIME_EXCEEDED, 0) => IcmpError::TimeExceeded,
        // Net and host unreachable.
        (icmpv4::UNREACHABLE, 0 | 1) => IcmpError::NetUnreachable,
        (icmpv4::UNREACHABLE, 3) => IcmpError::PortUnreachable,
        _ => return None,
    };
    let about = QuotedPacket::parse(&bytes[ICMP_HEADER..]).filter(|it| it.source.is_ipv4())?;
    about_probe(error, &about)
}

/// Parses an ICMPv6 message.
pub(crate) fn message_6(bytes: &[u8]) -> Option<Message> {
    let header = IcmpHeader::of(bytes)?;
    let error = match (header.kind(), header.code()) {
        (icmpv6::ECHO_REQUEST, _) => return Some(Message::Request(echo(&header))),
        (icmpv6::ECHO_REPLY, _) => return Some(Message::Reply(echo(&header))),
        (icmpv6::TIME_EXCEEDED, 0) => IcmpError::TimeExceeded,
        // No route to destination, address unreachable.
        (icmpv6::UNREACHABLE, 0 | 3) => IcmpError::NetUnreachable,
        (icmpv6::UNREACHABLE, 4) => IcmpError::PortUnreachable,
        _ => return None,
    };
    let about = QuotedPacket::parse(&bytes[ICMP_HEADER..]).filter(|it| it.source.is_ipv6())?;
    about_probe(error, &about)
}

fn echo(header: &IcmpHeader<&[u8; ICMP_HEADER]>) -> Probe {
    Probe::Echo { identifier: header.identifier(), sequence: header.sequence() }
}

/// Returns an error about a probe, or `None` if the quoted packet is not a probe.
fn about_probe(error: IcmpError, about: &QuotedPacket<'_>) -> Option<Message> {
    let probe = match about.number {
        number::ICMP | number::ICMPV6 => {
            let request = match about.number {
                number::ICMP => icmpv4::ECHO_REQUEST,
                _ => icmpv6::ECHO_REQUEST,
            };
            echo(&IcmpHeader::of(about.transport).filter(|header| header.kind() == request)?)
        }
        number::UDP => {
            let header = UdpHeader::of(about.transport)?;
            let number = match about.source {
                IpAddr::V4(_) => about.identification as u16,
                IpAddr::V6(_) => u16::from_be_bytes(*about.transport[UDP_HEADER..].first_chunk()?),
            };
            Probe::Datagram {
                source_port: header.source_port(),
                destination_port: header.destination_port(),
                number,
            }
        }
        _ => return None,
    };
    let (class, destination) = (about.traffic_class, about.destination);
    Some(Message::Error { error, probe, class, destination })
}

/// Writes an echo request with a payload of `size` zero bytes. The kernel computes the checksum of
/// ICMPv6, which covers the addresses.
pub(crate) fn write_echo(out: &mut Vec<u8>, kind: u8, identifier: u16, sequence: u16, size: usize) {
    out.clear();
    out.extend_from_slice(&IcmpRepr::echo(kind, identifier, sequence).emit());
    out.resize(out.len() + size, 0);
}

/// A datagram over IPv4 whose packet has its number as identification. If its source address is
/// unspecified, the kernel inserts that of the host (raw(7)), and the datagram has no checksum
/// (RFC 768), because the checksum covers the address.
pub(crate) struct Numbered {
    pub from: (Ipv4Addr, u16),
    pub to: (Ipv4Addr, u16),
    pub traffic_class: TrafficClass,
    pub ttl: u8,
    pub number: u16,
    pub size: usize,
}

impl Numbered {
    /// Writes the packet, with a payload of zeros.
    pub fn write(&self, out: &mut Vec<u8>) {
        let length = UDP_HEADER + self.size;
        let ip = Ipv4Repr {
            traffic_class: self.traffic_class,
            total_length: (IPV4_HEADER + length) as u16,
            identification: self.number,
            fragment: 0,
            ttl: self.ttl,
            protocol: number::UDP,
            source: self.from.0,
            destination: self.to.0,
        };
        let udp = UdpRepr {
            source_port: self.from.1,
            destination_port: self.to.1,
            length: length as u16,
        };
        out.clear();
        out.extend_from_slice(&ip.emit());
        out.extend_from_slice(&udp.emit());
        out.resize(IPV4_HEADER + length, 0);
        if !self.from.0.is_unspecified() {
            fill_transport_checksum(out, IPV4_HEADER, number::UDP, length);
        }
    }
}

#[cfg(test)]
mod tests;
