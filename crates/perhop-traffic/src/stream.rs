//! What threads share of each flow: its streams, their sockets and what was counted.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use perhop_core::{Dscp, Duration};
use perhop_measure::{DatagramMeter, Histogram};

use crate::offset::SenderClock;
use perhop_socket::{Nanos, Socket, TcpInfo};

/// How many packets there were of each code point.
pub(crate) type DscpCounts = [u64; Dscp::COUNT];

/// Which ends of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub source: bool,
    pub destination: bool,
}

/// A flow, of whichever transport.
#[derive(Debug)]
pub(crate) struct FlowState {
    pub name: String,
    /// The number of its source's node.
    pub from: usize,
    pub dscp: Dscp,
    /// When it starts, by the clock of the scenario.
    pub start: Nanos,
    pub stop: Option<Nanos>,
    pub volume: Option<u64>,
    /// The payload of a full segment, of TCP.
    pub segment: u64,
    /// What may be in flight, of TCP.
    pub window: u32,
    /// The ends that are in this process.
    pub here: Ends,
    /// The ends at which packets of TCP are watched.
    pub watched: Ends,
    pub streams: Vec<StreamState>,
    pub received: Mutex<FlowReceived>,
}

/// What was received of a flow.
#[derive(Debug, Default)]
pub(crate) struct FlowReceived {
    /// How long data was under way, since the last cut.
    pub delays: Histogram,
    /// Of UDP: by stream.
    pub datagrams: Vec<DatagramsReceived>,
    /// Packets that arrived at the destination, and at the source: of UDP all of them, of TCP those
    /// that have another code point than they were sent with.
    pub dscps: [Option<Box<DscpCounts>>; 2],
    /// The clock by which datagrams are stamped when they are sent.
    pub clock: SenderClock,
    /// The difference between the stamps of the first datagram.
    pub first_difference: Option<i64>,
    /// The greatest error bound of the clock offsets in use since the last reading.
    pub offset_bound: Option<Nanos>,
}

impl FlowReceived {
    pub fn count(&mut self, end: usize, dscp: u8, packets: u64) {
        let counts = self.dscps[end].get_or_insert_with(|| Box::new([0; Dscp::COUNT]));
        counts[usize::from(dscp)] += packets;
    }
}

/// What was received of a stream of datagrams.
#[derive(Debug, Default)]
pub(crate) struct DatagramsReceived {
    pub meter: DatagramMeter,
    /// One above the highest number.
    pub next: u64,
    /// The longest that one was under way.
    pub longest: Duration,
}

impl DatagramsReceived {
    /// How many have been overtaken and have not come.
    pub fn missing(&self) -> u64 {
        self.next.saturating_sub(self.meter.packets)
    }
}

/// A stream: its sockets, and the counts of its sender and its receiver.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub to: SocketAddr,
    /// The sender's socket, if the sender is here.
    pub sender: OnceLock<Socket>,
    /// Of TCP: the receiver's socket, once there is one.
    pub receiver: OnceLock<Socket>,
    /// Of TCP: bytes that the receiver's application took.
    pub delivered: AtomicU64,
    /// Of TCP: when the whole volume had arrived, in nanoseconds after the start; zero before.
    pub completion: AtomicU64,
    /// Of TCP: data packets that arrived with congestion experienced.
    pub marked: AtomicU64,
    /// Of TCP: whether it is open, so that there is something to know of it.
    pub open: AtomicBool,
    /// Of UDP: datagrams sent.
    pub sent: AtomicU64,
    /// Of TCP: what the receiver's connection and the sender's had counted before any data.
    pub before: [OnceLock<TcpInfo>; 2],
}

impl StreamState {
    pub fn new(to: SocketAddr, sender: Option<Socket>) -> Self {
        Self {
            to,
            sender: sender.map_or_else(OnceLock::new, OnceLock::from),
            receiver: OnceLock::new(),
            delivered: AtomicU64::new(0),
            completion: AtomicU64::new(0),
            marked: AtomicU64::new(0),
            open: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            before: [const { OnceLock::new() }; 2],
        }
    }

    /// The sender's socket, once it is connected.
    pub fn open_sender(&self) -> Option<&Socket> {
        self.sender.get().filter(|_| self.open.load(Ordering::Relaxed))
    }

    /// What the receiver's connection (0) or the sender's (1) had counted before any data.
    pub fn before(&self, end: usize) -> TcpInfo {
        self.before[end].get().copied().unwrap_or_default()
    }

    /// Bytes arrive of which the stream sends `volume`, so long after its start.
    pub fn deliver(&self, bytes: u64, volume: Option<u64>, since_start: Nanos) {
        let before = self.delivered.fetch_add(bytes, Ordering::Relaxed);
        if volume == Some(before + bytes) {
            self.completion.store(since_start.max(1), Ordering::Relaxed);
        }
    }
}

/// Locks what is only counted, and therefore as good as it was if somebody panicked meanwhile.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
