//! Plain queues schedule transmissions in advance, without effect on any result.

use perhop_core::{Bytes, Duration, Protocol, Rate, Stream, Time};
use perhop_net::{Network, Wire};
use perhop_queue::{
    Backlog, Class, ClassCounters, ClassService, ClassSpec, Classes, Limit, Match, MatchRules,
    Queue, Reserved, Weight,
};

use crate::lab::*;

/// A single class, which is a queue that is not scheduled.
fn class_of_its_own(limit: Limit) -> Class<Line> {
    let service = ClassService::Share(Weight::new(1).unwrap(), 0);
    let spec = ClassSpec { matches: MatchRules::default(), service, class: fifo(limit) };
    Class::new(Queue::Classes(Box::new(Classes::new(vec![spec]))))
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Rate(u64),
    Delay(u64),
    Loss(u32),
    Up(bool),
    Limit(Limit),
    /// Reserves nothing, for no packet, or for all packets.
    Reserve(Option<Protocol>),
    /// Starts or ends the reports of an interface.
    Watch(bool),
    Nothing,
}

fn limit(random: &mut Stream) -> Limit {
    match random.up_to(2) {
        0 => Limit::packets(1 + random.up_to(20)),
        1 => Limit::bytes(Bytes::new(3000 + random.up_to(20_000))),
        _ => Limit::bytes(Bytes::MAX),
    }
}

/// Observable results: arrivals, losses, and the second link's counters at every stop.
type Seen = (Vec<Option<u64>>, Vec<Line>, Vec<(u64, Bytes, ClassCounters, Backlog)>);

/// Runs a script with changes; with `reports`, departures are reported to the hosts from the first
/// change on.
fn run(seed: u64, queue: fn(Limit) -> Class<Line>, reports: bool) -> Seen {
    let random = &mut Stream::new(seed, "booking");
    let limits = [limit(random), limit(random)];
    let far = [random.up_to(MILLISECOND), random.up_to(20 * MILLISECOND)];
    let links = vec![
        link_with([0, 1], wire(20_000_000, far[0]), || queue(limits[0])),
        link_with([1, 2], wire(8_000_000, far[1]), || queue(limits[1])),
    ];
    let mut network = Network::new(&[Host, Router, Host], links, 1).unwrap();
    let mut at = 0;
    let script: Vec<Send> = (0..200)
        .map(|_| {
            let most = random.up_to(2) * 2 * MILLISECOND;
            at += random.up_to(most);
            Send { at, from: 0, to: 2, size: 40 + random.up_to(1460) as u32 }
        })
        .collect();
    let mut changes: Vec<(u64, Change)> = (0..40)
        .map(|_| {
            let change = match random.up_to(8) {
                0 => Change::Rate(1_000_000 + random.up_to(50_000_000)),
                1 => Change::Delay(random.up_to(20 * MILLISECOND)),
                2 => Change::Up(random.up_to(1) == 0),
                3 => Change::Limit(limit(random)),
                4 => Change::Loss([0, 500_000_000][random.up_to(1) as usize]),
                5 => Change::Reserve(
                    [None, Some(Protocol::Tcp), Some(Protocol::Udp)][random.up_to(2) as usize],
                ),
                6 => Change::Watch(random.up_to(1) == 0),
                _ => Change::Nothing,
            };
            // Several changes are often at one instant.
            (random.up_to(at / MILLISECOND / 10) * 10 * MILLISECOND, change)
        })
        .collect();
    changes.sort_by_key(|(at, _)| *at);
    changes.push((at + SECOND, Change::Up(true)));

    let mut hosts = Scripted::new(script, &mut network);
    let mut counted = Vec::new();
    let mut reserved = 0;
    let mut waiting = Vec::new();
    for (at, change) in changes {
        network.run(Time::from_picos(at), &mut hosts);
        let counters = network.link_counters(forth(1));
        let mut classes = Vec::new();
        let mut visit = |_: &str, class: &ClassCounters, backlog| {
            classes.push((counters.packets, counters.bytes, *class, backlog));
        };
        network.queue(forth(1)).visit(&mut visit);
        network.queue(forth(1)).reserved().iter().for_each(|class| class.visit(&mut visit));
        counted.push(classes[0]);
        counted.extend(classes.drain(classes.len() - reserved..));
        let wire = *network.wire(forth(1));
        let both = [forth(1), perhop_net::PortId(forth(1).0 ^ 1)];
        let mut set = |wire| both.map(|port| network.set_wire(port, wire));
        match change {
            Change::Rate(rate) => {
                set(Wire { rate: Rate::new(rate).unwrap(), ..wire });
            }
            Change::Delay(delay) => {
                let delay = Duration::from_picos(delay);
                set(Wire { delay, ..wire });
            }
            Change::Loss(loss) => {
                set(Wire { loss, ..wire });
            }
            Change::Up(up) => network.set_up(1, up),
            Change::Limit(limit) => network.set_queue(forth(1), queue(limit)),
            Change::Reserve(protocol) => {
                let one = protocol.map(|protocol| Reserved {
                    matches: Match { protocols: vec![protocol], ..Match::default() },
                    police: Some((Rate::new(4_000_000).unwrap(), Bytes::new(6_000))),
                    limit: Limit::bytes(Bytes::MAX),
                    name: at.to_string(),
                });
                reserved = one.iter().count();
                network.set_reserved(forth(1), one.as_slice());
            }
            Change::Watch(true) => network.watch(forth(1)),
            Change::Watch(false) => network.unwatch(forth(1)),
            Change::Nothing => {}
        }
        for link in [0, 1] {
            if reports && !(at / MILLISECOND + u64::from(link)).is_multiple_of(3) {
                network.report_departures(forth(link), |&line, _| waiting.push(line));
            }
        }
    }
    network.run(Time::MAX, &mut hosts);
    for line in waiting {
        assert!(hosts.departed.contains(&line), "{seed}: {line} waited and has not left");
    }
    let mut losses: Vec<Line> = hosts.losses.iter().map(|(line, _)| *line).collect();
    losses.sort_unstable();
    (hosts.arrived(), losses, counted)
}

#[test]
fn a_scheduled_queue_is_the_same_queue() {
    let mut lost = 0;
    for seed in 0..300 {
        let (arrived, losses, counted) = run(seed, fifo, false);
        let unscheduled = run(seed, class_of_its_own, false);
        assert_eq!(arrived, unscheduled.0, "{seed}");
        assert_eq!(losses, unscheduled.1, "{seed}");
        assert_eq!(counted, unscheduled.2, "{seed}");
        assert_eq!(run(seed, fifo, true), unscheduled, "{seed}, reported");
        lost += losses.len();
    }
    assert!(lost > 1000, "queues were hardly ever full: {lost}");
}

#[test]
fn plain_queues_cost_no_events() {
    let saturated = |queue: fn(Limit) -> Class<Line>| {
        let endless = || queue(Limit::bytes(Bytes::MAX));
        let links =
            (0..5).map(|hop| link_with([hop, hop + 1], wire(8_000_000, MILLISECOND), endless));
        let together = Send { at: 0, from: 0, to: 5, size: 1000 };
        let nodes = [Host, Router, Router, Router, Router, Host];
        let (network, _) = play(&nodes, links.collect(), 1, vec![together; 100]);
        assert_eq!(network.packet_hops(), 500);
        network.events()
    };
    // Packets wait before the first link only, which spaces them for the others.
    assert_eq!(saturated(fifo), 500 + 100);
    assert_eq!(saturated(class_of_its_own), 500 + 100 + 99);
}

/// Each packet costs a timer and an arrival, whatever changes while packets wait. A link without a
/// random part is scheduled again.
#[test]
fn a_queue_is_scheduled_again_after_a_change() {
    type Change = fn(&mut Network<Line>);
    let plain = wire(8_000_000, MILLISECOND);
    let changes: [(&str, Change); 6] = [
        ("wire", |network| {
            let wire = *network.wire(forth(0));
            network.set_wire(forth(0), wire);
        }),
        ("queue", |network| network.set_queue(forth(0), fifo(Limit::bytes(Bytes::MAX)))),
        ("reservations", |network| network.set_reserved(forth(0), &[])),
        ("up", |network| [false, true].map(|up| network.set_up(0, up)).into_iter().collect()),
        ("watch", |network| {
            network.watch(forth(0));
            network.unwatch(forth(0));
        }),
        ("loss", |network| {
            let wire = *network.wire(forth(0));
            network.set_wire(forth(0), Wire { loss: 1, ..wire });
            network.set_wire(forth(0), wire);
        }),
    ];
    for (name, change) in changes {
        let mut network = Network::new(&[Host, Host], vec![link([0, 1], plain)], 1).unwrap();
        let script = vec![Send { at: 0, from: 0, to: 1, size: 1000 }; 20];
        let mut hosts = Scripted::new(script, &mut network);
        network.run(Time::from_picos(MILLISECOND * 5 / 2), &mut hosts);
        change(&mut network);
        network.run(Time::MAX, &mut hosts);
        let expected = (1..=20).map(|n| Some((n + 1) * MILLISECOND));
        assert_eq!(hosts.arrived(), expected.collect::<Vec<_>>(), "{name}");
        assert_eq!(network.link_counters(forth(0)).packets, 20, "{name}");
        // Void events of the transmitter count, but no packet has one.
        assert!((40..=41).contains(&network.events()), "{name}: {}", network.events());
    }
}

/// Each waiting packet costs an event more before a queue that is not scheduled, and a change costs
/// none.
#[test]
fn a_change_costs_no_event() {
    let queue = || class_of_its_own(Limit::bytes(Bytes::MAX));
    let links = vec![link_with([0, 1], wire(8_000_000, MILLISECOND), queue)];
    let mut network = Network::new(&[Host, Host], links, 1).unwrap();
    let script = vec![Send { at: 0, from: 0, to: 1, size: 1000 }; 20];
    let mut hosts = Scripted::new(script, &mut network);
    for half in [3, 5, 9] {
        network.run(Time::from_picos(half * MILLISECOND / 2), &mut hosts);
        network.set_wire(forth(0), *network.wire(forth(0)));
    }
    network.run(Time::MAX, &mut hosts);
    assert_eq!(network.events(), 20 + 20 + 19);
}

/// A shaper holds packets for a second each, and nothing changes that.
#[test]
fn packets_that_a_shaper_holds_stay_when_the_wire_changes() {
    let shaped = || {
        let shaper = perhop_queue::Shaper::new(Rate::new(8_000).unwrap(), Bytes::new(1000));
        fifo(Limit::bytes(Bytes::MAX)).shaped(shaper)
    };
    let links = vec![link_with([0, 1], wire(8_000_000, 0), shaped)];
    let mut network = Network::new(&[Host, Host], links, 1).unwrap();
    let script = vec![Send { at: 0, from: 0, to: 1, size: 1000 }; 4];
    let mut hosts = Scripted::new(script, &mut network);
    network.run(Time::from_picos(SECOND * 3 / 2), &mut hosts);
    network.set_wire(forth(0), wire(4_000_000, 0));
    network.run(Time::from_picos(SECOND * 5 / 2), &mut hosts);
    network.set_up(0, false);
    network.set_up(0, true);
    network.run(Time::MAX, &mut hosts);
    let expected = [1, 1_001, 2_002, 3_002].map(|at| Some(at * MILLISECOND));
    assert_eq!(hosts.arrived(), expected);
}

/// A queue with reported departures reports each waiting packet once, and is scheduled again when
/// it is empty.
#[test]
fn departures_are_reported_until_a_queue_is_empty() {
    let links = vec![link_with([0, 1], wire(8_000_000, MILLISECOND), || fifo(Limit::packets(10)))];
    let mut network = Network::new(&[Host, Host], links, 1).unwrap();
    let together = |at| Send { at, from: 0, to: 1, size: 1000 };
    let script = [vec![together(0); 4], vec![together(20 * MILLISECOND); 3]].concat();
    let mut hosts = Scripted::new(script, &mut network);
    network.run(Time::from_picos(MILLISECOND / 2), &mut hosts);
    let mut waiting = Vec::new();
    network.report_departures(forth(0), |&line, _| waiting.push(line));
    assert_eq!(waiting, [1, 2, 3]);
    network.run(Time::from_picos(MILLISECOND * 5 / 2), &mut hosts);
    assert_eq!(hosts.departed, [1, 2]);
    network.run(Time::MAX, &mut hosts);
    assert_eq!(hosts.departed, [1, 2, 3]);
    assert_eq!(hosts.arrivals.len(), 7);
}
