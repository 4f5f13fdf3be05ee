//! Effects of the estimator, the timers and the regulator on queues that never become empty,
//! without new arrivals, so that only timers and transmissions poll for the next packet.

use perhop_core::{Bytes, Duration, Time};
use perhop_queue::{
    Cbq, CbqClassKind, CbqConfig, CbqSpec, Dequeue, Discipline, Ledger, MatchRules,
};

use super::lab::*;

fn megabits(shares: Vec<f64>) -> Vec<f64> {
    shares.into_iter().map(|share| share / 1e6).collect()
}

/// Returns the rate of a class with half of the root that may not borrow.
fn half_alone(config: CbqConfig, wire: u64) -> f64 {
    let half = config.rate.bits_per_second() / 2;
    megabits(drain(config, vec![leaf(0, half, false, u64::MAX)], 1500, wire))[0]
}

/// Returns the rates of two classes with 40% and 60%, of which the first or both may borrow.
fn two(config: CbqConfig, second_borrows: bool, wire: u64) -> Vec<f64> {
    let part = |tenths| config.rate.bits_per_second() / 10 * tenths;
    let classes =
        vec![leaf(0, part(4), true, u64::MAX), leaf(1, part(6), second_borrows, u64::MAX)];
    megabits(drain(config, classes, 1500, wire))
}

fn equal(measured: f64, expected: f64) {
    assert!((measured - expected).abs() < 1e-3 * expected, "{measured}, expected {expected}");
}

/// The average idle time is used up after 18 packets (by hand in the estimator's tests). Then the
/// class sleeps, and is polled at the next tick: 18 · 1500 B in 10 ms.
#[test]
fn a_class_gets_a_burst_a_tick() {
    let config = config(100 * MEGABIT);
    equal(half_alone(config, 100 * MEGABIT), 21.6);
    // Without the token bucket there is no poll at ticks. The timer takes two.
    equal(half_alone(CbqConfig { token_bucket: false, ..config }, 100 * MEGABIT), 10.8);
    // The length of its burst decides.
    let short = CbqConfig { maxburst: Some(8), ..config };
    equal(half_alone(short, 100 * MEGABIT), 10.0 * 1500.0 * 8.0 / 0.01 / 1e6);
    let long = CbqConfig { maxburst: Some(32), ..config };
    assert!((35.0..50.0).contains(&half_alone(long, 100 * MEGABIT)));
}

#[test]
fn a_clock_of_a_millisecond_gives_a_class_its_rate() {
    let config = CbqConfig { tick: Duration::from_millis(1), ..config(100 * MEGABIT) };
    for wire in [100, 1000] {
        let rate = half_alone(config, wire * MEGABIT);
        assert!((47.5..50.0).contains(&rate), "{rate}");
    }
    let root = two(config, true, 1000 * MEGABIT);
    equal(root.iter().sum(), 100.0);
}

/// A driver that is polled at ticks only takes the content of the token bucket: 4 packets at 10
/// Mb/s, 8 at 100 Mb/s, 24 at 1 Gb/s.
#[test]
fn without_a_kick_the_token_bucket_is_emptied_once_a_tick() {
    for (root, packets) in [(10, 4.0), (100, 8.0), (1000, 24.0)] {
        let config = CbqConfig { kick: false, ..config(root * MEGABIT) };
        let sum: f64 = two(config, true, 10_000 * MEGABIT).iter().sum();
        equal(sum, packets * 1500.0 * 8.0 / 0.01 / 1e6);
    }
}

#[test]
fn while_the_wire_is_the_bottleneck_shares_are_kept() {
    for (root, second_borrows) in [(10, true), (10, false), (100, true), (100, false)] {
        let rate = root * MEGABIT;
        let shares = two(config(rate), second_borrows, rate);
        equal(shares[0], root as f64 * 0.4);
        equal(shares[1], root as f64 * 0.6);
    }
}

/// On a faster wire the first borrower over its limit sends although all classes are over theirs.
#[test]
fn efficient_links_exceed_the_root_without_the_token_bucket() {
    let efficient = CbqConfig { efficient: true, token_bucket: false, ..config(100 * MEGABIT) };
    let wire = 1000 * MEGABIT;
    equal(two(efficient, true, wire).iter().sum(), 1000.0);
    let one_borrows = two(efficient, false, wire);
    equal(one_borrows.iter().sum(), 1000.0);
    assert!(one_borrows[0] > 900.0 && one_borrows[1] > 60.0, "{one_borrows:?}");
    // Not without the flag, and not with the token bucket.
    for config in
        [CbqConfig { efficient: false, ..efficient }, CbqConfig { token_bucket: true, ..efficient }]
    {
        for second_borrows in [true, false] {
            let sum: f64 = two(config, second_borrows, wire).iter().sum();
            assert!(sum <= 100.0, "{sum}");
        }
    }
}

/// A single class below one that may not borrow. Borrowed bandwidth lowers its own average, and
/// while its parent is over its limit, too, it sleeps until its own average has recovered: it gets
/// little more than its own 2 Mb/s, instead of the 5 of its parent. (The experiments of 1999 have
/// 253 kb/s for a class of 200 below one of 500.)
#[test]
fn borrowing_ends_at_a_class_that_does_not() {
    let config = CbqConfig { tick: Duration::from_millis(1), ..config(10 * MEGABIT) };
    let inner = |borrow| CbqSpec {
        matches: MatchRules::default(),
        rate: rate(5 * MEGABIT),
        borrow,
        kind: CbqClassKind::Interior(Box::default(), vec![leaf(0, 2 * MEGABIT, true, u64::MAX)]),
    };
    let held = megabits(drain(config, vec![inner(false)], 1500, 100 * MEGABIT))[0];
    assert!((2.2..3.0).contains(&held), "{held}");
    let free = megabits(drain(config, vec![inner(true)], 1500, 100 * MEGABIT))[0];
    assert!((9.0..10.1).contains(&free), "{free}");
}

/// A class of a higher priority sends first while it is within its limit, and gets no more
/// bandwidth by that.
#[test]
fn priorities_go_first_within_their_limits() {
    let config = CbqConfig { tick: Duration::from_millis(1), ..config(10 * MEGABIT) };
    let with_priority = |spec: CbqSpec<u64>, priority| {
        let CbqClassKind::Leaf(class, _) = spec.kind else { unreachable!() };
        CbqSpec { kind: CbqClassKind::Leaf(class, priority), ..spec }
    };
    let first = with_priority(leaf(0, 3 * MEGABIT, false, u64::MAX), 0);
    let second = with_priority(leaf(1, 7 * MEGABIT, true, u64::MAX), 1);
    let shares = megabits(drain(config, vec![first, second], 1500, 10 * MEGABIT));
    assert!((2.7..3.1).contains(&shares[0]), "{shares:?}");
    equal(shares.iter().sum(), 10.0);
}

/// The length that is announced is that of a class that may send, before one that sleeps: 1% of the
/// link sleeps most of the time, beside 99% of it. Of two that sleep, it is that of the one that
/// wakes first; sometimes both wake at one tick. The driver without `kick` announces what it has
/// taken.
#[test]
fn the_next_length_is_that_of_a_class_that_is_awake() {
    let config = CbqConfig { token_bucket: false, ..config(100 * MEGABIT) };
    let at = |micros| Time::ZERO + Duration::from_micros(micros);
    for reversed in [false, true] {
        let mut classes = vec![
            leaf(0, MEGABIT, false, u64::MAX),
            leaf(1, 99 * MEGABIT, false, u64::MAX),
            leaf(2, MEGABIT / 10, false, u64::MAX),
        ];
        if reversed {
            classes.reverse();
        }
        let mut cbq = Cbq::new(config, classes);
        let mut ledger = Ledger::new();
        for (dscp, size, packets) in [(0, 1000, 400), (1, 1500, 500), (2, 700, 400)] {
            for number in 0..packets {
                cbq.enqueue(at(0), packet(dscp, size, number), &mut ledger);
            }
        }
        let (mut now, mut awake, mut left) = (at(0), 0, 500);
        while left > 0 {
            let head = cbq.head(now);
            match cbq.dequeue(now, &mut ledger) {
                Dequeue::Packet(sent) => {
                    let is_large = sent.header.dscp().get() == 1;
                    left -= u64::from(is_large);
                    now += sent.size() / rate(100 * MEGABIT);
                    awake += u64::from(is_large && head == Some(Bytes::new(1500)));
                }
                Dequeue::NotBefore(later) => now = later,
                Dequeue::Idle => panic!("idle with a backlog"),
            }
        }
        assert!(awake > 300, "{awake}");
        // From now on one of two packets is next, each when its class wakes.
        let (mut right, mut sleeps) = (0, 0);
        while sleeps < 50 {
            match cbq.dequeue(now, &mut ledger) {
                Dequeue::Packet(sent) => now += sent.size() / rate(100 * MEGABIT),
                Dequeue::NotBefore(later) => {
                    let head = cbq.head(now);
                    now = later;
                    let next = cbq.dequeue(now, &mut ledger);
                    sleeps += 1;
                    right += u32::from(
                        matches!(next, Dequeue::Packet(sent) if Some(sent.size()) == head),
                    );
                }
                Dequeue::Idle => panic!("idle with a backlog"),
            }
        }
        assert!(right >= 45, "{right} of {sleeps}");
    }
    let mut cbq = Cbq::new(CbqConfig { kick: false, ..config }, vec![leaf(0, MEGABIT, true, 99)]);
    let mut ledger = Ledger::new();
    for (number, size) in [900, 800].into_iter().enumerate() {
        cbq.enqueue(at(0), packet(0, size, number as u64), &mut ledger);
    }
    assert_eq!(cbq.backlog().bytes, Bytes::new(1700));
    for size in [900, 800] {
        assert_eq!(cbq.head(at(0)), Some(Bytes::new(size)));
        let next = cbq.dequeue(at(0), &mut ledger);
        assert!(matches!(next, Dequeue::Packet(sent) if sent.size().get() == size));
    }
    assert_eq!((cbq.head(at(0)), cbq.backlog().bytes), (None, Bytes::ZERO));
}
