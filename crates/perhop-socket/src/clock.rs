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

/// Simulated error of the real-time clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulatedClock {
    /// Offset at the start of the simulation, in nanoseconds.
    pub offset: i64,
    /// Drift from then on, in ppb.
    pub rate: i64,
    /// Maximum error that a simulated program states for the clock, in nanoseconds; `None` for a
    /// clock that is not synchronised.
    pub stated: Option<Nanos>,
}

/// Instant at which the simulation began, and the simulated error.
static CLOCK_ERROR: OnceLock<(Nanos, SimulatedClock)> = OnceLock::new();

/// Simulates an error of the real-time clock and of the kernel's time stamps in this process, for
/// tests of clock estimation. Only the first call in a process has an effect.
pub fn simulate_clock_error(simulated: SimulatedClock) {
    let _ = CLOCK_ERROR.set((read(ClockId::CLOCK_REALTIME), simulated));
}

/// Adds the simulated error to a time of the real-time clock.
pub(crate) fn with_clock_error(at: Nanos) -> Nanos {
    let Some(&(since, SimulatedClock { offset, rate, .. })) = CLOCK_ERROR.get() else { return at };
    let age = i128::from(at) - i128::from(since);
    let drift = (age * i128::from(rate) / i128::from(PER_SECOND)) as i64;
    at.wrapping_add_signed(offset).wrapping_add_signed(drift)
}

/// State of the real-time clock (adjtimex(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockQuality {
    /// True if a program keeps it synchronised with UTC.
    pub synchronized: bool,
    /// Maximum error in nanoseconds, if that program states one.
    pub error: Option<Nanos>,
}

impl ClockQuality {
    /// Error of a clock for which no program states one: what Linux assumes after its start
    /// (`NTP_PHASE_LIMIT`).
    pub const UNKNOWN_ERROR: Nanos = 16 * PER_SECOND;

    /// Interprets the maximum and the estimated error of the kernel, in microseconds.
    ///
    /// chronyd and ntpd set the maximum error to the root distance, which bounds the error if the
    /// servers are right (RFC 5905, section 11.1), and the estimated error, too. The kernel adds
    /// 500 ppm of the time since then. systemd-timesyncd sets both to zero; phc2sys sets the
    /// maximum error to zero and leaves the estimated one at its initial value. Neither is a bound.
    fn of(synchronized: bool, [maximum, estimated]: [u64; 2]) -> Self {
        let error = maximum.saturating_mul(1_000);
        let stated = synchronized && (1..=maximum).contains(&estimated);
        let error = Some(error).filter(|&error| stated && error < Self::UNKNOWN_ERROR);
        Self { synchronized, error }
    }

    /// Returns the error in nanoseconds: [`Self::UNKNOWN_ERROR`] if no program states one.
    pub fn error_or_unknown(&self) -> Nanos {
        self.error.unwrap_or(Self::UNKNOWN_ERROR)
    }
}

/// Returns the state of the real-time clock.
pub fn clock_quality() -> ClockQuality {
    if let Some((_, SimulatedClock { stated, .. })) = CLOCK_ERROR.get() {
        return ClockQuality { synchronized: stated.is_some(), error: *stated };
    }
    let (synchronized, errors) = raw::clock_status();
    ClockQuality::of(synchronized, errors)
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
        let simulated = |offset, rate| SimulatedClock { offset, rate, stated: None };
        simulate_clock_error(simulated(-3_200_000_000, 50_000));
        simulate_clock_error(simulated(7, 7));
        let away = before - realtime();
        assert!((3_100_000_000..3_200_000_000).contains(&away), "{away}");
        let (since, ..) = *CLOCK_ERROR.get().unwrap();
        // After 100 s, 50 ppm are 5 ms.
        let later = since + 100 * PER_SECOND;
        assert_eq!(with_clock_error(later), later - 3_200_000_000 + 5_000_000);
        assert_eq!(clock_quality(), ClockQuality::default());
    }

    #[test]
    fn an_error_counts_if_a_program_states_it() {
        let error = |synchronized, errors| ClockQuality::of(synchronized, errors).error;
        assert_eq!(error(true, [250, 40]), Some(250_000), "chronyd, ntpd");
        assert_eq!(error(true, [250, 0]), None, "systemd-timesyncd, and the kernel's growth since");
        assert_eq!(error(true, [400, 16_000_000]), None, "phc2sys");
        assert_eq!(error(true, [16_000_000, 16_000_000]), None, "nobody yet");
        assert_eq!(error(false, [250, 40]), None);
        assert_eq!(ClockQuality::of(false, [9, 9]).error_or_unknown(), 16 * PER_SECOND);
    }
}
