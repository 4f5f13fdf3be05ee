//! A queue that frees memory that it no longer needs.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// Capacity that is never freed, in items.
const LEAST: usize = 1024;

/// A [`VecDeque`] that halves its capacity after as many removals as it has room for, if it was
/// never more than a quarter full in that time. Memory that a burst took is freed, while a load
/// that varies does not cause repeated allocation. Items leave by [`pop_front`](Self::pop_front).
#[derive(Clone, Debug)]
pub struct Elastic<T> {
    items: VecDeque<T>,
    /// Number of items removed since the last check, and the greatest length since then.
    left: u32,
    most: u32,
}

impl<T> Default for Elastic<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Elastic<T> {
    /// Creates an empty queue.
    pub const fn new() -> Self {
        Self { items: VecDeque::new(), left: 0, most: 0 }
    }

    /// Adds an item at the end.
    #[inline]
    pub fn push_back(&mut self, item: T) {
        self.items.push_back(item);
        self.most = self.most.max(self.items.len() as u32);
    }

    /// Takes the first item out.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let item = self.items.pop_front();
        self.left += 1;
        if self.left as usize >= self.items.capacity() {
            self.judge();
        }
        item
    }

    #[cold]
    fn judge(&mut self) {
        let room = self.items.capacity();
        if room > LEAST && self.most as usize <= room / 4 {
            self.items.shrink_to(room / 2);
        }
        (self.left, self.most) = (0, self.items.len() as u32);
    }
}

impl<T> Deref for Elastic<T> {
    type Target = VecDeque<T>;

    fn deref(&self) -> &VecDeque<T> {
        &self.items
    }
}

impl<T> DerefMut for Elastic<T> {
    fn deref_mut(&mut self) -> &mut VecDeque<T> {
        &mut self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes items through a queue that then holds `length`, and returns how often its capacity
    /// changed.
    fn pass(queue: &mut Elastic<u32>, length: usize, items: u32) -> u32 {
        let mut changes = 0;
        for item in 0..items {
            let room = queue.capacity();
            queue.push_back(item);
            while queue.len() > length {
                queue.pop_front();
            }
            changes += u32::from(queue.capacity() != room);
        }
        changes
    }

    #[test]
    fn what_a_burst_took_is_given_back() {
        let mut queue = Elastic::new();
        pass(&mut queue, 10_000, 10_000);
        assert!(queue.capacity() >= 10_000);
        pass(&mut queue, 100, 100_000);
        assert!(queue.capacity() <= LEAST, "{}", queue.capacity());
        assert!(queue.iter().copied().eq(99_900..100_000));
    }

    #[test]
    fn a_load_that_comes_and_goes_allocates_nothing() {
        let mut queue = Elastic::new();
        for _ in 0..3 {
            pass(&mut queue, 10_000, 100_000);
        }
        for _ in 0..100 {
            assert_eq!(pass(&mut queue, 10_000, 10_000), 0);
            while queue.pop_front().is_some() {}
        }
    }
}
