//! Bodies of the outer packets of tunnels.

use perhop_core::Packet;
use perhop_net::{Carrier, IcmpError};

use super::bodies::{BodyId, Message, Stored};
use super::{ModelledHosts, Net};

impl ModelledHosts {
    /// Returns the body of the outer packet for an inner one, which is sent to the same endpoint.
    #[cold]
    pub(super) fn enclose_packet(&mut self, inner: Packet<BodyId>, carrier: Carrier) -> BodyId {
        let (endpoint, sent) = (inner.body.endpoint, self.bodies.slot(inner.body).sent);
        let message =
            Message::Outer { header: inner.header, body: inner.body, number: carrier.number() };
        self.bodies.put(endpoint, sent, message)
    }

    /// Releases the body of an outer packet that has arrived, and returns the inner packet. Further
    /// copies of the outer packet have further copies of the inner one.
    #[cold]
    pub(super) fn disclose_packet(&mut self, outer: BodyId) -> Option<Packet<BodyId>> {
        let Message::Outer { header, body, .. } = self.bodies.get(outer).message else {
            unreachable!("only outer packets have the header of one")
        };
        let body = if self.bodies.is_last(outer) { Some(body) } else { self.bodies.copy(body) };
        self.bodies.arrive(outer);
        body.map(|body| Packet { header, body })
    }

    /// Releases the body of an outer packet that was lost; returns the inner packet unless another
    /// copy stands for it.
    #[cold]
    pub(super) fn lose_outer(&mut self, outer: BodyId) -> Option<Packet<BodyId>> {
        let Message::Outer { header, body, .. } = self.bodies.get(outer).message else {
            unreachable!("it is the body of an outer packet")
        };
        let last = self.bodies.is_last(outer);
        self.bodies.lose(outer);
        last.then_some(Packet { header, body })
    }

    /// Takes an ICMP error about an outer packet, at the entry of its tunnel.
    #[cold]
    pub(super) fn take_tunnel_error(&mut self, network: &mut Net, stored: Stored) {
        if let Message::Error { error: IcmpError::TooBig { mtu }, quoted, .. } =
            self.bodies.message(stored)
        {
            network.limit_tunnel(&quoted, mtu);
        }
    }
}
