//! Reorder density (RFC 5236): the distribution of the displacement of packets.

use std::collections::VecDeque;

/// Displacement threshold: a packet with a greater displacement counts as lost.
const THRESHOLD: usize = 64;

/// Displacements of a stream's packets, without duplicates.
///
/// Arrivals are given receive indices in turn, except for those of lost packets. The index less the
/// sequence number is the displacement, which is positive for a late packet. An index counts as
/// lost if it is neither among the early packets nor among the next arrivals. Arrivals therefore
/// wait for it, `THRESHOLD` plus one of them at most. A stream in order needs none of this.
#[derive(Clone, Debug, Default)]
pub struct Density {
    /// Packets without displacement.
    in_place: u64,
    /// Next receive index.
    index: u64,
    disorder: Option<Box<Disorder>>,
}

#[derive(Clone, Debug)]
struct Disorder {
    /// Arrivals without an index.
    window: VecDeque<u64>,
    /// Packets that were early, and whose index is still to come.
    early: Vec<u64>,
    /// Number of early packets, and of late ones, by displacement from 1.
    counts: [[u64; THRESHOLD]; 2],
    /// True if the next index is known to be neither in the window nor early.
    missing: bool,
}

impl Density {
    /// Adds the first copy of a packet.
    #[inline]
    pub fn add(&mut self, sequence: u64) {
        match &mut self.disorder {
            None if sequence == self.index => {
                self.index += 1;
                self.in_place += 1;
            }
            Some(disorder) if disorder.is_empty() && sequence == self.index => {
                self.index += 1;
                self.in_place += 1;
            }
            _ => self.add_displaced(sequence),
        }
    }

    fn add_displaced(&mut self, sequence: u64) {
        if sequence < self.index {
            return; // its index counts as lost
        }
        let disorder = self.disorder.get_or_insert_with(|| {
            Box::new(Disorder {
                window: VecDeque::with_capacity(THRESHOLD + 1),
                early: Vec::with_capacity(THRESHOLD),
                counts: [[0; THRESHOLD]; 2],
                missing: false,
            })
        });
        disorder.missing &= sequence != self.index;
        disorder.window.push_back(sequence);
        if !disorder.missing || disorder.window.len() > THRESHOLD {
            self.settle(THRESHOLD);
        }
    }

    /// Assigns indices until the next one is missing and no more than `patience` arrivals wait.
    fn settle(&mut self, patience: usize) {
        let Some(disorder) = &mut self.disorder else { return };
        while let Some(&first) = disorder.window.front() {
            let index = self.index;
            let is_early = disorder.early.iter().position(|&sequence| sequence == index);
            if first == index || is_early.is_some() || disorder.window.contains(&index) {
                disorder.window.pop_front();
                let displacement = first.abs_diff(index) as usize;
                if displacement > THRESHOLD {
                    continue;
                }
                match displacement.checked_sub(1) {
                    None => self.in_place += 1,
                    Some(by) => disorder.counts[usize::from(first < index)][by] += 1,
                }
                if let Some(place) = is_early {
                    disorder.early.swap_remove(place);
                }
                if first > index {
                    disorder.early.push(first);
                }
                self.index += 1;
            } else if disorder.window.len() > patience {
                let waiting = disorder.window.iter().chain(&disorder.early);
                let least = waiting.min().copied().unwrap_or(0);
                self.index = least.max(index + 1);
            } else {
                disorder.missing = true;
                return;
            }
            disorder.missing = false;
        }
    }

    /// Returns the sums of the [`counts`](Self::counts) of several streams.
    pub fn sums<'a>(streams: impl Iterator<Item = &'a Self>) -> Vec<[u64; 2]> {
        let mut sums: Vec<[u64; 2]> = Vec::new();
        for density in streams {
            let counts = density.counts();
            sums.resize(sums.len().max(counts.len()), [0; 2]);
            for ([early, late], more) in sums.iter_mut().zip(counts) {
                *early += more[0];
                *late += more[1];
            }
        }
        sums
    }

    /// Returns the numbers of early and late packets by displacement from 0, which counts as late.
    pub fn counts(&self) -> Vec<[u64; 2]> {
        let mut ended = self.clone();
        ended.settle(0);
        let mut counts = vec![[0, ended.in_place]];
        if let Some(disorder) = ended.disorder {
            let [early, late] = disorder.counts;
            counts.extend(early.into_iter().zip(late).map(|(early, late)| [early, late]));
        }
        counts
    }
}

impl Disorder {
    fn is_empty(&self) -> bool {
        self.window.is_empty() && self.early.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Returns displacements and the number of packets with each.
    fn density(arrivals: &[u64]) -> Vec<(i64, u64)> {
        let mut density = Density::default();
        arrivals.iter().for_each(|&sequence| density.add(sequence));
        let counts = density.counts();
        let each = counts.iter().enumerate().flat_map(|(by, &[early, late])| {
            [(-(by as i64), early), (by as i64, late)].into_iter().filter(|(_, count)| *count > 0)
        });
        let mut found: Vec<_> = each.collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_worked_example() {
        // Packets 6 and 7 of eight arrive after the first: four places early; the others are two
        // places late (table 1 in doi 10.1155/2020/8465191).
        let arrivals = [1, 6, 7, 2, 3, 4, 5, 8].map(|sequence| sequence - 1);
        assert_eq!(density(&arrivals), [(-4, 2), (0, 2), (2, 4)]);
    }

    #[test]
    fn losses_are_not_disorder() {
        assert_eq!(density(&[0, 1, 5, 6, 7, 9]), [(0, 6)]);
        let after_many: Vec<u64> = (0..10).chain(500..700).collect();
        assert_eq!(density(&after_many), [(0, 210)]);
    }

    #[test]
    fn what_is_later_than_the_threshold_is_lost() {
        let late = |by: u64| -> Vec<u64> { (1..=by).chain([0]).chain(by + 1..300).collect() };
        assert_eq!(density(&late(64)), [(-1, 64), (0, 235), (64, 1)]);
        assert_eq!(density(&late(65)), [(0, 299)]);
    }

    /// The algorithm as published by the authors of RFC 5236, with the whole stream as its input:
    /// indices from 0, and every packet once.
    fn published(stream: &[u64]) -> Vec<(i64, u64)> {
        let threshold = THRESHOLD as i64;
        let mut rest = stream.iter().map(|&sequence| sequence as i64);
        let mut window: Vec<i64> = rest.by_ref().take(THRESHOLD + 1).collect();
        let (mut buffer, mut index) = (BTreeSet::new(), 0_i64);
        let mut counts = std::collections::BTreeMap::new();
        while !window.is_empty() {
            if window.contains(&index) || buffer.contains(&index) {
                let first = window.remove(0);
                let displacement = index - first;
                if displacement.abs() <= threshold {
                    *counts.entry(displacement).or_insert(0) += 1;
                    buffer.remove(&index);
                    if displacement < 0 {
                        buffer.insert(first);
                    }
                    index += 1;
                }
                window.extend(rest.find(|&new| new >= index));
            } else {
                let least = window.iter().chain(&buffer).min().copied().unwrap_or(0);
                index = least.max(index + 1);
            }
        }
        counts.into_iter().collect()
    }

    /// Packets by time of arrival: most early, some late, some never.
    fn stream() -> impl Strategy<Value = Vec<u64>> {
        let delay = prop_oneof![8 => Just(0_u64), 1 => 0_u64..20, 1 => 0_u64..200];
        let packet = (delay, prop::bool::weighted(0.9));
        prop::collection::vec(packet, 0..400).prop_map(|packets| {
            let kept = packets.iter().enumerate().filter(|(_, (_, arrives))| *arrives);
            let mut due: Vec<(u64, u64)> =
                kept.map(|(number, (late, _))| (number as u64 + late, number as u64)).collect();
            due.sort_unstable();
            due.into_iter().map(|(_, number)| number).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn it_is_the_density_of_the_published_algorithm(stream in stream()) {
            prop_assert_eq!(density(&stream), published(&stream));
        }
    }
}
