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

use perhop_core::{Bytes, Duration, Header, Packet, Rate, Time};

use crate::class_tree::{Branch, BranchKind, ClassTree};
use crate::{Backlog, Class, ClassCounters, Dequeue, Discipline, Ledger, MatchRules, Pass};
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

/// State of a class.
#[derive(Debug)]
struct CbqState {
    rate: Rate,
    borrows: bool,
    /// Priority of a leaf.
    priority: u8,
    /// Height above the leaves: one more than that of its highest child; zero for a leaf.
    depth: u32,
    estimator: Estimator,
    /// Expiry of the timer of a leaf, if it sleeps.
    asleep: Option<Time>,
}

/// A tree of classes before a driver.
#[derive(Debug)]
pub struct Cbq<B> {
    config: CbqConfig,
    tree: ClassTree<B, CbqState>,
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
    /// Expiry of the first timer.
    timer: Time,
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
        let root = CbqSpec {
            matches: MatchRules::default(),
            rate: config.rate,
            borrow: false,
            kind: CbqClassKind::Interior(Box::default(), Vec::new()),
        };
        let state = branch::<B>(&config, root).state;
        let branches = classes.into_iter().map(|spec| branch(&config, spec)).collect();
        let mut tree = ClassTree::new(state, branches);
        let mut turns = Turns::default();
        for index in 0..tree.len() {
            let CbqState { priority, rate, .. } = *tree.state(index);
            if tree.node(index).leaf().is_some() {
                turns.add(index, priority, rate);
            }
        }
        for index in (1..tree.len()).rev() {
            let depth = tree.state(index).depth + 1;
            let parent = tree.node(index).parent.expect("only the root has none");
            let above = tree.state(parent);
            above.depth = above.depth.max(depth);
        }
        turns.weigh(config.packet);
        Self {
            config,
            turns,
            cutoff: tree.state(0).depth,
            tree,
            free: 0,
            clock: Clock::new(config.tick),
            tick: Time::ZERO,
            regulator: config.token_bucket.then(|| Regulator::new(config.rate, config.packet)),
            timer: Time::MAX,
            ring: VecDeque::new(),
            ring_bytes: Bytes::ZERO,
        }
    }

    /// Calls `visit` for every class below the root, depth first.
    pub(crate) fn visit(&self, visit: &mut impl FnMut(&str, &ClassCounters, Backlog)) {
        self.tree.visit(visit);
    }

    /// Returns the leaf of this name.
    pub(crate) fn class_mut(&mut self, name: &str) -> Option<&mut Class<B>> {
        self.tree.class_mut(name)
    }

    fn depth(&self) -> u32 {
        self.tree.node(0).state.depth
    }

    /// Returns the parent of a class, if it borrows.
    fn lender(&self, index: usize) -> Option<usize> {
        let node = self.tree.node(index);
        node.parent.filter(|_| node.state.borrows)
    }

    // Selection

    /// Lowers the cutoff for a leaf that has just become backlogged to the lowest class within its
    /// limit, among the leaf and the classes that it may borrow from.
    fn lower_cutoff(&mut self, leaf: usize, now: Micros) {
        let mut at = Some(leaf);
        while let Some(index) = at.filter(|&index| self.tree.node(index).state.depth < self.cutoff)
        {
            if !self.tree.node(index).state.estimator.is_over(now) {
                self.cutoff = self.tree.node(index).state.depth;
                return;
            }
            at = self.lender(index);
        }
    }

    /// Returns the class whose allowance a leaf may use: its own or that of a class above; `None`
    /// if it must wait.
    fn allowance(&mut self, leaf: usize, now: Time) -> Option<usize> {
        let micros = micros(now);
        let CbqState { estimator, asleep, .. } = self.tree.state(leaf);
        if asleep.is_some() {
            if estimator.is_over(micros) {
                return None;
            }
            self.stop_timer(leaf);
            return Some(leaf);
        }
        let mut at = leaf;
        while self.tree.node(at).state.estimator.is_over(micros) {
            match self.lender(at) {
                None => {
                    self.put_to_sleep(leaf, at, now);
                    return None;
                }
                Some(above) if self.tree.node(above).state.depth > self.cutoff => return None,
                Some(above) => at = above,
            }
        }
        Some(at)
    }

    /// Sets the timer of a leaf that is over its limit, like all classes up to `top` that it may
    /// borrow from.
    fn put_to_sleep(&mut self, leaf: usize, top: usize, now: Time) {
        let top = &self.tree.node(top).state.estimator;
        let offtime = match top.is_pinned() {
            true => self.tree.node(leaf).state.estimator.offtime(),
            false => top.offtime(),
        };
        let delay = self.tree.state(leaf).estimator.put_off(micros(now), offtime);
        let until = self.clock.timer(now, delay);
        self.tree.state(leaf).asleep = Some(until);
        self.timer = self.timer.min(until);
    }

    /// Ends the sleep of a leaf before its timer expires, which then no longer does.
    fn stop_timer(&mut self, leaf: usize) {
        let state = self.tree.state(leaf);
        state.estimator.forgive();
        if state.asleep.take() == Some(self.timer) {
            self.timer = self.first_timer();
        }
    }

    /// Returns the expiry of the first timer; [`Time::MAX`] if no class sleeps.
    fn first_timer(&self) -> Time {
        let timers = (0..self.tree.len()).filter_map(|index| self.tree.node(index).state.asleep);
        timers.min().unwrap_or(Time::MAX)
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
                        if self.tree.leaf(leaf).backlog().packets > 0 {
                            match self.allowance(leaf, now) {
                                Some(from) if has_turn => {
                                    self.turns.chosen(priority, place);
                                    return Some((leaf, from));
                                }
                                Some(_) => again = true,
                                None if self.tree.node(leaf).state.borrows => {
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
        self.stop_timer(leaf);
        let lender = self.lender(leaf).expect("it may borrow");
        self.cutoff = self.tree.node(lender).state.depth;
        self.turns.chosen_anyway(priority, place);
        Some((leaf, lender))
    }

    /// Returns the packet for a driver that polls at `now`.
    fn give(&mut self, now: Time, ledger: &mut Ledger<B>) -> Option<Packet<B>> {
        while self.tree.backlog().packets > 0
            && self.regulator.as_mut().is_none_or(|regulator| regulator.allows(now))
        {
            let (leaf, from) = self.select(now)?;
            if let Dequeue::Packet(packet) =
                self.tree.act(leaf, ledger, |class, ledger| class.dequeue(now, ledger))
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
        self.tree.above(leaf, |counters| counters.sent.add(size));
        let CbqConfig { rate, packet, .. } = self.config;
        let now = micros(now);
        let most = now + MOST_AHEAD * packet_time(packet, rate);
        self.free = (self.free.max(now) + packet_time(size, rate)).min(most);
        let mut next = Some(leaf);
        while let Some(index) = next {
            let _ = self.tree.state(index).estimator.charge(now, self.free, size);
            next = self.tree.node(index).parent;
        }
        let depth = self.tree.node(from).state.depth;
        if from != leaf && self.cutoff >= depth {
            let spent = self.tree.node(from).state.estimator.is_over(now);
            let last = self.tree.leaf(leaf).backlog().packets == 0;
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
            && self.tree.backlog().packets > 0
            && self.ring.len() < RING
    }

    /// Wakes the leaves whose timers expire at `now`.
    fn wake(&mut self, now: Time) {
        for index in 0..self.tree.len() {
            let CbqState { estimator, asleep, .. } = self.tree.state(index);
            if asleep.is_some_and(|until| until <= now) {
                *asleep = None;
                estimator.forgive();
            }
        }
        self.timer = self.first_timer();
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

/// Returns a class for the tree.
fn branch<B>(config: &CbqConfig, spec: CbqSpec<B>) -> Branch<B, CbqState> {
    let CbqConfig { rate, packet, maxburst, minburst, .. } = *config;
    let bounds = Bounds::new(spec.rate, rate, packet, maxburst, minburst);
    let (kind, priority) = match spec.kind {
        CbqClassKind::Leaf(class, priority) => (BranchKind::Leaf(class), priority),
        CbqClassKind::Interior(name, specs) => {
            let branches = specs.into_iter().map(|spec| branch(config, spec)).collect();
            (BranchKind::Inner(name, branches), 0)
        }
    };
    let state = CbqState {
        rate: spec.rate,
        borrows: spec.borrow,
        priority,
        depth: 0,
        estimator: Estimator::new(spec.rate, bounds),
        asleep: None,
    };
    Branch { matches: spec.matches, state, kind }
}

impl<B> Discipline<B> for Cbq<B> {
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        self.catch_up(now, ledger);
        if self.tree.backlog().packets == 0 {
            self.tick = self.clock.next(now);
        }
        let leaf = self.tree.classify(&packet);
        self.lower_cutoff(leaf, micros(now));
        self.tree.act(leaf, ledger, |class, ledger| class.enqueue(now, packet, ledger));
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
            None if self.tree.backlog().packets == 0 => Dequeue::Idle,
            None => Dequeue::NotBefore(self.next_chance(now)),
        }
    }

    fn pass(&mut self, _now: Time, _header: &Header) -> Pass {
        Pass::Enqueue
    }

    /// Returns the length of the driver's first packet, or of that of the leaf that may send or
    /// wakes first.
    fn head(&mut self, now: Time) -> Option<Bytes> {
        if let Some(packet) = self.ring.front() {
            return Some(packet.size());
        }
        let waiting = (0..self.tree.len()).filter(|index| {
            let leaf = self.tree.node(*index).leaf();
            leaf.is_some_and(|class| class.backlog().packets > 0)
        });
        let wakes = |index: &usize| self.tree.node(*index).state.asleep.unwrap_or(Time::ZERO);
        let first = waiting.min_by_key(wakes)?;
        self.tree.leaf_mut(first).head(now)
    }

    fn backlog(&self) -> Backlog {
        Backlog {
            packets: self.tree.backlog().packets + self.ring.len() as u64,
            bytes: self.tree.backlog().bytes + self.ring_bytes,
        }
    }

    fn drain(self, packets: &mut Vec<Packet<B>>) {
        packets.extend(self.ring);
        self.tree.drain(packets);
    }
}
