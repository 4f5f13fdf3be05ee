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

/// `struct sched_attr` of sched_setattr(2), as first published.
#[repr(C)]
struct Scheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// The shortest slice that there is, in nanoseconds.
const SHORT_SLICE: u64 = 100_000;

/// Has the kernel wake the calling thread when it asked for it, not up to 50 µs later
/// (`PR_SET_TIMERSLACK`, prctl(2)), and let it go before threads that want to run for longer: it asks
/// for a short slice, which anybody may (Linux 6.12; sched_setattr(2), `sched_runtime`). An older
/// kernel takes no notice.
///
/// On request, and where its user may have that, the thread goes before all that do not compute in real time
/// (`SCHED_FIFO`, sched(7)), with the least priority of those that do. Says whether it does.
pub(crate) fn be_prompt(real_time: bool) -> bool {
    // SAFETY: takes numbers.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let scheduling = Scheduling {
        size: std::mem::size_of::<Scheduling>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        nice,
        priority: 0,
        runtime: SHORT_SLICE,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the first takes numbers, the second reads as much as the structure says that it has.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64);
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const scheduling, 0);
    }
    if !real_time {
        return false;
    }
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads a structure that lives until the call returns.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const least) == 0 }
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
