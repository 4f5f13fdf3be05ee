//! The clocks of agents, as exchanges over their control connections tell them.

use perhop_measure::{ClockEstimator, ClockModel, Exchange};
use perhop_socket::Nanos;

use crate::frames::PeerOffset;

/// What is known of an agent's clocks.
#[derive(Debug)]
pub struct PeerClock {
    /// Its real-time clock against our monotonic clock.
    real: ClockEstimator,
    /// The exchange that took the least time since this was last reset.
    best: Option<MonotonicOffset>,
    /// Exchanges since this was last reset.
    pub exchanges: usize,
}

/// How far an agent's monotonic clock is ahead of ours.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicOffset {
    /// The offset in nanoseconds.
    pub ahead: i64,
    /// Its greatest error in nanoseconds: half of what the exchange took on the way.
    pub bound: u64,
}

impl PeerClock {
    /// Nothing is known.
    pub fn new() -> Self {
        Self { real: ClockEstimator::new(ClockModel::default()), best: None, exchanges: 0 }
    }

    /// Finds the offset of the monotonic clock anew.
    pub fn reset(&mut self) {
        self.best = None;
        self.exchanges = 0;
    }

    /// How far the monotonic clock is ahead.
    pub fn monotonic(&self) -> Option<MonotonicOffset> {
        self.best
    }

    /// Takes note of an exchange: sent here, received there, answered there, received here, by the
    /// monotonic clock of each (RFC 5905, section 8).
    pub fn add(&mut self, [sent, received, replied, returned]: [Nanos; 4], realtime_ahead: i64) {
        if returned < sent || replied < received {
            return;
        }
        self.exchanges += 1;
        let way = (returned - sent).saturating_sub(replied - received);
        let ahead =
            i128::from(received) - i128::from(sent) + i128::from(replied) - i128::from(returned);
        let bound = way.div_ceil(2);
        if let Ok(ahead) = i64::try_from(ahead / 2)
            && self.best.is_none_or(|best| bound < best.bound)
        {
            self.best = Some(MonotonicOffset { ahead, bound });
        }
        let real = |at: Nanos| at.saturating_add_signed(realtime_ahead);
        let (received, replied) = (real(received), real(replied));
        self.real.add(Exchange { sent, received, replied, returned });
    }

    /// How far this agent's real-time clock is ahead of another's, when our monotonic clock shows
    /// `now`.
    pub fn offset(&self, node: &str, other: &Self, now: Nanos) -> Option<PeerOffset> {
        let (here, there) = (self.real.at(now)?, other.real.at(now)?);
        Some(PeerOffset {
            node: node.to_owned(),
            at: now.saturating_add_signed(here.offset),
            offset: here.offset.saturating_sub(there.offset),
            rate_ppb: (here.rate_ppb - there.rate_ppb).round() as i64,
            bound: here.bound.saturating_add(there.bound),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exchange with a clock that is `ahead`, over ways of these lengths, at `at`.
    fn exchange(at: Nanos, ahead: u64, ways: [Nanos; 2]) -> [Nanos; 4] {
        let received = at + ways[0] + ahead;
        [at, received, received + 10, at + ways[0] + 10 + ways[1]]
    }

    #[test]
    fn the_shortest_exchange_counts_and_its_bound_holds() {
        let mut clock = PeerClock::new();
        for (number, ways) in [[900, 100], [80, 120], [5_000, 100]].into_iter().enumerate() {
            clock.add(exchange(1_000_000 * (number as u64 + 1), 7_000_000, ways), 0);
        }
        let offset = clock.monotonic().unwrap();
        assert_eq!((offset.ahead, offset.bound), (6_999_980, 100));
        clock.add([10, 5, 4, 20], 0);
        clock.add([10, 5, 7, 2], 0);
        assert_eq!(clock.exchanges, 3, "those that go back in time are none");
        clock.reset();
        assert!(clock.monotonic().is_none());
    }

    #[test]
    fn offsets_of_two_agents_follow_from_ours() {
        let (mut a, mut b) = (PeerClock::new(), PeerClock::new());
        for number in 1..20 {
            let at = number * 100_000_000;
            a.add(exchange(at, 0, [50_000, 50_000]), 3_000_000_000);
            b.add(exchange(at, 0, [50_000, 50_000]), -500_000_000);
        }
        let offset = a.offset("b", &b, 2_000_000_000).unwrap();
        assert!(offset.offset.abs_diff(3_500_000_000) < 2_000, "{offset:?}");
        assert!((100_000..300_000).contains(&offset.bound), "{offset:?}");
        assert!(offset.at.abs_diff(5_000_000_000) < 2_000, "{offset:?}");
        assert!(a.offset("b", &PeerClock::new(), 1).is_none());
    }
}
