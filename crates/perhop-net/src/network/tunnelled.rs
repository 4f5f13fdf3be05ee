//! Packets at the ends of tunnels.

use perhop_core::{Header, NodeId, Packet, Stream};
use perhop_queue::Class;

use super::{Aside, Network};
use crate::hosts::{Hosts, Loss};
use crate::icmp::IcmpError;
use crate::port::{Port, PortId};
use crate::routes::{Detour, Fault};
use crate::tunnel::{Tunnel, TunnelCounters, TunnelSpec};
use crate::wire::Wire;

impl<B: Copy> Network<B> {
    /// Sets the tunnels, before the first packet is sent. Packets enter one at an end if a shortest
    /// path to their destination leads through the other end and further, or ends there and that is
    /// a host; of several, they enter the longest. The outer packets are forwarded like all others.
    ///
    /// Hosts must [enclose](Hosts::enclose) and [disclose](Hosts::disclose) packets.
    pub fn set_tunnels(&mut self, tunnels: &[TunnelSpec]) {
        self.tunnels = tunnels.iter().flat_map(Tunnel::directions).collect();
        let ways = self.tunnels.iter().map(|tunnel| (tunnel.entry, tunnel.exit));
        self.routes.set_tunnels(ways.collect());
        for port in &mut self.ports {
            if self.tunnels.iter().any(|tunnel| tunnel.exit == port.to) {
                port.inspect_arrivals();
            }
        }
    }

    /// Has packets pass a class before they enter a tunnel at an end: that of the device, which has
    /// no rate, so that only a shaper holds packets. The device gets the next port.
    ///
    /// # Panics
    /// If there is no such tunnel or end.
    pub fn add_device(&mut self, tunnel: usize, end: usize, queue: Class<B>) {
        let number = 2 * tunnel + end;
        // A wire without impairments draws no random numbers.
        let random = Stream::new(0, "");
        let port = Port::new(Wire::NONE, self.tunnels[number].exit, queue, random);
        self.tunnels[number].device = Some(PortId(self.ports.len() as u32));
        self.ports.push(port.encloses(number as u32));
    }

    /// Returns `true` if a port is the device of a tunnel.
    pub fn is_device(&self, port: PortId) -> bool {
        self.ports[port.index()].tunnel().is_some()
    }

    /// Learns from an ICMP error about an outer packet with this header that its path takes packets
    /// of `mtu` bytes. The entry answers later packets that are too long (RFC 2003, section 5.1).
    /// Returns `false` if the header is that of no outer packet.
    pub fn limit_tunnel(&mut self, about: &Header, mtu: u32) -> bool {
        let now = self.now;
        let tunnel = self.tunnels.iter_mut().find(|tunnel| tunnel.carries(about));
        let found = tunnel.is_some();
        tunnel.into_iter().for_each(|tunnel| tunnel.learn(now, mtu));
        found
    }

    /// Returns the entry and the counters of each direction of the tunnels: from the first end of
    /// each, and back.
    pub fn tunnels(&self) -> impl Iterator<Item = (NodeId, TunnelCounters)> {
        self.tunnels.iter().map(|tunnel| (tunnel.entry, tunnel.counters))
    }

    /// Returns `true` if a tunnel begins at a node.
    pub fn is_end_of_tunnel(&self, node: NodeId) -> bool {
        self.tunnels.iter().any(|tunnel| tunnel.entry == node)
    }

    /// Puts a packet that its source sends into a tunnel, when the current event is processed.
    pub(super) fn enter_later(&mut self, tunnel: u32, packet: Packet<B>) {
        self.aside.push(Aside::Enters(tunnel, packet));
    }

    /// Sends a packet through a tunnel, behind its device if it has one.
    pub(super) fn enter(&mut self, number: u32, packet: Packet<B>, hosts: &mut impl Hosts<B>) {
        let device = self.tunnels[number as usize].device;
        self.pass(number, packet, device, hosts);
    }

    /// Sends a packet through a tunnel that has left its device. Routes may have changed meanwhile.
    pub(super) fn enter_behind_device(
        &mut self,
        number: u32,
        packet: Packet<B>,
        hosts: &mut impl Hosts<B>,
    ) {
        self.pass(number, packet, None, hosts);
    }

    /// Sends a packet to a tunnel's device, or through the tunnel, in fragments if it is too long
    /// and may be divided.
    fn pass(
        &mut self,
        number: u32,
        packet: Packet<B>,
        device: Option<PortId>,
        hosts: &mut impl Hosts<B>,
    ) {
        let tunnel = &self.tunnels[number as usize];
        let (node, outer) = (tunnel.entry, tunnel.outer(&packet.header, tunnel.spec.mtu));
        let way = self.routes.outer_hop(node, &outer);
        let link = match way {
            Ok(port) => self.ports[port.index()].mtu,
            Err(detour) if detour.tunnel().is_some() => u32::MAX,
            Err(_) => {
                self.tunnels[number as usize].counters.dropped_no_route += 1;
                let fault = Fault::Error(IcmpError::NetUnreachable, Loss::NoRoute);
                return self.discard(node, packet, fault, None, hosts);
            }
        };
        let mtu = self.tunnels[number as usize].mtu(self.now, link);
        let place = (number, mtu, device);
        if packet.header.size <= mtu {
            return self.enclose(place, way, packet, hosts);
        }
        let mut pieces = Vec::new();
        hosts.divide(&packet, mtu, &mut pieces);
        if pieces.is_empty() {
            self.tunnels[number as usize].counters.dropped_too_long += 1;
            let fault = Fault::Error(IcmpError::TooBig { mtu }, Loss::TooBig);
            return self.discard(node, packet, fault, way.ok(), hosts);
        }
        for (body, size) in pieces {
            let header = Header { size, ..packet.header };
            self.enclose(place, way, Packet { header, body }, hosts);
        }
    }

    /// Makes an outer packet and sends it, if `mtu` bytes may enter the tunnel and the packet does
    /// not pass a device before.
    fn enclose(
        &mut self,
        (number, mtu, device): (u32, u32, Option<PortId>),
        way: Result<PortId, Detour>,
        packet: Packet<B>,
        hosts: &mut impl Hosts<B>,
    ) {
        if let Some(port) = device {
            return self.offer(port, packet);
        }
        let tunnel = &mut self.tunnels[number as usize];
        let (header, carrier) = (tunnel.outer(&packet.header, mtu), tunnel.spec.carrier);
        tunnel.counters.encapsulated_packets += 1;
        tunnel.counters.encapsulated_bytes += u64::from(packet.header.size);
        tunnel.counters.outer_bytes += u64::from(header.size);
        let outer = Packet { header, body: hosts.enclose(packet, carrier) };
        match way {
            Ok(port) => self.offer(port, outer),
            Err(detour) => {
                let next = detour.tunnel().expect("packets without a route are discarded");
                self.enter(next, outer, hosts);
            }
        }
    }

    /// Takes a packet that has arrived at its destination `node`: it emerges from a tunnel, or the
    /// node receives it.
    pub(super) fn emerge(&mut self, node: NodeId, packet: Packet<B>, hosts: &mut impl Hosts<B>) {
        let tunnel = self.tunnels.iter_mut().find(|tunnel| tunnel.carries(&packet.header));
        let Some(tunnel) = tunnel.filter(|_| hosts.is_outer(&packet.body)) else {
            return hosts.receive(self, node, packet);
        };
        let Some(mut inner) = hosts.disclose(packet.body) else { return };
        match tunnel.emerging(inner.header.traffic_class, packet.header.traffic_class) {
            Some(class) => inner.header.traffic_class = class,
            None => {
                tunnel.counters.dropped_ecn += 1;
                return self.lose(inner, Loss::Link, None);
            }
        }
        tunnel.counters.decapsulated_packets += 1;
        tunnel.counters.decapsulated_bytes += u64::from(inner.header.size);
        // The frame that has arrived was that of the outer packet.
        inner.header.set_link_class(packet.header.link_class());
        if inner.header.destination == node {
            return self.emerge(node, inner, hosts);
        }
        match self.routes.way(node, &inner.header) {
            Ok(to) => self.offer_if_short(node, to, inner, hosts),
            Err(fault) => self.discard(node, inner, fault, None, hosts),
        }
    }
}
