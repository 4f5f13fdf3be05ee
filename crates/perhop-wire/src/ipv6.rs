//! IPv6 and its extension headers (RFC 8200).

use std::borrow::{Borrow, BorrowMut};
use std::net::Ipv6Addr;

use perhop_core::TrafficClass;

use crate::ip::{Fragment, Malformed, number};
use crate::view::header;

/// Length of an IPv6 header without extensions, in bytes.
pub const IPV6_HEADER: usize = 40;
/// Length of a fragment header, in bytes.
pub const FRAGMENT_HEADER: usize = 8;

/// Greatest number of extension headers of a packet. RFC 8200, section 4.1, allows at most one of
/// each kind and two of destination options.
const MOST_EXTENSIONS: usize = 8;

header! {
    /// View of an IPv6 header without its extensions.
    Ipv6Header, IPV6_HEADER
}

impl<B: Borrow<[u8; IPV6_HEADER]>> Ipv6Header<B> {
    /// Returns the DSCP and ECN.
    pub fn traffic_class(&self) -> TrafficClass {
        TrafficClass::from_octet((self.word::<0>() >> 4) as u8)
    }

    /// Returns the flow label, in 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.long::<0>() & 0xf_ffff
    }

    /// Returns the length of the payload, extension headers included, in bytes.
    pub fn payload_length(&self) -> u16 {
        self.word::<4>()
    }

    /// Returns the number of the header that follows.
    pub fn next_header(&self) -> u8 {
        self.bytes()[6]
    }

    /// Returns the hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.bytes()[7]
    }

    /// Returns the source address.
    pub fn source(&self) -> Ipv6Addr {
        self.address::<8>()
    }

    /// Returns the destination address.
    pub fn destination(&self) -> Ipv6Addr {
        self.address::<24>()
    }

    fn address<const AT: usize>(&self) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.bytes()[AT..AT + 16]);
        Ipv6Addr::from(octets)
    }
}

impl<B: BorrowMut<[u8; IPV6_HEADER]>> Ipv6Header<B> {
    /// Sets DSCP, ECN and hop limit.
    pub fn set_class_and_hop_limit(&mut self, class: TrafficClass, hop_limit: u8) {
        let octet = class.octet();
        let flow = self.bytes()[1] & 0xf;
        self.set::<0, 2>([6 << 4 | octet >> 4, octet << 4 | flow]);
        self.set_hop_limit(hop_limit);
    }

    /// Sets the length of the payload, extension headers included, in bytes.
    pub fn set_payload_length(&mut self, length: u16) {
        self.set::<4, 2>(length.to_be_bytes());
    }

    /// Sets the hop limit.
    pub fn set_hop_limit(&mut self, hop_limit: u8) {
        self.set::<7, 1>([hop_limit]);
    }

    /// Exchanges source and destination, which changes no checksum.
    pub fn swap_addresses(&mut self) {
        let (source, destination) = (self.source(), self.destination());
        self.set::<8, 16>(destination.octets());
        self.set::<24, 16>(source.octets());
    }
}

/// Values of an IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Repr {
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Flow label; only its low 20 bits are written.
    pub flow_label: u32,
    /// Length of the payload, extension headers included, in bytes.
    pub payload_length: u16,
    /// Number of the header that follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Ipv6Repr {
    /// Reads the values of a header.
    pub fn parse<B: Borrow<[u8; IPV6_HEADER]>>(header: &Ipv6Header<B>) -> Self {
        Self {
            traffic_class: header.traffic_class(),
            flow_label: header.flow_label(),
            payload_length: header.payload_length(),
            next_header: header.next_header(),
            hop_limit: header.hop_limit(),
            source: header.source(),
            destination: header.destination(),
        }
    }

    /// Returns the header.
    pub fn emit(&self) -> [u8; IPV6_HEADER] {
        let mut bytes = [0; IPV6_HEADER];
        let class = u32::from(self.traffic_class.octet()) << 20;
        let first = 6 << 28 | class | self.flow_label & 0xf_ffff;
        bytes[..4].copy_from_slice(&first.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.payload_length.to_be_bytes());
        (bytes[6], bytes[7]) = (self.next_header, self.hop_limit);
        bytes[8..24].copy_from_slice(&self.source.octets());
        bytes[24..40].copy_from_slice(&self.destination.octets());
        bytes
    }
}

/// Transport header behind an IPv6 header and its extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transport {
    /// Protocol number.
    pub number: u8,
    /// Offset from the beginning of the packet, in bytes.
    pub offset: usize,
    pub fragment: Fragment,
}

/// Skips the extension headers of a packet, up to the first other header, or behind the header of a
/// later fragment. `bytes` may lack the end of the packet, but only behind its extension headers.
pub(crate) fn skip_extensions(bytes: &[u8], next: u8) -> Result<Transport, Malformed> {
    let mut transport =
        Transport { number: next, offset: IPV6_HEADER, fragment: Fragment::default() };
    for extensions in 0.. {
        let Transport { number, offset, fragment } = transport;
        if !number::is_extension(number) || fragment.offset > 0 {
            break;
        }
        if extensions == MOST_EXTENSIONS {
            return Err(Malformed::Extensions);
        }
        let start: &[u8; 8] =
            bytes.get(offset..).and_then(<[u8]>::first_chunk).ok_or(Malformed::Truncated)?;
        transport.number = start[0];
        transport.offset += match number {
            number::FRAGMENT => {
                let word = u16::from_be_bytes([start[2], start[3]]);
                transport.fragment = Fragment {
                    identification: u32::from_be_bytes([start[4], start[5], start[6], start[7]]),
                    offset: word & !7,
                    more: word & 1 != 0,
                };
                FRAGMENT_HEADER
            }
            // In words of 4 bytes, less two (RFC 4302, section 2.2).
            number::AUTHENTICATION => 4 * (usize::from(start[1]) + 2),
            _ => 8 * (usize::from(start[1]) + 1),
        };
        if transport.offset > bytes.len() {
            return Err(Malformed::Truncated);
        }
    }
    Ok(transport)
}
