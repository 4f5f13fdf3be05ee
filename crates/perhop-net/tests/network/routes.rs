//! Routes: fewest hops, then least delay; hosts are at the ends of paths.

use std::collections::BTreeSet;

use perhop_core::{NodeId, Time};
use perhop_net::{Loss, Network, NodeKind, RouteError};
use proptest::prelude::*;

use crate::lab::*;

const RATE: u64 = 8_000_000_000;

/// Returns the links that carry a packet from the first node to the last; `None` if it does not
/// arrive.
fn path(nodes: &[NodeKind], links: &[([u16; 2], u64)]) -> Option<Vec<usize>> {
    let (network, hosts) = send_one(nodes, links);
    match hosts.losses[..] {
        [] => {}
        [(0, Loss::NoRoute)] => return None,
        _ => panic!("{:?}", hosts.losses),
    }
    let carried = |port| network.link_counters(port).packets;
    let used = (0..links.len()).filter(|&n| carried(forth(n as u32)) + carried(back(n as u32)) > 0);
    Some(used.collect())
}

fn send_one(nodes: &[NodeKind], links: &[([u16; 2], u64)]) -> (Network<Line>, Scripted) {
    let links = links.iter().map(|&(ends, delay)| link(ends, wire(RATE, delay))).collect();
    let script = vec![Send { at: 0, from: 0, to: nodes.len() as u16 - 1, size: 1000 }];
    play(nodes, links, 1, script)
}

#[test]
fn fewer_hops_beat_less_delay() {
    let links = [([0, 1], 1), ([1, 2], 1), ([1, 3], SECOND), ([2, 3], 1), ([3, 4], 1)];
    assert_eq!(path(&[Host, Router, Router, Router, Host], &links), Some(vec![0, 2, 4]));
}

#[test]
fn less_delay_decides_among_as_many_hops() {
    let links = [([0, 1], 9), ([0, 2], 5), ([1, 3], 1), ([2, 3], 4)];
    assert_eq!(path(&[Host, Router, Router, Host], &links), Some(vec![1, 3]));
}

#[test]
fn a_host_is_never_on_the_way() {
    let through_a_host = [([0, 1], 1), ([1, 2], 1)];
    assert_eq!(path(&[Host, Router, Host], &through_a_host), Some(vec![0, 1]));
    assert_eq!(path(&[Host, Host, Host], &through_a_host), None);
    let around = [([0, 1], 1), ([1, 4], 1), ([0, 2], 9), ([2, 3], 9), ([3, 4], 9)];
    assert_eq!(path(&[Host, Host, Router, Router, Host], &around), Some(vec![2, 3, 4]));
}

#[test]
fn what_has_no_route_is_lost_where_it_is_sent() {
    let script =
        vec![Send { at: 0, from: 0, to: 2, size: 100 }, Send { at: 1, from: 0, to: 0, size: 100 }];
    let (network, hosts) = play(&[Host, Host, Host], vec![link([0, 1], wire(RATE, 1))], 1, script);
    assert_eq!(hosts.losses, [(0, Loss::NoRoute), (1, Loss::NoRoute)]);
    assert_eq!(network.packet_hops(), 0);
}

#[test]
fn links_must_join_two_nodes_that_exist() {
    let build = |nodes: &[NodeKind], ends| {
        Network::new(nodes, vec![link(ends, wire(RATE, 0))], 1).map(|_| ()).unwrap_err()
    };
    assert_eq!(build(&[Host, Host], [0, 2]), RouteError::NoSuchNode(2, 2));
    assert_eq!(build(&[Host, Host], [7, 1]), RouteError::NoSuchNode(7, 2));
    assert_eq!(build(&[Host, Host], [1, 1]), RouteError::Loop(1));
    assert!(matches!(build(&[Host; 1 << 16], [0, 1]), RouteError::TooLarge(_)));
}

/// Behind 33,000 ports to another host, and as a port of a group.
#[test]
fn ports_have_large_numbers() {
    let many = (0..16_500).map(|_| link([0, 1], wire(RATE, 0)));
    let links = many.chain([link([0, 2], wire(RATE, 0))]).collect();
    let script = [1, 2].map(|to| Send { at: 0, from: 0, to, size: 1000 });
    let (network, hosts) = play(&[Host; 3], links, 1, script.into());
    assert_eq!(hosts.arrived(), [Some(MICROSECOND); 2]);
    assert_eq!(network.link_counters(forth(16_500)).packets, 1);
    assert_eq!(network.packet_hops(), 2);
}

#[test]
fn a_network_may_be_empty() {
    let mut network = Network::<Line>::new(&[], Vec::new(), 1).unwrap();
    network.run(Time::MAX, &mut Scripted::default());
    assert_eq!((network.next_event(), network.events()), (None, 0));
}

/// Returns the least (hops, delay) from the first node to the last, by Bellman and Ford's
/// algorithm.
fn least_cost(nodes: &[NodeKind], links: &[([u16; 2], u64)]) -> Option<(u64, u64)> {
    let mut best = vec![None; nodes.len()];
    best[0] = Some((0, 0));
    for _ in nodes {
        for &([a, b], delay) in links {
            for (from, to) in [(a, b), (b, a)].map(|(a, b)| (usize::from(a), usize::from(b))) {
                let forwards = nodes[from] == Router || from == 0;
                if let (Some((hops, length)), true) = (best[from], forwards) {
                    let through = (hops + 1, length + delay);
                    best[to] = Some(best[to].map_or(through, |known| through.min(known)));
                }
            }
        }
    }
    best[nodes.len() - 1]
}

proptest! {
    /// In any network the delay of a packet is that of the best path.
    #[test]
    fn paths_are_shortest(
        kinds in prop::collection::vec(prop::bool::weighted(0.8), 0..6),
        ends in prop::collection::vec((0_u16..8, 1_u16..8, 0_u64..50), 0..16),
    ) {
        let kind = |&router: &bool| if router { Router } else { Host };
        let nodes: Vec<NodeKind> =
            [Host].into_iter().chain(kinds.iter().map(kind)).chain([Host]).collect();
        let count = nodes.len() as u16;
        let links: Vec<([u16; 2], u64)> = ends
            .iter()
            .map(|&(a, distance, delay)| ([a % count, (a % count + distance) % count], delay))
            .filter(|([a, b], _)| a != b)
            .collect();
        // Parallel links share packets, and may have different delays.
        let joined: BTreeSet<[u16; 2]> =
            links.iter().map(|&([a, b], _)| [a.min(b), a.max(b)]).collect();
        prop_assume!(joined.len() == links.len());
        let (_, hosts) = send_one(&nodes, &links);
        // A packet of 1000 bytes takes 1 µs per hop.
        let expected = least_cost(&nodes, &links).map(|(hops, delay)| hops * MICROSECOND + delay);
        prop_assert_eq!(hosts.arrived(), [expected]);
        if let Some((_, host, _)) = hosts.arrivals.first() {
            prop_assert_eq!(*host, NodeId(count - 1));
        }
    }
}
