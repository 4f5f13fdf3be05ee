//! CoDel's drop times, computed from RFC 8289's text and not from its pseudocode.

use perhop_core::{Duration, Ecn, Time};
use perhop_queue::{Codel, CodelConfig, Limit};

use crate::lab::*;

const SERVICE_US: u64 = 2_000;

fn config() -> CodelConfig {
    CodelConfig {
        limit: Limit::packets(100_000),
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        ecn: true,
    }
}

/// Offers a packet every millisecond and serves one every two, from one time to another; returns
/// the times of drops, and the marked packets.
fn overload(queue: &mut Codel<Id>, from_ms: u64, to_ms: u64, ecn: Ecn) -> (Vec<u64>, Vec<u64>) {
    let (mut drops, mut marks) = (Vec::new(), Vec::new());
    for at in from_ms..to_ms {
        assert!(offer(queue, millis(at), packet(at as usize, 1, 1000, ecn)).0.is_empty());
        if at % 2 == 0 {
            let (sent, dropped) = next(queue, millis(at));
            drops.extend(dropped.iter().map(|_| at * 1000));
            if sent.is_some_and(|packet| packet.header.ecn() == Ecn::Ce) {
                marks.push(at * 1000);
            }
        }
    }
    (drops, marks)
}

/// Returns the times of drops, in microseconds: `first`, then by the control law, each at the first
/// service not before it.
fn due(first: u64, count: u32, until: u64) -> Vec<u64> {
    let mut times = vec![first];
    let mut next = first as f64;
    for n in count.. {
        next += 100_000.0 / f64::from(n).sqrt();
        let service = (next / SERVICE_US as f64 - 1e-9).ceil() as u64 * SERVICE_US;
        if service >= until {
            break;
        }
        times.push(service);
    }
    times
}

/// Of packets 0, 1, 2 … ms, the n-th service takes the n-th at 2n ms, after a wait of n ms. That is
/// at least 5 ms from the one at 10 ms on, and the first service 100 ms later drops.
const FIRST_DROP_US: u64 = 110_000;

#[test]
fn drops_follow_each_other_by_the_interval_over_the_square_root_of_their_number() {
    let mut queue = Codel::new(config());
    let (drops, marks) = overload(&mut queue, 0, 3_000, Ecn::NotEct);
    assert_eq!(drops, due(FIRST_DROP_US, 1, 3_000_000));
    assert!(drops.len() > 100 && marks.is_empty());
}

#[test]
fn marks_come_when_drops_would() {
    let mut queue = Codel::new(config());
    let (drops, marks) = overload(&mut queue, 0, 3_000, Ecn::Ect0);
    assert_eq!(marks, due(FIRST_DROP_US, 1, 3_000_000));
    assert!(drops.is_empty());
    let mut queue = Codel::new(CodelConfig { ecn: false, ..config() });
    assert!(!overload(&mut queue, 0, 1_000, Ecn::Ect0).0.is_empty());
}

/// Empties a queue, whatever it drops meanwhile.
fn drain(queue: &mut Codel<Id>, now: Time) {
    while next(queue, now).0.is_some() {}
}

#[test]
fn a_new_episode_begins_where_the_last_one_got_to() {
    let mut queue = Codel::new(config());
    let (_, marks) = overload(&mut queue, 0, 1_000, Ecn::Ect0);
    drain(&mut queue, millis(1_000));
    // The second episode begins 110 ms after its first packet, and continues at the count of the
    // first.
    let (_, again) = overload(&mut queue, 1_002, 1_700, Ecn::Ect0);
    let signals = marks.len() as u32;
    assert_eq!(again, due(1_002_000 + FIRST_DROP_US, signals - 1, 1_700_000));
    // Sixteen intervals later it begins at one again.
    drain(&mut queue, millis(1_700));
    let (_, late) = overload(&mut queue, 10_000, 10_700, Ecn::Ect0);
    assert_eq!(late, due(10_000_000 + FIRST_DROP_US, 1, 10_700_000));
}

#[test]
fn a_queue_of_one_packet_is_not_a_standing_queue() {
    // Each packet has waited 50 ms, but no more than one is behind it at any time.
    let mut queue = Codel::new(config());
    for id in 0..200_u64 {
        let _ = offer(&mut queue, millis(50 * id), packet(id as usize, 1, 1500, Ecn::NotEct));
        if id > 0 {
            let (sent, dropped) = next(&mut queue, millis(50 * id));
            assert!(sent.is_some() && dropped.is_empty());
        }
    }
}

#[test]
fn a_delay_below_the_target_starts_the_interval_again() {
    let mut queue = Codel::new(config());
    let mut id = 0;
    // 90 ms above the target, then a moment without a queue, repeatedly.
    for round in 0..50 {
        for ms in 0..90 {
            let _ = offer(&mut queue, millis(100 * round + ms), packet(id, 1, 1000, Ecn::NotEct));
            id += 1;
            if ms > 10 {
                assert!(next(&mut queue, millis(100 * round + ms)).1.is_empty());
            }
        }
        while let (Some(_), dropped) = next(&mut queue, millis(100 * round + 90)) {
            assert!(dropped.is_empty());
        }
    }
}
