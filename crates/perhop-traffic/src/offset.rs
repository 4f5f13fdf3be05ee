//! Offsets of the clocks of other hosts.

use std::fmt;
use std::sync::Arc;

use perhop_core::Duration;

use crate::clock::duration;
use crate::shared::Shared;
use crate::stream::{FlowReceived, lock};
use perhop_socket::Nanos;

/// Offset of this host's clock from another host's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offset {
    /// An instant of this host's real-time clock.
    at: Nanos,
    /// Offset at that instant in nanoseconds: this host's clock minus the other one.
    offset: i64,
    /// Growth in nanoseconds per second of this clock.
    rate_ppb: i64,
    /// The greatest error of the offset in nanoseconds.
    bound: Nanos,
}

impl Offset {
    fn at(&self, now: Nanos) -> i64 {
        let span = i128::from(now) - i128::from(self.at);
        let grown = span * i128::from(self.rate_ppb) / 1_000_000_000;
        i64::try_from(i128::from(self.offset) + grown).unwrap_or(self.offset)
    }
}

/// Clock of the send time stamps of a flow's datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum SenderClock {
    /// The clock of this host.
    #[default]
    Same,
    /// The clock of another host, with an unknown offset.
    Unknown,
    /// The clock of another host, with a measured offset.
    Known(Offset),
}

/// Apparent delay of the first datagram for jitter, in nanoseconds: greater than usual changes of
/// the delay, so that none is negative.
const ORIGIN: i64 = 3_600_000_000_000;

impl FlowReceived {
    /// Returns the difference between the time stamps of a datagram, for jitter, and its one-way
    /// delay if the clocks can be compared. `arrived` is by this host's clock, `sent` by the
    /// sender's.
    pub fn delay(&mut self, arrived: Nanos, sent: Nanos) -> (Duration, Option<Duration>) {
        let difference = arrived.wrapping_sub(sent) as i64;
        let positive = |nanos: i64| duration(u64::try_from(nanos).unwrap_or(0));
        let offset = match self.clock {
            SenderClock::Same => {
                // The sender reads its clock before it sends, and the clock may be set back
                // meanwhile.
                let delay = duration(arrived.saturating_sub(sent));
                return (delay, Some(delay));
            }
            SenderClock::Unknown => None,
            SenderClock::Known(offset) => Some(offset),
        };
        // Relative to the first datagram, so that a large offset between the clocks does not
        // overflow.
        let first = *self.first_difference.get_or_insert(difference);
        let transit = positive(difference.wrapping_sub(first).saturating_add(ORIGIN));
        let delay = offset.map(|offset| {
            self.offset_bound = self.offset_bound.max(Some(offset.bound));
            positive(difference.saturating_sub(offset.at(arrived)))
        });
        (transit, delay)
    }
}

/// Measured offset of the clock of another node. It corrects the one-way delays of that node's
/// flows during the run.
#[derive(Clone)]
pub struct ClockOffset {
    shared: Arc<Shared>,
    /// The flows from that node.
    flows: Vec<usize>,
}

impl fmt::Debug for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClockOffset").field("flows", &self.flows).finish_non_exhaustive()
    }
}

impl ClockOffset {
    pub(crate) fn new(shared: Arc<Shared>, flows: Vec<usize>) -> Self {
        Self { shared, flows }
    }

    /// Sets the offset: at the instant `at` of this host's real-time clock (nanoseconds,
    /// `CLOCK_REALTIME`), this clock was `offset` nanoseconds ahead of the other node's clock, with
    /// a maximum error of `bound` nanoseconds. The offset grows by `rate_ppb` nanoseconds per
    /// second. A one-way delay is arrival minus sending minus offset.
    pub fn set(&self, at: u64, offset: i64, rate_ppb: i64, bound: u64) {
        for &flow in &self.flows {
            let mut received = lock(&self.shared.flows[flow].received);
            received.clock = SenderClock::Known(Offset { at, offset, rate_ppb, bound });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picos(delay: Option<Duration>) -> Option<u64> {
        delay.map(Duration::as_picos)
    }

    #[test]
    fn a_clock_that_is_seconds_off_and_drifts_is_corrected() {
        const SECOND: u64 = 1_000_000_000;
        for ahead in [-7_i64, 3, 400_000_000] {
            let mut received = FlowReceived { clock: SenderClock::Unknown, ..Default::default() };
            let start = 2_000_000_000 * SECOND;
            let offset = ahead * SECOND as i64;
            // The other clock is slower by 50 ppm; a datagram takes 3 ms.
            let sent = |now: u64| {
                let drift = (now - start) as i64 / 20_000;
                (now - 3_000_000).wrapping_add_signed(-(offset + drift))
            };
            let (origin, unknown) = received.delay(start, sent(start));
            assert_eq!(unknown, None);
            received.clock =
                SenderClock::Known(Offset { at: start, offset, rate_ppb: 50_000, bound: 9 });
            for second in 0..100 {
                let now = start + second * SECOND;
                let (transit, delay) = received.delay(now, sent(now));
                assert_eq!(picos(delay), Some(3_000_000_000), "{ahead} {second}");
                let grown = transit.as_picos() - origin.as_picos();
                assert_eq!(grown, second * 50_000_000, "a second drifts 50 us");
            }
            assert_eq!(received.offset_bound, Some(9));
        }
    }

    #[test]
    fn stamps_of_anybody_are_no_matter() {
        for clock in [
            SenderClock::Same,
            SenderClock::Unknown,
            SenderClock::Known(Offset {
                at: u64::MAX,
                offset: i64::MIN,
                rate_ppb: i64::MAX,
                bound: 0,
            }),
        ] {
            let mut received = FlowReceived { clock, ..Default::default() };
            for arrived in [0, 1, u64::MAX / 2, u64::MAX] {
                for sent in [0, 1, u64::MAX / 2, u64::MAX] {
                    let _ = received.delay(arrived, sent);
                }
            }
        }
    }
}
