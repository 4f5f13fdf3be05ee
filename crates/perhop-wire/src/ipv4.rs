//! IPv4 (RFC 791).

use std::borrow::{Borrow, BorrowMut};
use std::net::Ipv4Addr;

use perhop_core::TrafficClass;

use crate::checksum::{checksum, sum_of_words, updated_checksum};
use crate::view::header;

/// Length of an IPv4 header without options, in bytes.
pub const IPV4_HEADER: usize = 20;
/// Flag that forbids fragmentation, in the word of flags and fragment offset.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// Flag of a fragment that is followed by others, in the same word.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// Fragment offset in units of 8 bytes, in the same word.
pub const FRAGMENT_OFFSET: u16 = 0x1fff;

header! {
    /// View of an IPv4 header without its options.
    Ipv4Header, IPV4_HEADER
}

impl<B: Borrow<[u8; IPV4_HEADER]>> Ipv4Header<B> {
    /// Returns the length of the header with its options as the header states it, in bytes: 0 to
    /// 60.
    pub fn header_length(&self) -> usize {
        4 * usize::from(self.bytes()[0] & 0xf)
    }

    /// Returns the DSCP and ECN.
    pub fn traffic_class(&self) -> TrafficClass {
        TrafficClass::from_octet(self.bytes()[1])
    }

    /// Returns the length of the packet, in bytes.
    pub fn total_length(&self) -> u16 {
        self.word::<2>()
    }

    /// Returns the identification, which all fragments of a packet share.
    pub fn identification(&self) -> u16 {
        self.word::<4>()
    }

    /// Returns the word of flags and fragment offset.
    pub fn fragment(&self) -> u16 {
        self.word::<6>()
    }

    /// Returns the time to live.
    pub fn ttl(&self) -> u8 {
        self.bytes()[8]
    }

    /// Returns the number of the protocol that follows.
    pub fn protocol(&self) -> u8 {
        self.bytes()[9]
    }

    /// Returns the header checksum.
    pub fn checksum(&self) -> u16 {
        self.word::<10>()
    }

    /// Returns the source address.
    pub fn source(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.long::<12>())
    }

    /// Returns the destination address.
    pub fn destination(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.long::<16>())
    }
}

impl<B: BorrowMut<[u8; IPV4_HEADER]>> Ipv4Header<B> {
    /// Sets DSCP, ECN and time to live, and updates the checksum for them (RFC 1624).
    pub fn set_class_and_ttl(&mut self, class: TrafficClass, ttl: u8) {
        let before = [self.word::<0>(), self.word::<8>()];
        let after = [
            u16::from_be_bytes([self.bytes()[0], class.octet()]),
            u16::from_be_bytes([ttl, self.protocol()]),
        ];
        if before == after {
            return;
        }
        let sum = updated_checksum(self.checksum(), &before, &after);
        self.set::<1, 1>([class.octet()]);
        self.set::<8, 1>([ttl]);
        self.set::<10, 2>(sum.to_be_bytes());
    }

    /// Sets the length of the packet; the checksum stays.
    pub fn set_total_length(&mut self, length: u16) {
        self.set::<2, 2>(length.to_be_bytes());
    }

    /// Sets the identification; the checksum stays.
    pub fn set_identification(&mut self, identification: u16) {
        self.set::<4, 2>(identification.to_be_bytes());
    }

    /// Sets the word of flags and fragment offset; the checksum stays.
    pub fn set_fragment(&mut self, word: u16) {
        self.set::<6, 2>(word.to_be_bytes());
    }

    /// Sets the time to live; the checksum stays.
    pub fn set_ttl(&mut self, ttl: u8) {
        self.set::<8, 1>([ttl]);
    }

    /// Exchanges source and destination, which changes no checksum.
    pub fn swap_addresses(&mut self) {
        let (source, destination) = (self.source(), self.destination());
        self.set::<12, 4>(destination.octets());
        self.set::<16, 4>(source.octets());
    }
}

/// Computes the checksum of the IPv4 header at the beginning of `bytes`, options included. Bytes
/// that do not hold the header stay as they are.
pub fn fill_ipv4_checksum(bytes: &mut [u8]) {
    let Some(length) = Ipv4Header::of(bytes).map(|header| header.header_length()) else { return };
    let Some(header) = bytes.get_mut(..length) else { return };
    let Some(field) = header.get_mut(10..12) else { return };
    field.fill(0);
    let sum = checksum(sum_of_words(header));
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Values of an IPv4 header without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Repr {
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Length of the packet, in bytes.
    pub total_length: u16,
    /// Identification, which all fragments of a packet share.
    pub identification: u16,
    /// Word of flags and fragment offset.
    pub fragment: u16,
    /// Time to live.
    pub ttl: u8,
    /// Number of the protocol that follows.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Ipv4Repr {
    /// Reads the values of a header; its options and checksum are not among them.
    pub fn parse<B: Borrow<[u8; IPV4_HEADER]>>(header: &Ipv4Header<B>) -> Self {
        Self {
            traffic_class: header.traffic_class(),
            total_length: header.total_length(),
            identification: header.identification(),
            fragment: header.fragment(),
            ttl: header.ttl(),
            protocol: header.protocol(),
            source: header.source(),
            destination: header.destination(),
        }
    }

    /// Returns the header, with its checksum.
    pub fn emit(&self) -> [u8; IPV4_HEADER] {
        let mut bytes = [0; IPV4_HEADER];
        bytes[0] = 4 << 4 | (IPV4_HEADER / 4) as u8;
        bytes[1] = self.traffic_class.octet();
        bytes[2..4].copy_from_slice(&self.total_length.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.identification.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.fragment.to_be_bytes());
        (bytes[8], bytes[9]) = (self.ttl, self.protocol);
        bytes[12..16].copy_from_slice(&self.source.octets());
        bytes[16..20].copy_from_slice(&self.destination.octets());
        fill_ipv4_checksum(&mut bytes);
        bytes
    }
}
