//! Networks and hosts for tests.

use perhop_core::{
    AckHint, Bytes, Duration, Header, NodeId, Overhead, Packet, Protocol, Rate, Time, TrafficClass,
};
use perhop_net::{Hosts, IcmpError, LinkSpec, Loss, Network, NodeKind, PortId, TimerId, Wire};
use perhop_queue::{Class, Fifo, Limit, Queue};

pub use perhop_net::NodeKind::{Host, Router};

pub const MICROSECOND: u64 = 1_000_000;
pub const MILLISECOND: u64 = 1_000 * MICROSECOND;
pub const SECOND: u64 = 1_000 * MILLISECOND;

/// Body of a packet: its line in the script.
pub type Line = u32;

/// Set in the body of an ICMP error about the packet of that line.
pub const ERROR: Line = 1 << 31;

/// A packet to send: time, source and destination node, length.
#[derive(Clone, Copy, Debug)]
pub struct Send {
    pub at: u64,
    pub from: u16,
    pub to: u16,
    pub size: u32,
}

/// Hosts that send by a script and record the callbacks of the network.
#[derive(Clone, Debug, Default)]
pub struct Scripted {
    script: Vec<Send>,
    /// Arrivals: time, node and packet.
    pub arrivals: Vec<(Time, NodeId, Line)>,
    pub losses: Vec<(Line, Loss)>,
    /// Place of each loss.
    pub lost_at: Vec<Option<PortId>>,
    /// Packets that have left queues with reported departures, or were dropped there.
    pub departed: Vec<Line>,
    /// ICMP errors that arrived: time and packet.
    pub errors: Vec<(Time, Packet<Line>)>,
    /// Quotes: by which node, of which packet, and the error.
    pub quoted: Vec<(NodeId, Packet<Line>, IcmpError)>,
}

impl Scripted {
    /// Creates hosts for this script, and sets their timers.
    pub fn new(script: Vec<Send>, network: &mut Network<Line>) -> Self {
        for (line, send) in script.iter().enumerate() {
            network.set_timer(Time::from_picos(send.at), TimerId(line as u32));
        }
        Self { script, ..Self::default() }
    }

    /// Returns the arrival of each packet of the script, in picoseconds; `None` if it was lost.
    pub fn arrived(&self) -> Vec<Option<u64>> {
        let mut times = vec![None; self.script.len()];
        for &(at, _, line) in &self.arrivals {
            times[line as usize] = Some(at.as_picos());
        }
        times
    }

    /// Returns the packet of a line of the script.
    pub fn packet(&self, line: Line) -> Packet<Line> {
        let Send { from, to, size, .. } = self.script[line as usize];
        packet(from, to, size, line)
    }
}

impl Hosts<Line> for Scripted {
    fn receive(&mut self, network: &mut Network<Line>, host: NodeId, packet: Packet<Line>) {
        assert_eq!(packet.header.destination, host);
        if packet.body & ERROR != 0 {
            self.errors.push((network.now(), packet));
            return;
        }
        let mut sent = self.packet(packet.body);
        sent.header.ttl = packet.header.ttl;
        assert_eq!(packet, sent, "a packet changed on its way");
        self.arrivals.push((network.now(), host, packet.body));
    }

    fn timer(&mut self, network: &mut Network<Line>, TimerId(line): TimerId) {
        let Send { at, from, .. } = self.script[line as usize];
        assert_eq!(network.now().as_picos(), at, "a timer is not at its instant");
        network.send(NodeId(from), self.packet(line));
    }

    fn departed(&mut self, _network: &mut Network<Line>, line: Line, size: u32) {
        // Some tests send packets that are not in the script.
        assert!(self.script.get(line as usize).is_none_or(|send| send.size == size));
        self.departed.push(line);
    }

    fn lost(&mut self, packet: Packet<Line>, loss: Loss, at: Option<PortId>) {
        self.losses.push((packet.body, loss));
        self.lost_at.push(at);
    }

    fn copy(&mut self, packet: &Packet<Line>) -> Option<Line> {
        Some(packet.body)
    }

    fn quote(
        &mut self,
        node: NodeId,
        packet: &Packet<Line>,
        error: IcmpError,
    ) -> Option<(Line, u32)> {
        self.quoted.push((node, *packet, error));
        let size = IcmpError::packet_size(&packet.header);
        (packet.body & ERROR == 0).then_some((packet.body | ERROR, size))
    }
}

/// Hosts that record packets as they arrive, and losses.
#[derive(Debug, Default)]
pub struct Taking {
    pub arrivals: Vec<(Time, NodeId, Packet<Line>)>,
    pub losses: Vec<(Line, Loss, Option<PortId>)>,
}

impl Hosts<Line> for Taking {
    fn receive(&mut self, network: &mut Network<Line>, host: NodeId, packet: Packet<Line>) {
        self.arrivals.push((network.now(), host, packet));
    }

    fn timer(&mut self, _: &mut Network<Line>, _: TimerId) {}

    fn lost(&mut self, packet: Packet<Line>, loss: Loss, at: Option<PortId>) {
        self.losses.push((packet.body, loss, at));
    }

    fn quote(&mut self, _: NodeId, _: &Packet<Line>, _: IcmpError) -> Option<(Line, u32)> {
        None
    }
}

pub fn packet(from: u16, to: u16, size: u32, line: Line) -> Packet<Line> {
    let header = Header {
        size,
        source: NodeId(from),
        destination: NodeId(to),
        source_port: 0,
        destination_port: 0,
        protocol: Protocol::Udp.into(),
        traffic_class: TrafficClass::default(),
        ttl: Header::TTL,
        ack: AckHint::NONE,
    };
    Packet { header, body: line }
}

/// Returns a wire with this `rate` in bits per second and `delay` in picoseconds, without
/// impairments.
pub fn wire(rate: u64, delay: u64) -> Wire {
    Wire {
        rate: Rate::new(rate).unwrap(),
        delay: Duration::from_picos(delay),
        jitter: Duration::ZERO,
        variation: None,
        delay_limit: None,
        loss: 0,
        duplicate: 0,
        reorder: None,
        gilbert: None,
        overhead: Overhead::NONE,
    }
}

/// Returns a link with unlimited queues, named after its ends.
pub fn link(ends: [u16; 2], wire: Wire) -> LinkSpec<Line> {
    link_with(ends, wire, || fifo(Limit::bytes(Bytes::MAX)))
}

/// Returns a link with this queue at both ends.
pub fn link_with(
    ends: [u16; 2],
    wire: Wire,
    mut queue: impl FnMut() -> Class<Line>,
) -> LinkSpec<Line> {
    let [a, b] = ends;
    let queues = [queue(), queue()];
    LinkSpec { name: format!("{a}-{b}"), ends: ends.map(NodeId), wires: [wire; 2], queues }
}

pub fn fifo<B>(limit: Limit) -> Class<B> {
    Class::new(Queue::Fifo(Fifo::new(limit)))
}

/// Plays a script to its end on a new network.
pub fn play(
    nodes: &[NodeKind],
    links: Vec<LinkSpec<Line>>,
    seed: u64,
    script: Vec<Send>,
) -> (Network<Line>, Scripted) {
    let mut network = Network::new(nodes, links, seed).unwrap();
    let mut hosts = Scripted::new(script, &mut network);
    network.run(Time::MAX, &mut hosts);
    (network, hosts)
}

/// Returns the time that `bytes` on the wire take at `rate`, rounded up to a picosecond: the tests'
/// own arithmetic.
pub fn transmission(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 8 * u128::from(SECOND)).div_ceil(rate.into()) as u64
}

/// Returns the direction of a link from its first end to its second.
pub fn forth(link: u32) -> PortId {
    PortId(2 * link)
}

/// Returns the direction of a link from its second end to its first.
pub fn back(link: u32) -> PortId {
    PortId(2 * link + 1)
}
