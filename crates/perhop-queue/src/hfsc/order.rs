//! Classes that compete: which is ready, and which of those is first.

use super::curve::Instant;

/// Later than any time.
const NEVER: Instant = Instant::MAX;

/// Entries at fixed places, each of which becomes ready at a time. Of those that are ready, the one
/// with the least key is first; of equal ones, the one at the first place.
///
/// A tree of winners: a change costs the logarithm of the number of places, a question that of
/// one path.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The root at 1, the children of `n` at `2 n` and `2 n + 1`, the places at the end.
    nodes: Vec<Node>,
    /// Number of entries.
    entries: usize,
    /// Time up to which entries are known to be ready.
    now: Instant,
}

/// What holds for the entries below a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    /// Least and greatest key.
    least: Instant,
    greatest: Instant,
    /// Least key of those that are ready.
    ready: Instant,
    /// Least time of those that are not.
    waiting: Instant,
    /// Least time of all.
    from: Instant,
}

const EMPTY: Node = Node { least: NEVER, greatest: 0, ready: NEVER, waiting: NEVER, from: NEVER };

impl Node {
    fn above(a: Self, b: Self) -> Self {
        Self {
            least: a.least.min(b.least),
            greatest: a.greatest.max(b.greatest),
            ready: a.ready.min(b.ready),
            waiting: a.waiting.min(b.waiting),
            from: a.from.min(b.from),
        }
    }
}

impl Order {
    /// Creates an order of so many places, all of them empty.
    pub fn new(places: usize) -> Self {
        let nodes = vec![EMPTY; 2 * places.next_power_of_two()];
        Self { nodes, entries: 0, now: 0 }
    }

    /// Sets the entry of a place, its key and the time from which it is ready, or takes it out.
    pub fn set(&mut self, place: usize, entry: Option<(Instant, Instant)>) {
        let node = match entry {
            None => EMPTY,
            Some((key, from)) => {
                let (ready, waiting) = if from <= self.now { (key, NEVER) } else { (NEVER, from) };
                Node { least: key, greatest: key, ready, waiting, from }
            }
        };
        let index = self.nodes.len() / 2 + place;
        self.entries += usize::from(node.from != NEVER);
        self.entries -= usize::from(self.nodes[index].from != NEVER);
        self.put(index, node);
    }

    /// Puts a node into the tree, and brings those above it up to date.
    fn put(&mut self, mut index: usize, mut node: Node) {
        while self.nodes[index] != node {
            self.nodes[index] = node;
            if index == 1 {
                break;
            }
            node = Node::above(node, self.nodes[index ^ 1]);
            index /= 2;
        }
    }

    /// Returns the place of the first entry that is ready at `now`, which never goes back.
    pub fn first(&mut self, now: Instant) -> Option<usize> {
        self.now = now;
        while self.root()?.waiting <= now {
            let index = self.descend(|node| node.waiting);
            let node = self.nodes[index];
            self.put(index, Node { ready: node.least, waiting: NEVER, ..node });
        }
        (self.root()?.ready != NEVER).then(|| self.place(|node| node.ready))
    }

    /// Returns the place of the entry that is ready first, and when it is.
    pub fn next(&self) -> Option<(usize, Instant)> {
        let from = self.from()?;
        Some((self.place(|node| node.from), from))
    }

    /// Returns the least time of an entry.
    pub fn from(&self) -> Option<Instant> {
        Some(self.root()?.from).filter(|from| *from != NEVER)
    }

    /// Returns the least and the greatest key.
    pub fn keys(&self) -> Option<(Instant, Instant)> {
        self.root().filter(|_| !self.is_empty()).map(|root| (root.least, root.greatest))
    }

    /// Returns `true` if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    fn root(&self) -> Option<&Node> {
        self.nodes.get(1)
    }

    fn place(&self, value: impl Fn(&Node) -> Instant) -> usize {
        self.descend(value) - self.nodes.len() / 2
    }

    /// Returns the node of the first place with the least value.
    fn descend(&self, value: impl Fn(&Node) -> Instant) -> usize {
        let mut index = 1;
        while index < self.nodes.len() / 2 {
            let (left, right) = (&self.nodes[2 * index], &self.nodes[2 * index + 1]);
            index = 2 * index + usize::from(value(right) < value(left));
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What a look at every entry would find.
        #[test]
        fn it_finds_what_a_search_finds(
            places in 1_usize..20,
            steps in prop::collection::vec(
                (0_usize..20, prop::option::of((0_u128..9, 0_u128..9))),
                1..60,
            ),
        ) {
            let mut order = Order::new(places);
            let mut entries = vec![None; places];
            for (now, (place, entry)) in steps.into_iter().enumerate() {
                let now = now as Instant / 4;
                let place = place % places;
                let entry = entry.map(|(key, after)| (key, now + after));
                order.set(place, entry);
                entries[place] = entry;
                let places = || entries.iter().enumerate();
                let all = || places().filter_map(|(place, entry)| Some((place, (*entry)?)));
                let ready = all().filter(|(_, (_, from))| *from <= now);
                let first = ready.min_by_key(|(_, (key, _))| *key);
                prop_assert_eq!(order.first(now), first.map(|(place, _)| place));
                let next = all().min_by_key(|(_, (_, from))| *from);
                prop_assert_eq!(order.next(), next.map(|(place, (_, from))| (place, from)));
                let keys = || all().map(|(_, (key, _))| key);
                prop_assert_eq!(order.keys(), keys().min().zip(keys().max()));
                prop_assert_eq!(order.is_empty(), all().next().is_none());
            }
        }
    }

    /// A tree of 1,000 classes is ten nodes deep.
    #[test]
    fn a_change_touches_one_path() {
        let mut order = Order::new(1000);
        for place in 0..1000 {
            order.set(place, Some((place as Instant, 0)));
        }
        let before = order.nodes.clone();
        order.set(0, Some((5000, 0)));
        let changed = before.iter().zip(&order.nodes).filter(|(old, new)| old != new).count();
        assert_eq!(changed, 11);
        assert_eq!(order.first(0), Some(1));
    }
}
