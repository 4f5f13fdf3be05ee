//! Worked examples of RFC 9002.

use super::*;
use crate::Ranges;

const MS: fn(u64) -> Duration = Duration::from_millis;

fn at(millis: u64) -> Time {
    Time::ZERO + MS(millis)
}

fn ack(numbers: &[u64]) -> Ack {
    let mut ranges = Ranges::default();
    numbers.iter().for_each(|&number| _ = ranges.insert(number, number + 1));
    Ack { ranges, delay: Duration::ZERO, ecn: None }
}

/// Section 7.6.3, in tenths of a second: a probe timeout of 2 s, packets 1 to 7 each second, the
/// last two as probes, and the acknowledgement of packet 9.
#[test]
fn persistent_congestion_is_that_of_the_example() {
    let lost = |last: u64, acked: &[u64]| {
        let mut sent: Recovery<()> = Recovery::default();
        sent.on_sent(at(0), 1200, ()); // number 0 begins the estimate
        sent.on_ack(at(600), &ack(&[0]), true); // 600 ms, and 4 times 300 ms
        sent.max_ack_delay = MS(200);
        assert_eq!(sent.probe_timeout(), MS(2000));
        for (number, time) in [0, 1000, 2000, 3000, 4000, 5000, 6000, last, 12_000].iter().zip(0..)
        {
            sent.on_sent(at(10_000 + number), 1200, ());
            assert_eq!(sent.next_number(), time + 2);
            if time == 1 {
                sent.on_ack(at(11_200), &ack(&[1]), true);
                sent.forget(at(11_200));
            }
        }
        sent.on_ack(at(22_200), &ack(acked), true);
        (sent.lost.len(), sent.is_persistent())
    };
    // Later samples of 1.2 s and 0.2 s change the estimate: 616 ms, 4 times 400 ms and 200 ms,
    // three times of which are 7.25 s.
    assert_eq!(lost(8000, &[9]), (7, false));
    assert_eq!(lost(8300, &[9]), (7, true));
    // A packet between them arrived.
    assert_eq!(lost(8300, &[5, 9]), (6, false));
}

/// Section 6.1: a packet is lost three packets before an acknowledged one, or 9/8 of a round trip
/// after it was sent, and not before.
#[test]
fn thresholds_are_three_packets_and_nine_eighths_of_a_round_trip() {
    let mut sent: Recovery<()> = Recovery::default();
    for _ in 0..6 {
        sent.on_sent(at(0), 1200, ());
    }
    sent.on_ack(at(80), &ack(&[4]), true);
    let numbers = |lost: &[SentPacket<()>]| lost.iter().map(|p| p.number).collect::<Vec<_>>();
    assert_eq!(numbers(&sent.lost), [0, 1]);
    sent.forget(at(80));
    assert_eq!((sent.deadline(true), sent.packets_in_flight()), (at(90), 3));
    assert!(!sent.on_timer(at(90)));
    assert_eq!(numbers(&sent.lost), [2, 3]);
    sent.forget(at(90));
    // The one after the acknowledged packet waits for a probe timeout: 80, 4 times 40 and 25 ms.
    assert_eq!(sent.deadline(true), at(80 + 160 + 25));
    assert_eq!(sent.deadline(false), Time::MAX); // section 6.2.1
    sent.on_ack(at(95), &ack(&[1, 4]), true);
    assert_eq!(numbers(&sent.spurious), [1]);
}
