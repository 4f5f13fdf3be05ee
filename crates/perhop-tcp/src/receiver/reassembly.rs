//! Reassembly, and reports of data out of order (RFC 2018, RFC 2883).

use perhop_core::prefetch;

use super::Receiver;
use crate::{Offset, SackBlocks};

/// Data that waits for what is missing.
#[derive(Clone, Debug, Default)]
pub(super) struct Beyond {
    /// Disjoint, not adjacent, in order.
    blocks: Vec<(Offset, Offset)>,
    /// A position in each of the blocks that changed last, the most recent first: these are
    /// reported (RFC 2018, section 4). Zero is in no block.
    recent: [Offset; 4],
}

impl Beyond {
    /// Prefetches the first blocks.
    #[inline(always)]
    pub fn prefetch(&self) {
        self.blocks.first().into_iter().for_each(prefetch);
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|(start, end)| end - start).sum()
    }

    /// Returns the block at this position, or else the next one.
    pub fn block(&self, at: Offset) -> Option<(Offset, Offset)> {
        let index = self.blocks.partition_point(|block| block.1 <= at);
        self.blocks.get(index).copied()
    }

    fn insert(&mut self, start: Offset, end: Offset) {
        // The blocks that it overlaps or touches are merged with it.
        let first = self.blocks.partition_point(|block| block.1 < start);
        let last = first + self.blocks[first..].partition_point(|block| block.0 <= end);
        if first == last {
            self.blocks.insert(first, (start, end));
        } else {
            let merged = (self.blocks[first].0.min(start), self.blocks[last - 1].1.max(end));
            self.blocks[first] = merged;
            self.blocks.drain(first + 1..last);
        }
        // The block moves to the front; blocks merged into it leave gaps at the end.
        let (low, high) = self.blocks[first];
        let mut recent = [start, 0, 0, 0];
        let others = self.recent.iter().filter(|&&at| !(low..high).contains(&at));
        for (place, &at) in recent[1..].iter_mut().zip(others) {
            *place = at;
        }
        self.recent = recent;
    }

    /// Removes the blocks that data up to `next` reaches; returns the end of the last one.
    fn take_up_to(&mut self, next: Offset) -> Option<Offset> {
        let reached = self.blocks.partition_point(|block| block.0 <= next);
        self.blocks.drain(..reached).next_back().map(|(_, end)| end)
    }
}

impl Receiver {
    /// Adds the bytes `start..end` to the stream.
    pub(super) fn insert(&mut self, start: Offset, end: Offset) {
        if end <= self.next {
            return;
        }
        if start > self.next {
            return self.beyond.insert(start, end);
        }
        // A retransmission may overlap blocks; the stream continues after the last one that it
        // reaches.
        self.next = self.beyond.take_up_to(end).map_or(end, |reached| end.max(reached));
    }

    /// Returns `true` if data at `start` continues the block that changed last.
    pub(super) fn follows_recent(&self, start: Offset) -> bool {
        let at = self.beyond.recent[0];
        self.beyond.block(at).is_some_and(|(low, high)| low <= at && high == start)
    }

    /// Records which part of `start..end` is a duplicate (RFC 2883, section 4); of several parts,
    /// the first.
    pub(super) fn note_duplicate(&mut self, start: Offset, end: Offset) {
        if !self.config.dsack || start >= end {
            return;
        }
        if start < self.next {
            self.duplicate = Some((start, end.min(self.next)));
        } else if let Some((low, high)) = self.beyond.block(start)
            && low < end
        {
            self.duplicate = Some((start.max(low), end.min(high)));
        }
    }

    /// Returns the blocks to report: duplicate data, then blocks by their last change. If all of
    /// these are in order by now, the first other block: as long as data is missing, every
    /// acknowledgement reports data beyond it (RFC 2018, section 3).
    pub(super) fn sack_blocks(&self, duplicate: Option<(Offset, Offset)>) -> SackBlocks {
        let mut sack = SackBlocks::default();
        let mut reported = false;
        if let Some((start, end)) = duplicate {
            sack.push(start, end);
        }
        for at in self.beyond.recent {
            if let Some((start, end)) = self.beyond.block(at)
                && start <= at
            {
                sack.push(start, end);
                reported = true;
            }
        }
        if let (false, Some(&(start, end))) = (reported, self.beyond.blocks.first()) {
            sack.push(start, end);
        }
        sack
    }
}
