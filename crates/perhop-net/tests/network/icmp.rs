//! Routers at which the time to live is used up, or without a route, and their ICMP errors.

use perhop_core::{Dscp, Duration, Header, NodeId, Packet, Protocol, Time};
use perhop_net::{IcmpError, IcmpErrors, LinkSpec, Loss, Network, NodeKind};
use proptest::prelude::*;

use crate::lab::*;

const RATE: u64 = 8_000_000_000;

/// Returns two hosts, the first and the last node, and `routers` routers between them in a row.
fn row(routers: u16) -> (Vec<NodeKind>, Vec<LinkSpec<Line>>) {
    let inner = vec![Router; usize::from(routers)];
    let nodes = [vec![Host], inner, vec![Host]].concat();
    let hop = |n| link([n, n + 1], wire(RATE, MILLISECOND));
    (nodes, (0..=routers).map(hop).collect())
}

/// Sends a packet of 1000 bytes with this TTL along a row of routers.
fn probe(routers: u16, ttl: u8, errors: IcmpErrors) -> Scripted {
    let (nodes, links) = row(routers);
    let mut network = Network::new(&nodes, links, 1).unwrap();
    for node in 0..nodes.len() {
        network.set_icmp_errors(NodeId(node as u16), errors);
    }
    let mut hosts = Scripted::new(
        vec![Send { at: 0, from: 0, to: routers + 1, size: 1000 }],
        &mut Network::new(&nodes, Vec::new(), 1).unwrap(),
    );
    let mut sent = hosts.packet(0);
    sent.header.ttl = ttl;
    network.send(NodeId(0), sent);
    network.run(Time::MAX, &mut hosts);
    hosts
}

#[test]
fn a_router_that_uses_up_the_time_to_live_says_so() {
    for ttl in 1..=3_u8 {
        let hosts = probe(3, ttl, IcmpErrors::All);
        assert_eq!(hosts.losses, [(0, Loss::Expired)]);
        let [(at, error)] = hosts.errors[..] else { panic!("{:?}", hosts.errors) };
        let hops = u64::from(ttl);
        // 56 bytes: an IP and an ICMP header, the IP header of the packet and 8 bytes after it.
        let one_way = hops * MILLISECOND;
        let expected =
            2 * one_way + hops * transmission(1000, RATE) + hops * transmission(56, RATE);
        assert_eq!(at.as_picos(), expected);
        let header = error.header;
        assert_eq!((header.source, header.destination), (NodeId(ttl.into()), NodeId(0)));
        assert_eq!(
            (header.size, header.protocol(), header.dscp()),
            (56, Protocol::Icmp, Dscp::CS6)
        );
        assert_eq!(header.ttl, Header::TTL - (ttl - 1), "other routers forwarded it");
        let [(_, quoted, reason)] = hosts.quoted[..] else { panic!("{:?}", hosts.quoted) };
        assert_eq!((quoted.header.ttl, reason), (1, IcmpError::TimeExceeded));
    }
}

#[test]
fn as_many_routers_as_the_time_to_live_less_one_are_crossed() {
    let hosts = probe(3, 4, IcmpErrors::All);
    assert_eq!((hosts.arrivals.len(), hosts.losses.len(), hosts.quoted.len()), (1, 0, 0));
    // A host accepts packets to it with any time to live (RFC 1122, section 3.2.1.7).
    assert_eq!(probe(0, 1, IcmpErrors::All).arrivals.len(), 1);
    assert_eq!(probe(0, 0, IcmpErrors::All).arrivals.len(), 1);
}

#[test]
fn a_router_that_must_not_speak_is_silent() {
    let hosts = probe(2, 1, IcmpErrors::None);
    assert_eq!(hosts.losses, [(0, Loss::Expired)]);
    assert_eq!((hosts.errors.len(), hosts.quoted.len()), (0, 0));
}

/// Sends packets with a TTL of 1 to a router that may send one error per millisecond, after two.
#[test]
fn errors_beyond_the_limit_are_not_sent() {
    let (nodes, links) = row(1);
    let mut network = Network::new(&nodes, links, 1).unwrap();
    let every = Duration::from_picos(MILLISECOND);
    network.set_icmp_errors(NodeId(1), IcmpErrors::Limited { every, burst: 2 });
    let mut hosts = Scripted::default();
    for line in 0..30 {
        let mut sent = packet(0, 2, 1000, line);
        sent.header.ttl = 1;
        network.send(NodeId(0), sent);
        network.run(Time::from_picos(u64::from(line + 1) * MILLISECOND / 10), &mut hosts);
    }
    network.run(Time::MAX, &mut hosts);
    assert_eq!(hosts.losses.len(), 30);
    // They arrive within 2.9 ms: two at once, and two more.
    let answered: Vec<Line> = hosts.errors.iter().map(|(_, error)| error.body & !ERROR).collect();
    assert_eq!(answered, [0, 1, 10, 20]);
}

#[test]
fn without_a_way_a_router_says_so_and_a_host_does_not() {
    let (nodes, links) = row(2);
    let mut network = Network::new(&nodes, links, 1).unwrap();
    let script = vec![
        Send { at: 0, from: 0, to: 3, size: 1000 },
        Send { at: 0, from: 3, to: 0, size: 1000 },
    ];
    let mut hosts = Scripted::new(script, &mut network);
    network.set_up(2, false);
    network.run(Time::MAX, &mut hosts);
    // The second host has no link that is up; the first sends to its router in any case.
    assert_eq!(hosts.losses, [(1, Loss::NoRoute), (0, Loss::NoRoute)]);
    let [(_, error)] = hosts.errors[..] else { panic!("{:?}", hosts.errors) };
    // The first router knows at once, because there is no routing protocol.
    assert_eq!((error.header.source, error.body), (NodeId(1), ERROR));
    assert_eq!(hosts.quoted[0].2, IcmpError::NetUnreachable);
}

#[test]
fn no_error_is_sent_about_an_error() {
    let (nodes, links) = row(2);
    let mut network = Network::new(&nodes, links, 1).unwrap();
    let mut hosts = Scripted::default();
    // An error whose time to live is used up.
    let mut sent = packet(0, 3, 56, ERROR);
    sent.header.ttl = 2;
    network.send(NodeId(0), sent);
    network.run(Time::MAX, &mut hosts);
    assert_eq!(hosts.losses, [(ERROR, Loss::Expired)]);
    assert_eq!((hosts.quoted.len(), hosts.errors.len()), (1, 0));
}

#[test]
fn a_host_can_send_an_error_about_a_port() {
    let (nodes, links) = row(1);
    let mut network = Network::new(&nodes, links, 1).unwrap();
    let mut hosts = Scripted::default();
    let asked: Packet<Line> = packet(0, 2, 20, 7);
    network.send_icmp_error(NodeId(2), &asked, IcmpError::PortUnreachable, &mut hosts);
    network.run(Time::MAX, &mut hosts);
    let [(_, error)] = hosts.errors[..] else { panic!("{:?}", hosts.errors) };
    // It quotes no more than the packet has.
    assert_eq!((error.header.size, error.header.dscp()), (48, Dscp::DEFAULT));
    assert_eq!((error.header.source, error.body), (NodeId(2), 7 | ERROR));
}

proptest! {
    /// In any row: a packet that arrives has crossed fewer routers than its TTL, and for others the
    /// router at which the TTL was used up sends an error.
    #[test]
    fn the_time_to_live_counts_routers(routers in 0_u16..12, ttl in 1_u8..16) {
        let hosts = probe(routers, ttl, IcmpErrors::All);
        if u16::from(ttl) > routers {
            prop_assert_eq!(hosts.arrivals.len(), 1);
            prop_assert!(hosts.errors.is_empty());
        } else {
            prop_assert!(hosts.arrivals.is_empty());
            let sources: Vec<NodeId> = hosts.errors.iter().map(|(_, e)| e.header.source).collect();
            prop_assert_eq!(sources, [NodeId(ttl.into())]);
        }
    }
}
