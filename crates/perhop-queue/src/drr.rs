//! Deficit round robin.
//!
//! M. Shreedhar and G. Varghese, *Efficient Fair Queuing Using Deficit Round Robin*, ToN 4(3),
//! 1996. Classes take turns; each turn adds the class's quantum to its deficit, and the class sends
//! while the deficit covers its head packet. The cost of a packet does not depend on the number of
//! classes if every quantum holds a packet of maximum length.

use std::collections::VecDeque;

use perhop_core::Bytes;

use crate::Weight;

/// Quantum of the class with the least weight, in bytes: an Ethernet payload, so that a packet
/// without layer 2 is sent in every turn.
const LEAST_QUANTUM: u128 = 1500;

#[derive(Debug)]
struct Share {
    quantum: u64,
    /// Bytes that the class may still send in its turn; negative after a packet that was longer
    /// than announced.
    deficit: i64,
    head: Bytes,
}

/// Selects the next of several backlogged classes. Packets stay with the caller.
#[derive(Debug)]
pub struct Drr {
    shares: Vec<Share>,
    /// Backlogged classes; the first has its turn.
    turns: VecDeque<usize>,
}

impl Drr {
    /// Creates a scheduler for classes with these weights, none of them backlogged. Quanta are in
    /// proportion to the weights, rounded down to a byte; the least is 1500 bytes.
    pub fn new(weights: &[Weight]) -> Self {
        let least = weights.iter().map(|weight| weight.get()).min().unwrap_or(1);
        Self::of(weights, |weight| LEAST_QUANTUM * u128::from(weight) / u128::from(least))
    }

    /// Creates a scheduler for classes with these quanta in bytes, none of them backlogged. Linux's
    /// `sch_ets` and `sch_drr` send the same packets in the same order.
    ///
    /// A quantum below the length of a packet makes the class wait for several turns.
    pub fn with_quanta(quanta: &[Weight]) -> Self {
        Self::of(quanta, u128::from)
    }

    fn of(weights: &[Weight], quantum: impl Fn(u64) -> u128) -> Self {
        let share = |weight: &Weight| {
            // More than a run can send, but the deficit must not overflow.
            let quantum = quantum(weight.get()).min(1 << 48) as u64;
            Share { quantum, deficit: 0, head: Bytes::ZERO }
        };
        Self {
            shares: weights.iter().map(share).collect(),
            turns: VecDeque::with_capacity(weights.len()),
        }
    }

    /// Returns the quantum of a class: the bytes that a turn adds.
    pub fn quantum(&self, class: usize) -> Bytes {
        Bytes::new(self.shares[class].quantum)
    }

    /// Adds a class to the backlogged ones; its head packet has the size `head`.
    pub fn activate(&mut self, class: usize, head: Bytes) {
        // The first turn begins with one quantum.
        let share = &mut self.shares[class];
        share.head = head;
        if self.turns.is_empty() {
            share.deficit += share.quantum as i64;
        }
        self.turns.push_back(class);
    }

    /// Returns the class that goes next, or `None` if none is backlogged.
    pub fn select(&mut self) -> Option<usize> {
        loop {
            let &class = self.turns.front()?;
            let share = &self.shares[class];
            if share.deficit >= share.head.get() as i64 {
                return Some(class);
            }
            self.turns.rotate_left(1);
            self.begin_turn();
        }
    }

    /// Charges `sent` bytes to the class that [`select`](Self::select) returned. `head` is the size
    /// of its next head packet, if it has one.
    pub fn served(&mut self, class: usize, sent: Bytes, head: Option<Bytes>) {
        let share = &mut self.shares[class];
        share.deficit -= sent.get() as i64;
        match head {
            Some(head) => share.head = head,
            None => self.withdraw(class),
        }
    }

    /// Removes the class that [`select`](Self::select) returned from the backlogged ones, for now.
    pub fn withdraw(&mut self, class: usize) {
        debug_assert_eq!(self.turns.front(), Some(&class));
        // An empty class keeps no credit, but its debt stays.
        self.shares[class].deficit = self.shares[class].deficit.min(0);
        self.turns.pop_front();
        self.begin_turn();
    }

    fn begin_turn(&mut self) {
        if let Some(&class) = self.turns.front() {
            let share = &mut self.shares[class];
            share.deficit += share.quantum as i64;
        }
    }
}

#[cfg(test)]
mod tests;
