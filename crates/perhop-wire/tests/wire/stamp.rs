//! STAMP: packets written by hand, of random values, and damaged.

use perhop_core::{Dscp, TrafficClass};
use perhop_fuzz::fuzz;
use perhop_wire::{
    ClassOfService, DirectMeasurement, StampError, StampFormat, StampMode, StampReply,
    StampRequest, push_stamp_tlv, stamp_tlv, stamp_tlvs,
};
use proptest::prelude::*;

const MODES: [StampMode; 2] = [StampMode::Unauthenticated, StampMode::Authenticated];

fn error(bits: u16) -> StampError {
    StampError::from_bits(bits)
}

fn request(sequence: u32, timestamp: u64, bits: u16, ssid: u16) -> StampRequest {
    StampRequest { sequence, timestamp, error: error(bits), ssid }
}

/// RFC 8762, figures 2 and 4, with the identifier of RFC 8972, figures 1 and 2.
#[test]
fn requests_have_the_form_of_the_figures() {
    let values = request(0x0102_0304, 0x1112_1314_1516_1718, 0x8a23, 0x3132);
    let open = values.emit(StampMode::Unauthenticated);
    let mut expected = vec![1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
    expected.extend([0x8a, 0x23, 0x31, 0x32]);
    expected.resize(44, 0);
    assert_eq!(open, expected);
    let closed = values.emit(StampMode::Authenticated);
    let mut expected = vec![1, 2, 3, 4];
    expected.resize(16, 0);
    expected.extend(&open[4..16]);
    expected.resize(112, 0);
    assert_eq!(closed, expected);
}

/// RFC 8762, figures 5 and 6.
#[test]
fn replies_have_the_form_of_the_figures() {
    let values = StampReply {
        sequence: 0x0102_0304,
        timestamp: 0x1112_1314_1516_1718,
        error: error(0x4a23),
        ssid: 0x3132,
        received: 0x4142_4344_4546_4748,
        sender_sequence: 0x5152_5354,
        sender_timestamp: 0x6162_6364_6566_6768,
        sender_error: error(0x0101),
        ttl: 0x7f,
    };
    let mut open = values.sequence.to_be_bytes().to_vec();
    open.extend(values.timestamp.to_be_bytes());
    open.extend([0x4a, 0x23, 0x31, 0x32]);
    open.extend(values.received.to_be_bytes());
    open.extend(values.sender_sequence.to_be_bytes());
    open.extend(values.sender_timestamp.to_be_bytes());
    open.extend([1, 1, 0, 0, 0x7f, 0, 0, 0]);
    assert_eq!(values.emit(StampMode::Unauthenticated), open);
    let mut closed = open[..4].to_vec();
    closed.resize(16, 0);
    closed.extend(&open[4..16]);
    closed.resize(32, 0);
    closed.extend(&open[16..24]);
    closed.resize(48, 0);
    closed.extend(&open[24..28]);
    closed.resize(64, 0);
    closed.extend(&open[28..38]);
    closed.resize(80, 0);
    closed.push(0x7f);
    closed.resize(112, 0);
    assert_eq!(values.emit(StampMode::Authenticated), closed);
}

/// RFC 8972, figure 11.
#[test]
fn classes_of_service_have_the_form_of_the_figure() {
    let received = TrafficClass::from_octet(0b10_10_10_11);
    let wanted = Dscp::new(0b11_00_11).unwrap();
    let bytes = ClassOfService { wanted, received, reverse: 1 }.emit();
    assert_eq!(bytes, [0b11_00_11_10, 0b10_10_11_01, 0, 0]);
}

#[test]
fn instants_of_both_formats() {
    // 2000-01-01 is 946,684,800 s after 1970, and 3,155,673,600 s after 1900.
    let nanos = 946_684_800_500_000_000;
    assert_eq!(StampFormat::Ntp.bits(nanos), 3_155_673_600 << 32 | 1 << 31);
    assert_eq!(StampFormat::Ptp.bits(nanos), 946_684_800 << 32 | 500_000_000);
    // The NTP era ends in 2036, and that of 32 bits since 1970 in 2106.
    for year in [2035, 2036, 2037, 2105, 2107] {
        let nanos = (year - 1970) * 31_556_952 * 1_000_000_000 + 123_456_789;
        for format in [StampFormat::Ntp, StampFormat::Ptp] {
            assert_eq!(format.nanos(format.bits(nanos), nanos + 7_000_000_000), nanos);
        }
    }
}

#[test]
fn zeros_are_padding() {
    let mut bytes = request(1, 2, 1, 0).emit(StampMode::Unauthenticated);
    bytes.resize(100, 0);
    assert_eq!(stamp_tlvs(&bytes, 44).count(), 0);
    bytes.truncate(44);
    push_stamp_tlv(&mut bytes, stamp_tlv::CLASS_OF_SERVICE, &[0; 4]);
    bytes.extend([0; 30]);
    let tlvs: Vec<_> = stamp_tlvs(&bytes, 44).collect();
    assert_eq!(tlvs.len(), 1);
    assert_eq!((tlvs[0].offset, tlvs[0].flags, tlvs[0].kind), (44, 0x80, 4));
    assert_eq!(tlvs[0].value, Some(&[0; 4][..]));
    // One that leads beyond the end is the last.
    bytes.truncate(50);
    assert_eq!(stamp_tlvs(&bytes, 44).map(|tlv| tlv.value).collect::<Vec<_>>(), [None]);
}

fn replies() -> impl Strategy<Value = StampReply> {
    let halves = (any::<[u32; 2]>(), any::<[u64; 3]>(), any::<[u16; 3]>(), any::<u8>());
    halves.prop_map(|(words, times, shorts, ttl)| StampReply {
        sequence: words[0],
        timestamp: times[0],
        error: error(shorts[0]),
        ssid: shorts[1],
        received: times[1],
        sender_sequence: words[1],
        sender_timestamp: times[2],
        sender_error: error(shorts[2]),
        ttl,
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(reply in replies()) {
        for mode in MODES {
            prop_assert_eq!(StampReply::parse(mode, &reply.emit(mode)), Some(reply));
            let StampReply { sequence, timestamp, error, ssid, .. } = reply;
            let request = StampRequest { sequence, timestamp, error, ssid };
            prop_assert_eq!(StampRequest::parse(mode, &request.emit(mode)), Some(request));
        }
    }

    #[test]
    fn values_of_tlvs_are_read(words in any::<[u32; 3]>(), octets in any::<[u8; 3]>()) {
        let [sent, received, replied] = words;
        let counts = DirectMeasurement { sent, received, replied };
        prop_assert_eq!(DirectMeasurement::parse(&counts.emit()), Some(counts));
        let [wanted, received, reverse] = octets;
        let wanted = Dscp::new(wanted >> 2).unwrap();
        let received = TrafficClass::from_octet(received);
        let class = ClassOfService { wanted, received, reverse: reverse & 3 };
        prop_assert_eq!(ClassOfService::parse(&class.emit()), Some(class));
    }

    /// An instant is exact to the nanosecond in both formats, near a clock up to 60 years off.
    #[test]
    fn instants_are_read(nanos in 0..10_u64.pow(19), away in -60_i64..60) {
        let near = nanos.saturating_add_signed(away * 31_556_952 * 1_000_000_000);
        for format in [StampFormat::Ntp, StampFormat::Ptp] {
            prop_assert_eq!(format.nanos(format.bits(nanos), near), nanos);
        }
    }

    /// The estimate is not below the error, and within 1% and a unit above it.
    #[test]
    fn errors_are_rounded_up(shift in 0..63_u32, random in any::<u64>()) {
        let nanos = random >> shift;
        let written = StampError::new(nanos, true, StampFormat::Ptp);
        prop_assert_eq!(StampError::from_bits(written.bits()), written);
        prop_assert!(written.multiplier > 0);
        prop_assert!(written.nanos() >= nanos);
        prop_assert!(written.nanos() <= nanos.saturating_add(nanos / 64 + 1));
    }
}

/// A packet with TLVs of all kinds.
fn seed(mode: StampMode) -> Vec<u8> {
    let mut bytes = request(1, 2, 0x8001, 4).emit(mode);
    push_stamp_tlv(&mut bytes, stamp_tlv::CLASS_OF_SERVICE, &[0xb8, 0, 0, 0]);
    push_stamp_tlv(&mut bytes, stamp_tlv::DIRECT_MEASUREMENT, &[1; 12]);
    push_stamp_tlv(&mut bytes, stamp_tlv::TIMESTAMP_INFORMATION, &[0; 4]);
    push_stamp_tlv(&mut bytes, 200, &[]);
    push_stamp_tlv(&mut bytes, stamp_tlv::HMAC, &[7; 16]);
    push_stamp_tlv(&mut bytes, stamp_tlv::EXTRA_PADDING, &[9; 20]);
    bytes
}

#[test]
fn fuzz_stamp() {
    fuzz("stamp", &MODES.map(seed), |bytes| {
        let mut read = false;
        for mode in MODES {
            if let Some(request) = StampRequest::parse(mode, bytes) {
                assert_eq!(StampRequest::parse(mode, &request.emit(mode)), Some(request));
                let near = request.error.format.nanos(request.timestamp, u64::MAX / 2);
                let _ = (request.error.nanos(), request.error.format.bits(near));
                read = true;
            }
            if let Some(reply) = StampReply::parse(mode, bytes) {
                assert_eq!(StampReply::parse(mode, &reply.emit(mode)), Some(reply));
            }
            let mut end = mode.length();
            for tlv in stamp_tlvs(bytes, mode.length()) {
                assert_eq!((tlv.offset, bytes[end], bytes[end + 1]), (end, tlv.flags, tlv.kind));
                end += 4 + tlv.value.map_or(bytes.len() - end - 4, <[u8]>::len);
                assert!(end <= bytes.len());
                let value = tlv.value.unwrap_or_default();
                let class = ClassOfService::parse(value);
                assert!(class.is_none_or(|class| class.emit()[..2] == value[..2]));
                let counts = DirectMeasurement::parse(value);
                assert!(counts.is_none_or(|counts| counts.emit() == value));
            }
        }
        read
    });
}
