//! The clock of the engine.

use nix::time::{ClockId, clock_gettime};
use perhop_core::Time;

const PICOS_PER_NANO: u64 = 1_000;

/// Returns the monotonic clock (clock_gettime(2)), in nanoseconds.
///
/// # Panics
/// If the kernel has no such clock.
pub fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has it");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// The clock of an emulation: it is zero at an instant of the monotonic clock, and before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub zero: u64,
}

impl Clock {
    pub fn now(self) -> Time {
        Time::from_picos(monotonic().saturating_sub(self.zero).saturating_mul(PICOS_PER_NANO))
    }

    /// Returns the time until the clock shows `at`, in nanoseconds; zero if it has.
    pub fn until(self, at: Time) -> u64 {
        let due = self.zero.saturating_add(at.as_picos().div_ceil(PICOS_PER_NANO));
        due.saturating_sub(monotonic())
    }
}
