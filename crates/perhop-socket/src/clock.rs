//! Clocks, sleeping and scheduling of threads.

use std::io;
use std::sync::OnceLock;

use nix::sys::prctl::set_timerslack;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

use crate::raw;

/// Time of a clock, or a duration, in nanoseconds.
pub type Nanos = u64;

const PER_SECOND: u64 = 1_000_000_000;

fn read(clock: ClockId) -> Nanos {
    let now = clock_gettime(clock).expect("every kernel has both clocks");
    now.tv_sec() as u64 * PER_SECOND + now.tv_nsec() as u64
}

/// Returns the time of the monotonic clock, which times a run. No program can set it.
pub fn monotonic() -> Nanos {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Returns the time of the real-time clock, which the kernel stamps packets with.
pub fn realtime() -> Nanos {
    with_clock_error(read(ClockId::CLOCK_REALTIME))
}

/// Simulated error of the real-time clock: the instant at which it began, the offset in nanoseconds
/// at that instant, and the drift in ppb.
static CLOCK_ERROR: OnceLock<(Nanos, i64, i64)> = OnceLock::new();

/// Simulates an error of the real-time clock and of the kernel's time stamps in this process, for
/// tests of clock estimation: an offset in nanoseconds, and a drift in ppb from now on. Only the
/// first call in a process has an effect.
pub fn simulate_clock_error(offset: i64, rate: i64) {
    let _ = CLOCK_ERROR.set((read(ClockId::CLOCK_REALTIME), offset, rate));
}

/// Adds the simulated error to a time of the real-time clock.
pub(crate) fn with_clock_error(at: Nanos) -> Nanos {
    let Some(&(since, offset, rate)) = CLOCK_ERROR.get() else { return at };
    let age = i128::from(at) - i128::from(since);
    let drift = (age * i128::from(rate) / i128::from(PER_SECOND)) as i64;
    at.wrapping_add_signed(offset).wrapping_add_signed(drift)
}

/// State of the real-time clock (adjtimex(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockQuality {
    /// True if a program keeps it synchronised with UTC.
    pub synchronized: bool,
    /// Maximum error in nanoseconds.
    pub error: Nanos,
}

/// Returns the state of the real-time clock.
pub fn clock_quality() -> ClockQuality {
    let (synchronized, error) = raw::clock_status();
    let synchronized = synchronized && CLOCK_ERROR.get().is_none();
    ClockQuality { synchronized, error: error.saturating_mul(1_000) }
}

/// Sleeps until the monotonic clock reaches `at`, or a signal arrives.
pub fn sleep_until(at: Nanos) {
    let until = TimeSpec::new((at / PER_SECOND) as i64, (at % PER_SECOND) as i64);
    let flags = ClockNanosleepFlags::TIMER_ABSTIME;
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &until);
}

/// Shortest time slice that the scheduler accepts, in nanoseconds.
const SHORT_SLICE: u64 = 100_000;

/// Reduces the wake-up latency of the calling thread. It removes the timer slack of 50 µs
/// (`PR_SET_TIMERSLACK`, prctl(2)) and requests a short time slice, so that the scheduler prefers
/// the thread over those with longer slices (sched_setattr(2), `sched_runtime`; Linux 6.12). The
/// short slice needs no privilege; older kernels ignore it.
///
/// With `real_time`, the thread gets the lowest real-time priority (`SCHED_FIFO`, sched(7)) if the
/// user has the privilege. Returns whether it has the priority.
pub fn reduce_wakeup_latency(real_time: bool) -> bool {
    let _ = set_timerslack(1);
    raw::set_scheduling(SHORT_SLICE, None);
    real_time && raw::set_scheduling(SHORT_SLICE, Some(1))
}

/// Raises the limit of open files of this process to its hard limit, and returns that.
pub fn unlimit_files() -> io::Result<u64> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because only the first call of `simulate_clock_error` in a process has an effect.
    #[test]
    fn a_simulated_clock_error_is_set_once_and_drifts() {
        let before = realtime();
        simulate_clock_error(-3_200_000_000, 50_000);
        simulate_clock_error(7, 7);
        let away = before - realtime();
        assert!((3_100_000_000..3_200_000_000).contains(&away), "{away}");
        let (since, ..) = *CLOCK_ERROR.get().unwrap();
        // After 100 s, 50 ppm are 5 ms.
        let later = since + 100 * PER_SECOND;
        assert_eq!(with_clock_error(later), later - 3_200_000_000 + 5_000_000);
        assert!(!clock_quality().synchronized);
    }
}
