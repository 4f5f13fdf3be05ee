//! A histogram with logarithmic bins.

use perhop_core::Duration;
use serde::{Deserialize, Serialize};

/// Binary logarithm of the bins per octave; a bin is about 1% wide, and no wider than 1/64.
const PER_OCTAVE_BITS: u32 = 6;

/// Counts durations in bins that double in width with every octave. Only the bins between the
/// lowest and the highest non-empty one are in memory, so that a flow's round-trip times take a few
/// hundred bytes.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(try_from = "Bins")]
pub struct Histogram {
    first: usize,
    counts: Vec<u64>,
}

/// A histogram from another host, not yet checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bins {
    first: usize,
    counts: Vec<u64>,
}

impl TryFrom<Bins> for Histogram {
    type Error = String;

    fn try_from(Bins { first, counts }: Bins) -> Result<Self, String> {
        match first.checked_add(counts.len()) {
            Some(end) if end <= BINS => Ok(Self { first, counts }),
            _ => Err(format!("a histogram has {BINS} bins: {} from {first} on", counts.len())),
        }
    }
}

impl Histogram {
    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.is_empty() {
            self.clone_from(other);
            return;
        }
        let Some(end) = other.counts.len().checked_sub(1).map(|last| other.first + last) else {
            return;
        };
        self.room_for(other.first);
        self.room_for(end);
        let here = &mut self.counts[other.first - self.first..];
        for (sum, more) in here.iter_mut().zip(&other.counts) {
            *sum = sum.saturating_add(*more);
        }
    }

    /// Widens the bins that are kept to one, and returns its place among them.
    #[inline]
    fn room_for(&mut self, bin: usize) -> usize {
        if self.counts.is_empty() {
            self.first = bin;
        }
        if bin < self.first {
            let more = self.first - bin;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = bin;
        }
        let index = bin - self.first;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        index
    }

    /// Counts a duration.
    pub fn add(&mut self, value: Duration) {
        let index = self.room_for(bin_of(value.as_picos()));
        self.counts[index] += 1;
    }

    /// Clears the counts, and keeps the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
    }

    /// Returns the non-empty bins: lower bound, upper bound (exclusive), count.
    pub fn bins(&self) -> impl Iterator<Item = (Duration, Duration, u64)> + '_ {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(index, &count)| {
            let bin = self.first + index;
            (Duration::from_picos(low_of(bin)), Duration::from_picos(low_of(bin + 1)), count)
        })
    }
}

/// Number of bins for all durations.
const BINS: usize = ((u64::BITS - PER_OCTAVE_BITS + 1) as usize) << PER_OCTAVE_BITS;

fn bin_of(value: u64) -> usize {
    let octave = value.checked_ilog2().unwrap_or(0).saturating_sub(PER_OCTAVE_BITS);
    ((octave as usize) << PER_OCTAVE_BITS) + (value >> octave) as usize
}

fn low_of(bin: usize) -> u64 {
    let octave = (bin >> PER_OCTAVE_BITS).saturating_sub(1);
    ((bin - (octave << PER_OCTAVE_BITS)) as u64) << octave
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_in_its_bin_and_bins_are_narrow() {
        for value in (0..1_000).chain((0..40).map(|bit| (1 << bit) - 1)).chain([u64::MAX >> 2]) {
            let bin = bin_of(value);
            let (low, high) = (low_of(bin), low_of(bin + 1));
            assert!((low..high).contains(&value), "{value} in {low}..{high}");
            assert!(high - low <= 1 + low / 64, "{low}..{high}");
        }
    }

    #[test]
    fn merging_counts_what_both_counted() {
        let of = |values: &[u64]| {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.add(Duration::from_picos(value)));
            histogram
        };
        for (one, other) in [
            (&[][..], &[][..]),
            (&[5, 900], &[]),
            (&[], &[5, 900]),
            (&[70_000, 5], &[3, 1_000_000, 70_000]),
            (&[1], &[u64::MAX]),
        ] {
            let mut merged = of(one);
            merged.merge(&of(other));
            let all = of(&[one, other].concat());
            assert!(merged.bins().eq(all.bins()), "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_histogram_from_elsewhere_has_no_more_bins_than_there_are() {
        assert_eq!(bin_of(u64::MAX), BINS - 1);
        let read = |text: &str| serde_json::from_str::<Histogram>(text);
        let mut one = Histogram::default();
        [7, 9, 7_000_000].into_iter().for_each(|value| one.add(Duration::from_picos(value)));
        let again = read(&serde_json::to_string(&one).unwrap()).unwrap();
        assert!(again.bins().eq(one.bins()));
        assert!(read(r#"{"first": 3775, "counts": [1]}"#).unwrap().bins().count() == 1);
        assert!(read(r#"{"first": 3775, "counts": [1, 1]}"#).is_err());
        assert!(read(r#"{"first": 18446744073709551615, "counts": [1]}"#).is_err());
    }

    #[test]
    fn every_value_is_counted_once() {
        let mut histogram = Histogram::default();
        let values = [5_000_000_u64, 4_000, 5_000_001, 900_000_000_000, 4_000];
        for value in values {
            histogram.add(Duration::from_picos(value));
        }
        let bins: Vec<_> = histogram.bins().collect();
        assert_eq!(bins.iter().map(|(.., count)| count).sum::<u64>(), 5);
        assert!(bins.is_sorted());
        assert_eq!(bins[0].2, 2);
    }
}
