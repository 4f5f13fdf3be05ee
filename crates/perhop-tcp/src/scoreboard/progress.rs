//! Effect of an acknowledgement on the scoreboard.

use perhop_core::{Duration, Time};

use super::sent::Sent;
use crate::Offset;

/// A transmission that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(super) order: u32,
    /// Time between the transmission and its acknowledgement.
    pub rtt: Duration,
}

impl Newest {
    /// Returns `true` if it was sent after the other (RFC 8985: RACK_sent_after), by order number,
    /// since several segments may be sent at one instant.
    pub fn is_after(self, other: Self) -> bool {
        is_after(self.order, other.order)
    }
}

/// Transmissions are numbered modulo 2²⁸; far fewer are outstanding.
const ORDER_BITS: u32 = 28;

/// Returns `true` if the transmission with this number followed the other.
pub(crate) fn is_after(order: u32, other: u32) -> bool {
    let distance = order.wrapping_sub(other) << (u32::BITS - ORDER_BITS);
    (distance as i32) > 0
}

/// Returns the number of transmissions after the one with this number, up to the one before `next`.
pub(super) fn age(next: u32, order: u32) -> u32 {
    next.wrapping_sub(order) % (1 << ORDER_BITS)
}

/// Returns the number of the transmission after this one.
pub(super) fn next_order(order: u32) -> u32 {
    (order + 1) % (1 << ORDER_BITS)
}

/// Segments that an acknowledgement removed or marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Bytes acknowledged cumulatively.
    pub acked: u64,
    /// Bytes that this acknowledgement is the first to cover.
    pub delivered: u64,
    /// Of the transmissions that it is the first to cover, the last one sent.
    pub newest: Option<Newest>,
    /// True if a segment that was sent once arrived after a higher one.
    pub reordered: bool,
    /// Least time after which a retransmission can be acknowledged; if it seems to be less, the
    /// first transmission arrived (RFC 8985, section 6.2, step 2).
    pub min_rtt: Duration,
    /// Echoed timestamp, in the same microseconds: transmissions after it are not covered.
    pub echo: Option<u32>,
    /// Longest time since the transmission of a segment that this acknowledgement is the first to
    /// cover; `None` if one of them was retransmitted, because the copy that arrived is unknown
    /// (Karn's algorithm).
    pub rtt: Option<Duration>,
    ambiguous: bool,
    /// After a timeout, the end of the data sent before it.
    pub point: Offset,
    /// True if a segment before that point that was sent once is among them.
    original: bool,
    /// Lowest beginning of a segment that a higher one had overtaken.
    pub overtaken: Option<Offset>,
}

impl Progress {
    /// Covers a segment; all data below `fack` may have been covered before.
    pub(super) fn cover(&mut self, sent: &Sent, now: Time, fack: &mut Offset) {
        self.delivered += u64::from(sent.length);
        self.ambiguous |= sent.ambiguous;
        let elapsed = now.since(sent.at);
        let newest = Newest { order: sent.order, rtt: elapsed };
        if sent.ambiguous {
            let early = self.echo.is_some_and(|echo| {
                let sent_at = (sent.at.as_picos() / 1_000_000) as u32;
                (echo.wrapping_sub(sent_at) as i32) < 0
            });
            if !early && elapsed >= self.min_rtt {
                self.take_newest(newest);
            }
        } else {
            self.original |= sent.end() <= self.point;
            if sent.end() < *fack {
                self.reordered = true;
                self.overtaken = Some(self.overtaken.map_or(sent.start, |at| at.min(sent.start)));
            }
            self.take_newest(newest);
        }
        *fack = sent.end().max(*fack);
        self.rtt = match self.ambiguous {
            true => None,
            false => Some(self.rtt.map_or(elapsed, |rtt| rtt.max(elapsed))),
        };
    }

    /// Returns `true` if data from before the last timeout arrived that was not retransmitted.
    /// Without SACK an acknowledgement of a retransmission may cover data that had arrived long
    /// before.
    pub fn brought_original(&self, sack: bool) -> bool {
        self.original && (sack || !self.ambiguous)
    }

    fn take_newest(&mut self, newest: Newest) {
        if self.newest.is_none_or(|known| newest.is_after(known)) {
            self.newest = Some(newest);
        }
    }
}
