//! Measurement of received streams of datagrams.

use perhop_core::Duration;

use crate::jitter::Jitter;
use crate::order::Order;
use crate::reading::{Samples, StreamCounters, StreamReading};

/// Measures a stream of datagrams at its receiver.
#[derive(Debug, Default)]
pub struct DatagramMeter {
    /// Bytes of payload, without duplicates.
    pub delivered: u64,
    /// Datagrams that arrived, without duplicates.
    pub packets: u64,
    /// Order of arrival.
    pub order: Order,
    /// Datagrams that arrived with CE (congestion experienced).
    marked: u64,
    /// One-way delays since the last mark.
    delay: Samples,
    jitter: Jitter,
}

impl DatagramMeter {
    /// Counts the arrival of a datagram with `payload` bytes, sent `delay` ago, with or without CE.
    /// Returns `true` for the first copy.
    #[inline]
    pub fn add(&mut self, sequence: u64, payload: u64, delay: Duration, marked: bool) -> bool {
        self.add_stamped(sequence, payload, (delay, Some(delay)), marked)
    }

    /// Counts the arrival of a datagram whose sender may have another clock. `transit` is the
    /// difference of both clocks, from any origin, and serves jitter; `delay` is the one-way delay
    /// where the clocks can be compared.
    #[inline]
    pub fn add_stamped(
        &mut self,
        sequence: u64,
        payload: u64,
        (transit, delay): (Duration, Option<Duration>),
        marked: bool,
    ) -> bool {
        self.jitter.add(transit);
        let first = self.order.add(sequence);
        if first {
            self.delivered += payload;
            self.packets += 1;
            self.marked += u64::from(marked);
            if let Some(delay) = delay {
                self.delay.add(delay);
            }
        }
        first
    }

    /// Returns the counters of the stream at a mark; `lost` is the number of its lost packets.
    pub fn reading(&self, lost: u64) -> StreamReading {
        let order = self.order.counts();
        let counters = StreamCounters {
            delivered: self.delivered,
            packets: self.packets,
            lost,
            reordered: order.reordered,
            marked: self.marked,
            sacks: Some(0),
            order: Some(order),
            ..StreamCounters::default()
        };
        let jitter = self.jitter.estimate();
        StreamReading { counters, delay: self.delay, jitter, ..StreamReading::default() }
    }

    /// Resets, after a mark, the values that are measured between marks.
    pub fn pass_mark(&mut self) {
        self.delay = Samples::default();
        self.order.reset_extent_max();
    }
}
