//! Waiting packets, with their arrival times.

use std::collections::VecDeque;

use perhop_core::{Bytes, Duration, Packet, Time};

use crate::Backlog;

/// A queue in order of arrival that records how long each packet has waited.
#[derive(Debug)]
pub(super) struct Waiting<B> {
    packets: VecDeque<(Time, Packet<B>)>,
    bytes: Bytes,
}

impl<B> Waiting<B> {
    pub const fn new() -> Self {
        Self { packets: VecDeque::new(), bytes: Bytes::ZERO }
    }

    #[inline]
    pub fn push(&mut self, now: Time, packet: Packet<B>) {
        self.bytes += packet.size();
        self.packets.push_back((now, packet));
    }

    /// Returns the first packet, and how long it has waited.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<(Duration, Packet<B>)> {
        let (arrived, packet) = self.packets.pop_front()?;
        self.bytes -= packet.size();
        Some((now.since(arrived), packet))
    }

    /// Returns the last packet.
    pub fn pop_last(&mut self) -> Option<Packet<B>> {
        let (_, packet) = self.packets.pop_back()?;
        self.bytes -= packet.size();
        Some(packet)
    }

    /// Returns all packets, with their times of arrival; none is left.
    pub fn take(&mut self) -> impl Iterator<Item = (Time, Packet<B>)> + '_ {
        self.bytes = Bytes::ZERO;
        self.packets.drain(..)
    }

    /// Returns the arrival time of the first packet.
    pub fn since(&self) -> Option<Time> {
        self.packets.front().map(|(arrived, _)| *arrived)
    }

    /// Returns the length of the first packet.
    #[inline]
    pub fn head(&self) -> Option<Bytes> {
        self.packets.front().map(|(_, packet)| packet.size())
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    #[inline]
    pub fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u64, bytes: self.bytes }
    }

    pub fn drain(self, packets: &mut Vec<Packet<B>>) {
        packets.extend(self.packets.into_iter().map(|(_, packet)| packet));
    }
}
