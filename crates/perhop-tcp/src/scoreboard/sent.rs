//! One outstanding segment.

use perhop_core::Time;

use crate::Offset;

/// An outstanding segment and its state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub start: Offset,
    pub at: Time,
    pub length: u32,
    /// Order number of its last transmission, modulo 2²⁸.
    pub order: u32,
    pub sacked: bool,
    pub lost: bool,
    /// True if it was sent again and not lost again.
    pub retransmitted: bool,
    /// True if it was sent more than once, so that the copy that an acknowledgement covers is
    /// uncertain.
    pub ambiguous: bool,
}

impl Sent {
    pub fn end(&self) -> Offset {
        self.start + Offset::from(self.length)
    }

    /// Returns `true` if a transmission of it may still arrive, as far as is known.
    pub fn is_under_way(&self) -> bool {
        !self.sacked && (!self.lost || self.retransmitted)
    }

    /// Returns the bytes that the segment adds to the pipe (RFC 6675, section 4, SetPipe): its
    /// first transmission unless it is lost, and its retransmission.
    pub fn in_pipe(&self) -> u64 {
        let copies =
            if self.sacked { 0 } else { u64::from(!self.lost) + u64::from(self.retransmitted) };
        copies * u64::from(self.length)
    }
}

/// A segment to send: its beginning and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: Offset,
    pub length: u32,
}
