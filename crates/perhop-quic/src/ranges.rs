//! Sets of numbers as ranges.

/// A set of numbers as sorted, disjoint half-open ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// Adds the numbers from `start` to the one before `end`. Returns how many of them are new.
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        match self.0.last_mut() {
            // The usual case: the next numbers.
            Some(last) if last.1 == start => {
                last.1 = end;
                return end - start;
            }
            Some(last) if last.1 > start => {}
            _ => {
                self.0.push((start, end));
                return end - start;
            }
        }
        let first = self.0.partition_point(|range| range.1 < start);
        let after = self.0.partition_point(|range| range.0 <= end);
        if first == after {
            self.0.insert(first, (start, end));
            return end - start;
        }
        let touched = &self.0[first..after];
        let known: u64 =
            touched.iter().map(|range| range.1.min(end).saturating_sub(range.0.max(start))).sum();
        let joined = (start.min(touched[0].0), end.max(touched[touched.len() - 1].1));
        self.0[first] = joined;
        self.0.drain(first + 1..after);
        end - start - known
    }

    /// Returns `true` if the set contains the number.
    pub fn contains(&self, number: u64) -> bool {
        let place = self.0.partition_point(|range| range.1 <= number);
        self.0.get(place).is_some_and(|range| range.0 <= number)
    }

    /// Returns the least number from `from` on that the set does not contain.
    pub fn first_missing(&self, from: u64) -> u64 {
        let place = self.0.partition_point(|range| range.1 <= from);
        match self.0.get(place) {
            Some(&(start, end)) if start <= from => end,
            _ => from,
        }
    }

    /// Removes all numbers below `floor`.
    pub fn remove_below(&mut self, floor: u64) {
        let gone = self.0.partition_point(|range| range.1 <= floor);
        self.0.drain(..gone);
        if let Some(first) = self.0.first_mut() {
            first.0 = first.0.max(floor);
        }
    }

    /// Removes the least ranges until at most `most` are left. Returns the least number that is
    /// left then, if ranges were removed.
    pub fn limit(&mut self, most: usize) -> Option<u64> {
        let excess = self.0.len().saturating_sub(most);
        self.0.drain(..excess);
        (excess > 0).then(|| self.0[0].0)
    }

    /// Returns the first part of the numbers from `start` to the one before `end` that the set does
    /// not contain.
    pub fn first_gap(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let from = self.first_missing(start);
        if from >= end {
            return None;
        }
        let place = self.0.partition_point(|range| range.1 <= from);
        let until = self.0.get(place).map_or(end, |range| range.0.min(end));
        Some((from, until))
    }

    /// Returns the largest number; none if the set is empty.
    pub fn largest(&self) -> Option<u64> {
        self.0.last().map(|range| range.1 - 1)
    }

    /// Returns the ranges in rising order.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The ranges are the set that a set of numbers would be.
        #[test]
        fn ranges_are_a_set(
            added in proptest::collection::vec((0_u64..60, 0_u64..9), 0..40),
            floor in 0_u64..60,
        ) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (start, length) in added {
                let new = (start..start + length).filter(|&number| set.insert(number)).count();
                prop_assert_eq!(ranges.insert(start, start + length), new as u64);
            }
            ranges.remove_below(floor);
            set.retain(|&number| number >= floor);
            let listed = ranges.as_slice();
            prop_assert!(listed.windows(2).all(|pair| pair[0].1 < pair[1].0));
            let numbers: Vec<u64> = listed.iter().flat_map(|&(start, end)| start..end).collect();
            prop_assert_eq!(&numbers, &set.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(ranges.largest(), set.last().copied());
            for number in 0..80 {
                prop_assert_eq!(ranges.contains(number), set.contains(&number));
                let missing = (number..).find(|number| !set.contains(number)).unwrap();
                prop_assert_eq!(ranges.first_missing(number), missing);
                let end = number + 7;
                let gap = ranges.first_gap(number, end);
                let from = (missing < end).then_some(missing);
                prop_assert_eq!(gap.map(|gap| gap.0), from);
                if let Some((from, until)) = gap {
                    prop_assert!((from..until).all(|number| !set.contains(&number)));
                    prop_assert!(until == end || set.contains(&until));
                }
            }
        }
    }
}
