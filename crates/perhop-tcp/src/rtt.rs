//! The retransmission timer's estimate (RFC 6298).

use perhop_core::Duration;

/// Before the first sample (RFC 6298, section 2.1).
const INITIAL: Duration = Duration::from_secs(1);
/// Section 2.4 permits a ceiling of 60 s or more; Linux has 120 s.
const MAXIMUM: Duration = Duration::from_secs(120);

/// Smoothed round-trip time and retransmission timeout.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    minimum: Duration,
    /// Smoothed round-trip time and its variation; none before the first sample.
    estimate: Option<(Duration, Duration)>,
    /// How often the timer has expired since the last sample; each doubles it (section 5.5).
    backoff: u32,
}

impl RttEstimator {
    /// An estimator whose timeout is never below `minimum`. The RFC asks for 1 s; Linux has
    /// 200 ms.
    pub const fn new(minimum: Duration) -> Self {
        Self { minimum, estimate: None, backoff: 0 }
    }

    /// Takes a sample that is not from a retransmitted segment (Karn's algorithm, section 3).
    pub fn sample(&mut self, rtt: Duration) {
        self.backoff = 0;
        let rtt = rtt.as_picos();
        let (smoothed, variation) = match self.estimate {
            None => (rtt, rtt / 2),
            Some((smoothed, variation)) => {
                let (smoothed, variation) = (smoothed.as_picos(), variation.as_picos());
                let error = smoothed.abs_diff(rtt);
                (smoothed - smoothed / 8 + rtt / 8, variation - variation / 4 + error / 4)
            }
        };
        self.estimate = Some((Duration::from_picos(smoothed), Duration::from_picos(variation)));
    }

    /// Notes that the timer has expired.
    pub fn expired(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    /// The smoothed round-trip time; none before the first sample.
    pub fn smoothed(&self) -> Option<Duration> {
        self.estimate.map(|(smoothed, _)| smoothed)
    }

    /// The timeout now, backed off.
    pub fn timeout(&self) -> Duration {
        let timeout = match self.estimate {
            None => INITIAL,
            Some((smoothed, variation)) => smoothed + variation * 4,
        };
        (timeout.max(self.minimum) * (1 << self.backoff)).min(MAXIMUM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn follows_the_worked_formulas() {
        let mut rtt = RttEstimator::new(MS(200));
        assert_eq!(rtt.timeout(), MS(1000));
        rtt.sample(MS(100));
        assert_eq!((rtt.smoothed(), rtt.timeout()), (Some(MS(100)), MS(300)));
        // SRTT 7/8 · 100 + 1/8 · 180 = 110; RTTVAR 3/4 · 50 + 1/4 · 80 = 57.5.
        rtt.sample(MS(180));
        assert_eq!((rtt.smoothed(), rtt.timeout()), (Some(MS(110)), MS(340)));
    }

    #[test]
    fn backs_off_until_a_sample_comes() {
        let mut rtt = RttEstimator::new(MS(200));
        rtt.sample(MS(100));
        rtt.expired();
        rtt.expired();
        assert_eq!(rtt.timeout(), MS(1200));
        rtt.sample(MS(100));
        assert_eq!(rtt.timeout(), MS(100) + MS(150));
    }

    #[test]
    fn never_leaves_its_bounds() {
        let mut rtt = RttEstimator::new(MS(200));
        (0..100).for_each(|_| rtt.sample(MS(1)));
        assert_eq!(rtt.timeout(), MS(200));
        (0..100).for_each(|_| rtt.expired());
        assert_eq!(rtt.timeout(), Duration::from_secs(120));
    }
}
