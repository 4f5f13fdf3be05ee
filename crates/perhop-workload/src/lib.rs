//! The traffic of applications: the flows and pings of a scenario with every name and unit
//! resolved, their patterns of datagrams, and the playout of calls at their receivers. Modelled
//! hosts and real sockets send and play the same.

mod build;
mod pattern;
mod plan;
mod playout;
mod writes;

pub use build::{WorkloadError, pattern, playout};
pub use pattern::{MAX_PAYLOAD, Pattern};
pub use plan::*;
pub use playout::{CallCounters, Playout};
pub use writes::WritesPlan;

/// First source port of a flow's streams: the first ephemeral port (RFC 6335, section 6).
pub const FIRST_SOURCE_PORT: u16 = 49_152;

/// Memory for the packets of a UDP socket, in bytes: Linux's `net.core.wmem_default`.
pub const SEND_BUFFER: u32 = 212_992;
