//! Cost of a packet with few and with many classes: `cargo bench -p perhop-queue`.
//!
//! Classes match by port. Every class has two waiting packets on average; a packet arrives for each
//! that leaves, and the classes are served in a scattered order. `classes SHARING CLASSES PACKETS`
//! runs one case only, for a profiler that counts instructions.

use std::time::Instant;

use perhop_core::{
    AckHint, Bytes, Duration, Header, NodeId, Packet, Protocol, Rate, Time, TrafficClass,
};
use perhop_queue::{
    Class, ClassService, ClassSpec, Classes, Dequeue, Discipline, Fifo, Ledger, Limit, Match,
    MatchRules, Queue, Sharing, Weight,
};

const SHARINGS: [(&str, Sharing); 3] =
    [("wfq", Sharing::Wfq), ("drr", Sharing::Drr), ("link-sharing", Sharing::LinkShare)];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [sharing, classes, packets] = &arguments[..] {
        let sharing = SHARINGS.iter().find(|(name, _)| name == sharing).expect("a sharing").1;
        let sent =
            run(sharing, classes.parse().expect("a number"), packets.parse().expect("a number"));
        println!("{sent}");
        return;
    }
    println!("{:<24} {:>10} {:>10} {:>10}   ns a packet", "classes", 3, 64, 1000);
    for (name, sharing) in SHARINGS {
        let times = [3, 64, 1000].map(|classes| {
            let once = || {
                let began = Instant::now();
                assert!(run(sharing, classes, 1_000_000) > 0);
                began.elapsed().as_secs_f64() * 1e3
            };
            (0..3).map(|_| once()).min_by(f64::total_cmp).expect("three runs")
        });
        println!("{name:<24} {:>10.1} {:>10.1} {:>10.1}", times[0], times[1], times[2]);
    }
}

/// Sends `packets` packets; returns their bytes.
fn run(sharing: Sharing, classes: u16, packets: u64) -> u64 {
    let spec = |class: u16| ClassSpec {
        matches: match class + 1 == classes {
            true => MatchRules::default(),
            false => Match { destination_ports: vec![class..=class], ..Match::default() }.into(),
        },
        service: ClassService::Share(
            Weight::new(1_000_000 + u64::from(class) * 1_000).expect("not zero"),
            0,
        ),
        class: Class::new(Queue::Fifo(Fifo::new(Limit::packets(u64::MAX)))),
    };
    let mut root = Classes::sharing((0..classes).map(spec).collect(), sharing);
    let mut ledger = Ledger::new();
    let link = Rate::new(10_000_000_000).expect("not zero");
    let (mut now, mut sent) = (Time::ZERO, 0);
    let packet = |number: u64| Packet {
        header: Header {
            size: 1500,
            source: NodeId(0),
            destination: NodeId(1),
            source_port: 0,
            destination_port: (number * 7_919 % u64::from(classes)) as u16,
            protocol: Protocol::Udp.into(),
            ttl: Header::TTL,
            ack: AckHint::NONE,
            traffic_class: TrafficClass::default(),
        },
        body: 0_u32,
    };
    let waiting = 2 * u64::from(classes);
    for number in 0..waiting {
        root.enqueue(now, packet(number), &mut ledger);
    }
    for number in waiting..waiting + packets {
        if let Dequeue::Packet(packet) = root.dequeue(now, &mut ledger) {
            sent += packet.size().get();
        }
        now += Bytes::new(1500) / link;
        root.enqueue(now, packet(number), &mut ledger);
        now += Duration::from_picos(1);
    }
    sent
}
