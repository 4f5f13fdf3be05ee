use std::collections::VecDeque;

use perhop_core::{AckHint, NodeId, Protocol};
use proptest::prelude::*;

use super::*;
use crate::lab;

fn rate(bps: u64) -> Rate {
    Rate::new(bps).unwrap()
}

/// Below 3.6 Mb/s the target is one and a half frames: what tc prints for 1 Mb/s is 18.2 ms, with
/// an interval of 113.2 ms.
#[test]
fn times_adapt_to_low_rates() {
    let (target, rtt) = (Duration::from_millis(5), Duration::from_millis(100));
    let slow = Times::new(Some(rate(1_000_000)), target, rtt);
    assert_eq!(slow.target, Duration::from_micros(18_168));
    assert_eq!(slow.interval, Duration::from_micros(113_168));
    let fast = Times::new(Some(rate(100_000_000)), target, rtt);
    assert_eq!((fast.target, fast.interval), (target, rtt));
    // The interval is twice the target at least.
    let least = Times::new(Some(rate(64_000)), target, rtt);
    assert_eq!(least.interval, least.target * 2);
}

/// Lengths of the manual's keywords: `overhead 10 atm`, `overhead 38 mpu 84`, `overhead 30 ptm`.
#[test]
fn framing_counts_cells_and_least_lengths() {
    let of = |overhead, mpu, coding| {
        let framing = Framing { overhead, mpu, coding };
        [40, 1492, 1500].map(|size| framing.charge(Bytes::new(size)).get())
    };
    assert_eq!(of(0, 0, Coding::None), [40, 1492, 1500]);
    assert_eq!(of(38, 84, Coding::None), [84, 1530, 1538]);
    assert_eq!(of(10, 0, Coding::Atm), [2 * 53, 32 * 53, 32 * 53]);
    assert_eq!(of(40, 0, Coding::Atm), [2 * 53, 32 * 53, 33 * 53]);
    assert_eq!(of(30, 0, Coding::Ptm), [70 + 2, 1522 + 24, 1530 + 24]);
}

/// A cake of one tin, without a shaper, that signals nothing.
fn quiet() -> CakeConfig {
    CakeConfig {
        limit: Limit::packets(1000),
        bandwidth: None,
        framing: Framing::default(),
        diffserv: Diffserv::Besteffort,
        isolation: Isolation::Flows,
        rtt: Duration::from_secs(1000),
        target: Duration::from_secs(1000),
        ack_filter: AckFilter::Off,
        wash: false,
        ingress: false,
    }
}

fn micros(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

/// Returns a packet between two hosts; the body is its number.
fn packet(id: usize, [source, destination, port]: [u16; 3], size: u32) -> Packet<usize> {
    let mut header = lab::packet(size, 0).header;
    (header.source, header.destination) = (NodeId(source), NodeId(100 + destination));
    header.source_port = port;
    Packet { header, body: id }
}

/// Returns a packet of this code point; the body is that, too.
fn of_tin(name: &str, size: u32) -> Packet<&str> {
    let dscp = Dscp::named(name).unwrap();
    Packet { header: lab::packet(size, dscp.get()).header, body: name }
}

fn cake<B>(config: CakeConfig) -> Cake<B> {
    Cake::new(config, Stream::new(1, "cake"))
}

/// Flow queues served as the paper says: sparse flows first, each with a deficit, and the quantum
/// of a flow divided by the bulk flows of its busier host, which are counted anew each time.
#[derive(Default)]
struct Model {
    flows: Vec<ModelFlow>,
    sparse: VecDeque<usize>,
    bulk: VecDeque<usize>,
    by: [bool; 2],
}

struct ModelFlow {
    hosts: [u16; 2],
    /// Numbers and lengths.
    packets: VecDeque<(usize, i64)>,
    deficit: i64,
    is_bulk: bool,
    listed: bool,
}

impl Model {
    fn quantum(&self, flow: usize) -> i64 {
        let hosts = self.flows[flow].hosts;
        let busy = |end: usize| {
            let same = |other: &&ModelFlow| other.is_bulk && other.hosts[end] == hosts[end];
            if self.by[end] { self.flows.iter().filter(same).count() } else { 0 }
        };
        1514 * 65_536 / busy(0).max(busy(1)).max(1) as i64
    }

    fn push(&mut self, flow: usize, packet: (usize, i64)) {
        self.flows[flow].packets.push_back(packet);
        if !self.flows[flow].listed {
            self.flows[flow].listed = true;
            self.flows[flow].deficit = self.quantum(flow);
            self.sparse.push_back(flow);
        } else if !self.sparse.contains(&flow) {
            self.flows[flow].is_bulk = true;
        }
    }

    fn pop(&mut self) -> Option<usize> {
        // Nothing changes while no packet waits.
        self.flows.iter().find(|flow| !flow.packets.is_empty())?;
        loop {
            let (sparse, flow) = match (self.sparse.front(), self.bulk.front()) {
                (Some(flow), _) => (true, *flow),
                (None, Some(flow)) => (false, *flow),
                (None, None) => return None,
            };
            let list = if sparse { &mut self.sparse } else { &mut self.bulk };
            if self.flows[flow].deficit <= 0 {
                list.pop_front();
                self.bulk.push_back(flow);
                if sparse {
                    self.flows[flow].is_bulk = !self.flows[flow].packets.is_empty();
                }
                self.flows[flow].deficit += self.quantum(flow);
            } else if let Some((id, size)) = self.flows[flow].packets.pop_front() {
                self.flows[flow].deficit -= size * 65_536;
                return Some(id);
            } else {
                list.pop_front();
                (self.flows[flow].is_bulk, self.flows[flow].listed) = (false, false);
            }
        }
    }
}

fn isolation() -> impl Strategy<Value = (Isolation, [bool; 2])> {
    prop_oneof![
        Just((Isolation::Flows, [false, false])),
        Just((Isolation::DualSrchost, [true, false])),
        Just((Isolation::DualDsthost, [false, true])),
        Just((Isolation::TripleIsolate, [true, true])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..Default::default() })]

    /// Every packet leaves in the place that the model gives it, and its length is announced while
    /// quanta do not depend on other flows. Lengths of 757
    /// bytes use a quantum up to the byte. When too much waits, the first packet of a flow with the
    /// most bytes is dropped.
    #[test]
    fn flows_take_turns_as_in_the_model(
        (isolation, by) in isolation(),
        limit in prop_oneof![Just(1000_u64), 1_u64..40],
        steps in prop::collection::vec(
            (0_usize..9, prop_oneof![Just(757_u32), Just(1514), 40..1514_u32], 0_u8..3), 1..400,
        ),
    ) {
        let mut cake = cake(CakeConfig { isolation, limit: Limit::packets(limit), ..quiet() });
        let ends = |flow: usize| {
            [[0, 0, 0, 0, 1, 1, 2, 3, 1][flow], [0, 1, 2, 3, 0, 1, 1, 1, 1][flow]]
        };
        let flow = |flow| {
            let packets = VecDeque::new();
            ModelFlow { hosts: ends(flow), packets, deficit: 0, is_bulk: false, listed: false }
        };
        let mut model = Model { flows: (0..9).map(flow).collect(), by, ..Model::default() };
        let mut ledger = Ledger::new();
        let mut sizes = Vec::new();
        for (id, (flow, size, sends)) in steps.into_iter().enumerate() {
            let [source, destination] = ends(flow);
            sizes.push(size);
            let packet = packet(id, [source, destination, flow as u16], size);
            cake.enqueue(Time::ZERO, packet, &mut ledger);
            model.push(flow, (id, size.into()));
            for dropped in ledger.drops.drain(..) {
                prop_assert_eq!(dropped.cause, Cause::Limit);
                let bytes =
                    |flow: &ModelFlow| flow.packets.iter().map(|packet| packet.1).sum::<i64>();
                let most = model.flows.iter().map(bytes).max();
                let is_first = |flow: &&mut ModelFlow| {
                    flow.packets.front().is_some_and(|packet| packet.0 == dropped.packet.body)
                };
                let longest = model.flows.iter_mut().find(is_first).expect("the first of a flow");
                prop_assert_eq!(Some(bytes(longest)), most);
                longest.packets.pop_front();
            }
            // Both of a flow's ends, and the backlogs.
            let waiting = || model.flows.iter().flat_map(|flow| &flow.packets);
            let backlog = Backlog {
                packets: waiting().count() as u64,
                bytes: Bytes::new(waiting().map(|packet| packet.1 as u64).sum()),
            };
            prop_assert_eq!((cake.backlog(), cake.tins[0].backlog), (backlog, backlog));
            prop_assert!(backlog.packets <= limit);
            for _ in 0..sends {
                let head = cake.head(Time::ZERO);
                let next = cake.dequeue(Time::ZERO, &mut ledger);
                let expected = model.pop();
                prop_assert_eq!(head.is_some(), expected.is_some());
                if isolation == Isolation::Flows {
                    prop_assert_eq!(head, expected.map(|id| Bytes::new(sizes[id].into())));
                }
                match next {
                    Dequeue::Packet(sent) => prop_assert_eq!(Some(sent.body), expected),
                    _ => prop_assert_eq!(expected, None),
                }
                let bulk = model.flows.iter().filter(|flow| flow.is_bulk).count() as u64;
                prop_assert_eq!(cake.tins[0].bulk_flows(), bulk);
            }
        }
        let left = cake.backlog().packets as usize;
        let mut drained = Vec::new();
        cake.drain(&mut drained);
        prop_assert_eq!(drained.len(), left);
    }

    /// Acknowledgements of two connections and other packets in one queue: the first one goes that
    /// the last packet supersedes, if another follows that it supersedes; with `aggressive`, also
    /// if it is the last but one.
    #[test]
    fn acknowledgements_are_filtered_as_in_a_list(
        steps in prop::collection::vec((0_u16..2, 0_u32..3, 0_u8..10, any::<bool>()), 1..60),
        aggressive in any::<bool>(),
    ) {
        let ack_filter = if aggressive { AckFilter::Aggressive } else { AckFilter::On };
        let isolation = Isolation::Flowblind;
        let mut cake = cake(CakeConfig { isolation, ack_filter, ..quiet() });
        let (mut list, mut ledger) = (VecDeque::<Packet<usize>>::new(), Ledger::new());
        for (id, (port, number, kind, sends)) in steps.into_iter().enumerate() {
            let mut packet = packet(id, [0, 0, port], 52 + number);
            if kind > 1 {
                packet.header.protocol = Protocol::Tcp.into();
                packet.header.ack = AckHint::of(1448 * number, kind > 2);
            }
            let superseded = |other: &Packet<usize>| {
                let (one, last) = (other.header, packet.header);
                one.source_port == last.source_port
                    && one.ack.is_pure()
                    && one.ack.differs(last.ack)
            };
            let places: Vec<_> =
                (0..list.len()).filter(|place| superseded(&list[*place])).collect();
            let gone = match places[..] {
                [first, _, ..] => list.remove(first),
                [only] if aggressive && only + 1 == list.len() => list.remove(only),
                _ => None,
            };
            list.push_back(packet);
            cake.enqueue(Time::ZERO, packet, &mut ledger);
            let dropped: Vec<_> =
                ledger.drops.drain(..).map(|drop| (drop.packet, drop.cause)).collect();
            let expected: Vec<_> = gone.into_iter().map(|packet| (packet, Cause::Early)).collect();
            prop_assert_eq!(dropped, expected);
            let bytes = list.iter().map(Packet::size).sum();
            prop_assert_eq!(cake.backlog(), Backlog { packets: list.len() as u64, bytes });
            if sends {
                let next = cake.dequeue(Time::ZERO, &mut ledger);
                prop_assert_eq!(next, list.pop_front().map_or(Dequeue::Idle, Dequeue::Packet));
            }
        }
    }
}

/// Without a shaper, a tin sends until its deficit is negative, and gets its quantum (1024, 64 and
/// 256 bytes) when its turn ends and it has none left. Packets of 100 bytes: at first each sends
/// one. Then best effort has 924 bytes, voice 156, 212 and 168, bulk -36 and 28.
#[test]
fn tins_take_turns_by_hand() {
    let mut cake = cake(CakeConfig { diffserv: Diffserv::Diffserv3, ..quiet() });
    let mut ledger = Ledger::new();
    for _ in 0..50 {
        for tin in ["be", "cs1", "ef"] {
            cake.enqueue(Time::ZERO, of_tin(tin, 100), &mut ledger);
        }
    }
    let mut turns: Vec<(&str, u32)> = Vec::new();
    while turns.len() < 12 {
        assert_eq!(cake.head(Time::ZERO), Some(Bytes::new(100)));
        let Dequeue::Packet(sent) = cake.dequeue(Time::ZERO, &mut ledger) else { panic!() };
        match turns.last_mut() {
            Some((last, number)) if *last == sent.body => *number += 1,
            _ => turns.push((sent.body, 1)),
        }
    }
    let expected = [
        ("be", 1),
        ("cs1", 1),
        ("ef", 1),
        ("be", 10),
        ("ef", 2),
        ("be", 10),
        ("cs1", 1),
        ("ef", 3),
        ("be", 10),
        ("ef", 2),
    ];
    assert_eq!(turns[..10], expected);
}

/// A packet of 1000 bytes takes a millisecond at 8 Mb/s. Voice is below its threshold of 2 Mb/s
/// every 4 ms, bulk every 16 ms, and of several tins below theirs, the last is first; best effort
/// has the rest. From 20 ms on, voice has nothing left.
#[test]
fn tins_below_their_thresholds_precede_others_by_hand() {
    let bandwidth = Some(rate(8_000_000));
    let mut cake = cake(CakeConfig { diffserv: Diffserv::Diffserv3, bandwidth, ..quiet() });
    let mut ledger = Ledger::new();
    for (tin, number) in [("be", 40), ("cs1", 3), ("ef", 5)] {
        for _ in 0..number {
            cake.enqueue(micros(0), of_tin(tin, 1000), &mut ledger);
        }
    }
    for millis in 0..40 {
        let expected = match millis {
            0 | 4 | 8 | 12 | 16 => "ef",
            1 | 17 | 32 => "cs1",
            _ => "be",
        };
        let at = micros(1000 * millis);
        assert_eq!(cake.head(at), Some(Bytes::new(1000)));
        let next = cake.dequeue(at, &mut ledger);
        assert!(
            matches!(next, Dequeue::Packet(sent) if sent.body == expected),
            "{millis}: {next:?}"
        );
        let due = micros(1000 * (millis + 1));
        assert_eq!(cake.dequeue(at, &mut ledger), Dequeue::NotBefore(due));
    }
    // The shaper, which has sent until 40 ms, catches up at 50 ms with eleven packets; a tin does
    // not: voice may send one before the eight of best effort that are left.
    for _ in 0..6 {
        cake.enqueue(micros(50_000), of_tin("ef", 1000), &mut ledger);
    }
    let (mut order, mut now) = (Vec::new(), micros(50_000));
    loop {
        match cake.dequeue(now, &mut ledger) {
            Dequeue::Packet(sent) => order.push((now, sent.body)),
            Dequeue::NotBefore(at) => now = at,
            Dequeue::Idle => break,
        }
    }
    let tins = ["ef"].into_iter().chain(["be"; 8]).chain(["ef"; 5]);
    let times = [50_000; 11].into_iter().chain([51_000, 52_000, 53_000]).map(micros);
    assert_eq!(order, times.zip(tins).collect::<Vec<_>>());
}

/// The limit is two packets, and a third one drops the first: with `ingress` it counts for the
/// shaper, which lets pass two thirds of its rate all the same. After an idle time, the shaper
/// begins anew; before its next packet is due, it does not.
#[test]
fn dropped_packets_count_for_ingress_by_hand() {
    for (ingress, due) in [(false, [1000, 2000]), (true, [1500, 3000])] {
        for start in [0, 10_000] {
            let limit = Limit::packets(2);
            let bandwidth = Some(rate(8_000_000));
            let mut cake = cake(CakeConfig { limit, bandwidth, ingress, ..quiet() });
            let mut ledger = Ledger::new();
            for at in [start, start + 5000] {
                for id in 0..3 {
                    cake.enqueue(micros(at), packet(id, [0, 0, 0], 1000), &mut ledger);
                }
                let dropped: Vec<_> = ledger.drops.drain(..).map(|drop| drop.packet.body).collect();
                assert_eq!(dropped, [0]);
                assert_eq!(cake.tins[0].counters.dropped(Cause::Limit), 1 + u64::from(at > start));
                let mut now = micros(at);
                for id in [1, 2] {
                    let next = cake.dequeue(now, &mut ledger);
                    assert!(matches!(next, Dequeue::Packet(sent) if sent.body == id), "{next:?}");
                    now = micros(at + due[id - 1]);
                    // Another packet may not be sent sooner because the queue was empty.
                    let early = micros(if id == 1 { at } else { at + 1600 });
                    if id == 2 {
                        cake.enqueue(early, packet(3, [0, 0, 0], 1000), &mut ledger);
                    }
                    let next = cake.dequeue(early, &mut ledger);
                    assert_eq!(next, Dequeue::NotBefore(now));
                }
                let next = cake.dequeue(now, &mut ledger);
                assert!(matches!(next, Dequeue::Packet(sent) if sent.body == 3), "{next:?}");
                assert_eq!(cake.dequeue(now, &mut ledger), Dequeue::Idle);
            }
        }
    }
}

/// More flows of a host than there are queues: all queues are in use, and share its quantum. No
/// packet is lost.
#[test]
fn more_flows_than_queues() {
    let isolation = Isolation::DualSrchost;
    let mut cake = cake(CakeConfig { isolation, limit: Limit::packets(40_000), ..quiet() });
    let mut ledger = Ledger::new();
    for id in 0..40_000 {
        cake.enqueue(Time::ZERO, packet(id, [1, 0, (id % 10_000) as u16], 1500), &mut ledger);
    }
    let mut last = vec![None; 10_000];
    while cake.tins[0].bulk_flows() < 1024 {
        let Dequeue::Packet(sent) = cake.dequeue(Time::ZERO, &mut ledger) else { panic!() };
        let last = &mut last[sent.body % 10_000];
        assert!(*last < Some(sent.body));
        *last = Some(sent.body);
    }
    let mut left = Vec::new();
    let waiting = cake.backlog().packets as usize;
    cake.drain(&mut left);
    // Of each of 1024 queues two packets, before it is a bulk flow, and the first of a bulk flow.
    assert_eq!((waiting, left.len()), (40_000 - 2049, waiting));
}

/// A flow takes the queue of its hash or the next free one of the eight in its set. When these are
/// used up, it shares the queue of its hash, whose packets leave one after the other.
#[test]
fn a_ninth_flow_of_a_set_shares_a_queue() {
    for set in 0..20 {
        let mut cake = cake(quiet());
        let of = |port: &u16| {
            let header = packet(0, [0, 0, *port], 700).header;
            ((u128::from(header.flow_hash(cake.perturbation)) * 1024) >> 64) as usize
        };
        let flows: Vec<u16> = (0..).filter(|port| of(port) / 8 == set).take(9).collect();
        let mut ways: [Option<usize>; 8] = [None; 8];
        let mut order: Vec<usize> = (0..8).collect();
        for (id, flow) in flows.iter().enumerate() {
            let own = of(flow) % 8;
            match (0..8).map(|step| (own + step) % 8).find(|way| ways[*way].is_none()) {
                Some(way) => ways[way] = Some(id),
                None => order.insert(ways[own].unwrap() + 1, id),
            }
        }
        let mut ledger = Ledger::new();
        for (id, flow) in flows.iter().enumerate() {
            cake.enqueue(Time::ZERO, packet(id, [0, 0, *flow], 700), &mut ledger);
        }
        let sent: Vec<usize> = (0..9)
            .map(|_| match cake.dequeue(Time::ZERO, &mut ledger) {
                Dequeue::Packet(sent) => sent.body,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(sent, order, "set {set}");
    }
}

/// The queue with the most bytes drops its first packet, which may be the one that has just come:
/// of 500, 400 and 601 bytes, 500, 400 and 300, and 100, 400 and 600. What would not fit into an
/// empty queue is dropped itself.
#[test]
fn the_longest_queue_drops_by_hand() {
    let limit = Limit::bytes(Bytes::new(1000));
    let mut cake = cake(CakeConfig { limit, ..quiet() });
    let mut ledger = Ledger::new();
    let packets = [(1, 400), (1, 100), (2, 300), (2, 100), (3, 601), (3, 300), (3, 300), (1, 1001)];
    for (id, (flow, size)) in packets.into_iter().enumerate() {
        cake.enqueue(Time::ZERO, packet(id, [0, 0, flow], size), &mut ledger);
    }
    let dropped: Vec<usize> = ledger.drops.iter().map(|drop| drop.packet.body).collect();
    assert_eq!(dropped, [4, 0, 5, 7]);
    assert!(ledger.drops.iter().all(|drop| drop.cause == Cause::Limit));
    assert_eq!(cake.tins[0].counters.dropped(Cause::Limit), 4);
    assert_eq!(cake.backlog(), Backlog { packets: 4, bytes: Bytes::new(800) });
}
