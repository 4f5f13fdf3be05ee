//! Traffic on real sockets: the flows and pings of a scenario between hosts, each in its network
//! namespace, and their measurements.
//!
//! A [`Job`] has every name and unit resolved. [`Traffic::new`] opens all sockets in the namespaces
//! of their hosts. A socket stays in the namespace in which it was created, so that six threads
//! serve all hosts: one writes to TCP connections, one runs applications over TCP, one runs QUIC
//! connections with their applications, one sends datagrams and probes when they are due, one
//! receives, and one reads the counters at every mark. The [tables](Traffic::tables) are those of
//! modelled hosts.
//!
//! Input is not trusted. A datagram counts if it has the addresses of a stream, the tag of this run
//! and a number that was sent. All others count as packets from unknown senders.

mod allowance;
mod app;
mod budget;
mod clock;
mod collector;
mod error;
mod icmp;
mod job;
mod keys;
mod live;
mod offset;
mod open;
mod payload;
mod ping;
mod proof;
mod prove;
mod quic;
mod reader;
mod readings;
mod receive;
mod share;
mod shared;
mod stream;
pub mod tap;
mod tcp;
mod traffic;
mod udp;

pub use allowance::{Allowance, AllowanceLimits, Grant};
pub use collector::Collector;
pub use error::{ReadingsError, TrafficError};
pub use job::{Job, NodeJob, Timers, linux_name};
pub use keys::KnownKeys;
pub use live::{End, Iperf3Server, Limits, LiveFlow, LiveJob, Token};
pub use offset::ClockOffset;
pub use ping::{PingProgress, train_cost};
pub use readings::{
    Completed, ConnectionReceiver, ConnectionSender, DatagramReceiver, DatagramSender,
    DestinationReading, PingReading, ProcessReading, Readings, ReceiverReadings, SenderReadings,
    ServerReading, SourceReading, StreamResult,
};
pub use traffic::Traffic;
