//! Traffic on real sockets: the flows and pings of a scenario between hosts that have network stacks
//! of their own, each in its network namespace, and what becomes of them.
//!
//! A [`Job`] has every name and unit resolved. [`Traffic::new`] opens all sockets in the hosts that
//! they belong to; a socket stays in the namespace that it was made in, so that afterwards a few
//! threads serve all hosts: one writes to TCP connections, one sends datagrams and probes when they
//! are due, one takes in whatever comes, one reads the counters at every mark. The
//! [tables](Traffic::tables) are those of modelled hosts.
//!
//! What comes in is not trusted. Datagrams are counted that come from where a stream's come from,
//! bear this run's mark and have a number that was sent; everything else is of an unknown sender.

mod clock;
mod error;
mod icmp;
mod job;
mod open;
mod payload;
mod ping;
mod receive;
mod record;
mod shared;
mod stream;
mod sys;
mod tap;
mod tcp;
mod traffic;
mod udp;

pub use error::TrafficError;
pub use job::{Job, NodeJob, Timers};
pub use traffic::Traffic;
