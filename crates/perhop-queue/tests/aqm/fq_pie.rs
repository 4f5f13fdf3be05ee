//! FQ-PIE: fair shares, and a controller for each flow.

use perhop_core::{Duration, Ecn};
use perhop_queue::{Cause, Discipline, FqPie, FqPieConfig, Limit, Pie, PieConfig};
use proptest::prelude::*;

use crate::lab::*;

fn config(limit: Limit) -> FqPieConfig {
    let pie = PieConfig {
        limit,
        target: Duration::from_millis(15),
        update: Duration::from_millis(15),
        alpha: PieConfig::ALPHA,
        beta: PieConfig::BETA,
        burst: Duration::from_millis(150),
        ecn: true,
    };
    FqPieConfig { pie, flows: 1024, quantum: 1514 }
}

#[test]
fn flows_get_equal_bytes_whatever_their_packets() {
    let queue = FqPie::new(config(Limit::packets(10_240)), random(1));
    check_equal_bytes(queue, 1514);
}

#[test]
fn a_sparse_flow_waits_for_no_other() {
    let mut queue = FqPie::new(config(Limit::packets(10_240)), random(1));
    for id in 0..1_000 {
        let _ = offer(&mut queue, millis(0), packet(id, (id % 10) as u16, 1500, Ecn::NotEct));
    }
    for round in 0..30 {
        for _ in 0..20 {
            assert!(next(&mut queue, millis(1)).0.is_some());
        }
        let _ = offer(&mut queue, millis(1), packet(5_000 + round, 77, 200, Ecn::NotEct));
        let (Some(packet), _) = next(&mut queue, millis(1)) else { panic!("idle") };
        assert_eq!(packet.header.source_port, 77);
    }
}

/// A flow that sends twice its share loses half; one that sends half of its share, nothing.
#[test]
fn each_flow_has_a_controller_of_its_own() {
    let mut queue = FqPie::new(config(Limit::packets(10_240)), random(1));
    let (mut offered, mut dropped) = ([0_u32; 2], [0_u32; 2]);
    for ms in 0..20_000_u64 {
        // A packet of 1500 bytes leaves each millisecond; one comes each millisecond of flow 0, and
        // one in four of flow 1.
        for flow in 0..2_u16 {
            if flow == 0 || ms % 4 == 0 {
                let packet = packet(ms as usize, flow, 1500, Ecn::NotEct);
                let lost = dropped_early(&mut queue, millis(ms), packet);
                if ms >= 10_000 {
                    offered[usize::from(flow)] += 1;
                    dropped[usize::from(flow)] += u32::from(lost);
                }
            }
        }
        assert!(next(&mut queue, millis(ms)).0.is_some());
    }
    assert_eq!(dropped[1], 0);
    // Flow 0 gets three of four transmissions.
    let share = f64::from(dropped[0]) / f64::from(offered[0]);
    assert!((share - 0.25).abs() < 0.01, "{share}");
}

#[test]
fn when_all_is_full_the_arrival_is_dropped() {
    let mut queue = FqPie::new(config(Limit::packets(100)), random(1));
    for id in 0..100 {
        let flow = if id < 90 { 1 } else { 2 };
        assert!(offer(&mut queue, millis(0), packet(id, flow, 1000, Ecn::NotEct)).0.is_empty());
    }
    let (drops, _) = offer(&mut queue, millis(0), packet(100, 3, 1000, Ecn::NotEct));
    assert_eq!(drops.len(), 1);
    assert_eq!((drops[0].packet.body, drops[0].cause), (100, Cause::Limit));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100, failure_persistence: None, ..Default::default()
    })]

    /// With one flow, FQ-PIE is PIE: the same drops and marks at the same times.
    #[test]
    fn one_flow_is_pie(
        gaps in prop::collection::vec((0_u64..1_500, 40_u32..1501, prop::bool::ANY), 1..600),
        limit in 1_u64..200,
    ) {
        let mut config = config(Limit::packets(limit));
        // Fast enough that the probability moves within the run.
        config.pie.target = Duration::from_millis(1);
        config.pie.update = Duration::from_millis(1);
        config.pie.burst = Duration::from_millis(3);
        config.pie.alpha = 12.5;
        config.pie.beta = 125.0;
        let mut fair = FqPie::new(config, random(7));
        let mut stream = random(7);
        stream.up_to(u64::MAX); // the hash
        let mut plain = Pie::new(config.pie, stream);
        let mut now = 0;
        for (id, (gap, size, capable)) in gaps.into_iter().enumerate() {
            now += gap;
            let ecn = if capable { Ecn::Ect0 } else { Ecn::NotEct };
            let packet = packet(id, 1, size, ecn);
            prop_assert_eq!(
                offer(&mut fair, micros(now), packet),
                offer(&mut plain, micros(now), packet)
            );
            if id % 2 == 0 {
                prop_assert_eq!(next(&mut fair, micros(now)), next(&mut plain, micros(now)));
            }
            prop_assert_eq!(fair.backlog(), plain.backlog());
        }
    }
}
