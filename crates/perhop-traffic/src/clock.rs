//! The scenario's clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use perhop_core::{Duration, Time};

use perhop_socket::{Nanos, monotonic, realtime, sleep_until};

pub(crate) const PICOS_PER_NANO: u64 = 1_000;
/// Longest sleep of a thread before it checks whether the run has ended.
const MAX_SLEEP: Nanos = 50_000_000;

/// The clock of a run: its zero is an instant of the monotonic clock. It also holds the end of the
/// run.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    zero: AtomicU64,
    over: AtomicBool,
}

impl Clock {
    /// Sets the start of the scenario to an instant of the monotonic clock.
    pub fn start(&self, zero: Nanos) {
        self.zero.store(zero, Ordering::Relaxed);
    }

    fn zero(&self) -> Nanos {
        self.zero.load(Ordering::Relaxed)
    }

    /// Returns the nanoseconds since the start of the scenario; zero before it.
    pub fn now(&self) -> Nanos {
        self.at_instant(monotonic())
    }

    /// Returns the instant of the monotonic clock at which this clock shows `at`.
    pub fn instant(&self, at: Nanos) -> Nanos {
        self.zero().saturating_add(at)
    }

    /// Returns the time of this clock at an instant of the monotonic clock.
    pub fn at_instant(&self, instant: Nanos) -> Nanos {
        instant.saturating_sub(self.zero())
    }

    /// Returns the instant of the monotonic clock at which this clock shows `at`, but at most
    /// [`MAX_SLEEP`] from now, so that no thread sleeps longer.
    pub fn wake(&self, at: Nanos) -> Nanos {
        self.instant(at).min(monotonic() + MAX_SLEEP)
    }

    /// Sleeps until the scenario begins, or the run ends. Before the start, [`now`](Self::now) is
    /// zero, at which traffic may already be due.
    pub fn await_zero(&self) {
        while !self.is_over() && monotonic() < self.zero() {
            self.sleep_until(0);
        }
    }

    /// Sleeps until this clock shows `at`, but no longer than [`MAX_SLEEP`].
    pub fn sleep_until(&self, at: Nanos) {
        sleep_until(self.wake(at));
    }

    /// Returns the time of this clock at which the real-time clock showed `stamp`, a recent
    /// instant.
    pub fn at_stamp(&self, stamp: Nanos) -> Time {
        let ago = realtime().saturating_sub(stamp);
        time(self.now().saturating_sub(ago))
    }

    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Returns an instant of the scenario from nanoseconds.
pub(crate) fn time(nanos: Nanos) -> Time {
    Time::from_picos(nanos.saturating_mul(PICOS_PER_NANO))
}

/// Returns a duration from nanoseconds.
pub(crate) fn duration(nanos: Nanos) -> Duration {
    Duration::from_picos(nanos.saturating_mul(PICOS_PER_NANO))
}

/// Returns picoseconds in nanoseconds, rounded up, so that nothing is early.
pub(crate) fn nanos(picos: u64) -> Nanos {
    picos.div_ceil(PICOS_PER_NANO)
}
