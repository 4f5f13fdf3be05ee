//! Counters and state of a stream at a mark.

use perhop_core::Duration;
use serde::{Deserialize, Serialize};

use crate::order::OrderCounts;

/// Time between readings of a sender's smoothed round-trip time, while acknowledgements arrive.
pub const SRTT_EVERY: Duration = Duration::from_millis(10);

/// Statistics of a stream's durations since the last reading.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Samples {
    pub(crate) count: u64,
    sum: f64,
    minimum: Duration,
    maximum: Duration,
}

impl Samples {
    /// Adds a duration.
    pub fn add(&mut self, span: Duration) {
        self.minimum = if self.count == 0 { span } else { self.minimum.min(span) };
        self.maximum = self.maximum.max(span);
        self.sum += span.as_secs_f64();
        self.count += 1;
    }

    /// Adds the samples of another stream.
    pub fn merge(&mut self, other: &Self) {
        if other.count > 0 {
            let mine = if self.count == 0 { other.minimum } else { self.minimum };
            self.minimum = mine.min(other.minimum);
            self.maximum = self.maximum.max(other.maximum);
            self.sum += other.sum;
            self.count += other.count;
        }
    }

    /// Returns `true` if the values are possible: readings come from other hosts, too.
    pub fn is_sound(&self) -> bool {
        self.sum.is_finite() && self.sum >= 0.0 && self.minimum <= self.maximum
    }

    /// Returns mean, minimum and maximum in seconds; NaN without samples.
    pub(crate) fn in_seconds(&self) -> [f64; 3] {
        if self.count == 0 {
            return [f64::NAN; 3];
        }
        let [least, most] = [self.minimum, self.maximum].map(Duration::as_secs_f64);
        [self.sum / self.count as f64, least, most]
    }
}

/// Counters of a stream since the run began. Those of the last mark are kept, for comparison with
/// the next reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamCounters {
    /// Bytes delivered to the receiving application, without duplicates.
    pub delivered: u64,
    /// Data packets that arrived.
    pub packets: u64,
    /// Data packets that the network lost.
    pub lost: u64,
    /// Data packets that arrived after a later one.
    pub reordered: u64,
    /// Data packets that arrived with CE (congestion experienced).
    pub marked: u64,
    /// Data packets first covered by an acknowledgement that echoed a mark.
    pub echoed: u64,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Acknowledgements sent by the receiver.
    pub acks: u64,
    /// Of these, selective ones; `None` if unknown.
    pub sacks: Option<u64>,
    /// Time until its whole volume had arrived, if it has.
    pub completion: Option<Duration>,
    /// UDP: order of its packets; the greatest extent is that since the last reading.
    pub order: Option<OrderCounts>,
}

/// A stream's counters, and its state.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamReading {
    /// Counters since the run began.
    pub counters: StreamCounters,
    /// Congestion window in bytes, if it has one.
    pub cwnd: Option<u64>,
    /// Round-trip times of segments since the last reading; without samples if the sender does not
    /// report them.
    pub rtt: Samples,
    /// Smoothed round-trip time of the sender (RFC 6298: SRTT), read every [`SRTT_EVERY`], since
    /// the last reading.
    pub srtt: Samples,
    /// One-way delays of data since the last reading.
    pub delay: Samples,
    /// UDP: present estimate of the jitter.
    pub jitter: Option<Duration>,
}
