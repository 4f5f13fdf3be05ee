//! Replies of a session-reflector and authentication of TLVs, without sockets.

use perhop_core::{Dscp, TrafficClass};
use perhop_socket::{ClockQuality, Nanos};
use perhop_wire::{
    ClassOfService, DirectMeasurement, STAMP_HMAC, STAMP_TLV_HEADER, StampError, StampFormat,
    StampMode, StampReply, StampRequest, StampTlv, stamp_tlv, stamp_tlvs,
};

use super::key::Key;
use super::sessions::Counters;

/// Bytes of an unauthenticated request below which the reply would be longer: up to the TTL.
/// Senders of TWAMP Light pad requests to this length (RFC 5357, section 4.2.1).
const SHORTEST: usize = 41;

/// Reason to send no reply to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The packet is too short.
    Short,
    /// The HMAC of the packet is wrong.
    Unauthenticated,
}

/// Arrival of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub at: Nanos,
    pub ttl: u8,
    pub class: TrafficClass,
}

/// State of a reflector for its replies.
#[derive(Debug)]
pub(super) struct Reflection<'a> {
    pub key: Option<&'a Key>,
    pub format: StampFormat,
    pub quality: ClockQuality,
    /// DSCPs that a sender may request.
    pub permitted: &'a dyn Permits,
    /// Counters of the session, if the reflector keeps them.
    pub counters: Option<Counters>,
    /// True if a reply is never shorter than the base packet, even if the request is.
    pub short: bool,
}

/// Policy of the DSCPs that senders may request.
pub(super) trait Permits: std::fmt::Debug {
    fn permits(&self, dscp: Dscp) -> bool;
}

/// Returns the mode of a reflector or sender: authenticated with a key.
pub(super) fn mode(key: Option<&Key>) -> StampMode {
    key.map_or(StampMode::Unauthenticated, |_| StampMode::Authenticated)
}

/// Returns the error estimate of a clock for packets.
pub(super) fn stamp_error(quality: ClockQuality, format: StampFormat) -> StampError {
    StampError::new(quality.error_or_unknown(), quality.synchronized, format)
}

/// Reads a request and checks its HMAC. `short` is true if a request may be shorter than its reply.
pub(super) fn check(bytes: &[u8], key: Option<&Key>, short: bool) -> Result<StampRequest, Refusal> {
    let mode = mode(key);
    let shortest = if short { mode.shortest() } else { SHORTEST.max(mode.shortest()) };
    let request = StampRequest::parse(mode, bytes).filter(|_| bytes.len() >= shortest);
    let request = request.ok_or(Refusal::Short)?;
    if !is_authentic(bytes, key) {
        return Err(Refusal::Unauthenticated);
    }
    Ok(request)
}

/// Returns whether the HMAC of a packet is right; always true without a key.
pub(super) fn is_authentic(bytes: &[u8], key: Option<&Key>) -> bool {
    let Some(key) = key else { return true };
    let (covered, rest) =
        bytes.split_at_checked(mode(Some(key)).authenticated()).unwrap_or_default();
    rest.get(..STAMP_HMAC).is_some_and(|tag| key.is_tag(&[covered], tag))
}

/// Writes the HMAC of a packet, if a key is given.
pub(super) fn authenticate(bytes: &mut [u8], key: Option<&Key>) {
    let Some(key) = key else { return };
    let (covered, rest) = bytes.split_at_mut(mode(Some(key)).authenticated());
    rest[..STAMP_HMAC].copy_from_slice(&key.tag(&[covered]));
}

/// Returns the reply to a packet that was checked, as long as the packet (or the base packet, with
/// [`Reflection::short`]), and its traffic class.
/// `now` is called last.
pub(super) fn reflect(
    bytes: &[u8],
    request: &StampRequest,
    arrival: Arrival,
    with: &Reflection<'_>,
    now: impl FnOnce() -> Nanos,
) -> (Vec<u8>, TrafficClass) {
    let mode = mode(with.key);
    let sequence = with.counters.map_or(request.sequence, |counters| counters.replied);
    let mut reply = StampReply {
        sequence,
        timestamp: 0,
        error: stamp_error(with.quality, with.format),
        ssid: request.ssid,
        received: with.format.bits(arrival.at),
        sender_sequence: request.sequence,
        sender_timestamp: request.timestamp,
        sender_error: request.error,
        ttl: arrival.ttl,
    };
    let base = if with.short { mode.length() } else { mode.length().min(bytes.len()) };
    let (tlvs, class) = extensions(bytes, sequence, arrival, with);
    reply.timestamp = with.format.bits(now());
    let mut packet = reply.emit(mode);
    authenticate(&mut packet, with.key);
    packet.truncate(base);
    packet.extend(tlvs);
    (packet, class)
}

/// Returns whether the HMAC TLV of a packet is right. It follows all TLVs but padding; padding
/// alone needs none (RFC 8972, section 4.8). `None` if no check is needed.
fn integrity(bytes: &[u8], key: Option<&Key>) -> Option<bool> {
    let (key, start) = (key?, mode(key).length());
    let others = |tlv: &StampTlv<'_>| tlv.kind != stamp_tlv::EXTRA_PADDING;
    let last = stamp_tlvs(bytes, start).filter(others).last()?;
    let hmacs = stamp_tlvs(bytes, start).filter(|tlv| tlv.kind == stamp_tlv::HMAC).count();
    Some(hmacs == 1 && last.kind == stamp_tlv::HMAC && is_hmac(&last, bytes, start, key))
}

/// Returns whether a TLV is the HMAC of the sequence number and the TLVs before it.
fn is_hmac(tlv: &StampTlv<'_>, bytes: &[u8], start: usize, key: &Key) -> bool {
    let covered = [&bytes[..4], &bytes[start..tlv.offset]];
    tlv.value.is_some_and(|value| key.is_tag(&covered, value))
}

/// Returns the TLVs of a reply, and its traffic class.
fn extensions(
    bytes: &[u8],
    sequence: u32,
    arrival: Arrival,
    with: &Reflection<'_>,
) -> (Vec<u8>, TrafficClass) {
    let start = mode(with.key).length();
    let mut class = arrival.class;
    // CE of the request is not repeated on the reply.
    if class.octet() & 3 == 3 {
        class = TrafficClass::from_octet(class.octet() & !3 | 2);
    }
    let mut copy = bytes.get(start..).unwrap_or_default().to_vec();
    let failed = integrity(bytes, with.key) == Some(false);
    for tlv in stamp_tlvs(bytes, start) {
        let flags = &mut copy[tlv.offset - start];
        if failed {
            *flags = stamp_tlv::INTEGRITY;
            continue;
        }
        let at = tlv.offset - start + STAMP_TLV_HEADER;
        let Some(value) = tlv.value else {
            *flags = stamp_tlv::MALFORMED;
            break;
        };
        let place = at..at + value.len();
        let expected = match tlv.kind {
            stamp_tlv::EXTRA_PADDING => value.len(),
            stamp_tlv::CLASS_OF_SERVICE | stamp_tlv::TIMESTAMP_INFORMATION => 4,
            stamp_tlv::DIRECT_MEASUREMENT if with.counters.is_some() => DirectMeasurement::LENGTH,
            stamp_tlv::HMAC if with.key.is_some() => STAMP_HMAC,
            _ => {
                *flags = stamp_tlv::UNRECOGNIZED;
                continue;
            }
        };
        if value.len() != expected {
            *flags = stamp_tlv::MALFORMED;
            break;
        }
        *flags = 0;
        match tlv.kind {
            stamp_tlv::CLASS_OF_SERVICE => {
                let Some(asked) = ClassOfService::parse(value) else { continue };
                let permitted = with.permitted.permits(asked.wanted);
                if permitted {
                    class = class.with_dscp(asked.wanted);
                }
                let reverse = u8::from(!permitted);
                let answer = ClassOfService { received: arrival.class, reverse, ..asked };
                copy[place].copy_from_slice(&answer.emit());
            }
            stamp_tlv::TIMESTAMP_INFORMATION => {
                // RFC 8972, section 5.4: NTP, or local; section 5.5: software, local.
                let source = if with.quality.synchronized { 1 } else { 5 };
                copy[place].copy_from_slice(&[source, 2, source, 2]);
            }
            stamp_tlv::DIRECT_MEASUREMENT => {
                let (Some(asked), Some(counters)) =
                    (DirectMeasurement::parse(value), with.counters)
                else {
                    continue;
                };
                let Counters { received, replied } = counters;
                // Including this reply.
                let replied = replied.wrapping_add(1);
                let answer = DirectMeasurement { received, replied, ..asked };
                copy[place].copy_from_slice(&answer.emit());
            }
            stamp_tlv::HMAC => {
                if let Some(key) = with.key {
                    let tag = key.tag(&[&sequence.to_be_bytes(), &copy[..at - STAMP_TLV_HEADER]]);
                    copy[place].copy_from_slice(&tag);
                }
            }
            _ => {}
        }
    }
    (copy, class)
}

/// Returns the TLVs of a reply that a session-sender may use (RFC 8972, section 4): none if the
/// HMAC is wrong or the reflector has flagged the sender's as wrong, and none after a malformed
/// one.
pub(super) fn usable<'a>(
    bytes: &'a [u8],
    key: Option<&Key>,
) -> impl Iterator<Item = (u8, &'a [u8])> {
    let start = mode(key).length();
    let trusted = integrity(bytes, key) != Some(false)
        && stamp_tlvs(bytes, start).all(|tlv| tlv.flags & stamp_tlv::INTEGRITY == 0);
    stamp_tlvs(bytes, if trusted { start } else { bytes.len() })
        .take_while(|tlv| tlv.flags & stamp_tlv::MALFORMED == 0)
        .filter(|tlv| tlv.flags & stamp_tlv::UNRECOGNIZED == 0)
        .filter_map(|tlv| Some((tlv.kind, tlv.value?)))
}
