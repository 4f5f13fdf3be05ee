//! The paths of a network: the ports that lead to a destination.

use perhop_core::{Duration, NodeId, distances};

use crate::{NodeKind, PortId};

/// Nodes and links, as far as paths depend on them.
///
/// A path has the fewest links, then the least delay. Hosts are at the ends of paths only. Several
/// links between two nodes are one hop with the delay of the shortest.
#[derive(Clone, Debug)]
pub struct Topology {
    kinds: Vec<NodeKind>,
    links: Vec<Edge>,
    /// Each node's ports that are up.
    ports: Vec<Vec<Exit>>,
    /// For each node, the nodes with a port to it, and the delay of the shortest link from there.
    before: Vec<Vec<(NodeId, Duration)>>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    ends: [NodeId; 2],
    /// Delay from the first end, and back.
    delays: [Duration; 2],
    up: bool,
}

/// A port of a node.
#[derive(Clone, Copy, Debug)]
struct Exit {
    to: NodeId,
    /// Delay of the shortest link to that node.
    delay: Duration,
    port: PortId,
}

/// Number of links, then delay.
type Distance = (u32, Duration);

impl Topology {
    /// Creates a network of nodes and links, all of which are up. A link has a delay from its first
    /// end, and one back.
    ///
    /// # Panics
    /// If a link ends at a node that does not exist.
    pub fn new(
        nodes: &[NodeKind],
        links: impl IntoIterator<Item = ([NodeId; 2], [Duration; 2])>,
    ) -> Self {
        let edge = |(ends, delays)| Edge { ends, delays, up: true };
        let mut topology = Self {
            kinds: nodes.to_vec(),
            links: links.into_iter().map(edge).collect(),
            ports: vec![Vec::new(); nodes.len()],
            before: vec![Vec::new(); nodes.len()],
        };
        topology.connect();
        topology
    }

    /// Returns `true` if a node is a host: paths end there, and none leads through it.
    pub(crate) fn is_host(&self, node: NodeId) -> bool {
        self.kinds[node.index()] == NodeKind::Host
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.kinds.len()
    }

    /// Sets a link up or down. Returns `true` if that is a change.
    ///
    /// # Panics
    /// If the link does not exist.
    pub fn set_up(&mut self, link: usize, up: bool) -> bool {
        let changed = std::mem::replace(&mut self.links[link].up, up) != up;
        if changed {
            self.connect();
        }
        changed
    }

    fn connect(&mut self) {
        self.ports.iter_mut().for_each(Vec::clear);
        for (link, edge) in self.links.iter().enumerate().filter(|(_, edge)| edge.up) {
            let [a, b] = edge.ends;
            for (side, from, to) in [(0, a, b), (1, b, a)] {
                let port = PortId((2 * link + side) as u32);
                let exit = Exit { to, delay: edge.delays[side], port };
                self.ports[from.index()].push(exit);
            }
        }
        for exits in &mut self.ports {
            exits.sort_unstable_by_key(|exit| (exit.to, exit.delay, exit.port));
            for index in 1..exits.len() {
                if exits[index].to == exits[index - 1].to {
                    exits[index].delay = exits[index - 1].delay;
                }
            }
        }
        self.before.iter_mut().for_each(Vec::clear);
        for (node, exits) in self.ports.iter().enumerate() {
            for exit in exits {
                self.before[exit.to.index()].push((NodeId(node as u16), exit.delay));
            }
        }
    }

    /// Returns the node to which a port leads.
    ///
    /// # Panics
    /// If the port does not exist.
    pub fn far_end(&self, PortId(port): PortId) -> NodeId {
        self.links[port as usize / 2].ends[1 - port as usize % 2]
    }

    /// Returns, for each node, the ports on its shortest paths to `destination`, by number. A host
    /// without a path has the port to the router on its first link, as hosts have a default
    /// gateway.
    ///
    /// # Panics
    /// If the destination does not exist.
    pub fn next_hops(&self, destination: NodeId) -> Vec<Vec<PortId>> {
        let distances = self.distances(destination);
        (0..self.nodes()).map(|node| self.ports_towards(node, destination, &distances)).collect()
    }

    fn ports_towards(
        &self,
        node: usize,
        destination: NodeId,
        distances: &[Option<Distance>],
    ) -> Vec<PortId> {
        if node == destination.index() {
            return Vec::new();
        }
        let is_router = |exit: &&Exit| self.kinds[exit.to.index()] == NodeKind::Router;
        let leads = |exit: &&Exit| {
            let through = distances[exit.to.index()].map(|rest| further(rest, exit.delay));
            (is_router(exit) || exit.to == destination)
                && through.is_some()
                && through == distances[node]
        };
        let exits = &self.ports[node];
        let mut ports: Vec<PortId> = exits.iter().filter(leads).map(|exit| exit.port).collect();
        ports.sort_unstable();
        if ports.is_empty() && self.kinds[node] == NodeKind::Host {
            ports.extend(exits.iter().filter(is_router).map(|exit| exit.port).min());
        }
        ports
    }

    fn distances(&self, destination: NodeId) -> Vec<Option<Distance>> {
        distances(self.nodes(), destination.index(), (0, Duration::ZERO), |node, rest| {
            let ends_here = self.kinds[node] == NodeKind::Host && node != destination.index();
            let before = if ends_here { &[] } else { &self.before[node][..] };
            before.iter().map(move |&(from, delay)| (from.index(), further(rest, delay)))
        })
    }
}

/// Returns the distance over one more link.
fn further((links, delay): Distance, more: Duration) -> Distance {
    (links + 1, delay + more)
}
