//! A token bucket in exact arithmetic.

use perhop_core::{Bytes, Duration, Rate, Time};

/// Token units per byte: a token is 10⁻¹² bits, the amount that 1 bit/s adds in a picosecond.
const BYTE: i128 = 8_000_000_000_000;

/// A bucket that holds `burst` bytes, is full at first, and fills at `rate`. Nothing is rounded, so
/// that no more than `burst + rate · t` is taken in any time t while the bucket is not overdrawn.
///
/// The bucket may be overdrawn: a shaper without a burst sends a packet first and waits afterwards.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: Rate,
    burst: i128,
    tokens: i128,
    updated: Time,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        let burst = tokens(burst);
        Self { rate, burst, tokens: burst, updated: Time::ZERO }
    }

    /// Adds the tokens that have arrived until `now`, which is not before the last call; returns
    /// those that overflow.
    #[inline]
    pub fn fill(&mut self, now: Time) -> Tokens {
        let elapsed = u128::from(now.since(self.updated).as_picos());
        self.updated = now;
        self.add(Tokens(elapsed * u128::from(self.rate.bits_per_second())))
    }

    /// Changes rate and burst from `now` on; returns the tokens that overflow. The bucket keeps its
    /// tokens up to the new burst.
    pub fn set(&mut self, now: Time, rate: Rate, burst: Bytes) -> Tokens {
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

    /// Returns `true` if the bucket holds tokens for `size` bytes.
    #[inline]
    pub fn holds(&self, size: Bytes) -> bool {
        self.tokens >= tokens(size)
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

    /// Returns the instant at which the bucket will hold tokens for `size` bytes, or be full if it
    /// is smaller; `None` if it does now. The instant is rounded up to a picosecond.
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
