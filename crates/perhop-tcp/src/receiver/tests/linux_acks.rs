//! Receivers that acknowledge as in Linux.

use super::*;

/// Time of an acknowledgement in µs, its acknowledgement number, and the last block that it
/// reports.
type Sent = (u64, u32, Option<(u32, u32)>);

/// Passes segments of 100 bytes to a receiver: times in µs from 20 ms after the handshake on, and
/// numbers of segments from the first byte. Returns the acknowledgements until a second later.
fn exchange(receiver: &mut Receiver, arrivals: &[(u64, u32)]) -> Vec<(Time, Segment)> {
    let at = |micros| Time::ZERO + Duration::from_micros(20_000 + micros);
    let mut sent = Vec::new();
    let end = (1_000_000, None);
    for (micros, number) in arrivals.iter().map(|&(at, number)| (at, Some(number))).chain([end]) {
        while receiver.deadline() <= at(micros) {
            let now = receiver.deadline();
            sent.extend(receiver.on_timer(now).map(|answer| (now, answer)));
        }
        if let Some(number) = number {
            let answer = receiver.on_segment(at(micros), &data(1 + 100 * number, 100));
            sent.extend(answer.map(|answer| (at(micros), answer)));
        }
    }
    sent
}

/// Returns the same in a short form.
fn answers(receiver: &mut Receiver, arrivals: &[(u64, u32)]) -> Vec<Sent> {
    let brief = |(now, answer): (Time, Segment)| {
        let block = answer.sack.as_slice().first().map(|(start, end)| (start.0, end.0));
        (now.as_picos() / 1_000_000 - 20_000, answer.ack.0, block)
    };
    exchange(receiver, arrivals).into_iter().map(brief).collect()
}

/// Returns a receiver that has acknowledged its first 16 segments at once.
fn settled(sack: bool) -> Receiver {
    let mut receiver = connected_as(sack, Some(100));
    let first: Vec<_> = (0..16).map(|number| (100 * u64::from(number), number)).collect();
    let sent = answers(&mut receiver, &first);
    assert_eq!(sent.len(), 16);
    assert_eq!(sent[15], (1550, 1601, None));
    assert!(receiver.delay.as_ref().unwrap().delay() > Duration::ZERO);
    receiver
}

/// Segments within 50 µs are acknowledged together, and of an odd number the last, too. A single
/// segment waits for the next, or for 40 ms.
#[test]
fn what_arrives_together_is_acknowledged_as_one() {
    let burst = [(0, 16), (12, 17), (24, 18), (36, 19), (48, 20)];
    assert_eq!(answers(&mut settled(true), &burst), [(50, 2101, None)]);
    let apart = [(0, 16), (60, 17), (120, 18)];
    assert_eq!(answers(&mut settled(true), &apart), [(110, 1801, None), (40_170, 1901, None)]);
}

/// Three immediate acknowledgements report that 16 is missing. The others wait for a millisecond, a
/// twentieth of the round trip. Data that fills the hole is acknowledged at once.
#[test]
fn acknowledgements_are_held_back_while_data_is_missing() {
    let arrivals: Vec<_> = (17..24).map(|number| (200 * u64::from(number - 17), number)).collect();
    let filled = [&arrivals[..], &[(5_000, 16)]].concat();
    let block = |end: u32| Some((1701, 1 + 100 * end));
    assert_eq!(
        answers(&mut settled(true), &filled),
        [
            (50, 1601, block(18)),
            (250, 1601, block(19)),
            (450, 1601, block(20)),
            (1650, 1601, block(24)),
            (5050, 2401, None),
        ]
    );
    // Without selective acknowledgements each segment is acknowledged.
    assert_eq!(answers(&mut settled(false), &filled).len(), 8);
}

/// With every other segment missing, three blocks fit into an acknowledgement, and each is
/// reported.
#[test]
fn no_block_is_left_out_of_what_is_held_back() {
    let arrivals: Vec<_> =
        (0..20_u32).map(|count| (60 * u64::from(count), 17 + 2 * count)).collect();
    let mut receiver = settled(true);
    let mut reported = Vec::new();
    for answer in exchange(&mut receiver, &arrivals) {
        reported.extend(answer.1.sack.as_slice().iter().map(|(start, _)| start.0));
    }
    for (_, number) in arrivals {
        assert!(reported.contains(&(1 + 100 * number)), "{number} of {reported:?}");
    }
}
