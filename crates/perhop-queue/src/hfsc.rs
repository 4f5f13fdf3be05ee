//! H-FSC, hierarchical fair service curves.
//!
//! I. Stoica, H. Zhang and T. S. E. Ng, *A Hierarchical Fair Service Curve Algorithm for
//! Link-Sharing, Real-Time and Priority Services*, SIGCOMM 1997 and ToN 8(2), 2000. Upper limits
//! are an addition of the implementation in ALTQ, which Linux's `sch_hfsc` follows.
//!
//! * The *real-time criterion*: of the leaves whose guarantee makes them eligible, the one with the
//!   earliest deadline sends. Each deadline is met within the transmission of one packet if the
//!   sum of all real-time curves is nowhere above the link's.
//! * The *link-sharing criterion*, if no leaf is eligible: from the root, the child with the least
//!   virtual time, down to a leaf. The virtual time of a class is that at which its link-sharing
//!   curve gives it the service that it has received by either criterion.
//! * A class above its upper limit takes no part in link sharing. The limit counts from when the
//!   class became backlogged; real-time guarantees go before it.
//!
//! Each packet costs the logarithm of the number of leaves with a guarantee, and of the number of
//! children of each class on the way from the root.

mod curve;
mod order;

use perhop_core::{Bytes, Header, Packet, Time};

use crate::class_tree::{Branch, BranchKind, ClassTree};
use crate::{
    Backlog, Class, ClassCounters, Dequeue, Discipline, Framing, Ledger, MatchRules, Pass,
};
use curve::{Instant, RuntimeCurve, Service, service};
use order::Order;

pub use curve::{HfscCurves, ServiceCurve};

/// A class of the tree.
#[derive(Debug)]
pub struct HfscSpec<B> {
    /// Filter of the packets of the parent that belong to the class.
    pub matches: MatchRules,
    /// Curves.
    pub curves: HfscCurves,
    /// Queue of a leaf class, or the classes in an interior class.
    pub kind: HfscClassKind<B>,
}

/// Kind of a class of the tree.
#[derive(Debug)]
pub enum HfscClassKind<B> {
    /// Leaf class: a queue.
    Leaf(Class<B>),
    /// Interior class: classes in match order, and the name of their parent in results.
    Interior(Box<str>, Vec<HfscSpec<B>>),
}

/// State of a class.
#[derive(Debug, Default)]
struct State {
    realtime: Option<Guarantee>,
    sharing: Option<Sharing>,
    limit: Option<(ServiceCurve, RuntimeCurve)>,
    /// Service of the class by either criterion.
    total: Service,
    /// True if it has a backlog that link sharing serves, or a class below has.
    active: bool,
    /// Time from which link sharing may serve the class itself.
    own_fit: Instant,
    /// Time from which link sharing may serve the class and one below.
    fit: Instant,
    /// Greatest virtual time of its children.
    latest: Instant,
    /// Greatest virtual time of a child that link sharing has selected.
    selected: Instant,
    /// Its active children by virtual time, each from when link sharing may serve it.
    children: Order,
    /// Place among the children of its parent.
    place: usize,
}

/// Real-time guarantee of a leaf.
#[derive(Debug)]
struct Guarantee {
    curve: ServiceCurve,
    deadlines: RuntimeCurve,
    eligibles: RuntimeCurve,
    /// Service by the real-time criterion.
    served: Service,
    backlogged: bool,
    /// Length of the first packet, as curves count it.
    size: Bytes,
    /// Time from which the first packet is eligible.
    eligible: Instant,
    /// Deadline of the first packet.
    deadline: Instant,
    /// Place among the leaves with guarantees.
    place: usize,
}

/// Link sharing of a class.
#[derive(Debug)]
struct Sharing {
    curve: ServiceCurve,
    virtual_times: RuntimeCurve,
    virtual_time: Instant,
    /// Virtual time by which the class was behind when its upper limit had it skipped.
    skipped: Instant,
}

impl State {
    fn new(curves: HfscCurves) -> Self {
        let guarantee = |curve| Guarantee {
            curve,
            deadlines: RuntimeCurve::new(curve),
            eligibles: RuntimeCurve::new(curve).eligible(),
            served: 0,
            backlogged: false,
            size: Bytes::ZERO,
            eligible: 0,
            deadline: 0,
            place: 0,
        };
        let sharing = |curve| Sharing {
            curve,
            virtual_times: RuntimeCurve::new(curve),
            virtual_time: 0,
            skipped: 0,
        };
        Self {
            realtime: curves.realtime.map(guarantee),
            sharing: curves.linkshare.map(sharing),
            limit: curves.upperlimit.map(|curve| (curve, RuntimeCurve::new(curve))),
            ..Self::default()
        }
    }

    fn virtual_time(&self) -> Instant {
        self.sharing.as_ref().map_or(0, |sharing| sharing.virtual_time)
    }
}

/// A tree of classes with service curves.
#[derive(Debug)]
pub struct Hfsc<B> {
    tree: ClassTree<B, State>,
    /// Bytes that curves count for a packet.
    framing: Framing,
    /// Leaves with real-time guarantees.
    guaranteed: Vec<usize>,
    /// Those with a backlog by deadline, each from when it is eligible.
    deadlines: Order,
}

/// Criterion by which a leaf sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Criterion {
    RealTime,
    LinkSharing,
}

impl<B> Hfsc<B> {
    /// Creates a tree without packets. The last class of every parent takes the packets that no
    /// other matches.
    ///
    /// # Panics
    /// If a parent has no class.
    pub fn new(classes: Vec<HfscSpec<B>>) -> Self {
        let mut tree = ClassTree::new(State::default(), classes.into_iter().map(branch).collect());
        let mut guaranteed = Vec::new();
        for index in 0..tree.len() {
            let children = tree.children(index).to_vec();
            if !children.is_empty() {
                tree.state(index).children = Order::new(children.len());
            }
            for (place, child) in children.into_iter().enumerate() {
                tree.state(child).place = place;
            }
            if tree.node(index).leaf().is_some()
                && let Some(guarantee) = &mut tree.state(index).realtime
            {
                guarantee.place = guaranteed.len();
                guaranteed.push(index);
            }
        }
        let deadlines = Order::new(guaranteed.len());
        Self { tree, framing: Framing::default(), guaranteed, deadlines }
    }

    /// Returns the same tree, whose curves count the bytes of frames.
    #[must_use]
    pub fn framed(self, framing: Framing) -> Self {
        Self { framing, ..self }
    }

    /// Calls `visit` for every class below the root, depth first.
    pub(crate) fn visit(&self, visit: &mut impl FnMut(&str, &ClassCounters, Backlog)) {
        self.tree.visit(visit);
    }

    /// Returns the leaf of this name.
    pub(crate) fn class_mut(&mut self, name: &str) -> Option<&mut Class<B>> {
        self.tree.class_mut(name)
    }

    /// Returns the length of the first packet of a leaf, as curves count it.
    fn first_packet(&mut self, leaf: usize, now: Time) -> Option<Bytes> {
        let head = self.tree.leaf_mut(leaf).head(now);
        head.map(|size| self.framing.charge(size))
    }

    /// Returns the leaf that sends at `now`, and by which criterion.
    fn select(&mut self, now: Time) -> Option<(usize, Criterion)> {
        let now = Instant::from(now.as_picos());
        if let Some(place) = self.deadlines.first(now) {
            return Some((self.guaranteed[place], Criterion::RealTime));
        }
        let mut index = 0;
        while self.tree.node(index).leaf().is_none() {
            let place = self.tree.state(index).children.first(now)?;
            index = self.tree.children(index)[place];
        }
        Some((index, Criterion::LinkSharing))
    }

    /// Returns the leaf that may send first, and when, if none may now.
    fn first(&self) -> Option<(usize, Instant)> {
        let eligible = self.deadlines.next().map(|(place, at)| (self.guaranteed[place], at));
        let fit = self.first_fit(0).map(|(child, at)| {
            let mut index = child;
            while let Some((below, _)) = self.first_fit(index) {
                index = below;
            }
            (index, at)
        });
        eligible.into_iter().chain(fit).min_by_key(|(_, at)| *at)
    }

    /// Returns the active child of a class that link sharing may serve first, and when.
    fn first_fit(&self, index: usize) -> Option<(usize, Instant)> {
        let (place, at) = self.tree.node(index).state.children.next()?;
        Some((self.tree.children(index)[place], at))
    }

    /// Begins a backlog of a leaf, with a first packet of this size.
    fn activate(&mut self, leaf: usize, now: Time, size: Bytes) {
        let now = Instant::from(now.as_picos());
        if let Some(guarantee) = &mut self.tree.state(leaf).realtime {
            guarantee.backlogged = true;
            guarantee.deadlines.lower(guarantee.curve, now, guarantee.served);
            guarantee.eligibles = guarantee.deadlines.eligible();
            guarantee.update(size);
        }
        self.reorder(leaf);
        let mut index = leaf;
        while let Some(parent) = self.tree.node(index).parent {
            let system = self.system_virtual_time(parent);
            let state = self.tree.state(index);
            let total = state.total;
            if let (Some(sharing), false) = (&mut state.sharing, state.active) {
                state.active = true;
                let start = sharing.virtual_time.max(system);
                sharing.virtual_time = start;
                sharing.virtual_times.lower(sharing.curve, start, total);
                sharing.skipped = 0;
                if let Some((curve, limit)) = &mut state.limit {
                    limit.lower(*curve, now, total);
                    state.own_fit = limit.time_of(total);
                }
                let latest = &mut self.tree.state(parent).latest;
                *latest = (*latest).max(start);
            } else if state.sharing.is_none() {
                break;
            }
            self.refit(index);
            index = parent;
        }
    }

    /// Returns the virtual time at which a child of a class begins: the mean of the least and the
    /// greatest of its active siblings, or the greatest so far.
    fn system_virtual_time(&self, parent: usize) -> Instant {
        let state = &self.tree.node(parent).state;
        match state.children.keys() {
            Some((least, greatest)) => (least + greatest) / 2,
            None => state.latest,
        }
    }

    /// Computes when link sharing may serve a class and one below it, and tells its parent.
    fn refit(&mut self, index: usize) {
        let state = self.tree.state(index);
        state.fit = state.own_fit.max(state.children.from().unwrap_or(0));
        let entry = state.active.then(|| (state.virtual_time(), state.fit));
        let place = state.place;
        if let Some(parent) = self.tree.node(index).parent {
            self.tree.state(parent).children.set(place, entry);
        }
    }

    /// Updates the place of a leaf in the order of deadlines, if it has a guarantee.
    fn reorder(&mut self, leaf: usize) {
        if let Some(guarantee) = &self.tree.node(leaf).state.realtime {
            let times = (guarantee.deadline, guarantee.eligible);
            self.deadlines.set(guarantee.place, guarantee.backlogged.then_some(times));
        }
    }

    /// Charges what a leaf has sent to it and to the classes above, and ends the backlog of those
    /// that have none.
    fn charge(&mut self, leaf: usize, sent: Bytes, criterion: Criterion, next: Option<Bytes>) {
        let sent = service(sent);
        if let Some(guarantee) = &mut self.tree.state(leaf).realtime {
            if criterion == Criterion::RealTime {
                guarantee.served += sent;
            }
            match next {
                Some(size) => guarantee.update(size),
                None => guarantee.backlogged = false,
            }
        }
        self.reorder(leaf);
        let mut index = leaf;
        while let Some(parent) = self.tree.node(index).parent {
            let more = match index == leaf {
                true => next.is_some(),
                false => !self.tree.node(index).state.children.is_empty(),
            };
            let Some(before) = self.tree.node(index).state.sharing.as_ref() else {
                self.tree.state(index).total += sent;
                index = parent;
                continue;
            };
            let selected =
                if criterion == Criterion::LinkSharing { before.virtual_time } else { 0 };
            let above = self.tree.state(parent);
            above.selected = above.selected.max(selected);
            let selected = above.selected;
            let state = self.tree.state(index);
            state.total += sent;
            if state.active {
                if let Some(sharing) = &mut state.sharing {
                    let time = sharing.virtual_times.time_of(state.total) + sharing.skipped;
                    sharing.skipped += selected.saturating_sub(time);
                    sharing.virtual_time = time.max(selected);
                }
                if let Some((_, limit)) = &state.limit {
                    state.own_fit = limit.time_of(state.total);
                }
                state.active = more;
            }
            let time = state.virtual_time();
            let latest = &mut self.tree.state(parent).latest;
            *latest = (*latest).max(time);
            self.refit(index);
            index = parent;
        }
    }
}

impl Guarantee {
    /// Computes the times of the first packet, which has this size.
    fn update(&mut self, size: Bytes) {
        self.size = size;
        self.eligible = self.eligibles.time_of(self.served);
        self.deadline = self.deadlines.time_of(self.served + service(size));
    }
}

fn branch<B>(spec: HfscSpec<B>) -> Branch<B, State> {
    let kind = match spec.kind {
        HfscClassKind::Leaf(class) => BranchKind::Leaf(class),
        HfscClassKind::Interior(name, specs) => {
            BranchKind::Inner(name, specs.into_iter().map(branch).collect())
        }
    };
    Branch { matches: spec.matches, state: State::new(spec.curves), kind }
}

impl<B> Discipline<B> for Hfsc<B> {
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        let leaf = self.tree.classify(&packet);
        let before = self.tree.leaf(leaf).backlog().packets;
        self.tree.act(leaf, ledger, |class, ledger| class.enqueue(now, packet, ledger));
        let head = self.first_packet(leaf, now);
        match head {
            Some(size) if before == 0 => self.activate(leaf, now, size),
            Some(size) => {
                if let Some(guarantee) = &mut self.tree.state(leaf).realtime
                    && guarantee.size != size
                {
                    // The first packet is another one than before.
                    guarantee.update(size);
                    self.reorder(leaf);
                }
            }
            None if before > 0 => self.charge(leaf, Bytes::ZERO, Criterion::RealTime, None),
            None => {}
        }
    }

    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B> {
        while let Some((leaf, criterion)) = self.select(now) {
            let next = self.tree.act(leaf, ledger, |class, ledger| class.dequeue(now, ledger));
            let head = self.first_packet(leaf, now);
            if let Dequeue::Packet(packet) = &next {
                let size = packet.size();
                self.tree.above(leaf, |counters| counters.sent.add(size));
                self.charge(leaf, self.framing.charge(size), criterion, head);
                return next;
            }
            if let Dequeue::NotBefore(_) = next {
                // The class has a shaper in its queue, as CAKE has. Linux's `hfsc_dequeue` ends
                // here, too: no class sends before.
                return next;
            }
            // The class has dropped all its packets.
            self.charge(leaf, Bytes::ZERO, Criterion::RealTime, head);
        }
        match self.first() {
            Some((_, at)) => {
                Dequeue::NotBefore(Time::from_picos(u64::try_from(at).unwrap_or(u64::MAX)))
            }
            None => Dequeue::Idle,
        }
    }

    fn pass(&mut self, _now: Time, _header: &Header) -> Pass {
        Pass::Enqueue // its class must pay for it
    }

    fn head(&mut self, now: Time) -> Option<Bytes> {
        let leaf = match self.select(now) {
            Some((leaf, _)) => leaf,
            None => self.first()?.0,
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
