//! SFQ: turns, the longest queue, the limits of a queue, and another hash.

use perhop_core::{Duration, Ecn};
use perhop_queue::{Dequeue, Discipline, Drop, Ledger, Limit, Sfq, SfqConfig};

use crate::lab::*;

const CONFIG: SfqConfig = SfqConfig {
    limit: Limit::packets(127),
    depth: 127,
    flows: 127,
    divisor: 1024,
    quantum: 1514,
    perturb: Duration::ZERO,
    drop: Drop::Tail,
};

fn queue(config: SfqConfig) -> Sfq<Id> {
    Sfq::new(config, random(1))
}

/// Offers a packet of 1000 bytes; returns the numbers of those that are dropped.
fn dropped_by(queue: &mut Sfq<Id>, id: Id, flow: u16) -> Vec<Id> {
    let (drops, _) = offer(queue, millis(0), packet(id, flow, 1000, Ecn::NotEct));
    drops.iter().map(|drop| drop.packet.body).collect()
}

#[test]
fn flows_get_equal_bytes_whatever_their_packets() {
    let limit = Limit::packets(u64::MAX);
    check_equal_bytes(queue(SfqConfig { limit, depth: u16::MAX, ..CONFIG }), 1514);
}

/// Linux: a flow that begins goes to the end of the round.
#[test]
fn a_new_flow_waits_for_all_others() {
    let mut queue = queue(CONFIG);
    for id in 0..40 {
        assert!(dropped_by(&mut queue, id, (id % 10) as u16).is_empty());
    }
    let _ = dropped_by(&mut queue, 40, 77);
    let turns: Vec<u16> =
        (0..21).map(|_| next(&mut queue, millis(1)).0.unwrap().header.source_port).collect();
    // A quantum is one packet and part of another: at first a turn is two packets.
    assert_eq!(turns.iter().position(|flow| *flow == 77), Some(20));
    assert_eq!(turns[..4], [0, 0, 1, 1]);
}

#[test]
fn the_longest_queue_drops_its_last_or_its_first_packet() {
    for (drop, lost) in [(Drop::Tail, 6), (Drop::Head, 0)] {
        let mut queue = queue(SfqConfig { limit: Limit::packets(10), drop, ..CONFIG });
        for id in 0..10 {
            let flow = if id < 7 { 1 } else { 2 };
            assert!(dropped_by(&mut queue, id, flow).is_empty());
        }
        assert_eq!(dropped_by(&mut queue, 10, 3), [lost]);
        assert_eq!(queue.backlog().packets, 10);
    }
}

/// Linux: `sfq_drop` takes the queue whose turn is next.
#[test]
fn of_queues_with_one_packet_each_the_next_one_loses_it() {
    let mut queue = queue(SfqConfig { limit: Limit::packets(10), ..CONFIG });
    for id in 0..10 {
        assert!(dropped_by(&mut queue, id, id as u16).is_empty());
    }
    assert_eq!(dropped_by(&mut queue, 10, 10), [0]);
    assert_eq!(next(&mut queue, millis(1)).0.unwrap().body, 1);
}

#[test]
fn one_queue_holds_its_depth() {
    for (drop, lost) in [(Drop::Tail, 5), (Drop::Head, 0)] {
        let mut queue = queue(SfqConfig { depth: 5, drop, ..CONFIG });
        for id in 0..5 {
            assert!(dropped_by(&mut queue, id, 1).is_empty());
        }
        assert_eq!(dropped_by(&mut queue, 5, 1), [lost]);
        assert!(dropped_by(&mut queue, 6, 2).is_empty());
    }
}

#[test]
fn there_are_so_many_flows_at_a_time() {
    let mut queue = queue(SfqConfig { flows: 5, ..CONFIG });
    for id in 0..5 {
        assert!(dropped_by(&mut queue, id, id as u16).is_empty());
    }
    assert_eq!(dropped_by(&mut queue, 5, 5), [5]);
    assert!(dropped_by(&mut queue, 6, 4).is_empty());
    for _ in 0..3 {
        let _ = next(&mut queue, millis(1));
    }
    assert!(dropped_by(&mut queue, 7, 5).is_empty());
}

/// Flows that collide share one turn. With another hash at intervals, collisions do not last: each
/// flow gets its share in the long run, which is why McKenney changes the hash.
#[test]
fn another_hash_ends_collisions() {
    let greatest = |perturb: Duration| {
        let mut queue = queue(SfqConfig { divisor: 8, perturb, ..CONFIG });
        let mut sent = [0_u32; 12];
        // Twelve flows in eight queues, with twice as many packets as the link takes.
        for ms in 0..60_000 {
            for flow in (0..12).filter(|flow| u64::from(*flow) % 6 == ms % 6) {
                let _ = offer(&mut queue, millis(ms), packet(0, flow, 1500, Ecn::NotEct));
            }
            let mut ledger = Ledger::new();
            if let Dequeue::Packet(packet) = queue.dequeue(millis(ms), &mut ledger) {
                sent[usize::from(packet.header.source_port)] += 1;
            }
        }
        f64::from(*sent.iter().max().unwrap()) / 60_000.0
    };
    assert!(greatest(Duration::ZERO) > 0.12);
    let changing = greatest(Duration::from_millis(100));
    assert!((changing - 1.0 / 12.0).abs() < 0.01, "{changing}");
}
