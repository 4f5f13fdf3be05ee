//! A sender and a receiver joined by a pipe with a delay and with losses that a test chooses.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use perhop_core::{Ecn, Stream};

use crate::{Congestion, CubicConfig, EcnMode, HyStartKind, RtoRule, SackBlocks, Seq};
use crate::{Receiver, ReceiverConfig, TCP_HEADER_BYTES, TIMESTAMP_BYTES};

mod accounts;
mod by_hand;
mod outdated;
mod path_mtu;
mod queue;
mod recovery;
mod response;
mod script;
mod sending;
mod tables;
mod undo;
mod usage;

const MSS: u16 = 1000;
const DELAY: Duration = Duration::from_millis(10);

const EVERY: [LossDetection; 3] =
    [LossDetection::Duplicates, LossDetection::Sack, LossDetection::Rack];

fn cubic(hystart: HyStartKind, reno_friendly: bool) -> Congestion {
    Congestion::cubic(CubicConfig { hystart, reno_friendly, linux: false })
}

fn config() -> SenderConfig {
    SenderConfig {
        mss: MSS,
        window: 1 << 20,
        initial_window: 10,
        rto_rule: RtoRule::Linux,
        min_rto: Duration::from_millis(200),
        congestion: Congestion::Reno,
        decrease_from_window: false,
        loss_detection: LossDetection::Sack,
        adaptive_reordering: false,
        undo: true,
        frto: true,
        prr: false,
        limited_transmit: true,
        timestamps: false,
        ecn: EcnMode::Off,
        pacing: false,
        tick_phase: Duration::ZERO,
        tso_divisor: 0,
    }
}

/// Both ends and the links between them, which have a delay and no rate.
struct Connection {
    now: Time,
    sender: Sender,
    receiver: Receiver,
    forward: VecDeque<(Time, Segment)>,
    backward: VecDeque<(Time, Segment)>,
    /// Transmissions of data that are lost, counted from zero.
    lost: Vec<u64>,
    /// Transmissions that are late, and by how much.
    late: Vec<(u64, Duration)>,
    /// Transmissions that are marked, if ECN-capable.
    marked: Vec<u64>,
    /// If not zero, every `mark_every`-th is marked.
    mark_every: u64,
    /// If not zero, every `lose_every`-th is lost.
    lose_every: u64,
    /// Data of the longest segment that the path carries, and whether a router half way tells.
    narrow: Option<(u16, bool)>,
    errors: VecDeque<(Time, Seq)>,
    delay: Duration,
    data: u64,
    sent: Vec<Segment>,
    acks: u64,
}

impl Connection {
    fn new(sender: SenderConfig, receive_window: u32, lost: &[u64]) -> Self {
        let receiver = ReceiverConfig {
            window: receive_window,
            autotuning: None,
            quick_acks: None,
            delayed_ack: Duration::from_millis(40),
            sack: sender.loss_detection != LossDetection::Duplicates,
            dsack: sender.loss_detection == LossDetection::Rack,
            window_scaling: true,
            timestamps: sender.timestamps,
            ecn: sender.ecn,
        };
        Self {
            now: Time::ZERO,
            sender: Sender::new(sender),
            receiver: Receiver::new(receiver),
            forward: VecDeque::new(),
            backward: VecDeque::new(),
            lost: lost.to_vec(),
            late: Vec::new(),
            marked: Vec::new(),
            mark_every: 0,
            lose_every: 0,
            narrow: None,
            errors: VecDeque::new(),
            delay: DELAY,
            data: 0,
            sent: Vec::new(),
            acks: 0,
        }
    }

    /// Runs until both ends are quiet or `until`; checks that the windows bound the flight.
    fn run(&mut self, until: Time) {
        loop {
            while let Some(segment) = self.sender.poll(self.now) {
                let windows =
                    self.sender.receive_window.max(1).min(u64::from(self.sender.config.window));
                // The SYN and the FIN each take a byte of the stream and no buffer.
                assert!(self.sender.flight() <= windows + 1, "the flight is beyond the window");
                let number = self.data;
                self.data += u64::from(segment.payload > 0);
                self.sent.push(segment);
                let periodic = self.lose_every > 0 && self.data.is_multiple_of(self.lose_every);
                if let Some((longest, tells)) = self.narrow
                    && segment.payload > longest
                {
                    if tells {
                        self.errors.push_back((self.now + self.delay, segment.seq));
                    }
                } else if segment.payload == 0 || !periodic && !self.lost.contains(&number) {
                    let mut arrival = self.now + self.delay;
                    for &(_, more) in self.late.iter().filter(|late| late.0 == number) {
                        arrival += more;
                    }
                    let place = self.forward.partition_point(|other| other.0 <= arrival);
                    let mut segment = segment;
                    let due = self.mark_every > 0 && number.is_multiple_of(self.mark_every);
                    if (due || self.marked.contains(&number)) && segment.ecn != Ecn::NotEct {
                        segment.ecn = Ecn::Ce;
                    }
                    self.forward.insert(place, (arrival, segment));
                }
            }
            let arrival =
                |wire: &VecDeque<(Time, Segment)>| wire.front().map_or(Time::MAX, |a| a.0);
            let error = self.errors.front().map_or(Time::MAX, |error| error.0);
            let times = [
                error,
                arrival(&self.forward),
                arrival(&self.backward),
                self.sender.deadline(),
                self.receiver.deadline(),
            ];
            self.now = *times.iter().min().unwrap();
            if self.now > until || self.now == Time::MAX {
                self.now = until;
                return;
            }
            let answer = if self.now == times[0] {
                let (_, seq) = self.errors.pop_front().unwrap();
                let (longest, _) = self.narrow.unwrap();
                let options = if self.sender.config.timestamps { TIMESTAMP_BYTES } else { 0 };
                let room = TCP_HEADER_BYTES + options + u32::from(longest);
                self.sender.on_too_big(self.now, seq, room);
                None
            } else if self.now == times[1] {
                let (_, segment) = self.forward.pop_front().unwrap();
                self.receiver.on_segment(self.now, &segment)
            } else if self.now == times[2] {
                let (_, segment) = self.backward.pop_front().unwrap();
                self.sender.on_segment(self.now, &segment);
                None
            } else if self.now == times[3] {
                self.sender.on_timer(self.now);
                None
            } else {
                self.receiver.on_timer(self.now)
            };
            if let Some(answer) = answer {
                self.acks += 1;
                self.backward.push_back((self.now + self.delay, answer));
            }
        }
    }

    fn transfer(config: SenderConfig, segments: u64, lost: &[u64]) -> Self {
        Self::transfer_late(config, segments, lost, &[])
    }

    fn transfer_late(
        config: SenderConfig,
        segments: u64,
        lost: &[u64],
        late: &[(u64, Duration)],
    ) -> Self {
        Self::transfer_marked(config, segments, lost, late, &[])
    }

    fn transfer_marked(
        config: SenderConfig,
        segments: u64,
        lost: &[u64],
        late: &[(u64, Duration)],
        marked: &[u64],
    ) -> Self {
        let mut connection = Self::new(config, 1 << 20, lost);
        connection.marked = marked.to_vec();
        connection.late = late.to_vec();
        connection.sender.write(segments * u64::from(MSS));
        connection.sender.close();
        // BBR without SACK may have measured one segment per timeout by then, and pace at that
        // rate.
        connection.run(Time::ZERO + Duration::from_secs(10_000));
        assert!(connection.sender.is_finished(), "unfinished: {:?}", connection.sender);
        assert_eq!(connection.receiver.received().delivered, segments * u64::from(MSS));
        connection
    }

    /// Returns the number of transmissions of data since the connection began.
    fn data_sent(&self) -> usize {
        self.sent.iter().filter(|segment| segment.payload > 0).count()
    }
}

fn rack() -> SenderConfig {
    SenderConfig { loss_detection: LossDetection::Rack, ..config() }
}

fn secs(now: Time) -> f64 {
    now.as_secs_f64()
}

#[test]
fn the_handshake_takes_a_round_trip_and_gives_a_sample() {
    let mut connection = Connection::new(config(), 1 << 20, &[]);
    connection.sender.write(u64::from(MSS));
    connection.run(Time::ZERO + DELAY + DELAY);
    assert_eq!(connection.sender.smoothed_rtt(), Some(DELAY + DELAY));
    assert!(connection.sent[0].flags.has(Flags::SYN));
}

#[test]
fn the_initial_window_is_sent_at_once() {
    let mut connection = Connection::new(config(), 1 << 20, &[]);
    connection.sender.write(u64::MAX);
    connection.run(Time::ZERO + DELAY + DELAY);
    assert_eq!(connection.data_sent(), 10);
}

#[test]
fn the_receive_window_bounds_the_flight() {
    let mut connection = Connection::new(config(), 8_192, &[]);
    connection.sender.write(u64::MAX);
    connection.run(Time::ZERO + Duration::from_secs(2));
    // Eight full segments fit; a partial one is not sent.
    assert_eq!(connection.sender.flight(), 8_000);
    let round_trips = 2.0 / 0.02;
    let expected = round_trips * 8_000.0;
    let delivered = connection.receiver.received().delivered as f64;
    assert!((delivered / expected - 1.0).abs() < 0.03, "{delivered} instead of {expected}");
}

#[test]
fn the_send_buffer_bounds_the_flight() {
    let mut connection = Connection::new(SenderConfig { window: 5_000, ..config() }, 1 << 20, &[]);
    connection.sender.write(u64::MAX);
    connection.run(Time::ZERO + Duration::from_secs(1));
    assert_eq!(connection.sender.flight(), 5_000);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    // Slow start grows it to twice the receiver's window, and no further.
    for (receive_window, window) in [(4_000, 10_000), (12_000, 24_000)] {
        let mut connection = Connection::new(config(), receive_window, &[]);
        connection.sender.write(u64::MAX);
        connection.run(Time::ZERO + Duration::from_secs(1));
        assert_eq!(connection.sender.cwnd(), window);
    }
}

#[test]
fn a_stopped_application_sends_nothing_new_and_the_connection_ends() {
    let mut connection = Connection::new(config(), 1 << 20, &[3]);
    connection.sender.write(u64::MAX);
    connection.run(Time::ZERO + DELAY + DELAY);
    connection.sender.stop();
    connection.run(Time::ZERO + Duration::from_secs(10));
    assert!(connection.sender.is_finished());
    assert_eq!(connection.receiver.received().delivered, 10_000);
    assert_eq!(connection.data_sent(), 11);
}

#[test]
fn timestamps_take_twelve_bytes_a_segment() {
    let config = SenderConfig { timestamps: true, ..config() };
    let connection = Connection::transfer(config, 5, &[]);
    assert!(
        connection.sent.iter().all(|segment| segment.ip_bytes() == 52 + u32::from(segment.payload))
    );
}

#[test]
fn nonsense_from_the_network_changes_nothing() {
    let mut connection = Connection::new(config(), 1 << 20, &[]);
    connection.sender.write(u64::MAX);
    connection.run(Time::ZERO + DELAY + DELAY);
    let before = (connection.sender.flight(), connection.sender.cwnd());
    let mut sack = crate::SackBlocks::default();
    sack.push(9_000, 2_000);
    sack.push(1 << 31, (1 << 31) + 1);
    for ack in [50_000, 1 << 31, u32::MAX] {
        let hostile = Segment { ack: Seq(ack), flags: Flags::ACK, sack, ..Segment::default() };
        connection.sender.on_segment(connection.now, &hostile);
    }
    assert_eq!((connection.sender.flight(), connection.sender.cwnd()), before);
}

/// Segments of a paced window are evenly spaced, and those of another window are sent in one burst
/// per round trip.
#[test]
fn pacing_spreads_a_window_over_the_round_trip() {
    for pacing in [false, true] {
        let mut connection = Connection::new(SenderConfig { pacing, ..config() }, 20_000, &[]);
        connection.sender.write(u64::MAX);
        connection.run(Time::ZERO + Duration::from_secs(1));
        // Twenty segments per round trip of 20 ms: with pacing, in slow start, one is sent every
        // 0.5 ms.
        let mut most = 0;
        for _ in 0..400 {
            let before = connection.data;
            connection.run(connection.now + Duration::from_micros(50));
            most = most.max(connection.data - before);
        }
        assert_eq!(most > 5, !pacing, "{most} segments within 50 us");
        let delivered = connection.receiver.received().delivered;
        assert!(delivered > 900_000, "{delivered}");
    }
}

proptest! {
    /// With any losses and delays, every byte arrives, with every combination of mechanisms.
    #[test]
    fn everything_arrives_whatever_is_lost_or_late(
        segments in 1_u64..150,
        lost in prop::collection::vec(0_u64..200, 0..60),
        late in prop::collection::vec((0_u64..200, 0_u64..100), 0..30),
        loss_detection in prop::sample::select(&EVERY[..]),
        (control, hystart, prr, pacing) in (0..7, any::<bool>(), any::<bool>(), any::<bool>()),
        (ecn, marked) in (0..4_usize, prop::collection::vec(0_u64..200, 0..60)),
        (limited_transmit, timestamps) in any::<(bool, bool)>(),
        window in 2_000_u32..100_000,
    ) {
        let congestion = match control {
            0 => Congestion::Reno,
            1 => cubic(if hystart { HyStartKind::PlusPlus } else { HyStartKind::Linux }, true),
            2 => Congestion::dctcp(),
            3 => Congestion::prague(),
            4 => Congestion::bbr(Stream::new(1, "test")),
            5 => Congestion::bbr1(Stream::new(1, "test")),
            _ => Congestion::ledbat(),
        };
        let config = SenderConfig {
            loss_detection, prr, congestion, limited_transmit, timestamps, window, pacing,
            decrease_from_window: hystart,
            ecn: [EcnMode::Off, EcnMode::Classic, EcnMode::Dctcp, EcnMode::Accurate][ecn],
            ..config()
        };
        let late: Vec<_> =
            late.into_iter().map(|(n, ms)| (n, Duration::from_millis(ms))).collect();
        let connection = Connection::transfer_marked(config, segments, &lost, &late, &marked);
        prop_assert!(connection.data_sent() >= segments as usize);
        if lost.is_empty() && late.is_empty() && loss_detection != LossDetection::Rack {
            prop_assert_eq!(connection.sender.retransmits(), 0);
        }
    }
}

/// After a late SYN and lost retransmissions, only timeouts give samples: BBR is slow, but
/// continues.
#[test]
fn bbr_goes_on_without_sack_when_retransmissions_are_lost() {
    let config = SenderConfig {
        loss_detection: LossDetection::Duplicates,
        congestion: Congestion::bbr(Stream::new(1, "test")),
        limited_transmit: false,
        window: 16_000,
        ..config()
    };
    let late = [(0, Duration::from_millis(91))];
    let connection = Connection::transfer_marked(config, 23, &[26, 1, 5, 25, 12], &late, &[]);
    assert!(connection.data_sent() >= 23);
}
