//! What applications send, and when: the flows and pings of a scenario with every name and unit
//! resolved, and the patterns of datagrams that come of them. Modelled hosts and real sockets send
//! the same.

mod build;
mod pattern;
mod plan;

pub use build::{WorkloadError, pattern};
pub use pattern::{MAX_PAYLOAD, Pattern};
pub use plan::*;

/// The first source port of a flow's streams: the first ephemeral one (RFC 6335, section 6).
pub const FIRST_SOURCE_PORT: u16 = 49_152;

/// The bytes of memory that the packets of a UDP socket may take: `net.core.wmem_default` of Linux.
pub const SEND_BUFFER: u32 = 212_992;
