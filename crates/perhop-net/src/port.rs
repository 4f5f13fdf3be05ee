//! One direction of a link.

use perhop_core::{Bytes, Duration, Encapsulation, Header, NodeId, Packet, Stream, Time};
use perhop_queue::{Cause, Class, Discipline, Ledger, Pass};

use crate::channel::Place;
use crate::hosts::{Departures, Loss, Waits};
use crate::marker::Marker;
use crate::trace::{Trace, TraceMedium};
use crate::under_way::UnderWay;
use crate::wire::{Impairments, LinkCounters, Reorder, Wire};

/// One direction of a link: `2 · link` from its first end to its second, `2 · link + 1` back.
/// Behind those of all links: the device of a tunnel at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl PortId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What becomes of a packet that a port has taken on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TakenOn {
    /// It arrives at the far end at this time.
    Arrives(Time),
    Lost(Loss),
    /// It is to be enqueued.
    Waits,
}

/// The initial value of `last`, which is not the length of any packet.
const NO_PACKET: (Bytes, Bytes, Duration) = (Bytes::MAX, Bytes::ZERO, Duration::ZERO);

/// A queue, a transmitter and a wire. A port holds packets in all three, and at most two events:
/// the next arrival at the far end and, only while packets wait, the end of the transmission.
#[derive(Debug)]
pub(crate) struct Port<B> {
    pub to: NodeId,
    wire: Wire,
    /// True if the wire's arrivals are certain, so that a packet needs one branch instead of three.
    certain: bool,
    pub queue: Class<B>,
    impairments: Impairments,
    pub counters: LinkCounters,
    /// True if transmissions at this port are reported to the hosts.
    pub watched_at_start: bool,
    /// True if arrivals at the far end are reported to the hosts.
    watched_at_end: bool,
    /// Marker for arriving packets at the far end.
    marker: Option<Box<Marker>>,
    /// MTU, in bytes.
    pub mtu: u32,
    /// Tag or label of the packets on the wire, if any.
    pub encapsulation: Option<Encapsulation>,
    /// Time of the transmitter's event; [`Time::MAX`] if there is none. While packets wait, this is
    /// the end of the transmission, or when the discipline releases the next one.
    pub wake: Time,
    /// True if waiting packets are put on the wire at once, for the time of their transmission,
    /// because later events cannot change it. This saves the events and copies of a queue.
    schedules: bool,
    /// True if departures from the queue are reported to the hosts, so that packets are not
    /// scheduled.
    departures: bool,
    /// Begin of the first scheduled transmission that was not counted yet; [`Time::MAX`] if there
    /// is none.
    begins: Time,
    /// Packets on the wire, and scheduled packets, by time of arrival.
    under_way: UnderWay<B>,
    /// Reordered packets that arrive after all of those, so that others need not pass them one by
    /// one; `None` if there never were any.
    aside: Option<Box<UnderWay<B>>>,
    /// End of the current or last transmission; [`Time::MAX`] while the link is down.
    busy_until: Time,
    /// Value of `busy_until` when the link went down; `None` while it is up.
    down: Option<Time>,
    /// Arrival of the last packet that was sent before the wire changed.
    not_before: Time,
    /// True if packets arrive here, in the order in which they were sent.
    plain: bool,
    /// True if arrivals need special handling: one of the above, or the node at the far end sends
    /// through a port with an MTU, or is the end of a tunnel.
    special: bool,
    /// True if packets arrive in another part of the network, where they are taken.
    leaves: bool,
    /// The direction of a tunnel whose device this is: its packets do not arrive anywhere, but are
    /// put into outer ones.
    tunnel: Option<u32>,
    /// Time for which all arrivals at the far end are known in advance, by this and all other
    /// ports; zero if it does not process them ahead.
    pub lookahead: Duration,
    /// Length of the last packet, its length on the wire, and its transmission time. Packets of
    /// equal length often follow each other, and a division takes longer than the rest of a
    /// transmission.
    last: (Bytes, Bytes, Duration),
    /// Rates that replace that of the wire.
    trace: Option<Box<Trace>>,
    /// Place in a channel, which decides when the port sends. Its own transmitter never does.
    pub place: Option<Place>,
}

impl<B: Copy> Port<B> {
    pub fn new(wire: Wire, to: NodeId, queue: Class<B>, random: Stream) -> Self {
        Self {
            schedules: wire.is_certain() && queue.is_plain(),
            departures: false,
            begins: Time::MAX,
            to,
            wire,
            certain: wire.is_certain(),
            queue,
            impairments: Impairments::new(random),
            counters: LinkCounters::default(),
            watched_at_start: false,
            watched_at_end: false,
            marker: None,
            mtu: u32::MAX,
            encapsulation: None,
            wake: Time::MAX,
            under_way: UnderWay::new(),
            aside: None,
            busy_until: Time::ZERO,
            down: None,
            not_before: Time::ZERO,
            plain: wire.is_plain(),
            special: !wire.is_plain(),
            leaves: false,
            tunnel: None,
            lookahead: Duration::ZERO,
            last: NO_PACKET,
            trace: None,
            place: None,
        }
    }

    /// Replaces the rate of the wire from the next packet on.
    pub fn set_trace(&mut self, now: Time, trace: Trace) {
        self.unschedule(now);
        self.trace = Some(Box::new(trace));
        self.certain = self.is_certain();
        self.last = NO_PACKET;
        // No packet waits before a network has begun.
        let _ = self.reschedule(now);
    }

    /// Returns the rates that replace that of the wire, if any.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_deref()
    }

    /// Returns `true` if the arrival of a packet is known before it is sent.
    fn is_certain(&self) -> bool {
        let varies = self.trace.as_ref().is_some_and(|trace| trace.changes_medium());
        self.wire.is_certain() && !varies && self.place.is_none()
    }

    /// Returns the least time from the end of a transmission to its arrival, if packets arrive in
    /// order and at most once, and the delay does not vary.
    pub fn least_delay(&self) -> Option<Duration> {
        let varies = self.trace.as_ref().is_some_and(|trace| trace.changes_medium());
        let sound = self.plain && self.place.is_none() && !varies;
        sound.then_some(self.wire.delay)
    }

    /// Leaves transmissions to a channel.
    pub fn share(&mut self, now: Time, place: Place) {
        self.unschedule(now);
        self.place = Some(place);
        self.certain = false;
        self.busy_until = Time::MAX;
    }

    /// Returns `true` if the link is up.
    pub fn is_up(&self) -> bool {
        self.down.is_none()
    }

    /// Returns the length of the packet that leaves the queue next.
    pub fn head(&mut self, now: Time) -> Option<Bytes> {
        self.queue.head(now)
    }

    /// Counts a packet of `size` that is sent on a channel.
    pub fn count_shared(&mut self, size: Bytes) {
        self.counters.packets += 1;
        self.counters.bytes += self.wire.overhead.on_wire(size);
    }

    /// Returns `true` if a frame is lost on a channel.
    pub fn loses(&mut self) -> bool {
        self.impairments.loses(&self.wire)
    }

    /// Returns the arrival of a packet whose transmission on a channel ends at `end`.
    pub fn arrival(&self, end: Time) -> Time {
        (end + self.wire.delay).max(self.not_before)
    }

    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Returns when the transmitter is free.
    pub fn busy_until(&self) -> Time {
        self.busy_until
    }

    /// Stops transmitting, or begins again. Packets on the wire arrive nevertheless. Returns an
    /// arrival that has become the next one.
    pub fn set_up(&mut self, now: Time, up: bool) -> Option<Time> {
        match (up, self.down) {
            (true, Some(busy_until)) => {
                self.busy_until = busy_until;
                self.down = None;
                self.reschedule(now)
            }
            (false, None) => {
                self.unschedule(now);
                self.down = Some(self.busy_until);
                self.busy_until = Time::MAX;
                self.wake = Time::MAX;
                None
            }
            _ => None,
        }
    }

    /// Changes the wire from the next packet on. No packet overtakes those already on the wire.
    /// Returns an arrival that has become the next one.
    pub fn set_wire(&mut self, now: Time, wire: Wire) -> Option<Time> {
        self.unschedule(now);
        self.rejoin(Time::MAX);
        self.wire = wire;
        self.certain = self.is_certain();
        self.plain &= wire.is_plain();
        self.special |= !self.plain;
        self.last = NO_PACKET;
        self.not_before = self.under_way.last().unwrap_or(Time::ZERO);
        self.reschedule(now)
    }

    /// Changes the class before the transmitter. Returns an arrival that has become the next one.
    pub fn change_queue(&mut self, now: Time, change: impl FnOnce(&mut Class<B>)) -> Option<Time> {
        self.unschedule(now);
        change(&mut self.queue);
        self.wake = Time::MAX; // events scheduled for the old class are void
        self.reschedule(now)
    }

    /// Counts the scheduled transmissions that have begun by now.
    #[inline]
    pub fn settle(&mut self, now: Time) {
        if self.begins <= now {
            self.count_begun(now);
        }
    }

    fn count_begun(&mut self, now: Time) {
        while self.begins <= now && self.begins < Time::MAX {
            let (size, next) = self.queue.begin();
            self.begins = next;
            self.counters.packets += 1;
            self.counters.bytes += self.wire.overhead.on_wire(size);
        }
    }

    /// Reports transmissions from now on: each begins with an event.
    pub fn watch(&mut self, now: Time) {
        self.unschedule(now);
        self.watched_at_start = true;
    }

    /// Reports arrivals from now on.
    pub fn watch_arrivals(&mut self) {
        self.watched_at_end = true;
        self.special = true;
    }

    /// Ends the reports of transmissions. Returns an arrival that has become the next one.
    pub fn unwatch(&mut self, now: Time) -> Option<Time> {
        self.watched_at_start = false;
        self.unschedule(now);
        self.wake = Time::MAX; // events scheduled for reports of transmissions are void
        self.reschedule(now)
    }

    /// Ends the reports of arrivals.
    pub fn unwatch_arrivals(&mut self) {
        self.watched_at_end = false;
    }

    /// Returns `true` if arrivals are reported.
    pub fn are_arrivals_watched(&self) -> bool {
        self.watched_at_end
    }

    /// Keeps packets on the wire until another part of the network takes them: none arrives here.
    pub fn leave(&mut self) {
        (self.leaves, self.plain, self.special) = (true, false, true);
    }

    /// Returns `true` if packets arrive in another part of the network.
    pub fn leaves(&self) -> bool {
        self.leaves
    }

    /// Has the packets put into the outer ones of a tunnel.
    pub fn encloses(mut self, tunnel: u32) -> Self {
        (self.tunnel, self.special) = (Some(tunnel), true);
        self
    }

    /// Returns the direction of a tunnel whose device this is.
    pub fn tunnel(&self) -> Option<u32> {
        self.tunnel
    }

    /// Sets the marker for arriving packets.
    pub fn set_marker(&mut self, marker: Marker) {
        self.marker = Some(Box::new(marker));
        self.special = true;
    }

    /// Returns the marker for arriving packets.
    pub fn marker(&self) -> Option<&Marker> {
        self.marker.as_deref()
    }

    /// Returns `true` if packets are scheduled instead of enqueued and transmitted.
    #[inline]
    pub fn schedules(&self) -> bool {
        self.schedules
    }

    /// Schedules the transmission of a packet of `size`, after those before it; returns its
    /// arrival, or the cause for which it is dropped.
    #[inline(always)]
    pub fn schedule(&mut self, now: Time, size: Bytes) -> Result<Time, Cause> {
        self.settle(now);
        let begins = self.queue.schedule(now, self.busy_until, size)?;
        let arrival = self.occupy(begins, size);
        if begins == now {
            self.count();
        } else {
            self.begins = self.begins.min(begins);
        }
        Ok(arrival)
    }

    /// Transmits packets of another wire after packet `last`, which was transmitted and has this
    /// header, as long as each is like it, finds the transmitter free, and `follows` is true.
    /// Copies them, and returns how many. It is the same as to [take on](Self::take_on) one after
    /// the other.
    #[inline(always)]
    pub fn transmit_run(
        &mut self,
        source: &Self,
        last: usize,
        header: &Header,
        follows: impl Fn(Time, &Header) -> bool,
    ) -> usize {
        let (size, on_wire, transmission) = self.last;
        let by_size = self.schedules;
        let next = |number: usize, free: Time| {
            source.arriving_after(last + number + 1).filter(|(at, packet)| {
                let other = &packet.header;
                let alike = if by_size { other.size() == size } else { other == header };
                alike && *at >= free && follows(*at, other)
            })
        };
        let idle = self.begins == Time::MAX && self.wake == Time::MAX;
        if next(0, self.busy_until).is_none()
            || !(idle && self.plain && self.certain && self.queue.repeats(header))
        {
            return 0;
        }
        let mut number = 0;
        while let Some((at, packet)) = next(number, self.busy_until) {
            self.busy_until = at + transmission;
            let arrival = (self.busy_until + self.wire.delay).max(self.not_before);
            self.under_way.copy(arrival, packet);
            number += 1;
        }
        self.queue.pass_again(header, number as u64);
        self.counters.packets += number as u64;
        self.counters.bytes += on_wire * number as u64;
        number
    }

    /// Occupies the transmitter with a packet of `size` from `begins` on; returns its arrival.
    #[inline(always)]
    fn occupy(&mut self, begins: Time, size: Bytes) -> Time {
        if size != self.last.0 {
            if self.trace.is_some() {
                return self.occupy_by_trace(begins, size);
            }
            let on_wire = self.wire.overhead.on_wire(size);
            self.last = (size, on_wire, on_wire / self.wire.rate);
        }
        self.busy_until = begins + self.last.2;
        (self.busy_until + self.wire.delay).max(self.not_before)
    }

    /// Occupies the transmitter for a packet of `size` as the trace says.
    #[cold]
    #[inline(never)]
    fn occupy_by_trace(&mut self, begins: Time, size: Bytes) -> Time {
        let trace = self.trace.as_mut().expect("there is one");
        let on_wire = self.wire.overhead.on_wire(size);
        let (end, medium) = trace.transmit(begins, on_wire);
        // The length of no packet, so that the next one comes here, too.
        self.last = (NO_PACKET.0, on_wire, Duration::ZERO);
        self.busy_until = end;
        if let Some(TraceMedium { delay, jitter, loss }) = medium {
            self.wire.delay = delay.unwrap_or(self.wire.delay);
            self.wire.jitter = jitter.unwrap_or(self.wire.jitter);
            self.wire.loss = loss.unwrap_or(self.wire.loss);
        }
        (end + self.wire.delay).max(self.not_before)
    }

    /// Counts the transmission of the last packet.
    #[inline(always)]
    fn count(&mut self) {
        self.counters.packets += 1;
        self.counters.bytes += self.last.1;
    }

    /// Moves scheduled packets whose transmission has not begun back into the queue.
    fn unschedule(&mut self, now: Time) {
        self.settle(now);
        if !std::mem::take(&mut self.schedules) {
            return;
        }
        self.begins = Time::MAX;
        if let Some((number, first)) = self.queue.unschedule() {
            for packet in self.under_way.split_off(number) {
                self.queue.enqueue(now, packet, &mut Ledger::new());
            }
            self.busy_until = first;
        }
    }

    /// Schedules the packets in the queue, if possible; returns the first arrival if none was due.
    fn reschedule(&mut self, now: Time) -> Option<Time> {
        let reports = self.departures && self.has_backlog();
        if !self.may_schedule() || reports {
            return None;
        }
        self.departures = false;
        if self.watched_at_start {
            return None;
        }
        self.schedules = true;
        let first = self.under_way.len();
        for packet in self.queue.take() {
            let at = self.schedule(now, packet.size()).expect("it had room before");
            self.put_on_wire(at, packet);
        }
        if first == 0 { self.next_arrival() } else { None }
    }

    /// Returns `true` if packets can be scheduled, apart from reports of transmissions.
    fn may_schedule(&self) -> bool {
        self.certain && self.queue.is_plain() && self.down.is_none()
    }

    /// Reports departures from the queue from now on: each has an event.
    pub fn report_departures(&mut self, now: Time) {
        self.unschedule(now);
        self.departures = true;
    }

    /// Returns `true` if departures from the queue are reported.
    #[inline]
    pub fn reports_departures(&self) -> bool {
        self.departures
    }

    /// Schedules packets again, if possible, once no packet waits whose departure is to be
    /// reported.
    pub fn end_reports(&mut self, now: Time) {
        // No packet waits then that could become the next arrival.
        let _ = self.reschedule(now);
    }

    /// Returns the state of the queue, and how the hosts learn of departures from it.
    pub fn waits(&self, port: PortId) -> Waits {
        // Reports of transmissions do not change the result.
        let scheduled = self.schedules || (self.watched_at_start && self.may_schedule());
        let departures = match (self.departures, scheduled) {
            (true, _) => Departures::Reported,
            (false, true) => Departures::Scheduled,
            (false, false) => Departures::Unknown,
        };
        Waits { port, bytes: self.queue.backlog().bytes, departures }
    }

    /// Returns `true` if packets wait for the transmitter.
    pub fn has_backlog(&self) -> bool {
        match self.schedules {
            true => self.begins < Time::MAX,
            false => self.queue.backlog().packets > 0,
        }
    }

    /// Takes on a packet with this header if it is decided now what becomes of it: its transmission
    /// is scheduled or begins, or it is lost. Otherwise it is to be enqueued.
    #[inline(always)]
    pub fn take_on(&mut self, now: Time, header: &Header) -> TakenOn {
        let size = header.size();
        if self.schedules {
            return match self.schedule(now, size) {
                Ok(at) => TakenOn::Arrives(at),
                Err(cause) => TakenOn::Lost(Loss::Queue(cause)),
            };
        }
        // While packets wait, either the transmitter has an event or the link is down.
        if self.busy_until <= now && self.wake == Time::MAX {
            debug_assert!(!self.has_backlog());
            // The common case on unsaturated links: no event but the arrival.
            match self.queue.pass_quickly(now, header) {
                Pass::Send => {
                    return match self.transmit(now, size) {
                        Ok(arrival) => TakenOn::Arrives(arrival),
                        Err(loss) => TakenOn::Lost(loss),
                    };
                }
                Pass::Drop(cause) => return TakenOn::Lost(Loss::Queue(cause)),
                Pass::Enqueue => {}
            }
        }
        TakenOn::Waits
    }

    /// Begins to transmit a packet of `size` at `now`, when the transmitter is free; returns its
    /// arrival, or why the link loses it.
    #[inline]
    pub fn transmit(&mut self, now: Time, size: Bytes) -> Result<Time, Loss> {
        debug_assert!(self.busy_until <= now);
        let arrival = self.occupy(now, size);
        self.count();
        if self.certain {
            return Ok(arrival);
        }
        self.impairments.delay(&self.wire, arrival, &mut self.counters)
    }

    /// Returns `true` if a copy follows the arriving packet.
    pub fn duplicates(&mut self) -> bool {
        self.impairments.duplicates(&self.wire)
    }

    /// Puts a packet on the wire, to arrive at `at`; returns `true` if it is the next one to
    /// arrive.
    #[inline(always)]
    pub fn put_on_wire(&mut self, at: Time, packet: Packet<B>) -> bool {
        if !self.plain {
            return self.overtake(at, packet);
        }
        self.under_way.push(at, packet);
        self.under_way.len() == 1
    }

    /// Puts a packet on the wire before reordered ones.
    #[cold]
    fn overtake(&mut self, at: Time, packet: Packet<B>) -> bool {
        if self.leaves {
            self.under_way.push(at, packet);
            return false;
        }
        let last = self.under_way.last().filter(|_| self.is_reordered(at));
        if last.is_some_and(|last| last <= at) {
            let aside = self.aside.get_or_insert_with(|| Box::new(UnderWay::new()));
            aside.insert(at, packet);
            return false;
        }
        self.rejoin(at);
        self.under_way.insert(at, packet)
    }

    /// Returns `true` if a packet whose transmission begins now, to arrive at `at`, is reordered.
    fn is_reordered(&self, at: Time) -> bool {
        let Some(Reorder { share, by, gap: 0 }) = self.wire.reorder else { return false };
        share > 0 && self.down.is_none() && self.busy_until + self.wire.delay + by <= at
    }

    /// Moves the packets set aside that arrive until `at` back behind the others.
    fn rejoin(&mut self, at: Time) {
        let Some(aside) = &mut self.aside else { return };
        while let Some((next, &packet)) = aside.first()
            && next <= at
        {
            let _ = aside.pop();
            self.under_way.push(next, packet);
        }
    }

    /// Ensures that a packet follows the first, if any is set aside.
    pub fn bring_up(&mut self) {
        if self.under_way.len() > 1 {
            return;
        }
        if let Some(next) = self.aside.as_ref().and_then(|aside| aside.first()).map(|(at, _)| at) {
            self.rejoin(next);
        }
    }

    /// Moves the packet that has arrived first to another wire, to arrive at `at` with a time to
    /// live that is less by one; returns `true` if it is the next one to arrive there.
    #[inline(always)]
    pub fn hand_on(&mut self, to: &mut Self, at: Time) -> bool {
        let next = self.under_way.first().is_some_and(|(_, packet)| to.copy_on_wire(at, packet));
        self.forget(1);
        next
    }

    /// Puts a packet of another wire on this one, forwarded, to arrive at `at`; returns `true` if
    /// it is the next one to arrive. There, it is to be [forgotten](Self::forget).
    #[inline(always)]
    pub fn copy_on_wire(&mut self, at: Time, packet: &Packet<B>) -> bool {
        if !self.plain {
            return self.overtake(at, packet.forwarded());
        }
        self.under_way.copy(at, packet);
        self.under_way.len() == 1
    }

    /// Takes the packets that have arrived first off the wire.
    #[inline(always)]
    pub fn forget(&mut self, number: usize) {
        self.under_way.forget(number);
    }

    /// Has the node at the far end read packets on arrival: their lengths, their classes at layer
    /// 2, or whether they leave a tunnel.
    pub fn inspect_arrivals(&mut self) {
        self.special = true;
    }

    /// Returns `true` if arrivals need special handling.
    #[inline(always)]
    pub fn is_special(&self) -> bool {
        self.special
    }

    /// Returns the body of the packet that arrives after `others` other ones.
    #[inline(always)]
    pub fn body_after(&self, others: usize) -> Option<&B> {
        self.under_way.get(others).map(|(_, packet)| &packet.body)
    }

    /// Returns the time and the header of the next arrival.
    #[inline(always)]
    pub fn arriving(&self) -> Option<(Time, &Header)> {
        self.arriving_after(0).map(|(at, packet)| (at, &packet.header))
    }

    /// Returns the time of the arrival after `others`, and its packet.
    #[inline(always)]
    pub fn arriving_after(&self, others: usize) -> Option<(Time, &Packet<B>)> {
        self.under_way.get(others)
    }

    /// Takes the packet that arrives next off the wire.
    #[inline(always)]
    pub fn take_off_wire(&mut self) -> Option<Packet<B>> {
        self.under_way.pop()
    }

    /// Returns the time of the next arrival.
    #[inline(always)]
    pub fn next_arrival(&self) -> Option<Time> {
        self.under_way.first().map(|(at, _)| at)
    }
}
