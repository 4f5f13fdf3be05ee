//! CBQ beside a second implementation, which follows ALTQ's description as a flat list of classes
//! with integers.

use std::collections::VecDeque;

use perhop_core::{Duration, Stream, Time};
use perhop_queue::{Cbq, CbqClassKind, CbqConfig, CbqSpec, Dequeue, Discipline, Ledger, Match};

use super::lab::*;

const PACKET: f64 = 1500.0;

/// A class of the tree; class 0 is the root.
#[derive(Clone, Debug, Default)]
struct Class {
    parent: usize,
    bps: u64,
    borrows: bool,
    /// Priority of a leaf; `None` for a class with others inside.
    priority: Option<usize>,
    depth: usize,
    maxidle: i64,
    minidle: i64,
    offtime: i64,
    avgidle: i64,
    last: i64,
    last_packet: i64,
    /// Zero for a class under its limit, as in ALTQ.
    undertime: i64,
    /// Tick at which its timer expires.
    asleep: Option<u64>,
    weight: i64,
    bytes: i64,
    queue: VecDeque<(u64, i64)>,
}

struct Reference {
    config: CbqConfig,
    classes: Vec<Class>,
    /// Leaves of each priority, and the place that has the first turn.
    rounds: Vec<(Vec<usize>, usize)>,
    cutoff: usize,
    ifnow: i64,
    /// Tokens in bits, times the clock's picoseconds in a second.
    tokens: i128,
    depth: i128,
    filled: u64,
    /// What a driver without `kick` has taken, and the tick at which it takes more.
    ring: VecDeque<u64>,
    tick: u64,
}

fn packet_time(size: i64, bps: u64) -> i64 {
    size * 8_000_000 / bps as i64
}

impl Reference {
    fn new(config: CbqConfig, mut classes: Vec<Class>) -> Self {
        let root = classes[0].bps as f64;
        let packet = PACKET * 8e6 / root;
        let g = 31.0_f64 / 32.0;
        let used_up = |packets: i32| (1.0 - g.powi(packets)) / g.powi(packets);
        for class in &mut classes {
            let f = class.bps as f64 / root;
            let wait = packet * (1.0 - f) / f;
            let burst = config.maxburst.unwrap_or(if wait > 10_000.0 { 4 } else { 16 }) as i32;
            let least = (config.minburst as i32).min(burst);
            let maxidle = packet * ((1.0 / f - 1.0) * used_up(burst)).max(1.0 - g);
            class.maxidle = (32.0 * maxidle) as i64;
            class.minidle = -((32.0 * PACKET * 8e6 / class.bps as f64) as i64);
            class.offtime = (wait * (1.0 + 32.0 * used_up((least - 1).max(0)))) as i64;
            class.avgidle = class.maxidle;
        }
        for index in (1..classes.len()).rev() {
            let (parent, depth) = (classes[index].parent, classes[index].depth + 1);
            classes[parent].depth = classes[parent].depth.max(depth);
        }
        let mut rounds = vec![(Vec::new(), 0); 8];
        for (index, class) in classes.iter().enumerate() {
            if let Some(priority) = class.priority {
                rounds[priority].0.push(index);
            }
        }
        for (leaves, _) in &rounds {
            let sum: i64 = leaves.iter().map(|leaf| (classes[*leaf].bps / 8) as i64).sum();
            let unit = sum / (leaves.len().max(1) as i64 * 1500);
            for leaf in leaves {
                classes[*leaf].weight =
                    if unit > 0 { (classes[*leaf].bps / 8) as i64 / unit } else { 0 };
            }
        }
        let bps = config.rate.bits_per_second();
        let packets = match bps / MEGABIT {
            _ if bps <= MEGABIT => 1,
            _ if bps <= 10 * MEGABIT => 4,
            _ if bps <= 200 * MEGABIT => 8,
            _ if bps <= 2_500 * MEGABIT => 24,
            _ => 128,
        };
        let depth = packets * 1500 * 8 * 1_000_000_000_000_i128;
        let cutoff = classes[0].depth;
        let (ring, tick) = (VecDeque::new(), 0);
        Self {
            config,
            classes,
            rounds,
            cutoff,
            ifnow: 0,
            tokens: depth,
            depth,
            filled: 0,
            ring,
            tick,
        }
    }

    fn is_over(&self, class: usize, now: i64) -> bool {
        self.classes[class].undertime != 0 && now < self.classes[class].undertime
    }

    fn lender(&self, class: usize) -> Option<usize> {
        (class > 0 && self.classes[class].borrows).then(|| self.classes[class].parent)
    }

    fn next_tick(&self, picos: u64) -> u64 {
        let tick = self.config.tick.as_picos();
        (picos / tick + 1) * tick
    }

    fn first_timer(&self) -> Option<u64> {
        self.classes.iter().filter_map(|class| class.asleep).min()
    }

    fn waits(&self) -> bool {
        self.classes.iter().any(|class| !class.queue.is_empty())
    }

    /// Wakes classes and has the driver take packets, at each timer and tick up to an instant.
    fn catch_up(&mut self, picos: u64) {
        loop {
            let ticks = !self.config.kick
                && self.config.token_bucket
                && self.waits()
                && self.ring.len() < 256;
            let tick = ticks.then_some(self.tick);
            let Some(at) = self.first_timer().into_iter().chain(tick).min() else { return };
            if at > picos {
                return;
            }
            if tick == Some(at) {
                self.tick = self.next_tick(at);
            }
            for class in &mut self.classes {
                if class.asleep.is_some_and(|until| until <= at) {
                    (class.asleep, class.undertime) = (None, 0);
                }
            }
            self.fill(at);
        }
    }

    fn fill(&mut self, picos: u64) {
        while !self.config.kick && self.ring.len() < 256 {
            let Some(id) = self.give(picos) else { return };
            self.ring.push_back(id);
        }
    }

    fn enqueue(&mut self, picos: u64, leaf: usize, id: u64, size: i64) {
        self.catch_up(picos);
        if !self.waits() {
            self.tick = self.next_tick(picos);
        }
        let now = (picos / 1_000_000) as i64;
        let mut next = Some(leaf);
        while let Some(class) = next {
            if self.classes[class].depth >= self.cutoff {
                break;
            }
            if !self.is_over(class, now) {
                self.cutoff = self.classes[class].depth;
                break;
            }
            next = self.lender(class);
        }
        self.classes[leaf].queue.push_back((id, size));
        self.fill(picos);
    }

    /// The packet for the link, or the instant at which the driver polls again.
    fn dequeue(&mut self, picos: u64) -> Result<u64, Option<u64>> {
        self.catch_up(picos);
        let next = if self.config.kick {
            self.give(picos)
        } else {
            let full = self.ring.len() == 256;
            let next = self.ring.pop_front();
            if full {
                self.tick = self.next_tick(picos);
                self.fill(picos);
            }
            next
        };
        let tick = Some(self.next_tick(picos));
        let poll = match (self.first_timer(), self.config.token_bucket) {
            (Some(timer), true) => tick.min(Some(timer)),
            (Some(timer), false) => Some(timer),
            (None, _) => tick,
        };
        next.ok_or(poll.filter(|_| self.waits()))
    }

    /// The class whose allowance a leaf may use.
    fn under_limit(&mut self, leaf: usize, picos: u64) -> Option<usize> {
        let now = (picos / 1_000_000) as i64;
        if self.classes[leaf].asleep.is_some() {
            if self.is_over(leaf, now) {
                return None;
            }
            (self.classes[leaf].asleep, self.classes[leaf].undertime) = (None, 0);
            return Some(leaf);
        }
        let mut class = leaf;
        while self.is_over(class, now) {
            let Some(above) = self.lender(class) else {
                let top = &self.classes[class];
                let pinned = top.avgidle <= top.minidle;
                let offtime = if pinned { self.classes[leaf].offtime } else { top.offtime };
                let sleeper = &mut self.classes[leaf];
                sleeper.undertime += (offtime - sleeper.last_packet).max(0);
                let delay = (sleeper.undertime - now) as u64 * 1_000_000;
                let tick = self.config.tick.as_picos();
                let ticks = if delay > 2 * tick { delay.div_ceil(tick) + 1 } else { 2 };
                sleeper.asleep = Some((picos / tick + ticks) * tick);
                return None;
            };
            if self.classes[above].depth > self.cutoff {
                return None;
            }
            class = above;
        }
        Some(class)
    }

    /// The leaf that sends, the class whose allowance it uses, and whether it is over its limit.
    fn choose(&mut self, picos: u64) -> Option<(usize, usize, bool)> {
        let mut first = None;
        loop {
            for priority in 0..8 {
                let (leaves, start) = self.rounds[priority].clone();
                let mut second = false;
                loop {
                    let mut again = false;
                    for place in 0..leaves.len() {
                        let leaf = leaves[(start + place) % leaves.len()];
                        if !second && self.classes[leaf].bytes <= 0 {
                            self.classes[leaf].bytes += self.classes[leaf].weight;
                        }
                        if !self.classes[leaf].queue.is_empty() {
                            match self.under_limit(leaf, picos) {
                                Some(from) if self.classes[leaf].bytes > 0 || second => {
                                    return Some((leaf, from, false));
                                }
                                Some(_) => again = true,
                                None if first.is_none() && self.classes[leaf].borrows => {
                                    first = Some(leaf);
                                }
                                None => {}
                            }
                        }
                        self.classes[leaf].bytes = 0;
                    }
                    if second || !again {
                        break;
                    }
                    second = true;
                }
            }
            if first.is_none() || self.cutoff >= self.classes[0].depth {
                break;
            }
            self.cutoff += 1;
        }
        self.cutoff = self.classes[0].depth;
        let leaf = first.filter(|_| self.config.efficient)?;
        (self.classes[leaf].asleep, self.classes[leaf].undertime) = (None, 0);
        let lender = self.classes[leaf].parent;
        self.cutoff = self.classes[lender].depth;
        Some((leaf, lender, true))
    }

    /// The packet for a driver that polls.
    fn give(&mut self, picos: u64) -> Option<u64> {
        if !self.waits() {
            return None;
        }
        let bps = self.config.rate.bits_per_second();
        if self.config.token_bucket && self.tokens <= 0 {
            let earned = i128::from(picos - self.filled) * i128::from(bps);
            (self.tokens, self.filled) = ((self.tokens + earned).min(self.depth), picos);
            if self.tokens <= 0 {
                return None;
            }
        }
        let (leaf, from, over) = self.choose(picos)?;
        let (id, size) = self.classes[leaf].queue.pop_front().unwrap();
        self.tokens -= i128::from(size) * 8_000_000_000_000;
        let round = &mut self.rounds[self.classes[leaf].priority.unwrap()];
        let place = round.0.iter().position(|other| *other == leaf).unwrap();
        if self.classes[leaf].bytes > 0 {
            self.classes[leaf].bytes -= size;
        }
        let ended = self.classes[leaf].bytes <= 0 || over;
        round.1 = if ended { (place + 1) % round.0.len() } else { place };
        let now = (picos / 1_000_000) as i64;
        self.ifnow =
            (self.ifnow.max(now) + packet_time(size, bps)).min(now + 16 * packet_time(1500, bps));
        let mut next = Some(leaf);
        while let Some(index) = next {
            let class = &mut self.classes[index];
            let idle = self.ifnow - class.last;
            if idle >= 2_000_000 {
                class.avgidle = class.maxidle;
            }
            let own = packet_time(size, class.bps);
            class.avgidle += idle - own - (class.avgidle >> 5);
            if class.avgidle <= 0 {
                class.avgidle = class.avgidle.max(class.minidle);
                class.undertime = now + own + ((-31 * class.avgidle) >> 5);
            } else {
                class.avgidle = class.avgidle.min(class.maxidle);
                class.undertime = 0;
            }
            (class.last, class.last_packet) = (self.ifnow, own);
            next = (index > 0).then_some(class.parent);
        }
        let depth = self.classes[from].depth;
        if from != leaf && self.cutoff >= depth {
            let spent = self.is_over(from, now) || self.classes[leaf].queue.is_empty();
            self.cutoff = if spent { self.classes[0].depth } else { depth };
        }
        Some(id)
    }
}

/// A random tree: the reference's list, and the specifications.
fn tree(numbers: &mut Stream, root: u64) -> (Vec<Class>, Vec<CbqSpec<u64>>, Vec<usize>) {
    let mut classes = vec![Class { bps: root, ..Class::default() }];
    let (mut specs, mut leaves) = (Vec::new(), Vec::new());
    let parts = [2, 3, 5, 8, 9];
    for _ in 0..1 + numbers.up_to(2) {
        let bps = root / 10 * parts[numbers.up_to(4) as usize];
        let borrows = numbers.up_to(3) > 0;
        let add = |numbers: &mut Stream,
                   classes: &mut Vec<Class>,
                   leaves: &mut Vec<usize>,
                   parent,
                   bps,
                   borrows| {
            let priority = [0, 0, 1, 7][numbers.up_to(3) as usize];
            let dscp = leaves.len() as u8;
            leaves.push(classes.len());
            classes.push(Class {
                parent,
                bps,
                borrows,
                priority: Some(priority),
                ..Class::default()
            });
            let spec = leaf(dscp, bps, borrows, u64::MAX);
            let CbqClassKind::Leaf(class, _) = spec.kind else { unreachable!() };
            CbqSpec { kind: CbqClassKind::Leaf(class, priority as u8), ..spec }
        };
        if numbers.up_to(1) == 0 {
            specs.push(add(numbers, &mut classes, &mut leaves, 0, bps, borrows));
            continue;
        }
        let inner = classes.len();
        classes.push(Class { parent: 0, bps, borrows, ..Class::default() });
        let mut inside = Vec::new();
        for _ in 0..1 + numbers.up_to(2) {
            let part = bps / 10 * parts[numbers.up_to(4) as usize];
            let borrows = numbers.up_to(3) > 0;
            inside.push(add(numbers, &mut classes, &mut leaves, inner, part, borrows));
        }
        let dscps = inside.iter().flat_map(|spec| spec.matches.0[0].conditions.dscps.clone());
        specs.push(CbqSpec {
            matches: Match { dscps: dscps.collect(), ..Match::default() }.into(),
            rate: rate(bps),
            borrow: borrows,
            kind: CbqClassKind::Interior(Box::default(), inside),
        });
    }
    (classes, specs, leaves)
}

#[test]
fn every_packet_is_that_of_the_description() {
    let (mut sent, mut waits, mut full) = (0, 0, 0);
    for seed in 0..300 {
        let mut numbers = Stream::new(seed, "cbq");
        let root = [MEGABIT, 2 * MEGABIT, 10 * MEGABIT, 100 * MEGABIT, 500 * MEGABIT]
            [numbers.up_to(4) as usize];
        let wire = root * (1 + 4 * numbers.up_to(2));
        let config = CbqConfig {
            tick: Duration::from_millis(1 + 9 * numbers.up_to(1)),
            maxburst: (numbers.up_to(2) == 0).then(|| 1 + numbers.up_to(20) as u32),
            minburst: 1 + numbers.up_to(3) as u32,
            token_bucket: numbers.up_to(1) == 0,
            efficient: numbers.up_to(1) == 0,
            kick: numbers.up_to(2) > 0,
            ..config(root)
        };
        let (classes, specs, leaves) = tree(&mut numbers, root);
        let (mut cbq, mut reference) = (Cbq::new(config, specs), Reference::new(config, classes));
        let mut ledger = Ledger::new();
        let (mut picos, mut id) = (0_u64, 0);
        let packet_picos = 12_000_000_000_000_000 / wire;
        for _ in 0..600 {
            // Bursts, single packets, silences: sometimes of more than two seconds.
            let gap = match numbers.up_to(99) {
                0 => 2_100_000_000_000,
                1..10 => 20 * packet_picos,
                _ => packet_picos * numbers.up_to(2),
            };
            picos += gap / 1_000_000 * 1_000_000 + [0, 500_000][numbers.up_to(1) as usize];
            if numbers.up_to(9) < 5 {
                let place = numbers.up_to(leaves.len() as u64 - 1) as usize;
                let size = [100, 700, 1500][numbers.up_to(2) as usize];
                for _ in 0..1 + numbers.up_to(5) {
                    let now = Time::from_picos(picos);
                    cbq.enqueue(now, packet(place as u8, size, id), &mut ledger);
                    reference.enqueue(picos, leaves[place], id, i64::from(size));
                    id += 1;
                }
            } else {
                let expected = reference.dequeue(picos);
                let found = match cbq.dequeue(Time::from_picos(picos), &mut ledger) {
                    Dequeue::Packet(packet) => Ok(packet.body),
                    Dequeue::NotBefore(at) => Err(Some(at.as_picos())),
                    Dequeue::Idle => Err(None),
                };
                assert_eq!(found, expected, "seed {seed} at {picos}");
                let inside = reference.classes.iter().map(|class| class.queue.len()).sum::<usize>();
                assert_eq!(cbq.backlog().packets, (inside + reference.ring.len()) as u64);
                full += u32::from(reference.ring.len() == 256);
                sent += u32::from(found.is_ok());
                waits += u32::from(matches!(found, Err(Some(_))));
            }
        }
    }
    assert!(sent > 10_000 && waits > 1_000 && full > 100, "{sent} {waits} {full}");
}
