//! Send budgets: limits are enforced where packets are handed to the kernel.

use std::sync::Mutex;

use crate::clock::nanos;
use crate::live::Limits;
use crate::stream::lock;
use perhop_socket::Nanos;

const SECOND: u128 = 1_000_000_000;

/// Minimum burst in bytes: a train of datagrams.
const LEAST_BURST: u64 = 128 << 10;

/// First packets per second to addresses that have proved nothing, and at once.
const FIRST_PACKETS: u64 = 100;

/// Depth of the bucket as a time at the rate, in nanoseconds.
const BURST: Nanos = 20_000_000;

/// Answer to a request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// Permission to send this many bytes, at least one.
    Bytes(u64),
    /// Nothing may be sent before this instant of the scenario's clock.
    Wait(Nanos),
    /// Nothing may be sent again: the volume or the duration is exhausted.
    Over,
}

/// A token bucket of bytes or packets (RFC 2697 has one of each).
#[derive(Debug)]
struct Bucket {
    /// Rate in tokens per second.
    rate: u64,
    depth: u64,
    tokens: u64,
    filled: Nanos,
}

impl Bucket {
    fn new(rate: u64, depth: u64) -> Self {
        Self { rate: rate.max(1), depth, tokens: depth, filled: 0 }
    }

    fn fill(&mut self, now: Nanos) {
        let span = u128::from(now.saturating_sub(self.filled));
        let more = span * u128::from(self.rate) / SECOND;
        if more > 0 {
            // The rest of a token is kept as time.
            self.filled += (more * SECOND / u128::from(self.rate)) as Nanos;
            self.tokens =
                u128::from(self.tokens).saturating_add(more).min(self.depth.into()) as u64;
        }
    }

    /// Returns the instant at which the bucket will hold `wanted` tokens.
    fn until(&self, wanted: u64) -> Nanos {
        let missing = u128::from(wanted.min(self.depth).saturating_sub(self.tokens));
        let span = (missing * SECOND).div_ceil(self.rate.into());
        self.filled.saturating_add(u64::try_from(span).unwrap_or(u64::MAX))
    }
}

/// Send budget of a process.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bytes: Option<Bucket>,
    volume: u64,
    pings: Option<Bucket>,
    first_packets: Bucket,
}

impl Budget {
    pub fn new(limits: Limits) -> Self {
        let bytes = limits.rate.map(|rate| {
            let burst = u128::from(rate) * u128::from(BURST) / 8 / SECOND;
            Bucket::new(rate / 8, (burst as u64).max(LEAST_BURST))
        });
        let pings = limits.ping_rate.map(|rate| Bucket::new(rate.into(), u64::from(rate.max(1))));
        let volume = limits.volume.unwrap_or(u64::MAX);
        let first_packets = Bucket::new(FIRST_PACKETS, FIRST_PACKETS);
        Self { limits, state: Mutex::new(State { bytes, volume, pings, first_packets }) }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns whether bytes are unlimited.
    fn is_free(&self) -> bool {
        let Limits { rate, volume, duration, .. } = self.limits;
        rate.is_none() && volume.is_none() && duration.is_none()
    }

    /// Returns whether the duration in which sending is allowed is over.
    pub fn is_over(&self, now: Nanos) -> bool {
        self.limits.duration.is_some_and(|duration| now >= nanos(duration.as_picos()))
    }

    /// Takes up to `most` bytes from the budget, and at least `least`.
    pub fn take(&self, now: Nanos, least: u64, most: u64) -> Grant {
        if self.is_free() {
            return Grant::Bytes(most);
        }
        if self.is_over(now) {
            return Grant::Over;
        }
        let mut state = lock(&self.state);
        let State { bytes, volume, .. } = &mut *state;
        if *volume < least.max(1) {
            return Grant::Over;
        }
        let mut granted = most.min(*volume);
        if let Some(bucket) = bytes {
            bucket.fill(now);
            granted = granted.min(bucket.tokens);
            if granted < least.max(1) {
                return Grant::Wait(bucket.until(least.max(1)).max(now + 1));
            }
            bucket.tokens -= granted;
        }
        if *volume != u64::MAX {
            *volume -= granted;
        }
        Grant::Bytes(granted)
    }

    /// Returns to the budget bytes that were taken and not sent.
    pub fn give_back(&self, bytes: u64) {
        if bytes == 0 || self.is_free() {
            return;
        }
        let mut state = lock(&self.state);
        state.volume = state.volume.saturating_add(bytes);
        if let Some(bucket) = &mut state.bytes {
            bucket.tokens = bucket.tokens.saturating_add(bytes).min(bucket.depth);
        }
    }

    /// Takes a first packet to an address that has proved nothing yet, such as the attempt to
    /// connect. `now` is an instant of the monotonic clock, because the run has not begun. Returns
    /// whether it may be sent.
    pub fn may_begin(&self, now: Nanos) -> bool {
        let bucket = &mut lock(&self.state).first_packets;
        bucket.fill(now);
        let may = bucket.tokens > 0;
        bucket.tokens -= u64::from(may);
        may
    }

    /// Returns whether `packets` packets of a ping may be sent now to an unproved address.
    pub fn may_ping(&self, now: Nanos, packets: u64) -> bool {
        if self.is_over(now) {
            return false;
        }
        let mut state = lock(&self.state);
        let Some(bucket) = &mut state.pings else { return true };
        bucket.fill(now);
        let may = bucket.tokens >= packets && self.limits.ping_rate != Some(0);
        if may {
            bucket.tokens -= packets;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn a_rate_is_kept_on_average_and_in_bursts() {
        let budget = Budget::new(Limits { rate: Some(80_000_000), ..Limits::default() });
        let (mut sent, mut now) = (0, 0);
        while now < 1_000 * MS {
            match budget.take(now, 1, 1_000_000) {
                Grant::Bytes(bytes) => sent += bytes,
                Grant::Wait(until) => {
                    assert!(until > now);
                    now = until;
                }
                Grant::Over => panic!("there is no end"),
            }
        }
        // 10 MB a second, and the bucket once: 20 ms of it.
        assert!((10_000_000..=10_200_001).contains(&sent), "{sent}");
    }

    #[test]
    fn a_volume_ends_and_what_was_not_sent_counts_not() {
        let budget = Budget::new(Limits { volume: Some(1_000), ..Limits::default() });
        assert_eq!(budget.take(0, 1, 600), Grant::Bytes(600));
        budget.give_back(100);
        assert_eq!(budget.take(0, 501, 501), Grant::Over);
        assert_eq!(budget.take(0, 1, 600), Grant::Bytes(500));
        assert_eq!(budget.take(0, 1, 1), Grant::Over);
    }

    #[test]
    fn a_duration_ends() {
        let duration = Some(perhop_core::Duration::from_millis(5));
        let budget = Budget::new(Limits { duration, ..Limits::default() });
        assert_eq!(budget.take(4 * MS, 1, 9), Grant::Bytes(9));
        assert_eq!(budget.take(5 * MS, 1, 9), Grant::Over);
        assert!(!budget.may_ping(5 * MS, 1));
    }

    #[test]
    fn first_packets_have_a_rate() {
        let budget = Budget::new(Limits::default());
        let since = 1_000_000 * MS;
        let sent = (0..2_000).filter(|at| budget.may_begin(since + at * MS)).count();
        assert!((298..=300).contains(&sent), "{sent}");
    }

    #[test]
    fn pings_have_a_rate() {
        let budget = Budget::new(Limits { ping_rate: Some(10), ..Limits::default() });
        let sent = (0..2_000).filter(|at| budget.may_ping(at * MS, 1)).count();
        assert!((29..=30).contains(&sent), "{sent}");
        let none = Budget::new(Limits { ping_rate: Some(0), ..Limits::default() });
        assert!(!none.may_ping(9_000 * MS, 1));
    }
}
