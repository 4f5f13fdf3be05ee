//! Packets of either version of IP.

use std::net::IpAddr;

use perhop_core::{IpVersion, Protocol, TrafficClass};
use thiserror::Error;

use crate::checksum::{checksum, fold, sum_of_words};
use crate::ipv4::{DONT_FRAGMENT, FRAGMENT_OFFSET, IPV4_HEADER, Ipv4Header, MORE_FRAGMENTS};
use crate::ipv6::{IPV6_HEADER, Ipv6Header, Transport, skip_extensions};
use crate::tcp::TCP_CHECKSUM;
use crate::udp::UDP_CHECKSUM;
use crate::vnet::PartialChecksum;

/// Protocol numbers (IANA, Assigned Internet Protocol Numbers).
pub mod number {
    /// ICMP of IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP of IPv6.
    pub const ICMPV6: u8 = 58;
    /// Hop-by-hop options of IPv6.
    pub const HOP_BY_HOP: u8 = 0;
    /// Routing header of IPv6.
    pub const ROUTING: u8 = 43;
    /// Fragment header of IPv6.
    pub const FRAGMENT: u8 = 44;
    /// Authentication header.
    pub const AUTHENTICATION: u8 = 51;
    /// Destination options of IPv6.
    pub const DESTINATION_OPTIONS: u8 = 60;

    /// Returns `true` if the number is that of an extension header of IPv6 that another header
    /// follows.
    pub const fn is_extension(number: u8) -> bool {
        matches!(number, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS)
    }
}

/// Reason why bytes are not a valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The version is neither 4 nor 6.
    #[error("neither IPv4 nor IPv6")]
    Version,
    /// A header, or the packet, is longer than the bytes.
    #[error("a truncated header")]
    Truncated,
    /// A length field is less than the header's minimum, or greater than the packet.
    #[error("an invalid length")]
    Length,
    /// The header checksum is wrong.
    #[error("the checksum of the header is wrong")]
    Checksum,
    /// The packet has more extension headers than any sender needs.
    #[error("too many extension headers")]
    Extensions,
}

/// Place of a fragment in its packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    /// Identification, which all fragments of a packet share; zero for IPv6 without a fragment
    /// header.
    pub identification: u32,
    /// Offset in bytes from the beginning of the packet's payload.
    pub offset: u16,
    /// True if more fragments follow.
    pub more: bool,
}

impl Fragment {
    /// Returns `true` if the packet is a fragment.
    pub const fn is_part(self) -> bool {
        self.offset > 0 || self.more
    }
}

/// Values of a valid packet of either version: the fields that hosts and routers read before the
/// transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpPacket {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Length of the packet, in bytes.
    pub length: usize,
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Number of the transport's protocol.
    pub number: u8,
    /// Offset of the transport header from the beginning of the packet, in bytes.
    pub transport: usize,
    /// Source and destination port of TCP and UDP; zero for other protocols.
    pub ports: [u16; 2],
    /// The packet's part, if it is a fragment.
    pub fragment: Fragment,
    /// True if routers may fragment the packet: IPv4 without the flag that forbids it.
    pub may_be_fragmented: bool,
}

impl IpPacket {
    /// Reads a packet at the beginning of `bytes`, which may be longer.
    ///
    /// # Errors
    /// [`Malformed`] if the packet is not whole, or contradicts itself.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        match bytes.first().map(|first| first >> 4) {
            Some(4) => Self::v4(bytes),
            Some(6) => Self::v6(bytes),
            Some(_) => Err(Malformed::Version),
            None => Err(Malformed::Truncated),
        }
    }

    fn v4(bytes: &[u8]) -> Result<Self, Malformed> {
        let fixed = Ipv4Header::of(bytes).ok_or(Malformed::Truncated)?;
        let (header, length) = (fixed.header_length(), usize::from(fixed.total_length()));
        if header < IPV4_HEADER || length < header {
            return Err(Malformed::Length);
        }
        let bytes = bytes.get(..length).ok_or(Malformed::Truncated)?;
        if checksum(sum_of_words(&bytes[..header])) != 0 {
            return Err(Malformed::Checksum);
        }
        let word = fixed.fragment();
        let fragment = Fragment {
            identification: fixed.identification().into(),
            offset: 8 * (word & FRAGMENT_OFFSET),
            more: word & MORE_FRAGMENTS != 0,
        };
        Ok(Self {
            source: fixed.source().into(),
            destination: fixed.destination().into(),
            length,
            traffic_class: fixed.traffic_class(),
            ttl: fixed.ttl(),
            number: fixed.protocol(),
            transport: header,
            ports: ports(fixed.protocol(), fragment, &bytes[header..]),
            fragment,
            may_be_fragmented: word & DONT_FRAGMENT == 0,
        })
    }

    fn v6(bytes: &[u8]) -> Result<Self, Malformed> {
        let fixed = Ipv6Header::of(bytes).ok_or(Malformed::Truncated)?;
        let length = IPV6_HEADER + usize::from(fixed.payload_length());
        let bytes = bytes.get(..length).ok_or(Malformed::Truncated)?;
        let Transport { number, offset, fragment } = skip_extensions(bytes, fixed.next_header())?;
        Ok(Self {
            source: fixed.source().into(),
            destination: fixed.destination().into(),
            length,
            traffic_class: fixed.traffic_class(),
            ttl: fixed.hop_limit(),
            number,
            transport: offset,
            ports: ports(number, fragment, &bytes[offset..]),
            fragment,
            may_be_fragmented: false,
        })
    }

    /// Returns the protocol of the transport, as far as perhop tells them apart.
    pub const fn protocol(&self) -> Protocol {
        let protocol = match (self.number, self.source) {
            (number::TCP, _) => Protocol::Tcp,
            (number::UDP, _) => Protocol::Udp,
            (number::ICMP, IpAddr::V4(_)) | (number::ICMPV6, IpAddr::V6(_)) => Protocol::Icmp,
            _ => Protocol::Other,
        };
        protocol.over(IpVersion::of(self.source.is_ipv6()))
    }

    /// Returns `true` if the packet is a fragment other than the first, which has no transport
    /// header.
    pub const fn is_later_fragment(&self) -> bool {
        self.fragment.offset > 0
    }

    /// Returns the transport header and payload of the packet that was read from `bytes`; empty if
    /// `bytes` are shorter.
    pub fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.transport..self.length).unwrap_or_default()
    }
}

/// Returns the source and destination port; zero for protocols without ports.
fn ports(number: u8, fragment: Fragment, transport: &[u8]) -> [u16; 2] {
    match transport.first_chunk() {
        Some(&[a, b, c, d])
            if matches!(number, number::TCP | number::UDP) && fragment.offset == 0 =>
        {
            [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
        }
        _ => [0; 2],
    }
}

/// Returns `true` if the version field of `bytes` is that of IPv6.
pub fn is_ipv6(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| first >> 4 == 6)
}

/// Sets DSCP, ECN and time to live of a packet of either version, and updates its header checksum.
/// Bytes without a whole header stay as they are.
pub fn set_class_and_ttl(bytes: &mut [u8], class: TrafficClass, ttl: u8) {
    if is_ipv6(bytes) {
        if let Some(mut header) = Ipv6Header::of_mut(bytes) {
            header.set_class_and_hop_limit(class, ttl);
        }
    } else if let Some(mut header) = Ipv4Header::of_mut(bytes) {
        header.set_class_and_ttl(class, ttl);
    }
}

/// Sets the length of a packet of either version to that of `bytes`; the header checksum stays.
/// Bytes without a whole header stay as they are.
pub fn set_length(bytes: &mut [u8], length: usize) {
    if is_ipv6(bytes) {
        if let Some(mut header) = Ipv6Header::of_mut(bytes) {
            header.set_payload_length(length.saturating_sub(IPV6_HEADER) as u16);
        }
    } else if let Some(mut header) = Ipv4Header::of_mut(bytes) {
        header.set_total_length(length as u16);
    }
}

/// Returns the sum of the pseudo-header of a transport of `length` bytes (RFC 9293, section 3.1,
/// and RFC 8200, section 8.1), in the packet that `bytes` begin with; zero without a whole header.
pub fn pseudo_header(bytes: &[u8], number: u8, length: usize) -> u64 {
    let addresses = if is_ipv6(bytes) { bytes.get(8..40) } else { bytes.get(12..20) };
    addresses.map_or(0, |all| sum_of_words(all) + u64::from(number) + length as u64)
}

/// Computes the checksum of TCP or UDP at `offset` in a packet of either version. `length` is that
/// of transport header and payload, in bytes; if `packet` is shorter, the rest counts as zeros.
/// Bytes without a whole header stay as they are.
pub fn fill_transport_checksum(packet: &mut [u8], offset: usize, number: u8, length: usize) {
    let place = if number == number::UDP { UDP_CHECKSUM } else { TCP_CHECKSUM };
    let sum = fold(pseudo_header(packet, number, length));
    let Some(transport) = packet.get_mut(offset..) else { return };
    let Some(field) = transport.get_mut(place..place + 2) else { return };
    field.copy_from_slice(&sum.to_be_bytes());
    PartialChecksum { start: 0, offset: place as u16 }.fill(transport);
}

/// A packet as an ICMP error quotes it: its beginning, of any length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotedPacket<'a> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// DSCP and ECN with which the packet arrived at the sender of the error.
    pub traffic_class: TrafficClass,
    /// Identification of IPv4, or of a fragment.
    pub identification: u32,
    /// Number of the transport's protocol.
    pub number: u8,
    /// The quoted part of the transport header and payload.
    pub transport: &'a [u8],
}

impl<'a> QuotedPacket<'a> {
    /// Reads the beginning of a packet; `None` if its IP header is truncated, or if it is a later
    /// fragment. The header checksum is not verified, because routers change what they quote.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        match bytes.first()? >> 4 {
            4 => {
                let fixed = Ipv4Header::of(bytes)?;
                let header = fixed.header_length();
                (header >= IPV4_HEADER && fixed.fragment() & FRAGMENT_OFFSET == 0).then_some(())?;
                Some(Self {
                    source: fixed.source().into(),
                    destination: fixed.destination().into(),
                    traffic_class: fixed.traffic_class(),
                    identification: fixed.identification().into(),
                    number: fixed.protocol(),
                    transport: bytes.get(header..)?,
                })
            }
            6 => {
                let fixed = Ipv6Header::of(bytes)?;
                let transport = skip_extensions(bytes, fixed.next_header()).ok()?;
                (transport.fragment.offset == 0).then_some(())?;
                Some(Self {
                    source: fixed.source().into(),
                    destination: fixed.destination().into(),
                    traffic_class: fixed.traffic_class(),
                    identification: transport.fragment.identification,
                    number: transport.number,
                    transport: bytes.get(transport.offset..)?,
                })
            }
            _ => None,
        }
    }
}
