//! Counters of a class.

use perhop_core::Bytes;

use crate::{Backlog, Cause, Ledger, Pass, Verdict};

/// Counters of a class since the run began. Sizes are IP bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Packets and bytes handed to the transmitter.
    pub sent: Backlog,
    /// Packets dropped, by cause; see [`ClassCounters::dropped`].
    dropped: [u64; Cause::ALL.len()],
    /// Packets marked with CE (congestion experienced, RFC 3168).
    pub marked: u64,
    /// Packets whose DSCP the policer changed.
    pub remarked: u64,
    /// Packets and bytes that conformed to the policer.
    pub conformed: Backlog,
    /// Packets and bytes that exceeded it, whether sent, dropped or remarked.
    pub exceeded: Backlog,
    /// Packets and bytes that violated it, if it has three colours.
    pub violated: Backlog,
}

impl ClassCounters {
    /// Returns the number of packets dropped for this cause.
    pub const fn dropped(&self, cause: Cause) -> u64 {
        self.dropped[cause as usize]
    }

    /// Returns the number of packets dropped for any cause.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    pub(crate) fn count_drop(&mut self, cause: Cause) {
        self.dropped[cause as usize] += 1;
    }

    /// Counts the drops and marks that `ledger` got since it had `drops` and `marks`.
    #[inline]
    pub(crate) fn count_since<B>(&mut self, ledger: &Ledger<B>, drops: usize, marks: u64) {
        for drop in &ledger.drops[drops..] {
            self.count_drop(drop.cause);
        }
        self.marked += ledger.marks - marks;
    }

    /// Counts a packet of `size` that was offered to an idle link.
    #[inline(always)]
    pub(crate) fn count_passed(&mut self, pass: Pass, size: Bytes) {
        match pass {
            Pass::Send => self.sent.add(size),
            Pass::Drop(cause) => self.count_drop(cause),
            Pass::Enqueue => {}
        }
    }

    pub(crate) fn count_policed(&mut self, verdict: Verdict, size: Bytes) {
        match verdict {
            Verdict::Conformed => self.conformed.add(size),
            Verdict::Exceeded => self.exceeded.add(size),
            Verdict::Violated => self.violated.add(size),
        }
    }
}

impl Backlog {
    pub(crate) fn add(&mut self, size: Bytes) {
        self.packets += 1;
        self.bytes += size;
    }
}
