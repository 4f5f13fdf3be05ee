//! State of the connection when each outstanding segment was sent, for samples of the delivery
//! rate.

use std::collections::VecDeque;

use perhop_core::{Duration, Time};

use super::sent::Sent;
use crate::delivery::{DeliveredPacket, Deliveries, LostSegment, RateSample, Snapshot};

/// The rate sampler: a snapshot for each outstanding segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampler {
    snapshots: VecDeque<Snapshot>,
    deliveries: Deliveries,
}

impl Sampler {
    /// Adds a segment that was sent; `pipe` includes it.
    pub fn send(&mut self, pipe: u64, length: u32, now: Time) {
        let snapshot = self.deliveries.snapshot(pipe, length, now);
        self.snapshots.push_back(snapshot);
    }

    /// Records a retransmission of the segment at this index.
    pub fn resend(&mut self, index: usize, pipe: u64, length: u32, now: Time) {
        self.snapshots[index] = self.deliveries.snapshot(pipe, length, now);
    }

    /// Divides the segment at this index.
    pub fn divide(&mut self, index: usize) {
        self.snapshots.insert(index, self.snapshots[index]);
    }

    /// Records the delivery of a segment. A SYN is not data: its one byte per round trip would pass
    /// for the path's rate until there is a better sample, which may take long with much loss.
    pub fn deliver(&mut self, index: usize, sent: &Sent, now: Time) {
        let packet = DeliveredPacket {
            at: sent.at,
            length: sent.length,
            order: sent.order,
            data: sent.start > 0,
            ambiguous: sent.ambiguous,
        };
        self.deliveries.deliver(packet, self.snapshots[index], now);
    }

    /// Records the delivery of a part of the first segment.
    pub fn deliver_part(&mut self, bytes: u64, now: Time) {
        self.deliveries.deliver_part(bytes, now);
    }

    pub fn pop(&mut self) {
        self.snapshots.pop_front();
    }

    pub fn lose(&mut self, index: usize, length: u32) {
        self.deliveries.lose(length, &self.snapshots[index]);
    }

    /// Records that the application has no data although the window has room.
    pub fn limit(&mut self, pipe: u64) {
        self.deliveries.limit(pipe);
    }

    pub fn is_limited(&self) -> bool {
        self.deliveries.is_limited()
    }

    /// Returns the number of bytes delivered since the connection began.
    pub fn delivered(&self) -> u64 {
        self.deliveries.delivered()
    }

    /// Returns the segments that were marked as lost since the last call.
    pub fn take_losses(&mut self) -> std::vec::Drain<'_, LostSegment> {
        self.deliveries.take_losses()
    }

    /// Returns the sample of the last acknowledgement, if it has delivered data.
    pub fn take(&mut self, min_rtt: Duration, now: Time) -> Option<RateSample> {
        self.deliveries.take(min_rtt, now)
    }
}
