//! Clocks, and how threads are woken.

use std::io;

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
    read(ClockId::CLOCK_REALTIME)
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
