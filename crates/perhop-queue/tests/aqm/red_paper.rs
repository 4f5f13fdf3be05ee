//! RED's decisions, packet by packet, beside a second implementation of the paper's figure 2 that
//! draws the same random numbers (S. Floyd and V. Jacobson, *Random Early Detection Gateways for
//! Congestion Avoidance*, ToN 1(4), 1993; `gentle`: S. Floyd, 2000).

use std::collections::VecDeque;

use perhop_core::{Dscp, Duration, Ecn, Stream};
use perhop_queue::{Cause, Discipline, Limit, Measure, Pass, Red, RedConfig, RedProfile};

use crate::lab::*;

/// Time of a typical packet in half milliseconds.
const PACKET_TIME: u64 = 2;

struct Reference {
    config: RedConfig,
    limit: usize,
    profiles: Vec<RedProfile>,
    /// By profile, what has passed since the last signal.
    counts: Vec<f64>,
    average: f64,
    /// Since when no packet waits, in half milliseconds.
    idle: Option<u64>,
    queue: VecDeque<u64>,
    random: Stream,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Waits,
    Marked,
    Early,
    Full,
}

impl Reference {
    fn measure(&mut self, now: u64) {
        let weight = self.config.weight;
        if let Some(since) = self.idle {
            // As many packets of length zero, and the one that arrives.
            let packets = (now - since) / PACKET_TIME;
            (0..=packets).for_each(|_| self.average *= 1.0 - weight);
            self.idle = Some(since + packets * PACKET_TIME);
        } else {
            let length = match self.config.measure {
                Measure::Packets => self.queue.len() as f64,
                Measure::Bytes { .. } => self.queue.iter().sum::<u64>() as f64,
            };
            self.average += weight * (length - self.average);
        }
    }

    fn offer(&mut self, now: u64, size: u64, capable: bool, profile: usize) -> Fate {
        self.measure(now);
        let RedProfile { min, max, probability } = self.profiles[profile];
        let average = self.average;
        let chance = match average {
            _ if average < min || self.queue.len() < 2 => None,
            _ if average < max => Some(probability * (average - min) / (max - min)),
            _ if self.config.gentle && average < 2.0 * max => {
                Some(probability + (1.0 - probability) * (average - max) / max)
            }
            _ => Some(f64::INFINITY),
        };
        let mut signal = false;
        let mut forced = false;
        match chance {
            None => self.counts[profile] = 0.0,
            Some(chance) if chance.is_infinite() => {
                (signal, forced, self.counts[profile]) = (true, true, 0.0);
            }
            Some(chance) => {
                let length = match self.config.measure {
                    Measure::Packets => 1.0,
                    Measure::Bytes { mean } => size as f64 / f64::from(mean),
                };
                let rest = 1.0 - self.counts[profile] * chance;
                signal = rest <= 0.0 || self.random.unit() < chance * length / rest;
                self.counts[profile] = if signal { 0.0 } else { self.counts[profile] + length };
            }
        }
        let marked = signal && capable && self.config.ecn && !(forced && self.config.harddrop);
        if signal && !marked {
            return Fate::Early;
        }
        if self.queue.len() >= self.limit {
            return Fate::Full;
        }
        self.queue.push_back(size);
        self.idle = None;
        if marked { Fate::Marked } else { Fate::Waits }
    }

    fn next(&mut self, now: u64) -> Option<u64> {
        let size = self.queue.pop_front()?;
        if self.queue.is_empty() {
            self.idle = Some(now);
        }
        Some(size)
    }
}

#[test]
fn every_packet_has_the_fate_of_the_paper() {
    let mut fates = [0_u32; 4];
    for seed in 0..150 {
        let mut numbers = Stream::new(seed, "red");
        let mut maybe = || numbers.up_to(1) == 0;
        let bytes = maybe();
        let (gentle, ecn, harddrop) = (maybe(), maybe(), maybe());
        let unit = if bytes { 500.0 } else { 1.0 };
        let limit = 20 + numbers.up_to(30) as usize;
        let config = RedConfig {
            limit: Limit::packets(limit as u64),
            measure: if bytes { Measure::Bytes { mean: 500 } } else { Measure::Packets },
            weight: 1.0 / (2 << numbers.up_to(4)) as f64,
            packet_time: Duration::from_micros(500 * PACKET_TIME),
            gentle,
            ecn,
            harddrop,
        };
        let mut profile = |most: u64| {
            let min = numbers.up_to(6) as f64 * unit;
            let max = min + unit * (1 + numbers.up_to(most)) as f64;
            RedProfile { min, max, probability: 1.0 / (1 + numbers.up_to(20)) as f64 }
        };
        let profiles = vec![profile(15), profile(4)];
        let mut by_dscp = [0; Dscp::COUNT];
        by_dscp[10] = 1;
        let mut red = Red::new(config, &profiles, by_dscp, random(seed));
        let mut reference = Reference {
            config,
            limit,
            profiles,
            counts: vec![0.0; 2],
            average: 0.0,
            idle: Some(0),
            queue: VecDeque::new(),
            random: random(seed),
        };
        let mut now = 0;
        while now < 4_000 {
            let length = 10 * (1 + numbers.up_to(30));
            let (arrive, serve) = (numbers.up_to(10), 1 + numbers.up_to(9));
            for _ in 0..length {
                now += 1;
                if numbers.up_to(9) < arrive {
                    let size = 250 * (1 + numbers.up_to(3));
                    let capable = numbers.up_to(1) == 0;
                    let profile = numbers.up_to(1) as usize;
                    let ecn = if capable { Ecn::Ect0 } else { Ecn::NotEct };
                    let offered = packet(now as usize, 1, size as u32, ecn);
                    let offered = with_dscp(offered, if profile == 1 { 10 } else { 0 });
                    if reference.queue.is_empty() && numbers.up_to(1) == 0 {
                        assert_eq!(red.pass(micros(500 * now), &offered.header), Pass::Send);
                        assert_eq!(reference.offer(now, size, capable, profile), Fate::Waits);
                        assert!(reference.next(now).is_some());
                    } else {
                        let (drops, marks) = offer(&mut red, micros(500 * now), offered);
                        let fate = match (drops.first().map(|drop| drop.cause), marks) {
                            (Some(Cause::Early), _) => Fate::Early,
                            (Some(_), _) => Fate::Full,
                            (None, 1) => Fate::Marked,
                            (None, _) => Fate::Waits,
                        };
                        let expected = reference.offer(now, size, capable, profile);
                        assert_eq!(fate, expected, "seed {seed} at {now}");
                        fates[fate as usize] += 1;
                    }
                    let scale = reference.average.max(1e-9);
                    assert!((red.average() - reference.average).abs() < 1e-9 * scale);
                }
                if numbers.up_to(9) < serve {
                    let head = red.head(micros(500 * now)).map(|size| size.get());
                    let sent = next(&mut red, micros(500 * now)).0;
                    assert_eq!(sent.map(|sent| sent.size().get()), head);
                    assert_eq!(reference.next(now), head);
                }
                assert_eq!(red.backlog().packets, reference.queue.len() as u64);
            }
        }
    }
    assert!(fates.iter().all(|fate| *fate > 1_000), "{fates:?}");
}
