//! Class-based queueing as ALTQ implements it, with its estimator and its timers.
//!
//! S. Floyd and V. Jacobson, *Link-sharing and Resource Management Models for Packet Networks*, ToN
//! 3(4), 1995; the implementation modelled is that of ALTQ (K. Cho, 1998), as FreeBSD has it. It
//! never asks how much a class has sent in some time. An estimator looks at the idle time between
//! a class's packets instead, in whole microseconds; a class that is over its limit sleeps until a
//! timer wakes it, and timers end at clock ticks. What follows, that a class is capped far below
//! its rate where ticks are long, is that implementation's behaviour, and what this model is for:
//! [`LinkShare`](crate::LinkShare) shares a link as it should be.
//!
//! * A packet is charged when the driver takes it, to its class and every class above.
//! * A class that is over its limit borrows from its parent, or, while that is too, from the one
//!   above, but not from above the *cutoff* (top-level link sharing).
//! * Classes of a priority take turns by weighted round robin, in bytes.

mod clock;
mod estimator;
mod turns;

use std::collections::VecDeque;

use perhop_core::{Bytes, Duration, Packet, Rate, Time};

use crate::{Backlog, Class, ClassCounters, Classifier, Dequeue, Discipline, Ledger, Match, Pass};
use clock::{Clock, Regulator};
use estimator::{Bounds, Estimator, Micros, packet_time};
use turns::Turns;

/// What holds for the whole link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct CbqConfig {
    /// The rate that is shared: the root's. The wire may be faster.
    pub rate: Rate,
    /// The time between two ticks of the clock.
    pub tick: Duration,
    /// The longest packet.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub packet: Bytes,
    /// How many packets a class may send at once after a long idle time; 16 unless set, 4 where a
    /// class waits for more than 10 ms between two packets.
    pub maxburst: Option<u32>,
    /// How many packets it sends at once in the long run, at least.
    pub minburst: u32,
    /// Whether a token bucket of the root's rate stands before the driver, which is then asked to
    /// go on at every tick.
    pub token_bucket: bool,
    /// Whether a class that may borrow sends where every class is over its limit.
    pub efficient: bool,
    /// Whether the driver asks for the next packet when it has transmitted one. It takes one at a
    /// time then. Otherwise it takes what it is given when a packet comes, when a class wakes and
    /// at ticks, up to 256 packets.
    pub kick: bool,
}

/// A class of the tree.
#[derive(Debug)]
pub struct CbqSpec<B> {
    /// Which packets of its parent's belong to it.
    pub matches: Match,
    /// Its rate.
    pub rate: Rate,
    /// Whether it borrows from its parent.
    pub borrow: bool,
    /// What it holds.
    pub part: CbqPart<B>,
}

/// What a class of the tree holds.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few, while a tree is built")]
pub enum CbqPart<B> {
    /// A queue, and a priority from 0, first, to 7.
    Leaf(Class<B>, u8),
    /// Classes in match order, and what results call the class that they divide.
    Inner(Box<str>, Vec<CbqSpec<B>>),
}

/// How many packets a driver holds that is not asked to go on.
const RING: usize = 256;

/// How far the estimate of when the link is free may be ahead, in packets.
const MOST_AHEAD: i64 = 16;

#[derive(Debug)]
struct CbqNode<B> {
    parent: Option<usize>,
    borrows: bool,
    /// Above its highest child by one; zero for a leaf.
    depth: u32,
    estimator: Estimator,
    kind: Kind<B>,
}

#[derive(Debug)]
enum Kind<B> {
    Leaf {
        class: Class<B>,
        /// When a timer wakes it, if it sleeps.
        asleep: Option<Time>,
    },
    Inner {
        /// What results call it.
        name: Box<str>,
        classifier: Box<Classifier>,
        children: Vec<usize>,
        /// The first node after those below this one.
        end: usize,
        counters: ClassCounters,
    },
}

/// A tree of classes before a driver.
#[derive(Debug)]
pub struct Cbq<B> {
    config: CbqConfig,
    /// Depth first, the root first.
    nodes: Vec<CbqNode<B>>,
    turns: Turns,
    /// The depth above which nobody may borrow.
    cutoff: u32,
    /// When the link will have sent what it was given, in microseconds, by the root's rate.
    free: Micros,
    clock: Clock,
    /// The tick at which the driver is asked next.
    tick: Time,
    regulator: Option<Regulator>,
    /// Not later than the first timer.
    timer: Time,
    /// What waits in the leaves.
    waiting: Backlog,
    /// What the driver has taken.
    ring: VecDeque<Packet<B>>,
    ring_bytes: Bytes,
}

fn micros(now: Time) -> Micros {
    (now.as_picos() / 1_000_000) as Micros
}

impl<B> Cbq<B> {
    /// A tree without packets. The last class of every parent takes what no other does.
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
            matches: Match::default(),
            rate: config.rate,
            borrow: false,
            part: CbqPart::Inner(Box::default(), classes),
        };
        cbq.add(root, None);
        cbq.turns.weigh(config.packet);
        cbq.cutoff = cbq.nodes[0].depth;
        cbq
    }

    /// Adds a class and those below it; returns its place.
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
        match spec.part {
            CbqPart::Leaf(class, priority) => {
                self.turns.add(index, priority, spec.rate);
                self.nodes.push(node(Kind::Leaf { class, asleep: None }));
            }
            CbqPart::Inner(name, specs) => {
                let matches = specs.iter().map(|spec| spec.matches.clone()).collect();
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

    /// The leaf of this name.
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

    /// The leaf that a packet belongs to.
    fn classify(&self, packet: &Packet<B>) -> usize {
        let mut index = 0;
        while let Kind::Inner { classifier, children, .. } = &self.nodes[index].kind {
            index = children[classifier.classify(&packet.header)];
        }
        index
    }

    /// The parent of a class, if it borrows.
    fn lender(&self, index: usize) -> Option<usize> {
        let node = &self.nodes[index];
        node.parent.filter(|_| node.borrows)
    }

    /// Has the leaf's own discipline act, and counts what it did in the classes above it.
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

    // Who may send

    /// Nobody borrows from above a class that has just got something to send, while it, or the
    /// lowest class that it may borrow from, is within its limit.
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

    /// Whose allowance a leaf may use, its own or that of a class above; none if it must wait.
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

    /// A leaf, and every class up to `top` that it may borrow from, are over their limits.
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

    /// The leaf that sends at `now`, and whose allowance it uses.
    fn select(&mut self, now: Time) -> Option<(usize, usize)> {
        // The first that was over its limit and may borrow.
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

    /// The packet that the driver gets if it asks at `now`.
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
            // It has dropped all that it had.
        }
        None
    }

    /// A leaf has sent `size`, by the allowance of `from`.
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

    // The driver

    /// Lets the timers and ticks happen that are due at `now` or before.
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

    /// Whether a tick would have the driver take something.
    fn ticks(&self) -> bool {
        !self.config.kick
            && self.regulator.is_some()
            && self.waiting.packets > 0
            && self.ring.len() < RING
    }

    /// Wakes the leaves whose timers end at `now`.
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

    /// A driver that is not asked to go on takes what it is given.
    fn fill(&mut self, now: Time, ledger: &mut Ledger<B>) {
        while !self.config.kick
            && self.ring.len() < RING
            && let Some(packet) = self.give(now, ledger)
        {
            self.ring_bytes += packet.size();
            self.ring.push_back(packet);
        }
    }

    /// When the driver asks again, where it was given nothing at `now`: at the next timer or, with
    /// a token bucket, at the next tick.
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

    /// The packet that the driver has, or that of the leaf that may send or wakes first.
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
