//! What the threads of a run share.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::clock::Clock;
use crate::payload::Tag;
use crate::ping::PingState;
use crate::stream::{FlowState, StreamState, lock};

/// A stream: the indices of its flow, and of the stream in the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamId {
    pub flow: usize,
    pub stream: usize,
}

/// What the threads of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub clock: Clock,
    pub tag: Tag,
    pub flows: Vec<FlowState>,
    /// Whether each flow is of datagrams.
    pub udp: Vec<bool>,
    /// Whose a packet is, by where it comes from and goes to: of TCP, and of UDP.
    pub by_address: [HashMap<(SocketAddr, SocketAddr), StreamId>; 2],
    pub pings: Vec<PingState>,
    /// What this host cannot measure, and why.
    pub missing: Vec<String>,
    /// Which node an address is of.
    pub nodes: HashMap<IpAddr, u16>,
    /// Warnings of this run, the first [`MAX_WARNINGS`].
    pub warnings: Mutex<Vec<String>>,
    pub counters: TrafficCounters,
}

/// What the traffic counts of itself.
#[derive(Debug)]
pub(crate) struct TrafficCounters {
    /// Packets from unknown senders.
    pub unknown_senders: AtomicU64,
    /// Datagrams that were sent more than a millisecond after they were due.
    pub late: AtomicU64,
    /// The longest that one was late, in nanoseconds.
    pub latest: AtomicU64,
    /// Remarked packets that could not be looked at in time.
    pub unseen: AtomicU64,
    /// Whether all threads have real-time priority.
    pub real_time: AtomicBool,
}

impl Default for TrafficCounters {
    fn default() -> Self {
        let zero = AtomicU64::default;
        let real_time = AtomicBool::new(true);
        Self { unknown_senders: zero(), late: zero(), latest: zero(), unseen: zero(), real_time }
    }
}

/// How many warnings are kept.
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

    /// Whose a packet is.
    pub fn find(&self, udp: bool, from: SocketAddr, to: SocketAddr) -> Option<StreamId> {
        self.by_address[usize::from(udp)].get(&(from, to)).copied()
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
