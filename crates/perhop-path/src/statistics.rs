//! Statistics of series of observations.

use serde::Serialize;

/// An estimate and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// Returns the estimate and its interval, each mapped by a function that reverses the order.
    pub(crate) fn reversed(self, by: impl Fn(f64) -> f64) -> Self {
        Self { value: by(self.value), low: by(self.high), high: by(self.low) }
    }

    /// Returns the difference of two estimates.
    pub(crate) fn less(self, other: Self) -> Self {
        Self {
            value: self.value - other.value,
            low: self.low - other.high,
            high: self.high - other.low,
        }
    }

    /// Returns the estimate times a positive factor.
    pub(crate) fn scaled(self, by: f64) -> Self {
        Self { value: self.value * by, low: self.low * by, high: self.high * by }
    }

    /// Returns what two intervals have in common, and its middle; `None` if that is nothing.
    pub(crate) fn and(self, other: Self) -> Option<Self> {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        (low <= high).then_some(Self { value: f64::midpoint(low, high), low, high })
    }

    /// Returns half the width of the interval as a share of the estimate.
    pub fn uncertainty(&self) -> f64 {
        (self.high - self.value).max(self.value - self.low) / self.value.abs()
    }
}

/// Summary of times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Minimum.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Maximum.
    pub max: f64,
}

impl Spread {
    /// Summarises times; `None` if there are none.
    pub fn of(times: &[f64]) -> Option<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            min: *sorted.first()?,
            median: quantile(&sorted, 0.5),
            p95: quantile(&sorted, 0.95),
            max: *sorted.last()?,
        })
    }
}

/// Returns the quantile of sorted values, between neighbours in proportion; NaN of none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

/// Returns the probability that the first of two samples has at least `lost_a` of the losses of
/// both, if both have the same loss: the one-sided exact test of Fisher (1922).
///
/// A sample is a number of losses and of probes.
pub fn fisher((lost_a, sent_a): (u64, u64), (lost_b, sent_b): (u64, u64)) -> f64 {
    let (lost, sent) = (lost_a + lost_b, sent_a + sent_b);
    let ln = |n: u64| (1..=n).map(|k| (k as f64).ln()).sum::<f64>();
    let choose = |n: u64, k: u64| ln(n) - ln(k) - ln(n - k);
    let all = choose(sent, lost);
    let most = lost.min(sent_a);
    (lost_a..=most)
        .filter(|&a| lost - a <= sent_b)
        .map(|a| (choose(sent_a, a) + choose(sent_b, lost - a) - all).exp())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_of_times() {
        assert_eq!(Spread::of(&[]), None);
        let spread = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
        assert!((spread.p95 - 2.9).abs() < 1e-12);
    }

    /// Fisher's tea-tasting experiment: three or more of four right by chance has 17 of 70.
    #[test]
    fn fishers_test_is_exact() {
        assert!((fisher((3, 4), (1, 4)) - 17.0 / 70.0).abs() < 1e-12);
        assert!((fisher((0, 10), (5, 10)) - 1.0).abs() < 1e-9);
        assert!(fisher((10, 20), (0, 20)) < 0.001);
    }
}
