//! A sender and a receiver joined by a path with a rate, a delay and losses that a test chooses.

use std::collections::{BTreeMap, BTreeSet};

use perhop_core::Stream as Random;
use perhop_tcp::{CubicConfig, HyStartKind};
use proptest::prelude::*;

use super::*;
use crate::acknowledger::MAX_ACK_DELAY;
use crate::{Receiver, ReceiverConfig};

/// Random connections of the property test.
const CASES: u32 = 100;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn cubic() -> Congestion {
    let hystart = HyStartKind::PlusPlus;
    Congestion::cubic(CubicConfig { hystart, reno_friendly: true, linux: false })
}

fn config() -> SenderConfig {
    SenderConfig {
        congestion: Congestion::Reno,
        datagram: 1200,
        most_datagram: 1200,
        initial_window: None,
        pacing: true,
        ecn: false,
        ack_frequency: None,
        streams: 1,
        limits: [1 << 24; 2],
        certificates: None,
    }
}

/// Both ends, and the path between them.
struct Path {
    now: Time,
    sender: Sender,
    receiver: Receiver,
    wire: BTreeMap<(Time, u64), (bool, Packet)>,
    delay: Duration,
    /// Bottleneck before the receiver: bytes per second, the bytes that its queue holds, and when
    /// it is empty.
    rate: Option<(f64, f64)>,
    free_at: Time,
    /// 1-RTT packets of the sender that are lost, and those that are late, by number.
    lost: BTreeSet<u64>,
    late: BTreeMap<u64, Duration>,
    /// Those that are marked.
    marked: BTreeSet<u64>,
    /// Longest datagram that fits.
    fits: u16,
    /// Times at which acknowledgements of the receiver are lost.
    deaf: (Time, Time),
    /// All 1-RTT packets of the sender with their times, and those of the receiver.
    sent: Vec<(Time, Packet)>,
    answers: Vec<(Time, Packet)>,
    dropped: u64,
    events: u64,
}

impl Path {
    fn new(config: SenderConfig) -> Self {
        let receiver =
            ReceiverConfig { streams: config.streams, windows: config.limits, certificates: 1000 };
        Self {
            now: Time::ZERO,
            sender: Sender::new(config),
            receiver: Receiver::new(&receiver),
            wire: BTreeMap::new(),
            delay: MS(10),
            rate: None,
            free_at: Time::ZERO,
            lost: BTreeSet::new(),
            late: BTreeMap::new(),
            marked: BTreeSet::new(),
            fits: u16::MAX,
            deaf: (Time::MAX, Time::MAX),
            sent: Vec::new(),
            answers: Vec::new(),
            dropped: 0,
            events: 0,
        }
    }

    fn carry(&mut self, mut packet: Packet) {
        let one_rtt = matches!(packet.kind, Kind::OneRtt(_));
        if one_rtt {
            self.sent.push((self.now, packet.clone()));
        }
        if packet.datagram > self.fits || one_rtt && self.lost.contains(&packet.number) {
            return;
        }
        if one_rtt && self.marked.contains(&packet.number) {
            packet.ecn = Ecn::Ce;
        }
        let mut at = self.now;
        if let Some((rate, queue)) = self.rate {
            let waiting = self.free_at.since(self.now).as_secs_f64() * rate;
            if waiting > queue {
                self.dropped += 1;
                return;
            }
            let span = f64::from(packet.datagram) / rate * 1e12;
            self.free_at = self.free_at.max(self.now) + Duration::from_picos(span as u64);
            at = self.free_at;
        }
        let late = self.late.get(&packet.number).filter(|_| one_rtt);
        self.put(at + self.delay + late.copied().unwrap_or(Duration::ZERO), true, packet);
    }

    fn put(&mut self, at: Time, forward: bool, packet: Packet) {
        self.events += 1;
        self.wire.insert((at, self.events), (forward, packet));
    }

    fn poll(&mut self) {
        loop {
            let excused = self.sender.probes > 0 || self.sender.controller.is_urgent();
            let before = self.sender.in_flight();
            let Some(packet) = self.sender.poll(self.now) else { break };
            // RFC 9002, section 7: no packet exceeds the window, except probes and the first packet
            // of a recovery period.
            let (after, window) = (self.sender.in_flight(), self.sender.cwnd());
            assert!(after == before || after <= window || excused, "{after} of {window}");
            self.carry(packet);
        }
        while let Some(packet) = self.receiver.poll(self.now) {
            if matches!(packet.kind, Kind::OneRtt(_)) {
                self.answers.push((self.now, packet.clone()));
            }
            if self.now < self.deaf.0 || self.now >= self.deaf.1 {
                self.put(self.now + self.delay, false, packet);
            }
        }
    }

    /// Runs until `until`, or until nothing happens any more.
    fn run(&mut self, until: Time) {
        self.poll();
        loop {
            let arrival = self.wire.first_key_value().map_or(Time::MAX, |(&(at, _), _)| at);
            let next = arrival.min(self.sender.deadline()).min(self.receiver.deadline());
            if next > until || next == Time::MAX {
                break;
            }
            self.now = self.now.max(next);
            if arrival <= self.now {
                let (_, (forward, packet)) = self.wire.pop_first().unwrap();
                match forward {
                    true => _ = self.receiver.on_packet(self.now, &packet),
                    false => drop(self.sender.on_packet(self.now, &packet)),
                }
            } else {
                self.sender.on_timer(self.now);
                self.receiver.on_timer(self.now);
            }
            self.poll();
        }
        self.now = self.now.max(if until < Time::MAX { until } else { self.now });
    }

    fn transfer(&mut self, bytes: u64) -> Duration {
        self.sender.start();
        self.sender.write(bytes);
        self.run(Time::ZERO + Duration::from_secs(3600));
        assert_eq!(self.receiver.received().delivered, bytes);
        self.receiver.received().last.since(Time::ZERO)
    }
}

fn at(millis: u64) -> Time {
    Time::ZERO + MS(millis)
}

/// RFC 9002, section 7.2: a round trip for the handshake, and then ten datagrams a round trip, and
/// twice as many in the next.
#[test]
fn a_transfer_begins_with_the_initial_window_after_a_round_trip() {
    let mut path = Path::new(SenderConfig { pacing: false, ..config() });
    path.transfer(60 * 1150);
    let count = |from, to| {
        let in_time = |&&(sent, ref packet): &&(Time, Packet)| {
            sent >= at(from) && sent < at(to) && packet.data().is_some()
        };
        path.sent.iter().filter(in_time).count()
    };
    assert_eq!((count(0, 20), count(20, 40), count(40, 60)), (0, 10, 20));
    assert_eq!(path.sender.retransmits(), 0);
}

/// A flow fills its bottleneck: the goodput is the rate less the overhead of frames.
#[test]
fn a_flow_fills_its_bottleneck() {
    // BBR paces below its estimate, and probes the round-trip time with half the window.
    let bbr = Congestion::bbr(Random::new(1, "probes"));
    for (congestion, share) in [(Congestion::Reno, 0.98), (cubic(), 0.98), (bbr, 0.95)] {
        let mut path = Path::new(SenderConfig { congestion, ..config() });
        path.rate = Some((1.25e6, 50_000.0)); // 10 Mb/s, two bandwidth-delay products
        path.sender.start();
        path.sender.write(u64::MAX);
        path.run(at(10_000));
        let before = path.receiver.received().delivered;
        path.run(at(20_000));
        let goodput = (path.receiver.received().delivered - before) as f64 / 10.0;
        let expected = 1.25e6 * 1165.0 / 1200.0;
        let found = goodput / expected;
        assert!(found > share && found < 1.01, "{goodput} of {expected}");
        assert_eq!(path.sender.spurious(), 0);
        // Each packet that was dropped is sent again once.
        let again = path.sender.retransmits();
        assert!(again <= path.dropped, "{again} for {}", path.dropped);
    }
}

/// RFC 9000, section 4: with a window below the bandwidth-delay product, a window per round trip.
#[test]
fn flow_control_limits_the_rate_to_a_window_per_round_trip() {
    for limits in [[100_000, 1 << 24], [1 << 24, 100_000]] {
        let mut path = Path::new(SenderConfig { limits, ..config() });
        path.delay = MS(50);
        path.sender.start();
        path.sender.write(u64::MAX);
        path.run(at(5_000));
        let before = path.receiver.received().delivered;
        path.run(at(15_000));
        let rate = (path.receiver.received().delivered - before) as f64 / 10.0;
        // Limits are announced in steps of an eighth.
        assert!(rate <= 1.0e6 * 1.001 && rate > 0.85e6, "{rate}");
        // Section 7.8 of RFC 9002: the window does not grow while it is not used.
        assert!(path.sender.cwnd() < 250_000, "{}", path.sender.cwnd());
    }
}

/// RFC 9002, section 6.1: three later packets, or 9/8 of a round trip.
#[test]
fn losses_are_found_by_number_and_by_time() {
    let lost_at = |lost: u64, bytes: u64| {
        let mut path = Path::new(config());
        path.lost.insert(lost);
        path.transfer(bytes);
        assert_eq!((path.sender.retransmits(), path.sender.spurious()), (1, 0), "{lost}");
        let sent = |data: StreamFrame| {
            let same = |&(_, packet): &&(Time, Packet)| {
                packet.data().is_some_and(|other| other.offset == data.offset)
            };
            path.sent.iter().filter(same).map(|&(at, _)| at).collect::<Vec<_>>()
        };
        let times = sent(*path.sent[lost as usize].1.data().unwrap());
        times[1].since(times[0])
    };
    // Ten packets at once: the acknowledgement of the third packet after it.
    assert!(lost_at(2, 11_000) < MS(21));
    // The last but one: the last one is acknowledged at once, and a timer of 9/8 of a round trip.
    let late = lost_at(8, 10 * 1160);
    assert!((MS(22)..MS(24)).contains(&late), "{late:?}");
    // The last one: a probe timeout, with the delay of acknowledgements.
    let tail = lost_at(9, 10 * 1160);
    assert!(tail > MS(20) + MAX_ACK_DELAY, "{tail:?}");
    assert!(tail < MS(80) + MAX_ACK_DELAY, "{tail:?}");
}

/// Section 6.2.1: each timeout doubles the next one; no packet is declared lost by it.
#[test]
fn probe_timeouts_back_off() {
    let mut path = Path::new(config());
    path.sender.start();
    path.sender.write(1000);
    path.run(at(15));
    path.lost = (0..5000).collect();
    path.run(at(20_000));
    let data = path.sent.iter().filter(|(_, packet)| packet.data().is_some());
    let times: Vec<Time> = data.map(|&(at, _)| at).collect();
    let mut gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    gaps.retain(|&gap| gap > Duration::ZERO);
    assert!(gaps.len() > 4);
    for pair in gaps.windows(2) {
        let ratio = pair[1].as_secs_f64() / pair[0].as_secs_f64();
        assert!((ratio - 2.0).abs() < 0.01, "{gaps:?}");
    }
    assert_eq!(path.sender.cwnd(), 12_000);
}

/// Sections 7.3.2 and 7.6: a round trip with losses halves the window once; persistent congestion
/// leaves two datagrams.
#[test]
fn windows_shrink_once_per_round_trip_and_to_the_minimum_in_persistent_congestion() {
    let mut path = Path::new(SenderConfig { pacing: false, ..config() });
    path.lost = [12, 14, 15, 19].into();
    path.sender.start();
    path.sender.write(u64::MAX);
    path.run(at(65));
    // Twenty datagrams, and three that were acknowledged before the first loss was found; half.
    assert_eq!((path.sender.retransmits(), path.sender.cwnd()), (4, 23 * 1200 / 2));
    let mut path = Path::new(config());
    path.sender.start();
    path.sender.write(u64::MAX);
    path.run(at(100));
    let next = path.sender.recovery.next_number();
    path.lost = (next..next + 3000).collect();
    path.run(at(1500));
    assert!(path.sender.cwnd() > 12_000); // timeouts alone change nothing
    path.lost.clear();
    let mut least = u64::MAX;
    while path.now < at(6000) {
        path.run(path.now + MS(1));
        least = least.min(path.sender.cwnd());
    }
    // Two datagrams, and the one whose acknowledgement showed the congestion.
    assert_eq!(least, 3600);
}

/// RFC 9002, section 6.1.1: reordering by two packets causes no retransmission; by more, packets
/// that arrive after all are recognised.
#[test]
fn reordering_within_the_threshold_costs_nothing() {
    // A window of flow control below the bandwidth-delay product, so that no queue grows.
    let config = || SenderConfig { limits: [20_000; 2], ..config() };
    let mut path = Path::new(config());
    path.rate = Some((1.25e6, 1e9));
    path.late = (0..40).map(|place| (7 * place, MS(1))).collect(); // a packet takes 0.96 ms
    path.transfer(400_000);
    assert_eq!((path.sender.retransmits(), path.sender.spurious()), (0, 0));
    assert!(path.receiver.received().reordered > 30);
    let mut path = Path::new(config());
    path.rate = Some((1.25e6, 1e9));
    path.late.insert(50, MS(12));
    path.transfer(400_000);
    assert_eq!((path.sender.retransmits(), path.sender.spurious()), (1, 1));
}

/// RFC 9002, section 7.1, and RFC 9000, section 13.4: marks halve the window as a loss does, once
/// per round trip, and nothing is sent again. A path that clears the field is not ECN-capable.
#[test]
fn marks_halve_the_window_without_a_retransmission() {
    let mut path = Path::new(SenderConfig { ecn: true, pacing: false, ..config() });
    path.marked = (12..20).collect();
    path.sender.start();
    path.sender.write(u64::MAX);
    path.run(at(62));
    assert_eq!((path.sender.marks_echoed(), path.sender.retransmits()), (8, 0));
    // Twenty datagrams, and two that were acknowledged before the first mark; half.
    assert_eq!(path.sender.cwnd(), 22 * 1200 / 2);
    assert!(path.sent.iter().all(|(_, packet)| packet.ecn == Ecn::Ect0));
    let mut path = Path::new(SenderConfig { ecn: true, ..config() });
    path.sender.start();
    path.sender.write(100_000);
    path.poll();
    while path.now < at(200) {
        path.run(path.now + Duration::from_micros(100));
        path.wire.values_mut().for_each(|(_, packet)| packet.ecn = Ecn::NotEct);
    }
    assert_eq!(path.sent.last().unwrap().1.ecn, Ecn::NotEct);
}

/// draft-ietf-quic-ack-frequency: fewer acknowledgements, within the requested delay.
#[test]
fn a_requested_frequency_saves_acknowledgements() {
    let acks = |ack_frequency| {
        let mut path = Path::new(SenderConfig { ack_frequency, ..config() });
        path.rate = Some((1.25e6, 1e9));
        path.transfer(2_000_000);
        let packets = path.receiver.received().packets as f64;
        (packets / path.receiver.received().acks as f64, path.sender.spurious())
    };
    assert!((1.9..2.1).contains(&acks(None).0));
    let rare = AckFrequency { threshold: 9, max_delay: MS(20), reordering: 3 };
    let (ratio, spurious) = acks(Some(rare));
    assert!((8.0..10.5).contains(&ratio) && spurious == 0, "{ratio}");
}

/// RFC 8899: datagrams grow to what the path carries, and lost probes are no congestion.
#[test]
fn probes_find_the_path_mtu() {
    for (fits, least) in [(1452, 1452), (1400, 1380), (1200, 1200)] {
        let mut path = Path::new(SenderConfig { most_datagram: 1452, ..config() });
        path.fits = fits;
        path.rate = Some((1.25e6, 1e9));
        path.sender.start();
        path.sender.write(u64::MAX);
        path.run(at(3_000));
        let found = path.sender.datagram();
        assert!(found >= least && found <= fits, "{found} of {fits}");
        assert_eq!((path.sender.retransmits(), path.sender.spurious()), (0, 0));
        assert!(path.sender.cwnd() > 100_000);
    }
}

/// A path whose MTU shrinks during the connection is a black hole, out of which 1200 B lead.
#[test]
fn a_shrinking_mtu_does_not_stop_the_data() {
    let mut path = Path::new(SenderConfig { most_datagram: 1452, ..config() });
    path.rate = Some((1.25e6, 30_000.0));
    path.sender.start();
    path.sender.write(u64::MAX);
    path.run(at(2_000));
    path.fits = 1300;
    path.run(at(6_000));
    let before = path.receiver.received().delivered;
    path.run(at(8_000));
    assert!(path.receiver.received().delivered > before + 2_000_000);
    assert!((1200..=1300).contains(&path.sender.datagram()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    /// RFC 9002, with random losses, delays and settings. All data arrives. Packet numbers only
    /// rise and are never used twice (RFC 9000, section 12.3). Datagrams are no longer than agreed.
    /// Bytes in flight exceed the window only by the first packet of a recovery period and by
    /// probes (section 7). The window is never below two datagrams (section 7.2). Data stays within
    /// the limits of flow control (RFC 9000, section 4.1). Only lost, late or probed data is sent
    /// again.
    #[test]
    fn rules_hold_with_random_losses(
        lost in proptest::collection::btree_set(0_u64..400, 0..60),
        late in proptest::collection::btree_map(0_u64..400, 0_u64..60, 0..20),
        deaf in (0_u64..2000, 0_u64..400),
        streams in 1_u32..6,
        window in 3_000_u64..80_000,
        bytes in 1_u64..300_000,
        kind in 0..4,
        (pacing, ecn, rare) in any::<(bool, bool, bool)>(),
        marked in proptest::collection::btree_set(0_u64..400, 0..9),
    ) {
        let congestion = match kind {
            0 => Congestion::Reno,
            1 => cubic(),
            2 => Congestion::prague(),
            _ => Congestion::bbr1(Random::new(1, "probes")),
        };
        let ack_frequency =
            rare.then_some(AckFrequency { threshold: 9, max_delay: MS(20), reordering: 3 });
        let limits = [window, window * 2];
        let mut path = Path::new(SenderConfig {
            congestion, pacing, ecn, streams, limits, ack_frequency, ..config()
        });
        path.rate = Some((1.25e6, 60_000.0));
        path.late = late.into_iter().map(|(number, millis)| (number, MS(millis))).collect();
        path.deaf = (at(deaf.0), at(deaf.0 + deaf.1));
        path.marked = marked;
        let any_lost = !lost.is_empty();
        path.lost = lost;
        path.sender.start();
        path.sender.write(bytes);
        path.poll();
        let mut limit = [window; 6];
        while path.receiver.received().delivered < bytes && path.now < at(600_000) {
            let known = path.sent.len();
            path.run(path.now + MS(1));
            prop_assert!(path.sender.cwnd() >= 2 * 1200);
            for (_, packet) in &path.answers {
                let Kind::OneRtt(frames) = &packet.kind else { continue };
                for &(stream, raised) in &frames.max_stream_data {
                    let limit = &mut limit[(stream / 4) as usize];
                    *limit = raised.max(*limit);
                }
            }
            for (_, packet) in &path.sent[known..] {
                prop_assert!(packet.datagram <= 1200);
                if let Some(data) = packet.data() {
                    let end = data.offset + u64::from(data.length);
                    prop_assert!(end <= limit[(data.stream / 4) as usize]);
                }
            }
        }
        prop_assert_eq!(path.receiver.received().delivered, bytes);
        prop_assert!(path.sent.windows(2).all(|pair| pair[0].1.number < pair[1].1.number));
        path.run(path.now + Duration::from_secs(100));
        prop_assert_eq!(path.sender.in_flight(), 0);
        if !any_lost && path.late.is_empty() && deaf.1 == 0 && path.dropped == 0 {
            prop_assert_eq!((path.sender.retransmits(), path.sender.spurious()), (0, 0));
        }
    }
}
