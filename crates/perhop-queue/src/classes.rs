//! Classes that share a link.

use perhop_core::{Bytes, Packet, Time};

use crate::{Backlog, Cause, Class, Classifier, Discipline, Drops, Match, Weight, Wf2q};

/// How a class is served among its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Before every class that is not strict, and before strict ones that stand after it.
    Strict,
    /// A share of what the strict classes leave, in proportion to this weight. What a class does
    /// not use is shared by those that want more.
    Share(Weight),
}

/// A class as [`Classes::new`] takes it.
#[derive(Debug)]
pub struct ClassSpec<B> {
    /// Which packets belong to it.
    pub matches: Match,
    /// How it is served.
    pub service: Service,
    /// Its queue and policer.
    pub class: Class<B>,
}

/// A classifier, a queue a class, and a scheduler: strict priority first, then weighted fair
/// shares.
#[derive(Debug)]
pub struct Classes<B> {
    classifier: Classifier,
    classes: Vec<Class<B>>,
    /// For each class whether it is strict or which of the scheduler's classes it is.
    service: Vec<Place>,
    /// The strict classes in order.
    strict: Vec<usize>,
    /// The class behind each of the scheduler's.
    shared: Vec<usize>,
    scheduler: Wf2q,
    backlog: Backlog,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Strict,
    Shared(usize),
}

impl<B> Classes<B> {
    /// Classes in match order; the last takes every packet that no other does.
    ///
    /// # Panics
    /// Without a class.
    pub fn new(specs: Vec<ClassSpec<B>>) -> Self {
        let mut matches = Vec::with_capacity(specs.len());
        let mut classes = Vec::with_capacity(specs.len());
        let mut service = Vec::with_capacity(specs.len());
        let (mut strict, mut shared, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (index, spec) in specs.into_iter().enumerate() {
            service.push(match spec.service {
                Service::Strict => {
                    strict.push(index);
                    Place::Strict
                }
                Service::Share(weight) => {
                    shared.push(index);
                    weights.push(weight);
                    Place::Shared(shared.len() - 1)
                }
            });
            matches.push(spec.matches);
            classes.push(spec.class);
        }
        Self {
            classifier: Classifier::new(matches),
            classes,
            service,
            strict,
            shared,
            scheduler: Wf2q::new(&weights),
            backlog: Backlog::default(),
        }
    }

    /// The classes in match order.
    pub fn classes(&self) -> &[Class<B>] {
        &self.classes
    }

    /// The class that sends next.
    fn select(&mut self) -> Option<usize> {
        let waits = |class: &usize| self.classes[*class].backlog().packets > 0;
        match self.strict.iter().copied().find(waits) {
            Some(class) => Some(class),
            None => self.scheduler.select().map(|place| self.shared[place]),
        }
    }
}

impl<B> Discipline<B> for Classes<B> {
    fn enqueue(&mut self, now: Time, packet: Packet<B>, drops: &mut Drops<B>) {
        let index = self.classifier.classify(&packet.header);
        let class = &mut self.classes[index];
        let before = class.backlog();
        class.enqueue(now, packet, drops);
        let after = class.backlog();
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
        if let (Place::Shared(place), 0, Some(head)) =
            (self.service[index], before.packets, class.head())
        {
            self.scheduler.activate(place, head);
        }
    }

    fn dequeue(&mut self, now: Time) -> Option<Packet<B>> {
        let index = self.select()?;
        let class = &mut self.classes[index];
        let packet = class.dequeue(now)?;
        self.backlog.remove(packet.size());
        if let Place::Shared(place) = self.service[index] {
            self.scheduler.served(place, packet.size(), class.head());
        }
        Some(packet)
    }

    fn pass(&mut self, now: Time, packet: &mut Packet<B>) -> Result<(), Cause> {
        let index = self.classifier.classify(&packet.header);
        self.classes[index].pass(now, packet)?;
        if let Place::Shared(place) = self.service[index] {
            self.scheduler.served_at_once(place, packet.size());
        }
        Ok(())
    }

    fn head(&mut self) -> Option<Bytes> {
        let index = self.select()?;
        self.classes[index].head()
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}
