//! Linux hosts at the ends of the network, and the routers' own ICMP messages.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::IpAddr;

use perhop_core::{AckHint, Header, NodeId, Packet, Protocol, Time};
use perhop_measure::{Captures, LossMeter};
use perhop_net::{Carrier, Hosts, IcmpError, Loss, Network, NodeKind, Passage, PortId, TimerId};
use perhop_wire::{
    IpPacket, QuotedPacket, TcpSegment, VNET_HEADER, VnetHeader, number, set_class_and_ttl,
};

use crate::behind::Behind;
use crate::fragment::divide;
use crate::icmp::{self, Addresses, is_unicast};
use crate::offload::{Joined, split};
use crate::reassembly::{Reassembly, is_fragment};
use crate::store::{Buffer, HEADROOM, Store};
use crate::tun::Tun;
use crate::tunnels::Enclosed;

/// Greatest length that a host hands over at once, in bytes.
const LONGEST: usize = 65_536 + VNET_HEADER;
/// Greatest number of packets handed to a host at once (`IOV_MAX` is 1024).
const MOST_PIECES: usize = 64;
/// Memory for packets in transit, in bytes; further ones are lost and counted.
const MEMORY: usize = 1 << 30;

/// Counters of the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounters {
    /// Packets sent by hosts, counted after segmentation.
    pub sent: u64,
    /// Packets handed to hosts.
    pub received: u64,
    /// Number of times that a host handed over a packet, or several as one.
    pub reads: u64,
    /// Number of times that a packet, or several as one, were handed to a host.
    pub writes: u64,
    /// Packets that a host refused.
    pub refused: u64,
    /// Data from hosts that is not a valid packet, or that the host must not send.
    pub malformed: u64,
    /// Broadcast and multicast packets, and packets with a source address other than the host's
    /// own, which are not forwarded.
    pub foreign: u64,
    /// Packets lost because too many are in transit.
    pub overflow: u64,
}

/// A node of the network.
#[derive(Debug)]
struct EmulatedNode {
    kind: NodeKind,
    addresses: Addresses,
    tun: Option<Tun>,
    /// Packets to hand to the node, each with its length.
    outbox: Vec<(Buffer, u32)>,
}

/// Identification of a flow's packets: source, destination, protocol and destination port.
pub(crate) type FlowKey = (NodeId, NodeId, Protocol, u16);

/// All hosts of an emulation.
#[derive(Debug)]
pub(crate) struct LinuxHosts {
    nodes: Vec<EmulatedNode>,
    by_address: HashMap<IpAddr, NodeId>,
    behind: Behind,
    /// Destination of packets to all other addresses.
    nowhere: NodeId,
    store: Store,
    pub captures: Captures,
    pub counters: PacketCounters,
    /// Flows with separate counters of losses.
    flows: HashMap<FlowKey, u32>,
    /// Flows whose source ports are given, by each of these ports.
    flows_by_source_port: HashMap<(FlowKey, u16), u32>,
    pub losses: LossMeter,
    /// Nodes with packets in their outbox.
    ready: Vec<NodeId>,
    /// Buffer for data from a host.
    read: Box<[u8]>,
    /// Packets in this data.
    packets: Vec<(Buffer, usize)>,
    /// Bytes of the observed packet.
    observed: Vec<u8>,
    /// Pings of routers in fragments, not all of which have arrived.
    reassembly: Reassembly,
    /// Packets in tunnels.
    enclosed: Enclosed,
}

type Net = Network<Buffer>;

impl LinuxHosts {
    /// Creates nodes with these addresses, hosts behind these devices, with packets of at most this
    /// length. Losses of these flows are counted separately; a flow may have a range of source
    /// ports.
    pub fn new(
        nodes: Vec<(NodeKind, Addresses, Option<Tun>)>,
        nowhere: NodeId,
        longest: u32,
        flows: impl IntoIterator<Item = (FlowKey, Option<(u16, u16)>)>,
        behind: Behind,
    ) -> Self {
        let (mut by_key, mut by_source_port) = (HashMap::new(), HashMap::new());
        for ((key, source_ports), flow) in flows.into_iter().zip(0..) {
            match source_ports {
                None => drop(by_key.insert(key, flow)),
                Some((first, last)) => {
                    by_source_port.extend((first..=last).map(|port| ((key, port), flow)));
                }
            }
        }
        let addresses = |(node, (_, own, _)): (usize, &(NodeKind, Addresses, Option<Tun>))| {
            let node = NodeId(node as u16);
            [(IpAddr::V4(own.v4), node), (IpAddr::V6(own.v6), node)]
        };
        let by_address = nodes.iter().enumerate().flat_map(addresses).collect();
        let node =
            |(kind, addresses, tun)| EmulatedNode { kind, addresses, tun, outbox: Vec::new() };
        Self {
            by_address,
            nodes: nodes.into_iter().map(node).collect(),
            behind,
            nowhere,
            // Packets that routers send have at most the least MTU of IPv6.
            store: Store::new(longest.max(1280) as usize, MEMORY),
            captures: Captures::default(),
            counters: PacketCounters::default(),
            flows: by_key,
            flows_by_source_port: by_source_port,
            losses: LossMeter::default(),
            ready: Vec::new(),
            read: vec![0; LONGEST].into_boxed_slice(),
            packets: Vec::new(),
            observed: Vec::new(),
            reassembly: Reassembly::default(),
            enclosed: Enclosed::default(),
        }
    }

    /// Returns the hosts' devices, with their nodes.
    pub fn devices(&self) -> impl Iterator<Item = (NodeId, &Tun)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter_map(|(node, each)| Some((NodeId(node as u16), each.tun.as_ref()?)))
    }

    /// Returns the hosts whose devices are gone.
    pub fn without_device(&self) -> impl Iterator<Item = NodeId> {
        let nodes = self.nodes.iter().enumerate();
        let lost = nodes.filter(|(_, each)| each.kind == NodeKind::Host && each.tun.is_none());
        let real = lost.filter(|(node, _)| *node != self.nowhere.index());
        real.map(|(node, _)| NodeId(node as u16))
    }

    /// Returns `true` if a host's device exists.
    pub fn has_device(&self, host: NodeId) -> bool {
        self.nodes[host.index()].tun.is_some()
    }

    /// Removes a host's device, which is gone.
    pub fn remove(&mut self, host: NodeId) {
        self.nodes[host.index()].tun = None;
    }

    /// Reads data from a host, and sends its packets into the network, now. Returns `true` if there
    /// was any.
    ///
    /// # Errors
    /// If the host's device is gone.
    pub fn read(&mut self, host: NodeId, network: &mut Net) -> io::Result<bool> {
        let Some(tun) = &self.nodes[host.index()].tun else { return Ok(false) };
        let Some(length) = tun.read(&mut self.read)? else { return Ok(false) };
        self.counters.reads += 1;
        let offload = tun.offload;
        if self.take_apart(host, length, offload, network).is_none() {
            self.counters.malformed += 1;
        }
        Ok(true)
    }

    /// Returns `true` if an address that no node has is behind a host.
    #[cold]
    fn is_behind(&self, host: NodeId, address: IpAddr) -> bool {
        !self.by_address.contains_key(&address) && self.behind.host(address) == Some(host)
    }

    /// Sends the packets in the data that was read; none if it is invalid.
    fn take_apart(
        &mut self,
        host: NodeId,
        length: usize,
        offload: bool,
        network: &mut Net,
    ) -> Option<()> {
        let bytes = &self.read[..length];
        let (vnet, bytes) = match offload {
            true => {
                bytes.split_first_chunk().map(|(vnet, rest)| (VnetHeader::parse(vnet), rest))?
            }
            false => (VnetHeader::default(), bytes),
        };
        let parsed = IpPacket::parse(bytes).ok()?;
        let own = self.nodes[host.index()].addresses;
        let from_itself = [IpAddr::V4(own.v4), IpAddr::V6(own.v6)].contains(&parsed.source);
        let permitted = from_itself || self.is_behind(host, parsed.source);
        if !permitted || !is_unicast(parsed.destination) {
            self.counters.foreign += 1;
            return Some(());
        }
        let header = Header {
            size: parsed.length as u32,
            source: host,
            destination: match self.by_address.get(&parsed.destination) {
                Some(&node) => node,
                None => self.behind.host(parsed.destination).unwrap_or(self.nowhere),
            },
            source_port: parsed.ports[0],
            destination_port: parsed.ports[1],
            protocol: parsed.protocol().into(),
            traffic_class: parsed.traffic_class,
            ttl: parsed.ttl,
            ack: ack_hint(bytes, &parsed),
        };
        self.packets.clear();
        if vnet.segmentation().is_some() {
            let divided = split(bytes, (vnet, &parsed), &mut self.store, &mut self.packets);
            if divided.is_none() {
                self.packets.drain(..).for_each(|(buffer, _)| self.store.release(buffer));
                self.counters.overflow += 1;
                return Some(());
            }
        } else {
            if parsed.length > self.store.length() {
                return None;
            }
            let Some(buffer) = self.store.take() else {
                self.counters.overflow += 1;
                return Some(());
            };
            self.store.bytes_mut(buffer)[..parsed.length].copy_from_slice(&bytes[..parsed.length]);
            self.store.set_partial(buffer, vnet.partial(parsed.length));
            self.packets.push((buffer, parsed.length));
        }
        self.counters.sent += self.packets.len() as u64;
        for &(body, length) in &self.packets {
            network.send(host, Packet { header: Header { size: length as u32, ..header }, body });
        }
        Some(())
    }

    /// Hands the packets that have arrived to the hosts.
    pub fn flush(&mut self) {
        while let Some(node) = self.ready.pop() {
            let mut outbox = std::mem::take(&mut self.nodes[node.index()].outbox);
            if let Some(tun) = &self.nodes[node.index()].tun {
                deliver(tun, &outbox, &mut self.store, &mut self.counters);
            } else {
                self.counters.refused += outbox.len() as u64;
            }
            outbox.drain(..).for_each(|(buffer, _)| self.store.release(buffer));
            self.nodes[node.index()].outbox = outbox;
        }
    }

    /// Handles a packet to a router: the router replies to pings, and no process listens on its
    /// ports.
    fn at_router(&mut self, network: &mut Net, router: NodeId, packet: Packet<Buffer>) {
        let Packet { header, body } = packet;
        let bytes = &mut self.store.bytes_mut(body)[..header.size as usize];
        set_class_and_ttl(bytes, header.traffic_class, header.ttl);
        let parsed = IpPacket::parse(bytes);
        if let Ok(parsed) = &parsed
            && matches!(parsed.number, number::ICMP | number::ICMPV6)
            && is_fragment(parsed)
        {
            return self.answer_fragments(network, router, (header, body), parsed);
        }
        if let Ok(parsed) = parsed
            && icmp::answer(bytes, &parsed)
        {
            self.store.set_partial(body, None);
            let (source, destination) = (router, header.source);
            let header = Header { source, destination, ttl: Header::TTL, ..header };
            network.send(router, Packet { header, body });
            return;
        }
        self.learn(network, &packet);
        if matches!(header.protocol().base(), Protocol::Tcp | Protocol::Udp) {
            network.send_icmp_error(router, &packet, IcmpError::PortUnreachable, self);
        }
        self.store.release(body);
    }

    /// Takes an ICMP error about an outer packet; returns `false` if the packet is none.
    fn learn(&self, network: &mut Net, packet: &Packet<Buffer>) -> bool {
        let bytes = &self.store.bytes(packet.body)[..packet.header.size as usize];
        let Ok(parsed) = IpPacket::parse(bytes) else { return false };
        let told = icmp::too_big(bytes, &parsed);
        told.is_some_and(|(quoted, mtu)| {
            let about = quoted_header(&quoted, |address| self.by_address.get(&address).copied());
            about.is_some_and(|about| network.limit_tunnel(&about, mtu))
        })
    }

    /// Handles a fragment of a ping to a router: once all have arrived, the router replies to each.
    fn answer_fragments(
        &mut self,
        network: &mut Net,
        router: NodeId,
        piece: (Header, Buffer),
        parsed: &IpPacket,
    ) {
        let here = (network.now(), router);
        let Some(pieces) = self.reassembly.take(&mut self.store, here, piece, parsed) else {
            return;
        };
        let of = |store: &Store, (header, body): (Header, Buffer)| {
            let bytes = &store.bytes(body)[..header.size as usize];
            IpPacket::parse(bytes).is_ok_and(|parsed| icmp::reply_to(bytes, &parsed).is_some())
        };
        let asked = of(&self.store, pieces[0]);
        for (header, body) in pieces {
            let bytes = &mut self.store.bytes_mut(body)[..header.size as usize];
            match IpPacket::parse(bytes) {
                Ok(parsed) if asked => {
                    icmp::answer_fragment(bytes, &parsed);
                    self.store.set_partial(body, None);
                    let (source, destination) = (router, header.source);
                    let header = Header { source, destination, ttl: Header::TTL, ..header };
                    network.send(router, Packet { header, body });
                }
                _ => self.store.release(body),
            }
        }
    }

    /// Returns a packet's bytes as they are on the wire.
    fn on_wire(&mut self, packet: &Packet<Buffer>) -> &[u8] {
        let address = |node: NodeId| self.nodes[node.index()].addresses;
        if self.enclosed.write(&mut self.observed, packet, address) {
            return &self.observed;
        }
        let bytes = &self.store.bytes(packet.body)[..packet.header.size as usize];
        self.observed.clear();
        self.observed.extend_from_slice(bytes);
        set_class_and_ttl(&mut self.observed, packet.header.traffic_class, packet.header.ttl);
        if let Some(partial) = self.store.partial(packet.body) {
            partial.fill(&mut self.observed);
        }
        &self.observed
    }
}

/// Returns what the network reads of a quoted packet between nodes.
fn quoted_header(quoted: &QuotedPacket, node: impl Fn(IpAddr) -> Option<NodeId>) -> Option<Header> {
    let port = |at: usize| Some(u16::from_be_bytes(*quoted.transport.get(at..)?.first_chunk()?));
    let protocol = match quoted.number {
        number::ICMP => Protocol::Icmp,
        number::TCP => Protocol::Tcp,
        number::UDP => Protocol::Udp,
        _ => Protocol::Other,
    };
    let has_ports = matches!(protocol, Protocol::Tcp | Protocol::Udp);
    Some(Header {
        size: 0,
        source: node(quoted.source)?,
        destination: node(quoted.destination)?,
        source_port: if has_ports { port(0)? } else { 0 },
        destination_port: if has_ports { port(2)? } else { 0 },
        protocol: protocol.into(),
        traffic_class: quoted.traffic_class,
        ttl: Header::TTL,
        ack: AckHint::NONE,
    })
}

/// Returns what an ACK filter reads of a packet.
fn ack_hint(bytes: &[u8], parsed: &IpPacket) -> AckHint {
    let segment = || TcpSegment::new_checked(bytes.get(parsed.transport..parsed.length)?).ok();
    match parsed.number == number::TCP && !is_fragment(parsed) {
        true => segment().map_or(AckHint::NONE, |segment| segment.ack_hint()),
        false => AckHint::NONE,
    }
}

/// Hands packets to a host in order, joining those of a connection.
fn deliver(tun: &Tun, packets: &[(Buffer, u32)], store: &mut Store, counters: &mut PacketCounters) {
    let mut rest = packets;
    while let Some((&(first, length), after)) = rest.split_first() {
        let length = length as usize;
        let partial = store.partial(first);
        let joined = match tun.offload && !after.is_empty() {
            true => Joined::begin(&store.bytes(first)[..length], partial),
            false => None,
        };
        let (number, taken) = match joined {
            Some(joined) => deliver_joined(tun, joined, rest, store),
            None => (1, deliver_one(tun, (first, length), store)),
        };
        counters.writes += 1;
        if taken {
            counters.received += number as u64;
        } else {
            counters.refused += number as u64;
        }
        rest = &rest[number..];
    }
}

fn deliver_one(tun: &Tun, (buffer, length): (Buffer, usize), store: &mut Store) -> bool {
    let partial = store.partial(buffer);
    if tun.offload {
        let place = store.place_mut(buffer);
        let start = HEADROOM - VNET_HEADER;
        place[start..HEADROOM].copy_from_slice(&VnetHeader::of(partial).emit());
        return tun.write(&place[start..HEADROOM + length]);
    }
    let bytes = &mut store.bytes_mut(buffer)[..length];
    if let Some(partial) = partial {
        partial.fill(bytes);
    }
    tun.write(bytes)
}

/// Hands over as many of `packets` as can be joined; returns their number, and `true` if the host
/// took them.
fn deliver_joined(
    tun: &Tun,
    mut joined: Joined,
    packets: &[(Buffer, u32)],
    store: &mut Store,
) -> (usize, bool) {
    let headers = joined.headers().len();
    let mut number = 1;
    while let Some(&(next, length)) = packets.get(number)
        && number < MOST_PIECES
        && joined.follow(&store.bytes(next)[..length as usize], store.partial(next))
    {
        number += 1;
    }
    if number == 1 {
        let (buffer, length) = packets[0];
        return (1, deliver_one(tun, (buffer, length as usize), store));
    }
    joined.seal();
    let vnet = joined.vnet.emit();
    let mut pieces = [IoSlice::new(&[]); MOST_PIECES + 2];
    pieces[0] = IoSlice::new(&vnet);
    pieces[1] = IoSlice::new(joined.headers());
    for (piece, &(buffer, length)) in pieces[2..].iter_mut().zip(&packets[..number]) {
        *piece = IoSlice::new(&store.bytes(buffer)[headers..length as usize]);
    }
    (number, tun.write_pieces(&pieces[..number + 2]))
}

impl Hosts<Buffer> for LinuxHosts {
    fn receive(&mut self, network: &mut Net, host: NodeId, packet: Packet<Buffer>) {
        if self.nodes[host.index()].kind == NodeKind::Router {
            return self.at_router(network, host, packet);
        }
        if packet.header.protocol() == Protocol::Icmp
            && network.is_end_of_tunnel(host)
            && self.learn(network, &packet)
        {
            return self.store.release(packet.body);
        }
        let Packet { header, body } = packet;
        let bytes = &mut self.store.bytes_mut(body)[..header.size as usize];
        set_class_and_ttl(bytes, header.traffic_class, header.ttl);
        let outbox = &mut self.nodes[host.index()].outbox;
        if outbox.is_empty() {
            self.ready.push(host);
        }
        outbox.push((body, header.size));
    }

    fn timer(&mut self, _network: &mut Net, _timer: TimerId) {}

    fn lost(&mut self, packet: Packet<Buffer>, loss: Loss, at: Option<PortId>) {
        let packet = self.enclosed.bare(packet);
        let Header { source, destination, protocol, source_port, destination_port, .. } =
            packet.header;
        let key = (source, destination, protocol.protocol().base(), destination_port);
        let flow = self.flows_by_source_port.get(&(key, source_port));
        if let Some(&flow) = flow.or_else(|| self.flows.get(&key)) {
            self.losses.add(flow, loss, at);
        }
        self.store.release(packet.body);
    }

    fn copy(&mut self, packet: &Packet<Buffer>) -> Option<Buffer> {
        let copy = self.store.copy(packet.body)?;
        self.enclosed.copy(packet.body, copy);
        Some(copy)
    }

    fn enclose(&mut self, packet: Packet<Buffer>, carrier: Carrier) -> Buffer {
        self.enclosed.enclose(packet, carrier)
    }

    fn is_outer(&self, body: &Buffer) -> bool {
        self.enclosed.contains(*body)
    }

    fn disclose(&mut self, body: Buffer) -> Option<Packet<Buffer>> {
        self.enclosed.disclose(body)
    }

    fn quote(
        &mut self,
        node: NodeId,
        packet: &Packet<Buffer>,
        error: IcmpError,
    ) -> Option<(Buffer, u32)> {
        // Linux takes no packets from its own address: an error about a host's own packet, which is
        // too long for its tunnel, is from where the packet goes.
        let from = if packet.header.source == node { packet.header.destination } else { node };
        let own = self.nodes[from.index()].addresses;
        self.on_wire(packet);
        let parsed = IpPacket::parse(&self.observed).ok()?;
        if !icmp::permits_error(&self.observed, &parsed) {
            return None;
        }
        let body = self.store.take()?;
        let out = self.store.bytes_mut(body);
        let length = icmp::error(out, own, (&self.observed, &parsed), error);
        Some((body, length as u32))
    }

    fn divide(&mut self, packet: &Packet<Buffer>, mtu: u32, pieces: &mut Vec<(Buffer, u32)>) {
        self.on_wire(packet);
        if let Ok(parsed) = IpPacket::parse(&self.observed) {
            divide(&self.observed, &parsed, mtu as usize, &mut self.store, pieces);
        }
        if !pieces.is_empty() {
            self.store.release(packet.body);
        }
    }

    fn observe(&mut self, at: Time, interface: PortId, passage: Passage, packet: &Packet<Buffer>) {
        self.on_wire(packet);
        let bytes = (&self.observed[..], packet.header.size);
        self.captures.packet(at, (interface, passage), bytes);
    }
}
