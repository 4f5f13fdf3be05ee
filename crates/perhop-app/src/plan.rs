//! Settings of applications with every unit resolved: sizes in bytes, times in picoseconds.

use perhop_core::Duration;

/// An application over connections.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum ApplicationPlan {
    /// Transfers: requests for data.
    Transfers(ExchangesPlan),
    /// Remote procedure calls.
    Rpc(ExchangesPlan),
    /// Pages of objects.
    Web(WebPlan),
    /// Adaptive video.
    Video(VideoPlan),
}

/// Pages, one after the other.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct WebPlan {
    /// Objects of a page; each follows an earlier one or none.
    pub objects: Vec<ObjectPlan>,
    /// True if one connection to each host carries all of its objects at a time.
    pub multiplexed: bool,
    /// Greatest number of connections to each host otherwise.
    pub connections: u16,
    /// Time between a page and the next one.
    pub pause: GapsPlan,
}

/// An object of a page.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct ObjectPlan {
    /// Number of the object whose arrival reveals this one; `None` for the page itself.
    pub after: Option<u32>,
    /// Number of the host that has it.
    pub host: u16,
    /// Length of the request, in bytes.
    pub request: u64,
    /// Length of the response, in bytes.
    pub response: u64,
    /// Time that the server takes before it answers.
    pub server_time: Duration,
}

/// Adaptive video: segments of a constant playing time, each at one of several bit rates.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct VideoPlan {
    /// Bit rates, rising, in bit/s.
    pub bitrates: Vec<u64>,
    /// Playing time of a segment.
    pub segment: Duration,
    /// Playing time that the client buffers.
    pub buffer: Duration,
    /// Buffered playing time with which playback begins, at first and after a stall.
    pub startup: Duration,
    /// Playing time of the whole video; `None` for one without end.
    pub length: Option<Duration>,
    /// Choice of the bit rate.
    pub algorithm: AlgorithmPlan,
    /// Length of requests, in bytes.
    pub request: u64,
}

/// Choice of the bit rate of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum AlgorithmPlan {
    /// By the throughput of the last segments.
    Throughput,
    /// By the buffered playing time.
    Buffer,
}

/// Requests and responses that do not depend on each other.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct ExchangesPlan {
    /// Times of requests.
    pub arrivals: ArrivalsPlan,
    /// Length of requests, in bytes.
    pub request: SizesPlan,
    /// Length of responses, in bytes.
    pub response: SizesPlan,
    /// Time that the server takes before it answers.
    pub server_time: Duration,
    /// True if a connection carries one exchange after another; otherwise each has a new one.
    pub reuse: bool,
    /// Greatest number of simultaneous connections of a client; further requests wait.
    pub connections: u16,
}

/// Times of requests.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum ArrivalsPlan {
    /// Requests at these intervals, whatever becomes of earlier ones.
    Open(GapsPlan),
    /// A request follows the response to the last one after this time.
    Closed(GapsPlan),
}

/// Lengths of time.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct GapsPlan {
    /// Mean.
    pub mean: Duration,
    /// True if they are exponentially distributed, false if they are constant.
    pub exponential: bool,
}

/// Sizes, in bytes.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum SizesPlan {
    /// Constant.
    Constant(u64),
    /// Exponentially distributed, with this mean.
    Exponential(u64),
    /// Pareto, with a mean and a shape in thousandths.
    Pareto(u64, u32),
    /// Log-normal, with a median, and a standard deviation of the logarithm in thousandths.
    Lognormal(u64, u32),
    /// By points of the distribution function: sizes, and the share of sizes up to there in parts
    /// per billion, both rising; linear in between.
    Table(Vec<(u64, u32)>),
}
