//! Clocks.

#![allow(unsafe_code)]

use std::io;

/// Nanoseconds of a clock.
pub(crate) type Nanos = u64;

const PER_SECOND: u64 = 1_000_000_000;

fn read(clock: libc::clockid_t) -> Nanos {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec to write to. Both clocks exist, so that the call cannot fail.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * PER_SECOND + now.tv_nsec as u64
}

/// The clock that nobody sets, by which a run is timed.
pub(crate) fn monotonic() -> Nanos {
    read(libc::CLOCK_MONOTONIC)
}

/// The clock that the kernel stamps packets with.
pub(crate) fn realtime() -> Nanos {
    read(libc::CLOCK_REALTIME)
}

/// Sleeps until the monotonic clock shows `at`, or a signal comes.
pub(crate) fn sleep_until(at: Nanos) {
    let until = libc::timespec {
        tv_sec: (at / PER_SECOND) as libc::time_t,
        tv_nsec: (at % PER_SECOND) as libc::c_long,
    };
    let flags = libc::TIMER_ABSTIME;
    // SAFETY: `until` is a valid timespec; the remaining time is not asked for.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, flags, &until, std::ptr::null_mut()) };
}

/// Has the kernel wake the calling thread when it asked for it, not up to 50 µs later
/// (`PR_SET_TIMERSLACK`, prctl(2)).
pub(crate) fn spare_timers() {
    // SAFETY: takes a number.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}

/// Lets this process have as many files as it may ask for. Says how many that is.
pub(crate) fn unlimit_files() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is an rlimit to write to.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is a valid rlimit.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
        0 => Ok(limit.rlim_cur),
        _ => Err(io::Error::last_os_error()),
    }
}
