//! The receiving side: reordering and acknowledging data.

mod autotuning;
mod delay;
mod linux_acks;
mod reassembly;

use perhop_core::{Duration, Ecn, Time};

use autotuning::{Arrival, Autotuning};
use delay::Delay;
use linux_acks::{Answer, LinuxAcks};
use reassembly::Beyond;

use crate::ecn::Echo;
use crate::handshake::window_shift;
use crate::timestamps::{elapsed_in_millis, is_outdated, micros, millis_before};
use crate::{EcnMode, Flags, Offset, SackBlocks, Segment, Seq};

/// Settings of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Advertised window, in bytes; with autotuning, its maximum.
    pub window: u32,
    /// Size of a full segment, in bytes, if the window is autotuned as in Linux; `None` if the
    /// window is constant.
    pub autotuning: Option<u16>,
    /// Size of a full segment, in bytes, if the receiver acknowledges as Linux does: segments that
    /// arrive together as one; the first segments and those after a duplicate or a pause at once,
    /// others after a time that depends on arrivals; and not every segment while data is missing.
    pub quick_acks: Option<u16>,
    /// Greatest delay of the acknowledgement of a single segment; with zero every segment is
    /// acknowledged at once. RFC 9293, section 3.8.6.3, permits up to 500 ms; Linux waits 40 ms.
    pub delayed_ack: Duration,
    /// True if the receiver sends selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// True if these report duplicate data first (RFC 2883).
    pub dsack: bool,
    /// True if the window is scaled (RFC 7323, section 2); without scaling, it is at most 65535
    /// bytes.
    pub window_scaling: bool,
    /// True if the receiver sends timestamps (RFC 7323).
    pub timestamps: bool,
    /// ECN mode that it accepts.
    pub ecn: EcnMode,
}

/// Counts of a receiver since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes delivered in order to the application.
    pub delivered: u64,
    /// Time of the last delivery.
    pub last: Time,
    /// Data segments, duplicates included.
    pub segments: u64,
    /// Segments sent once that arrived after one with a higher sequence number (RFC 4737, section
    /// 3).
    pub reordered: u64,
    /// Packets marked with CE (congestion experienced, RFC 3168, section 5).
    pub marked: u64,
    /// Acknowledgements sent, without that of the SYN.
    pub acks: u64,
    /// Acknowledgements sent with SACK blocks (RFC 2018), duplicates included.
    pub sacks: u64,
}

/// The receiving side of a connection. Its application reads at once, so that the window is always
/// the whole buffer beyond the delivered data.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    /// Next byte expected: RCV.NXT; zero before the SYN.
    next: Offset,
    /// One above the highest byte that has arrived.
    highest: Offset,
    /// Data beyond `next`.
    beyond: Beyond,
    /// End of the stream; [`Offset::MAX`] until a FIN has arrived.
    fin: Offset,
    /// Segments that arrived in order since the last acknowledgement.
    unacknowledged: u32,
    last_ack: Offset,
    deadline: Time,
    /// Timestamp to echo (RFC 7323, section 4.3).
    recent_timestamp: u32,
    /// Duplicate data in the last segment, if any.
    duplicate: Option<(Offset, Offset)>,
    /// Advertised window.
    advertised: u32,
    autotuning: Option<Box<Autotuning>>,
    /// Delays as in Linux, if configured.
    delay: Option<Box<Delay>>,
    /// Segments that Linux would not have processed or acknowledged yet.
    linux: Option<Box<LinuxAcks>>,
    /// Data of the longest segment so far, in bytes.
    longest: u16,
    /// The receiver's own timestamp that was echoed last.
    last_echo: u32,
    received: Received,
    echo: Echo,
}

impl Receiver {
    /// Prefetches the data that waits for what is missing.
    #[inline(always)]
    pub fn prefetch(&self) {
        self.beyond.prefetch();
    }

    /// Creates a receiver that waits for a connection.
    pub fn new(config: ReceiverConfig) -> Self {
        let autotuning = config.autotuning.map(|mss| Autotuning::new(mss, config.window));
        let window = autotuning.as_ref().map_or(config.window, |tuning| tuning.window(0));
        Self {
            advertised: advertised(window, config.window_scaling),
            autotuning: autotuning.map(Box::new),
            delay: config.quick_acks.map(|mss| Box::new(Delay::new(mss, config.delayed_ack))),
            linux: config.quick_acks.is_some().then(Box::default),
            longest: 0,
            last_echo: 0,
            duplicate: None,
            echo: Echo::new(config.ecn),
            config,
            next: 0,
            highest: 0,
            beyond: Beyond::default(),
            fin: Offset::MAX,
            unacknowledged: 0,
            last_ack: 0,
            deadline: Time::MAX,
            recent_timestamp: 0,
            received: Received::default(),
        }
    }

    /// Returns the counts since the connection began.
    pub fn received(&self) -> Received {
        self.received
    }

    /// Returns the acknowledgement of a SYN that this receiver has not been passed yet, as part of
    /// the segment `answer`. It takes the position `next` of its host's own data.
    pub fn confirm(&self, now: Time, answer: &Segment, next: Seq) -> Segment {
        Segment {
            seq: next,
            ack: Seq(1),
            window: self.advertised,
            flags: Flags::ACK,
            timestamps: answer.timestamps.map(|(value, _)| (micros(now), value)),
            ..Segment::default()
        }
    }

    /// Returns the answer to the SYN again while no data has arrived, as its acknowledgement is
    /// overdue.
    pub fn repeat_answer(&mut self, now: Time) -> Option<Segment> {
        (self.next == 1).then(|| {
            self.last_ack = 0;
            self.acknowledge(now)
        })
    }

    /// Returns when [`on_timer`](Self::on_timer) is due; [`Time::MAX`] if it is not.
    pub fn deadline(&self) -> Time {
        self.linux.as_ref().map_or(Time::MAX, |linux| linux.deadline()).min(self.deadline)
    }

    /// Takes a segment; returns the acknowledgement to send at once, if any. The timer may be due
    /// at once, too.
    #[must_use]
    pub fn on_segment(&mut self, now: Time, segment: &Segment) -> Option<Segment> {
        if segment.flags.has(Flags::SYN) {
            if self.next == 0 {
                self.echo.on_syn(segment);
            }
            if let Some(delay) = &mut self.delay {
                delay.on_syn(now);
            }
            if self.next == 1 {
                self.last_ack = 0; // the answer to the first SYN was lost
            }
            self.next = self.next.max(1);
            self.remember_timestamp(now, (0, 0), segment);
            return Some(self.acknowledge(now));
        }
        if self.next == 0 {
            return None;
        }
        if let Some(delay) = &mut self.delay {
            delay.on_segment(now);
        }
        let start = segment.seq.to_offset(self.next)?;
        let end = start + Offset::from(segment.payload);
        if end > self.next + Offset::from(self.advertised) {
            // Beyond the buffer: the segment is refused, and an acknowledgement repeats the window.
            return Some(self.acknowledge(now));
        }
        self.count(start, segment);
        let outdated = segment.timestamps.is_some_and(|(value, _)| {
            is_outdated(millis_before(value, self.recent_timestamp, now))
        });
        let parts = self.linux.as_ref().is_some_and(|linux| linux.parts(start, outdated));
        let mut earlier = if parts { self.hand_over(now) } else { None };
        if outdated {
            self.discard(start, end);
            return self.answer(now, earlier);
        }
        if self.unacknowledged > 0 && self.echo.parts(segment) {
            earlier = Some(self.acknowledge(now));
        }
        let prompt = self.echo.on_segment(segment);
        if segment.payload > 0 {
            if let Some(delay) = &mut self.delay {
                if end <= self.next {
                    delay.hurry(self.advertised);
                } else if start <= self.next {
                    delay.on_data(now, self.advertised);
                }
            }
            self.highest = self.highest.max(end);
        }
        let mut end = end;
        if segment.flags.has(Flags::FIN) {
            self.fin = end;
            end += 1; // the FIN takes a byte of the stream
        }
        self.remember_timestamp(now, (start, end), segment);
        let in_order = start <= self.next && end > self.next && self.beyond.is_empty();
        self.note_duplicate(start, end);
        let before = self.next;
        let elsewhere = self.linux.is_some() && !self.follows_recent(start);
        self.insert(start, end);
        let ended = (before..self.next).contains(&self.fin);
        let delivered = self.next - before - u64::from(ended);
        if delivered > 0 {
            self.received.delivered += delivered;
            self.received.last = now;
        }
        let new = end > before && self.duplicate.is_none();
        if self.autotuning.is_some() && (delivered > 0 || new && self.config.sack) {
            self.autotune(now, segment, delivered > 0);
        }
        if let Some(linux) = &mut self.linux
            && (new && !ended && !prompt)
        {
            self.unacknowledged += u32::from(in_order);
            linux.add(now, end, delivered > 0 && !in_order, elsewhere);
            return earlier;
        }
        if earlier.is_none() && in_order && !ended {
            self.unacknowledged += 1;
            let delay = self.delay.as_ref().map_or(self.config.delayed_ack, |delay| delay.delay());
            if self.unacknowledged < 2 && !prompt && delay > Duration::ZERO {
                self.deadline = now + delay;
                return None;
            }
        }
        // Out of order, a duplicate, part of a hole, the end, the second in order, or marked.
        self.answer(now, earlier)
    }

    /// Returns the acknowledgement of a segment, or that of earlier ones; then its own is due.
    fn answer(&mut self, now: Time, earlier: Option<Segment>) -> Option<Segment> {
        if earlier.is_none() {
            return Some(self.acknowledge(now));
        }
        self.unacknowledged = 1;
        self.deadline = now;
        earlier
    }

    /// Returns a delayed acknowledgement that is due at `now`, if any.
    #[must_use]
    pub fn on_timer(&mut self, now: Time) -> Option<Segment> {
        if self.linux.as_ref().is_some_and(|linux| linux.deadline() <= now)
            && let Some(answer) = self.hand_over(now)
        {
            return Some(answer);
        }
        (now >= self.deadline).then(|| self.acknowledge(now))
    }

    /// Adds the acknowledgement to a data segment that this end sends: in place of a delayed one,
    /// unless that has SACK blocks. With ECN, it repeats the last one: the header has room for the
    /// echo of one direction only.
    pub fn piggyback(&mut self, now: Time, segment: &mut Segment) {
        if self.next == 0 {
            return;
        }
        if self.config.ecn != EcnMode::Off {
            segment.ack = Seq::from_offset(self.last_ack);
            segment.window = self.advertised;
            return;
        }
        if self.beyond.is_empty() && self.duplicate.is_none() {
            let Received { acks, sacks, .. } = self.received;
            let answer = self.acknowledge(now);
            (self.received.acks, self.received.sacks) = (acks, sacks);
            segment.timestamps = segment.timestamps.and(answer.timestamps);
        }
        segment.ack = Seq::from_offset(self.next);
        segment.window = self.advertised;
    }

    /// Returns `true` if the whole stream has arrived, with its end.
    pub fn has_ended(&self) -> bool {
        self.next > self.fin
    }

    /// Acknowledges segments that arrived together, unless that may wait.
    fn hand_over(&mut self, now: Time) -> Option<Segment> {
        let (linux, delay) = (self.linux.as_mut()?, self.delay.as_ref()?);
        let tuned = self.autotuning.as_ref().and_then(|tuning| tuning.rtt());
        let rtt = delay.round_trip().into_iter().chain(tuned).min();
        let delay = delay.delay();
        let missing = (!self.beyond.is_empty()).then_some(self.next);
        if delay == Duration::ZERO {
            return Some(self.acknowledge(now));
        }
        let wait = match linux.take(missing, rtt) {
            Answer::InOrder if self.unacknowledged < 2 => delay,
            Answer::After(wait) if self.config.sack => wait,
            _ => return Some(self.acknowledge(now)),
        };
        self.deadline = self.deadline.min(now + wait);
        None
    }

    /// Adapts the window to data that arrived, in order or not. Growth is advertised at once.
    fn autotune(&mut self, now: Time, segment: &Segment, in_order: bool) {
        let echo = segment.timestamps.map_or(0, |(_, echo)| echo);
        let new = echo != std::mem::replace(&mut self.last_echo, echo);
        // Short segments may have waited for data to fill them.
        let full = self.config.autotuning.is_some_and(|mss| {
            // A path with a small MTU has shorter segments than the ends agreed on.
            let usual = if self.longest > 0 { self.longest.min(mss) } else { mss };
            self.longest = self.longest.max(segment.payload);
            segment.payload >= usual
        });
        let start = segment.seq.to_offset(self.next).unwrap_or(self.next);
        let arrival = Arrival {
            payload: segment.payload.into(),
            end: start + Offset::from(segment.payload),
            echoed: if new && full { elapsed_in_millis(echo, now) } else { None },
            next: self.next,
            highest: self.highest,
            held: self.held(),
            advertised: self.advertised,
        };
        let Some(autotuning) = &mut self.autotuning else { return };
        let grew = match in_order {
            true => autotuning.on_data(now, &arrival),
            false => autotuning.on_disorder(&arrival),
        };
        if grew && let Some(delay) = &mut self.delay {
            delay.hurry_once();
        }
    }

    /// Returns the number of bytes that wait behind a hole.
    fn held(&self) -> u64 {
        self.beyond.bytes()
    }

    /// Sets the window to advertise. Its right edge never retreats (RFC 9293, section 3.8.6).
    fn advertise(&mut self) {
        if let Some(autotuning) = &self.autotuning
            && self.last_ack > 0
        {
            let left = (self.last_ack + Offset::from(self.advertised)).saturating_sub(self.next);
            let window = u64::from(autotuning.window(self.held())).max(left);
            self.advertised = match self.config.window_scaling {
                true => {
                    let unit = 1 << autotuned_shift(self.config.window);
                    window.next_multiple_of(unit) as u32
                }
                false => window.min(UNSCALED.into()) as u32,
            };
        }
    }

    /// Counts a segment that arrives at the position `start`.
    fn count(&mut self, start: Offset, segment: &Segment) {
        self.received.marked += u64::from(segment.ecn == Ecn::Ce);
        if segment.payload > 0 {
            let late = start < self.highest && !segment.flags.has(Flags::RETRANSMISSION);
            self.received.segments += 1;
            self.received.reordered += u64::from(late);
        }
    }

    /// Takes note of the segment `start..end`, which is outdated, and discards its data (RFC 7323,
    /// section 5.3, R1). As in Linux (`tcp_send_dupack`), it may be a duplicate.
    fn discard(&mut self, start: Offset, end: Offset) {
        if start < self.next {
            if let Some(delay) = &mut self.delay {
                delay.hurry(self.advertised);
            }
            self.note_duplicate(start, end);
        }
    }

    /// Keeps the timestamp of a segment that takes the positions `start..end`, unless all of it was
    /// acknowledged before, or it is out of order (RFC 7323, section 5.3, R2 and R3).
    fn remember_timestamp(&mut self, now: Time, (start, end): (Offset, Offset), segment: &Segment) {
        if let Some((value, _)) = segment.timestamps
            && start <= self.last_ack
            && end >= self.last_ack
            && millis_before(value, self.recent_timestamp, now) == 0
        {
            self.recent_timestamp = value;
        }
    }

    fn acknowledge(&mut self, now: Time) -> Segment {
        self.unacknowledged = 0;
        self.deadline = Time::MAX;
        if let Some(delay) = &mut self.delay
            && self.last_ack > 0
        {
            delay.on_acknowledged();
        }
        if let Some(linux) = &mut self.linux {
            linux.on_acknowledged();
        }
        self.advertise();
        let syn = if self.last_ack == 0 { Flags::SYN } else { Flags::default() };
        self.last_ack = self.next;
        let duplicate = self.duplicate.take();
        let reports = self.config.sack && (!self.beyond.is_empty() || duplicate.is_some());
        let sack = if reports { self.sack_blocks(duplicate) } else { SackBlocks::default() };
        self.received.acks += u64::from(syn == Flags::default());
        self.received.sacks += u64::from(reports);
        Segment {
            seq: Seq(u32::from(syn == Flags::default())),
            ack: Seq::from_offset(self.next),
            window: match syn == Flags::default() {
                true => self.advertised,
                false => self.advertised.min(UNSCALED), // the window of a SYN is never scaled
            },
            payload: 0,
            flags: Flags::ACK.with(syn).with(self.echo.flags(syn != Flags::default())),
            ecn: Ecn::NotEct, // acknowledgements are not ECN-capable (RFC 3168, section 6.1.4)
            timestamps: self.config.timestamps.then(|| (micros(now), self.recent_timestamp)),
            sack,
        }
    }
}

/// Greatest window that 16 bits hold.
const UNSCALED: u32 = 65_535;

/// Returns a window as the header represents it: 16 bits, shifted by the negotiated number of bits
/// and rounded down (RFC 7323, section 2.3).
fn advertised(window: u32, scaling: bool) -> u32 {
    if !scaling {
        return window.min(UNSCALED);
    }
    let shift = window_shift(window);
    (window >> shift).min(UNSCALED) << shift
}

/// Returns the number of bits by which an autotuned window is shifted: that of its largest buffer,
/// of which the window is 5/8.
pub fn autotuned_shift(largest: u32) -> u8 {
    window_shift(largest / 5 * 8)
}

#[cfg(test)]
mod tests;
