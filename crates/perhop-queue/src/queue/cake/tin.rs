//! A tin: flow queues, assigned by a set-associative hash and served by DRR++ with fairness of
//! hosts ("Piece of CAKE", section III.B and III.C).

use std::collections::VecDeque;

use perhop_core::{Bytes, Header, NodeId, Packet, Protocol, Rate, Time};

use super::cobalt::{Cobalt, Times};
use super::diffserv::TinSpec;
use super::pool::{List, Pool};
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

#[derive(Clone, Debug)]
struct Flow {
    packets: List,
    /// Hash of the flow to which the queue belongs.
    tag: u64,
    deficit: i64,
    rotation: Rotation,
    source: NodeId,
    destination: NodeId,
    cobalt: Cobalt,
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
    quantum: i64,
    flows: Vec<Flow>,
    sparse: VecDeque<u16>,
    bulk: VecDeque<u16>,
    /// Number of bulk flows that are not empty, or were not when they last had a turn.
    bulk_flows: u64,
    /// For each node, the number of bulk flows of which it is the source, and the destination.
    hosts: Vec<(u32, u32)>,
}

impl Tin {
    pub fn new(spec: TinSpec, rate: Option<Rate>, times: Times, isolation: Isolation) -> Self {
        // The bytes of a 4096th of a second, within limits (`cake_set_rate`).
        let quantum =
            rate.map_or(1514, |rate| ((rate.bits_per_second() / 8) >> 12).clamp(300, 1514));
        let flow = Flow {
            packets: List::new(),
            tag: 0,
            deficit: 0,
            rotation: Rotation::Idle,
            source: NodeId(0),
            destination: NodeId(0),
            cobalt: Cobalt::default(),
        };
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
            quantum: quantum as i64 * BYTE,
            flows: vec![flow; queues],
            sparse: VecDeque::with_capacity(queues),
            bulk: VecDeque::with_capacity(queues),
            bulk_flows: 0,
            hosts: Vec::new(),
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
        let is_idle = |flow: &Flow| flow.rotation == Rotation::Idle;
        let own = (0..WAYS).map(place).find(|&place| self.flows[place].tag == hash);
        if let Some(own) = own.filter(|&own| !is_idle(&self.flows[own])) {
            return own;
        }
        let times = self.times;
        let index = own.unwrap_or_else(|| {
            let free = |&place: &usize| {
                let flow = &mut self.flows[place];
                is_idle(flow) && flow.cobalt.rest(&times, now)
            };
            // If all remember a flow, one without packets is better than a collision.
            let mut places = (0..WAYS).map(place);
            places.clone().find(free).unwrap_or_else(|| {
                places.find(|&place| is_idle(&self.flows[place])).unwrap_or(index)
            })
        });
        let was_bulk = self.flows[index].rotation == Rotation::Bulk;
        if was_bulk {
            self.count_bulk(index, false);
        }
        let flow = &mut self.flows[index];
        if flow.tag != hash && flow.rotation == Rotation::Idle {
            flow.cobalt = Cobalt::default();
        }
        flow.tag = hash;
        (flow.source, flow.destination) = (header.source, header.destination);
        if was_bulk {
            self.count_bulk(index, true);
        }
        index
    }

    /// Counts a flow among the bulk flows of its hosts, or no longer.
    fn count_bulk(&mut self, index: usize, is_bulk: bool) {
        let (source, destination) = (self.flows[index].source, self.flows[index].destination);
        let most = source.index().max(destination.index());
        if self.hosts.len() <= most {
            self.hosts.resize(most + 1, (0, 0));
        }
        let change = |count: &mut u32| *count = if is_bulk { *count + 1 } else { *count - 1 };
        change(&mut self.hosts[source.index()].0);
        change(&mut self.hosts[destination.index()].1);
    }

    /// Returns the quantum of a flow: the tin's, divided by the number of bulk flows of its host.
    /// With both hosts counted, the busier one decides.
    fn quantum(&self, flow: &Flow) -> i64 {
        let of = |node: NodeId| self.hosts.get(node.index()).copied().unwrap_or_default();
        let sources = if self.isolation.by_source() { of(flow.source).0 } else { 0 };
        let destinations = if self.isolation.by_destination() { of(flow.destination).1 } else { 0 };
        self.quantum / i64::from(sources.max(destinations).max(1))
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
        match self.flows[index].rotation {
            Rotation::Idle => {
                let deficit = self.quantum(&self.flows[index]);
                let flow = &mut self.flows[index];
                flow.cobalt.rest(&self.times, now);
                flow.rotation = Rotation::Sparse;
                flow.deficit = deficit;
                self.sparse.push_back(index as u16);
            }
            Rotation::SparseWaiting => self.become_bulk(index),
            Rotation::Sparse | Rotation::Bulk => {}
        }
        index
    }

    fn become_bulk(&mut self, index: usize) {
        self.flows[index].rotation = Rotation::Bulk;
        self.bulk_flows += 1;
        self.count_bulk(index, true);
    }

    /// Returns the queue whose turn it is: the first with a deficit that is not used up, among the
    /// sparse flows and then the bulk ones. `None` if there is no turn.
    pub fn turn(&mut self) -> Option<usize> {
        loop {
            let from_sparse = !self.sparse.is_empty();
            let list = if from_sparse { &mut self.sparse } else { &mut self.bulk };
            let number = *list.front()?;
            let index = usize::from(number);
            if self.flows[index].deficit > 0 {
                return Some(index);
            }
            list.pop_front();
            if self.flows[index].rotation == Rotation::Sparse {
                match self.flows[index].packets.is_empty() {
                    true => self.flows[index].rotation = Rotation::SparseWaiting,
                    false => self.become_bulk(index),
                }
            }
            self.flows[index].deficit += self.quantum(&self.flows[index]);
            self.bulk.push_back(number);
        }
    }

    /// Ends the turns of the queue whose turn it is, because it is empty.
    pub fn retire(&mut self, index: usize, now: Time) {
        let list = if self.sparse.is_empty() { &mut self.bulk } else { &mut self.sparse };
        debug_assert_eq!(list.front(), Some(&(index as u16)));
        list.pop_front();
        if self.flows[index].rotation == Rotation::Bulk {
            self.bulk_flows -= 1;
            self.count_bulk(index, false);
        }
        let flow = &mut self.flows[index];
        flow.rotation = Rotation::Idle;
        flow.cobalt.on_empty(&self.times, now);
    }

    /// Charges bytes to the queue whose turn it is.
    pub fn charge(&mut self, index: usize, charged: Bytes) {
        self.flows[index].deficit -= charged.get() as i64 * BYTE;
        self.deficit -= charged.get() as i64;
    }

    /// Calls `change` with a queue and its AQM, and updates the backlog of the tin after it.
    pub fn with<R>(
        &mut self,
        index: usize,
        change: impl FnOnce(&mut List, &mut Cobalt, &Times) -> R,
    ) -> R {
        let Flow { packets, cobalt, .. } = &mut self.flows[index];
        let before = packets.backlog;
        let result = change(packets, cobalt, &self.times);
        let after = packets.backlog;
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
        result
    }

    /// Returns the queue with the most bytes, and their number.
    pub fn longest(&self) -> Option<(Bytes, usize)> {
        let turns = self.sparse.iter().chain(&self.bulk).map(|&index| usize::from(index));
        turns.map(|index| (self.flows[index].packets.backlog.bytes, index)).max()
    }

    /// Returns the length of the first packet of the next queue with credit, or with credit after
    /// the fewest rounds.
    pub fn head<B>(&self, pool: &Pool<B>) -> Option<Bytes> {
        let mut best = None;
        for &index in self.sparse.iter().chain(&self.bulk) {
            let flow = &self.flows[usize::from(index)];
            let Some(size) = flow.packets.head(pool) else { continue };
            let rounds = match flow.deficit {
                1.. => return Some(size),
                owed => 1 - owed / self.quantum(flow).max(1),
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
