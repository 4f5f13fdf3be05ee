//! Hierarchical token buckets, as Linux's `sch_htb` divides a link.
//!
//! M. Devera, *Hierarchical token bucket theory*, 2002, and the behaviour of Linux 6. A class has a
//! guaranteed rate and a ceiling, and a token bucket for each.
//!
//! * A leaf whose two buckets are not overdrawn sends without a look at the classes above it. If
//!   the guarantees of children exceed that of their parent, they exceed the parent's rate, too.
//! * A leaf that has used its guarantee, but not its ceiling, *borrows* from the nearest class
//!   above that has not used its own, as long as no class on the way has reached its ceiling.
//! * All that a class sends is charged to the ceilings of the classes above it, and to the
//!   guarantees from the lender upwards. So a parent lends only what its children leave of its
//!   rate.
//! * Guarantees precede loans, loans from lower classes those from higher ones, and of one level
//!   the lowest [`Priority`] is first. Among equals, deficit round robin decides: a turn of a leaf
//!   adds its *quantum*, the weight by which it shares what exceeds the guarantees.
//! * A packet is sent while a deficit is not negative, so that a quantum below the length of a
//!   packet counts as that length.
//! * *Direct* classes precede all others, unlimited, as packets without a class do in Linux.
//!
//! A packet costs the logarithm of the number of classes, and a step for each level.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use perhop_core::{Bytes, Header, Packet, Rate, Time, TokenBucket};

use crate::class_tree::{Branch, BranchKind, ClassTree};
use crate::{
    Backlog, Class, ClassCounters, Dequeue, Discipline, Framing, Ledger, MatchRules, Pass,
    Priority, Weight,
};

/// Number of priorities.
const PRIORITIES: usize = 8;

/// Number of levels; leaves are at level 0.
const LEVELS: usize = 8;

/// Seconds of its rate by which a class may overdraw a bucket; what exceeds that is forgotten.
const LONGEST_DEBT: u64 = 60;

/// Settings of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct HtbRates {
    /// Guaranteed rate.
    pub rate: Rate,
    /// Bytes that the class may send at once of its guarantee.
    pub burst: Bytes,
    /// Greatest rate, loans included.
    pub ceil: Rate,
    /// Bytes that the class may send at once of that.
    pub cburst: Bytes,
    /// Priority of a leaf: the lowest number is first.
    pub priority: Priority,
    /// Bytes that a turn of a leaf adds to what it may send.
    pub quantum: Weight,
}

/// A class of the tree.
#[derive(Debug)]
pub struct HtbSpec<B> {
    /// Filter of the packets of the parent that belong to the class.
    pub matches: MatchRules,
    /// Rates; `None` for a direct class, a leaf without a parent.
    pub rates: Option<HtbRates>,
    /// Queue of a leaf class, or the classes in an interior class.
    pub kind: HtbClassKind<B>,
}

/// Kind of a class of the tree.
#[derive(Debug)]
pub enum HtbClassKind<B> {
    /// Leaf class: a queue.
    Leaf(Class<B>),
    /// Interior class: classes in match order, and the name of their parent in results.
    Interior(Box<str>, Vec<HtbSpec<B>>),
}

/// What a class may do, by its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Send of its guarantee, or lend.
    Send,
    /// Borrow.
    Borrow,
    /// Nothing: its ceiling is reached.
    Wait,
}

/// Classes that take turns, by index, and whose turn it is.
#[derive(Clone, Debug, Default)]
struct Turns {
    members: BTreeSet<usize>,
    /// The first member from this index on has its turn; none if the round is over.
    from: usize,
}

impl Turns {
    fn current(&self) -> Option<usize> {
        self.members.range(self.from..).next().copied()
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn advance(&mut self) {
        self.from = self.current().map_or(self.from, |class| class + 1);
    }
}

/// State of a class.
#[derive(Debug)]
struct State {
    /// Buckets, with the greatest debt of each; `None` for a direct class.
    buckets: Option<Buckets>,
    level: usize,
    priority: usize,
    quantum: i64,
    /// Bytes that a leaf may still send in its turn, for each level that lends.
    deficits: [i64; LEVELS],
    mode: Mode,
    /// Priorities of backlogged leaves for which the class takes part, as bits.
    active: u8,
    /// Borrowing children, by priority; empty for a leaf.
    borrowers: Vec<Turns>,
    /// Time of its last entry in the agenda.
    due: Option<Time>,
    /// True for a leaf with a backlog whose queue has nothing to send yet.
    asleep: bool,
}

#[derive(Debug)]
struct Buckets {
    rate: TokenBucket,
    ceil: TokenBucket,
    /// Greatest debts of both.
    debts: (Bytes, Bytes),
}

impl Buckets {
    fn fill(&mut self, now: Time) {
        let _ = self.rate.fill(now);
        let _ = self.ceil.fill(now);
    }

    /// Returns the mode, and when it ends by itself.
    fn mode(&self) -> (Mode, Option<Time>) {
        if !self.ceil.is_positive() {
            (Mode::Wait, self.ceil.not_before(Bytes::ZERO))
        } else if !self.rate.is_positive() {
            (Mode::Borrow, self.rate.not_before(Bytes::ZERO))
        } else {
            (Mode::Send, None)
        }
    }
}

impl State {
    fn new(rates: Option<HtbRates>) -> Self {
        let debt = |rate: Rate| Bytes::new(rate.bits_per_second() / 8 * LONGEST_DEBT);
        let buckets = rates.map(|rates| Buckets {
            rate: TokenBucket::new(rates.rate, rates.burst),
            ceil: TokenBucket::new(rates.ceil, rates.cburst),
            debts: (debt(rates.rate), debt(rates.ceil)),
        });
        Self {
            buckets,
            level: 0,
            priority: rates.map_or(0, |rates| usize::from(rates.priority).min(PRIORITIES - 1)),
            // More than a run can send, but a deficit must not overflow.
            quantum: rates.map_or(1, |rates| rates.quantum.get().min(1 << 48) as i64),
            deficits: [0; LEVELS],
            mode: Mode::Send,
            active: 0,
            borrowers: Vec::new(),
            due: None,
            asleep: false,
        }
    }
}

/// A tree of classes with hierarchical token buckets.
#[derive(Debug)]
pub struct Htb<B> {
    tree: ClassTree<B, State>,
    /// Bytes that buckets count beside those of the IP packet.
    framing: Framing,
    /// Backlogged direct classes.
    direct: Turns,
    /// Classes that may send or lend, by level and priority.
    rows: Vec<[Turns; PRIORITIES]>,
    /// Times at which classes get another mode, or sleeping leaves wake up.
    agenda: BinaryHeap<Reverse<(Time, usize)>>,
}

impl<B> Htb<B> {
    /// Creates a tree without packets, below a root that shapes everything by `root`. The last
    /// class of every parent takes the packets that no other matches.
    ///
    /// # Panics
    /// If a parent has no class, or if classes are more than seven deep.
    pub fn new(root: HtbRates, framing: Framing, classes: Vec<HtbSpec<B>>) -> Self {
        let classes = classes.into_iter().map(branch).collect();
        let mut tree = ClassTree::new(State::new(Some(root)), classes);
        for index in 0..tree.len() {
            if tree.node(index).leaf().is_none() {
                let above = tree.node(index).parent.map(|parent| tree.node(parent).state.level);
                let state = tree.state(index);
                state.level = above.map_or(LEVELS - 1, |level| level - 1);
                assert!(state.level > 0, "classes are too deep");
                state.borrowers = vec![Turns::default(); PRIORITIES];
            }
        }
        Self {
            tree,
            framing,
            direct: Turns::default(),
            rows: (0..LEVELS).map(|_| Default::default()).collect(),
            agenda: BinaryHeap::new(),
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

    /// Has a leaf with a backlog take part.
    fn activate(&mut self, leaf: usize) {
        let state = self.tree.state(leaf);
        state.asleep = false;
        if state.buckets.is_none() {
            self.direct.members.insert(leaf);
        } else if state.active == 0 {
            state.active = 1 << state.priority;
            self.join(leaf);
        }
    }

    /// Has a leaf take no part.
    fn deactivate(&mut self, leaf: usize) {
        if self.tree.state(leaf).buckets.is_none() {
            self.direct.members.remove(&leaf);
        } else if self.tree.state(leaf).active != 0 {
            self.leave(leaf);
            self.tree.state(leaf).active = 0;
        }
    }

    /// Adds a class to those that may send or lend, or to the borrowers of the class above.
    fn join(&mut self, mut class: usize) {
        let mut priorities = self.tree.state(class).active;
        while priorities != 0 {
            let (mode, level) = (self.tree.state(class).mode, self.tree.state(class).level);
            match (mode, self.tree.node(class).parent) {
                (Mode::Send, _) => {
                    for priority in bits(priorities) {
                        self.rows[level][priority].members.insert(class);
                    }
                    return;
                }
                (Mode::Borrow, Some(parent)) => {
                    let above = self.tree.state(parent);
                    for priority in bits(priorities) {
                        if !above.borrowers[priority].members.is_empty() {
                            priorities &= !(1 << priority);
                        }
                        above.borrowers[priority].members.insert(class);
                    }
                    above.active |= priorities;
                    class = parent;
                }
                _ => return,
            }
        }
    }

    /// Removes a class from where [`join`](Self::join) has added it.
    fn leave(&mut self, mut class: usize) {
        let mut priorities = self.tree.state(class).active;
        while priorities != 0 {
            let (mode, level) = (self.tree.state(class).mode, self.tree.state(class).level);
            match (mode, self.tree.node(class).parent) {
                (Mode::Send, _) => {
                    for priority in bits(priorities) {
                        self.rows[level][priority].members.remove(&class);
                    }
                    return;
                }
                (Mode::Borrow, Some(parent)) => {
                    let above = self.tree.state(parent);
                    for priority in bits(priorities) {
                        above.borrowers[priority].members.remove(&class);
                        if !above.borrowers[priority].members.is_empty() {
                            priorities &= !(1 << priority);
                        }
                    }
                    above.active &= !priorities;
                    class = parent;
                }
                _ => return,
            }
        }
    }

    /// Gives a class the mode that its buckets have, and notes when that ends.
    fn renew(&mut self, class: usize) {
        let state = self.tree.state(class);
        let Some(buckets) = &state.buckets else { return };
        let (mode, until) = buckets.mode();
        if mode != state.mode {
            self.leave(class);
            self.tree.state(class).mode = mode;
            self.join(class);
        }
        // An entry that has become too early finds that, and is replaced then.
        let state = self.tree.state(class);
        if let Some(at) = until
            && state.due.is_none_or(|due| at < due)
        {
            state.due = Some(at);
            self.agenda.push(Reverse((at, class)));
        }
    }

    /// Fills the buckets of the classes that get another mode by `now`, and wakes leaves up.
    fn advance(&mut self, now: Time) {
        while let Some(&Reverse((at, class))) = self.agenda.peek()
            && at <= now
        {
            self.agenda.pop();
            let state = self.tree.state(class);
            if state.asleep {
                self.activate(class);
            }
            let state = self.tree.state(class);
            if state.due == Some(at) {
                state.due = None;
                if let Some(buckets) = &mut state.buckets {
                    buckets.fill(now);
                }
                self.renew(class);
            }
        }
    }

    /// Returns the leaf that sends at `now`, and the level that lends: 0 for its own guarantee.
    fn select(&mut self, now: Time) -> Option<(usize, usize)> {
        self.advance(now);
        if let Some(leaf) = self.direct.members.first() {
            return Some((*leaf, 0));
        }
        let row = |level: &[Turns; PRIORITIES]| level.iter().position(|row| !row.is_empty());
        let mut rows = self.rows.iter().enumerate();
        let (level, priority) = rows.find_map(|(level, all)| Some((level, row(all)?)))?;
        Some((self.turn(level, priority), level))
    }

    /// Returns the leaf whose turn it is. A round of the borrowers of a class is a turn of that
    /// class.
    fn turn(&mut self, level: usize, priority: usize) -> usize {
        let mut path: Vec<usize> = Vec::with_capacity(LEVELS);
        loop {
            let above = path.last().copied();
            match self.turns(above, level, priority).current() {
                Some(class) if self.tree.node(class).leaf().is_some() => return class,
                Some(class) => path.push(class),
                None => {
                    self.turns(above, level, priority).from = 0;
                    if path.pop().is_some() {
                        self.turns(path.last().copied(), level, priority).advance();
                    }
                }
            }
        }
    }

    /// Returns the borrowers of a class, or the row of a level.
    fn turns(&mut self, class: Option<usize>, level: usize, priority: usize) -> &mut Turns {
        match class {
            None => &mut self.rows[level][priority],
            Some(class) => &mut self.tree.state(class).borrowers[priority],
        }
    }

    /// Charges a packet to its leaf, to the lender, and to the classes above; ends a turn.
    fn charge(&mut self, leaf: usize, lender: usize, now: Time, sent: Bytes) {
        let sent = self.framing.charge(sent);
        let parent = self.tree.node(leaf).parent;
        let state = self.tree.state(leaf);
        let (priority, quantum) = (state.priority, state.quantum);
        let deficit = &mut state.deficits[lender];
        *deficit -= sent.get() as i64;
        if *deficit < 0 {
            *deficit += quantum;
            let place = if lender == 0 { None } else { parent };
            self.turns(place, lender, priority).advance();
        }
        let mut next = Some(leaf);
        while let Some(class) = next {
            next = self.tree.node(class).parent;
            let state = self.tree.state(class);
            if let Some(buckets) = &mut state.buckets {
                buckets.fill(now);
                if state.level >= lender {
                    buckets.rate.take(sent);
                    buckets.rate.forgive(buckets.debts.0);
                }
                buckets.ceil.take(sent);
                buckets.ceil.forgive(buckets.debts.1);
            }
            self.renew(class);
        }
    }

    /// Returns when the next class gets another mode, or wakes up.
    fn next(&self) -> Option<Time> {
        self.agenda.peek().map(|Reverse((at, _))| *at)
    }
}

fn bits(priorities: u8) -> impl Iterator<Item = usize> {
    (0..PRIORITIES).filter(move |priority| priorities & (1 << priority) != 0)
}

fn branch<B>(spec: HtbSpec<B>) -> Branch<B, State> {
    let kind = match spec.kind {
        HtbClassKind::Leaf(class) => BranchKind::Leaf(class),
        HtbClassKind::Interior(name, specs) => {
            BranchKind::Inner(name, specs.into_iter().map(branch).collect())
        }
    };
    Branch { matches: spec.matches, state: State::new(spec.rates), kind }
}

impl<B> Discipline<B> for Htb<B> {
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        let leaf = self.tree.classify(&packet);
        self.tree.act(leaf, ledger, |class, ledger| class.enqueue(now, packet, ledger));
        match self.tree.leaf(leaf).backlog().packets {
            0 => self.deactivate(leaf),
            _ => self.activate(leaf),
        }
    }

    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B> {
        while let Some((leaf, lender)) = self.select(now) {
            let next = self.tree.act(leaf, ledger, |class, ledger| class.dequeue(now, ledger));
            match &next {
                Dequeue::Packet(packet) => {
                    let size = packet.size();
                    self.tree.above(leaf, |counters| counters.sent.add(size));
                    if self.tree.state(leaf).buckets.is_some() {
                        self.charge(leaf, lender, now, size);
                    }
                    // Its turn has ended before it leaves, so that the next one keeps its own.
                    if self.tree.leaf(leaf).backlog().packets == 0 {
                        self.deactivate(leaf);
                    }
                    return next;
                }
                Dequeue::NotBefore(at) => {
                    self.deactivate(leaf);
                    self.tree.state(leaf).asleep = true;
                    self.agenda.push(Reverse((*at, leaf)));
                }
                Dequeue::Idle => self.deactivate(leaf),
            }
        }
        match self.next() {
            Some(at) if self.tree.backlog().packets > 0 => Dequeue::NotBefore(at),
            _ => Dequeue::Idle,
        }
    }

    fn pass(&mut self, _now: Time, _header: &Header) -> Pass {
        Pass::Enqueue // its class must pay for it
    }

    fn head(&mut self, now: Time) -> Option<Bytes> {
        let leaf = match self.select(now) {
            Some((leaf, _)) => leaf,
            None => (0..self.tree.len()).find(|&index| {
                let leaf = self.tree.node(index).leaf();
                leaf.is_some_and(|class| class.backlog().packets > 0)
            })?,
        };
        self.tree.leaf_mut(leaf).head(now)
    }

    fn backlog(&self) -> Backlog {
        self.tree.backlog()
    }

    fn drain(self, packets: &mut Vec<Packet<B>>) {
        self.tree.drain(packets);
    }
}
