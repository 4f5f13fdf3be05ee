//! UDP (RFC 768).

use std::borrow::{Borrow, BorrowMut};

use crate::view::header;

/// Length of a UDP header, in bytes.
pub const UDP_HEADER: usize = 8;
/// Offset of the checksum in a UDP header, in bytes.
pub const UDP_CHECKSUM: usize = 6;

header! {
    /// View of a UDP header.
    UdpHeader, UDP_HEADER
}

impl<B: Borrow<[u8; UDP_HEADER]>> UdpHeader<B> {
    /// Returns the source port.
    pub fn source_port(&self) -> u16 {
        self.word::<0>()
    }

    /// Returns the destination port.
    pub fn destination_port(&self) -> u16 {
        self.word::<2>()
    }

    /// Returns the length of header and payload, in bytes.
    pub fn length(&self) -> u16 {
        self.word::<4>()
    }

    /// Returns the checksum; zero if there is none.
    pub fn checksum(&self) -> u16 {
        self.word::<UDP_CHECKSUM>()
    }
}

impl<B: BorrowMut<[u8; UDP_HEADER]>> UdpHeader<B> {
    /// Sets the length of header and payload, in bytes.
    pub fn set_length(&mut self, length: u16) {
        self.set::<4, 2>(length.to_be_bytes());
    }

    /// Sets the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        self.set::<UDP_CHECKSUM, 2>(checksum.to_be_bytes());
    }
}

/// Values of a UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpRepr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Length of header and payload, in bytes.
    pub length: u16,
}

impl UdpRepr {
    /// Reads the values of a header.
    pub fn parse<B: Borrow<[u8; UDP_HEADER]>>(header: &UdpHeader<B>) -> Self {
        Self {
            source_port: header.source_port(),
            destination_port: header.destination_port(),
            length: header.length(),
        }
    }

    /// Returns the header, without a checksum.
    pub fn emit(&self) -> [u8; UDP_HEADER] {
        let words = [self.source_port, self.destination_port, self.length, 0];
        let mut bytes = [0; UDP_HEADER];
        bytes.copy_from_slice(words.map(u16::to_be_bytes).as_flattened());
        bytes
    }
}
