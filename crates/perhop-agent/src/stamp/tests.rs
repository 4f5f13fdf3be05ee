use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use perhop_core::{Dscp, TrafficClass};
use perhop_fuzz::fuzz;
use perhop_measure::Exchange;
use perhop_socket::{ClockQuality, monotonic};
use perhop_wire::{
    ClassOfService, DirectMeasurement, StampError, StampFormat, StampMode, StampReply,
    StampRequest, push_stamp_tlv, stamp_tlv, stamp_tlvs,
};

use super::packet::{Arrival, Reflection, Refusal, authenticate, check, reflect, usable};
use super::sessions::Counters;
use super::*;

const COUNTERS: Counters = Counters { received: 9, replied: 7 };
const NOW: u64 = 1_790_000_000_000_000_000;

fn ssid_request() -> StampRequest {
    let error = StampError::new(1_000, false, StampFormat::Ntp);
    StampRequest { sequence: 5, timestamp: 77 << 32, error, ssid: 0x1234 }
}

/// Returns a packet with TLVs, authenticated if there is a key.
fn packet(key: Option<&Key>, tlvs: &[(u8, &[u8])]) -> Vec<u8> {
    let mode = packet::mode(key);
    let mut bytes = ssid_request().emit(mode);
    authenticate(&mut bytes, key);
    for &(kind, value) in tlvs {
        let tag = key.map(|key| key.tag(&[&bytes[..4], &bytes[mode.length()..]]));
        let value = tag.as_ref().filter(|_| kind == stamp_tlv::HMAC).map_or(value, |tag| &tag[..]);
        push_stamp_tlv(&mut bytes, kind, value);
    }
    bytes
}

fn reflected(bytes: &[u8], key: Option<&Key>, permitted: &[u8]) -> (Vec<u8>, TrafficClass) {
    let request = check(bytes, key, false).expect("a request");
    let permitted: Vec<Dscp> = permitted.iter().map(|&it| Dscp::new(it).unwrap()).collect();
    let class = TrafficClass::from_octet(0x2b); // AF11, CE
    let arrival = Arrival { at: NOW, ttl: 61, class };
    let with = Reflection {
        key,
        format: StampFormat::Ptp,
        quality: ClockQuality { synchronized: true, error: Some(1_500_000) },
        permitted: &permitted,
        counters: Some(COUNTERS),
        short: false,
    };
    reflect(bytes, &request, arrival, &with, || NOW + 20_000)
}

fn flags(bytes: &[u8], start: usize) -> Vec<(u8, u8)> {
    stamp_tlvs(bytes, start).map(|tlv| (tlv.kind, tlv.flags)).collect()
}

#[test]
fn a_reply_says_what_the_request_and_the_reflector_say() {
    for key in [None, Some(Key::new(b"0123456789abcdef"))] {
        let bytes = packet(key.as_ref(), &[]);
        let (reply, class) = reflected(&bytes, key.as_ref(), &[]);
        assert_eq!(reply.len(), bytes.len());
        // CE is not repeated.
        assert_eq!(class.octet(), 0x2a);
        let values = StampReply::parse(packet::mode(key.as_ref()), &reply).unwrap();
        let request = ssid_request();
        let expected = StampReply {
            sequence: COUNTERS.replied,
            timestamp: StampFormat::Ptp.bits(NOW + 20_000),
            error: StampError::new(1_500_000, true, StampFormat::Ptp),
            ssid: request.ssid,
            received: StampFormat::Ptp.bits(NOW),
            sender_sequence: request.sequence,
            sender_timestamp: request.timestamp,
            sender_error: request.error,
            ttl: 61,
        };
        assert_eq!(values, expected);
        assert!(packet::is_authentic(&reply, key.as_ref()));
    }
}

#[test]
fn tlvs_are_answered() {
    let key = Key::new(b"0123456789abcdef");
    let asked =
        ClassOfService { wanted: Dscp::EF, received: TrafficClass::from_octet(0), reverse: 0 };
    let sent = DirectMeasurement { sent: 12, ..DirectMeasurement::default() };
    let all = [
        (stamp_tlv::CLASS_OF_SERVICE, &asked.emit()[..]),
        (stamp_tlv::DIRECT_MEASUREMENT, &sent.emit()),
        (200, &[1, 2, 3]),
        (stamp_tlv::TIMESTAMP_INFORMATION, &[0; 4]),
        (stamp_tlv::HMAC, &[0; 16]),
        (stamp_tlv::EXTRA_PADDING, &[0; 40]),
    ];
    for key in [None, Some(&key)] {
        let bytes = packet(key, &all);
        let start = packet::mode(key).length();
        for permitted in [&[46][..], &[10]] {
            let (reply, class) = reflected(&bytes, key, permitted);
            assert_eq!(reply.len(), bytes.len());
            let refused = permitted != [46];
            assert_eq!(class.dscp(), if refused { Dscp::AF11 } else { Dscp::EF });
            let hmac = if key.is_some() { 0 } else { stamp_tlv::UNRECOGNIZED };
            let expected = [(4, 0), (5, 0), (200, 0x80), (3, 0), (8, hmac), (1, 0)];
            assert_eq!(flags(&reply, start), expected);
            let read: Vec<(u8, &[u8])> = usable(&reply, key).collect();
            let answer = ClassOfService::parse(read[0].1).unwrap();
            assert_eq!(answer.received, TrafficClass::from_octet(0x2b));
            assert_eq!((answer.wanted, answer.reverse), (Dscp::EF, u8::from(refused)));
            let counters = DirectMeasurement { sent: 12, received: 9, replied: 8 };
            assert_eq!(DirectMeasurement::parse(read[1].1), Some(counters));
            assert_eq!(read[2], (3, &[1, 2, 1, 2][..]));
        }
    }
}

#[test]
fn malformed_tlvs_end_what_is_processed() {
    let class = (stamp_tlv::CLASS_OF_SERVICE, &[0xb8, 0, 0, 0][..]);
    let bytes = packet(None, &[(stamp_tlv::DIRECT_MEASUREMENT, &[0; 11]), class]);
    let (reply, _) = reflected(&bytes, None, &[46]);
    assert_eq!(flags(&reply, 44), [(5, 0x40), (4, 0x80)]);
    assert_eq!(reply[45..], bytes[45..], "the rest is copied");
    assert_eq!(usable(&reply, None).count(), 0);
    // A TLV whose length exceeds the packet.
    let bytes = [packet(None, &[class]), vec![0x80, 4, 0, 4, 1, 1]].concat();
    let (reply, _) = reflected(&bytes, None, &[46]);
    assert_eq!(flags(&reply, 44), [(4, 0), (4, 0x40)]);
    assert_eq!(usable(&reply, None).count(), 1);
}

#[test]
fn wrong_hmacs_are_no_use() {
    let key = Key::new(b"0123456789abcdef");
    let class = (stamp_tlv::CLASS_OF_SERVICE, &[0xb8, 0, 0, 0][..]);
    let hmac = (stamp_tlv::HMAC, &[0; 16][..]);
    let good = packet(Some(&key), &[class, hmac]);
    let mut changed = good.clone();
    changed[117] ^= 1; // in the value of the first TLV
    let bad = [
        changed,
        packet(Some(&key), &[class]),
        packet(Some(&key), &[hmac, class]),
        packet(Some(&key), &[hmac, class, hmac]),
    ];
    for bytes in bad {
        let (reply, dscp) = reflected(&bytes, Some(&key), &[46]);
        assert!(flags(&reply, 112).iter().all(|(_, flags)| *flags == stamp_tlv::INTEGRITY));
        assert_eq!(usable(&reply, Some(&key)).count(), 0);
        assert_eq!(dscp.dscp(), Dscp::AF11);
    }
    // Padding alone needs no HMAC.
    let padded = packet(Some(&key), &[(stamp_tlv::EXTRA_PADDING, &[1; 9])]);
    assert_eq!(flags(&reflected(&padded, Some(&key), &[]).0, 112), [(1, 0)]);
    // The HMAC of the base packet covers all its bits.
    for bit in 0..112 * 8 {
        let mut changed = good.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(check(&changed, Some(&key), false), Err(Refusal::Unauthenticated), "{bit}");
    }
    assert_eq!(check(&good[..111], Some(&key), false), Err(Refusal::Short));
}

/// Senders of TWAMP Light have no SSID, and pad to any length. A packet that is shorter than a
/// reply with a TTL gets none, so that no reply is longer than its packet.
#[test]
fn twamp_light_is_answered() {
    let bytes = ssid_request().emit(StampMode::Unauthenticated);
    for length in 0..44 {
        let short = &bytes[..length];
        assert_eq!(check(short, None, false).is_ok(), length >= 41);
        if length >= 41 {
            let (reply, _) = reflected(short, None, &[]);
            assert_eq!(reply.len(), length);
            assert_eq!(StampReply::parse(StampMode::Unauthenticated, &reply).unwrap().ttl, 61);
        }
    }
    // An owner may permit replies that are longer, as the base packet is.
    for length in 0..44 {
        let short = &bytes[..length];
        let request = check(short, None, true);
        assert_eq!(request.is_ok(), length >= 14);
        let Ok(request) = request else { continue };
        let arrival = Arrival { at: NOW, ttl: 61, class: TrafficClass::default() };
        let with = Reflection {
            key: None,
            format: StampFormat::Ntp,
            quality: ClockQuality::default(),
            permitted: &vec![],
            counters: None,
            short: true,
        };
        assert_eq!(reflect(short, &request, arrival, &with, || NOW).0.len(), 44);
    }
    let padded = [bytes, vec![0; 300]].concat();
    let (reply, _) = reflected(&padded, None, &[]);
    assert_eq!(reply[44..], padded[44..]);
}

#[test]
fn fuzz_stamp_reflector() {
    let key = Key::new(b"0123456789abcdef");
    let class = (stamp_tlv::CLASS_OF_SERVICE, &[0xb8, 0, 0, 0][..]);
    let counters = (stamp_tlv::DIRECT_MEASUREMENT, &[0; 12][..]);
    let (padding, hmac) =
        ((stamp_tlv::EXTRA_PADDING, &[1; 30][..]), (stamp_tlv::HMAC, &[0; 16][..]));
    let seeds = [
        packet(None, &[class, counters, (200, &[]), padding]),
        packet(Some(&key), &[class, counters, hmac, padding]),
    ];
    fuzz("stamp reflector", &seeds, |bytes| {
        let mut taken = false;
        for key in [None, Some(&key)] {
            if check(bytes, key, false).is_ok() {
                let (reply, _) = reflected(bytes, key, &[46]);
                assert_eq!(reply.len(), bytes.len());
                let values = StampReply::parse(packet::mode(key), &reply).expect("a reply");
                assert_eq!(values.sender_sequence.to_be_bytes(), bytes[..4]);
                assert!(packet::is_authentic(&reply, key));
                assert!(usable(&reply, key).count() <= bytes.len() / 4);
                taken = true;
            }
            // Parse the same bytes as a reply.
            let _ = usable(bytes, key).count();
            let _ = packet::is_authentic(bytes, key);
        }
        taken
    });
}

/// Sends packets from a sender to a reflector through the kernel. Returns the summary and the
/// counters of the reflector.
fn session(
    address: &str,
    settings: SenderSettings,
    reflector: ReflectorSettings,
    packets: u32,
) -> Option<(Summary, Counts)> {
    // Without IPv6 there is nothing to test.
    let address: SocketAddr = address.parse().unwrap();
    UdpSocket::bind(address).ok()?;
    let reflector = Reflector::start(address, reflector).unwrap();
    let mut sender = Sender::new(reflector.address(), settings.clone()).unwrap();
    let mut answers = Vec::new();
    for _ in 0..packets {
        sender.send().unwrap();
        sender.receive(monotonic() + 2_000_000, |answer| answers.push(answer)).unwrap();
    }
    let end = monotonic() + 300_000_000;
    sender.receive(end, |answer| answers.push(answer)).unwrap();
    let summary = Summary::new(&settings, sender.sent(), sender.stray(), &answers);
    // The reflector counts a packet after it has sent the reply.
    let deadline = Instant::now() + Duration::from_secs(5);
    let counted = |counts: Counts| counts.answered + counts.limited >= packets.into();
    while !counted(reflector.counts()) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    Some((summary, reflector.counts()))
}

#[test]
fn sessions_over_the_kernel() {
    let key = Key::new(b"0123456789abcdef");
    for address in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"] {
        for (key, extended, size) in
            [(None, false, 0), (None, true, 1000), (Some(&key), false, 0), (Some(&key), true, 0)]
        {
            let settings = SenderSettings {
                key: key.cloned(),
                class: TrafficClass::from_octet(0xba),
                reply_dscp: Dscp::AF11,
                class_of_service: extended,
                direct_measurement: extended,
                size,
                format: if extended { StampFormat::Ptp } else { StampFormat::Ntp },
                ..SenderSettings::default()
            };
            let reflector = ReflectorSettings { key: key.cloned(), ..Default::default() };
            let Some((summary, counts)) = session(address, settings, reflector, 20) else {
                continue;
            };
            assert_eq!((summary.received, summary.lost, summary.stray), (20, 0, 0), "{address}");
            assert_eq!(counts, Counts { answered: 20, ..Counts::default() });
            let Direction { lost, reordered, ttl, .. } = &summary.forward;
            assert_eq!((*lost, *reordered, ttl.get(&255)), (Some(0), 0, Some(&20)));
            assert_eq!(summary.backward.ttl.get(&255), Some(&20));
            let expected = if extended { (Some(false), Some(&20)) } else { (None, None) };
            let Direction { rewritten, dscp, .. } = &summary.forward;
            assert_eq!((*rewritten, dscp.get(&46)), expected);
            assert_eq!(summary.backward.rewritten, expected.0);
            assert_eq!(summary.backward.dscp.get(&if extended { 10 } else { 46 }), Some(&20));
            // Both ends have one clock, so that the measured offset must be within the bound.
            let clock = summary.clock.unwrap();
            assert!(clock.offset_ns.unsigned_abs() <= clock.bound_ns, "{clock:?}");
        }
    }
}

#[test]
fn a_reflector_keeps_its_limits() {
    let reflector = ReflectorSettings { source_rate: 50, ..Default::default() };
    let settings = SenderSettings {
        class_of_service: true,
        direct_measurement: true,
        ..SenderSettings::default()
    };
    let (summary, counts) = session("127.0.0.1:0", settings, reflector, 100).unwrap();
    assert_eq!(counts.answered + counts.limited, 100);
    // 20 at once, and 50 per second for a fifth of a second, or longer on a busy machine.
    assert!(counts.answered >= 20 && counts.limited > 0, "{counts:?}");
    assert_eq!(u64::from(summary.received), counts.answered);
    // The reflector did not count these: those before the last reply are lost forward.
    assert_eq!(summary.lost, summary.forward.lost.unwrap() + summary.lost_last);
    assert_eq!(summary.backward.lost, Some(0));
}

#[test]
fn reflectors_do_not_answer_each_other_or_wrong_keys() {
    let key = Some(Key::new(b"0123456789abcdef"));
    let settings = ReflectorSettings { key, ..Default::default() };
    let reflector = Reflector::start("127.0.0.1:0".parse().unwrap(), settings).unwrap();
    let twin = SocketAddr::new("127.0.0.2".parse().unwrap(), reflector.address().port());
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (socket, bytes) in [
        (&UdpSocket::bind(twin).unwrap(), packet(Some(&Key::new(b"0123456789abcdef")), &[])),
        (&other, packet(Some(&Key::new(b"another key, not the same")), &[])),
        (&other, packet(None, &[])),
    ] {
        socket.send_to(&bytes, reflector.address()).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    let expected = Counts { looping: 1, unauthenticated: 1, short: 1, ..Counts::default() };
    while reflector.counts() != expected && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(reflector.counts(), expected);
}

#[test]
fn a_peers_clock_is_measured() {
    let address = "127.0.0.1:0".parse().unwrap();
    let reflector = Reflector::start(address, ReflectorSettings::default()).unwrap();
    let clock = PeerClock::start(reflector.address(), SenderSettings::default()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while clock.estimate().is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let estimate = clock.estimate().expect("a reply");
    assert!(estimate.offset.unsigned_abs() <= estimate.bound, "{estimate:?}");
    assert_eq!(clock.resets(), 0);
}

#[test]
fn a_peer_that_never_replies_is_given_up() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    silent.set_read_timeout(Some(Duration::from_millis(1_500))).unwrap();
    let clock = PeerClock::start(silent.local_addr().unwrap(), SenderSettings::default()).unwrap();
    let received = std::iter::from_fn(|| silent.recv(&mut [0; 99]).ok()).take(100).count();
    assert_eq!((received, clock.estimate().is_none()), (30, true));
}

/// An exchange between clocks of which the reflector's is 0.3 ms ahead, on a path of 1 ms each way.
fn timed(number: u64, ahead: i64, stated_error: Option<u64>) -> Answer {
    let sent = NOW + number * 100_000_000;
    let there = |at: u64| at.wrapping_add_signed(ahead);
    let exchange = Exchange {
        sent,
        received: there(sent + 1_000_000),
        replied: there(sent + 1_010_000),
        returned: sent + 2_010_000,
    };
    Answer {
        sequence: number as u32,
        reply_sequence: number as u32,
        exchange,
        error: StampError::new(1_000, true, StampFormat::Ntp),
        stated_error,
        ttl_forward: 64,
        ttl_backward: None,
        class_forward: None,
        class_backward: None,
        counters: None,
    }
}

#[test]
fn stated_errors_narrow_the_bound_unless_time_stamps_contradict_them() {
    let estimate = |trusts: bool, ahead: i64, stated: Option<u64>| {
        let mut clocks = ClockPair::new(trusts);
        (0..20).for_each(|number| clocks.add(&timed(number, ahead, stated)));
        let found = clocks.at(NOW + 2_000_000_000).unwrap();
        assert!(found.offset.abs_diff(ahead) <= found.bound, "{found:?}");
        (clocks.stated(), found.bound)
    };
    let (alone, wide) = estimate(true, 300_000, None);
    assert_eq!(alone, StatedErrors::Unused);
    assert!((1_000_000..1_100_000).contains(&wide), "half of the round trip: {wide}");
    // From -0.4 to 0.4 ms, and from -0.7 to 1.3 ms: the middle is at most 0.4 ms off.
    let (used, narrow) = estimate(true, 300_000, Some(400_000));
    assert_eq!(used, StatedErrors::Used);
    assert!((390_000..480_000).contains(&narrow), "{narrow}");
    assert_eq!(estimate(false, 300_000, Some(400_000)), (StatedErrors::Unused, wide));
    // The clock is 5 ms ahead, which the round trip shows to be at least 4 ms.
    let (contradicted, bound) = estimate(true, 5_000_000, Some(400_000));
    assert_eq!((contradicted, bound), (StatedErrors::Contradicted, wide));
}

#[test]
fn a_sender_may_insist_on_its_identifier() {
    // A reflector of RFC 8762 returns zeros, as does this one without an identifier to copy.
    let reflector = UdpSocket::bind("127.0.0.1:0").unwrap();
    let answer = |needs_ssid| {
        let settings = SenderSettings { needs_ssid, size: 80, ..SenderSettings::default() };
        let mut sender = Sender::new(reflector.local_addr().unwrap(), settings).unwrap();
        sender.send().unwrap();
        let mut bytes = [0; 200];
        let (length, from) = reflector.recv_from(&mut bytes).unwrap();
        let request = StampRequest::parse(StampMode::Unauthenticated, &bytes[..length]).unwrap();
        assert!(request.ssid != 0 && bytes[48..length].iter().any(|&byte| byte != 0));
        let reply = StampReply {
            sequence: request.sequence,
            timestamp: request.timestamp,
            error: request.error,
            ssid: 0,
            received: request.timestamp,
            sender_sequence: request.sequence,
            sender_timestamp: request.timestamp,
            sender_error: request.error,
            ttl: 64,
        };
        reflector.send_to(&reply.emit(StampMode::Unauthenticated), from).unwrap();
        let mut count = 0;
        sender.receive(monotonic() + 200_000_000, |_| count += 1).unwrap();
        (count, sender.stray())
    };
    assert_eq!(answer(false), (1, 0));
    assert_eq!(answer(true), (0, 1));
}
