//! STAMP, the Simple Two-Way Active Measurement Protocol (RFC 8762), and its extensions (RFC 8972).
//!
//! A session-sender's packet ([`StampRequest`]) and a session-reflector's ([`StampReply`]) have a
//! form for each [`StampMode`]; TLVs may follow ([`stamp_tlvs`]). The same packets are those of
//! TWAMP Light (RFC 5357, appendix I), whose senders may send fewer bytes.

use perhop_core::{Dscp, TrafficClass};

mod time;

pub use time::{StampError, StampFormat};

/// UDP port of reflectors.
pub const STAMP_PORT: u16 = 862;
/// Length of the HMAC of an authenticated packet, and of an HMAC TLV's value, in bytes.
pub const STAMP_HMAC: usize = 16;
/// Length of a TLV's header, in bytes.
pub const STAMP_TLV_HEADER: usize = 4;

/// Types of TLVs (RFC 8972, section 5.1).
pub mod stamp_tlv {
    /// Extra padding.
    pub const EXTRA_PADDING: u8 = 1;
    /// Location of the session-reflector.
    pub const LOCATION: u8 = 2;
    /// Source of the session-reflector's time stamps.
    pub const TIMESTAMP_INFORMATION: u8 = 3;
    /// DSCP and ECN, as wanted and as received.
    pub const CLASS_OF_SERVICE: u8 = 4;
    /// Counters of packets.
    pub const DIRECT_MEASUREMENT: u8 = 5;
    /// State of an access network.
    pub const ACCESS_REPORT: u8 = 6;
    /// Time stamp of the reply before.
    pub const FOLLOW_UP_TELEMETRY: u8 = 7;
    /// HMAC of the sequence number and the TLVs before it.
    pub const HMAC: u8 = 8;

    /// Flag: the session-reflector does not know the type. Session-senders set it.
    pub const UNRECOGNIZED: u8 = 0x80;
    /// Flag: the length does not fit.
    pub const MALFORMED: u8 = 0x40;
    /// Flag: the HMAC is wrong.
    pub const INTEGRITY: u8 = 0x20;
}

/// Modes, without or with an HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampMode {
    /// Unauthenticated: packets without an HMAC (RFC 8762, sections 4.2.1 and 4.3.1).
    Unauthenticated,
    /// Authenticated: packets with an HMAC (sections 4.2.2 and 4.3.2).
    Authenticated,
}

/// Offsets of the fields of both packets, in bytes.
struct Layout {
    timestamp: usize,
    error: usize,
    ssid: usize,
    received: usize,
    sender_sequence: usize,
    sender_timestamp: usize,
    sender_error: usize,
    ttl: usize,
}

impl StampMode {
    /// Length of a packet without TLVs, in bytes.
    pub const fn length(self) -> usize {
        match self {
            Self::Unauthenticated => 44,
            Self::Authenticated => 112,
        }
    }

    /// Length of the first bytes of a request that has all its fields, in bytes. TWAMP Light's
    /// senders may send no more (RFC 8762, section 4.6).
    pub const fn shortest(self) -> usize {
        match self {
            Self::Unauthenticated => 14,
            Self::Authenticated => 112,
        }
    }

    /// Number of bytes that the HMAC covers and follows (RFC 8762, section 4.4).
    pub const fn authenticated(self) -> usize {
        match self {
            Self::Unauthenticated => 0,
            Self::Authenticated => 96,
        }
    }

    const fn layout(self) -> Layout {
        match self {
            Self::Unauthenticated => Layout {
                timestamp: 4,
                error: 12,
                ssid: 14,
                received: 16,
                sender_sequence: 24,
                sender_timestamp: 28,
                sender_error: 36,
                ttl: 40,
            },
            Self::Authenticated => Layout {
                timestamp: 16,
                error: 24,
                ssid: 26,
                received: 32,
                sender_sequence: 48,
                sender_timestamp: 64,
                sender_error: 72,
                ttl: 80,
            },
        }
    }
}

/// Values of a session-sender's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampRequest {
    /// Sequence number, from 0.
    pub sequence: u32,
    /// Time stamp of sending, in the format that `error` states.
    pub timestamp: u64,
    /// Error of the time stamp.
    pub error: StampError,
    /// Identifier of the session (RFC 8972, section 3); 0 for none.
    pub ssid: u16,
}

impl StampRequest {
    /// Reads the values of a packet; `None` if it is too short.
    pub fn parse(mode: StampMode, bytes: &[u8]) -> Option<Self> {
        if bytes.len() < mode.shortest() {
            return None;
        }
        let at = mode.layout();
        Some(Self {
            sequence: u32::from_be_bytes(field(bytes, 0)?),
            timestamp: u64::from_be_bytes(field(bytes, at.timestamp)?),
            error: StampError::from_bits(u16::from_be_bytes(field(bytes, at.error)?)),
            ssid: field(bytes, at.ssid).map_or(0, u16::from_be_bytes),
        })
    }

    /// Returns the packet without TLVs; the HMAC is zero.
    pub fn emit(&self, mode: StampMode) -> Vec<u8> {
        let (at, mut bytes) = (mode.layout(), vec![0; mode.length()]);
        put(&mut bytes, 0, &self.sequence.to_be_bytes());
        put(&mut bytes, at.timestamp, &self.timestamp.to_be_bytes());
        put(&mut bytes, at.error, &self.error.bits().to_be_bytes());
        put(&mut bytes, at.ssid, &self.ssid.to_be_bytes());
        bytes
    }
}

/// Values of a session-reflector's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampReply {
    /// Sequence number: the sender's, or that of the session if the reflector counts.
    pub sequence: u32,
    /// Time stamp of sending of the reply.
    pub timestamp: u64,
    /// Error of both time stamps of the reflector.
    pub error: StampError,
    /// Identifier of the session, copied.
    pub ssid: u16,
    /// Time stamp of arrival of the request.
    pub received: u64,
    /// Sequence number of the request.
    pub sender_sequence: u32,
    /// Time stamp of the request.
    pub sender_timestamp: u64,
    /// Error of the request's time stamp.
    pub sender_error: StampError,
    /// TTL or hop limit that the request arrived with.
    pub ttl: u8,
}

impl StampReply {
    /// Reads the values of a packet; `None` if it is too short: TWAMP Light's may end with the TTL.
    pub fn parse(mode: StampMode, bytes: &[u8]) -> Option<Self> {
        let at = mode.layout();
        // The first fields are where those of a request are.
        let StampRequest { sequence, timestamp, error, ssid } = StampRequest::parse(mode, bytes)?;
        Some(Self {
            sequence,
            timestamp,
            error,
            ssid,
            received: u64::from_be_bytes(field(bytes, at.received)?),
            sender_sequence: u32::from_be_bytes(field(bytes, at.sender_sequence)?),
            sender_timestamp: u64::from_be_bytes(field(bytes, at.sender_timestamp)?),
            sender_error: StampError::from_bits(u16::from_be_bytes(field(bytes, at.sender_error)?)),
            ttl: *bytes.get(at.ttl)?,
        })
    }

    /// Returns the packet without TLVs; the HMAC is zero.
    pub fn emit(&self, mode: StampMode) -> Vec<u8> {
        let Self { sequence, timestamp, error, ssid, .. } = *self;
        let mut bytes = StampRequest { sequence, timestamp, error, ssid }.emit(mode);
        let at = mode.layout();
        put(&mut bytes, at.received, &self.received.to_be_bytes());
        put(&mut bytes, at.sender_sequence, &self.sender_sequence.to_be_bytes());
        put(&mut bytes, at.sender_timestamp, &self.sender_timestamp.to_be_bytes());
        put(&mut bytes, at.sender_error, &self.sender_error.bits().to_be_bytes());
        put(&mut bytes, at.ttl, &[self.ttl]);
        bytes
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// View of a TLV (RFC 8972, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampTlv<'a> {
    /// Offset of its header, which begins with the flags, in bytes.
    pub offset: usize,
    /// Flags of [`stamp_tlv`].
    pub flags: u8,
    /// Type.
    pub kind: u8,
    /// Value; `None` if the length exceeds the packet, so that no TLV can follow.
    pub value: Option<&'a [u8]>,
}

/// Returns the TLVs from an offset to the end of a packet. Zeros to the end are padding without a
/// TLV, and so are fewer bytes than a header has.
pub fn stamp_tlvs(bytes: &[u8], mut offset: usize) -> impl Iterator<Item = StampTlv<'_>> {
    std::iter::from_fn(move || {
        let rest = bytes.get(offset..)?;
        let &[flags, kind, high, low] = rest.first_chunk()?;
        if flags == 0 && kind == 0 && rest.iter().all(|&byte| byte == 0) {
            return None;
        }
        let end = STAMP_TLV_HEADER + usize::from(u16::from_be_bytes([high, low]));
        let tlv = StampTlv { offset, flags, kind, value: rest.get(STAMP_TLV_HEADER..end) };
        offset = if tlv.value.is_some() { offset + end } else { bytes.len() };
        Some(tlv)
    })
}

/// Appends a TLV as a session-sender sends it (RFC 8972, section 4).
///
/// # Panics
/// If the value has more than 65,535 bytes.
pub fn push_stamp_tlv(bytes: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let length = u16::try_from(value.len()).expect("the value of a TLV has at most 65,535 bytes");
    bytes.extend([stamp_tlv::UNRECOGNIZED, kind]);
    bytes.extend(length.to_be_bytes());
    bytes.extend(value);
}

/// Value of a Class of Service TLV (RFC 8972, section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassOfService {
    /// DSCP that the sender wants on the reply (DSCP1).
    pub wanted: Dscp,
    /// DSCP and ECN field that the request arrived with (DSCP2, ECN).
    pub received: TrafficClass,
    /// Reverse path (RP): 1 if the reflector refused `wanted` and replied with the received DSCP.
    pub reverse: u8,
}

impl ClassOfService {
    /// Length in bytes.
    pub const LENGTH: usize = 4;

    /// Reads a value; `None` if its length is wrong.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let &[a, b, _, _] = <&[u8; Self::LENGTH]>::try_from(value).ok()?;
        let received = (a & 3) << 4 | b >> 4;
        Some(Self {
            wanted: Dscp::new(a >> 2).ok()?,
            received: TrafficClass::from_octet(received << 2 | b >> 2 & 3),
            reverse: b & 3,
        })
    }

    /// Returns the bytes.
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        let received = self.received.octet();
        let (dscp, ecn) = (received >> 2, received & 3);
        [self.wanted.get() << 2 | dscp >> 4, dscp << 4 | ecn << 2 | self.reverse & 3, 0, 0]
    }
}

/// Value of a Direct Measurement TLV (RFC 8972, section 4.5): packets of the session so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectMeasurement {
    /// Packets that the sender has sent.
    pub sent: u32,
    /// Packets that the reflector has received.
    pub received: u32,
    /// Packets that the reflector has sent.
    pub replied: u32,
}

impl DirectMeasurement {
    /// Length in bytes.
    pub const LENGTH: usize = 12;

    /// Reads a value; `None` if its length is wrong.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let bytes = <&[u8; Self::LENGTH]>::try_from(value).ok()?;
        let word = |at| field(bytes, at).map(u32::from_be_bytes);
        Some(Self { sent: word(0)?, received: word(4)?, replied: word(8)? })
    }

    /// Returns the bytes.
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let words = [self.sent, self.received, self.replied].map(u32::to_be_bytes);
        bytes.copy_from_slice(words.as_flattened());
        bytes
    }
}
