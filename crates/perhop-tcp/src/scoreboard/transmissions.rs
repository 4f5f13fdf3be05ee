//! Transmissions in order.

use std::collections::VecDeque;

/// Order number of each transmission, and its segment. Those that were acknowledged, lost or
/// repeated since are removed when they reach the front.
#[derive(Clone, Debug, Default)]
pub(super) struct Transmissions {
    list: VecDeque<(u32, u64)>,
    /// Number of segments that were removed from the front of the scoreboard: segments are numbered
    /// from the first one ever sent here, so that numbers stay valid.
    base: u64,
}

impl Transmissions {
    /// Adds a transmission of the segment at `index`.
    pub fn add(&mut self, order: u32, index: usize) {
        self.list.push_back((order, self.base + index as u64));
    }

    /// Records that segments were removed from the front.
    pub fn remove(&mut self, number: u32) {
        self.base += u64::from(number);
    }

    /// Returns the order number and the segment's index of the first transmission; no index if the
    /// segment was removed.
    pub fn first(&self) -> Option<(u32, Option<usize>)> {
        let (order, number) = *self.list.front()?;
        Some((order, number.checked_sub(self.base).map(|index| index as usize)))
    }

    /// Visits the transmissions in order, with the indices of their segments, until `visit` returns
    /// `None`; removes those for which it returns `true`.
    pub fn visit(&mut self, mut visit: impl FnMut(u32, Option<usize>) -> Option<bool>) {
        // Most are removed at the front.
        let mut kept = 0;
        while let Some(&(order, number)) = self.list.get(kept) {
            let index = number.checked_sub(self.base).map(|index| index as usize);
            match visit(order, index) {
                None => break,
                Some(false) => kept += 1,
                Some(true) if kept == 0 => drop(self.list.pop_front()),
                Some(true) => drop(self.list.remove(kept)),
            }
        }
    }

    /// Removes the first transmission.
    pub fn pop(&mut self) {
        self.list.pop_front();
    }

    /// Replaces all by these, which may have any order; `age` is the number of transmissions since.
    pub fn replace(&mut self, all: impl Iterator<Item = (u32, usize)>, age: impl Fn(u32) -> u32) {
        self.list.clear();
        self.list.extend(all.map(|(order, index)| (order, self.base + index as u64)));
        let orders = self.list.make_contiguous();
        orders.sort_unstable_by_key(|&(order, _)| std::cmp::Reverse(age(order)));
    }
}
