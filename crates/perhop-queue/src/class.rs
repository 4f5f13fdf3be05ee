//! A class: a queue behind an optional policer, with counters.

use perhop_core::{Bytes, Packet, Time};

use crate::{
    Backlog, Cause, Counters, Discipline, Dropped, Drops, Exceed, Policer, Queue, Verdict,
};

/// One class of traffic at one link: what it may send, where it waits, what became of it.
///
/// The root of every link is a class too, so that a plain queue has counters.
#[derive(Debug)]
pub struct Class<B> {
    policer: Option<(Policer, Exceed)>,
    queue: Queue<B>,
    counters: Counters,
}

impl<B> Class<B> {
    /// A class without a policer.
    pub fn new(queue: Queue<B>) -> Self {
        Self { policer: None, queue, counters: Counters::default() }
    }

    /// The same class behind a policer.
    #[must_use]
    pub fn policed(self, policer: Policer, exceed: Exceed) -> Self {
        Self { policer: Some((policer, exceed)), ..self }
    }

    /// What the class has done since the run began, its inner classes included.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The classes inside this one; none if it is a plain queue.
    pub fn inner(&self) -> &[Self] {
        match &self.queue {
            Queue::Classes(classes) => classes.classes(),
            Queue::Fifo(_) => &[],
        }
    }

    /// Lets the policer measure a packet, and remark or refuse it.
    #[inline]
    fn police(&mut self, now: Time, packet: &mut Packet<B>) -> Result<(), Cause> {
        let Some((policer, exceed)) = &mut self.policer else { return Ok(()) };
        let verdict = policer.police(now, packet.size());
        self.counters.count_policed(verdict, packet.size());
        match (verdict, *exceed) {
            (Verdict::Conformed, _) => Ok(()),
            (Verdict::Exceeded, Exceed::Drop) => Err(Cause::Policer),
            (Verdict::Exceeded, Exceed::Remark(dscp)) => {
                let header = &mut packet.header;
                header.traffic_class = header.traffic_class.with_dscp(dscp);
                Ok(())
            }
        }
    }
}

impl<B> Discipline<B> for Class<B> {
    #[inline]
    fn enqueue(&mut self, now: Time, mut packet: Packet<B>, drops: &mut Drops<B>) {
        let earlier = drops.len();
        match self.police(now, &mut packet) {
            Ok(()) => self.queue.enqueue(now, packet, drops),
            Err(cause) => drops.push(Dropped { packet, cause }),
        }
        for drop in &drops[earlier..] {
            self.counters.count_drop(drop.cause);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Time) -> Option<Packet<B>> {
        let packet = self.queue.dequeue(now)?;
        self.counters.count_sent(packet.size());
        Some(packet)
    }

    #[inline]
    fn pass(&mut self, now: Time, packet: &mut Packet<B>) -> Result<(), Cause> {
        let passed = self.police(now, packet).and_then(|()| self.queue.pass(now, packet));
        match passed {
            Ok(()) => self.counters.count_sent(packet.size()),
            Err(cause) => self.counters.count_drop(cause),
        }
        passed
    }

    #[inline]
    fn head(&mut self) -> Option<Bytes> {
        self.queue.head()
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }
}
