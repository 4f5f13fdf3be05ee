//! Applications that send and receive datagrams.

use std::collections::BTreeSet;

use perhop_core::{Duration, Time};
use perhop_measure::DatagramMeter;
use perhop_workload::{CallCounters, Pattern, Playout, WhenFull};

use super::BodyId;
use super::socket::{SEND_BUFFER, Socket};

#[derive(Debug)]
pub(crate) struct UdpSender {
    pub stop: Time,
    /// Bytes left to send; [`u64::MAX`] if unlimited.
    pub left: u64,
    pub sent: u64,
    pub lost: u64,
    /// Time of the next datagram.
    pub due: Time,
    pub pattern: Pattern,
    pub when_full: WhenFull,
    pub socket: Socket,
    /// Last datagram, with its payload, if a packet was dropped when it was sent; and the payload
    /// of a refused datagram.
    pub unconfirmed: Option<(BodyId, u32)>,
    pub refused: Option<u32>,
    /// Time of the next attempt after a datagram was refused.
    pub not_before: Time,
    /// MTU of the host's links, and of the path as far as it is known: the host sends longer
    /// packets as fragments.
    pub link_mtu: u32,
    pub mtu: u32,
    /// Last datagrams of which fragments were lost.
    pub lost_parts: BTreeSet<u64>,
}

/// Number of datagrams whose lost fragments are remembered.
const REMEMBERED: usize = 1024;

impl UdpSender {
    pub fn deadline(&self) -> Time {
        let at = self.due.max(self.not_before);
        let goes_on = at < self.stop && self.left > 0 && !self.socket.blocked;
        if goes_on { at } else { Time::MAX }
    }

    /// Returns `true` if a datagram is sent now. A sender that was blocked catches up, until it
    /// stops.
    pub fn may_send(&mut self, now: Time) -> bool {
        if now >= self.stop {
            self.due = Time::MAX; // datagrams that it has not sent are never due
            return false;
        }
        if self.when_full == WhenFull::Wait && self.socket.queued >= SEND_BUFFER {
            self.socket.blocked = true;
        }
        self.deadline() <= now
    }

    /// Records the loss of a fragment; returns `true` for the first of its datagram.
    pub fn lose_part(&mut self, sequence: u64) -> bool {
        let first = self.lost_parts.insert(sequence);
        self.lost += u64::from(first);
        if self.lost_parts.len() > REMEMBERED {
            self.lost_parts.pop_first();
        }
        first
    }

    /// Records that the host's own queue has refused the last datagram, which is sent again later.
    pub fn on_refused(&mut self, payload: u32) {
        self.unconfirmed = None;
        self.sent -= 1;
        if self.left != u64::MAX {
            self.left += u64::from(payload);
        }
        self.refused = Some(payload);
    }

    /// Returns the payload of the datagram that is due, in bytes.
    pub fn next_payload(&mut self) -> u32 {
        if let Some(payload) = self.refused.take() {
            if self.left != u64::MAX {
                self.left -= u64::from(payload);
            }
            self.sent += 1;
            return payload;
        }
        let (payload, gap) = self.pattern.next_datagram();
        let payload = self.left.min(payload.into());
        if self.left != u64::MAX {
            self.left -= payload;
        }
        self.sent += 1;
        self.due += gap;
        payload as u32
    }
}

#[derive(Debug, Default)]
pub(crate) struct UdpReceiver {
    pub meter: DatagramMeter,
    /// Playout of a call, and its counters at the last mark.
    pub call: Option<(Box<Playout>, CallCounters)>,
}

impl UdpReceiver {
    /// Counts the arrival of a datagram, as [`DatagramMeter::add`] does, and plays it in a call.
    #[inline]
    pub fn add(&mut self, sequence: u64, payload: u64, delay: Duration, marked: bool) -> bool {
        let first = self.meter.add(sequence, payload, delay, marked);
        if first && self.call.is_some() {
            self.play(sequence, delay);
        }
        first
    }

    #[cold]
    fn play(&mut self, sequence: u64, delay: Duration) {
        if let Some((playout, _)) = &mut self.call {
            playout.arrive(sequence, delay);
        }
    }
}
