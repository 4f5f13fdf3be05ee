//! The tables of measurements.

use std::sync::Arc;

use perhop_app::Record;
use perhop_core::{Dscp, Duration, NodeId, Time, TrafficClass};
use perhop_net::{IcmpError, LinkCounters, PortId};
use perhop_queue::{Backlog, Cause, ClassCounters};
use perhop_workload::CallCounters;

use crate::density::Density;
use crate::histogram::Histogram;
use crate::order::OrderCounts;
use crate::pinger::{Answer, ProbeRecord};
use crate::reading::{StreamCounters, StreamReading};

/// A column of a table. NaN in a column of floats, and a negative number in others, stand for a
/// missing value.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Integers.
    Integers(Vec<i64>),
    /// Measured values.
    Floats(Vec<f64>),
    /// Names, each as its index in this list.
    Names(Arc<[String]>, Vec<i64>),
}

/// A table: columns of equal length, by name.
pub type Table = Vec<(&'static str, Column)>;

/// Names of nodes, directed links, classes, flows and pings by their numbers in tables.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Nodes.
    pub nodes: Arc<[String]>,
    /// Directed links, by port.
    pub links: Arc<[String]>,
    /// Radio channels.
    pub channels: Arc<[String]>,
    /// Tunnels.
    pub tunnels: Arc<[String]>,
    /// Classes, by their numbers in a [`NetworkMeter`](crate::NetworkMeter).
    pub classes: Arc<[String]>,
    /// Flows.
    pub flows: Arc<[String]>,
    /// Pings.
    pub pings: Arc<[String]>,
}

impl Labels {
    /// Returns a column of a few distinct words, each as its index.
    fn words(words: Vec<&'static str>) -> Column {
        let mut known = Vec::new();
        let mut place = |word| {
            known.iter().position(|each| *each == word).unwrap_or_else(|| {
                known.push(word);
                known.len() - 1
            }) as i64
        };
        let places = words.into_iter().map(|word| if word.is_empty() { -1 } else { place(word) });
        let places = places.collect();
        Column::Names(known.into_iter().map(str::to_owned).collect(), places)
    }
}

/// Declares a table that is filled row by row; its fields are the columns, in order.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($column:ident: $type:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub struct $name { $($column: Values<table!(@element $type)>),* }

        impl $name {
            /// Returns the columns as a table.
            #[allow(unused_variables, reason = "a table of measures alone has no names")]
            pub fn table(&self, labels: &Labels) -> Table {
                vec![$((stringify!($column), table!(@column $type labels self.$column.to_vec()))),*]
            }
        }
    };
    (@element Floats) => { f64 };
    (@element Words) => { &'static str };
    (@element $integers:ident) => { i64 };
    (@column Floats $labels:ident $values:expr) => { Column::Floats($values) };
    (@column Integers $labels:ident $values:expr) => { Column::Integers($values) };
    (@column Words $labels:ident $values:expr) => { Labels::words($values) };
    (@column Flow $labels:ident $values:expr) => {
        Column::Names(Arc::clone(&$labels.flows), $values)
    };
    (@column Ping $labels:ident $values:expr) => {
        Column::Names(Arc::clone(&$labels.pings), $values)
    };
    (@column Link $labels:ident $values:expr) => {
        Column::Names(Arc::clone(&$labels.links), $values)
    };
    (@column Class $labels:ident $values:expr) => {
        Column::Names(Arc::clone(&$labels.classes), $values)
    };
    (@column Node $labels:ident $values:expr) => {
        Column::Names(Arc::clone(&$labels.nodes), $values)
    };
    (@column Channel $labels:ident $values:expr) => {
        Column::Names(Arc::clone(&$labels.channels), $values)
    };
    (@column Tunnel $labels:ident $values:expr) => {
        Column::Names(Arc::clone(&$labels.tunnels), $values)
    };
}

mod sharing;
mod values;

use values::Values;

pub use sharing::{Stations, Tunnels};

table! {
    /// One row per stream and interval between two marks.
    Intervals {
        flow: Flow,
        stream: Integers,
        start_s: Floats,
        end_s: Floats,
        bytes: Integers,
        packets: Integers,
        lost: Integers,
        reordered: Integers,
        reordered_by_3: Integers,
        extent: Floats,
        extent_max: Integers,
        duplicates: Integers,
        marked: Integers,
        echoed: Integers,
        retransmits: Integers,
        acks: Integers,
        sacks: Integers,
        rtt_s: Floats,
        rtt_min_s: Floats,
        rtt_max_s: Floats,
        rtt_samples: Integers,
        srtt_s: Floats,
        srtt_min_s: Floats,
        srtt_max_s: Floats,
        srtt_samples: Integers,
        owd_s: Floats,
        owd_min_s: Floats,
        owd_max_s: Floats,
        owd_samples: Integers,
        jitter_s: Floats,
        cwnd: Integers,
        completion_s: Floats,
    }
}

table! {
    /// One row per probe of a ping.
    Pings {
        ping: Ping,
        sequence: Integers,
        ttl: Integers,
        sent_s: Floats,
        rtt_s: Floats,
        node: Node,
        answer: Words,
        dscp_sent: Integers,
        dscp_arrived: Integers,
        dscp_echoed: Integers,
        ecn_arrived: Integers,
        ecn_echoed: Integers,
    }
}

table! {
    /// One row per class and interval between two marks.
    Queues {
        link: Link,
        class: Class,
        start_s: Floats,
        end_s: Floats,
        sent_packets: Integers,
        sent_bytes: Integers,
        dropped_packets: Integers,
        dropped_limit: Integers,
        dropped_policer: Integers,
        dropped_early: Integers,
        marked_packets: Integers,
        remarked_packets: Integers,
        conformed_packets: Integers,
        conformed_bytes: Integers,
        exceeded_packets: Integers,
        exceeded_bytes: Integers,
        violated_packets: Integers,
        violated_bytes: Integers,
        backlog_packets: Integers,
        backlog_bytes: Integers,
    }
}

table! {
    /// One row per port and interval between two marks.
    Links {
        link: Link,
        start_s: Floats,
        end_s: Floats,
        sent_packets: Integers,
        sent_bytes: Integers,
        lost_packets: Integers,
        duplicated_packets: Integers,
        reordered_packets: Integers,
        utilisation: Floats,
    }
}

table! {
    /// One row per flow, port before which or on whose link packets were lost, cause, and interval
    /// between two marks.
    Losses {
        flow: Flow,
        link: Link,
        cause: Words,
        start_s: Floats,
        end_s: Floats,
        packets: Integers,
    }
}

table! {
    /// One row per flow, node at which its packets arrived, interval between two marks of the
    /// scenario, and DSCP and ECN field with which some of them arrived.
    Codepoints {
        flow: Flow,
        node: Node,
        start_s: Floats,
        end_s: Floats,
        dscp_sent: Integers,
        dscp_arrived: Integers,
        ecn_arrived: Integers,
        packets: Integers,
    }
}

table! {
    /// One row per flow, interval between two cuts, and bin of its one-way delays or round-trip
    /// times.
    FlowHistograms {
        flow: Flow,
        start_s: Floats,
        end_s: Floats,
        low_s: Floats,
        high_s: Floats,
        samples: Integers,
    }
}

table! {
    /// One row per transfer, call, page, segment, startup or stall of an application, in the order
    /// of their ends, and at last those that were incomplete at the end of the run.
    Completions {
        flow: Flow,
        stream: Integers,
        kind: Words,
        number: Integers,
        start_s: Floats,
        first_byte_s: Floats,
        end_s: Floats,
        bytes: Integers,
        exchanges: Integers,
        opened: Integers,
        bitrate_bps: Integers,
        buffer_s: Floats,
    }
}

impl Completions {
    /// Adds a record of a client, given by its flow and the number of its stream.
    pub fn push(&mut self, (flow, stream): (usize, usize), record: &Record) {
        let seconds = |at: Option<Time>| at.map_or(f64::NAN, Time::as_secs_f64);
        self.flow.push(flow as i64);
        self.stream.push(stream as i64);
        self.kind.push(record.kind.name());
        self.number.push(record.number.into());
        self.start_s.push(record.start.as_secs_f64());
        self.first_byte_s.push(seconds(record.first_byte));
        self.end_s.push(seconds(record.end));
        self.bytes.push(record.bytes as i64);
        self.exchanges.push(record.exchanges.into());
        self.opened.push(record.opened.into());
        self.bitrate_bps.push(record.bitrate.map_or(-1, |rate| rate as i64));
        self.buffer_s.push(record.buffer.map_or(f64::NAN, Duration::as_secs_f64));
    }
}

table! {
    /// One row per flow and displacement: the number of early and of late packets.
    Displacements {
        flow: Flow,
        by: Integers,
        early: Integers,
        late: Integers,
    }
}

table! {
    /// One row per call and interval between two marks: the packets whose time of playout was in
    /// the interval.
    Calls {
        flow: Flow,
        stream: Integers,
        start_s: Floats,
        end_s: Floats,
        packets: Integers,
        played: Integers,
        late: Integers,
        bursts: Integers,
        delay_s: Floats,
    }
}

/// An interval between two marks.
pub type Stretch = (Time, Time);

impl Intervals {
    /// Adds the difference between two readings of a stream, given by its flow and its number.
    pub fn push(
        &mut self,
        (flow, stream): (usize, usize),
        (start, end): Stretch,
        before: &StreamCounters,
        reading: &StreamReading,
    ) {
        let after = &reading.counters;
        let [rtt, rtt_min, rtt_max] = reading.rtt.in_seconds();
        let [srtt, srtt_min, srtt_max] = reading.srtt.in_seconds();
        let [owd, owd_min, owd_max] = reading.delay.in_seconds();
        self.flow.push(flow as i64);
        self.stream.push(stream as i64);
        self.start_s.push(start.as_secs_f64());
        self.end_s.push(end.as_secs_f64());
        self.bytes.push((after.delivered - before.delivered) as i64);
        self.packets.push((after.packets - before.packets) as i64);
        self.lost.push((after.lost - before.lost) as i64);
        self.reordered.push((after.reordered - before.reordered) as i64);
        self.marked.push((after.marked - before.marked) as i64);
        self.echoed.push((after.echoed - before.echoed) as i64);
        self.retransmits.push((after.retransmits - before.retransmits) as i64);
        self.acks.push((after.acks - before.acks) as i64);
        let sacks = after.sacks.map(|sacks| (sacks - before.sacks.unwrap_or(0)) as i64);
        self.sacks.push(sacks.unwrap_or(-1));
        self.push_order(before.order.unwrap_or_default(), after.order);
        self.rtt_s.push(rtt);
        self.rtt_min_s.push(rtt_min);
        self.rtt_max_s.push(rtt_max);
        self.rtt_samples.push(reading.rtt.count as i64);
        self.srtt_s.push(srtt);
        self.srtt_min_s.push(srtt_min);
        self.srtt_max_s.push(srtt_max);
        self.srtt_samples.push(reading.srtt.count as i64);
        self.owd_s.push(owd);
        self.owd_min_s.push(owd_min);
        self.owd_max_s.push(owd_max);
        self.owd_samples.push(reading.delay.count as i64);
        // Jitter needs arrivals, but no clocks that agree.
        let arrived = reading.delay.count > 0 || after.packets > before.packets;
        let jitter = reading.jitter.filter(|_| arrived);
        self.jitter_s.push(jitter.map_or(f64::NAN, Duration::as_secs_f64));
        self.cwnd.push(reading.cwnd.map_or(-1, |cwnd| cwnd as i64));
        // In the interval in which it was reached, and in no other.
        let completion = after.completion.filter(|_| before.completion.is_none());
        self.completion_s.push(completion.map_or(f64::NAN, Duration::as_secs_f64));
    }
}

/// Counters of a stream that are known in an interval. Unknown ones are null, not zero: the
/// stream's host did not report them, or lacks the rights to read them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Bytes that arrived.
    pub bytes: bool,
    /// Packets that arrived.
    pub packets: bool,
    /// Lost packets.
    pub lost: bool,
    /// Reordered packets.
    pub reordered: bool,
    /// Packets that arrived with congestion experienced.
    pub marked: bool,
    /// Echoes of marks.
    pub echoed: bool,
    /// Retransmissions.
    pub retransmits: bool,
    /// Acknowledgements that were sent.
    pub acks: bool,
}

impl Intervals {
    /// Does the same as [`push`](Self::push), with null for unknown counters.
    pub fn push_known(
        &mut self,
        stream: (usize, usize),
        stretch: Stretch,
        before: &StreamCounters,
        reading: &StreamReading,
        known: Known,
    ) {
        self.push(stream, stretch, before, reading);
        let columns = [
            (&mut self.bytes, known.bytes),
            (&mut self.packets, known.packets),
            (&mut self.lost, known.lost),
            (&mut self.reordered, known.reordered),
            (&mut self.marked, known.marked),
            (&mut self.echoed, known.echoed),
            (&mut self.retransmits, known.retransmits),
            (&mut self.acks, known.acks),
        ];
        for (column, known) in columns {
            if !known {
                column.replace_last(-1);
            }
        }
    }

    fn push_order(&mut self, before: OrderCounts, after: Option<OrderCounts>) {
        let Some(after) = after else {
            self.reordered_by_3.push(-1);
            self.extent.push(f64::NAN);
            self.extent_max.push(-1);
            self.duplicates.push(-1);
            return;
        };
        let reordered = (after.reordered - before.reordered) as f64;
        let extents = (after.extents - before.extents) as f64;
        self.reordered_by_3.push((after.by_three - before.by_three) as i64);
        self.extent.push(if reordered > 0.0 { extents / reordered } else { f64::NAN });
        self.extent_max.push(if reordered > 0.0 { after.extent_max as i64 } else { -1 });
        self.duplicates.push((after.duplicates - before.duplicates) as i64);
    }
}

impl Pings {
    /// Adds a probe.
    pub fn push(&mut self, ping: usize, sequence: usize, dscp: Dscp, record: &ProbeRecord) {
        let answer = record.answer.as_ref();
        let of_answer = |value: &dyn Fn(&Answer) -> i64| answer.map_or(-1, value);
        self.ping.push(ping as i64);
        self.sequence.push(sequence as i64);
        self.ttl.push(record.ttl.into());
        self.sent_s.push(record.sent.as_secs_f64());
        // A destination that cannot be reached has no round-trip time.
        let turned_back = |error: &IcmpError| {
            matches!(error, IcmpError::NetUnreachable | IcmpError::TooBig { .. })
        };
        let reached = answer.filter(|answer| !answer.error.as_ref().is_some_and(turned_back));
        self.rtt_s.push(reached.map_or(f64::NAN, |answer| answer.rtt.as_secs_f64()));
        self.node.push(of_answer(&|answer| answer.node.0.into()));
        self.answer.push(answer.map_or("", |answer| match answer.error {
            None => "echo reply",
            Some(IcmpError::TimeExceeded) => "time exceeded",
            Some(IcmpError::NetUnreachable) => "net unreachable",
            Some(IcmpError::PortUnreachable) => "port unreachable",
            Some(IcmpError::TooBig { .. }) => "packet too big",
        }));
        self.dscp_sent.push(dscp.get().into());
        let arrived = answer.and_then(|answer| answer.arrived);
        let echoed = answer.and_then(|answer| answer.echoed);
        let dscp =
            |class: Option<TrafficClass>| class.map_or(-1, |class| class.dscp().get().into());
        let ecn = |class: Option<TrafficClass>| class.map_or(-1, |class| class.ecn() as i64);
        self.dscp_arrived.push(dscp(arrived));
        self.dscp_echoed.push(dscp(echoed));
        self.ecn_arrived.push(ecn(arrived));
        self.ecn_echoed.push(ecn(echoed));
    }
}

impl Queues {
    /// Adds the counters of a class, and its present backlog.
    pub fn push(
        &mut self,
        (link, class): (usize, usize),
        (start, end): Stretch,
        before: &ClassCounters,
        after: &ClassCounters,
        backlog: Backlog,
    ) {
        let dropped = |cause| (after.dropped(cause) - before.dropped(cause)) as i64;
        self.link.push(link as i64);
        self.class.push(class as i64);
        self.start_s.push(start.as_secs_f64());
        self.end_s.push(end.as_secs_f64());
        self.sent_packets.push((after.sent.packets - before.sent.packets) as i64);
        self.sent_bytes.push((after.sent.bytes - before.sent.bytes).get() as i64);
        self.dropped_packets.push((after.dropped_total() - before.dropped_total()) as i64);
        self.dropped_limit.push(dropped(Cause::Limit));
        self.dropped_policer.push(dropped(Cause::Policer));
        self.dropped_early.push(dropped(Cause::Early));
        self.marked_packets.push((after.marked - before.marked) as i64);
        self.remarked_packets.push((after.remarked - before.remarked) as i64);
        self.conformed_packets.push((after.conformed.packets - before.conformed.packets) as i64);
        self.conformed_bytes.push((after.conformed.bytes - before.conformed.bytes).get() as i64);
        self.exceeded_packets.push((after.exceeded.packets - before.exceeded.packets) as i64);
        self.exceeded_bytes.push((after.exceeded.bytes - before.exceeded.bytes).get() as i64);
        self.violated_packets.push((after.violated.packets - before.violated.packets) as i64);
        self.violated_bytes.push((after.violated.bytes - before.violated.bytes).get() as i64);
        self.backlog_packets.push(backlog.packets as i64);
        self.backlog_bytes.push(backlog.bytes.get() as i64);
    }
}

impl Links {
    /// Adds the counters of a port. `capacity` is the number of bytes that the link could have
    /// carried in the interval.
    pub fn push(
        &mut self,
        link: usize,
        (start, end): Stretch,
        before: &LinkCounters,
        after: &LinkCounters,
        capacity: f64,
    ) {
        let bytes = (after.bytes - before.bytes).get();
        self.link.push(link as i64);
        self.start_s.push(start.as_secs_f64());
        self.end_s.push(end.as_secs_f64());
        self.sent_packets.push((after.packets - before.packets) as i64);
        self.sent_bytes.push(bytes as i64);
        self.lost_packets.push((after.lost - before.lost) as i64);
        self.duplicated_packets.push((after.duplicated - before.duplicated) as i64);
        self.reordered_packets.push((after.reordered - before.reordered) as i64);
        self.utilisation.push(bytes as f64 / capacity);
    }
}

impl Losses {
    /// Adds the losses of a flow before a port or on its link, or on no link, by cause.
    pub(crate) fn push(
        &mut self,
        (flow, at, cause): (u32, Option<PortId>, &'static str),
        (start, end): Stretch,
        packets: u64,
    ) {
        self.flow.push(flow.into());
        self.link.push(at.map_or(-1, |port| port.0.into()));
        self.cause.push(cause);
        self.start_s.push(start.as_secs_f64());
        self.end_s.push(end.as_secs_f64());
        self.packets.push(packets as i64);
    }
}

impl FlowHistograms {
    /// Adds the histograms of all flows, in order, of an interval.
    pub fn push_flows(&mut self, stretch: Stretch, flows: &[Histogram]) {
        for (flow, histogram) in flows.iter().enumerate() {
            self.push_flow(flow, stretch, histogram);
        }
    }

    /// Adds the histogram of a flow of an interval.
    pub fn push_flow(&mut self, flow: usize, stretch: Stretch, histogram: &Histogram) {
        histogram.bins().for_each(|bin| self.push(flow, stretch, bin));
    }

    fn push(
        &mut self,
        flow: usize,
        (start, end): Stretch,
        (low, high, samples): (Duration, Duration, u64),
    ) {
        self.flow.push(flow as i64);
        self.start_s.push(start.as_secs_f64());
        self.end_s.push(end.as_secs_f64());
        self.low_s.push(low.as_secs_f64());
        self.high_s.push(high.as_secs_f64());
        self.samples.push(samples as i64);
    }
}

impl Displacements {
    /// Adds the sum of the reorder densities of a flow's streams.
    pub fn push_flow<'a>(&mut self, flow: usize, streams: impl Iterator<Item = &'a Density>) {
        self.push_counts(flow, &Density::sums(streams));
    }

    /// Adds the packets of a flow that were early and late by each number of places from 0.
    pub fn push_counts(&mut self, flow: usize, counts: &[[u64; 2]]) {
        counts.iter().enumerate().for_each(|(by, packets)| self.push(flow, by, *packets));
    }

    /// Adds a row unless no packet has this displacement.
    fn push(&mut self, flow: usize, by: usize, [early, late]: [u64; 2]) {
        if early + late > 0 {
            self.flow.push(flow as i64);
            self.by.push(by as i64);
            self.early.push(early as i64);
            self.late.push(late as i64);
        }
    }
}

impl Calls {
    /// Adds the difference between two readings of a call, given by its flow and its number.
    pub fn push(
        &mut self,
        (flow, stream): (usize, usize),
        (start, end): Stretch,
        before: CallCounters,
        after: CallCounters,
    ) {
        self.flow.push(flow as i64);
        self.stream.push(stream as i64);
        self.start_s.push(start.as_secs_f64());
        self.end_s.push(end.as_secs_f64());
        self.packets.push((after.packets - before.packets) as i64);
        self.played.push((after.played - before.played) as i64);
        self.late.push((after.late - before.late) as i64);
        self.bursts.push((after.bursts - before.bursts) as i64);
        self.delay_s.push((after.delay_ns - before.delay_ns) as f64 / 1e9);
    }
}

impl Codepoints {
    /// Adds, for a flow whose packets are sent with `sent`, the DSCPs and ECN fields with which
    /// they arrived at a node in the interval, in rising order, and their numbers.
    pub fn push(
        &mut self,
        (flow, node, sent): (usize, NodeId, Dscp),
        (start, end): Stretch,
        arrived: impl IntoIterator<Item = (TrafficClass, u64)>,
    ) {
        for (class, packets) in arrived {
            if packets > 0 {
                self.flow.push(flow as i64);
                self.node.push(node.0.into());
                self.start_s.push(start.as_secs_f64());
                self.end_s.push(end.as_secs_f64());
                self.dscp_sent.push(sent.get().into());
                self.dscp_arrived.push(class.dscp().get().into());
                self.ecn_arrived.push(class.ecn() as i64);
                self.packets.push(packets as i64);
            }
        }
    }
}
