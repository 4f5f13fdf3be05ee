//! The network: nodes, links, forwarding and the events that move packets along.
//!
//! One network serves virtual and real time. It keeps no clock: whoever drives it says up to
//! which instant to [`run`](Network::run), as fast as it can or as that instant comes. And it
//! knows nothing of what hosts do: it is generic over a [`Hosts`] that packets are handed to, and
//! over the body that they carry.
//!
//! Packets leave when the rate says, not when somebody woke up to send them: every event is
//! processed at the instant it is due, so that late wake-ups in real time never add up.

mod agenda;
mod balance;
mod icmp;
mod marker;
mod network;
mod port;
mod routes;
mod topology;
mod under_way;
mod wire;

pub use balance::Balance;
pub use icmp::{IcmpError, IcmpErrors};
pub use marker::Marker;
pub use network::{
    Departures, Hosts, LinkSpec, Loss, Network, NodeKind, Passage, Sent, TimerId, Waits,
};
pub use port::PortId;
pub use routes::RouteError;
pub use topology::Topology;
pub use wire::{Impairments, LinkCounters, Wire};
