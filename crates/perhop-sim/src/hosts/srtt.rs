//! Times at which smoothed round-trip times are read.

use perhop_core::Time;
use perhop_measure::SRTT_EVERY;

/// Readings of a sender's smoothed round-trip time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SrttReadings(Time);

impl SrttReadings {
    /// No reading yet.
    pub const NONE: Self = Self(Time::ZERO);

    /// Returns `true` if a new sample is to be read: once in each multiple of [`SRTT_EVERY`].
    #[inline]
    pub fn is_due(&mut self, now: Time) -> bool {
        let due = now >= self.0;
        if due {
            let every = SRTT_EVERY.as_picos();
            self.0 = Time::from_picos((now.as_picos() / every + 1) * every);
        }
        due
    }
}
