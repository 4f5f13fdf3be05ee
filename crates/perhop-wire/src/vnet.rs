//! The header of `linux/virtio_net.h`, which precedes packets that a host hands to its device: it
//! describes checksums that are left to the device, and several segments that are handed over as
//! one.

use crate::checksum::{checksum, sum_of_words};
use crate::udp::UDP_CHECKSUM;

/// Length of the header, in bytes.
pub const VNET_HEADER: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const ECN: u8 = 0x80;
const NONE: u8 = 0;
const TCP_V4: u8 = 1;
const UDP: u8 = 5;
const TCP_V6: u8 = 4;

/// A checksum that the sending host left to its device. The checksum field holds the sum of the
/// pseudo-header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Offset of the first byte that the checksum covers, from the beginning of the packet, in
    /// bytes.
    pub start: u16,
    /// Offset of the checksum field from `start`, in bytes.
    pub offset: u16,
}

impl PartialChecksum {
    /// Computes the checksum and writes it. Leaves `bytes` unchanged if they do not contain its
    /// field.
    pub fn fill(self, bytes: &mut [u8]) {
        let place = usize::from(self.offset);
        let Some(covered) = bytes.get_mut(self.start.into()..) else { return };
        let sum = match checksum(sum_of_words(covered)) {
            // A checksum of zero would mean that the datagram has none (RFC 768).
            0 if place == UDP_CHECKSUM => 0xffff,
            sum => sum,
        };
        if let Some(field) = covered.get_mut(place..place + 2) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// Protocol of several segments that are handed over as one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segmentation {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP (Linux 6.2).
    Udp,
    /// Something else.
    Other,
}

/// `struct virtio_net_hdr`, in the machine's byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    flags: u8,
    segmentation: u8,
    /// Length of all headers of the packet, in bytes; a hint.
    headers: u16,
    /// Payload of each segment but the last, in bytes.
    segment: u16,
    checksum: PartialChecksum,
}

impl VnetHeader {
    /// Returns the header of one packet, whose checksum is left to the device or complete.
    pub fn of(partial: Option<PartialChecksum>) -> Self {
        let flags = if partial.is_some() { NEEDS_CHECKSUM } else { 0 };
        Self { flags, checksum: partial.unwrap_or_default(), ..Self::default() }
    }

    /// Returns the header of several TCP segments, each but the last with `segment` bytes of
    /// payload.
    pub const fn of_segments(
        is_v6: bool,
        headers: u16,
        segment: u16,
        checksum: PartialChecksum,
    ) -> Self {
        let segmentation = if is_v6 { TCP_V6 } else { TCP_V4 };
        Self { flags: NEEDS_CHECKSUM, segmentation, headers, segment, checksum }
    }

    /// Reads a header.
    pub const fn parse(bytes: &[u8; VNET_HEADER]) -> Self {
        let [flags, segmentation, a, b, c, d, e, f, g, h] = *bytes;
        Self {
            flags,
            segmentation,
            headers: u16::from_ne_bytes([a, b]),
            segment: u16::from_ne_bytes([c, d]),
            checksum: PartialChecksum {
                start: u16::from_ne_bytes([e, f]),
                offset: u16::from_ne_bytes([g, h]),
            },
        }
    }

    /// Returns the bytes of the header.
    pub fn emit(self) -> [u8; VNET_HEADER] {
        let mut bytes = [self.flags, self.segmentation, 0, 0, 0, 0, 0, 0, 0, 0];
        let words = [self.headers, self.segment, self.checksum.start, self.checksum.offset];
        bytes[2..].copy_from_slice(words.map(u16::to_ne_bytes).as_flattened());
        bytes
    }

    /// Returns the checksum that is left to the device, if its field is within a packet of `length`
    /// bytes.
    pub fn partial(self, length: usize) -> Option<PartialChecksum> {
        let end = usize::from(self.checksum.start) + usize::from(self.checksum.offset) + 2;
        (self.flags & NEEDS_CHECKSUM != 0 && end <= length).then_some(self.checksum)
    }

    /// Returns the protocol of the segments if the packet consists of several; `None` for a single
    /// packet.
    pub const fn segmentation(self) -> Option<Segmentation> {
        Some(match self.segmentation & !ECN {
            NONE => return None,
            TCP_V4 => Segmentation::TcpV4,
            TCP_V6 => Segmentation::TcpV6,
            UDP => Segmentation::Udp,
            _ => Segmentation::Other,
        })
    }

    /// Returns the payload of each segment but the last, in bytes.
    pub const fn segment(self) -> usize {
        self.segment as usize
    }
}
