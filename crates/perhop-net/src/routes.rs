//! Where packets go: the shortest path.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use perhop_core::{Duration, NodeId};
use thiserror::Error;

use crate::{LinkSpec, NodeKind, PortId};

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

/// For each node and destination the port to send through: fewest hops, then least delay, then
/// the link that comes first. Hosts end paths and are never on them.
#[derive(Debug)]
pub(crate) struct Routes {
    nodes: usize,
    /// By destination, then node.
    next_hop: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Routes {
    pub fn new<B>(nodes: &[NodeKind], links: &[LinkSpec<B>]) -> Self {
        // The ports that lead to a node, with where they come from.
        let mut towards: Vec<Vec<(NodeId, u32, Duration)>> = vec![Vec::new(); nodes.len()];
        for (link, spec) in links.iter().enumerate() {
            let [a, b] = spec.ends;
            let port = 2 * link as u32;
            towards[b.index()].push((a, port, spec.wire.delay));
            towards[a.index()].push((b, port + 1, spec.wire.delay));
        }
        let mut next_hop = vec![NONE; nodes.len() * nodes.len()];
        // Without a node there is no table, but a chunk must have a length.
        for (destination, table) in next_hop.chunks_mut(nodes.len().max(1)).enumerate() {
            // Dijkstra's algorithm, backwards from the destination.
            let mut best = vec![(u32::MAX, Duration::MAX); nodes.len()];
            best[destination] = (0, Duration::ZERO);
            let mut queue = BinaryHeap::from([Reverse(((0, Duration::ZERO), destination))]);
            while let Some(Reverse((cost, node))) = queue.pop() {
                let ends_here = nodes[node] == NodeKind::Host && node != destination;
                if cost > best[node] || ends_here {
                    continue;
                }
                for &(from, port, delay) in &towards[node] {
                    let through = (cost.0 + 1, cost.1 + delay);
                    let (known, chosen) = (&mut best[from.index()], &mut table[from.index()]);
                    if through < *known {
                        (*known, *chosen) = (through, port);
                        queue.push(Reverse((through, from.index())));
                    } else if through == *known {
                        *chosen = port.min(*chosen);
                    }
                }
            }
        }
        Self { nodes: nodes.len(), next_hop }
    }

    /// The port on which `node` sends what goes to `destination`.
    #[inline]
    pub fn next_hop(&self, node: NodeId, destination: NodeId) -> Option<PortId> {
        let port = self.next_hop[destination.index() * self.nodes + node.index()];
        (port != NONE).then_some(PortId(port))
    }
}
