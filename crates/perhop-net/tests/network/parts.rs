//! Parts of a network, which hand packets over, do what the whole does.

use perhop_core::{Duration, NodeId, Stream, Time};
use perhop_net::{LinkCounters, LinkSpec, Network, PortId};
use perhop_queue::Limit;

use crate::lab::*;

/// Delay of the link between the parts.
const BETWEEN: u64 = 3 * MILLISECOND;

/// Hosts 0 and 1 at router 2, hosts 4 and 5 at router 3, and a slow link between the routers.
fn links(limit: u64) -> Vec<LinkSpec<Line>> {
    let access = |ends| link(ends, wire(80_000_000, MILLISECOND));
    let between = link_with([2, 3], wire(8_000_000, BETWEEN), || fifo(Limit::packets(limit)));
    vec![access([0, 2]), access([1, 2]), between, access([3, 4]), access([3, 5])]
}

fn network(limit: u64) -> Network<Line> {
    Network::new(&[Host, Host, Router, Router, Host, Host], links(limit), 1).unwrap()
}

fn is_left(node: NodeId) -> bool {
    node.0 < 3
}

/// Returns the part with hosts 0 and 1, and that with hosts 4 and 5.
fn parts(limit: u64) -> [Network<Line>; 2] {
    let mut parts = [network(limit), network(limit)];
    parts[0].keep(is_left);
    parts[1].keep(|node| !is_left(node));
    parts
}

/// The packet of 1000 bytes takes 100 µs and 1 ms to its router, 1 ms and 3 ms from there to the
/// other part, and 100 µs and 1 ms to the host.
#[test]
fn a_packet_is_handed_over_when_it_arrives() {
    let at = |micros| Time::from_picos(micros * MICROSECOND);
    let [mut left, mut right] = parts(9);
    let script = vec![Send { at: 0, from: 0, to: 5, size: 1000 }];
    let mut hosts = Scripted::new(script, &mut left);
    assert_eq!(left.next_leaving(), None);
    left.run(at(1_500), &mut hosts);
    assert_eq!((left.next_event(), left.next_leaving()), (None, Some(at(5_100))));
    assert_eq!(left.link_counters(forth(2)).packets, 1);
    assert_eq!(
        [2, 3].map(|link| left.least_delay(forth(link))),
        [None, Some(Duration::from_picos(MILLISECOND))]
    );

    let mut taken = Vec::new();
    left.take_leaving(at(5_099), |_, _, _, _| panic!("it arrives later"));
    left.take_leaving(at(5_100), |port, at, to, packet| taken.push((port, at, to, packet)));
    let [(port, arrival, to, packet)] = taken[..] else { panic!("{taken:?}") };
    assert_eq!((port, arrival, to, packet.body), (forth(2), at(5_100), NodeId(3), 0));
    assert_eq!((right.near_end(port), right.far_end(port)), (NodeId(2), NodeId(3)));
    assert_eq!(left.next_leaving(), None);
    left.take_leaving(Time::MAX, |_, _, _, _| panic!("it was taken"));

    right.put_arriving(port, arrival, packet);
    assert_eq!(right.next_event(), Some(at(5_100)));
    right.run(Time::MAX, &mut hosts);
    assert_eq!(hosts.arrivals, [(at(6_200), NodeId(5), 0)]);
    assert_eq!((left.packet_hops(), right.packet_hops()), (1, 2));
    assert_eq!(right.link_counters(forth(2)), LinkCounters::default());
}

/// What leaves a part waits there in order, and what does not leave is not affected.
#[test]
fn packets_leave_in_order() {
    let [mut left, _] = parts(9);
    let to = |to| Send { at: 0, from: 0, to, size: 1000 };
    let mut hosts = Scripted::new(vec![to(4), to(1), to(5), to(4)], &mut left);
    left.run(Time::MAX, &mut hosts);
    assert_eq!(hosts.arrivals.len(), 1);
    let mut taken = Vec::new();
    left.take_leaving(Time::MAX, |_, at, _, packet| {
        taken.push((at.as_picos() / MICROSECOND, packet.body));
    });
    // Each takes 1 ms between the parts.
    assert_eq!(taken, [(5_100, 0), (6_100, 2), (7_100, 3)]);
}

/// Packets wait when the wire between the parts changes: they leave later, and stay.
#[test]
fn packets_stay_when_the_link_between_parts_changes() {
    let [mut left, _] = parts(9);
    let script = vec![Send { at: 0, from: 0, to: 4, size: 1000 }; 3];
    let mut hosts = Scripted::new(script, &mut left);
    left.run(Time::from_picos(MILLISECOND * 3 / 2), &mut hosts);
    // The first is in transmission from 1.1 ms to 2.1 ms, and others take 2 ms.
    left.set_wire(forth(2), wire(4_000_000, BETWEEN));
    left.run(Time::from_picos(SECOND), &mut hosts);
    assert_eq!((left.packet_hops(), left.next_event()), (3, None));
    let mut taken = Vec::new();
    left.take_leaving(Time::MAX, |_, at, _, packet| {
        taken.push((at.as_picos() / MICROSECOND, packet.body));
    });
    assert_eq!(taken, [(5_100, 0), (7_100, 1), (9_100, 2)]);
}

type Seen = (Vec<(Time, NodeId, Line)>, Vec<Line>, Vec<LinkCounters>, (u64, u64));

/// Returns what was seen, in an order that does not depend on the parts.
fn seen(networks: &[Network<Line>], hosts: Vec<Scripted>) -> Seen {
    let (mut arrivals, mut losses) = (Vec::new(), Vec::new());
    for each in hosts {
        arrivals.extend(each.arrivals);
        losses.extend(each.losses.into_iter().map(|(line, _)| line));
    }
    arrivals.sort_unstable();
    losses.sort_unstable();
    let counters = |port: PortId| {
        let own = networks.iter().map(|network| network.link_counters(port));
        own.max_by_key(|counters| counters.packets).unwrap()
    };
    let sum = |count: fn(&Network<Line>) -> u64| networks.iter().map(count).sum::<u64>();
    let counters = networks[0].ports().map(counters).collect();
    (arrivals, losses, counters, (sum(Network::packet_hops), sum(Network::events)))
}

#[test]
fn two_parts_do_what_the_whole_does() {
    let mut lost = 0;
    for seed in 0..40 {
        let random = &mut Stream::new(seed, "parts");
        let limit = 1 + random.up_to(9);
        let nodes = [0, 1, 4, 5];
        let mut script: Vec<Send> = (0..200)
            .map(|_| {
                let [from, to] = [3, 3].map(|most| nodes[random.up_to(most) as usize]);
                // Many are sent together.
                let at = random.up_to(60) * MILLISECOND / 2;
                Send { at, from, to, size: [100, 1000][random.up_to(1) as usize] }
            })
            .filter(|send| send.from != send.to)
            .collect();
        script.sort_by_key(|send| send.at);

        let mut whole = network(limit);
        let mut hosts = Scripted::new(script.clone(), &mut whole);
        whole.run(Time::MAX, &mut hosts);
        let expected = seen(&[whole], vec![hosts]);

        let mut networks = parts(limit);
        let idle = &mut network(limit);
        let mut hosts = [0, 1].map(|_| Scripted::new(script.clone(), idle));
        for (line, send) in script.iter().enumerate() {
            let part = usize::from(!is_left(NodeId(send.from)));
            let timer = perhop_net::TimerId(line as u32);
            networks[part].set_timer(Time::from_picos(send.at), timer);
        }
        // A packet that arrives within the delay of the link was sent before.
        let mut until = Time::ZERO;
        while until < Time::from_picos(SECOND) {
            until += Duration::from_picos(BETWEEN);
            let mut moved = Vec::new();
            for part in &mut networks {
                part.take_leaving(until, |port, at, to, packet| {
                    moved.push((port, at, to, packet));
                });
            }
            for (port, at, to, packet) in moved {
                networks[usize::from(!is_left(to))].put_arriving(port, at, packet);
            }
            for (part, hosts) in networks.iter_mut().zip(&mut hosts) {
                part.run(until, hosts);
            }
        }
        lost += expected.1.len();
        assert_eq!(seen(&networks, hosts.into()), expected, "{seed}");
    }
    assert!(lost > 100, "the queue was hardly ever full: {lost}");
}
