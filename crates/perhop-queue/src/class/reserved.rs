//! Classes with precedence over all others at a link, which are added and removed during a run.
//!
//! A reservation is a policed class with strict priority: conforming packets are sent before all
//! that is not reserved, and exceeding ones are dropped (the premium service of RFC 2638). The
//! previous class of the link becomes the last class, with its queues, tokens, schedulers and
//! counters unchanged, and moves back when the last reservation is removed.

use std::collections::BTreeMap;

use perhop_core::{Bytes, Packet, Rate, Time};

use crate::{
    Action, Actions, Class, ClassService, ClassSpec, Classes, Discipline, Fifo, Ledger, Limit,
    Match, Policer, Queue,
};

/// A class with precedence over all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Name. A reserved class that the link has under this name stays, with its packets, tokens and
    /// counters.
    pub name: String,
    /// Filter of the packets of the class.
    pub matches: Match,
    /// Rate and burst of the policer, which drops packets that exceed them; `None` if an earlier
    /// node polices the packets.
    pub police: Option<(Rate, Bytes)>,
    /// Limit of the queue.
    pub limit: Limit,
}

impl Reserved {
    fn class<B>(&self, now: Time, so_far: Option<Class<B>>) -> Class<B> {
        let mut class = so_far
            .unwrap_or_else(|| Class::new(Queue::Fifo(Fifo::new(self.limit))).named(&self.name));
        if let Queue::Fifo(fifo) = &mut class.queue {
            fifo.set_limit(self.limit);
        }
        match self.police {
            Some((rate, burst)) if !class.set_policer(now, rate, burst) => {
                class.policed(Policer::new(rate, burst), Actions::exceed(Action::Drop))
            }
            Some(_) => class,
            None => Class { conditioner: None, ..class },
        }
    }
}

impl<B> Class<B> {
    /// Sets the reserved classes from `now` on, in order of priority. Classes that `wanted` does
    /// not name are removed, and their packets are offered to the remaining ones.
    pub fn set_reserved(&mut self, now: Time, wanted: &[Reserved], ledger: &mut Ledger<B>) {
        let (reserved, rest) = self.take_apart();
        let mut so_far: Vec<_> = reserved.into_iter().map(|(_, class)| Some(class)).collect();
        let name = |class: &Option<Self>| class.as_ref().map(|class| class.name.clone());
        let names = so_far.iter().filter_map(name);
        let places: BTreeMap<_, _> = names.zip(0_usize..).collect();
        let mut class_of = |each: &Reserved| {
            let stays = places.get(&*each.name).and_then(|&place| so_far[place].take());
            (each.matches.clone(), each.class(now, stays))
        };
        let reserved = wanted.iter().map(&mut class_of).collect();
        let mut waiting = Vec::new();
        so_far.into_iter().flatten().for_each(|gone| gone.drain(&mut waiting));
        *self = Self::put_together(now, reserved, rest);
        self.offer(now, waiting, ledger);
    }

    /// Replaces the class behind the reserved ones from `now` on; its waiting packets are offered
    /// to the new one.
    pub fn replace(&mut self, now: Time, by: Self, ledger: &mut Ledger<B>) {
        let (reserved, rest) = self.take_apart();
        let mut waiting = Vec::new();
        rest.drain(&mut waiting);
        *self = Self::put_together(now, reserved, by);
        self.offer(now, waiting, ledger);
    }

    fn offer(&mut self, now: Time, packets: Vec<Packet<B>>, ledger: &mut Ledger<B>) {
        for packet in packets {
            self.enqueue(now, packet, ledger);
        }
    }

    /// Returns the reserved classes and the class behind them, and leaves an empty class.
    fn take_apart(&mut self) -> (Vec<(Match, Self)>, Self) {
        let nothing = Self::new(Queue::Fifo(Fifo::new(Limit::packets(0))));
        let whole = std::mem::replace(self, nothing);
        match whole.queue {
            Queue::Reserved(classes) => {
                let mut parts = classes.into_parts();
                let (_, rest) = parts.pop().expect("there is always a last class");
                (parts, Self { shaper: whole.shaper, ..rest })
            }
            _ => (Vec::new(), whole),
        }
    }

    /// Puts `rest` behind the reserved classes. A shaper of the link shapes all of them.
    fn put_together(now: Time, reserved: Vec<(Match, Self)>, mut rest: Self) -> Self {
        if reserved.is_empty() {
            return rest;
        }
        let shaper = rest.shaper.take();
        // The rest is the last strict class, and not polled before its turn.
        let parts = reserved.into_iter().chain([(Match::default(), rest)]);
        let strict = |(matches, class): (Match, _)| ClassSpec {
            matches: matches.into(),
            service: ClassService::Strict,
            class,
        };
        let specs = parts.map(strict).collect();
        let queue = Queue::Reserved(Box::new(Classes::waiting(now, specs)));
        Self { shaper, ..Self::new(queue) }
    }
}
