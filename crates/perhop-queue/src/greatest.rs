//! The greatest of many keys.

/// The greatest of a fixed number of keys, of which one changes at a time: a tournament. A change
/// costs as many comparisons as the number of keys has bits, at most.
#[derive(Clone, Debug)]
pub(crate) struct Greatest<K> {
    /// Nodes of a binary tree: the greatest key from 1 on, the keys themselves in the upper half.
    /// The children of a node have twice its index.
    nodes: Vec<K>,
}

impl<K: Copy + Ord> Greatest<K> {
    /// Creates the tournament of these keys.
    ///
    /// # Panics
    /// Without a key.
    pub fn new(keys: impl ExactSizeIterator<Item = K> + Clone) -> Self {
        let number = keys.len();
        let mut nodes: Vec<K> = keys.clone().chain(keys).collect();
        for node in (1..number).rev() {
            nodes[node] = nodes[2 * node].max(nodes[2 * node + 1]);
        }
        Self { nodes }
    }

    /// Changes a key.
    #[inline]
    pub fn set(&mut self, index: usize, key: K) {
        let mut node = self.nodes.len() / 2 + index;
        self.nodes[node] = key;
        while node > 1 {
            let greatest = self.nodes[node].max(self.nodes[node ^ 1]);
            node /= 2;
            if self.nodes[node] == greatest {
                return;
            }
            self.nodes[node] = greatest;
        }
    }

    /// Returns the greatest key.
    #[inline]
    pub fn first(&self) -> K {
        self.nodes[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_greatest_is_found(
            mut keys in prop::collection::vec(0_u8..20, 1..70),
            changes in prop::collection::vec((any::<usize>(), 0_u8..20), 0..200),
        ) {
            let mut greatest = Greatest::new(keys.iter().copied());
            prop_assert_eq!(Some(greatest.first()), keys.iter().copied().max());
            for (index, key) in changes {
                let index = index % keys.len();
                keys[index] = key;
                greatest.set(index, key);
                prop_assert_eq!(Some(greatest.first()), keys.iter().copied().max());
            }
        }
    }
}
