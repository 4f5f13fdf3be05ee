//! Reassembly, and reports of data out of order (RFC 2018, RFC 2883).

use super::Receiver;
use crate::{Offset, SackBlocks};

impl Receiver {
    /// Adds the bytes `start..end` to the stream.
    pub(super) fn insert(&mut self, start: Offset, end: Offset) {
        if end <= self.next {
            return;
        }
        if start > self.next {
            self.insert_block(start, end);
            return;
        }
        self.next = end;
        // A retransmission may overlap blocks; the stream continues after the last one that it
        // reaches.
        let reached = self.blocks.partition_point(|block| block.0 <= end);
        if let Some((_, block_end)) = self.blocks.drain(..reached).next_back() {
            self.next = end.max(block_end);
        }
    }

    pub(super) fn insert_block(&mut self, start: Offset, end: Offset) {
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

    /// Returns `true` if data at `start` continues the block that changed last.
    pub(super) fn follows_recent(&self, start: Offset) -> bool {
        let at = self.recent[0];
        let index = self.blocks.partition_point(|block| block.1 <= at);
        self.blocks.get(index).is_some_and(|&(low, high)| low <= at && high == start)
    }

    /// Records which part of `start..end` is a duplicate (RFC 2883, section 4); of several parts,
    /// the first.
    pub(super) fn note_duplicate(&mut self, start: Offset, end: Offset) {
        if !self.config.dsack || start >= end {
            return;
        }
        if start < self.next {
            self.duplicate = Some((start, end.min(self.next)));
            return;
        }
        let reached = self.blocks.partition_point(|block| block.1 <= start);
        if let Some(&(low, high)) = self.blocks.get(reached)
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
        for at in self.recent {
            let index = self.blocks.partition_point(|block| block.1 <= at);
            if let Some(&(start, end)) = self.blocks.get(index)
                && start <= at
            {
                sack.push(start, end);
                reported = true;
            }
        }
        if let (false, Some(&(start, end))) = (reported, self.blocks.first()) {
            sack.push(start, end);
        }
        sack
    }
}
