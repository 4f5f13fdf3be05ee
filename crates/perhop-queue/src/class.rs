//! A class: a queue between an optional policer and an optional shaper, with counters.

mod reserved;

use perhop_core::{Bytes, Packet, Rate, Time};

pub use reserved::Reserved;

use crate::{
    Action, Actions, Backlog, Cause, ClassCounters, Dequeue, Discipline, Fifo, Ledger, Limit, Pass,
    Policer, Queue, Shaper,
};

/// One class of traffic at one link: what it may send, where it waits, what became of it.
///
/// The root of every link is a class too, so that a plain queue has counters.
#[derive(Debug)]
pub struct Class<B> {
    policer: Option<Box<(Policer, Actions)>>,
    shaper: Option<Box<Shaper<B>>>,
    queue: Queue<B>,
    counters: ClassCounters,
    /// What results call it.
    name: Box<str>,
}

impl<B> Class<B> {
    /// A class without a policer or a shaper.
    pub fn new(queue: Queue<B>) -> Self {
        Self {
            policer: None,
            shaper: None,
            queue,
            counters: ClassCounters::default(),
            name: Box::default(),
        }
    }

    /// The same class with the name that results call it by.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.into(), ..self }
    }

    /// What results call it; empty if they do not mention it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same class behind a policer.
    #[must_use]
    pub fn policed(self, policer: Policer, actions: Actions) -> Self {
        Self { policer: Some(Box::new((policer, actions))), ..self }
    }

    /// The same class, sending through a shaper.
    #[must_use]
    pub fn shaped(self, shaper: Shaper<B>) -> Self {
        Self { shaper: Some(Box::new(shaper)), ..self }
    }

    /// What the class has done since the run began, its inner classes included.
    pub const fn counters(&self) -> &ClassCounters {
        &self.counters
    }

    /// The classes inside this one; none if it is a plain queue, or a tree of its own.
    pub fn inner(&self) -> &[Self] {
        match &self.queue {
            Queue::Classes(classes) => classes.classes(),
            _ => &[],
        }
    }

    /// Calls `visit` with the name, the counters and the backlog of this class and then, depth
    /// first, of every class inside it. Where classes are [reserved](Reserved) it is what stands
    /// behind them that is visited.
    pub fn visit(&self, visit: &mut impl FnMut(&str, &ClassCounters, Backlog)) {
        if let Queue::Reserved(classes) = &self.queue {
            return classes.last().visit(visit);
        }
        visit(&self.name, &self.counters, self.backlog());
        match &self.queue {
            Queue::Classes(classes) => {
                classes.classes().iter().for_each(|inner| inner.visit(visit))
            }
            Queue::Cbq(cbq) => cbq.visit(visit),
            _ => {}
        }
    }

    /// The classes that go before everything else here, the first of them first.
    pub fn reserved(&self) -> &[Self] {
        match &self.queue {
            Queue::Reserved(classes) => classes.classes().split_last().map_or(&[], |(_, all)| all),
            _ => &[],
        }
    }

    /// Gives the policer another committed rate and burst from `now` on; says whether there is a
    /// policer. It keeps the tokens that it has, as far as the new bucket holds them.
    pub fn set_policer(&mut self, now: Time, rate: Rate, burst: Bytes) -> bool {
        let policer = self.policer.as_mut().map(|policed| &mut policed.0);
        policer.map(|policer| policer.set(now, rate, burst)).is_some()
    }

    /// This class, or one inside it, by name; none of those that are [reserved](Reserved).
    pub fn class_mut(&mut self, name: &str) -> Option<&mut Self> {
        if *self.name == *name && !matches!(self.queue, Queue::Reserved(_)) {
            return Some(self);
        }
        match &mut self.queue {
            Queue::Reserved(classes) => classes.classes_mut().last_mut()?.class_mut(name),
            Queue::Classes(classes) => {
                classes.classes_mut().iter_mut().find_map(|class| class.class_mut(name))
            }
            Queue::Cbq(cbq) => cbq.class_mut(name),
            _ => None,
        }
    }

    /// Whether it is known of each packet, when it arrives, when it will be sent: the class is a
    /// plain queue that drops at its tail. Then whoever drives it may [`schedule`](Self::schedule)
    /// packets instead of enqueueing them, and keep them.
    pub fn is_plain(&self) -> bool {
        let fifo = matches!(&self.queue, Queue::Fifo(fifo) if fifo.departures_are_final());
        fifo && self.policer.is_none() && self.shaper.is_none()
    }

    fn plain(&mut self) -> &mut Fifo<B> {
        match &mut self.queue {
            Queue::Fifo(fifo) => fifo,
            _ => unreachable!("only plain classes are scheduled"),
        }
    }

    /// Schedules the transmission of a packet of `size` for the instant when the transmitter is
    /// `free`. The class is plain, and transmissions that have begun were counted. Returns when the
    /// transmission begins, or why the packet is dropped.
    #[inline(always)]
    pub fn schedule(&mut self, now: Time, free: Time, size: Bytes) -> Result<Time, Cause> {
        match self.plain().schedule(now, free, size) {
            Some(at) => {
                if at == now {
                    self.counters.sent.add(size);
                }
                Ok(at)
            }
            None => {
                self.counters.count_drop(Cause::Limit);
                Err(Cause::Limit)
            }
        }
    }

    /// Counts the first scheduled transmission, which has begun: the packet's length, and when the
    /// next one begins; [`Time::MAX`] if there is none.
    pub fn begin(&mut self) -> (Bytes, Time) {
        let (size, next) = self.plain().begin();
        self.counters.sent.add(size);
        (size, next)
    }

    /// Removes the scheduled transmissions that have not begun: their number, and the first
    /// instant.
    pub fn unschedule(&mut self) -> Option<(usize, Time)> {
        self.plain().unschedule()
    }

    /// Takes out what waits in a plain class.
    pub fn take(&mut self) -> Vec<Packet<B>> {
        self.plain().take()
    }

    /// How much a [plain](Self::is_plain) class may hold; none of others.
    pub fn plain_limit(&self) -> Option<Limit> {
        match &self.queue {
            Queue::Fifo(fifo) if self.is_plain() => Some(fifo.limit()),
            _ => None,
        }
    }

    /// What waits in a plain class, not scheduled, in order; nothing of others.
    pub fn waiting(&self) -> impl Iterator<Item = &Packet<B>> {
        let plain = match &self.queue {
            Queue::Fifo(fifo) if self.is_plain() => Some(fifo),
            _ => None,
        };
        plain.into_iter().flat_map(Fifo::waiting)
    }

    /// A packet that has left the queue and waits for the shaper.
    #[inline]
    fn staged(&self) -> Option<&Packet<B>> {
        self.shaper.as_ref().and_then(|shaper| shaper.staged())
    }

    /// Lets the policer measure a packet, and remark or refuse it.
    #[inline]
    fn police(&mut self, now: Time, packet: &mut Packet<B>) -> Result<(), Cause> {
        let Some(policed) = &mut self.policer else { return Ok(()) };
        let (policer, actions) = policed.as_mut();
        let verdict = policer.police(now, packet.size(), packet.header.dscp());
        self.counters.count_policed(verdict, packet.size());
        match actions.of(verdict) {
            Action::Send => Ok(()),
            Action::Drop => Err(Cause::Policer),
            Action::Remark(dscp) => {
                self.counters.remarked += 1;
                let header = &mut packet.header;
                header.traffic_class = header.traffic_class.with_dscp(dscp);
                Ok(())
            }
        }
    }
}

impl<B> Discipline<B> for Class<B> {
    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: Packet<B>, ledger: &mut Ledger<B>) {
        let (drops, marks) = (ledger.drops.len(), ledger.marks);
        match self.police(now, &mut packet) {
            Ok(()) => self.queue.enqueue(now, packet, ledger),
            Err(cause) => ledger.drop(packet, cause),
        }
        self.counters.count_since(ledger, drops, marks);
    }

    #[inline]
    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B> {
        let (drops, marks) = (ledger.drops.len(), ledger.marks);
        let next = match &mut self.shaper {
            None => self.queue.dequeue(now, ledger),
            Some(shaper) => shaper.dequeue(now, &mut self.queue, ledger),
        };
        if let Dequeue::Packet(packet) = &next {
            self.counters.sent.add(packet.size());
        }
        self.counters.count_since(ledger, drops, marks);
        next
    }

    #[inline]
    fn pass(&mut self, now: Time, packet: &mut Packet<B>) -> Pass {
        // A packet that must be enqueued will meet the policer there.
        let pass = match (&self.policer, &mut self.shaper) {
            (None, None) => self.queue.pass(now, packet),
            (None, Some(shaper)) => match shaper.admits(now, packet.size()) {
                true => shaper.passed(packet.size(), self.queue.pass(now, packet)),
                false => Pass::Enqueue,
            },
            (Some(_), _) => Pass::Enqueue,
        };
        match pass {
            Pass::Send => self.counters.sent.add(packet.size()),
            Pass::Drop(cause) => self.counters.count_drop(cause),
            Pass::Enqueue => {}
        }
        pass
    }

    #[inline]
    fn head(&mut self, now: Time) -> Option<Bytes> {
        match self.staged() {
            Some(packet) => Some(packet.size()),
            None => self.queue.head(now),
        }
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        let mut backlog = self.queue.backlog();
        if let Some(packet) = self.staged() {
            backlog.add(packet.size());
        }
        backlog
    }

    fn drain(self, packets: &mut Vec<Packet<B>>) {
        packets.extend(self.shaper.and_then(|shaper| shaper.into_staged()));
        self.queue.drain(packets);
    }
}
