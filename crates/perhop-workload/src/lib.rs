//! What applications send, and when: the flows and pings of a scenario with every name and unit
//! resolved, and the patterns of datagrams that come of them. Modelled hosts and real sockets send
//! the same.

mod build;
mod pattern;
mod plan;

pub use build::{WorkloadError, pattern};
pub use pattern::{MAX_PAYLOAD, Pattern};
pub use plan::*;
