//! The estimate of the round-trip time (RFC 9002, section 5).

use perhop_core::Duration;

/// Granularity of timers (section 6.1.2: kGranularity).
pub const GRANULARITY: Duration = Duration::from_millis(1);

/// Round-trip time before the first sample (section 6.2.2: kInitialRtt).
const INITIAL: Duration = Duration::from_millis(333);

/// Persistent congestion takes this many probe timeouts (section 7.6.1:
/// kPersistentCongestionThreshold).
const PERSISTENT: u64 = 3;

/// Smoothed round-trip time, its variation and its minimum.
#[derive(Clone, Copy, Debug)]
pub struct RttEstimator {
    latest: Option<Duration>,
    minimum: Duration,
    smoothed: Duration,
    variation: Duration,
}

impl Default for RttEstimator {
    fn default() -> Self {
        Self { latest: None, minimum: Duration::ZERO, smoothed: INITIAL, variation: INITIAL / 2 }
    }
}

impl RttEstimator {
    /// Takes a sample, with the delay of the acknowledgement that its sender reported, at most that
    /// sender's `max_ack_delay` (section 5.3). The order of the two averages is that of appendix
    /// A.7 and of RFC 6298.
    pub fn sample(&mut self, rtt: Duration, ack_delay: Duration) {
        if self.latest.replace(rtt).is_none() {
            (self.minimum, self.smoothed, self.variation) = (rtt, rtt, rtt / 2);
            return;
        }
        self.minimum = self.minimum.min(rtt);
        // A delay that would make the sample less than the minimum is implausible.
        let adjusted = if rtt >= self.minimum + ack_delay { rtt - ack_delay } else { rtt };
        let error = self.smoothed.as_picos().abs_diff(adjusted.as_picos());
        self.variation = self.variation - self.variation / 4 + Duration::from_picos(error / 4);
        self.smoothed = self.smoothed - self.smoothed / 8 + adjusted / 8;
    }

    /// Forgets the minimum: the next sample is the new one (section 5.2).
    pub fn forget_minimum(&mut self) {
        if let Some(latest) = self.latest {
            self.minimum = latest;
        }
    }

    /// Returns the smoothed round-trip time; none before the first sample.
    pub fn smoothed(&self) -> Option<Duration> {
        self.latest.map(|_| self.smoothed)
    }

    /// Returns the smoothed round-trip time, or the one assumed before the first sample.
    pub fn assumed(&self) -> Duration {
        self.smoothed
    }

    /// Returns the least round-trip time; zero before the first sample.
    pub fn minimum(&self) -> Duration {
        self.minimum
    }

    /// Returns the age at which a packet is lost that was sent before an acknowledged one (section
    /// 6.1.2).
    pub fn loss_delay(&self) -> Duration {
        let longest = self.smoothed.max(self.latest.unwrap_or(Duration::ZERO));
        (longest * 9 / 8).max(GRANULARITY)
    }

    /// Returns the probe timeout without backoff (section 6.2.1).
    pub fn probe_timeout(&self, max_ack_delay: Duration) -> Duration {
        self.smoothed + (self.variation * 4).max(GRANULARITY) + max_ack_delay
    }

    /// Returns the least time between two lost packets that shows persistent congestion (section
    /// 7.6.1).
    pub fn persistent_duration(&self, max_ack_delay: Duration) -> Duration {
        self.probe_timeout(max_ack_delay) * PERSISTENT
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Section 6.2.2: handshakes begin with a timeout of a second.
    #[test]
    fn the_first_timeout_is_a_second() {
        let rtt = RttEstimator::default();
        assert_eq!(rtt.probe_timeout(Duration::ZERO), MS(999));
        assert_eq!(rtt.smoothed(), None);
    }

    #[test]
    fn follows_the_worked_formulas_of_the_rfc() {
        let mut rtt = RttEstimator::default();
        rtt.sample(MS(100), MS(20)); // the first sample is taken as it is
        assert_eq!((rtt.smoothed(), rtt.minimum()), (Some(MS(100)), MS(100)));
        assert_eq!(rtt.probe_timeout(MS(25)), MS(100 + 200 + 25));
        // 180 ms less a delay of 20 ms: 7/8 · 100 + 1/8 · 160 = 107.5; 3/4 · 50 + 1/4 · 60 = 52.5.
        rtt.sample(MS(180), MS(20));
        assert_eq!(rtt.smoothed(), Some(Duration::from_micros(107_500)));
        assert_eq!(rtt.probe_timeout(Duration::ZERO), Duration::from_micros(107_500 + 210_000));
        assert_eq!(rtt.loss_delay(), MS(180) * 9 / 8);
        // 110 ms less 20 ms would be below the minimum.
        rtt.sample(MS(110), MS(20));
        assert_eq!(rtt.smoothed(), Some(Duration::from_picos(107_812_500_000)));
    }

    proptest! {
        /// Section 5.3: the estimate stays between the minimum and the largest sample, whatever
        /// delays the peer reports.
        #[test]
        fn reported_delays_never_take_the_estimate_below_the_minimum(
            samples in proptest::collection::vec((1_u64..2_000_000, 0_u64..3_000_000), 1..50),
        ) {
            let mut rtt = RttEstimator::default();
            for &(sample, delay) in &samples {
                rtt.sample(Duration::from_micros(sample), Duration::from_micros(delay));
                let smoothed = rtt.smoothed().unwrap();
                // Averages round down by less than a picosecond at each step.
                prop_assert!(smoothed + Duration::from_picos(100) >= rtt.minimum());
                prop_assert!(rtt.loss_delay() >= GRANULARITY);
                prop_assert!(rtt.probe_timeout(Duration::ZERO) >= smoothed + GRANULARITY);
            }
            let times = || samples.iter().map(|&(sample, _)| sample);
            prop_assert_eq!(rtt.minimum(), Duration::from_micros(times().min().unwrap()));
            prop_assert!(rtt.smoothed().unwrap() <= Duration::from_micros(times().max().unwrap()));
        }
    }
}
