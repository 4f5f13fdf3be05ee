//! A client of any kind.

use perhop_core::Time;

use crate::exchanges::Exchanges;
use crate::{Action, Event, Record};

/// A client: decides when connections open, and what is requested over them.
///
/// A driver calls [`on_timer`](Self::on_timer) when [`deadline`](Self::deadline) has come and
/// [`on_event`](Self::on_event) when there is news, and after either [`poll`](Self::poll) until it
/// returns `None`.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) kind: Kind,
    pub(crate) connections: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Exchanges(Box<Exchanges>),
}

impl Client {
    /// Returns when [`on_timer`](Self::on_timer) is due; [`Time::MAX`] if it is not.
    pub fn deadline(&self) -> Time {
        match &self.kind {
            Kind::Exchanges(client) => client.deadline(),
        }
    }

    /// Begins what is due at `now`.
    pub fn on_timer(&mut self, now: Time) {
        match &mut self.kind {
            Kind::Exchanges(client) => client.on_timer(now),
        }
    }

    /// Takes news of its connections.
    pub fn on_event(&mut self, now: Time, event: Event) {
        match &mut self.kind {
            Kind::Exchanges(client) => client.on_event(now, event),
        }
    }

    /// Returns the next action to carry out, if any.
    #[must_use]
    pub fn poll(&mut self) -> Option<Action> {
        match &mut self.kind {
            Kind::Exchanges(client) => client.poll(),
        }
    }

    /// Returns what has begun and is not complete, in the order of the starts.
    pub fn unfinished(&self) -> Vec<Record> {
        match &self.kind {
            Kind::Exchanges(client) => client.unfinished().collect(),
        }
    }

    /// Returns the greatest number of connections that are open at a time, without those that it
    /// has closed and that have not ended yet.
    pub fn most_connections(&self) -> usize {
        self.connections
    }
}
