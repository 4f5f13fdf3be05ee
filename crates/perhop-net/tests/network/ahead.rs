//! Routers that process arrivals ahead of other nodes do the same as in the order of all events.

use perhop_core::{Bytes, Duration, NodeId, Packet, Rate, Stream, Time};
use perhop_net::{
    Balance, Hosts, IcmpError, LinkCounters, LinkSpec, Loss, Marker, Network, PortId, Reorder,
    TimerId, Trace, TraceMedium, TraceStep, Variation, VariationDistribution, Wire,
};
use perhop_queue::{
    Backlog, Class, ClassCounters, ClassService, ClassSpec, Classes, Limit, Match, Queue, Shaper,
    Sharing, Weight,
};

use crate::lab::*;
use crate::stations::WIFI;

/// Number of routers, in a ring; each has a host.
const ROUTERS: u16 = 5;

/// Returns a link that may have any impairment. Many links have no delay, or the same.
fn random_wire(random: &mut Stream) -> Wire {
    let delay = [0, MILLISECOND, random.up_to(4 * MILLISECOND)][random.up_to(2) as usize];
    let mut wire = wire(1_000_000 + random.up_to(40_000_000), delay);
    let by = Duration::from_picos(random.up_to(3 * MILLISECOND));
    match random.up_to(12) {
        0 => wire.jitter = by,
        1 => wire.loss = 50_000_000,
        2 => wire.duplicate = 50_000_000,
        3 => wire.reorder = Some(Reorder { share: 100_000_000, by, gap: 0 }),
        4 => wire.reorder = Some(Reorder { share: 500_000_000, by, gap: 3 }),
        5 => wire.delay_limit = Some(1 + random.up_to(4) as u32),
        6 => {
            let distribution = VariationDistribution::Normal;
            wire.variation = Some(Variation { by, distribution, in_order: by.as_picos() & 1 == 0 });
        }
        _ => {}
    }
    wire
}

/// Returns a plain queue, a shaped one, or classes.
fn random_queue(random: &mut Stream) -> Class<Line> {
    let limit = Limit::packets(1 + random.up_to(12));
    match random.up_to(4) {
        0 => {
            let mut classes = vec![fifo(limit), fifo(limit), fifo(limit)];
            if random.up_to(1) == 0 {
                classes[1] = random_queue(random);
            }
            let specs = classes.into_iter().zip(0..).map(|(class, number)| {
                let from = Match { sources: vec![NodeId(ROUTERS + number)], ..Match::default() };
                let strict = random.up_to(4) == 0;
                let share = ClassService::Share(Weight::new(1 + u64::from(number)).unwrap(), 0);
                let service = if strict { ClassService::Strict } else { share };
                ClassSpec { matches: from.into(), service, class }
            });
            let specs = specs.collect();
            let sharing = [Sharing::Wfq, Sharing::Drr, Sharing::LinkShare];
            let sharing = sharing[random.up_to(2) as usize];
            Class::new(Queue::Classes(Box::new(Classes::sharing(specs, sharing))))
        }
        1 => {
            let rate = Rate::new(1_000_000 + random.up_to(9_000_000)).unwrap();
            fifo(limit).shaped(Shaper::new(rate, Bytes::new(random.up_to(6_000))))
        }
        _ => fifo(limit),
    }
}

/// Observable results: arrivals by node, losses, the counters of each port, and those of the run.
type Seen = (
    Vec<(NodeId, Time, Line)>,
    Vec<(Line, Loss)>,
    Vec<(LinkCounters, Vec<(ClassCounters, Backlog)>)>,
    (u64, usize),
);

/// Runs a random network with random traffic, in one step or with a step for each event.
fn run(seed: u64, one_step: bool) -> Seen {
    let random = &mut Stream::new(seed, "ahead");
    let mut links = Vec::new();
    for router in 0..ROUTERS {
        for other in [(router + 1) % ROUTERS, router + ROUTERS] {
            let mut link = link_with([router, other], random_wire(random), || random_queue(random));
            link.wires[1] = random_wire(random);
            links.push(link);
        }
    }
    // Two links between the first two routers are a group.
    let again = LinkSpec { name: "again".into(), ..link([0, 1], random_wire(random)) };
    links.push(again);
    let kinds = [[Router; ROUTERS as usize], [Host; ROUTERS as usize]].concat();
    let mut network = Network::new(&kinds, links, seed).unwrap();
    if random.up_to(1) == 0 {
        network.set_balance(NodeId(0), Balance::PerPacket);
    }
    if random.up_to(3) == 0 {
        network.set_mtu(random.up_to(9) as u32, 1000);
    }
    if random.up_to(3) == 0 {
        network.watch(forth(random.up_to(9) as u32));
    }
    let mut script: Vec<Send> = Vec::new();
    for _ in 0..60 {
        let at = random.up_to(60) * MILLISECOND;
        let from = ROUTERS + random.up_to(u64::from(ROUTERS) - 1) as u16;
        let to = random.up_to(2 * u64::from(ROUTERS) - 1) as u16;
        let sizes = [[100, 100], [1500, 1500], [100, 1500]][random.up_to(2) as usize];
        // Trains of packets, which routers forward as one; often those of two hosts meet.
        let gap = random.up_to(2) * random.up_to(MILLISECOND);
        let senders = [from, ROUTERS + (from + 1) % ROUTERS];
        let trains = senders.into_iter().take(1 + random.up_to(1) as usize);
        let length = 1 + random.up_to(19);
        let train = trains.flat_map(|from| {
            (0..length).map(move |n| Send {
                at: at + n * gap,
                from,
                to,
                size: sizes[n as usize % 2],
            })
        });
        script.extend(train.filter(|send| send.from != send.to));
    }
    script.sort_by_key(|send| send.at);
    let mut hosts = Scripted::new(script, &mut network);
    if one_step {
        network.run(Time::MAX, &mut hosts);
    }
    while let Some(at) = network.next_event() {
        network.run(at, &mut hosts);
    }
    let mut arrivals: Vec<_> =
        hosts.arrivals.iter().map(|&(at, node, line)| (node, at, line)).collect();
    arrivals.sort_unstable();
    hosts.losses.sort_unstable();
    let counters = network.ports().map(|port| {
        let mut classes = Vec::new();
        network.queue(port).visit(&mut |_, counters, backlog| classes.push((*counters, backlog)));
        (network.link_counters(port), classes)
    });
    let counters = counters.collect();
    (arrivals, hosts.losses, counters, (network.packet_hops(), hosts.errors.len()))
}

#[test]
fn the_length_of_a_run_changes_nothing() {
    let mut arrivals = 0;
    for seed in 0..300 {
        let seen = run(seed, true);
        arrivals += seen.0.len();
        assert_eq!(seen, run(seed, false), "{seed}");
    }
    assert!(arrivals > 50_000, "{arrivals}");
}

/// Packets come to a router as one train, and are alike but for their time to live.
#[test]
fn a_time_to_live_ends_within_a_train() {
    let links = [[1, 0], [0, 2]].map(|ends| link(ends, wire(8_000_000, 4 * MILLISECOND)));
    let mut network = Network::new(&[Router, Host, Host], links.into(), 1).unwrap();
    let ttls = [9, 1, 9, 9, 2, 1, 0, 9, 1, 9];
    for (line, ttl) in (0..).zip(ttls) {
        let mut packet = packet(1, 2, 1000, line);
        packet.header.ttl = ttl;
        network.send(NodeId(1), packet);
    }
    let mut hosts = Taking::default();
    network.run(Time::MAX, &mut hosts);
    let arrived: Vec<_> =
        hosts.arrivals.iter().map(|(.., packet)| (packet.body, packet.header.ttl)).collect();
    assert_eq!(arrived, [(0, 8), (2, 8), (3, 8), (4, 1), (7, 8), (9, 8)]);
    assert_eq!(hosts.losses, [1, 5, 6, 8].map(|line| (line, Loss::Expired, None)));
}

/// A timer or a lost packet, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Timer(u32),
    Lost(Line),
}

/// Hosts that record the order in which the network tells of timers and losses, and when packets
/// were dropped by a queue, in milliseconds.
#[derive(Default)]
struct Listening(Vec<Told>, Vec<(Line, u64)>);

impl Hosts<Line> for Listening {
    fn receive(&mut self, _: &mut Network<Line>, _: NodeId, _: Packet<Line>) {}

    fn timer(&mut self, _: &mut Network<Line>, TimerId(timer): TimerId) {
        self.0.push(Told::Timer(timer));
    }

    fn lost(&mut self, packet: Packet<Line>, _: Loss, _: Option<PortId>) {
        self.0.push(Told::Lost(packet.body));
    }

    fn departed(&mut self, network: &mut Network<Line>, line: Line, _: u32) {
        self.1.push((line, network.now().as_picos() / MILLISECOND));
    }

    fn quote(&mut self, _: NodeId, _: &Packet<Line>, _: IcmpError) -> Option<(Line, u32)> {
        None
    }
}

/// Returns what is told if router 0 processes arrivals of so many milliseconds at once: packets
/// arrive there at 5 ms, 6 ms and so on to 14 ms, and are lost but for the first two. There is a
/// timer between any two of these instants.
fn told(ahead: u64) -> Vec<Told> {
    let mut found = Vec::new();
    let mut group = 0;
    for at in 5..15 {
        if at >= group + ahead.max(1) {
            group = at;
        }
        if at >= 7 {
            // Packets are told at the begin of their group.
            found.push((2 * group, at, Told::Lost(at as Line - 5)));
        }
        found.push((2 * at + 1, 0, Told::Timer(at as u32)));
    }
    found.sort_by_key(|(time, order, _)| (*time, *order));
    found.into_iter().map(|(.., told)| told).collect()
}

/// Link 0 leads from host 1 to the router in 4 ms, and link 1, with a short queue, to host 2.
/// Others lead to more hosts.
#[test]
fn a_router_runs_ahead_by_the_least_delay_of_its_links() {
    type Change = fn(&mut Network<Line>);
    type Case<'a> = (&'a str, &'a [u64], Box<dyn Fn(&mut Network<Line>) + 'a>, u64);
    let none: Change = |_| ();
    let set_delay: Change = |network| {
        network.run(Time::ZERO, &mut Listening::default());
        network.set_wire(back(2), wire(8_000_000, 2 * MILLISECOND));
    };
    let trace = |delay| {
        let delay = Some(Duration::from_picos(4 * MILLISECOND)).filter(|_| delay);
        let medium = delay.map(|_| TraceMedium { delay, ..TraceMedium::default() });
        let step = TraceStep { at: Duration::ZERO, rate: 8_000_000, medium };
        Trace::new(vec![step], None).unwrap()
    };
    let marker = || Marker::new::<Match>([]);
    let share: Change = |network| network.share(&[forth(2)], WIFI, Stream::new(1, "channel"));
    let traces = [trace(false), trace(true)];
    let cases: Vec<Case<'_>> = vec![
        ("two links", &[], Box::new(none), 4),
        ("a shorter link", &[2], Box::new(none), 2),
        ("a longer link", &[9], Box::new(none), 4),
        ("four links", &[4, 4], Box::new(none), 4),
        ("five links", &[4, 4, 4], Box::new(none), 0),
        ("a link that becomes shorter", &[9], Box::new(set_delay), 2),
        ("rates of a trace", &[], Box::new(|n| n.set_trace(forth(0), traces[0].clone())), 4),
        ("delays of a trace", &[], Box::new(|n| n.set_trace(forth(0), traces[1].clone())), 0),
        ("a marker", &[4], Box::new(|n| n.set_marker(back(2), marker())), 0),
        ("a watched interface", &[], Box::new(|n| n.watch(forth(1))), 0),
        ("a watched interface beside", &[4], Box::new(|n| n.watch(forth(2))), 0),
        ("an MTU beside", &[4], Box::new(|n| n.set_mtu(2, 2000)), 0),
        ("the interface of a host", &[], Box::new(|n| n.watch(back(1))), 4),
        ("a channel beside", &[4], Box::new(share), 0),
        ("an outage beside", &[4], Box::new(|n| n.set_up(2, false)), 4),
    ];
    for (name, more, change, ahead) in cases {
        let slow = link_with([0, 2], wire(800_000, 4 * MILLISECOND), || fifo(Limit::packets(1)));
        let mut links = vec![link([1, 0], wire(8_000_000, 4 * MILLISECOND)), slow];
        let others = more.iter().zip(3..);
        links.extend(others.map(|(delay, n)| link([0, n], wire(8_000_000, delay * MILLISECOND))));
        let nodes = [vec![Router], vec![Host; 2 + more.len()]].concat();
        let mut network = Network::new(&nodes, links, 1).unwrap();
        change(&mut network);
        for line in 0..10 {
            network.send(NodeId(1), packet(1, 2, 1000, line));
        }
        for at in 5..15 {
            let between = Time::from_picos(at * MILLISECOND + MILLISECOND / 2);
            network.set_timer(between, TimerId(at as u32));
        }
        let mut hosts = Listening::default();
        network.run(Time::MAX, &mut hosts);
        assert_eq!(hosts.0, told(ahead), "{name}");
        // Each with its instant.
        assert!(
            hosts.1.iter().copied().eq((2..10).map(|line| (line, 5 + u64::from(line)))),
            "{name}"
        );
    }
}
