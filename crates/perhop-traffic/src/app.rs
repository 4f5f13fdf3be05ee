//! Applications over real connections of TCP: one thread serves all clients and their servers.
//!
//! [`Client`](perhop_app::Client)s decide; this module carries out their actions. A client connects
//! from the flow's destination to the port of its server at the flow's source. Both ends are in
//! this process, so that a server knows its connections by their addresses.

mod client;
mod clients;
mod connection;
mod ports;
mod stream;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use perhop_app::{Action, Event, Request};
use perhop_core::TrafficClass;
use perhop_socket::{Epoll, Event as Ready, Interest, Nanos, Socket};

use crate::clock::{nanos, time};
use crate::job::Job;
use crate::open::{ClientSockets, Opened, clamp_window};
use crate::receive::NEW_CONNECTION_WINDOWS;
use crate::shared::{Shared, StreamId};
use crate::stream::lock;

pub use client::Completed;
pub(crate) use client::{ClientState, receiver, sample, sender};
pub(crate) use clients::{ATTEMPTS, Clients, check_files, client_address};
use connection::{Connection, Room, Side};
pub(crate) use ports::{client_of, client_port};
pub(crate) use stream::{Headers, Piece};

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
        Self { listeners, sockets: ClientSockets::new(job, opened), most }
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
            clients: Clients::new(shared, false),
            timers: BinaryHeap::new(),
            room: Room::default(),
        };
        driver.run()
    }
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
    clients: Clients<'a>,
    /// Instants at which a response is ready on the server's end of a connection, by its token.
    timers: BinaryHeap<Reverse<(Nanos, u64)>>,
    room: Room,
}

impl Driver<'_> {
    fn run(&mut self) -> io::Result<()> {
        let mut ready = vec![Ready { events: 0, u64: 0 }; 256];
        self.shared.clock.await_zero();
        self.act();
        while !self.shared.clock.is_over() {
            let next = self.timers.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at);
            let next = self.shared.clock.wake(next.min(self.clients.deadline()));
            let count = self.epoll.wait(&mut ready, next)?;
            for event in &ready[..count] {
                let (token, events) = (event.u64, event.events as libc::c_int);
                match token < self.listeners.len() as u64 {
                    true => self.accept(token as usize),
                    false => self.serve(token, events),
                }
                self.act();
            }
            let now = self.shared.clock.now();
            while let Some(&Reverse((at, token))) = self.timers.peek()
                && at <= now
            {
                self.timers.pop();
                self.serve(token, libc::EPOLLOUT);
            }
            self.act();
        }
        Ok(())
    }

    /// Carries out the actions of clients.
    fn act(&mut self) {
        while let Some((id, action)) = self.clients.next() {
            match action {
                Action::Open { connection, multiplexed } => {
                    self.open(Opening { client: id, number: connection, multiplexed });
                }
                Action::Request { connection, request } => {
                    self.request((id, connection), &request);
                }
                Action::Close { connection } => self.close((id, connection)),
                Action::Finished(_) => {}
            }
        }
    }

    /// Begins to connect.
    fn open(&mut self, opening: Opening) {
        let Opening { client: id, number, .. } = opening;
        if let Err(error) = self.connect(opening) {
            let what = format!("cannot open a connection: {error}");
            self.clients.cannot_open((id, number), what);
        }
    }

    fn connect(&mut self, opening: Opening) -> Result<(), Box<dyn std::error::Error>> {
        let Opening { client: id, number, multiplexed } = opening;
        check_files(self.connections.len() + self.opening.len() + 2, self.most)?;
        let stream = self.shared.at(id).1;
        let server = stream.server;
        let mut tried = 0;
        let (socket, at) = loop {
            let at = client_address(self.shared, id, number.wrapping_add(tried))?;
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
                self.remove(token);
                let what = format!("cannot connect to {server}: {error}");
                return self.clients.cannot_open((id, number), what);
            }
            if events & libc::EPOLLOUT == 0 {
                return;
            }
            end.open();
            self.clients.tell(id, Event::Opened { connection: number });
        }
        let readable = events & (libc::EPOLLIN | libc::EPOLLERR | libc::EPOLLHUP) != 0;
        let read = match readable {
            true => end.read(time(now), &mut self.room, |exchange, bytes| {
                self.clients.tell(id, Event::Received { exchange, bytes });
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
        self.clients.tell(id, Event::Lost { connection: number });
    }

    /// Waits for what an end of a connection needs next.
    fn update(&mut self, token: u64) {
        let Some(end) = self.connections.get_mut(&token) else { return };
        let wanted = end.wanted();
        if wanted != end.interest && self.epoll.change(end.socket.as_fd(), token, wanted).is_ok() {
            end.interest = wanted;
        }
        if let Some(due) = end.ready_at() {
            self.timers.push(Reverse((nanos(due.as_picos()), token)));
        }
    }

    /// Ends an end of a connection.
    fn remove(&mut self, token: u64) {
        let Some(end) = self.connections.remove(&token) else { return };
        let _ = self.epoll.remove(end.socket.as_fd());
        let (id, number) = end.of;
        if let Some(state) = &self.shared.at(id).1.client {
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
