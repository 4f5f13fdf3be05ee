//! A second model of the contention for a channel, slot by slot, with the same random numbers.

use std::collections::VecDeque;

use perhop_core::{Duration, Stream, Time};
use perhop_net::{Usage, Wifi};

use crate::lab::*;
use crate::stations::{WIFI, star};

/// A node that sends: its packets by receiver, each with the number of its failures.
#[derive(Clone, Default)]
struct Sender {
    queues: Vec<VecDeque<(Line, u32)>>,
    turn: usize,
    failures: u32,
    /// Slots that it waits in the present idle period.
    backoff: u64,
    contends: bool,
    transmissions: u64,
    failed: u64,
    collisions: u64,
    airtime: u64,
}

impl Sender {
    fn waits(&self) -> bool {
        self.queues.iter().any(|queue| !queue.is_empty())
    }
}

struct Model {
    config: Wifi,
    random: Stream,
    senders: Vec<Sender>,
    /// End of the last exchange.
    idle_from: u64,
    arrivals: Vec<(u64, Line)>,
    losses: Vec<Line>,
}

impl Model {
    /// Returns the first instant of the present idle period in which a node may send.
    fn first_slot(&self) -> u64 {
        self.idle_from + (self.config.sifs + self.config.slot * self.config.aifsn.into()).as_picos()
    }

    fn draw(&mut self, failures: u32) -> u64 {
        // The window doubles with each failure: one less than a power of two.
        let slots = (u64::from(self.config.cw_min) + 1) * 2_u64.pow(failures);
        self.random.up_to((slots - 1).min(self.config.cw_max.into()))
    }

    fn begin(&self, sender: usize) -> u64 {
        self.first_slot() + self.senders[sender].backoff * self.config.slot.as_picos()
    }

    /// A packet comes from a node that does not contend.
    fn contend(&mut self, sender: usize, now: u64) {
        let left = self.senders[sender].backoff;
        let passed = now.saturating_sub(self.first_slot());
        let backoff = match now < self.first_slot() {
            true if left == 0 => self.draw(0),
            _ => left.max(passed.div_ceil(self.config.slot.as_picos())),
        };
        self.senders[sender].backoff = backoff;
        self.senders[sender].contends = true;
    }

    /// Has the nodes send whose slot begins now.
    fn exchange(&mut self, now: u64, script: &[Send]) {
        let sending: Vec<usize> = (0..self.senders.len())
            .filter(|&number| self.senders[number].contends && self.begin(number) == now)
            .collect();
        let slot = self.senders[sending[0]].backoff;
        let collided = sending.len() > 1;
        let mut end = now;
        for &number in &sending {
            let sender = &mut self.senders[number];
            let count = sender.queues.len();
            while sender.queues[sender.turn].is_empty() {
                sender.turn = (sender.turn + 1) % count;
            }
            let queue = &mut sender.queues[sender.turn];
            sender.turn = (sender.turn + 1) % count;
            let (line, failures) = queue.pop_front().unwrap();
            // Without OFDM a byte takes a microsecond at 8 Mb/s.
            let frame = u64::from(script[line as usize].size + self.config.header);
            let duration = self.config.preamble.as_picos() + frame * MICROSECOND;
            let used = duration + (self.config.sifs + self.config.ack).as_picos();
            end = end.max(now + used);
            sender.transmissions += 1;
            sender.airtime += used;
            sender.collisions += u64::from(collided);
            sender.failed += u64::from(collided);
            sender.failures = if collided { sender.failures + 1 } else { 0 };
            if !collided {
                self.arrivals.push((now + duration, line));
            } else if failures < self.config.retries {
                queue.push_front((line, failures + 1));
            } else {
                self.losses.push(line);
                sender.failures = 0;
            }
            let failures = sender.failures;
            let drawn = self.draw(failures);
            self.senders[number].backoff = slot + drawn;
        }
        self.idle_from = end;
        for sender in &mut self.senders {
            sender.backoff = sender.backoff.saturating_sub(slot);
            sender.contends &= sender.waits();
        }
    }

    fn run(&mut self, script: &[Send]) {
        let mut next = 0;
        loop {
            let contending = (0..self.senders.len()).filter(|n| self.senders[*n].contends);
            let begin = contending.map(|number| self.begin(number)).min();
            match script.get(next) {
                Some(send) if begin.is_none_or(|begin| send.at <= begin) => {
                    let sender = usize::from(send.from);
                    let receiver = usize::from(send.to.saturating_sub(1));
                    self.senders[sender].queues[receiver].push_back((next as Line, 0));
                    next += 1;
                    if !self.senders[sender].contends {
                        self.contend(sender, send.at);
                    }
                }
                _ => match begin {
                    Some(begin) => self.exchange(begin, script),
                    None => return,
                },
            }
        }
    }
}

/// An access point and stations that send to each other at random, from idle to overloaded.
#[test]
fn every_slot_is_that_of_the_model() {
    let (mut collisions, mut losses) = (0, 0);
    for seed in 0..60 {
        let random = &mut Stream::new(seed, "contention");
        let stations = 1 + random.up_to(4) as u16;
        let config = Wifi {
            cw_min: [0, 1, 3, 15][random.up_to(3) as usize],
            cw_max: [1, 7, 1023][random.up_to(2) as usize],
            retries: random.up_to(4) as u32,
            aifsn: 1 + random.up_to(2) as u32,
            ..WIFI
        };
        let gap = [100, 600, 1_500, 6_000][random.up_to(3) as usize] * MICROSECOND;
        let mut at = 0;
        let script: Vec<Send> = (0..150)
            .map(|_| {
                // At times together, or in the slot in which another begins.
                at += random.up_to(2) * random.up_to(gap) / MICROSECOND * MICROSECOND;
                let station = 1 + random.up_to(u64::from(stations) - 1) as u16;
                let down = random.up_to(2) == 0;
                let (from, to) = if down { (0, station) } else { (station, 0) };
                Send { at, from, to, size: 100 + random.up_to(900) as u32 }
            })
            .collect();

        let mut network = star(&vec![8_000; usize::from(stations)], 0, config);
        let mut hosts = Scripted::new(script.clone(), &mut network);
        network.run(Time::MAX, &mut hosts);

        let sender = |queues: u16| Sender {
            queues: (0..queues).map(|_| VecDeque::new()).collect(),
            ..Sender::default()
        };
        let senders = [vec![sender(stations)], (0..stations).map(|_| sender(1)).collect()].concat();
        let mut model = Model {
            config,
            random: Stream::new(1, "channel"),
            senders,
            idle_from: 0,
            arrivals: Vec::new(),
            losses: Vec::new(),
        };
        model.run(&script);

        let mut found: Vec<(u64, Line)> =
            hosts.arrivals.iter().map(|(at, _, line)| (at.as_picos(), *line)).collect();
        found.sort_unstable();
        model.arrivals.sort_unstable();
        assert_eq!(found, model.arrivals, "{seed}");
        let lost: Vec<Line> = hosts.losses.iter().map(|(line, _)| *line).collect();
        assert_eq!(lost, model.losses, "{seed}");
        for (number, sender) in model.senders.iter().enumerate() {
            let ports: Vec<_> = match number {
                0 => (0..stations).map(|link| forth(link.into())).collect(),
                _ => vec![back(number as u32 - 1)],
            };
            let mut sums = (0, 0, 0, Duration::ZERO);
            for port in ports {
                let (_, counters) = network.station(port).unwrap();
                let Usage::Wifi(usage) = counters.usage else { panic!("{counters:?}") };
                sums.0 += counters.transmissions;
                sums.1 += counters.failed;
                sums.2 += usage.collisions;
                sums.3 += usage.airtime;
            }
            let airtime = Duration::from_picos(sender.airtime);
            let expected = (sender.transmissions, sender.failed, sender.collisions, airtime);
            assert_eq!(sums, expected, "{seed}, node {number}");
            collisions += sender.collisions;
        }
        losses += lost.len();
    }
    assert!(collisions > 1_000 && losses > 100, "{collisions} {losses}");
}
