//! What happens next.

use perhop_core::Time;

/// Which event: the network numbers its own and those of its hosts.
pub(crate) type EventId = u32;

const EVENT_BITS: u32 = 24;
/// How many different events there can be.
pub(crate) const EVENTS: usize = 1 << EVENT_BITS;
const LAST_SEQUENCE: u64 = (1 << (64 - EVENT_BITS)) - 1;

/// An event that is due: from the most significant bit, when (64 bits), in which order it was
/// scheduled (40 bits), which (24 bits). One number orders events by time and, at one instant, by
/// scheduling; and comparing it takes no branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    fn new(at: Time, sequence: u64, event: EventId) -> Self {
        let rank = sequence << EVENT_BITS | u64::from(event);
        Self(u128::from(at.as_picos()) << 64 | u128::from(rank))
    }

    fn at(self) -> Time {
        Time::from_picos((self.0 >> 64) as u64)
    }

    fn event(self) -> EventId {
        self.0 as EventId & (EVENTS as EventId - 1)
    }
}

/// A priority queue of events by time, then by order of scheduling: a 4-ary heap.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// The heap, and behind it [`PADDING`] entries that come after every event, so that an entry
    /// with a child always has four.
    heap: Vec<Entry>,
    /// Whether the first entry was taken and is void: most events cause another, which then goes
    /// there, at half the price of taking one out and putting one in.
    taken: bool,
    sequence: u64,
}

/// Later than any event.
const NEVER: Entry = Entry(u128::MAX);
const PADDING: usize = 3;

impl Agenda {
    pub fn new() -> Self {
        Self { heap: vec![NEVER; PADDING], taken: false, sequence: 0 }
    }

    fn len(&self) -> usize {
        self.heap.len() - PADDING
    }

    /// When the next event is due.
    pub fn peek(&self) -> Option<Time> {
        let first = match self.taken {
            true => self.heap[1..].iter().take(4).min().copied().unwrap_or(NEVER),
            false => self.heap[0],
        };
        (first != NEVER).then(|| first.at())
    }

    /// Removes the next event that is due up to `until`: when, and which it is.
    #[inline(always)]
    pub fn take(&mut self, until: Time) -> Option<(Time, EventId)> {
        if self.taken {
            self.close();
        }
        let first = self.heap[0];
        let at = first.at();
        if at > until || first == NEVER {
            return None;
        }
        self.taken = true;
        Some((at, first.event()))
    }

    #[inline]
    pub fn push(&mut self, at: Time, event: EventId) {
        let entry = self.entry(at, event);
        if self.taken {
            self.taken = false;
            self.sift_down(entry);
        } else {
            self.sift_up(entry);
        }
    }

    /// Moves the last entry to where one was taken, as it caused no other.
    fn close(&mut self) {
        self.taken = false;
        let last = self.len() - 1;
        self.heap.pop();
        let entry = std::mem::replace(&mut self.heap[last], NEVER);
        if last > 0 {
            self.sift_down(entry);
        }
    }

    #[inline]
    fn entry(&mut self, at: Time, event: EventId) -> Entry {
        debug_assert!((event as usize) < EVENTS);
        if self.sequence == LAST_SEQUENCE {
            self.renumber();
        }
        self.sequence += 1;
        Entry::new(at, self.sequence, event)
    }

    /// Gives what waits the lowest sequence numbers, in the same order. A sorted array is a heap.
    #[cold]
    fn renumber(&mut self) {
        if self.taken {
            self.close();
        }
        self.heap.sort_unstable();
        let events = self.len();
        for (sequence, entry) in self.heap[..events].iter_mut().enumerate() {
            *entry = Entry::new(entry.at(), sequence as u64, entry.event());
        }
        self.sequence = events as u64;
    }

    /// Puts `entry` behind the others.
    fn sift_up(&mut self, entry: Entry) {
        let mut hole = self.len();
        self.heap.push(NEVER);
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.heap[parent] <= entry {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = entry;
    }

    /// Puts `entry` where the top was. Which child is least is what no processor can predict, so
    /// it is found without a branch.
    #[inline]
    fn sift_down(&mut self, entry: Entry) {
        let heap = self.heap.as_mut_slice();
        let mut hole = 0;
        while let Some(children) = heap.get(4 * hole + 1..4 * hole + 5) {
            let left = usize::from(children[1] < children[0]);
            let right = 2 + usize::from(children[3] < children[2]);
            let least = if children[right] < children[left] { right } else { left };
            let child = children[least];
            if entry <= child {
                break;
            }
            heap[hole] = child;
            hole = 4 * hole + 1 + least;
        }
        heap[hole] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Against a sorted set, over a long mixture of operations; renumbering in between.
    #[test]
    fn events_come_by_time_and_then_in_order_of_scheduling() {
        let mut random = perhop_core::Stream::new(1, "agenda");
        let mut agenda = Agenda { sequence: LAST_SEQUENCE - 5_000, ..Agenda::new() };
        let mut expected: BTreeSet<(Time, u64, EventId)> = BTreeSet::new();
        for order in 0..20_000_u64 {
            let at = Time::from_picos(random.up_to(50) + order / 100);
            let event = random.up_to(EVENTS as u64 - 1) as EventId;
            let first = expected.first().copied();
            if random.up_to(1) == 0 {
                assert_eq!(agenda.peek(), first.map(|(at, ..)| at));
            }
            if random.up_to(2) == 0 {
                let until = Time::from_picos(random.up_to(400));
                let due = first.filter(|(at, ..)| *at <= until);
                assert_eq!(agenda.take(until), due.map(|(at, _, event)| (at, event)));
                due.map(|first| expected.remove(&first));
            } else {
                expected.insert((at, order, event));
                agenda.push(at, event);
            }
        }
        while let Some((at, _, event)) = expected.pop_first() {
            assert_eq!(agenda.take(Time::MAX), Some((at, event)));
        }
        assert_eq!(agenda.take(Time::MAX), None);
        assert_eq!(agenda.peek(), None);
        assert!(agenda.sequence < LAST_SEQUENCE - 5_000, "the test never renumbered");
    }
}
