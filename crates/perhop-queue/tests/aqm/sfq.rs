//! SFQ: turns, the longest queue, the limits of a queue, and another hash.

use perhop_core::{Bytes, Duration, Ecn};
use perhop_queue::{Cause, Dequeue, Discipline, Drop, Ledger, Limit, Pass, Sfq, SfqConfig};

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

/// Of queues that are equally long, the one that has changed last loses a packet: by an arrival, a
/// departure or a drop.
#[test]
fn of_equal_queues_the_one_that_changed_last_loses() {
    let config = SfqConfig { limit: Limit::packets(6), quantum: 1000, ..CONFIG };
    let fill = |flows: &[u16]| {
        let mut queue = queue(config);
        for (id, flow) in flows.iter().enumerate() {
            assert!(dropped_by(&mut queue, id, *flow).is_empty());
        }
        queue
    };
    // The last packet of either.
    assert_eq!(dropped_by(&mut fill(&[1, 2, 1, 2, 1, 2]), 6, 3), [5]);
    assert_eq!(dropped_by(&mut fill(&[2, 1, 2, 1, 2, 1]), 6, 3), [5]);
    assert_eq!(dropped_by(&mut fill(&[1, 1, 1, 2, 2, 2]), 6, 3), [5]);
    // Two packets each of flows 1 and 2, of which the first has just sent one of three.
    let mut sent = fill(&[1, 1, 1, 2, 2, 3]);
    assert_eq!(next(&mut sent, millis(0)).0.unwrap().body, 0);
    assert!(dropped_by(&mut sent, 6, 4).is_empty());
    assert_eq!(dropped_by(&mut sent, 7, 5), [2]);
    // Flow 2 loses one of three, flow 1 as well, and is the one that changed last.
    let mut lost = fill(&[1, 1, 1, 2, 2, 2]);
    let lost = [3, 4, 5].map(|flow| dropped_by(&mut lost, 3 + usize::from(flow), flow));
    assert_eq!(lost, [[5], [2], [1]]);
}

/// A limit in bytes may need several packets to go, one after the other of the longest queue.
#[test]
fn an_arrival_makes_room_in_bytes() {
    let limit = Limit::bytes(Bytes::new(1000));
    let mut queue = queue(SfqConfig { limit, drop: Drop::Head, ..CONFIG });
    for id in 0..10 {
        let flow = if id < 6 { 1 } else { 2 };
        assert!(offer(&mut queue, millis(0), packet(id, flow, 100, Ecn::NotEct)).0.is_empty());
    }
    let (drops, _) = offer(&mut queue, millis(0), packet(10, 3, 401, Ecn::NotEct));
    // Six packets of flow 1, four of flow 2: three of the first go, and two of the other, which has
    // changed last when they are equal again.
    let drops: Vec<Id> = drops.iter().map(|drop| drop.packet.body).collect();
    assert_eq!(drops, [0, 1, 2, 6, 7]);
    assert_eq!(queue.backlog().bytes, Bytes::new(901));
    let (drops, _) = offer(&mut queue, millis(0), packet(11, 3, 1001, Ecn::NotEct));
    assert_eq!((drops.len(), drops[0].packet.body), (1, 11));
    assert_eq!(queue.pass(millis(0), &packet(12, 1, 1000, Ecn::NotEct).header), Pass::Send);
    let pass = queue.pass(millis(0), &packet(12, 1, 1001, Ecn::NotEct).header);
    assert_eq!(pass, Pass::Drop(Cause::Limit));
}

/// A period after the last change, the hash is drawn again; periods in which nothing happens make
/// one draw. Of eight pairs of flows, those that share one of two queues are sent one after the
/// other, and the others in turn.
#[test]
fn the_hash_changes_after_each_period() {
    let config = SfqConfig {
        limit: Limit::packets(1000),
        divisor: 2,
        quantum: 1000,
        perturb: Duration::from_millis(10),
        ..CONFIG
    };
    let mut queue = queue(config);
    let mut draws = random(1);
    let mut perturbation = draws.up_to(u64::MAX);
    for (tenths, is_drawn) in [
        (0, false),
        (99, false),
        (100, true),
        (199, false),
        (200, true),
        (399, true),
        (400, true),
        (499, false),
        (725, true),
        (799, false),
        (800, true),
    ] {
        if is_drawn {
            perturbation = draws.up_to(u64::MAX);
        }
        let now = micros(100 * tenths);
        for pair in 0..8 {
            let flows = [2 * pair, 2 * pair + 1];
            for id in 0..4_usize {
                let _ = offer(&mut queue, now, packet(id, flows[id / 2], 1000, Ecn::NotEct));
            }
            let sent: Vec<Id> = (0..4).map(|_| next(&mut queue, now).0.unwrap().body).collect();
            let half = |flow| {
                let header = packet(0, flow, 1000, Ecn::NotEct).header;
                header.dissected_hash(perturbation) >> 63
            };
            let collide = half(flows[0]) == half(flows[1]);
            assert_eq!(sent, if collide { [0, 1, 2, 3] } else { [0, 2, 1, 3] }, "at {now:?}");
        }
    }
}

/// When the hash changes, waiting packets move to their new queues, flow by flow, and begin with
/// new credit. What finds a new queue full is dropped.
#[test]
fn packets_move_when_the_hash_changes() {
    let perturb = Duration::from_millis(10);
    let config = SfqConfig { divisor: 1, quantum: 1500, depth: 5, perturb, ..CONFIG };
    let mut queue = queue(config);
    for id in 0..4 {
        assert!(dropped_by(&mut queue, id, id as u16).is_empty());
    }
    assert_eq!(next(&mut queue, millis(9)).0.unwrap().body, 0);
    // All are in the one queue there is, in order.
    for id in 1..4 {
        assert_eq!(next(&mut queue, millis(11)).0.unwrap().body, id);
    }
    assert!(next(&mut queue, millis(11)).0.is_none());
    // Two queues of five packets, whose flows share one after the change.
    let halves = |perturbation| {
        move |flow: &u16| {
            packet(0, *flow, 1000, Ecn::NotEct).header.dissected_hash(perturbation) >> 63
        }
    };
    let mut draws = random(1);
    let [first, second] = [draws.up_to(u64::MAX), draws.up_to(u64::MAX)].map(halves);
    let apart = |a: &u16, b: &u16| first(a) != first(b) && second(a) == second(b);
    let pair = (0..64_u16).flat_map(|a| (0..64).map(move |b| [a, b]));
    let [a, b] = pair.into_iter().find(|[a, b]| apart(a, b)).unwrap();
    let mut queue = self::queue(SfqConfig { divisor: 2, ..config });
    for (id, flow) in [a, a, a, b, b, b, b].into_iter().enumerate() {
        assert!(dropped_by(&mut queue, id, flow).is_empty());
    }
    let mut ledger = Ledger::new();
    let mut sent = Vec::new();
    while let Dequeue::Packet(packet) = queue.dequeue(millis(10), &mut ledger) {
        sent.push(packet.body);
    }
    // In the order of turns: three packets of the first flow, and four of the other.
    assert_eq!(sent, [0, 1, 2, 3, 4]);
    let dropped: Vec<(Id, Cause)> =
        ledger.drops.iter().map(|drop| (drop.packet.body, drop.cause)).collect();
    assert_eq!(dropped, [(5, Cause::Limit), (6, Cause::Limit)]);
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
