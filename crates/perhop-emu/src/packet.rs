//! Real packets: what the network has to know of them, and what it changes in them.
//!
//! IPv4 (RFC 791) and IPv6 (RFC 8200). Whoever sends may send anything, so that nothing is believed
//! that is not checked: what cannot be read is [refused](Malformed), and never read beyond its end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use perhop_core::{Header, Protocol, TrafficClass, checksum, fold, sum_of_words};
use thiserror::Error;

/// The length of an IPv4 header without options.
pub(crate) const IPV4_HEADER: usize = 20;
/// The length of an IPv6 header without extensions.
pub(crate) const IPV6_HEADER: usize = 40;

// Protocol numbers (IANA, Assigned Internet Protocol Numbers).
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ICMPV6: u8 = 58;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// How many extension headers a packet may have; no packet that means well has more than one of each
/// and two of destination options (RFC 8200, section 4.1).
const MOST_EXTENSIONS: usize = 8;

/// Why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Malformed {
    #[error("neither IPv4 nor IPv6")]
    Version,
    #[error("a header is not whole")]
    Truncated,
    #[error("a length that cannot be")]
    Length,
    #[error("the checksum of the header is wrong")]
    Checksum,
    #[error("too many extension headers")]
    Extensions,
}

/// What is read of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Of the packet, in bytes.
    pub length: usize,
    pub traffic_class: TrafficClass,
    pub ttl: u8,
    pub protocol: Protocol,
    /// The number of the protocol that follows the headers of IP.
    pub number: u8,
    /// Where it begins.
    pub transport: usize,
    /// Source and destination; zero where there are none.
    pub ports: [u16; 2],
    /// Whether it is a fragment other than the first, which has no transport's header.
    pub later_fragment: bool,
    /// Whether it is IPv4 and may be divided on its way.
    pub may_be_divided: bool,
}

impl Parsed {
    /// Reads a packet at the beginning of `bytes`.
    pub fn new(bytes: &[u8]) -> Result<Self, Malformed> {
        match bytes.first().map(|first| first >> 4) {
            Some(4) => Self::v4(bytes),
            Some(6) => Self::v6(bytes),
            Some(_) => Err(Malformed::Version),
            None => Err(Malformed::Truncated),
        }
    }

    fn v4(bytes: &[u8]) -> Result<Self, Malformed> {
        let fixed: &[u8; IPV4_HEADER] = bytes.first_chunk().ok_or(Malformed::Truncated)?;
        let header = 4 * usize::from(fixed[0] & 0xf);
        let length = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if header < IPV4_HEADER || length < header {
            return Err(Malformed::Length);
        }
        if length > bytes.len() {
            return Err(Malformed::Truncated);
        }
        if checksum(sum_of_words(&bytes[..header])) != 0 {
            return Err(Malformed::Checksum);
        }
        let fragment = u16::from_be_bytes([fixed[6], fixed[7]]);
        let address = |at: usize| {
            let octets: [u8; 4] = fixed[at..at + 4].try_into().expect("four are four");
            IpAddr::V4(Ipv4Addr::from(octets))
        };
        let parsed = Self {
            source: address(12),
            destination: address(16),
            length,
            traffic_class: TrafficClass::from_octet(fixed[1]),
            ttl: fixed[8],
            protocol: protocol(fixed[9], ICMP),
            number: fixed[9],
            transport: header,
            ports: [0; 2],
            later_fragment: fragment & 0x1fff != 0,
            may_be_divided: fragment & 0x4000 == 0,
        };
        Ok(parsed.with_ports(bytes))
    }

    fn v6(bytes: &[u8]) -> Result<Self, Malformed> {
        let fixed: &[u8; IPV6_HEADER] = bytes.first_chunk().ok_or(Malformed::Truncated)?;
        let length = IPV6_HEADER + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        if length > bytes.len() {
            return Err(Malformed::Truncated);
        }
        let bytes = &bytes[..length];
        let address = |at: usize| {
            let octets: [u8; 16] = fixed[at..at + 16].try_into().expect("sixteen are sixteen");
            IpAddr::V6(Ipv6Addr::from(octets))
        };
        let (mut next, mut at, mut later_fragment) = (fixed[6], IPV6_HEADER, false);
        let mut extensions = 0;
        while matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS)
            && !later_fragment
        {
            extensions += 1;
            if extensions > MOST_EXTENSIONS {
                return Err(Malformed::Extensions);
            }
            let start = bytes.get(at..at + 8).ok_or(Malformed::Truncated)?;
            at += match next {
                FRAGMENT => {
                    later_fragment = u16::from_be_bytes([start[2], start[3]]) & 0xfff8 != 0;
                    8
                }
                // In words of 4 bytes, less two (RFC 4302, section 2.2).
                AUTHENTICATION => 4 * (usize::from(start[1]) + 2),
                _ => 8 * (usize::from(start[1]) + 1),
            };
            if at > length {
                return Err(Malformed::Truncated);
            }
            next = start[0];
        }
        let class = fixed[0] << 4 | fixed[1] >> 4;
        let parsed = Self {
            source: address(8),
            destination: address(24),
            length,
            traffic_class: TrafficClass::from_octet(class),
            ttl: fixed[7],
            protocol: protocol(next, ICMPV6),
            number: next,
            transport: at,
            ports: [0; 2],
            later_fragment,
            may_be_divided: false,
        };
        Ok(parsed.with_ports(bytes))
    }

    fn with_ports(mut self, bytes: &[u8]) -> Self {
        if matches!(self.protocol, Protocol::Tcp | Protocol::Udp)
            && !self.later_fragment
            && let Some(&[a, b, c, d]) = bytes[self.transport..self.length].first_chunk()
        {
            self.ports = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
        }
        self
    }

    /// What follows the headers of IP.
    pub fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.transport..self.length]
    }
}

/// `icmp` is the number of this version's control messages.
fn protocol(number: u8, icmp: u8) -> Protocol {
    match number {
        TCP => Protocol::Tcp,
        UDP => Protocol::Udp,
        number if number == icmp => Protocol::Icmp,
        _ => Protocol::Other,
    }
}

/// Writes into a packet what the network has changed in its header: the mark and the time to live.
///
/// # Panics
/// If it is not a packet that was parsed.
pub(crate) fn patch(bytes: &mut [u8], header: &Header) {
    let octet = header.traffic_class.octet();
    if bytes[0] >> 4 == 6 {
        bytes[0] = 6 << 4 | octet >> 4;
        bytes[1] = octet << 4 | bytes[1] & 0xf;
        bytes[7] = header.ttl;
        return;
    }
    let [class, ttl] = [bytes[1], bytes[8]];
    if [class, ttl] == [octet, header.ttl] {
        return;
    }
    // RFC 1624: HC' = ~(~HC + ~m + m'), of both words that change.
    let old = !u16::from_be_bytes([bytes[10], bytes[11]]);
    let before = [u16::from_be_bytes([bytes[0], class]), u16::from_be_bytes([ttl, bytes[9]])];
    let after = [u16::from_be_bytes([bytes[0], octet]), u16::from_be_bytes([header.ttl, bytes[9]])];
    let removed: u64 = before.iter().map(|&word| u64::from(!word)).sum();
    let added: u64 = after.iter().map(|&word| u64::from(word)).sum();
    let sum = !fold(u64::from(old) + removed + added);
    (bytes[1], bytes[8]) = (octet, header.ttl);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Computes the checksum of an IPv4 header anew.
pub(crate) fn seal_v4(bytes: &mut [u8]) {
    let header = 4 * usize::from(bytes[0] & 0xf);
    bytes[10..12].fill(0);
    let sum = checksum(sum_of_words(&bytes[..header]));
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Writes the length of a packet into its header, of either version.
pub(crate) fn set_length(bytes: &mut [u8], length: usize) {
    if bytes[0] >> 4 == 6 {
        bytes[4..6].copy_from_slice(&((length - IPV6_HEADER) as u16).to_be_bytes());
    } else {
        bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    }
}

/// The sum of the pseudo-header of a transport (RFC 9293, section 3.1, and RFC 8200, section 8.1),
/// of `length` bytes.
pub(crate) fn pseudo_header(bytes: &[u8], number: u8, length: usize) -> u64 {
    let addresses = if bytes[0] >> 4 == 6 { &bytes[8..40] } else { &bytes[12..20] };
    sum_of_words(addresses) + u64::from(number) + length as u64
}

#[cfg(test)]
pub(crate) mod tests;
