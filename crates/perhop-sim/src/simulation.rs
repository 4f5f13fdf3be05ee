//! A plan, compiled and run.

use std::io;
use std::sync::Arc;

use perhop_core::{Dscp, NodeId, Time};
use perhop_measure::{
    Calls, CapturePlan, Codepoints, Completions, Displacements, FlowHistograms, Histogram,
    Intervals, Labels, Marks, NetworkMeter, Pings, Samples, Sink, StreamCounters, StreamReading,
    Table,
};
use perhop_net::{Network, NodeKind};
use perhop_plan::{BuildError, Names, Timeline};
use perhop_workload::FlowPlan;

use crate::build::{client as client_of, pinger, stream};
use crate::capture::ModelledCaptures;
use crate::hosts::{BodyId, MOST_ENDPOINTS, ModelledHosts, Role};
use crate::plan::*;

/// Endpoints of a stream.
#[derive(Debug)]
struct Stream {
    flow: u32,
    /// Number within the flow.
    number: u32,
    sender: u32,
    receiver: u32,
    /// Counters at the last mark.
    last: StreamCounters,
}

/// A running simulation.
#[derive(Debug)]
pub struct Simulation {
    network: Network<BodyId>,
    names: Names,
    labels: Labels,
    hosts: ModelledHosts,
    streams: Vec<Stream>,
    /// Endpoints of the pings.
    pingers: Vec<usize>,
    meter: NetworkMeter,
    marks: Marks,
    /// Changes still to come.
    changes: Timeline<BodyId>,
    /// For each flow: its destination, its source, and the DSCP of its packets.
    ends: Vec<([NodeId; 2], Dscp)>,
    codepoints: Codepoints,
    intervals: Intervals,
    /// Round-trip times, smoothed ones, and one-way delays, up to the last cut.
    histograms: [FlowHistograms; 3],
    calls: Calls,
}

impl Simulation {
    /// Compiles a plan.
    ///
    /// # Errors
    /// [`BuildError`] for an invalid value.
    pub fn new(plan: &Plan) -> Result<Self, BuildError> {
        let marks = Marks::new(&plan.network.marks, &plan.cuts).ok_or(BuildError::Marks)?;
        let streams = plan.flows.iter().map(|flow| match flow.application {
            None => 2 * usize::from(flow.streams),
            Some(_) => usize::from(flow.streams),
        });
        if streams.sum::<usize>() + plan.pings.len() > MOST_ENDPOINTS {
            return Err(BuildError::TooLarge("there are more than half a million streams"));
        }
        let kinds = plan.network.kinds();
        let names = plan.network.names()?;
        let mut network = plan.network.network(&names)?;
        let host = |name: &str| {
            let node = names.node(name)?;
            match kinds[node.index()] {
                NodeKind::Host => Ok(node),
                NodeKind::Router => Err(BuildError::NotAHost(name.into())),
            }
        };

        let number = plan.flows.iter().map(|flow| usize::from(flow.streams)).sum();
        let mut endpoints = Vec::with_capacity(2 * number + plan.pings.len());
        let mut streams = Vec::with_capacity(number);
        for (index, flow) in plan.flows.iter().enumerate() {
            let (from, to) = (host(&flow.from)?, host(&flow.to)?);
            for number in 0..usize::from(flow.streams) {
                let sender = endpoints.len();
                if let Some(application) = &flow.application {
                    let last = StreamCounters::default();
                    let (flow_number, client) = (index as u32, sender as u32);
                    streams.push(Stream {
                        flow: flow_number,
                        number: number as u32,
                        sender: client,
                        receiver: client,
                        last,
                    });
                    let (ends, seed) = ((from, to), plan.network.seed);
                    endpoints.push(client_of(flow, application, index, ends, number, seed)?);
                    continue;
                }
                streams.push(Stream {
                    flow: index as u32,
                    number: number as u32,
                    sender: sender as u32,
                    receiver: sender as u32 + 1,
                    last: StreamCounters::default(),
                });
                endpoints.extend(stream(
                    flow,
                    index,
                    (from, to),
                    number,
                    sender,
                    plan.network.seed,
                )?);
            }
        }
        let mut pingers = Vec::new();
        for (index, ping) in plan.pings.iter().enumerate() {
            // Routers reply to pings, too.
            let (from, to) = (host(&ping.from)?, names.node(&ping.to)?);
            pingers.push(endpoints.len());
            endpoints.push(pinger(ping, index, (from, to), endpoints.len())?);
        }
        let addresses =
            plan.network.nodes.iter().map(|node| (node.address, node.address_v6)).collect();
        let captures = ModelledCaptures::new(addresses);
        let end =
            |flow: &FlowPlan| Ok(([names.node(&flow.to)?, names.node(&flow.from)?], flow.dscp));
        let ends = plan.flows.iter().map(end).collect::<Result<_, BuildError>>()?;
        let hosts = ModelledHosts::start(endpoints, plan.flows.len(), captures, &mut network);

        let mut simulation = Self {
            labels: Labels {
                nodes: Arc::clone(names.nodes()),
                links: Arc::clone(names.links()),
                channels: Arc::clone(names.channels()),
                tunnels: Arc::clone(names.tunnels()),
                flows: plan.flows.iter().map(|flow| flow.name.clone()).collect(),
                pings: plan.pings.iter().map(|ping| ping.name.clone()).collect(),
                ..Labels::default()
            },
            meter: NetworkMeter::new(&network),
            changes: plan.network.timeline(&names)?,
            network,
            names,
            streams,
            pingers,
            marks,
            hosts,
            codepoints: Codepoints::default(),
            ends,
            intervals: Intervals::default(),
            histograms: Default::default(),
            calls: Calls::default(),
        };
        simulation.change();
        Ok(simulation)
    }

    /// Applies the changes that are due.
    fn change(&mut self) {
        let now = self.now();
        while self.changes.front().is_some_and(|(at, _)| *at <= now) {
            let (_, effect) = self.changes.pop_front().expect("there is one in front");
            let other_classes = effect.other_classes();
            effect.apply(&mut self.network);
            if let Some(port) = other_classes {
                self.meter.set_queue(&self.network, port);
            }
        }
    }

    /// Captures packets that pass some interfaces to `sink`, from now on.
    ///
    /// # Errors
    /// [`BuildError::UnknownLink`] if an interface does not exist.
    pub fn capture(&mut self, plan: &CapturePlan, sink: Box<dyn Sink>) -> Result<(), BuildError> {
        let ports = plan.interfaces.iter().map(|interface| self.names.port(&interface.name));
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        ports.iter().for_each(|port| self.network.watch(*port));
        self.hosts.captures.captures.add(plan, &ports, sink);
        Ok(())
    }

    /// Returns the cause of a failure that has ended a capture, once. The run continues without the
    /// capture.
    pub fn take_capture_failure(&mut self) -> Option<io::Error> {
        self.hosts.captures.captures.take_failure()
    }

    /// Returns the instant that the simulation has reached.
    pub fn now(&self) -> Time {
        self.network.now()
    }

    /// Returns the end of the run.
    pub fn end(&self) -> Time {
        self.marks.end().unwrap_or(Time::ZERO)
    }

    /// Returns the number of events processed so far.
    pub fn events(&self) -> u64 {
        self.network.events()
    }

    /// Returns the number of links crossed by packets so far.
    pub fn packet_hops(&self) -> u64 {
        self.network.packet_hops()
    }

    /// Returns the names of the flows, in the order of the plan.
    pub fn flows(&self) -> &[String] {
        &self.labels.flows
    }

    /// Returns the bytes that each flow has delivered so far.
    pub fn delivered(&self) -> Vec<u64> {
        let mut delivered = vec![0; self.labels.flows.len()];
        for stream in &self.streams {
            delivered[stream.flow as usize] += self.read(stream).counters.delivered;
        }
        delivered
    }

    /// Returns the number of connections of applications that have not ended.
    pub fn open_connections(&self) -> usize {
        let roles = self.hosts.endpoints.iter().map(|endpoint| &endpoint.role);
        roles
            .map(|role| if let Role::Client(host) = role { host.connections.len() } else { 0 })
            .sum()
    }

    /// Runs until `until` or the end, whichever is first, and reads counters at every mark.
    /// Captures are complete up to there.
    pub fn advance(&mut self, until: Time) {
        let until = until.min(self.end());
        while let Some(mark) = self.marks.due(until) {
            self.network.run(mark, &mut self.hosts);
            self.record(mark);
            self.change();
        }
        self.network.run(until, &mut self.hosts);
        self.hosts.captures.captures.flush();
    }

    /// Ends the run now, and records the measurements since the last mark.
    pub fn stop(&mut self) {
        if let Some(now) = self.marks.stop(self.now()) {
            self.record(now);
        }
    }

    /// Returns the tables, by name: `intervals`, `pings`, `queues`, `links`, `stations`, `tunnels`,
    /// `losses`, `codepoints`, `rtts`, `srtts`, `delays`, `displacements`, `calls`, `completions`.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        let labels = &self.labels;
        let mut pings = Pings::default();
        for (index, &pinger) in self.pingers.iter().enumerate() {
            let endpoint = &self.hosts.endpoints[pinger];
            let Role::Pinger(pinger) = &endpoint.role else { unreachable!("pingers are pingers") };
            for (sequence, record) in pinger.records.iter().enumerate() {
                pings.push(index, sequence, endpoint.line.header.dscp(), record);
            }
        }
        let mut histograms = self.histograms.clone();
        if let Some(stretch) = self.marks.since_cut(self.now()) {
            for (table, flows) in histograms.iter_mut().zip(self.hosts.histograms()) {
                table.push_flows(stretch, flows);
            }
        }
        let [rtts, srtts, delays] = histograms.map(|table| table.into_table(labels));
        let [queues, links, stations, tunnels] = self.meter.tables(labels);
        vec![
            ("intervals", self.intervals.clone().into_table(labels)),
            ("pings", pings.into_table(labels)),
            queues,
            links,
            stations,
            tunnels,
            self.hosts.losses.table(labels),
            ("codepoints", self.codepoints.clone().into_table(labels)),
            ("rtts", rtts),
            ("srtts", srtts),
            ("delays", delays),
            ("displacements", self.displacements().into_table(labels)),
            ("calls", self.calls.clone().into_table(labels)),
            ("completions", self.completions().into_table(labels)),
        ]
    }

    /// Returns what applications have completed, and what they have begun.
    fn completions(&self) -> Completions {
        let clients = self.streams.iter().filter_map(|stream| {
            match &self.hosts.endpoints[stream.sender as usize].role {
                Role::Client(host) => Some(((stream.flow as usize, stream.number as usize), host)),
                _ => None,
            }
        });
        let mut table = Completions::default();
        for (place, host) in clients.clone() {
            host.records.iter().for_each(|record| table.push(place, record));
        }
        for (place, host) in clients {
            host.client.unfinished().iter().for_each(|record| table.push(place, record));
        }
        table
    }

    /// Returns the reorder densities of flows with displaced packets.
    fn displacements(&self) -> Displacements {
        let mut table = Displacements::default();
        for streams in self.streams.chunk_by(|one, next| one.flow == next.flow) {
            let receivers =
                streams.iter().map(|stream| &self.hosts.endpoints[stream.receiver as usize].role);
            let densities = receivers.filter_map(|role| match role {
                Role::UdpReceiver(udp) => Some(&udp.meter.order.density),
                _ => None,
            });
            table.push_flow(streams[0].flow as usize, densities);
        }
        table
    }

    /// Adds rows to each table for the interval since the last reading.
    fn record(&mut self, now: Time) {
        let stretch = self.marks.read(now);
        self.intervals.reserve(self.streams.len());
        for index in 0..self.streams.len() {
            let stream = &self.streams[index];
            let reading = self.read(stream);
            let place = (stream.flow as usize, stream.number as usize);
            self.intervals.push(place, stretch, &stream.last, &reading);
            let (sender, receiver) = (stream.sender as usize, stream.receiver as usize);
            match &mut self.hosts.endpoints[sender].role {
                Role::TcpSender(tcp) => {
                    (tcp.rtt, tcp.srtt) = (Samples::default(), Samples::default());
                }
                Role::QuicSender(quic) => {
                    (quic.rtt, quic.srtt) = (Samples::default(), Samples::default());
                }
                _ => {}
            }
            match &mut self.hosts.endpoints[receiver].role {
                Role::TcpReceiver(tcp) => tcp.delay = Samples::default(),
                Role::QuicReceiver(quic) => quic.delay = Samples::default(),
                Role::Client(_) => self.hosts.clear_samples(receiver as u32),
                Role::UdpReceiver(udp) => {
                    udp.meter.pass_mark();
                    if let Some((playout, last)) = &mut udp.call {
                        let counters = playout.settle(now);
                        let before = std::mem::replace(last, counters);
                        self.calls.push(place, stretch, before, counters);
                    }
                }
                _ => {}
            }
            self.streams[index].last = reading.counters;
        }
        for (flow, classes) in self.hosts.arrived.iter_mut().enumerate() {
            let (nodes, sent) = self.ends[flow];
            for (node, arrived) in nodes.into_iter().zip(classes) {
                self.codepoints.push((flow, node, sent), stretch, arrived.take());
            }
        }
        if let Some(since_cut) = self.marks.cut() {
            for (table, flows) in self.histograms.iter_mut().zip(self.hosts.histograms_mut()) {
                table.push_flows(since_cut, flows);
                flows.iter_mut().for_each(Histogram::clear);
            }
        }
        self.meter.record(&self.network, stretch);
        self.hosts.losses.record(stretch);
    }

    fn read(&self, stream: &Stream) -> StreamReading {
        let role = |endpoint: u32| &self.hosts.endpoints[endpoint as usize].role;
        match (role(stream.sender), role(stream.receiver)) {
            (Role::TcpSender(tcp), Role::TcpReceiver(received_by)) => {
                let received = received_by.receiver.received();
                let counters = StreamCounters {
                    delivered: received.delivered,
                    packets: received.segments,
                    lost: tcp.lost,
                    reordered: received.reordered,
                    marked: received.marked,
                    echoed: tcp.sender.marks_echoed(),
                    retransmits: tcp.sender.retransmits(),
                    acks: received.acks,
                    sacks: Some(received.sacks),
                    completion: (tcp.schedule.volume == received.delivered)
                        .then(|| received.last.since(tcp.schedule.start)),
                    order: None,
                };
                StreamReading {
                    counters,
                    cwnd: Some(tcp.sender.cwnd()),
                    rtt: tcp.rtt,
                    srtt: tcp.srtt,
                    delay: received_by.delay,
                    jitter: None,
                }
            }
            (Role::QuicSender(quic), Role::QuicReceiver(received_by)) => quic.read(received_by),
            (Role::Client(host), Role::Client(_)) => self.hosts.read_client(host),
            (Role::UdpSender(udp), Role::UdpReceiver(receiver)) => receiver.meter.reading(udp.lost),
            roles => unreachable!("a stream from and to {roles:?}"),
        }
    }
}
