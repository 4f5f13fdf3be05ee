//! A token bucket in exact arithmetic.

use perhop_core::{Bytes, Duration, Rate, Time};

/// Token units of a byte: a token is 10⁻¹² bits, what 1 bit/s adds in a picosecond.
const BYTE: i128 = 8_000_000_000_000;

/// A bucket that holds `burst` bytes, is full at first, and fills at `rate`. Nothing is rounded, so
/// that no more than `burst + rate · t` is taken in any time t while the bucket stays above zero.
///
/// The bucket may be overdrawn: a shaper without a burst sends and pays afterwards.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: Rate,
    burst: i128,
    tokens: i128,
    updated: Time,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        let burst = tokens(burst);
        Self { rate, burst, tokens: burst, updated: Time::ZERO }
    }

    /// Lets in what has come until `now`, not earlier than the last time; returns what overflows.
    #[inline]
    pub fn fill(&mut self, now: Time) -> Tokens {
        let elapsed = u128::from(now.since(self.updated).as_picos());
        self.updated = now;
        self.add(Tokens(elapsed * u128::from(self.rate.bits_per_second())))
    }

    /// From `now` on, fills at another rate and holds as much as this; returns what overflows on
    /// the way. What it holds it keeps, as far as it has room for it.
    pub fn set(&mut self, now: Time, rate: Rate, burst: Bytes) -> Tokens {
        let overflow = self.fill(now);
        self.rate = rate;
        self.burst = tokens(burst);
        self.tokens = self.tokens.min(self.burst);
        overflow
    }

    /// Lets tokens in from elsewhere; returns what overflows.
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

    /// Whether there are tokens for this many bytes.
    #[inline]
    pub fn holds(&self, size: Bytes) -> bool {
        self.tokens >= tokens(size)
    }

    /// Whether it is not overdrawn.
    #[inline]
    pub fn is_positive(&self) -> bool {
        self.tokens >= 0
    }

    /// Takes tokens out, whether they are there or not.
    #[inline]
    pub fn take(&mut self, size: Bytes) {
        self.tokens -= tokens(size);
    }

    /// When there will be tokens for `size` bytes, or for the full bucket where that is less;
    /// `None` if there are. The instant is rounded up to a picosecond.
    pub fn not_before(&self, size: Bytes) -> Option<Time> {
        let missing = tokens(size).min(self.burst) - self.tokens;
        (missing > 0).then(|| {
            let wait = missing.cast_unsigned().div_ceil(self.rate.bits_per_second().into());
            self.updated + Duration::from_picos(wait.try_into().unwrap_or(u64::MAX))
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
