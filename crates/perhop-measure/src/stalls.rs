//! How long an engine in real time stood still.

use perhop_core::Duration;

/// Adds up the lateness of a thread where it is more than a result can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalls {
    bearable: Duration,
    number: u64,
    total: Duration,
}

impl Default for Stalls {
    fn default() -> Self {
        Self::longer_than(Duration::MAX)
    }
}

impl Stalls {
    /// None yet; one is longer than `bearable`.
    pub const fn longer_than(bearable: Duration) -> Self {
        Self { bearable, number: 0, total: Duration::ZERO }
    }

    /// The thread was late by so much.
    pub fn add(&mut self, late: Duration) {
        if late > self.bearable {
            self.number += 1;
            self.total += late;
        }
    }

    /// How many there were.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// How long they were together.
    pub const fn total(&self) -> Duration {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_borne_is_no_stall() {
        let ms = |ms: u64| Duration::from_micros(1000 * ms);
        let mut stalls = Stalls::longer_than(ms(10));
        [1, 10, 270, 9, 30].into_iter().for_each(|late| stalls.add(ms(late)));
        assert_eq!((stalls.number(), stalls.total()), (2, ms(300)));
    }
}
