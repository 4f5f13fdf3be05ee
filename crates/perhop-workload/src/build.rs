//! From a plan to a pattern.

use perhop_core::{Bytes, Duration, Rate, Stream};
use thiserror::Error;

use crate::pattern::{Bursts, Drawn, Gaps, Lengths, MAX_PAYLOAD, Pace, Pattern, Replay, Sizes};
use crate::plan::*;

/// A flow or a ping that cannot be sent. A scenario that was validated does not lead here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A rate or a size is zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// Something is beyond what can be counted, or beyond what makes sense.
    #[error("too large: {0}")]
    TooLarge(&'static str),
    /// A ping's least time to live is above its greatest.
    #[error("a ping's times to live must not fall")]
    Ttl,
}

impl PingPlan {
    /// Whether it can be sent.
    ///
    /// # Errors
    /// [`WorkloadError`] says what it has wrong.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let [first, last] = self.ttl;
        if first == 0 || self.train == 0 {
            return Err(WorkloadError::Zero("a ping's time to live, or the length of its trains"));
        }
        if first > last { Err(WorkloadError::Ttl) } else { Ok(()) }
    }
}

/// Header bytes of a UDP datagram over IPv4, which `layer: ip` counts whatever carries it.
const DATAGRAM_HEADER: u16 = 28;

/// Returns the pattern of a stream of a UDP flow, given by the flow's name and the stream's number.
///
/// # Errors
/// [`WorkloadError`] says what the plan has wrong.
pub fn pattern(
    plan: &UdpPlan,
    flow: &str,
    number: usize,
    seed: u64,
) -> Result<Pattern, WorkloadError> {
    Ok(match &plan.replay {
        Some(replay) => Pattern::Replay(self::replay(replay, plan.layer)?),
        None => Pattern::Drawn(drawn(plan, flow, number, seed)?),
    })
}

impl LayerPlan {
    /// Returns the bytes of a datagram's size that are none of its payload.
    pub const fn header(self) -> u16 {
        match self {
            Self::Application => 0,
            Self::Ip => DATAGRAM_HEADER,
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
    let sizes = match plan.sizes {
        DistributionPlan::Constant => Sizes::Constant(payload),
        DistributionPlan::Exponential => {
            Sizes::Exponential { mean: plan.size.into(), header, random: random("sizes") }
        }
    };
    let bursts = match plan.bursts {
        None => None,
        Some(plan) => Some(bursts(plan, gap, random("bursts"))?),
    };
    Ok(Drawn { gaps, sizes, bursts })
}

/// The least shape of a Pareto distribution, in thousandths: its mean is then 21 times its smallest
/// value, and infinite at 1.
const MIN_SHAPE: u32 = 1_050;

/// `gap` is the mean time between datagrams.
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
    Ok(Bursts::new(on, off, lengths, random))
}
