//! Pages of objects, some of which are found only when others have arrived.

use std::collections::{BTreeMap, VecDeque};

use perhop_core::{Stream, Time};

use crate::client::Application;
use crate::plan::{ObjectPlan, WebPlan};
use crate::pool::Pool;
use crate::random::Gaps;
use crate::wire::REQUEST_BYTES;
use crate::{Action, Event, Record, RecordKind, Request};

/// A client that loads a page, pauses, and loads it again over new connections.
#[derive(Clone, Debug)]
pub(crate) struct Web {
    objects: Vec<ObjectPlan>,
    multiplexed: bool,
    limit: usize,
    pause: Gaps,
    due: Time,
    stop: Time,
    page: Option<Page>,
    pages: u32,
    exchanges: u32,
    connections: u32,
    hosts: usize,
    actions: VecDeque<Action>,
}

/// A page that is being loaded.
#[derive(Clone, Debug)]
struct Page {
    record: Record,
    /// Objects that have not arrived.
    left: usize,
    /// For each host, its connections and the objects that wait for one.
    pools: Vec<Pool<u32>>,
    /// For each host, its one connection if it is multiplexed, and true once that is open.
    shared: Vec<Option<(u32, bool)>>,
    /// Host of each connection.
    connections: BTreeMap<u32, usize>,
    /// For each exchange, its object, its connection, and the bytes that have not arrived.
    under_way: BTreeMap<u32, (u32, u32, u64)>,
}

impl Web {
    pub fn new(plan: &WebPlan, hosts: usize, (start, stop): (Time, Time), random: Stream) -> Self {
        Self {
            objects: plan.objects.clone(),
            multiplexed: plan.multiplexed,
            limit: usize::from(plan.connections),
            pause: Gaps::new(plan.pause, random),
            due: if start < stop { start } else { Time::MAX },
            stop,
            page: None,
            pages: 0,
            exchanges: 0,
            connections: 0,
            hosts,
            actions: VecDeque::new(),
        }
    }

    fn begin(&mut self, now: Time) {
        let mut record = Record::begin(RecordKind::Page, self.pages, now);
        record.bytes = self.objects.iter().map(|object| object.response).sum();
        record.exchanges = self.objects.len() as u32;
        self.pages += 1;
        self.page = Some(Page {
            record,
            left: self.objects.len(),
            pools: (0..self.hosts).map(|_| Pool::new(true, self.limit)).collect(),
            shared: vec![None; self.hosts],
            connections: BTreeMap::new(),
            under_way: BTreeMap::new(),
        });
        self.reveal(None);
    }

    /// Requests all objects that the arrival of one reveals.
    fn reveal(&mut self, arrived: Option<u32>) {
        for number in 0..self.objects.len() {
            if self.objects[number].after == arrived {
                self.want(number as u32);
            }
        }
    }

    fn want(&mut self, object: u32) {
        let host = usize::from(self.objects[object as usize].host);
        let Some(page) = &mut self.page else { return };
        let first = self.connections;
        if !self.multiplexed {
            let ready = page.pools[host].add(object, &mut self.connections, &mut self.actions);
            self.opened(first, host);
            if let Some((connection, object)) = ready {
                self.request(connection, object);
            }
            return;
        }
        match page.shared[host] {
            Some((connection, true)) => self.request(connection, object),
            // A pool of one connection keeps what waits for it.
            Some((_, false)) => {
                page.pools[host].wait(object);
            }
            None => {
                page.shared[host] = Some((self.connections, false));
                page.pools[host].wait(object);
                let connection = self.connections;
                self.actions.push_back(Action::Open { connection, multiplexed: true });
                self.connections += 1;
                self.opened(first, host);
            }
        }
    }

    /// Records the host of the connections from `first` on.
    fn opened(&mut self, first: u32, host: usize) {
        let Some(page) = &mut self.page else { return };
        page.connections.extend((first..self.connections).map(|connection| (connection, host)));
        page.record.opened += self.connections - first;
    }

    fn request(&mut self, connection: u32, number: u32) {
        let object = self.objects[number as usize];
        let request = Request {
            exchange: self.exchanges,
            request: object.request.max(REQUEST_BYTES),
            response: object.response,
            think: object.server_time,
        };
        self.exchanges = self.exchanges.wrapping_add(1);
        let Some(page) = &mut self.page else { return };
        page.under_way.insert(request.exchange, (number, connection, object.response));
        self.actions.push_back(Action::Request { connection, request });
    }

    fn on_opened(&mut self, connection: u32) {
        let Some(page) = &mut self.page else { return };
        let Some(&host) = page.connections.get(&connection) else { return };
        let pool = &mut page.pools[host];
        if self.multiplexed {
            page.shared[host] = Some((connection, true));
            let waiting = pool.take_waiting();
            waiting.into_iter().for_each(|object| self.request(connection, object));
        } else if let Some(object) = pool.on_opened(connection) {
            self.request(connection, object);
        }
    }

    fn on_bytes(&mut self, now: Time, exchange: u32, bytes: u64) {
        let Some(page) = &mut self.page else { return };
        let Some((object, connection, left)) = page.under_way.get_mut(&exchange) else { return };
        page.record.first_byte.get_or_insert(now);
        *left = left.saturating_sub(bytes);
        if *left > 0 {
            return;
        }
        let (object, connection) = (*object, *connection);
        page.under_way.remove(&exchange);
        page.left -= 1;
        if page.left == 0 {
            return self.end(now, Some(now));
        }
        if !self.multiplexed
            && let Some(&host) = page.connections.get(&connection)
        {
            let (opened, actions) = (&mut self.connections, &mut self.actions);
            if let Some(next) = page.pools[host].release(connection, opened, actions) {
                self.request(connection, next);
            }
        }
        self.reveal(Some(object));
    }

    /// Ends the page, complete or not, and closes its connections.
    fn end(&mut self, now: Time, end: Option<Time>) {
        let Some(page) = self.page.take() else { return };
        self.actions.push_back(Action::Finished(Record { end, ..page.record }));
        let close = |&connection: &u32| Action::Close { connection };
        self.actions.extend(page.connections.keys().map(close));
        self.due = now + self.pause.next();
        if self.due >= self.stop {
            self.due = Time::MAX;
        }
    }
}

impl Application for Web {
    fn deadline(&self) -> Time {
        self.due
    }

    fn on_timer(&mut self, now: Time) {
        if self.due <= now {
            self.due = Time::MAX;
            self.begin(now);
        }
    }

    fn on_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Opened { connection } => self.on_opened(connection),
            Event::Received { exchange, bytes } => self.on_bytes(now, exchange, bytes),
            Event::Lost { connection } => {
                let lost = self.page.as_mut().and_then(|page| page.connections.remove(&connection));
                if lost.is_some() {
                    self.end(now, None);
                }
            }
        }
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn unfinished(&self) -> Vec<Record> {
        self.page.iter().map(|page| page.record).collect()
    }
}
