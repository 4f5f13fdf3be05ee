//! Data in both directions: requests and their responses, each pair on a stream of its own, as
//! HTTP/3 has them (RFC 9114, section 4.1).

use perhop_core::Time;

use super::Sender;
use crate::{Frames, Packet, Received};

/// End of a connection (RFC 9000, section 10.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    #[default]
    Open,
    /// This end has closed it: each packet that arrives is answered by CONNECTION_CLOSE.
    Closing {
        /// True if one is to be sent.
        due: bool,
    },
    /// The other end has closed it: nothing more is sent.
    Draining,
}

impl Sender {
    /// Writes `bytes`, the whole data of the stream with this number.
    pub fn write_to(&mut self, stream: u64, bytes: u64) {
        self.streams.write_to(stream, bytes);
    }

    /// Expects `bytes` of data on the stream with this number. Numbers rise by one.
    pub fn expect(&mut self, stream: u64, bytes: u64) {
        self.inbound.expect(stream, bytes);
    }

    /// Returns `true` if 1-RTT packets can be sent.
    pub fn is_open(&self) -> bool {
        self.side.is_complete()
    }

    /// Returns the counters of the data that has arrived.
    pub fn received(&self) -> Received {
        self.inbound.received
    }

    /// Closes the connection: the next packet has CONNECTION_CLOSE.
    pub fn close(&mut self) {
        self.end = End::Closing { due: self.side.is_complete() };
    }

    /// Ends the connection without a packet, as an idle timeout does (section 10.1).
    pub fn forget(&mut self) {
        self.end = End::Draining;
    }

    /// Returns `true` once this end or the other has closed the connection.
    pub fn is_over(&self) -> bool {
        self.end != End::Open
    }

    /// Takes a packet if the connection is over, or if this ends it. Returns `false` for any other.
    pub(super) fn take_close(&mut self, frames: Option<&Frames>) -> bool {
        if frames.is_some_and(|frames| frames.close) {
            self.end = End::Draining;
        } else if let End::Closing { due } = &mut self.end {
            *due = self.side.is_complete();
        }
        self.is_over()
    }

    /// Returns the packet that closes the connection, if one is due.
    pub(super) fn poll_close(&mut self, now: Time) -> Option<Packet> {
        let End::Closing { due } = &mut self.end else { return None };
        let due = std::mem::take(due);
        due.then(|| self.send_ack(now, Frames { close: true, ..Frames::default() }))
    }
}
