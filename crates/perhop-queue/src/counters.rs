//! What a class did with its packets.

use perhop_core::Bytes;

use crate::{Backlog, Cause, Ledger, Verdict};

/// What a class has done since the run began. Sizes are IP bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// What was handed to the transmitter.
    pub sent: Backlog,
    /// Packets dropped, by cause; see [`ClassCounters::dropped`].
    dropped: [u64; Cause::ALL.len()],
    /// Packets that were marked with congestion experienced.
    pub marked: u64,
    /// Packets that the class's policer gave another DSCP.
    pub remarked: u64,
    /// What conformed to the class's policer.
    pub conformed: Backlog,
    /// What exceeded it, whether sent, dropped or remarked.
    pub exceeded: Backlog,
    /// What violated it likewise, where it tells three colours apart.
    pub violated: Backlog,
}

impl ClassCounters {
    /// Packets dropped for this cause.
    pub const fn dropped(&self, cause: Cause) -> u64 {
        self.dropped[cause as usize]
    }

    /// Packets dropped for any cause.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    pub(crate) fn count_drop(&mut self, cause: Cause) {
        self.dropped[cause as usize] += 1;
    }

    /// Counts what `ledger` has got since it had so many drops and marks.
    #[inline]
    pub(crate) fn count_since<B>(&mut self, ledger: &Ledger<B>, drops: usize, marks: u64) {
        for drop in &ledger.drops[drops..] {
            self.count_drop(drop.cause);
        }
        self.marked += ledger.marks - marks;
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
