//! A tree before a wire.

use perhop_core::{Bytes, Dscp, Duration, Packet, Rate, Time};
use perhop_queue::{
    Cbq, CbqClassKind, CbqConfig, CbqSpec, Class, Dequeue, Discipline, Fifo, Ledger, Limit, Match,
    Queue,
};

use crate::packets;

pub const MEGABIT: u64 = 1_000_000;

pub fn rate(bps: u64) -> Rate {
    Rate::new(bps).unwrap()
}

/// FreeBSD's usual settings.
pub fn config(root: u64) -> CbqConfig {
    CbqConfig {
        rate: rate(root),
        tick: Duration::from_millis(10),
        packet: Bytes::new(1500),
        maxburst: None,
        minburst: 2,
        token_bucket: true,
        efficient: false,
        kick: true,
    }
}

/// Returns a leaf that takes packets with this DSCP.
pub fn leaf(dscp: u8, bps: u64, borrow: bool, limit: u64) -> CbqSpec<u64> {
    let queue = Queue::Fifo(Fifo::new(Limit::packets(limit)).dropping_at_head());
    CbqSpec {
        matches: Match { dscps: vec![Dscp::new(dscp).unwrap()], ..Match::default() }.into(),
        rate: rate(bps),
        borrow,
        kind: CbqClassKind::Leaf(Class::new(queue), 0),
    }
}

pub fn packet(dscp: u8, size: u32, number: u64) -> Packet<u64> {
    Packet { header: packets::packet(size, dscp).header, body: number }
}

/// A transmission: its begin, DSCP, bytes and packet number.
pub type Sent = (Time, u8, u64, u64);

/// Offers `arrivals` in order and sends into a wire of this rate until `end`.
pub fn run(
    cbq: &mut Cbq<u64>,
    arrivals: &[(Time, Packet<u64>)],
    wire: u64,
    end: Time,
) -> (Vec<Sent>, u64) {
    let wire = rate(wire);
    let (mut sent, mut dropped) = (Vec::new(), 0);
    let mut ledger = Ledger::new();
    let mut arrivals = arrivals.iter().peekable();
    let (mut busy, mut ask) = (Time::ZERO, Time::MAX);
    let mut waiting = 0_u64;
    loop {
        let next = arrivals.peek().map_or(Time::MAX, |(at, _)| *at);
        let now = next.min(ask);
        if now >= end {
            return (sent, dropped);
        }
        if next <= ask {
            let (_, packet) = arrivals.next().unwrap();
            cbq.enqueue(now, *packet, &mut ledger);
            waiting += 1;
            ask = ask.min(busy.max(now));
        } else {
            ask = Time::MAX;
            match cbq.dequeue(now, &mut ledger) {
                Dequeue::Packet(packet) => {
                    waiting -= 1;
                    busy = now + packet.size() / wire;
                    let dscp = packet.header.dscp().get();
                    sent.push((now, dscp, packet.size().get(), packet.body));
                    if waiting > 0 {
                        ask = busy;
                    }
                }
                Dequeue::NotBefore(at) => {
                    assert!(at > now && waiting > ledger.drops.len() as u64);
                    ask = at;
                }
                Dequeue::Idle => {}
            }
        }
        waiting -= ledger.drops.len() as u64;
        dropped += ledger.drops.len() as u64;
        ledger.drops.clear();
        assert_eq!(cbq.backlog().packets, waiting);
    }
}

/// Returns the rate of each DSCP, in bits per second, from one second to six, with queues that
/// never become empty and no new arrivals.
pub fn drain(config: CbqConfig, classes: Vec<CbqSpec<u64>>, size: u32, wire: u64) -> Vec<f64> {
    let dscps = classes.len() as u8;
    let mut cbq = Cbq::new(config, classes);
    let (begin, end) = (Time::ZERO + Duration::from_secs(1), Time::ZERO + Duration::from_secs(6));
    let enough = 6 * wire / 8 / u64::from(size) + 10;
    let arrivals: Vec<_> = (0..enough)
        .flat_map(|number| (0..dscps).map(move |dscp| (Time::ZERO, packet(dscp, size, number))))
        .collect();
    let (sent, dropped) = run(&mut cbq, &arrivals, wire, end);
    assert_eq!(dropped, 0);
    let of = |dscp| {
        let sent = sent.iter().filter(|sent| sent.1 == dscp && sent.0 >= begin);
        sent.map(|sent| sent.2 as f64).sum::<f64>() * 8.0 / 5.0
    };
    (0..dscps).map(of).collect()
}
