//! Measurements, the same in every engine: tables, and captures of packets.
//!
//! An engine keeps cumulative counters and reads them at marks. The difference between two marks is
//! a row of a [table](Table); a [`StreamReading`] has the counters of a stream at a mark. Each
//! statistic beyond a counter has a type: [`Histogram`], [`Jitter`] (RFC 3550), [`Order`] (RFC
//! 4737), [`Density`] (RFC 5236). A [`NetworkMeter`] reads the queues and links of a network. A
//! [`Pinger`] schedules probes and records the answers. [`Captures`] are pcapng files. A
//! [`ClockEstimator`] estimates the difference of two hosts' clocks.
//!
//! Nothing here has a clock: instants are arguments.

mod capture;
mod clock;
mod datagrams;
mod density;
mod histogram;
mod jitter;
mod losses;
mod marks;
mod network;
mod order;
mod pinger;
mod reading;
mod stalls;
mod tables;

pub use capture::{CapturePlan, Captures, InterfacePlan, Sink};
pub use clock::{ClockEstimate, ClockEstimator, ClockModel, Exchange};
pub use datagrams::DatagramMeter;
pub use density::Density;
pub use histogram::Histogram;
pub use jitter::Jitter;
pub use losses::LossMeter;
pub use marks::Marks;
pub use network::NetworkMeter;
pub use order::{Order, OrderCounts};
pub use pinger::{Answer, Pinger, ProbeRecord};
pub use reading::{SRTT_EVERY, Samples, StreamCounters, StreamReading};
pub use stalls::Stalls;
pub use tables::{
    Calls, Codepoints, Column, Completions, Displacements, FlowHistograms, Intervals, Known,
    Labels, Links, Losses, Pings, Queues, Stations, Stretch, Table, Tunnels,
};
