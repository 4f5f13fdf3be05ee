//! Shortest distances in a graph.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns the distance from each of `nodes` nodes to `to`, by Dijkstra's algorithm on the reversed
/// graph; `None` for a node without a path. Distances are compared by `Ord`, so that tuples compare
/// lexicographically.
///
/// # Arguments
/// * `zero`: the distance of `to` itself.
/// * `before`: for a node and its distance, returns the nodes with an edge to it, each with its
///   distance through that edge, which must not be less.
pub fn distances<D, I>(
    nodes: usize,
    to: usize,
    zero: D,
    before: impl Fn(usize, D) -> I,
) -> Vec<Option<D>>
where
    D: Copy + Ord,
    I: IntoIterator<Item = (usize, D)>,
{
    let mut best = vec![None; nodes];
    best[to] = Some(zero);
    let mut queue = BinaryHeap::from([Reverse((zero, to))]);
    while let Some(Reverse((distance, node))) = queue.pop() {
        if best[node].is_some_and(|best| distance > best) {
            continue;
        }
        for (from, through) in before(node, distance) {
            if best[from].is_none_or(|best| through < best) {
                best[from] = Some(through);
                queue.push(Reverse((through, from)));
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Bellman and Ford's algorithm, which relaxes every edge once per node, finds the same
        /// distances.
        #[test]
        fn distances_are_those_of_bellman_and_ford(
            edges in prop::collection::vec((0_usize..8, 0_usize..8, (0_u32..3, 0_u64..5)), 0..24),
        ) {
            let add = |one: (u32, u64), more: (u32, u64)| (one.0 + more.0, one.1 + more.1);
            let mut expected = [None; 8];
            expected[0] = Some((0, 0));
            for _ in 0..8 {
                for &(from, to, length) in &edges {
                    let through = expected[to].map(|rest| add(rest, length));
                    expected[from] = [expected[from], through].into_iter().flatten().min();
                }
            }
            let found = distances(8, 0, (0, 0), |node, rest| {
                let into = edges.iter().filter(move |edge| edge.1 == node);
                into.map(move |&(from, _, length)| (from, add(rest, length)))
            });
            prop_assert_eq!(found, expected);
        }
    }
}
