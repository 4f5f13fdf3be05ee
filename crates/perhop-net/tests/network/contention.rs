//! A second model of the contention for a channel, slot by slot, with the same random numbers.

use std::collections::VecDeque;

use perhop_core::{Duration, Stream, Time};
use perhop_net::{Usage, Wifi};

use crate::lab::*;
use crate::stations::{WIFI, star};

/// A frame that was sent, and not released.
#[derive(Clone, Copy)]
struct Frame {
    line: Line,
    bytes: u64,
    failures: u32,
    arrived: bool,
}

/// The packets of a node for one receiver.
#[derive(Clone)]
struct Outlet {
    queue: VecDeque<(Line, u64)>,
    window: VecDeque<Frame>,
    /// Draws of the link's loss.
    losses: Stream,
    /// Transmissions, frames, retransmissions, failed and abandoned frames, bytes, collisions.
    counters: [u64; 7],
    airtime: u64,
}

impl Outlet {
    fn waits(&self) -> bool {
        !(self.queue.is_empty() && self.window.is_empty())
    }

    /// Adds frames to an aggregate, those to be sent again first; returns their places in the
    /// window, and their length.
    fn load(&mut self, config: Wifi) -> (Vec<usize>, u64) {
        let most = config.frames.max(1) as usize;
        let (mut places, mut length) = (Vec::new(), 0);
        let fits = |frames: usize, length: u64| {
            // Without OFDM a byte takes a microsecond at 8 Mb/s.
            let short = config.preamble.as_picos() + length * MICROSECOND;
            let room = length <= u64::from(config.bytes) && short <= config.airtime.as_picos();
            frames == 0 || frames < most && room
        };
        for (place, frame) in self.window.iter().enumerate().filter(|(_, frame)| !frame.arrived) {
            if !fits(places.len(), length + frame.bytes) {
                return (places, length);
            }
            self.counters[2] += 1;
            places.push(place);
            length += frame.bytes;
        }
        while self.window.len() < most
            && let Some((line, bytes)) = self.queue.front().copied()
            && fits(places.len(), length + bytes)
        {
            self.queue.pop_front();
            places.push(self.window.len());
            self.window.push_back(Frame { line, bytes, failures: 0, arrived: false });
            length += bytes;
        }
        (places, length)
    }
}

/// A node that sends.
#[derive(Clone, Default)]
struct Sender {
    outlets: Vec<Outlet>,
    turn: usize,
    failures: u32,
    /// Slots that it waits in the present idle period.
    backoff: u64,
    contends: bool,
}

struct Model {
    config: Wifi,
    loss: u32,
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
    fn exchange(&mut self, now: u64) {
        let sending: Vec<usize> = (0..self.senders.len())
            .filter(|&number| self.senders[number].contends && self.begin(number) == now)
            .collect();
        let slot = self.senders[sending[0]].backoff;
        let collided = sending.len() > 1;
        let mut end = now;
        for &number in &sending {
            let (config, loss) = (self.config, self.loss);
            let sender = &mut self.senders[number];
            let count = sender.outlets.len();
            while !sender.outlets[sender.turn].waits() {
                sender.turn = (sender.turn + 1) % count;
            }
            let outlet = &mut sender.outlets[sender.turn];
            sender.turn = (sender.turn + 1) % count;
            let (places, length) = outlet.load(config);
            let duration = config.preamble.as_picos() + length * MICROSECOND;
            let answer = if places.len() > 1 { config.block_ack } else { config.ack };
            let used = duration + (config.sifs + answer).as_picos();
            end = end.max(now + used);
            outlet.airtime += used;
            outlet.counters[0] += 1;
            outlet.counters[1] += places.len() as u64;
            outlet.counters[5] += length;
            outlet.counters[6] += u64::from(collided);
            let mut any = false;
            for place in places {
                let frame = &mut outlet.window[place];
                let lost = collided || loss > 0 && outlet.losses.chance_ppb(loss);
                frame.arrived = !lost;
                frame.failures += u32::from(!frame.arrived);
                outlet.counters[3] += u64::from(!frame.arrived);
                any |= frame.arrived;
            }
            // A frame that is given up ends a run of failures.
            let mut over = any;
            while let Some(frame) = outlet.window.front().copied()
                && (frame.arrived || frame.failures > config.retries)
            {
                over = true;
                outlet.window.pop_front();
                if frame.arrived {
                    self.arrivals.push((now + duration, frame.line));
                } else {
                    outlet.counters[4] += 1;
                    self.losses.push(frame.line);
                }
            }
            sender.failures = if over { 0 } else { sender.failures + 1 };
            let failures = sender.failures;
            let drawn = self.draw(failures);
            self.senders[number].backoff = slot + drawn;
        }
        self.idle_from = end;
        for sender in &mut self.senders {
            sender.backoff = sender.backoff.saturating_sub(slot);
            sender.contends &= sender.outlets.iter().any(Outlet::waits);
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
                    let mut bytes = u64::from(send.size + self.config.header);
                    if self.config.frames > 1 {
                        // A delimiter, and padding to words.
                        bytes = 4 + bytes.next_multiple_of(4);
                    }
                    self.senders[sender].outlets[receiver].queue.push_back((next as Line, bytes));
                    next += 1;
                    if !self.senders[sender].contends {
                        self.contend(sender, send.at);
                    }
                }
                _ => match begin {
                    Some(begin) => self.exchange(begin),
                    None => return,
                },
            }
        }
    }
}

/// An access point and stations that send to each other at random, from idle to overloaded, with
/// and without aggregates and losses.
#[test]
fn every_slot_is_that_of_the_model() {
    let (mut collisions, mut losses, mut aggregates, mut again) = (0, 0, 0, 0);
    for seed in 0..120 {
        let random = &mut Stream::new(seed, "contention");
        let stations = 1 + random.up_to(4) as u16;
        let config = Wifi {
            cw_min: [0, 1, 3, 15][random.up_to(3) as usize],
            cw_max: [1, 7, 1023][random.up_to(2) as usize],
            retries: random.up_to(4) as u32,
            aifsn: 1 + random.up_to(2) as u32,
            frames: [0, 1, 2, 8][random.up_to(3) as usize],
            bytes: 1_000 + random.up_to(4_000) as u32,
            airtime: Duration::from_micros(1_000 + random.up_to(5_000)),
            ..WIFI
        };
        let loss = [0, 0, 200_000_000][random.up_to(2) as usize];
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

        let mut network = star(&vec![8_000; usize::from(stations)], loss, config);
        let mut hosts = Scripted::new(script.clone(), &mut network);
        network.run(Time::MAX, &mut hosts);

        let outlet = |name: String| Outlet {
            queue: VecDeque::new(),
            window: VecDeque::new(),
            losses: Stream::new(1, &name),
            counters: [0; 7],
            airtime: 0,
        };
        let sender = |outlets| Sender { outlets, ..Sender::default() };
        let point = (1..=stations).map(|station| outlet(format!("0-{station}/0"))).collect();
        let mut senders = vec![sender(point)];
        senders.extend((1..=stations).map(|n| sender(vec![outlet(format!("0-{n}/1"))])));
        let mut model = Model {
            config,
            loss,
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
        let links = 0..u32::from(stations);
        let ports = links.clone().map(forth).chain(links.map(back));
        for (port, outlet) in ports.zip(model.senders.iter().flat_map(|each| &each.outlets)) {
            let (_, counters) = network.station(port).unwrap();
            let Usage::Wifi(usage) = counters.usage else { panic!("{counters:?}") };
            let found = [
                counters.transmissions,
                counters.frames,
                counters.retransmissions,
                counters.failed,
                counters.abandoned,
                counters.bytes.get(),
                usage.collisions,
            ];
            assert_eq!(found, outlet.counters, "{seed} {port:?}");
            assert_eq!(usage.airtime.as_picos(), outlet.airtime, "{seed} {port:?}");
            collisions += usage.collisions;
            aggregates += u64::from(counters.frames > 2 * counters.transmissions);
            again += counters.retransmissions;
        }
        losses += lost.len();
    }
    let seen = (collisions > 1_000, losses > 100, aggregates > 10, again > 1_000);
    assert_eq!(seen, (true, true, true, true), "{collisions} {losses} {aggregates} {again}");
}
