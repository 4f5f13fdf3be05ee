//! Segments between a sender and a receiver.

use perhop_core::{AckHint, Ecn};

use crate::{HEADER_BYTES, Offset, TIMESTAMP_BYTES};

/// A position in the stream as the header represents it: its low 32 bits. Connections start at zero
/// here; initial sequence numbers are added when packets are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seq(pub u32);

impl Seq {
    /// Returns the position's low 32 bits.
    pub const fn from_offset(offset: Offset) -> Self {
        Self(offset as u32)
    }

    /// Returns the position nearest to `near` with these low 32 bits; `None` below zero.
    pub const fn to_offset(self, near: Offset) -> Option<Offset> {
        let distance = self.0.wrapping_sub(near as u32) as i32;
        near.checked_add_signed(distance as i64)
    }
}

/// Control bits, and a bit that only the model has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Opens the connection.
    pub const SYN: Self = Self(1);
    /// The acknowledgement is valid.
    pub const ACK: Self = Self(2);
    /// Ends the stream.
    pub const FIN: Self = Self(4);
    /// Sent before: not in a real header, but counters of reordering must not take a retransmission
    /// for a late arrival.
    pub const RETRANSMISSION: Self = Self(8);
    /// Echo of congestion (RFC 3168, section 6.1).
    pub const ECE: Self = Self(16);
    /// The congestion window was reduced (RFC 3168, section 6.1).
    pub const CWR: Self = Self(32);
    /// The third bit of accurate ECN (RFC 9768, section 3.1).
    pub const AE: Self = Self(64);

    /// Returns `true` if every bit of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the bits of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns AE, CWR and ECE as a number: after the handshake, AccECN's counter (RFC 9768,
    /// section 3.2.2).
    pub(crate) const fn ace(self) -> u8 {
        self.0 >> 4 & 7
    }

    /// Returns the bits that encode a number below 8.
    pub(crate) const fn from_ace(ace: u8) -> Self {
        Self((ace & 7) << 4)
    }
}

/// Up to three SACK blocks (RFC 2018), the most recent first: as many as fit into a header with
/// timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(Seq, Seq); 3],
    count: u8,
}

impl SackBlocks {
    /// Adds a block from its first byte to the one after its last, unless there are three.
    pub fn push(&mut self, start: Offset, end: Offset) {
        if let Some(block) = self.blocks.get_mut(usize::from(self.count)) {
            *block = (Seq::from_offset(start), Seq::from_offset(end));
            self.count += 1;
        }
    }

    /// Returns the blocks.
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.count)]
    }

    /// Returns the bytes that the option takes in the header, padded to words.
    fn option_bytes(&self) -> u32 {
        match self.count {
            0 => 0,
            count => 4 + 8 * u32::from(count),
        }
    }
}

/// A TCP segment without its ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Position of the first byte.
    pub seq: Seq,
    /// Next byte that the sender of this segment expects.
    pub ack: Seq,
    /// Bytes beyond `ack` that the receiver has room for.
    pub window: u32,
    /// Length of the data, in bytes.
    pub payload: u16,
    /// Control bits.
    pub flags: Flags,
    /// ECN field of its packet, when it is sent and when it arrives.
    pub ecn: Ecn,
    /// Timestamps, value and echo, in microseconds (RFC 7323), if the connection uses them.
    pub timestamps: Option<(u32, u32)>,
    /// Blocks of data that arrived beyond `ack`.
    pub sack: SackBlocks,
}

impl Segment {
    /// Returns the length of the IPv4 packet that carries this segment, in bytes; for a SYN,
    /// without the options of its [`Handshake`](crate::Handshake).
    pub fn ip_bytes(&self) -> u32 {
        let timestamps = if self.timestamps.is_some() { TIMESTAMP_BYTES } else { 0 };
        HEADER_BYTES + timestamps + self.sack.option_bytes() + u32::from(self.payload)
    }

    /// Returns what an ACK filter reads of this segment.
    #[inline]
    pub fn ack_hint(&self) -> AckHint {
        match self.flags.has(Flags::ACK) {
            true => {
                let bare = self.flags == Flags::ACK && self.payload == 0;
                AckHint::of(self.ack.0, bare && self.sack.count == 0)
            }
            false => AckHint::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_that_say_more_are_not_pure() {
        let pure = Segment { ack: Seq(4_000), flags: Flags::ACK, ..Segment::default() };
        assert!(pure.ack_hint().is_pure());
        let mut sack = SackBlocks::default();
        sack.push(5_000, 6_000);
        let more = [
            Segment { payload: 1, ..pure },
            Segment { sack, ..pure },
            Segment { flags: Flags::ACK.with(Flags::ECE), ..pure },
            Segment { flags: Flags::ACK.with(Flags::SYN), ..pure },
            Segment { flags: Flags::SYN, ..pure },
        ];
        assert!(more.iter().all(|segment| !segment.ack_hint().is_pure()));
        assert_eq!(more[4].ack_hint(), AckHint::NONE);
    }

    #[test]
    fn positions_survive_the_wrap() {
        for near in [0_u64, 1 << 31, u32::MAX.into(), 1 << 40, (1 << 40) + 5] {
            for distance in [-70_000_i64, -1, 0, 1, 70_000, 1 << 30] {
                let Some(offset) = near.checked_add_signed(distance) else { continue };
                assert_eq!(Seq::from_offset(offset).to_offset(near), Some(offset));
            }
        }
    }

    #[test]
    fn a_position_before_the_stream_is_none() {
        assert_eq!(Seq(u32::MAX).to_offset(0), None);
    }

    #[test]
    fn options_lengthen_the_packet() {
        let mut segment = Segment { payload: 1448, ..Segment::default() };
        assert_eq!(segment.ip_bytes(), 1488);
        segment.timestamps = Some((0, 0));
        assert_eq!(segment.ip_bytes(), 1500);
        (1..5).for_each(|block| segment.sack.push(block * 2, block * 2 + 1));
        assert_eq!(segment.sack.as_slice().len(), 3);
        assert_eq!(segment.ip_bytes(), 1528);
    }
}
