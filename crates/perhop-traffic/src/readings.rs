//! Readings: the counters of one process's ends of flows and pings at one mark.
//!
//! Agents send them to their controller, which joins those of both ends (see
//! [`Collector`](crate::Collector)). Counters count from the start of the run; samples, histograms,
//! code points and pings are those since the reading before.

use perhop_core::{Duration, Time, TrafficClass};
use perhop_measure::{Answer, Histogram, OrderCounts, Samples};
use perhop_workload::CallCounters;
use serde::{Deserialize, Serialize};

pub use crate::app::Completed;
use perhop_socket::Nanos;

/// The counters of one process's ends at one mark.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Readings {
    /// The number of the mark, from 0.
    pub mark: u32,
    /// The instant of the mark, or the earlier instant at which the run was stopped.
    pub at: Time,
    /// The instant at which the counters were read, in nanoseconds of the scenario's clock.
    pub read: Nanos,
    /// The flows whose source is in this process.
    pub sources: Vec<SourceReading>,
    /// The flows whose destination is in this process.
    pub destinations: Vec<DestinationReading>,
    /// The pings whose requests this process sends or answers.
    pub pings: Vec<PingReading>,
    /// Results of iperf3's servers since the reading before.
    #[serde(default)]
    pub results: Vec<ServerReading>,
    /// The counters of the process, since the start of the run.
    pub process: ProcessReading,
    /// Warnings since the reading before.
    pub warnings: Vec<String>,
    /// Measurements that this host cannot make, with the reasons.
    pub missing: Vec<String>,
}

/// A flow, read at its source.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SourceReading {
    /// The number of the flow.
    pub flow: u32,
    /// Its streams.
    pub streams: SenderReadings,
    /// Packets that arrived at the source, by DSCP and ECN field; `None` if the host lacks the
    /// privilege to observe them.
    pub arrived: Option<Vec<(TrafficClass, u64)>>,
    /// The smoothed round-trip times of all its connections.
    pub srtts: Histogram,
}

/// The streams of a flow, read at their sender.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SenderReadings {
    /// Connections.
    Tcp(Vec<ConnectionSender>),
    /// Streams of datagrams.
    Udp(Vec<DatagramSender>),
}

/// A connection, read at its sender.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionSender {
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Segments that arrived twice, as reported by the receiver (RFC 3708).
    pub repeated: u64,
    /// Number of reordering events.
    pub reordered: u64,
    /// Segments that arrived with congestion experienced, as the receiver echoes it.
    pub echoed: u64,
    /// The congestion window in bytes; `None` before the connection is open.
    pub cwnd: Option<u64>,
    /// The greatest window that the receiver has offered, in bytes.
    pub window: u32,
    /// Bytes that the receiver has acknowledged, if it reports nothing itself.
    #[serde(default)]
    pub acked: Option<u64>,
    /// Smoothed round-trip times.
    pub srtt: Samples,
}

/// A stream of datagrams, read at its sender.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DatagramSender {
    /// Datagrams sent.
    pub sent: u64,
    /// Number of datagrams sent by some instants, which are in nanoseconds of the scenario's clock.
    pub history: Vec<(Nanos, u64)>,
}

/// A flow, read at its destination.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DestinationReading {
    /// The number of the flow.
    pub flow: u32,
    /// Its streams.
    pub streams: ReceiverReadings,
    /// Packets that arrived at the destination, by DSCP and ECN field; `None` if the host lacks the
    /// privilege to observe them.
    pub arrived: Option<Vec<(TrafficClass, u64)>>,
    /// One-way delays.
    pub delays: Histogram,
    /// Displacements of UDP (RFC 5236): packets early and late by each number of positions from 0,
    /// since the start of the run; `None` if not read at this mark.
    pub displacements: Option<Vec<[u64; 2]>>,
    /// What each client of an application has completed. Never sent: an application has both ends
    /// in one process.
    #[serde(skip)]
    pub completed: Vec<Completed>,
    /// The greatest error bound of the clock offsets that one-way delays were corrected by, in
    /// nanoseconds; `None` without a correction.
    pub offset_bound: Option<Nanos>,
}

/// The streams of a flow, read at their receiver.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiverReadings {
    /// Connections.
    Tcp(Vec<ConnectionReceiver>),
    /// Streams of datagrams.
    Udp(Vec<DatagramReceiver>),
}

/// A connection, read at its receiver.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionReceiver {
    /// Bytes that the application has read.
    pub delivered: u64,
    /// Segments with data that arrived.
    pub packets: u64,
    /// Those of them with congestion experienced; `None` if the host lacks the privilege to observe
    /// them.
    pub marked: Option<u64>,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Time from the start of the flow to the arrival of its whole volume.
    pub completion: Option<Duration>,
}

/// A stream of datagrams, read at its receiver.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DatagramReceiver {
    /// Bytes of payload, each datagram's once.
    pub delivered: u64,
    /// Datagrams, each counted once.
    pub packets: u64,
    /// Those with congestion experienced.
    pub marked: u64,
    /// Reordering; the greatest extent is since the last reading.
    pub order: OrderCounts,
    /// Datagrams that were overtaken, and have not arrived for several samples.
    pub overtaken: u64,
    /// The longest one-way delay so far.
    pub longest: Duration,
    /// One-way delays.
    pub delay: Samples,
    /// The jitter (RFC 3550).
    pub jitter: Option<Duration>,
    /// The playout of a call.
    #[serde(default)]
    pub call: Option<CallCounters>,
}

/// A flow, as a server of iperf3 at one of its ends reports it. Counters are those of the interval
/// alone; `None` for a value that the server does not report.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ServerReading {
    /// The number of the flow.
    pub flow: u32,
    /// Start and end of the interval.
    pub interval: (Time, Time),
    /// Its streams.
    pub streams: Vec<StreamResult>,
}

/// A stream, as a server of iperf3 reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamResult {
    /// Bytes that it received.
    pub bytes: Option<u64>,
    /// Datagrams that it received.
    pub packets: Option<u64>,
    /// Datagrams that it missed.
    pub lost: Option<u64>,
    /// Jitter of the datagrams that it received (RFC 1889, appendix A.8).
    pub jitter: Option<Duration>,
    /// Segments that it retransmitted.
    pub retransmits: Option<u64>,
}

/// A ping.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PingReading {
    /// The number of the ping.
    pub ping: u32,
    /// The number of the first request of `sent`.
    pub first: u32,
    /// Requests: time of sending and time to live of each.
    pub sent: Vec<(Time, u8)>,
    /// Answers, by number of the request.
    pub answers: Vec<(u32, Answer)>,
    /// DSCPs and ECN fields of requests on arrival at the node that answers, by number.
    pub arrived: Vec<(u32, TrafficClass)>,
}

/// The counters of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessReading {
    /// Packets from unknown senders.
    pub unknown_senders: u64,
    /// Datagrams that were sent more than a millisecond late.
    pub late_datagrams: u64,
    /// The greatest lateness of a datagram in microseconds.
    pub latest_datagram_us: u64,
    /// Remarked packets that could not be inspected in time.
    pub unseen_packets: u64,
    /// True if all threads have real-time priority.
    pub real_time: bool,
    /// Stalls longer than the job's `stall_threshold`.
    pub stalls: u64,
    /// Total duration of these stalls in microseconds.
    pub stalled_us: u64,
}

impl ProcessReading {
    /// Returns the counters of several processes together.
    pub(crate) fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let none = Self { real_time: true, ..Self::default() };
        all.fold(none, |sum, more| Self {
            unknown_senders: sum.unknown_senders.saturating_add(more.unknown_senders),
            late_datagrams: sum.late_datagrams.saturating_add(more.late_datagrams),
            latest_datagram_us: sum.latest_datagram_us.max(more.latest_datagram_us),
            unseen_packets: sum.unseen_packets.saturating_add(more.unseen_packets),
            real_time: sum.real_time && more.real_time,
            stalls: sum.stalls.saturating_add(more.stalls),
            stalled_us: sum.stalled_us.saturating_add(more.stalled_us),
        })
    }

    /// Returns the counters by name: packets from unknown senders (`unknown_senders`), datagrams
    /// sent more than a millisecond late (`late_datagrams`) and the greatest lateness
    /// (`latest_datagram_us`), remarked packets that could not be inspected in time
    /// (`unseen_packets`), whether the threads have real-time priority (`traffic_real_time`), and
    /// the number and duration of stalls longer than the job's `stall_threshold` (`traffic_stalls`,
    /// `traffic_stalled_us`).
    pub fn by_name(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("unknown_senders", self.unknown_senders),
            ("late_datagrams", self.late_datagrams),
            ("latest_datagram_us", self.latest_datagram_us),
            ("unseen_packets", self.unseen_packets),
            ("traffic_real_time", self.real_time.into()),
            ("traffic_stalls", self.stalls),
            ("traffic_stalled_us", self.stalled_us),
        ]
    }
}
