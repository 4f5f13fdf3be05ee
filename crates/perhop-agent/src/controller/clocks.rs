//! Clocks of agents, estimated from exchanges over their control connections.

use perhop_measure::{ClockEstimator, ClockModel, Exchange};
use perhop_socket::Nanos;

use crate::frames::PeerOffset;

/// Estimates of an agent's clocks.
#[derive(Debug)]
pub struct PeerClock {
    /// Offset of its real-time clock from our monotonic clock.
    real: ClockEstimator,
    /// Bounds of the offset of its monotonic clock since the last reset.
    bounds: Option<Bounds>,
    /// Number of exchanges since the last reset.
    pub exchanges: usize,
}

/// Bounds of the offset of an agent's monotonic clock from ours, in nanoseconds. No message arrives
/// before it was sent: the offset is at most the difference between an arrival there and its
/// departure here, and at least the difference between a departure there and its arrival here.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    most: i128,
    least: i128,
    /// Time of the first exchange, by our clock.
    since: Nanos,
}

/// Largest relative drift of two quartz clocks, as its reciprocal.
const DRIFT: Nanos = 10_000;

/// Offset of an agent's monotonic clock from ours.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicOffset {
    /// The offset in nanoseconds.
    pub ahead: i64,
    /// Its largest error in nanoseconds: half of the sum of the shortest times in both directions,
    /// plus the possible drift.
    pub bound: u64,
}

impl PeerClock {
    /// Creates estimates without exchanges.
    pub fn new() -> Self {
        Self { real: ClockEstimator::new(ClockModel::default()), bounds: None, exchanges: 0 }
    }

    /// Starts a new estimate of the offset of the monotonic clock.
    pub fn reset(&mut self) {
        self.bounds = None;
        self.exchanges = 0;
    }

    /// Returns the offset of the monotonic clock at `now` of ours.
    pub fn monotonic(&self, now: Nanos) -> Option<MonotonicOffset> {
        let Bounds { most, least, since } = self.bounds?;
        let ahead = i64::try_from((most + least) / 2).ok()?;
        let apart = u64::try_from((most - least).abs()).ok()?.div_ceil(2);
        Some(MonotonicOffset { ahead, bound: apart + now.saturating_sub(since) / DRIFT })
    }

    /// Adds an exchange: sent here, received there, answered there, received here, by the
    /// monotonic clock of each (RFC 5905, section 8).
    pub fn add(&mut self, [sent, received, replied, returned]: [Nanos; 4], realtime_ahead: i64) {
        if returned < sent || replied < received {
            return;
        }
        self.exchanges += 1;
        let most = i128::from(received) - i128::from(sent);
        let least = i128::from(replied) - i128::from(returned);
        let bounds = self.bounds.get_or_insert(Bounds { most, least, since: sent });
        bounds.most = bounds.most.min(most);
        bounds.least = bounds.least.max(least);
        let real = |at: Nanos| at.saturating_add_signed(realtime_ahead);
        let (received, replied) = (real(received), real(replied));
        self.real.add(Exchange { sent, received, replied, returned });
    }

    /// Returns the offset of this agent's real-time clock from another agent's, at `now` of our
    /// monotonic clock.
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

    /// An exchange with a clock that is `ahead`, with these one-way delays, at `at`.
    fn exchange(at: Nanos, ahead: u64, ways: [Nanos; 2]) -> [Nanos; 4] {
        let received = at + ways[0] + ahead;
        [at, received, received + 10, at + ways[0] + 10 + ways[1]]
    }

    #[test]
    fn the_shortest_way_in_each_direction_counts() {
        let mut clock = PeerClock::new();
        for (number, ways) in [[900, 100], [80, 120], [5_000, 100]].into_iter().enumerate() {
            clock.add(exchange(1_000_000 * (number as u64 + 1), 7_000_000, ways), 0);
        }
        let offset = clock.monotonic(1_000_000).unwrap();
        assert_eq!((offset.ahead, offset.bound), (6_999_990, 90));
        let later = clock.monotonic(1_001_000_000).unwrap();
        assert_eq!((later.ahead, later.bound), (6_999_990, 100_090), "100 ppm");
        clock.add([10, 5, 4, 20], 0);
        clock.add([10, 5, 7, 2], 0);
        assert_eq!(clock.exchanges, 3, "those that go back in time are none");
        clock.reset();
        assert!(clock.monotonic(0).is_none());
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
