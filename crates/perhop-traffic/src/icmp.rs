//! Echo requests, datagrams to ports on which nobody listens, and what comes back of them: ICMP
//! (RFC 792) and ICMPv6 (RFC 4443) as raw sockets have them.
//!
//! Whatever comes is read without trust: what is cut off, contradicts itself or is of no interest
//! is nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use perhop_core::{Dscp, TrafficClass};
use perhop_net::IcmpError;

// RFC 791, RFC 8200.
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
const UDP: u8 = 17;

// RFC 792.
pub(crate) const ECHO_REPLY: u8 = 0;
pub(crate) const UNREACHABLE: u8 = 3;
pub(crate) const ECHO_REQUEST: u8 = 8;
pub(crate) const TIME_EXCEEDED: u8 = 11;
const ICMP: u8 = 1;

// RFC 4443.
pub(crate) const ECHO_REQUEST_6: u8 = 128;
pub(crate) const ECHO_REPLY_6: u8 = 129;
pub(crate) const UNREACHABLE_6: u8 = 1;
pub(crate) const TIME_EXCEEDED_6: u8 = 3;
const ICMP_6: u8 = 58;

const ICMP_HEADER: usize = 8;

/// Which probe something is about: what it carries that its answer carries, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Probe {
    /// An echo, with its identifier and its number.
    Echo { identifier: u16, sequence: u16 },
    /// A datagram with its ports, and what numbers it: over IPv4 the packet's identification, over
    /// IPv6 what it carries.
    Datagram { source_port: u16, destination_port: u16, number: u16 },
}

/// What a host sees that is asked, or that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// An echo request has arrived.
    Request(Probe),
    /// It was answered.
    Reply(Probe),
    /// It was not: what the error says, and the mark and the destination of what it quotes.
    Error { error: IcmpError, probe: Probe, dscp: Dscp, destination: IpAddr },
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn dscp(traffic_class: u8) -> Dscp {
    Dscp::new(traffic_class >> 2).expect("six bits are a code point")
}

/// The mark in the header of an IPv4 packet, and what is behind the header.
pub(crate) fn ipv4(packet: &[u8]) -> Option<(Dscp, &[u8])> {
    let first = *packet.first()?;
    let header = usize::from(first & 15) * 4;
    if first >> 4 != 4 || header < IPV4_HEADER {
        return None;
    }
    Some((dscp(packet[1..].first().copied()?), packet.get(header..)?))
}

fn echo(bytes: &[u8]) -> Option<Probe> {
    Some(Probe::Echo { identifier: word(bytes, 4)?, sequence: word(bytes, 6)? })
}

/// The packet that an error over IPv4 quotes.
fn quoted(packet: &[u8]) -> Option<(Probe, Dscp, IpAddr)> {
    let (dscp, behind) = ipv4(packet)?;
    let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    let probe = match packet[9] {
        ICMP if *behind.first()? == ECHO_REQUEST => echo(behind)?,
        UDP => Probe::Datagram {
            source_port: word(behind, 0)?,
            destination_port: word(behind, 2)?,
            number: word(packet, 4)?,
        },
        _ => return None,
    };
    Some((probe, dscp, Ipv4Addr::from(octets).into()))
}

/// The packet that an error over IPv6 quotes.
fn quoted_6(packet: &[u8]) -> Option<(Probe, Dscp, IpAddr)> {
    if packet.first()? >> 4 != 6 {
        return None;
    }
    let behind = packet.get(IPV6_HEADER..)?;
    let octets: [u8; 16] = packet[24..40].try_into().ok()?;
    let probe = match packet[6] {
        ICMP_6 if *behind.first()? == ECHO_REQUEST_6 => echo(behind)?,
        UDP => Probe::Datagram {
            source_port: word(behind, 0)?,
            destination_port: word(behind, 2)?,
            number: word(behind, UDP_HEADER)?,
        },
        _ => return None,
    };
    let traffic_class = (word(packet, 0)? >> 4) as u8;
    Some((probe, dscp(traffic_class), Ipv6Addr::from(octets).into()))
}

/// What an ICMP message says.
pub(crate) fn message(bytes: &[u8]) -> Option<Message> {
    let (kind, code) = (*bytes.first()?, *bytes.get(1)?);
    let error = match (kind, code) {
        (ECHO_REQUEST, _) => return echo(bytes).map(Message::Request),
        (ECHO_REPLY, _) => return echo(bytes).map(Message::Reply),
        (TIME_EXCEEDED, 0) => IcmpError::TimeExceeded,
        // Net and host unreachable.
        (UNREACHABLE, 0 | 1) => IcmpError::NetUnreachable,
        (UNREACHABLE, 3) => IcmpError::PortUnreachable,
        _ => return None,
    };
    let (probe, dscp, destination) = quoted(bytes.get(ICMP_HEADER..)?)?;
    Some(Message::Error { error, probe, dscp, destination })
}

/// What an ICMPv6 message says.
pub(crate) fn message_6(bytes: &[u8]) -> Option<Message> {
    let (kind, code) = (*bytes.first()?, *bytes.get(1)?);
    let error = match (kind, code) {
        (ECHO_REQUEST_6, _) => return echo(bytes).map(Message::Request),
        (ECHO_REPLY_6, _) => return echo(bytes).map(Message::Reply),
        (TIME_EXCEEDED_6, 0) => IcmpError::TimeExceeded,
        // No route to destination, address unreachable.
        (UNREACHABLE_6, 0 | 3) => IcmpError::NetUnreachable,
        (UNREACHABLE_6, 4) => IcmpError::PortUnreachable,
        _ => return None,
    };
    let (probe, dscp, destination) = quoted_6(bytes.get(ICMP_HEADER..)?)?;
    Some(Message::Error { error, probe, dscp, destination })
}

/// The checksum of RFC 1071.
fn checksum(words: impl Iterator<Item = u16>) -> u16 {
    let sum: u32 = words.map(u32::from).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
    bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
}

/// Writes an echo request with a payload of `size` zero bytes. The kernel adds ICMPv6's checksum,
/// which is of addresses, too.
pub(crate) fn write_echo(out: &mut Vec<u8>, kind: u8, identifier: u16, sequence: u16, size: usize) {
    out.clear();
    out.extend([kind, 0, 0, 0]);
    out.extend([identifier, sequence].map(u16::to_be_bytes).as_flattened());
    if kind == ECHO_REQUEST {
        let sum = checksum(words(out));
        out[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    out.resize(out.len() + size, 0);
}

/// A datagram over IPv4 that numbers its packet.
pub(crate) struct Numbered {
    pub from: (Ipv4Addr, u16),
    pub to: (Ipv4Addr, u16),
    pub traffic_class: TrafficClass,
    pub ttl: u8,
    pub number: u16,
    pub size: usize,
}

impl Numbered {
    /// Writes it, all zero behind its headers. The kernel fills in the checksum of the IP header.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        let datagram = (UDP_HEADER + self.size) as u16;
        let [source, destination] = [self.from.0, self.to.0].map(|address| address.octets());
        out.extend([4 << 4 | 5, self.traffic_class.octet()]);
        out.extend(
            [IPV4_HEADER as u16 + datagram, self.number, 0].map(u16::to_be_bytes).as_flattened(),
        );
        out.extend([self.ttl, UDP, 0, 0]);
        out.extend(source);
        out.extend(destination);
        // A pseudo header, and what is not zero of the datagram.
        let header = [self.from.1, self.to.1, datagram];
        let sum = checksum(
            words(&source)
                .chain(words(&destination))
                .chain([u16::from(UDP), datagram])
                .chain(header),
        );
        out.extend(header.map(u16::to_be_bytes).as_flattened());
        // No checksum is written as one of all ones (RFC 768).
        out.extend(if sum == 0 { [0xff; 2] } else { sum.to_be_bytes() });
        out.resize(out.len() + self.size, 0);
    }
}

#[cfg(test)]
mod tests;
