//! Counters of a stream's connections.

use std::collections::BTreeMap;

use perhop_core::{Duration, Ecn};
use perhop_measure::Samples;
use quinn_proto::ConnectionStats;

use crate::readings::{ConnectionReceiver, ConnectionSender};

/// Counters of the connections of a stream, which all threads see: of one, or of all that a client
/// has had.
#[derive(Clone, Debug, Default)]
pub(crate) struct QuicCounters {
    /// Datagrams with data that have arrived, and those of them with congestion experienced.
    packets: u64,
    marked: u64,
    /// Acknowledgements that the receiver has sent.
    acks: u64,
    /// Packets that the sender has declared lost.
    lost: u64,
    /// The sender's congestion windows, by the numbers of connections.
    windows: BTreeMap<u32, u64>,
    /// The sender's smoothed round-trip times, of connections on which an acknowledgement has
    /// arrived since they were taken.
    srtts: BTreeMap<u32, Duration>,
}

/// What one end of a connection has added to the counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Published {
    acks: u64,
    lost: u64,
    /// Acknowledgements that have arrived.
    heard: u64,
}

impl QuicCounters {
    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.windows.len()
    }

    /// Returns the smoothed round-trip times of connections on which an acknowledgement has arrived
    /// since the last call.
    pub fn take_srtts(&mut self) -> impl Iterator<Item = Duration> + use<> {
        std::mem::take(&mut self.srtts).into_values()
    }

    /// Returns the reading of the receiver, which has `delivered` bytes.
    pub fn receiver(&self, delivered: u64, completion: Option<Duration>) -> ConnectionReceiver {
        let Self { packets, marked, acks, .. } = *self;
        ConnectionReceiver { delivered, packets, marked: Some(marked), acks, completion }
    }

    /// Returns the reading of the sender. Its window is that of all open connections.
    pub fn sender(&self, srtt: Samples) -> ConnectionSender {
        let cwnd = self.windows.values().copied().reduce(|sum, window| sum + window);
        ConnectionSender { retransmits: self.lost, cwnd, srtt, ..Default::default() }
    }

    /// Counts a datagram with data and this octet of DSCP and ECN field.
    pub(super) fn arrived(&mut self, class: u8) {
        self.packets += 1;
        self.marked += u64::from(class & 3 == Ecn::Ce as u8);
    }

    /// Adds what is new at the receiving end of a connection.
    pub(super) fn add_receiver(&mut self, before: &mut Published, stats: &ConnectionStats) {
        self.acks += stats.frame_tx.acks - before.acks;
        before.acks = stats.frame_tx.acks;
    }

    /// Adds what is new at the sending end of connection `number`.
    pub(super) fn add_sender(
        &mut self,
        number: u32,
        before: &mut Published,
        stats: &ConnectionStats,
    ) {
        self.lost += stats.path.lost_packets.saturating_sub(before.lost);
        before.lost = before.lost.max(stats.path.lost_packets);
        self.windows.insert(number, stats.path.cwnd);
        if before.heard != stats.frame_rx.acks {
            before.heard = stats.frame_rx.acks;
            let nanos = u64::try_from(stats.path.rtt.as_nanos()).unwrap_or(u64::MAX);
            self.srtts.insert(number, crate::clock::duration(nanos));
        }
    }

    /// Ends the sending end of connection `number`.
    pub(super) fn end_sender(&mut self, number: u32) {
        self.windows.remove(&number);
    }
}
