//! Order of arrival, and duplicates (RFC 4737).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::density::Density;

/// Number of packets below the highest that are stored, to distinguish late packets from
/// duplicates.
const REMEMBERED: u64 = 1024;
/// Number of runs of packets in order that are stored, to find the extent of a late packet.
const MAX_RUNS: usize = 64;

/// Reordering and duplicates of a stream of numbered packets at its receiver.
#[derive(Clone, Debug)]
pub struct Order {
    /// One above the highest sequence number that has arrived: `NextExp` (section 3.3).
    next: u64,
    /// Packets that have arrived, without duplicates.
    arrived: u64,
    counts: OrderCounts,
    /// A bit for each of the last sequence numbers below `next`, set if it has arrived.
    seen: [u64; REMEMBERED as usize / 64],
    /// Packets that were the highest on arrival, in runs, as far back as they are stored.
    runs: VecDeque<Run>,
    /// Sequence numbers of the last arrivals.
    last: [u64; 3],
    /// Reorder density.
    pub density: Density,
}

/// Counters of a stream's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OrderCounts {
    /// Packets that arrived after one with a higher number (Type-P-Reordered, section 3.3).
    pub reordered: u64,
    /// Of these, packets after at least three with higher numbers, which TCP may take for lost
    /// (3-reordering, section 5.3).
    pub by_three: u64,
    /// Sum of their extents: the number of arrivals since the first packet with a higher number
    /// (section 4.2).
    pub extents: u64,
    /// Greatest extent.
    pub extent_max: u64,
    /// Duplicates, which count for nothing else.
    pub duplicates: u64,
}

/// Packets that were the highest on arrival, with consecutive numbers and arrivals.
#[derive(Clone, Copy, Debug)]
struct Run {
    sequence: u64,
    arrival: u64,
    length: u64,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            next: 0,
            arrived: 0,
            counts: OrderCounts::default(),
            seen: [0; REMEMBERED as usize / 64],
            runs: VecDeque::new(),
            last: [0; 3],
            density: Density::default(),
        }
    }
}

impl Order {
    /// Adds a packet; returns `true` for the first copy. A packet more than 1024 below the highest
    /// counts as a first copy, because earlier arrivals are not stored.
    #[inline]
    pub fn add(&mut self, sequence: u64) -> bool {
        if sequence >= self.next {
            self.rise_to(sequence);
        } else if self.was_seen(sequence) {
            self.counts.duplicates += 1;
            return false;
        } else {
            self.add_late(sequence);
        }
        self.density.add(sequence);
        self.last = [sequence, self.last[0], self.last[1]];
        self.arrived += 1;
        true
    }

    #[inline]
    fn rise_to(&mut self, sequence: u64) {
        if sequence - self.next >= REMEMBERED {
            self.seen.fill(0);
        } else {
            for skipped in self.next..sequence {
                self.seen[word(skipped)] &= !bit(skipped);
            }
        }
        self.seen[word(sequence)] |= bit(sequence);
        self.next = sequence + 1;
        match self.runs.back_mut() {
            Some(run)
                if run.sequence + run.length == sequence
                    && run.arrival + run.length == self.arrived =>
            {
                run.length += 1;
            }
            _ => {
                if self.runs.len() == MAX_RUNS {
                    self.runs.pop_front();
                }
                self.runs.push_back(Run { sequence, arrival: self.arrived, length: 1 });
            }
        }
    }

    fn was_seen(&mut self, sequence: u64) -> bool {
        if self.next - sequence > REMEMBERED {
            return false;
        }
        let seen = self.seen[word(sequence)] & bit(sequence) != 0;
        self.seen[word(sequence)] |= bit(sequence);
        seen
    }

    fn add_late(&mut self, sequence: u64) {
        // The first packet with a higher number was the highest on arrival. If it is no longer
        // stored, the first stored one gives an extent that is too short.
        let at = self.runs.partition_point(|run| run.sequence + run.length <= sequence + 1);
        let run = self.runs[at];
        let first = run.arrival + (sequence + 1).saturating_sub(run.sequence);
        let extent = self.arrived - first;
        let counts = &mut self.counts;
        counts.reordered += 1;
        counts.extents += extent;
        counts.extent_max = counts.extent_max.max(extent);
        let three = self.arrived >= 3 && self.last.iter().all(|&before| before > sequence);
        counts.by_three += u64::from(three);
    }

    /// Returns the counters so far.
    pub fn counts(&self) -> OrderCounts {
        self.counts
    }

    /// Returns how many of the numbers from `first` to the highest have not arrived, without those
    /// more than 1024 below the highest.
    pub fn missing_since(&self, first: u64) -> u64 {
        let first = first.max(self.next.saturating_sub(REMEMBERED));
        let missing = |&sequence: &u64| self.seen[word(sequence)] & bit(sequence) == 0;
        (first..self.next).filter(missing).count() as u64
    }

    /// Resets the greatest extent.
    pub fn reset_extent_max(&mut self) {
        self.counts.extent_max = 0;
    }
}

const fn word(sequence: u64) -> usize {
    (sequence / 64 % (REMEMBERED / 64)) as usize
}

const fn bit(sequence: u64) -> u64 {
    1 << (sequence % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(arrivals: &[u64]) -> OrderCounts {
        let mut order = Order::default();
        arrivals.iter().for_each(|&sequence| {
            order.add(sequence);
        });
        order.counts()
    }

    /// The definitions of RFC 4737, word by word, over the whole stream.
    fn defined(arrivals: &[u64]) -> OrderCounts {
        let mut counts = OrderCounts::default();
        let mut unique: Vec<u64> = Vec::new();
        for &sequence in arrivals {
            if unique.contains(&sequence) {
                counts.duplicates += 1;
                continue;
            }
            let at = unique.len();
            if let Some(first) = unique.iter().position(|&before| before > sequence) {
                counts.reordered += 1;
                counts.extents += (at - first) as u64;
                counts.extent_max = counts.extent_max.max((at - first) as u64);
                let three = at >= 3 && unique[at - 3..].iter().all(|&before| before > sequence);
                counts.by_three += u64::from(three);
            }
            unique.push(sequence);
        }
        counts
    }

    #[test]
    fn one_early_packet_makes_all_that_it_overtook_late() {
        let found = counts(&[1, 10, 2, 3, 4, 5]);
        assert_eq!((found.reordered, found.extents, found.extent_max), (4, 1 + 2 + 3 + 4, 4));
        assert_eq!(found.by_three, 0);
    }

    #[test]
    fn one_late_packet_is_one() {
        let found = counts(&[0, 2, 3, 4, 5, 1, 6]);
        let expected =
            OrderCounts { reordered: 1, by_three: 1, extents: 4, extent_max: 4, duplicates: 0 };
        assert_eq!(found, expected);
    }

    #[test]
    fn losses_and_copies_are_not_disorder() {
        let found = counts(&[0, 1, 1, 5, 9, 9, 5, 0, 3_000, 3_001, 3_000]);
        assert_eq!(found, OrderCounts { duplicates: 5, ..OrderCounts::default() });
    }

    #[test]
    fn what_nobody_remembers_is_late() {
        assert_eq!(counts(&[0, 5_000, 0]).reordered, 1);
        assert_eq!(counts(&[4, 1_028, 4]).duplicates, 0);
        assert_eq!(counts(&[4, 1_027, 4]).duplicates, 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn what_has_not_arrived_is_missing(
            arrivals in prop::collection::vec(prop_oneof![0_u64..60, 900_u64..1_100], 1..200),
            first in 0_u64..1_200,
        ) {
            let mut order = Order::default();
            let mut came = std::collections::BTreeSet::new();
            let mut next = 0;
            for sequence in arrivals {
                order.add(sequence);
                came.insert(sequence);
                next = next.max(sequence + 1);
            }
            let since = first.max(next.saturating_sub(1_024))..next;
            let missing = since.filter(|sequence| !came.contains(sequence)).count() as u64;
            prop_assert_eq!(order.missing_since(first), missing);
        }

        #[test]
        fn it_counts_what_the_rfc_defines(
            delays in prop::collection::vec(
                (prop_oneof![9 => Just(0_u64), 1 => 0_u64..30], 0_u32..20), 0..400,
            ),
        ) {
            // Some packets are lost, some duplicated, some late.
            let mut due: Vec<(u64, u64)> = Vec::new();
            for (number, (late, fate)) in delays.into_iter().enumerate() {
                let number = number as u64;
                if fate > 0 {
                    due.push((number + late, number));
                }
                if fate > 18 {
                    due.push((number + late + u64::from(fate), number));
                }
            }
            due.sort_unstable();
            let arrivals: Vec<u64> = due.into_iter().map(|(_, number)| number).collect();
            // The stored runs suffice for delays of up to 30.
            prop_assert_eq!(counts(&arrivals), defined(&arrivals));
        }
    }
}
