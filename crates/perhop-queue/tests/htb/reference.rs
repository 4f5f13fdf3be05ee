//! HTB beside a second implementation that looks at every class for each decision, with buckets
//! that are filled all the time.

use std::collections::VecDeque;

use perhop_core::{Bytes, Rate, Stream, Time};
use perhop_queue::{Coding, Dequeue, Discipline, Framing, Htb, HtbRates, HtbSpec, Ledger, Weight};

use crate::lab::*;

/// A byte in tokens: bits per second times picoseconds.
const BYTE: i128 = 8_000_000_000_000;
const MILLISECOND: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
struct Plain {
    parent: Option<usize>,
    /// None for a direct class.
    rates: Option<HtbRates>,
    is_leaf: bool,
    level: usize,
    /// Of the guarantee and of the ceiling.
    tokens: [i128; 2],
    deficits: [i64; 8],
    /// Sizes of waiting packets.
    queue: VecDeque<u32>,
    dscp: u8,
    /// By priority, the index from which the next borrower is sought.
    from: [usize; 8],
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Send,
    Borrow,
    Wait,
}

#[derive(Clone)]
struct Reference {
    classes: Vec<Plain>,
    /// By level and priority, the index from which the next class of a row is sought.
    rows: [[usize; 8]; 8],
    filled: u64,
    overhead: i64,
}

impl Plain {
    fn bits(&self) -> [(i128, i128); 2] {
        self.rates.map_or([(0, 0); 2], |rates| {
            let tokens = |rate: Rate, burst: Bytes| {
                (i128::from(rate.bits_per_second()), i128::from(burst.get()) * BYTE)
            };
            [tokens(rates.rate, rates.burst), tokens(rates.ceil, rates.cburst)]
        })
    }

    fn mode(&self) -> Mode {
        match self.tokens.map(|tokens| tokens >= 0) {
            [_, false] => Mode::Wait,
            [false, true] => Mode::Borrow,
            [true, true] => Mode::Send,
        }
    }

    fn priority(&self) -> usize {
        self.rates.map_or(0, |rates| usize::from(rates.priority))
    }
}

impl Reference {
    fn add(&mut self, parent: Option<usize>, rates: Option<HtbRates>, is_leaf: bool) -> usize {
        let level = match parent {
            None => 7,
            Some(_) if is_leaf => 0,
            Some(parent) => self.classes[parent].level - 1,
        };
        let mut class = Plain {
            parent,
            rates,
            is_leaf,
            level,
            tokens: [0; 2],
            deficits: [0; 8],
            queue: VecDeque::new(),
            dscp: u8::MAX,
            from: [0; 8],
        };
        class.tokens = class.bits().map(|(_, burst)| burst);
        self.classes.push(class);
        self.classes.len() - 1
    }

    fn fill(&mut self, now: u64) {
        let elapsed = i128::from(now - self.filled);
        self.filled = now;
        for class in &mut self.classes {
            let bits = class.bits();
            for (tokens, (rate, burst)) in class.tokens.iter_mut().zip(bits) {
                *tokens = (*tokens + elapsed * rate).min(burst);
            }
        }
    }

    /// Whether a class has something to send of a priority, itself or through borrowers.
    fn takes_part(&self, index: usize, priority: usize) -> bool {
        let class = &self.classes[index];
        match class.is_leaf {
            true => {
                class.rates.is_some() && class.priority() == priority && !class.queue.is_empty()
            }
            false => !self.borrowers(index, priority).is_empty(),
        }
    }

    fn borrowers(&self, parent: usize, priority: usize) -> Vec<usize> {
        let borrows = |index: &usize| {
            let class = &self.classes[*index];
            class.parent == Some(parent)
                && class.mode() == Mode::Borrow
                && self.takes_part(*index, priority)
        };
        (0..self.classes.len()).filter(borrows).collect()
    }

    fn row(&self, level: usize, priority: usize) -> Vec<usize> {
        let sends = |index: &usize| {
            let class = &self.classes[*index];
            class.level == level && class.mode() == Mode::Send && self.takes_part(*index, priority)
        };
        (0..self.classes.len()).filter(sends).collect()
    }

    /// The leaf that sends, and the level that lends.
    fn select(&mut self) -> Option<(usize, usize)> {
        let is_direct = |class: &Plain| class.rates.is_none() && !class.queue.is_empty();
        if let Some(direct) = self.classes.iter().position(is_direct) {
            return Some((direct, 0));
        }
        let all = (0..8).flat_map(|level| (0..8).map(move |priority| (level, priority)));
        let (level, priority) =
            all.into_iter().find(|(level, priority)| !self.row(*level, *priority).is_empty())?;
        let mut path: Vec<usize> = Vec::new();
        loop {
            let above = path.last().copied();
            let (members, from) = match above {
                None => (self.row(level, priority), self.rows[level][priority]),
                Some(class) => {
                    (self.borrowers(class, priority), self.classes[class].from[priority])
                }
            };
            match members.into_iter().find(|member| *member >= from) {
                Some(leaf) if self.classes[leaf].is_leaf => return Some((leaf, level)),
                Some(class) => path.push(class),
                None => {
                    // The round is over, and so is the turn of the class whose round it was.
                    self.seek(above, level, priority, 0);
                    if let Some(class) = path.pop() {
                        self.seek(path.last().copied(), level, priority, class + 1);
                    }
                }
            }
        }
    }

    /// Has the next turn, in a row or among the borrowers of a class, sought from an index on.
    fn seek(&mut self, above: Option<usize>, level: usize, priority: usize, from: usize) {
        match above {
            None => self.rows[level][priority] = from,
            Some(above) => self.classes[above].from[priority] = from,
        }
    }

    /// Takes a packet out; returns its DSCP and its size.
    fn dequeue(&mut self) -> Option<(u8, u32)> {
        let (leaf, lender) = self.select()?;
        let size = self.classes[leaf].queue.pop_front().unwrap();
        let sent = Some((self.classes[leaf].dscp, size));
        let Some(rates) = self.classes[leaf].rates else { return sent };
        let charged = i64::from(size) + self.overhead;
        self.classes[leaf].deficits[lender] -= charged;
        if self.classes[leaf].deficits[lender] < 0 {
            self.classes[leaf].deficits[lender] += rates.quantum.get() as i64;
            let above = if lender == 0 { None } else { self.classes[leaf].parent };
            self.seek(above, lender, self.classes[leaf].priority(), leaf + 1);
        }
        let mut next = Some(leaf);
        while let Some(index) = next {
            let class = &mut self.classes[index];
            let bits = class.bits();
            let pays = [class.level >= lender, true];
            for ((tokens, (rate, _)), pays) in class.tokens.iter_mut().zip(bits).zip(pays) {
                if pays {
                    *tokens = (*tokens - i128::from(charged) * BYTE).max(-(rate / 8 * 60 * BYTE));
                }
            }
            next = class.parent;
        }
        sent
    }
}

/// Random rates of whole bytes per millisecond, so that buckets become exactly empty.
fn random_rates(numbers: &mut Stream, numbers_of_priorities: u64) -> HtbRates {
    let rate = 8 * (1 + numbers.up_to(5));
    HtbRates {
        rate: Rate::new(1000 * rate).unwrap(),
        burst: Bytes::new(500 * numbers.up_to(4)),
        ceil: Rate::new(1000 * (rate + 8 * numbers.up_to(9))).unwrap(),
        cburst: Bytes::new(500 * numbers.up_to(6)),
        priority: numbers.up_to(numbers_of_priorities) as u8,
        quantum: Weight::new([100, 500, 1500, 3000][numbers.up_to(3) as usize]).unwrap(),
    }
}

/// Returns classes below a parent, up to a depth, and their DSCPs.
fn random_classes(
    numbers: &mut Stream,
    reference: &mut Reference,
    parent: usize,
    depth: u64,
    leaves: &mut Vec<usize>,
) -> (Vec<HtbSpec<()>>, Vec<u8>) {
    let (mut specs, mut dscps) = (Vec::new(), Vec::new());
    for _ in 0..1 + numbers.up_to(2) {
        let rates = random_rates(numbers, 2);
        if depth > 0 && numbers.up_to(2) > 0 {
            let inner = reference.add(Some(parent), Some(rates), false);
            let (classes, of) = random_classes(numbers, reference, inner, depth - 1, leaves);
            specs.push(interior(&of, rates, classes));
            dscps.extend(of);
            continue;
        }
        let is_direct = parent == 0 && numbers.up_to(7) == 0;
        let rates = (!is_direct).then_some(rates);
        let index = reference.add(Some(parent), rates, true);
        let dscp = leaves.len() as u8;
        reference.classes[index].dscp = dscp;
        leaves.push(index);
        specs.push(leaf(dscp, rates));
        dscps.push(dscp);
    }
    (specs, dscps)
}

#[test]
fn every_packet_is_that_of_a_look_at_all_classes() {
    let (mut sent, mut waits, mut loans) = (0, 0, 0);
    for seed in 0..300 {
        let mut numbers = Stream::new(seed, "htb");
        let overhead = 14 * numbers.up_to(1) as u16;
        let more = Rate::new(80_000 * (1 + numbers.up_to(2))).unwrap();
        let root = HtbRates { rate: more, ceil: more, ..random_rates(&mut numbers, 0) };
        let mut reference = Reference {
            classes: Vec::new(),
            rows: [[0; 8]; 8],
            filled: 0,
            overhead: overhead.into(),
        };
        reference.add(None, Some(root), false);
        let (mut leaves, depth) = (Vec::new(), numbers.up_to(3));
        let (specs, _) = random_classes(&mut numbers, &mut reference, 0, depth, &mut leaves);
        let framing = Framing { overhead, mpu: 0, coding: Coding::None };
        let mut htb = Htb::new(root, framing, specs);
        let (mut ledger, mut now) = (Ledger::new(), 0);
        for _ in 0..400 {
            now += MILLISECOND * [0, 0, 1, 10, 100, 500][numbers.up_to(5) as usize];
            let at = Time::from_picos(now);
            reference.fill(now);
            if numbers.up_to(9) < 3 {
                let place = numbers.up_to(leaves.len() as u64 - 1) as usize;
                let size = [100, 500, 1486, 1500][numbers.up_to(3) as usize];
                for _ in 0..1 + numbers.up_to(3) {
                    if reference.classes[leaves[place]].queue.len() < 20 {
                        htb.enqueue(at, packet((place as u8, size)), &mut ledger);
                        reference.classes[leaves[place]].queue.push_back(size);
                    }
                }
                continue;
            }
            loans += u32::from(reference.clone().select().is_some_and(|(_, lender)| lender > 0));
            let expected = reference.dequeue();
            if let Some((_, size)) = expected {
                assert_eq!(htb.head(at), Some(Bytes::new(size.into())));
            }
            let waiting = reference.classes.iter().any(|class| !class.queue.is_empty());
            match htb.dequeue(at, &mut ledger) {
                Dequeue::Packet(packet) => {
                    let found = (packet.header.dscp().get(), packet.header.size);
                    assert_eq!(Some(found), expected, "seed {seed} at {now}");
                    sent += 1;
                }
                Dequeue::NotBefore(next) => {
                    assert!(expected.is_none() && waiting && next > at, "seed {seed} at {now}");
                    // Nobody may send before.
                    let mut before = reference.clone();
                    before.fill(next.as_picos() - 1);
                    assert_eq!(before.select(), None, "seed {seed} at {now}");
                    if numbers.up_to(1) == 0 {
                        now = next.as_picos();
                    }
                    waits += 1;
                }
                Dequeue::Idle => {
                    assert!(expected.is_none() && !waiting, "seed {seed} at {now}");
                }
            }
            assert_eq!(
                htb.backlog().packets,
                reference.classes.iter().map(|class| class.queue.len() as u64).sum::<u64>()
            );
        }
        assert!(ledger.drops.is_empty());
    }
    assert!(sent > 20_000 && waits > 2_000 && loans > 5_000, "{sent} {waits} {loans}");
}
