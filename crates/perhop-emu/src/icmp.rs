//! ICMP messages of routers (RFC 792, RFC 4443), as real packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use perhop_core::{Dscp, Header, TrafficClass};
use perhop_net::IcmpError;
use perhop_wire::{
    ICMP_HEADER, IPV4_HEADER, IPV6_HEADER, IcmpHeader, IcmpRepr, IpPacket, Ipv4Header, Ipv4Repr,
    Ipv6Header, Ipv6Repr, QuotedPacket, fill_icmp_checksum, fill_ipv4_checksum, icmpv4, icmpv6,
    is_ipv6, number,
};

/// Length of the longest IPv4 error, in bytes (RFC 1812, section 4.3.2.3).
const LONGEST_V4: usize = 576;
/// Length of the longest IPv6 error, its least MTU, in bytes (RFC 4443, section 2.4).
const LONGEST_V6: usize = 1280;

/// A node's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

/// Returns `true` if an ICMP error may be sent about a packet (RFC 1122, section 3.2.2; RFC 4443,
/// section 2.4): not about ICMP errors, later fragments, and packets from or to several nodes.
pub(crate) fn permits_error(bytes: &[u8], parsed: &IpPacket) -> bool {
    let kind = parsed.payload(bytes).first().copied();
    let is_error = match parsed.number {
        number::ICMP => kind.is_none_or(icmpv4::is_error),
        number::ICMPV6 => kind.is_none_or(icmpv6::is_error),
        _ => false,
    };
    !is_error
        && !parsed.is_later_fragment()
        && is_unicast(parsed.source)
        && is_unicast(parsed.destination)
}

/// Returns `true` if an address is that of one node.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unspecified(),
    }
}

/// Writes the error that a node sends about the packet `about`; returns its length.
///
/// # Panics
/// If there is no room for the longest error.
pub(crate) fn error(
    out: &mut [u8],
    own: Addresses,
    about: (&[u8], &IpPacket),
    error: IcmpError,
) -> usize {
    let (bytes, parsed) = about;
    let (headers, longest, (kind, code)) = match parsed.source {
        IpAddr::V4(_) => (IPV4_HEADER, LONGEST_V4, error.type_and_code()),
        IpAddr::V6(_) => (IPV6_HEADER, LONGEST_V6, error.type_and_code_v6()),
    };
    let quote = &bytes[..parsed.length.min(longest - headers - ICMP_HEADER)];
    let length = headers + ICMP_HEADER + quote.len();
    let (packet, traffic_class) = (&mut out[..length], TrafficClass::new(Dscp::DEFAULT));
    match parsed.source {
        IpAddr::V4(asker) => {
            let header = Ipv4Repr {
                traffic_class,
                total_length: length as u16,
                identification: 0,
                fragment: 0,
                ttl: Header::TTL,
                protocol: number::ICMP,
                source: own.v4,
                destination: asker,
            };
            packet[..headers].copy_from_slice(&header.emit());
        }
        IpAddr::V6(asker) => {
            let header = Ipv6Repr {
                traffic_class,
                flow_label: 0,
                payload_length: (length - headers) as u16,
                next_header: number::ICMPV6,
                hop_limit: Header::TTL,
                source: own.v6,
                destination: asker,
            };
            packet[..headers].copy_from_slice(&header.emit());
        }
    }
    let header = IcmpRepr { kind, code, rest: error.word() }.emit();
    packet[headers..headers + ICMP_HEADER].copy_from_slice(&header);
    packet[headers + ICMP_HEADER..].copy_from_slice(quote);
    fill_icmp_checksum(packet, headers);
    length
}

/// Reads an ICMP error of IPv4 about a packet that is too long: the packet, and the MTU.
pub(crate) fn too_big<'a>(bytes: &'a [u8], parsed: &IpPacket) -> Option<(QuotedPacket<'a>, u32)> {
    let payload = parsed.payload(bytes);
    let header = IcmpHeader::of(payload).filter(|_| parsed.number == number::ICMP)?;
    let error = IcmpError::TooBig { mtu: header.rest() & 0xffff }; // RFC 1191, section 4
    let quoted = QuotedPacket::parse(&payload[ICMP_HEADER..])?;
    ((header.kind(), header.code()) == error.type_and_code()).then_some((quoted, error.word()))
}

/// Turns an echo request into the reply (RFC 792; RFC 4443, section 4.2); returns `true` if it was
/// a request. Its DSCP stays.
pub(crate) fn answer(bytes: &mut [u8], parsed: &IpPacket) -> bool {
    let Some(reply) = reply_to(bytes, parsed) else { return false };
    turn_round(bytes);
    bytes[parsed.transport] = reply;
    fill_icmp_checksum(&mut bytes[..parsed.length], parsed.transport);
    true
}

/// Turns a fragment of an echo request into one of the reply. The checksum covers all fragments,
/// and is updated for the change of the type.
pub(crate) fn answer_fragment(bytes: &mut [u8], parsed: &IpPacket) {
    let reply = reply_to(bytes, parsed);
    turn_round(bytes);
    if let (Some(reply), Some(mut header)) =
        (reply, IcmpHeader::of_mut(&mut bytes[parsed.transport..]))
    {
        header.set_kind(reply);
    }
}

/// Returns the type of the reply to a packet, or to the first fragment of one, if it is an echo
/// request.
pub(crate) fn reply_to(bytes: &[u8], parsed: &IpPacket) -> Option<u8> {
    let header = IcmpHeader::of(parsed.payload(bytes)).filter(|_| !parsed.is_later_fragment())?;
    match (parsed.number, header.kind()) {
        (number::ICMP, icmpv4::ECHO_REQUEST) => Some(icmpv4::ECHO_REPLY),
        (number::ICMPV6, icmpv6::ECHO_REQUEST) => Some(icmpv6::ECHO_REPLY),
        _ => None,
    }
}

/// Exchanges the source and destination of a packet.
fn turn_round(bytes: &mut [u8]) {
    if is_ipv6(bytes) {
        if let Some(mut header) = Ipv6Header::of_mut(bytes) {
            header.swap_addresses();
            header.set_hop_limit(Header::TTL);
        }
    } else if let Some(mut header) = Ipv4Header::of_mut(bytes) {
        header.swap_addresses();
        header.set_ttl(Header::TTL);
        fill_ipv4_checksum(bytes);
    }
}

#[cfg(test)]
mod tests;
