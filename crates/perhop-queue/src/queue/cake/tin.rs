//! A tin: flow queues, assigned by a set-associative hash and served by DRR++ with fairness of
//! hosts ("Piece of CAKE", section III.B and III.C).

use std::collections::VecDeque;

use perhop_core::{Bytes, Header, NodeId, Packet, Protocol, Rate, Time};

use super::cobalt::{Cobalt, Times};
use super::diffserv::TinSpec;
use super::pool::{List, Pool};
use crate::greatest::Greatest;
use crate::{Backlog, ClassCounters};

/// Number of flow queues in a tin, and of those among which a flow may choose.
const QUEUES: usize = 1024;
const WAYS: usize = 8;

/// Deficits are counted in this part of a byte, so that a quantum can be divided among the flows of
/// a host.
const BYTE: i64 = 1 << 16;

/// What has a queue, and between what CAKE is fair (tc-cake(8), flow isolation parameters).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Isolation {
    /// One queue for all packets.
    Flowblind,
    /// A queue for each source.
    Srchost,
    /// A queue for each destination.
    Dsthost,
    /// A queue for each pair of source and destination.
    Hosts,
    /// A queue for each 5-tuple.
    Flows,
    /// A queue for each 5-tuple; fair to sources, then to their flows.
    DualSrchost,
    /// A queue for each 5-tuple; fair to destinations, then to their flows.
    DualDsthost,
    /// A queue for each 5-tuple; fair to sources and destinations, then to their flows.
    TripleIsolate,
}

impl Isolation {
    const fn by_source(self) -> bool {
        matches!(self, Self::DualSrchost | Self::TripleIsolate)
    }

    const fn by_destination(self) -> bool {
        matches!(self, Self::DualDsthost | Self::TripleIsolate)
    }

    /// Returns a number that is the same for all packets that share a queue.
    fn hash(self, header: &Header, perturbation: u64) -> u64 {
        let ends = |source, destination| {
            let (source_port, destination_port, protocol) = (0, 0, Protocol::Other.into());
            Header { source, destination, source_port, destination_port, protocol, ..*header }
                .flow_hash(perturbation)
        };
        let nobody = NodeId(u16::MAX);
        match self {
            Self::Flowblind => 0,
            Self::Srchost => ends(header.source, nobody),
            Self::Dsthost => ends(nobody, header.destination),
            Self::Hosts => ends(header.source, header.destination),
            Self::Flows | Self::DualSrchost | Self::DualDsthost | Self::TripleIsolate => {
                header.flow_hash(perturbation)
            }
        }
    }
}

/// State of a flow queue in the rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rotation {
    /// In no list.
    Idle,
    /// Among the sparse flows, which are served first.
    Sparse,
    /// Among the bulk flows because its deficit is used up, but empty: a sparse flow still.
    SparseWaiting,
    /// Among the bulk flows.
    Bulk,
}

/// Packets of a flow queue, and its AQM, in a cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Flow {
    packets: List,
    cobalt: Cobalt,
}

/// Hosts of the flow to which a queue belongs, and the queue's state.
#[derive(Clone, Copy, Debug)]
struct Owner {
    source: NodeId,
    destination: NodeId,
    rotation: Rotation,
}

/// A place of a flow queue in a list.
#[derive(Clone, Copy, Debug)]
struct Turn {
    queue: u16,
    deficit: i64,
}

/// A traffic class of CAKE.
#[derive(Debug)]
pub(super) struct Tin {
    pub spec: TinSpec,
    /// Rate up to which the tin has priority; `None` without a shaper.
    pub rate: Option<Rate>,
    pub times: Times,
    /// Time from which the tin is below its rate.
    pub next: Time,
    /// Bytes that the tin may send in its turn, if there is no shaper.
    pub deficit: i64,
    pub backlog: Backlog,
    pub counters: ClassCounters,
    isolation: Isolation,
    flows: Vec<Flow>,
    owners: Vec<Owner>,
    /// Hashes of the flows to which the queues belong.
    tags: Vec<u64>,
    sparse: VecDeque<Turn>,
    bulk: VecDeque<Turn>,
    /// Bytes of each queue, and its index. `None` before the first overflow.
    longest: Option<Greatest<(Bytes, usize)>>,
    /// Number of bulk flows that are not empty, or were not when they last had a turn.
    bulk_flows: u64,
    hosts: Hosts,
}

/// Bulk flows of each host, which share its quantum.
#[derive(Debug)]
struct Hosts {
    by_source: bool,
    by_destination: bool,
    /// For each node, the number of bulk flows of which it is the source, and the destination.
    flows: Vec<(u32, u32)>,
    /// Quantum of a flow whose host has so many bulk flows: that of the tin, divided among them.
    quanta: Vec<i64>,
}

impl Hosts {
    /// Counts a flow among the bulk flows of its hosts, or no longer.
    fn count(&mut self, owner: Owner, is_bulk: bool) {
        let (source, destination) = (owner.source.index(), owner.destination.index());
        let most = source.max(destination);
        if self.flows.len() <= most {
            self.flows.resize(most + 1, (0, 0));
        }
        let change = |count: &mut u32| *count = if is_bulk { *count + 1 } else { *count - 1 };
        change(&mut self.flows[source].0);
        change(&mut self.flows[destination].1);
    }

    /// Returns the quantum of a flow. With both hosts counted, the busier one decides.
    #[inline]
    fn quantum(&self, owner: Owner) -> i64 {
        let of = |node: NodeId| self.flows.get(node.index()).copied().unwrap_or_default();
        let sources = if self.by_source { of(owner.source).0 } else { 0 };
        let destinations = if self.by_destination { of(owner.destination).1 } else { 0 };
        self.quanta[sources.max(destinations) as usize]
    }
}

impl Tin {
    pub fn new(spec: TinSpec, rate: Option<Rate>, times: Times, isolation: Isolation) -> Self {
        // The bytes of a 4096th of a second, within limits (`cake_set_rate`).
        let quantum =
            rate.map_or(1514, |rate| ((rate.bits_per_second() / 8) >> 12).clamp(300, 1514));
        let quantum = quantum as i64 * BYTE;
        let flow = Flow { packets: List::new(), cobalt: Cobalt::default() };
        let nobody = Owner { source: NodeId(0), destination: NodeId(0), rotation: Rotation::Idle };
        let queues = if isolation == Isolation::Flowblind { WAYS } else { QUEUES };
        Self {
            spec,
            rate,
            times,
            next: Time::ZERO,
            deficit: 0,
            backlog: Backlog::default(),
            counters: ClassCounters::default(),
            isolation,
            flows: vec![flow; queues],
            owners: vec![nobody; queues],
            tags: vec![0; queues],
            sparse: VecDeque::new(),
            bulk: VecDeque::new(),
            longest: None,
            bulk_flows: 0,
            hosts: Hosts {
                by_source: isolation.by_source(),
                by_destination: isolation.by_destination(),
                flows: Vec::new(),
                quanta: (0..=queues as i64).map(|flows| quantum / flows.max(1)).collect(),
            },
        }
    }

    /// Returns `true` if a flow has a turn, perhaps with an empty queue.
    pub fn has_turns(&self) -> bool {
        !self.sparse.is_empty() || !self.bulk.is_empty()
    }

    pub fn bulk_flows(&self) -> u64 {
        self.bulk_flows
    }

    /// Returns the queue for a packet: that of its flow if it has one, else a free one of its set,
    /// else the one that its hash names, with another flow in it.
    fn assign(&mut self, now: Time, header: &Header, perturbation: u64) -> usize {
        let hash = self.isolation.hash(header, perturbation);
        let queues = self.flows.len();
        let index = ((u128::from(hash) * queues as u128) >> 64) as usize;
        let (set, way) = (index - index % WAYS, index % WAYS);
        let place = |step: usize| set + (way + step) % WAYS;
        let is_idle = |place: &usize| self.owners[*place].rotation == Rotation::Idle;
        if let Some(own) = (0..WAYS).map(place).find(|&place| self.tags[place] == hash) {
            return own;
        }
        let free =
            |place: &usize| is_idle(place) && self.flows[*place].cobalt.rest(&self.times, now);
        // If all remember a flow, one without packets is better than a collision.
        let mut places = (0..WAYS).map(place);
        let index = places.clone().find(free).or_else(|| places.find(is_idle)).unwrap_or(index);
        let owner = &mut self.owners[index];
        if owner.rotation == Rotation::Idle {
            self.flows[index].cobalt = Cobalt::default();
        }
        self.tags[index] = hash;
        let before = *owner;
        (owner.source, owner.destination) = (header.source, header.destination);
        if owner.rotation == Rotation::Bulk {
            self.hosts.count(before, false);
            self.hosts.count(*owner, true);
        }
        index
    }

    /// Puts a packet into its queue; returns the index of the queue.
    pub fn push<B>(
        &mut self,
        pool: &mut Pool<B>,
        now: Time,
        packet: Packet<B>,
        charged: Bytes,
        perturbation: u64,
    ) -> usize {
        let index = self.assign(now, &packet.header, perturbation);
        self.backlog.add(packet.size());
        self.flows[index].packets.push(pool, now, packet, charged);
        match self.owners[index].rotation {
            Rotation::Idle => {
                let deficit = self.hosts.quantum(self.owners[index]);
                self.flows[index].cobalt.rest(&self.times, now);
                self.owners[index].rotation = Rotation::Sparse;
                self.sparse.push_back(Turn { queue: index as u16, deficit });
            }
            Rotation::SparseWaiting => self.become_bulk(index),
            Rotation::Sparse | Rotation::Bulk => {}
        }
        self.compare(index);
        index
    }

    fn become_bulk(&mut self, index: usize) {
        self.owners[index].rotation = Rotation::Bulk;
        self.bulk_flows += 1;
        self.hosts.count(self.owners[index], true);
    }

    /// Returns the queue whose turn it is: the first with a deficit that is not used up, among the
    /// sparse flows and then the bulk ones. `None` if there is no turn.
    pub fn turn(&mut self) -> Option<usize> {
        while let Some(&turn) = self.sparse.front() {
            let index = usize::from(turn.queue);
            if turn.deficit > 0 {
                return Some(index);
            }
            self.sparse.pop_front();
            match self.flows[index].packets.is_empty() {
                true => self.owners[index].rotation = Rotation::SparseWaiting,
                false => self.become_bulk(index),
            }
            let deficit = turn.deficit + self.hosts.quantum(self.owners[index]);
            self.bulk.push_back(Turn { deficit, ..turn });
        }
        // Each bulk flow is visited in its place, and gets its quantum or the turn.
        let (owners, hosts) = (&self.owners, &self.hosts);
        let has_turn = |turn: &mut Turn| {
            let has_turn = turn.deficit > 0;
            if !has_turn {
                turn.deficit += hosts.quantum(owners[usize::from(turn.queue)]);
            }
            has_turn
        };
        while !self.bulk.is_empty() {
            if let Some(visited) = self.bulk.iter_mut().position(has_turn) {
                self.bulk.rotate_left(visited);
                break;
            }
        }
        self.bulk.front().map(|turn| usize::from(turn.queue))
    }

    /// Returns the list of the queue whose turn it is.
    fn current(&mut self) -> &mut VecDeque<Turn> {
        if self.sparse.is_empty() { &mut self.bulk } else { &mut self.sparse }
    }

    /// Ends the turns of the queue whose turn it is, because it is empty.
    pub fn retire(&mut self, index: usize, now: Time) {
        let turn = self.current().pop_front();
        debug_assert!(turn.is_some_and(|turn| usize::from(turn.queue) == index));
        let owner = &mut self.owners[index];
        if owner.rotation == Rotation::Bulk {
            self.bulk_flows -= 1;
            self.hosts.count(*owner, false);
        }
        owner.rotation = Rotation::Idle;
        self.flows[index].cobalt.on_empty(&self.times, now);
    }

    /// Charges bytes to the queue whose turn it is.
    pub fn charge(&mut self, charged: Bytes) {
        let turn = self.current().front_mut().expect("a queue whose turn it is");
        turn.deficit -= charged.get() as i64 * BYTE;
        self.deficit -= charged.get() as i64;
    }

    /// Calls `change` with a queue and its AQM, and updates the backlog of the tin after it.
    pub fn with<R>(
        &mut self,
        index: usize,
        change: impl FnOnce(&mut List, &mut Cobalt, &Times) -> R,
    ) -> R {
        let Flow { packets, cobalt } = &mut self.flows[index];
        let before = packets.backlog;
        let result = change(packets, cobalt, &self.times);
        let after = packets.backlog;
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
        self.compare(index);
        result
    }

    /// Compares a queue that has changed with the longest one.
    fn compare(&mut self, index: usize) {
        if let Some(longest) = &mut self.longest {
            longest.set(index, (self.flows[index].packets.backlog.bytes, index));
        }
    }

    /// Returns the bytes of the queue with the most, and its index.
    pub fn longest(&mut self) -> (Bytes, usize) {
        let lengths = || {
            let flows = self.flows.iter().enumerate();
            Greatest::new(flows.map(|(index, flow)| (flow.packets.backlog.bytes, index)))
        };
        self.longest.get_or_insert_with(lengths).first()
    }

    /// Returns the length of the first packet of the next queue with credit, or with credit after
    /// the fewest rounds of the present quanta. Flows that become bulk ones in these rounds lower
    /// the quanta of their hosts' flows, so that another queue may be next.
    pub fn head<B>(&self, pool: &Pool<B>) -> Option<Bytes> {
        let mut best = None;
        for turn in self.sparse.iter().chain(&self.bulk) {
            let index = usize::from(turn.queue);
            let Some(size) = self.flows[index].packets.head(pool) else { continue };
            let rounds = match turn.deficit {
                1.. => return Some(size),
                owed => 1 - owed / self.hosts.quantum(self.owners[index]),
            };
            if best.is_none_or(|(fewest, _)| rounds < fewest) {
                best = Some((rounds, size));
            }
        }
        best.map(|(_, size)| size)
    }

    /// Takes out all packets, queue by queue.
    pub fn drain<B>(mut self, pool: &mut Pool<B>, packets: &mut Vec<Packet<B>>) {
        for flow in &mut self.flows {
            while let Some(taken) = flow.packets.pop(pool) {
                packets.push(taken.packet);
            }
        }
    }
}
