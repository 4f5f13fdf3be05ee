//! PIE's probability, update by update, compared with the text of RFC 8033, sections 4.2 to 5.5.

use perhop_core::{Duration, Ecn};
use perhop_queue::{Cause, Discipline, Limit, Pie, PieConfig};

use crate::lab::*;

fn config() -> PieConfig {
    PieConfig {
        limit: Limit::packets(100_000),
        target: Duration::from_millis(15),
        update: Duration::from_millis(15),
        alpha: PieConfig::ALPHA,
        beta: PieConfig::BETA,
        burst: Duration::from_millis(150),
        ecn: true,
    }
}

/// The RFC's update in milliseconds, independent of the tested code.
struct Reference {
    p: f64,
    old_ms: f64,
    burst_ms: f64,
    /// Waiting time of the last packet that was sent.
    delay_us: u64,
}

const START: Reference = Reference { p: 0.0, old_ms: 0.0, burst_ms: 150.0, delay_us: 0 };

impl Reference {
    fn update(&mut self, delay_ms: f64) {
        let raw = (0.125 * (delay_ms - 15.0) + 1.25 * (delay_ms - self.old_ms)) / 1000.0;
        let steps = [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0)];
        let scale = steps.iter().find(|(below, _)| self.p < *below);
        let scale = scale.map_or(if self.p < 0.1 { 2.0 } else { 1.0 }, |(_, scale)| *scale);
        let step = raw / scale;
        self.p += if self.p >= 0.1 { step.min(0.02) } else { step };
        if delay_ms == 0.0 && self.old_ms == 0.0 {
            self.p *= 0.98;
        }
        self.p = self.p.clamp(0.0, 1.0);
        self.burst_ms = (self.burst_ms - 15.0).max(0.0);
        if self.p == 0.0 && delay_ms < 7.5 && self.old_ms < 7.5 {
            self.burst_ms = 150.0;
        }
        self.old_ms = delay_ms;
    }
}

/// Offers a packet every `gap` and serves one per millisecond; returns the share of signals.
fn load(
    pie: &mut Pie<Id>,
    reference: &mut Reference,
    (from, to): (u64, u64),
    gap: u64,
    ecn: Ecn,
) -> f64 {
    let (mut offered, mut signalled) = (0_u32, 0_u32);
    for at in from..to {
        // Times in steps of 100 µs; an update precedes other events of its instant.
        if at % 150 == 0 {
            let waits = pie.backlog().packets > 0;
            reference.update(if waits { reference.delay_us as f64 / 1000.0 } else { 0.0 });
        }
        let now = micros(at * 100);
        if at % gap == 0 {
            let (drops, marks) = offer(pie, now, packet(at as usize, 1, 1000, ecn));
            offered += 1;
            signalled += drops.len() as u32 + marks as u32;
        }
        if at % 10 == 5 {
            reference.delay_us = next(pie, now).0.map_or(0, |sent| (at - sent.body as u64) * 100);
            assert_close(pie.probability(), reference.p);
            assert_eq!(
                pie.burst_allowance(),
                Duration::from_micros((reference.burst_ms * 1e3) as u64)
            );
        }
    }
    f64::from(signalled) / f64::from(offered)
}

#[test]
fn the_probability_is_that_of_the_rfc_at_every_update() {
    let mut pie = Pie::new(config(), random(1));
    let mut reference = START;
    // Twice the service rate, so that half must be dropped; every step of the table is passed.
    load(&mut pie, &mut reference, (0, 100_000), 5, Ecn::NotEct);
    assert!(pie.probability() > 0.3, "{}", pie.probability());
    let share = load(&mut pie, &mut reference, (100_000, 300_000), 5, Ecn::NotEct);
    assert!((share - 0.5).abs() < 0.02, "{share}");
    // Half the service rate: drops end, and the burst allowance is restored.
    load(&mut pie, &mut reference, (300_000, 400_000), 20, Ecn::NotEct);
    assert_eq!(pie.probability(), 0.0);
    assert_eq!(pie.burst_allowance(), Duration::from_millis(150));
}

#[test]
fn a_long_silence_is_as_many_updates() {
    let mut pie = Pie::new(config(), random(1));
    let mut reference = START;
    load(&mut pie, &mut reference, (0, 30_000), 5, Ecn::NotEct);
    // The update at 3 s precedes the emptying of the queue.
    while next(&mut pie, millis(3_000)).0.is_some() {}
    reference.update(reference.delay_us as f64 / 1000.0);
    (0..40).for_each(|_| reference.update(0.0));
    let _ = next(&mut pie, millis(3_000 + 40 * 15));
    assert!(pie.probability() > 0.0);
    assert_close(pie.probability(), reference.p);
    let _ = next(&mut pie, millis(100_000_000));
    assert_eq!(pie.probability(), 0.0);
    // The updates come at multiples of 15 ms from then on, too.
    reference = Reference { p: 0.0, old_ms: 0.0, burst_ms: 150.0, delay_us: 0 };
    let begin = 150 * 6_666_667;
    load(&mut pie, &mut reference, (begin, begin + 30_000), 5, Ecn::NotEct);
    assert!(pie.probability() > 0.0);
}

#[test]
fn a_burst_is_let_through() {
    let mut pie = Pie::new(config(), random(1));
    // 140 ms of any load.
    for id in 0..1_400 {
        let now = micros(100 * id);
        assert!(!dropped_early(&mut pie, now, packet(id as usize, 1, 1500, Ecn::NotEct)));
        if id % 10 == 0 {
            let _ = next(&mut pie, now);
        }
    }
}

#[test]
fn packets_are_marked_up_to_a_tenth_and_dropped_above() {
    let mut pie = Pie::new(config(), random(3));
    let (mut marks, mut drops) = (0, 0);
    // A packet leaves every millisecond; arrivals are a little faster, so that the probability
    // rises slowly.
    let mut free = 0;
    for id in 0..40_000_u64 {
        let at = 970 * id;
        while free <= at {
            let _ = next(&mut pie, micros(free));
            free += 1_000;
        }
        let (dropped, marked) =
            offer(&mut pie, micros(at), packet(id as usize, 1, 1000, Ecn::Ect0));
        assert!(marked == 0 || pie.probability() < 0.1);
        assert!(dropped.is_empty() || pie.probability() >= 0.1);
        marks += marked;
        drops += dropped.len();
    }
    assert!(marks > 10 && drops > 10, "{marks} marks, {drops} drops");
}

/// Section 5.4: between two drops the sum of probabilities is at least 0.85, and at most 8.5.
#[test]
fn drops_are_neither_bunched_nor_rare() {
    let mut pie = Pie::new(config(), random(4));
    let mut sum = 0.0;
    let mut drops = 0;
    for id in 0..60_000_u64 {
        let now = micros(800 * id);
        let dropped = dropped_early(&mut pie, now, packet(id as usize, 1, 1000, Ecn::NotEct));
        sum += pie.probability();
        if dropped {
            assert!(drops == 0 || (0.85..8.5 + 1.0).contains(&sum), "{sum}");
            sum = 0.0;
            drops += 1;
        }
        if id % 5 != 0 {
            let _ = next(&mut pie, now);
        }
    }
    assert!(drops > 1_000, "{drops}");
}

/// Section 5.4, with appendix B: since the last drop, of whatever cause, the sum of probabilities
/// is at least 0.85.
#[test]
fn drops_keep_their_distance_from_those_of_a_full_queue() {
    let limited = PieConfig { limit: Limit::packets(40), ..config() };
    let mut pie = Pie::new(limited, random(5));
    let (mut accumulated, mut early, mut full) = (0.0, 0, 0);
    for at in 0..60_000_u64 {
        let now = micros(at * 500);
        let (drops, _) = offer(&mut pie, now, packet(at as usize, 1, 1000, Ecn::NotEct));
        accumulated += pie.probability();
        if let Some(drop) = drops.first() {
            if drop.cause == Cause::Early {
                early += 1;
                assert!(accumulated > 0.85 - 1e-9, "{accumulated} since the last drop");
            } else {
                full += 1;
            }
            accumulated = 0.0;
        }
        // Half of the arrivals are served, and in every other second much less.
        if at % 2 == 0 && (at / 2_000 % 2 == 0 || at % 8 == 0) {
            let _ = next(&mut pie, now);
        }
    }
    assert!(early > 100 && full > 100, "{early} early, {full} because it was full");
}
