//! Exchanges that do not depend on each other: transfers and remote procedure calls.

use std::collections::{BTreeMap, VecDeque};

use perhop_core::{Duration, Time};

use crate::client::Application;
use crate::pool::Pool;
use crate::random::{Gaps, Sizes};
use crate::{Action, Event, Record, RecordKind, Request};

/// Times of requests.
#[derive(Clone, Debug)]
pub(crate) enum Arrivals {
    Open(Gaps),
    Closed(Gaps),
}

/// An exchange that waits for a connection, or whose response has not arrived as a whole.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    record: Record,
    request: Request,
    connection: u32,
    received: u64,
}

/// A client of independent exchanges.
#[derive(Clone, Debug)]
pub(crate) struct Exchanges {
    pub kind: RecordKind,
    pub arrivals: Arrivals,
    /// Time of the next request.
    pub due: Time,
    pub stop: Time,
    pub request: Sizes,
    pub response: Sizes,
    pub server_time: Duration,
    pub pool: Pool<Request>,
    begun: BTreeMap<u32, Exchange>,
    exchanges: u32,
    connections: u32,
    actions: VecDeque<Action>,
}

impl Exchanges {
    #[allow(clippy::too_many_arguments, reason = "called at one place, with a plan's fields")]
    pub fn new(
        kind: RecordKind,
        arrivals: Arrivals,
        (start, stop): (Time, Time),
        [request, response]: [Sizes; 2],
        server_time: Duration,
        (reuse, limit): (bool, usize),
    ) -> Self {
        let mut arrivals = arrivals;
        let due = match &mut arrivals {
            Arrivals::Open(gaps) => gaps.first(start),
            Arrivals::Closed(_) => start,
        };
        Self {
            kind,
            arrivals,
            due: if due < stop { due } else { Time::MAX },
            stop,
            request,
            response,
            server_time,
            pool: Pool::new(reuse, limit),
            begun: BTreeMap::new(),
            exchanges: 0,
            connections: 0,
            actions: VecDeque::new(),
        }
    }

    /// Begins an exchange that was due at `at`.
    fn begin(&mut self, at: Time) {
        let request = Request {
            exchange: self.exchanges,
            request: self.request.next(),
            response: self.response.next(),
            think: self.server_time,
        };
        self.exchanges += 1;
        let mut record = Record::begin(self.kind, request.exchange, at);
        record.bytes = request.response;
        record.exchanges = 1;
        let exchange = Exchange { record, request, connection: 0, received: 0 };
        self.begun.insert(request.exchange, exchange);
        let (number, actions) = (&mut self.connections, &mut self.actions);
        if let Some((connection, request)) = self.pool.add(request, number, actions) {
            self.send(connection, request, false);
        }
    }

    fn send(&mut self, connection: u32, request: Request, first: bool) {
        if let Some(exchange) = self.begun.get_mut(&request.exchange) {
            exchange.connection = connection;
            exchange.record.opened = first.into();
        }
        self.actions.push_back(Action::Request { connection, request });
    }

    fn on_bytes(&mut self, now: Time, number: u32, bytes: u64) {
        let Some(exchange) = self.begun.get_mut(&number) else { return };
        exchange.record.first_byte.get_or_insert(now);
        exchange.received += bytes;
        if exchange.received < exchange.request.response {
            return;
        }
        let Exchange { record, connection, .. } = *exchange;
        self.begun.remove(&number);
        self.actions.push_back(Action::Finished(Record { end: Some(now), ..record }));
        let (opened, actions) = (&mut self.connections, &mut self.actions);
        if let Some(request) = self.pool.release(connection, opened, actions) {
            self.send(connection, request, false);
        }
        self.follow(now);
    }

    /// Sets the time of the request after the one that has just ended.
    fn follow(&mut self, now: Time) {
        if let Arrivals::Closed(gaps) = &mut self.arrivals {
            self.due = now + gaps.next();
        }
    }

    fn on_lost(&mut self, now: Time, connection: u32) {
        let waits = |number: &u32| self.pool.waiting().any(|request| request.exchange == *number);
        let on_it = self.begun.iter().filter(|(_, each)| each.connection == connection);
        let lost = on_it.map(|(number, _)| *number).find(|number| !waits(number));
        if let Some(exchange) = lost.and_then(|number| self.begun.remove(&number)) {
            self.actions.push_back(Action::Finished(exchange.record));
            self.follow(now);
        }
        let (number, actions) = (&mut self.connections, &mut self.actions);
        self.pool.on_lost(connection, lost.is_some(), number, actions);
    }

    /// Begins nothing more from the stop on, and closes connections that have nothing to carry.
    fn end_if_stopped(&mut self) {
        if self.due >= self.stop {
            self.due = Time::MAX;
            if self.begun.is_empty() {
                self.pool.close(&mut self.actions);
            }
        }
    }
}

impl Application for Exchanges {
    fn deadline(&self) -> Time {
        self.due
    }

    fn on_timer(&mut self, now: Time) {
        // Called late, it begins what was due by then, and nothing that is due from the stop on.
        while self.due <= now && self.due < self.stop {
            let at = self.due;
            self.due = match &mut self.arrivals {
                Arrivals::Open(gaps) => at + gaps.next(),
                Arrivals::Closed(_) => Time::MAX,
            };
            self.begin(at);
        }
        self.end_if_stopped();
    }

    fn on_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Opened { connection } => {
                if let Some(request) = self.pool.on_opened(connection) {
                    self.send(connection, request, true);
                }
            }
            Event::Received { exchange, bytes } => self.on_bytes(now, exchange, bytes),
            Event::Lost { connection } => self.on_lost(now, connection),
        }
        self.end_if_stopped();
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn unfinished(&self) -> Vec<Record> {
        self.begun.values().map(|exchange| exchange.record).collect()
    }
}
