//! Headers that change at the end of a link: classes at layer 2, and marks.

use perhop_core::Encapsulation::{Dot1q, Mpls};
use perhop_core::{Dscp, Encapsulation, LinkClass, NodeId, Protocol, Time, TrafficClass};
use perhop_net::{Loss, Marker, Network};
use perhop_queue::Match;

use crate::lab::*;

/// Host 0, routers 1 and 2, and host 3 in a row.
fn row() -> Network<Line> {
    let links = (0..3).map(|n| link([n, n + 1], wire(8_000_000, MILLISECOND)));
    Network::new(&[Host, Router, Router, Host], links.collect(), 1).unwrap()
}

/// Sends a packet of EF, whose first three bits are 5, to each node of a row that it passes
/// between two hosts. Returns the class with which each arrives, in the order of the nodes.
fn classes(network: &mut Network<Line>, [from, to]: [u16; 2], class: LinkClass) -> Vec<LinkClass> {
    let mut hosts = Taking::default();
    for node in (0..4).filter(|node| *node != from) {
        let mut packet = packet(from, node, 1000, u32::from(node));
        packet.header.traffic_class = TrafficClass::new(Dscp::EF);
        packet.header.set_link_class(class);
        network.send(NodeId(from), packet);
    }
    network.run(network.now() + perhop_core::Duration::from_secs(1), &mut hosts);
    hosts.arrivals.sort_by_key(|(_, node, _)| if from < to { node.0 } else { 3 - node.0 });
    assert_eq!((hosts.arrivals.len(), hosts.losses.len()), (3, 0));
    hosts.arrivals.iter().map(|(.., packet)| packet.header.link_class()).collect()
}

/// The mark 6 holds for the first link. Links with the same encapsulation keep a value, and others
/// take the 5 of the DSCP; a link without has none.
#[test]
fn packets_have_the_class_of_the_link_that_they_have_crossed() {
    let none = LinkClass::NONE;
    let [tag, label] = [Dot1q, Mpls].map(|link| move |value| LinkClass::arrived(link, value));
    let cases: [([Option<Encapsulation>; 3], [LinkClass; 3]); 5] = [
        ([None, Some(Dot1q), None], [none, tag(5), none]),
        ([Some(Dot1q), Some(Dot1q), Some(Mpls)], [tag(6), tag(6), label(5)]),
        ([Some(Mpls), Some(Mpls), Some(Mpls)], [label(6); 3]),
        ([Some(Mpls), None, Some(Mpls)], [label(6), none, label(5)]),
        ([None, None, Some(Dot1q)], [none, none, tag(5)]),
    ];
    for (links, expected) in cases {
        let mut network = row();
        for (link, encapsulation) in links.into_iter().enumerate() {
            if let Some(encapsulation) = encapsulation {
                network.set_encapsulation(link as u32, encapsulation);
            }
        }
        let there = classes(&mut network, [0, 3], LinkClass::marked(6));
        assert_eq!(there, expected, "{links:?}");
        // In the other direction, the first link is the last.
        let mut mirrored = row();
        for (link, encapsulation) in links.into_iter().enumerate() {
            if let Some(encapsulation) = encapsulation {
                mirrored.set_encapsulation(2 - link as u32, encapsulation);
            }
        }
        let back = classes(&mut mirrored, [3, 0], LinkClass::marked(6));
        assert_eq!(back, expected, "{links:?}, from the other end");
    }
}

#[test]
fn an_encapsulation_holds_from_now_on() {
    let mut network = row();
    assert_eq!(classes(&mut network, [0, 3], LinkClass::NONE), [LinkClass::NONE; 3]);
    network.set_encapsulation(1, Mpls);
    let label = LinkClass::arrived(Mpls, 5);
    let expected = [LinkClass::NONE, label, LinkClass::NONE];
    assert_eq!(classes(&mut network, [0, 3], LinkClass::NONE), expected);
}

/// Packets from 0 to 3 are marked at router 1, those of TCP as AF11 and others as EF; from then on
/// they keep their marks.
#[test]
fn a_marker_marks_what_arrives_at_its_interface() {
    let tcp = Match { protocols: vec![Protocol::Tcp], ..Match::default() };
    let mut network = row();
    let sent = |network: &mut Network<Line>, from: u16, protocol: Protocol| {
        let mut hosts = Taking::default();
        let mut packet = packet(from, 3 - from, 1000, 0);
        packet.header.protocol = protocol.into();
        network.send(NodeId(from), packet);
        network.run(network.now() + perhop_core::Duration::from_secs(1), &mut hosts);
        let [(_, _, arrived)] = hosts.arrivals[..] else { panic!("{:?}", hosts.arrivals) };
        arrived.header.dscp()
    };
    assert_eq!(sent(&mut network, 0, Protocol::Tcp), Dscp::DEFAULT);
    let rules = [(tcp, Dscp::AF11), (Match::default(), Dscp::EF)];
    network.set_marker(forth(0), Marker::new(rules));
    assert_eq!(sent(&mut network, 0, Protocol::Tcp), Dscp::AF11);
    assert_eq!(sent(&mut network, 0, Protocol::Udp), Dscp::EF);
    assert_eq!(sent(&mut network, 3, Protocol::Udp), Dscp::DEFAULT, "it comes from elsewhere");
}

/// Packets wait when the wire changes, and when it loses what is in transmission.
#[test]
fn a_marker_stays_when_the_wire_changes() {
    let slow = wire(8_000_000, MILLISECOND);
    let lossy = perhop_net::Wire { loss: 1_000_000_000, ..slow };
    let links = vec![link([0, 1], slow)];
    let mut network = Network::new(&[Host, Host], links, 1).unwrap();
    network.set_marker(forth(0), Marker::new([(Match::default(), Dscp::EF)]));
    let mut hosts = Taking::default();
    (0..9).for_each(|line| _ = network.send(NodeId(0), packet(0, 1, 1000, line)));
    for (half, changed) in [(3, slow), (5, lossy), (7, slow), (9, slow)] {
        network.run(Time::from_picos(half * MILLISECOND / 2), &mut hosts);
        network.set_wire(forth(0), changed);
    }
    network.run(Time::MAX, &mut hosts);
    // The fourth begins at 3 ms, when the wire loses all.
    assert_eq!(hosts.losses, [(3, Loss::Link, Some(forth(0)))]);
    let arrived: Vec<_> =
        hosts.arrivals.iter().map(|(.., packet)| (packet.body, packet.header.dscp())).collect();
    assert_eq!(arrived, [0, 1, 2, 4, 5, 6, 7, 8].map(|line| (line, Dscp::EF)));
}

/// Hosts 0 and 1 send trains to host 3 by router 2, which forwards what it knows of both at once.
/// From 5 ms on, what has come from host 1 is marked; packets on the wire are, too.
#[test]
fn a_marker_begins_while_packets_are_under_way() {
    let links = [0, 1, 3].map(|host| link([host, 2], wire(80_000_000, 4 * MILLISECOND)));
    let mut network = Network::new(&[Host, Host, Router, Host], links.into(), 1).unwrap();
    let mut hosts = Taking::default();
    for line in 0..60 {
        network.send(NodeId((line % 2) as u16), packet((line % 2) as u16, 3, 1000, line));
    }
    // Each pair of packets arrives 100 µs after the one before, and the first at 4.1 ms.
    network.run(Time::from_picos(5 * MILLISECOND), &mut hosts);
    network.set_marker(forth(1), Marker::new([(Match::default(), Dscp::EF)]));
    network.run(Time::MAX, &mut hosts);
    assert_eq!((hosts.arrivals.len(), hosts.losses.len()), (60, 0));
    for (.., packet) in hosts.arrivals {
        // The tenth pair has arrived at 5 ms.
        let marked = packet.body >= 20 && packet.body % 2 == 1;
        let expected = if marked { Dscp::EF } else { Dscp::DEFAULT };
        assert_eq!(packet.header.dscp(), expected, "{}", packet.body);
    }
}
