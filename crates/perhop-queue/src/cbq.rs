//! Class-based queueing as ALTQ implements it, with its estimator and its timers.
//!
//! S. Floyd and V. Jacobson, *Link-sharing and Resource Management Models for Packet Networks*, ToN
//! 3(4), 1995; the implementation modelled is that of ALTQ (K. Cho, 1998) in FreeBSD. It does not
//! measure how much a class sends over time. An estimator averages the idle time between a class's
//! packets, in whole microseconds. A class that is over its limit sleeps until a timer wakes it,
//! and timers expire at clock ticks. With long ticks, this limits a class far below its rate. This
//! model reproduces that behaviour; [`LinkShare`](crate::LinkShare) shares a link by the rates.
//!
//! * A packet is charged when the driver takes it, to its class and every class above.
//! * A class that is over its limit borrows from its parent or, if that is over its limit, too,
//!   from the next ancestor, but not from above the *cutoff* (top-level link sharing).
//! * Classes of equal priority are served by weighted round robin, in bytes.

mod clock;
mod estimator;
mod turns;

use std::collections::VecDeque;

use perhop_core::{Bytes, Duration, Packet, Rate, Time};

use crate::{
    Backlog, Class, ClassCounters, Classifier, Dequeue, Discipline, Ledger, MatchRules, Pass,
};
use clock::{Clock, Regulator};
use estimator::{Bounds, Estimator, Micros, packet_time};
use turns::Turns;

/// Settings of the whole link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct CbqConfig {
    /// Rate of the root, which the classes share. The wire may be faster.
    pub rate: Rate,
    /// Time between two clock ticks.
    pub tick: Duration,
    /// Length of the longest packet, in bytes.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub packet: Bytes,
    /// Number of packets that a class may send back to back after a long idle time; by default 16,
    /// or 4 if the class waits for more than 10 ms between two packets.
    pub maxburst: Option<u32>,
    /// Least number of packets that a class sends back to back in the long run.
    pub minburst: u32,
    /// True if a token bucket of the root's rate stands before the driver, which is then polled at
    /// every tick.
    pub token_bucket: bool,
    /// True if a class that may borrow sends when all classes are over their limits.
    pub efficient: bool,
    /// True if the driver requests the next packet when it has transmitted one; it holds one packet
    /// at a time then. Otherwise it takes packets when one arrives, when a class wakes and at
    /// ticks, up to 256.
    pub kick: bool,
}

/// A class of the tree.
#[derive(Debug)]
pub struct CbqSpec<B> {
    /// Filter of the packets of the parent that belong to the class.
    pub matches: MatchRules,
    /// Rate of the class.
    pub rate: Rate,
    /// True if the class borrows from its parent.
    pub borrow: bool,
    /// Queue of a leaf class, or the classes in an interior class.
    pub kind: CbqClassKind<B>,
}

/// Kind of a class of the tree (Floyd and Jacobson, 1995).
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few, while a tree is built")]
pub enum CbqClassKind<B> {
    /// Leaf class: a queue, and a priority from 0 (highest) to 7.
    Leaf(Class<B>, u8),
    /// Interior class: classes in match order, and the name of their parent in results.
    Interior(Box<str>, Vec<CbqSpec<B>>),
}

/// Number of packets that a driver without `kick` holds at most.
const RING: usize = 256;

/// Greatest time that the estimate of when the link becomes free may be ahead, in packets.
const MOST_AHEAD: i64 = 16;

#[derive(Debug)]
struct CbqNode<B> {
    parent: Option<usize>,
    borrows: bool,
    /// Height above the leaves: one more than that of its highest child; zero for a leaf.
    depth: u32,
    estimator: Estimator,
    kind: Kind<B>,
}

#[derive(Debug)]
enum Kind<B> {
    Leaf {
        class: Class<B>,
        /// Expiry of its timer, if it sleeps.
        asleep: Option<Time>,
    },
    Inner {
        /// Name in results.
        name: Box<str>,
        classifier: Box<Classifier>,
        children: Vec<usize>,
        /// Index of the first node behind those below this one.
        end: usize,
        counters: ClassCounters,
    },
}

/// A tree of classes before a driver.
#[derive(Debug)]
pub struct Cbq<B> {
    config: CbqConfig,
    /// All nodes, depth first, starting with the root.
    nodes: Vec<CbqNode<B>>,
    turns: Turns,
    /// Depth above which no class may be borrowed from.
    cutoff: u32,
    /// Time at which the link will have sent all packets handed to it, at the root's rate, in
    /// microseconds.
    free: Micros,
    clock: Clock,
    /// Next tick at which the driver is polled.
    tick: Time,
    regulator: Option<Regulator>,
    /// Lower bound of the expiry of the first timer.
    timer: Time,
    /// Backlog of all leaves.
    waiting: Backlog,
    /// Packets that the driver has taken.
    ring: VecDeque<Packet<B>>,
    ring_bytes: Bytes,
}

fn micros(now: Time) -> Micros {
    (now.as_picos() / 1_000_000) as Micros
}

impl<B> Cbq<B> {
    /// Creates a tree without packets. The last class of every parent takes the packets that no
    /// other matches.
    ///
    /// # Panics
    /// If a parent has no class, or a priority is above 7.
    pub fn new(config: CbqConfig, classes: Vec<CbqSpec<B>>) -> Self {
        let mut cbq = Self {
            config,
            nodes: Vec::new(),
            turns: Turns::default(),
            cutoff: 0,
            free: 0,
            clock: Clock::new(config.tick),
            tick: Time::ZERO,
            regulator: config.token_bucket.then(|| Regulator::new(config.rate, config.packet)),
            timer: Time::MAX,
            waiting: Backlog::default(),
            ring: VecDeque::new(),
            ring_bytes: Bytes::ZERO,
        };
        let root = CbqSpec {
            matches: MatchRules::default(),
            rate: config.rate,
            borrow: false,
            kind: CbqClassKind::Interior(Box::default(), classes),
        };
        cbq.add(root, None);
        cbq.turns.weigh(config.packet);
        cbq.cutoff = cbq.nodes[0].depth;
        cbq
    }

    /// Adds a class and those below it; returns its index.
    fn add(&mut self, spec: CbqSpec<B>, parent: Option<usize>) -> usize {
        let index = self.nodes.len();
        let CbqConfig { rate, packet, maxburst, minburst, .. } = self.config;
        let bounds = Bounds::new(spec.rate, rate, packet, maxburst, minburst);
        let node = |kind| CbqNode {
            parent,
            borrows: spec.borrow,
            depth: 0,
            estimator: Estimator::new(spec.rate, bounds),
            kind,
        };
        match spec.kind {
            CbqClassKind::Leaf(class, priority) => {
                self.turns.add(index, priority, spec.rate);
                self.nodes.push(node(Kind::Leaf { class, asleep: None }));
            }
            CbqClassKind::Interior(name, specs) => {
                let matches = specs.iter().map(|spec| spec.matches.clone());
                let classifier = Box::new(Classifier::new(matches));
                let counters = ClassCounters::default();
                let (children, end) = (Vec::new(), 0);
                self.nodes.push(node(Kind::Inner { name, classifier, children, end, counters }));
                let below = specs.into_iter().map(|spec| self.add(spec, Some(index)));
                let below = below.collect::<Vec<_>>();
                let depths = below.iter().map(|&child| self.nodes[child].depth);
                let depth = depths.max().unwrap_or(0) + 1;
                let last = self.nodes.len();
                let node = &mut self.nodes[index];
                node.depth = depth;
                if let Kind::Inner { children, end, .. } = &mut node.kind {
                    (*children, *end) = (below, last);
                }
            }
        }
        index
    }

    /// Calls `visit` for every class below the root, depth first.
    pub(crate) fn visit(&self, visit: &mut impl FnMut(&str, &ClassCounters, Backlog)) {
        for (index, node) in self.nodes.iter().enumerate().skip(1) {
            match &node.kind {
                Kind::Leaf { class, .. } => class.visit(visit),
                Kind::Inner { name, end, counters, .. } => {
                    let below = self.nodes[index..*end].iter().filter_map(CbqNode::leaf);
                    let mut backlog = Backlog::default();
                    for class in below {
                        let more = class.backlog();
                        backlog.packets += more.packets;
                        backlog.bytes += more.bytes;
                    }
                    visit(name, counters, backlog);
                }
            }
        }
    }

    /// Returns the leaf of this name.
    pub(crate) fn class_mut(&mut self, name: &str) -> Option<&mut Class<B>> {
        self.nodes.iter_mut().find_map(|node| match &mut node.kind {
            Kind::Leaf { class, .. } => class.class_mut(name),
            Kind::Inner { .. } => None,
        })
    }

    fn leaf(&self, index: usize) -> &Class<B> {
        self.nodes[index].leaf().expect("only leaves take turns")
    }

    fn leaf_mut(&mut self, index: usize) -> (&mut Class<B>, &mut Option<Time>) {
        match &mut self.nodes[index].kind {
            Kind::Leaf { class, asleep } => (class, asleep),
            Kind::Inner { .. } => unreachable!("only leaves take turns"),
        }
    }

    fn depth(&self) -> u32 {
        self.nodes[0].depth
    }

    /// Returns the leaf that a packet belongs to.
    fn classify(&self, packet: &Packet<B>) -> usize {
        let mut index = 0;
        while let Kind::Inner { classifier, children, .. } = &self.nodes[index].kind {
            index = children[classifier.classify(&packet.header)];
        }
        index
    }

    /// Returns the parent of a class, if it borrows.
    fn lender(&self, index: usize) -> Option<usize> {
        let node = &self.nodes[index];
        node.parent.filter(|_| node.borrows)
    }

    /// Calls `act` on a leaf, and counts the result in the classes above it.
    fn act<T>(
        &mut self,
        leaf: usize,
        ledger: &mut Ledger<B>,
        act: impl FnOnce(&mut Class<B>, &mut Ledger<B>) -> T,
    ) -> T {
        let (drops, marks) = (ledger.drops.len(), ledger.marks);
        let (class, _) = self.leaf_mut(leaf);
        let before = class.backlog();
        let result = act(class, ledger);
        let after = class.backlog();
        self.waiting.packets = self.waiting.packets + after.packets - before.packets;
        self.waiting.bytes = self.waiting.bytes + after.bytes - before.bytes;
        if ledger.drops.len() > drops || ledger.marks > marks {
            self.above(leaf, |counters| counters.count_since(ledger, drops, marks));
        }
        result
    }

    /// Calls `each` with the counters of every class between a leaf and the root.
    fn above(&mut self, leaf: usize, mut each: impl FnMut(&mut ClassCounters)) {
        let mut next = self.nodes[leaf].parent;
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            if let Kind::Inner { counters, .. } = &mut node.kind {
                each(counters);
            }
            next = node.parent;
        }
    }

    // Selection

    /// Lowers the cutoff for a leaf that has just become backlogged to the lowest class within its
    /// limit, among the leaf and the classes that it may borrow from.
    fn lower_cutoff(&mut self, leaf: usize, now: Micros) {
        let mut at = Some(leaf);
        while let Some(index) = at.filter(|&index| self.nodes[index].depth < self.cutoff) {
            if !self.nodes[index].estimator.is_over(now) {
                self.cutoff = self.nodes[index].depth;
                return;
            }
            at = self.lender(index);
        }
    }

    /// Returns the class whose allowance a leaf may use: its own or that of a class above; `None`
    /// if it must wait.
    fn allowance(&mut self, leaf: usize, now: Time) -> Option<usize> {
        let micros = micros(now);
        let CbqNode { estimator, kind: Kind::Leaf { asleep, .. }, .. } = &mut self.nodes[leaf]
        else {
            unreachable!("only leaves take turns")
        };
        if asleep.is_some() {
            if estimator.is_over(micros) {
                return None;
            }
            *asleep = None;
            estimator.forgive();
            return Some(leaf);
        }
        let mut at = leaf;
        while self.nodes[at].estimator.is_over(micros) {
            match self.lender(at) {
                None => {
                    self.put_to_sleep(leaf, at, now);
                    return None;
                }
                Some(above) if self.nodes[above].depth > self.cutoff => return None,
                Some(above) => at = above,
            }
        }
        Some(at)
    }

    /// Sets the timer of a leaf that is over its limit, like all classes up to `top` that it may
    /// borrow from.
    fn put_to_sleep(&mut self, leaf: usize, top: usize, now: Time) {
        let top = &self.nodes[top].estimator;
        let offtime = match top.is_pinned() {
            true => self.nodes[leaf].estimator.offtime(),
            false => top.offtime(),
        };
        let delay = self.nodes[leaf].estimator.put_off(micros(now), offtime);
        let until = self.clock.timer(now, delay);
        *self.leaf_mut(leaf).1 = Some(until);
        self.timer = self.timer.min(until);
    }

    /// Returns the leaf that sends at `now`, and the class whose allowance it uses.
    fn select(&mut self, now: Time) -> Option<(usize, usize)> {
        // The first leaf over its limit that may borrow.
        let mut first = None;
        loop {
            for priority in 0..Turns::PRIORITIES {
                let mut again = false;
                for pass in 0..2 {
                    for place in self.turns.round(priority) {
                        let (leaf, has_turn) = self.turns.begin(priority, place, pass);
                        if self.leaf(leaf).backlog().packets > 0 {
                            match self.allowance(leaf, now) {
                                Some(from) if has_turn => {
                                    self.turns.chosen(priority, place);
                                    return Some((leaf, from));
                                }
                                Some(_) => again = true,
                                None if self.nodes[leaf].borrows => {
                                    first = first.or(Some((leaf, priority, place)));
                                }
                                None => {}
                            }
                        }
                        self.turns.end(priority, place);
                    }
                    if !again {
                        break;
                    }
                }
            }
            if first.is_none() || self.cutoff >= self.depth() {
                break;
            }
            self.cutoff += 1;
        }
        self.cutoff = self.depth();
        let (leaf, priority, place) = first.filter(|_| self.config.efficient)?;
        *self.leaf_mut(leaf).1 = None;
        self.nodes[leaf].estimator.forgive();
        let lender = self.lender(leaf).expect("it may borrow");
        self.cutoff = self.nodes[lender].depth;
        self.turns.chosen_anyway(priority, place);
        Some((leaf, lender))
    }

    /// Returns the packet for a driver that polls at `now`.
    fn give(&mut self, now: Time, ledger: &mut Ledger<B>) -> Option<Packet<B>> {
        while self.waiting.packets > 0
            && self.regulator.as_mut().is_none_or(|regulator| regulator.allows(now))
        {
            let (leaf, from) = self.select(now)?;
            if let Dequeue::Packet(packet) =
                self.act(leaf, ledger, |class, ledger| class.dequeue(now, ledger))
            {
                self.charge(leaf, from, now, packet.size());
                return Some(packet);
            }
            // The class has dropped all its packets.
        }
        None
    }

    /// Charges `size` bytes that a leaf has sent by the allowance of `from`.
    fn charge(&mut self, leaf: usize, from: usize, now: Time, size: Bytes) {
        if let Some(regulator) = &mut self.regulator {
            regulator.take(size);
        }
        self.turns.sent(size);
        self.above(leaf, |counters| counters.sent.add(size));
        let CbqConfig { rate, packet, .. } = self.config;
        let now = micros(now);
        let most = now + MOST_AHEAD * packet_time(packet, rate);
        self.free = (self.free.max(now) + packet_time(size, rate)).min(most);
        let mut next = Some(leaf);
        while let Some(index) = next {
            let node = &mut self.nodes[index];
            let _ = node.estimator.charge(now, self.free, size);
            next = node.parent;
        }
        let depth = self.nodes[from].depth;
        if from != leaf && self.cutoff >= depth {
            let spent = self.nodes[from].estimator.is_over(now);
            let last = self.leaf(leaf).backlog().packets == 0;
            self.cutoff = if spent || last { self.depth() } else { depth };
        }
    }

    // Driver

    /// Processes the timers and ticks that are due at `now` or before.
    fn catch_up(&mut self, now: Time, ledger: &mut Ledger<B>) {
        loop {
            let tick = if self.ticks() { self.tick } else { Time::MAX };
            let at = self.timer.min(tick);
            if at > now {
                return;
            }
            if tick == at {
                self.tick = self.clock.next(at);
            }
            if self.timer == at {
                self.wake(at);
            }
            self.fill(at, ledger);
        }
    }

    /// Returns `true` if the driver would take a packet at a tick.
    fn ticks(&self) -> bool {
        !self.config.kick
            && self.regulator.is_some()
            && self.waiting.packets > 0
            && self.ring.len() < RING
    }

    /// Wakes the leaves whose timers expire at `now`.
    fn wake(&mut self, now: Time) {
        self.timer = Time::MAX;
        for node in &mut self.nodes {
            if let Kind::Leaf { asleep, .. } = &mut node.kind
                && let Some(until) = *asleep
            {
                if until <= now {
                    *asleep = None;
                    node.estimator.forgive();
                } else {
                    self.timer = self.timer.min(until);
                }
            }
        }
    }

    /// Fills the ring of a driver without `kick`.
    fn fill(&mut self, now: Time, ledger: &mut Ledger<B>) {
        while !self.config.kick
            && self.ring.len() < RING
            && let Some(packet) = self.give(now, ledger)
        {
            self.ring_bytes += packet.size();
            self.ring.push_back(packet);
        }
    }

    /// Returns when the driver polls again after it got no packet at `now`: at the next timer or,
    /// with a token bucket, at the next tick.
    fn next_chance(&self, now: Time) -> Time {
        let tick = self.clock.next(now);
        match &self.regulator {
            Some(_) => self.timer.min(tick),
            None if self.timer == Time::MAX => tick,
            None => self.timer,
        }
    }
}

impl<B> CbqNode<B> {
    fn leaf(&self) -> Option<&Class<B>> {
        match &self.kind {
            Kind::Leaf { class, .. } => Some(class),
            Kind::Inner { .. } => None,
        }
    }
}

impl<B> Discipline<B> for Cbq<B> {
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        self.catch_up(now, ledger);
        if self.waiting.packets == 0 {
            self.tick = self.clock.next(now);
        }
        let leaf = self.classify(&packet);
        self.lower_cutoff(leaf, micros(now));
        self.act(leaf, ledger, |class, ledger| class.enqueue(now, packet, ledger));
        self.fill(now, ledger);
    }

    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B> {
        self.catch_up(now, ledger);
        let next = if self.config.kick {
            self.give(now, ledger)
        } else {
            let had_no_room = self.ring.len() == RING;
            let next = self.ring.pop_front();
            if let Some(packet) = &next {
                self.ring_bytes -= packet.size();
            }
            if had_no_room {
                self.tick = self.clock.next(now);
                self.fill(now, ledger);
            }
            next
        };
        match next {
            Some(packet) => Dequeue::Packet(packet),
            None if self.waiting.packets == 0 => Dequeue::Idle,
            None => Dequeue::NotBefore(self.next_chance(now)),
        }
    }

    fn pass(&mut self, _now: Time, _packet: &mut Packet<B>) -> Pass {
        Pass::Enqueue
    }

    /// Returns the length of the driver's first packet, or of that of the leaf that may send or
    /// wakes first.
    fn head(&mut self, now: Time) -> Option<Bytes> {
        if let Some(packet) = self.ring.front() {
            return Some(packet.size());
        }
        let wakes = |node: &&mut CbqNode<B>| match &node.kind {
            Kind::Leaf { asleep, .. } => asleep.unwrap_or(Time::ZERO),
            Kind::Inner { .. } => Time::MAX,
        };
        let waiting = self
            .nodes
            .iter_mut()
            .filter(|node| node.leaf().is_some_and(|class| class.backlog().packets > 0));
        match &mut waiting.min_by_key(wakes)?.kind {
            Kind::Leaf { class, .. } => class.head(now),
            Kind::Inner { .. } => None,
        }
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.waiting.packets + self.ring.len() as u64,
            bytes: self.waiting.bytes + self.ring_bytes,
        }
    }

    fn drain(self, packets: &mut Vec<Packet<B>>) {
        packets.extend(self.ring);
        for node in self.nodes {
            if let Kind::Leaf { class, .. } = node.kind {
                class.drain(packets);
            }
        }
    }
}
