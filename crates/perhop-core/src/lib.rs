//! The basic types of all other crates of perhop: units, token buckets, DSCPs, packets, random
//! streams.
//!
//! Quantities are newtypes over integers, and only operations that make physical sense compile:
//! [`Bytes`] divided by a [`Rate`] is a [`Duration`]. Time is counted in picoseconds, which is
//! exact at 100 Gb/s (a bit lasts 10 ps) and lasts 213 days in a `u64`.

mod bucket;
mod distances;
mod dscp;
mod elastic;
mod elementary;
mod encapsulation;
mod overhead;
mod packet;
mod prefetch;
mod random;
#[cfg(feature = "serde")]
pub mod spelling;
mod units;

pub use bucket::{Instant, TokenBucket, Tokens};
pub use distances::distances;
pub use dscp::{Dscp, Ecn, InvalidDscp, TrafficClass};
pub use elastic::Elastic;
pub use elementary::{exp, ln, normal_quantile, power};
pub use encapsulation::{Encapsulation, LinkClass};
pub use overhead::Overhead;
pub use packet::{AckHint, Header, InnerFlow, IpVersion, NodeId, Packet, Protocol, Transport};
pub use prefetch::{prefetch, prefetch_after};
pub use random::Stream;
pub use units::{Bytes, Duration, Rate, Time, Zero};
