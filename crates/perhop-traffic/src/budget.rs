//! Send budget of a run: its duration, and the allowance of its process.

use crate::allowance::{Allowance, Grant};
use crate::clock::{Clock, nanos};
use crate::live::Limits;
use perhop_socket::Nanos;

/// Send budget of a run. Instants are those of the scenario's clock.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Duration in which sending is allowed.
    duration: Nanos,
    allowance: Allowance,
}

impl Budget {
    pub fn new(limits: Limits) -> Self {
        let duration = limits.duration.map_or(Nanos::MAX, |most| nanos(most.as_picos()));
        Self { duration, allowance: limits.allowance }
    }

    /// Returns the maximum rate in bit/s.
    pub fn rate(&self) -> Option<u64> {
        self.allowance.rate()
    }

    /// Returns whether the duration in which sending is allowed is over.
    pub fn is_over(&self, now: Nanos) -> bool {
        now >= self.duration
    }

    /// Takes up to `most` bytes from the budget, and at least `least`.
    #[inline]
    pub fn take(&self, clock: &Clock, now: Nanos, least: u64, most: u64) -> Grant {
        if self.is_over(now) {
            return Grant::Over;
        }
        match self.allowance.take(clock.instant(now), least, most) {
            Grant::Wait(until) => Grant::Wait(clock.at_instant(until)),
            grant => grant,
        }
    }

    /// Returns to the budget bytes that were taken and not sent.
    pub fn give_back(&self, bytes: u64) {
        self.allowance.give_back(bytes);
    }

    /// Takes a first packet to an address that has proved nothing yet, such as the attempt to
    /// connect. `now` is an instant of the monotonic clock, because the run has not begun. Returns
    /// whether it may be sent.
    pub fn may_begin(&self, now: Nanos) -> bool {
        self.allowance.may_begin(now)
    }

    /// Returns whether probes of `bytes` in total may be sent now; `unproved` of their packets go
    /// to an address that has not proved that it wants data.
    pub fn may_probe(&self, clock: &Clock, now: Nanos, unproved: u64, bytes: u64) -> bool {
        !self.is_over(now) && self.allowance.may_probe(clock.instant(now), unproved, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn a_duration_ends() {
        let duration = Some(perhop_core::Duration::from_millis(5));
        let budget = Budget::new(Limits { duration, ..Limits::default() });
        let clock = Clock::default();
        assert_eq!(budget.take(&clock, 4 * MS, 1, 9), Grant::Bytes(9));
        assert_eq!(budget.take(&clock, 5 * MS, 1, 9), Grant::Over);
        assert!(!budget.may_probe(&clock, 5 * MS, 0, 1));
    }

    #[test]
    fn runs_of_a_process_share_its_allowance() {
        let limits = crate::AllowanceLimits { rate: Some(8_000_000), ..Default::default() };
        let limits = Limits { allowance: Allowance::new(limits), duration: None };
        let (one, other) = (Budget::new(limits.clone()), Budget::new(limits));
        let (early, late) = (Clock::default(), Clock::default());
        early.start(1_000 * MS);
        late.start(1_500 * MS);
        let Grant::Bytes(bytes) = one.take(&early, 500 * MS, 1, 1 << 20) else { panic!() };
        assert_eq!(bytes, 64 << 10);
        let Grant::Wait(until) = other.take(&late, 0, 1, 9) else { panic!("nothing is left") };
        assert_eq!(until, 1_000, "a byte in a microsecond, by the clock of the run");
    }
}
