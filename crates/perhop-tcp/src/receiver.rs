//! The receiving side: putting data in order and acknowledging it.

use perhop_core::{Duration, Time};

use crate::{Flags, Offset, SackBlocks, Segment, Seq};

/// How a receiver behaves.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Receive buffer in bytes, which is the window that it advertises.
    pub window: u32,
    /// How long the acknowledgement of a single segment may wait; zero acknowledges every
    /// segment. RFC 9293, section 3.8.6.3, permits up to 500 ms; Linux waits 40 ms.
    pub delayed_ack: Duration,
    /// Whether it sends selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Whether they report, first, what arrived twice (RFC 2883).
    pub dsack: bool,
    /// Whether the window is scaled (RFC 7323, section 2); without, at most 65535 bytes can be
    /// said.
    pub window_scaling: bool,
    /// Whether it sends timestamps (RFC 7323).
    pub timestamps: bool,
}

/// What arrived at a receiver since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes delivered in order to the application.
    pub delivered: u64,
    /// When the last of them were.
    pub last: Time,
    /// Data segments, duplicates included.
    pub segments: u64,
    /// Segments sent once that arrived after one of higher sequence (RFC 4737, section 3).
    pub reordered: u64,
}

/// The receiving side of a connection. Its application reads at once, so that the window is
/// always the whole buffer beyond what was delivered.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    /// The next byte wanted: RCV.NXT; zero before the SYN.
    next: Offset,
    /// One above the highest byte that has arrived.
    highest: Offset,
    /// Data beyond `next`: disjoint, not adjacent, in order.
    blocks: Vec<(Offset, Offset)>,
    /// A position in each of the blocks that were changed last, the most recent first: these are
    /// reported (RFC 2018, section 4). Zero is in none.
    recent: [Offset; 4],
    /// Where the stream ends, once a FIN has said so.
    fin: Option<Offset>,
    /// Segments that arrived in order since the last acknowledgement.
    unacknowledged: u32,
    last_ack: Offset,
    deadline: Time,
    /// The timestamp to echo (RFC 7323, section 4.3).
    recent_timestamp: u32,
    /// What the last segment brought that was there before, if anything.
    duplicate: Option<(Offset, Offset)>,
    /// The window that is advertised.
    advertised: u32,
    received: Received,
}

impl Receiver {
    /// A receiver that waits for a connection.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            advertised: advertised(config.window, config.window_scaling),
            duplicate: None,
            config,
            next: 0,
            highest: 0,
            blocks: Vec::new(),
            recent: [0; 4],
            fin: None,
            unacknowledged: 0,
            last_ack: 0,
            deadline: Time::MAX,
            recent_timestamp: 0,
            received: Received::default(),
        }
    }

    /// What has arrived.
    pub fn received(&self) -> Received {
        self.received
    }

    /// When [`on_timer`](Self::on_timer) is due; [`Time::MAX`] if it is not.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// Takes a segment; returns the acknowledgement to send at once, if any.
    #[must_use]
    pub fn on_segment(&mut self, now: Time, segment: &Segment) -> Option<Segment> {
        if segment.flags.has(Flags::SYN) {
            self.next = self.next.max(1);
            self.highest = self.highest.max(1);
            self.remember_timestamp(0, segment);
            return Some(self.acknowledge(now));
        }
        if self.next == 0 {
            return None;
        }
        let start = segment.seq.to_offset(self.next)?;
        let end = start + Offset::from(segment.payload);
        if end > self.next + Offset::from(self.advertised) {
            // Beyond the buffer: refused, and the other side told where the edge is.
            return Some(self.acknowledge(now));
        }
        if segment.payload > 0 {
            self.received.segments += 1;
            let late = start < self.highest && !segment.flags.has(Flags::RETRANSMISSION);
            self.received.reordered += u64::from(late);
            self.highest = self.highest.max(end);
        }
        let mut end = end;
        if segment.flags.has(Flags::FIN) {
            self.fin = Some(end);
            end += 1; // the FIN takes a place in the stream
        }
        self.remember_timestamp(start, segment);
        let in_order = start <= self.next && end > self.next && self.blocks.is_empty();
        self.note_duplicate(start, end);
        let before = self.next;
        self.insert(start, end);
        let ended = self.fin.is_some_and(|fin| (before..self.next).contains(&fin));
        let delivered = self.next - before - u64::from(ended);
        if delivered > 0 {
            self.received.delivered += delivered;
            self.received.last = now;
        }
        if in_order && !ended {
            self.unacknowledged += 1;
            if self.unacknowledged < 2 && self.config.delayed_ack > Duration::ZERO {
                self.deadline = now + self.config.delayed_ack;
                return None;
            }
        }
        // Out of order, a duplicate, part of a hole, the end, or the second in order.
        Some(self.acknowledge(now))
    }

    /// The delayed acknowledgement is due.
    #[must_use]
    pub fn on_timer(&mut self, now: Time) -> Option<Segment> {
        (now >= self.deadline).then(|| self.acknowledge(now))
    }

    /// Takes the bytes `start..end` into the stream.
    fn insert(&mut self, start: Offset, end: Offset) {
        if end <= self.next {
            return;
        }
        if start > self.next {
            self.insert_block(start, end);
            return;
        }
        self.next = end;
        // A retransmission may overlap blocks; the last that it reaches carries on from there.
        let reached = self.blocks.partition_point(|block| block.0 <= end);
        if let Some((_, block_end)) = self.blocks.drain(..reached).next_back() {
            self.next = end.max(block_end);
        }
    }

    fn insert_block(&mut self, start: Offset, end: Offset) {
        // The blocks that it overlaps or touches become one with it.
        let first = self.blocks.partition_point(|block| block.1 < start);
        let last = first + self.blocks[first..].partition_point(|block| block.0 <= end);
        if first == last {
            self.blocks.insert(first, (start, end));
        } else {
            let merged = (self.blocks[first].0.min(start), self.blocks[last - 1].1.max(end));
            self.blocks[first] = merged;
            self.blocks.drain(first + 1..last);
        }
        // The block moves to the front; those that it has swallowed leave gaps at the end.
        let (low, high) = self.blocks[first];
        let mut recent = [start, 0, 0, 0];
        let others = self.recent.iter().filter(|&&at| !(low..high).contains(&at));
        for (place, &at) in recent[1..].iter_mut().zip(others) {
            *place = at;
        }
        self.recent = recent;
    }

    /// Remembers what of `start..end` is there already (RFC 2883, section 4), of several parts the
    /// first.
    fn note_duplicate(&mut self, start: Offset, end: Offset) {
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

    /// The blocks to report: what arrived twice, then the most recently changed first.
    fn sack_blocks(&self, duplicate: Option<(Offset, Offset)>) -> SackBlocks {
        let mut sack = SackBlocks::default();
        if let Some((start, end)) = duplicate {
            sack.push(start, end);
        }
        for at in self.recent {
            let index = self.blocks.partition_point(|block| block.1 <= at);
            if let Some(&(start, end)) = self.blocks.get(index)
                && start <= at
            {
                sack.push(start, end);
            }
        }
        sack
    }

    fn remember_timestamp(&mut self, start: Offset, segment: &Segment) {
        if let Some((value, _)) = segment.timestamps
            && start <= self.last_ack
        {
            self.recent_timestamp = value;
        }
    }

    fn acknowledge(&mut self, now: Time) -> Segment {
        self.unacknowledged = 0;
        self.deadline = Time::MAX;
        let syn = if self.last_ack == 0 { Flags::SYN } else { Flags::default() };
        self.last_ack = self.next;
        let duplicate = self.duplicate.take();
        let reports = self.config.sack && (!self.blocks.is_empty() || duplicate.is_some());
        let sack = if reports { self.sack_blocks(duplicate) } else { SackBlocks::default() };
        Segment {
            seq: Seq(u32::from(syn == Flags::default())),
            ack: Seq::from_offset(self.next),
            window: match syn == Flags::default() {
                true => self.advertised,
                false => self.advertised.min(UNSCALED), // a SYN's window is never scaled
            },
            payload: 0,
            flags: Flags::ACK.with(syn),
            timestamps: self.config.timestamps.then(|| (micros(now), self.recent_timestamp)),
            sack,
        }
    }
}

/// The largest window that 16 bits say.
const UNSCALED: u32 = 65_535;

/// What the wire can say of a window: 16 bits, shifted by what is agreed in the handshake and
/// rounded down (RFC 7323, section 2.3).
fn advertised(window: u32, scaling: bool) -> u32 {
    if !scaling {
        return window.min(UNSCALED);
    }
    let shift = (0..14).find(|&shift| window >> shift <= UNSCALED).unwrap_or(14);
    (window >> shift).min(UNSCALED) << shift
}

/// The timestamp clock.
pub(crate) fn micros(now: Time) -> u32 {
    (now.as_picos() / 1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn connected(sack: bool) -> Receiver {
        let mut receiver = Receiver::new(ReceiverConfig {
            window: 10_000,
            delayed_ack: Duration::from_millis(40),
            sack,
            dsack: false,
            window_scaling: true,
            timestamps: false,
        });
        let syn = Segment { flags: Flags::SYN, ..Segment::default() };
        let answer = receiver.on_segment(Time::ZERO, &syn).unwrap();
        assert!(answer.flags.has(Flags::SYN.with(Flags::ACK)));
        assert_eq!(answer.ack, Seq(1));
        receiver
    }

    fn data(start: u32, payload: u16) -> Segment {
        Segment { seq: Seq(start), payload, ..Segment::default() }
    }

    fn ack_of(receiver: &mut Receiver, start: u32) -> Option<(u32, Vec<(u32, u32)>)> {
        let segment = receiver.on_segment(Time::ZERO, &data(start, 100))?;
        let blocks = segment.sack.as_slice().iter().map(|(start, end)| (start.0, end.0)).collect();
        Some((segment.ack.0, blocks))
    }

    #[test]
    fn every_second_segment_is_acknowledged() {
        let mut receiver = connected(true);
        assert_eq!(ack_of(&mut receiver, 1), None);
        assert_eq!(receiver.deadline(), Time::ZERO + Duration::from_millis(40));
        assert_eq!(ack_of(&mut receiver, 101), Some((201, vec![])));
        assert_eq!(receiver.deadline(), Time::MAX);
    }

    #[test]
    fn a_single_segment_is_acknowledged_when_the_timer_is_due() {
        let mut receiver = connected(true);
        assert_eq!(ack_of(&mut receiver, 1), None);
        assert_eq!(receiver.on_timer(Time::ZERO), None);
        assert_eq!(receiver.on_timer(receiver.deadline()).unwrap().ack, Seq(101));
    }

    /// RFC 2018, section 4: the block that the segment caused comes first.
    #[test]
    fn holes_are_reported_most_recent_first() {
        let mut receiver = connected(true);
        assert_eq!(ack_of(&mut receiver, 201), Some((1, vec![(201, 301)])));
        assert_eq!(ack_of(&mut receiver, 401), Some((1, vec![(401, 501), (201, 301)])));
        assert_eq!(ack_of(&mut receiver, 301), Some((1, vec![(201, 501)])));
        assert_eq!(ack_of(&mut receiver, 1), Some((101, vec![(201, 501)])));
        assert_eq!(ack_of(&mut receiver, 101), Some((501, vec![])));
        assert_eq!(receiver.received().delivered, 500);
        assert_eq!(receiver.received().reordered, 3);
    }

    #[test]
    fn without_sack_holes_make_duplicate_acknowledgements() {
        let mut receiver = connected(false);
        assert_eq!(ack_of(&mut receiver, 201), Some((1, vec![])));
        assert_eq!(ack_of(&mut receiver, 301), Some((1, vec![])));
    }

    /// RFC 2883, section 4.1, examples 1 to 3, in segments of 100.
    #[test]
    fn what_arrives_twice_is_reported_first() {
        let mut receiver = connected(true);
        receiver.config.dsack = true;
        ack_of(&mut receiver, 1);
        ack_of(&mut receiver, 101);
        assert_eq!(ack_of(&mut receiver, 101), Some((201, vec![(101, 201)])));
        assert_eq!(ack_of(&mut receiver, 301), Some((201, vec![(301, 401)])));
        assert_eq!(ack_of(&mut receiver, 1), Some((201, vec![(1, 101), (301, 401)])));
        assert_eq!(ack_of(&mut receiver, 301), Some((201, vec![(301, 401), (301, 401)])));
        assert_eq!(ack_of(&mut receiver, 401), Some((201, vec![(301, 501)])));
    }

    /// RFC 7323, section 2.
    #[test]
    fn the_wire_bounds_and_rounds_the_window() {
        assert_eq!(advertised(4 << 20, false), 65_535);
        assert_eq!(advertised(60_001, true), 60_001);
        assert_eq!(advertised(65_537, true), 65_536);
        assert_eq!(advertised(4 << 20, true), 4 << 20);
        assert_eq!(advertised(u32::MAX, true), 65_535 << 14);
    }

    #[test]
    fn data_beyond_the_window_is_refused() {
        let mut receiver = connected(true);
        assert_eq!(ack_of(&mut receiver, 9_902), Some((1, vec![])));
        assert_eq!(ack_of(&mut receiver, 9_901), Some((1, vec![(9_901, 10_001)])));
    }

    #[test]
    fn the_fin_takes_a_place_in_the_stream() {
        let mut receiver = connected(true);
        let fin = Segment { seq: Seq(101), flags: Flags::FIN, ..Segment::default() };
        assert_eq!(receiver.on_segment(Time::ZERO, &fin).unwrap().ack, Seq(1));
        assert_eq!(ack_of(&mut receiver, 1), Some((102, vec![])));
        assert_eq!(receiver.received().delivered, 100);
    }

    proptest! {
        /// Whatever arrives in whatever order, each byte is delivered once.
        #[test]
        fn every_byte_is_delivered_once(
            mut segments in prop::collection::vec(0_u32..40, 0..200),
        ) {
            let mut receiver = connected(true);
            let complete: Vec<u32> = (0..40).collect();
            segments.extend(&complete);
            for index in segments {
                let answer = receiver.on_segment(Time::ZERO, &data(1 + index * 100, 100));
                let next = receiver.received().delivered as u32 + 1;
                if let Some(answer) = answer {
                    prop_assert_eq!(answer.ack, Seq(next));
                    for &(start, end) in answer.sack.as_slice() {
                        prop_assert!(next < start.0 && start.0 < end.0);
                    }
                }
            }
            prop_assert_eq!(receiver.received().delivered, 4_000);
        }
    }
}
