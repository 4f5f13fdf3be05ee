//! TCP (RFC 9293).

mod options;

use std::borrow::{Borrow, BorrowMut};

pub use options::{SackBlocks, TcpOption, TcpOptions};

use perhop_core::AckHint;

use crate::ip::Malformed;
use crate::view::header;

/// Length of a TCP header without options, in bytes.
pub const TCP_HEADER: usize = 20;
/// Offset of the checksum in a TCP header, in bytes.
pub const TCP_CHECKSUM: usize = 16;

/// Control bits (RFC 9293, section 3.1; the ninth is RFC 9768's).
pub mod flags {
    /// No more data from the sender.
    pub const FIN: u16 = 0x001;
    /// Synchronise sequence numbers.
    pub const SYN: u16 = 0x002;
    /// Reset the connection.
    pub const RST: u16 = 0x004;
    /// Push.
    pub const PSH: u16 = 0x008;
    /// The acknowledgement number counts.
    pub const ACK: u16 = 0x010;
    /// The urgent pointer counts.
    pub const URG: u16 = 0x020;
    /// Echo of congestion experienced.
    pub const ECE: u16 = 0x040;
    /// Congestion window reduced.
    pub const CWR: u16 = 0x080;
    /// Accurate ECN.
    pub const AE: u16 = 0x100;
}

const ALL_FLAGS: u16 = 0x1ff;

header! {
    /// View of a TCP header without its options.
    TcpHeader, TCP_HEADER
}

impl<B: Borrow<[u8; TCP_HEADER]>> TcpHeader<B> {
    /// Returns the source port.
    pub fn source_port(&self) -> u16 {
        self.word::<0>()
    }

    /// Returns the destination port.
    pub fn destination_port(&self) -> u16 {
        self.word::<2>()
    }

    /// Returns the source and destination port.
    pub fn ports(&self) -> [u16; 2] {
        [self.source_port(), self.destination_port()]
    }

    /// Returns the sequence number of the first byte.
    pub fn sequence(&self) -> u32 {
        self.long::<4>()
    }

    /// Returns the acknowledgement number.
    pub fn acknowledgement(&self) -> u32 {
        self.long::<8>()
    }

    /// Returns the length of the header with its options as the header states it, in bytes: 0 to
    /// 60.
    pub fn header_length(&self) -> usize {
        4 * usize::from(self.bytes()[12] >> 4)
    }

    /// Returns the control bits: see [`flags`].
    pub fn flags(&self) -> u16 {
        self.word::<12>() & ALL_FLAGS
    }

    /// Returns the window, not scaled.
    pub fn window(&self) -> u16 {
        self.word::<14>()
    }

    /// Returns the checksum.
    pub fn checksum(&self) -> u16 {
        self.word::<TCP_CHECKSUM>()
    }

    /// Returns the urgent pointer.
    pub fn urgent(&self) -> u16 {
        self.word::<18>()
    }
}

impl<B: BorrowMut<[u8; TCP_HEADER]>> TcpHeader<B> {
    /// Sets the sequence number.
    pub fn set_sequence(&mut self, sequence: u32) {
        self.set::<4, 4>(sequence.to_be_bytes());
    }

    /// Sets the length of the header with its options, in bytes: a multiple of four, up to 60.
    pub fn set_header_length(&mut self, length: usize) {
        let reserved = self.bytes()[12] & 0xf;
        self.set::<12, 1>([(length as u8 / 4) << 4 | reserved]);
    }

    /// Sets the control bits.
    pub fn set_flags(&mut self, flags: u16) {
        let word = self.word::<12>() & !ALL_FLAGS | flags & ALL_FLAGS;
        self.set::<12, 2>(word.to_be_bytes());
    }

    /// Sets the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        self.set::<TCP_CHECKSUM, 2>(checksum.to_be_bytes());
    }
}

/// View of a segment whose header is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSegment<'a> {
    header: TcpHeader<&'a [u8; TCP_HEADER]>,
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> TcpSegment<'a> {
    /// Views `bytes` as a segment.
    ///
    /// # Errors
    /// [`Malformed`] if the stated length of the header is less than 20 bytes or more than `bytes`
    /// hold.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = TcpHeader::of(bytes).ok_or(Malformed::Truncated)?;
        let end = header.header_length();
        if end < TCP_HEADER {
            return Err(Malformed::Length);
        }
        let (head, payload) = bytes.split_at_checked(end).ok_or(Malformed::Truncated)?;
        Ok(Self { header, options: &head[TCP_HEADER..], payload })
    }

    /// Returns the header without its options.
    pub const fn header(&self) -> TcpHeader<&'a [u8; TCP_HEADER]> {
        self.header
    }

    /// Returns the bytes of the options.
    pub const fn option_bytes(&self) -> &'a [u8] {
        self.options
    }

    /// Returns the options.
    pub const fn options(&self) -> TcpOptions<'a> {
        TcpOptions::new(self.options)
    }

    /// Returns the payload.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns what an ACK filter reads of this segment. An acknowledgement with an option that may
    /// say more than its number is not pure.
    pub fn ack_hint(&self) -> AckHint {
        let flags = self.header.flags();
        if flags & flags::ACK == 0 {
            return AckHint::NONE;
        }
        let says_nothing = |option| matches!(option, TcpOption::Nop | TcpOption::Timestamps { .. });
        let bare = flags == flags::ACK && self.payload.is_empty();
        AckHint::of(self.header.acknowledgement(), bare && self.options().all(says_nothing))
    }
}

/// Values of a TCP header without its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpRepr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number of the first byte.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Control bits: see [`flags`].
    pub flags: u16,
    /// Window, not scaled.
    pub window: u16,
}

impl TcpRepr {
    /// Reads the values of a header.
    pub fn parse<B: Borrow<[u8; TCP_HEADER]>>(header: &TcpHeader<B>) -> Self {
        Self {
            source_port: header.source_port(),
            destination_port: header.destination_port(),
            sequence: header.sequence(),
            acknowledgement: header.acknowledgement(),
            flags: header.flags(),
            window: header.window(),
        }
    }

    /// Returns the header of a segment without options, and without a checksum.
    pub fn emit(&self) -> [u8; TCP_HEADER] {
        let mut bytes = [0; TCP_HEADER];
        bytes[..2].copy_from_slice(&self.source_port.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.acknowledgement.to_be_bytes());
        let word = (TCP_HEADER as u16 / 4) << 12 | self.flags & ALL_FLAGS;
        bytes[12..14].copy_from_slice(&word.to_be_bytes());
        bytes[14..16].copy_from_slice(&self.window.to_be_bytes());
        bytes
    }
}
