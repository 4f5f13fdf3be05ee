//! Connections of a client, each of which carries one exchange at a time.

use std::collections::VecDeque;

use crate::Action;

/// A pool of connections. Work waits in order for the next connection that is free.
#[derive(Clone, Debug)]
pub(crate) struct Pool<W> {
    reuse: bool,
    limit: usize,
    /// Connections that are open or being opened.
    open: usize,
    /// Of these, those that are being opened.
    opening: usize,
    /// Those without work, the one used last at the end.
    idle: Vec<u32>,
    waiting: VecDeque<W>,
}

impl<W> Pool<W> {
    pub fn new(reuse: bool, limit: usize) -> Self {
        Self { reuse, limit, open: 0, opening: 0, idle: Vec::new(), waiting: VecDeque::new() }
    }

    pub fn waiting(&self) -> impl Iterator<Item = &W> {
        self.waiting.iter()
    }

    /// Adds work. Returns an idle connection with it, if there is one. Otherwise it waits, and
    /// another connection is opened, unless enough are being opened; `number` counts connections.
    pub fn add(
        &mut self,
        work: W,
        number: &mut u32,
        actions: &mut VecDeque<Action>,
    ) -> Option<(u32, W)> {
        if let Some(connection) = self.idle.pop() {
            return Some((connection, work));
        }
        self.waiting.push_back(work);
        self.open(number, actions);
        None
    }

    /// Adds work that waits until it is taken, without a connection of its own.
    pub fn wait(&mut self, work: W) {
        self.waiting.push_back(work);
    }

    /// Returns all work that waits.
    pub fn take_waiting(&mut self) -> VecDeque<W> {
        std::mem::take(&mut self.waiting)
    }

    fn open(&mut self, number: &mut u32, actions: &mut VecDeque<Action>) {
        if self.opening < self.waiting.len() && self.open < self.limit {
            self.open += 1;
            self.opening += 1;
            actions.push_back(Action::Open { connection: *number, multiplexed: false });
            *number += 1;
        }
    }

    /// Records that a connection has opened. Returns the work that it carries first, if any waits.
    pub fn on_opened(&mut self, connection: u32) -> Option<W> {
        self.opening = self.opening.saturating_sub(1);
        let work = self.waiting.pop_front();
        if work.is_none() {
            self.idle.push(connection);
        }
        work
    }

    /// Records that a connection has carried its work. Returns the work that it carries next.
    pub fn release(
        &mut self,
        connection: u32,
        number: &mut u32,
        actions: &mut VecDeque<Action>,
    ) -> Option<W> {
        if self.reuse {
            let work = self.waiting.pop_front();
            if work.is_none() {
                self.idle.push(connection);
            }
            return work;
        }
        actions.push_back(Action::Close { connection });
        self.open -= 1;
        self.open(number, actions);
        None
    }

    /// Records that a connection is lost. `busy` is true if it was carrying work; otherwise it was
    /// idle or being opened.
    pub fn on_lost(
        &mut self,
        connection: u32,
        busy: bool,
        number: &mut u32,
        actions: &mut VecDeque<Action>,
    ) {
        self.open = self.open.saturating_sub(1);
        match self.idle.iter().position(|&idle| idle == connection) {
            Some(place) => drop(self.idle.remove(place)),
            None if busy => {}
            None => self.opening = self.opening.saturating_sub(1),
        }
        self.open(number, actions);
    }

    /// Closes all connections without work.
    pub fn close(&mut self, actions: &mut VecDeque<Action>) {
        self.open -= self.idle.len();
        let close = |connection| Action::Close { connection };
        actions.extend(self.idle.drain(..).map(close));
    }
}
