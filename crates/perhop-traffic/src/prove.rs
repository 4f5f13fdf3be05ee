//! Proofs of the streams of a live job.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

use perhop_core::TrafficClass;
use perhop_workload::TransportPlan;

use crate::budget::Budget;
use crate::error::TrafficError;
use crate::job::Job;
use crate::live::{End, Token};
use crate::open::{Opened, StreamAddresses, clamp_window};
use crate::proof::{Connections, Consent, Contacts, DatagramReceivers, DatagramSenders, Renewals};
use crate::receive::EventSource;
use crate::shared::{Shared, StreamId};
use perhop_socket::{Nanos, Socket, TcpInfo, monotonic, sleep_until};

/// Interval at which the sockets are polled.
const POLL_INTERVAL: Nanos = 1_000_000;

/// The streams of a live job that have an end here.
#[derive(Debug)]
pub(crate) struct Proof {
    connections: Connections,
    senders: DatagramSenders,
    receivers: DatagramReceivers,
    /// Addresses that have proved that they want packets of this run.
    proved: HashSet<IpAddr>,
    done: bool,
    names: Vec<String>,
}

/// State that moves to the threads of a run after the proof.
#[derive(Debug)]
pub(crate) struct Proved {
    /// Event sources of the receiving thread.
    pub sources: Vec<EventSource>,
    /// Consent of the destination of each stream of datagrams that is sent from here.
    pub consents: HashMap<StreamId, Consent>,
    /// Proofs of the streams of datagrams that arrive here.
    pub renewals: Renewals,
}

impl Proof {
    pub fn new(
        job: &Job,
        token: Token,
        lines: &[StreamAddresses],
        opened: &mut BTreeMap<u16, Opened>,
    ) -> Result<Self, TrafficError> {
        let all = |take: fn(&mut Opened) -> &mut Vec<(SocketAddr, Socket)>,
                   opened: &mut BTreeMap<u16, Opened>| {
            opened.values_mut().flat_map(|host| take(host).drain(..)).collect::<Vec<_>>()
        };
        let listeners = all(|host| &mut host.listeners, opened);
        let listeners = listeners.into_iter().map(|(_, socket)| socket).collect();
        let datagrams = all(|host| &mut host.datagrams, opened);
        let mut take = |take: fn(&mut Opened) -> &mut Vec<(usize, Socket)>| {
            opened.values_mut().flat_map(|host| take(host).drain(..)).collect::<HashMap<_, _>>()
        };
        let mut sending = take(|host| &mut host.senders);
        let mut receiving = take(|host| &mut host.receivers);
        let mut connections = Connections::new(token, listeners);
        let mut senders = DatagramSenders::new(token);
        let mut receivers = DatagramReceivers::new(token, datagrams);
        let mut flow_before = None;
        let mut stream = 0;
        for (number, &StreamAddresses { flow, from, to }) in lines.iter().enumerate() {
            stream = if flow_before == Some(flow) { stream + 1 } else { 0 };
            flow_before = Some(flow);
            let (plan, opens) = (&job.flows[flow], job.opens(flow));
            let here = job.here(flow)?;
            let id = (flow as u16, stream);
            match (&plan.transport, opens) {
                (TransportPlan::Tcp(_), _) => {
                    // The end that opens a connection knows the port of the other end: that of the
                    // flow.
                    let listener = SocketAddr::new(from.ip(), plan.port);
                    if here.source {
                        connections.add(id, End::Source, to, sending.remove(&number));
                    }
                    if here.destination {
                        let socket = receiving.remove(&number);
                        connections.add(id, End::Destination, listener, socket);
                    }
                }
                (TransportPlan::Udp(_) | TransportPlan::Quic(_), _) => {
                    let opened_by = |end| opens == end;
                    if let Some(socket) = sending.remove(&number) {
                        senders.add(id, socket, opened_by(End::Source).then_some(to));
                    }
                    if here.destination {
                        let from = opened_by(End::Destination).then_some(from);
                        receivers.add(id, plan.port, from);
                    }
                }
            }
        }
        let names = job.flows.iter().map(|flow| flow.name.clone()).collect();
        let proved = HashSet::new();
        Ok(Self { connections, senders, receivers, proved, done: false, names })
    }

    /// Proves streams until all are proved, or the monotonic clock reaches `deadline`. Returns
    /// whether all are proved.
    pub fn run(&mut self, budget: &Budget, deadline: Nanos) -> bool {
        while !self.done {
            let now = monotonic();
            let mut contacts = Contacts { proved: &mut self.proved, budget, now };
            let all = [
                self.connections.run(&mut contacts),
                self.senders.run(&mut contacts),
                self.receivers.run(&mut contacts),
            ];
            self.done = all == [true; 3];
            if now >= deadline {
                break;
            }
            if !self.done {
                sleep_until((now + POLL_INTERVAL).min(deadline));
            }
        }
        self.done
    }

    /// Returns whether a packet of this run has arrived from this address.
    pub fn knows(&self, address: IpAddr) -> bool {
        self.proved.contains(&address) || self.receivers.know(address)
    }

    /// Returns a message for each unproved stream.
    pub fn unproved(&self) -> Vec<String> {
        if self.done {
            return Vec::new();
        }
        let mut found: Vec<String> = Vec::new();
        let mut add = |flow: u16, what: String| {
            let what = format!("flow {}: {what}", self.names[usize::from(flow)]);
            if !found.contains(&what) {
                found.push(what);
            }
        };
        for (flow, end, to, problem) in self.connections.unproved() {
            let other = match end {
                End::Source => "its destination",
                End::Destination => "its source",
            };
            match problem {
                Some(error) => add(flow, format!("no connection to {other} at {to}: {error}")),
                None => add(flow, format!("{other} has not proved its connection")),
            }
        }
        for (flow, to) in self.senders.unproved() {
            match to {
                Some(to) => add(flow, format!("{to} has not proved that it wants datagrams")),
                None => add(flow, "no proof has arrived from its destination".to_owned()),
            }
        }
        for (flow, from) in self.receivers.unproved(monotonic()) {
            match from {
                Some(from) => {
                    add(flow, format!("no confirmation has arrived from its source at {from}"))
                }
                None => add(flow, "no confirmation has arrived from its source".to_owned()),
            }
        }
        found
    }

    /// Hands the proved sockets to the threads of a run.
    pub fn finish(self, shared: &Shared) -> Proved {
        let unknown = self.connections.unknown + self.senders.unknown + self.receivers.unknown;
        shared.counters.unknown_senders.fetch_add(unknown, Ordering::Relaxed);
        let mut by_address = [HashMap::new(), HashMap::new()];
        let mut sources = Vec::new();
        for ((flow, stream), end, socket) in self.connections.into_sockets() {
            let id = StreamId { flow: flow.into(), stream: stream.into() };
            let (flow, stream) = shared.at(id);
            let Ok((own, Some(other))) = socket.addresses() else { continue };
            // The connection may have been accepted at the port of another flow.
            let _ = socket.set_traffic_class(own.ip(), TrafficClass::new(flow.dscp).octet());
            let info = TcpInfo::of(&socket).unwrap_or_default();
            match end {
                End::Source => {
                    by_address[0].insert((own, other), id);
                    if let Some(rate) = shared.budget.rate() {
                        let option = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
                        let _ = socket.set_bytes(option, &(rate / 8).max(1).to_ne_bytes());
                    }
                    let _ = stream.before[1].set(info);
                    let _ = stream.sender.set(socket);
                }
                End::Destination => {
                    by_address[0].insert((other, own), id);
                    clamp_window(&socket, flow.window);
                    let _ = stream.before[0].set(info);
                    let _ = stream.receiver.set(socket);
                    sources.push(EventSource::Connection(id));
                }
            }
        }
        let mut consents = HashMap::new();
        for ((flow, stream), socket, consent) in self.senders.into_sockets() {
            let id = StreamId { flow: flow.into(), stream: stream.into() };
            let to = consent.to;
            consents.insert(id, consent);
            if let Err(error) = socket.connect(to) {
                shared.warn(format!("{}: cannot connect to {to}: {error}", shared.at(id).0.name));
            }
            let _ = shared.at(id).1.sender.set(socket);
        }
        let (renewals, sockets) = self.receivers.into_sockets();
        by_address[1].extend(renewals.iter().map(|each| (each.addresses(), each.id)));
        sources.extend(sockets.into_iter().map(|(at, socket)| EventSource::Datagrams(at, socket)));
        let _ = shared.by_address.set(by_address);
        let _ = shared.proved.set(self.proved);
        Proved { sources, consents, renewals: Renewals::new(renewals) }
    }
}
