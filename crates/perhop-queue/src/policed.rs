//! Policers before a queue or classes: each has one bucket for all packets that it selects, to
//! whatever class they belong.

use perhop_core::{Bytes, Header, Packet, Time};

use crate::class::Unmarked;
use crate::{
    Action, Actions, Backlog, Cause, ClassCounters, Classifier, Dequeue, Discipline, Ledger,
    MatchRules, Pass, Policer, Queue,
};

/// Settings of a policer before classes.
#[derive(Debug)]
pub struct PolicerSpec {
    /// Name in results.
    pub name: Box<str>,
    /// Filter of its packets.
    pub matches: MatchRules,
    /// Buckets.
    pub policer: Policer,
    /// Actions by verdict.
    pub actions: Actions,
}

/// Policers, which measure packets in turn, and the queue behind them.
///
/// A packet that a policer drops reaches no later one. A new DSCP of a packet counts for later
/// policers and for the classes.
#[derive(Debug)]
pub struct Policed<B> {
    meters: Vec<Meter>,
    queue: Queue<B>,
}

#[derive(Debug)]
struct Meter {
    name: Box<str>,
    /// Tells packets of the policer, class 0, from others.
    classifier: Classifier,
    policer: Policer,
    actions: Actions,
    /// Verdicts, drops and remarks; it sends nothing itself.
    counters: ClassCounters,
}

impl Meter {
    fn selects(&self, header: &Header) -> bool {
        self.classifier.classify(header) == 0
    }

    /// Measures a packet that it selects; it may change its DSCP.
    fn measure<B>(&mut self, now: Time, packet: &mut Packet<B>) -> Result<(), Cause> {
        let verdict = self.policer.police(now, packet.size(), packet.header.dscp());
        self.counters.count_policed(verdict, packet.size());
        match self.actions.of(verdict) {
            Action::Send => Ok(()),
            Action::Drop => {
                self.counters.count_drop(Cause::Policer);
                Err(Cause::Policer)
            }
            Action::Remark(dscp) => {
                self.counters.remarked += 1;
                let class = packet.header.traffic_class;
                packet.header.traffic_class = class.with_dscp(dscp);
                Ok(())
            }
        }
    }
}

impl<B> Policed<B> {
    /// Creates policers before a queue; they measure in this order.
    pub fn new(policers: Vec<PolicerSpec>, queue: Queue<B>) -> Self {
        let meter = |spec: PolicerSpec| Meter {
            name: spec.name,
            classifier: Classifier::new([spec.matches, MatchRules::default()]),
            policer: spec.policer,
            actions: spec.actions,
            counters: ClassCounters::default(),
        };
        Self { meters: policers.into_iter().map(meter).collect(), queue }
    }

    /// Returns the queue behind the policers.
    pub(crate) const fn queue(&self) -> &Queue<B> {
        &self.queue
    }

    /// Returns the queue behind the policers.
    pub(crate) const fn queue_mut(&mut self) -> &mut Queue<B> {
        &mut self.queue
    }

    /// Calls `visit` for every policer, in order.
    pub(crate) fn visit(&self, visit: &mut impl FnMut(&str, &ClassCounters, Backlog)) {
        for meter in &self.meters {
            visit(&meter.name, &meter.counters, Backlog::default());
        }
    }

    /// Offers a packet that the class of this queue, or one above it, has marked; see
    /// [`Queue::enqueue_marked`]. Policers select by the marks `unmarked`.
    pub(crate) fn enqueue_marked(
        &mut self,
        now: Time,
        mut packet: Packet<B>,
        mut unmarked: Unmarked,
        ledger: &mut Ledger<B>,
    ) {
        for meter in &mut self.meters {
            if !meter.selects(&unmarked.restored(packet.header)) {
                continue;
            }
            let before = packet.header.dscp();
            if let Err(cause) = meter.measure(now, &mut packet) {
                return ledger.drop(packet, cause);
            }
            if packet.header.dscp() != before {
                unmarked = unmarked.with_dscp(packet.header.dscp());
            }
        }
        self.queue.enqueue_marked(now, packet, unmarked, ledger);
    }
}

impl<B> Discipline<B> for Policed<B> {
    fn enqueue(&mut self, now: Time, mut packet: Packet<B>, ledger: &mut Ledger<B>) {
        for meter in &mut self.meters {
            if meter.selects(&packet.header)
                && let Err(cause) = meter.measure(now, &mut packet)
            {
                return ledger.drop(packet, cause);
            }
        }
        self.queue.enqueue(now, packet, ledger);
    }

    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B> {
        self.queue.dequeue(now, ledger)
    }

    fn pass(&mut self, now: Time, header: &Header) -> Pass {
        // A packet is measured in `enqueue`.
        match self.meters.iter().any(|meter| meter.selects(header)) {
            true => Pass::Enqueue,
            false => self.queue.pass(now, header),
        }
    }

    fn head(&mut self, now: Time) -> Option<Bytes> {
        self.queue.head(now)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn drain(self, packets: &mut Vec<Packet<B>>) {
        self.queue.drain(packets);
    }
}
