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
