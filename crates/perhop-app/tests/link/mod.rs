//! A virtual link of fixed rate and delay between clients and their server.

use std::collections::BTreeMap;

use perhop_app::*;
use perhop_core::{Bytes, Duration, Rate, Time};

pub const MS: fn(u64) -> Duration = Duration::from_millis;

pub fn exchanges(arrivals: ArrivalsPlan, response: u64, reuse: bool) -> ExchangesPlan {
    ExchangesPlan {
        arrivals,
        request: SizesPlan::Constant(100),
        response: SizesPlan::Constant(response),
        server_time: Duration::ZERO,
        reuse,
        connections: 1000,
    }
}

/// Returns pages of `objects` (the one that reveals each, and its size), and `more` objects of 10
/// kB that the first one reveals.
pub fn page(objects: &[(Option<u32>, u64)], more: usize, multiplexed: bool) -> ApplicationPlan {
    let object = |(after, response)| ObjectPlan {
        after,
        host: 0,
        request: 100,
        response,
        server_time: Duration::ZERO,
    };
    let revealed = std::iter::repeat_n((Some(0), 10_000), more);
    ApplicationPlan::Web(WebPlan {
        objects: objects.iter().copied().chain(revealed).map(object).collect(),
        multiplexed,
        connections: 6,
        pause: GapsPlan { mean: MS(1000), exponential: false },
    })
}

/// Returns a video of 1, 2 and 4 Mb/s in segments of 4 s, of which the client buffers `buffer`
/// seconds.
pub fn video(algorithm: AlgorithmPlan, buffer: u64) -> ApplicationPlan {
    ApplicationPlan::Video(VideoPlan {
        bitrates: vec![1_000_000, 2_000_000, 4_000_000],
        segment: MS(4000),
        buffer: Duration::from_secs(buffer),
        startup: MS(4000),
        length: None,
        algorithm,
        request: 100,
    })
}

enum Arrival {
    Opened(u32),
    Request(u32, Request),
    Frame(Frame),
}

/// The link, and its one client. Requests take the delay; frames of responses follow each other.
pub struct Link {
    rate: Rate,
    delay: Duration,
    seed: u64,
    /// Bytes of responses that have arrived.
    pub delivered: u64,
    /// Connections that were opened, and the most that were open at a time.
    pub opened: usize,
    pub most_open: usize,
    servers: BTreeMap<u32, Responder>,
    on_the_way: BTreeMap<(Time, u64), Arrival>,
    order: u64,
    busy_until: Time,
}

impl Link {
    /// `rate` in Mb/s, one-way `delay` in milliseconds.
    pub fn new(rate: u64, delay: u64) -> Self {
        Self {
            rate: Rate::new(rate * 1_000_000).unwrap(),
            delay: MS(delay),
            seed: 1,
            delivered: 0,
            opened: 0,
            most_open: 0,
            servers: BTreeMap::new(),
            on_the_way: BTreeMap::new(),
            order: 0,
            busy_until: Time::ZERO,
        }
    }

    pub fn seeded(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Returns the number of connections that are open.
    pub fn open(&self) -> usize {
        self.servers.len()
    }

    fn put(&mut self, at: Time, arrival: Arrival) {
        self.order += 1;
        self.on_the_way.insert((at, self.order), arrival);
    }

    /// Runs a client that begins things for `stop` milliseconds, until all is done.
    pub fn run(&mut self, plan: &ApplicationPlan, stop: u64) -> Vec<Record> {
        let span = (Time::ZERO, Time::ZERO + MS(stop));
        let mut client = plan.client("flow", 0, span, self.seed).unwrap();
        let mut records = Vec::new();
        loop {
            let arrival = self.on_the_way.first_key_value().map_or(Time::MAX, |(key, _)| key.0);
            let server = self.servers.values().map(Responder::deadline).min();
            let server = server.unwrap_or(Time::MAX).max(self.busy_until);
            let now = arrival.min(server).min(client.deadline());
            if now == Time::MAX {
                return records;
            }
            if client.deadline() <= now {
                client.on_timer(now);
            } else if arrival == now {
                let (_, arrival) = self.on_the_way.pop_first().unwrap();
                match arrival {
                    Arrival::Opened(connection) => {
                        client.on_event(now, Event::Opened { connection });
                    }
                    Arrival::Request(connection, request) => {
                        self.servers.get_mut(&connection).unwrap().on_request(now, &request);
                    }
                    Arrival::Frame(Frame { exchange, payload, .. }) => {
                        self.delivered += payload;
                        client.on_event(now, Event::Received { exchange, bytes: payload });
                    }
                }
            } else {
                let mut servers = self.servers.values_mut();
                let frame = servers.find_map(|server| server.next_frame(now)).unwrap();
                self.busy_until = now + Bytes::new(frame.bytes()) / self.rate;
                self.put(self.busy_until + self.delay, Arrival::Frame(frame));
            }
            while let Some(action) = client.poll() {
                match action {
                    Action::Open { connection, multiplexed } => {
                        self.servers.insert(connection, Responder::new(multiplexed));
                        self.opened += 1;
                        self.most_open = self.most_open.max(self.servers.len());
                        self.put(now + self.delay + self.delay, Arrival::Opened(connection));
                    }
                    Action::Request { connection, request } => {
                        self.put(now + self.delay, Arrival::Request(connection, request));
                    }
                    Action::Close { connection } => {
                        assert!(self.servers.remove(&connection).unwrap().is_idle());
                    }
                    Action::Finished(record) => records.push(record),
                }
            }
        }
    }
}
