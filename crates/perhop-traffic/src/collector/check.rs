//! Checks of readings. Those of other hosts are not trusted: a reading that contradicts the job is
//! refused.

use perhop_core::{NodeId, TrafficClass};
use perhop_measure::{OrderCounts, Samples};
use perhop_workload::CallCounters;

use super::Collector;
use crate::live::End;
use crate::readings::{
    ConnectionReceiver, ConnectionSender, PingReading, Readings, ReceiverReadings, SenderReadings,
    ServerReading, StreamResult,
};

/// Greatest value of a counter: a double holds integers up to it exactly.
const MAX_COUNT: u64 = 1 << 53;

/// The longest list of instants, displacements or DSCPs in one reading.
const MAX_LIST: usize = 100_000;

impl Collector {
    /// Checks the readings of a node. The error describes the contradiction.
    pub(super) fn check(&self, node: NodeId, readings: &Readings) -> Result<(), String> {
        if readings.mark > self.last {
            return Err(format!("the job has {} marks", self.last));
        }
        if self.marks.end().is_some_and(|end| readings.at > end) {
            return Err("the instant is after the last mark".to_owned());
        }
        let flow = |number: u32, end: usize| {
            let flow = self.flows.get(number as usize);
            let flow = flow.ok_or_else(|| format!("there is no flow {number}"))?;
            match flow.ends[end] == node {
                true => Ok(flow),
                false => Err(format!("flow {number} has another host at this end")),
            }
        };
        for source in &readings.sources {
            let flow = flow(source.flow, 1)?;
            let (udp, streams) = match &source.streams {
                SenderReadings::Tcp(streams) => {
                    samples(streams.iter().map(|stream| &stream.srtt))?;
                    for stream in streams {
                        let ConnectionSender { retransmits, repeated, reordered, echoed, .. } =
                            *stream;
                        let [cwnd, acked] =
                            [stream.cwnd, stream.acked].map(Option::unwrap_or_default);
                        counts([retransmits, repeated, reordered, echoed, cwnd, acked])?;
                    }
                    (false, streams.len())
                }
                SenderReadings::Udp(streams) => {
                    for stream in streams {
                        list(stream.history.len())?;
                        counts([stream.sent])?;
                    }
                    (true, streams.len())
                }
            };
            check_streams((flow.udp, flow.streams.len()), (udp, streams))?;
            classes(source.arrived.as_deref())?;
        }
        for destination in &readings.destinations {
            let flow = flow(destination.flow, 0)?;
            let (udp, streams) = match &destination.streams {
                ReceiverReadings::Tcp(streams) => {
                    for stream in streams {
                        let ConnectionReceiver { delivered, packets, marked, acks, .. } = *stream;
                        counts([delivered, packets, marked.unwrap_or(0), acks])?;
                    }
                    (false, streams.len())
                }
                ReceiverReadings::Udp(streams) => {
                    samples(streams.iter().map(|stream| &stream.delay))?;
                    for stream in streams {
                        let OrderCounts { reordered, by_three, extents, extent_max, duplicates } =
                            stream.order;
                        counts([stream.delivered, stream.packets, stream.marked])?;
                        let CallCounters { packets, played, late, bursts, delay_ns } =
                            stream.call.unwrap_or_default();
                        counts([packets, played, late, bursts, delay_ns])?;
                        counts([reordered, by_three, extents, extent_max, duplicates])?;
                    }
                    (true, streams.len())
                }
            };
            check_streams((flow.udp, flow.streams.len()), (udp, streams))?;
            classes(destination.arrived.as_deref())?;
            let displacements = destination.displacements.as_deref().unwrap_or_default();
            list(displacements.len())?;
            counts(displacements.as_flattened().iter().copied())?;
        }
        readings.results.iter().try_for_each(|result| self.check_result(node, result))?;
        readings.pings.iter().try_for_each(|ping| self.check_ping(node, ping))
    }

    fn check_result(&self, node: NodeId, result: &ServerReading) -> Result<(), String> {
        let ServerReading { flow: number, interval: (start, end), ref streams } = *result;
        let flow = self.flows.get(number as usize);
        let flow = flow.ok_or_else(|| format!("there is no flow {number}"))?;
        let client = match flow.server {
            Some(End::Source) => flow.ends[0],
            Some(End::Destination) => flow.ends[1],
            None => return Err(format!("flow {number} has no server of iperf3")),
        };
        if client != node {
            return Err(format!("flow {number} has another host at this end"));
        }
        list(flow.results)?;
        if start >= end || self.marks.end().is_some_and(|last| end > last) {
            return Err(format!("a result of flow {number} has an impossible interval"));
        }
        if streams.len() != flow.streams.len() {
            return Err(format!("flow {number} has {} streams", flow.streams.len()));
        }
        let numbers =
            |stream: &StreamResult| [stream.bytes, stream.packets, stream.lost, stream.retransmits];
        counts(streams.iter().flat_map(numbers).flatten())
    }

    fn check_ping(&self, node: NodeId, reading: &PingReading) -> Result<(), String> {
        let number = reading.ping;
        let ping = self.pings.get(number as usize);
        let ping = ping.ok_or_else(|| format!("there is no ping {number}"))?;
        let asks = ping.ends[1] == node;
        let asked = !reading.sent.is_empty() || !reading.answers.is_empty();
        if asked && !asks {
            return Err(format!("ping {number} is sent by another host"));
        }
        if ping.ends[0] != node && !reading.arrived.is_empty() {
            return Err(format!("ping {number} is answered by another host"));
        }
        if asks && reading.first as usize > ping.records.len() {
            return Err(format!("requests of ping {number} are missing"));
        }
        let sent = reading.first as usize + reading.sent.len();
        if asks && sent as u64 > ping.most {
            return Err(format!("ping {number} has {} requests at most", ping.most));
        }
        if reading.arrived.iter().any(|(number, _)| u64::from(*number) >= ping.most) {
            return Err(format!("ping {number} has {} requests at most", ping.most));
        }
        let nodes = self.labels.nodes.len();
        match reading.answers.iter().all(|(_, answer)| usize::from(answer.node.0) < nodes) {
            true => Ok(()),
            false => Err(format!("ping {number} was answered by an unknown node")),
        }
    }
}

fn list(length: usize) -> Result<(), String> {
    match length <= MAX_LIST {
        true => Ok(()),
        false => Err(format!("a list has {length} items; expected at most {MAX_LIST}")),
    }
}

fn counts(all: impl IntoIterator<Item = u64>) -> Result<(), String> {
    match all.into_iter().max() {
        Some(most) if most > MAX_COUNT => Err(format!("a counter is {most}")),
        _ => Ok(()),
    }
}

fn classes(all: Option<&[(TrafficClass, u64)]>) -> Result<(), String> {
    let all = all.unwrap_or_default();
    list(all.len())?;
    counts(all.iter().map(|(_, packets)| *packets))
}

fn samples<'a>(mut all: impl Iterator<Item = &'a Samples>) -> Result<(), String> {
    match all.all(Samples::is_sound) {
        true => Ok(()),
        false => Err("samples have a minimum above their maximum, or a negative sum".to_owned()),
    }
}

fn check_streams(expected: (bool, usize), (udp, streams): (bool, usize)) -> Result<(), String> {
    if expected == (udp, streams) {
        return Ok(());
    }
    let name = |udp| if udp { "UDP" } else { "TCP" };
    let (protocol, number) = (name(expected.0), expected.1);
    Err(format!("{streams} streams of {}; expected {number} of {protocol}", name(udp)))
}
