//! An application that sends datagrams.

use perhop_core::Time;
use perhop_workload::{Pattern, WhenFull};

use super::BodyId;
use super::socket::{SEND_BUFFER, Socket};

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
    pub when_full: WhenFull,
    pub socket: Socket,
    /// The last datagram, with its payload, if something was dropped when it was sent; and the
    /// payload of one that was refused.
    pub in_hand: Option<(BodyId, u32)>,
    pub refused: Option<u32>,
    /// No attempt is made before, after one that was refused.
    pub not_before: Time,
}

impl UdpSender {
    pub fn deadline(&self) -> Time {
        let at = self.due.max(self.not_before);
        let goes_on = at < self.stop && self.left > 0 && !self.socket.blocked;
        if goes_on { at } else { Time::MAX }
    }

    /// Returns `true` if a datagram goes out now. A sender that was held up makes up for it, until
    /// it stops.
    pub fn may_send(&mut self, now: Time) -> bool {
        if now >= self.stop {
            self.due = Time::MAX; // what it is behind with is never due
            return false;
        }
        if self.when_full == WhenFull::Wait && self.socket.queued >= SEND_BUFFER {
            self.socket.blocked = true;
        }
        self.deadline() <= now
    }

    /// The host's own queue has refused the last datagram: it is sent again later.
    pub fn on_refused(&mut self, payload: u32) {
        self.in_hand = None;
        self.sent -= 1;
        if self.left != u64::MAX {
            self.left += u64::from(payload);
        }
        self.refused = Some(payload);
    }

    /// Returns the payload of the datagram that is due.
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
