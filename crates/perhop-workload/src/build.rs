//! Builds the pattern of a flow from its plan.

use perhop_app::AppError;
use perhop_core::{Bytes, Duration, Ecn, IpVersion, Rate, Stream, Time, TrafficClass};
use perhop_tcp::EcnMode;
use thiserror::Error;

use crate::pattern::{
    Bursts, Drawn, Extreme, Gaps, Lengths, MAX_PAYLOAD, Mix, Pace, Pattern, Replay, Sizes,
};
use crate::plan::*;
use crate::playout::Playout;

/// Error: a flow or a ping cannot be sent. A validated scenario does not cause it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A rate or a size is zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// A number is too large, or out of its range.
    #[error("too large: {0}")]
    TooLarge(&'static str),
    /// The source ports of a flow's streams end beyond 65535.
    #[error("flow {0}: the source ports of its streams must be at most 65535")]
    SourcePorts(String),
    /// An application over a transport without connections.
    #[error("flow {0}: an application needs TCP or QUIC")]
    NoConnections(String),
    /// An application is impossible.
    #[error(transparent)]
    Application(#[from] AppError),
    /// A ping's least time to live is above its greatest.
    #[error("a ping's times to live must not fall")]
    Ttl,
}

impl FlowPlan {
    /// Returns the source port that the plan requires of a stream; `None` if its host chooses one.
    ///
    /// # Errors
    /// [`WorkloadError`] for port 0, and for ports beyond 65535.
    pub fn required_source_port(&self, stream: u16) -> Result<Option<u16>, WorkloadError> {
        match self.source_port {
            Some(0) => Err(WorkloadError::Zero("a flow's source port")),
            Some(first) => match first.checked_add(stream) {
                None => Err(WorkloadError::SourcePorts(self.name.clone())),
                port => Ok(port),
            },
            None => Ok(None),
        }
    }

    /// Returns the version of its packets.
    pub const fn version(&self) -> IpVersion {
        IpVersion::of(self.ipv6)
    }

    /// Returns the start of a stream.
    pub fn start_of(&self, stream: usize) -> Time {
        self.starts.get(stream).copied().unwrap_or(self.start)
    }

    /// Returns the DSCP and ECN field that most packets of the flow have: those to its destination,
    /// and those to its source. A host sends pure acknowledgements, handshakes and retransmissions
    /// without ECN (RFC 3168, section 6.1), except for DCTCP, which needs it in all packets.
    pub fn usual_classes(&self) -> [TrafficClass; 2] {
        let plain = TrafficClass::new(self.dscp);
        match &self.transport {
            TransportPlan::Udp(udp) => [plain.with_ecn(udp.ecn.unwrap_or_default()), plain],
            TransportPlan::Quic(quic) => match (quic.ecn, quic.congestion_control) {
                (false, _) => [plain; 2],
                (true, CongestionPlan::Prague) => [plain.with_ecn(Ecn::Ect1), plain],
                (true, _) => [plain.with_ecn(Ecn::Ect0), plain],
            },
            TransportPlan::Tcp(tcp) => match tcp.ecn {
                EcnMode::Off => [plain; 2],
                EcnMode::Dctcp => [plain.with_ecn(Ecn::Ect0); 2],
                EcnMode::Classic | EcnMode::Accurate => [plain.with_ecn(Ecn::Ect0), plain],
            },
        }
    }
}

impl PingPlan {
    /// Returns the version of its packets.
    pub const fn version(&self) -> IpVersion {
        IpVersion::of(self.ipv6)
    }

    /// Returns the DSCP and the ECN field of requests.
    pub fn traffic_class(&self) -> TrafficClass {
        TrafficClass::new(self.dscp).with_ecn(self.ecn.unwrap_or_default())
    }

    /// Checks that the ping can be sent.
    ///
    /// # Errors
    /// [`WorkloadError`] for an invalid value.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let [first, last] = self.ttl;
        if first == 0 || self.train == 0 {
            return Err(WorkloadError::Zero("a ping's time to live, or the length of its trains"));
        }
        if first > last { Err(WorkloadError::Ttl) } else { Ok(()) }
    }
}

/// Bytes of a UDP header.
const UDP_HEADER: u16 = 8;

/// Returns the pattern of a stream of a UDP flow, given by the flow's name and the stream's number.
///
/// # Errors
/// [`WorkloadError`] for an invalid value.
pub fn pattern(
    plan: &UdpPlan,
    flow: &str,
    number: usize,
    seed: u64,
) -> Result<Pattern, WorkloadError> {
    Ok(match (&plan.replay, &plan.extreme) {
        (Some(replay), _) => Pattern::Replay(self::replay(replay, plan.layer)?),
        (None, Some(extreme)) => {
            let start = start(plan, flow, number, seed);
            let random = Stream::new(seed, &format!("{flow} {number} extreme"));
            Pattern::Extreme(Box::new(self::extreme(extreme, start, random)?))
        }
        (None, None) => Pattern::Drawn(drawn(plan, flow, number, seed)?),
    })
}

/// Returns the playout of a stream at its receiver; `None` if the flow is no call.
///
/// # Errors
/// [`WorkloadError`] for an invalid value.
pub fn playout(
    plan: &FlowPlan,
    number: usize,
    seed: u64,
) -> Result<Option<Box<Playout>>, WorkloadError> {
    let TransportPlan::Udp(udp) = &plan.transport else { return Ok(None) };
    let Some(playout) = udp.playout else { return Ok(None) };
    let pattern = pattern(udp, &plan.name, number, seed)?;
    let span = (plan.start_of(number), plan.stop.unwrap_or(Time::MAX));
    Ok(Some(Box::new(Playout::new(playout, pattern, span))))
}

/// Draws the time before the first datagram.
fn start(plan: &UdpPlan, flow: &str, number: usize, seed: u64) -> Duration {
    match plan.spread {
        0 => Duration::ZERO,
        most => {
            let mut random = Stream::new(seed, &format!("{flow} {number} start"));
            Duration::from_picos(random.up_to(most))
        }
    }
}

fn extreme(plan: &ExtremePlan, start: Duration, random: Stream) -> Result<Extreme, WorkloadError> {
    if plan.gap[0] == 0 || plan.size[0] == 0 {
        return Err(WorkloadError::Zero("the location of an extreme value distribution"));
    }
    let gap = plan.gap.map(|picos| picos as f64);
    let size = plan.size.map(|thousandths| f64::from(thousandths) / 1000.0);
    Ok(Extreme { start, gap, size, random })
}

impl LayerPlan {
    /// Returns the header bytes that a datagram's size includes.
    pub const fn header(self) -> u16 {
        match self {
            Self::Application => 0,
            Self::Ip => IpVersion::V4.header_bytes() as u16 + UDP_HEADER,
            Self::Ipv6 => IpVersion::V6.header_bytes() as u16 + UDP_HEADER,
        }
    }
}

fn payload(size: u16, layer: LayerPlan) -> Result<u16, WorkloadError> {
    match size.saturating_sub(layer.header()) {
        0 => Err(WorkloadError::Zero("a datagram's payload")),
        payload if payload > MAX_PAYLOAD => {
            Err(WorkloadError::TooLarge("a datagram does not fit a packet"))
        }
        payload => Ok(payload),
    }
}

fn replay(plan: &ReplayPlan, layer: LayerPlan) -> Result<Replay, WorkloadError> {
    let packet = |&(gap, size)| Ok((Duration::from_picos(gap), payload(size, layer)?));
    let packets: Vec<_> = plan.packets.iter().map(packet).collect::<Result<_, WorkloadError>>()?;
    let length = packets.iter().fold(Duration::ZERO, |sum, packet| sum + packet.0);
    if plan.repeat && length < Duration::from_picos(packets.len() as u64) {
        return Err(WorkloadError::TooLarge("a flow sends a datagram every picosecond"));
    }
    Ok(Replay { packets, repeat: plan.repeat, at: 0 })
}

fn drawn(plan: &UdpPlan, flow: &str, number: usize, seed: u64) -> Result<Drawn, WorkloadError> {
    let payload = payload(plan.size, plan.layer)?;
    let header = plan.layer.header();
    let rate = Rate::new(plan.rate).ok_or(WorkloadError::Zero("a flow's rate"))?;
    let gap = Bytes::new(plan.size.into()) / rate;
    if gap <= Duration::from_picos(1) {
        return Err(WorkloadError::TooLarge("a flow sends a datagram every picosecond"));
    }
    let random = |what| Stream::new(seed, &format!("{flow} {number} {what}"));
    let gaps = match plan.gaps {
        DistributionPlan::Constant => Gaps::Even(Pace::new(plan.size, rate)),
        DistributionPlan::Exponential => {
            let picobits = f64::from(plan.size) * 8e12;
            let mean = picobits / rate.bits_per_second() as f64;
            Gaps::Exponential { mean, random: random("gaps") }
        }
    };
    let sizes = match &plan.sizes {
        DatagramSizesPlan::Constant => Sizes::Constant(payload),
        DatagramSizesPlan::Exponential => {
            Sizes::Exponential { mean: plan.size.into(), header, random: random("sizes") }
        }
        DatagramSizesPlan::Mix(mix) => Sizes::Mix(self::mix(mix, plan.layer, random("sizes"))?),
    };
    let bursts = match plan.bursts {
        None => None,
        Some(plan) => Some(bursts(plan, gap, random("bursts"))?),
    };
    let start = start(plan, flow, number, seed);
    Ok(Drawn { gaps, sizes, bursts, start })
}

fn mix(plan: &[(u16, u32)], layer: LayerPlan, random: Stream) -> Result<Mix, WorkloadError> {
    let of = |&(size, weight)| Ok((payload(size, layer)?, weight));
    let sizes: Vec<_> = plan.iter().map(of).collect::<Result<_, WorkloadError>>()?;
    Mix::new(sizes, random).ok_or(WorkloadError::Zero("the sum of the weights of sizes"))
}

/// Least shape of a Pareto distribution, in thousandths: its mean is then 21 times its smallest
/// value. With a shape of 1, the mean is infinite.
const MIN_SHAPE: u32 = 1_050;

/// Returns the bursts of a plan; `gap` is the mean time between datagrams.
fn bursts(plan: BurstsPlan, gap: Duration, random: Stream) -> Result<Bursts, WorkloadError> {
    let [on, off] = [plan.on, plan.off].map(Duration::from_picos);
    if on < gap {
        return Err(WorkloadError::TooLarge(
            "the time between datagrams, for bursts of this length",
        ));
    }
    let lengths = match plan.lengths {
        LengthsPlan::Constant => Lengths::Constant,
        LengthsPlan::Exponential => Lengths::Exponential,
        LengthsPlan::Pareto(shape) if shape < MIN_SHAPE => {
            return Err(WorkloadError::TooLarge("the mean, for bursts of a shape below 1.05"));
        }
        LengthsPlan::Pareto(shape) => Lengths::Pareto(f64::from(shape) / 1000.0),
    };
    Ok(match plan.stationary {
        true => Bursts::stationary(on, off, lengths, random),
        false => Bursts::new(on, off, lengths, random),
    })
}
