//! An end of a connection: its application, and its counters.

use bytes::Bytes;
use perhop_app::{Event as News, Request};
use perhop_core::{Ecn, TrafficClass};
use perhop_socket::Nanos;
use quinn_proto::{
    Connection, ConnectionError, Dir, Event, StreamEvent, StreamId as QuicStream, VarInt,
};

use super::counters::Published;
use super::exchange::{Client, Server};
use super::outgoing::Outgoing;
use crate::app::Clients;
use crate::clock::{nanos, time};
use crate::shared::{Shared, StreamId};
use crate::stream::lock;

/// Bytes that one of several streams of a bulk transfer writes before the next one.
const TURN: usize = 16 << 10;

/// Bytes that a server writes beyond those that it may have in flight, so that it always has some
/// to send.
const LOW_WATER: u64 = 16 << 10;

/// Bytes that a server writes, in congestion windows: the one in flight, and as much that has
/// arrived after a gap, which quinn keeps until the gap is filled. The last is in reserve. What is
/// written beyond would take the connection's flow control from later responses.
const WRITTEN: u64 = 3;

/// What the stream of a flow sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bulk {
    pub streams: u32,
    pub volume: Option<u64>,
}

/// The application at an end of a connection.
#[derive(Debug)]
enum Application {
    /// It sends bytes.
    Sender(Bulk),
    /// It reads them.
    Receiver,
    /// It sends requests, and reads responses.
    Client(Client),
    /// It reads requests, and sends responses.
    Server(Server),
}

/// An end of a connection.
#[derive(Debug)]
pub(super) struct Link {
    pub id: StreamId,
    /// Number of the connection at its client.
    pub number: u32,
    pub connection: Connection,
    /// Instant for which a timer is set.
    pub timer: Nanos,
    application: Application,
    outgoing: Outgoing,
    published: Published,
    /// Frames of streams that have arrived.
    frames: u64,
    stopped: bool,
}

impl Link {
    fn new(
        (id, number): (StreamId, u32),
        connection: Connection,
        application: Application,
        outgoing: Outgoing,
    ) -> Self {
        Self {
            id,
            number,
            connection,
            timer: Nanos::MAX,
            application,
            outgoing,
            published: Published::default(),
            frames: 0,
            stopped: false,
        }
    }

    /// Returns the end that opens a connection to send `data` again and again.
    pub fn sender(id: StreamId, connection: Connection, bulk: Bulk, data: Bytes) -> Self {
        let outgoing = Outgoing::new(data, TURN);
        Self::new((id, 0), connection, Application::Sender(bulk), outgoing)
    }

    /// Returns the end that accepts such a connection.
    pub fn receiver(id: StreamId, connection: Connection) -> Self {
        Self::new((id, 0), connection, Application::Receiver, Outgoing::new(Bytes::new(), TURN))
    }

    /// Returns the client's end of a connection, whose requests have these contents. Its streams
    /// take turns with each packet.
    pub fn client(of: (StreamId, u32), connection: Connection, data: Bytes) -> Self {
        let outgoing = Outgoing::new(data, connection.current_mtu().into());
        Self::new(of, connection, Application::Client(Client::default()), outgoing)
    }

    /// Returns the server's end of a connection, whose responses have these contents.
    pub fn server(of: (StreamId, u32), connection: Connection, data: Bytes) -> Self {
        let outgoing = Outgoing::new(data, connection.current_mtu().into());
        Self::new(of, connection, Application::Server(Server::default()), outgoing)
    }

    /// Returns true at the source of the flow's data.
    fn is_at_source(&self) -> bool {
        matches!(self.application, Application::Sender(_) | Application::Server(_))
    }

    /// Returns the traffic class of a packet that is sent. Those of an end that sends data are
    /// ECN-capable, as long as quinn finds that the path keeps their marks (RFC 9000, section
    /// 13.4.2).
    pub fn class(&self, shared: &Shared, capable: bool) -> TrafficClass {
        let [data, answer] = shared.flows[self.id.flow].classes;
        match (&self.application, capable) {
            (Application::Receiver, _) => answer,
            (_, true) => data,
            (_, false) => data.with_ecn(Ecn::NotEct),
        }
    }

    /// Counts a datagram that was given to the connection.
    pub fn count(&mut self, shared: &Shared, class: u8) {
        let (flow, stream) = shared.at(self.id);
        lock(&flow.received).count(usize::from(self.is_at_source()), class, 1);
        if self.is_at_source() {
            return;
        }
        let frames = self.connection.stats().frame_rx.stream;
        if std::mem::replace(&mut self.frames, frames) != frames
            && let Some(counters) = &stream.quic
        {
            lock(counters).arrived(class);
        }
    }

    /// Ends the data of a bulk transfer.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.outgoing.reset(&mut self.connection);
    }

    /// Sends a request.
    pub fn request(&mut self, request: Request) {
        if let Application::Client(client) = &mut self.application {
            client.request(request);
            client.open_streams(&mut self.connection, &mut self.outgoing);
        }
    }

    /// Closes the client's end.
    pub fn close(&mut self, now: std::time::Instant) {
        if let Application::Client(client) = &mut self.application {
            client.closing = true;
            self.connection.close(now, VarInt::from_u32(0), Bytes::new());
        }
    }

    /// Returns the instant at which the application has something to do.
    pub fn deadline(&self) -> Nanos {
        match &self.application {
            Application::Server(server) => nanos(server.deadline().as_picos()),
            _ => Nanos::MAX,
        }
    }

    /// Handles the events of the connection: reads, and writes as much as there is room for.
    pub fn run(&mut self, shared: &Shared, clients: &mut Clients<'_>) {
        let mut writes = matches!(self.application, Application::Client(_));
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    self.open(clients);
                    writes = true;
                }
                Event::Stream(StreamEvent::Writable { .. }) => writes = true,
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(opened) = self.connection.streams().accept(dir) {
                        self.read(shared, clients, opened);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(shared, clients, id),
                Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => {
                    if let Application::Client(client) = &mut self.application {
                        client.open_streams(&mut self.connection, &mut self.outgoing);
                    }
                }
                Event::ConnectionLost { reason } => self.lose(shared, clients, &reason),
                _ => {}
            }
        }
        if let Application::Server(server) = &mut self.application {
            server.respond(time(shared.clock.now()), &mut self.outgoing);
            if !self.outgoing.is_empty() {
                let window = WRITTEN * self.connection.stats().path.cwnd + LOW_WATER;
                self.connection.set_send_window(window);
                writes = true;
            }
        }
        if writes {
            self.outgoing.write(&mut self.connection);
        }
        self.publish(shared);
    }

    /// Begins when the connection is open. The streams of a bulk transfer share its bytes.
    fn open(&mut self, clients: &mut Clients<'_>) {
        match &mut self.application {
            &mut Application::Sender(Bulk { streams, volume }) if !self.stopped => {
                let share = |place: u64| match (volume, u64::from(streams)) {
                    (Some(bytes), count) => bytes / count + u64::from(place < bytes % count),
                    (None, _) => u64::MAX,
                };
                for place in 0..streams.into() {
                    let Some(stream) = self.connection.streams().open(Dir::Uni) else { break };
                    self.outgoing.add(stream, Bytes::new(), share(place));
                }
            }
            Application::Client(client) => {
                client.open = true;
                clients.tell(self.id, News::Opened { connection: self.number });
            }
            _ => {}
        }
    }

    /// Learns that the connection has ended.
    fn lose(&mut self, shared: &Shared, clients: &mut Clients<'_>, reason: &ConnectionError) {
        let is_usual = match &self.application {
            Application::Server(_) => matches!(reason, ConnectionError::ApplicationClosed(_)),
            Application::Client(client) => client.closing,
            _ => false,
        };
        if is_usual {
            return;
        }
        let of = (self.id, self.number);
        if let Application::Client(client) = &self.application {
            if !client.open {
                return clients.cannot_open(of, format!("cannot open a connection: {reason}"));
            }
            clients.tell(self.id, News::Lost { connection: self.number });
        }
        let name = &shared.flows[self.id.flow].name;
        shared.warn(format!("{name}: a connection was lost: {reason}"));
    }

    fn read(&mut self, shared: &Shared, clients: &mut Clients<'_>, id: QuicStream) {
        let (mut bytes, mut ended, mut sound) = (0, false, true);
        let now = shared.clock.now();
        {
            let mut stream = self.connection.recv_stream(id);
            // A stream that was reset has nothing more.
            let Ok(mut chunks) = stream.read(true) else { return };
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => {
                        bytes += chunk.bytes.len() as u64;
                        if let Application::Server(server) = &mut self.application {
                            sound &= server.take(time(now), id, &chunk.bytes);
                        }
                    }
                    Ok(None) => {
                        ended = true;
                        break;
                    }
                    Err(_) => break,
                }
            }
            let _ = chunks.finalize();
        }
        if !sound {
            let malformed = Bytes::from_static(b"malformed request");
            self.connection.close(std::time::Instant::now(), VarInt::from_u32(1), malformed);
        }
        if bytes > 0 && !self.is_at_source() {
            let (flow, stream) = shared.at(self.id);
            let since_start = now.saturating_sub(flow.starts[self.id.stream]);
            stream.deliver(bytes, flow.volume, since_start);
        }
        if let Application::Client(client) = &mut self.application {
            let news = client.take(id, bytes).filter(|_| bytes > 0);
            news.into_iter().for_each(|news| clients.tell(self.id, news));
            if ended {
                client.end(id);
            }
        }
    }

    /// Shows the counters of the connection to other threads.
    fn publish(&mut self, shared: &Shared) {
        let Some(counters) = &shared.at(self.id).1.quic else { return };
        let stats = self.connection.stats();
        match self.is_at_source() {
            true => lock(counters).add_sender(self.number, &mut self.published, &stats),
            false => lock(counters).add_receiver(&mut self.published, &stats),
        }
    }

    /// Ends the counters of the connection.
    pub fn end(&self, shared: &Shared) {
        if let Some(counters) = &shared.at(self.id).1.quic
            && self.is_at_source()
        {
            lock(counters).end_sender(self.number);
        }
    }
}
