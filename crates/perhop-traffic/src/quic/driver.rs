//! The thread of all connections.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use perhop_socket::{Batch, Epoll, Event as Ready, Interest, Nanos, Socket};
use quinn_proto::{
    ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig, EndpointEvent,
    Incoming, ServerConfig,
};

use super::end::End;
use super::link::{Bulk, Link};
use super::requests::{IDLE_TIMEOUT, zeros};
use super::{Expected, Settings};
use crate::app::Clients;
use crate::open::ClientSockets;
use crate::shared::{Shared, StreamId};

/// Bytes that a sender writes at once.
const CHUNK: usize = 1 << 20;
/// Datagrams that are read at once, and batches of them before the next socket.
const BATCH: usize = 32;
const MAX_BATCHES: usize = 4;

/// A connection that is opened from known addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    /// Stream, and the connection's number there.
    pub of: (StreamId, u32),
    /// The other end, once it has accepted the connection.
    pub accepted: Option<(usize, ConnectionHandle)>,
}

/// Reason to wake at an instant. Numbers are those of ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Start(usize),
    Stop(usize),
    Connection(usize, ConnectionHandle),
    /// A server forgets a connection whose client is gone.
    Forget(usize, ConnectionHandle, (StreamId, u32)),
}

pub(super) struct Driver<'a> {
    pub shared: &'a Shared,
    pub clients: Clients<'a>,
    pub settings: BTreeMap<usize, Settings>,
    /// Sockets of clients, of which there may be `most`.
    pub sockets: ClientSockets,
    pub most: u64,
    pub ends: HashMap<usize, End>,
    pub expected: Expected,
    /// Clients' ends of connections.
    pub at_clients: BTreeMap<(StreamId, u32), (usize, ConnectionHandle)>,
    pub data: Bytes,
    config: Arc<EndpointConfig>,
    epoll: Epoll,
    /// Number of the next end. No number is used again.
    next: usize,
    /// Instant at which the scenario begins.
    zero: Instant,
    timers: BinaryHeap<Reverse<(Nanos, Timer)>>,
    batch: Batch,
    buffer: Vec<u8>,
}

impl<'a> Driver<'a> {
    pub fn new(
        shared: &'a Shared,
        settings: BTreeMap<usize, Settings>,
        config: Arc<EndpointConfig>,
        (sockets, most): (ClientSockets, u64),
    ) -> io::Result<Self> {
        Ok(Self {
            shared,
            clients: Clients::new(shared, true),
            settings,
            sockets,
            most,
            ends: HashMap::new(),
            expected: HashMap::new(),
            at_clients: BTreeMap::new(),
            data: zeros(CHUNK),
            epoll: Epoll::new()?,
            next: 0,
            zero: Instant::now(),
            timers: BinaryHeap::new(),
            batch: Batch::new(BATCH, config.get_max_udp_payload_size() as usize),
            buffer: Vec::new(),
            config,
        })
    }

    /// Returns a new endpoint, which accepts connections if it has settings for them.
    pub fn endpoint(&self, server: Option<Arc<ServerConfig>>) -> Endpoint {
        Endpoint::new(Arc::clone(&self.config), server, true, None)
    }

    /// Adds an end. Returns its number.
    pub fn add(&mut self, end: End) -> io::Result<usize> {
        let number = self.next;
        self.next += 1;
        self.epoll.add(end.socket.as_fd(), number as u64, Interest::Readable)?;
        self.ends.insert(number, end);
        Ok(number)
    }

    /// Adds the sender of a bulk transfer.
    pub fn add_sender(
        &mut self,
        id: StreamId,
        socket: Socket,
        [from, to]: [SocketAddr; 2],
    ) -> io::Result<()> {
        let end = End::new(socket, from, Some((id, to)), self.endpoint(None));
        let number = self.add(end)?;
        self.expected.insert((from, to), Opening { of: (id, 0), accepted: None });
        let start = self.shared.flows[id.flow].starts[id.stream];
        self.timers.push(Reverse((start, Timer::Start(number))));
        Ok(())
    }

    /// Adds a socket at which connections arrive.
    pub fn add_listener(&mut self, at: SocketAddr, socket: Socket) -> io::Result<()> {
        // Connections have the settings of their flow.
        let any = self.settings.values().next().map(|any| Arc::clone(&any.server));
        let endpoint = self.endpoint(any);
        self.add(End::new(socket, at, None, endpoint)).map(drop)
    }

    pub fn run(&mut self) -> io::Result<()> {
        let now = Instant::now();
        self.zero = now.checked_sub(Duration::from_nanos(self.shared.clock.now())).unwrap_or(now);
        let mut ready = vec![Ready { events: 0, u64: 0 }; 256];
        self.act()?;
        while !self.shared.clock.is_over() {
            let next = self.timers.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at);
            let next = self.shared.clock.wake(next.min(self.clients.deadline()));
            let count = self.epoll.wait(&mut ready, next)?;
            for event in &ready[..count] {
                let (number, events) = (event.u64 as usize, event.events as libc::c_int);
                if events & libc::EPOLLOUT != 0 {
                    self.flush(number)?;
                }
                self.receive(number)?;
                self.act()?;
            }
            let now = self.shared.clock.now();
            while let Some(&Reverse((at, timer))) = self.timers.peek()
                && at <= now
            {
                self.timers.pop();
                self.on_timer(at, timer)?;
            }
            self.act()?;
        }
        Ok(())
    }

    fn on_timer(&mut self, at: Nanos, timer: Timer) -> io::Result<()> {
        match timer {
            Timer::Start(number) => self.start(number),
            Timer::Stop(number) => {
                let Some(end) = self.ends.get_mut(&number) else { return Ok(()) };
                end.links.values_mut().for_each(Link::stop);
                self.drive_all(number)
            }
            Timer::Connection(number, handle) => {
                let links = self.ends.get_mut(&number).map(|end| &mut end.links);
                let link = links.and_then(|links| links.get_mut(&handle));
                // Another one may have been set since.
                let Some(link) = link.filter(|link| link.timer == at) else { return Ok(()) };
                link.timer = Nanos::MAX;
                link.connection.handle_timeout(Instant::now());
                self.drive(number, handle)
            }
            Timer::Forget(number, handle, of) => {
                if let Some(end) = self.ends.get_mut(&number)
                    && end.links.get(&handle).is_some_and(|link| (link.id, link.number) == of)
                {
                    end.endpoint.handle_event(handle, EndpointEvent::drained());
                    self.end(number, handle);
                }
                Ok(())
            }
        }
    }

    /// Opens the connection of a bulk transfer.
    fn start(&mut self, number: usize) -> io::Result<()> {
        let Some(end) = self.ends.get_mut(&number) else { return Ok(()) };
        let Some((id, to)) = end.opens else { return Ok(()) };
        let flow = &self.shared.flows[id.flow];
        let Some(settings) = self.settings.get(&id.flow) else { return Ok(()) };
        // The name is not verified; the key is.
        match end.endpoint.connect(Instant::now(), settings.client.clone(), to, "perhop") {
            Ok((handle, connection)) => {
                let bulk = Bulk { streams: settings.plan.streams, volume: flow.volume };
                end.links.insert(handle, Link::sender(id, connection, bulk, self.data.clone()));
                if let Some(stop) = flow.stop {
                    self.timers.push(Reverse((stop, Timer::Stop(number))));
                }
                self.drive(number, handle)
            }
            Err(error) => {
                self.shared.warn(format!("{}: cannot connect to {to}: {error}", flow.name));
                Ok(())
            }
        }
    }

    /// Reads the datagrams that have arrived at an end.
    fn receive(&mut self, number: usize) -> io::Result<()> {
        for _ in 0..MAX_BATCHES {
            let Some(end) = self.ends.get(&number) else { break };
            let Ok(count) = self.batch.receive(&end.socket) else { break };
            let mut touched = Vec::new();
            for place in 0..count {
                let handle = self.take(number, place);
                touched.extend(handle.filter(|handle| !touched.contains(handle)));
            }
            touched.into_iter().try_for_each(|handle| self.drive(number, handle))?;
            if count < BATCH {
                break;
            }
        }
        Ok(())
    }

    /// Gives a datagram of the batch to its connection, which is returned.
    fn take(&mut self, number: usize, place: usize) -> Option<ConnectionHandle> {
        let datagram = self.batch.get(place);
        let class = datagram.control.traffic_class.unwrap_or(0);
        let ecn = EcnCodepoint::from_bits(class & 3);
        let (now, bytes, from) = (Instant::now(), BytesMut::from(datagram.bytes), datagram.from);
        let end = self.ends.get_mut(&number)?;
        self.buffer.clear();
        let handled = from
            .and_then(|from| end.endpoint.handle(now, from, None, ecn, bytes, &mut self.buffer));
        let handle = match handled {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                end.links.get_mut(&handle)?.connection.handle_event(event);
                Some(handle)
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(number, incoming),
            // No answers to unknown senders.
            Some(DatagramEvent::Response(_)) | None => None,
        };
        let end = self.ends.get_mut(&number)?;
        match handle.and_then(|handle| end.links.get_mut(&handle)) {
            Some(link) => link.count(self.shared, class),
            // A connection that has ended is known as long as its client is.
            None if from.is_some_and(|from| self.expected.contains_key(&(from, end.at))) => {}
            None => self.shared.unknown_sender(),
        }
        handle
    }

    fn accept(&mut self, number: usize, incoming: Incoming) -> Option<ConnectionHandle> {
        let end = self.ends.get_mut(&number)?;
        let opening = self.expected.get_mut(&(incoming.remote_address(), end.at));
        let opening = opening.filter(|opening| opening.accepted.is_none());
        let known = opening.and_then(|opening| {
            let settings = self.settings.get(&opening.of.0.flow)?;
            Some((opening, settings))
        });
        let Some((opening, settings)) = known else {
            end.endpoint.ignore(incoming);
            return None;
        };
        let (id, connection_number) = opening.of;
        let server = Some(Arc::clone(&settings.server));
        match end.endpoint.accept(incoming, Instant::now(), &mut self.buffer, server) {
            Ok((handle, connection)) => {
                opening.accepted = Some((number, handle));
                let link = match self.shared.at(id).1.client {
                    Some(_) => Link::server(opening.of, connection, self.data.clone()),
                    None => Link::receiver(id, connection),
                };
                end.links.insert(handle, link);
                Some(handle)
            }
            Err(error) => {
                let (name, cause) = (&self.shared.flows[id.flow].name, error.cause);
                let what = format!("{name}: cannot accept connection {connection_number}: {cause}");
                self.shared.warn(what);
                None
            }
        }
    }

    /// Has a connection do all that is due: its application reads and writes, and it sends.
    pub fn drive(&mut self, number: usize, handle: ConnectionHandle) -> io::Result<()> {
        let Some(end) = self.ends.get_mut(&number) else { return Ok(()) };
        let Some(link) = end.links.get_mut(&handle) else { return Ok(()) };
        while let Some(event) = link.connection.poll_endpoint_events() {
            if let Some(event) = end.endpoint.handle_event(handle, event) {
                link.connection.handle_event(event);
            }
        }
        link.run(self.shared, &mut self.clients);
        if link.connection.is_drained() {
            self.end(number, handle);
            return Ok(());
        }
        let was_full = end.is_full();
        while !end.is_full() {
            let Some(link) = end.links.get_mut(&handle) else { break };
            self.buffer.clear();
            let now = Instant::now();
            let Some(packet) = link.connection.poll_transmit(now, 1, &mut self.buffer) else {
                break;
            };
            let class = link.class(self.shared, packet.ecn.is_some());
            end.send(&self.buffer[..packet.size], packet.destination, class);
        }
        if !was_full && end.is_full() {
            self.epoll.change(end.socket.as_fd(), number as u64, Interest::Both)?;
        }
        let Some(link) = end.links.get_mut(&handle) else { return Ok(()) };
        let timeout = link.connection.poll_timeout();
        let due = timeout
            .map_or(Nanos::MAX, |due| due.saturating_duration_since(self.zero).as_nanos() as Nanos);
        let due = due.min(link.deadline());
        if due < link.timer {
            link.timer = due;
            self.timers.push(Reverse((due, Timer::Connection(number, handle))));
        }
        Ok(())
    }

    fn drive_all(&mut self, number: usize) -> io::Result<()> {
        let links = self.ends.get(&number).map(|end| end.links.keys().copied().collect());
        let handles: Vec<_> = links.unwrap_or_default();
        handles.into_iter().try_for_each(|handle| self.drive(number, handle))
    }

    /// Sends the datagrams that have waited for room in their socket.
    fn flush(&mut self, number: usize) -> io::Result<()> {
        let Some(end) = self.ends.get_mut(&number) else { return Ok(()) };
        end.send_waiting();
        if end.is_full() {
            return Ok(());
        }
        self.epoll.change(end.socket.as_fd(), number as u64, Interest::Readable)?;
        self.drive_all(number)
    }

    /// Ends a connection that is over at one end, and the socket that has opened it.
    fn end(&mut self, number: usize, handle: ConnectionHandle) {
        let Some(end) = self.ends.get_mut(&number) else { return };
        let Some(link) = end.links.remove(&handle) else { return };
        link.end(self.shared);
        let Some((_, to)) = end.opens else { return };
        let of = (link.id, link.number);
        self.at_clients.remove(&of);
        let opening = self.expected.remove(&(end.at, to));
        if let Some((other, handle)) = opening.and_then(|opening| opening.accepted) {
            let at = self.shared.clock.now() + IDLE_TIMEOUT;
            self.timers.push(Reverse((at, Timer::Forget(other, handle, of))));
        }
        let _ = self.epoll.remove(end.socket.as_fd());
        self.ends.remove(&number);
    }
}
