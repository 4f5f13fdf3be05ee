//! Events that are not near.

use std::collections::BTreeMap;

use perhop_core::Time;

use super::EventId;

/// Events in no order within spans of time, which callers number. Most are timeouts, thousands of
/// which are set in vain: each costs a step to the end of a list here, and one from there when its
/// span has come. In a heap, it would take a search through memory that is in no cache.
#[derive(Debug, Default)]
pub(super) struct Far {
    spans: BTreeMap<u64, Span>,
    /// Number of events.
    events: usize,
    /// Empty lists, which keep their memory.
    spare: Vec<Vec<(Time, EventId)>>,
}

/// Capacity up to which a list is used again. If thousands of connections begin at once, their
/// timeouts make long lists for a while.
const KEPT: usize = 64;

#[derive(Debug)]
struct Span {
    /// Time of its first event.
    first: Time,
    events: Vec<(Time, EventId)>,
}

impl Far {
    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.events
    }

    /// Returns the time of the first event.
    pub fn first(&self) -> Option<Time> {
        self.spans.first_key_value().map(|(_, span)| span.first)
    }

    /// Adds an event to a span.
    pub fn insert(&mut self, span: u64, at: Time, event: EventId) {
        let spare = &mut self.spare;
        let span = self.spans.entry(span).or_insert_with(|| {
            let events = spare.pop().unwrap_or_default();
            Span { first: Time::MAX, events }
        });
        span.first = span.first.min(at);
        span.events.push((at, event));
        self.events += 1;
    }

    /// Removes the events of the first span, if that is `last` or before it.
    pub fn take(&mut self, last: u64) -> Option<Vec<(Time, EventId)>> {
        let first = self.spans.first_entry().filter(|first| *first.key() <= last)?;
        let Span { events, .. } = first.remove();
        self.events -= events.len();
        Some(events)
    }

    /// Returns all events, by span.
    pub fn into_events(self) -> impl Iterator<Item = (Time, EventId)> {
        self.spans.into_values().flat_map(|span| span.events)
    }

    /// Takes an empty list back, unless it is long.
    pub fn reuse(&mut self, list: Vec<(Time, EventId)>) {
        debug_assert!(list.is_empty());
        if list.capacity() <= KEPT {
            self.spare.push(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(picos: u64) -> Time {
        Time::from_picos(picos)
    }

    #[test]
    fn spans_are_taken_in_order_up_to_the_last() {
        let mut far = Far::default();
        assert_eq!((far.len(), far.first(), far.take(u64::MAX)), (0, None, None));
        for (span, time, event) in [(7, 75, 0), (3, 39, 1), (7, 71, 2), (3, 31, 3), (3, 34, 4)] {
            far.insert(span, at(time), event);
        }
        assert_eq!((far.len(), far.first()), (5, Some(at(31))));
        assert_eq!(far.take(2), None);
        assert_eq!(far.take(3), Some(vec![(at(39), 1), (at(31), 3), (at(34), 4)]));
        assert_eq!((far.len(), far.first()), (2, Some(at(71))));
        far.insert(4, at(40), 5);
        assert_eq!(far.len(), 3);
        let rest: Vec<_> = far.into_events().collect();
        assert_eq!(rest, [(at(40), 5), (at(75), 0), (at(71), 2)]);
    }

    /// The memory of a list that has grown long is given back.
    #[test]
    fn short_lists_are_used_again() {
        for (capacity, kept) in [(10, true), (64, true), (65, false), (1_000, false)] {
            let mut far = Far::default();
            let list = Vec::with_capacity(capacity);
            let own: *const _ = list.as_ptr();
            far.reuse(list);
            far.insert(1, at(9), 0);
            let found = far.take(1).expect("it has an event");
            assert_eq!(found.as_ptr() == own && found.capacity() == capacity, kept, "{capacity}");
        }
    }
}
