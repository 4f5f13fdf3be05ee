use super::*;
use crate::lab::packet;

/// Five packets and one of 1001 bytes arrive at a queue of three packets, or of 1000 bytes: those
/// that wait, and those that are dropped, in order.
#[test]
fn full_queues_by_hand() {
    let (three, bytes) = (Limit::packets(3), Limit::bytes(Bytes::new(1000)));
    let table: [(Limit, Drop, &[u32], &[u32]); 6] = [
        (three, Drop::Tail, &[100, 200, 300], &[400, 500, 1001]),
        (three, Drop::Head, &[400, 500, 1001], &[100, 200, 300]),
        // 100 + 200 + 300 + 400 bytes fit; in place of the first three, 500 more.
        (bytes, Drop::Tail, &[100, 200, 300, 400], &[500, 1001]),
        (bytes, Drop::Head, &[400, 500], &[100, 200, 300, 1001]),
        (Limit::packets(0), Drop::Tail, &[], &[100, 200, 300, 400, 500, 1001]),
        (Limit::packets(0), Drop::Head, &[], &[100, 200, 300, 400, 500, 1001]),
    ];
    for (limit, drop, waiting, dropped) in table {
        for taken in [false, true] {
            let mut fifo = Fifo::of(FifoConfig { limit, drop });
            assert_eq!(fifo.departures_are_final(), drop == Drop::Tail);
            let mut ledger = Ledger::new();
            for size in [100, 200, 300, 400, 500, 1001] {
                fifo.enqueue(Time::ZERO, packet(size, 0), &mut ledger);
            }
            assert!(ledger.drops.iter().all(|drop| drop.cause == Cause::Limit));
            let sizes: Vec<u32> = ledger.drops.iter().map(|drop| drop.packet.header.size).collect();
            assert_eq!(sizes, dropped);
            let sizes: Vec<u32> = fifo.waiting().map(|packet| packet.header.size).collect();
            assert_eq!(sizes, waiting);
            let bytes = Bytes::new(waiting.iter().copied().map(u64::from).sum());
            assert_eq!(fifo.backlog(), Backlog { packets: waiting.len() as u64, bytes });
            if taken {
                assert_eq!(fifo.take().len(), waiting.len());
            } else {
                for size in waiting {
                    assert_eq!(fifo.head(Time::ZERO), Some(Bytes::new(u64::from(*size))));
                    let next = fifo.dequeue(Time::ZERO, &mut ledger);
                    assert_eq!(next, Dequeue::Packet(packet(*size, 0)));
                }
            }
            assert_eq!((fifo.head(Time::ZERO), fifo.backlog()), (None, Backlog::default()));
            assert_eq!(fifo.dequeue(Time::ZERO, &mut ledger), Dequeue::Idle);
            // An empty queue takes what its limit allows.
            let fits = |size: u32| limit.admits(Backlog::default(), Bytes::new(size.into()));
            for size in [1000, 1001] {
                let expected = if fits(size) { Pass::Send } else { Pass::Drop(Cause::Limit) };
                assert_eq!(fifo.pass(Time::ZERO, &packet(size, 0).header), expected);
            }
        }
    }
}
