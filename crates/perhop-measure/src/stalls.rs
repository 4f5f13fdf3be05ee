//! Stalls of an engine in real time.

use perhop_core::Duration;

/// Number and total of a thread's delays above a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalls {
    threshold: Duration,
    number: u64,
    total: Duration,
}

impl Default for Stalls {
    fn default() -> Self {
        Self::longer_than(Duration::MAX)
    }
}

impl Stalls {
    /// Creates counters of zero for delays of more than `threshold`.
    pub const fn longer_than(threshold: Duration) -> Self {
        Self { threshold, number: 0, total: Duration::ZERO }
    }

    /// Adds a delay.
    pub fn add(&mut self, late: Duration) {
        if late > self.threshold {
            self.number += 1;
            self.total += late;
        }
    }

    /// Returns the number of stalls.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the total duration of the stalls.
    pub const fn total(&self) -> Duration {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_up_to_the_threshold_are_not_stalls() {
        let ms = |ms: u64| Duration::from_micros(1000 * ms);
        let mut stalls = Stalls::longer_than(ms(10));
        [1, 10, 270, 9, 30].into_iter().for_each(|late| stalls.add(ms(late)));
        assert_eq!((stalls.number(), stalls.total()), (2, ms(300)));
    }
}
