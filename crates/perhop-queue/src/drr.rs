//! Deficit round robin.
//!
//! M. Shreedhar and G. Varghese, *Efficient Fair Queuing Using Deficit Round Robin*, ToN 4(3),
//! 1996. Classes take turns; each turn adds the class's quantum to its deficit, and the class sends
//! while the deficit covers its head packet. The cost of a packet does not depend on the number of
//! classes if every quantum holds a packet of maximum length.

use std::collections::VecDeque;

use perhop_core::Bytes;

use crate::Weight;

/// Quantum of the class with the least weight, in bytes: an Ethernet payload, so that a packet is
/// sent in every turn.
const LEAST_QUANTUM: u64 = 1500;

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
        let share = |weight: &Weight| {
            let quantum = u128::from(LEAST_QUANTUM) * u128::from(weight.get()) / u128::from(least);
            // More than a run can send, but the deficit must not overflow.
            Share { quantum: quantum.min(1 << 48) as u64, deficit: 0, head: Bytes::ZERO }
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The paper's theorem 2: while two classes are backlogged, the amounts that they have
        /// sent, each in units of its weight, differ by at most `Q + 2 · max / f` over any
        /// interval. Q is the least quantum and f the weight relative to the least, of which the
        /// smaller is 1.
        #[test]
        fn the_fairness_bound_holds(
            weights in prop::collection::vec(1_u64..50, 2..6),
            sizes in prop::collection::vec(40_u64..1501, 400),
        ) {
            let weight: Vec<Weight> = weights.iter().map(|&w| Weight::new(w).unwrap()).collect();
            let mut drr = Drr::new(&weight);
            let least = *weights.iter().min().unwrap() as f64;
            let share = |class: usize| weights[class] as f64 / least;
            let mut sizes = sizes.into_iter().cycle();
            let mut heads: Vec<u64> = weights.iter().map(|_| sizes.next().unwrap()).collect();
            for (class, head) in heads.iter().enumerate() {
                drr.activate(class, Bytes::new(*head));
            }
            let mut sent = vec![0.0; weights.len()];
            // Over any interval: the highest and lowest difference between two classes.
            let mut extremes = vec![(0.0_f64, 0.0_f64); weights.len() * weights.len()];
            for _ in 0..3_000 {
                let class = drr.select().unwrap();
                sent[class] += heads[class] as f64;
                let size = std::mem::replace(&mut heads[class], sizes.next().unwrap());
                drr.served(class, Bytes::new(size), Some(Bytes::new(heads[class])));
                for a in 0..weights.len() {
                    for b in 0..a {
                        let gap = sent[a] / share(a) - sent[b] / share(b);
                        let (low, high) = &mut extremes[a * weights.len() + b];
                        (*low, *high) = (low.min(gap), high.max(gap));
                        let bound =
                            1500.0 + 1500.0 / share(a) + 1500.0 / share(b) + 3_000.0 * 1e-9;
                        // Quanta are whole bytes: a rounding of less than 1 in 1500 per turn.
                        let rounding = (sent[a] / share(a)).max(sent[b] / share(b)) / 1500.0;
                        let gap = *high - *low;
                        prop_assert!(gap <= bound + rounding, "{gap} > {bound}");
                    }
                }
            }
        }
    }
}
