//! Tunnels, and a router between their ends that marks packets of transports without ECN.

use perhop_core::{Bytes, Duration, Ecn, Header, NodeId, Packet, Protocol, Rate, Time};
use perhop_net::{
    Carrier, Hosts, IcmpError, LinkSpec, Loss, Network, Passage, PortId, TimerId, TunnelCounters,
    TunnelOverhead, TunnelSpec,
};
use perhop_queue::{Discipline, Limit, Shaper};

use crate::lab::{Host, MILLISECOND, Router, fifo, packet, wire};

/// Body of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    Plain,
    /// Around a plain packet with this header.
    Outer(Header),
    /// Around an outer packet with the first header.
    Twice(Header, Header),
}

/// Hosts that record packets: those that arrive, are lost, or pass watched interfaces.
#[derive(Default)]
pub struct Ends {
    /// ECN fields of packets that arrive, and of those that are lost.
    pub arrived: Vec<Ecn>,
    pub lost: Vec<Ecn>,
    pub causes: Vec<Loss>,
    /// Ports before which or behind which packets are lost.
    pub lost_at: Vec<Option<PortId>>,
    /// Packets that arrive, with their nodes.
    pub received: Vec<(NodeId, Header)>,
    pub seen: Vec<Header>,
    /// True if ICMP errors are sent; and by which node they were.
    pub quotes: bool,
    pub quoted: Vec<(NodeId, IcmpError)>,
    /// Fragments of packets that are too long.
    pub pieces: Vec<u32>,
}

impl Hosts<Body> for Ends {
    fn receive(&mut self, _network: &mut Network<Body>, host: NodeId, packet: Packet<Body>) {
        assert!(matches!(packet.body, Body::Plain), "an outer packet arrives");
        self.received.push((host, packet.header));
        self.arrived.push(packet.header.ecn());
    }

    fn timer(&mut self, _network: &mut Network<Body>, _timer: TimerId) {}

    fn lost(&mut self, packet: Packet<Body>, loss: Loss, at: Option<PortId>) {
        self.causes.push(loss);
        self.lost.push(packet.header.ecn());
        self.lost_at.push(at);
    }

    fn quote(&mut self, node: NodeId, _: &Packet<Body>, error: IcmpError) -> Option<(Body, u32)> {
        self.quoted.push((node, error));
        self.quotes.then_some((Body::Plain, 56))
    }

    fn divide(&mut self, _: &Packet<Body>, _: u32, pieces: &mut Vec<(Body, u32)>) {
        pieces.extend(self.pieces.iter().map(|&size| (Body::Plain, size)));
    }

    fn observe(&mut self, _: Time, _: PortId, _: Passage, packet: &Packet<Body>) {
        self.seen.push(packet.header);
    }

    fn enclose(&mut self, packet: Packet<Body>, _carrier: Carrier) -> Body {
        match packet.body {
            Body::Plain => Body::Outer(packet.header),
            Body::Outer(inner) => Body::Twice(packet.header, inner),
            Body::Twice(..) => panic!("three tunnels"),
        }
    }

    fn is_outer(&self, body: &Body) -> bool {
        !matches!(body, Body::Plain)
    }

    fn disclose(&mut self, body: Body) -> Option<Packet<Body>> {
        Some(match body {
            Body::Plain => panic!("asked for outer packets only"),
            Body::Outer(header) => Packet { header, body: Body::Plain },
            Body::Twice(header, inner) => Packet { header, body: Body::Outer(inner) },
        })
    }
}

/// Returns a link of 8 Gb/s and a millisecond.
pub fn link(ends: [u16; 2]) -> LinkSpec<Body> {
    let queue = || fifo(Limit::bytes(Bytes::MAX));
    LinkSpec {
        name: format!("{ends:?}"),
        ends: ends.map(NodeId),
        wires: [wire(8_000_000_000, MILLISECOND); 2],
        queues: [queue(), queue()],
    }
}

/// Returns a tunnel from host 0 to host 2, and host 3 beside the router between them.
fn network() -> Network<Body> {
    let links = [[0, 1], [1, 2], [1, 3]].map(link).into();
    let mut network = Network::new(&[Host, Router, Host, Host], links, 1).unwrap();
    network.set_tunnels(&[tunnel(0, 2)]);
    network
}

/// Returns a tunnel between two nodes that adds 20 bytes.
pub fn tunnel(one: u16, other: u16) -> TunnelSpec {
    TunnelSpec {
        ends: [NodeId(one), NodeId(other)],
        overhead: TunnelOverhead { headers: 20, trailer: 0, multiple: 1, capped: false },
        carrier: Carrier::Ip(4),
        flows: perhop_core::InnerFlow::Dissected,
        mtu: 1480,
        dscp: None,
        uniform: false,
    }
}

#[test]
fn an_exit_drops_and_counts_marked_packets_of_transports_without_ecn() {
    use Ecn::{Ce, Ect0, Ect1, NotEct};
    let (mut network, mut ends) = (network(), Ends::default());
    // No router here marks such packets, so host 3 sends what another one would have marked.
    for inner in [NotEct, Ect0, Ect1, Ce] {
        for outer in [NotEct, Ect0, Ect1, Ce] {
            let plain = plain(1000, inner);
            let mut header = plain.header;
            header.size += 20;
            header.protocol = Protocol::Other.into();
            header.traffic_class = header.traffic_class.with_ecn(outer);
            network.send(NodeId(3), Packet { header, body: Body::Outer(plain.header) });
        }
    }
    network.run(Time::MAX, &mut ends);
    assert!(ends.received.iter().all(|(host, _)| *host == NodeId(2)));
    assert_eq!((ends.lost, ends.causes), (vec![NotEct], vec![Loss::Link]));
    let expected =
        [[NotEct; 3].as_slice(), &[Ect0, Ect0, Ect1, Ce], &[Ect1, Ect1, Ect1, Ce], &[Ce; 4]];
    assert_eq!(ends.arrived, expected.concat());
    let (entry, counters) = network.tunnels().next().unwrap();
    assert_eq!(entry, NodeId(0));
    assert_eq!((counters.dropped_ecn, counters.decapsulated_packets), (1, 15));
    assert_eq!((counters.decapsulated_bytes, counters.encapsulated_packets), (15_000, 0));
}

#[test]
fn a_tunnel_takes_packets_to_its_end_and_hides_them_on_the_way() {
    let (mut network, mut ends) = (network(), Ends::default());
    network.send(NodeId(0), plain(1000, Ecn::Ect0));
    network.run(Time::MAX, &mut ends);
    assert_eq!(ends.arrived, [Ecn::Ect0]);
    let (_, counters) = network.tunnels().next().unwrap();
    assert_eq!((counters.encapsulated_bytes, counters.outer_bytes), (1000, 1020));
}

/// Packets of 1000 bytes and of the tunnel's MTU pass, each with 20 bytes more. One that is longer
/// by a byte does not, nor does anything once the entry has no link.
#[test]
fn a_tunnel_counts_what_passes_and_what_does_not() {
    let (mut network, mut ends) = (network(), Ends::default());
    for size in [1000, 1480, 1481] {
        network.send(NodeId(0), plain(size, Ecn::Ect0));
    }
    network.run(Time::MAX, &mut ends);
    let expected = TunnelCounters {
        encapsulated_packets: 2,
        encapsulated_bytes: 2480,
        outer_bytes: 2520,
        dropped_too_long: 1,
        decapsulated_packets: 2,
        decapsulated_bytes: 2480,
        ..TunnelCounters::default()
    };
    let tunnels: Vec<_> = network.tunnels().collect();
    assert_eq!(tunnels, [(NodeId(0), expected), (NodeId(2), TunnelCounters::default())]);
    assert_eq!(
        [0, 1, 2, 3].map(|node| network.is_end_of_tunnel(NodeId(node))),
        [true, false, true, false]
    );
    assert_eq!(ends.causes, [Loss::TooBig]);

    network.send(NodeId(0), plain(1000, Ecn::Ect0));
    network.send(NodeId(0), plain(1000, Ecn::Ect0));
    network.set_up(0, false);
    network.run(Time::MAX, &mut ends);
    assert_eq!(ends.causes, [Loss::TooBig, Loss::NoRoute, Loss::NoRoute]);
    let (_, after) = network.tunnels().next().unwrap();
    assert_eq!(after, TunnelCounters { dropped_no_route: 2, ..expected });
}

/// The device of host 0 sends a packet of 1000 bytes each second, and holds two. They enter the
/// tunnel as they leave; the last one then finds no way.
#[test]
fn a_device_holds_packets_before_they_enter() {
    let (mut network, mut ends) = (network(), Ends::default());
    let shaper = Shaper::new(Rate::new(8_000).unwrap(), Bytes::ZERO);
    network.add_device(0, 0, fifo(Limit::bytes(Bytes::new(2000))).shaped(shaper));
    let (device, ports) = (PortId(6), network.ports());
    assert_eq!(ports.filter(|port| network.is_device(*port)).collect::<Vec<_>>(), [device]);
    assert_eq!(network.only_port(NodeId(0)), Some(PortId(0)));
    assert_eq!([device, PortId(1)].map(|port| network.near_end(port)), [NodeId(0), NodeId(1)]);
    for size in [1481, 1000, 1000, 1000, 1000] {
        network.send(NodeId(0), plain(size, Ecn::Ect0));
    }
    let counts = |network: &Network<Body>| {
        let (queue, tunnel) = (network.queue(device), network.tunnels().next().unwrap().1);
        let (sent, waits) = (queue.counters().sent.packets, queue.backlog().packets);
        (sent, waits, tunnel.encapsulated_packets, tunnel.decapsulated_bytes)
    };
    network.run(Time::ZERO + Duration::from_millis(900), &mut ends);
    assert_eq!(counts(&network), (1, 2, 1, 1000));
    let full = Loss::Queue(perhop_queue::Cause::Limit);
    assert_eq!(ends.causes, [Loss::TooBig, full]);
    network.run(Time::ZERO + Duration::from_millis(1900), &mut ends);
    assert_eq!(counts(&network), (2, 1, 2, 2000));
    network.set_up(0, false);
    network.run(Time::MAX, &mut ends);
    assert_eq!(counts(&network), (3, 0, 2, 2000));
    assert_eq!(ends.causes, [Loss::TooBig, full, Loss::NoRoute]);
    assert_eq!(network.tunnels().next().unwrap().1.dropped_no_route, 1);
}

/// The path takes outer packets of 1020 bytes, so that the tunnel takes 1000, for ten minutes
/// (RFC 1191, section 6.3). Longer news and news about other packets change nothing.
#[test]
fn a_tunnel_learns_what_its_path_takes_for_ten_minutes() {
    let (mut network, mut ends) = (network(), Ends::default());
    network.run(Time::ZERO + Duration::from_secs(5), &mut ends);
    let mut outer = plain(1020, Ecn::Ect0).header;
    assert!(!network.limit_tunnel(&outer, 1020), "UDP is not the tunnel's protocol");
    outer.protocol = Protocol::Other.into();
    assert!(network.limit_tunnel(&outer, 1020));
    assert!(network.limit_tunnel(&outer, 1400));
    assert!(network.limit_tunnel(&outer, 20), "no room at all is no news");
    for (second, passes) in [(6, false), (604, false), (605, true)] {
        network.run(Time::ZERO + Duration::from_secs(second), &mut ends);
        let before = (ends.arrived.len(), ends.causes.len());
        network.send(NodeId(0), plain(1000, Ecn::Ect0));
        network.send(NodeId(0), plain(1001, Ecn::Ect0));
        network.run(network.now() + Duration::from_millis(100), &mut ends);
        let after = (ends.arrived.len() - before.0, ends.causes.len() - before.1);
        assert_eq!(after, if passes { (2, 0) } else { (1, 1) }, "after {second} s");
    }
}

/// Returns a packet from host 0 to host 2.
pub fn plain(size: u32, ecn: Ecn) -> Packet<Body> {
    let mut header = packet(0, 2, size, 0).header;
    header.traffic_class = header.traffic_class.with_ecn(ecn);
    Packet { header, body: Body::Plain }
}
