//! The collector: it joins the readings of both ends of every flow and ping into tables.

use std::collections::{BTreeMap, VecDeque};

use perhop_core::{Dscp, NodeId, Time, TrafficClass};
use perhop_measure::{
    Calls, Codepoints, Completions, Displacements, FlowHistograms, Histogram, Intervals, Labels,
    Marks, Pings, ProbeRecord, StreamCounters, Table,
};
use perhop_workload::{CallCounters, TransportPlan};

use crate::app::Completed;
use crate::error::{ReadingsError, TrafficError};
use crate::job::Job;
use crate::live::End;
use crate::readings::{
    DestinationReading, PingReading, ProcessReading, Readings, ReceiverReadings, ServerReading,
    SourceReading,
};
use perhop_socket::Nanos;

mod check;
mod streams;

use streams::{since, total};

/// Number of warnings that are kept.
const MAX_WARNINGS: usize = 20;

/// State of a stream at the last mark, from which its next rows count.
#[derive(Clone, Debug, Default)]
struct StreamRecord {
    counters: StreamCounters,
    /// Number of datagrams sent by instant, for those that may still be on the way.
    sent: VecDeque<(Nanos, u64)>,
    /// Playout of a call.
    call: CallCounters,
    /// What a client of an application has completed and begun.
    completed: Completed,
}

/// A flow.
#[derive(Clone, Debug)]
struct FlowRecord {
    dscp: Dscp,
    udp: bool,
    quic: bool,
    /// The end that is a server of iperf3, of which no readings arrive.
    server: Option<End>,
    /// Number of its results.
    results: usize,
    /// The nodes at its destination and its source.
    ends: [NodeId; 2],
    streams: Vec<StreamRecord>,
    /// One-way delays since the last cut.
    delays: Histogram,
    /// Smoothed round-trip times since the last cut.
    srtts: Histogram,
    displacements: Vec<[u64; 2]>,
    /// The greatest window that was offered to one of its streams.
    window: u32,
    /// The greatest error bound of the clock offsets in use.
    offset_bound: Option<Nanos>,
}

/// A ping.
#[derive(Clone, Debug)]
struct PingRecord {
    dscp: Dscp,
    /// The nodes that answer and that send requests.
    ends: [NodeId; 2],
    /// Greatest number of requests.
    most: u64,
    records: Vec<ProbeRecord>,
    /// DSCPs and ECN fields of requests on arrival at the node that answers, by number.
    arrived: BTreeMap<u32, TrafficClass>,
}

/// The readings of one mark that have arrived, of both ends of each flow.
#[derive(Clone, Debug, Default)]
struct MarkReadings {
    /// The instant of the mark, or the earlier instant at which the run was stopped.
    at: Time,
    /// Instants at which the counters of each flow's source were read.
    sources: BTreeMap<u32, SourceReading>,
    destinations: BTreeMap<u32, (Nanos, DestinationReading)>,
    /// Results of iperf3's servers.
    results: BTreeMap<u32, ServerReading>,
}

/// Joins the readings of both ends of every flow and ping, mark by mark, into the tables of a
/// dataset.
///
/// Rows of a mark are added when all its readings have arrived. [`tables`](Self::tables) adds the
/// rows of incomplete marks, with null for the values of the end whose readings are absent.
#[derive(Clone, Debug)]
pub struct Collector {
    marks: Marks,
    labels: Labels,
    flows: Vec<FlowRecord>,
    pings: Vec<PingRecord>,
    /// The number of the next mark whose rows are added.
    next: u32,
    /// The number of marks that the job has.
    last: u32,
    pending: BTreeMap<u32, MarkReadings>,
    /// The number of ends whose readings every mark needs.
    ends: usize,
    recorded: Time,
    processes: BTreeMap<u16, ProcessReading>,
    warnings: Vec<String>,
    missing: Vec<String>,
    intervals: Intervals,
    codepoints: Codepoints,
    delays: FlowHistograms,
    srtts: FlowHistograms,
    calls: Calls,
}

impl Collector {
    /// Returns a collector of the readings of a job.
    ///
    /// # Errors
    /// [`TrafficError`] if marks do not rise, or a flow or ping names an unknown node.
    pub fn new(job: &Job) -> Result<Self, TrafficError> {
        let marks = Marks::new(&job.marks, &job.cuts).ok_or(TrafficError::Marks)?;
        marks.end().ok_or(TrafficError::Marks)?;
        let node = |name: &str| job.number(name).map(NodeId);
        let mut flows = Vec::new();
        for (number, flow) in job.flows.iter().enumerate() {
            flows.push(FlowRecord {
                dscp: flow.dscp,
                udp: matches!(flow.transport, TransportPlan::Udp(_)),
                quic: matches!(flow.transport, TransportPlan::Quic(_)),
                server: job.server(number).map(|server| server.end),
                results: 0,
                ends: [node(&flow.to)?, node(&flow.from)?],
                streams: vec![StreamRecord::default(); flow.streams.into()],
                delays: Histogram::default(),
                srtts: Histogram::default(),
                displacements: Vec::new(),
                window: 0,
                offset_bound: None,
            });
        }
        let mut pings = Vec::new();
        for ping in &job.pings {
            pings.push(PingRecord {
                dscp: ping.dscp,
                ends: [node(&ping.to)?, node(&ping.from)?],
                most: ping.most_requests(),
                records: Vec::new(),
                arrived: BTreeMap::new(),
            });
        }
        Ok(Self {
            marks,
            labels: Labels {
                nodes: job.nodes.iter().map(|node| node.name.clone()).collect(),
                flows: job.flows.iter().map(|flow| flow.name.clone()).collect(),
                pings: job.pings.iter().map(|ping| ping.name.clone()).collect(),
                ..Labels::default()
            },
            ends: flows.iter().map(|flow| 2 - usize::from(flow.server.is_some())).sum(),
            flows,
            pings,
            next: 0,
            last: job.marks.len() as u32,
            pending: BTreeMap::new(),
            recorded: Time::ZERO,
            processes: BTreeMap::new(),
            warnings: Vec::new(),
            missing: Vec::new(),
            intervals: Intervals::default(),
            codepoints: Codepoints::default(),
            delays: FlowHistograms::default(),
            srtts: FlowHistograms::default(),
            calls: Calls::default(),
        })
    }

    /// Adds readings from the agent of a node.
    ///
    /// # Errors
    /// [`ReadingsError`] if they contradict the job, or describe ends of other nodes. None of them
    /// are then added.
    pub fn add(&mut self, node: &str, readings: Readings) -> Result<(), ReadingsError> {
        let place = self.labels.nodes.iter().position(|name| name == node);
        let place = place.ok_or_else(|| ReadingsError::UnknownNode(node.to_owned()))? as u16;
        self.check(NodeId(place), &readings).map_err(|what| ReadingsError::Refused {
            node: node.to_owned(),
            mark: readings.mark,
            what,
        })?;
        self.join(place, readings);
        Ok(())
    }

    /// Adds readings of this process, or readings that were checked.
    pub(crate) fn join(&mut self, process: u16, readings: Readings) {
        let Readings { mark, at, read, sources, destinations, pings, process: counters, .. } =
            readings;
        self.processes.insert(process, counters);
        let room = MAX_WARNINGS.saturating_sub(self.warnings.len());
        self.warnings.extend(readings.warnings.into_iter().take(room));
        for what in readings.missing {
            if self.missing.len() < MAX_WARNINGS && !self.missing.contains(&what) {
                self.missing.push(what);
            }
        }
        pings.into_iter().for_each(|ping| self.add_ping(ping));
        let results: Vec<_> =
            readings.results.into_iter().filter_map(|result| self.add_result(result)).collect();
        if mark < self.next {
            return; // its rows were added
        }
        self.recorded = self.recorded.max(at);
        let pending = self.pending.entry(mark).or_default();
        // A process that was stopped earlier than another has a shorter interval.
        pending.at = if pending.at == Time::ZERO { at } else { pending.at.min(at) };
        pending.sources.extend(sources.into_iter().map(|each| (each.flow, each)));
        pending.results.extend(results.into_iter().map(|each| (each.flow, each)));
        pending.destinations.extend(destinations.into_iter().map(|each| (each.flow, (read, each))));
        while let Some(entry) = self.pending.first_entry()
            && *entry.key() == self.next
            && entry.get().sources.len() + entry.get().destinations.len() >= self.ends
        {
            let readings = entry.remove();
            self.record(readings);
            self.next += 1;
        }
    }

    /// Adds the rows of a flow of datagrams to a server, which reports its intervals after its
    /// test. Returns other results.
    fn add_result(&mut self, result: ServerReading) -> Option<ServerReading> {
        let flow = &mut self.flows[result.flow as usize];
        flow.results += 1;
        if !flow.is_counted_by_server() {
            return Some(result);
        }
        let index = result.flow as usize;
        for (number, stream) in result.streams.iter().enumerate() {
            let (reading, known) = stream.reading();
            flow.streams[number].counters.delivered += reading.counters.delivered;
            let none = StreamCounters::default();
            self.intervals.push_known((index, number), result.interval, &none, &reading, known);
        }
        None
    }

    fn add_ping(&mut self, reading: PingReading) {
        let ping = &mut self.pings[reading.ping as usize];
        let known = ping.records.len();
        let skip = known.saturating_sub(reading.first as usize);
        let sent = reading.sent.into_iter().skip(skip);
        ping.records.extend(sent.map(|(sent, ttl)| ProbeRecord { sent, ttl, answer: None }));
        for (sequence, answer) in reading.answers {
            if let Some(record) = ping.records.get_mut(sequence as usize) {
                record.answer.get_or_insert(answer);
            }
        }
        ping.arrived.extend(reading.arrived);
    }

    /// Adds the rows of the next mark.
    fn record(&mut self, readings: MarkReadings) {
        let stretch = self.marks.read(readings.at);
        for (index, flow) in self.flows.iter_mut().enumerate() {
            let source = readings.sources.get(&(index as u32));
            let destination = readings.destinations.get(&(index as u32));
            let result = readings.results.get(&(index as u32));
            for number in 0..flow.streams.len() {
                if flow.is_counted_by_server() {
                    continue; // its server's intervals have rows of their own
                }
                let (mut reading, mut known) = flow.stream(number, source, destination);
                if let Some(again) = result.and_then(|all| all.streams[number].retransmits) {
                    reading.counters.retransmits += again;
                    known.retransmits = true;
                }
                if let Some(call) = destination.and_then(|(_, end)| end.call(number)) {
                    let last = &mut flow.streams[number].call;
                    let call = call.no_less_than(last);
                    self.calls.push((index, number), stretch, *last, call);
                    *last = call;
                }
                let before = &mut flow.streams[number].counters;
                let reading = since(before, reading);
                self.intervals.push_known((index, number), stretch, before, &reading, known);
                let order = reading.counters.order.or(before.order);
                *before = StreamCounters { order, ..reading.counters };
            }
            if let Some(source) = source {
                flow.srtts.merge(&source.srtts);
            }
            if let Some((_, destination)) = destination {
                for (stream, more) in flow.streams.iter_mut().zip(&destination.completed) {
                    stream.completed.finished.extend(&more.finished);
                    stream.completed.unfinished.clone_from(&more.unfinished);
                }
                flow.delays.merge(&destination.delays);
                if let Some(counts) = &destination.displacements {
                    flow.displacements.clone_from(counts);
                }
                flow.offset_bound = flow.offset_bound.max(destination.offset_bound);
            }
            let classes = [
                destination.and_then(|(_, reading)| reading.arrived.as_ref()),
                source.and_then(|reading| reading.arrived.as_ref()),
            ];
            for (node, classes) in flow.ends.into_iter().zip(classes) {
                let arrived = classes.into_iter().flatten().copied();
                self.codepoints.push((index, node, flow.dscp), stretch, arrived);
            }
        }
        if let Some(since_cut) = self.marks.cut() {
            for (index, flow) in self.flows.iter_mut().enumerate() {
                self.delays.push_flow(index, since_cut, &flow.delays);
                flow.delays.clear();
                self.srtts.push_flow(index, since_cut, &flow.srtts);
                flow.srtts.clear();
            }
        }
    }

    /// Returns the tables by name: `intervals`, `pings`, `codepoints`, `rtts`, `srtts`, `delays`,
    /// `displacements`, `calls`.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        let mut all = self.clone();
        for readings in std::mem::take(&mut all.pending).into_values() {
            all.record(readings);
        }
        let labels = &self.labels;
        let completions = all.completions();
        let mut pings = Pings::default();
        let mut displacements = Displacements::default();
        for (index, ping) in all.pings.iter().enumerate() {
            for (sequence, record) in ping.records.iter().enumerate() {
                let mut record = *record;
                // If the arrival of the request was observed, its DSCP and ECN field need not be
                // inferred from the reply.
                if let (Some(answer), Some(&class)) =
                    (&mut record.answer, ping.arrived.get(&(sequence as u32)))
                    && answer.error.is_none()
                {
                    answer.arrived = Some(class);
                }
                pings.push(index, sequence, ping.dscp, &record);
            }
        }
        for (index, flow) in all.flows.iter().enumerate() {
            // Right after a cut, packets may have arrived before the next interval exists.
            if let Some(since_cut) = all.marks.since_cut(all.marks.recorded()) {
                all.delays.push_flow(index, since_cut, &flow.delays);
                all.srtts.push_flow(index, since_cut, &flow.srtts);
            }
            displacements.push_counts(index, &flow.displacements);
        }
        vec![
            ("intervals", all.intervals.table(labels)),
            ("pings", pings.table(labels)),
            ("codepoints", all.codepoints.table(labels)),
            ("rtts", FlowHistograms::default().table(labels)),
            ("srtts", all.srtts.table(labels)),
            ("delays", all.delays.table(labels)),
            ("displacements", displacements.table(labels)),
            ("calls", all.calls.table(labels)),
            ("completions", completions.table(labels)),
        ]
    }

    /// Returns what clients have completed, and what they have begun.
    fn completions(&self) -> Completions {
        let flows = self.flows.iter().enumerate();
        let clients = flows.flat_map(|(index, flow)| {
            let streams = flow.streams.iter().enumerate();
            streams.map(move |(number, stream)| ((index, number), &stream.completed))
        });
        let mut table = Completions::default();
        for (place, completed) in clients.clone() {
            completed.finished.iter().for_each(|record| table.push(place, record));
        }
        for (place, completed) in clients {
            completed.unfinished.iter().for_each(|record| table.push(place, record));
        }
        table
    }

    /// Returns the instant up to which the tables extend.
    pub fn recorded(&self) -> Time {
        self.recorded
    }

    /// Returns the names of the flows, in the order of the job.
    pub fn flows(&self) -> &[String] {
        &self.labels.flows
    }

    /// Returns the bytes that each flow has delivered, by its last reading.
    pub fn delivered(&self) -> Vec<u64> {
        let delivered = |(index, flow): (usize, &FlowRecord)| {
            let mut readings = self.pending.values().rev();
            let last = readings.find_map(|mark| mark.destinations.get(&(index as u32)));
            match last.map(|(_, reading)| &reading.streams) {
                Some(ReceiverReadings::Tcp(streams)) => {
                    total(streams.iter().map(|stream| stream.delivered))
                }
                Some(ReceiverReadings::Udp(streams)) => {
                    total(streams.iter().map(|stream| stream.delivered))
                }
                None => total(flow.streams.iter().map(|stream| stream.counters.delivered)),
            }
        };
        self.flows.iter().enumerate().map(delivered).collect()
    }

    /// Returns the greatest window that each flow's receivers have offered, in bytes; zero for a
    /// flow of datagrams.
    pub fn windows(&self) -> Vec<u32> {
        let mut windows: Vec<_> = self.flows.iter().map(|flow| flow.window).collect();
        for source in self.pending.values().flat_map(|mark| mark.sources.values()) {
            let window = &mut windows[source.flow as usize];
            *window = (*window).max(source.window());
        }
        windows
    }

    /// Returns the counters of all processes together, by name (see [`ProcessReading::by_name`]).
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        ProcessReading::sum(self.processes.values()).by_name()
    }

    /// Returns the total duration of the stalls of each node's process, in microseconds.
    pub fn stalled_us(&self) -> Vec<(&str, u64)> {
        let named = self.processes.iter();
        named
            .filter_map(|(&node, process)| {
                Some((&self.labels.nodes.get(usize::from(node))?[..], process.stalled_us))
            })
            .collect()
    }

    /// Returns the warnings of readings since the last call; the first twenty.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns the measurements that were not possible, with the reasons.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Returns the greatest error bound in nanoseconds of the clock offsets by which each flow's
    /// one-way delays were corrected; `None` where they were not.
    pub fn offset_bounds(&self) -> Vec<Option<Nanos>> {
        let pending = |index: usize| {
            let marks = self.pending.values();
            let readings = marks.filter_map(move |mark| mark.destinations.get(&(index as u32)));
            readings.filter_map(|(_, reading)| reading.offset_bound).max()
        };
        let flows = self.flows.iter().enumerate();
        flows.map(|(index, flow)| flow.offset_bound.max(pending(index))).collect()
    }
}

#[cfg(test)]
mod tests;
