//! Groups of nodes that stay together, and their distribution over parts.

use std::collections::BTreeMap;

use perhop_core::NodeId;

/// Groups of nodes.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    /// A node of the same group for each node: itself for one node of each group.
    up: Vec<usize>,
}

/// Greatest number of groups from which the growth of parts is tried.
const BEGINNINGS: usize = 8;
/// Greatest number of improvements.
const PASSES: usize = 8;

impl Groups {
    /// As many groups as nodes.
    pub fn new(nodes: usize) -> Self {
        Self { up: (0..nodes).collect() }
    }

    fn root(&self, mut node: usize) -> usize {
        while self.up[node] != node {
            node = self.up[node];
        }
        node
    }

    /// Makes one group of those of two nodes.
    pub fn join(&mut self, nodes: [NodeId; 2]) {
        let [a, b] = nodes.map(|node| self.root(usize::from(node.0)));
        let (low, high) = (a.min(b), a.max(b));
        self.up[high] = low;
        // Short ways for later.
        for node in nodes {
            self.up[usize::from(node.0)] = low;
        }
    }

    /// Returns `true` if two nodes are in different groups.
    pub fn are_apart(&self, nodes: [NodeId; 2]) -> bool {
        let [a, b] = nodes.map(|node| self.root(usize::from(node.0)));
        a != b
    }

    /// Distributes the groups over at most `parts` parts. Returns the load of the busiest one and
    /// the part of each node; `None` if there is one group only.
    pub fn divide(
        &self,
        loads: &[f64],
        links: impl Iterator<Item = ([NodeId; 2], f64)>,
        parts: usize,
    ) -> Option<(f64, Vec<u16>)> {
        let mut numbers = BTreeMap::new();
        let group: Vec<usize> = (0..self.up.len())
            .map(|node| {
                let next = numbers.len();
                *numbers.entry(self.root(node)).or_insert(next)
            })
            .collect();
        let parts = parts.min(numbers.len());
        if parts < 2 {
            return None;
        }
        let mut graph = Graph {
            loads: vec![0.0; numbers.len()],
            links: vec![BTreeMap::new(); numbers.len()],
            parts,
        };
        for (node, load) in loads.iter().enumerate() {
            graph.loads[group[node]] += load;
        }
        for (nodes, load) in links {
            let [a, b] = nodes.map(|node| group[usize::from(node.0)]);
            if a != b {
                *graph.links[a].entry(b).or_default() += load;
                *graph.links[b].entry(a).or_default() += load;
            }
        }
        let step = graph.loads.len().div_ceil(BEGINNINGS);
        let candidates = (0..graph.loads.len()).step_by(step).map(|first| {
            let mut owners = graph.grow(first);
            let load = graph.improve(&mut owners);
            (load, owners)
        });
        let (load, owners) = candidates.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        Some((load, group.into_iter().map(|group| owners[group] as u16).collect()))
    }
}

/// Groups, with their loads and those of the links between them.
struct Graph {
    loads: Vec<f64>,
    links: Vec<BTreeMap<usize, f64>>,
    parts: usize,
}

impl Graph {
    /// Grows parts one after the other, the first from the group `first`, until each has its share
    /// of the load.
    fn grow(&self, first: usize) -> Vec<usize> {
        let groups = self.loads.len();
        let last = self.parts - 1;
        let mut owners = vec![last; groups];
        let mut free: Vec<bool> = vec![true; groups];
        let (mut left, mut load_left) = (groups, self.loads.iter().sum::<f64>());
        let mut begin = first;
        for part in 0..last {
            let share = load_left / (self.parts - part) as f64;
            // Load between the part and each free group.
            let mut near: BTreeMap<usize, f64> = BTreeMap::new();
            let (mut load, mut next) = (0.0, Some(begin));
            while let Some(group) = next {
                owners[group] = part;
                free[group] = false;
                near.remove(&group);
                left -= 1;
                load += self.loads[group];
                for (&other, &shared) in self.links[group].iter().filter(|(other, _)| free[**other])
                {
                    *near.entry(other).or_default() += shared;
                }
                // Each later part needs a group, too.
                let goes_on = load < share && left > last - part;
                let nearest = near.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
                next = nearest
                    .map(|(group, _)| *group)
                    .or_else(|| (0..groups).find(|&group| free[group]))
                    .filter(|&group| goes_on && load + self.loads[group] / 2.0 <= share);
            }
            load_left -= load;
            // A neighbour, so that what is left stays together.
            let beside = near.keys().copied().find(|&group| free[group]);
            let Some(found) = beside.or_else(|| (0..groups).find(|&group| free[group])) else {
                break;
            };
            begin = found;
        }
        owners
    }

    /// Moves groups between parts while that makes the busiest part less busy. Returns its load: a
    /// packet between two parts costs each as much as a link.
    fn improve(&self, owners: &mut [usize]) -> f64 {
        let mut loads = vec![0.0; self.parts];
        let mut sizes = vec![0; self.parts];
        for (group, &owner) in owners.iter().enumerate() {
            loads[owner] += self.loads[group];
            sizes[owner] += 1;
            let foreign = self.links[group].iter().filter(|(other, _)| owners[**other] != owner);
            loads[owner] += foreign.map(|(_, shared)| shared).sum::<f64>();
        }
        let most = |loads: &[f64]| loads.iter().copied().fold(0.0, f64::max);
        for _ in 0..PASSES {
            let mut better = false;
            for group in 0..owners.len() {
                let from = owners[group];
                for to in (0..self.parts).filter(|&to| to != from) {
                    if sizes[from] == 1 {
                        break;
                    }
                    let mut after = loads.clone();
                    after[from] -= self.loads[group];
                    after[to] += self.loads[group];
                    for (&other, shared) in &self.links[group] {
                        match owners[other] {
                            owner if owner == from => {
                                after[from] += shared;
                                after[to] += shared;
                            }
                            owner if owner == to => {
                                after[from] -= shared;
                                after[to] -= shared;
                            }
                            _ => {
                                after[from] -= shared;
                                after[to] += shared;
                            }
                        }
                    }
                    if most(&after) < most(&loads) * (1.0 - 1e-9) {
                        (loads, better) = (after, true);
                        owners[group] = to;
                        sizes[from] -= 1;
                        sizes[to] += 1;
                        break;
                    }
                }
            }
            if !better {
                break;
            }
        }
        most(&loads)
    }
}
