//! One direction of a link.

use perhop_core::{Bytes, Duration, Header, NodeId, Packet, Stream, Time};
use perhop_queue::{Cause, Class, Discipline, Ledger};

use crate::marker::Marker;
use crate::network::{Departures, Waits};
use crate::under_way::UnderWay;
use crate::wire::{Impairments, LinkCounters, Reorder, Wire};

/// One direction of a link: `2 · link` from its first end to its second, `2 · link + 1` back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl PortId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// No length that a packet has.
const NO_PACKET: (Bytes, Bytes, Duration) = (Bytes::MAX, Bytes::ZERO, Duration::ZERO);

/// A queue, a transmitter and a wire. It holds packets in all three, and at most two events: the
/// next arrival at the far end, and, only while packets wait, the end of the transmission.
#[derive(Debug)]
pub(crate) struct Port<B> {
    pub to: NodeId,
    wire: Wire,
    /// True if the wire's arrivals are certain, which asks for one branch a packet, not three.
    certain: bool,
    pub queue: Class<B>,
    impairments: Impairments,
    pub counters: LinkCounters,
    /// True if the hosts want to know of what is transmitted here, …
    pub watched_at_start: bool,
    /// … and of what arrives at the other end.
    watched_at_end: bool,
    /// What becomes of marks at the far end.
    marker: Option<Box<Marker>>,
    /// The longest packet that is sent here.
    pub mtu: u32,
    /// When the transmitter's event is due; [`Time::MAX`] if none is. While packets wait it is the
    /// end of the transmission, or when the discipline lets the next one go.
    pub wake: Time,
    /// True if packets that must wait are put on the wire at once, for when they will be sent:
    /// nothing that happens until then changes it. It saves the events and moves of a queue.
    schedules: bool,
    /// True if the hosts are told of what leaves the queue, for which it is not scheduled.
    departures: bool,
    /// When the first transmission begins that is scheduled and was not counted; [`Time::MAX`] if
    /// none is.
    begins: Time,
    /// Packets on the wire, and those that are scheduled, by time of arrival.
    under_way: UnderWay<B>,
    /// Reordered packets that arrive after all of those; others need not pass them one by
    /// one. None if there never were any.
    aside: Option<Box<UnderWay<B>>>,
    /// When the transmission that goes on, or the last one, ends; [`Time::MAX`] while the link is
    /// down.
    busy_until: Time,
    /// What `busy_until` was when the link went down; none while it is up.
    down: Option<Time>,
    /// When the last packet arrives that was sent before the wire changed.
    not_before: Time,
    /// True if every arrival that is scheduled is still that of a packet: nothing was overtaken or
    /// taken back.
    plain: bool,
    /// True if more happens to what arrives than that it arrives: one of the above, or the node
    /// there sends through a port that does not take every packet.
    special: bool,
    /// The length of the last packet, its length on the wire, and the time it took. Packets of a
    /// length follow each other, and a division takes longer than the rest of a transmission.
    last: (Bytes, Bytes, Duration),
}

impl<B> Port<B> {
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
            wake: Time::MAX,
            under_way: UnderWay::new(),
            aside: None,
            busy_until: Time::ZERO,
            down: None,
            not_before: Time::ZERO,
            plain: wire.is_plain(),
            special: !wire.is_plain(),
            last: NO_PACKET,
        }
    }

    pub fn wire(&self) -> &Wire {
        &self.wire
    }

    /// When the transmitter is free.
    pub fn busy_until(&self) -> Time {
        self.busy_until
    }

    /// Returns `true` if a packet could be transmitted at once.
    pub fn is_idle(&self, now: Time) -> bool {
        self.busy_until <= now && !self.has_backlog()
    }

    /// Stops to transmit or begins again. What is on the wire arrives all the same.
    /// Returns an arrival that has become the next one.
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

    /// From the next packet on, another wire. Nothing overtakes what is on the wire already.
    /// Returns an arrival that has become the next one.
    pub fn set_wire(&mut self, now: Time, wire: Wire) -> Option<Time> {
        self.unschedule(now);
        self.rejoin(Time::MAX);
        self.wire = wire;
        self.certain = wire.is_certain();
        self.plain &= wire.is_plain();
        self.special |= !self.plain;
        self.last = NO_PACKET;
        self.not_before = self.under_way.last().unwrap_or(Time::ZERO);
        self.reschedule(now)
    }

    /// Changes what stands before the transmitter. Returns an arrival that has become the next one.
    pub fn change_queue(&mut self, now: Time, change: impl FnOnce(&mut Class<B>)) -> Option<Time> {
        self.unschedule(now);
        change(&mut self.queue);
        self.wake = Time::MAX; // what was scheduled for the old one is void
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

    /// From now on somebody wants to know when a transmission begins: it needs its event.
    pub fn watch(&mut self, now: Time) {
        self.unschedule(now);
        self.watched_at_start = true;
    }

    /// From now on somebody wants to know of what arrives.
    pub fn watch_arrivals(&mut self) {
        self.watched_at_end = true;
        self.special = true;
    }

    /// Nobody wants to know any more when a transmission begins. Returns an arrival that has become
    /// the next one.
    pub fn unwatch(&mut self, now: Time) -> Option<Time> {
        self.watched_at_start = false;
        self.unschedule(now);
        self.wake = Time::MAX; // what was scheduled for transmissions that are watched is void
        self.reschedule(now)
    }

    /// Nobody wants to know any more of what arrives.
    pub fn unwatch_arrivals(&mut self) {
        self.watched_at_end = false;
    }

    /// Returns `true` if somebody wants to know of what arrives.
    pub fn are_arrivals_watched(&self) -> bool {
        self.watched_at_end
    }

    /// From now on what arrives is marked anew.
    pub fn set_marker(&mut self, marker: Marker) {
        self.marker = Some(Box::new(marker));
        self.special = true;
    }

    /// What becomes of the marks of what arrives.
    pub fn marker(&self) -> Option<&Marker> {
        self.marker.as_deref()
    }

    /// Returns `true` if every arrival that is scheduled is still that of a packet.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Returns `true` if packets are scheduled, and not enqueued and transmitted.
    #[inline]
    pub fn schedules(&self) -> bool {
        self.schedules
    }

    /// Schedules the transmission of a packet of `size`, after those before it; returns when it
    /// arrives, or why it is dropped.
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

    /// Gives the transmitter a packet of `size` from `begins` on; returns when it arrives.
    #[inline(always)]
    fn occupy(&mut self, begins: Time, size: Bytes) -> Time {
        if size != self.last.0 {
            let on_wire = self.wire.overhead.on_wire(size);
            self.last = (size, on_wire, on_wire / self.wire.rate);
        }
        self.busy_until = begins + self.last.2;
        (self.busy_until + self.wire.delay).max(self.not_before)
    }

    /// Counts the transmission of the packet that the transmitter was given last.
    #[inline(always)]
    fn count(&mut self) {
        self.counters.packets += 1;
        self.counters.bytes += self.last.1;
    }

    /// Moves what is scheduled and has not begun back into the queue.
    fn unschedule(&mut self, now: Time) {
        self.settle(now);
        if !std::mem::take(&mut self.schedules) {
            return;
        }
        self.begins = Time::MAX;
        if let Some((number, first)) = self.queue.unschedule() {
            // What is being transmitted stays, and with it the next arrival; unless the link has
            // lost it, and an arrival is scheduled of what goes back.
            self.plain &= number < self.under_way.len();
            self.special |= !self.plain;
            for packet in self.under_way.split_off(number) {
                self.queue.enqueue(now, packet, &mut Ledger::new());
            }
            self.busy_until = first;
        }
    }

    /// Schedules what waits in the queue, if it can be; returns the first arrival if none was due.
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

    /// Returns `true` if packets can be scheduled, as far as nobody asks when transmissions begin.
    fn may_schedule(&self) -> bool {
        self.certain && self.queue.is_plain() && self.down.is_none()
    }

    /// From now on the hosts are told of what leaves the queue: it needs its event.
    pub fn report_departures(&mut self, now: Time) {
        self.unschedule(now);
        self.departures = true;
    }

    /// Returns `true` if the hosts are told of what leaves the queue.
    #[inline]
    pub fn reports_departures(&self) -> bool {
        self.departures
    }

    /// Schedules again what can be scheduled, once nothing waits of which the hosts were to be
    /// told.
    pub fn end_reports(&mut self, now: Time) {
        if !self.has_backlog() {
            // Nothing waits that could become the next arrival.
            let _ = self.reschedule(now);
        }
    }

    /// What waits in the queue, and how the hosts learn of its end.
    pub fn waits(&self, port: PortId) -> Waits {
        // Whoever watches changes nothing.
        let scheduled = self.schedules || (self.watched_at_start && self.may_schedule());
        let departures = match (self.departures, scheduled) {
            (true, _) => Departures::Reported,
            (false, true) => Departures::Scheduled,
            (false, false) => Departures::Unknown,
        };
        Waits { port, bytes: self.queue.backlog().bytes, departures }
    }

    pub fn has_backlog(&self) -> bool {
        self.queue.backlog().packets > 0
    }

    /// Begins to transmit a packet of `size` at `now`, when the transmitter is free; returns when
    /// it arrives, or `None` if the link loses it.
    #[inline]
    pub fn transmit(&mut self, now: Time, size: Bytes) -> Option<Time> {
        debug_assert!(self.busy_until <= now);
        let arrival = self.occupy(now, size);
        self.count();
        if self.certain {
            return Some(arrival);
        }
        self.impairments.delay(&self.wire, arrival, &mut self.counters)
    }

    /// Returns `true` if a copy comes behind the packet that arrives.
    pub fn duplicates(&mut self) -> bool {
        self.impairments.duplicates(&self.wire)
    }

    /// Puts a packet on the wire, to arrive at `at`; says whether it is the next one to arrive.
    #[inline(always)]
    pub fn put_on_wire(&mut self, at: Time, packet: Packet<B>) -> bool {
        if !self.plain {
            return self.overtake(at, packet);
        }
        self.under_way.push(at, packet);
        self.under_way.len() == 1
    }

    /// Puts a packet before reordered ones.
    #[cold]
    fn overtake(&mut self, at: Time, packet: Packet<B>) -> bool {
        let last = self.under_way.last().filter(|_| self.is_reordered(at));
        if last.is_some_and(|last| last <= at) {
            let aside = self.aside.get_or_insert_with(|| Box::new(UnderWay::new()));
            aside.insert(at, packet);
            return false;
        }
        self.rejoin(at);
        self.under_way.insert(at, packet)
    }

    /// Returns `true` if what begins to be sent now, to arrive at `at`, is reordered.
    fn is_reordered(&self, at: Time) -> bool {
        let Some(Reorder { share, by }) = self.wire.reorder else { return false };
        share > 0 && self.down.is_none() && self.busy_until + self.wire.delay + by <= at
    }

    /// Puts the packets aside that arrive until `at` back behind the others.
    fn rejoin(&mut self, at: Time) {
        let Some(aside) = &mut self.aside else { return };
        while let Some(next) = aside.next().filter(|&next| next <= at) {
            let packet = aside.pop().expect("it has a first");
            self.under_way.push(next, packet);
        }
    }

    /// Sees to it that there is another packet after the first, if any is aside.
    pub fn bring_up(&mut self) {
        if self.under_way.len() > 1 {
            return;
        }
        if let Some(next) = self.aside.as_ref().and_then(|aside| aside.next()) {
            self.rejoin(next);
        }
    }

    /// Puts the packet that has arrived first on another wire, too, to arrive at `at` with one hop
    /// less to live; says whether it is the next one to arrive there.
    #[inline(always)]
    pub fn hand_on(&mut self, to: &mut Self, at: Time) -> bool {
        if !to.plain {
            return self.take_off_wire().is_some_and(|packet| to.overtake(at, packet.forwarded()));
        }
        self.under_way.hand_on(&mut to.under_way, at);
        to.under_way.len() == 1
    }

    /// The node at the far end looks how long packets are.
    pub fn measure_arrivals(&mut self) {
        self.special = true;
    }

    /// Returns `true` if more happens to what arrives than that it arrives.
    #[inline(always)]
    pub fn is_special(&self) -> bool {
        self.special
    }

    /// Returns the body of the packet that arrives after so many others.
    #[inline(always)]
    pub fn body_after(&self, others: usize) -> Option<&B> {
        self.under_way.body(others)
    }

    /// Returns the header of the packet that arrives next.
    #[inline(always)]
    pub fn arriving(&self) -> &Header {
        self.under_way.header().expect("an arrival is due only with a packet")
    }

    /// Takes the packet that arrives next off the wire.
    #[inline(always)]
    pub fn take_off_wire(&mut self) -> Option<Packet<B>> {
        self.under_way.pop()
    }

    /// When the next packet arrives.
    #[inline(always)]
    pub fn next_arrival(&self) -> Option<Time> {
        self.under_way.next()
    }
}
