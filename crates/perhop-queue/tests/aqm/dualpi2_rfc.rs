//! DualPI2's decisions, packet by packet, beside a second implementation of the pseudocode of RFC
//! 9332, appendices A.1 and A.2.

use std::collections::VecDeque;

use perhop_core::{Duration, Ecn, Stream};
use perhop_queue::{Discipline, DualPi2, DualPi2Config, Limit, Pass};

use crate::lab::*;

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: Id,
    size: i64,
    since: u64,
    ecn: Ecn,
}

/// Times in units of 100 µs.
struct Reference {
    config: DualPi2Config,
    target: u64,
    rtt: u64,
    classic: VecDeque<Waiting>,
    l4s: VecDeque<Waiting>,
    base: f64,
    old: f64,
    next_update: u64,
    /// Sums of probabilities: marks and drops of L4S packets, signals of Classic ones.
    sums: [f64; 3],
    /// Bytes by which the L4S queue is ahead of its share, in sixteenths.
    ahead: i64,
}

impl Reference {
    fn takes(&mut self, sum: usize, likelihood: f64) -> bool {
        self.sums[sum] += likelihood;
        let taken = self.sums[sum] > 1.0;
        if taken {
            self.sums[sum] -= 1.0;
        }
        taken
    }

    /// An update every target or third of a round trip, with the longer of the two delays.
    fn catch_up(&mut self, now: u64) {
        while self.next_update <= now {
            let since = |queue: &VecDeque<Waiting>| queue.front().map(|packet| packet.since);
            let oldest = since(&self.classic).into_iter().chain(since(&self.l4s)).min();
            let delay = oldest.map_or(0.0, |since| (self.next_update - since) as f64 / 1e4);
            let (target, rtt) = (self.target as f64 / 1e4, self.rtt as f64 / 1e4);
            let interval = self.target.min(self.rtt / 3);
            let (alpha, beta) = (0.1 * (interval as f64 / 1e4) / (rtt * rtt), 0.3 / rtt);
            let change = alpha * (delay - target) + beta * (delay - self.old);
            (self.base, self.old) = ((self.base + change).clamp(0.0, 1.0), delay);
            self.next_update += interval;
        }
    }

    fn dequeue(&mut self, now: u64) -> (Option<(Id, bool)>, Vec<Id>) {
        self.catch_up(now);
        let mut dropped = Vec::new();
        loop {
            let both = !self.classic.is_empty() && !self.l4s.is_empty();
            let from_l4s = if both { self.ahead <= 0 } else { !self.l4s.is_empty() };
            let queue = if from_l4s { &mut self.l4s } else { &mut self.classic };
            let Some(packet) = queue.pop_front() else { return (None, dropped) };
            let coupled = f64::from(self.config.coupling) * self.base;
            let square = self.base * self.base;
            let waited = now - packet.since;
            let (mut marked, mut drop) = (packet.ecn == Ecn::Ce, false);
            if !from_l4s {
                if self.takes(2, square) {
                    match packet.ecn == Ecn::Ect0 && coupled < 1.0 {
                        true => marked = true,
                        false => drop = true,
                    }
                }
            } else if coupled < 1.0 {
                // A ramp from 800 to 1200 µs, or a step.
                let native = match waited {
                    _ if self.l4s.is_empty() || waited < 8 => 0.0,
                    _ if self.config.range == Duration::ZERO => 1.0,
                    8..12 => (waited - 8) as f64 / 4.0,
                    _ => 1.0,
                };
                marked |= self.takes(0, coupled.max(native));
            } else if self.takes(1, square) {
                drop = true;
            } else {
                marked |= self.takes(0, 1.0);
            }
            if drop {
                dropped.push(packet.id);
                continue;
            }
            self.ahead += match (both, from_l4s) {
                (true, true) => packet.size,
                (true, false) => -15 * packet.size,
                (false, _) => -self.ahead,
            };
            return (Some((packet.id, marked)), dropped);
        }
    }
}

#[test]
fn every_packet_has_the_fate_of_the_pseudocode() {
    let (mut marks, mut drops, mut passes, mut full) = (0_usize, 0_usize, 0_usize, 0_usize);
    for seed in 0..150 {
        let mut numbers = Stream::new(seed, "dualpi2");
        let limit = 50 + numbers.up_to(400);
        let (target, rtt) = [(150, 1_000), (150, 1_000), (400, 600)][numbers.up_to(2) as usize];
        let config = DualPi2Config {
            limit: Limit::packets(limit),
            target: Duration::from_micros(100 * target),
            max_rtt: Duration::from_micros(100 * rtt),
            coupling: 1 + numbers.up_to(3) as u32,
            threshold: Duration::from_micros(800),
            range: Duration::from_micros(400 * numbers.up_to(1)),
            classic_share_ppb: 62_500_000,
        };
        let mut queue = DualPi2::new(config);
        let mut reference = Reference {
            config,
            target,
            rtt,
            classic: VecDeque::new(),
            l4s: VecDeque::new(),
            base: 0.0,
            old: 0.0,
            next_update: target.min(rtt / 3),
            sums: [0.0; 3],
            ahead: 0,
        };
        let (mut now, mut id) = (0, 0);
        while now < 12_000 {
            let length = 50 * (1 + numbers.up_to(20));
            let (arrive, serve, kinds) = (numbers.up_to(9), 1 + numbers.up_to(8), numbers.up_to(4));
            for _ in 0..length {
                now += 1;
                if numbers.up_to(9) < arrive {
                    let size = 500 * (1 + numbers.up_to(2));
                    let l4s = numbers.up_to(3) < kinds;
                    let ecn = match (l4s, numbers.up_to(9)) {
                        (true, 0) => Ecn::Ce,
                        (true, _) => Ecn::Ect1,
                        (false, 0..5) => Ecn::Ect0,
                        (false, _) => Ecn::NotEct,
                    };
                    let offered = packet(id, 1, size as u32, ecn);
                    let waiting = Waiting { id, size: size as i64, since: now, ecn };
                    id += 1;
                    reference.catch_up(now);
                    let empty = reference.l4s.is_empty() && reference.classic.is_empty();
                    if empty && numbers.up_to(1) == 0 {
                        let pass = queue.pass(micros(100 * now), &offered.header);
                        if pass == Pass::Send {
                            assert_eq!(reference.base, 0.0);
                            reference.ahead = 0;
                            passes += 1;
                            continue;
                        }
                        assert!(pass == Pass::Enqueue && reference.base > 0.0);
                    }
                    let dropped = !offer(&mut queue, micros(100 * now), offered).0.is_empty();
                    let has_room = ((reference.l4s.len() + reference.classic.len()) as u64) < limit;
                    assert_eq!(dropped, !has_room);
                    full += usize::from(dropped);
                    if has_room && matches!(ecn, Ecn::Ect1 | Ecn::Ce) {
                        reference.l4s.push_back(waiting);
                    } else if has_room {
                        reference.classic.push_back(waiting);
                    }
                }
                if numbers.up_to(9) < serve {
                    let (sent, dropped) = next(&mut queue, micros(100 * now));
                    let sent = sent.map(|sent| (sent.body, sent.header.ecn() == Ecn::Ce));
                    let expected = reference.dequeue(now);
                    drops += dropped.len();
                    marks += usize::from(sent.is_some_and(|sent| sent.1));
                    assert_eq!((sent, dropped), expected, "seed {seed} at {now}");
                    let difference = (queue.classic_probability().sqrt() - reference.base).abs();
                    assert!(difference < 1e-9, "{difference}");
                }
            }
        }
    }
    let counts = [marks, drops, passes, full];
    assert!(marks > 5_000 && drops > 5_000 && passes > 500 && full > 100, "{counts:?}");
}
