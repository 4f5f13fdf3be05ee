//! A policer: a token bucket that measures and never queues.

use perhop_core::{Bytes, Dscp, Rate, Time};

/// What becomes of a packet that exceeds its policer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceed {
    /// It is dropped.
    Drop,
    /// It stays in its class and goes on with another DSCP.
    Remark(Dscp),
}

/// What a policer says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within rate and burst.
    Conformed,
    /// Beyond them.
    Exceeded,
}

/// A single-rate two-colour policer: a bucket of `burst` bytes, full at first, that fills at
/// `rate`. A packet conforms if the bucket holds its IP length, which is then taken out.
///
/// The arithmetic is exact: over any interval of length t, no more than `burst + rate · t`
/// conforms, not by a byte.
#[derive(Clone, Debug)]
pub struct Policer {
    rate: Rate,
    /// Capacity and content in bits · 10⁻¹², the amount that 1 bit/s adds in a picosecond.
    burst: u128,
    tokens: u128,
    updated: Time,
}

/// Token units of a byte.
const BYTE: u128 = 8_000_000_000_000;

impl Policer {
    /// A policer whose bucket is full.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        let burst = u128::from(burst.get()) * BYTE;
        Self { rate, burst, tokens: burst, updated: Time::ZERO }
    }

    /// Measures a packet of `size` bytes that arrives at `now`, not earlier than the last one.
    pub fn police(&mut self, now: Time, size: Bytes) -> Verdict {
        let elapsed = u128::from(now.since(self.updated).as_picos());
        let earned = elapsed * u128::from(self.rate.bits_per_second());
        self.tokens = self.burst.min(self.tokens.saturating_add(earned));
        self.updated = now;
        match self.tokens.checked_sub(u128::from(size.get()) * BYTE) {
            Some(left) => {
                self.tokens = left;
                Verdict::Conformed
            }
            None => Verdict::Exceeded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::Duration;
    use proptest::prelude::*;

    fn policer(bps: u64, burst: u64) -> Policer {
        Policer::new(Rate::new(bps).unwrap(), Bytes::new(burst))
    }

    #[test]
    fn a_full_bucket_passes_its_burst_and_no_more() {
        let mut policer = policer(1_000_000, 3000);
        let verdicts: Vec<_> =
            (0..3).map(|_| policer.police(Time::ZERO, Bytes::new(1500))).collect();
        assert_eq!(verdicts, [Verdict::Conformed, Verdict::Conformed, Verdict::Exceeded]);
    }

    #[test]
    fn tokens_arrive_to_the_picosecond() {
        let mut policer = policer(1_000_000, 1500);
        let _ = policer.police(Time::ZERO, Bytes::new(1500));
        let refill = Bytes::new(1500) / Rate::new(1_000_000).unwrap();
        let early = Time::from_picos(refill.as_picos() - 1);
        assert_eq!(policer.police(early, Bytes::new(1500)), Verdict::Exceeded);
        assert_eq!(policer.police(Time::ZERO + refill, Bytes::new(1500)), Verdict::Conformed);
    }

    proptest! {
        /// Whatever arrives, the conforming bytes of every interval stay below the arrival curve,
        /// and a packet that exceeds really would have crossed it.
        #[test]
        fn conforming_bytes_stay_below_the_arrival_curve(
            bps in 1_000_u64..10_000_000_000,
            burst in 64_u64..200_000,
            arrivals in prop::collection::vec((0_u64..5_000_000_000, 40_u64..1500), 1..60),
        ) {
            let mut policer = policer(bps, burst);
            let mut now = Time::ZERO;
            let mut passed: Vec<(Time, u64)> = Vec::new();
            // What fits below burst + rate · t over every interval that ends now, in token units.
            let room = |passed: &[(Time, u64)], now: Time| {
                let mut sent = 0;
                passed.iter().rev().map(|&(from, size)| {
                    sent += u128::from(size) * BYTE;
                    let span = u128::from(now.since(from).as_picos());
                    u128::from(burst) * BYTE + span * u128::from(bps) - sent
                }).chain([u128::from(burst) * BYTE]).min().unwrap()
            };
            for (gap, size) in arrivals {
                now += Duration::from_picos(gap);
                let fits = u128::from(size) * BYTE <= room(&passed, now);
                let conformed = policer.police(now, Bytes::new(size)) == Verdict::Conformed;
                prop_assert_eq!(conformed, fits);
                if conformed {
                    passed.push((now, size));
                }
            }
        }
    }
}
