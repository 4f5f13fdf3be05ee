//! A part of a network, which hands packets over to other parts.
//!
//! Each part is a [`Network`] with all nodes and links, of which it processes the events of its own
//! nodes. A link between two parts has its queue and its transmitter in the part of the node that
//! sends, and its arrivals in the other. As events of the same instant are ordered by their ids,
//! the parts together process the same events as the whole, those of each node in the same order.

use perhop_core::{Duration, NodeId, Packet, Time};

use super::Network;
use crate::port::PortId;

impl<B: Copy> Network<B> {
    /// Keeps only its own nodes, before the first packet is sent. Packets to others stay on the
    /// wire until they are [taken](Self::take_leaving). Links to others must keep packets in order
    /// and deliver each at most once.
    pub fn keep(&mut self, own: impl Fn(NodeId) -> bool) {
        let ports = self.ports();
        let leaves =
            |id: &PortId| own(self.ports[id.index() ^ 1].to) && !own(self.ports[id.index()].to);
        self.exits = ports.filter(leaves).collect();
        for id in &self.exits {
            self.ports[id.index()].leave();
        }
    }

    /// Returns the least time from the end of a transmission at a port to its arrival, if the link
    /// keeps packets in order and delivers each at most once, and its delay does not vary.
    pub fn least_delay(&self, id: PortId) -> Option<Duration> {
        self.ports[id.index()].least_delay()
    }

    /// Returns the node that sends through a port.
    pub fn near_end(&self, port: PortId) -> NodeId {
        match self.ports[port.index()].tunnel() {
            Some(tunnel) => self.tunnels[tunnel as usize].entry,
            None => self.ports[port.index() ^ 1].to,
        }
    }

    /// Returns the node to which a port leads.
    pub fn far_end(&self, port: PortId) -> NodeId {
        self.ports[port.index()].to
    }

    /// Returns the first arrival in another part of a packet that is not taken.
    pub fn next_leaving(&self) -> Option<Time> {
        self.exits.iter().filter_map(|id| self.ports[id.index()].next_arrival()).min()
    }

    /// Takes the packets that arrive in other parts up to and including `until`, each with its
    /// arrival, the port that has sent it and the node to which that leads. Their transmission must
    /// have begun.
    pub fn take_leaving(
        &mut self,
        until: Time,
        mut take: impl FnMut(PortId, Time, NodeId, Packet<B>),
    ) {
        for &id in &self.exits {
            let port = &mut self.ports[id.index()];
            while let Some(at) = port.next_arrival().filter(|&at| at <= until)
                && let Some(packet) = port.take_off_wire()
            {
                take(id, at, port.to, packet);
            }
        }
    }

    /// Puts a packet from another part on the wire of a port, to arrive at `at`.
    pub fn put_arriving(&mut self, port: PortId, at: Time, packet: Packet<B>) {
        self.put_on_wire(port, at, packet);
    }
}
