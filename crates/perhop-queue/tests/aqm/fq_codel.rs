//! FQ-CoDel: fair shares, sparse flows first, and drops when all queues are full.

use perhop_core::{Duration, Ecn};
use perhop_queue::{
    Cause, Codel, CodelConfig, Discipline, FqCodel, FqCodelConfig, Limit, StandingBacklog,
};

use crate::lab::*;

fn config(limit: Limit) -> FqCodelConfig {
    let codel = CodelConfig {
        limit,
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        ecn: true,
    };
    FqCodelConfig { codel, flows: 1024, quantum: 1514, standing: StandingBacklog::All }
}

fn queue() -> FqCodel<Id> {
    FqCodel::new(config(Limit::packets(10_240)), &mut random(1))
}

#[test]
fn flows_get_equal_bytes_whatever_their_packets() {
    check_equal_bytes(queue(), 1514);
}

#[test]
fn a_sparse_flow_waits_for_no_other() {
    let mut queue = queue();
    for id in 0..1_000 {
        let _ = offer(&mut queue, millis(0), packet(id, (id % 10) as u16, 1500, Ecn::NotEct));
    }
    // The bulk flows are backlogged; a sparse one sends a packet every 20 services.
    for round in 0..30 {
        for _ in 0..20 {
            assert!(next(&mut queue, millis(1)).0.is_some());
        }
        let _ = offer(&mut queue, millis(1), packet(5_000 + round, 77, 200, Ecn::NotEct));
        let (Some(packet), _) = next(&mut queue, millis(1)) else { panic!("idle") };
        assert_eq!(packet.header.source_port, 77);
    }
}

#[test]
fn a_flow_that_sends_more_than_its_quantum_is_sparse_no_longer() {
    let mut queue = queue();
    for id in 0..100 {
        let _ = offer(&mut queue, millis(0), packet(id, 1, 1500, Ecn::NotEct));
    }
    for _ in 0..5 {
        let _ = next(&mut queue, millis(1));
    }
    for id in 100..110 {
        let _ = offer(&mut queue, millis(1), packet(id, 2, 1500, Ecn::NotEct));
    }
    let flows: Vec<u16> =
        (0..12).map(|_| next(&mut queue, millis(1)).0.unwrap().header.source_port).collect();
    // A quantum holds one packet and part of another: two at first, because packets are sent whole,
    // then in turn.
    assert_eq!(&flows[..2], [2, 2]);
    assert_eq!(flows.iter().filter(|flow| **flow == 2).count(), 7, "{flows:?}");
}

#[test]
fn when_all_is_full_the_longest_queue_pays() {
    let mut queue = FqCodel::new(config(Limit::packets(100)), &mut random(1));
    for id in 0..100 {
        let flow = if id < 90 { 1 } else { 2 };
        assert!(offer(&mut queue, millis(0), packet(id, flow, 1000, Ecn::NotEct)).0.is_empty());
    }
    let (drops, _) = offer(&mut queue, millis(0), packet(100, 3, 1000, Ecn::NotEct));
    // Half of the 90, from the head.
    let ids: Vec<Id> = drops.iter().map(|drop| drop.packet.body).collect();
    assert_eq!(ids, (0..45).collect::<Vec<_>>());
    assert!(drops.iter().all(|drop| drop.cause == Cause::Limit));
    assert_eq!(queue.backlog().packets, 100 - 45 + 1);
}

#[test]
fn an_overflow_drops_64_at_most() {
    let mut queue = FqCodel::new(config(Limit::packets(1_000)), &mut random(1));
    for id in 0..1_000 {
        let _ = offer(&mut queue, millis(0), packet(id, 1, 1000, Ecn::NotEct));
    }
    assert_eq!(offer(&mut queue, millis(0), packet(1_000, 2, 1000, Ecn::NotEct)).0.len(), 64);
}

#[test]
fn an_overflow_takes_half_of_the_bytes() {
    let mut queue = FqCodel::new(config(Limit::packets(40)), &mut random(1));
    // Thirty short packets before ten long ones: 3,000 and 10,000 bytes.
    for id in 0..40 {
        let size = if id < 30 { 100 } else { 1000 };
        let _ = offer(&mut queue, millis(0), packet(id, 1, size, Ecn::NotEct));
    }
    let (drops, _) = offer(&mut queue, millis(0), packet(40, 2, 1000, Ecn::NotEct));
    // 6,500 at least: all of the short ones and four of the long ones.
    assert_eq!(drops.len(), 34);
}

/// Linux: `fq_codel_drop` adds its drops to CoDel's count. Returns the times in milliseconds of
/// CoDel's drops from a flow that is never idle, with so many packets too many at 0 and at 150 ms.
fn drops_with(excess: [usize; 2]) -> Vec<u64> {
    let mut queue = FqCodel::new(config(Limit::packets(1_000)), &mut random(1));
    let (mut drops, mut id) = (Vec::new(), 0);
    for ms in 0..400 {
        let room = 1_000 - queue.backlog().packets as usize;
        let arrivals = match ms {
            0 => room + excess[0],
            150 => room + excess[1],
            _ => 0,
        };
        for _ in 0..arrivals {
            let _ = offer(&mut queue, millis(ms), packet(id, 1, 1000, Ecn::NotEct));
            id += 1;
        }
        let dropped = next(&mut queue, millis(ms)).1.len();
        drops.extend(std::iter::repeat_n(ms, dropped));
    }
    drops
}

#[test]
fn an_overflow_makes_codel_drop_more_often() {
    // The packet of 5 ms is the first above the target, and that of 105 ms the first to be dropped.
    // From then on the control law applies, with the drops of an overflow. Those of an overflow
    // before do not count: no episode has ended recently.
    for (excess, dropped) in [([0, 0], 0.0), ([0, 1], 64.0), ([1, 0], 0.0), ([1, 1], 64.0)] {
        let (mut due, mut count) = (205.0, 1.0 + dropped);
        let mut expected = vec![105];
        while due < 399.0 {
            expected.push(f64::ceil(due - 1e-9) as u64);
            count += 1.0;
            due += 100.0 / f64::sqrt(count);
        }
        assert_eq!(drops_with(excess), expected, "{excess:?}");
    }
}

/// With one flow and without a limit, FQ-CoDel is CoDel: the same drops and marks at the same
/// times.
#[test]
fn one_flow_is_codel() {
    let (mut signals, mut numbers) = (0, random(9));
    for standing in [StandingBacklog::Flow, StandingBacklog::All] {
        let config = FqCodelConfig { standing, quantum: 300, ..config(Limit::packets(u64::MAX)) };
        let mut fair = FqCodel::new(config, &mut random(1));
        let mut plain = Codel::new(config.codel);
        let mut half_ms = 0;
        for id in 0..40_000 {
            half_ms += numbers.up_to(2);
            let now = micros(500 * half_ms);
            // A load that changes every thousand packets.
            if numbers.up_to(9) < [3, 5, 6, 2][id / 1000 % 4] {
                let ecn = if numbers.up_to(1) == 0 { Ecn::Ect0 } else { Ecn::NotEct };
                let packet = packet(id, 1, 300 * (1 + numbers.up_to(4) as u32), ecn);
                assert_eq!(offer(&mut fair, now, packet), offer(&mut plain, now, packet));
            }
            if numbers.up_to(9) < 4 {
                let (sent, dropped) = next(&mut plain, now);
                signals += dropped.len();
                assert_eq!(next(&mut fair, now), (sent, dropped));
            }
            assert_eq!((fair.backlog(), fair.head(now)), (plain.backlog(), plain.head(now)));
        }
    }
    assert!(signals > 200, "{signals}");
}

/// RFC 8289, section 5.6, and Linux's `codel_should_drop`: an empty queue has no delay, so that
/// later packets begin an interval of their own.
#[test]
fn a_flow_queue_that_was_empty_begins_anew() {
    let mut queue = FqCodel::new(
        FqCodelConfig { quantum: 1500, ..config(Limit::packets(1_000)) },
        &mut random(1),
    );
    for ms in 0..1_000 {
        // Ten idle flows send a packet each every 20 ms: the last waits for 10 ms.
        if ms % 20 == 0 {
            for flow in 0..10 {
                let _ = offer(&mut queue, millis(ms), packet(0, flow, 1500, Ecn::NotEct));
            }
        }
        let (sent, drops) = next(&mut queue, millis(ms));
        assert_eq!(sent.is_some(), ms % 20 < 10, "at {ms} ms");
        assert!(drops.is_empty(), "at {ms} ms");
    }
}

/// Returns the times in milliseconds of marks of the first of several flows with one waiting packet
/// each, served in turn: each waits a round of 20 ms.
fn marks_of_one_of_twenty(standing: StandingBacklog) -> Vec<u64> {
    let mut queue = FqCodel::new(
        FqCodelConfig { quantum: 1500, standing, ..config(Limit::packets(1_000)) },
        &mut random(1),
    );
    for flow in 0..20 {
        let _ = offer(&mut queue, millis(0), packet(0, flow, 1500, Ecn::Ect0));
    }
    let mut marks = Vec::new();
    for ms in 1..1_000 {
        let (Some(sent), drops) = next(&mut queue, millis(ms)) else { panic!("idle") };
        assert!(drops.is_empty());
        let flow = sent.header.source_port;
        if flow == 0 && sent.header.ecn() == Ecn::Ce {
            marks.push(ms);
        }
        let _ = offer(&mut queue, millis(ms), packet(0, flow, 1500, Ecn::Ect0));
    }
    marks
}

/// Linux compares the backlog of all flow queues with the MTU (`fq_codel_dequeue`), so that many
/// flows of one packet each make a standing queue; CoDel on each queue alone detects none.
#[test]
fn many_flows_of_one_packet_each_are_a_standing_queue() {
    // The first packet of flow 0 leaves at 1 ms, without waiting; the next ones every 20 ms from 21
    // ms on. The first of these begins the interval, which has passed at 121 ms; from then on the
    // control law applies.
    let mut expected = vec![121];
    let mut due = 121.0 + 100.0;
    for count in 2_u32.. {
        let service = 1 + 20 * ((due - 1.0) / 20.0_f64 - 1e-9).ceil() as u64;
        if service >= 1_000 {
            break;
        }
        expected.push(service);
        due += 100.0 / f64::from(count).sqrt();
    }
    assert_eq!(marks_of_one_of_twenty(StandingBacklog::All), expected);
    assert!(expected.len() > 20, "{expected:?}");
    assert_eq!(marks_of_one_of_twenty(StandingBacklog::Flow), Vec::<u64>::new());
}

#[test]
fn another_seed_makes_other_flows_collide() {
    let order = |seed| {
        let mut queue = FqCodel::new(
            FqCodelConfig { flows: 4, ..config(Limit::packets(1_000)) },
            &mut random(seed),
        );
        for id in 0..40 {
            let _ = offer(&mut queue, millis(0), packet(id, (id % 10) as u16, 1500, Ecn::NotEct));
        }
        (0..40).map(|_| next(&mut queue, millis(1)).0.unwrap().body).collect::<Vec<Id>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}
