//! A heap.

/// A min-heap; the order of equal entries is not defined. A node has four children: the heap is
/// half as deep as with two, and children are adjacent in memory.
#[derive(Clone, Debug)]
pub(crate) struct Heap<E> {
    entries: Vec<E>,
}

impl<E: Copy + Ord> Heap<E> {
    /// Returns an empty heap with room for so many entries.
    pub fn with_capacity(entries: usize) -> Self {
        Self { entries: Vec::with_capacity(entries) }
    }

    /// Returns `true` if the heap is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the least entry.
    #[inline]
    pub fn first(&self) -> Option<E> {
        self.entries.first().copied()
    }

    /// Adds an entry.
    #[inline]
    pub fn push(&mut self, entry: E) {
        self.entries.push(entry);
        let mut hole = self.entries.len() - 1;
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.entries[parent] <= entry {
                break;
            }
            self.entries[hole] = self.entries[parent];
            hole = parent;
        }
        self.entries[hole] = entry;
    }

    /// Removes the least entry.
    #[inline]
    pub fn pop(&mut self) -> Option<E> {
        let last = self.entries.pop()?;
        let Some(first) = self.first() else { return Some(last) };
        self.replace_first(last);
        Some(first)
    }

    /// Replaces the least entry.
    ///
    /// # Panics
    /// If the heap is empty.
    #[inline]
    pub fn replace_first(&mut self, entry: E) {
        let entries = &mut self.entries[..];
        let mut hole = 0;
        loop {
            let child = 4 * hole + 1;
            let least = match entries.get(child..child + 4) {
                Some(children) => {
                    let low = usize::from(children[1] < children[0]);
                    let high = 2 + usize::from(children[3] < children[2]);
                    child + if children[high] < children[low] { high } else { low }
                }
                None => {
                    let rest = child.min(entries.len())..entries.len();
                    match rest.min_by_key(|&index| entries[index]) {
                        Some(index) => index,
                        None => break,
                    }
                }
            };
            if entry <= entries[least] {
                break;
            }
            entries[hole] = entries[least];
            hole = least;
        }
        entries[hole] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    proptest! {
        #[test]
        fn it_orders_as_the_standard_heap_does(
            steps in prop::collection::vec((0_u8..4, 0_u64..20), 1..300),
        ) {
            let mut heap = Heap::with_capacity(0);
            let mut expected = BinaryHeap::new();
            for (step, entry) in steps {
                match step {
                    0 => prop_assert_eq!(heap.pop(), expected.pop().map(|Reverse(entry)| entry)),
                    1 if !heap.is_empty() => {
                        heap.replace_first(entry);
                        expected.pop();
                        expected.push(Reverse(entry));
                    }
                    _ => {
                        heap.push(entry);
                        expected.push(Reverse(entry));
                    }
                }
                prop_assert_eq!(heap.first(), expected.peek().map(|Reverse(entry)| *entry));
            }
        }
    }
}
