//! The scenario's clock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use perhop_core::{Duration, Time};

use perhop_socket::{Nanos, monotonic, realtime, sleep_until};

pub(crate) const PICOS_PER_NANO: u64 = 1_000;
/// How long a thread sleeps at most before it looks whether it is to end.
const NAP: Nanos = 50_000_000;

/// The clock of a run: its zero is an instant of the monotonic clock. It says, too, when all is
/// over.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    zero: AtomicU64,
    over: AtomicBool,
}

impl Clock {
    /// The scenario begins at this instant of the monotonic clock.
    pub fn start(&self, zero: Nanos) {
        self.zero.store(zero, Ordering::Relaxed);
    }

    fn zero(&self) -> Nanos {
        self.zero.load(Ordering::Relaxed)
    }

    /// Nanoseconds since the scenario began; zero before.
    pub fn now(&self) -> Nanos {
        monotonic().saturating_sub(self.zero())
    }

    /// The instant of the monotonic clock at which this clock shows `at`, or soon, so that nobody
    /// sleeps for long.
    pub fn wake(&self, at: Nanos) -> Nanos {
        self.zero().saturating_add(at).min(monotonic() + NAP)
    }

    /// Sleep until the scenario begins, or all is over: before, the clock shows its zero, at which
    /// something may be due.
    pub fn await_zero(&self) {
        while !self.is_over() && monotonic() < self.zero() {
            self.sleep_until(0);
        }
    }

    /// Sleeps until it shows `at`, or for a while.
    pub fn sleep_until(&self, at: Nanos) {
        sleep_until(self.wake(at));
    }

    /// What this clock showed when the real-time clock showed `stamp`, a moment ago.
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

/// An instant of the scenario.
pub(crate) fn time(nanos: Nanos) -> Time {
    Time::from_picos(nanos.saturating_mul(PICOS_PER_NANO))
}

/// A length of time.
pub(crate) fn duration(nanos: Nanos) -> Duration {
    Duration::from_picos(nanos.saturating_mul(PICOS_PER_NANO))
}

/// An instant or a length of time in nanoseconds, rounded up: nothing is early.
pub(crate) fn nanos(picos: u64) -> Nanos {
    picos.div_ceil(PICOS_PER_NANO)
}
