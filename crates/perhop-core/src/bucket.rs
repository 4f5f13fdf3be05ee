//! A token bucket in exact arithmetic.

use crate::{Bytes, Duration, Rate, Time};

/// Token units per byte: a token is 10⁻¹² bits, the amount that 1 bit/s adds in a picosecond.
const BYTE: i128 = 8_000_000_000_000;

/// An instant by the clock of a [`TokenBucket`]: a [`Time`], or nanoseconds of a host's clock.
pub trait Instant: Copy + Ord {
    /// The zero of the clock.
    const ZERO: Self;

    /// Returns the picoseconds from `earlier` to `self`; zero if `earlier` is in fact later.
    /// Saturates after 213 days.
    fn picos_since(self, earlier: Self) -> u64;

    /// Returns the instant `picos` picoseconds later, rounded up; saturates.
    fn after(self, picos: u128) -> Self;
}

impl Instant for Time {
    const ZERO: Self = Self::ZERO;

    #[inline]
    fn picos_since(self, earlier: Self) -> u64 {
        self.since(earlier).as_picos()
    }

    #[inline]
    fn after(self, picos: u128) -> Self {
        self + Duration::from_picos(picos.try_into().unwrap_or(u64::MAX))
    }
}

/// Nanoseconds, which outlast [`Time`]: a host may be up for years.
impl Instant for u64 {
    const ZERO: Self = 0;

    fn picos_since(self, earlier: Self) -> u64 {
        self.saturating_sub(earlier).saturating_mul(1_000)
    }

    fn after(self, picos: u128) -> Self {
        self.saturating_add(picos.div_ceil(1_000).try_into().unwrap_or(u64::MAX))
    }
}

/// A bucket that holds `burst` bytes, is full at first, and fills at `rate`. Nothing is rounded, so
/// that no more than `burst + rate · t` is taken in any time t while the bucket is not overdrawn.
/// A bucket of packets counts each as one byte.
///
/// The bucket may be overdrawn: a shaper without a burst sends a packet first and waits afterwards.
#[derive(Clone, Debug)]
pub struct TokenBucket<T = Time> {
    rate: Rate,
    burst: i128,
    tokens: i128,
    updated: T,
}

impl<T: Instant> TokenBucket<T> {
    /// Creates a full bucket.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        let burst = tokens(burst);
        Self { rate, burst, tokens: burst, updated: T::ZERO }
    }

    /// Adds the tokens that have arrived until `now`; returns those that overflow. An instant
    /// before that of an earlier call adds nothing.
    #[inline]
    pub fn fill(&mut self, now: T) -> Tokens {
        let elapsed = u128::from(now.picos_since(self.updated));
        self.updated = self.updated.max(now);
        self.add(Tokens(elapsed * u128::from(self.rate.bits_per_second())))
    }

    /// Changes rate and burst from `now` on; returns the tokens that overflow. The bucket keeps its
    /// tokens up to the new burst.
    pub fn set(&mut self, now: T, rate: Rate, burst: Bytes) -> Tokens {
        let overflow = self.fill(now);
        self.rate = rate;
        self.burst = tokens(burst);
        self.tokens = self.tokens.min(self.burst);
        overflow
    }

    /// Adds tokens from another bucket; returns those that overflow.
    #[inline]
    pub fn add(&mut self, tokens: Tokens) -> Tokens {
        let room = (self.burst - self.tokens) as u128;
        if tokens.0 < room {
            self.tokens += tokens.0 as i128;
            Tokens(0)
        } else {
            self.tokens = self.burst;
            Tokens(tokens.0 - room)
        }
    }

    /// Returns the whole bytes that the bucket holds; zero if it is overdrawn.
    pub fn available(&self) -> Bytes {
        Bytes::new(u64::try_from(self.tokens.max(0) / BYTE).unwrap_or(u64::MAX))
    }

    /// Returns `true` if the bucket holds tokens for `size` bytes.
    #[inline]
    pub fn holds(&self, size: Bytes) -> bool {
        self.tokens >= tokens(size)
    }

    /// Returns `true` if the bucket holds its whole burst.
    pub fn is_full(&self) -> bool {
        self.tokens >= self.burst
    }

    /// Returns `true` if the bucket is not overdrawn.
    #[inline]
    pub fn is_positive(&self) -> bool {
        self.tokens >= 0
    }

    /// Takes tokens for `size` bytes, which may overdraw the bucket.
    #[inline]
    pub fn take(&mut self, size: Bytes) {
        self.tokens -= tokens(size);
    }

    /// Forgets by how much more than `debt` the bucket is overdrawn.
    pub fn forgive(&mut self, debt: Bytes) {
        self.tokens = self.tokens.max(-tokens(debt));
    }

    /// Takes tokens for `size` bytes if the bucket holds them at `now`; returns whether it did.
    pub fn take_at(&mut self, now: T, size: Bytes) -> bool {
        let _ = self.fill(now);
        let holds = self.holds(size);
        if holds {
            self.take(size);
        }
        holds
    }

    /// Returns tokens for `size` bytes to the bucket, which were taken and not used.
    pub fn give_back(&mut self, size: Bytes) {
        let _ = self.add(Tokens(tokens(size).cast_unsigned()));
    }

    /// Returns the instant at which the bucket will hold tokens for `size` bytes, or be full if it
    /// is smaller; `None` if it does now. The instant is rounded up to the unit of the clock.
    #[inline]
    pub fn not_before(&self, size: Bytes) -> Option<T> {
        let missing = tokens(size).min(self.burst) - self.tokens;
        (missing > 0).then(|| {
            let wait = missing.cast_unsigned().div_ceil(self.rate.bits_per_second().into());
            self.updated.after(wait)
        })
    }
}

/// An amount of tokens that moves from bucket to bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Tokens(u128);

const fn tokens(size: Bytes) -> i128 {
    size.get() as i128 * BYTE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A step of a bucket's user: picoseconds or nanoseconds that pass, and bytes that it wants.
    fn steps() -> impl Strategy<Value = Vec<(u64, u64)>> {
        let gap = prop_oneof![Just(0), 0..5_000_u64, 0..u64::MAX / 200];
        prop::collection::vec((gap, 0..3_000_u64), 99)
    }

    /// Takes what the bucket holds. Returns the instants and sizes that were granted.
    fn granted<T: Instant>(
        bucket: &mut TokenBucket<T>,
        steps: &[(u64, u64)],
        unit: u128,
    ) -> Vec<(u128, u128)> {
        let (mut at, mut all) = (0, Vec::new());
        for &(gap, size) in steps {
            at += u128::from(gap) * unit;
            if bucket.take_at(T::ZERO.after(at), Bytes::new(size)) {
                all.push((at, size.into()));
            }
        }
        all
    }

    /// Returns whether no interval between grants has more than the burst and what the rate adds.
    fn conforms(grants: &[(u128, u128)], rate: u64, burst: u64) -> bool {
        (0..grants.len()).all(|first| {
            let mut taken = 0;
            grants[first..].iter().all(|(at, size)| {
                taken += size * BYTE.cast_unsigned();
                let added = u128::from(rate) * (at - grants[first].0);
                taken <= u128::from(burst) * BYTE.cast_unsigned() + added
            })
        })
    }

    proptest! {
        #[test]
        fn no_interval_has_more_than_burst_and_rate(
            rate in 1..2_000_000_000_u64, burst in 0..5_000_u64, steps in steps(),
        ) {
            let (bits, size) = (Rate::new(rate).unwrap(), Bytes::new(burst));
            let grants = granted(&mut TokenBucket::<Time>::new(bits, size), &steps, 1);
            prop_assert!(conforms(&grants, rate, burst));
            let grants = granted(&mut TokenBucket::<u64>::new(bits, size), &steps, 1_000);
            prop_assert!(conforms(&grants, rate, burst));
        }

        #[test]
        fn not_before_is_the_first_instant_that_suffices(
            rate in 1..u64::MAX, burst in 0..1_u64 << 40, over in 0..1_u64 << 20, size: u64,
        ) {
            let mut bucket = TokenBucket::<u64>::new(Rate::new(rate).unwrap(), Bytes::new(burst));
            bucket.take(Bytes::new(burst + over));
            let size = Bytes::new(size % (burst + 1));
            let at = bucket.not_before(size).filter(|at| *at < u64::MAX);
            if let Some(at) = at {
                let (mut early, mut then) = (bucket.clone(), bucket);
                let _ = early.fill(at - 1);
                prop_assert!(!early.holds(size));
                let _ = then.fill(at);
                prop_assert!(then.holds(size) && then.not_before(size).is_none());
            }
        }

        #[test]
        fn what_is_given_back_was_not_taken(
            rate in 1..u64::MAX, burst in 0..u64::MAX, taken: u64, back: u64,
        ) {
            let back = Bytes::new(back.min(taken));
            let used = Bytes::new(taken - back.get());
            let mut one = TokenBucket::<u64>::new(Rate::new(rate).unwrap(), Bytes::new(burst));
            let mut other = one.clone();
            one.take(Bytes::new(taken));
            one.give_back(back);
            other.take(used);
            prop_assert_eq!((one.tokens, one.is_full()), (other.tokens, used == Bytes::new(0)));
            prop_assert_eq!(one.available().get(), burst.saturating_sub(used.get()));
            one.give_back(Bytes::new(u64::MAX));
            prop_assert!(one.is_full());
        }
    }

    #[test]
    fn a_clock_that_goes_back_adds_nothing() {
        let mut bucket = TokenBucket::<u64>::new(Rate::new(8).unwrap(), Bytes::new(10));
        bucket.take(Bytes::new(10));
        let second = 1_000_000_000;
        for now in [5, 1, 5, 2, 5].map(|seconds| seconds * second) {
            let _ = bucket.fill(now);
        }
        assert_eq!(bucket.available().get(), 5);
        // More than the 213 days of a `Time`.
        assert!(bucket.take_at(400 * 86_400 * second, Bytes::new(10)));
        assert_eq!(bucket.not_before(Bytes::new(1)), Some((400 * 86_400 + 1) * second));
        let _ = bucket.fill(u64::MAX);
        assert!(bucket.is_full());
    }
}
