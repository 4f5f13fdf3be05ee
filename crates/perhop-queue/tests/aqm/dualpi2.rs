//! DualPI2 compared with RFC 9332: coupling, controller, threshold and shares.

use perhop_core::{Duration, Ecn, Time};
use perhop_queue::{Cause, Discipline, DualPi2, DualPi2Config, Limit};

use crate::lab::*;

fn config() -> DualPi2Config {
    DualPi2Config {
        limit: Limit::packets(100_000),
        target: Duration::from_millis(15),
        max_rtt: Duration::from_millis(100),
        coupling: 2,
        threshold: Duration::from_micros(800),
        range: Duration::from_micros(400),
        classic_share_ppb: 62_500_000,
    }
}

/// From the beginning, and after a silence in which the base probability falls to zero: updates
/// come at multiples of 15 ms all the same.
#[test]
fn the_base_probability_is_that_of_the_pi_controller() {
    let mut queue = DualPi2::new(config());
    for begin in [0, 150 * 10_000_000] {
        assert!(next(&mut queue, micros(100 * begin)).0.is_none());
        assert_eq!(queue.classic_probability(), 0.0);
        follow_the_controller(&mut queue, begin);
        while next(&mut queue, micros(100 * (begin + 60_000))).0.is_some() {}
    }
}

/// Offers packets to an empty queue and takes them out for six seconds, from a multiple of 15 ms in
/// units of 100 µs.
fn follow_the_controller(queue: &mut DualPi2<Id>, begin: u64) {
    // The appendix's constants: an update every 15 ms, 0.1 · 15 ms / (100 ms)² = 0.15 and
    // 0.3 / 100 ms = 3 Hz.
    let (mut base, mut old) = (0.0_f64, 0.0);
    let mut waiting = std::collections::VecDeque::new();
    for at in begin..begin + 60_000 {
        let now = micros(100 * at);
        if at % 150 == 0 {
            let delay = waiting.front().map_or(0.0, |arrived| (at - arrived) as f64 * 1e-4);
            base = (base + 0.15 * (delay - 0.015) + 3.0 * (delay - old)).clamp(0.0, 1.0);
            old = delay;
        }
        // A packet every 0.5 ms; one leaves every 0.8 ms.
        if at % 5 == 0 {
            assert!(offer(queue, now, packet(at as usize, 1, 1000, Ecn::NotEct)).0.is_empty());
            waiting.push_back(at);
            assert_close(queue.classic_probability(), base * base);
            assert_close(queue.coupled_probability(), (2.0 * base).min(1.0));
        }
        if at % 8 == 3 {
            let (sent, dropped) = next(queue, now);
            (0..dropped.len() + usize::from(sent.is_some())).for_each(|_| {
                waiting.pop_front();
            });
        }
    }
    // 2000 packets arrive per second and 1250 leave: three in eight are dropped.
    assert!((base * base - 0.375).abs() < 0.05, "{base}");
}

/// Returns a queue whose coupled probability has just reached `coupled`, with waiting Classic
/// packets, and the instant, after which there is no update for 15 ms.
fn with_probability(coupled: f64) -> (DualPi2<Id>, Time) {
    let mut queue = DualPi2::new(config());
    for update in 0.. {
        let now = millis(15 * update);
        assert!(offer(&mut queue, now, packet(0, 1, 1000, Ecn::NotEct)).0.is_empty());
        if queue.coupled_probability() >= coupled {
            return (queue, now);
        }
    }
    unreachable!("the delay grows, and so does the probability")
}

/// Offers `count` packets of a kind at once and takes all packets out; returns the numbers of
/// packets sent without a mark, sent with one, and dropped.
fn fates(queue: &mut DualPi2<Id>, now: Time, count: usize, ecn: Ecn) -> [f64; 3] {
    for id in 0..count {
        assert!(offer(queue, now, packet(id, 1, 1000, ecn)).0.is_empty());
    }
    let mut fates = [0; 3];
    loop {
        let (sent, drops) = next(queue, now);
        fates[2] += drops.len();
        match sent {
            Some(packet) => fates[usize::from(packet.header.ecn() == Ecn::Ce)] += 1,
            None => return fates.map(|count| count as f64),
        }
    }
}

#[test]
fn signals_come_as_often_as_the_coupling_says() {
    let (mut queue, now) = with_probability(0.3);
    let base = queue.coupled_probability() / 2.0;
    assert!((0.15..0.5).contains(&base));
    assert_close(queue.classic_probability(), base * base);
    let _ = fates(&mut queue, now, 0, Ecn::NotEct); // the waiting ones
    // Exact to the packet, because signals are evenly spaced.
    let [_, marked, dropped] = fates(&mut queue, now, 10_000, Ecn::Ect1);
    assert!(dropped == 0.0 && (marked - 10_000.0 * 2.0 * base).abs() <= 1.0, "{marked}");
    let [_, marked, dropped] = fates(&mut queue, now, 10_000, Ecn::Ect0);
    assert!(dropped == 0.0 && (marked - 10_000.0 * base * base).abs() <= 1.0, "{marked}");
    let [_, marked, dropped] = fates(&mut queue, now, 10_000, Ecn::NotEct);
    assert!(marked == 0.0 && (dropped - 10_000.0 * base * base).abs() <= 1.0, "{dropped}");
}

/// Appendix A.2: when all L4S packets are marked, they are also dropped like Classic ones, none of
/// which is marked any more.
#[test]
fn in_overload_all_are_dropped_alike() {
    let (mut queue, now) = with_probability(1.0);
    let classic = queue.classic_probability();
    assert!((0.25..0.9).contains(&classic), "{classic}");
    let _ = fates(&mut queue, now, 0, Ecn::NotEct);
    for ecn in [Ecn::Ect1, Ecn::Ect0, Ecn::NotEct] {
        let [unmarked, marked, dropped] = fates(&mut queue, now, 10_000, ecn);
        assert!((dropped - 10_000.0 * classic).abs() <= 1.0, "{ecn:?}: {dropped}");
        // The first mark comes when the sum of probabilities exceeds one.
        let (few, rest) = if ecn == Ecn::Ect1 { (unmarked, marked) } else { (marked, unmarked) };
        assert!(few <= 1.0 && few + rest + dropped == 10_000.0, "{ecn:?}: {few}");
    }
}

#[test]
fn a_step_marks_from_its_threshold_on() {
    let step =
        DualPi2Config { threshold: Duration::from_millis(1), range: Duration::ZERO, ..config() };
    for (waited, marked) in [(0, false), (999, false), (1_000, true), (5_000, true)] {
        let mut queue = DualPi2::new(step);
        for id in 0..2 {
            let _ = offer(&mut queue, millis(1), packet(id, 1, 1000, Ecn::Ect1));
        }
        // A mark is due when the sum of probabilities since the last one exceeds one: the second
        // time.
        let marks = [2, 3].map(|id| {
            let _ = offer(&mut queue, millis(1), packet(id, 1, 1000, Ecn::Ect1));
            let (sent, _) = next(&mut queue, micros(1_000 + waited));
            sent.unwrap().header.ecn() == Ecn::Ce
        });
        assert_eq!(marks, [false, marked], "after {waited} µs");
    }
}

#[test]
fn a_ramp_marks_in_proportion() {
    // 900 µs is a quarter of the range from 800 to 1200.
    let mut queue = DualPi2::new(config());
    let mut marks = 0;
    for id in 0..1_001 {
        let _ = offer(&mut queue, micros(1_000), packet(id, 1, 1000, Ecn::Ect1));
    }
    for _ in 0..1_000 {
        let (sent, _) = next(&mut queue, micros(1_900));
        marks += u32::from(sent.unwrap().header.ecn() == Ecn::Ce);
    }
    assert!(marks.abs_diff(250) <= 1, "{marks}");
    // No packet is behind the last one.
    assert_eq!(next(&mut queue, millis(9)).0.unwrap().header.ecn(), Ecn::Ect1);
}

#[test]
fn the_classic_queue_has_its_share_to_the_packet() {
    let mut queue = DualPi2::new(config());
    for id in 0..4_000 {
        let ecn = if id % 2 == 0 { Ecn::Ect1 } else { Ecn::Ect0 };
        let _ = offer(&mut queue, millis(0), packet(id, 1, 1000, ecn));
    }
    let mut classic = 0.0_f64;
    for round in 1..=2_000 {
        let head = queue.head(Time::ZERO);
        let (sent, _) = next(&mut queue, millis(0));
        assert_eq!(head, sent.map(|packet| packet.size()));
        classic += f64::from(u32::from(sent.unwrap().body % 2 == 1));
        assert!((classic - f64::from(round) / 16.0).abs() <= 1.0, "{classic} of {round}");
    }
}

#[test]
fn both_queues_share_one_limit() {
    let mut queue = DualPi2::new(DualPi2Config { limit: Limit::packets(10), ..config() });
    for id in 0..10 {
        let ecn = if id % 2 == 0 { Ecn::Ect1 } else { Ecn::NotEct };
        assert!(offer(&mut queue, millis(0), packet(id, 1, 1000, ecn)).0.is_empty());
    }
    let (drops, _) = offer(&mut queue, millis(0), packet(10, 1, 1000, Ecn::Ect1));
    assert_eq!(drops[0].cause, Cause::Limit);
}
