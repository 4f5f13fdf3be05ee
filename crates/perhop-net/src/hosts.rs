//! The boundary between the network and its hosts.

use perhop_core::{Bytes, NodeId, Packet, Time};
use perhop_queue::Cause;

use crate::icmp::IcmpError;
use crate::network::Network;
use crate::port::PortId;
use crate::tunnel::Carrier;

/// Number of a timer of the hosts, which number their timers from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u32);

/// Reason why a packet is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// A queue dropped the packet.
    Queue(Cause),
    /// The link lost the packet.
    Link,
    /// The delay line of the link was full.
    DelayLine,
    /// There is no route to the destination.
    NoRoute,
    /// The time to live was used up.
    Expired,
    /// The packet exceeds the MTU of a link.
    TooBig,
}

/// Direction in which a packet passes an interface, seen from the node of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// The transmission of the packet begins.
    Sent,
    /// The packet has arrived.
    Received,
}

/// Memory that a host needs when a packet arrives, in the order in which each part refers to the
/// next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Body of the packet, and the endpoint to which it is sent.
    Endpoint,
    /// Connection of the endpoint.
    Connection,
    /// Data to which the connection refers.
    Data,
}

/// State of a packet after a host has sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Queue in which the packet waits; `None` if its transmission has begun.
    pub waits: Option<Waits>,
    /// True if a packet was dropped at the port at this instant, this one or another.
    pub dropped: bool,
}

/// A host's own queue, in which packets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Port of the queue.
    pub port: PortId,
    /// Waiting IP bytes.
    pub bytes: Bytes,
    /// Reports of departures from the queue.
    pub departures: Departures,
}

/// Reports of departures from a queue to the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departures {
    /// Departures are reported by [`Hosts::departed`].
    Reported,
    /// No reports: packets are transmitted in order of arrival, at times that are known.
    Scheduled,
    /// No reports, and a discipline decides when packets are transmitted.
    Unknown,
}

/// Callbacks of the network. One object represents all hosts, distinguished by node.
pub trait Hosts<B> {
    /// Takes a packet that has arrived at its destination host.
    fn receive(&mut self, network: &mut Network<B>, host: NodeId, packet: Packet<B>);

    /// Handles a timer that is due. A timer that was set twice is due twice.
    fn timer(&mut self, network: &mut Network<B>, timer: TimerId);

    /// Takes a lost packet, with the port before which or on whose link it was lost; `None` if it
    /// was on no link. This is for counters and for the memory of its body; an emulated host
    /// detects losses as real hosts do. Losses at different nodes come in any order.
    fn lost(&mut self, packet: Packet<B>, loss: Loss, at: Option<PortId>);

    /// Handles the departure of a packet of `size` bytes from a queue: its transmission has begun,
    /// at a port with [reported](Network::report_departures) departures where it had waited, or a
    /// queue has dropped it.
    fn departed(&mut self, network: &mut Network<B>, body: B, size: u32) {
        let _ = (network, body, size);
    }

    /// Returns `true` if prefetching is worth its cost: the hosts do not fit into a cache.
    #[inline(always)]
    fn prefetches(&self) -> bool {
        false
    }

    /// Prefetches a part of the memory that the arrival of a packet with this body will need, when
    /// the parts before it are there. It is a hint: the packet may not arrive.
    #[inline(always)]
    fn prefetch(&mut self, body: &B, part: Part) {
        let _ = (body, part);
    }

    /// Returns the body for a copy of `packet`, which a link duplicates; `None` if it cannot be
    /// copied, and then it is not duplicated.
    fn copy(&mut self, packet: &Packet<B>) -> Option<B> {
        let _ = packet;
        None
    }

    /// Returns the body of the ICMP error that `node`, a router or a host, sends about `packet`,
    /// with the quote, and the length of the error's packet in bytes. The network makes the header.
    /// Returns `None` if no error may be sent about the packet because it is an ICMP error itself
    /// (RFC 1122, section 3.2.2).
    fn quote(&mut self, node: NodeId, packet: &Packet<B>, error: IcmpError) -> Option<(B, u32)>;

    /// Divides a packet into fragments of at most `mtu` bytes (RFC 791, section 3.2), each with its
    /// length, and releases its body; or adds none, if the packet must not be fragmented.
    fn divide(&mut self, packet: &Packet<B>, mtu: u32, pieces: &mut Vec<(B, u32)>) {
        let _ = (packet, mtu, pieces);
    }

    /// Returns the body of the outer packet of a tunnel for an inner packet.
    ///
    /// # Panics
    /// If these hosts are not for networks with tunnels.
    fn enclose(&mut self, packet: Packet<B>, carrier: Carrier) -> B {
        let _ = (packet, carrier);
        unimplemented!("these hosts have no tunnels")
    }

    /// Returns `true` if a body is that of an outer packet.
    fn is_outer(&self, body: &B) -> bool {
        let _ = body;
        false
    }

    /// Releases the body of an outer packet that has arrived, and returns the inner packet; `None`
    /// if it is one copy too many.
    ///
    /// # Panics
    /// As [`enclose`](Self::enclose).
    fn disclose(&mut self, body: B) -> Option<Packet<B>> {
        let _ = body;
        unimplemented!("these hosts have no tunnels")
    }

    /// Records a packet that passes a [watched](Network::watch) interface, as it is on the link. A
    /// packet that the link loses was sent nevertheless.
    fn observe(&mut self, at: Time, interface: PortId, passage: Passage, packet: &Packet<B>) {
        let _ = (at, interface, passage, packet);
    }
}
