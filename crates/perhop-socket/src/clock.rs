//! Clocks, and how threads are woken.

use std::io;
use std::sync::OnceLock;

use nix::sys::prctl::set_timerslack;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

use crate::raw;

/// Nanoseconds of a clock.
pub type Nanos = u64;

const PER_SECOND: u64 = 1_000_000_000;

fn read(clock: ClockId) -> Nanos {
    let now = clock_gettime(clock).expect("every kernel has both clocks");
    now.tv_sec() as u64 * PER_SECOND + now.tv_nsec() as u64
}

/// The clock that nobody sets, by which a run is timed.
pub fn monotonic() -> Nanos {
    read(ClockId::CLOCK_MONOTONIC)
}

/// The clock that the kernel stamps packets with.
pub fn realtime() -> Nanos {
    put_off(read(ClockId::CLOCK_REALTIME))
}

/// An error of the real-time clock: nanoseconds at an instant of it, and their growth in ppb.
static PUT_OFF: OnceLock<(Nanos, i64, i64)> = OnceLock::new();

/// Puts the real-time clock off for this process, and the kernel's time stamps with it: by an
/// offset in nanoseconds, which grows by a rate in ppb from now on. For tests of what measures
/// clocks. Only the first call of a process counts.
pub fn put_clock_off(offset: i64, rate: i64) {
    let _ = PUT_OFF.set((read(ClockId::CLOCK_REALTIME), offset, rate));
}

/// What the clock shows, with the error that it was given.
pub(crate) fn put_off(at: Nanos) -> Nanos {
    let Some(&(since, offset, rate)) = PUT_OFF.get() else { return at };
    let age = i128::from(at) - i128::from(since);
    let drift = (age * i128::from(rate) / i128::from(PER_SECOND)) as i64;
    at.wrapping_add_signed(offset).wrapping_add_signed(drift)
}

/// What the kernel knows of the real-time clock (adjtimex(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockQuality {
    /// Whether a program keeps it synchronised with UTC.
    pub synchronized: bool,
    /// Its largest error, in nanoseconds.
    pub error: Nanos,
}

/// Asks the kernel how good the real-time clock is.
pub fn clock_quality() -> ClockQuality {
    let (synchronized, error) = raw::clock_status();
    let synchronized = synchronized && PUT_OFF.get().is_none();
    ClockQuality { synchronized, error: error.saturating_mul(1_000) }
}

/// Sleeps until the monotonic clock shows `at`, or a signal comes.
pub fn sleep_until(at: Nanos) {
    let until = TimeSpec::new((at / PER_SECOND) as i64, (at % PER_SECOND) as i64);
    let flags = ClockNanosleepFlags::TIMER_ABSTIME;
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &until);
}

/// The shortest slice that there is, in nanoseconds.
const SHORT_SLICE: u64 = 100_000;

/// Has the kernel wake the calling thread when it asked for it, not up to 50 µs later
/// (`PR_SET_TIMERSLACK`, prctl(2)), and let it go before threads that want to run for longer: it
/// asks for a short slice, which anybody may (Linux 6.12; sched_setattr(2), `sched_runtime`). An
/// older kernel takes no notice.
///
/// With `real_time`, and if the user has the privilege, the thread gets the lowest real-time
/// priority (`SCHED_FIFO`, sched(7)). Returns whether it has it.
pub fn be_prompt(real_time: bool) -> bool {
    let _ = set_timerslack(1);
    raw::set_scheduling(SHORT_SLICE, None);
    real_time && raw::set_scheduling(SHORT_SLICE, Some(1))
}

/// Lets this process have as many files as it may ask for. Says how many that is.
pub fn unlimit_files() -> io::Result<u64> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In one test, because a process puts its clock off once.
    #[test]
    fn a_clock_is_put_off_once_and_drifts() {
        let before = realtime();
        put_clock_off(-3_200_000_000, 50_000);
        put_clock_off(7, 7);
        let away = before - realtime();
        assert!((3_100_000_000..3_200_000_000).contains(&away), "{away}");
        let (since, ..) = *PUT_OFF.get().unwrap();
        // After 100 s, 50 ppm are 5 ms.
        let later = since + 100 * PER_SECOND;
        assert_eq!(put_off(later), later - 3_200_000_000 + 5_000_000);
        assert!(!clock_quality().synchronized);
    }
}
