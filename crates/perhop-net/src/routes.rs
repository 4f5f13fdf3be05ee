//! Routing by shortest paths.

use std::collections::BTreeMap;
use std::ops::Range;

use perhop_core::{Header, NodeId, Stream};
use thiserror::Error;

use crate::balance::Group;
use crate::{Balance, IcmpError, LinkSpec, Loss, NodeKind, PortId, Topology};

/// Error: the network cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// A link names an unknown node.
    #[error("a link ends at node {0}, of {1}")]
    NoSuchNode(u16, usize),
    /// A link joins a node to itself.
    #[error("a link joins node {0} to itself")]
    Loop(u16),
    /// There are more nodes or links than can be numbered.
    #[error("the network is too large: {0}")]
    TooLarge(&'static str),
}

/// For each node and destination, the ports of [`Topology`]. Ports of equal cost share the packets
/// by the node's [`Balance`].
#[derive(Debug)]
pub(crate) struct Routes {
    topology: Topology,
    /// Load sharing of each node, and the initial value of its hashes.
    policies: Vec<(Balance, u64)>,
    /// By destination, then node: a port, or [`GROUP`] and the number of a group; [`UNKNOWN`] for
    /// destinations that no packet was sent to since links last changed.
    next_hop: Vec<u32>,
    /// Destinations with known paths.
    resolved: Vec<usize>,
    groups: Vec<Group>,
    /// Number of the group for each node and its ports.
    known: BTreeMap<(usize, Vec<PortId>), u32>,
}

/// Reason why a router does not forward a packet: the ICMP error, and the cause of the loss.
pub(crate) type Fault = (IcmpError, Loss);

const NONE: u32 = u32::MAX;
const UNKNOWN: u32 = u32::MAX - 1;
const GROUP: u32 = 1 << 31;

impl Routes {
    pub fn new<B>(nodes: &[NodeKind], links: &[LinkSpec<B>], seed: u64) -> Self {
        let links = links.iter().map(|link| (link.ends, link.wires.map(|wire| wire.delay)));
        Self::over(Topology::new(nodes, links), seed)
    }

    fn over(topology: Topology, seed: u64) -> Self {
        // With equal hashes, the second of two routers would send all its packets the same way.
        let salt = |node| Stream::new(seed, &format!("balance/{node}")).up_to(u64::MAX);
        let nodes = topology.nodes();
        Self {
            topology,
            policies: (0..nodes).map(|node| (Balance::default(), salt(node))).collect(),
            next_hop: vec![UNKNOWN; nodes * nodes],
            resolved: Vec::new(),
            groups: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    /// Sets how `node` chooses among paths of equal cost, from now on.
    pub fn set_balance(&mut self, node: NodeId, balance: Balance) {
        self.policies[node.index()].0 = balance;
        for group in self.groups.iter_mut().filter(|group| group.node == node) {
            group.balance = balance;
        }
    }

    /// Sets a link up or down. All paths are discarded then; those to a destination are computed
    /// again with the first packet to it.
    pub fn set_up(&mut self, link: usize, up: bool) {
        if self.topology.set_up(link, up) {
            for destination in self.resolved.drain(..) {
                self.next_hop[row(destination, self.topology.nodes())].fill(UNKNOWN);
            }
            self.groups.clear();
            self.known.clear();
        }
    }

    /// Returns the port for the first packet to its destination, for which it computes the paths.
    #[cold]
    fn first(&mut self, node: NodeId, header: &Header) -> Option<PortId> {
        self.resolve(header.destination.index());
        self.next_hop(node, header)
    }

    /// Computes the paths to a destination.
    fn resolve(&mut self, destination: usize) {
        let nodes = self.topology.nodes();
        for (node, ways) in
            self.topology.next_hops(NodeId(destination as u16)).into_iter().enumerate()
        {
            self.next_hop[destination * nodes + node] = match ways[..] {
                [] => NONE,
                [PortId(port)] => port,
                _ => self.group(node, ways),
            };
        }
        self.resolved.push(destination);
    }

    /// Returns the number of the group for a node and its ports.
    fn group(&mut self, node: usize, ways: Vec<PortId>) -> u32 {
        let (balance, salt) = self.policies[node];
        let groups = &mut self.groups;
        let number = *self.known.entry((node, ways)).or_insert_with_key(|(_, ways)| {
            let node = NodeId(node as u16);
            groups.push(Group { node, ports: ways.clone(), balance, salt, turn: 0 });
            groups.len() as u32 - 1
        });
        GROUP | number
    }

    /// Returns the port by which `node`, a router, forwards a packet that is not for it.
    #[inline(always)]
    pub fn way(&mut self, node: NodeId, header: &Header) -> Result<PortId, Fault> {
        if header.ttl <= 1 {
            return Err((IcmpError::TimeExceeded, Loss::Expired));
        }
        self.next_hop(node, header).ok_or((IcmpError::NetUnreachable, Loss::NoRoute))
    }

    /// Returns the port by which `node` sends this packet.
    #[inline(always)]
    pub fn next_hop(&mut self, node: NodeId, header: &Header) -> Option<PortId> {
        let place = header.destination.index() * self.topology.nodes() + node.index();
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

/// Returns the range of a destination in a table of `nodes` nodes.
fn row(destination: usize, nodes: usize) -> Range<usize> {
    destination * nodes..(destination + 1) * nodes
}

#[cfg(test)]
mod tests {
    use perhop_core::{AckHint, Duration, Protocol, TrafficClass};

    use super::*;

    fn to(destination: u16) -> Header {
        Header {
            size: 100,
            source: NodeId(0),
            destination: NodeId(destination),
            source_port: 0,
            destination_port: 0,
            protocol: Protocol::Udp.into(),
            traffic_class: TrafficClass::default(),
            ttl: Header::TTL,
            ack: AckHint::NONE,
        }
    }

    /// With 500 routers and 1000 changes, paths between all nodes would take minutes.
    #[test]
    fn ways_are_found_where_packets_go_and_nowhere_else() {
        let links = (0..49).map(|n| ([NodeId(n), NodeId(n + 1)], [Duration::ZERO; 2]));
        let mut routes = Routes::over(Topology::new(&[NodeKind::Router; 50], links), 1);
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
