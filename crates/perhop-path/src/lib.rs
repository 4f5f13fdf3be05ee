//! Probing of a network path from the host that it begins at: hops, round-trip times, loss, marks
//! that change on the path, parallel paths, path MTU, capacities.
//!
//! Observations are interpreted in pure modules (`hops`, `multipath`, `mtu`, `capacity`,
//! `statistics`); `prober` has the raw sockets; `trace` and `trains` join both.

mod answer;
mod available;
mod bucket;
mod capacity;
mod end_to_end;
mod hops;
mod message;
mod mtu;
mod multipath;
mod probe;
mod prober;
mod report;
mod respond;
mod sender;
mod sizes;
mod statistics;
mod streams;
mod trace;
mod trains;

pub use answer::{Answer, Kind};
pub use available::{Fleet, Search, Trend, Unknown, Verdict, trend};
pub use bucket::{Bucket, Kind as BucketKind, Line, Sent, find, line};
pub use capacity::{
    Capacity, HopSeries, Method, capacities, is_of_answers, lower_slope, narrow_rate,
};
pub use end_to_end::{EndToEnd, EndToEndBucket, measure_end_to_end};
pub use hops::{
    Mark, Method as RetestMethod, Retest, Rewrite, Silence, judge, reference, rewrites,
};
pub use mtu::{HopMtu, MtuHop, MtuSearch, Outcome};
pub use multipath::{HopFlow, Multipath, Node, flows_needed};
pub use probe::{Probe, ProbeProtocol, Target};
pub use prober::{Ends, GoOn, Observation, ProbeError, Prober};
pub use report::{Address, Hop, LinkBetween, MarkSeen, Report};
pub use respond::{Limits, Responder};
pub use sender::EndToEndSettings;
pub use sizes::{Round, Sizes, rate_between};
pub use statistics::{Estimate, Spread, fisher, quantile};
pub use streams::{AvailableBandwidth, StreamResult, measure_available_bandwidth};
pub use trace::{Settings, trace};

/// Gives the calling thread real-time priority, if its user may have it, and exact timers, so that
/// trains are sent without pauses. Returns whether it has the priority.
pub fn reduce_wakeup_latency() -> bool {
    perhop_socket::reduce_wakeup_latency(true)
}
