//! Playout of a call at its receiver: the jitter buffer, and the packets that come too late for it.
//!
//! The receiver knows when each packet was due at the sender, because it draws the same pattern. A
//! packet that is due at t and has the playout delay D is played at t + D. One that arrives later
//! is discarded.

use std::collections::VecDeque;

use perhop_core::{Duration, Time};
use serde::{Deserialize, Serialize};

use crate::pattern::Pattern;
use crate::plan::{BufferPlan, PlayoutPlan};

/// Number of packets whose network delays the adaptive buffer remembers.
const WINDOW: usize = 50;
/// Time without a packet in time after which the fixed buffer begins anew with the next packet.
const RESYNC: Duration = Duration::from_millis(1_000);
/// Number of settled packets whose arrival is still recognised.
const REMEMBERED: usize = 1024;
/// Packets beyond the playout time for which [`Playout::settle`] waits: a receiver that is read in
/// real time may not have taken the last arrivals from its socket.
const LAG: u64 = 3;

/// Counters of a call since it began. Each packet counts when its time of playout has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CallCounters {
    /// Packets that were due.
    pub packets: u64,
    /// Packets that were played.
    pub played: u64,
    /// Packets that arrived too late to be played.
    pub late: u64,
    /// Sequences of packets one after the other that were not played.
    pub bursts: u64,
    /// Sum of the playout delays of the played packets, in nanoseconds.
    pub delay_ns: u64,
}

impl CallCounters {
    /// Returns the counters, none below that of an earlier reading: another host may report any.
    pub fn no_less_than(self, earlier: &Self) -> Self {
        Self {
            packets: self.packets.max(earlier.packets),
            played: self.played.max(earlier.played),
            late: self.late.max(earlier.late),
            bursts: self.bursts.max(earlier.bursts),
            delay_ns: self.delay_ns.max(earlier.delay_ns),
        }
    }
}

/// The jitter buffer of a call.
#[derive(Debug)]
pub struct Playout {
    plan: PlayoutPlan,
    pattern: Pattern,
    stop: Time,
    /// Time at which the first packet after those of `packets` is due at the sender, and the number
    /// of its talk spurt.
    next: (Time, u64),
    /// Sequence number of the first packet of `packets`.
    first: u64,
    /// Packets that are due, in order: those not settled, and the last that are.
    packets: VecDeque<Packet>,
    /// Number of settled packets among them.
    settled: usize,
    buffer: Buffer,
    /// True if the last settled packet was not played.
    in_burst: bool,
    counters: CallCounters,
}

/// A packet of the call.
#[derive(Clone, Copy, Debug)]
struct Packet {
    due: Time,
    spurt: u64,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Awaited,
    /// Played with this playout delay.
    Played(Duration),
    Late,
}

/// State of the jitter buffer.
#[derive(Debug, Default)]
struct Buffer {
    /// Present playout delay; `None` before the first arrival.
    delay: Option<Duration>,
    /// Talk spurt, sequence number and due time of the last packet with which it was set.
    spurt: u64,
    sequence: u64,
    /// Due time of the last packet that was played.
    played: Time,
    /// Network delays of the last arrivals.
    delays: VecDeque<Duration>,
}

impl Playout {
    /// Creates the playout of a call whose packets follow `pattern` from the start to the stop.
    pub fn new(plan: PlayoutPlan, mut pattern: Pattern, (start, stop): (Time, Time)) -> Self {
        let first = start + pattern.first();
        Self {
            plan,
            pattern,
            stop,
            next: (first, 0),
            first: 0,
            packets: VecDeque::new(),
            settled: 0,
            buffer: Buffer::default(),
            in_burst: false,
            counters: CallCounters::default(),
        }
    }

    /// Takes the first copy of a packet, which the network delayed by `delay`.
    pub fn arrive(&mut self, sequence: u64, delay: Duration) {
        let Some(place) = sequence.checked_sub(self.first).map(|place| place as usize) else {
            self.counters.late += 1;
            return;
        };
        while self.packets.len() <= place {
            if !self.draw() {
                return; // the sender sends no such packet
            }
        }
        let packet = self.packets[place];
        if packet.fate != Fate::Awaited {
            return;
        }
        let fate = self.buffer.take(self.plan, sequence, packet, delay);
        if place < self.settled {
            // It was missed at its time of playout.
            self.packets[place].fate = Fate::Late;
            self.counters.late += 1;
            return;
        }
        self.packets[place].fate = fate;
        self.settle_before(packet.due + delay);
    }

    /// Settles the packets whose time of playout has passed at `now`. Returns the counters.
    pub fn settle(&mut self, now: Time) -> CallCounters {
        while self.next.0 <= now && self.draw() {}
        let lag = Duration::from_picos(self.plan.frame.as_picos().saturating_mul(LAG));
        self.settle_before(Time::ZERO + (now.since(Time::ZERO) - lag));
        self.counters
    }

    /// Adds the next packet of the pattern to those that are due. Returns false at the end.
    fn draw(&mut self) -> bool {
        let (due, spurt) = self.next;
        if due >= self.stop {
            return false;
        }
        self.packets.push_back(Packet { due, spurt, fate: Fate::Awaited });
        let (_, gap) = self.pattern.next_datagram();
        // The times between packets of a spurt are rounded to picoseconds.
        let pause = gap > self.plan.frame + Duration::from_picos(1);
        self.next = (due + gap, spurt + u64::from(pause));
        true
    }

    /// Settles packets, in order, whose time of playout is before `now`.
    fn settle_before(&mut self, now: Time) {
        // The packet before may be stretched to twice its length.
        let patience = self.buffer.delay.unwrap_or(RESYNC) + self.plan.frame;
        while let Some(packet) = self.packets.get(self.settled)
            && packet.due + patience < now
        {
            let counters = &mut self.counters;
            counters.packets += 1;
            let mut missed = true;
            match packet.fate {
                Fate::Played(delay) => {
                    missed = false;
                    counters.played += 1;
                    counters.delay_ns += delay.as_picos() / 1_000;
                }
                Fate::Late => counters.late += 1,
                Fate::Awaited => {}
            }
            counters.bursts += u64::from(missed && !self.in_burst);
            self.in_burst = missed;
            self.settled += 1;
        }
        while self.settled > REMEMBERED {
            self.packets.pop_front();
            self.settled -= 1;
            self.first += 1;
        }
    }
}

impl Buffer {
    /// Decides whether an arrival is played.
    fn take(
        &mut self,
        plan: PlayoutPlan,
        sequence: u64,
        packet: Packet,
        network: Duration,
    ) -> Fate {
        let limit = match plan.buffer {
            BufferPlan::Fixed(wait) => self.fixed(wait, packet, network),
            BufferPlan::Adaptive => self.adaptive(plan.frame, sequence, packet, network),
        };
        match network <= limit {
            true => {
                self.played = self.played.max(packet.due);
                Fate::Played(limit)
            }
            false => Fate::Late,
        }
    }

    /// Returns the playout delay of a packet in a fixed buffer. The first packet of a talk spurt
    /// that arrives waits for the whole time; so does the next after a second without playout.
    fn fixed(&mut self, wait: Duration, packet: Packet, network: Duration) -> Duration {
        let stale = packet.due > self.played + RESYNC;
        match self.delay {
            Some(delay) if packet.spurt <= self.spurt && !stale => delay,
            _ => {
                self.spurt = packet.spurt;
                *self.delay.insert(network + wait)
            }
        }
    }

    /// Returns the playout delay of a packet in an adaptive buffer.
    ///
    /// The playout delay moves towards the longest delay of the last [`WINDOW`] arrivals. Within a
    /// talk spurt it does so by the scaling of packets in time to between half and twice their
    /// length (Liang, Färber and Girod, 2003). Between spurts it moves at once. A packet that comes
    /// late by less than a frame is still played, because the packet before is stretched.
    fn adaptive(
        &mut self,
        frame: Duration,
        sequence: u64,
        packet: Packet,
        network: Duration,
    ) -> Duration {
        let longest = self.delays.iter().max().copied();
        let present = match (self.delay, longest) {
            (Some(delay), Some(target)) if sequence > self.sequence => {
                let steps = sequence - self.sequence;
                let most = |step: u64| Duration::from_picos(step.saturating_mul(steps));
                let rise = most(frame.as_picos());
                let fall = most(frame.as_picos() / 2);
                match packet.spurt > self.spurt {
                    true => target,
                    false => target.min(delay + rise).max(delay - fall),
                }
            }
            (Some(delay), _) => delay,
            (None, _) => network,
        };
        let stretched = present + frame;
        let delay = if network <= stretched { present.max(network) } else { present };
        if self.delay.is_none() || sequence > self.sequence {
            (self.sequence, self.spurt) = (sequence, packet.spurt);
        }
        self.delay = Some(delay);
        if self.delays.len() == WINDOW {
            self.delays.pop_front();
        }
        self.delays.push_back(network);
        delay
    }
}

#[cfg(test)]
mod tests;
