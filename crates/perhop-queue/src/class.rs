//! A class: a queue between an optional marker and policer and an optional shaper, with counters.

mod conditioner;
mod reserved;

use perhop_core::{Bytes, Header, Packet, Rate, Time};

pub use conditioner::Mark;
pub(crate) use conditioner::Unmarked;
pub use reserved::Reserved;

use conditioner::Conditioner;

use crate::{
    Actions, Backlog, Cause, ClassCounters, Dequeue, Discipline, Fifo, Ledger, Limit, Pass,
    Policer, Queue, Shaper,
};

/// A traffic class at one link: its mark, policer, queue, shaper and counters.
///
/// The root of every link is a class, too, so that a plain queue has counters.
#[derive(Debug)]
pub struct Class<B> {
    conditioner: Option<Box<Conditioner>>,
    shaper: Option<Box<Shaper<B>>>,
    queue: Queue<B>,
    counters: ClassCounters,
    /// Name in results.
    name: Box<str>,
}

impl<B> Class<B> {
    /// Creates a class without a mark, a policer or a shaper.
    pub fn new(queue: Queue<B>) -> Self {
        Self {
            conditioner: None,
            shaper: None,
            queue,
            counters: ClassCounters::default(),
            name: Box::default(),
        }
    }

    /// Returns the same class with a name for results.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Returns the name in results; empty if the class is not in the results.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the same class behind a policer.
    #[must_use]
    pub fn policed(mut self, policer: Policer, actions: Actions) -> Self {
        self.conditioner.get_or_insert_default().policer = Some((policer, actions));
        self
    }

    /// Returns the same class with marks that all its packets get when they arrive: after they are
    /// classified, before the policer, whose [`Remark`](crate::Action::Remark) replaces the DSCP.
    ///
    /// Classes inside this one classify by the marks that the packets had.
    #[must_use]
    pub fn marked(mut self, mark: impl Into<Mark>) -> Self {
        self.conditioner.get_or_insert_default().mark = Some(mark.into());
        self
    }

    /// Returns the same class behind a shaper.
    #[must_use]
    pub fn shaped(self, shaper: Shaper<B>) -> Self {
        Self { shaper: Some(Box::new(shaper)), ..self }
    }

    /// Returns the counters since the run began, including those of inner classes.
    pub const fn counters(&self) -> &ClassCounters {
        &self.counters
    }

    /// Returns the classes inside this one; none for a plain queue, CBQ, H-FSC or HTB.
    pub fn inner(&self) -> &[Self] {
        match self.content() {
            Queue::Classes(classes) => classes.classes(),
            _ => &[],
        }
    }

    /// Returns the queue, or the classes, behind policers of several classes.
    fn content(&self) -> &Queue<B> {
        match &self.queue {
            Queue::Policed(policed) => policed.queue(),
            queue => queue,
        }
    }

    /// Calls `visit` with the name, the counters and the backlog of this class and then, depth
    /// first, of every policer, class and tin of CAKE inside it. At a link with
    /// [reserved](Reserved) classes, it visits the class behind them.
    pub fn visit(&self, visit: &mut impl FnMut(&str, &ClassCounters, Backlog)) {
        if let Queue::Reserved(classes) = &self.queue {
            return classes.last().visit(visit);
        }
        visit(&self.name, &self.counters, self.backlog());
        if let Queue::Policed(policed) = &self.queue {
            policed.visit(visit);
        }
        match self.content() {
            Queue::Classes(classes) => {
                classes.classes().iter().for_each(|inner| inner.visit(visit))
            }
            Queue::Cbq(cbq) => cbq.visit(visit),
            Queue::Hfsc(hfsc) => hfsc.visit(visit),
            Queue::Htb(htb) => htb.visit(visit),
            Queue::Cake(cake) => cake.visit(&self.name, visit),
            _ => {}
        }
    }

    /// Returns the reserved classes, which precede all others, in order of priority.
    pub fn reserved(&self) -> &[Self] {
        match &self.queue {
            Queue::Reserved(classes) => classes.classes().split_last().map_or(&[], |(_, all)| all),
            _ => &[],
        }
    }

    /// Changes the policer's committed rate and burst from `now` on; returns `true` if there is a
    /// policer. It keeps its tokens, as far as the new bucket holds them.
    pub fn set_policer(&mut self, now: Time, rate: Rate, burst: Bytes) -> bool {
        let conditioner = self.conditioner.as_mut();
        let policed = conditioner.and_then(|conditioner| conditioner.policer.as_mut());
        policed.map(|(policer, _)| policer.set(now, rate, burst)).is_some()
    }

    /// Returns this class, or one inside it, by name; never a [reserved](Reserved) one.
    pub fn class_mut(&mut self, name: &str) -> Option<&mut Self> {
        if *self.name == *name && !matches!(self.queue, Queue::Reserved(_)) {
            return Some(self);
        }
        let queue = match &mut self.queue {
            Queue::Policed(policed) => policed.queue_mut(),
            queue => queue,
        };
        match queue {
            Queue::Reserved(classes) => classes.classes_mut().last_mut()?.class_mut(name),
            Queue::Classes(classes) => {
                classes.classes_mut().iter_mut().find_map(|class| class.class_mut(name))
            }
            Queue::Cbq(cbq) => cbq.class_mut(name),
            Queue::Hfsc(hfsc) => hfsc.class_mut(name),
            Queue::Htb(htb) => htb.class_mut(name),
            _ => None,
        }
    }

    /// Returns `true` if the departure time of each packet is known when it arrives: the class is a
    /// plain queue that drops at its tail. The link may then [`schedule`](Self::schedule) packets
    /// instead of enqueueing them, and keep them itself.
    pub fn is_plain(&self) -> bool {
        let fifo = matches!(&self.queue, Queue::Fifo(fifo) if fifo.departures_are_final());
        fifo && self.conditioner.is_none() && self.shaper.is_none()
    }

    fn plain(&mut self) -> &mut Fifo<B> {
        match &mut self.queue {
            Queue::Fifo(fifo) => fifo,
            _ => unreachable!("only plain classes are scheduled"),
        }
    }

    /// Schedules the transmission of a packet of `size` for the instant when the transmitter is
    /// `free`. The class must be plain, and transmissions that have begun must have been counted.
    /// Returns the begin of the transmission, or the cause for which the packet is dropped.
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

    /// Returns `true` if all packets with this header pass alike while the link is idle: in plain
    /// queues, or in classes of these.
    #[inline]
    pub fn repeats(&self, header: &Header) -> bool {
        self.conditioner.is_none()
            && self.shaper.is_none()
            && match &self.queue {
                Queue::Fifo(fifo) => fifo.limit().admits(Backlog::default(), header.size()),
                Queue::Classes(classes) => classes.repeats(header),
                _ => false,
            }
    }

    /// Counts as many [passes](Discipline::pass) of packets with this header. That is all to do if
    /// they [repeat](Self::repeats) the pass before.
    #[inline]
    pub fn pass_again(&mut self, header: &Header, packets: u64) {
        if let Queue::Classes(classes) = &mut self.queue {
            classes.pass_again(header, packets);
        }
        self.counters.sent.packets += packets;
        self.counters.sent.bytes += header.size() * packets;
    }

    /// Counts the first scheduled transmission, which has begun. Returns the packet's length and
    /// the begin of the next transmission; [`Time::MAX`] if there is none.
    pub fn begin(&mut self) -> (Bytes, Time) {
        let (size, next) = self.plain().begin();
        self.counters.sent.add(size);
        (size, next)
    }

    /// Removes the scheduled transmissions that have not begun. Returns their number and the begin
    /// of the first.
    pub fn unschedule(&mut self) -> Option<(usize, Time)> {
        self.plain().unschedule()
    }

    /// Takes all waiting packets out of a plain class.
    pub fn take(&mut self) -> Vec<Packet<B>> {
        self.plain().take()
    }

    /// Returns the limit of a [plain](Self::is_plain) class; `None` for others.
    pub fn plain_limit(&self) -> Option<Limit> {
        match &self.queue {
            Queue::Fifo(fifo) if self.is_plain() => Some(fifo.limit()),
            _ => None,
        }
    }

    /// Returns the waiting packets of a plain class that are not scheduled, in order; none for
    /// other classes.
    pub fn waiting(&self) -> impl Iterator<Item = &Packet<B>> {
        let plain = match &self.queue {
            Queue::Fifo(fifo) if self.is_plain() => Some(fifo),
            _ => None,
        };
        plain.into_iter().flat_map(Fifo::waiting)
    }

    /// Returns the packet that has left the queue and waits for the shaper.
    #[inline]
    fn staged(&self) -> Option<&Packet<B>> {
        self.shaper.as_ref().and_then(|shaper| shaper.staged())
    }

    /// Offers a packet to a class that marks or polices, or that is inside one that marks: classes
    /// inside then classify the packet by the marks `unmarked`.
    pub(crate) fn enqueue_marked(
        &mut self,
        now: Time,
        mut packet: Packet<B>,
        unmarked: Option<Unmarked>,
        ledger: &mut Ledger<B>,
    ) {
        let (drops, marks) = (ledger.drops.len(), ledger.marks);
        let unmarked = match &mut self.conditioner {
            None => Ok(unmarked),
            Some(conditioner) => conditioner.apply(now, &mut packet, unmarked, &mut self.counters),
        };
        match unmarked {
            Err(cause) => ledger.drop(packet, cause),
            Ok(None) => self.queue.enqueue(now, packet, ledger),
            Ok(Some(unmarked)) => self.queue.enqueue_marked(now, packet, unmarked, ledger),
        }
        self.counters.count_since(ledger, drops, marks);
    }
}

impl<B> Class<B> {
    /// [`pass`](Discipline::pass), inlined: plain queues and classes need fewer calls.
    #[inline(always)]
    pub fn pass_quickly(&mut self, now: Time, header: &Header) -> Pass {
        // A packet is marked and policed in `enqueue`.
        let pass = match (&self.conditioner, &mut self.shaper) {
            (None, None) => match &mut self.queue {
                Queue::Fifo(fifo) => fifo.pass(now, header),
                Queue::Classes(classes) => classes.pass(now, header),
                queue => queue.pass(now, header),
            },
            (None, Some(shaper)) => match shaper.admits(now, header.size()) {
                true => shaper.passed(header.size(), self.queue.pass(now, header)),
                false => Pass::Enqueue,
            },
            (Some(_), _) => Pass::Enqueue,
        };
        self.counters.count_passed(pass, header.size());
        pass
    }
}

impl<B> Discipline<B> for Class<B> {
    #[inline]
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        if self.conditioner.is_some() {
            return self.enqueue_marked(now, packet, None, ledger);
        }
        let (drops, marks) = (ledger.drops.len(), ledger.marks);
        self.queue.enqueue(now, packet, ledger);
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
    fn pass(&mut self, now: Time, header: &Header) -> Pass {
        self.pass_quickly(now, header)
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

#[cfg(test)]
mod tests;
