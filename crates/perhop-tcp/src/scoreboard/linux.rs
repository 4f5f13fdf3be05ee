//! The retransmission queue as Linux keeps it (net/ipv4/tcp_input.c, tcp_recovery.c): marks of each
//! segment and their counts in segments. Losses are detected by the time of the transmission that
//! was processed last.

use perhop_core::{Duration, Time};

use super::progress::is_after;
use super::sent::Sent;
use super::{Scoreboard, Span};
use crate::Offset;

/// Counts of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Lost segments that have not arrived, retransmitted or not (lost_out).
    pub lost: u32,
    /// Retransmissions under way (retrans_out).
    pub resent: u32,
    /// Transmissions found lost since the connection began (lost).
    pub ever: u32,
}

/// RACK's state of the path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinuxRack {
    /// Of the transmissions that have arrived, the last one sent.
    pub order: Option<u32>,
    /// Round-trip time of the transmission that was processed last.
    pub rtt: Duration,
    /// True if something has arrived since losses were last looked for.
    pub advanced: bool,
}

/// Facts that the effect of an acknowledgement depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub now: Time,
    /// End of the data that was sent when the present state began.
    pub high: Offset,
    /// Minimum round-trip time of the connection.
    pub min_rtt: Duration,
    /// Millisecond at which the segment was sent whose timestamp is echoed, if any.
    pub echo: Option<u64>,
}

/// Effect of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Segments and bytes that it is the first to report.
    pub delivered: u32,
    pub bytes: u64,
    /// Segments removed by the cumulative acknowledgement.
    pub acked: u32,
    /// True if a segment was newly SACKed.
    pub sacked: bool,
    /// True if a removed segment had been sent again.
    pub again: bool,
    /// True if a segment that was sent once, before the present state, is among them.
    pub original: bool,
    /// Lowest beginning of a segment that a higher one overtook; the end of all if there is none.
    pub overtaken: Offset,
    /// Transmission times of the first and the last segment that was removed, and SACKed, and had
    /// been sent once.
    pub acked_at: Option<(Time, Time)>,
    pub sacked_at: Option<(Time, Time)>,
    /// Order number of the last transmission among them.
    pub newest: Option<u32>,
}

impl Arrival {
    pub fn new(end: Offset) -> Self {
        Self {
            delivered: 0,
            bytes: 0,
            acked: 0,
            sacked: false,
            again: false,
            original: false,
            overtaken: end,
            acked_at: None,
            sacked_at: None,
            newest: None,
        }
    }

    fn add(&mut self, sent: &Sent) {
        self.delivered += 1;
        self.bytes += u64::from(sent.length);
        if self.newest.is_none_or(|newest| is_after(sent.order, newest)) {
            self.newest = Some(sent.order);
        }
    }
}

/// Returns the millisecond of a time: the clock of Linux's timestamps.
pub(crate) fn millis(at: Time) -> u64 {
    at.as_picos() / 1_000_000_000
}

impl LinuxRack {
    /// Records that a transmission has arrived (tcp_rack_advance).
    pub(super) fn advance(&mut self, sent: &Sent, facts: &Facts) {
        let rtt = facts.now.since(sent.at);
        if sent.ambiguous && rtt < facts.min_rtt {
            return;
        }
        (self.advanced, self.rtt) = (true, rtt);
        if self.order.is_none_or(|order| is_after(sent.order, order)) {
            self.order = Some(sent.order);
        }
    }

    /// Returns the time left until a transmission is overdue (tcp_rack_skb_timeout); zero if it is.
    pub(super) fn left(&self, sent: &Sent, now: Time, window: Duration) -> Duration {
        let limit = sent.at + self.rtt + window;
        if limit > now { limit.since(now) } else { Duration::ZERO }
    }
}

impl Scoreboard {
    /// Returns the segments in the network (tcp_packets_in_flight), as far as SACKs tell.
    pub fn in_flight(&self) -> u32 {
        let Counts { lost, resent, .. } = self.counts;
        self.segments.len() as u32 + resent - self.sacked - lost
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Counts all marks again, after changes that do not keep the counts.
    pub fn recount(&mut self) {
        let mut counts = Counts { ever: self.counts.ever, ..Counts::default() };
        for sent in self.segments.iter() {
            counts.lost += u32::from(sent.lost);
            counts.resent += u32::from(sent.retransmitted);
        }
        self.counts = counts;
    }

    /// Returns the end of the highest SACKed segment; the acknowledged end if there is none
    /// (tcp_highest_sack_seq).
    pub fn highest_sacked(&self) -> Offset {
        match self.sacked {
            0 => self.segments.start(),
            _ => self.segments.get(self.sacked_end as usize - 1).end(),
        }
    }

    pub(super) fn put(&mut self, index: usize, before: &Sent, after: Sent) {
        self.pipe = self.pipe + after.in_pipe() - before.in_pipe();
        let counts = &mut self.counts;
        counts.lost = counts.lost + u32::from(after.lost) - u32::from(before.lost);
        counts.resent =
            counts.resent + u32::from(after.retransmitted) - u32::from(before.retransmitted);
        self.segments.set(index, after);
    }

    /// Takes a SACK block (tcp_sacktag_write_queue). Ranges of the last blocks are known.
    pub fn tag(
        &mut self,
        (start, end): (Offset, Offset),
        facts: &Facts,
        rack: &mut LinuxRack,
        arrival: &mut Arrival,
    ) {
        let known = self.recent_blocks.iter().find(|block| start <= block.0 && block.1 <= end);
        let (low, high) = known.copied().unwrap_or((start, start));
        for (start, end) in [(start, low), (high, end)] {
            if start >= end {
                continue;
            }
            let first = self.segments.before(start, self.sacked_end);
            for index in first..self.segments.len() {
                let sent = self.segments.get(index);
                if sent.end() > end {
                    break;
                }
                if !sent.sacked {
                    self.tag_one(index, &sent, facts, rack, arrival);
                }
            }
        }
        self.recent_blocks.rotate_right(1);
        self.recent_blocks[0] = (start, end);
    }

    /// Marks a segment as SACKed (tcp_sacktag_one).
    fn tag_one(
        &mut self,
        index: usize,
        sent: &Sent,
        facts: &Facts,
        rack: &mut LinuxRack,
        arrival: &mut Arrival,
    ) {
        rack.advance(sent, facts);
        let mut tagged = Sent { sacked: true, ..*sent };
        if sent.retransmitted {
            // A retransmission of a segment that is not lost is still under way.
            if sent.lost {
                (tagged.lost, tagged.retransmitted) = (false, false);
            }
        } else {
            if !sent.ambiguous {
                if sent.start < self.highest_sacked() {
                    arrival.overtaken = arrival.overtaken.min(sent.start);
                }
                arrival.original |= sent.end() <= facts.high;
                let (first, _) = arrival.sacked_at.unwrap_or((sent.at, sent.at));
                arrival.sacked_at = Some((first, sent.at));
            }
            tagged.lost = false;
        }
        self.put(index, sent, tagged);
        self.sacked += 1;
        self.sacked_bytes += u64::from(sent.length);
        self.sacked_end = self.sacked_end.max(index as u32 + 1);
        if !tagged.retransmitted {
            self.join(index, &tagged);
        }
        arrival.sacked = true;
        arrival.add(sent);
    }

    /// Joins a SACKed segment to the SACKed ones before it, and then to those behind it, as Linux
    /// does with its buffers (tcp_shift_skb_data): if one of them was sent again, a report that any
    /// of them has arrived twice counts as that of a retransmission.
    fn join(&mut self, index: usize, tagged: &Sent) {
        let joins = |sent: &Sent| sent.sacked && !sent.lost && !sent.retransmitted;
        let fits = |sent: &Sent| joins(sent) && sent.length == tagged.length;
        let before = index.checked_sub(1).map(|index| self.segments.get(index)).filter(fits);
        let Some(before) = before else { return };
        let behind = (index + 1 < self.segments.len()).then(|| self.segments.get(index + 1));
        let behind = behind.filter(fits);
        if !(tagged.ambiguous || before.ambiguous || behind.is_some_and(|sent| sent.ambiguous)) {
            return;
        }
        self.segments.set(index, Sent { ambiguous: true, ..*tagged });
        // A segment that has the mark ends the walk: those that are joined to it have it, too.
        let mut mark = |index: usize| {
            let sent = self.segments.get(index);
            let unmarked = joins(&sent) && !sent.ambiguous;
            if unmarked {
                self.segments.set(index, Sent { ambiguous: true, ..sent });
            }
            unmarked
        };
        let _ = (0..index).rev().take_while(|&index| mark(index)).count();
        if behind.is_some() {
            let end = self.sacked_end as usize;
            let _ = (index + 1..end).take_while(|&index| mark(index)).count();
        }
    }

    /// Takes a report that this range has arrived twice: retransmissions of segments in it are not
    /// under way any more. Returns the number of those that end beyond `from`.
    pub fn tag_duplicate(
        &mut self,
        (start, end): (Offset, Offset),
        from: Offset,
        arrival: &mut Arrival,
    ) -> u32 {
        let mut reported = 0;
        let first = self.segments.before(start.max(self.segments.start()), 0);
        for index in first..self.segments.len() {
            let sent = self.segments.get(index);
            if sent.end() > end {
                break;
            }
            reported += u32::from(sent.ambiguous && sent.end() > from);
            if sent.ambiguous && sent.sacked {
                arrival.overtaken = arrival.overtaken.min(sent.start);
            }
            if sent.retransmitted {
                self.put(index, &sent, Sent { retransmitted: false, ..sent });
            }
        }
        reported
    }

    /// Takes the cumulative acknowledgement of all data before `ack` (tcp_clean_rtx_queue);
    /// without SACK, nothing is known of what arrives.
    pub fn clean(
        &mut self,
        ack: Offset,
        facts: &Facts,
        sack: bool,
        rack: &mut LinuxRack,
        arrival: &mut Arrival,
    ) {
        let mut removed = 0_u32;
        while !self.segments.is_empty() {
            let front = self.segments.get(0);
            if front.start >= ack {
                break;
            }
            if front.end() > ack {
                let acked = (ack - front.start) as u32;
                let rest = Sent { start: ack, length: front.length - acked, ..front };
                self.pipe -= front.in_pipe() - rest.in_pipe();
                self.segments.set(0, rest);
                if front.sacked {
                    self.sacked_bytes -= u64::from(acked);
                }
                break;
            }
            if front.ambiguous {
                arrival.again = true;
            } else if !front.sacked {
                let (first, _) = arrival.acked_at.unwrap_or((front.at, front.at));
                arrival.acked_at = Some((first, front.at));
                arrival.overtaken = arrival.overtaken.min(front.start);
                arrival.original |= front.end() <= facts.high;
            }
            self.pipe -= front.in_pipe();
            self.counts.lost -= u32::from(front.lost);
            self.counts.resent -= u32::from(front.retransmitted);
            if front.sacked {
                self.sacked -= 1;
                self.sacked_bytes -= u64::from(front.length);
            } else {
                // The timestamp may show that a retransmission was in vain. A SACK echoes that of
                // an earlier segment.
                let early = facts.echo.is_some_and(|echo| echo < millis(front.at));
                if sack && !(front.ambiguous && early) {
                    rack.advance(&front, facts);
                }
                arrival.add(&front);
            }
            arrival.acked += 1;
            self.segments.pop();
            removed += 1;
        }
        for edge in [&mut self.sacked_end, &mut self.lost_end, &mut self.next_lost] {
            *edge = edge.saturating_sub(removed);
        }
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.remove(removed);
        }
        if self.segments.is_empty() {
            self.counts.resent = 0;
        }
    }

    /// Marks overdue transmissions as lost (tcp_rack_detect_loss); returns the time until the last
    /// of those that may be reordered is overdue, if any may.
    pub fn detect_late(
        &mut self,
        now: Time,
        rack: &LinuxRack,
        window: Duration,
    ) -> Option<Duration> {
        let newest = rack.order?;
        let mut transmissions = self.transmissions.take()?;
        let mut left = None;
        transmissions.visit(|order, index| {
            let index = index.filter(|index| *index < self.segments.len());
            let Some((index, sent)) = index.map(|index| (index, self.segments.get(index))) else {
                return Some(true);
            };
            if sent.order != order || sent.sacked {
                return Some(true);
            }
            if sent.lost && !sent.retransmitted {
                return Some(false);
            }
            if !is_after(newest, order) {
                return None;
            }
            let more = rack.left(&sent, now, window);
            if more > Duration::ZERO {
                left = left.max(Some(more));
                return Some(false);
            }
            self.mark(index, &sent);
            Some(true)
        });
        self.transmissions = Some(transmissions);
        left
    }

    /// Marks a segment as lost; if it is, its retransmission (tcp_mark_skb_lost).
    fn mark(&mut self, index: usize, sent: &Sent) {
        if sent.sacked {
            return;
        }
        self.counts.ever += u32::from(!sent.lost || sent.retransmitted);
        let retransmitted = sent.retransmitted && !sent.lost;
        self.put(index, sent, Sent { lost: true, retransmitted, ..*sent });
        self.next_lost = self.next_lost.min(index as u32);
        self.lost_end = self.lost_end.max(index as u32 + 1);
    }

    /// Marks the first segment as lost, once (tcp_newreno_mark_lost).
    pub fn mark_first(&mut self) {
        if !self.segments.is_empty() && !self.segments.get(0).lost {
            let first = self.segments.get(0);
            self.mark(0, &first);
        }
    }

    /// Marks the first segment as lost, and all others but those that were sent less than a round
    /// trip ago (tcp_timeout_mark_lost).
    pub fn mark_all(&mut self, now: Time, rack: &LinuxRack) {
        for index in 0..self.segments.len() {
            let sent = self.segments.get(index);
            if index == 0 || rack.left(&sent, now, Duration::ZERO) == Duration::ZERO {
                self.mark(index, &sent);
            }
        }
        self.next_lost = 0;
    }

    /// Removes all marks of lost segments (tcp_undo_cwnd_reduction).
    pub fn unmark_all(&mut self) {
        for index in 0..self.segments.len() {
            let sent = self.segments.get(index);
            self.put(index, &sent, Sent { lost: false, ..sent });
        }
        (self.next_lost, self.lost_end) = (0, 0);
    }

    /// Returns `true` if a retransmission is under way, or the first segment was sent again
    /// (tcp_any_retrans_done).
    pub fn any_sent_again(&self) -> bool {
        let first = || !self.segments.is_empty() && self.segments.get(0).ambiguous;
        self.counts.resent > 0 || first()
    }

    /// Records a retransmission of the segment at `start`; a probe is not counted as one.
    pub fn send_again(&mut self, start: Offset, now: Time, probe: bool) {
        let index = self.segments.before(start, self.next_lost);
        let sent = self.segments.get(index);
        debug_assert_eq!(sent.start, start);
        let order = self.sent;
        let again = Sent {
            retransmitted: sent.retransmitted || !probe,
            ambiguous: true,
            at: now,
            order,
            ..sent
        };
        self.put(index, &sent, again);
        if sent.retransmitted && !probe {
            // Linux counts a retransmission of a segment whose last one is under way as another
            // one, and never subtracts it before all is acknowledged.
            self.counts.resent += 1;
        }
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.add(order, index);
        }
        self.sent = super::next_order(self.sent);
    }

    /// Returns the order number of the last transmission.
    pub fn last_order(&self) -> u32 {
        self.sent.wrapping_sub(1) % (1 << 28)
    }

    /// Returns the first outstanding segment.
    pub fn first(&self) -> Option<Span> {
        (!self.segments.is_empty()).then(|| {
            let sent = self.segments.get(0);
            Span { start: sent.start, length: sent.length }
        })
    }

    /// Returns the last outstanding segment.
    pub fn last(&self) -> Option<Span> {
        let sent = self.segments.iter().next_back()?;
        Some(Span { start: sent.start, length: sent.length })
    }
}
