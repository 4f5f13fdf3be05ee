//! State that the threads of a run share.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::app;
use crate::budget::Budget;
use crate::clock::Clock;
use crate::live::Token;
use crate::payload::Tag;
use crate::ping::PingState;
use crate::stream::{FlowState, StreamState, lock};

/// A stream: the indices of its flow, and of the stream in the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId {
    pub flow: usize,
    pub stream: usize,
}

/// Streams by source and destination address: of TCP, and of UDP.
pub(crate) type ByAddress = [HashMap<(SocketAddr, SocketAddr), StreamId>; 2];

/// State that the threads of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub clock: Clock,
    pub tag: Tag,
    pub flows: Vec<FlowState>,
    /// For each flow, true if it has datagrams (UDP).
    pub udp: Vec<bool>,
    /// Streams by source and destination address of their packets: of TCP, and of UDP.
    pub by_address: OnceLock<ByAddress>,
    /// Flows with clients over TCP, by the addresses of their server and of the clients' host.
    pub applications: HashMap<(SocketAddr, IpAddr), usize>,
    /// Token by which the ends of a live run recognise each other.
    pub proof: Option<Token>,
    /// Addresses that have proved that they want data.
    pub proved: OnceLock<HashSet<IpAddr>>,
    /// Send budget.
    pub budget: Budget,
    pub pings: Vec<PingState>,
    /// Measurements that this host cannot make, with the reasons.
    pub missing: Vec<String>,
    /// Node of each address.
    pub nodes: HashMap<IpAddr, u16>,
    /// Warnings of this run, the first [`MAX_WARNINGS`].
    pub warnings: Mutex<Vec<String>>,
    pub counters: TrafficCounters,
}

/// Counters of this process.
#[derive(Debug)]
pub(crate) struct TrafficCounters {
    /// Packets from unknown senders.
    pub unknown_senders: AtomicU64,
    /// Datagrams that were sent more than a millisecond after they were due.
    pub late: AtomicU64,
    /// Greatest lateness of a datagram, in nanoseconds.
    pub latest: AtomicU64,
    /// Remarked packets that could not be inspected in time.
    pub unseen: AtomicU64,
    /// True if all threads have real-time priority.
    pub real_time: AtomicBool,
}

impl Default for TrafficCounters {
    fn default() -> Self {
        let zero = AtomicU64::default;
        let real_time = AtomicBool::new(true);
        Self { unknown_senders: zero(), late: zero(), latest: zero(), unseen: zero(), real_time }
    }
}

/// Number of warnings that are kept.
const MAX_WARNINGS: usize = 20;

impl Shared {
    pub fn is_udp(&self, flow: usize) -> bool {
        self.udp[flow]
    }

    /// Returns the ids of all streams, in order.
    pub fn stream_ids(&self) -> impl Iterator<Item = StreamId> + '_ {
        let flows = self.flows.iter().enumerate();
        flows.flat_map(|(flow, state)| {
            (0..state.streams.len()).map(move |stream| StreamId { flow, stream })
        })
    }

    pub fn at(&self, id: StreamId) -> (&FlowState, &StreamState) {
        let flow = &self.flows[id.flow];
        (flow, &flow.streams[id.stream])
    }

    /// Returns the stream of a packet.
    pub fn find(&self, udp: bool, from: SocketAddr, to: SocketAddr) -> Option<StreamId> {
        let known = self.by_address.get()?[usize::from(udp)].get(&(from, to)).copied();
        known.or_else(|| self.find_client(from, to).filter(|_| !udp))
    }

    /// Returns the client of an application to which its server sends a packet.
    fn find_client(&self, from: SocketAddr, to: SocketAddr) -> Option<StreamId> {
        let flow = *self.applications.get(&(from, to.ip()))?;
        let stream = app::client_of(to.port(), self.flows[flow].streams.len())?;
        Some(StreamId { flow, stream })
    }

    /// Returns false if a datagram of this number was never sent. Always true if the sender is in
    /// another process.
    pub fn was_sent(&self, id: StreamId, sequence: u64) -> bool {
        let (flow, stream) = self.at(id);
        !flow.here.source || sequence < stream.sent.load(Ordering::Acquire)
    }

    /// Adds a warning, unless there are too many.
    pub fn warn(&self, what: String) {
        let mut warnings = lock(&self.warnings);
        if warnings.len() < MAX_WARNINGS {
            warnings.push(what);
        }
    }

    pub fn unknown_sender(&self) {
        self.counters.unknown_senders.fetch_add(1, Ordering::Relaxed);
    }
}
