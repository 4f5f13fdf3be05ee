//! An end of a connection: its application, and its counters.

use bytes::Bytes;
use perhop_core::{Duration, Ecn, TrafficClass};
use perhop_measure::Samples;
use perhop_socket::Nanos;
use quinn_proto::{Connection, Dir, Event, StreamEvent, VarInt};

use crate::readings::{ConnectionReceiver, ConnectionSender};
use crate::shared::{Shared, StreamId};
use crate::stream::{StreamState, lock};

/// Bytes that one of several streams writes before the next one.
const TURN: usize = 16 << 10;

/// Counters of a connection that all threads see.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QuicCounters {
    /// Datagrams with data that have arrived, and those of them with congestion experienced.
    packets: u64,
    marked: u64,
    /// Acknowledgements that the receiver has sent.
    acks: u64,
    /// Packets that the sender has declared lost.
    lost: u64,
    /// The sender's congestion window, once the connection is open.
    cwnd: Option<u64>,
    /// The sender's smoothed round-trip time, if an acknowledgement has arrived since it was taken.
    srtt: Option<Duration>,
    /// Acknowledgements that have arrived at the sender.
    heard: u64,
}

impl QuicCounters {
    /// Returns the smoothed round-trip time if an acknowledgement has arrived since the last call.
    pub fn take_srtt(&mut self) -> Option<Duration> {
        self.srtt.take()
    }

    /// Returns the reading of the receiver, which has `delivered` bytes.
    pub fn receiver(&self, delivered: u64, completion: Option<Duration>) -> ConnectionReceiver {
        let Self { packets, marked, acks, .. } = *self;
        ConnectionReceiver { delivered, packets, marked: Some(marked), acks, completion }
    }

    /// Returns the reading of the sender.
    pub fn sender(&self, srtt: Samples) -> ConnectionSender {
        ConnectionSender { retransmits: self.lost, cwnd: self.cwnd, srtt, ..Default::default() }
    }
}

/// An application at the end of a connection.
#[derive(Debug)]
enum Application {
    /// It writes to streams, each with the bytes that are left.
    Sender { streams: Vec<(quinn_proto::StreamId, u64)>, next: usize, data: Bytes },
    /// It reads from all streams.
    Receiver { frames: u64 },
}

/// An end of a connection.
#[derive(Debug)]
pub(super) struct Link {
    pub id: StreamId,
    pub connection: Connection,
    /// Instant for which a timer is set.
    pub timer: Nanos,
    application: Application,
    stopped: bool,
}

impl Link {
    /// Returns the end that opens the connection, and sends `data` again and again.
    pub fn sender(id: StreamId, connection: Connection, data: Bytes) -> Self {
        let application = Application::Sender { streams: Vec::new(), next: 0, data };
        Self { id, connection, timer: Nanos::MAX, application, stopped: false }
    }

    /// Returns the end that has accepted the connection.
    pub fn receiver(id: StreamId, connection: Connection) -> Self {
        let application = Application::Receiver { frames: 0 };
        Self { id, connection, timer: Nanos::MAX, application, stopped: false }
    }

    /// Returns the traffic class of a packet that is sent. Only the sender's are ECN-capable, as
    /// long as quinn finds that the path keeps their marks (RFC 9000, section 13.4.2).
    pub fn class(&self, shared: &Shared, capable: bool) -> TrafficClass {
        let [data, answer] = shared.flows[self.id.flow].classes;
        match (&self.application, capable) {
            (Application::Sender { .. }, true) => data,
            (Application::Sender { .. }, false) => data.with_ecn(Ecn::NotEct),
            (Application::Receiver { .. }, _) => answer,
        }
    }

    /// Counts a datagram that was given to the connection.
    pub fn count(&mut self, shared: &Shared, class: u8) {
        let (flow, stream) = shared.at(self.id);
        let end = usize::from(matches!(self.application, Application::Sender { .. }));
        lock(&flow.received).count(end, class, 1);
        let Application::Receiver { frames } = &mut self.application else { return };
        let now = self.connection.stats().frame_rx.stream;
        if std::mem::replace(frames, now) == now {
            return;
        }
        if let Some(counters) = &stream.quic {
            let mut counters = lock(counters);
            counters.packets += 1;
            counters.marked += u64::from(class & 3 == Ecn::Ce as u8);
        }
    }

    /// Ends the data: what was not acknowledged is not sent again.
    pub fn stop(&mut self) {
        self.stopped = true;
        let Application::Sender { streams, .. } = &mut self.application else { return };
        for (stream, _) in streams.drain(..) {
            // One that has finished needs no end.
            let _ = self.connection.send_stream(stream).reset(VarInt::from_u32(0));
        }
    }

    /// Handles the events of the connection: reads, and writes as much as there is room for.
    pub fn run(&mut self, shared: &Shared, plan: (u32, Option<u64>)) {
        let (flow, stream) = shared.at(self.id);
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.open(plan),
                Event::Stream(StreamEvent::Writable { .. }) => self.write(),
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    while let Some(opened) = self.connection.streams().accept(Dir::Uni) {
                        self.read(shared, opened);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(shared, id),
                Event::ConnectionLost { reason } => {
                    shared.warn(format!("{}: the connection was lost: {reason}", flow.name));
                }
                _ => {}
            }
        }
        self.publish(stream);
    }

    /// Opens the streams, which share the bytes to send.
    fn open(&mut self, (count, volume): (u32, Option<u64>)) {
        let Application::Sender { streams, .. } = &mut self.application else { return };
        if self.stopped {
            return;
        }
        let share = |place: u64| match (volume, u64::from(count)) {
            (Some(bytes), count) => bytes / count + u64::from(place < bytes % count),
            (None, _) => u64::MAX,
        };
        let opened = (0..count.into()).map_while(|place| {
            self.connection.streams().open(Dir::Uni).map(|stream| (stream, share(place)))
        });
        *streams = opened.collect();
        self.write();
    }

    /// Writes to the streams in turn until no one has room.
    fn write(&mut self) {
        let Application::Sender { streams, next, data } = &mut self.application else { return };
        let turn = if streams.len() == 1 { data.len() } else { TURN };
        let mut blocked = 0;
        while blocked < streams.len() {
            *next = (*next + 1) % streams.len();
            let (id, left) = &mut streams[*next];
            let chunk = data.slice(..turn.min((*left).try_into().unwrap_or(usize::MAX)));
            let mut stream = self.connection.send_stream(*id);
            match stream.write_chunks(&mut [chunk]) {
                Ok(written) => {
                    blocked = 0;
                    if *left != u64::MAX {
                        *left -= written.bytes as u64;
                    }
                    if *left == 0 {
                        let _ = stream.finish();
                        streams.swap_remove(*next);
                    }
                }
                Err(_) => blocked += 1,
            }
        }
    }

    fn read(&mut self, shared: &Shared, id: quinn_proto::StreamId) {
        let mut bytes = 0;
        {
            let mut stream = self.connection.recv_stream(id);
            // A stream that was reset has nothing more.
            let Ok(mut chunks) = stream.read(true) else { return };
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                bytes += chunk.bytes.len() as u64;
            }
            let _ = chunks.finalize();
        }
        if bytes > 0 {
            let (flow, stream) = shared.at(self.id);
            let since_start = shared.clock.now().saturating_sub(flow.starts[self.id.stream]);
            stream.deliver(bytes, flow.volume, since_start);
        }
    }

    /// Shows the counters of the connection to other threads.
    fn publish(&self, stream: &StreamState) {
        let Some(counters) = &stream.quic else { return };
        let stats = self.connection.stats();
        let mut counters = lock(counters);
        match self.application {
            Application::Receiver { .. } => counters.acks = stats.frame_tx.acks,
            Application::Sender { .. } => {
                counters.lost = stats.path.lost_packets;
                counters.cwnd = Some(stats.path.cwnd);
                if counters.heard != stats.frame_rx.acks {
                    counters.heard = stats.frame_rx.acks;
                    let nanos = u64::try_from(stats.path.rtt.as_nanos()).unwrap_or(u64::MAX);
                    counters.srtt = Some(crate::clock::duration(nanos));
                }
            }
        }
    }
}
