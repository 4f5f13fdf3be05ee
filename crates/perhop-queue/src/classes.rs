//! Classes that share a link.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use perhop_core::{Bytes, Header, Packet, Time};

use crate::class::Unmarked;
use crate::flags::Flags;
use crate::scheduler::Scheduler;
use crate::{
    Backlog, Class, Classifier, Dequeue, Discipline, Framing, Ledger, Match, MatchRules, Pass,
    Priority, Sharing, Weight,
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
    /// As [`Lent`](Self::Lent), but within its guarantee the class precedes the other shared ones,
    /// and takes turns with the strict classes, packet by packet, so that these do not starve it.
    Turns(Weight, Priority, Weight),
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
    /// Bytes that the scheduler counts for a packet.
    framing: Framing,
    /// Places in the scheduler of the classes that take turns with the strict ones.
    turns: Vec<usize>,
    /// Whose turn is next: 0 for the strict classes, then those of `turns`.
    turn: usize,
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

/// Class that sends next.
#[derive(Clone, Copy, Debug)]
struct Selected {
    /// Index of the class.
    class: usize,
    /// Its number among those that take turns, if this is a turn.
    turn: Option<usize>,
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
        let mut turns = Vec::new();
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
                ClassService::Lent(weight, priority, excess)
                | ClassService::Turns(weight, priority, excess) => {
                    if matches!(spec.service, ClassService::Turns(..)) {
                        turns.push(shared.len());
                    }
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
            framing: Framing::default(),
            turns,
            turn: 0,
            asleep,
            sleepers: BinaryHeap::new(),
            sleeps_until,
            backlog: Backlog::default(),
        }
    }

    /// Returns the same classes, whose scheduler counts the bytes of frames.
    #[must_use]
    pub fn framed(self, framing: Framing) -> Self {
        Self { framing, ..self }
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
    #[inline]
    fn select(&mut self) -> Option<Selected> {
        let strict = self.ready.first().map(|place| self.strict[place]);
        if !self.turns.is_empty()
            && let Some(selected) = self.select_turn(strict)
        {
            return Some(selected);
        }
        let class = match strict {
            Some(class) => Some(class),
            None => self.scheduler.select().map(|place| self.shared[place]),
        };
        class.map(|class| Selected { class, turn: None })
    }

    /// Returns the class whose turn it is, if one of those that take turns may send: the first of
    /// the strict classes, or a class within its guarantee.
    fn select_turn(&self, strict: Option<usize>) -> Option<Selected> {
        let all = self.turns.len() + 1;
        (0..all).map(|step| (self.turn + step) % all).find_map(|turn| {
            let class = match turn.checked_sub(1).map(|number| self.turns[number]) {
                None => strict?,
                Some(place) => self.scheduler.is_guaranteed(place).then(|| self.shared[place])?,
            };
            Some(Selected { class, turn: Some(turn) })
        })
    }

    /// Charges a packet to the class that sent it.
    #[inline]
    fn charge(&mut self, now: Time, selected: Selected, sent: Bytes) {
        if let Some(turn) = selected.turn {
            self.turn = (turn + 1) % (self.turns.len() + 1);
        }
        match self.service[selected.class] {
            SchedulerIndex::Strict(place) => {
                self.ready.set(place, self.classes[selected.class].backlog().packets > 0);
            }
            SchedulerIndex::Shared(place) => {
                let framing = self.framing;
                let sent = framing.charge(sent);
                let head = self.classes[selected.class].head(now);
                let head = head.map(|size| framing.charge(size));
                match selected.turn {
                    Some(_) => self.scheduler.served_before(place, sent, head.is_some()),
                    None => self.scheduler.served(place, sent, head),
                }
            }
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
                    self.scheduler.activate(place, self.framing.charge(head));
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
        while let Some(selected) = self.select() {
            let index = selected.class;
            let class = &mut self.classes[index];
            let before = class.backlog();
            let next = class.dequeue(now, ledger);
            let after = class.backlog();
            self.settle(before, after);
            match next {
                Dequeue::Packet(packet) => {
                    self.charge(now, selected, packet.size());
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
            (Pass::Send, SchedulerIndex::Shared(place)) => {
                Some((place, self.framing.charge(header.size())))
            }
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
            Some(selected) => selected.class,
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

#[cfg(test)]
mod tests;
