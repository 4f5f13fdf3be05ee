//! Tables computed by hand: what a network does, to the picosecond and the byte.
//!
//! A packet of 1000 bytes takes a millisecond at 8 Mb/s.

use perhop_core::{Bytes, Duration, NodeId, Overhead, Stream, Time};
use perhop_net::{
    Departures, Gilbert, Impairments, LinkCounters, Loss, Network, PortId, Reorder, Topology,
    Trace, TraceStep, Waits, Wire,
};
use perhop_queue::{Cause, Limit};

use crate::lab::*;

const RATE: u64 = 8_000_000;

fn at_micros(micros: u64) -> Time {
    Time::from_picos(micros * MICROSECOND)
}

/// Returns packets of 1000 bytes from host 0 to node `to` at these times.
fn sends(to: u16, micros: &[u64]) -> Vec<Send> {
    micros.iter().map(|at| Send { at: at * MICROSECOND, from: 0, to, size: 1000 }).collect()
}

/// Returns the arrival of each packet in microseconds.
fn arrived(hosts: &Scripted) -> Vec<Option<u64>> {
    let micros = |at: u64| {
        assert_eq!(at % MICROSECOND, 0);
        at / MICROSECOND
    };
    hosts.arrived().into_iter().map(|at| at.map(micros)).collect()
}

/// Ways in which a port sends the same packets at the same times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By schedule.
    Plain,
    /// By an event for each, because the interface is watched.
    Watched,
    /// At the rate of a trace, which is that of the wire.
    Traced,
}

const WAYS: [Way; 3] = [Way::Plain, Way::Watched, Way::Traced];

fn prepare(way: Way, network: &mut Network<Line>, port: PortId) {
    match way {
        Way::Plain => {}
        Way::Watched => network.watch(port),
        Way::Traced => {
            let step = TraceStep { at: Duration::ZERO, rate: RATE, medium: None };
            network.set_trace(port, Trace::new(vec![step], None).unwrap());
        }
    }
}

/// The second packet would arrive at 4 ms, over a wire that has become shorter.
#[test]
fn no_packet_overtakes_one_that_was_sent_before_the_wire_changed() {
    for way in WAYS {
        let links = vec![link([0, 1], wire(RATE, 10 * MILLISECOND))];
        let mut network = Network::new(&[Host, Host], links, 1).unwrap();
        prepare(way, &mut network, forth(0));
        let script = sends(1, &[0, 2_000, 15_000]);
        let mut hosts = Scripted::new(script, &mut network);
        network.run(at_micros(1_500), &mut hosts);
        network.set_wire(forth(0), wire(RATE, MILLISECOND));
        network.run(Time::MAX, &mut hosts);
        assert_eq!(arrived(&hosts), [Some(11_000), Some(11_000), Some(17_000)], "{way:?}");
    }
}

/// Two packets with 10 ms more, until 12 and 13 ms, are on the wire when it becomes plain at 5 ms.
#[test]
fn no_packet_overtakes_one_that_the_wire_had_reordered() {
    let by = Duration::from_millis(10);
    let reorder = Some(Reorder { share: 1_000_000_000, by, gap: 0 });
    let plain = wire(RATE, MILLISECOND);
    let links = vec![link([0, 1], Wire { reorder, ..plain })];
    let mut network = Network::new(&[Host, Host], links, 1).unwrap();
    let mut hosts = Scripted::new(sends(1, &[0, 1_000, 5_000, 20_000]), &mut network);
    network.run(at_micros(4_999), &mut hosts);
    network.set_wire(forth(0), plain);
    network.run(Time::MAX, &mut hosts);
    assert_eq!(arrived(&hosts), [12_000, 13_000, 13_000, 22_000].map(Some));
}

/// Packets reach the router 20.001 ms after they were sent, and 11 ms later the other host. From
/// 23.5 ms on it is 2 ms, but not before the second packet has arrived, at 33.001 ms.
#[test]
fn a_router_keeps_the_order_when_a_wire_becomes_shorter() {
    let links = vec![
        link([0, 1], wire(1_000 * RATE, 20 * MILLISECOND)),
        link([1, 2], wire(RATE, 10 * MILLISECOND)),
    ];
    let mut network = Network::new(&[Host, Router, Host], links, 1).unwrap();
    let times: Vec<u64> = (0..9).map(|n| n * 2_000).collect();
    let mut hosts = Scripted::new(sends(2, &times), &mut network);
    network.run(at_micros(23_500), &mut hosts);
    network.set_wire(forth(1), wire(RATE, MILLISECOND));
    network.run(Time::MAX, &mut hosts);
    let expected = [31_001, 33_001, 33_001, 33_001, 33_001, 33_001, 34_001, 36_001, 38_001];
    assert_eq!(arrived(&hosts), expected.map(Some));
}

/// Three packets of 962 bytes, with 38 more at layer 2, begin at 0, 1 and 2 ms.
#[test]
fn a_packet_counts_from_the_begin_of_its_transmission() {
    for way in WAYS {
        let wire = Wire { overhead: Overhead::Fixed(38), ..wire(RATE, 5 * MILLISECOND) };
        let mut network = Network::new(&[Host, Host], vec![link([0, 1], wire)], 1).unwrap();
        prepare(way, &mut network, forth(0));
        let script = vec![Send { at: 0, from: 0, to: 1, size: 962 }; 3];
        let mut hosts = Scripted::new(script, &mut network);
        for (micros, packets) in [(0, 1), (999, 1), (1_000, 2), (1_999, 2), (2_000, 3), (9_000, 3)]
        {
            network.run(at_micros(micros), &mut hosts);
            let bytes = Bytes::new(packets * 1000);
            let expected = LinkCounters { packets, bytes, ..LinkCounters::default() };
            assert_eq!(network.link_counters(forth(0)), expected, "{way:?} at {micros} µs");
            assert_eq!(network.link_counters(back(0)), LinkCounters::default());
        }
        assert_eq!(arrived(&hosts), [6_000, 7_000, 8_000].map(Some), "{way:?}");
        assert_eq!(network.packet_hops(), 3);
    }
}

/// The first packet is in transmission, the next two wait, and there is no room for a fourth.
#[test]
fn a_host_learns_what_waits_and_what_was_dropped() {
    let waits =
        |bytes, departures| Some(Waits { port: forth(0), bytes: Bytes::new(bytes), departures });
    let lossy = Wire { loss: 1, ..wire(RATE, 0) };
    for (case, wire, departures) in [
        ("plain", wire(RATE, 0), Departures::Scheduled),
        ("watched", wire(RATE, 0), Departures::Scheduled),
        ("reported", wire(RATE, 0), Departures::Reported),
        ("lossy", lossy, Departures::Unknown),
        ("watched and lossy", lossy, Departures::Unknown),
    ] {
        let links = vec![link_with([0, 1], wire, || fifo(Limit::packets(2)))];
        let mut network = Network::new(&[Host, Host], links, 1).unwrap();
        match case {
            "watched" | "watched and lossy" => network.watch(forth(0)),
            "reported" => network.report_departures(forth(0), |_, _| panic!("nothing waits")),
            _ => {}
        }
        let mut send = |line| network.send(NodeId(0), packet(0, 1, 1000, line));
        let sent = [0, 1, 2, 3].map(|line| {
            let sent = send(line);
            (sent.waits, sent.dropped)
        });
        let expected = [
            (None, false),
            (waits(1000, departures), false),
            (waits(2000, departures), false),
            (waits(2000, departures), true),
        ];
        assert_eq!(sent, expected, "{case}");
        let script = vec![Send { at: 0, from: 0, to: 1, size: 1000 }; 4];
        let mut hosts = Scripted::new(script, &mut Network::new(&[], Vec::new(), 1).unwrap());
        network.run(at_micros(1_000), &mut hosts);
        assert_eq!(hosts.losses, [(3, Loss::Queue(Cause::Limit))], "{case}");
        assert_eq!(hosts.lost_at, [Some(forth(0))], "{case}");
        let departed: &[Line] = if case == "reported" { &[3, 1] } else { &[3] };
        assert_eq!(hosts.departed, departed, "{case}");
    }
}

#[test]
fn departures_are_reported_of_what_waited_before() {
    let mut network = Network::new(&[Host, Host], vec![link([0, 1], wire(RATE, 0))], 1).unwrap();
    let mut hosts = Scripted::new(sends(1, &[0, 0, 0, 0, 9_000, 9_000]), &mut network);
    network.run(at_micros(1_500), &mut hosts);
    let mut waiting = Vec::new();
    network.report_departures(forth(0), |line, size| waiting.push((*line, size)));
    assert_eq!(waiting, [(2, 1000), (3, 1000)]);
    network.run(Time::MAX, &mut hosts);
    // Reports end when the queue is empty.
    assert_eq!(hosts.departed, [2, 3]);
    let expected = [1_000, 2_000, 3_000, 4_000, 10_000, 11_000];
    assert_eq!(arrived(&hosts), expected.map(Some));
}

/// One packet is in transmission until 1 ms when the link goes down at 0.5 ms; it arrives.
#[test]
fn a_link_goes_on_where_it_stopped() {
    for way in WAYS {
        for (up, expected) in [(700, [3_000, 4_000, 5_000]), (6_500, [3_000, 9_500, 10_500])] {
            let links = vec![link([0, 1], wire(RATE, 2 * MILLISECOND))];
            let mut network = Network::new(&[Host, Host], links, 1).unwrap();
            prepare(way, &mut network, forth(0));
            let mut hosts = Scripted::new(sends(1, &[0, 0, 0]), &mut network);
            network.run(at_micros(500), &mut hosts);
            network.set_up(0, false);
            network.run(at_micros(600), &mut hosts);
            network.set_up(0, false); // no change
            network.run(at_micros(up), &mut hosts);
            network.set_up(0, true);
            network.set_up(0, true); // no change
            network.run(Time::MAX, &mut hosts);
            assert_eq!(arrived(&hosts), expected.map(Some), "{way:?}, up at {up} µs");
        }
    }
}

/// Of four packets one is in transmission, and the new queue has room for two.
#[test]
fn a_new_queue_takes_what_it_has_room_for() {
    for way in WAYS {
        let links = vec![link([0, 1], wire(RATE, 0))];
        let mut network = Network::new(&[Host, Host], links, 1).unwrap();
        prepare(way, &mut network, forth(0));
        let mut hosts = Scripted::new(sends(1, &[0, 0, 0, 0, 1_200]), &mut network);
        network.run(at_micros(500), &mut hosts);
        network.set_queue(forth(0), fifo(Limit::packets(2)));
        network.run(Time::MAX, &mut hosts);
        let mut losses = hosts.losses.clone();
        losses.sort_unstable();
        let full = Loss::Queue(Cause::Limit);
        // At 1.2 ms one of the two has left the queue.
        assert_eq!(losses, [(3, full)], "{way:?}");
        let expected = [Some(1_000), Some(2_000), Some(3_000), None, Some(4_000)];
        assert_eq!(arrived(&hosts), expected, "{way:?}");
    }
}

/// Host 0 at router 1, which reaches host 4 by routers 2 and 3, and router 2 by two links; host 5
/// has no link but to host 4. Delays from the first end, and back.
fn topology() -> Topology {
    let links = [
        ([0, 1], [1, 1]),
        ([1, 2], [5, 7]),
        ([1, 2], [9, 3]),
        ([1, 3], [2, 9]),
        ([2, 4], [2, 8]),
        ([3, 4], [5, 1]),
        ([5, 4], [1, 1]),
    ];
    let links = links.map(|(ends, delays)| (ends.map(NodeId), delays.map(Duration::from_picos)));
    Topology::new(&[Host, Router, Router, Router, Host, Host], links)
}

fn hops(topology: &Topology, to: u16) -> Vec<Vec<u32>> {
    let numbers = |ports: Vec<PortId>| ports.into_iter().map(|port| port.0).collect();
    topology.next_hops(NodeId(to)).into_iter().map(numbers).collect()
}

#[test]
fn paths_are_those_of_a_table() {
    let mut topology = topology();
    // By 2: 5 + 2; by 3: 2 + 5. Both links to 2 count as the shorter one.
    assert_eq!(hops(&topology, 4), [vec![0], vec![2, 4, 6], vec![8], vec![10], vec![], vec![12]]);
    // By 2: 8 + 3 + 1; by 3: 1 + 9 + 1. Host 5 would need host 4 to forward.
    assert_eq!(hops(&topology, 0), [vec![], vec![1], vec![3, 5], vec![7], vec![11], vec![]]);
    // Host 0 sends to its router, which knows no path.
    assert_eq!(hops(&topology, 5), [vec![0], vec![], vec![], vec![], vec![13], vec![]]);
    assert_eq!(hops(&topology, 2), [vec![0], vec![2, 4], vec![], vec![7], vec![9], vec![]]);
    let ends: Vec<u16> = (0..14).map(|port| topology.far_end(PortId(port)).0).collect();
    assert_eq!(ends, [1, 0, 2, 1, 2, 1, 3, 1, 4, 2, 4, 3, 4, 5]);

    assert!(topology.set_up(3, false));
    assert!(!topology.set_up(3, false));
    assert_eq!(hops(&topology, 4), [vec![0], vec![2, 4], vec![8], vec![10], vec![], vec![12]]);
    // Without its shorter link, 1 is as far from 2 as the other is long.
    assert!(topology.set_up(1, false));
    assert!(topology.set_up(3, true));
    assert_eq!(hops(&topology, 4)[1], [6]);
    assert!(topology.set_up(3, false) && topology.set_up(4, false) && topology.set_up(5, false));
    assert_eq!(hops(&topology, 4), [vec![0], vec![], vec![], vec![], vec![], vec![12]]);
    assert!(hops(&topology, 0)[4].is_empty());
    assert_eq!(topology.nodes(), 6);
}

#[test]
fn a_node_knows_its_ports_and_their_least_mtu() {
    let links = [[0, 1], [1, 2], [1, 3]].map(|ends| link(ends, wire(RATE, 0)));
    let nodes = [Host, Router, Host, Host];
    let mut network: Network<Line> = Network::new(&nodes, links.into(), 1).unwrap();
    let only: Vec<_> = (0..4).map(|node| network.only_port(NodeId(node))).collect();
    assert_eq!(only, [Some(forth(0)), None, Some(back(1)), Some(back(2))]);
    assert_eq!(network.ports().collect::<Vec<_>>(), (0..6).map(PortId).collect::<Vec<_>>());
    network.set_mtu(0, 1400);
    network.set_mtu(2, 1300);
    let mtus: Vec<u32> = (0..4).map(|node| network.least_mtu(NodeId(node))).collect();
    assert_eq!(mtus, [1400, 1300, u32::MAX, 1300]);
}

/// A packet of just the MTU passes; one byte more is lost at its own host, which is told nothing,
/// or at the router.
#[test]
fn an_mtu_is_the_longest_packet() {
    for (limited, at) in [(0, forth(0)), (1, forth(1))] {
        let links = [[0, 1], [1, 2]].map(|ends| link(ends, wire(RATE, 0)));
        let mut network = Network::new(&[Host, Router, Host], links.into(), 1).unwrap();
        network.set_mtu(limited, 1000);
        let script = [1000, 1001].map(|size| Send { at: 0, from: 0, to: 2, size });
        let mut hosts = Scripted::new(script.into(), &mut network);
        network.run(Time::MAX, &mut hosts);
        assert_eq!(hosts.arrivals.len(), 1);
        assert_eq!((hosts.losses, hosts.lost_at), (vec![(1, Loss::TooBig)], vec![Some(at)]));
    }
}

/// The draws of a wire in their order, written a second time: loss, then jitter, then reordering.
/// Without a share or a limit there is no draw.
#[test]
fn a_wire_draws_for_loss_then_jitter_then_order() {
    let half = 500_000_000;
    let by = Duration::from_picos(700);
    for (loss, jitter, reorder) in [
        (0, 0, None),
        (half, 0, None),
        (0, 300, None),
        (0, 0, Some(half)),
        (half, 300, Some(0)),
        (half, 300, Some(half)),
        (1, 300, Some(1)),
    ] {
        let wire = Wire {
            loss,
            jitter: Duration::from_picos(jitter),
            reorder: reorder.map(|share| Reorder { share, by, gap: 0 }),
            ..wire(RATE, 0)
        };
        let mut impairments = Impairments::new(Stream::new(3, "wire"));
        let mut counters = LinkCounters::default();
        let mut random = Stream::new(3, "wire");
        let (mut latest, mut lost, mut reordered) = (0, 0, 0);
        for due in (0..2_000).step_by(40) {
            let at = impairments.delay(&wire, Time::from_picos(due), &mut counters);
            let is_lost = loss > 0 && random.chance_ppb(loss);
            let expected = if is_lost {
                lost += 1;
                Err(Loss::Link)
            } else {
                let late = if jitter > 0 { random.up_to(jitter) } else { 0 };
                latest = latest.max(due + late);
                let moved = reorder.is_some_and(|share| share > 0 && random.chance_ppb(share));
                reordered += u64::from(moved);
                Ok(latest + if moved { 700 } else { 0 })
            };
            assert_eq!(at.map(Time::as_picos), expected, "{wire:?} at {due}");
        }
        let expected = LinkCounters { lost, reordered, ..LinkCounters::default() };
        assert_eq!(counters, expected);
    }
}

/// Chains without chance: the states of packets, and which state loses.
#[test]
fn chains_without_chance_lose_by_their_states() {
    const ALWAYS: u32 = 1_000_000_000;
    let lost = |gilbert| {
        let wire = Wire { gilbert: Some(gilbert), ..wire(RATE, 0) };
        let mut impairments = Impairments::new(Stream::new(1, "chain"));
        (0..6).map(|_| impairments.loses(&wire)).collect::<Vec<bool>>()
    };
    let chain = |p, r, good, bad| Gilbert { p, r, good, bad };
    // It stays good; it stays bad, from the first packet on.
    assert_eq!(lost(chain(0, ALWAYS, 0, ALWAYS)), [false; 6]);
    assert_eq!(lost(chain(0, ALWAYS, ALWAYS, 0)), [true; 6]);
    assert_eq!(lost(chain(0, 0, 0, ALWAYS)), [false; 6]);
    assert_eq!(lost(chain(ALWAYS, 0, 0, ALWAYS)), [true; 6]);
    assert_eq!(lost(chain(ALWAYS, 0, ALWAYS, 0)), [false; 6]);
    // However rare its step, it never returns.
    assert_eq!(lost(chain(1, 0, 0, ALWAYS)), [true; 6]);
    // It changes with every packet.
    let turns = lost(chain(ALWAYS, ALWAYS, 0, ALWAYS));
    assert!(turns.windows(2).all(|pair| pair[0] != pair[1]), "{turns:?}");
    let others = lost(chain(ALWAYS, ALWAYS, ALWAYS, 0));
    assert!(turns.iter().zip(&others).all(|(one, other)| one != other), "{others:?}");
}
