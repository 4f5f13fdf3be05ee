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
