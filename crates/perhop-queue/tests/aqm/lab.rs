//! Packets and single queues for tests.

use perhop_core::{
    AckHint, Dscp, Duration, Ecn, Header, NodeId, Packet, Protocol, Stream, Time, TrafficClass,
};
use perhop_queue::{Cause, Dequeue, Discipline, Dropped, Ledger};

/// A packet's body: its number.
pub type Id = usize;

/// Returns a packet of a flow; the source port is the flow's number.
pub fn packet(id: Id, flow: u16, size: u32, ecn: Ecn) -> Packet<Id> {
    let header = Header {
        size,
        source: NodeId(0),
        destination: NodeId(1),
        source_port: flow,
        destination_port: 5001,
        protocol: Protocol::Udp.into(),
        traffic_class: TrafficClass::default().with_ecn(ecn),
        ttl: Header::TTL,
        ack: AckHint::NONE,
    };
    Packet { header, body: id }
}

pub fn with_dscp(mut packet: Packet<Id>, dscp: u8) -> Packet<Id> {
    let class = packet.header.traffic_class;
    packet.header.traffic_class = class.with_dscp(Dscp::new(dscp).unwrap());
    packet
}

pub fn micros(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

pub fn millis(millis: u64) -> Time {
    micros(1_000 * millis)
}

pub fn random(seed: u64) -> Stream {
    Stream::new(seed, "queue")
}

/// Offers a packet; returns the drops and the number of marks.
pub fn offer(
    queue: &mut impl Discipline<Id>,
    now: Time,
    packet: Packet<Id>,
) -> (Vec<Dropped<Id>>, u64) {
    let mut ledger = Ledger::new();
    queue.enqueue(now, packet, &mut ledger);
    (ledger.drops, ledger.marks)
}

/// Returns `true` if an arrival was dropped before the queue was full; no other packet may be.
pub fn dropped_early(queue: &mut impl Discipline<Id>, now: Time, packet: Packet<Id>) -> bool {
    let (drops, _) = offer(queue, now, packet);
    assert!(drops.iter().all(|drop| drop.packet.body == packet.body && drop.cause == Cause::Early));
    !drops.is_empty()
}

/// Returns the packet that a queue sends, and those that it drops meanwhile.
pub fn next(queue: &mut impl Discipline<Id>, now: Time) -> (Option<Packet<Id>>, Vec<Id>) {
    let mut ledger = Ledger::new();
    let sent = match queue.dequeue(now, &mut ledger) {
        Dequeue::Packet(packet) => Some(packet),
        Dequeue::NotBefore(at) => panic!("nothing before {at:?}"),
        Dequeue::Idle => None,
    };
    assert!(ledger.drops.iter().all(|drop| drop.cause == Cause::Early));
    (sent, ledger.drops.iter().map(|drop| drop.packet.body).collect())
}

pub fn assert_close(actual: f64, expected: f64) {
    let scale = expected.abs().max(1e-9);
    assert!((actual - expected).abs() <= 1e-9 * scale, "{actual}, not {expected}");
}

/// Checks that flows with packets of different lengths get equal bytes, all within a millisecond:
/// at any time two backlogged flows differ by less than a quantum and a packet each (Shreedhar and
/// Varghese, 1995).
pub fn check_equal_bytes(mut queue: impl Discipline<Id>, quantum: i64) {
    let sizes = [1500_u32, 300, 64, 777];
    let mut id = 0;
    for (flow, size) in sizes.iter().enumerate() {
        for _ in 0..200_000 / size {
            let packet = packet(id, flow as u16, *size, Ecn::NotEct);
            assert!(offer(&mut queue, millis(0), packet).0.is_empty());
            id += 1;
        }
    }
    let mut sent = [0_i64; 4];
    while sent.iter().all(|bytes| *bytes < 190_000) {
        let head = queue.head(millis(1));
        let (Some(packet), _) = next(&mut queue, millis(1)) else { panic!("idle") };
        assert_eq!(head, Some(packet.size()));
        sent[usize::from(packet.header.source_port)] += i64::from(packet.header.size);
        for (a, size_a) in sent.iter().zip(sizes) {
            for (b, size_b) in sent.iter().zip(sizes) {
                assert!(a - b <= quantum + i64::from(size_a + size_b), "{sent:?}");
            }
        }
    }
}
