//! ICMP (RFC 792) and ICMPv6 (RFC 4443), whose messages have the same form.

use std::borrow::{Borrow, BorrowMut};

use crate::checksum::{checksum, sum_of_words, updated_checksum};
use crate::ip::{is_ipv6, number, pseudo_header};
use crate::view::header;

/// Length of an ICMP header, in bytes.
pub const ICMP_HEADER: usize = 8;

/// Types of ICMP messages over IPv4 (RFC 792; IANA, ICMP Type Numbers).
pub mod icmpv4 {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;

    /// Returns `true` if a message of this type is neither query nor reply: an error, or obsolete.
    pub const fn is_error(kind: u8) -> bool {
        !matches!(kind, ECHO_REPLY | ECHO_REQUEST | 13..=18)
    }
}

/// Types of ICMPv6 messages (RFC 4443).
pub mod icmpv6 {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;

    /// Returns `true` if a message of this type is an error (RFC 4443, section 2.1).
    pub const fn is_error(kind: u8) -> bool {
        kind < 128
    }
}

header! {
    /// View of the header of an ICMP message of either version.
    IcmpHeader, ICMP_HEADER
}

impl<B: Borrow<[u8; ICMP_HEADER]>> IcmpHeader<B> {
    /// Returns the type of the message.
    pub fn kind(&self) -> u8 {
        self.bytes()[0]
    }

    /// Returns the code of the message.
    pub fn code(&self) -> u8 {
        self.bytes()[1]
    }

    /// Returns the checksum.
    pub fn checksum(&self) -> u16 {
        self.word::<2>()
    }

    /// Returns the last word of the header, whose meaning depends on the type: for "packet too
    /// big", the MTU in bytes.
    pub fn rest(&self) -> u32 {
        self.long::<4>()
    }

    /// Returns the identifier of an echo.
    pub fn identifier(&self) -> u16 {
        self.word::<4>()
    }

    /// Returns the sequence number of an echo.
    pub fn sequence(&self) -> u16 {
        self.word::<6>()
    }
}

impl<B: BorrowMut<[u8; ICMP_HEADER]>> IcmpHeader<B> {
    /// Sets the type, and updates the checksum for it (RFC 1624).
    pub fn set_kind(&mut self, kind: u8) {
        let before = self.word::<0>();
        self.set::<0, 1>([kind]);
        let sum = updated_checksum(self.checksum(), &[before], &[self.word::<0>()]);
        self.set::<2, 2>(sum.to_be_bytes());
    }
}

/// Values of an ICMP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpRepr {
    /// Type of the message.
    pub kind: u8,
    /// Code of the message.
    pub code: u8,
    /// Last word of the header, whose meaning depends on the type.
    pub rest: u32,
}

impl IcmpRepr {
    /// Returns the values of an echo request or reply.
    pub const fn echo(kind: u8, identifier: u16, sequence: u16) -> Self {
        Self { kind, code: 0, rest: (identifier as u32) << 16 | sequence as u32 }
    }

    /// Reads the values of a header.
    pub fn parse<B: Borrow<[u8; ICMP_HEADER]>>(header: &IcmpHeader<B>) -> Self {
        Self { kind: header.kind(), code: header.code(), rest: header.rest() }
    }

    /// Returns the header. Its checksum is that of a message over IPv4 that is zero behind the
    /// header; any other needs [`fill_icmp_checksum`].
    pub fn emit(&self) -> [u8; ICMP_HEADER] {
        let mut bytes = [self.kind, self.code, 0, 0, 0, 0, 0, 0];
        bytes[4..].copy_from_slice(&self.rest.to_be_bytes());
        let sum = checksum(sum_of_words(&bytes));
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        bytes
    }
}

/// Computes the checksum of the ICMP message at `offset` to the end of a packet; that of ICMPv6
/// covers a pseudo-header. Bytes without a whole header stay as they are.
pub fn fill_icmp_checksum(packet: &mut [u8], offset: usize) {
    let Some(message) = packet.get_mut(offset..).filter(|all| all.len() >= ICMP_HEADER) else {
        return;
    };
    message[2..4].fill(0);
    let length = message.len();
    let mut sum = sum_of_words(message);
    if is_ipv6(packet) {
        sum += pseudo_header(packet, number::ICMPV6, length);
    }
    packet[offset + 2..offset + 4].copy_from_slice(&checksum(sum).to_be_bytes());
}
