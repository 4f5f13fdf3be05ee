//! Packets and their frames.

use perhop_core::{Duration, Ecn};

use crate::sizes::{short_packet, stream_frame, varint};
use crate::{AckFrequency, Flight, Ranges};

/// A datagram with its packets.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Packet number; the number of the datagram in a handshake.
    pub number: u64,
    /// Payload of the UDP datagram, in bytes.
    pub datagram: u16,
    /// ECN field that it is sent with, or has arrived with.
    pub ecn: Ecn,
    /// Contents.
    pub kind: Kind,
}

impl Packet {
    /// Returns a datagram of a handshake: its flight, its number, and its length.
    pub(crate) fn of_handshake((flight, number, datagram): (Flight, u64, u16)) -> Self {
        Self { number, datagram, ecn: Ecn::NotEct, kind: Kind::Handshake(flight) }
    }

    /// Returns the data that it carries, if any.
    pub fn data(&self) -> Option<&StreamFrame> {
        match &self.kind {
            Kind::OneRtt(frames) => frames.stream.as_ref(),
            Kind::Handshake(_) => None,
        }
    }
}

/// Contents of a datagram.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Initial and Handshake packets.
    Handshake(Flight),
    /// A 1-RTT packet.
    OneRtt(Frames),
}

/// CONNECTION_CLOSE (RFC 9000, section 19.19): its type, an error code of two bytes, and the length
/// of an empty reason.
const CLOSE: u16 = 4;

/// Frames of a 1-RTT packet (RFC 9000, section 19).
#[derive(Clone, Debug, Default)]
pub struct Frames {
    /// ACK.
    pub ack: Option<Ack>,
    /// STREAM, the last frame.
    pub stream: Option<StreamFrame>,
    /// MAX_DATA.
    pub max_data: Option<u64>,
    /// MAX_STREAM_DATA: identifiers of streams, and their limits.
    pub max_stream_data: Vec<(u64, u64)>,
    /// ACK_FREQUENCY (draft-ietf-quic-ack-frequency).
    pub ack_frequency: Option<AckFrequency>,
    /// HANDSHAKE_DONE.
    pub handshake_done: bool,
    /// CONNECTION_CLOSE of an application without an error, H3_NO_ERROR (RFC 9114, section 8.1).
    pub close: bool,
    /// PING.
    pub ping: bool,
    /// PADDING, in bytes.
    pub padding: u16,
}

/// Part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamFrame {
    /// Identifier of the stream.
    pub stream: u64,
    /// Position of its first byte.
    pub offset: u64,
    /// Bytes of data.
    pub length: u16,
    /// True if the data was sent before.
    pub retransmission: bool,
}

/// An ACK frame (RFC 9000, section 19.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Acknowledged packet numbers.
    pub ranges: Ranges,
    /// Time between the arrival of the largest one and this frame.
    pub delay: Duration,
    /// Packets that arrived with ECT(0), ECT(1) and CE; none if no packet had any.
    pub ecn: Option<[u64; 3]>,
}

impl Ack {
    /// Returns the largest acknowledged number.
    pub fn largest(&self) -> u64 {
        self.ranges.largest().unwrap_or(0)
    }

    /// Returns the length of the frame in bytes.
    pub fn bytes(&self) -> u16 {
        let ranges = self.ranges.as_slice();
        // In units of 8 µs (RFC 9000, section 18.2: ack_delay_exponent 3).
        let delay = self.delay.as_picos() / 8_000_000;
        let mut bytes = 1 + varint(self.largest()) + varint(delay) + varint(ranges.len() as u64);
        let mut after = None;
        for &(start, end) in ranges.iter().rev() {
            bytes += varint(end - start);
            if let Some(after) = after {
                bytes += varint(after - end);
            }
            after = Some(start);
        }
        bytes + self.ecn.map_or(0, |counts| counts.into_iter().map(varint).sum())
    }
}

impl Frames {
    /// Returns `true` if the packet elicits an acknowledgement: it has frames besides ACK and
    /// PADDING (RFC 9002, section 2).
    pub fn elicit_ack(&self) -> bool {
        self.stream.is_some()
            || self.max_data.is_some()
            || !self.max_stream_data.is_empty()
            || self.ack_frequency.is_some()
            || self.handshake_done
            || self.ping
    }

    /// Returns the length of all frames in bytes.
    pub fn bytes(&self) -> u16 {
        let mut bytes = self.padding + u16::from(self.handshake_done) + u16::from(self.ping);
        bytes += if self.close { CLOSE } else { 0 };
        bytes += self.ack.as_ref().map_or(0, Ack::bytes);
        bytes += self.max_data.map_or(0, |limit| 1 + varint(limit));
        for &(stream, limit) in &self.max_stream_data {
            bytes += 1 + varint(stream) + varint(limit);
        }
        bytes += self.ack_frequency.map_or(0, AckFrequency::bytes);
        bytes += self.stream.map_or(0, |data| stream_frame(data.stream, data.offset) + data.length);
        bytes
    }

    /// Makes a packet of these frames.
    pub(crate) fn packet(self, number: u64, largest_acked: Option<u64>, ecn: Ecn) -> Packet {
        let datagram = short_packet(number, largest_acked) + self.bytes();
        Packet { number, datagram, ecn, kind: Kind::OneRtt(self) }
    }
}
