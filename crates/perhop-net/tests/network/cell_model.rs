//! A second model of a cell whose users take turns, TTI by TTI, with the same random numbers.

use std::collections::VecDeque;

use perhop_core::{Duration, NodeId, Stream, Time};
use perhop_net::{Access, Lte, LteUsage, Scheduler, Usage};

use crate::lab::*;
use crate::stations::star;

struct Block {
    packets: Vec<Line>,
    resource_blocks: u64,
    bytes: u64,
    first: u64,
    failures: u32,
    /// TTI of its next transmission; `None` if it has arrived.
    due: Option<u64>,
}

/// A user in one direction. All times are in milliseconds.
#[derive(Default)]
struct User {
    rate: u64,
    loss: u32,
    waiting: VecDeque<(Line, u64)>,
    /// Rest of a packet of which a part was sent.
    rest: Option<(Line, u64)>,
    window: VecDeque<Block>,
    served: bool,
    /// Of the packets so far: those taken from the queue and, in the uplink, those with a grant,
    /// and the grants to come.
    taken: u64,
    granted: Option<u64>,
    to_come: VecDeque<(u64, u64)>,
    /// Transmissions, retransmissions, failures, blocks given up, bytes and resource blocks.
    counters: [u64; 6],
}

impl User {
    fn has_grant(&self) -> bool {
        self.granted.is_none_or(|granted| granted > self.taken)
    }

    fn report(&mut self, tti: u64, config: Lte) {
        let Some(granted) = self.granted else { return };
        let known = self.to_come.back().map_or(granted, |last| last.1);
        let all = self.taken + self.waiting.len() as u64;
        if all > known {
            let at = (tti * MILLISECOND + config.grant.as_picos()).div_ceil(MILLISECOND);
            self.to_come.push_back((at, all));
        }
    }

    /// Sends a block, whose failure is drawn.
    fn judge(&mut self, block: &mut Block, tti: u64, config: Lte, random: &mut Stream) {
        self.counters[0] += 1;
        self.counters[4] += block.bytes;
        self.counters[5] += block.resource_blocks;
        let mut error = u64::from(if self.loss > 0 { self.loss } else { config.bler });
        for _ in 0..block.failures {
            error = error * u64::from(config.combining) / 1_000_000_000;
        }
        if !random.chance_ppb(error as u32) {
            block.due = None;
            return;
        }
        self.counters[2] += 1;
        block.failures += 1;
        block.due = Some(tti + 8);
        if block.failures > config.retries {
            self.counters[3] += 1;
            let known = block.first * MILLISECOND + config.reordering.as_picos();
            let again = known.max((tti + 1) * MILLISECOND).div_ceil(MILLISECOND) + 8;
            (block.due, block.first, block.failures) = (Some(again), again, 0);
        }
    }

    /// Fills a block of at most so many resource blocks.
    fn load(&mut self, free: u64, tti: u64, config: Lte) -> Block {
        let all = 8_000 * u64::from(config.resource_blocks);
        let capacity = (self.rate * free / all).max(1);
        let (mut room, mut packets) = (capacity, Vec::new());
        while room > 0 {
            let next = match self.rest.take() {
                Some(rest) => Some(rest),
                None if self.has_grant() => {
                    let next = self.waiting.pop_front();
                    self.taken += u64::from(next.is_some());
                    next
                }
                None => None,
            };
            match next {
                None => break,
                Some((line, left)) if left > room => {
                    self.rest = Some((line, left - room));
                    room = 0;
                }
                Some((line, left)) => {
                    packets.push(line);
                    room -= left;
                }
            }
        }
        let bytes = capacity - room;
        let resource_blocks = (bytes * all).div_ceil(self.rate).clamp(1, free);
        Block { packets, resource_blocks, bytes, first: tti, failures: 0, due: Some(tti) }
    }
}

/// Runs a TTI of a direction; returns the packets that arrive at its end.
fn run(
    users: &mut [User],
    turn: &mut usize,
    tti: u64,
    config: Lte,
    random: &mut Stream,
) -> Vec<Line> {
    let count = users.len();
    let period = config.request_period.as_picos().div_ceil(MILLISECOND);
    for (number, user) in users.iter_mut().enumerate() {
        user.served = false;
        while let Some((at, packets)) = user.to_come.front().copied().filter(|next| next.0 <= tti) {
            assert!(at <= tti);
            user.granted = user.granted.max(Some(packets));
            user.to_come.pop_front();
        }
        let offset = number as u64 * period / count as u64;
        let asks = user.to_come.is_empty() && tti % period == offset;
        if asks && !user.has_grant() && user.rest.is_none() {
            user.report(tti, config);
        }
    }
    let mut free = u64::from(config.resource_blocks);
    for number in 0..count {
        let user = &mut users[(*turn + number) % count];
        let fits = |block: &Block| {
            block.due.is_some_and(|due| due <= tti) && block.resource_blocks <= free
        };
        if let Some(place) = user.window.iter().position(fits) {
            let mut block = user.window.remove(place).unwrap();
            free -= block.resource_blocks;
            user.served = true;
            user.counters[1] += 1;
            user.judge(&mut block, tti, config, random);
            user.window.insert(place, block);
        }
    }
    while free > 0 {
        let ready = |number: &usize| {
            let user = &users[*number];
            let waits = user.rest.is_some() || user.has_grant() && !user.waiting.is_empty();
            !user.served && waits
        };
        let Some(chosen) = (0..count).map(|n| (*turn + n) % count).find(ready) else { break };
        let user = &mut users[chosen];
        user.served = true;
        let mut block = user.load(free, tti, config);
        free -= block.resource_blocks;
        user.judge(&mut block, tti, config, random);
        user.window.push_back(block);
        user.report(tti, config);
        *turn = (chosen + 1) % count;
    }
    let mut arrived = Vec::new();
    for user in users {
        if user.waiting.is_empty() && user.granted.is_some() {
            user.granted = Some(user.taken);
            user.to_come.clear();
        }
        while user.window.front().is_some_and(|block| block.due.is_none()) {
            arrived.extend(user.window.pop_front().unwrap().packets);
        }
    }
    arrived
}

#[test]
fn every_tti_is_that_of_the_model() {
    let (mut failed, mut abandoned, mut segments) = (0, 0, 0);
    for seed in 0..80 {
        let random = &mut Stream::new(seed, "cell");
        let rates: Vec<u64> = (0..=random.up_to(4)).map(|_| 200 + random.up_to(20_000)).collect();
        let config = Lte {
            resource_blocks: [6, 25, 100][random.up_to(2) as usize],
            scheduler: Scheduler::RoundRobin,
            bler: [0, 300_000_000][random.up_to(1) as usize],
            retries: random.up_to(3) as u32,
            combining: [0, 500_000_000, 1_000_000_000][random.up_to(2) as usize],
            request_period: Duration::from_micros(1 + random.up_to(15_000)),
            grant: Duration::from_micros(random.up_to(12_000)),
            reordering: Duration::from_micros(random.up_to(30_000)),
        };
        let loss = [0, 100_000_000][random.up_to(1) as usize];
        let mut at = 0;
        let script: Vec<Send> = (0..150)
            .map(|_| {
                at += random.up_to(1) * random.up_to(8 * MILLISECOND) / 500 / MICROSECOND
                    * 500
                    * MICROSECOND;
                let user = 1 + random.up_to(rates.len() as u64 - 1) as u16;
                let (from, to) = if random.up_to(1) == 0 { (0, user) } else { (user, 0) };
                Send { at, from, to, size: 20 + random.up_to(1_480) as u32 }
            })
            .collect();

        let access = Access::Lte { base: NodeId(0), lte: config };
        let mut network = star(&rates, loss, access);
        let mut hosts = Scripted::new(script.clone(), &mut network);
        network.run(Time::from_picos(20 * SECOND), &mut hosts);
        assert_eq!(hosts.arrivals.len(), script.len(), "{seed}");

        let user =
            |rate: &u64, granted| User { rate: rate * 1000, loss, granted, ..User::default() };
        let mut ways = [None, Some(0)]
            .map(|granted| rates.iter().map(|rate| user(rate, granted)).collect::<Vec<_>>());
        let (mut turns, mut next, mut expected) = ([0, 0], 0, vec![None; script.len()]);
        let draws = &mut Stream::new(1, "channel");
        for tti in 0..20_000 {
            while let Some(send) = script.get(next).filter(|send| send.at <= tti * MILLISECOND) {
                let (way, user) = if send.from == 0 { (0, send.to) } else { (1, send.from) };
                let packet = (next as Line, u64::from(send.size));
                ways[way][usize::from(user) - 1].waiting.push_back(packet);
                next += 1;
            }
            for (way, turn) in ways.iter_mut().zip(&mut turns) {
                for line in run(way, turn, tti, config, draws) {
                    expected[line as usize] = Some((tti + 1) * MILLISECOND);
                }
                segments += way.iter().filter(|user| user.rest.is_some()).count();
            }
        }
        assert_eq!(hosts.arrived(), expected, "{seed}");
        for (way, ports) in ways.iter().zip([forth, back]) {
            for (link, user) in (0..).zip(way) {
                let (_, found) = network.station(ports(link)).unwrap();
                let Usage::Lte(LteUsage { used, offered }) = found.usage else { panic!() };
                let counters = [
                    found.transmissions,
                    found.retransmissions,
                    found.failed,
                    found.abandoned,
                    found.bytes.get(),
                    used,
                ];
                assert_eq!(counters, user.counters, "{seed} {link}");
                assert_eq!(found.frames, found.transmissions);
                assert_eq!(offered, 20_000 * u64::from(config.resource_blocks));
                failed += found.failed;
                abandoned += found.abandoned;
            }
        }
    }
    assert!(failed > 1_000 && abandoned > 100 && segments > 1_000, "{failed} {abandoned}");
}
