//! Windows, clocks and blocks, by tables and by a plain model.

use std::collections::BTreeSet;

use super::*;

/// Returns a connected receiver with a tuned window of at most 3,932,160 bytes, which acknowledges
/// at once.
fn tuned(largest: u32, window_scaling: bool) -> Receiver {
    let mut receiver = Receiver::new(ReceiverConfig {
        window: largest,
        autotuning: Some(1448),
        quick_acks: None,
        delayed_ack: Duration::ZERO,
        sack: true,
        dsack: false,
        window_scaling,
        timestamps: true,
        ecn: EcnMode::Off,
    });
    let syn = Segment { flags: Flags::SYN, timestamps: Some((1, 0)), ..Segment::default() };
    let answer = receiver.on_segment(at(0), &syn).unwrap();
    assert_eq!(answer.window, largest.min(65_160));
    receiver
}

/// tcp_select_initial_window and RFC 7323, section 2: 65,160 bytes, or what there is; units of 128
/// bytes; without scaling no more than 16 bits hold.
#[test]
fn tuned_windows_fit_the_header() {
    for (largest, scaling, windows) in [
        (3_932_160, true, [68_096, 71_040, 73_856]), // 65,160 and 2896 each
        (3_932_160, false, [65_535, 65_535, 65_535]),
        (1_000, true, [1_000, 1_000, 1_000]),
    ] {
        let mut receiver = tuned(largest, scaling);
        let payload = largest.min(1448) as u16;
        let found = [0, 1, 2].map(|number| {
            let segment = data(1 + u32::from(payload) * number, payload);
            receiver.on_segment(at(1), &segment).unwrap().window
        });
        assert_eq!(found, windows, "{largest} {scaling}");
    }
    // The shift is that of the buffer, 8/5 of the window.
    let shifts = [3_932_160, 40_955, 40_960, 81_915, 81_920];
    assert_eq!(shifts.map(autotuned_shift), [7, 0, 1, 1, 2]);
}

/// tcp_rcv_rtt_measure_ts: full segments with a new echo measure; on a path with a small MTU, those
/// as long as the longest before.
#[test]
fn full_segments_with_new_echoes_measure_the_round_trip() {
    // Time in ms, payload, echo in ms; the round-trip time in ms after it.
    type Step = (u64, u16, u64, Option<u64>);
    let cases: [&[Step]; 4] = [
        &[(50, 100, 10, None), (60, 1448, 10, None), (70, 1448, 20, Some(50))],
        &[(50, 1000, 10, None), (60, 1000, 20, Some(40)), (70, 999, 69, Some(40))],
        &[(50, 1448, 0, None), (60, 1448, 20, Some(40)), (70, 1447, 69, Some(40))],
        // Smoothed by an eighth, but a shorter one counts at once.
        &[(50, 1448, 10, Some(40)), (100, 1448, 20, Some(45)), (110, 1448, 90, Some(20))],
    ];
    for steps in cases {
        let (mut receiver, mut next) = (tuned(3_932_160, true), 1);
        for &(ms, payload, echo, expected) in steps {
            let timestamps = Some((1, 1_000 * echo as u32));
            let segment = Segment { timestamps, ..data(next, payload) };
            let _ = receiver.on_segment(at(ms), &segment);
            next += u32::from(payload);
            let rtt = receiver.autotuning.as_ref().unwrap().rtt();
            assert_eq!(rtt, expected.map(Duration::from_millis), "{steps:?} at {ms} ms");
        }
    }
}

/// tcp_send_ack's wait while data is missing: a twentieth of the lesser round-trip time, that of
/// the handshake, 20 ms, or that which data measures.
#[test]
fn held_back_acknowledgements_wait_for_a_share_of_the_lesser_round_trip() {
    for (echo, waits) in [(None, 1_000), (Some(10), 500), (Some(16), 800), (Some(24), 1_000)] {
        let mut receiver = Receiver::new(ReceiverConfig {
            window: 1 << 20,
            autotuning: Some(100),
            quick_acks: Some(100),
            delayed_ack: Duration::from_millis(40),
            sack: true,
            dsack: false,
            window_scaling: true,
            timestamps: true,
            ecn: EcnMode::Off,
        });
        let syn = Segment { flags: Flags::SYN, ..Segment::default() };
        let _ = receiver.on_segment(at(0), &syn);
        let drain = |receiver: &mut Receiver, until: Time| {
            let mut sent = 0;
            while receiver.deadline() <= until {
                let now = receiver.deadline();
                sent += receiver.on_timer(now).iter().count();
            }
            sent
        };
        for number in 0..16 {
            let now = at(20 + u64::from(number));
            let mut segment = data(1 + 100 * number, 100);
            let millis = echo.filter(|_| number == 15).map(|echo| 35 - echo);
            segment.timestamps = millis.map(|millis: u64| (1, 1_000 * millis as u32));
            let _ = receiver.on_segment(now, &segment);
            drain(&mut receiver, now + Duration::from_micros(60));
        }
        if receiver.delay.as_ref().unwrap().delay() == Duration::ZERO {
            receiver.delay.as_mut().unwrap().on_acknowledged();
        }
        for number in 17..20 {
            let now = at(60 + u64::from(number));
            let _ = receiver.on_segment(now, &data(1 + 100 * number, 100));
            assert_eq!(drain(&mut receiver, now + Duration::from_micros(60)), 1, "at once");
        }
        let _ = receiver.on_segment(at(100), &data(2_001, 100));
        let handed_over = at(100) + Duration::from_micros(50);
        assert_eq!(drain(&mut receiver, handed_over), 0);
        assert_eq!(receiver.deadline(), handed_over + Duration::from_micros(waits), "{echo:?}");
    }
}

/// RFC 2883, section 4: the first part that is a duplicate, of data in order or of a block, which
/// begins at 401 and ends before 501; 200 bytes have arrived in order.
#[test]
fn parts_that_arrive_twice() {
    for (start, payload, duplicate) in [
        (201, 100, None),
        (301, 100, None), // up to the block
        (301, 101, Some((401, 402))),
        (301, 300, Some((401, 501))),
        (501, 100, None), // from its end on
        (500, 100, Some((500, 501))),
        (401, 100, Some((401, 501))),
        (450, 10, Some((450, 460))),
        (101, 100, Some((101, 201))),
        (200, 10, Some((200, 201))),
        (101, 400, Some((101, 201))),
    ] {
        let mut receiver = connected(true);
        receiver.config.dsack = true;
        receiver.config.delayed_ack = Duration::ZERO;
        for (start, payload) in [(1, 200), (401, 100)] {
            let _ = receiver.on_segment(at(0), &data(start, payload));
        }
        let answer = receiver.on_segment(at(1), &data(start, payload)).unwrap();
        let first = answer.sack.as_slice().first().map(|(start, end)| (start.0, end.0));
        let second = answer.sack.as_slice().get(1).map(|(start, end)| (start.0, end.0));
        let next = u64::from(answer.ack.0);
        assert_eq!(next, receiver.next);
        let block = receiver.beyond.block(start.into()).map(|(a, b)| (a as u32, b as u32));
        match duplicate {
            Some(_) => assert_eq!(first, duplicate, "{start} {payload}"),
            None => assert_eq!(first.is_some(), !receiver.beyond.is_empty()),
        }
        // A block that contains the duplicate follows (section 4.2).
        if duplicate.is_some() && next == 201 {
            assert_eq!(second, block, "{start} {payload}");
        }
    }
}

proptest! {
    /// RFC 2018, section 4: the first block is that of the segment, the others those that were
    /// reported most recently, all of them as they are now.
    #[test]
    fn blocks_are_those_of_a_plain_model(
        segments in prop::collection::vec((0_u64..40, 1_u64..4), 1..80),
    ) {
        let mut receiver = connected(true);
        receiver.config.delayed_ack = Duration::ZERO;
        let (mut arrived, mut history) = (BTreeSet::new(), Vec::new());
        for (first, count) in segments {
            let segment = data(1 + 100 * first as u32, 100 * count as u16);
            let answer = receiver.on_segment(at(1), &segment).unwrap();
            arrived.extend(first..first + count);
            let next = (0..).find(|number| !arrived.contains(number)).unwrap_or(0);
            prop_assert_eq!(u64::from(answer.ack.0), 1 + 100 * next);
            if first > next {
                history.push(first);
            }
            // The block around a segment.
            let block = |number: u64| {
                let begin = (0..=number).rev().take_while(|at| arrived.contains(at)).last();
                let end = (number..).find(|at| !arrived.contains(at));
                (1 + 100 * begin.unwrap_or(0) as u32, 1 + 100 * end.unwrap_or(0) as u32)
            };
            let mut expected: Vec<_> = Vec::new();
            for &number in history.iter().rev().filter(|&&number| number > next) {
                if !expected.contains(&block(number)) {
                    expected.push(block(number));
                }
            }
            let found: Vec<_> =
                answer.sack.as_slice().iter().map(|(start, end)| (start.0, end.0)).collect();
            prop_assert_eq!(found.is_empty(), expected.is_empty());
            let lowest = expected.iter().min().copied();
            let recent = expected.starts_with(&found);
            let only_lowest = found.len() == 1 && found.first().copied() == lowest;
            prop_assert!(recent || only_lowest, "{:?} of {:?}", found, expected);
            if first > next {
                prop_assert_eq!(found[0], block(first));
            }
            let bytes: u64 = expected.iter().map(|(start, end)| u64::from(end - start)).sum();
            prop_assert_eq!(receiver.held(), bytes);
        }
    }
}
