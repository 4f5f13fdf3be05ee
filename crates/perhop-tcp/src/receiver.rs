//! The receiving side: putting data in order and acknowledging it.

mod reassembly;

use perhop_core::{Duration, Ecn, Time};

use crate::ecn::Echo;
use crate::handshake::window_shift;
use crate::{EcnMode, Flags, Offset, SackBlocks, Segment, Seq};

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
    /// How it echoes congestion if a sender asks for it.
    pub ecn: EcnMode,
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
    /// Packets that were marked: congestion experienced (RFC 3168, section 5).
    pub marked: u64,
    /// Acknowledgements that it sent, without that of the SYN, …
    pub acks: u64,
    /// … and those of them that acknowledged selectively (RFC 2018), or reported a duplicate.
    pub sacks: u64,
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
    echo: Echo,
}

impl Receiver {
    /// A receiver that waits for a connection.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            advertised: advertised(config.window, config.window_scaling),
            duplicate: None,
            echo: Echo::new(config.ecn),
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

    /// Takes a segment; returns the acknowledgement to send at once, if any. The timer may be due
    /// at once, too.
    #[must_use]
    pub fn on_segment(&mut self, now: Time, segment: &Segment) -> Option<Segment> {
        if segment.flags.has(Flags::SYN) {
            if self.next == 0 {
                self.echo.on_syn(segment);
            }
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
        self.received.marked += u64::from(segment.ecn == Ecn::Ce);
        let earlier =
            (self.unacknowledged > 0 && self.echo.parts(segment)).then(|| self.acknowledge(now));
        let prompt = self.echo.on_segment(segment);
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
        if earlier.is_some() {
            self.unacknowledged = 1; // whose acknowledgement follows
            self.deadline = now;
            return earlier;
        }
        if in_order && !ended {
            self.unacknowledged += 1;
            if self.unacknowledged < 2 && !prompt && self.config.delayed_ack > Duration::ZERO {
                self.deadline = now + self.config.delayed_ack;
                return None;
            }
        }
        // Out of order, a duplicate, part of a hole, the end, the second in order, or a mark.
        Some(self.acknowledge(now))
    }

    /// The delayed acknowledgement is due.
    #[must_use]
    pub fn on_timer(&mut self, now: Time) -> Option<Segment> {
        (now >= self.deadline).then(|| self.acknowledge(now))
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
        self.received.acks += u64::from(syn == Flags::default());
        self.received.sacks += u64::from(reports);
        Segment {
            seq: Seq(u32::from(syn == Flags::default())),
            ack: Seq::from_offset(self.next),
            window: match syn == Flags::default() {
                true => self.advertised,
                false => self.advertised.min(UNSCALED), // a SYN's window is never scaled
            },
            payload: 0,
            flags: Flags::ACK.with(syn).with(self.echo.flags(syn != Flags::default())),
            ecn: Ecn::NotEct, // acknowledgements are not (RFC 3168, section 6.1.4)
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
    let shift = window_shift(window);
    (window >> shift).min(UNSCALED) << shift
}

/// The timestamp clock.
pub(crate) fn micros(now: Time) -> u32 {
    (now.as_picos() / 1_000_000) as u32
}

#[cfg(test)]
mod tests;
