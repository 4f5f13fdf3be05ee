//! What was sent and not yet acknowledged, segment by segment (RFC 6675, section 3).

use std::collections::VecDeque;

use perhop_core::{Duration, Time};

use crate::Offset;

/// So many SACKed segments above one say that it is lost (RFC 6675: DupThresh).
pub(crate) const DUPLICATE_THRESHOLD: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Sent {
    start: Offset,
    at: Time,
    length: u32,
    /// Its last transmission's place among all, modulo 2³².
    order: u32,
    sacked: bool,
    lost: bool,
    /// Sent again and not lost again.
    retransmitted: bool,
    /// Sent more than once: which copy an acknowledgement is for is not certain.
    ambiguous: bool,
}

impl Sent {
    fn end(&self) -> Offset {
        self.start + Offset::from(self.length)
    }

    /// Whether a transmission of it may still arrive, as far as is known.
    fn is_under_way(&self) -> bool {
        !self.sacked && (!self.lost || self.retransmitted)
    }

    /// What the segment adds to the pipe (RFC 6675, section 4, SetPipe): its first transmission
    /// unless it is lost, and its retransmission.
    fn in_pipe(&self) -> u64 {
        let copies =
            if self.sacked { 0 } else { u64::from(!self.lost) + u64::from(self.retransmitted) };
        copies * u64::from(self.length)
    }
}

/// A segment to send: where it begins and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: Offset,
    pub length: u32,
}

/// A transmission that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    order: u32,
    /// How long ago that was when its acknowledgement came.
    pub rtt: Duration,
}

impl Newest {
    /// Whether it was sent after the other (RFC 8985: RACK_sent_after; by order rather than by
    /// time, since several may be sent at one instant).
    pub fn is_after(self, other: Self) -> bool {
        is_after(self.order, other.order)
    }
}

fn is_after(order: u32, other: u32) -> bool {
    (order.wrapping_sub(other) as i32) > 0
}

/// What an acknowledgement removed or marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Bytes acknowledged cumulatively.
    pub acked: u64,
    /// Bytes that this acknowledgement is the first to cover.
    pub delivered: u64,
    /// Of the transmissions that it is the first to cover, the one that was sent last.
    pub newest: Option<Newest>,
    /// Whether a segment that was sent once arrived after a higher one.
    pub reordered: bool,
    /// A retransmission that seems to have come back sooner than this did not: the first
    /// transmission did (RFC 8985, section 6.2, step 2).
    pub min_rtt: Duration,
    /// The timestamp echoed, in the same microseconds: before it nothing later was sent.
    pub echo: Option<u32>,
    /// The longest time since the transmission of a segment that this acknowledgement is the
    /// first to cover. None if one of them was retransmitted: which copy arrived is unknown
    /// (Karn's algorithm).
    pub rtt: Option<Duration>,
    ambiguous: bool,
}

impl Progress {
    /// Covers a segment; everything below `fack` may have been covered before.
    fn cover(&mut self, sent: &Sent, now: Time, fack: &mut Offset) {
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
            self.reordered |= sent.end() < *fack;
            self.take_newest(newest);
        }
        *fack = sent.end().max(*fack);
        self.rtt = match self.ambiguous {
            true => None,
            false => Some(self.rtt.map_or(elapsed, |rtt| rtt.max(elapsed))),
        };
    }

    fn take_newest(&mut self, newest: Newest) {
        if self.newest.is_none_or(|known| newest.is_after(known)) {
            self.newest = Some(newest);
        }
    }
}

/// What [`Scoreboard::detect_overdue`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overdue {
    /// Whether anything was newly marked.
    pub lost: bool,
    /// When the last of the retransmissions that were lost was sent, if any was.
    pub retransmission: Option<Time>,
    /// When the first was sent that is not overdue yet.
    pub waiting_since: Option<Time>,
}

/// The outstanding segments in order. Indices count from the first segment ever sent, so that
/// they stay valid while the front moves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    segments: VecDeque<Sent>,
    /// Index of the front segment.
    base: usize,
    /// Everything before this is acknowledged.
    acknowledged: Offset,
    pipe: u64,
    /// Blocks that were SACKed last; every whole segment in them is marked.
    recent_blocks: [(Offset, Offset); 4],
    /// One above the highest SACKed segment; at most `base` if there is none.
    sacked_end: usize,
    /// Segments below this were examined for loss.
    lost_end: usize,
    /// No lost segment below this waits for its retransmission.
    next_lost: usize,
    /// Outstanding segments that are SACKed, and their bytes.
    sacked: (usize, u64),
    /// Where the highest segment that arrived ends (RFC 8985: RACK.fack).
    fack: Offset,
    /// The order of each transmission, and the segment's index; kept only for
    /// [`detect_overdue`](Self::detect_overdue). What was acknowledged, lost or sent again since
    /// is left in it until it comes to the front.
    transmissions: Option<VecDeque<(u32, usize)>>,
    /// How many transmissions there were, modulo 2³².
    sent: u32,
}

impl Scoreboard {
    /// A scoreboard that detects losses by time.
    pub fn by_time() -> Self {
        Self { transmissions: Some(VecDeque::new()), ..Self::default() }
    }

    /// Everything before this is acknowledged: SND.UNA.
    pub fn acknowledged(&self) -> Offset {
        self.acknowledged
    }

    /// Everything from here on was never sent: SND.NXT.
    pub fn end(&self) -> Offset {
        self.segments.back().map_or(self.acknowledged, Sent::end)
    }

    /// Bytes between the two: FlightSize (RFC 5681, section 2).
    pub fn flight(&self) -> u64 {
        self.end() - self.acknowledged
    }

    /// The estimate of what is in the network (RFC 6675, section 3).
    pub fn pipe(&self) -> u64 {
        self.pipe
    }

    /// How many outstanding segments are SACKed.
    pub fn sacked_segments(&self) -> usize {
        self.sacked.0
    }

    /// How many outstanding bytes are SACKed.
    pub fn sacked_bytes(&self) -> u64 {
        self.sacked.1
    }

    /// Outstanding segments.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Whether everything is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Notes a segment of new data.
    pub fn send(&mut self, length: u32, now: Time) -> Span {
        let start = self.end();
        let sent = Sent {
            start,
            at: now,
            length,
            order: self.sent,
            sacked: false,
            lost: false,
            retransmitted: false,
            ambiguous: false,
        };
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.push_back((self.sent, self.base + self.segments.len()));
        }
        self.sent = self.sent.wrapping_add(1);
        self.segments.push_back(sent);
        self.pipe += u64::from(length);
        Span { start, length }
    }

    /// Takes the cumulative acknowledgement of everything before `ack`, which must not be beyond
    /// the end.
    pub fn acknowledge(&mut self, ack: Offset, now: Time, progress: &mut Progress) {
        while let Some(front) = self.segments.front_mut() {
            if front.start >= ack {
                break;
            }
            progress.acked += front.end().min(ack) - front.start;
            if front.end() > ack {
                // Part of a segment; the rest stays outstanding.
                let before = front.in_pipe();
                let acked = (ack - front.start) as u32;
                front.start = ack;
                front.length -= acked;
                self.pipe -= before - front.in_pipe();
                if front.sacked {
                    self.sacked.1 -= u64::from(acked);
                } else {
                    progress.delivered += u64::from(acked);
                }
                break;
            }
            self.pipe -= front.in_pipe();
            if front.sacked {
                self.sacked.0 -= 1;
                self.sacked.1 -= u64::from(front.length);
            } else {
                progress.cover(front, now, &mut self.fack);
            }
            self.segments.pop_front();
            self.base += 1;
        }
        self.acknowledged = self.acknowledged.max(ack);
        self.next_lost = self.next_lost.max(self.base);
        self.lost_end = self.lost_end.max(self.base);
    }

    /// Marks the segments that lie wholly in `start..end` as SACKed.
    ///
    /// While a hole is open every acknowledgement repeats the blocks above it, longer by a
    /// segment. What the last blocks covered is skipped, else a hole would cost the square of the
    /// window.
    pub fn sack(&mut self, start: Offset, end: Offset, now: Time, progress: &mut Progress) {
        let known = self.recent_blocks.iter().find(|block| start <= block.0 && block.1 <= end);
        let (low, high) = known.copied().unwrap_or((start, start));
        self.mark_sacked(start, low, now, progress);
        self.mark_sacked(high, end, now, progress);
        self.recent_blocks.rotate_right(1);
        self.recent_blocks[0] = (start, end);
    }

    fn mark_sacked(&mut self, start: Offset, end: Offset, now: Time, progress: &mut Progress) {
        if start >= end {
            return;
        }
        let first = self.segments.partition_point(|sent| sent.start < start);
        for index in first..self.segments.len() {
            let sent = &mut self.segments[index];
            if sent.end() > end {
                break;
            }
            if sent.sacked {
                continue;
            }
            self.pipe -= sent.in_pipe();
            sent.sacked = true;
            self.sacked.0 += 1;
            self.sacked.1 += u64::from(sent.length);
            self.sacked_end = self.sacked_end.max(self.base + index + 1);
            progress.cover(sent, now, &mut self.fack);
        }
    }

    /// Marks as lost every segment with [`DUPLICATE_THRESHOLD`] SACKed ones above it. Returns
    /// whether a segment was newly marked.
    pub fn detect_losses(&mut self) -> bool {
        // Most acknowledgements find nothing SACKed.
        if self.sacked_end <= self.base {
            return false;
        }
        let top = self.sacked_end - self.base;
        let sacked = (0..top).rev().filter(|&index| self.segments[index].sacked);
        let Some(boundary) = sacked.take(DUPLICATE_THRESHOLD).nth(DUPLICATE_THRESHOLD - 1) else {
            return false;
        };
        let mut found = false;
        for index in self.lost_end - self.base..boundary {
            found |= self.mark_lost(index);
        }
        self.lost_end = self.lost_end.max(self.base + boundary);
        found
    }

    /// Marks as lost every transmission before `newest` that was sent at `limit` or earlier
    /// (RFC 8985, section 6.2, step 5). Retransmissions are lost as first transmissions are.
    pub fn detect_overdue(&mut self, newest: Newest, limit: Time) -> Overdue {
        let mut found = Overdue::default();
        let Some(mut transmissions) = self.transmissions.take() else { return found };
        while let Some(&(order, index)) = transmissions.front() {
            if !is_after(newest.order, order) {
                break;
            }
            let sent = index.checked_sub(self.base).and_then(|index| self.segments.get(index));
            if let Some(sent) = sent
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
            transmissions.pop_front();
        }
        self.transmissions = Some(transmissions);
        found
    }

    /// Marks a segment as lost, and its retransmission.
    fn lose_again(&mut self, index: usize) {
        let sent = &mut self.segments[index - self.base];
        let before = sent.in_pipe();
        sent.lost = true;
        sent.retransmitted = false;
        self.pipe -= before - sent.in_pipe();
        self.next_lost = self.next_lost.min(index);
        self.lost_end = self.lost_end.max(index + 1);
    }

    /// Marks the first outstanding segment as lost, unless it was retransmitted already.
    pub fn lose_first(&mut self) -> bool {
        let found = !self.segments.is_empty() && self.mark_lost(0);
        self.next_lost = self.base;
        self.lost_end = self.lost_end.max(self.base + usize::from(found));
        found
    }

    /// Marks everything that is not SACKed as lost, retransmissions too.
    pub fn lose_all(&mut self) {
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.clear();
        }
        for sent in &mut self.segments {
            sent.lost = !sent.sacked;
            sent.retransmitted = false;
        }
        self.pipe = 0;
        self.next_lost = self.base;
        self.lost_end = self.base + self.segments.len();
    }

    fn mark_lost(&mut self, index: usize) -> bool {
        let sent = &mut self.segments[index];
        if sent.sacked || sent.lost {
            return false;
        }
        let before = sent.in_pipe();
        sent.lost = true;
        self.pipe -= before - sent.in_pipe();
        true
    }

    /// The first lost segment that was not retransmitted (RFC 6675, section 4, NextSeg rule 1).
    pub fn next_lost(&mut self) -> Option<Span> {
        while self.next_lost < self.lost_end {
            let sent = &self.segments[self.next_lost - self.base];
            if sent.lost && !sent.retransmitted && !sent.sacked {
                return Some(Span { start: sent.start, length: sent.length });
            }
            self.next_lost += 1;
        }
        None
    }

    /// The first segment below the highest SACKed one that is neither SACKed, lost nor
    /// retransmitted (NextSeg rule 3).
    pub fn next_unsure(&self) -> Option<Span> {
        let top = self.sacked_end.saturating_sub(self.base).min(self.segments.len());
        let first = (self.lost_end - self.base).min(top);
        self.segments
            .range(first..top)
            .find(|sent| !sent.sacked && !sent.lost && !sent.retransmitted)
            .map(|sent| Span { start: sent.start, length: sent.length })
    }

    /// The last outstanding segment, if it is not SACKed (NextSeg rule 4, the rescue
    /// retransmission).
    pub fn last_unsacked(&self) -> Option<Span> {
        let sent = self.segments.back()?;
        (!sent.sacked).then_some(Span { start: sent.start, length: sent.length })
    }

    /// Notes that the segment that begins at `start` was sent again.
    pub fn retransmit(&mut self, start: Offset, now: Time) {
        let index = self.segments.partition_point(|sent| sent.start < start);
        let sent = &mut self.segments[index];
        debug_assert_eq!(sent.start, start);
        let before = sent.in_pipe();
        sent.retransmitted = true;
        sent.ambiguous = true;
        sent.at = now;
        sent.order = self.sent;
        self.pipe += sent.in_pipe() - before;
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.push_back((self.sent, self.base + index));
        }
        self.sent = self.sent.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: fn(u64) -> Time = |ms| Time::from_picos(ms * 1_000_000_000);

    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        for index in 0..segments {
            board.send(100, MS(index));
        }
        board
    }

    fn sack(board: &mut Scoreboard, start: Offset, end: Offset) -> Progress {
        let mut progress = Progress::default();
        board.sack(start, end, MS(100), &mut progress);
        progress
    }

    #[test]
    fn three_sacked_segments_above_make_a_loss() {
        let mut board = board(6);
        sack(&mut board, 200, 400);
        assert!(!board.detect_losses());
        assert_eq!(board.next_unsure(), Some(Span { start: 0, length: 100 }));
        sack(&mut board, 500, 600);
        assert!(board.detect_losses());
        assert_eq!(board.next_lost(), Some(Span { start: 0, length: 100 }));
        // 600 in flight, 300 SACKed, 200 lost.
        assert_eq!(board.pipe(), 100);
        board.retransmit(0, MS(50));
        assert_eq!(board.pipe(), 200);
        assert_eq!(board.next_lost(), Some(Span { start: 100, length: 100 }));
        board.retransmit(100, MS(50));
        assert_eq!(board.next_lost(), None);
        assert_eq!(board.next_unsure(), Some(Span { start: 400, length: 100 }));
        assert_eq!(board.last_unsacked(), None);
    }

    #[test]
    fn a_sample_is_from_the_oldest_segment_that_is_newly_covered() {
        let mut board = board(3);
        let progress = sack(&mut board, 100, 200);
        assert_eq!(progress.rtt, Some(MS(99).since(Time::ZERO)));
        let mut progress = Progress::default();
        board.acknowledge(300, MS(200), &mut progress);
        assert_eq!(progress.rtt, Some(MS(200).since(Time::ZERO)));
    }

    #[test]
    fn a_retransmission_gives_no_sample() {
        let mut board = board(2);
        board.lose_first();
        board.retransmit(0, MS(50));
        let mut progress = Progress::default();
        board.acknowledge(200, MS(200), &mut progress);
        assert_eq!((progress.acked, progress.rtt), (200, None));
        assert!(board.is_empty());
    }

    #[test]
    fn part_of_a_segment_can_be_acknowledged() {
        let mut board = board(2);
        board.acknowledge(30, MS(1), &mut Progress::default());
        assert_eq!((board.acknowledged(), board.flight(), board.pipe()), (30, 170, 170));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Send(u32),
        Ack(u64),
        Sack(u64, u64),
        Detect,
        LoseFirst,
        LoseAll,
        Retransmit,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1_u32..200).prop_map(Step::Send),
            2 => (0_u64..400).prop_map(Step::Ack),
            3 => (0_u64..2_000, 0_u64..600).prop_map(|(at, length)| Step::Sack(at, length)),
            2 => Just(Step::Detect),
            1 => Just(Step::LoseFirst),
            1 => Just(Step::LoseAll),
            3 => Just(Step::Retransmit),
        ]
    }

    proptest! {
        /// Whatever happens, the running totals are those of a recount.
        #[test]
        fn totals_agree_with_a_recount(steps in prop::collection::vec(step(), 1..200)) {
            let mut board = Scoreboard::default();
            for (index, step) in steps.into_iter().enumerate() {
                let now = MS(index as u64);
                let mut progress = Progress::default();
                match step {
                    Step::Send(length) => { board.send(length, now); }
                    Step::Ack(more) => {
                        let ack = (board.acknowledged() + more).min(board.end());
                        let before = board.acknowledged();
                        board.acknowledge(ack, now, &mut progress);
                        prop_assert_eq!(progress.acked, ack - before);
                    }
                    Step::Sack(at, length) => {
                        let start = board.acknowledged() + at;
                        board.sack(start, start + length, now, &mut progress);
                    }
                    Step::Detect => { board.detect_losses(); }
                    Step::LoseFirst => { board.lose_first(); }
                    Step::LoseAll => board.lose_all(),
                    Step::Retransmit => if let Some(span) = board.next_lost() {
                        board.retransmit(span.start, now);
                    }
                }
                let pipe: u64 = board.segments.iter().map(Sent::in_pipe).sum();
                prop_assert_eq!(board.pipe(), pipe);
                let waiting = board.segments.iter()
                    .find(|sent| sent.lost && !sent.retransmitted && !sent.sacked)
                    .map(|sent| sent.start);
                prop_assert_eq!(board.next_lost().map(|span| span.start), waiting);
            }
        }
    }
}
