//! Senders that contend for a channel, as in IEEE 802.11.
//!
//! Senders contend for the channel by carrier sense with random backoff (CSMA/CA, IEEE 802.11-2020,
//! section 10.3). The winner sends one frame, or an aggregate of frames to one receiver (A-MPDU,
//! section 10.12), which are acknowledged together. Frames that are lost are sent again; the
//! receiver releases packets in order. All senders hear each other.

use std::collections::VecDeque;

use perhop_core::{Bytes, Duration, Packet, Stream, Time};

use super::counters::{Airtime, StationCounters};
use super::{Loaded, Outcome, Place, Wifi};
use crate::port::{Port, PortId};

/// A frame that was sent, and whose packet was not released or given up.
#[derive(Debug)]
struct Frame<B> {
    packet: Packet<B>,
    /// Length in the air.
    length: Bytes,
    failures: u32,
    /// True if the receiver has it.
    arrived: bool,
    /// True while it is part of the transmission.
    in_air: bool,
}

/// A receiver of a sender: a port, and the frames under way there, in order.
#[derive(Debug)]
struct Outlet<B> {
    port: PortId,
    window: VecDeque<Frame<B>>,
    /// When the queue releases a packet, as far as known.
    ready_at: Time,
    /// Time on the channel that it may use before others, in picoseconds.
    credit: i64,
    counters: StationCounters,
    time: Airtime,
    /// True if it is among the receivers with packets, or with frames under way.
    busy: bool,
}

/// A node that sends on the channel.
#[derive(Debug)]
struct Sender<B> {
    outlets: Vec<Outlet<B>>,
    /// Receivers with packets, or with frames under way.
    busy: Vec<u16>,
    /// Receiver whose turn it is.
    turn: usize,
    /// Transmissions that failed in a row.
    failures: u32,
    /// Slot of the present idle period in which its backoff ends.
    backoff: u64,
    /// True while it has something to send.
    contends: bool,
    /// When it will have something to send, if that is known.
    later: Time,
    /// True if the last two may have changed.
    stale: bool,
}

/// Senders on a channel, and the channel's state.
#[derive(Debug)]
pub(crate) struct Contention<B> {
    config: Wifi,
    random: Stream,
    senders: Vec<Sender<B>>,
    /// Begin of the present or next idle period: the end of the last exchange.
    idle_from: Time,
    /// Time of the channel's next event; [`Time::MAX`] if there is none.
    pub next: Time,
}

/// Time on the channel that a receiver gets per turn with airtime fairness, in picoseconds: 256 us.
const QUANTUM: i64 = 256_000_000;

impl<B: Copy> Contention<B> {
    /// Creates a channel of senders with these ports each.
    pub fn new(config: Wifi, random: Stream, senders: &[Vec<PortId>]) -> Self {
        let outlet = |port| Outlet {
            port,
            window: VecDeque::new(),
            ready_at: Time::ZERO,
            credit: 0,
            counters: StationCounters::default(),
            time: Airtime::default(),
            busy: true,
        };
        let sender = |ports: &Vec<PortId>| Sender {
            outlets: ports.iter().copied().map(outlet).collect(),
            busy: (0..ports.len() as u16).collect(),
            turn: 0,
            failures: 0,
            backoff: 0,
            contends: false,
            later: Time::MAX,
            stale: true,
        };
        let senders = senders.iter().map(sender).collect();
        Self { config, random, senders, idle_from: Time::ZERO, next: Time::MAX }
    }

    /// Returns the port whose events are those of the channel.
    pub fn owner(&self) -> PortId {
        self.senders[0].outlets[0].port
    }

    /// Returns the counters of a receiver of a sender up to now.
    pub fn counters(&self, now: Time, sender: usize, outlet: usize) -> StationCounters {
        let outlet = &self.senders[sender].outlets[outlet];
        StationCounters { usage: outlet.time.usage(now), ..outlet.counters }
    }

    /// Notes that a port has a packet that may be sent now. Returns `true` if its sender did not
    /// contend.
    pub fn offer(&mut self, place: Place) -> bool {
        let sender = &mut self.senders[usize::from(place.sender)];
        sender.stale = true;
        let outlet = &mut sender.outlets[usize::from(place.outlet)];
        outlet.ready_at = Time::ZERO;
        if !outlet.busy {
            outlet.busy = true;
            sender.busy.push(place.outlet);
        }
        !sender.contends
    }

    /// Returns the first slot of the present idle period that begins now or later.
    fn slot(&self, now: Time) -> u64 {
        let first = self.idle_from + self.config.aifs();
        let passed = now.as_picos().saturating_sub(first.as_picos());
        passed.div_ceil(self.config.slot.as_picos())
    }

    /// Returns the beginning of a slot.
    fn begin(&self, slot: u64) -> Time {
        self.idle_from + self.config.aifs() + self.config.slot * slot
    }

    /// Draws a backoff after so many failures in a row.
    fn draw(&mut self, failures: u32) -> u64 {
        self.random.up_to(self.config.window(failures).into())
    }

    /// Has senders contend that have something to send, and sets the time of the next event.
    pub fn contend(&mut self, now: Time, ports: &[Port<B>]) {
        let (slot, busy) = (self.slot(now), now < self.idle_from + self.config.aifs());
        self.next = Time::MAX;
        for number in 0..self.senders.len() {
            let sender = &mut self.senders[number];
            if sender.stale || sender.later <= now {
                let contended = sender.contends;
                sender.update(now, ports);
                if sender.contends && !contended {
                    // The backoff after its last transmission has counted meanwhile. Without any
                    // left, a sender that finds the channel busy draws another one.
                    let left = sender.backoff;
                    let begins = if busy && left == 0 { self.draw(0) } else { left.max(slot) };
                    self.senders[number].backoff = begins;
                }
            }
            let sender = &self.senders[number];
            if sender.contends {
                self.next = self.next.min(self.begin(sender.backoff));
            }
            self.next = self.next.min(sender.later);
        }
    }

    /// Sends what is due now. Returns the outcomes, of each port in order.
    pub fn run(
        &mut self,
        now: Time,
        ports: &mut [Port<B>],
        mut load: impl FnMut(&mut Port<B>, PortId) -> Loaded<B>,
    ) -> Vec<Outcome<B>> {
        let mut sent: Vec<(usize, usize, usize, Duration)> = Vec::new();
        for number in 0..self.senders.len() {
            let sender = &self.senders[number];
            let due = sender.contends && self.begin(sender.backoff) == now;
            if !due {
                continue;
            }
            self.senders[number].stale = true;
            if self.senders[number].is_ready(now, ports) {
                let chosen = self.choose(number, now, ports);
                let (frames, duration) = self.load(number, chosen, ports, now, &mut load);
                if frames > 0 {
                    sent.push((number, chosen, frames, duration));
                }
            }
        }
        let slot = self.slot(now);
        let collided = sent.len() > 1;
        let mut outcomes = Vec::new();
        let mut end = now;
        for (number, chosen, frames, duration) in sent {
            let used = duration + self.config.acknowledgement(frames);
            let others = end;
            end = others.max(now + used);
            self.charge(number, chosen, used, now, ports);
            let sender = &mut self.senders[number];
            let outlet = &mut sender.outlets[chosen];
            outlet.time.add(now, used, others);
            outlet.time.collisions += u64::from(collided);
            outlet.counters.transmissions += 1;
            outlet.counters.frames += frames as u64;
            let port = &mut ports[outlet.port.index()];
            let arrived = outlet.judge(port, collided, self.config.retries, now + duration);
            sender.failures = match arrived.0 {
                true => 0,
                // A frame that is given up ends the run of failures.
                false if !arrived.1.is_empty() => 0,
                false => sender.failures + 1,
            };
            outcomes.extend(arrived.1);
            let failures = sender.failures;
            let drawn = self.draw(failures);
            // Counted from the slot of this transmission, like the backoffs of others.
            self.senders[number].backoff = slot + drawn;
        }
        if end > now {
            self.idle_from = end;
            for sender in &mut self.senders {
                sender.backoff = sender.backoff.saturating_sub(slot);
            }
        }
        self.contend(now, ports);
        outcomes
    }

    /// Returns the receiver to which a sender that is ready sends next.
    fn choose(&mut self, number: usize, now: Time, ports: &[Port<B>]) -> usize {
        let Sender { outlets, turn, .. } = &mut self.senders[number];
        let count = outlets.len();
        loop {
            let outlet = &mut outlets[*turn % count];
            let chosen = *turn % count;
            if outlet.is_ready(now, ports) {
                if !self.config.airtime_fairness {
                    *turn = (chosen + 1) % count;
                    return chosen;
                }
                if outlet.credit > 0 {
                    return chosen;
                }
                outlet.credit += QUANTUM;
            }
            *turn = (chosen + 1) % count;
        }
    }

    /// Charges a receiver for time on the channel, in either direction.
    fn charge(
        &mut self,
        number: usize,
        chosen: usize,
        used: Duration,
        now: Time,
        ports: &[Port<B>],
    ) {
        let used = used.as_picos() as i64;
        let outlet = &mut self.senders[number].outlets[chosen];
        outlet.credit -= used;
        let back = PortId(outlet.port.0 ^ 1);
        let Some(place) = ports[back.index()].place else { return };
        let other = &mut self.senders[usize::from(place.sender)].outlets[usize::from(place.outlet)];
        if other.is_ready(now, ports) {
            other.credit -= used;
        }
    }

    /// Loads frames for a receiver: those to be sent again, then new ones, up to the limits of an
    /// aggregate. Returns their number and the duration of the transmission.
    fn load(
        &mut self,
        number: usize,
        chosen: usize,
        ports: &mut [Port<B>],
        now: Time,
        load: &mut impl FnMut(&mut Port<B>, PortId) -> Loaded<B>,
    ) -> (usize, Duration) {
        let config = self.config;
        let outlet = &mut self.senders[number].outlets[chosen];
        let port = &mut ports[outlet.port.index()];
        let rate = port.wire().rate;
        let most = config.frames.max(1) as usize;
        let (mut frames, mut length) = (0, Bytes::ZERO);
        let fits = |frames: usize, length: Bytes| {
            frames == 0
                || (frames < most
                    && length.get() <= u64::from(config.bytes)
                    && config.transmission(length, rate) <= config.airtime)
        };
        for frame in outlet.window.iter_mut().filter(|frame| !frame.arrived) {
            if !fits(frames, length + frame.length) {
                return (frames, config.transmission(length, rate));
            }
            frame.in_air = true;
            outlet.counters.retransmissions += 1;
            outlet.counters.bytes += frame.length;
            (frames, length) = (frames + 1, length + frame.length);
        }
        // A receiver keeps as many frames in order as an aggregate has.
        while outlet.window.len() < most {
            // Without a length, the queue says from when on it has a packet.
            let size = port.head(now).unwrap_or(Bytes::ZERO);
            if !fits(frames, length + config.frame(port.wire().overhead.on_wire(size))) {
                break;
            }
            let packet = match load(port, outlet.port) {
                Ok(packet) => packet,
                Err(at) => {
                    outlet.ready_at = at;
                    break;
                }
            };
            let own = config.frame(port.wire().overhead.on_wire(packet.size()));
            outlet.window.push_back(Frame {
                packet,
                length: own,
                failures: 0,
                arrived: false,
                in_air: true,
            });
            outlet.counters.bytes += own;
            (frames, length) = (frames + 1, length + own);
        }
        (frames, config.transmission(length, rate))
    }
}

impl<B: Copy> Sender<B> {
    /// Returns `true` if there is something to send now.
    fn is_ready(&self, now: Time, ports: &[Port<B>]) -> bool {
        let mut outlets = self.busy.iter().map(|&outlet| &self.outlets[usize::from(outlet)]);
        outlets.any(|outlet| outlet.is_ready(now, ports))
    }

    /// Notes if there is something to send now, and when there will be something later.
    fn update(&mut self, now: Time, ports: &[Port<B>]) {
        (self.contends, self.later, self.stale) = (false, Time::MAX, false);
        self.busy.retain(|&outlet| {
            let outlet = &mut self.outlets[usize::from(outlet)];
            let port = &ports[outlet.port.index()];
            let (waits, sent) = (port.has_backlog(), !outlet.window.is_empty());
            if port.is_up() {
                self.contends |= sent || waits && outlet.ready_at <= now;
                if waits && outlet.ready_at > now {
                    self.later = self.later.min(outlet.ready_at);
                }
            }
            outlet.busy = waits || sent;
            outlet.busy
        });
    }
}

impl<B: Copy> Outlet<B> {
    /// Returns `true` if there is something to send now.
    fn is_ready(&self, now: Time, ports: &[Port<B>]) -> bool {
        let port = &ports[self.port.index()];
        let waits = port.has_backlog() && self.ready_at <= now;
        port.is_up() && (waits || !self.window.is_empty())
    }

    /// Decides which frames of a transmission that ends at `end` arrive. Returns whether any does,
    /// and the packets that are released in order or given up.
    fn judge(
        &mut self,
        port: &mut Port<B>,
        collided: bool,
        retries: u32,
        end: Time,
    ) -> (bool, Vec<Outcome<B>>) {
        let mut any = false;
        for frame in self.window.iter_mut().filter(|frame| frame.in_air) {
            frame.in_air = false;
            frame.arrived = !collided && !port.loses();
            frame.failures += u32::from(!frame.arrived);
            self.counters.failed += u64::from(!frame.arrived);
            any |= frame.arrived;
        }
        let mut outcomes = Vec::new();
        let done = |frame: &Frame<B>| frame.arrived || frame.failures > retries;
        while self.window.front().is_some_and(done)
            && let Some(frame) = self.window.pop_front()
        {
            self.counters.abandoned += u64::from(!frame.arrived);
            outcomes.push(match frame.arrived {
                true => Outcome::Arrived(self.port, end, frame.packet),
                false => Outcome::Lost(self.port, frame.packet),
            });
        }
        (any, outcomes)
    }
}
