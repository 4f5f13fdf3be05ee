//! State that the threads of a run share, from the sockets that were opened.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Mutex, OnceLock};

use perhop_app::ApplicationPlan;
use perhop_core::Time;
use perhop_workload::{FlowPlan, Pattern, TransportPlan, WorkloadError, pattern, playout};

use crate::app::ClientState;
use crate::budget::Budget;
use crate::clock::{Clock, nanos};
use crate::error::TrafficError;
use crate::job::Job;
use crate::live::{Limits, Token};
use crate::offset::SenderClock;
use crate::open::{self, Opened, StreamAddresses};
use crate::ping::PingState;
use crate::receive::EventSource;
use crate::shared::{Shared, StreamId, TrafficCounters};
use crate::stream::{DatagramsReceived, Ends, FlowReceived, FlowState, StreamState};
use perhop_socket::realtime;

/// Returns the id and the pattern of each stream of datagrams that this process sends.
pub(crate) fn patterns(job: &Job) -> Result<Vec<(StreamId, Pattern)>, TrafficError> {
    let mut patterns = Vec::new();
    for (flow, plan) in job.flows.iter().enumerate() {
        let here = job.here(flow)?;
        if let (TransportPlan::Udp(udp), true) = (&plan.transport, here.source) {
            for stream in 0..usize::from(plan.streams) {
                patterns
                    .push((StreamId { flow, stream }, pattern(udp, &plan.name, stream, job.seed)?));
            }
        }
    }
    Ok(patterns)
}

/// Returns the state that the threads share, with the sockets of senders.
pub(crate) fn share(
    job: &Job,
    lines: &[StreamAddresses],
    opened: &mut BTreeMap<u16, Opened>,
    limits: Limits,
) -> Result<Shared, TrafficError> {
    let token = job.live.as_ref().map(|live| live.token);
    // A value that other runs are unlikely to have.
    let own = (realtime() ^ u64::from(std::process::id()).wrapping_mul(0x9e37_79b9)) as u16;
    let tag = token.map_or(own, |Token([a, b, ..])| u16::from_be_bytes([a, b]));
    let mut missing: Vec<_> = opened.values_mut().flat_map(|host| host.missing.drain(..)).collect();
    missing.dedup();
    let taps: Vec<_> = opened.iter().filter(|(_, host)| host.tap.is_some()).collect();
    let taps: Vec<u16> = taps.into_iter().map(|(number, _)| *number).collect();
    let mut flows = Vec::new();
    for (number, plan) in job.flows.iter().enumerate() {
        let (segment, window, writes) = match &plan.transport {
            TransportPlan::Tcp(tcp) => (tcp.mss.into(), open::window(tcp), tcp.writes),
            TransportPlan::Udp(_) | TransportPlan::Quic(_) => (0, 0, None),
        };
        let mut received = FlowReceived::default();
        if matches!(plan.transport, TransportPlan::Udp(_)) {
            for stream in 0..usize::from(plan.streams) {
                let playout = playout(plan, stream, job.seed)?;
                received.datagrams.push(DatagramsReceived { playout, ..Default::default() });
            }
        }
        let here = job.here(number)?;
        let (from, to) = (job.number(&plan.from)?, job.number(&plan.to)?);
        if here.destination && !here.source {
            received.clock = SenderClock::Unknown;
        }
        flows.push(FlowState {
            name: plan.name.clone(),
            from: from.into(),
            dscp: plan.dscp,
            classes: plan.usual_classes(),
            starts: (0..plan.streams.into())
                .map(|stream| nanos(plan.start_of(stream).as_picos()))
                .collect(),
            stop: plan.stop.map(|stop| nanos(stop.as_picos())),
            volume: plan.volume,
            writes,
            segment,
            window,
            here,
            watched: Ends { source: taps.contains(&from), destination: taps.contains(&to) },
            streams: Vec::new(),
            received: Mutex::new(received),
        });
    }
    let udp: Vec<_> =
        job.flows.iter().map(|flow| matches!(flow.transport, TransportPlan::Udp(_))).collect();
    let senders = opened.values_mut().flat_map(|host| host.senders.drain(..));
    let mut senders: HashMap<_, _> = senders.collect();
    let mut by_address = [HashMap::new(), HashMap::new()];
    let mut applications = HashMap::new();
    for (number, &StreamAddresses { flow, from, to }) in lines.iter().enumerate() {
        let streams = &mut flows[flow].streams;
        let id = StreamId { flow, stream: streams.len() };
        let quic = matches!(job.flows[flow].transport, TransportPlan::Quic(_));
        if !quic {
            by_address[usize::from(udp[flow])].insert((from, to), id);
        }
        let mut stream = StreamState::new((from, to), senders.remove(&number));
        stream.quic = quic.then(Mutex::default);
        if let Some(application) = &job.flows[flow].application {
            if by_address[0].remove(&(from, to)).is_some() {
                applications.insert((from, to.ip()), flow);
            }
            stream.client = Some(client(job, &job.flows[flow], application, streams.len())?);
        }
        streams.push(stream);
    }
    let probes = opened.values_mut().flat_map(|host| host.probes.drain(..));
    let mut probes: HashMap<_, _> = probes.collect();
    let mut pings = Vec::new();
    for (number, plan) in job.pings.iter().enumerate() {
        // The address of the ping's version first.
        let mut addresses = job.node(&plan.to)?.addresses.clone();
        addresses.sort_by_key(|address| address.is_ipv6() != plan.ipv6);
        let ends = (open::host(job, &plan.from, plan.ipv6)?, &addresses[..]);
        let how = (probes.remove(&number), token.is_some());
        pings.push(PingState::new(plan, number, tag, ends, how));
    }
    let named = job.nodes.iter().enumerate();
    let nodes = named
        .flat_map(|(node, plan)| plan.addresses.iter().map(move |address| (*address, node as u16)));
    Ok(Shared {
        clock: Clock::default(),
        tag,
        flows,
        udp,
        // In a live job, addresses are known after the proof.
        by_address: match token {
            None => OnceLock::from(by_address),
            Some(_) => OnceLock::new(),
        },
        applications,
        proof: token,
        proved: OnceLock::new(),
        budget: Budget::new(limits),
        pings,
        nodes: nodes.collect(),
        missing,
        warnings: Mutex::default(),
        counters: TrafficCounters::default(),
    })
}

/// Returns a client of an application.
fn client(
    job: &Job,
    flow: &FlowPlan,
    application: &ApplicationPlan,
    number: usize,
) -> Result<Mutex<ClientState>, TrafficError> {
    let last = job.marks.last().copied().unwrap_or(Time::ZERO);
    let span = (flow.start_of(number), flow.stop.unwrap_or(last));
    let client = application.client(&flow.name, number, span, job.seed);
    Ok(Mutex::new(ClientState::new(client.map_err(WorkloadError::from)?)))
}

/// Returns the event sources of a host.
pub(crate) fn sources(job: &Job, node: u16, opened: Opened) -> Vec<EventSource> {
    let listen = |(at, socket): (SocketAddr, _)| EventSource::Listener(at, socket);
    let at = &job.nodes[usize::from(node)].addresses;
    let mut sources: Vec<_> = opened.listeners.into_iter().map(listen).collect();
    sources.extend(
        opened.datagrams.into_iter().map(|(at, socket)| EventSource::Datagrams(at, socket)),
    );
    sources.extend(opened.icmp.into_iter().map(|(v6, socket)| EventSource::Icmp {
        v6,
        at: at.clone(),
        socket,
    }));
    sources.extend(opened.tap.map(EventSource::Tap));
    sources
}
