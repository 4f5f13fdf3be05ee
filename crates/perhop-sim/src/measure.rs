//! What is measured, and the tables it is kept in.

use perhop_core::{Dscp, Duration, Time};
use perhop_net::{IcmpError, LinkCounters};
use perhop_queue::{Backlog, Cause, Counters};

use crate::hosts::{Answer, ProbeRecord};
use crate::order::OrderCounts;

/// A column of a table. In a column of floats NaN stands for "none", in one of integers a
/// negative number does.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Measures.
    Floats(Vec<f64>),
}

/// A table: columns of equal length, by name.
pub type Table = Vec<(&'static str, Column)>;

/// Durations, of a stream and since they were last read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Samples {
    count: u64,
    sum: f64,
    minimum: Duration,
    maximum: Duration,
}

impl Samples {
    pub fn add(&mut self, span: Duration) {
        self.minimum = if self.count == 0 { span } else { self.minimum.min(span) };
        self.maximum = self.maximum.max(span);
        self.sum += span.as_secs_f64();
        self.count += 1;
    }

    /// Mean, minimum and maximum in seconds; NaN where there is none.
    fn in_seconds(&self) -> [f64; 3] {
        if self.count == 0 {
            return [f64::NAN; 3];
        }
        let [least, most] = [self.minimum, self.maximum].map(Duration::as_secs_f64);
        [self.sum / self.count as f64, least, most]
    }
}

/// A stream's counters since the run began, and its state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamReading {
    pub delivered: u64,
    pub packets: u64,
    pub lost: u64,
    pub reordered: u64,
    pub marked: u64,
    pub echoed: u64,
    pub retransmits: u64,
    pub acks: u64,
    pub sacks: u64,
    pub cwnd: Option<u64>,
    /// How long all of its volume took, once it has arrived.
    pub completion: Option<Duration>,
    /// Since the last reading.
    pub rtt: Samples,
    /// How long data was under way, since the last reading.
    pub delay: Samples,
    /// Of UDP: the order of its packets, of which the greatest extent is since the last reading.
    pub order: Option<OrderCounts>,
    /// Of UDP: the present estimate of the jitter.
    pub jitter: Option<Duration>,
}

/// Declares a table that is filled row by row: its fields are its columns, in order.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($column:ident: $type:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name { $($column: Vec<table!(@element $type)>),* }

        impl $name {
            pub fn into_table(self) -> Table {
                vec![$((stringify!($column), Column::$type(self.$column))),*]
            }
        }
    };
    (@element Integers) => { i64 };
    (@element Floats) => { f64 };
}

table! {
    /// Per stream and stretch between two marks.
    Intervals {
        flow: Integers,
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
    /// Per probe of a ping.
    Pings {
        ping: Integers,
        sequence: Integers,
        ttl: Integers,
        sent_s: Floats,
        rtt_s: Floats,
        node: Integers,
        answer: Integers,
        dscp_sent: Integers,
        dscp_arrived: Integers,
        dscp_echoed: Integers,
    }
}

table! {
    /// Per class and stretch between two marks.
    Queues {
        class: Integers,
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
    /// Per port and stretch between two marks.
    Links {
        link: Integers,
        start_s: Floats,
        end_s: Floats,
        sent_packets: Integers,
        sent_bytes: Integers,
        lost_packets: Integers,
        duplicated_packets: Integers,
        delayed_packets: Integers,
        utilisation: Floats,
    }
}

table! {
    /// Per flow, node at which its packets arrived, stretch between two marks of
    /// the scenario, and code point that some of them arrived with.
    Codepoints {
        flow: Integers,
        node: Integers,
        start_s: Floats,
        end_s: Floats,
        dscp_sent: Integers,
        dscp_arrived: Integers,
        packets: Integers,
    }
}

table! {
    /// Per flow and bin of its round-trip times.
    Rtts {
        flow: Integers,
        low_s: Floats,
        high_s: Floats,
        samples: Integers,
    }
}

table! {
    /// Per flow, stretch between two cuts, and bin of its one-way delays.
    Delays {
        flow: Integers,
        start_s: Floats,
        end_s: Floats,
        low_s: Floats,
        high_s: Floats,
        samples: Integers,
    }
}

table! {
    /// Per flow and displacement, the packets that were early and late by so many places.
    Displacements {
        flow: Integers,
        by: Integers,
        early: Integers,
        late: Integers,
    }
}

/// A stretch between two marks.
pub(crate) type Stretch = (Time, Time);

impl Intervals {
    pub fn push(
        &mut self,
        (flow, stream): (usize, usize),
        (start, end): Stretch,
        before: &StreamReading,
        after: &StreamReading,
    ) {
        let [rtt, rtt_min, rtt_max] = after.rtt.in_seconds();
        let [owd, owd_min, owd_max] = after.delay.in_seconds();
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
        self.sacks.push((after.sacks - before.sacks) as i64);
        self.push_order(before.order.unwrap_or_default(), after.order);
        self.rtt_s.push(rtt);
        self.rtt_min_s.push(rtt_min);
        self.rtt_max_s.push(rtt_max);
        self.rtt_samples.push(after.rtt.count as i64);
        self.owd_s.push(owd);
        self.owd_min_s.push(owd_min);
        self.owd_max_s.push(owd_max);
        self.owd_samples.push(after.delay.count as i64);
        let jitter = after.jitter.filter(|_| after.delay.count > 0);
        self.jitter_s.push(jitter.map_or(f64::NAN, Duration::as_secs_f64));
        self.cwnd.push(after.cwnd.map_or(-1, |cwnd| cwnd as i64));
        // In the stretch in which it was reached, and no other.
        let completion = after.completion.filter(|_| before.completion.is_none());
        self.completion_s.push(completion.map_or(f64::NAN, Duration::as_secs_f64));
    }
}

impl Intervals {
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
    /// Answers are numbered: an echo reply, time exceeded, net unreachable, port unreachable.
    pub fn push(&mut self, ping: usize, sequence: usize, dscp: Dscp, record: &ProbeRecord) {
        let answer = record.answer.as_ref();
        let of_answer = |value: &dyn Fn(&Answer) -> i64| answer.map_or(-1, value);
        self.ping.push(ping as i64);
        self.sequence.push(sequence as i64);
        self.ttl.push(record.ttl.into());
        self.sent_s.push(record.sent.as_secs_f64());
        // Whom the network cannot reach has no round-trip time.
        let reached = answer.filter(|answer| answer.error != Some(IcmpError::NetUnreachable));
        self.rtt_s.push(reached.map_or(f64::NAN, |answer| answer.rtt.as_secs_f64()));
        self.node.push(of_answer(&|answer| answer.node.0.into()));
        self.answer.push(of_answer(&|answer| match answer.error {
            None => 0,
            Some(IcmpError::TimeExceeded) => 1,
            Some(IcmpError::NetUnreachable) => 2,
            Some(IcmpError::PortUnreachable) => 3,
        }));
        self.dscp_sent.push(dscp.get().into());
        self.dscp_arrived.push(of_answer(&|answer| answer.dscp_arrived.get().into()));
        self.dscp_echoed.push(of_answer(&|answer| answer.dscp_echoed.get().into()));
    }
}

impl Queues {
    pub fn push(
        &mut self,
        class: usize,
        (start, end): Stretch,
        before: &Counters,
        after: &Counters,
        backlog: Backlog,
    ) {
        let dropped = |cause| (after.dropped(cause) - before.dropped(cause)) as i64;
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
    /// `capacity` is what the link could have carried in the stretch, in bytes.
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
        self.delayed_packets.push((after.detoured - before.detoured) as i64);
        self.utilisation.push(bytes as f64 / capacity);
    }
}

impl Delays {
    pub fn push(
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
    /// Nothing where no packet was displaced by so many places.
    pub fn push(&mut self, flow: usize, by: usize, [early, late]: [u64; 2]) {
        if early + late > 0 {
            self.flow.push(flow as i64);
            self.by.push(by as i64);
            self.early.push(early as i64);
            self.late.push(late as i64);
        }
    }
}

impl Codepoints {
    pub fn push(
        &mut self,
        (flow, node, sent): (usize, u16, Dscp),
        (start, end): Stretch,
        before: &[u64],
        after: &[u64],
    ) {
        for (dscp, (before, after)) in before.iter().zip(after).enumerate() {
            if before < after {
                self.flow.push(flow as i64);
                self.node.push(node.into());
                self.start_s.push(start.as_secs_f64());
                self.end_s.push(end.as_secs_f64());
                self.dscp_sent.push(sent.get().into());
                self.dscp_arrived.push(dscp as i64);
                self.packets.push((after - before) as i64);
            }
        }
    }
}

impl Rtts {
    pub fn push(&mut self, flow: usize, (low, high, samples): (Duration, Duration, u64)) {
        self.flow.push(flow as i64);
        self.low_s.push(low.as_secs_f64());
        self.high_s.push(high.as_secs_f64());
        self.samples.push(samples as i64);
    }
}
