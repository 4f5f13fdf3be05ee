//! Tunnels between routers, in tunnels, and into hosts: the packets on each link.

use perhop_core::Encapsulation::Dot1q;
use perhop_core::{Bytes, Dscp, Duration, Ecn, Header, LinkClass, NodeId, Packet, Protocol, Time};
use perhop_net::{IcmpError, Loss, Network, TunnelCounters, TunnelSpec};
use perhop_queue::Limit;

use crate::lab::{Host, Router, back, fifo, forth};
use crate::tunnels::{Body, Ends, link, plain, tunnel};

/// Host 0, routers 1, 2 and 3, and host 4 in a row, with host 5 at router 2.
fn row(tunnels: &[TunnelSpec]) -> Network<Body> {
    let links = [[0, 1], [1, 2], [2, 3], [3, 4], [2, 5]].map(link).into();
    let mut network = Network::new(&[Host, Router, Router, Router, Host, Host], links, 1).unwrap();
    network.set_tunnels(tunnels);
    network
}

/// Returns a packet of this length.
fn between(from: u16, to: u16, size: u32) -> Packet<Body> {
    let mut packet = plain(size, Ecn::Ect0);
    (packet.header.source, packet.header.destination) = (NodeId(from), NodeId(to));
    packet
}

fn send(network: &mut Network<Body>, packet: Packet<Body>, ends: &mut Ends) {
    network.send(packet.header.source, packet);
    network.run(network.now() + Duration::from_secs(1), ends);
}

/// Returns the bytes on each link, in both directions together.
fn bytes(network: &Network<Body>) -> Vec<u64> {
    let carried = |port| network.link_counters(port).bytes.get();
    (0..5).map(|link| carried(forth(link)) + carried(back(link))).collect()
}

/// A packet of 1000 bytes has 20 more between routers 1 and 3.
#[test]
fn a_tunnel_between_routers_carries_what_passes_both() {
    for (from, to, expected) in [
        (0, 4, [1000, 1020, 1020, 1000, 0]),
        (4, 0, [1000, 1020, 1020, 1000, 0]),
        (0, 5, [1000, 1000, 0, 0, 1000]),
        (0, 3, [1000, 1000, 1000, 0, 0]), // a router is the end of no path through it
        (5, 4, [0, 0, 1000, 1000, 1000]),
    ] {
        let (mut network, mut ends) = (row(&[tunnel(1, 3)]), Ends::default());
        send(&mut network, between(from, to, 1000), &mut ends);
        assert_eq!(bytes(&network), expected, "{from} to {to}");
        let [(host, header)] = ends.received[..] else { panic!("{:?}", ends.causes) };
        assert_eq!((host, header.destination, header.size), (NodeId(to), NodeId(to), 1000));
    }
}

/// The packet loses one at each end of the tunnel, and the outer one begins anew.
#[test]
fn the_outer_packet_is_that_of_the_entry() {
    let (mut network, mut ends) = (row(&[tunnel(1, 3)]), Ends::default());
    network.watch(forth(1));
    network.watch(forth(2));
    let mut packet = between(0, 4, 1000);
    packet.header.traffic_class = packet.header.traffic_class.with_dscp(Dscp::EF);
    send(&mut network, packet, &mut ends);
    // It leaves 1 and 2, and arrives at 2 by a port whose other direction nobody watches.
    let outer: Vec<_> =
        ends.seen.iter().map(|seen| (seen.source.0, seen.destination.0, seen.ttl)).collect();
    assert_eq!(outer, [(1, 3, Header::TTL), (1, 3, Header::TTL - 1)]);
    assert_eq!(ends.seen[0].protocol(), Protocol::Other);
    assert_eq!(ends.seen[0].traffic_class, packet.header.traffic_class);
    assert_eq!(ends.received[0].1.ttl, Header::TTL - 2);
}

/// Host 0 puts packets for host 4 into a tunnel to it, whose outer packets enter the tunnel to
/// router 3 that begins there, too.
#[test]
fn a_tunnel_is_in_another() {
    let once = |size| TunnelCounters {
        encapsulated_packets: 1,
        encapsulated_bytes: size,
        outer_bytes: size + 20,
        decapsulated_packets: 1,
        decapsulated_bytes: size,
        ..TunnelCounters::default()
    };
    let none = TunnelCounters::default();
    for (tunnels, expected) in [
        ([tunnel(0, 4), tunnel(0, 3)], [once(1000), none, once(1020), none]),
        ([tunnel(0, 3), tunnel(0, 4)], [once(1020), none, once(1000), none]),
    ] {
        let (mut network, mut ends) = (row(&tunnels), Ends::default());
        send(&mut network, between(0, 4, 1000), &mut ends);
        assert_eq!(bytes(&network), [1040, 1040, 1040, 1020, 0]);
        assert_eq!(ends.received.len(), 1);
        let counters: Vec<_> = network.tunnels().map(|(_, counters)| counters).collect();
        assert_eq!(counters, expected);
        // What is for the router enters none: it is no end of a path through it.
        send(&mut network, between(0, 3, 500), &mut ends);
        assert_eq!(bytes(&network), [1540, 1540, 1540, 1020, 0]);
    }
}

/// Of two tunnels between the same ends, packets enter the first.
#[test]
fn packets_enter_one_of_two_equal_tunnels() {
    let (mut network, mut ends) = (row(&[tunnel(1, 3), tunnel(1, 3)]), Ends::default());
    send(&mut network, between(0, 4, 1000), &mut ends);
    send(&mut network, between(4, 0, 1000), &mut ends);
    let entered: Vec<u64> =
        network.tunnels().map(|(_, counters)| counters.encapsulated_packets).collect();
    assert_eq!(entered, [1, 1, 0, 0]);
}

/// Router 1 sends a packet of its own that looks like an outer one.
#[test]
fn a_packet_between_the_ends_need_not_be_one_of_the_tunnel() {
    let (mut network, mut ends) = (row(&[tunnel(1, 3)]), Ends::default());
    let mut packet = between(1, 3, 1000);
    packet.header.protocol = Protocol::Other.into();
    send(&mut network, packet, &mut ends);
    assert_eq!(ends.received.len(), 1);
    assert_eq!(ends.received[0].1.size, 1000);
    assert_eq!(network.tunnels().next().unwrap().1, TunnelCounters::default());
}

/// Everything happens three times at router 3, where the second tunnel has its second end.
#[test]
fn counters_of_a_tunnel_add_up() {
    let (mut network, mut ends) = (row(&[tunnel(0, 5), tunnel(1, 3)]), Ends::default());
    network.add_device(1, 1, fifo(Limit::bytes(Bytes::MAX)));
    let device = network.ports().last().unwrap();
    assert_eq!((network.is_device(device), network.near_end(device)), (true, NodeId(3)));
    for _ in 0..3 {
        send(&mut network, between(4, 0, 1000), &mut ends);
        send(&mut network, between(4, 0, 1481), &mut ends);
    }
    network.set_up(0, false);
    for _ in 0..3 {
        send(&mut network, between(4, 0, 1000), &mut ends);
    }
    // What a router has marked emerges only if its transport understands that.
    network.set_up(0, true);
    for _ in 0..3 {
        let inner = plain(1000, Ecn::NotEct).header;
        let mut outer = between(3, 1, 1020);
        outer.header.protocol = Protocol::Other.into();
        outer.header.traffic_class = outer.header.traffic_class.with_ecn(Ecn::Ce);
        send(&mut network, Packet { body: Body::Outer(inner), ..outer }, &mut ends);
    }
    let counters: Vec<_> = network.tunnels().map(|(_, counters)| counters).collect();
    let expected = TunnelCounters {
        encapsulated_packets: 3,
        encapsulated_bytes: 3_000,
        outer_bytes: 3_060,
        dropped_too_long: 3,
        dropped_no_route: 0,
        decapsulated_packets: 3,
        decapsulated_bytes: 3_000,
        dropped_ecn: 3,
    };
    assert_eq!(counters[3], expected);
    assert_eq!(counters[..3], [TunnelCounters::default(); 3]);
    assert_eq!(network.queue(device).counters().sent.packets, 3);
    // Without a link between them, the ends have no path.
    network.set_up(1, false);
    for _ in 0..3 {
        let packet = between(4, 0, 1000);
        network.send(NodeId(4), packet);
    }
    network.run(network.now() + Duration::from_secs(1), &mut ends);
    assert_eq!(ends.causes.len(), 3 + 3 + 3 + 3);
}

/// Of two tunnels from router 1, the one to router 3 is longer. Its outer packets enter the other.
#[test]
fn packets_enter_the_longest_tunnel() {
    for tunnels in [[tunnel(1, 2), tunnel(1, 3)], [tunnel(1, 3), tunnel(1, 2)]] {
        let (mut network, mut ends) = (row(&tunnels), Ends::default());
        let longer = usize::from(tunnels[1].ends[1] == NodeId(3));
        send(&mut network, between(0, 4, 1000), &mut ends);
        let entered =
            |number: usize| network.tunnels().nth(2 * number).unwrap().1.encapsulated_bytes;
        assert_eq!([entered(longer), entered(1 - longer)], [1000, 1020]);
        assert_eq!(bytes(&network), [1000, 1040, 1020, 1000, 0]);
        assert_eq!(ends.received.len(), 1);
    }
}

/// Router 1, where a tunnel to host 3 or router 2 begins, has two links to router 2.
#[test]
fn outer_packets_share_links() {
    for exit in [2, 3] {
        let links = [[0, 1], [1, 2], [1, 2], [2, 3]].map(link).into();
        let mut network = Network::new(&[Host, Router, Router, Host], links, 1).unwrap();
        network.set_tunnels(&[tunnel(1, exit)]);
        network.set_balance(NodeId(1), perhop_net::Balance::PerPacket);
        let mut ends = Ends::default();
        for _ in 0..4 {
            send(&mut network, between(0, 3, 1000), &mut ends);
        }
        let carried = [0, 1, 2, 3].map(|link| network.link_counters(forth(link)).bytes.get());
        let last = if exit == 3 { 4_080 } else { 4_000 };
        assert_eq!(carried, [4_000, 2_040, 2_040, last], "to {exit}");
        assert_eq!(ends.received.len(), 4);
    }
}

/// The tunnel takes 1480 bytes. Router 1 tells host 0, and loses the packet before its next link.
#[test]
fn an_entry_says_what_is_too_long() {
    let too_big = |mtu| IcmpError::TooBig { mtu };
    let quotes = || Ends { quotes: true, ..Ends::default() };
    let (mut network, mut ends) = (row(&[tunnel(1, 3)]), quotes());
    send(&mut network, between(0, 4, 1480), &mut ends);
    send(&mut network, between(0, 4, 1481), &mut ends);
    assert_eq!((&ends.causes[..], &ends.lost_at[..]), (&[Loss::TooBig][..], &[Some(forth(1))][..]));
    assert_eq!(ends.quoted, [(NodeId(1), too_big(1480))]);
    let received: Vec<_> =
        ends.received.iter().map(|(host, header)| (host.0, header.size)).collect();
    assert_eq!(received, [(4, 1480), (0, 56)]);
    // The next link takes 1020 bytes, of which the tunnel adds 20.
    let (mut network, mut ends) = (row(&[tunnel(1, 3)]), quotes());
    network.set_mtu(1, 1020);
    send(&mut network, between(0, 4, 1000), &mut ends);
    send(&mut network, between(0, 4, 1001), &mut ends);
    assert_eq!(ends.quoted, [(NodeId(1), too_big(1000))]);
    assert_eq!(network.tunnels().next().unwrap().1.dropped_too_long, 1);
}

/// A host tells itself, without a packet on any link.
#[test]
fn a_host_learns_of_its_own_tunnel_at_once() {
    let (mut network, mut ends) = (row(&[tunnel(0, 4)]), Ends { quotes: true, ..Ends::default() });
    network.send(NodeId(0), between(0, 4, 1481));
    network.run(Time::ZERO, &mut ends);
    assert_eq!(ends.quoted, [(NodeId(0), IcmpError::TooBig { mtu: 1480 })]);
    let [(host, error)] = ends.received[..] else { panic!("{:?}", ends.causes) };
    assert_eq!((host, error.destination, error.protocol()), (NodeId(0), NodeId(0), Protocol::Icmp));
    assert_eq!((ends.causes, network.packet_hops()), (vec![Loss::TooBig], 0));
}

/// Fragments of 1480 and 21 bytes enter one by one.
#[test]
fn an_entry_divides_what_may_be_divided() {
    for ([one, other], expected) in
        [([1, 3], [1501, 1541, 1541, 1501, 0]), ([0, 4], [1541, 1541, 1541, 1541, 0])]
    {
        let pieces = vec![1480, 21];
        let (mut network, mut ends) =
            (row(&[tunnel(one, other)]), Ends { pieces, ..Ends::default() });
        send(&mut network, between(0, 4, 1501), &mut ends);
        assert_eq!(bytes(&network), expected);
        let sizes: Vec<u32> = ends.received.iter().map(|(_, header)| header.size).collect();
        assert_eq!(sizes, [1480, 21]);
        let (_, counters) = network.tunnels().next().unwrap();
        assert_eq!((counters.encapsulated_packets, counters.encapsulated_bytes), (2, 1501));
        assert_eq!((counters.outer_bytes, counters.dropped_too_long), (1541, 0));
    }
}

/// Behind the tunnel the next link may be too short for the packet, and the exit says so.
#[test]
fn an_exit_says_what_is_too_long() {
    let (mut network, mut ends) = (row(&[tunnel(1, 3)]), Ends { quotes: true, ..Ends::default() });
    network.set_mtu(3, 999);
    send(&mut network, between(0, 4, 1000), &mut ends);
    assert_eq!(ends.quoted, [(NodeId(3), IcmpError::TooBig { mtu: 999 })]);
    assert_eq!((ends.causes, ends.lost_at), (vec![Loss::TooBig], vec![Some(forth(3))]));
}

/// A router between the ends may have no route while the packet is under way; the exit, too.
#[test]
fn an_entry_or_exit_without_a_route_says_so() {
    let (mut network, mut ends) = (row(&[tunnel(1, 3)]), Ends { quotes: true, ..Ends::default() });
    network.set_up(3, false);
    send(&mut network, between(0, 4, 1000), &mut ends);
    assert_eq!(ends.quoted, [(NodeId(1), IcmpError::NetUnreachable)]);
    network.set_up(3, true);
    network.send(NodeId(0), between(0, 4, 1000));
    // It is between 2 and 3.
    network.run(network.now() + Duration::from_micros(2_500), &mut ends);
    network.set_up(3, false);
    network.run(network.now() + Duration::from_secs(1), &mut ends);
    assert_eq!(ends.quoted[1..], [(NodeId(3), IcmpError::NetUnreachable)]);
    assert_eq!(ends.causes, [Loss::NoRoute; 2]);
}

/// What has emerged has the class at layer 2 of the outer packet, which its DSCP of 46 made: 5.
#[test]
fn a_packet_emerges_with_the_class_of_the_outer_one() {
    let spec = TunnelSpec { dscp: Some(Dscp::EF), ..tunnel(1, 4) };
    let (mut network, mut ends) = (row(&[spec]), Ends::default());
    network.set_encapsulation(3, Dot1q);
    send(&mut network, between(0, 4, 1000), &mut ends);
    let [(_, header)] = ends.received[..] else { panic!("{:?}", ends.causes) };
    assert_eq!(header.link_class(), LinkClass::arrived(Dot1q, 5));
    assert_eq!(header.dscp(), Dscp::DEFAULT);
}

/// MTUs of links and tunnels at a node.
#[test]
fn the_least_mtu_counts_the_tunnels_that_begin_at_a_node() {
    let small = TunnelSpec { mtu: 1400, ..tunnel(1, 3) };
    let mut network = row(&[small, tunnel(1, 4)]);
    network.set_mtu(2, 1450);
    network.set_mtu(0, 1420);
    let least: Vec<u32> = (0..6).map(|node| network.least_mtu(NodeId(node))).collect();
    assert_eq!(least, [1420, 1400, 1450, 1400, 1480, u32::MAX]);
}
