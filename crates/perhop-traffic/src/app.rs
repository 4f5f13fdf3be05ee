//! Applications over real connections: one thread serves all clients and their servers.
//!
//! [`Client`](perhop_app::Client)s decide; this module carries out their actions. A client connects
//! from the flow's destination to the port of its server at the flow's source. Both ends are in
//! this process, so that a server knows its connections by their addresses.

mod client;
mod connection;
mod ports;
mod stream;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use perhop_app::{Action, Event, Request};
use perhop_core::{Time, TrafficClass};
use perhop_socket::{Epoll, Event as Ready, Interest, Nanos, Socket};

use crate::clock::{nanos, time};
use crate::job::Job;
use crate::open::{ClientSockets, Opened, clamp_window};
use crate::receive::NEW_CONNECTION_WINDOWS;
use crate::shared::{Shared, StreamId};
use crate::stream::lock;

pub use client::Completed;
pub(crate) use client::{ClientState, receiver, sample, sender};
use connection::{Connection, Room, Side};
pub(crate) use ports::{client_of, client_port};

/// Time after which a client learns that a connection could not be opened, so that it does not try
/// again at once.
const RETRY: Nanos = 1_000_000_000;

/// Attempts to find a port for a connection, as earlier connections keep theirs for a minute.
const ATTEMPTS: u32 = 100;

/// Sockets for the applications of a job, until they start.
#[derive(Debug)]
pub(crate) struct Applications {
    listeners: Vec<(SocketAddr, Socket)>,
    sockets: ClientSockets,
    most: u64,
}

impl Applications {
    /// Takes the sockets of a job's applications, whose connections may have `most` ends at once.
    pub fn new(job: &Job, opened: &mut BTreeMap<u16, Opened>, most: u64) -> Self {
        let listeners = opened.values_mut().flat_map(|host| host.servers.drain(..)).collect();
        let namespaces = opened.iter_mut();
        let namespaces =
            namespaces.filter_map(|(node, host)| Some((*node, host.namespace.take()?))).collect();
        Self { listeners, sockets: ClientSockets::new(job, namespaces), most }
    }

    /// Runs all clients and servers until the end of the run. Then their sockets are closed.
    pub fn run(self, shared: &Shared) -> io::Result<()> {
        let epoll = Epoll::new()?;
        for (number, (_, listener)) in self.listeners.iter().enumerate() {
            epoll.add(listener.as_fd(), number as u64, Interest::Readable)?;
        }
        let mut driver = Driver {
            shared,
            epoll,
            next: self.listeners.len() as u64,
            listeners: self.listeners,
            sockets: self.sockets,
            most: self.most,
            connections: HashMap::new(),
            at_clients: BTreeMap::new(),
            opening: HashMap::new(),
            timers: BinaryHeap::new(),
            news: VecDeque::new(),
            room: Room::default(),
        };
        driver.run()
    }
}

/// Reason to wake at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A client begins something.
    Client(StreamId),
    /// A response is ready on the server's end of a connection.
    Server(u64),
    /// A connection of a client could not be opened.
    Lost(StreamId, u32),
}

/// A connection that its server has not accepted.
#[derive(Clone, Copy, Debug)]
struct Opening {
    client: StreamId,
    number: u32,
    multiplexed: bool,
}

struct Driver<'a> {
    shared: &'a Shared,
    epoll: Epoll,
    /// Sockets of servers, whose tokens are their places.
    listeners: Vec<(SocketAddr, Socket)>,
    sockets: ClientSockets,
    /// Most ends of connections at once, so that servers always have a descriptor to accept with.
    most: u64,
    /// Token of the next end of a connection. No token is used again.
    next: u64,
    /// Ends of connections, by token.
    connections: HashMap<u64, Connection>,
    /// Tokens of clients' ends.
    at_clients: BTreeMap<(StreamId, u32), u64>,
    /// Connections that wait for their server, by the addresses of client and server.
    opening: HashMap<(SocketAddr, SocketAddr), Opening>,
    timers: BinaryHeap<Reverse<(Nanos, Timer)>>,
    /// News that clients have not had.
    news: VecDeque<(StreamId, Event)>,
    room: Room,
}

impl Driver<'_> {
    fn run(&mut self) -> io::Result<()> {
        let clients: Vec<_> = self.shared.stream_ids().collect();
        clients.into_iter().for_each(|id| self.set_timer(id));
        let mut ready = vec![Ready { events: 0, u64: 0 }; 256];
        self.shared.clock.await_zero();
        while !self.shared.clock.is_over() {
            let next = self.timers.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at);
            let count = self.epoll.wait(&mut ready, self.shared.clock.wake(next))?;
            for event in &ready[..count] {
                let (token, events) = (event.u64, event.events as libc::c_int);
                match token < self.listeners.len() as u64 {
                    true => self.accept(token as usize),
                    false => self.serve(token, events),
                }
                self.tell();
            }
            let now = self.shared.clock.now();
            while let Some(&Reverse((at, timer))) = self.timers.peek()
                && at <= now
            {
                self.timers.pop();
                self.on_timer(timer);
                self.tell();
            }
        }
        Ok(())
    }

    fn client(&self, id: StreamId) -> Option<&Mutex<ClientState>> {
        self.shared.at(id).1.client.as_ref()
    }

    fn on_timer(&mut self, timer: Timer) {
        match timer {
            Timer::Client(id) => {
                let now = time(self.shared.clock.now());
                if let Some(state) = self.client(id) {
                    let mut state = lock(state);
                    state.timer = Nanos::MAX;
                    if state.client.deadline() <= now {
                        state.client.on_timer(now);
                    }
                }
                self.act(id);
            }
            Timer::Server(token) => self.serve(token, libc::EPOLLOUT),
            Timer::Lost(id, connection) => self.news.push_back((id, Event::Lost { connection })),
        }
    }

    /// Has a client woken when something is due.
    fn set_timer(&mut self, id: StreamId) {
        let Some(state) = self.client(id) else { return };
        let mut state = lock(state);
        let due = nanos(state.client.deadline().as_picos());
        if state.client.deadline() < Time::MAX && due < state.timer {
            state.timer = due;
            drop(state);
            self.timers.push(Reverse((due, Timer::Client(id))));
        }
    }

    /// Passes news to clients.
    fn tell(&mut self) {
        while let Some((id, event)) = self.news.pop_front() {
            if let Some(state) = self.client(id) {
                lock(state).client.on_event(time(self.shared.clock.now()), event);
            }
            self.act(id);
        }
    }

    /// Carries out the actions of a client.
    fn act(&mut self, id: StreamId) {
        loop {
            let Some(state) = self.client(id) else { return };
            let action = lock(state).client.poll();
            match action {
                Some(Action::Open { connection, multiplexed }) => {
                    self.open(Opening { client: id, number: connection, multiplexed });
                }
                Some(Action::Request { connection, request }) => {
                    self.request((id, connection), &request);
                }
                Some(Action::Close { connection }) => self.close((id, connection)),
                Some(Action::Finished(record)) => lock(state).finished.push(record),
                None => break,
            }
        }
        self.set_timer(id);
    }

    /// Begins to connect.
    fn open(&mut self, opening: Opening) {
        let Opening { client: id, number, .. } = opening;
        if let Err(error) = self.connect(opening) {
            let flow = &self.shared.at(id).0.name;
            self.shared.warn(format!("{flow}: cannot open a connection: {error}"));
            let at = self.shared.clock.now() + RETRY;
            self.timers.push(Reverse((at, Timer::Lost(id, number))));
        }
    }

    fn connect(&mut self, opening: Opening) -> Result<(), Box<dyn std::error::Error>> {
        let Opening { client: id, number, multiplexed } = opening;
        if (self.connections.len() + self.opening.len() + 2) as u64 > self.most {
            return Err("the process has no files left; raise `ulimit -n`".into());
        }
        let (flow, stream) = self.shared.at(id);
        let server = stream.server;
        let mut tried = 0;
        let (socket, at) = loop {
            let place = number.wrapping_add(tried);
            let port = client_port(id.stream, flow.streams.len() as u16, place);
            let at = SocketAddr::new(stream.to.ip(), port.ok_or("no port is left")?);
            let socket = self.sockets.open(id.flow, at)?;
            match socket.connect(server) {
                Ok(()) => break (socket, at),
                Err(error) if error.kind() == ErrorKind::AddrNotAvailable && tried < ATTEMPTS => {
                    tried += 1;
                }
                Err(error) => return Err(error.into()),
            }
        };
        let side = Side::client(multiplexed);
        let socket = self.add(id, number, socket, side)?;
        if let Some(state) = &stream.client {
            lock(state).opened(number, socket);
        }
        self.opening.insert((at, server), opening);
        Ok(())
    }

    /// Adds an end of a connection.
    fn add(
        &mut self,
        id: StreamId,
        number: u32,
        socket: Socket,
        side: Side,
    ) -> io::Result<Arc<Socket>> {
        let (socket, token) = (Arc::new(socket), self.next);
        let connection = Connection::new((id, number), Arc::clone(&socket), side);
        self.epoll.add(socket.as_fd(), token, connection.interest)?;
        self.next += 1;
        if connection.is_client() {
            self.at_clients.insert((id, number), token);
        }
        self.connections.insert(token, connection);
        Ok(socket)
    }

    fn accept(&mut self, place: usize) {
        let (at, listener) = &self.listeners[place];
        let (at, mut accepted) = (*at, Vec::new());
        while let Ok((socket, from)) = listener.accept() {
            match from.and_then(|from| self.opening.remove(&(from, at))) {
                Some(opening) => accepted.push((opening, socket)),
                None => self.shared.unknown_sender(),
            }
        }
        for (Opening { client: id, number, multiplexed }, socket) in accepted {
            let (flow, stream) = self.shared.at(id);
            // Several flows may share the server.
            let _ = socket.set_traffic_class(at.ip(), TrafficClass::new(flow.dscp).octet());
            clamp_window(&socket, flow.window);
            match self.add(id, number, socket, Side::server(multiplexed)) {
                Ok(socket) => {
                    if multiplexed {
                        connection::hold_little(&socket);
                    }
                    if let Some(state) = &stream.client {
                        lock(state).accepted(number, socket);
                    }
                }
                Err(error) => self.shared.warn(format!("{}: {error}", flow.name)),
            }
        }
    }

    fn request(&mut self, connection: (StreamId, u32), request: &Request) {
        let Some(&token) = self.at_clients.get(&connection) else { return };
        if let Some(end) = self.connections.get_mut(&token) {
            end.request(request);
        }
        self.serve(token, libc::EPOLLOUT);
    }

    /// Closes a connection: the server closes its end when it has sent everything.
    fn close(&mut self, connection: (StreamId, u32)) {
        let Some(token) = self.at_clients.remove(&connection) else { return };
        let Some(end) = self.connections.get_mut(&token) else { return };
        match end.close() {
            true => self.update(token),
            false => self.remove(token),
        }
    }

    /// Reads from and writes to an end of a connection for which there are `events`.
    fn serve(&mut self, token: u64, events: libc::c_int) {
        let now = self.shared.clock.now();
        let Some(end) = self.connections.get_mut(&token) else { return };
        let (id, number) = end.of;
        let (flow, stream) = self.shared.at(id);
        if end.is_opening() {
            if events & (libc::EPOLLERR | libc::EPOLLHUP) != 0 {
                let error = end.socket.take_error().unwrap_or(ErrorKind::NotConnected.into());
                let server = stream.server;
                self.shared.warn(format!("{}: cannot connect to {server}: {error}", flow.name));
                self.remove(token);
                return self.timers.push(Reverse((now + RETRY, Timer::Lost(id, number))));
            }
            if events & libc::EPOLLOUT == 0 {
                return;
            }
            end.open();
            self.news.push_back((id, Event::Opened { connection: number }));
        }
        let readable = events & (libc::EPOLLIN | libc::EPOLLERR | libc::EPOLLHUP) != 0;
        let read = match readable {
            true => end.read(time(now), &mut self.room, |exchange, bytes| {
                self.news.push_back((id, Event::Received { exchange, bytes }));
            }),
            false => Ok(0),
        };
        let written = read.and_then(|read| {
            if end.is_client() && read > 0 {
                stream.deliver(read, None, 0);
                if end.received < NEW_CONNECTION_WINDOWS * u64::from(flow.window) {
                    clamp_window(&end.socket, flow.window);
                }
            }
            end.write(time(now), &mut self.room)
        });
        if written.is_ok() && !end.is_over() {
            return self.update(token);
        }
        let lost = end.is_client() && !end.is_closing();
        self.remove(token);
        if !lost {
            return;
        }
        if let Err(error) = written {
            self.shared.warn(format!("{}: a connection was lost: {error}", flow.name));
        }
        self.news.push_back((id, Event::Lost { connection: number }));
    }

    /// Waits for what an end of a connection needs next.
    fn update(&mut self, token: u64) {
        let Some(end) = self.connections.get_mut(&token) else { return };
        let wanted = end.wanted();
        if wanted != end.interest && self.epoll.change(end.socket.as_fd(), token, wanted).is_ok() {
            end.interest = wanted;
        }
        if let Some(due) = end.ready_at() {
            self.timers.push(Reverse((nanos(due.as_picos()), Timer::Server(token))));
        }
    }

    /// Ends an end of a connection.
    fn remove(&mut self, token: u64) {
        let Some(end) = self.connections.remove(&token) else { return };
        let _ = self.epoll.remove(end.socket.as_fd());
        let (id, number) = end.of;
        if let Some(state) = self.client(id) {
            lock(state).ended(number, end.is_client());
        }
        if end.is_client() {
            self.at_clients.remove(&end.of);
            if let Ok(at) = end.socket.local_address() {
                self.opening.remove(&(at, self.shared.at(id).1.server));
            }
        }
    }
}
