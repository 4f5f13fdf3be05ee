//! Receivers compared with the examples of their RFCs, and with random arrivals.

use super::*;
use proptest::prelude::*;

mod linux_acks;
mod tables;
mod windows;

fn connected(sack: bool) -> Receiver {
    connected_as(sack, None)
}

fn connected_as(sack: bool, quick_acks: Option<u16>) -> Receiver {
    let mut receiver = Receiver::new(ReceiverConfig {
        window: 10_000,
        autotuning: None,
        quick_acks,
        delayed_ack: Duration::from_millis(40),
        sack,
        dsack: false,
        window_scaling: true,
        timestamps: false,
        ecn: EcnMode::Off,
    });
    let syn = Segment { flags: Flags::SYN, ..Segment::default() };
    let answer = receiver.on_segment(Time::ZERO, &syn).unwrap();
    assert!(answer.flags.has(Flags::SYN.with(Flags::ACK)));
    assert_eq!(answer.ack, Seq(1));
    receiver
}

fn data(start: u32, payload: u16) -> Segment {
    Segment { seq: Seq(start), payload, ..Segment::default() }
}

fn ack_of(receiver: &mut Receiver, start: u32) -> Option<(u32, Vec<(u32, u32)>)> {
    let segment = receiver.on_segment(Time::ZERO, &data(start, 100))?;
    let blocks = segment.sack.as_slice().iter().map(|(start, end)| (start.0, end.0)).collect();
    Some((segment.ack.0, blocks))
}

#[test]
fn every_second_segment_is_acknowledged() {
    let mut receiver = connected(true);
    assert_eq!(ack_of(&mut receiver, 1), None);
    assert_eq!(receiver.deadline(), Time::ZERO + Duration::from_millis(40));
    assert_eq!(ack_of(&mut receiver, 101), Some((201, vec![])));
    assert_eq!(receiver.deadline(), Time::MAX);
}

#[test]
fn a_single_segment_is_acknowledged_when_the_timer_is_due() {
    let mut receiver = connected(true);
    assert_eq!(ack_of(&mut receiver, 1), None);
    assert_eq!(receiver.on_timer(Time::ZERO), None);
    assert_eq!(receiver.on_timer(receiver.deadline()).unwrap().ack, Seq(101));
}

/// RFC 2018, section 3: as long as data is missing, acknowledgements report data beyond it.
#[test]
fn a_hole_is_reported_however_long_ago_its_end_arrived() {
    let mut receiver = connected(true);
    ack_of(&mut receiver, 2001);
    for start in [201, 401, 601, 801] {
        ack_of(&mut receiver, start);
    }
    for start in [101, 301, 501, 701, 1] {
        ack_of(&mut receiver, start);
    }
    assert_eq!(ack_of(&mut receiver, 901).unwrap(), (1001, vec![(2001, 2101)]));
}

/// Returns a receiver with Linux's delays, whose handshake takes 20 ms.
fn with_delays() -> Receiver {
    let mut receiver = connected(true);
    receiver.delay = Some(Box::new(Delay::new(100, receiver.config.delayed_ack)));
    receiver.advertised = 10_000;
    receiver
}

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// Returns how many of these segments are acknowledged at once; one arrives every millisecond.
fn answered(receiver: &mut Receiver, from: u64, segments: std::ops::Range<u32>) -> usize {
    let arrivals = segments.clone().zip(from..);
    arrivals
        .filter(|&(number, ms)| receiver.on_segment(at(ms), &data(1 + 100 * number, 100)).is_some())
        .count()
}

/// Linux: the first data makes half a window quick, at most sixteen segments; a duplicate does so
/// again.
#[test]
fn the_first_segments_are_acknowledged_one_by_one() {
    let mut receiver = with_delays();
    assert_eq!(answered(&mut receiver, 20, 0..16), 16);
    assert_eq!(answered(&mut receiver, 40, 16..20), 2);
    // The duplicate's own acknowledgement is the first of sixteen.
    assert_eq!(answered(&mut receiver, 50, 0..1), 1);
    assert_eq!(answered(&mut receiver, 51, 20..35), 15);
    assert_eq!(answered(&mut receiver, 70, 35..39), 2);
}

/// Linux: a pause longer than the timeout, 20 ms and 200 ms here, makes sixteen quick again.
#[test]
fn segments_after_a_pause_are_acknowledged_one_by_one() {
    let mut receiver = with_delays();
    assert_eq!(answered(&mut receiver, 20, 0..16), 16);
    assert_eq!(answered(&mut receiver, 35 + 220, 16..20), 2);
    // Data out of order does not end a pause.
    assert!(receiver.on_segment(at(300), &data(1 + 100 * 21, 100)).is_some());
    assert!(receiver.on_segment(at(480), &data(1 + 100 * 20, 100)).is_some());
    assert_eq!(answered(&mut receiver, 481, 22..36), 14);
    assert_eq!(answered(&mut receiver, 500, 36..40), 2);
}

/// Linux: `icsk_ack.ato` follows the time between arrivals, but not below 40 ms nor, by
/// `tcp_send_delayed_ack`, above the round-trip time.
#[test]
fn the_delay_follows_the_time_between_arrivals() {
    let waits = |handshake: u64, gap: u64| {
        let mut delay = Delay::new(100, Duration::from_millis(40));
        delay.on_syn(at(0));
        delay.on_segment(at(handshake));
        for number in 0..40 {
            delay.on_data(at(handshake + gap * number), 10_000);
            delay.on_acknowledged();
        }
        (delay.delay().as_secs_f64() * 1e3).round()
    };
    assert_eq!(waits(100, 5), 40.0);
    assert_eq!(waits(100, 30), 60.0);
    assert_eq!(waits(50, 30), 50.0);
    assert_eq!(waits(20, 30), 40.0);
    assert_eq!(waits(100, 90), 40.0);
}

/// The advertised window grows with arrivals, is shifted by 7 bits, and its edge never retreats.
#[test]
fn an_autotuned_window_opens_and_its_edge_stays() {
    let mut receiver = connected(true);
    receiver.config.window = 3_932_160;
    receiver.config.delayed_ack = Duration::ZERO;
    receiver.autotuning = Some(Box::new(Autotuning::new(1448, 3_932_160)));
    receiver.config.autotuning = Some(1448);
    receiver.advertised = 65_160;
    let (mut edge, mut windows) = (1 + 65_160, Vec::new());
    for number in [0, 1, 3, 4, 2, 5] {
        let data = data(1 + 1448 * number, 1448);
        let answer = receiver.on_segment(Time::ZERO, &data).unwrap();
        assert!(answer.ack.0 + answer.window >= edge, "the edge retreats");
        assert!(answer.window.is_multiple_of(128));
        edge = answer.ack.0 + answer.window;
        windows.push(answer.window);
    }
    // By two segments each, in order or not; as the hole is filled, 2896 bytes of 81920 still wait.
    assert_eq!(windows, [68_096, 71_040, 73_856, 76_800, 79_104, 81_920]);
}

/// RFC 2018, section 4: the block that the segment caused comes first.
#[test]
fn holes_are_reported_most_recent_first() {
    let mut receiver = connected(true);
    assert_eq!(ack_of(&mut receiver, 201), Some((1, vec![(201, 301)])));
    assert_eq!(ack_of(&mut receiver, 401), Some((1, vec![(401, 501), (201, 301)])));
    assert_eq!(ack_of(&mut receiver, 301), Some((1, vec![(201, 501)])));
    assert_eq!(ack_of(&mut receiver, 1), Some((101, vec![(201, 501)])));
    assert_eq!(ack_of(&mut receiver, 101), Some((501, vec![])));
    assert_eq!(receiver.received().delivered, 500);
    assert_eq!(receiver.received().reordered, 3);
}

#[test]
fn without_sack_holes_make_duplicate_acknowledgements() {
    let mut receiver = connected(false);
    assert_eq!(ack_of(&mut receiver, 201), Some((1, vec![])));
    assert_eq!(ack_of(&mut receiver, 301), Some((1, vec![])));
}

/// RFC 2883, section 4.1, examples 1 to 3, in segments of 100.
#[test]
fn what_arrives_twice_is_reported_first() {
    let mut receiver = connected(true);
    receiver.config.dsack = true;
    ack_of(&mut receiver, 1);
    ack_of(&mut receiver, 101);
    assert_eq!(ack_of(&mut receiver, 101), Some((201, vec![(101, 201)])));
    assert_eq!(ack_of(&mut receiver, 301), Some((201, vec![(301, 401)])));
    assert_eq!(ack_of(&mut receiver, 1), Some((201, vec![(1, 101), (301, 401)])));
    assert_eq!(ack_of(&mut receiver, 301), Some((201, vec![(301, 401), (301, 401)])));
    assert_eq!(ack_of(&mut receiver, 401), Some((201, vec![(301, 501)])));
}

/// RFC 7323, section 2.
#[test]
fn the_wire_bounds_and_rounds_the_window() {
    assert_eq!(advertised(4 << 20, false), 65_535);
    assert_eq!(advertised(60_001, true), 60_001);
    assert_eq!(advertised(65_537, true), 65_536);
    assert_eq!(advertised(4 << 20, true), 4 << 20);
    assert_eq!(advertised(u32::MAX, true), 65_535 << 14);
}

#[test]
fn data_beyond_the_window_is_refused() {
    let mut receiver = connected(true);
    assert_eq!(ack_of(&mut receiver, 9_902), Some((1, vec![])));
    assert_eq!(ack_of(&mut receiver, 9_901), Some((1, vec![(9_901, 10_001)])));
}

#[test]
fn the_fin_takes_a_place_in_the_stream() {
    let mut receiver = connected(true);
    let fin = Segment { seq: Seq(101), flags: Flags::FIN, ..Segment::default() };
    assert_eq!(receiver.on_segment(Time::ZERO, &fin).unwrap().ack, Seq(1));
    assert_eq!(ack_of(&mut receiver, 1), Some((102, vec![])));
    assert_eq!(receiver.received().delivered, 100);
}

proptest! {
    /// In whatever order segments arrive, each byte is delivered once.
    #[test]
    fn every_byte_is_delivered_once(
        mut segments in prop::collection::vec(0_u32..40, 0..200),
    ) {
        let mut receiver = connected(true);
        let complete: Vec<u32> = (0..40).collect();
        segments.extend(&complete);
        for index in segments {
            let answer = receiver.on_segment(Time::ZERO, &data(1 + index * 100, 100));
            let next = receiver.received().delivered as u32 + 1;
            if let Some(answer) = answer {
                prop_assert_eq!(answer.ack, Seq(next));
                for &(start, end) in answer.sack.as_slice() {
                    prop_assert!(next < start.0 && start.0 < end.0);
                }
            }
        }
        prop_assert_eq!(receiver.received().delivered, 4_000);
    }
}
