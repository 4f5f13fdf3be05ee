//! What routers say (RFC 792, RFC 4443), as real packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use perhop_core::{Dscp, Header, TrafficClass, checksum, sum_of_words};
use perhop_net::IcmpError;

use crate::packet::{
    ICMP, ICMPV6, IPV4_HEADER, IPV6_HEADER, Parsed, pseudo_header, seal_v4, set_length,
};

const ICMP_HEADER: usize = 8;
/// The longest error of IPv4 (RFC 1812, section 4.3.2.3).
const LONGEST_V4: usize = 576;
/// The longest error of IPv6: its least MTU (RFC 4443, section 2.4).
const LONGEST_V6: usize = 1280;

const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;

/// A node's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

/// Whether an error may be sent about a packet (RFC 1122, section 3.2.2, and RFC 4443, section 2.4):
/// not about errors, fragments but the first, or what came from or went to more than one.
pub(crate) fn may_be_complained_of(bytes: &[u8], parsed: &Parsed) -> bool {
    let kind = parsed.payload(bytes).first().copied();
    let is_error = match parsed.number {
        // What is not a query or a reply is an error, or obsolete.
        ICMP => !matches!(kind, Some(0 | 8 | 13..=18)),
        ICMPV6 => kind.is_none_or(|kind| kind < 128),
        _ => false,
    };
    !is_error
        && !parsed.later_fragment
        && is_unicast(parsed.source)
        && is_unicast(parsed.destination)
}

/// Whether an address is that of one node.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_multicast() && !v4.is_broadcast() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_multicast() && !v6.is_unspecified(),
    }
}

/// Writes the packet by which a node tells of an error about `about`; returns its length.
///
/// # Panics
/// If there is no room for the longest error.
pub(crate) fn error(
    out: &mut [u8],
    own: Addresses,
    about: (&[u8], &Parsed),
    error: IcmpError,
) -> usize {
    let (bytes, parsed) = about;
    let (headers, longest) = match parsed.source {
        IpAddr::V4(_) => (IPV4_HEADER, LONGEST_V4),
        IpAddr::V6(_) => (IPV6_HEADER, LONGEST_V6),
    };
    let quote = &bytes[..parsed.length.min(longest - headers - ICMP_HEADER)];
    let length = headers + ICMP_HEADER + quote.len();
    let message = &mut out[headers..length];
    message[..ICMP_HEADER].fill(0);
    (message[0], message[1]) = match parsed.source {
        IpAddr::V4(_) => error.type_and_code(),
        IpAddr::V6(_) => error.type_and_code_v6(),
    };
    message[4..8].copy_from_slice(&error.word().to_be_bytes());
    message[ICMP_HEADER..].copy_from_slice(quote);
    let from = match parsed.source {
        IpAddr::V4(_) => IpAddr::V4(own.v4),
        IpAddr::V6(_) => IpAddr::V6(own.v6),
    };
    ip(&mut out[..length], (from, parsed.source), TrafficClass::new(Dscp::DEFAULT));
    seal(&mut out[..length], headers);
    length
}

/// Turns an echo request into the reply of whom it asks (RFC 792; RFC 4443, section 4.2); says
/// whether it was one. Its mark stays.
pub(crate) fn answer(bytes: &mut [u8], parsed: &Parsed) -> bool {
    let kind = parsed.payload(bytes).first().copied();
    let reply = match (parsed.number, kind) {
        (ICMP, Some(ECHO_REQUEST)) => ECHO_REPLY,
        (ICMPV6, Some(ECHO_REQUEST_V6)) => ECHO_REPLY_V6,
        _ => return false,
    };
    if parsed.later_fragment || parsed.payload(bytes).len() < ICMP_HEADER {
        return false;
    }
    turn_round(bytes);
    bytes[parsed.transport] = reply;
    seal(&mut bytes[..parsed.length], parsed.transport);
    true
}

/// The same for a request in fragments, of which this is one, and the first is one of an echo
/// request. The checksum covers all of them, so that it is changed by what the type changes in it
/// (RFC 1624, equation 3).
pub(crate) fn answer_fragment(bytes: &mut [u8], parsed: &Parsed) {
    turn_round(bytes);
    if parsed.later_fragment {
        return;
    }
    let (start, old) = (parsed.transport, bytes[parsed.transport]);
    let new = if old == ECHO_REQUEST { ECHO_REPLY } else { ECHO_REPLY_V6 };
    bytes[start] = new;
    let sum = u16::from_be_bytes([bytes[start + 2], bytes[start + 3]]);
    let (old, new) = (u16::from(old) << 8, u16::from(new) << 8);
    let sum = checksum(u64::from(!sum) + u64::from(!old) + u64::from(new));
    bytes[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
}

/// Whether a packet, or the first fragment of one, asks for an echo.
pub(crate) fn asks_for_echo(bytes: &[u8], parsed: &Parsed) -> bool {
    let payload = parsed.payload(bytes);
    let asks = matches!(
        (parsed.number, payload.first()),
        (ICMP, Some(&ECHO_REQUEST)) | (ICMPV6, Some(&ECHO_REQUEST_V6))
    );
    asks && !parsed.later_fragment && payload.len() >= ICMP_HEADER
}

/// Sends a packet back to where it came from.
fn turn_round(bytes: &mut [u8]) {
    let (addresses, width) = if bytes[0] >> 4 == 6 { (8, 16) } else { (12, 4) };
    let (from, to) = bytes[addresses..addresses + 2 * width].split_at_mut(width);
    from.swap_with_slice(to);
    if bytes[0] >> 4 == 6 {
        bytes[7] = Header::TTL;
    } else {
        bytes[8] = Header::TTL;
        seal_v4(bytes);
    }
}

/// Writes an IP header of either version.
fn ip(packet: &mut [u8], (from, to): (IpAddr, IpAddr), class: TrafficClass) {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            packet[..IPV4_HEADER].fill(0);
            (packet[0], packet[1]) = (0x45, class.octet());
            (packet[8], packet[9]) = (Header::TTL, ICMP);
            packet[12..16].copy_from_slice(&from.octets());
            packet[16..20].copy_from_slice(&to.octets());
            set_length(packet, packet.len());
            seal_v4(packet);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            packet[..IPV6_HEADER].fill(0);
            (packet[0], packet[1]) = (6 << 4 | class.octet() >> 4, class.octet() << 4);
            (packet[6], packet[7]) = (ICMPV6, Header::TTL);
            packet[8..24].copy_from_slice(&from.octets());
            packet[24..40].copy_from_slice(&to.octets());
            set_length(packet, packet.len());
        }
        _ => unreachable!("a packet is of one version"),
    }
}

/// Computes the checksum of a message that begins at `start`; that of IPv6 covers a pseudo-header.
fn seal(packet: &mut [u8], start: usize) {
    packet[start + 2..start + 4].fill(0);
    let mut sum = sum_of_words(&packet[start..]);
    if packet[0] >> 4 == 6 {
        sum += pseudo_header(packet, ICMPV6, packet.len() - start);
    }
    packet[start + 2..start + 4].copy_from_slice(&checksum(sum).to_be_bytes());
}

#[cfg(test)]
mod tests;
