//! A client of any kind.

use std::fmt::Debug;

use perhop_core::Time;

use crate::{Action, Event, Record};

/// A kind of client; see [`Client`].
pub(crate) trait Application: Debug + Send + Sync {
    fn deadline(&self) -> Time;
    fn on_timer(&mut self, now: Time);
    fn on_event(&mut self, now: Time, event: Event);
    fn poll(&mut self) -> Option<Action>;
    fn unfinished(&self) -> Vec<Record>;
}

/// A client: decides when connections open, and what is requested over them.
///
/// A driver calls [`on_timer`](Self::on_timer) when [`deadline`](Self::deadline) has come and
/// [`on_event`](Self::on_event) when there is news, and after either [`poll`](Self::poll) until it
/// returns `None`.
#[derive(Debug)]
pub struct Client {
    kind: Box<dyn Application>,
    connections: usize,
}

impl Client {
    pub(crate) fn new(kind: impl Application + 'static, connections: usize) -> Self {
        Self { kind: Box::new(kind), connections }
    }

    /// Returns when [`on_timer`](Self::on_timer) is due; [`Time::MAX`] if it is not.
    pub fn deadline(&self) -> Time {
        self.kind.deadline()
    }

    /// Begins what is due at `now`.
    pub fn on_timer(&mut self, now: Time) {
        self.kind.on_timer(now);
    }

    /// Takes news of its connections.
    pub fn on_event(&mut self, now: Time, event: Event) {
        self.kind.on_event(now, event);
    }

    /// Returns the next action to carry out, if any.
    #[must_use]
    pub fn poll(&mut self) -> Option<Action> {
        self.kind.poll()
    }

    /// Returns what has begun and is not complete, in the order of the starts.
    pub fn unfinished(&self) -> Vec<Record> {
        self.kind.unfinished()
    }

    /// Returns the greatest number of connections that are open at a time, without those that it
    /// has closed and that have not ended yet.
    pub fn most_connections(&self) -> usize {
        self.connections
    }
}
