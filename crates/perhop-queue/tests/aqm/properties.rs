//! Properties of every discipline: a link in virtual time drives it with random packets, and each
//! property is checked on the record.

use perhop_core::{Bytes, Duration, Ecn, Packet, Rate, Time};
use perhop_queue::{
    AckFilter, Cake, CakeConfig, Class, ClassService, ClassSpec, Classes, Codel, CodelConfig,
    Coding, Dequeue, Diffserv, Discipline, Drop, DualPi2, DualPi2Config, Fifo, FqCodel,
    FqCodelConfig, FqPie, FqPieConfig, Framing, Isolation, Ledger, Limit, Match, MatchRules,
    Measure, Pass, Pie, PieConfig, Queue, Red, RedConfig, RedProfile, Sfq, SfqConfig,
    StandingBacklog, Weight,
};
use proptest::prelude::*;

use crate::lab::*;

#[derive(Clone, Copy, Debug)]
struct Arrival {
    gap: u64,
    flow: u16,
    size: u32,
    ecn: Ecn,
}

prop_compose! {
    fn arrival()(
        gap in prop_oneof![3 => Just(0_u64), 3 => 0_u64..200, 1 => 0_u64..20_000],
        flow in 0_u16..5,
        size in prop_oneof![Just(40_u32), Just(1500), 40_u32..1500],
        ecn in prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)],
    ) -> Arrival {
        Arrival { gap, flow, size, ecn }
    }
}

/// Every discipline, with times short enough for all its mechanisms to act.
fn queues(limit: Limit) -> [Queue<Id>; 14] {
    let codel = CodelConfig {
        limit,
        target: Duration::from_micros(200),
        interval: Duration::from_millis(1),
        ecn: true,
    };
    let red = RedConfig {
        limit,
        measure: Measure::Packets,
        weight: 0.1,
        packet_time: Duration::from_micros(120),
        gentle: true,
        ecn: true,
        harddrop: true,
    };
    let bytes =
        RedConfig { measure: Measure::Bytes { mean: 1000 }, gentle: false, harddrop: false, ..red };
    let profiles = [RedProfile { min: 2.0, max: 6.0, probability: 0.3 }];
    let long = [RedProfile { min: 2_000.0, max: 9_000.0, probability: 0.3 }];
    let pie = PieConfig {
        limit,
        target: Duration::from_micros(300),
        update: Duration::from_micros(300),
        alpha: 12.5,
        beta: 125.0,
        burst: Duration::from_millis(1),
        ecn: true,
    };
    let dual = DualPi2Config {
        limit,
        target: Duration::from_micros(300),
        max_rtt: Duration::from_millis(2),
        coupling: 2,
        threshold: Duration::from_micros(100),
        range: Duration::from_micros(100),
        classic_share_ppb: 100_000_000,
    };
    let few = FqCodelConfig { codel, flows: 3, quantum: 300, standing: StandingBacklog::Flow };
    let many = FqCodelConfig { codel, flows: 1024, quantum: 1514, standing: StandingBacklog::All };
    let fq_pie = FqPieConfig { pie, flows: 3, quantum: 300 };
    let sfq = SfqConfig {
        limit,
        depth: 20,
        flows: 4,
        divisor: 8,
        quantum: 1514,
        perturb: Duration::from_millis(2),
        drop: Drop::Tail,
    };
    let head = SfqConfig { depth: 1000, quantum: 100, drop: Drop::Head, ..sfq };
    let cake = CakeConfig {
        limit,
        bandwidth: None,
        framing: Framing { overhead: 44, mpu: 84, coding: Coding::Ptm },
        diffserv: Diffserv::Diffserv4,
        isolation: Isolation::TripleIsolate,
        rtt: Duration::from_millis(1),
        target: Duration::from_micros(200),
        ack_filter: AckFilter::On,
        wash: false,
        ingress: false,
    };
    let blind = CakeConfig { isolation: Isolation::Flowblind, ..cake };
    [
        Queue::Fifo(Fifo::new(limit)),
        Queue::Fifo(Fifo::new(limit).dropping_at_head()),
        Queue::Red(Box::new(Red::new(red, &profiles, [0; 64], random(1)))),
        Queue::Red(Box::new(Red::new(bytes, &long, [0; 64], random(1)))),
        Queue::Codel(Box::new(Codel::new(codel))),
        Queue::FqCodel(Box::new(FqCodel::new(few, &mut random(1)))),
        Queue::FqCodel(Box::new(FqCodel::new(many, &mut random(1)))),
        Queue::Pie(Box::new(Pie::new(pie, random(1)))),
        Queue::DualPi2(Box::new(DualPi2::new(dual))),
        Queue::FqPie(Box::new(FqPie::new(fq_pie, random(1)))),
        Queue::Sfq(Box::new(Sfq::new(sfq, random(1)))),
        Queue::Sfq(Box::new(Sfq::new(head, random(1)))),
        Queue::Cake(Box::new(Cake::new(cake, random(1)))),
        Queue::Cake(Box::new(Cake::new(blind, random(1)))),
    ]
}

/// Record of a run.
#[derive(Debug, Default, PartialEq)]
struct Record {
    /// Packets sent, with the begin of their transmission.
    sent: Vec<(Time, Packet<Id>)>,
    dropped: Vec<Id>,
    marks: u64,
}

/// Sends arrivals through a link of 100 Mb/s, and checks the counters at each step.
fn run(queue: &mut Class<Id>, arrivals: &[Arrival], limits: (u64, u64)) -> Record {
    let rate = Rate::new(100_000_000).unwrap();
    let mut record = Record::default();
    let (mut packets, mut bytes) = (0, Bytes::ZERO);
    let (mut now, mut free) = (Time::ZERO, Time::ZERO);
    for id in 0..=arrivals.len() {
        let arrival = arrivals.get(id);
        let until = arrival.map_or(Time::MAX, |arrival| now + Duration::from_micros(arrival.gap));
        // Transmissions that may begin before the arrival or with it.
        while packets > 0 && free <= until {
            let at = free.max(now);
            let mut ledger = Ledger::new();
            assert!(queue.head(at).is_some());
            let next = queue.dequeue(at, &mut ledger);
            record.marks += ledger.marks;
            for dropped in ledger.drops {
                packets -= 1;
                bytes -= dropped.packet.size();
                record.dropped.push(dropped.packet.body);
            }
            match next {
                Dequeue::Packet(packet) => {
                    packets -= 1;
                    bytes -= packet.size();
                    free = at + packet.size() / rate;
                    record.sent.push((at, packet));
                }
                Dequeue::Idle => assert_eq!(packets, 0, "idle with a backlog"),
                Dequeue::NotBefore(_) => panic!("these never wait"),
            }
            assert_eq!((queue.backlog().packets, queue.backlog().bytes), (packets, bytes));
        }
        let Some(arrival) = arrival else { break };
        now = until;
        let packet = packet(id, arrival.flow, arrival.size, arrival.ecn);
        if packets == 0 && free <= now {
            match queue.pass(now, &packet.header) {
                Pass::Send => {
                    free = now + packet.size() / rate;
                    record.sent.push((now, packet));
                    continue;
                }
                Pass::Drop(_) => {
                    record.dropped.push(id);
                    continue;
                }
                Pass::Enqueue => free = now,
            }
        }
        let mut ledger = Ledger::new();
        queue.enqueue(now, packet, &mut ledger);
        packets += 1;
        bytes += packet.size();
        record.marks += ledger.marks;
        for dropped in ledger.drops {
            packets -= 1;
            bytes -= dropped.packet.size();
            record.dropped.push(dropped.packet.body);
        }
        assert_eq!((queue.backlog().packets, queue.backlog().bytes), (packets, bytes));
        assert!(packets <= limits.0 && bytes.get() <= limits.1, "beyond the limit");
    }
    record
}

fn limits() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        (1_u64..60).prop_map(|packets| (packets, u64::MAX)),
        (1_u64..60_000).prop_map(|bytes| (u64::MAX, bytes)),
    ]
}

fn limit((packets, bytes): (u64, u64)) -> Limit {
    if packets == u64::MAX { Limit::bytes(Bytes::new(bytes)) } else { Limit::packets(packets) }
}

fn check(
    queue: Queue<Id>,
    arrivals: &[Arrival],
    limits: (u64, u64),
) -> Result<Record, TestCaseError> {
    let name = format!("{queue:.0?}");
    let name = &name[..name.len().min(20)];
    let mut class = Class::new(queue);
    let record = run(&mut class, arrivals, limits);
    // Conservation: each is sent or dropped, once.
    let mut fates: Vec<Id> = record.sent.iter().map(|(_, packet)| packet.body).collect();
    fates.extend(&record.dropped);
    fates.sort_unstable();
    prop_assert_eq!(&fates, &(0..arrivals.len()).collect::<Vec<_>>(), "{}", name);
    // Order: no flow's packets of a kind overtake each other; L4S and Classic ones may overtake
    // each other.
    for flow in 0..5 {
        for l4s in [false, true] {
            let of_kind = record.sent.iter().map(|(_, packet)| packet.body).filter(|id| {
                let Arrival { flow: of, ecn, .. } = arrivals[*id];
                of == flow && matches!(ecn, Ecn::Ect1 | Ecn::Ce) == l4s
            });
            prop_assert!(of_kind.is_sorted(), "{} reordered flow {}", name, flow);
        }
    }
    // Marks: each is counted once, only ECN-capable packets have them, and nothing else changes.
    let mut marks = 0;
    for (_, packet) in &record.sent {
        let before = arrivals[packet.body].ecn;
        if packet.header.ecn() != before {
            prop_assert!(before.is_capable() && packet.header.ecn() == Ecn::Ce);
            marks += 1;
        }
        prop_assert_eq!(packet.header.size, arrivals[packet.body].size);
    }
    prop_assert!(marks <= record.marks);
    let counters = class.counters();
    prop_assert_eq!(counters.sent.packets as usize, record.sent.len());
    prop_assert_eq!(counters.dropped_total() as usize, record.dropped.len());
    prop_assert_eq!(counters.marked, record.marks);
    Ok(record)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200, failure_persistence: None, ..Default::default()
    })]

    /// Every discipline, alone on a link.
    #[test]
    fn disciplines_keep_their_promises(
        arrivals in prop::collection::vec(arrival(), 1..300), bounds in limits(),
    ) {
        for index in 0..queues(limit(bounds)).len() {
            let queue = || queues(limit(bounds)).into_iter().nth(index).unwrap();
            let record = check(queue(), &arrivals, bounds)?;
            // A repetition has the same result.
            prop_assert_eq!(record, check(queue(), &arrivals, bounds)?);
        }
    }

    /// Every discipline in one of several classes, one class per flow.
    #[test]
    fn disciplines_keep_them_in_classes(
        arrivals in prop::collection::vec(arrival(), 1..300), bounds in limits(),
        strict in 0_usize..14,
    ) {
        let specs = queues(limit(bounds)).into_iter().enumerate().map(|(index, queue)| ClassSpec {
            matches: if index < 13 {
                let port = (index % 5) as u16;
                Match { source_ports: vec![port..=port], ..Match::default() }.into()
            } else {
                MatchRules::default()
            },
            service: if index == strict {
                ClassService::Strict
            } else {
                ClassService::Share(Weight::new(1 + index as u64).unwrap(), 0)
            },
            class: Class::new(queue),
        });
        let classes = Queue::Classes(Box::new(Classes::new(specs.collect())));
        check(classes, &arrivals, (u64::MAX, u64::MAX))?;
    }
}
