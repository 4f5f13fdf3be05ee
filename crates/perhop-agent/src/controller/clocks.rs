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

/// Apparent delays of messages to an agent and from it: its monotonic clock minus ours, or ours
/// minus its, in nanoseconds. No message arrives before it was sent: the offset of its clock is at
/// most the former and at least the negated latter.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    there: Shortest,
    back: Shortest,
    /// Time of the first exchange, by our clock.
    since: Nanos,
}

/// The three shortest of some apparent delays, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Shortest([i128; 3]);

impl Shortest {
    const NONE: Self = Self([i64::MAX as i128; 3]);

    fn add(&mut self, delay: i128) {
        let [first, second, third] = &mut self.0;
        *third = (*third).min(delay);
        if third < second {
            std::mem::swap(second, third);
        }
        if second < first {
            std::mem::swap(first, second);
        }
    }

    /// Returns the distance of the third from the first. The first exceeds the shortest possible
    /// delay by about a half of it, if delays vary at random.
    fn spread(&self) -> i128 {
        self.0[2] - self.0[0]
    }
}

/// Sum of the spreads of both directions below which an estimate is settled, in nanoseconds.
const SETTLED: i128 = 300_000;

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

    /// Returns whether several exchanges agree on the shortest delays, so that more of them would
    /// hardly change the offset of the monotonic clock.
    pub fn is_settled(&self) -> bool {
        let spread = |bounds: Bounds| bounds.there.spread() + bounds.back.spread();
        self.bounds.is_some_and(|bounds| spread(bounds) <= SETTLED)
    }

    /// Returns the offset of the monotonic clock at `now` of ours.
    pub fn monotonic(&self, now: Nanos) -> Option<MonotonicOffset> {
        let Bounds { there, back, since } = self.bounds?;
        let (most, least) = (there.0[0], -back.0[0]);
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
        let none = Bounds { there: Shortest::NONE, back: Shortest::NONE, since: sent };
        let bounds = self.bounds.get_or_insert(none);
        bounds.there.add(i128::from(received) - i128::from(sent));
        bounds.back.add(i128::from(returned) - i128::from(replied));
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
    fn a_difference_between_the_ways_is_an_error_of_half_of_it() {
        let mut clock = PeerClock::new();
        clock.add(exchange(1_000_000, 7_000_000, [10_000_000, 40_000_000]), 0);
        let offset = clock.monotonic(1_000_000).unwrap();
        assert_eq!(offset.ahead, 7_000_000 - 15_000_000);
        assert_eq!(offset.bound, 25_000_000, "half of the round trip");
    }

    #[test]
    fn an_estimate_is_settled_once_three_exchanges_agree_in_each_direction() {
        let mut clock = PeerClock::new();
        let settled = [
            ([300_000, 900_000], false),
            ([300_000, 100_000], false),
            ([5_000_000, 100_000], false),
            ([400_000, 5_000_000], false),
            // 100 us and 200 us.
            ([5_000_000, 300_000], true),
            // A shorter delay is a reason for doubt.
            ([50_000, 300_000], false),
        ];
        for (number, (ways, expected)) in settled.into_iter().enumerate() {
            clock.add(exchange(20_000_000 * (number as u64 + 1), 7_000_000, ways), 0);
            assert_eq!(clock.is_settled(), expected, "{number}");
        }
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
