//! Probing of a network path from the host that it begins at: hops, round-trip times, loss, marks
//! that change on the way, parallel ways, path MTU.
//!
//! What observations mean is in pure modules (`hops`, `multipath`, `mtu`, `statistics`); `prober`
//! has the raw sockets, and `trace` joins both.

mod answer;
mod hops;
mod mtu;
mod multipath;
mod probe;
mod prober;
mod report;
mod statistics;
mod trace;

pub use answer::{Answer, Kind};
pub use hops::{Mark, Rewrite, Silence, judge, rewrites};
pub use mtu::{HopMtu, MtuSearch, Outcome};
pub use multipath::{Ask, Multipath, Place, flows_needed};
pub use probe::{Probe, ProbeProtocol, Target};
pub use prober::{Ends, GoOn, Observation, ProbeError, Prober};
pub use report::{Address, Hop, LinkBetween, MarkSeen, Report};
pub use statistics::{Spread, fisher, quantile};
pub use trace::{Settings, trace};
