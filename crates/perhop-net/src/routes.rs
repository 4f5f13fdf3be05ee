//! Where packets go: the shortest paths.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;

use perhop_core::{Duration, Header, NodeId, Stream};
use thiserror::Error;

use crate::balance::Group;
use crate::{Balance, IcmpError, LinkSpec, Loss, NodeKind, PortId};

/// A network that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// A link names a node that does not exist.
    #[error("a link ends at node {0}, of {1}")]
    NoSuchNode(u16, usize),
    /// A link joins a node to itself.
    #[error("a link joins node {0} to itself")]
    Loop(u16),
    /// There are more nodes or links than identifiers for them.
    #[error("the network is too large: {0}")]
    TooLarge(&'static str),
}

/// For each node and destination the ports to send through: fewest hops, then least delay. Hosts
/// end paths and are never on them.
///
/// Links that join the same two nodes are one hop, as long as the shortest of them, and share what
/// goes that way; so do paths that cost the same. Who gets what is up to the node's [`Balance`].
#[derive(Debug)]
pub(crate) struct Routes {
    kinds: Vec<NodeKind>,
    links: Vec<Edge>,
    /// What to do at each node with more than one way, and what its hashes begin with.
    policies: Vec<(Balance, u64)>,
    /// By destination, then node: a port, or [`GROUP`] and the number of a group; [`UNKNOWN`] for
    /// destinations to which nothing has been sent since links last changed.
    next_hop: Vec<u32>,
    /// The destinations whose ways are known.
    resolved: Vec<usize>,
    groups: Vec<Group>,
    /// The number of the group of each node and its ways.
    known: BTreeMap<(usize, Vec<u32>), u32>,
    /// Each node's ports that are up: to whom, and how far the nearest link to them is.
    towards: Vec<Vec<(NodeId, u32, Duration)>>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    ends: [NodeId; 2],
    delay: Duration,
    up: bool,
}

/// Why a router sends a packet no further: what it says of that, and what becomes of the packet.
pub(crate) type Fault = (IcmpError, Loss);

const NONE: u32 = u32::MAX;
const UNKNOWN: u32 = u32::MAX - 1;
const GROUP: u32 = 1 << 31;

/// Hops, then delay.
type Cost = (u32, Duration);
const FAR: Cost = (u32::MAX, Duration::MAX);

impl Routes {
    pub fn new<B>(nodes: &[NodeKind], links: &[LinkSpec<B>], seed: u64) -> Self {
        let edge = |link: &LinkSpec<B>| Edge { ends: link.ends, delay: link.wire.delay, up: true };
        Self::over(nodes, links.iter().map(edge).collect(), seed)
    }

    fn over(nodes: &[NodeKind], links: Vec<Edge>, seed: u64) -> Self {
        // Routers that hashed alike would send all that reaches the second of two one way.
        let salt = |node| Stream::new(seed, &format!("balance/{node}")).up_to(u64::MAX);
        let mut routes = Self {
            kinds: nodes.to_vec(),
            links,
            policies: (0..nodes.len()).map(|node| (Balance::default(), salt(node))).collect(),
            next_hop: vec![UNKNOWN; nodes.len() * nodes.len()],
            resolved: Vec::new(),
            groups: Vec::new(),
            known: BTreeMap::new(),
            towards: vec![Vec::new(); nodes.len()],
        };
        routes.reset();
        routes
    }

    /// From now on `node` chooses among several ways like this.
    pub fn set_balance(&mut self, node: NodeId, balance: Balance) {
        self.policies[node.index()].0 = balance;
        for group in self.groups.iter_mut().filter(|group| group.node == node) {
            group.balance = balance;
        }
    }

    /// A link goes up or down.
    pub fn set_up(&mut self, link: usize, up: bool) {
        if std::mem::replace(&mut self.links[link].up, up) != up {
            self.reset();
        }
    }

    /// Forgets all ways; those to a destination are found when a packet goes there.
    fn reset(&mut self) {
        for destination in self.resolved.drain(..) {
            self.next_hop[row(destination, self.kinds.len())].fill(UNKNOWN);
        }
        self.groups.clear();
        self.known.clear();
        self.towards.iter_mut().for_each(Vec::clear);
        for (link, edge) in self.links.iter().enumerate().filter(|(_, edge)| edge.up) {
            let [a, b] = edge.ends;
            self.towards[a.index()].push((b, 2 * link as u32, edge.delay));
            self.towards[b.index()].push((a, 2 * link as u32 + 1, edge.delay));
        }
        for ports in &mut self.towards {
            ports.sort_unstable_by_key(|&(to, port, delay)| (to, delay, port));
            for index in 1..ports.len() {
                if ports[index].0 == ports[index - 1].0 {
                    ports[index].2 = ports[index - 1].2;
                }
            }
        }
    }

    /// The port for the first packet to its destination.
    #[cold]
    fn first(&mut self, node: NodeId, header: &Header) -> Option<PortId> {
        self.resolve(header.destination.index());
        self.next_hop(node, header)
    }

    /// Finds the ways to a destination.
    fn resolve(&mut self, destination: usize) {
        let nodes = self.kinds.len();
        let best = self.costs(destination);
        for node in 0..nodes {
            let ports = &self.towards[node];
            let leads = |&&(to, _, delay): &&(NodeId, u32, Duration)| {
                let (hops, length) = best[to.index()];
                let forwards = self.kinds[to.index()] == NodeKind::Router;
                (forwards || to.index() == destination)
                    && hops != FAR.0
                    && node != destination
                    && (hops + 1, length + delay) == best[node]
            };
            let mut ways: Vec<u32> = ports.iter().filter(leads).map(|way| way.1).collect();
            ways.sort_unstable();
            let found = match ways[..] {
                [] => self.default_route(node, destination, ports),
                [port] => port,
                _ => {
                    let (balance, salt) = self.policies[node];
                    let groups = &mut self.groups;
                    let number = *self.known.entry((node, ways)).or_insert_with_key(|(_, ways)| {
                        let ports = ways.iter().copied().map(PortId).collect();
                        let node = NodeId(node as u16);
                        groups.push(Group { node, ports, balance, salt, turn: 0 });
                        groups.len() as u32 - 1
                    });
                    GROUP | number
                }
            };
            self.next_hop[destination * nodes + node] = found;
        }
        self.resolved.push(destination);
    }

    /// Where a host sends what it knows no way for, as hosts do by default: to a router, the one on
    /// its first link. Routers have no such way.
    fn default_route(
        &self,
        node: usize,
        destination: usize,
        ports: &[(NodeId, u32, Duration)],
    ) -> u32 {
        let to_router = |way: &&(NodeId, u32, Duration)| {
            self.kinds[way.0.index()] == NodeKind::Router && node != destination
        };
        match self.kinds[node] {
            NodeKind::Host => ports.iter().filter(to_router).map(|way| way.1).min().unwrap_or(NONE),
            NodeKind::Router => NONE,
        }
    }

    /// What it costs from each node to `destination`: Dijkstra's algorithm, backwards from there.
    fn costs(&self, destination: usize) -> Vec<Cost> {
        let mut best = vec![FAR; self.kinds.len()];
        best[destination] = (0, Duration::ZERO);
        let mut queue = BinaryHeap::from([Reverse(((0, Duration::ZERO), destination))]);
        while let Some(Reverse((cost, node))) = queue.pop() {
            let ends_here = self.kinds[node] == NodeKind::Host && node != destination;
            if cost > best[node] || ends_here {
                continue;
            }
            // Links are as long one way as the other.
            for &(from, _, delay) in &self.towards[node] {
                let through = (cost.0 + 1, cost.1 + delay);
                if through < best[from.index()] {
                    best[from.index()] = through;
                    queue.push(Reverse((through, from.index())));
                }
            }
        }
        best
    }

    /// The port on which `node`, a router, sends a packet on that is not for it.
    #[inline(always)]
    pub fn way(&mut self, node: NodeId, header: &Header) -> Result<PortId, Fault> {
        if header.ttl <= 1 {
            return Err((IcmpError::TimeExceeded, Loss::Expired));
        }
        self.next_hop(node, header).ok_or((IcmpError::NetUnreachable, Loss::NoRoute))
    }

    /// The port on which `node` sends this packet.
    #[inline(always)]
    pub fn next_hop(&mut self, node: NodeId, header: &Header) -> Option<PortId> {
        let place = header.destination.index() * self.kinds.len() + node.index();
        let way = self.next_hop[place];
        if way < GROUP {
            Some(PortId(way))
        } else if way == UNKNOWN {
            self.first(node, header)
        } else if way == NONE {
            None
        } else {
            Some(self.groups[(way & !GROUP) as usize].choose(header))
        }
    }
}

/// Where the ways to a destination are in a table of so many nodes.
fn row(destination: usize, nodes: usize) -> Range<usize> {
    destination * nodes..(destination + 1) * nodes
}

#[cfg(test)]
mod tests {
    use perhop_core::{Protocol, TrafficClass};

    use super::*;

    fn to(destination: u16) -> Header {
        Header {
            size: 100,
            source: NodeId(0),
            destination: NodeId(destination),
            source_port: 0,
            destination_port: 0,
            protocol: Protocol::Udp,
            traffic_class: TrafficClass::default(),
            ttl: Header::TTL,
        }
    }

    /// With 500 routers and 1000 changes, ways between all nodes would take minutes.
    #[test]
    fn ways_are_found_where_packets_go_and_nowhere_else() {
        let edge = |n| Edge { ends: [NodeId(n), NodeId(n + 1)], delay: Duration::ZERO, up: true };
        let mut routes = Routes::over(&[NodeKind::Router; 50], (0..49).map(edge).collect(), 1);
        assert!(routes.resolved.is_empty());
        for up in [false, true, false, true] {
            routes.set_up(40, up);
            assert!(routes.resolved.is_empty());
            for _ in 0..2 {
                assert_eq!(routes.next_hop(NodeId(0), &to(30)), Some(PortId(0)));
                assert_eq!(routes.next_hop(NodeId(0), &to(45)), up.then_some(PortId(0)));
            }
            assert_eq!(routes.resolved, [30, 45]);
        }
    }
}
