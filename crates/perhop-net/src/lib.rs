//! The network: nodes, links, forwarding and the events that move packets along.
//!
//! The same network serves virtual and real time. It has no clock: its driver calls
//! [`run`](Network::run) with the instant up to which to process events, at any speed or when that
//! instant is reached. It is generic over [`Hosts`], which receive packets, and over the body of
//! packets.
//!
//! Packets leave at the link's rate, independent of when the driver wakes up: every event is
//! processed with the instant at which it was due, so that late wake-ups in real time never add up.

mod agenda;
mod balance;
mod channel;
mod gilbert;
mod hosts;
mod icmp;
mod marker;
mod network;
mod port;
mod routes;
mod topology;
mod trace;
mod tunnel;
mod under_way;
mod variation;
mod wire;

pub use balance::Balance;
pub use channel::{Access, Lte, LteUsage, Scheduler, StationCounters, Usage, Wifi, WifiUsage};
pub use gilbert::Gilbert;
pub use hosts::{Departures, Hosts, Loss, Part, Passage, Sent, TimerId, Waits};
pub use icmp::{IcmpError, IcmpErrors};
pub use marker::Marker;
pub use network::{LinkSpec, Network, NodeKind};
pub use port::PortId;
pub use routes::RouteError;
pub use topology::Topology;
pub use trace::{Trace, TraceError, TraceMedium, TraceStep};
pub use tunnel::{Carrier, TunnelCounters, TunnelOverhead, TunnelSpec};
pub use variation::{Variation, VariationDistribution};
pub use wire::{Impairments, LinkCounters, Reorder, Wire};
