//! Detection of lost segments, and the choice of the next retransmission: by counting (RFC 6675,
//! section 4) or by time (RFC 8985, section 6.2).

use perhop_core::Time;

use super::progress::{age, is_after};
use super::{Newest, Scoreboard, Span};
use crate::Offset;

/// Number of SACKed segments above a lost one (RFC 6675, section 2: DupThresh).
pub(crate) const DUPLICATE_THRESHOLD: usize = 3;

/// Greatest threshold that reordering leads to (Linux: TCP_MAX_REORDERING in 2.4).
const MAX_THRESHOLD: u32 = 127;

/// Result of [`Scoreboard::detect_overdue`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overdue {
    /// True if a segment was newly marked as lost.
    pub lost: bool,
    /// Transmission time of the last lost retransmission, if any.
    pub retransmission: Option<Time>,
    /// Transmission time of the first segment that is not overdue yet.
    pub waiting_since: Option<Time>,
}

impl Scoreboard {
    /// Marks as lost every segment with [`DUPLICATE_THRESHOLD`] SACKed ones above it. Returns
    /// `true` if a segment was newly marked.
    pub fn detect_losses(&mut self) -> bool {
        // For most acknowledgements no segment is SACKed.
        let threshold = self.threshold.unwrap_or(DUPLICATE_THRESHOLD as u32);
        if self.sacked < threshold {
            return false;
        }
        let sacked = (0..self.sacked_end).rev().filter(|&index| self.is_sacked(index));
        let Some(boundary) = sacked.take(threshold as usize).last() else { return false };
        let mut found = false;
        for index in self.lost_end..boundary {
            found |= self.mark_lost(index as usize);
        }
        self.lost_end = self.lost_end.max(boundary);
        found
    }

    fn is_sacked(&self, index: u32) -> bool {
        self.segments.get(index as usize).sacked
    }

    /// Marks as lost every transmission before `newest` that was sent at `limit` or earlier
    /// (RFC 8985, section 6.2, step 5). Retransmissions are lost as first transmissions are.
    pub fn detect_overdue(&mut self, newest: Newest, limit: Time) -> Overdue {
        let mut found = Overdue::default();
        let Some(mut transmissions) = self.transmissions.take() else { return found };
        while let Some((order, index)) = transmissions.first() {
            if !is_after(newest.order, order) {
                break;
            }
            let index = index.filter(|index| *index < self.segments.len());
            if let Some((index, sent)) = index.map(|index| (index, self.segments.get(index)))
                && sent.order == order
                && sent.is_under_way()
            {
                if sent.at > limit {
                    found.waiting_since = Some(sent.at);
                    break;
                }
                found.lost = true;
                if sent.retransmitted {
                    found.retransmission = found.retransmission.max(Some(sent.at));
                }
                self.lose_again(index);
            }
            transmissions.pop();
        }
        self.transmissions = Some(transmissions);
        found
    }

    /// Records that the segment at `start` was late and not lost: the highest that has arrived had
    /// overtaken it. The threshold becomes one more than the segments between them (Linux:
    /// tcp_check_sack_reordering).
    pub fn note_reordering(&mut self, mss: u64, start: Offset) {
        let Some(threshold) = &mut self.threshold else { return };
        let displaced = self.fack.saturating_sub(start).div_ceil(mss.max(1));
        *threshold = (displaced.min(MAX_THRESHOLD.into()) as u32).max(*threshold);
    }

    /// Resets the threshold after a timeout.
    pub fn forget_reordering(&mut self) {
        if let Some(threshold) = &mut self.threshold {
            *threshold = DUPLICATE_THRESHOLD as u32;
        }
    }

    /// Returns `true` if a retransmission is in flight.
    pub fn has_retransmissions(&self) -> bool {
        self.segments.iter().any(|sent| sent.retransmitted && !sent.sacked)
    }

    /// Returns `true` if a segment is lost and has not arrived, whether it was sent again or not.
    pub fn has_losses(&self) -> bool {
        self.segments.iter().any(|sent| sent.lost && !sent.sacked)
    }

    /// Removes all marks of lost segments.
    pub fn unmark_lost(&mut self) {
        for index in 0..self.segments.len() {
            let mut sent = self.segments.get(index);
            let before = sent.in_pipe();
            sent.lost = false;
            self.segments.set(index, sent);
            self.pipe += sent.in_pipe() - before;
        }
        self.next_lost = 0;
        self.lost_end = 0;
    }

    /// Makes [`detect_overdue`](Self::detect_overdue) examine all segments in flight again.
    pub fn requeue_transmissions(&mut self) {
        let Some(transmissions) = &mut self.transmissions else { return };
        let under_way = self.segments.iter().enumerate().filter(|(_, sent)| sent.is_under_way());
        let newest = self.sent;
        let all = under_way.map(|(index, sent)| (sent.order, index));
        transmissions.replace(all, |order| age(newest, order));
    }

    /// Marks a segment as lost, and its retransmission.
    fn lose_again(&mut self, index: usize) {
        let mut sent = self.segments.get(index);
        let before = sent.in_pipe();
        sent.lost = true;
        sent.retransmitted = false;
        self.segments.set(index, sent);
        self.pipe -= before - sent.in_pipe();
        if let Some(sampler) = &mut self.sampler {
            sampler.lose(index, sent.length);
        }
        self.next_lost = self.next_lost.min(index as u32);
        self.lost_end = self.lost_end.max(index as u32 + 1);
    }

    /// Marks the first outstanding segment as lost, unless it was retransmitted.
    pub fn lose_first(&mut self) -> bool {
        let found = !self.segments.is_empty() && self.mark_lost(0);
        self.next_lost = 0;
        self.lost_end = self.lost_end.max(u32::from(found));
        found
    }

    /// Marks segments as lost that are not SACKed, retransmissions included: the first one, and
    /// others that were sent at `limit` or earlier (RFC 8985, section 6.3).
    pub fn lose_all(&mut self, limit: Time) {
        self.pipe = 0;
        for index in 0..self.segments.len() {
            let mut sent = self.segments.get(index);
            if index > 0 && sent.at > limit {
                self.pipe += sent.in_pipe();
                continue;
            }
            if let Some(sampler) = &mut self.sampler
                && sent.is_under_way()
            {
                sampler.lose(index, sent.length);
            }
            sent.lost = !sent.sacked;
            sent.retransmitted = false;
            self.segments.set(index, sent);
        }
        self.next_lost = 0;
        self.lost_end = self.segments.len() as u32;
    }

    fn mark_lost(&mut self, index: usize) -> bool {
        let mut sent = self.segments.get(index);
        if sent.sacked || sent.lost {
            return false;
        }
        let before = sent.in_pipe();
        sent.lost = true;
        self.segments.set(index, sent);
        self.pipe -= before - sent.in_pipe();
        if let Some(sampler) = &mut self.sampler {
            sampler.lose(index, sent.length);
        }
        true
    }

    /// Returns the first lost segment that was not retransmitted (RFC 6675, section 4, NextSeg rule
    /// 1).
    pub fn next_lost(&mut self) -> Option<Span> {
        while self.next_lost < self.lost_end {
            let sent = self.segments.get(self.next_lost as usize);
            if sent.lost && !sent.retransmitted && !sent.sacked {
                return Some(Span { start: sent.start, length: sent.length });
            }
            self.next_lost += 1;
        }
        None
    }

    /// Returns the first segment below the highest SACKed one that is neither SACKed, lost nor
    /// retransmitted (NextSeg rule 3).
    pub fn next_unsure(&self) -> Option<Span> {
        let top = (self.sacked_end as usize).min(self.segments.len());
        let first = (self.lost_end as usize).min(top);
        (first..top)
            .map(|index| self.segments.get(index))
            .find(|sent| !sent.sacked && !sent.lost && !sent.retransmitted)
            .map(|sent| Span { start: sent.start, length: sent.length })
    }

    /// Returns the last outstanding segment, if it is not SACKed (NextSeg rule 4, the rescue
    /// retransmission).
    pub fn last_unsacked(&self) -> Option<Span> {
        let sent = self.segments.iter().next_back()?;
        (!sent.sacked).then_some(Span { start: sent.start, length: sent.length })
    }
}
