//! RACK (RFC 8985): a segment is lost if one that was sent after it has arrived and the reordering
//! window has passed. This is RACK's state of the path; the scoreboard has the segments.

use perhop_core::{Duration, Time};

use crate::Offset;
use crate::scoreboard::{DUPLICATE_THRESHOLD, Newest};

/// Number of recoveries for which a widened window stays (section 5, RACK.reo_wnd_persist).
const PERSIST: u32 = 16;

#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// Of the segments that have arrived, the last one sent, and its round-trip time.
    pub newest: Option<Newest>,
    /// Minimum round-trip time of the connection.
    pub min_rtt: Duration,
    /// Time at which the reordering window of a segment ends.
    pub deadline: Time,
    /// True if a segment has arrived after one that was sent later.
    reordering_seen: bool,
    /// Reordering window, in quarters of `min_rtt`.
    quarters: u64,
    /// Number of recoveries until it shrinks again.
    persist: u32,
    /// End of the round for which the window was widened last.
    widened_until: Option<Offset>,
}

impl Rack {
    pub fn new() -> Self {
        Self {
            newest: None,
            min_rtt: Duration::MAX,
            deadline: Time::MAX,
            reordering_seen: false,
            quarters: 1,
            persist: 0,
            widened_until: None,
        }
    }

    /// Takes an acknowledgement (section 6.2, steps 1 to 3).
    pub fn on_ack(&mut self, rtt: Option<Duration>, newest: Option<Newest>, reordered: bool) {
        if let Some(rtt) = rtt {
            self.min_rtt = self.min_rtt.min(rtt);
        }
        if let Some(newest) = newest
            && self.newest.is_none_or(|known| newest.is_after(known))
        {
            self.newest = Some(newest);
        }
        self.reordering_seen |= reordered;
    }

    /// Widens the window by a quarter of the minimum round-trip time, once a round, after a
    /// duplicate: a segment was retransmitted needlessly (step 4, first half).
    pub fn on_duplicate(&mut self, una: Offset, end: Offset) {
        if self.widened_until.is_some_and(|until| una < until) {
            return;
        }
        self.widened_until = Some(end);
        self.quarters += 1;
        self.persist = PERSIST;
    }

    /// Counts the end of a recovery; after sixteen without a duplicate the window is narrow again.
    pub fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// Returns the reordering window (step 4, second half). Until reordering is detected, three
    /// SACKed segments or recovery make it zero; after that they do not.
    pub fn window(&self, in_recovery: bool, sacked: usize, smoothed: Duration) -> Duration {
        let certain = in_recovery || sacked >= DUPLICATE_THRESHOLD;
        if !self.reordering_seen && certain {
            return Duration::ZERO;
        }
        (self.min_rtt / 4 * self.quarters).min(smoothed)
    }

    /// Returns the newest arrival, and the time before which transmissions are overdue, with a
    /// reordering window of `window`.
    pub fn overdue(&self, now: Time, window: Duration) -> Option<(Newest, Time)> {
        let newest = self.newest?;
        let age = newest.rtt + window;
        let limit = now.as_picos().checked_sub(age.as_picos())?;
        Some((newest, Time::from_picos(limit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scoreboard::{Progress, Scoreboard};

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn rack(min_rtt: u64) -> Rack {
        let mut rack = Rack::new();
        rack.on_ack(Some(MS(min_rtt)), None, false);
        rack
    }

    #[test]
    fn duplicates_count_until_reordering_is_seen() {
        let mut rack = rack(40);
        assert_eq!(rack.window(false, 2, MS(50)), MS(10));
        assert_eq!(rack.window(false, 3, MS(50)), Duration::ZERO);
        assert_eq!(rack.window(true, 0, MS(50)), Duration::ZERO);
        rack.on_ack(None, None, true);
        assert_eq!(rack.window(true, 3, MS(50)), MS(10));
    }

    #[test]
    fn a_duplicate_widens_the_window_once_a_round_up_to_the_smoothed_time() {
        let mut rack = rack(40);
        rack.on_ack(None, None, true);
        rack.on_duplicate(100, 200);
        rack.on_duplicate(150, 250);
        assert_eq!(rack.window(false, 0, MS(100)), MS(20));
        rack.on_duplicate(200, 300);
        assert_eq!(rack.window(false, 0, MS(100)), MS(30));
        assert_eq!(rack.window(false, 0, MS(25)), MS(25));
        for _ in 0..15 {
            rack.on_recovered();
        }
        assert_eq!(rack.window(false, 0, MS(100)), MS(30));
        rack.on_recovered();
        assert_eq!(rack.window(false, 0, MS(100)), MS(10));
    }

    /// Transmissions at 0, 1 and 2 ms that arrive at 10 ms.
    fn arrivals() -> [Option<Newest>; 3] {
        let at = |ms| Time::ZERO + MS(ms);
        let mut board = Scoreboard::by_time();
        (0..3).for_each(|ms| _ = board.send(100, at(ms)));
        [0, 1, 2].map(|segment| {
            let mut progress = Progress::default();
            board.sack(100 * segment, 100 * segment + 100, at(10), &mut progress);
            progress.newest
        })
    }

    /// Section 6.2, steps 1, 2 and 5: the last one sent counts, and what is overdue has waited for
    /// its round-trip time, 9 ms, and the window.
    #[test]
    fn transmissions_are_overdue_after_a_round_trip_and_the_window() {
        let [first, second, third] = arrivals();
        let mut rack = rack(40);
        let at = |ms| Time::ZERO + MS(ms);
        assert_eq!(rack.overdue(at(100), MS(3)), None);
        rack.on_ack(Some(MS(50)), second, false);
        assert_eq!(rack.min_rtt, MS(40));
        rack.on_ack(Some(MS(39)), first, false);
        rack.on_ack(None, None, false);
        assert_eq!((rack.newest, rack.min_rtt), (second, MS(39)));
        assert_eq!(rack.overdue(at(100), MS(3)), second.map(|newest| (newest, at(88))));
        assert_eq!(rack.overdue(at(12), MS(3)), second.map(|newest| (newest, at(0))));
        assert_eq!(rack.overdue(at(11), MS(3)), None);
        rack.on_ack(None, third, false);
        assert_eq!(rack.newest, third);
    }

    /// What was seen is not forgotten, and recoveries without a duplicate narrow nothing.
    #[test]
    fn reordering_stays() {
        let mut rack = rack(40);
        rack.on_ack(None, None, true);
        rack.on_ack(None, None, false);
        rack.on_recovered();
        assert_eq!(rack.window(true, 3, MS(50)), MS(10));
        rack.on_duplicate(0, 100);
        assert_eq!(rack.window(true, 3, MS(50)), MS(20));
    }
}
