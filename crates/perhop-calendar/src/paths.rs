//! Ways through the network, the shortest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::calendar::Edge;

/// A way from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Its links, in order, by their numbers.
    pub links: Vec<u32>,
    /// Propagation delay in nanoseconds.
    pub delay_ns: u64,
}

/// What a path must keep to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// Nodes that it must not touch.
    pub avoid_nodes: Vec<u32>,
    /// Links that it must not use.
    pub avoid_links: Vec<u32>,
    /// Nodes that it must touch, in any order.
    pub via: Vec<u32>,
    /// How many links it may have.
    pub max_hops: Option<u32>,
    /// How long it may take, in nanoseconds.
    pub max_delay_ns: Option<u64>,
}

/// Unfinished paths that a search may look at, in two milliseconds or so; beyond that it gives what
/// it has found.
const EFFORT: usize = 3_000;

/// What a search goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Graph<'a> {
    pub edges: &'a [Edge],
    /// The links that leave each node.
    pub leaving: &'a [Vec<u32>],
}

/// Number of links, and delay in nanoseconds.
type Cost = (u64, u64);

/// How far each node is from one, by number of links and by delay.
struct Distances {
    hops: Vec<u64>,
    delays: Vec<u64>,
}

impl Distances {
    /// `u64::MAX` without a way.
    fn at(&self, node: u32) -> Cost {
        (self.hops[node as usize], self.delays[node as usize])
    }
}

impl Graph<'_> {
    /// Up to `count` paths without a loop over links that are `open`, by number of links, then
    /// delay, then the numbers of the links.
    ///
    /// Best first with the exact distance to the end as its bound (A*, Hart, Nilsson and Raphael,
    /// 1968), but over whole paths, so that what comes second best comes second.
    pub fn paths(
        self,
        (from, to): (u32, u32),
        constraints: &Constraints,
        count: usize,
        open: impl Fn(u32) -> bool,
    ) -> Vec<Path> {
        let usable: Vec<bool> = (0..self.edges.len() as u32)
            .map(|link| {
                let Edge { ends, .. } = self.edges[link as usize];
                !constraints.avoid_links.contains(&link)
                    && !ends.iter().any(|end| constraints.avoid_nodes.contains(end))
                    && open(link)
            })
            .collect();
        let direct = self.both_distances(to, &usable);
        let via: Vec<_> = constraints
            .via
            .iter()
            .filter(|&&node| node != from && node != to && (node as usize) < self.leaving.len())
            .map(|&node| (node, self.both_distances(node, &usable), direct.at(node)))
            .collect();
        // How far it is at least from a node to the end, over what has not been touched.
        let ahead = |at: u32, links: &[u32]| {
            let missing = via.iter().filter(|(node, ..)| !self.touches(from, links, *node));
            missing.fold(direct.at(at), |(hops, delay), (_, there, rest)| {
                let (first, second) = (there.at(at), *rest);
                let (through, later) =
                    (first.0.saturating_add(second.0), first.1.saturating_add(second.1));
                (hops.max(through), delay.max(later))
            })
        };
        let mut found = Vec::new();
        let mut open_paths = BinaryHeap::new();
        if from == to || ahead(from, &[]).0 == u64::MAX {
            return found;
        }
        let start: Cost = ahead(from, &[]);
        open_paths.push(Reverse((start, Vec::new())));
        for _ in 0..EFFORT {
            let Some(Reverse((_, links))) = open_paths.pop() else { break };
            let at = links.last().map_or(from, |&link: &u32| self.edges[link as usize].ends[1]);
            let delay_ns: u64 = links.iter().map(|&link| self.edges[link as usize].delay_ns).sum();
            if at == to {
                if constraints.via.iter().all(|node| self.touches(from, &links, *node)) {
                    found.push(Path { links, delay_ns });
                    if found.len() == count {
                        break;
                    }
                }
                continue;
            }
            for &link in &self.leaving[at as usize] {
                let Edge { ends: [_, next], delay_ns: delay } = self.edges[link as usize];
                if !usable[link as usize] || self.touches(from, &links, next) {
                    continue;
                }
                let mut longer = links.clone();
                longer.push(link);
                let (hops, rest) = ahead(next, &longer);
                let bound: Cost = (
                    hops.saturating_add(longer.len() as u64),
                    rest.saturating_add(delay_ns + delay),
                );
                if hops == u64::MAX
                    || constraints.max_hops.is_some_and(|most| bound.0 > u64::from(most))
                    || constraints.max_delay_ns.is_some_and(|most| bound.1 > most)
                {
                    continue;
                }
                open_paths.push(Reverse((bound, longer)));
            }
        }
        found
    }

    /// The path whose least `free` is greatest, and of those the one with the fewest links; with
    /// that least.
    pub fn widest(
        self,
        (from, to): (u32, u32),
        constraints: &Constraints,
        free: impl Fn(u32) -> u64,
    ) -> Option<(Path, u64)> {
        let free: Vec<u64> = (0..self.edges.len() as u32).map(free).collect();
        let mut widths = free.clone();
        widths.sort_unstable();
        widths.dedup();
        // A path as wide as this exists up to some width and not beyond.
        let at_least = |width: u64| {
            self.paths((from, to), constraints, 1, |link| free[link as usize] >= width).pop()
        };
        let many = widths.partition_point(|&width| at_least(width).is_some());
        let width = *widths.get(many.checked_sub(1)?)?;
        at_least(width).map(|path| (path, width))
    }

    fn touches(self, from: u32, links: &[u32], node: u32) -> bool {
        node == from || links.iter().any(|&link| self.edges[link as usize].ends[1] == node)
    }

    fn both_distances(self, to: u32, usable: &[bool]) -> Distances {
        Distances {
            hops: self.distances(to, usable, |_| 1),
            delays: self.distances(to, usable, |edge| edge.delay_ns),
        }
    }

    /// How far each node is from `to`, by Dijkstra's algorithm; `u64::MAX` without a way.
    fn distances(self, to: u32, usable: &[bool], length: impl Fn(&Edge) -> u64) -> Vec<u64> {
        let mut arriving: Vec<Vec<u32>> = vec![Vec::new(); self.leaving.len()];
        for (link, edge) in self.edges.iter().enumerate().filter(|&(link, _)| usable[link]) {
            arriving[edge.ends[1] as usize].push(link as u32);
        }
        let mut distances = vec![u64::MAX; self.leaving.len()];
        let mut queue = BinaryHeap::from([Reverse((0, to))]);
        distances[to as usize] = 0;
        while let Some(Reverse((distance, node))) = queue.pop() {
            if distance > distances[node as usize] {
                continue;
            }
            for &link in &arriving[node as usize] {
                let edge = &self.edges[link as usize];
                let further = distance + length(edge);
                if further < distances[edge.ends[0] as usize] {
                    distances[edge.ends[0] as usize] = further;
                    queue.push(Reverse((further, edge.ends[0])));
                }
            }
        }
        distances
    }
}
