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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Scheduler;
    use perhop_core::Duration;

    const LTE: Lte = Lte {
        resource_blocks: 100,
        scheduler: Scheduler::RoundRobin,
        bler: 0,
        retries: 3,
        combining: 0,
        request_period: Duration::from_millis(10),
        grant: Duration::from_millis(8),
        reordering: Duration::from_millis(35),
    };

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// Requests are possible in the TTIs 3, 13, 23 and so on. A grant that is under way, or has
    /// begun, needs none.
    #[test]
    fn users_ask_in_their_own_ttis() {
        for (tti, next) in [(0, 3), (3, 3), (4, 13), (12, 13), (13, 13), (14, 23)] {
            assert_eq!(Reports::new(3).grant(at(tti), LTE), at(next), "{tti}");
        }
        assert_eq!(Reports::new(0).grant(at(20), LTE), at(20));
        let mut reports = Reports::new(3);
        reports.report(at(3), LTE, 5);
        for (tti, next) in [(4, 11), (11, 11), (12, 12)] {
            assert_eq!(reports.grant(at(tti), LTE), at(next), "{tti}");
        }
        reports.begin(at(11));
        assert_eq!(reports.grant(at(4), LTE), at(4));
    }

    /// Grants are for the packets that were reported, and begin 8 ms later. What waits beyond them
    /// needs another report; an empty queue needs none.
    #[test]
    fn grants_follow_reports() {
        let mut reports = Reports::new(0);
        reports.report(at(0), LTE, 5);
        reports.begin(at(7));
        assert!(!reports.has_grant());
        reports.begin(at(8));
        for taken in 0..5 {
            assert!(reports.has_grant(), "{taken} of 5");
            reports.take();
            reports.end(1);
            match taken {
                0 => reports.report(at(9), LTE, 4),  // known
                1 => reports.report(at(10), LTE, 4), // one more
                2 => reports.report(at(11), LTE, 3), // known
                _ => {}
            }
        }
        assert!(!reports.has_grant());
        assert_eq!(reports.grant(at(12), LTE), at(18));
        reports.begin(at(17));
        assert!(!reports.has_grant());
        reports.begin(at(18));
        assert!(reports.has_grant());
        // A later report for fewer takes no grant away.
        reports.under_way.push_back((at(19), 2));
        reports.begin(at(19));
        assert!(reports.has_grant());
        // What was granted was dropped.
        reports.report(at(19), LTE, 7);
        reports.end(0);
        assert!(!reports.has_grant());
        assert_eq!(reports.grant(at(21), LTE), at(30), "by a request");
        reports.report(at(30), LTE, 1);
        reports.begin(at(38));
        assert!(reports.has_grant());
        reports.take();
        assert!(!reports.has_grant(), "for one");
    }

    #[test]
    fn ttis_around_an_instant() {
        let millis = 1_000_000_000;
        for (picos, next, present) in
            [(0, 0, 0), (1, 1, 0), (millis - 1, 1, 0), (millis, 1, 1), (millis + 1, 2, 1)]
        {
            let instant = Time::from_picos(picos);
            assert_eq!((aligned(instant), begun(instant)), (at(next), at(present)), "{picos}");
        }
        assert_eq!(aligned(Time::MAX), Time::MAX);
        let mut reports = Reports::new(0);
        reports.report(Time::from_picos(millis / 2), LTE, 1);
        assert_eq!(reports.grant(at(1), LTE), at(9));
    }
}
