//! State of a client that all threads see, and what its connections have measured.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use perhop_app::{Client, Record};
use perhop_core::{Duration, Time};
use perhop_socket::{Nanos, Socket, TcpInfo};

use crate::readings::{ConnectionReceiver, ConnectionSender};
use crate::stream::lock;

/// What a client has completed since the last reading, and what it has begun by then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completed {
    pub(crate) finished: Vec<Record>,
    pub(crate) unfinished: Vec<Record>,
}

/// A connection: its ends that have not closed.
#[derive(Debug)]
struct Open {
    client: Option<Arc<Socket>>,
    server: Option<Arc<Socket>>,
    /// Segments that the server had received at the last sample.
    segments: u32,
}

/// Counters of one end of connections, and the segments that have arrived there.
type Counted<T> = (T, u64);

/// A client of an application.
#[derive(Debug)]
pub(crate) struct ClientState {
    pub client: Client,
    /// Instant at which it is woken.
    pub timer: Nanos,
    /// What it has completed since the last reading.
    pub finished: Vec<Record>,
    open: BTreeMap<u32, Open>,
    /// Counters of ends that have closed: of clients, and of servers.
    received: Counted<ConnectionReceiver>,
    sent: Counted<ConnectionSender>,
    /// Smoothed round-trip times of connections that were over before they were sampled.
    short: Vec<Duration>,
}

impl ClientState {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            timer: Nanos::MAX,
            finished: Vec::new(),
            open: BTreeMap::new(),
            received: Counted::default(),
            sent: Counted::default(),
            short: Vec::new(),
        }
    }

    /// Adds a connection that is being opened.
    pub fn opened(&mut self, number: u32, client: Arc<Socket>) {
        self.open.insert(number, Open { client: Some(client), server: None, segments: 0 });
    }

    /// Adds the server's end of a connection.
    pub fn accepted(&mut self, number: u32, server: Arc<Socket>) {
        let none = Open { client: None, server: None, segments: 0 };
        self.open.entry(number).or_insert(none).server = Some(server);
    }

    /// Ends an end of a connection.
    pub fn ended(&mut self, number: u32, at_client: bool) {
        let Some(open) = self.open.get_mut(&number) else { return };
        if at_client {
            let socket = open.client.take();
            receive(&mut self.received, socket.and_then(|socket| TcpInfo::of(&socket).ok()));
        } else {
            let socket = open.server.take();
            let info = socket.and_then(|socket| TcpInfo::of(&socket).ok());
            if let Some(info) = info.filter(|info| open.segments == 0 && info.rtt > 0) {
                self.short.push(Duration::from_micros(info.rtt.into()));
            }
            send(&mut self.sent, info);
            self.sent.0.cwnd = None;
        }
        if open.client.is_none() && open.server.is_none() {
            self.open.remove(&number);
        }
    }

    /// Returns the number of its connections.
    pub fn connections(&self) -> usize {
        self.open.len()
    }

    /// Returns what it has completed up to an instant since the last call, and what it has begun.
    pub fn completed(&mut self, at: Time) -> Completed {
        let ended_by = |record: &Record| record.end.is_none_or(|end| end <= at);
        let (finished, later) = std::mem::take(&mut self.finished).into_iter().partition(ended_by);
        self.finished = later;
        let later = self.finished.iter().map(|record| Record {
            first_byte: record.first_byte.filter(|first| *first <= at),
            end: None,
            buffer: None,
            ..*record
        });
        let begun = later.chain(self.client.unfinished());
        Completed { finished, unfinished: begun.filter(|record| record.start < at).collect() }
    }
}

/// Samples the smoothed round-trip times of a client's connections on which something has arrived.
/// The client is not locked while the kernel is asked, so that nothing waits for that.
pub(crate) fn sample(client: &Mutex<ClientState>, mut add: impl FnMut(Duration)) {
    let mut state = lock(client);
    state.short.drain(..).for_each(&mut add);
    let servers = state.open.iter().filter_map(|(&number, open)| {
        open.server.as_ref().map(|server| (number, Arc::clone(server), open.segments))
    });
    let servers: Vec<_> = servers.collect();
    drop(state);
    let mut sampled = Vec::new();
    for (number, server, before) in servers {
        let info = TcpInfo::of(&server).unwrap_or_default();
        if info.segs_in != before && info.rtt > 0 {
            add(Duration::from_micros(info.rtt.into()));
            sampled.push((number, info.segs_in));
        }
    }
    let mut state = lock(client);
    for (number, segments) in sampled {
        if let Some(open) = state.open.get_mut(&number) {
            open.segments = segments;
        }
    }
}

/// Returns the counters of all connections at the client, and the segments that have arrived.
pub(crate) fn receiver(state: &Mutex<ClientState>) -> (ConnectionReceiver, u64) {
    let state = lock(state);
    let mut sum = state.received;
    let open: Vec<_> = state.open.values().filter_map(|open| open.client.clone()).collect();
    drop(state);
    open.iter().for_each(|socket| receive(&mut sum, TcpInfo::of(socket).ok()));
    sum
}

/// Returns the counters of all connections at the server, and the segments that have arrived. The
/// congestion window is that of all open ones.
pub(crate) fn sender(state: &Mutex<ClientState>) -> (ConnectionSender, u64) {
    let state = lock(state);
    let mut sum = state.sent;
    let open: Vec<_> = state.open.values().filter_map(|open| open.server.clone()).collect();
    drop(state);
    open.iter().for_each(|socket| send(&mut sum, TcpInfo::of(socket).ok()));
    sum
}

fn receive((sum, segments): &mut Counted<ConnectionReceiver>, info: Option<TcpInfo>) {
    let info = info.unwrap_or_default();
    sum.packets += u64::from(info.data_segs_in);
    sum.acks += u64::from(info.segs_out.saturating_sub(info.data_segs_out));
    *segments += u64::from(info.segs_in);
}

fn send((sum, segments): &mut Counted<ConnectionSender>, info: Option<TcpInfo>) {
    let Some(info) = info else { return };
    sum.retransmits += u64::from(info.total_retrans);
    sum.repeated += u64::from(info.dsack_dups);
    sum.reordered += u64::from(info.reord_seen);
    sum.echoed += u64::from(info.delivered_ce);
    sum.cwnd = Some(sum.cwnd.unwrap_or(0) + u64::from(info.snd_cwnd) * u64::from(info.snd_mss));
    sum.window = sum.window.max(info.snd_wnd);
    *segments += u64::from(info.segs_in);
}
