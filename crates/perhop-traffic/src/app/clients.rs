//! Clients with connections of any kind: their timers, their news, and what they want.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Mutex;

use perhop_app::{Action, Event};
use perhop_core::Time;
use perhop_socket::Nanos;

use super::{ClientState, client_port};
use crate::clock::{nanos, time};
use crate::shared::{Shared, StreamId};
use crate::stream::lock;

/// Time after which a client learns that a connection could not be opened, so that it does not try
/// again at once.
const RETRY: Nanos = 1_000_000_000;

/// Attempts to find a port for a connection, as earlier connections keep theirs for a while.
pub(crate) const ATTEMPTS: u32 = 100;

/// Reason to wake a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// It begins something.
    Begin(StreamId),
    /// A connection could not be opened.
    Lost(StreamId, u32),
}

/// Clients whose connections one thread has. It carries out the actions that [`next`](Self::next)
/// returns, and tells them what happens.
#[derive(Debug)]
pub(crate) struct Clients<'a> {
    shared: &'a Shared,
    timers: BinaryHeap<Reverse<(Nanos, Timer)>>,
    /// News that clients have not had.
    news: VecDeque<(StreamId, Event)>,
    /// Clients that may want something.
    active: VecDeque<StreamId>,
}

impl<'a> Clients<'a> {
    /// Returns the clients over QUIC, or those over TCP.
    pub fn new(shared: &'a Shared, over_quic: bool) -> Self {
        let active = shared.stream_ids().filter(|&id| {
            let stream = shared.at(id).1;
            stream.client.is_some() && stream.quic.is_some() == over_quic
        });
        let active = active.collect();
        Self { shared, timers: BinaryHeap::new(), news: VecDeque::new(), active }
    }

    /// Returns the instant at which a client is due.
    pub fn deadline(&self) -> Nanos {
        self.timers.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at)
    }

    /// Adds news for a client.
    pub fn tell(&mut self, id: StreamId, event: Event) {
        self.news.push_back((id, event));
    }

    /// Warns that a connection cannot be opened. Its client learns it later.
    pub fn cannot_open(&mut self, (id, connection): (StreamId, u32), what: impl Display) {
        self.shared.warn(format!("{}: {what}", self.shared.at(id).0.name));
        let at = self.shared.clock.now() + RETRY;
        self.timers.push(Reverse((at, Timer::Lost(id, connection))));
    }

    /// Returns the next action of a client that has news or is due.
    pub fn next(&mut self) -> Option<(StreamId, Action)> {
        loop {
            let Some(&id) = self.active.front() else {
                self.advance()?;
                continue;
            };
            let action = self.state(id).and_then(|state| lock(state).client.poll());
            match action {
                Some(Action::Finished(record)) => {
                    self.state(id).into_iter().for_each(|all| lock(all).finished.push(record));
                }
                Some(action) => return Some((id, action)),
                None => {
                    self.active.pop_front();
                    self.set_timer(id);
                }
            }
        }
    }

    fn state(&self, id: StreamId) -> Option<&'a Mutex<ClientState>> {
        self.shared.at(id).1.client.as_ref()
    }

    /// Passes the next news to its client, or wakes the next one; `None` without either.
    fn advance(&mut self) -> Option<()> {
        let now = self.shared.clock.now();
        let (id, event) = match self.news.pop_front() {
            Some((id, event)) => (id, Some(event)),
            None => {
                let &Reverse((at, timer)) = self.timers.peek()?;
                if at > now {
                    return None;
                }
                self.timers.pop();
                match timer {
                    Timer::Begin(id) => (id, None),
                    Timer::Lost(id, connection) => (id, Some(Event::Lost { connection })),
                }
            }
        };
        let mut state = lock(self.state(id)?);
        match event {
            Some(event) => state.client.on_event(time(now), event),
            None => {
                state.timer = Nanos::MAX;
                if state.client.deadline() <= time(now) {
                    state.client.on_timer(time(now));
                }
            }
        }
        drop(state);
        self.active.push_back(id);
        Some(())
    }

    /// Has a client woken when something is due.
    fn set_timer(&mut self, id: StreamId) {
        let Some(state) = self.state(id) else { return };
        let mut state = lock(state);
        let due = nanos(state.client.deadline().as_picos());
        if state.client.deadline() < Time::MAX && due < state.timer {
            state.timer = due;
            drop(state);
            self.timers.push(Reverse((due, Timer::Begin(id))));
        }
    }
}

/// Returns the address from which a client opens its connection with this number.
pub(crate) fn client_address(
    shared: &Shared,
    id: StreamId,
    number: u32,
) -> Result<SocketAddr, &'static str> {
    let (flow, stream) = shared.at(id);
    let port = client_port(id.stream, flow.streams.len() as u16, number);
    Ok(SocketAddr::new(stream.to.ip(), port.ok_or("no port is left")?))
}

/// Checks that the process may open as many files as connections need.
pub(crate) fn check_files(needed: usize, most: u64) -> Result<(), &'static str> {
    match needed as u64 > most {
        true => Err("the process has no files left; raise `ulimit -n`"),
        false => Ok(()),
    }
}
