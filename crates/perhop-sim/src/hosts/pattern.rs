//! When datagrams go out, and how large they are.

use perhop_core::{Duration, Rate, Stream};

/// A pattern of traffic.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub gaps: Gaps,
    pub sizes: Sizes,
}

impl Pattern {
    /// How long after the start the first datagram goes out: at once where they come at regular
    /// times, or else after a gap, as between any two.
    pub fn first(&mut self) -> Duration {
        match self.gaps {
            Gaps::Even(_) => Duration::ZERO,
            Gaps::Exponential { .. } => self.gap(),
        }
    }

    /// The time from one datagram to the next.
    #[inline]
    pub fn gap(&mut self) -> Duration {
        match &mut self.gaps {
            Gaps::Even(pace) => pace.next(),
            Gaps::Exponential { mean, random } => scaled(*mean, random.exponential()),
        }
    }

    /// The payload of the next datagram in bytes.
    #[inline]
    pub fn payload(&mut self) -> u16 {
        match &mut self.sizes {
            Sizes::Constant(payload) => *payload,
            Sizes::Exponential { mean, header, random } => {
                let size = (*mean * random.exponential() + 0.5) as u64;
                let most = u64::from(MAX_PAYLOAD);
                size.saturating_sub((*header).into()).clamp(1, most) as u16
            }
        }
    }
}

/// The largest payload that an IPv4 packet holds behind its header and UDP's.
pub(crate) const MAX_PAYLOAD: u16 = u16::MAX - 28;

/// A mean in picoseconds times a number, rounded; saturates.
fn scaled(mean: f64, factor: f64) -> Duration {
    Duration::from_picos((mean * factor + 0.5) as u64)
}

/// The times between datagrams.
#[derive(Debug)]
pub(crate) enum Gaps {
    /// Always the same.
    Even(Pace),
    /// Exponentially distributed, which makes a Poisson process.
    Exponential {
        /// In picoseconds.
        mean: f64,
        random: Stream,
    },
}

/// The sizes of datagrams.
#[derive(Debug)]
pub(crate) enum Sizes {
    /// Payloads of so many bytes.
    Constant(u16),
    /// Sizes of `mean` bytes, of which `header` are none of the payload: exponentially distributed,
    /// rounded to whole bytes, and cut at what a datagram holds.
    Exponential { mean: f64, header: u16, random: Stream },
}

/// A regular time between datagrams, with the fraction of a picosecond that is carried over so that
/// rounding never adds up.
#[derive(Debug)]
pub(crate) struct Pace {
    gap: Duration,
    /// What `gap` leaves out, in units of 1 ps / `rate`.
    remainder: u64,
    rate: u64,
    carried: u64,
}

impl Pace {
    /// One datagram of `size` bytes after the other at `rate`.
    pub fn new(size: u16, rate: Rate) -> Self {
        // 2¹⁶ bytes are 2¹⁹ · 10¹² picobits, which a u64 holds.
        let picobits = u64::from(size) * 8_000_000_000_000;
        let rate = rate.bits_per_second();
        let gap = Duration::from_picos(picobits / rate);
        Self { gap, remainder: picobits % rate, rate, carried: 0 }
    }

    fn next(&mut self) -> Duration {
        self.carried += self.remainder;
        let whole = u64::from(self.carried >= self.rate);
        self.carried -= whole * self.rate;
        self.gap + Duration::from_picos(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::{Bytes, Time};

    #[test]
    fn pacing_does_not_drift() {
        // 1500 · 8 · 10¹² / 155,520,007 is not a whole number of picoseconds.
        let rate = Rate::new(155_520_007).unwrap();
        let mut pace = Pace::new(1500, rate);
        let mut at = Time::ZERO;
        for sent in 1..=10_000_u64 {
            at += pace.next();
            let exact = Bytes::new(sent * 1500) / rate;
            assert!(exact.as_picos() - at.as_picos() <= 1, "{sent}: {at:?}, not {exact:?}");
        }
    }

    fn drawn(mean: f64, header: u16) -> Vec<u16> {
        let random = Stream::new(1, "sizes");
        let mut pattern = Pattern {
            gaps: Gaps::Even(Pace::new(1, Rate::new(1).unwrap())),
            sizes: Sizes::Exponential { mean, header, random },
        };
        (0..100_000).map(|_| pattern.payload()).collect()
    }

    #[test]
    fn sizes_have_the_mean_asked_for() {
        for (mean, header) in [(1000.0, 0), (1000.0, 28), (5000.0, 28)] {
            let sizes = drawn(mean, header);
            let sum: f64 = sizes.iter().map(|&size| f64::from(size + header)).sum();
            // What is too small for its header is made larger: by mean · e⁻ʰ − mean + h on average,
            // h = (header + 1) / mean in units of the mean. Five standard deviations.
            let least = f64::from(header) + 1.0;
            let more = least - mean * (1.0 - (-least / mean).exp());
            let error = sum / 1e5 - mean - more;
            assert!(error.abs() < 5.0 * mean / 1e5_f64.sqrt(), "{error} at {mean}");
        }
    }

    #[test]
    fn sizes_fit_a_packet() {
        assert!(drawn(65_507.0, 0).into_iter().all(|size| (1..=MAX_PAYLOAD).contains(&size)));
        assert!(drawn(29.0, 28).contains(&1));
    }
}
