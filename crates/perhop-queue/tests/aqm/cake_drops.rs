//! What CAKE drops when packets are to be sent, by hand.

use perhop_core::{Bytes, Duration, Ecn, Rate, Time};
use perhop_queue::{
    AckFilter, Cake, CakeConfig, Cause, Coding, Dequeue, Diffserv, Discipline, Framing, Isolation,
    Ledger, Limit,
};

use crate::lab::*;

fn config(bandwidth: u64) -> CakeConfig {
    CakeConfig {
        limit: Limit::bytes(Bytes::new(4 << 20)),
        bandwidth: Rate::new(bandwidth),
        framing: Framing { overhead: 0, mpu: 0, coding: Coding::None },
        diffserv: Diffserv::Besteffort,
        isolation: Isolation::Flows,
        rtt: Duration::from_millis(100),
        target: Duration::from_millis(5),
        ack_filter: AckFilter::Off,
        wash: false,
        ingress: false,
    }
}

/// The first packet is above the target at 10 ms, so that a signal is due at 110 ms and, by the
/// root of two, at 180.7 ms. At 200 ms the next packet is dropped if another one is behind it, and
/// the last one is sent in any case. With ECN, each signal marks a packet.
#[test]
fn the_last_packet_of_a_queue_is_never_dropped() {
    for (ecn, packets, sent_ids, dropped_ids, marks) in [
        (Ecn::NotEct, 2, &[0, 1][..], &[][..], 0),
        (Ecn::NotEct, 3, &[0, 2], &[1], 0),
        (Ecn::NotEct, 4, &[0, 3], &[1, 2], 0),
        (Ecn::Ect0, 2, &[0, 1], &[], 1),
        (Ecn::Ect0, 4, &[0, 1, 2, 3], &[], 2),
    ] {
        let mut cake = Cake::new(config(0), random(1));
        let mut ledger = Ledger::new();
        for id in 0..packets {
            cake.enqueue(Time::ZERO, packet(id, 1, 1000, ecn), &mut ledger);
        }
        let mut sent = Vec::new();
        for now in [10, 200, 200, 200, 200] {
            if let Dequeue::Packet(packet) = cake.dequeue(millis(now), &mut ledger) {
                sent.push(packet.body);
            }
        }
        assert_eq!(sent, sent_ids, "{ecn:?} {packets}");
        let dropped: Vec<Id> = ledger.drops.iter().map(|drop| drop.packet.body).collect();
        assert!(ledger.drops.iter().all(|drop| drop.cause == Cause::Early));
        assert_eq!((dropped, ledger.marks), (dropped_ids.to_vec(), marks), "{ecn:?} {packets}");
        assert_eq!(cake.backlog().packets, 0);
    }
}

/// At 8 Mb/s a packet of 1000 bytes takes a millisecond, and a frame 1.514. Packets that all come
/// at the beginning have waited for four frames from the seventh millisecond on: with a round trip
/// of 20 ms, which rises to 22.27 as the target rises from 1 µs to 2.271 ms, the first signal is
/// due at 29.27 ms. The packet of 30 ms is dropped, and the next one sent in its place. With
/// `ingress`, the one that was dropped has taken its millisecond, too.
#[test]
fn packets_dropped_early_count_for_ingress() {
    for (ingress, later) in [(false, 31), (true, 32)] {
        let config = CakeConfig {
            rtt: Duration::from_millis(20),
            target: Duration::from_micros(1),
            ingress,
            ..config(8_000_000)
        };
        let mut cake = Cake::new(config, random(1));
        let mut ledger = Ledger::new();
        for id in 0..60 {
            cake.enqueue(Time::ZERO, packet(id, 1, 1000, Ecn::NotEct), &mut ledger);
        }
        let (mut now, mut sent) = (Time::ZERO, Vec::new());
        while sent.len() < 36 {
            match cake.dequeue(now, &mut ledger) {
                Dequeue::Packet(packet) => sent.push((packet.body as u64, now)),
                Dequeue::NotBefore(at) => now = at,
                Dequeue::Idle => panic!("idle with a backlog"),
            }
        }
        let expected = (0..30).map(|id| (id, id)).chain([(31, 30)]);
        let expected = expected.chain((32..37).map(|id| (id, later + id - 32)));
        let expected: Vec<_> = expected.map(|(id, at)| (id, millis(at))).collect();
        assert_eq!(sent, expected);
        assert_eq!(ledger.drops.iter().map(|drop| drop.packet.body).collect::<Vec<_>>(), [30]);
    }
}
