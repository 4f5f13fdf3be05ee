//! Classes that share a link.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use perhop_core::{Bytes, Header, Packet, Time};

use crate::class::Unmarked;
use crate::flags::Flags;
use crate::scheduler::Scheduler;
use crate::{
    Backlog, Class, Classifier, Dequeue, Discipline, Ledger, Match, MatchRules, Pass, Priority,
    Sharing, Weight,
};

/// Service of a class among its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassService {
    /// Strict priority: before every shared class and all later strict ones.
    Strict,
    /// A share of the bandwidth that the strict classes leave, in proportion to this weight. Unused
    /// bandwidth is shared among the other classes; with [`Sharing::LinkShare`], those with the
    /// lowest priority number come first.
    Share(Weight, Priority),
    /// A share by [`Sharing::LinkShare`], the third value being the weight by which the class
    /// shares what exceeds the guarantees.
    Lent(Weight, Priority, Weight),
}

/// Settings of a class for [`Classes::new`].
#[derive(Debug)]
pub struct ClassSpec<B> {
    /// Filter of the packets of the class.
    pub matches: MatchRules,
    /// Service among its siblings.
    pub service: ClassService,
    /// Queue, policer and shaper.
    pub class: Class<B>,
}

/// A classifier, a queue for each class, and a scheduler: strict priority first, then shares.
#[derive(Debug)]
pub struct Classes<B> {
    classifier: Classifier,
    classes: Vec<Class<B>>,
    /// For each class, its kind of service and its index in the scheduler.
    service: Vec<SchedulerIndex>,
    /// Indices of the strict classes, in order.
    strict: Vec<usize>,
    /// Strict classes that are backlogged and may send.
    ready: Flags,
    /// Index of each class of the scheduler.
    shared: Vec<usize>,
    scheduler: Scheduler,
    /// True for classes that are backlogged but may not send yet.
    asleep: Vec<bool>,
    /// Wake-up times of these classes; an entry is void if the class was woken before or sleeps for
    /// longer.
    sleepers: BinaryHeap<Reverse<(Time, usize)>>,
    /// Last entry of each class.
    sleeps_until: Vec<Time>,
    backlog: Backlog,
}

#[derive(Clone, Copy, Debug)]
enum SchedulerIndex {
    Strict(usize),
    Shared(usize),
}

impl<B> Classes<B> {
    /// Creates classes in match order that share by WF2Q+; the last takes the packets that no other
    /// matches.
    ///
    /// # Panics
    /// Without a class.
    pub fn new(specs: Vec<ClassSpec<B>>) -> Self {
        Self::sharing(specs, Sharing::Wfq)
    }

    /// Creates classes in match order that share by `sharing`; the last takes the packets that no
    /// other matches.
    ///
    /// # Panics
    /// Without a class.
    pub fn sharing(specs: Vec<ClassSpec<B>>, sharing: Sharing) -> Self {
        let mut matches = Vec::with_capacity(specs.len());
        let mut classes = Vec::with_capacity(specs.len());
        let mut service = Vec::with_capacity(specs.len());
        let (mut strict, mut shared, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (index, spec) in specs.into_iter().enumerate() {
            service.push(match spec.service {
                ClassService::Strict => {
                    strict.push(index);
                    SchedulerIndex::Strict(strict.len() - 1)
                }
                ClassService::Share(weight, priority) => {
                    shared.push(index);
                    weights.push((weight, priority, weight));
                    SchedulerIndex::Shared(shared.len() - 1)
                }
                ClassService::Lent(weight, priority, excess) => {
                    shared.push(index);
                    weights.push((weight, priority, excess));
                    SchedulerIndex::Shared(shared.len() - 1)
                }
            });
            matches.push(spec.matches);
            classes.push(spec.class);
        }
        let asleep = vec![false; classes.len()];
        let sleeps_until = vec![Time::ZERO; classes.len()];
        Self {
            classifier: Classifier::new(matches),
            classes,
            service,
            ready: Flags::new(strict.len()),
            strict,
            shared,
            scheduler: Scheduler::new(sharing, &weights),
            asleep,
            sleepers: BinaryHeap::new(),
            sleeps_until,
            backlog: Backlog::default(),
        }
    }

    /// Creates classes in which packets wait at `now`.
    pub(crate) fn waiting(now: Time, specs: Vec<ClassSpec<B>>) -> Self {
        let mut classes = Self::new(specs);
        for index in 0..classes.classes.len() {
            let waiting = classes.classes[index].backlog();
            if waiting.packets > 0 {
                classes.settle(Backlog::default(), waiting);
                classes.wake(now, index);
            }
        }
        classes
    }

    /// Returns the classes in match order, with their filters of one rule each.
    pub(crate) fn into_parts(self) -> Vec<(Match, Class<B>)> {
        self.classifier.into_matches().into_iter().zip(self.classes).collect()
    }

    /// Returns the last class.
    pub(crate) fn last(&self) -> &Class<B> {
        self.classes.last().expect("there is always a class")
    }

    /// Returns the classes in match order.
    pub fn classes(&self) -> &[Class<B>] {
        &self.classes
    }

    /// Returns the classes in match order.
    pub(crate) fn classes_mut(&mut self) -> &mut [Class<B>] {
        &mut self.classes
    }

    /// Returns the class that sends next.
    fn select(&mut self) -> Option<usize> {
        match self.ready.first() {
            Some(place) => Some(self.strict[place]),
            None => self.scheduler.select().map(|place| self.shared[place]),
        }
    }

    /// Updates the total backlog after a class changed its own.
    fn settle(&mut self, before: Backlog, after: Backlog) {
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
    }

    /// Activates a class that may send again, if it is backlogged.
    fn wake(&mut self, now: Time, index: usize) {
        self.asleep[index] = false;
        match self.service[index] {
            SchedulerIndex::Strict(place) => {
                self.ready.set(place, self.classes[index].backlog().packets > 0);
            }
            SchedulerIndex::Shared(place) => {
                if let Some(head) = self.classes[index].head(now) {
                    self.scheduler.activate(place, head);
                }
            }
        }
    }

    /// Returns the class that wakes first, and when.
    fn next_sleeper(&mut self) -> Option<(Time, usize)> {
        while let Some(&Reverse((at, index))) = self.sleepers.peek() {
            if self.asleep[index] && self.sleeps_until[index] == at {
                return Some((at, index));
            }
            self.sleepers.pop();
            if self.sleeps_until[index] == at {
                self.sleeps_until[index] = Time::ZERO; // the entry is removed
            }
        }
        None
    }

    /// Wakes the classes whose time is reached.
    fn wake_due(&mut self, now: Time) {
        while let Some(&Reverse((at, index))) = self.sleepers.peek()
            && at <= now
        {
            self.sleepers.pop();
            if self.asleep[index] && self.sleeps_until[index] == at {
                self.wake(now, index);
            }
        }
    }
}

impl<B> Classes<B> {
    /// Offers a packet that an outer class has marked, and that is classified by the marks
    /// `unmarked`.
    pub(crate) fn enqueue_marked(
        &mut self,
        now: Time,
        packet: Packet<B>,
        unmarked: Unmarked,
        ledger: &mut Ledger<B>,
    ) {
        let index = self.classifier.classify(&unmarked.restored(packet.header));
        self.offer(now, index, |class| {
            class.enqueue_marked(now, packet, Some(unmarked), ledger);
        });
    }

    /// As [`Class::repeats`].
    pub(crate) fn repeats(&self, header: &Header) -> bool {
        self.scheduler.repeats() && self.classes[self.classifier.classify(header)].repeats(header)
    }

    /// As [`Class::pass_again`].
    pub(crate) fn pass_again(&mut self, header: &Header, packets: u64) {
        let index = self.classifier.classify(header);
        self.classes[index].pass_again(header, packets);
    }

    /// Calls `enqueue` on a class, and updates the backlog and the scheduler.
    #[inline(always)]
    fn offer(&mut self, now: Time, index: usize, enqueue: impl FnOnce(&mut Class<B>)) {
        let class = &mut self.classes[index];
        let before = class.backlog();
        enqueue(class);
        let after = class.backlog();
        self.settle(before, after);
        // A sleeping class may be able to send the new packet at once, so that it is polled again.
        if self.asleep[index] || before.packets == 0 && after.packets > 0 {
            self.wake(now, index);
        }
    }
}

impl<B> Discipline<B> for Classes<B> {
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        let index = self.classifier.classify(&packet.header);
        self.offer(now, index, |class| class.enqueue(now, packet, ledger));
    }

    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B> {
        self.scheduler.advance(now);
        self.wake_due(now);
        while let Some(index) = self.select() {
            let class = &mut self.classes[index];
            let before = class.backlog();
            let next = class.dequeue(now, ledger);
            let after = class.backlog();
            self.settle(before, after);
            match next {
                Dequeue::Packet(packet) => {
                    match self.service[index] {
                        SchedulerIndex::Strict(place) => self.ready.set(place, after.packets > 0),
                        SchedulerIndex::Shared(place) => {
                            let head = self.classes[index].head(now);
                            self.scheduler.served(place, packet.size(), head);
                        }
                    }
                    return Dequeue::Packet(packet);
                }
                Dequeue::NotBefore(at) => {
                    self.asleep[index] = true;
                    if self.sleeps_until[index] != at {
                        self.sleeps_until[index] = at;
                        self.sleepers.push(Reverse((at, index)));
                    }
                }
                Dequeue::Idle => {} // it dropped all its packets
            }
            match self.service[index] {
                SchedulerIndex::Strict(place) => self.ready.set(place, false),
                SchedulerIndex::Shared(place) => self.scheduler.withdraw(place),
            }
        }
        match self.next_sleeper() {
            Some((at, _)) => Dequeue::NotBefore(at),
            None => Dequeue::Idle,
        }
    }

    fn pass(&mut self, now: Time, header: &Header) -> Pass {
        let index = self.classifier.classify(header);
        let pass = self.classes[index].pass_quickly(now, header);
        let sent = match (pass, self.service[index]) {
            (Pass::Send, SchedulerIndex::Shared(place)) => Some((place, header.size())),
            _ => None,
        };
        self.scheduler.begin(now, sent);
        pass
    }

    fn head(&mut self, now: Time) -> Option<Bytes> {
        self.scheduler.advance(now);
        self.wake_due(now);
        // If all classes sleep, the one that wakes first sends next.
        let index = match self.select() {
            Some(index) => index,
            None => self.next_sleeper()?.1,
        };
        self.classes[index].head(now)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn drain(self, packets: &mut Vec<Packet<B>>) {
        for class in self.classes {
            class.drain(packets);
        }
    }
}
