//! RED compared with the formulae of Floyd and Jacobson (1993).

use perhop_core::{Bytes, Duration, Ecn, Time};
use perhop_queue::{Cause, Discipline, Limit, Measure, Pass, Red, RedConfig, RedProfile};

use crate::lab::*;

const PROFILE: RedProfile = RedProfile { min: 5.0, max: 15.0, probability: 0.1 };

fn config() -> RedConfig {
    RedConfig {
        limit: Limit::packets(1_000),
        measure: Measure::Packets,
        weight: 0.002,
        packet_time: Duration::from_millis(1),
        gentle: false,
        ecn: true,
        harddrop: true,
    }
}

/// Returns settings with which the average is the present length.
fn immediate() -> RedConfig {
    RedConfig { weight: 1.0, ..config() }
}

fn red(config: RedConfig, profile: RedProfile) -> Red<Id> {
    Red::new(config, &[profile], [0; 64], random(1))
}

/// Returns a queue of `length` packets, which arrived before any threshold had an effect.
fn filled(config: RedConfig, profile: RedProfile, length: usize, size: u32) -> Red<Id> {
    let mut queue = red(config, profile);
    let mut id = 0;
    while queue.backlog().packets < length as u64 {
        let _ = offer(&mut queue, Time::ZERO, packet(id, 1, size, Ecn::NotEct));
        id += 1;
    }
    queue
}

/// Offers packets to a queue that is kept at its length; returns the gaps between signals.
fn gaps(queue: &mut Red<Id>, arrivals: usize, size: u32) -> Vec<usize> {
    let mut gaps = Vec::new();
    let mut gap = 0;
    for id in 0..arrivals {
        gap += 1;
        let (drops, _) = offer(queue, Time::ZERO, packet(id, 1, size, Ecn::NotEct));
        if drops.is_empty() {
            let _ = next(queue, Time::ZERO);
        } else {
            assert_eq!(drops[0].cause, Cause::Early);
            gaps.push(gap);
            gap = 0;
        }
    }
    gaps
}

#[test]
fn the_average_is_the_weighted_sum_of_all_lengths() {
    let never = RedProfile { min: 1e9, max: 2e9, probability: 0.1 };
    let mut queue = red(config(), never);
    let mut lengths = Vec::new();
    for id in 0..2_000_usize {
        lengths.push(queue.backlog().packets);
        let _ = offer(&mut queue, Time::ZERO, packet(id, 1, 1000, Ecn::NotEct));
        if id % 3 == 0 || id > 1_000 {
            let _ = next(&mut queue, Time::ZERO);
            if queue.backlog().packets == 0 {
                let _ = offer(&mut queue, Time::ZERO, packet(id, 1, 1000, Ecn::NotEct));
                lengths.push(0);
            }
        }
    }
    // Equation 1, unrolled: the sum of w (1 - w)^age times the length.
    let newest = lengths.len() as i32 - 1;
    let weights = lengths
        .iter()
        .enumerate()
        .map(|(at, length)| 0.002 * 0.998_f64.powi(newest - at as i32) * *length as f64);
    assert_close(queue.average(), weights.sum());
}

#[test]
fn idle_time_counts_as_the_packets_that_could_have_been_sent() {
    let mut queue = filled(
        RedConfig { weight: 0.25, ..config() },
        RedProfile { min: 1e9, ..PROFILE },
        20,
        1000,
    );
    let average = queue.average();
    assert!(average > 5.0);
    while next(&mut queue, millis(7)).0.is_some() {}
    // From 7 ms to 19.5 ms, at a millisecond each: twelve; and the arrival.
    let _ = offer(&mut queue, micros(19_500), packet(99, 1, 1000, Ecn::NotEct));
    assert_close(queue.average(), average * 0.75_f64.powi(12 + 1));
}

#[test]
fn halves_of_packet_times_add_up_while_nothing_gets_in() {
    let limit = Limit::bytes(Bytes::new(60_000));
    let never = RedProfile { min: 1e6, max: 1e6, probability: 0.1 };
    let mut queue = filled(RedConfig { weight: 0.1, limit, ..config() }, never, 60, 1000);
    let average = queue.average();
    while next(&mut queue, Time::ZERO).0.is_some() {}
    // More packets than the queue holds, at intervals of half a packet's time.
    for half in 1..=6 {
        let (drops, _) = offer(&mut queue, micros(500 * half), packet(1, 1, 60_001, Ecn::NotEct));
        assert_eq!(drops[0].cause, Cause::Limit);
        assert_close(queue.average(), average * 0.9_f64.powi((half + half / 2) as i32));
    }
}

/// As in the authors' own implementation: whatever the average, an almost empty queue accepts
/// arrivals.
#[test]
fn nothing_is_taken_while_one_packet_waits_at_most() {
    let mut queue = red(RedConfig { weight: 0.001, ..config() }, PROFILE);
    while queue.average() < PROFILE.max {
        let _ = offer(&mut queue, Time::ZERO, packet(0, 1, 1000, Ecn::NotEct));
    }
    while queue.backlog().packets > 0 {
        let _ = next(&mut queue, Time::ZERO);
    }
    for waiting in 0..2 {
        assert_eq!(queue.backlog().packets, waiting);
        let (drops, marks) = offer(&mut queue, Time::ZERO, packet(0, 1, 1000, Ecn::Ect0));
        assert!(drops.is_empty() && marks == 0);
    }
    let (drops, _) = offer(&mut queue, Time::ZERO, packet(0, 1, 1000, Ecn::Ect0));
    assert_eq!(drops.len(), 1, "the average is above the upper threshold");
}

#[test]
fn gaps_are_uniform_from_one_to_the_inverse_of_the_probability() {
    // A length of ten is in the middle: p = 0.05, so that gaps of 1 to 20 are equally likely.
    let mut queue = filled(immediate(), PROFILE, 10, 1000);
    let gaps = gaps(&mut queue, 400_000, 1000);
    assert!(gaps.iter().all(|gap| (1..=20).contains(gap)));
    let expected = gaps.len() as f64 / 20.0;
    let chi_squared: f64 = (1..=20)
        .map(|gap| gaps.iter().filter(|other| **other == gap).count() as f64 - expected)
        .map(|difference| difference * difference / expected)
        .sum();
    // 19 degrees of freedom: beyond 43.8 once in a thousand cases.
    assert!(gaps.len() > 30_000 && chi_squared < 43.8, "{chi_squared} of {}", gaps.len());
}

#[test]
fn gentle_rises_to_one_at_twice_the_upper_threshold() {
    let gentle = RedConfig { gentle: true, ..immediate() };
    // 0.1 + 0.9 · (24 - 15) / 15 = 0.64: gaps are 1 or 2, with probabilities 0.64 and 0.36.
    let mut queue = filled(gentle, PROFILE, 24, 1000);
    let gaps = gaps(&mut queue, 200_000, 1000);
    let once = gaps.iter().filter(|gap| **gap == 1).count() as f64 / gaps.len() as f64;
    assert!((once - 0.64).abs() < 0.01 && gaps.iter().all(|gap| *gap <= 2), "{once}");
    let mut queue = filled(gentle, PROFILE, 29, 1000);
    let mut full = Vec::new();
    while full.len() < 100 {
        full.push(offer(&mut queue, Time::ZERO, packet(0, 1, 1000, Ecn::Ect0)).0.len());
    }
    // At most one more is accepted, with a mark; from 30 on none is.
    assert_eq!(full[10..], [1; 90]);
}

#[test]
fn without_gentle_everything_above_goes_marked_or_not() {
    let mut queue = filled(immediate(), RedProfile { min: 14.0, ..PROFILE }, 15, 1000);
    for id in 0..100 {
        let (drops, marks) = offer(&mut queue, Time::ZERO, packet(id, 1, 1000, Ecn::Ect0));
        assert_eq!((drops.len(), marks), (1, 0));
    }
}

#[test]
fn without_harddrop_what_understands_is_marked_above_the_threshold() {
    let soft = RedConfig { harddrop: false, ..immediate() };
    let mut queue = filled(soft, RedProfile { min: 14.0, ..PROFILE }, 15, 1000);
    for id in 0..100 {
        let (drops, marks) = offer(&mut queue, Time::ZERO, packet(id, 1, 1000, Ecn::Ect0));
        assert_eq!((drops.len(), marks), (0, 1));
        let (drops, marks) = offer(&mut queue, Time::ZERO, packet(id, 1, 1000, Ecn::NotEct));
        assert_eq!((drops.len(), marks), (1, 0));
    }
    // Nor does it without ECN.
    let deaf = RedConfig { ecn: false, ..soft };
    let mut queue = filled(deaf, RedProfile { min: 14.0, ..PROFILE }, 15, 1000);
    assert_eq!(offer(&mut queue, Time::ZERO, packet(0, 1, 1000, Ecn::Ect0)).0.len(), 1);
}

#[test]
fn chance_marks_what_understands() {
    let mut queue = filled(immediate(), PROFILE, 10, 1000);
    let mut marked = 0;
    for id in 0..10_000 {
        let (drops, marks) = offer(&mut queue, Time::ZERO, packet(id, 1, 1000, Ecn::Ect1));
        assert!(drops.is_empty());
        let _ = next(&mut queue, Time::ZERO);
        marked += marks;
    }
    // One in 10.5, the mean of 1 to 20.
    assert!((marked as f64 - 10_000.0 / 10.5).abs() < 60.0, "{marked}");
}

#[test]
fn in_bytes_a_packet_counts_by_its_length() {
    let bytes = RedConfig {
        measure: Measure::Bytes { mean: 1000 },
        limit: Limit::packets(10_000),
        ..immediate()
    };
    let profile = RedProfile { min: 5_000.0, max: 15_000.0, probability: 0.1 };
    // At 10,000 bytes a packet of 100 has a tenth of the probability of one of 1000: a mean gap of
    // 105.
    let mut queue = filled(bytes, profile, 100, 100);
    let short = gaps(&mut queue, 400_000, 100);
    let mean = short.iter().sum::<usize>() as f64 / short.len() as f64;
    assert!((mean - 100.5).abs() < 3.0, "{mean}");
}

#[test]
fn each_dscp_has_its_thresholds() {
    let profiles = [PROFILE, RedProfile { min: 20.0, max: 40.0, probability: 0.1 }];
    let mut by_dscp = [0; 64];
    by_dscp[46] = 1;
    let mut queue = Red::new(immediate(), &profiles, by_dscp, random(1));
    for id in 0..30 {
        let ef = with_dscp(packet(id, 1, 1000, Ecn::NotEct), 46);
        let _ = offer(&mut queue, Time::ZERO, ef);
    }
    // At this length every packet of one profile is dropped, and about one in twenty of the other.
    let mut drops = [0; 2];
    for id in 0..2_000 {
        for (index, dscp) in [0, 46].into_iter().enumerate() {
            let arrival = with_dscp(packet(id, 1, 1000, Ecn::NotEct), dscp);
            if dropped_early(&mut queue, Time::ZERO, arrival) {
                drops[index] += 1;
            } else {
                let _ = next(&mut queue, Time::ZERO);
            }
        }
    }
    assert_eq!(drops[0], 2_000);
    assert!((100..300).contains(&drops[1]), "{drops:?}");
}

#[test]
fn an_idle_queue_is_passed_and_its_average_decays() {
    let mut queue = filled(RedConfig { weight: 0.5, ..config() }, PROFILE, 12, 1000);
    while next(&mut queue, Time::ZERO).0.is_some() {}
    let average = queue.average();
    let arrival = || packet(0, 1, 1000, Ecn::NotEct);
    assert_eq!(queue.pass(millis(3), &arrival().header), Pass::Send);
    assert_close(queue.average(), average / 16.0);
    assert_eq!(queue.pass(millis(3), &arrival().header), Pass::Send);
    assert_close(queue.average(), average / 32.0);
    let small = RedConfig { limit: Limit::bytes(Bytes::new(999)), ..config() };
    assert_eq!(red(small, PROFILE).pass(Time::ZERO, &arrival().header), Pass::Enqueue);
}
