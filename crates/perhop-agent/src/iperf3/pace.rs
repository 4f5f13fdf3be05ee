//! Pacing of streams at a rate.

use perhop_socket::Nanos;

/// Pacer of bytes from a start on. A late byte does not delay the next ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Rate in bit/s; no limit if absent.
    rate: Option<u64>,
    start: Nanos,
    bytes: u64,
}

impl Pace {
    pub fn new(rate: Option<u64>, start: Nanos) -> Self {
        Self { rate, start, bytes: 0 }
    }

    /// Returns the start by the monotonic clock, in nanoseconds.
    pub fn start(&self) -> Nanos {
        self.start
    }

    /// Counts bytes that were carried.
    pub fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Returns the instant at which the next byte is due by the monotonic clock, in nanoseconds.
    pub fn due(&self) -> Nanos {
        match self.rate {
            None => 0,
            Some(rate) => {
                let nanos = u128::from(self.bytes) * 8_000_000_000 / u128::from(rate.max(1));
                self.start.saturating_add(Nanos::try_from(nanos).unwrap_or(Nanos::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_whatever_the_delays() {
        let mut pace = Pace::new(Some(8_000), 5);
        assert_eq!(pace.due(), 5);
        (0..1000).for_each(|_| pace.add(3));
        assert_eq!(pace.due(), 5 + 3_000_000_000);
        pace.add(u64::MAX / 2);
        assert!(pace.due() > 3_000_000_000);
        assert_eq!(Pace::new(None, 5).due(), 0);
    }
}
