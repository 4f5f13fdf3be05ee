//! Real Linux hosts on perhop's network, in real time.
//!
//! A host is a [`Namespace`]: a network stack without a name, which ends with the process that made
//! it, even if that is killed.

mod behind;
mod clock;
mod counts;
mod device;
mod emulation;
mod fragment;
mod hosts;
mod icmp;
mod join;
mod live;
mod netlink;
mod netns;
mod offload;
#[cfg(test)]
mod packets;
mod reassembly;
mod running;
mod shaper;
mod store;
mod tun;
mod tunnels;
mod wire;

pub use clock::monotonic;
pub use counts::{Counted, DeviceCounts, LinuxCounts, QueueCounts};
pub use emulation::{Emulation, EmulationCounters, EmulationError, EmulationPlan, FlowKeyPlan};
pub use hosts::PacketCounters;
pub use join::join_namespaces;
pub use live::PortReading;
pub use netns::{Namespace, NamespaceError, UserNamespaceError, enter_user_namespace};
pub use tun::TunError;
pub use wire::{WireCounters, WireEnd, WireError, Wires};
