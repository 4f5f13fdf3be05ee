//! Flows and pings with every unit resolved.
//!
//! Rates are bits per second, times picoseconds, sizes bytes.

use perhop_app::ApplicationPlan;
use perhop_core::{Dscp, Duration, Ecn, Header, Time};
use perhop_tcp::{EcnMode, HyStartKind, RtoRule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::writes::WritesPlan;

/// A flow: one or more streams from one host to another.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FlowPlan {
    /// Name, which also names its random streams.
    pub name: String,
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// True over IPv6, false over IPv4.
    #[serde(default)]
    pub ipv6: bool,
    /// DSCP of its packets, acknowledgements included.
    pub dscp: Dscp,
    /// Destination port; each stream has its own source port.
    pub port: u16,
    /// Source port of the first stream; that of each further stream is one more. By default a host
    /// chooses source ports from [`FIRST_SOURCE_PORT`](crate::FIRST_SOURCE_PORT) on.
    #[serde(default)]
    pub source_port: Option<u16>,
    /// Number of streams.
    pub streams: u16,
    /// Start, of the first stream.
    pub start: Time,
    /// Start of each stream, if they do not all start at `start`.
    #[serde(default)]
    pub starts: Vec<Time>,
    /// Time at which its application stops.
    pub stop: Option<Time>,
    /// Greatest volume of each stream, in bytes.
    pub volume: Option<u64>,
    /// Transport protocol.
    pub transport: TransportPlan,
    /// Application of clients at the destination, which the source serves; without one, the source
    /// sends.
    #[serde(default)]
    pub application: Option<ApplicationPlan>,
}

/// Transport protocol and its settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportPlan {
    /// TCP.
    Tcp(TcpPlan),
    /// UDP.
    Udp(UdpPlan),
    /// QUIC.
    Quic(QuicPlan),
}

/// Settings of QUIC.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct QuicPlan {
    /// Congestion control.
    pub congestion_control: CongestionPlan,
    /// CUBIC's method to end slow start before a loss.
    #[serde(default)]
    pub hystart: HyStartKind,
    /// Number of streams of a connection that send at the same time.
    pub streams: u32,
    /// Window of the connection's flow control, in bytes.
    pub window: u64,
    /// Window of each stream's, in bytes.
    pub stream_window: u64,
    /// Payload of the first datagrams, in bytes.
    pub datagram: u16,
    /// Greatest payload for which the sender probes, in bytes.
    pub max_datagram: u16,
    /// Initial congestion window, in datagrams; by default that of RFC 9002.
    #[serde(default)]
    pub initial_window: Option<u32>,
    /// True if packets are paced.
    pub pacing: bool,
    /// True if the sender's packets are ECN-capable.
    pub ecn: bool,
    /// Frequency of acknowledgements that the sender requests.
    #[serde(default)]
    pub ack_frequency: Option<AckFrequencyPlan>,
    /// Length of the receiver's certificates, in bytes.
    pub certificates: u32,
    /// True if a full socket makes the sender wait, as on Linux; otherwise its packets are lost.
    pub waits: bool,
}

/// Frequency of acknowledgements.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AckFrequencyPlan {
    /// Packets that may arrive without an acknowledgement.
    pub threshold: u64,
    /// Greatest delay of an acknowledgement.
    pub max_delay: Duration,
    /// Packets after a missing one at which it is reported at once; zero for never.
    pub reordering: u64,
}

/// Settings of TCP.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TcpPlan {
    /// Congestion control.
    pub congestion_control: CongestionPlan,
    /// Send buffer, in bytes.
    pub send_window: u32,
    /// Receive window, in bytes; with autotuning, its maximum.
    pub receive_window: u32,
    /// True if the receive window adapts to arrivals, as in Linux.
    #[serde(default)]
    pub autotuning: bool,
    /// True if the first segments are acknowledged one by one, as in Linux.
    #[serde(default)]
    pub quick_acks: bool,
    /// Maximum segment size, in bytes.
    pub mss: u16,
    /// CUBIC's method to end slow start before a loss.
    #[serde(default)]
    pub hystart: HyStartKind,
    /// Variant of CUBIC's growth.
    #[serde(default)]
    pub cubic: CubicPlan,
    /// Amount that a loss decreases.
    #[serde(default)]
    pub decrease_from: DecreaseFromPlan,
    /// True with CUBIC's Reno-friendly region.
    #[serde(default = "yes")]
    pub reno_friendly: bool,
    /// True with selective acknowledgements.
    pub sack: bool,
    /// True if they report duplicate data.
    #[serde(default)]
    pub dsack: bool,
    /// True with loss detection by time; needs selective acknowledgements.
    #[serde(default)]
    pub rack: bool,
    /// True if the threshold of loss detection by counting adapts to reordering.
    #[serde(default)]
    pub adaptive_reordering: bool,
    /// True if the response to a spurious loss is undone.
    #[serde(default = "yes")]
    pub undo: bool,
    /// True with F-RTO's detection of spurious timeouts.
    #[serde(default = "yes")]
    pub frto: bool,
    /// True with proportional rate reduction; needs selective acknowledgements.
    #[serde(default)]
    pub prr: bool,
    /// True with window scaling: windows beyond 65535 bytes.
    #[serde(default = "yes")]
    pub window_scaling: bool,
    /// True with timestamps.
    pub timestamps: bool,
    /// True with limited transmit.
    pub limited_transmit: bool,
    /// Initial window, in segments.
    pub initial_window: u32,
    /// Rule of the retransmission timeout.
    #[serde(default)]
    pub rto_rule: RtoRule,
    /// Minimum of the retransmission timeout, or of Linux's addition to the round-trip time.
    pub min_rto: Duration,
    /// Greatest delay of an acknowledgement.
    pub delayed_ack: Duration,
    /// Explicit congestion notification, at both ends.
    #[serde(default)]
    pub ecn: EcnMode,
    /// True if segments are paced.
    #[serde(default)]
    pub pacing: bool,
    /// True with TCP small queues: a limit of the data in the host's own queue.
    #[serde(default)]
    pub small_queues: bool,
    /// Writes of the application, if it keeps to a rate; otherwise it always has data.
    #[serde(default)]
    pub writes: Option<WritesPlan>,
}

/// Variant of CUBIC's growth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CubicPlan {
    /// By RFC 9438.
    #[default]
    Rfc9438,
    /// As in Linux.
    Linux,
}

/// Amount that a loss decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DecreaseFromPlan {
    /// Data in flight.
    #[default]
    Flight,
    /// Congestion window, in whole segments.
    Window,
}

fn yes() -> bool {
    true
}

/// Congestion control.
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

/// Settings of UDP.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UdpPlan {
    /// Mean rate while it sends, in bits per second, of payload or of IP packets.
    #[serde(default)]
    pub rate: u64,
    /// Mean size of a datagram, in bytes: of its payload, or as an IP packet.
    #[serde(default)]
    pub size: u16,
    /// ECN field of its packets; Not-ECT by default.
    pub ecn: Option<Ecn>,
    /// Behaviour of the sender when its host cannot take a datagram.
    #[serde(default)]
    pub when_full: WhenFull,
    /// Layer whose bytes `rate` and `size` count.
    #[serde(default)]
    pub layer: LayerPlan,
    /// Distribution of the times between datagrams.
    #[serde(default)]
    pub gaps: DistributionPlan,
    /// Distribution of their sizes.
    #[serde(default)]
    pub sizes: DatagramSizesPlan,
    /// Bursts and pauses, if any.
    pub bursts: Option<BurstsPlan>,
    /// A list of datagrams, in place of rates, sizes and bursts.
    pub replay: Option<ReplayPlan>,
    /// Times and sizes with extreme value distributions, in place of rates, sizes and bursts.
    pub extreme: Option<ExtremePlan>,
    /// Greatest time before the first datagram, in picoseconds. The time is drawn at random, so
    /// that streams that start together do not send together.
    #[serde(default)]
    pub spread: u64,
    /// Playout of the datagrams at their receiver, for a call.
    pub playout: Option<PlayoutPlan>,
}

/// Times between datagrams and their sizes, each with a largest extreme value distribution
/// (Gumbel): its location and its scale.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExtremePlan {
    /// Times between datagrams, in picoseconds. With a scale of zero they are constant.
    pub gap: [u64; 2],
    /// Payloads, in thousandths of a byte.
    pub size: [u32; 2],
}

/// Playout of a call at its receiver.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlayoutPlan {
    /// Speech in a packet, which is the time between packets of a talk spurt.
    #[serde(deserialize_with = "perhop_core::spelling::positive")]
    pub frame: Duration,
    /// Jitter buffer.
    pub buffer: BufferPlan,
}

/// Jitter buffer of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BufferPlan {
    /// The first packet of each talk spurt waits this time, and the others keep in step with it.
    Fixed(Duration),
    /// The playout delay follows the network delay from packet to packet.
    Adaptive,
}

/// A list of datagrams.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayPlan {
    /// Time before each datagram, in picoseconds, and its size in bytes: of the payload, or as an
    /// IP packet.
    pub packets: Vec<(u64, u16)>,
    /// True if the list is repeated.
    pub repeat: bool,
}

/// Alternating bursts and pauses.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BurstsPlan {
    /// Mean length of a burst, in picoseconds.
    pub on: u64,
    /// Mean length of a pause, in picoseconds.
    pub off: u64,
    /// Distribution of both lengths.
    pub lengths: LengthsPlan,
    /// True if the process is stationary: it begins as if it had always run. Otherwise it begins
    /// with a burst.
    #[serde(default)]
    pub stationary: bool,
}

/// Distribution of lengths of time.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LengthsPlan {
    /// Constant: always the mean.
    Constant,
    /// Exponential.
    Exponential,
    /// Pareto, with a shape in thousandths.
    Pareto(u32),
}

/// Behaviour of a sender of datagrams when its host cannot take one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// Continue; the datagram is lost.
    #[default]
    Drop,
    /// Wait until half of the socket's buffer is free, like a process that blocks in sendto(2):
    /// Linux's `sock_writeable`.
    Wait,
    /// Send without a socket buffer, and try again after this time if the interface's queue is
    /// full: the usual response of programs on BSD to ENOBUFS.
    Retry(#[serde(deserialize_with = "perhop_core::spelling::positive")] Duration),
}

/// Layer whose bytes count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LayerPlan {
    /// Application: the payload.
    #[default]
    Application,
    /// IPv4 packets.
    Ip,
    /// IPv6 packets.
    Ipv6,
}

/// Distribution of a quantity with a given mean.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DistributionPlan {
    /// Constant: always the mean.
    #[default]
    Constant,
    /// Exponential.
    Exponential,
}

/// Distribution of the sizes of datagrams.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DatagramSizesPlan {
    /// Constant: always the mean.
    #[default]
    Constant,
    /// Exponential.
    Exponential,
    /// Each of these sizes in bytes with a probability in proportion to its weight. Their mean is
    /// the `size` of the flow.
    Mix(Vec<(u16, u32)>),
}

/// A ping.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PingPlan {
    /// Name.
    pub name: String,
    /// Host that sends requests.
    pub from: String,
    /// Node that replies.
    pub to: String,
    /// True over IPv6, false over IPv4.
    #[serde(default)]
    pub ipv6: bool,
    /// DSCP of requests and replies.
    pub dscp: Dscp,
    /// ECN field of requests; Not-ECT by default.
    #[serde(default)]
    pub ecn: Option<Ecn>,
    /// Time between requests.
    #[serde(deserialize_with = "perhop_core::spelling::positive")]
    pub every: Duration,
    /// ICMP payload, in bytes.
    pub size: u16,
    /// Time of the first request.
    pub start: Time,
    /// Time from which on no request is sent.
    pub stop: Time,
    /// Least and greatest time to live; a train of each is sent in the time between requests.
    #[serde(default = "usual_ttl")]
    pub ttl: [u8; 2],
    /// Number of requests that are sent back to back.
    #[serde(default = "one")]
    pub train: u16,
    /// Destination port of datagrams that replace echo requests.
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
