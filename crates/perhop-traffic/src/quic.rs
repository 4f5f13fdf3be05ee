//! QUIC connections: one thread serves both ends of all.
//!
//! `quinn_proto` is the protocol; this module is its sockets, clock and applications. The end that
//! sends data opens the connection. Both ends are in this process, so that the receiver knows the
//! connections that it accepts by their addresses.

mod config;
mod connection;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use perhop_core::TrafficClass;
use perhop_socket::{Batch, Epoll, Event as Ready, Interest, Nanos, Socket};
use perhop_workload::{QuicPlan, TransportPlan};
use quinn_proto::{
    ClientConfig, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, EndpointConfig,
    Incoming, ServerConfig,
};

use crate::error::TrafficError;
use crate::job::Job;
use crate::open::{Opened, StreamAddresses};
use crate::shared::{Shared, StreamId};

use config::Identity;
use connection::Link;
pub(crate) use connection::QuicCounters;

/// Bytes that a sender writes at once.
const CHUNK: usize = 1 << 20;
/// Datagrams that are read at once, and batches of them before the next socket.
const BATCH: usize = 32;
const MAX_BATCHES: usize = 4;

/// Settings of a flow.
#[derive(Debug)]
struct Settings {
    plan: QuicPlan,
    client: ClientConfig,
    server: Arc<ServerConfig>,
}

/// Sockets and settings of a job's QUIC connections, until they start.
#[derive(Debug)]
pub(crate) struct QuicSockets {
    listeners: Vec<(SocketAddr, Socket)>,
    settings: BTreeMap<usize, Settings>,
    /// Streams by the addresses of sender and receiver.
    expected: HashMap<(SocketAddr, SocketAddr), StreamId>,
}

impl QuicSockets {
    /// Takes the sockets of a job's receivers; `None` if it has no flow over QUIC.
    ///
    /// # Errors
    /// [`TrafficError::Quic`] if quinn lacks a setting.
    pub fn new(
        job: &Job,
        lines: &[StreamAddresses],
        opened: &mut BTreeMap<u16, Opened>,
    ) -> Result<Option<Self>, TrafficError> {
        let mut identity = None;
        let mut settings = BTreeMap::new();
        for (number, flow) in job.flows.iter().enumerate() {
            let TransportPlan::Quic(plan) = &flow.transport else { continue };
            let mut made = || {
                let identity = match &mut identity {
                    Some(identity) => identity,
                    none => none.insert(Identity::generate()?),
                };
                let server = Arc::new(config::server(identity, plan)?);
                let client = config::client(identity, plan)?;
                Ok(Settings { plan: plan.clone(), client, server })
            };
            let made = made().map_err(|what| TrafficError::Quic { flow: flow.name.clone(), what });
            settings.insert(number, made?);
        }
        if settings.is_empty() {
            return Ok(None);
        }
        let mut expected = HashMap::new();
        let mut next = vec![0; job.flows.len()];
        for line in lines {
            let id = StreamId { flow: line.flow, stream: next[line.flow] };
            next[line.flow] += 1;
            if settings.contains_key(&line.flow) {
                expected.insert((line.from, line.to), id);
            }
        }
        let listeners = opened.values_mut().flat_map(|host| host.quic.drain(..)).collect();
        Ok(Some(Self { listeners, settings, expected }))
    }

    /// Runs all connections until the end of the run.
    pub fn run(self, shared: &Shared) -> io::Result<()> {
        let most = |settings: &Settings| settings.plan.datagram.max(settings.plan.max_datagram);
        let most = self.settings.values().map(most).max().unwrap_or(0);
        let mut config = EndpointConfig::default();
        config.max_udp_payload_size(most).map_err(io::Error::other)?;
        let config = Arc::new(config);
        let mut ends = Vec::new();
        let mut timers = BinaryHeap::new();
        for (&(from, to), &id) in &self.expected {
            let Some(socket) = shared.at(id).1.sender.get() else { continue };
            let endpoint = Endpoint::new(Arc::clone(&config), None, true, None);
            timers
                .push(Reverse((shared.flows[id.flow].starts[id.stream], Timer::Start(ends.len()))));
            ends.push(End::new(socket, from, Some((id, to)), endpoint));
        }
        for (at, socket) in &self.listeners {
            // Connections have the settings of their flow.
            let Some(any) = self.settings.values().next() else { continue };
            let server = Some(Arc::clone(&any.server));
            let endpoint = Endpoint::new(Arc::clone(&config), server, true, None);
            ends.push(End::new(socket, *at, None, endpoint));
        }
        let epoll = Epoll::new()?;
        for (number, end) in ends.iter().enumerate() {
            epoll.add(end.socket.as_fd(), number as u64, Interest::Readable)?;
        }
        shared.clock.await_zero();
        let now = Instant::now();
        Driver {
            shared,
            epoll,
            zero: now.checked_sub(Duration::from_nanos(shared.clock.now())).unwrap_or(now),
            ends,
            timers,
            settings: &self.settings,
            expected: &self.expected,
            data: Bytes::from(vec![0; CHUNK]),
            batch: Batch::new(BATCH, usize::from(most)),
            buffer: Vec::new(),
        }
        .run()
    }
}

/// Reason to wake at an instant. Numbers are those of ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Start(usize),
    Stop(usize),
    Connection(usize, ConnectionHandle),
}

/// A datagram that waits for room in its socket.
#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    to: SocketAddr,
    class: TrafficClass,
}

/// A socket with its connections: one that it opens, or all that it accepts.
#[derive(Debug)]
struct End<'a> {
    socket: &'a Socket,
    at: SocketAddr,
    opens: Option<(StreamId, SocketAddr)>,
    endpoint: Endpoint,
    links: BTreeMap<ConnectionHandle, Link>,
    waiting: VecDeque<Waiting>,
}

impl<'a> End<'a> {
    fn new(
        socket: &'a Socket,
        at: SocketAddr,
        opens: Option<(StreamId, SocketAddr)>,
        endpoint: Endpoint,
    ) -> Self {
        Self { socket, at, opens, endpoint, links: BTreeMap::new(), waiting: VecDeque::new() }
    }

    /// Sends a datagram, or keeps it if the socket is full. Others that cannot be sent are lost, as
    /// on any link.
    fn send(&mut self, bytes: &[u8], to: SocketAddr, class: TrafficClass) {
        let sent = self.socket.send_from(bytes, None, to, class.octet());
        if sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.waiting.push_back(Waiting { bytes: bytes.to_vec(), to, class });
        }
    }
}

struct Driver<'a> {
    shared: &'a Shared,
    epoll: Epoll,
    /// Instant at which the scenario begins.
    zero: Instant,
    ends: Vec<End<'a>>,
    timers: BinaryHeap<Reverse<(Nanos, Timer)>>,
    settings: &'a BTreeMap<usize, Settings>,
    expected: &'a HashMap<(SocketAddr, SocketAddr), StreamId>,
    data: Bytes,
    batch: Batch,
    buffer: Vec<u8>,
}

impl Driver<'_> {
    fn run(&mut self) -> io::Result<()> {
        let mut ready = vec![Ready { events: 0, u64: 0 }; 256];
        while !self.shared.clock.is_over() {
            let next = self.timers.peek().map_or(Nanos::MAX, |Reverse((at, _))| *at);
            let count = self.epoll.wait(&mut ready, self.shared.clock.wake(next))?;
            for event in &ready[..count] {
                let (number, events) = (event.u64 as usize, event.events as libc::c_int);
                if events & libc::EPOLLOUT != 0 {
                    self.flush(number)?;
                }
                self.receive(number)?;
            }
            let now = self.shared.clock.now();
            while let Some(&Reverse((at, timer))) = self.timers.peek()
                && at <= now
            {
                self.timers.pop();
                self.on_timer(at, timer)?;
            }
        }
        Ok(())
    }

    fn on_timer(&mut self, at: Nanos, timer: Timer) -> io::Result<()> {
        match timer {
            Timer::Start(number) => self.start(number),
            Timer::Stop(number) => {
                let handles: Vec<_> = self.ends[number].links.keys().copied().collect();
                self.ends[number].links.values_mut().for_each(Link::stop);
                handles.into_iter().try_for_each(|handle| self.drive(number, handle))
            }
            Timer::Connection(number, handle) => {
                let links = &mut self.ends[number].links;
                let Some(link) = links.get_mut(&handle).filter(|link| link.timer == at) else {
                    return Ok(()); // an earlier one was set since
                };
                link.timer = Nanos::MAX;
                link.connection.handle_timeout(Instant::now());
                self.drive(number, handle)
            }
        }
    }

    /// Opens a connection.
    fn start(&mut self, number: usize) -> io::Result<()> {
        let end = &mut self.ends[number];
        let Some((id, to)) = end.opens else { return Ok(()) };
        let flow = &self.shared.flows[id.flow];
        let Some(settings) = self.settings.get(&id.flow) else { return Ok(()) };
        // The name is not verified; the key is.
        match end.endpoint.connect(Instant::now(), settings.client.clone(), to, "perhop") {
            Ok((handle, connection)) => {
                end.links.insert(handle, Link::sender(id, connection, self.data.clone()));
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
            let Ok(count) = self.batch.receive(self.ends[number].socket) else { break };
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
        let (now, bytes) = (Instant::now(), BytesMut::from(datagram.bytes));
        let end = &mut self.ends[number];
        self.buffer.clear();
        let handled = datagram
            .from
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
        match handle.and_then(|handle| self.ends[number].links.get_mut(&handle)) {
            Some(link) => link.count(self.shared, class),
            None => self.shared.unknown_sender(),
        }
        handle
    }

    fn accept(&mut self, number: usize, incoming: Incoming) -> Option<ConnectionHandle> {
        let end = &mut self.ends[number];
        let id = self.expected.get(&(incoming.remote_address(), end.at)).copied();
        let known = id.and_then(|id| Some((id, self.settings.get(&id.flow)?)));
        let Some((id, settings)) = known else {
            end.endpoint.ignore(incoming);
            return None;
        };
        let server = Some(Arc::clone(&settings.server));
        match end.endpoint.accept(incoming, Instant::now(), &mut self.buffer, server) {
            Ok((handle, connection)) => {
                end.links.insert(handle, Link::receiver(id, connection));
                Some(handle)
            }
            Err(error) => {
                let (name, cause) = (&self.shared.flows[id.flow].name, error.cause);
                self.shared.warn(format!("{name}: cannot accept a connection: {cause}"));
                None
            }
        }
    }

    /// Has a connection do all that is due: its application reads and writes, and it sends.
    fn drive(&mut self, number: usize, handle: ConnectionHandle) -> io::Result<()> {
        let end = &mut self.ends[number];
        let Some(link) = end.links.get_mut(&handle) else { return Ok(()) };
        while let Some(event) = link.connection.poll_endpoint_events() {
            if let Some(event) = end.endpoint.handle_event(handle, event) {
                link.connection.handle_event(event);
            }
        }
        let streams = self.settings.get(&link.id.flow).map_or(1, |settings| settings.plan.streams);
        link.run(self.shared, (streams, self.shared.flows[link.id.flow].volume));
        let was_waiting = !end.waiting.is_empty();
        while end.waiting.is_empty() {
            let Some(link) = end.links.get_mut(&handle) else { break };
            self.buffer.clear();
            let now = Instant::now();
            let Some(packet) = link.connection.poll_transmit(now, 1, &mut self.buffer) else {
                break;
            };
            let class = link.class(self.shared, packet.ecn.is_some());
            end.send(&self.buffer[..packet.size], packet.destination, class);
        }
        if !was_waiting && !end.waiting.is_empty() {
            self.epoll.change(end.socket.as_fd(), number as u64, Interest::Both)?;
        }
        let Some(link) = end.links.get_mut(&handle) else { return Ok(()) };
        if let Some(due) = link.connection.poll_timeout() {
            let due = due.saturating_duration_since(self.zero).as_nanos() as Nanos;
            if due < link.timer {
                link.timer = due;
                self.timers.push(Reverse((due, Timer::Connection(number, handle))));
            }
        }
        Ok(())
    }

    /// Sends the datagrams that have waited for room in their socket.
    fn flush(&mut self, number: usize) -> io::Result<()> {
        let end = &mut self.ends[number];
        for Waiting { bytes, to, class } in std::mem::take(&mut end.waiting) {
            end.send(&bytes, to, class);
        }
        if !end.waiting.is_empty() {
            return Ok(());
        }
        self.epoll.change(end.socket.as_fd(), number as u64, Interest::Readable)?;
        let handles: Vec<_> = end.links.keys().copied().collect();
        handles.into_iter().try_for_each(|handle| self.drive(number, handle))
    }
}
