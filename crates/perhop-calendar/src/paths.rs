//! Paths through the network, the shortest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use perhop_core::distances;

use crate::calendar::Edge;

/// A path from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Numbers of its links, in order.
    pub links: Vec<u32>,
    /// Propagation delay in nanoseconds.
    pub delay_ns: u64,
}

/// Constraints of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// Nodes that the path must not touch.
    pub avoid_nodes: Vec<u32>,
    /// Links that the path must not use.
    pub avoid_links: Vec<u32>,
    /// Nodes that the path must touch, in any order.
    pub via: Vec<u32>,
    /// Greatest number of links.
    pub max_hops: Option<u32>,
    /// Greatest propagation delay, in nanoseconds.
    pub max_delay_ns: Option<u64>,
}

/// Greatest number of unfinished paths in a search, which takes about two milliseconds. A search
/// that reaches it returns the paths found so far.
const EFFORT: usize = 3_000;

/// Network, end nodes and constraints of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Graph<'a> {
    pub edges: &'a [Edge],
    /// The links that leave each node.
    pub leaving: &'a [Vec<u32>],
}

/// Number of links, and delay in nanoseconds.
type Cost = (u64, u64);

/// Distance of each node to one node, by number of links and by delay.
struct Distances {
    hops: Vec<u64>,
    delays: Vec<u64>,
}

impl Distances {
    /// Returns the distance of a node; `u64::MAX` without a path.
    fn at(&self, node: u32) -> Cost {
        (self.hops[node as usize], self.delays[node as usize])
    }
}

impl Graph<'_> {
    /// Returns up to `count` paths without a loop over links that are `open`, ordered by number of
    /// links, then delay, then the numbers of the links.
    ///
    /// This is a best-first search with the exact distance to the end as its bound (A*; Hart,
    /// Nilsson and Raphael, 1968), over whole paths, so that it finds the next best paths, too.
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
        // Lower bound of the cost from a node to the end, over nodes not yet on the path.
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

    /// Returns the path with the greatest minimum of `free`, and this minimum; of several such
    /// paths, the one with the fewest links.
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
        // A path as wide as this exists up to some width, and none beyond.
        let at_least = |width: u64| {
            self.paths((from, to), constraints, 1, |link| free[link as usize] >= width).pop()
        };
        let many = widths.partition_point(|&width| at_least(width).is_some());
        let width = *widths.get(many.checked_sub(1)?)?;
        at_least(width).map(|path| (path, width))
    }

    /// Returns for each link the first two of `hosts`, in their order, whose shortest path leads
    /// over it: the one that [`Self::paths`] finds first where all is open. Hosts forward nothing.
    pub fn host_pairs(self, hosts: &[u32]) -> Vec<Option<(u32, u32)>> {
        let nodes = self.leaving.len();
        let hosts: Vec<u32> =
            hosts.iter().copied().filter(|&host| (host as usize) < nodes).collect();
        let mut forwards = vec![true; nodes];
        hosts.iter().for_each(|&host| forwards[host as usize] = false);
        let arriving = self.arriving(&vec![true; self.edges.len()]);
        let further = |(links, delay): (u32, u64), link: u32| {
            (links + 1, delay + self.edges[link as usize].delay_ns)
        };
        let mut found = vec![None; self.edges.len()];
        for (second, &to) in hosts.iter().enumerate() {
            let passes = |node: usize| forwards[node] || node == to as usize;
            let rest = distances(nodes, to as usize, (0, 0), |node, rest| {
                let links = if passes(node) { &arriving[node][..] } else { &[] };
                let from = |link: u32| self.edges[link as usize].ends[0] as usize;
                links.iter().map(move |&link| (from(link), further(rest, link)))
            });
            let shortest = |&link: &u32| {
                let [from, next] = self.edges[link as usize].ends.map(|node| node as usize);
                let through = rest[next].map(|rest| further(rest, link));
                passes(next) && through.is_some() && through == rest[from]
            };
            let next: Vec<Option<u32>> = self
                .leaving
                .iter()
                .map(|links| links.iter().copied().filter(shortest).min())
                .collect();
            for (first, &from) in hosts.iter().enumerate() {
                let mut at = from;
                while at != to
                    && let Some(link) = next[at as usize]
                {
                    let pair = &mut found[link as usize];
                    *pair =
                        Some(pair.map_or((first, second), |before| (first, second).min(before)));
                    at = self.edges[link as usize].ends[1];
                }
            }
        }
        let named = |(first, second): (usize, usize)| (hosts[first], hosts[second]);
        found.into_iter().map(|pair| pair.map(named)).collect()
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

    /// Returns the distance of each node to `to`; `u64::MAX` without a path.
    fn distances(self, to: u32, usable: &[bool], length: impl Fn(&Edge) -> u64) -> Vec<u64> {
        let (arriving, length) = (self.arriving(usable), &length);
        let found = distances(self.leaving.len(), to as usize, 0, |node, rest| {
            let edges = arriving[node].iter().map(|&link| &self.edges[link as usize]);
            edges.map(move |edge| (edge.ends[0] as usize, rest + length(edge)))
        });
        found.into_iter().map(|distance| distance.unwrap_or(u64::MAX)).collect()
    }

    /// Returns the usable links that lead to each node.
    fn arriving(self, usable: &[bool]) -> Vec<Vec<u32>> {
        let mut arriving = vec![Vec::new(); self.leaving.len()];
        for (link, edge) in self.edges.iter().enumerate().filter(|&(link, _)| usable[link]) {
            arriving[edge.ends[1] as usize].push(link as u32);
        }
        arriving
    }
}
