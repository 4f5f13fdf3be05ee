//! The estimate of the round-trip time, and the retransmission timeout derived from it.

use perhop_core::Duration;

use crate::Offset;

/// Timeout before the first sample (RFC 6298, section 2.1; Linux: TCP_TIMEOUT_INIT).
const INITIAL: Duration = Duration::from_secs(1);
/// Timeout of a connection that opens after its timer has expired, until the first sample (section
/// 5.7; Linux: TCP_TIMEOUT_FALLBACK in tcp_init_metrics).
const AFTER_LOST_SYN: Duration = Duration::from_secs(3);
/// Greatest timeout. Section 2.4 permits a ceiling of 60 s or more; Linux has 120 s (TCP_RTO_MAX).
const MAXIMUM: Duration = Duration::from_secs(120);
/// Granularity of a host's clock (RFC 6298, section 2: G), a millisecond as in ns-3.
const GRANULARITY: Duration = Duration::from_millis(1);

/// Rule by which the timeout is derived from samples of the round-trip time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum RtoRule {
    /// RFC 6298, section 2: max(minimum, SRTT + max(G, 4 RTTVAR)). If a queue keeps the round-trip
    /// time constant and above the minimum, the timeout is hardly longer.
    Rfc6298,
    /// SRTT + max(minimum, variation), as in Linux since 2.4 (tcp_rtt_estimator and tcp_set_rto in
    /// net/ipv4/tcp_input.c; Sarolahti and Kuznetsov, *Congestion Control in Linux TCP*, USENIX
    /// 2002, section 4): the variation is the largest mean deviation of a round trip, rises at once
    /// and falls once a round trip; a sample below the mean hardly adds to it.
    #[default]
    Linux,
}

/// State of the estimate. Variations and deviations are four times the mean deviation, as they are
/// added to the smoothed round-trip time.
#[derive(Clone, Copy, Debug)]
enum Estimate {
    /// None yet, and the timeout until there is one.
    None(RtoRule, Duration),
    Rfc6298 {
        smoothed: Duration,
        variation: Duration,
    },
    Linux {
        smoothed: Duration,
        /// Deviation of the last samples (mdev_us).
        deviation: Duration,
        /// Largest deviation of this round trip, at least the minimum (mdev_max_us).
        largest: Duration,
        /// Variation in use (rttvar_us).
        variation: Duration,
        /// End of the sent data at the beginning of this round trip (rtt_seq).
        round: Offset,
    },
}

/// Smoothed round-trip time and retransmission timeout.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    minimum: Duration,
    estimate: Estimate,
    /// Expiries of the timer since the last sample; each doubles the timeout (section 5.5).
    backoff: u32,
}

impl RttEstimator {
    /// Creates an estimator with a minimum of the timeout (RFC 6298) or of the variation (Linux).
    pub const fn new(rule: RtoRule, minimum: Duration) -> Self {
        Self { minimum, estimate: Estimate::None(rule, INITIAL), backoff: 0 }
    }

    /// Takes a sample that is not from a retransmitted segment (Karn's algorithm, section 3).
    /// `acked` is the end of the acknowledged data, `end` that of the sent data.
    pub fn sample(&mut self, rtt: Duration, acked: Offset, end: Offset) {
        self.backoff = 0;
        let minimum = self.minimum;
        match &mut self.estimate {
            Estimate::None(RtoRule::Rfc6298, _) => {
                self.estimate = Estimate::Rfc6298 { smoothed: rtt, variation: rtt * 2 };
            }
            Estimate::None(RtoRule::Linux, _) => {
                let deviation = rtt * 2;
                let variation = deviation.max(minimum);
                self.estimate = Estimate::Linux {
                    smoothed: rtt,
                    deviation,
                    largest: variation,
                    variation,
                    round: end,
                };
            }
            Estimate::Rfc6298 { smoothed, variation } => {
                let error = difference(*smoothed, rtt);
                *variation = *variation - *variation / 4 + error;
                *smoothed = *smoothed - *smoothed / 8 + rtt / 8;
            }
            Estimate::Linux { smoothed, deviation, largest, variation, round } => {
                let error = difference(*smoothed, rtt);
                let faded = *deviation / 4;
                *deviation = if error <= faded {
                    *deviation - (faded - error)
                } else if rtt < *smoothed {
                    // A falling round-trip time does not lengthen the timeout.
                    *deviation + (error - faded) / 8
                } else {
                    *deviation + (error - faded)
                };
                *smoothed = *smoothed - *smoothed / 8 + rtt / 8;
                *largest = (*largest).max(*deviation);
                *variation = (*variation).max(*largest);
                if acked > *round {
                    *variation = *variation - (*variation - *largest) / 4;
                    (*round, *largest) = (end, minimum);
                }
            }
        }
    }

    /// Records that the handshake is over. If its SYN was sent `again` and gave no sample, the
    /// timeout is 3 s until there is one, without a backoff (section 5.7).
    pub fn opened(&mut self, again: bool) {
        if let Estimate::None(_, initial) = &mut self.estimate
            && again
        {
            (*initial, self.backoff) = (AFTER_LOST_SYN, 0);
        }
    }

    /// Records an expiry of the timer.
    pub fn expired(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    /// Returns the smoothed round-trip time; none before the first sample.
    pub fn smoothed(&self) -> Option<Duration> {
        match self.estimate {
            Estimate::None(..) => None,
            Estimate::Rfc6298 { smoothed, .. } | Estimate::Linux { smoothed, .. } => Some(smoothed),
        }
    }

    /// Returns the present timeout, with its backoff.
    pub fn timeout(&self) -> Duration {
        let timeout = match self.estimate {
            Estimate::None(_, initial) => initial.max(self.minimum),
            Estimate::Rfc6298 { smoothed, variation } => {
                (smoothed + variation.max(GRANULARITY)).max(self.minimum)
            }
            Estimate::Linux { smoothed, variation, .. } => smoothed + variation,
        };
        (timeout * (1 << self.backoff)).min(MAXIMUM)
    }
}

fn difference(one: Duration, other: Duration) -> Duration {
    Duration::from_picos(one.as_picos().abs_diff(other.as_picos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn follows_the_worked_formulas_of_the_rfc() {
        let mut rtt = RttEstimator::new(RtoRule::Rfc6298, MS(200));
        assert_eq!(rtt.timeout(), MS(1000));
        rtt.sample(MS(100), 0, 0);
        assert_eq!((rtt.smoothed(), rtt.timeout()), (Some(MS(100)), MS(300)));
        // SRTT 7/8 · 100 + 1/8 · 180 = 110; RTTVAR 3/4 · 50 + 1/4 · 80 = 57.5.
        rtt.sample(MS(180), 0, 0);
        assert_eq!((rtt.smoothed(), rtt.timeout()), (Some(MS(110)), MS(340)));
        // Without variation, the granularity remains.
        (0..1000).for_each(|_| rtt.sample(MS(400), 0, 0));
        assert!(difference(rtt.timeout(), MS(401)) < Duration::from_micros(1));
    }

    /// Linux's own arithmetic, line by line, in its units: microseconds, SRTT times 8.
    struct Kernel {
        srtt: i64,
        mdev: i64,
        mdev_max: i64,
        rttvar: i64,
        rtt_seq: u64,
    }

    impl Kernel {
        fn sample(&mut self, sample: i64, una: u64, nxt: u64) -> i64 {
            const MINIMUM: i64 = 200_000;
            if self.srtt == 0 {
                (self.srtt, self.mdev) = (sample << 3, sample << 1);
                self.rttvar = self.mdev.max(MINIMUM);
                (self.mdev_max, self.rtt_seq) = (self.rttvar, nxt);
            } else {
                let mut error = sample - (self.srtt >> 3);
                self.srtt += error;
                if error < 0 {
                    error = -error - (self.mdev >> 2);
                    if error > 0 {
                        error >>= 3;
                    }
                } else {
                    error -= self.mdev >> 2;
                }
                self.mdev += error;
                if self.mdev > self.mdev_max {
                    self.mdev_max = self.mdev;
                    self.rttvar = self.rttvar.max(self.mdev_max);
                }
                if una > self.rtt_seq {
                    if self.mdev_max < self.rttvar {
                        self.rttvar -= (self.rttvar - self.mdev_max) >> 2;
                    }
                    (self.rtt_seq, self.mdev_max) = (nxt, MINIMUM);
                }
            }
            (self.srtt >> 3) + self.rttvar
        }
    }

    #[test]
    fn follows_linux_to_its_rounding() {
        let mut random = perhop_core::Stream::new(1, "round-trip times");
        for flight in [1_u64, 10, 100] {
            let mut kernel = Kernel { srtt: 0, mdev: 0, mdev_max: 0, rttvar: 0, rtt_seq: 0 };
            let mut rtt = RttEstimator::new(RtoRule::Linux, MS(200));
            for step in 0..20_000_u64 {
                // Round trips of 20 ms to 2 s, with jumps.
                let base = 20_000 << (step / 1000 % 7);
                let sample = base + random.up_to(base / 2);
                let expected = kernel.sample(sample as i64, step, step + flight);
                rtt.sample(Duration::from_micros(sample), step, step + flight);
                let off = (rtt.timeout().as_picos() / 1_000_000).abs_diff(expected as u64);
                assert!(off <= 20, "step {step}: {expected} µs, off by {off} µs");
            }
        }
    }

    /// A full queue: round-trip times that do not vary, above the minimum. RFC 6298's timeout is
    /// then hardly longer than the round-trip time; Linux's is longer by its minimum.
    #[test]
    fn a_constant_round_trip_time_leaves_the_minimum_to_linux() {
        let timeout = |rule| {
            let mut rtt = RttEstimator::new(rule, MS(200));
            (0..1000).for_each(|step| rtt.sample(MS(400), step, step + 10));
            rtt.timeout()
        };
        assert!(timeout(RtoRule::Rfc6298) < MS(402));
        let linux = timeout(RtoRule::Linux);
        assert!((MS(600)..MS(601)).contains(&linux), "{linux:?}");
    }

    #[test]
    fn backs_off_until_a_sample_comes() {
        for (rule, first, second) in
            [(RtoRule::Rfc6298, MS(300), MS(250)), (RtoRule::Linux, MS(300), MS(300))]
        {
            let mut rtt = RttEstimator::new(rule, MS(200));
            rtt.sample(MS(100), 0, 10);
            rtt.expired();
            rtt.expired();
            assert_eq!(rtt.timeout(), first * 4);
            rtt.sample(MS(100), 1, 11);
            assert_eq!(rtt.timeout(), second);
        }
    }

    /// Section 5.7: 3 s after a SYN that was sent again, however often; the first sample counts.
    #[test]
    fn a_lost_syn_leaves_three_seconds() {
        for rule in [RtoRule::Rfc6298, RtoRule::Linux] {
            for expiries in [1, 2, 3] {
                let mut rtt = RttEstimator::new(rule, MS(200));
                (0..expiries).for_each(|_| rtt.expired());
                rtt.opened(true);
                assert_eq!(rtt.timeout(), MS(3000));
                rtt.expired();
                assert_eq!(rtt.timeout(), MS(6000));
                rtt.sample(MS(100), 1, 11);
                assert_eq!(rtt.timeout(), MS(300));
            }
            let mut prompt = RttEstimator::new(rule, MS(200));
            prompt.opened(false);
            assert_eq!(prompt.timeout(), MS(1000), "no expiry");
            let mut measured = RttEstimator::new(rule, MS(200));
            measured.expired();
            measured.sample(MS(100), 0, 1);
            measured.opened(true);
            assert_eq!(measured.timeout(), MS(300), "timestamps tell the round-trip time");
        }
    }

    #[test]
    fn never_leaves_its_bounds() {
        for (rule, least) in [(RtoRule::Rfc6298, MS(200)), (RtoRule::Linux, MS(201))] {
            let mut rtt = RttEstimator::new(rule, MS(200));
            (0..100).for_each(|step| rtt.sample(MS(1), step, step + 1));
            assert_eq!(rtt.timeout(), least);
            (0..100).for_each(|_| rtt.expired());
            assert_eq!(rtt.timeout(), Duration::from_secs(120));
        }
    }

    /// Section 2.4: a minimum applies before there is a sample, too. Section 2: it bounds the
    /// timeout, in Linux only the variation.
    #[test]
    fn the_minimum_applies_from_the_beginning() {
        for (rule, minimum, again, first, sampled) in [
            (RtoRule::Rfc6298, 200, false, 1_000, 200),
            (RtoRule::Rfc6298, 2_000, false, 2_000, 2_000),
            (RtoRule::Rfc6298, 2_000, true, 3_000, 2_000),
            (RtoRule::Rfc6298, 5_000, true, 5_000, 5_000),
            (RtoRule::Rfc6298, 1, false, 1_000, 30),
            (RtoRule::Linux, 200, false, 1_000, 210),
            (RtoRule::Linux, 2_000, false, 2_000, 2_010),
            (RtoRule::Linux, 1, false, 1_000, 30),
        ] {
            let mut rtt = RttEstimator::new(rule, MS(minimum));
            rtt.opened(again);
            assert_eq!(rtt.timeout(), MS(first), "{rule:?} {minimum} {again}");
            assert_eq!(rtt.smoothed(), None);
            rtt.sample(MS(10), 1, 1);
            assert_eq!(rtt.timeout(), MS(sampled), "{rule:?} {minimum} {again}");
        }
    }
}
