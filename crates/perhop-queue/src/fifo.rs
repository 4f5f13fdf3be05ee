//! First in, first out, with a limit.

use std::collections::VecDeque;

use perhop_core::{Bytes, Packet, Rate, Time};

use crate::{Backlog, Cause, Dequeue, Discipline, Ledger, Pass};

/// How much a queue may hold. The packet that is being transmitted is not in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    packets: u64,
    bytes: Bytes,
}

impl Limit {
    /// At most this many packets.
    pub const fn packets(packets: u64) -> Self {
        Self { packets, bytes: Bytes::MAX }
    }

    /// At most this many IP bytes.
    pub const fn bytes(bytes: Bytes) -> Self {
        Self { packets: u64::MAX, bytes }
    }

    /// At most what drains at `rate` in `time`: the longest wait of a queue that is served at its
    /// guaranteed rate.
    pub fn time(time: perhop_core::Duration, rate: Rate) -> Self {
        Self::bytes(rate * time)
    }

    /// Whether a queue that holds `backlog` may take a packet of `size` more.
    pub fn admits(&self, backlog: Backlog, size: Bytes) -> bool {
        backlog.packets < self.packets && backlog.bytes + size <= self.bytes
    }
}

/// A queue that serves in order of arrival and drops what does not fit (drop-tail).
#[derive(Debug)]
pub struct Fifo<B> {
    packets: VecDeque<Packet<B>>,
    bytes: Bytes,
    limit: Limit,
}

impl<B> Fifo<B> {
    /// An empty queue.
    pub const fn new(limit: Limit) -> Self {
        Self { packets: VecDeque::new(), bytes: Bytes::ZERO, limit }
    }
}

impl<B> Discipline<B> for Fifo<B> {
    #[inline]
    fn enqueue(&mut self, _now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        if self.limit.admits(self.backlog(), packet.size()) {
            self.bytes += packet.size();
            self.packets.push_back(packet);
        } else {
            ledger.drop(packet, Cause::Limit);
        }
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _ledger: &mut Ledger<B>) -> Dequeue<B> {
        let Some(packet) = self.packets.pop_front() else { return Dequeue::Idle };
        self.bytes -= packet.size();
        Dequeue::Packet(packet)
    }

    #[inline]
    fn pass(&mut self, _now: Time, packet: &mut Packet<B>) -> Pass {
        let fits = self.limit.admits(Backlog::default(), packet.size());
        if fits { Pass::Send } else { Pass::Drop(Cause::Limit) }
    }

    fn head(&mut self, _now: Time) -> Option<Bytes> {
        self.packets.front().map(Packet::size)
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u64, bytes: self.bytes }
    }
}
