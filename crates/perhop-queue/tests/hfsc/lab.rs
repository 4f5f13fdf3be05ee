//! A tree before a link.

use perhop_core::{Dscp, Duration, Packet, Rate, Time};
use perhop_queue::{
    Class, Dequeue, Discipline, Fifo, Hfsc, HfscClassKind, HfscCurves, HfscSpec, Ledger, Limit,
    Match, MatchRules, Queue, ServiceCurve,
};

use crate::packets;

/// Rate of the link in bit/s.
pub const LINK: u64 = 10_000_000;

/// Returns a curve of two slopes; `d` is in microseconds.
pub fn curve(m1: u64, d: u64, m2: u64) -> ServiceCurve {
    ServiceCurve { m1, d: Duration::from_micros(d), m2 }
}

pub fn linear(rate: u64) -> ServiceCurve {
    curve(rate, 0, rate)
}

pub fn shares(rate: u64) -> HfscCurves {
    HfscCurves { linkshare: Some(linear(rate)), ..HfscCurves::default() }
}

fn matches(dscps: &[u8]) -> MatchRules {
    let dscps = dscps.iter().map(|dscp| Dscp::new(*dscp).unwrap()).collect();
    Match { dscps, ..Match::default() }.into()
}

/// Returns a leaf for packets with this DSCP.
pub fn leaf(dscp: u8, curves: HfscCurves) -> HfscSpec<usize> {
    queued(dscp, curves, Queue::Fifo(Fifo::new(Limit::packets(u64::MAX))))
}

/// Returns a leaf with this queue.
pub fn queued(dscp: u8, curves: HfscCurves, queue: Queue<usize>) -> HfscSpec<usize> {
    HfscSpec { matches: matches(&[dscp]), curves, kind: HfscClassKind::Leaf(Class::new(queue)) }
}

/// Returns a class for packets with these DSCPs, divided into others.
pub fn interior(dscps: &[u8], curves: HfscCurves, inner: Vec<HfscSpec<usize>>) -> HfscSpec<usize> {
    let kind = HfscClassKind::Interior(Box::default(), inner);
    HfscSpec { matches: matches(dscps), curves, kind }
}

/// An arrival: its time in microseconds, its class and its size.
pub type Arrival = (u64, u8, u32);

/// A packet that the link has sent: the end of its transmission, its class, its size, and how long
/// after its arrival that is.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub end: Time,
    pub class: u8,
    pub size: u64,
    pub delay: Duration,
}

/// Returns a packet with this DSCP, of `size` bytes.
pub fn packet(id: usize, dscp: u8, size: u32) -> Packet<usize> {
    Packet { header: packets::packet(size, dscp).header, body: id }
}

/// Sends arrivals, sorted by time, through the link until it is idle or `until` microseconds.
pub fn run(specs: Vec<HfscSpec<usize>>, arrivals: &[Arrival], until: u64) -> Vec<Sent> {
    let mut queue = Hfsc::new(specs);
    let link = Rate::new(LINK).unwrap();
    let mut ledger = Ledger::new();
    let at = |micros| Time::ZERO + Duration::from_micros(micros);
    let (mut sent, mut next) = (Vec::new(), 0);
    let (mut ask, mut waiting) = (Time::MAX, 0_u64);
    let mut free = Time::ZERO;
    loop {
        let arrival = arrivals.get(next).map_or(Time::MAX, |arrival| at(arrival.0));
        let now = arrival.min(ask);
        if now >= at(until) {
            return sent;
        }
        if arrival <= ask {
            let (_, class, size) = arrivals[next];
            queue.enqueue(now, packet(next, class, size), &mut ledger);
            (next, waiting) = (next + 1, waiting + 1);
            ask = free.max(now);
        } else {
            let head = queue.head(now);
            match queue.dequeue(now, &mut ledger) {
                Dequeue::Packet(packet) => {
                    assert_eq!(head, Some(packet.size()));
                    free = now + packet.size() / link;
                    ask = free;
                    waiting -= 1;
                    sent.push(Sent {
                        end: free,
                        class: packet.header.dscp().get(),
                        size: packet.size().get(),
                        delay: free.since(at(arrivals[packet.body].0)),
                    });
                }
                Dequeue::NotBefore(later) => {
                    assert!(later > now && waiting > 0);
                    ask = later;
                }
                Dequeue::Idle => {
                    assert_eq!(waiting, 0, "idle with a backlog");
                    ask = Time::MAX;
                }
            }
        }
        assert_eq!(queue.backlog().packets, waiting);
    }
}

/// Returns arrivals that keep these classes backlogged for a second, at any rates.
pub fn backlogs(classes: &[u8], size: u32) -> Vec<Arrival> {
    let packets = LINK / 8 / u64::from(size) + 2;
    (0..packets).flat_map(|_| classes.iter().map(move |class| (0, *class, size))).collect()
}

/// Returns the rate of a class in bit/s over the second half of a second.
pub fn rate_of(sent: &[Sent], class: u8) -> f64 {
    let half = Time::ZERO + Duration::from_millis(500);
    let later = sent.iter().filter(|sent| sent.class == class && sent.end > half);
    later.map(|sent| sent.size as f64).sum::<f64>() * 16.0
}
