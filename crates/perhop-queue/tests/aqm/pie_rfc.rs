//! PIE's decisions, packet by packet, beside a second implementation of RFC 8033's pseudocode that
//! draws the same random numbers; and each of its safeguards by hand.

use std::collections::VecDeque;

use perhop_core::{Duration, Ecn, Stream};
use perhop_queue::{Cause, Discipline, Limit, Pass, Pie, PieConfig};

use crate::lab::*;

fn config(limit: u64) -> PieConfig {
    PieConfig {
        limit: Limit::packets(limit),
        target: Duration::from_millis(15),
        update: Duration::from_millis(15),
        alpha: PieConfig::ALPHA,
        beta: PieConfig::BETA,
        burst: Duration::from_millis(150),
        ecn: true,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Waits,
    Marked,
    Early,
    Full,
}

/// Appendix A, with the derandomisation of section 5.4; times in milliseconds.
struct Reference {
    p: f64,
    accumulated: f64,
    old: f64,
    /// Delay of the last packet that was sent.
    last: f64,
    burst: f64,
    packets: VecDeque<(u64, u64)>,
    random: Stream,
}

impl Reference {
    fn new(seed: u64) -> Self {
        let (random, packets) = (random(seed), VecDeque::new());
        Self { p: 0.0, accumulated: 0.0, old: 0.0, last: 0.0, burst: 150.0, packets, random }
    }

    fn bytes(&self) -> u64 {
        self.packets.iter().map(|(_, size)| size).sum()
    }

    fn update(&mut self) {
        let delay = if self.packets.is_empty() { 0.0 } else { self.last };
        // In seconds, and in the order of the pseudocode: sums of probabilities can be 0.85.
        let mut change = 0.125 * (delay / 1e3 - 15.0 / 1e3) + 1.25 * (delay / 1e3 - self.old / 1e3);
        if self.p < 0.1 {
            change /= 2.0;
            for below in [0.01, 0.001, 0.0001, 0.00001, 0.000001] {
                change /= if self.p < below { 4.0 } else { 1.0 };
            }
        } else {
            change = change.min(0.02);
        }
        self.p += change;
        self.p *= if delay == 0.0 && self.old == 0.0 { 0.98 } else { 1.0 };
        self.p = self.p.clamp(0.0, 1.0);
        let calm = self.p == 0.0 && delay < 7.5 && self.old < 7.5;
        self.burst = if calm { 150.0 } else { (self.burst - 15.0).max(0.0) };
        self.old = delay;
    }

    fn offer(&mut self, now: u64, size: u64, capable: bool, limit: u64) -> Fate {
        if self.packets.len() as u64 >= limit {
            self.accumulated = 0.0;
            return Fate::Full;
        }
        let fate = match self.is_early() {
            false => Fate::Waits,
            true if capable && self.p < 0.1 => Fate::Marked,
            true => Fate::Early,
        };
        if fate != Fate::Early {
            self.packets.push_back((now, size));
        }
        fate
    }

    fn is_early(&mut self) -> bool {
        if self.burst > 0.0 || (self.old < 7.5 && self.p < 0.2) || self.bytes() <= 3000 {
            return false;
        }
        self.accumulated = if self.p == 0.0 { 0.0 } else { self.accumulated + self.p };
        if self.accumulated < 0.85 {
            return false;
        }
        let early = self.accumulated >= 8.5 || self.random.unit() < self.p;
        if early {
            self.accumulated = 0.0;
        }
        early
    }
}

/// Arrivals and services on a grid of half a millisecond: delays equal half of the target, and
/// backlogs two packets of 1500 bytes.
#[test]
fn every_packet_has_the_fate_of_the_pseudocode() {
    let mut fates = [0_u32; 4];
    for seed in 0..150 {
        let mut numbers = Stream::new(seed, "pie");
        let limit = 30 + numbers.up_to(300);
        let (mut pie, mut reference) =
            (Pie::new(config(limit), random(seed)), Reference::new(seed));
        let mut half_ms = 0;
        while half_ms < 12_000 {
            let length = 20 * (1 + numbers.up_to(40));
            let (arrive, serve) = (1 + numbers.up_to(9), 1 + numbers.up_to(8));
            let capable = numbers.up_to(2);
            for _ in 0..length {
                half_ms += 1;
                let now = micros(500 * half_ms);
                if half_ms % 30 == 0 {
                    reference.update();
                }
                if numbers.up_to(9) < arrive {
                    let size = 300 * (1 + numbers.up_to(4));
                    let capable = numbers.up_to(1) < capable;
                    let ecn = if capable { Ecn::Ect0 } else { Ecn::NotEct };
                    let offered = packet(half_ms as usize, 1, size as u32, ecn);
                    if pie.backlog().packets == 0 && numbers.up_to(1) == 0 {
                        assert_eq!(pie.pass(now, &offered.header), Pass::Send);
                        reference.last = 0.0;
                    } else {
                        let (drops, marks) = offer(&mut pie, now, offered);
                        let fate = match (drops.first().map(|drop| drop.cause), marks) {
                            (Some(Cause::Early), _) => Fate::Early,
                            (Some(_), _) => Fate::Full,
                            (None, 1) => Fate::Marked,
                            (None, _) => Fate::Waits,
                        };
                        assert_eq!(fate, reference.offer(half_ms, size, capable, limit));
                        fates[fate as usize] += 1;
                    }
                }
                // Updates are performed at the next event.
                let serves = numbers.up_to(9) < serve;
                if serves {
                    let sent = next(&mut pie, now).0;
                    if let Some((since, _)) = reference.packets.pop_front() {
                        reference.last = (half_ms - since) as f64 / 2.0;
                        assert_eq!(sent.unwrap().body as u64, since);
                    }
                    let difference = (pie.probability() - reference.p).abs();
                    assert!(difference < 1e-12, "{} {}", pie.probability(), reference.p);
                }
                assert_eq!(pie.backlog().packets, reference.packets.len() as u64);
                assert_eq!(pie.backlog().bytes.get(), reference.bytes());
            }
        }
    }
    assert!(fates.iter().all(|fate| *fate > 300), "{fates:?}");
}
