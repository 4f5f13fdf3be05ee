//! An application that sends datagrams, and one that counts them.

use perhop_core::Time;
use perhop_measure::{Jitter, Order, Samples};
use perhop_workload::Pattern;

#[derive(Debug)]
pub(crate) struct UdpSender {
    pub stop: Time,
    /// Bytes that are left to send; [`u64::MAX`] has no end.
    pub left: u64,
    pub sent: u64,
    pub lost: u64,
    /// When the next datagram is due.
    pub due: Time,
    pub pattern: Pattern,
}

#[derive(Debug, Default)]
pub(crate) struct UdpReceiver {
    pub delivered: u64,
    /// Datagrams that arrived, each counted once.
    pub packets: u64,
    pub marked: u64,
    pub order: Order,
    /// How long datagrams were under way.
    pub delay: Samples,
    pub jitter: Jitter,
}

impl UdpSender {
    pub fn deadline(&self) -> Time {
        if self.due < self.stop && self.left > 0 { self.due } else { Time::MAX }
    }

    /// The payload of the datagram that is due.
    pub fn next_payload(&mut self) -> u32 {
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
