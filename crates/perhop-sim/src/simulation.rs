//! A plan, compiled and run.

use std::io;
use std::sync::Arc;

use perhop_core::{Dscp, NodeId, Time};
use perhop_measure::{
    Calls, CapturePlan, Codepoints, Completions, Displacements, FlowHistograms, Histogram,
    Intervals, Labels, Marks, NetworkMeter, Pings, Samples, Sink, StreamCounters, StreamReading,
    Stretch, Table,
};
use perhop_plan::{BuildError, Names};
use perhop_workload::FlowPlan;

use crate::ends::{Ends, Stream};
use crate::hosts::Role;
use crate::parts::{Part, Parts, Whole, divide};
use crate::plan::*;

/// A running simulation.
#[derive(Debug)]
pub struct Simulation {
    parts: Parts,
    /// Why there is one part only.
    whole: Option<Whole>,
    names: Names,
    labels: Labels,
    streams: Vec<Stream>,
    /// Endpoints of the pings.
    pingers: Vec<u32>,
    meter: NetworkMeter,
    marks: Marks,
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
        Self::with_threads(plan, 1)
    }

    /// Compiles a plan that at most `threads` threads run, each a part of the network. Tables do
    /// not depend on their number.
    ///
    /// # Errors
    /// [`BuildError`] for an invalid value.
    pub fn with_threads(plan: &Plan, threads: usize) -> Result<Self, BuildError> {
        let marks = Marks::new(&plan.network.marks, &plan.cuts).ok_or(BuildError::Marks)?;
        let names = plan.network.names()?;
        let (network, ends) = (plan.network.network(&names)?, Ends::of(plan)?);
        let division = divide(plan, &names, &network, threads)?;
        let (parts, whole) = match division {
            Err(reason) => {
                (Parts::whole(ends.part(plan, &names, network, |_| true)?), Some(reason))
            }
            Ok(division) => {
                let part = |number: usize| {
                    let mut network = plan.network.network(&names)?;
                    let own =
                        |node: NodeId| usize::from(division.owners[usize::from(node.0)]) == number;
                    network.keep(own);
                    ends.part(plan, &names, network, own)
                };
                let parts = (0..division.parts).map(part).collect::<Result<_, _>>()?;
                (Parts::divided(parts, division), None)
            }
        };
        let end =
            |flow: &FlowPlan| Ok(([names.node(&flow.to)?, names.node(&flow.from)?], flow.dscp));
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
            meter: NetworkMeter::new(&parts.first().network),
            parts,
            whole,
            streams: ends.streams,
            pingers: ends.pingers,
            marks,
            codepoints: Codepoints::default(),
            ends: plan.flows.iter().map(end).collect::<Result<_, BuildError>>()?,
            names,
            intervals: Intervals::default(),
            histograms: Default::default(),
            calls: Calls::default(),
        };
        simulation.change();
        Ok(simulation)
    }

    /// Returns the number of parts that run side by side.
    pub fn parts(&self) -> usize {
        self.parts.number()
    }

    /// Returns the reason for which there is one part only, if that is so.
    pub fn whole(&self) -> Option<Whole> {
        self.whole
    }

    /// Applies the changes that are due, which are the same in all parts.
    fn change(&mut self) {
        let now = self.now();
        while self.parts.first().changes.front().is_some_and(|(at, _)| *at <= now) {
            let mut other_classes = None;
            for Part { network, changes, .. } in self.parts.iter_mut() {
                if let Some((_, effect)) = changes.pop_front() {
                    other_classes = effect.other_classes();
                    effect.apply(network);
                }
            }
            if let Some(port) = other_classes {
                self.meter.set_queue(self.parts.network(port), port);
            }
        }
    }

    /// Captures packets that pass some interfaces to `sink`, from now on.
    ///
    /// # Errors
    /// [`BuildError::UnknownLink`] if an interface does not exist; [`BuildError::CaptureInParts`]
    /// with several parts.
    pub fn capture(&mut self, plan: &CapturePlan, sink: Box<dyn Sink>) -> Result<(), BuildError> {
        let ports = plan.interfaces.iter().map(|interface| self.names.port(&interface.name));
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        if self.parts.number() > 1 {
            return Err(BuildError::CaptureInParts);
        }
        let part = self.parts.first_mut();
        ports.iter().for_each(|port| part.network.watch(*port));
        part.hosts.captures.captures.add(plan, &ports, sink);
        Ok(())
    }

    /// Returns the cause of a failure that has ended a capture, once. The run continues without the
    /// capture.
    pub fn take_capture_failure(&mut self) -> Option<io::Error> {
        self.parts.first_mut().hosts.captures.captures.take_failure()
    }

    /// Returns the instant that the simulation has reached.
    pub fn now(&self) -> Time {
        self.parts.first().network.now()
    }

    /// Returns the end of the run.
    pub fn end(&self) -> Time {
        self.marks.end().unwrap_or(Time::ZERO)
    }

    /// Returns the number of events processed so far.
    pub fn events(&self) -> u64 {
        self.parts.iter().map(|part| part.network.events()).sum()
    }

    /// Returns the number of links crossed by packets so far.
    pub fn packet_hops(&self) -> u64 {
        self.parts.iter().map(|part| part.network.packet_hops()).sum()
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
        let endpoints = self.parts.iter().flat_map(|part| &part.hosts.endpoints);
        let roles = endpoints.map(|endpoint| &endpoint.role);
        roles
            .map(|role| if let Role::Client(host) = role { host.connections.len() } else { 0 })
            .sum()
    }

    /// Runs until `until` or the end, whichever is first, and reads counters at every mark.
    /// Captures are complete up to there.
    pub fn advance(&mut self, until: Time) {
        let until = until.min(self.end());
        while let Some(mark) = self.marks.due(until) {
            self.parts.run(mark);
            self.record(mark);
            self.change();
        }
        self.parts.run(until);
        self.parts.first_mut().hosts.captures.captures.flush();
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
            let endpoint = self.parts.endpoint(pinger);
            let Role::Pinger(pinger) = &endpoint.role else { unreachable!("pingers are pingers") };
            for (sequence, record) in pinger.records.iter().enumerate() {
                pings.push(index, sequence, endpoint.line.header.dscp(), record);
            }
        }
        let mut histograms = self.histograms.clone();
        if let Some(stretch) = self.marks.since_cut(self.now()) {
            self.push_histograms(&mut histograms, stretch);
        }
        let [rtts, srtts, delays] = histograms.map(|table| table.table(labels));
        let [queues, links, stations, tunnels] = self.meter.tables(labels);
        vec![
            ("intervals", self.intervals.table(labels)),
            ("pings", pings.table(labels)),
            queues,
            links,
            stations,
            tunnels,
            self.parts.first().hosts.losses.table(labels),
            ("codepoints", self.codepoints.table(labels)),
            ("rtts", rtts),
            ("srtts", srtts),
            ("delays", delays),
            ("displacements", self.displacements().table(labels)),
            ("calls", self.calls.table(labels)),
            ("completions", self.completions().table(labels)),
        ]
    }

    /// Returns what applications have completed, and what they have begun.
    fn completions(&self) -> Completions {
        let clients = self.streams.iter().filter_map(|stream| {
            match &self.parts.endpoint(stream.sender).role {
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
            let receivers = streams.iter().map(|stream| &self.parts.endpoint(stream.receiver).role);
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
        for index in 0..self.streams.len() {
            let stream = &self.streams[index];
            let reading = self.read(stream);
            let place = (stream.flow as usize, stream.number as usize);
            self.intervals.push(place, stretch, &stream.last, &reading);
            let (sender, receiver) = (stream.sender, stream.receiver);
            match &mut self.parts.hosts_mut(sender).endpoints[sender as usize].role {
                Role::TcpSender(tcp) => {
                    (tcp.rtt, tcp.srtt) = (Samples::default(), Samples::default());
                }
                Role::QuicSender(quic) => {
                    (quic.rtt, quic.srtt) = (Samples::default(), Samples::default());
                }
                _ => {}
            }
            let hosts = self.parts.hosts_mut(receiver);
            match &mut hosts.endpoints[receiver as usize].role {
                Role::TcpReceiver(tcp) => tcp.delay = Samples::default(),
                Role::QuicReceiver(quic) => quic.delay = Samples::default(),
                Role::Client(_) => hosts.clear_samples(receiver),
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
        for (flow, (nodes, sent)) in self.ends.iter().enumerate() {
            for (node, answers) in nodes.iter().zip([false, true]) {
                let arrived = self.parts.arrived_mut(flow, *node, answers);
                self.codepoints.push((flow, *node, *sent), stretch, arrived.take());
            }
        }
        if let Some(since_cut) = self.marks.cut() {
            let mut histograms = std::mem::take(&mut self.histograms);
            self.push_histograms(&mut histograms, since_cut);
            self.histograms = histograms;
            for part in self.parts.iter_mut() {
                let flows = part.hosts.histograms_mut().into_iter().flatten();
                flows.for_each(Histogram::clear);
            }
        }
        let parts = &self.parts;
        self.meter.record_parts(&parts.first().network, |port| parts.network(port), stretch);
        self.parts.losses().record(stretch);
    }

    /// Adds the distributions of all flows since the last cut.
    fn push_histograms(&self, tables: &mut [FlowHistograms; 3], stretch: Stretch) {
        for (flow, (ends, _)) in self.ends.iter().enumerate() {
            for (table, histogram) in tables.iter_mut().zip(self.parts.histograms(flow, *ends)) {
                table.push_flow(flow, stretch, histogram);
            }
        }
    }

    fn read(&self, stream: &Stream) -> StreamReading {
        let role = |endpoint: u32| &self.parts.endpoint(endpoint).role;
        match (role(stream.sender), role(stream.receiver)) {
            (Role::TcpSender(tcp), Role::TcpReceiver(received_by)) => {
                let received = received_by.receiver.received();
                let counters = StreamCounters {
                    delivered: received.delivered,
                    packets: received.segments,
                    lost: self.parts.lost(stream.sender),
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
            (Role::QuicSender(quic), Role::QuicReceiver(received_by)) => {
                quic.read(received_by, self.parts.lost(stream.sender))
            }
            (Role::Client(host), Role::Client(_)) => {
                self.parts.hosts(stream.sender).read_client(host)
            }
            (Role::UdpSender(_), Role::UdpReceiver(receiver)) => {
                receiver.meter.reading(self.parts.lost(stream.sender))
            }
            roles => unreachable!("a stream from and to {roles:?}"),
        }
    }
}
