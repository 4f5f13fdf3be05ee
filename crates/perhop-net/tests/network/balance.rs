//! Load sharing: the share and the order of packets on each of several paths.

use perhop_core::{NodeId, Time};
use perhop_net::{Balance, LinkSpec, Network, NodeKind, PortId};
use proptest::prelude::*;

use crate::lab::*;

const RATE: u64 = 8_000_000_000;
/// Transmission time of 1000 bytes at [`RATE`].
const PACKET: u64 = MICROSECOND;

/// Hosts 0 and 1 behind routers 2 and 3, which these links join.
fn joined(between: &[u64]) -> Vec<LinkSpec<Line>> {
    let access = [link([0, 2], wire(RATE, 0)), link([3, 1], wire(RATE, 0))];
    access.into_iter().chain(between.iter().map(|&delay| link([2, 3], wire(RATE, delay)))).collect()
}

const NODES: [NodeKind; 4] = [Host, Host, Router, Router];

/// Sends packets with these source ports, one per microsecond; returns the link of each, identified
/// by its delay, as no two are equal.
fn ways(balance: Balance, delays: &[u64], seed: u64, ports: &[u16]) -> Vec<usize> {
    let mut network = Network::new(&NODES, joined(delays), seed).unwrap();
    network.set_balance(NodeId(2), balance);
    let mut found = Vec::new();
    for &port in ports {
        let before: Vec<u64> = carried(&network, delays.len());
        let mut packet = packet(0, 1, 1000, 0);
        packet.header.source_port = port;
        network.send(NodeId(0), packet);
        network.run(network.now() + perhop_core::Duration::from_picos(SECOND), &mut Sink);
        let after = carried(&network, delays.len());
        found.push((0..delays.len()).find(|&way| after[way] > before[way]).unwrap());
    }
    found
}

fn carried(network: &Network<Line>, links: usize) -> Vec<u64> {
    (0..links as u32).map(|link| network.link_counters(forth(2 + link)).packets).collect()
}

/// A host that takes every packet.
struct Sink;

impl perhop_net::Hosts<Line> for Sink {
    fn receive(&mut self, _: &mut Network<Line>, _: NodeId, _: perhop_core::Packet<Line>) {}
    fn timer(&mut self, _: &mut Network<Line>, _: perhop_net::TimerId) {}
    fn lost(
        &mut self,
        packet: perhop_core::Packet<Line>,
        loss: perhop_net::Loss,
        _: Option<PortId>,
    ) {
        panic!("{packet:?} {loss:?}");
    }
    fn quote(
        &mut self,
        _: NodeId,
        _: &perhop_core::Packet<Line>,
        _: perhop_net::IcmpError,
    ) -> Option<(Line, u32)> {
        None
    }
}

#[test]
fn per_packet_takes_turns() {
    let took = ways(Balance::PerPacket, &[10, 20, 30], 1, &[7; 9]);
    assert_eq!(took, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
}

#[test]
fn a_flow_keeps_to_its_way_and_flows_spread() {
    let ports: Vec<u16> = (0..2000).map(|n| 49_152 + n % 1000).collect();
    let took = ways(Balance::PerFlow, &[1, 2, 3, 4], 1, &ports);
    assert_eq!(took[..1000], took[1000..]);
    for way in 0..4 {
        let share = took[..1000].iter().filter(|taken| **taken == way).count();
        // 250 of 1000 with a standard deviation of 13.7; five of them.
        assert!((181..=319).contains(&share), "{way}: {share}");
    }
    assert_ne!(took, ways(Balance::PerFlow, &[1, 2, 3, 4], 2, &ports), "the seed does not matter");
}

#[test]
fn per_destination_ignores_ports() {
    let ports: Vec<u16> = (0..50).collect();
    let took = ways(Balance::PerDestination, &[1, 2, 3], 3, &ports);
    assert!(took.iter().all(|way| *way == took[0]));
}

/// Links that are up stay up, and turns go on.
#[test]
fn turns_go_on_when_nothing_changes() {
    let mut network = Network::new(&NODES, joined(&[1, 2, 3]), 1).unwrap();
    network.set_balance(NodeId(2), Balance::PerPacket);
    for _ in 0..4 {
        network.send(NodeId(0), packet(0, 1, 1000, 0));
        network.run(network.now() + perhop_core::Duration::from_picos(SECOND), &mut Sink);
        network.set_up(2, true);
    }
    assert_eq!(carried(&network, 3), [2, 1, 1]);
    network.set_up(2, false);
    for _ in 0..4 {
        network.send(NodeId(0), packet(0, 1, 1000, 0));
        network.run(network.now() + perhop_core::Duration::from_picos(SECOND), &mut Sink);
    }
    assert_eq!(carried(&network, 3), [2, 3, 3]);
}

/// Routers 2 and 3 share between two links each, in turn; from then on router 2 does not. All
/// packets have the same destination.
#[test]
fn each_router_has_its_own_way_to_share() {
    let links = [[0, 2], [2, 3], [2, 3], [3, 4], [3, 4], [4, 1]];
    let nodes = [Host, Host, Router, Router, Router];
    let links = links.map(|ends| link(ends, wire(RATE, 0))).into();
    let mut network = Network::new(&nodes, links, 1).unwrap();
    for node in [2, 3] {
        network.set_balance(NodeId(node), Balance::PerPacket);
    }
    let mut sent = |balance| {
        if let Some(balance) = balance {
            network.set_balance(NodeId(2), balance);
        }
        let before = [1, 2, 3, 4].map(|link| network.link_counters(forth(link)).packets);
        (0..20).for_each(|line| _ = network.send(NodeId(0), packet(0, 1, 1000, line)));
        network.run(network.now() + perhop_core::Duration::from_picos(SECOND), &mut Sink);
        let after = [1, 2, 3, 4].map(|link| network.link_counters(forth(link)).packets);
        let mut carried = [0, 1, 2, 3].map(|link| after[link] - before[link]);
        carried[..2].sort_unstable();
        carried
    };
    assert_eq!(sent(None), [10; 4]);
    assert_eq!(sent(Some(Balance::PerDestination)), [0, 20, 10, 10]);
    assert_eq!(sent(Some(Balance::PerPacket)), [10; 4]);
}

#[test]
fn turns_over_links_of_unequal_length_reorder_by_their_difference() {
    // The delay of the second link is longer by 10 packets: the next five or six packets on the
    // first overtake one on it.
    let script: Vec<Send> =
        (0..100).map(|n| Send { at: n * PACKET, from: 0, to: 1, size: 1000 }).collect();
    let mut network = Network::new(&NODES, joined(&[0, 10 * PACKET]), 1).unwrap();
    network.set_balance(NodeId(2), Balance::PerPacket);
    let mut hosts = Scripted::new(script, &mut network);
    network.run(Time::MAX, &mut hosts);
    let arrived: Vec<Line> = hosts.arrivals.iter().map(|(.., line)| *line).collect();
    for (place, line) in arrived.iter().enumerate().filter(|(_, line)| **line % 2 == 1) {
        let overtook = arrived[..place].iter().filter(|other| *other > line).count();
        let left = (99 - line).div_ceil(2) as usize;
        assert!((left.min(4)..=6).contains(&overtook), "{line}: {overtook}");
    }
}

#[test]
fn paths_that_cost_the_same_share_and_others_do_not() {
    let square = |last| {
        vec![
            link([0, 1], wire(RATE, 7)),
            link([1, 2], wire(RATE, 7)),
            link([1, 3], wire(RATE, 7)),
            link([2, 4], wire(RATE, 7)),
            link([3, 4], wire(RATE, last)),
            link([4, 5], wire(RATE, 7)),
        ]
    };
    let nodes = [Host, Router, Router, Router, Router, Host];
    for (last, expected) in [(7, [50, 50]), (8, [100, 0])] {
        let script = (0..100).map(|n| Send { at: n, from: 0, to: 5, size: 100 }).collect();
        let mut network = Network::new(&nodes, square(last), 1).unwrap();
        network.set_balance(NodeId(1), Balance::PerPacket);
        let mut hosts = Scripted::new(script, &mut network);
        network.run(Time::MAX, &mut hosts);
        let carried = [1, 2].map(|link| network.link_counters(forth(link)).packets);
        assert_eq!(carried, expected);
        assert_eq!(hosts.arrivals.len(), 100);
    }
}

#[test]
fn what_waits_before_a_link_that_goes_down_waits_and_the_rest_goes_around() {
    let script = (0..20).map(|n| Send { at: n, from: 0, to: 1, size: 1000 }).collect();
    let links = vec![
        link([0, 2], wire(8 * RATE, 0)),
        link([3, 1], wire(8 * RATE, 0)),
        link([2, 3], wire(RATE, MILLISECOND)),
    ];
    let mut network = Network::new(&NODES, links, 1).unwrap();
    let mut hosts = Scripted::new(script, &mut network);
    // The first packet is on the wire, the second halfway through its transmission.
    network.run(Time::from_picos(PACKET * 13 / 8), &mut hosts);
    network.set_up(2, false);
    network.run(Time::from_picos(SECOND), &mut hosts);
    let arrived: Vec<Line> = hosts.arrivals.iter().map(|(.., line)| *line).collect();
    assert_eq!(arrived, [0, 1]);
    let waiting = 20 - 2 - hosts.losses.len();
    network.set_up(2, true);
    network.run(Time::MAX, &mut hosts);
    assert_eq!(hosts.arrivals.len(), 2 + waiting);
    let first = hosts.arrivals[2].0;
    assert_eq!(first, Time::from_picos(SECOND + PACKET + MILLISECOND + PACKET / 8));
}

proptest! {
    /// However links go up and down, a packet arrives if there is a path, and none arrives twice.
    #[test]
    fn packets_are_conserved_when_links_change(
        changes in prop::collection::vec((0_u64..200, 2_u32..5, any::<bool>()), 0..20),
        balance in prop::sample::select(vec![Balance::PerFlow, Balance::PerPacket]),
    ) {
        let mut changes = changes;
        changes.sort_unstable();
        let send = |n| Send { at: n * PACKET, from: 0, to: 1, size: 1000 };
        let script = (0..200).map(send).collect();
        let mut network = Network::new(&NODES, joined(&[0, 5 * PACKET, 9 * PACKET]), 1).unwrap();
        network.set_balance(NodeId(2), balance);
        let mut hosts = Scripted::new(script, &mut network);
        for (at, link, up) in changes {
            network.run(Time::from_picos(at * PACKET + 1), &mut hosts);
            network.set_up(link, up);
        }
        network.run(Time::from_picos(SECOND), &mut hosts);
        (2..5).for_each(|link| network.set_up(link, true));
        network.run(Time::MAX, &mut hosts);
        let mut fates: Vec<Line> = hosts.arrivals.iter().map(|(.., line)| *line).collect();
        fates.extend(hosts.losses.iter().map(|(line, _)| *line));
        fates.sort_unstable();
        prop_assert_eq!(fates, (0..200).collect::<Vec<Line>>());
    }
}
