//! Routing by shortest paths.

use std::collections::{BTreeMap, BTreeSet};
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

/// Greatest number of links, which leaves event ids for the hosts' timers.
const MAX_LINKS: usize = 1 << 21;

impl RouteError {
    /// Returns an error if there are too many nodes or links.
    pub(crate) fn of_size(nodes: usize, links: usize) -> Result<(), Self> {
        if nodes > usize::from(u16::MAX) {
            return Err(Self::TooLarge("nodes are numbered in 16 bits"));
        }
        if links > MAX_LINKS {
            return Err(Self::TooLarge("more than two million links"));
        }
        Ok(())
    }
}

/// For each node and destination, the ports of [`Topology`]. Ports of equal cost share the packets
/// by the node's [`Balance`].
#[derive(Debug)]
pub(crate) struct Routes {
    topology: Topology,
    /// Load sharing of each node, and the initial value of its hashes.
    policies: Vec<(Balance, u64)>,
    /// By destination, then node: a port, [`GROUP`] and the number of a group, or [`TUNNEL`] and
    /// that of a tunnel; [`UNKNOWN`] for destinations that no packet was sent to since links last
    /// changed.
    next_hop: Vec<u32>,
    /// Entry and exit of each tunnel.
    tunnels: Vec<(NodeId, NodeId)>,
    /// By destination and node, as in `next_hop`: the ways of outer packets to the end of a tunnel
    /// that is a host, where other packets to it enter that tunnel.
    outer: BTreeMap<(usize, usize), u32>,
    /// Destinations with known paths.
    resolved: Vec<usize>,
    groups: Vec<Group>,
    /// Number of the group for each node and its ports.
    known: BTreeMap<(usize, Vec<PortId>), u32>,
}

/// Reason why a router does not forward a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It discards the packet: the ICMP error, and the cause of the loss.
    Error(IcmpError, Loss),
    /// The packet enters the tunnel with this number.
    Tunnel(u32),
}

/// Reason why there is no port for a packet: it enters a tunnel, or no path leads to its
/// destination. One number, so that a port or a reason is passed in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detour(u32);

impl Detour {
    /// No path leads to the destination.
    pub const NO_ROUTE: Self = Self(NONE);

    /// Returns the number of the tunnel, if the packet enters one.
    pub const fn tunnel(self) -> Option<u32> {
        match self {
            Self::NO_ROUTE => None,
            Self(number) => Some(number),
        }
    }
}

const NONE: u32 = u32::MAX;
const UNKNOWN: u32 = u32::MAX - 1;
const TUNNEL: u32 = 3 << 30;
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
            tunnels: Vec::new(),
            outer: BTreeMap::new(),
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
            self.outer.clear();
        }
    }

    /// Returns `true` if a node is a host.
    pub fn is_host(&self, node: NodeId) -> bool {
        self.topology.is_host(node)
    }

    /// Sets the entry and the exit of each tunnel, before the first packet is sent.
    pub fn set_tunnels(&mut self, tunnels: Vec<(NodeId, NodeId)>) {
        debug_assert!(self.resolved.is_empty() && tunnels.len() < GROUP as usize / 4);
        self.tunnels = tunnels;
    }

    /// Handles a value that is neither a port nor a group. Paths to a destination are computed for
    /// the first packet that is sent there.
    #[cold]
    fn detour(&mut self, way: u32, node: NodeId, header: &Header) -> Result<PortId, Detour> {
        match way {
            UNKNOWN => {
                self.resolve(header.destination.index());
                self.next_hop(node, header)
            }
            NONE => Err(Detour::NO_ROUTE),
            _ => Err(Detour(way - TUNNEL)),
        }
    }

    /// Computes the paths to a destination.
    fn resolve(&mut self, destination: usize) {
        let nodes = self.topology.nodes();
        let found = self.topology.next_hops(NodeId(destination as u16));
        let entries = self.entries(destination, &found, |_| true);
        let beyond = |exit: NodeId| exit.index() != destination;
        let nested = match self.topology.is_host(NodeId(destination as u16)) {
            true => self.entries(destination, &found, beyond),
            false => BTreeMap::new(),
        };
        for (node, ways) in found.into_iter().enumerate() {
            self.next_hop[destination * nodes + node] = match ways[..] {
                [] => NONE,
                [PortId(port)] => port,
                _ => self.group(node, ways),
            };
        }
        for (node, tunnel) in entries {
            let place = destination * nodes + node.index();
            if !beyond(self.tunnels[tunnel as usize].1) {
                let way = nested.get(&node).map_or(self.next_hop[place], |inner| TUNNEL + inner);
                self.outer.insert((destination, node.index()), way);
            }
            self.next_hop[place] = TUNNEL + tunnel;
        }
        self.resolved.push(destination);
    }

    /// Returns the entries of the tunnels to some exits through which the paths `found` to a
    /// destination lead, with the number of the tunnel. Of several tunnels at a node it is the
    /// longest.
    fn entries(
        &self,
        destination: usize,
        found: &[Vec<PortId>],
        exits: impl Fn(NodeId) -> bool,
    ) -> BTreeMap<NodeId, u32> {
        let mut entries: BTreeMap<NodeId, (u32, u32)> = BTreeMap::new();
        for (number, &(entry, exit)) in self.tunnels.iter().enumerate() {
            if exits(exit)
                && let Some(length) = self.length(entry, exit, destination, found)
            {
                let longest = entries.entry(entry).or_insert((length, number as u32));
                if longest.0 < length {
                    *longest = (length, number as u32);
                }
            }
        }
        entries.into_iter().map(|(entry, (_, number))| (entry, number)).collect()
    }

    /// Returns the number of links from the entry of a tunnel to its exit, if a path to the
    /// destination leads through both and further, or ends at an exit that is a host.
    fn length(
        &self,
        entry: NodeId,
        exit: NodeId,
        destination: usize,
        found: &[Vec<PortId>],
    ) -> Option<u32> {
        let (mut reached, mut length) = (BTreeSet::from([entry]), 0);
        let enters = exit.index() != destination || self.topology.is_host(exit);
        while enters && !reached.is_empty() {
            if reached.contains(&exit) {
                return Some(length);
            }
            let ways = reached.iter().flat_map(|node| &found[node.index()]);
            reached = ways.map(|port| self.topology.far_end(*port)).collect();
            length += 1;
        }
        None
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
            return Err(Fault::Error(IcmpError::TimeExceeded, Loss::Expired));
        }
        self.next_hop(node, header).map_err(|detour| match detour.tunnel() {
            None => Fault::Error(IcmpError::NetUnreachable, Loss::NoRoute),
            Some(number) => Fault::Tunnel(number),
        })
    }

    /// Returns the port by which the entry of a tunnel sends this outer packet.
    pub fn outer_hop(&mut self, entry: NodeId, outer: &Header) -> Result<PortId, Detour> {
        let plain = self.next_hop(entry, outer); // computes the paths if they are unknown
        match self.outer.get(&(outer.destination.index(), entry.index())) {
            None => plain,
            Some(&way) if way < GROUP => Ok(PortId(way)),
            Some(&way) if way >= TUNNEL => self.detour(way, entry, outer),
            Some(&way) => Ok(self.groups[(way & !GROUP) as usize].choose(outer)),
        }
    }

    /// Returns `true` if `node` sends all packets to a destination by one port, as far as is known.
    #[inline(always)]
    pub fn is_sole_way(&self, node: NodeId, destination: NodeId) -> bool {
        self.next_hop[destination.index() * self.topology.nodes() + node.index()] < GROUP
    }

    /// Returns the port by which `node` sends this packet.
    #[inline(always)]
    pub fn next_hop(&mut self, node: NodeId, header: &Header) -> Result<PortId, Detour> {
        let place = header.destination.index() * self.topology.nodes() + node.index();
        let way = self.next_hop[place];
        if way < GROUP {
            Ok(PortId(way))
        } else if way >= TUNNEL {
            self.detour(way, node, header)
        } else {
            Ok(self.groups[(way & !GROUP) as usize].choose(header))
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

    #[test]
    fn nodes_and_links_can_be_numbered() {
        for (nodes, links, fits) in [
            (0, 0, true),
            (65_535, 2_097_152, true),
            (65_536, 0, false),
            (65_535, 2_097_153, false),
        ] {
            assert_eq!(RouteError::of_size(nodes, links).is_ok(), fits, "{nodes} {links}");
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
                assert_eq!(routes.next_hop(NodeId(0), &to(30)), Ok(PortId(0)));
                let expected = up.then_some(PortId(0)).ok_or(Detour::NO_ROUTE);
                assert_eq!(routes.next_hop(NodeId(0), &to(45)), expected);
            }
            assert_eq!(routes.resolved, [30, 45]);
        }
    }
}
