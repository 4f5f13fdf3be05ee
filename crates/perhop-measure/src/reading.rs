//! What there is to know of a stream at a mark.

use perhop_core::Duration;
use serde::{Deserialize, Serialize};

use crate::order::OrderCounts;

/// How often a sender's smoothed round-trip time is read, while acknowledgements come.
pub const SRTT_EVERY: Duration = Duration::from_millis(10);

/// Durations, of a stream and since they were last read.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Samples {
    pub(crate) count: u64,
    sum: f64,
    minimum: Duration,
    maximum: Duration,
}

impl Samples {
    /// Adds one.
    pub fn add(&mut self, span: Duration) {
        self.minimum = if self.count == 0 { span } else { self.minimum.min(span) };
        self.maximum = self.maximum.max(span);
        self.sum += span.as_secs_f64();
        self.count += 1;
    }

    /// Whether these can be samples: readings come from other hosts, too.
    pub fn is_sound(&self) -> bool {
        self.sum.is_finite() && self.sum >= 0.0 && self.minimum <= self.maximum
    }

    /// Mean, minimum and maximum in seconds; NaN where there is none.
    pub(crate) fn in_seconds(&self) -> [f64; 3] {
        if self.count == 0 {
            return [f64::NAN; 3];
        }
        let [least, most] = [self.minimum, self.maximum].map(Duration::as_secs_f64);
        [self.sum / self.count as f64, least, most]
    }
}

/// What has happened to a stream since the run began. It is kept from mark to mark of every stream,
/// for the next reading to be compared with.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamCounters {
    /// Bytes that the receiving application got, each once.
    pub delivered: u64,
    /// Data packets that arrived.
    pub packets: u64,
    /// Data packets that the network lost.
    pub lost: u64,
    /// Data packets that arrived after a later one.
    pub reordered: u64,
    /// Data packets that arrived with congestion experienced.
    pub marked: u64,
    /// Data packets that acknowledgements were the first to cover which echoed a mark.
    pub echoed: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Acknowledgements that the receiver sent.
    pub acks: u64,
    /// Those of them that are selective, if anybody can tell.
    pub sacks: Option<u64>,
    /// How long all of its volume took, once it has arrived.
    pub completion: Option<Duration>,
    /// Of UDP: the order of its packets, of which the greatest extent is since the last reading.
    pub order: Option<OrderCounts>,
}

/// A stream's counters, and its state.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamReading {
    /// Since the run began.
    pub counters: StreamCounters,
    /// The congestion window in bytes, if it has one.
    pub cwnd: Option<u64>,
    /// What segments measured of the round-trip time, since the last reading; no sample where the
    /// sender does not tell.
    pub rtt: Samples,
    /// The sender's smoothed round-trip time (RFC 6298: SRTT), read every [`SRTT_EVERY`], since the
    /// last reading.
    pub srtt: Samples,
    /// How long data was under way, since the last reading.
    pub delay: Samples,
    /// Of UDP: the present estimate of the jitter.
    pub jitter: Option<Duration>,
}
