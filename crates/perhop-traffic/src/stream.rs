//! Shared state of each flow: its streams, their sockets and counters.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use perhop_core::{Dscp, Duration, TrafficClass};
use perhop_measure::{DatagramMeter, Histogram};
use perhop_workload::{Playout, WritesPlan};

use crate::app::ClientState;
use crate::offset::SenderClock;
use crate::quic::QuicCounters;
use perhop_socket::{Nanos, Socket, TcpInfo};

/// Number of packets by octet of the DSCP and the ECN field.
pub(crate) type ClassCounts = [u64; 256];

/// Set of ends of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub source: bool,
    pub destination: bool,
}

/// A flow over TCP or UDP.
#[derive(Debug)]
pub(crate) struct FlowState {
    pub name: String,
    /// The number of its source's node.
    pub from: usize,
    pub dscp: Dscp,
    /// DSCP and ECN field with which most packets are sent to the destination, and to the source.
    pub classes: [TrafficClass; 2],
    /// Start of each stream by the clock of the scenario, in nanoseconds.
    pub starts: Vec<Nanos>,
    pub stop: Option<Nanos>,
    pub volume: Option<u64>,
    /// For TCP: writes of the application, if it keeps to a rate.
    pub writes: Option<WritesPlan>,
    /// For TCP: payload of a full segment in bytes.
    pub segment: u64,
    /// For TCP: bytes that may be in flight.
    pub window: u32,
    /// The ends that are in this process.
    pub here: Ends,
    /// The ends at which packets of TCP are watched.
    pub watched: Ends,
    pub streams: Vec<StreamState>,
    pub received: Mutex<FlowReceived>,
}

/// Counters of a flow at its receiver.
#[derive(Debug, Default)]
pub(crate) struct FlowReceived {
    /// One-way delays since the last cut.
    pub delays: Histogram,
    /// For UDP: receiver of each stream.
    pub datagrams: Vec<DatagramsReceived>,
    /// Packets that arrived at the destination, and at the source: all packets of UDP, and packets
    /// of TCP with another DSCP or ECN field than most of the flow's are sent with.
    pub classes: [Option<Box<ClassCounts>>; 2],
    /// Clock of the send time stamps of datagrams.
    pub clock: SenderClock,
    /// The difference between the stamps of the first datagram.
    pub first_difference: Option<i64>,
    /// The greatest error bound of the clock offsets in use since the last reading.
    pub offset_bound: Option<Nanos>,
}

impl FlowReceived {
    pub fn count(&mut self, end: usize, class: u8, packets: u64) {
        let counts = self.classes[end].get_or_insert_with(|| Box::new([0; 256]));
        counts[usize::from(class)] += packets;
    }
}

/// Counters of a stream of datagrams at its receiver.
#[derive(Debug, Default)]
pub(crate) struct DatagramsReceived {
    pub meter: DatagramMeter,
    /// One above the highest number.
    pub next: u64,
    /// Greatest one-way delay.
    pub longest: Duration,
    /// Playout, if it is a call.
    pub playout: Option<Box<Playout>>,
}

impl DatagramsReceived {
    /// Returns the number of datagrams that were overtaken and have not arrived.
    pub fn missing(&self) -> u64 {
        self.next.saturating_sub(self.meter.packets)
    }
}

/// A stream: its sockets, and the counts of its sender and its receiver.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub to: SocketAddr,
    /// For clients of applications: address of their server.
    pub server: SocketAddr,
    /// The sender's socket, if the sender is in this process.
    pub sender: OnceLock<Socket>,
    /// For TCP: the receiver's socket, once there is one.
    pub receiver: OnceLock<Socket>,
    /// For TCP: bytes that the receiving application has read.
    pub delivered: AtomicU64,
    /// For TCP: time from the start to the arrival of the whole volume, in nanoseconds; zero
    /// before.
    pub completion: AtomicU64,
    /// For TCP: data packets that arrived with congestion experienced.
    pub marked: AtomicU64,
    /// For TCP: true once the connection is open, and has a state to read.
    pub open: AtomicBool,
    /// For UDP: datagrams sent.
    pub sent: AtomicU64,
    /// For TCP: counters of the receiver's connection and the sender's before any data.
    pub before: [OnceLock<TcpInfo>; 2],
    /// Client of an application, which has connections of its own.
    pub client: Option<Mutex<ClientState>>,
    /// Counters of a connection of QUIC.
    pub quic: Option<Mutex<QuicCounters>>,
}

impl StreamState {
    pub fn new((from, to): (SocketAddr, SocketAddr), sender: Option<Socket>) -> Self {
        Self {
            to,
            server: from,
            sender: sender.map_or_else(OnceLock::new, OnceLock::from),
            receiver: OnceLock::new(),
            delivered: AtomicU64::new(0),
            completion: AtomicU64::new(0),
            marked: AtomicU64::new(0),
            open: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            before: [const { OnceLock::new() }; 2],
            client: None,
            quic: None,
        }
    }

    /// Returns the sender's socket, once it is connected.
    pub fn open_sender(&self) -> Option<&Socket> {
        self.sender.get().filter(|_| self.open.load(Ordering::Relaxed))
    }

    /// Returns the counters of the receiver's connection (0) or the sender's (1) before any data.
    pub fn before(&self, end: usize) -> TcpInfo {
        self.before[end].get().copied().unwrap_or_default()
    }

    /// Counts received bytes of a stream that sends `volume` bytes; `since_start` is the time since
    /// its start in nanoseconds.
    pub fn deliver(&self, bytes: u64, volume: Option<u64>, since_start: Nanos) {
        let before = self.delivered.fetch_add(bytes, Ordering::Relaxed);
        if volume == Some(before + bytes) {
            self.completion.store(since_start.max(1), Ordering::Relaxed);
        }
    }
}

/// Locks a mutex and ignores poisoning: its data are counters, which stay valid if another thread
/// has panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
