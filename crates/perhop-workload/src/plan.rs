//! Flows and pings with every unit resolved.
//!
//! Rates are bits per second, times picoseconds, sizes bytes.

use perhop_core::{Dscp, Duration, Ecn, Header, Time};
use perhop_tcp::{EcnMode, HyStartKind, RtoRule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A flow: one or more streams from one host to another.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FlowPlan {
    /// Its name, which names its random streams too.
    pub name: String,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Mark of its packets, acknowledgements too.
    pub dscp: Dscp,
    /// Destination port; streams have source ports of their own.
    pub port: u16,
    /// How many streams.
    pub streams: u16,
    /// When it starts.
    pub start: Time,
    /// When its application stops.
    pub stop: Option<Time>,
    /// How much each stream sends at most.
    pub volume: Option<u64>,
    /// What carries it.
    pub transport: TransportPlan,
}

/// A transport.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportPlan {
    /// TCP.
    Tcp(TcpPlan),
    /// UDP.
    Udp(UdpPlan),
}

/// TCP's settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TcpPlan {
    /// Congestion control.
    pub congestion_control: CongestionPlan,
    /// Send buffer.
    pub send_window: u32,
    /// Receive window; with autotuning the largest.
    pub receive_window: u32,
    /// A receive window that follows what arrives, as in Linux.
    #[serde(default)]
    pub autotuning: bool,
    /// The first segments acknowledged one by one, as in Linux.
    #[serde(default)]
    pub quick_acks: bool,
    /// Maximum segment size.
    pub mss: u16,
    /// How slow start ends before a loss, for CUBIC.
    #[serde(default)]
    pub hystart: HyStartKind,
    /// Whose growth, for CUBIC.
    #[serde(default)]
    pub cubic: CubicPlan,
    /// What a loss decreases.
    #[serde(default)]
    pub decrease_from: DecreaseFromPlan,
    /// The Reno-friendly region, for CUBIC.
    #[serde(default = "yes")]
    pub reno_friendly: bool,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Reports of what arrived twice.
    #[serde(default)]
    pub dsack: bool,
    /// Loss detection by time; needs selective acknowledgements.
    #[serde(default)]
    pub rack: bool,
    /// A threshold for loss detection by counting that follows reordering.
    #[serde(default)]
    pub adaptive_reordering: bool,
    /// The answer to a loss that was none is taken back.
    #[serde(default = "yes")]
    pub undo: bool,
    /// Detection of spurious timeouts by F-RTO.
    #[serde(default = "yes")]
    pub frto: bool,
    /// Proportional rate reduction; needs selective acknowledgements.
    #[serde(default)]
    pub prr: bool,
    /// Windows beyond 65535 bytes.
    #[serde(default = "yes")]
    pub window_scaling: bool,
    /// Timestamps.
    pub timestamps: bool,
    /// Limited transmit.
    pub limited_transmit: bool,
    /// Initial window in segments.
    pub initial_window: u32,
    /// How the retransmission timeout follows from round-trip times.
    #[serde(default)]
    pub rto_rule: RtoRule,
    /// Floor of the retransmission timeout, or of what Linux adds to the round-trip time.
    pub min_rto: Duration,
    /// How long an acknowledgement may wait.
    pub delayed_ack: Duration,
    /// Explicit congestion notification, at both ends.
    #[serde(default)]
    pub ecn: EcnMode,
    /// Segments spread over the round trip.
    #[serde(default)]
    pub pacing: bool,
    /// Little of a connection waits in its host's own queue (TCP small queues).
    #[serde(default)]
    pub small_queues: bool,
}

/// Whose growth CUBIC has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CubicPlan {
    /// RFC 9438's.
    #[default]
    Rfc9438,
    /// Linux's.
    Linux,
}

/// What a loss decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DecreaseFromPlan {
    /// What is in flight.
    #[default]
    Flight,
    /// The congestion window, in whole segments.
    Window,
}

fn yes() -> bool {
    true
}

/// A congestion control.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CongestionPlan {
    /// Reno.
    Reno,
    /// CUBIC.
    Cubic,
    /// LEDBAT++.
    #[serde(rename = "ledbat++")]
    Ledbat,
    /// DCTCP.
    Dctcp,
    /// Prague.
    Prague,
    /// BBR version 3.
    Bbr,
    /// BBR version 1, Linux's `bbr`.
    Bbr1,
}

/// UDP's settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UdpPlan {
    /// Mean rate while it sends: of the payload, or of IP packets.
    #[serde(default)]
    pub rate: u64,
    /// Mean size of a datagram: of its payload, or as an IP packet.
    #[serde(default)]
    pub size: u16,
    /// What its packets say of ECN; nothing unless set.
    pub ecn: Option<Ecn>,
    /// What the sender does when its host cannot take a datagram.
    #[serde(default)]
    pub when_full: WhenFull,
    /// Which bytes `rate` and `size` count.
    #[serde(default)]
    pub layer: LayerPlan,
    /// The times between datagrams.
    #[serde(default)]
    pub gaps: DistributionPlan,
    /// Their sizes.
    #[serde(default)]
    pub sizes: DistributionPlan,
    /// When it pauses, if it does.
    pub bursts: Option<BurstsPlan>,
    /// What it sends, instead of anything about rates, sizes and bursts.
    pub replay: Option<ReplayPlan>,
}

/// Datagrams one by one.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayPlan {
    /// The time before each, and its size: of the payload, or as an IP packet.
    pub packets: Vec<(u64, u16)>,
    /// True if the list begins anew behind its end.
    pub repeat: bool,
}

/// Bursts and pauses in turn.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BurstsPlan {
    /// The mean length of a burst.
    pub on: u64,
    /// The mean length of a pause.
    pub off: u64,
    /// How both are distributed.
    pub lengths: LengthsPlan,
}

/// How lengths of time are distributed.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LengthsPlan {
    /// They are always the mean.
    Constant,
    /// Exponentially.
    Exponential,
    /// By Pareto, with a shape in thousandths.
    Pareto(u32),
}

/// What a sender of datagrams does when its host cannot take one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// It does not notice; the datagram is lost.
    #[default]
    Drop,
    /// It waits until half of its socket's buffer is free, as a process does that sleeps in
    /// sendto(2): Linux's `sock_writeable`.
    Wait,
    /// It has no buffer of its own, and tries again after this time if its interface's queue has no
    /// room: what programs on BSD do about ENOBUFS.
    Retry(#[serde(deserialize_with = "perhop_core::spelling::positive")] Duration),
}

/// Which bytes count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerPlan {
    /// The application's.
    #[default]
    Application,
    /// Those of IP packets.
    Ip,
}

/// How a quantity with a given mean is distributed.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DistributionPlan {
    /// It is always the mean.
    #[default]
    Constant,
    /// Exponentially.
    Exponential,
}

/// A ping.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PingPlan {
    /// Its name.
    pub name: String,
    /// Asking host.
    pub from: String,
    /// Answering node.
    pub to: String,
    /// Mark of requests and replies.
    pub dscp: Dscp,
    /// Time between requests.
    #[serde(deserialize_with = "perhop_core::spelling::positive")]
    pub every: Duration,
    /// ICMP payload.
    pub size: u16,
    /// When the first goes out.
    pub start: Time,
    /// None goes out from here on.
    pub stop: Time,
    /// The least and the greatest time to live; a train of each goes out in the time between
    /// requests.
    #[serde(default = "usual_ttl")]
    pub ttl: [u8; 2],
    /// How many requests are sent back to back.
    #[serde(default = "one")]
    pub train: u16,
    /// The destination port of datagrams that are sent instead of echo requests.
    #[serde(default)]
    pub udp_port: Option<u16>,
}

impl PingPlan {
    /// The most requests that it sends.
    pub fn most_requests(&self) -> u64 {
        let span = self.stop.as_picos().saturating_sub(self.start.as_picos());
        let rounds = span.div_ceil(self.every.as_picos().max(1));
        let [first, last] = self.ttl;
        let a_round = u64::from(last.saturating_sub(first)) + 1;
        rounds.saturating_mul(a_round).saturating_mul(self.train.into())
    }
}

fn usual_ttl() -> [u8; 2] {
    [Header::TTL; 2]
}

fn one() -> u16 {
    1
}
