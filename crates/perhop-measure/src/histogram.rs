//! A histogram with logarithmic bins.

use perhop_core::Duration;

/// Bins an octave; a bin is about 1% wide, and no wider than 1/64.
const PER_OCTAVE_BITS: u32 = 6;

/// Counts durations in bins that double in width with every octave. It keeps only the bins
/// between the lowest and the highest that were hit, so that a flow's round-trip times take a few
/// hundred bytes.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    first: usize,
    counts: Vec<u64>,
}

impl Histogram {
    /// Counts a duration.
    pub fn add(&mut self, value: Duration) {
        let bin = bin_of(value.as_picos());
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
        self.counts[index] += 1;
    }

    /// Forgets what was counted, and keeps its memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
    }

    /// The bins that were hit: from, to (exclusive), how often.
    pub fn bins(&self) -> impl Iterator<Item = (Duration, Duration, u64)> + '_ {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(index, &count)| {
            let bin = self.first + index;
            (Duration::from_picos(low_of(bin)), Duration::from_picos(low_of(bin + 1)), count)
        })
    }
}

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
