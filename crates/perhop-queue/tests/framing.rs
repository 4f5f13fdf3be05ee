//! A discipline that counts frames sends packets as one that counts packets sends longer ones.

use std::iter::zip;

use perhop_core::{Bytes, Dscp, Duration, Packet, Rate, Time};
use perhop_queue::{
    Class, ClassService, ClassSpec, Classes, Dequeue, Discipline, Fifo, Framing, Hfsc,
    HfscClassKind, HfscCurves, HfscSpec, Ledger, Limit, Match, MatchRules, Pass, Queue,
    ServiceCurve, Shaper, Sharing, Weight,
};
use proptest::prelude::*;

#[path = "../src/lab.rs"]
mod lab;

/// Bytes that an Ethernet adds to an IP packet.
const HEADER: u16 = 14;
/// Picoseconds of a byte at 10 Mb/s.
const BYTE: u64 = 800_000;

fn packet(class: u8, size: u32) -> Packet<usize> {
    Packet { header: lab::packet(size, class).header, body: 0 }
}

fn matches(class: u8) -> MatchRules {
    Match { dscps: vec![Dscp::new(class).unwrap()], ..Match::default() }.into()
}

fn fifo() -> Class<usize> {
    Class::new(Queue::Fifo(Fifo::new(Limit::packets(u64::MAX))))
}

/// Returns three classes, of which the first is behind a shaper of its own.
fn classes(sharing: Sharing, framing: Framing) -> Class<usize> {
    let spec = |class: u8| {
        let own = match class {
            0 => fifo().shaped(shaper(2_000_000, 3000).framed(framing)),
            _ => fifo(),
        };
        // Rates of Mb/s for most, and quanta of bytes.
        let weight = match sharing {
            Sharing::DrrQuanta => 800 * (u64::from(class) + 1),
            _ => 1_500_000 * (u64::from(class) + 1),
        };
        let service = ClassService::Share(Weight::new(weight).unwrap(), class % 2);
        ClassSpec { matches: matches(class), service, class: own }
    };
    let shared = Classes::sharing((0..3).map(spec).collect(), sharing).framed(framing);
    Class::new(Queue::Classes(Box::new(shared)))
}

/// Returns three classes, of which the first has a guarantee and the last a limit.
fn curves(framing: Framing) -> Class<usize> {
    let linear = |rate| ServiceCurve { m1: rate, d: Duration::ZERO, m2: rate };
    let first = ServiceCurve { m1: 6_000_000, d: Duration::from_millis(2), m2: 2_000_000 };
    let spec = |class: u8| HfscSpec {
        matches: matches(class),
        curves: HfscCurves {
            realtime: (class == 0).then_some(first),
            linkshare: Some(linear(1_000_000 * (u64::from(class) + 1))),
            upperlimit: (class == 2).then_some(linear(4_000_000)),
        },
        kind: HfscClassKind::Leaf(fifo()),
    };
    let hfsc = Hfsc::new((0..3).map(spec).collect()).framed(framing);
    Class::new(Queue::Hfsc(Box::new(hfsc)))
}

fn shaper(rate: u64, burst: u64) -> Shaper<usize> {
    Shaper::new(Rate::new(rate).unwrap(), Bytes::new(burst))
}

/// Returns what a link sends and when: packets of these gaps in µs, classes and sizes arrive, and
/// the link adds `layer2` bytes to each.
fn sent(mut class: Class<usize>, arrivals: &[(u64, u8, u32)], layer2: u32) -> Vec<(Time, usize)> {
    let mut ledger = Ledger::new();
    let mut found = Vec::new();
    let (mut now, mut free, mut due) = (Time::ZERO, Time::ZERO, Time::MAX);
    let mut arrivals = arrivals.iter().enumerate().peekable();
    let mut next = Time::ZERO;
    let long = |size: u32| Duration::from_picos(u64::from(size + layer2) * BYTE);
    loop {
        if let Some((number, &(gap, of, size))) = arrivals.peek().copied()
            && next + Duration::from_micros(gap) <= due
        {
            arrivals.next();
            next += Duration::from_micros(gap);
            now = now.max(next);
            let packet = Packet { body: number, ..packet(of, size) };
            let idle = class.backlog().packets == 0 && free <= now;
            if idle && class.pass(now, &packet.header) == Pass::Send {
                found.push((now, number));
                free = now + long(size);
                continue;
            }
            class.enqueue(now, packet, &mut ledger);
            due = now.max(free);
        } else if due == Time::MAX {
            return found;
        } else {
            now = now.max(due);
            due = match class.dequeue(now, &mut ledger) {
                Dequeue::Packet(packet) => {
                    found.push((now, packet.body));
                    free = now + long(packet.header.size);
                    free
                }
                Dequeue::NotBefore(at) => at,
                Dequeue::Idle => Time::MAX,
            };
        }
    }
}

proptest! {
    #[test]
    fn frames_count_as_packets_of_their_length(
        arrivals in prop::collection::vec((0_u64..1500, 0_u8..3, 40_u32..1500), 1..120),
        whole in prop::option::of((3_000_000_u64..9_000_000, 0_u64..5000)),
    ) {
        let framing = Framing { overhead: HEADER, ..Framing::default() };
        let header = u32::from(HEADER);
        let longer: Vec<_> =
            arrivals.iter().map(|&(gap, class, size)| (gap, class, size + header)).collect();
        let [framed, plain] = [framing, Framing::default()].map(|framing| {
            let all = [Sharing::Wfq, Sharing::Drr, Sharing::DrrQuanta, Sharing::LinkShare];
            let disciplines = all.map(|sharing| classes(sharing, framing)).into_iter();
            disciplines.chain([curves(framing)]).map(move |class| match whole {
                Some((rate, burst)) => class.shaped(shaper(rate, burst).framed(framing)),
                None => class,
            })
        });
        for (framed, plain) in zip(framed, plain) {
            let found = sent(framed, &arrivals, header);
            prop_assert_eq!(found.len(), arrivals.len());
            prop_assert_eq!(found, sent(plain, &longer, 0));
        }
    }
}

/// 8 Mb/s are a byte in a microsecond, and two packets of 60 bytes are frames of 74.
#[test]
fn a_shaper_of_frames_spaces_packets_by_the_frames() {
    let framing = Framing { overhead: HEADER, ..Framing::default() };
    let class = fifo().shaped(shaper(8_000_000, 0).framed(framing));
    let found = sent(class, &[(0, 0, 60), (0, 0, 60), (0, 0, 1500), (0, 0, 60)], 0);
    let times: Vec<_> = found.iter().map(|(at, _)| at.as_picos() / 1_000_000).collect();
    assert_eq!(times, [0, 74, 148, 1662]);
}
