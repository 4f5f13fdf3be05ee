//! A class: a queue behind an optional policer, with counters.

use perhop_core::{Bytes, Packet, Time};

use crate::{
    Backlog, Cause, Counters, Dequeue, Discipline, Exceed, Ledger, Pass, Policer, Queue, Verdict,
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
        let next = self.queue.dequeue(now, ledger);
        if let Dequeue::Packet(packet) = &next {
            self.counters.sent.add(packet.size());
        }
        self.counters.count_since(ledger, drops, marks);
        next
    }

    #[inline]
    fn pass(&mut self, now: Time, packet: &mut Packet<B>) -> Pass {
        // A packet that must be enqueued will meet the policer there.
        let pass = match &self.policer {
            None => self.queue.pass(now, packet),
            Some(_) => Pass::Enqueue,
        };
        match pass {
            Pass::Send => self.counters.sent.add(packet.size()),
            Pass::Drop(cause) => self.counters.count_drop(cause),
            Pass::Enqueue => {}
        }
        pass
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
