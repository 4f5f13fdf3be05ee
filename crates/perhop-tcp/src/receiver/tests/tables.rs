//! Arrivals one by one, and the answers, the timer and the counts that each leaves.

use super::*;

fn config() -> ReceiverConfig {
    ReceiverConfig {
        window: 10_000,
        autotuning: None,
        quick_acks: None,
        delayed_ack: Duration::from_millis(40),
        sack: true,
        dsack: true,
        window_scaling: true,
        timestamps: true,
        ecn: EcnMode::Classic,
    }
}

fn stamped(start: u32, payload: u16, stamp: u32) -> Segment {
    Segment { timestamps: Some((stamp, 0)), ..data(start, payload) }
}

/// Answer in brief: acknowledgement, window, echoed timestamp, and blocks.
fn brief(answer: &Segment) -> (u32, u32, u32, Vec<(u32, u32)>) {
    let blocks = answer.sack.as_slice().iter().map(|(start, end)| (start.0, end.0)).collect();
    (answer.ack.0, answer.window, answer.timestamps.map_or(0, |(_, echo)| echo), blocks)
}

/// RFC 7323, section 4.3: the echo is the timestamp of the earliest segment that is not
/// acknowledged; segments after a hole do not change it. RFC 9293, section 3.8.6.3: 40 ms for a
/// single segment, and an answer to every second.
#[test]
fn answers_counts_and_timers() {
    let mut receiver = Receiver::new(config());
    let syn = Segment { flags: Flags::SYN.with(EcnMode::Classic.syn()), ..stamped(0, 0, 5) };
    let early = stamped(1, 100, 6);
    assert_eq!(receiver.on_segment(at(0), &early), None, "before the SYN");
    let answer = receiver.on_segment(at(0), &syn).unwrap();
    assert_eq!(brief(&answer), (1, 10_000, 5, vec![]));
    assert_eq!((answer.seq, answer.flags), (Seq(0), Flags::SYN.with(Flags::ACK).with(Flags::ECE)));
    assert_eq!(receiver.deadline(), Time::MAX);

    let ce = |segment: Segment| Segment { ecn: Ecn::Ce, ..segment };
    let again = |segment: Segment| Segment { flags: Flags::RETRANSMISSION, ..segment };
    // Time, segment, answer, timer.
    type Step = (u64, Segment, Option<(u32, Vec<(u32, u32)>, u32)>, Option<u64>);
    let steps: [Step; 14] = [
        (10, stamped(1, 100, 11), None, Some(50)),
        (20, stamped(101, 100, 12), Some((201, vec![], 11)), None),
        (21, stamped(201, 100, 13), None, Some(61)),
        // A hole: at once, with the timestamp of 13, which is not acknowledged yet.
        (22, stamped(401, 100, 14), Some((301, vec![(401, 501)], 13)), None),
        (23, stamped(601, 100, 15), Some((301, vec![(601, 701), (401, 501)], 13)), None),
        (24, again(stamped(301, 50, 16)), Some((351, vec![(601, 701), (401, 501)], 16)), None),
        (25, stamped(351, 50, 17), Some((501, vec![(601, 701)], 17)), None),
        // Partly known: the part is reported.
        (26, stamped(451, 100, 18), Some((551, vec![(451, 501), (601, 701)], 18)), None),
        (27, again(stamped(551, 50, 19)), Some((701, vec![], 19)), None),
        // Marked: echoed until CWR, and not sooner than any other.
        (28, ce(stamped(701, 100, 20)), None, Some(68)),
        (29, stamped(801, 100, 21), Some((901, vec![], 20)), None),
        (30, stamped(901, 0, 22), Some((901, vec![], 22)), None),
        // Beyond the window of 10,000 bytes.
        (31, stamped(10_802, 100, 23), Some((901, vec![], 22)), None),
        (32, stamped(901, 100, 24), None, Some(72)),
    ];
    for (ms, segment, expected, timer) in steps {
        let answer = receiver.on_segment(at(ms), &segment);
        let expected = expected.map(|(ack, blocks, echo)| (ack, 10_000, echo, blocks));
        assert_eq!(answer.as_ref().map(brief), expected, "at {ms} ms");
        assert_eq!(receiver.deadline(), timer.map_or(Time::MAX, at), "at {ms} ms");
        if let Some(answer) = answer {
            let echo = if ms >= 29 { Flags::ACK.with(Flags::ECE) } else { Flags::ACK };
            assert_eq!((answer.seq, answer.flags), (Seq(1), echo));
            assert_eq!(answer.timestamps.unwrap().0, 1_000 * ms as u32);
        }
    }
    assert_eq!(receiver.on_timer(Time::from_picos(71_999_999_999)), None);
    let late = receiver.on_timer(at(72)).unwrap();
    assert_eq!((brief(&late), receiver.deadline()), ((1_001, 10_000, 24, vec![]), Time::MAX));
    // Of 12 segments with data one was beyond the window. Only 351 to 400 and 451 came late: the
    // others below the highest were sent again.
    let expected = Received {
        delivered: 1_000,
        last: at(32),
        segments: 12,
        reordered: 2,
        marked: 1,
        acks: 11,
        sacks: 5,
    };
    assert_eq!(receiver.received(), expected);
    assert!(!receiver.has_ended());
    let fin = Segment { flags: Flags::FIN, ..stamped(1_001, 0, 25) };
    assert_eq!(receiver.on_segment(at(80), &fin).unwrap().ack, Seq(1_002));
    assert!(receiver.has_ended());
    assert_eq!(receiver.received().delivered, 1_000);
    assert_eq!(receiver.received().last, at(32), "a FIN is not data");
}

/// The answer to the SYN is repeated while nothing has arrived, and a second SYN answered again;
/// neither counts as an acknowledgement. The window of an answer to a SYN is not scaled.
#[test]
fn the_answer_to_a_syn() {
    let mut receiver = Receiver::new(ReceiverConfig { window: 1 << 20, ..config() });
    assert_eq!(receiver.repeat_answer(at(0)), None);
    let syn = Segment { flags: Flags::SYN, ..stamped(0, 0, 5) };
    for ms in [1, 2] {
        let answer = receiver.on_segment(at(ms), &syn).unwrap();
        assert_eq!(brief(&answer), (1, 65_535, 5, vec![]));
        assert!(answer.flags.has(Flags::SYN));
    }
    let repeated = receiver.repeat_answer(at(3)).unwrap();
    assert!(repeated.flags.has(Flags::SYN) && repeated.window == 65_535);
    assert_eq!(receiver.received().acks, 0);
    let host = Segment { timestamps: Some((77, 0)), ..Segment::default() };
    let confirmed = receiver.confirm(at(4), &host, Seq(9));
    assert_eq!(brief(&confirmed), (1, 1 << 20, 77, vec![]));
    assert_eq!((confirmed.seq, confirmed.flags), (Seq(9), Flags::ACK));
    assert_eq!(confirmed.timestamps, Some((4_000, 77)));
    assert_eq!(receiver.on_segment(at(5), &stamped(1, 100, 6)), None);
    assert_eq!(receiver.repeat_answer(at(6)), None, "data has arrived");
    let answer = receiver.on_segment(at(7), &syn).unwrap();
    assert!(!answer.flags.has(Flags::SYN), "the connection is open");
    assert_eq!(receiver.received().acks, 1);
}

/// Data of this end acknowledges in place of a delayed acknowledgement, which is not sent then; but
/// not instead of one with blocks, and with ECN it repeats the last one.
#[test]
fn data_carries_acknowledgements() {
    for (ecn, missing, ack, echo, timer) in [
        (EcnMode::Off, false, 101, 6, None),
        (EcnMode::Classic, false, 1, 9, Some(50)),
        (EcnMode::Off, true, 101, 9, Some(50)),
    ] {
        let mut receiver = Receiver::new(ReceiverConfig { ecn, ..config() });
        let mut own = stamped(7, 100, 9);
        own.timestamps = Some((8, 9));
        let untouched = own;
        receiver.piggyback(at(0), &mut own);
        assert_eq!(own, untouched, "there is no connection");
        let syn = Segment { flags: Flags::SYN, ..stamped(0, 0, 5) };
        let _ = receiver.on_segment(at(0), &syn);
        if missing {
            assert!(receiver.on_segment(at(1), &stamped(201, 100, 7)).is_some());
        }
        let first = receiver.on_segment(at(10), &stamped(1, 100, 6));
        assert_eq!(first.is_some(), missing);
        let before = receiver.received();
        receiver.piggyback(at(20), &mut own);
        assert_eq!((own.ack, own.window, own.seq), (Seq(ack), 10_000, Seq(7)));
        assert_eq!(own.timestamps.unwrap().1, echo);
        assert_eq!(receiver.received(), before, "it is no acknowledgement of its own");
        let timer = timer.filter(|_| !missing);
        assert_eq!(receiver.deadline(), timer.map_or(Time::MAX, at));
    }
    // Without timestamps of its own, the segment gets none.
    let mut receiver = Receiver::new(ReceiverConfig { ecn: EcnMode::Off, ..config() });
    let _ = receiver.on_segment(at(0), &Segment { flags: Flags::SYN, ..stamped(0, 0, 5) });
    let mut own = data(7, 100);
    receiver.piggyback(at(20), &mut own);
    assert_eq!(own.timestamps, None);
}

/// RFC 8257, section 3.2: when marking changes, what waits is acknowledged with the old state, and
/// the segment itself with the new one, at once.
#[test]
fn dctcp_acknowledges_both_sides_of_a_change() {
    let mut receiver = Receiver::new(ReceiverConfig { ecn: EcnMode::Dctcp, ..config() });
    let syn = Segment { flags: Flags::SYN.with(EcnMode::Dctcp.syn()), ..stamped(0, 0, 5) };
    let _ = receiver.on_segment(at(0), &syn);
    assert_eq!(receiver.on_segment(at(1), &stamped(1, 100, 6)), None);
    let marked = |start| Segment { ecn: Ecn::Ce, ..stamped(start, 100, 7) };
    let earlier = receiver.on_segment(at(2), &marked(101)).unwrap();
    assert_eq!((earlier.ack, earlier.flags), (Seq(101), Flags::ACK));
    assert_eq!(receiver.deadline(), at(2));
    let own = receiver.on_timer(at(2)).unwrap();
    assert_eq!((own.ack, own.flags), (Seq(201), Flags::ACK.with(Flags::ECE)));
    assert_eq!(receiver.deadline(), Time::MAX);
    // Nothing waits: only the segment is acknowledged.
    let changed = receiver.on_segment(at(3), &stamped(201, 100, 8)).unwrap();
    assert_eq!((changed.ack, changed.flags), (Seq(301), Flags::ACK));
    assert_eq!((receiver.received().marked, receiver.received().acks), (1, 3));
}

/// `__tcp_ack_snd_check` and `tcp_comp_sack`: the third other block is acknowledged at once, and 44
/// arrivals at most are held back, each for a twentieth of the round trip, up to 1 ms.
#[test]
fn what_is_held_back_has_limits() {
    use super::super::linux_acks::{Answer, LinuxAcks};
    let us = Duration::from_micros;
    let mut acks = LinuxAcks::default();
    let mut take = |end, elsewhere, missing, rtt: Option<Duration>| {
        acks.add(at(0), end, false, elsewhere);
        acks.take(missing, rtt)
    };
    let rtt = Some(us(10_000));
    assert_eq!(take(100, false, None, rtt), Answer::InOrder);
    for _ in 0..3 {
        assert_eq!(take(300, false, Some(1), rtt), Answer::Now);
    }
    assert_eq!(take(400, false, Some(1), rtt), Answer::After(us(500)), "a block");
    assert_eq!(take(500, true, Some(1), Some(us(40_000))), Answer::After(us(1_000)), "another");
    assert_eq!(take(700, true, Some(1), rtt), Answer::Now, "a third");
    acks.on_acknowledged();
    let mut held = 0;
    loop {
        acks.add(at(0), 800, false, false);
        if acks.take(Some(1), rtt) == Answer::Now {
            break;
        }
        held += 1;
    }
    assert_eq!(held, 43);
    acks.on_acknowledged();
    acks.add(at(0), 900, false, false);
    assert_eq!(acks.take(Some(1), None), Answer::Now, "no round trip is known");
    acks.on_acknowledged();
    // Another hole begins anew, and what fills one is acknowledged.
    acks.add(at(0), 900, false, false);
    assert_eq!(acks.take(Some(2), rtt), Answer::Now);
    acks.add(at(0), 950, true, false);
    acks.add(at(0), 990, false, false);
    assert_eq!(acks.deadline(), Time::ZERO + us(50));
    assert_eq!(
        (acks.parts(990, false), acks.parts(991, false), acks.parts(990, true)),
        (false, true, true)
    );
    assert_eq!(acks.take(Some(2), rtt), Answer::Now);
    assert_eq!((acks.parts(991, true), acks.deadline()), (false, Time::MAX));
}

/// tcp_incr_quickack and tcp_event_data_recv: half of the window in segments of 100 bytes, two to
/// sixteen; the gap between arrivals, the delay before and after, and the greatest delay of 500 ms.
#[test]
fn delays_of_single_segments() {
    for (window, quick) in [(0, 2), (599, 2), (600, 3), (3_199, 15), (3_200, 16), (99_999, 16)] {
        let mut delay = Delay::new(100, Duration::from_millis(40));
        delay.hurry(window);
        let mut acknowledged = 0;
        while delay.delay() == Duration::ZERO {
            delay.on_acknowledged();
            acknowledged += 1;
        }
        assert_eq!(acknowledged, quick, "{window}");
        delay.hurry_once();
        assert_eq!(delay.delay(), Duration::ZERO);
        delay.on_acknowledged();
        assert!(delay.delay() > Duration::ZERO);
    }
    // A handshake of 2 s: the delay follows the gaps, from 40 ms on.
    let mut delay = Delay::new(100, Duration::from_millis(40));
    delay.on_syn(at(0));
    delay.on_segment(at(2_000));
    delay.on_segment(at(9_000));
    assert_eq!(delay.round_trip(), Some(Duration::from_millis(2_000)));
    let mut now = 3_000;
    delay.on_data(at(now), 10_000);
    (0..16).for_each(|_| delay.on_acknowledged());
    for (gap, expected) in [
        (39, 59),    // 40 / 2 + 39
        (58, 87),    // 59 / 2 + 58
        (88, 87),    // longer than the delay
        (86, 129),   // 87 / 2 + 86
        (20, 84),    // half of 40 and less: 129 / 2 + 20
        (21, 63),    // 84 / 2 + 21
        (5, 51),     // 63 / 2 + 20
        (6_000, 51), // as long as the timeout, 2 s and twice that
    ] {
        now += gap;
        delay.on_data(at(now), 10_000);
        assert_eq!(delay.delay().as_picos() / 1_000_000_000, expected, "{gap}");
    }
    delay.on_data(at(now + 6_001), 10_000);
    assert_eq!(delay.delay(), Duration::ZERO, "a pause");
    // The longest.
    let mut delay = Delay::new(100, Duration::from_millis(700));
    delay.on_segment(at(2_000));
    assert_eq!(delay.delay(), Duration::from_millis(500));
}
