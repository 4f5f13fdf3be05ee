//! Requests and reports by which a base station learns what a user has to send.

use std::collections::VecDeque;

use perhop_core::Time;

use super::Lte;

/// What the base station knows of a user's queue, in numbers of packets since the beginning.
#[derive(Debug)]
pub(super) struct Reports {
    /// Packets that have left the queue.
    taken: u64,
    /// Packets for which there are grants.
    granted: u64,
    /// Numbers that were reported, and when their grants begin.
    under_way: VecDeque<(Time, u64)>,
    /// Number of the first TTI in which the user may request a grant.
    offset: u64,
}

impl Reports {
    /// Creates the reports of a user that may request a grant in the TTI with this number, and then
    /// in every period.
    pub const fn new(offset: u64) -> Self {
        Self { taken: 0, granted: 0, under_way: VecDeque::new(), offset }
    }

    /// Begins a TTI: grants begin.
    pub fn begin(&mut self, now: Time) {
        while let Some(&(at, packets)) = self.under_way.front()
            && at <= now
        {
            self.granted = self.granted.max(packets);
            self.under_way.pop_front();
        }
    }

    /// Ends a TTI after which this number of packets wait.
    pub fn end(&mut self, waiting: u64) {
        if waiting == 0 {
            // Packets that were dropped from the queue need no grants.
            self.granted = self.taken;
            self.under_way.clear();
        }
    }

    /// Returns `true` if there is a grant for another packet.
    pub fn has_grant(&self) -> bool {
        self.granted > self.taken
    }

    /// Notes that a packet has left the queue.
    pub fn take(&mut self) {
        self.taken += 1;
    }

    /// Returns the begin of the first TTI, from `tti` on, that has a grant, or else in which the
    /// user may request one.
    pub fn grant(&self, tti: Time, config: Lte) -> Time {
        if self.has_grant() {
            return tti;
        }
        if let Some((at, _)) = self.under_way.front() {
            return tti.max(*at);
        }
        let period = config.request_ttis();
        let number = tti.as_picos() / Lte::TTI.as_picos();
        let passed = (number + period - self.offset) % period;
        tti + Lte::TTI * ((period - passed) % period)
    }

    /// Reports the number of packets that wait, for which there is a grant later.
    pub fn report(&mut self, now: Time, config: Lte, waiting: u64) {
        let known = self.under_way.back().map_or(self.granted, |last| last.1);
        if self.taken + waiting > known {
            self.under_way.push_back((aligned(now + config.grant), self.taken + waiting));
        }
    }
}

/// Returns the begin of the first TTI that does not begin before an instant.
pub(super) fn aligned(at: Time) -> Time {
    let tti = Lte::TTI.as_picos();
    at.as_picos().div_ceil(tti).checked_mul(tti).map_or(Time::MAX, Time::from_picos)
}

/// Returns the begin of the TTI at an instant.
pub(super) fn begun(at: Time) -> Time {
    let tti = Lte::TTI.as_picos();
    Time::from_picos(at.as_picos() / tti * tti)
}
