//! Time, rates and sizes.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

use thiserror::Error;

const PICOS_PER_SECOND: u64 = 1_000_000_000_000;
const BITS_PER_BYTE: u64 = 8;

/// An instant on a run's clock: picoseconds since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
pub struct Time(u64);

impl Time {
    /// The beginning of the run.
    pub const ZERO: Self = Self(0);
    /// Later than every event; stands for "never".
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the instant `picos` picoseconds after the beginning.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }

    /// Picoseconds since the beginning.
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// Seconds since the beginning, rounded to the nearest `f64`.
    pub fn as_secs_f64(self) -> f64 {
        self.since(Self::ZERO).as_secs_f64()
    }

    /// Returns the time from `earlier` to `self`; zero if `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    /// Saturates at [`Time::MAX`].
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

/// A length of time in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
pub struct Duration(u64);

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any run.
    pub const MAX: Self = Self(u64::MAX);

    /// `picos` picoseconds.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }

    /// `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000_000)
    }

    /// `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000_000)
    }

    /// `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * PICOS_PER_SECOND)
    }

    /// Picoseconds.
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// Seconds, rounded to the nearest `f64`.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PICOS_PER_SECOND as f64
    }
}

impl Add for Duration {
    type Output = Self;
    /// Saturates at [`Duration::MAX`].
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Duration {
    type Output = Self;
    /// Zero if `other` is longer.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;

    fn mul(self, factor: u64) -> Self {
        Self(self.0 * factor)
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    /// Saturates at [`Duration::MAX`].
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    /// Rounds down.
    fn div(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
pub struct Bytes(u64);

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// Stands for "no limit".
    pub const MAX: Self = Self(u64::MAX);

    /// `count` bytes.
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// Returns the number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::ZERO, Add::add)
    }
}

impl Div<Rate> for Bytes {
    type Output = Duration;

    /// Returns the time that the bytes take at `rate`, rounded up to a picosecond, so that nothing
    /// is sent faster than its rate. Saturates at [`Duration::MAX`].
    #[allow(clippy::suspicious_arithmetic_impl)] // seconds become picoseconds
    fn div(self, rate: Rate) -> Duration {
        // Packets take the first branch, because a u128 division costs several times as much.
        const PICOBITS: u64 = BITS_PER_BYTE * PICOS_PER_SECOND;
        match self.0.checked_mul(PICOBITS) {
            Some(product) => Duration(product.div_ceil(rate.0)),
            None => {
                let span = (u128::from(self.0) * u128::from(PICOBITS)).div_ceil(rate.0.into());
                Duration(span.try_into().unwrap_or(u64::MAX))
            }
        }
    }
}

/// Zero was given for a quantity that is never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("must not be zero")]
pub struct Zero;

/// A rate in bits per second, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(try_from = "u64", into = "u64"))]
pub struct Rate(u64);

impl Rate {
    /// `bits_per_second`, or `None` if that is zero.
    pub const fn new(bits_per_second: u64) -> Option<Self> {
        match bits_per_second {
            0 => None,
            bps => Some(Self(bps)),
        }
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
}

impl Mul<Duration> for Rate {
    type Output = Bytes;
    /// Returns the whole bytes that this rate carries in `span`, rounded down; saturates.
    fn mul(self, span: Duration) -> Bytes {
        const PICOBITS: u128 = (BITS_PER_BYTE as u128) * (PICOS_PER_SECOND as u128);
        let bytes = u128::from(self.0) * u128::from(span.0) / PICOBITS;
        Bytes(bytes.try_into().unwrap_or(u64::MAX))
    }
}

impl TryFrom<u64> for Rate {
    type Error = Zero;

    fn try_from(bits_per_second: u64) -> Result<Self, Zero> {
        Self::new(bits_per_second).ok_or(Zero)
    }
}

impl From<Rate> for u64 {
    fn from(rate: Rate) -> Self {
        rate.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bit/s", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(bps: u64) -> Rate {
        Rate::new(bps).unwrap()
    }

    #[test]
    fn a_full_frame_at_100_gigabit_is_exact() {
        assert_eq!(Bytes::new(1500) / rate(100_000_000_000), Duration::from_picos(120_000));
    }

    #[test]
    fn transmission_time_rounds_up() {
        assert_eq!(Bytes::new(1) / rate(3), Duration::from_picos(2_666_666_666_667));
    }

    #[test]
    fn large_transfers_leave_the_fast_path_without_a_jump() {
        // 2^61 picobits straddle the two branches of the division.
        let edge = u64::MAX / (8 * PICOS_PER_SECOND);
        let below = Bytes::new(edge) / rate(1_000_000);
        let above = Bytes::new(edge + 1) / rate(1_000_000);
        assert_eq!(above.as_picos() - below.as_picos(), 8_000_000);
    }

    #[test]
    fn a_rate_carries_what_its_transmission_time_says() {
        let rate = rate(155_520_000);
        for bytes in [1, 40, 1500, 65_535].map(Bytes::new) {
            assert_eq!(rate * (bytes / rate), bytes);
        }
    }

    #[test]
    fn a_zero_rate_cannot_be_made() {
        assert_eq!(Rate::new(0), None);
    }
}
