//! First in, first out, with a limited length.

use std::collections::VecDeque;

use perhop_core::{Bytes, Elastic, Header, Packet, Rate, Time};

use crate::{Backlog, Cause, Dequeue, Discipline, Ledger, Pass};

/// Limit of a queue's length. The packet that is being transmitted is not in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(from = "Cap", into = "Cap"))]
pub struct Limit {
    packets: u64,
    bytes: Bytes,
}

impl Limit {
    /// Limits the queue to this many packets.
    pub const fn packets(packets: u64) -> Self {
        Self { packets, bytes: Bytes::MAX }
    }

    /// Limits the queue to this many IP bytes.
    pub const fn bytes(bytes: Bytes) -> Self {
        Self { packets: u64::MAX, bytes }
    }

    /// Limits the queue to the bytes that drain at `rate` in `time`: the longest wait of a queue
    /// that is served at its guaranteed rate.
    pub fn time(time: perhop_core::Duration, rate: Rate) -> Self {
        Self::bytes(rate * time)
    }

    /// Returns the limits in packets and in bytes; one of them is the type's maximum.
    pub const fn parts(&self) -> (u64, Bytes) {
        (self.packets, self.bytes)
    }

    /// Returns `true` if a queue with this `backlog` may take another packet of `size`.
    pub fn admits(&self, backlog: Backlog, size: Bytes) -> bool {
        backlog.packets < self.packets && backlog.bytes + size <= self.bytes
    }

    /// Returns `true` if a queue with this `backlog` holds more than it may.
    pub fn is_exceeded(&self, backlog: Backlog) -> bool {
        backlog.packets > self.packets || backlog.bytes > self.bytes
    }
}

/// A limit as a plan represents it.
#[cfg(feature = "serde")]
#[derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Cap {
    /// At most this many packets.
    Packets(u64),
    /// At most this many IP bytes.
    Bytes(Bytes),
}

#[cfg(feature = "serde")]
impl From<Cap> for Limit {
    fn from(cap: Cap) -> Self {
        match cap {
            Cap::Packets(packets) => Self::packets(packets),
            Cap::Bytes(bytes) => Self::bytes(bytes),
        }
    }
}

#[cfg(feature = "serde")]
impl From<Limit> for Cap {
    fn from(limit: Limit) -> Self {
        match limit.bytes {
            Bytes::MAX => Self::Packets(limit.packets),
            bytes => Self::Bytes(bytes),
        }
    }
}

/// Packet that is dropped when a queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Drop {
    /// The arriving packet (drop-tail).
    Tail,
    /// The packet that has waited longest (drop from front).
    Head,
}

/// A plain queue's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct FifoConfig {
    /// Limit of the queue.
    pub limit: Limit,
    /// Packet that is dropped when the queue is full.
    pub drop: Drop,
}

/// A queue that serves in order of arrival. When it is full, it drops the arriving packet or, with
/// drop from front, the one that has waited longest.
#[derive(Debug)]
pub struct Fifo<B> {
    packets: VecDeque<Packet<B>>,
    /// Scheduled packets, which the link keeps because their departure times are known: begin of
    /// transmission, and length.
    scheduled: Elastic<(Time, Bytes)>,
    /// IP bytes of waiting and scheduled packets.
    bytes: Bytes,
    limit: Limit,
    drop_head: bool,
}

impl<B> Fifo<B> {
    /// Creates an empty queue with drop-tail.
    pub const fn new(limit: Limit) -> Self {
        Self {
            packets: VecDeque::new(),
            scheduled: Elastic::new(),
            bytes: Bytes::ZERO,
            limit,
            drop_head: false,
        }
    }

    /// Returns an empty queue with these settings.
    pub fn of(config: FifoConfig) -> Self {
        match config.drop {
            Drop::Tail => Self::new(config.limit),
            Drop::Head => Self::new(config.limit).dropping_at_head(),
        }
    }

    /// Returns the same queue with drop from front (Lakshman, Neidhardt and Ott, INFOCOM 1996),
    /// with which senders detect losses sooner.
    #[must_use]
    pub fn dropping_at_head(self) -> Self {
        Self { drop_head: true, ..self }
    }

    /// Returns `true` if the departure times of waiting packets do not depend on later arrivals.
    pub(crate) fn departures_are_final(&self) -> bool {
        !self.drop_head
    }

    /// Changes the limit; waiting packets stay.
    pub(crate) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// Returns the limit.
    pub(crate) const fn limit(&self) -> Limit {
        self.limit
    }

    /// Returns the waiting packets that are not scheduled, in order.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Packet<B>> {
        self.packets.iter()
    }

    /// Takes out the waiting packets that are not scheduled.
    pub(crate) fn take(&mut self) -> Vec<Packet<B>> {
        self.bytes -= self.packets.iter().map(Packet::size).sum();
        self.packets.drain(..).collect()
    }

    /// Schedules the transmission of a packet of `size` for the instant when the transmitter is
    /// `free`; `None` if the queue is full. A packet that need not wait takes no room.
    #[inline(always)]
    pub(crate) fn schedule(&mut self, now: Time, free: Time, size: Bytes) -> Option<Time> {
        if !self.limit.admits(self.backlog(), size) {
            return None;
        }
        if free <= now {
            return Some(now);
        }
        self.bytes += size;
        self.scheduled.push_back((free, size));
        Some(free)
    }

    /// Removes the first scheduled packet. Returns its length and the begin of the next
    /// transmission.
    pub(crate) fn begin(&mut self) -> (Bytes, Time) {
        let (_, size) = self.scheduled.pop_front().expect("a packet was scheduled");
        self.bytes -= size;
        (size, self.scheduled.front().map_or(Time::MAX, |(at, _)| *at))
    }

    /// Removes all scheduled packets. Returns their number and the begin of the first transmission.
    pub(crate) fn unschedule(&mut self) -> Option<(usize, Time)> {
        let first = self.scheduled.front()?.0;
        let number = self.scheduled.len();
        self.bytes -= self.scheduled.drain(..).map(|(_, size)| size).sum();
        Some((number, first))
    }

    fn pop(&mut self) -> Option<Packet<B>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.size();
        Some(packet)
    }
}

impl<B> Discipline<B> for Fifo<B> {
    #[inline]
    fn enqueue(&mut self, _now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        if self.drop_head && self.limit.admits(Backlog::default(), packet.size()) {
            while !self.limit.admits(self.backlog(), packet.size())
                && let Some(oldest) = self.pop()
            {
                ledger.drop(oldest, Cause::Limit);
            }
        }
        if self.limit.admits(self.backlog(), packet.size()) {
            self.bytes += packet.size();
            self.packets.push_back(packet);
        } else {
            ledger.drop(packet, Cause::Limit);
        }
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _ledger: &mut Ledger<B>) -> Dequeue<B> {
        self.pop().map_or(Dequeue::Idle, Dequeue::Packet)
    }

    #[inline]
    fn pass(&mut self, _now: Time, header: &Header) -> Pass {
        let fits = self.limit.admits(Backlog::default(), header.size());
        if fits { Pass::Send } else { Pass::Drop(Cause::Limit) }
    }

    fn head(&mut self, _now: Time) -> Option<Bytes> {
        self.packets.front().map(Packet::size)
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        let packets = self.packets.len() + self.scheduled.len();
        Backlog { packets: packets as u64, bytes: self.bytes }
    }

    fn drain(self, packets: &mut Vec<Packet<B>>) {
        packets.extend(self.packets);
    }
}

#[cfg(test)]
mod tests;
