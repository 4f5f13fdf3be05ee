//! Reserved classes are added, changed and removed without effect on the class behind them.

use perhop_core::{Bytes, Dscp, Duration, Packet, Rate, Time};
use perhop_queue::{
    Action, Actions, Backlog, Class, ClassCounters, ClassService, ClassSpec, Classes, Dequeue,
    Discipline, Fifo, Ledger, Limit, Match, MatchRules, Policer, Queue, Reserved, Shaper, Weight,
};
use proptest::prelude::*;

#[path = "../src/lab.rs"]
mod lab;

type Id = usize;

/// Lowest DSCP of a reservation; those below belong to the class behind them.
const FIRST_RESERVED: u8 = 4;
const RESERVATIONS: u8 = 3;

#[derive(Clone, Debug)]
enum Step {
    Arrive {
        dscp: u8,
        size: u32,
    },
    Send,
    Pause(u64),
    /// For each reservation its rate and burst, or `None` if it does not exist; and true if the
    /// order is reversed.
    Reserve([Option<(u64, u64)>; RESERVATIONS as usize], bool),
}

fn matches(dscp: u8) -> Match {
    Match { dscps: vec![Dscp::new(dscp).unwrap()], ..Match::default() }
}

fn packet(id: Id, dscp: u8, size: u32) -> Packet<Id> {
    Packet { header: lab::packet(size, dscp).header, body: id }
}

/// Returns a link's class: strict, policed and shaped classes and one with classes inside; or a
/// queue. The link may have a shaper.
fn rest(kind: u8) -> Class<Id> {
    let rate = |mbps: u64| Rate::new(mbps * 1_000_000).unwrap();
    let queue = || Class::new(Queue::Fifo(Fifo::new(Limit::packets(6))));
    let share = |weight| ClassService::Share(Weight::new(weight).unwrap(), 0);
    let spec = |dscp, service, class| ClassSpec { matches: matches(dscp).into(), service, class };
    let policed =
        queue().policed(Policer::new(rate(3), Bytes::new(4_000)), Actions::exceed(Action::Drop));
    let inner = vec![spec(2, share(1), queue()), spec(3, share(3), queue())];
    let nested = Class::new(Queue::Classes(Box::new(Classes::new(inner))));
    let classes = vec![
        spec(0, ClassService::Strict, policed),
        spec(1, share(2), queue().shaped(Shaper::new(rate(2), Bytes::new(2_000)))),
        ClassSpec { matches: MatchRules::default(), service: share(5), class: nested },
    ];
    let classes = Class::new(Queue::Classes(Box::new(Classes::new(classes))));
    match kind {
        0 => queue(),
        1 => classes,
        2 => queue().shaped(Shaper::new(rate(5), Bytes::new(3_000))),
        _ => classes.shaped(Shaper::new(rate(6), Bytes::ZERO)),
    }
}

/// A link, and its reservations, by number and in order.
struct Link {
    class: Class<Id>,
    reserved: Vec<(u8, (u64, u64))>,
}

impl Link {
    fn reserve(&mut self, now: Time, wanted: &Step) -> Vec<Id> {
        let Step::Reserve(wanted, turned) = wanted else { return Vec::new() };
        let mut order: Vec<_> =
            (0..RESERVATIONS).zip(wanted).filter_map(|(n, p)| Some((n, (*p)?))).collect();
        if *turned {
            order.reverse();
        }
        let reserved: Vec<_> = order
            .iter()
            .map(|&(number, (rate, burst))| Reserved {
                name: number.to_string(),
                matches: matches(FIRST_RESERVED + number),
                police: Some((Rate::new(rate).unwrap(), Bytes::new(burst))),
                limit: Limit::bytes(Bytes::MAX),
            })
            .collect();
        self.reserved = order;
        let mut ledger = Ledger::new();
        self.class.set_reserved(now, &reserved, &mut ledger);
        ledger.drops.iter().map(|drop| drop.packet.body).collect()
    }

    fn visited(&self) -> Vec<(ClassCounters, Backlog)> {
        let mut found = Vec::new();
        let mut visit =
            |_: &str, counters: &ClassCounters, backlog| found.push((*counters, backlog));
        self.class.visit(&mut visit);
        self.class.reserved().iter().for_each(|class| class.visit(&mut visit));
        found
    }
}

fn steps(dscps: std::ops::Range<u8>) -> impl Strategy<Value = Vec<Step>> {
    let policer = || prop::option::of((100_000_u64..20_000_000, 1_500_u64..9_000));
    let step = prop_oneof![
        6 => (dscps, 40_u32..1500).prop_map(|(dscp, size)| Step::Arrive { dscp, size }),
        5 => Just(Step::Send),
        3 => (1_u64..3_000).prop_map(Step::Pause),
        1 => ([policer(), policer(), policer()], any::<bool>())
            .prop_map(|(reserved, turned)| Step::Reserve(reserved, turned)),
    ];
    prop::collection::vec(step, 1..200)
}

fn offer(class: &mut Class<Id>, now: Time, packet: Packet<Id>) -> Vec<Id> {
    let mut ledger = Ledger::new();
    class.enqueue(now, packet, &mut ledger);
    ledger.drops.iter().map(|drop| drop.packet.body).collect()
}

fn next(class: &mut Class<Id>, now: Time) -> Dequeue<Id> {
    let mut ledger = Ledger::new();
    let next = class.dequeue(now, &mut ledger);
    assert!(ledger.drops.is_empty());
    next
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, failure_persistence: None, ..Default::default()
    })]

    /// Packets without a reservation are sent at the same picosecond as without any reservations,
    /// and so are their counters.
    #[test]
    fn others_do_not_notice(kind in 0_u8..4, steps in steps(0..FIRST_RESERVED)) {
        let mut with = Link { class: rest(kind), reserved: Vec::new() };
        let mut without = rest(kind);
        let (mut now, mut not_before) = (Time::ZERO, Time::ZERO);
        for (id, step) in steps.iter().enumerate() {
            match *step {
                Step::Arrive { dscp, size } => {
                    not_before = now;
                    let packet = packet(id, dscp, size);
                    let lost = offer(&mut with.class, now, packet);
                    prop_assert_eq!(lost, offer(&mut without, now, packet));
                }
                // Like a link, the test polls only when packets wait, and not before the given
                // instant.
                Step::Send if now < not_before || without.backlog().packets == 0 => {}
                Step::Send => {
                    let next_without = next(&mut without, now);
                    if let Dequeue::NotBefore(at) = next_without {
                        not_before = at;
                    }
                    prop_assert_eq!(next(&mut with.class, now), next_without);
                }
                Step::Pause(micros) => now += Duration::from_picos(micros * 1_000_000),
                Step::Reserve(..) => prop_assert_eq!(with.reserve(now, step), Vec::<Id>::new()),
            }
            prop_assert_eq!(with.class.backlog(), without.backlog());
            let mut expected = Vec::new();
            without.visit(&mut |_, counters, backlog| expected.push((*counters, backlog)));
            let visited = with.visited();
            let (rest, reserved) = visited.split_at(expected.len());
            prop_assert_eq!(&rest[1..], &expected[1..]);
            prop_assert_eq!(reserved.len(), with.reserved.len());
            prop_assert!(reserved.iter().all(|each| *each == Default::default()));
            // The counters of a shaped link are those behind its shaper.
            if kind < 2 {
                prop_assert_eq!(rest[0], expected[0]);
            }
        }
    }

    /// Each packet is sent or dropped, once. A reservation that stays keeps its order and counters,
    /// precedes the rest, and sends no more than its bucket allows.
    #[test]
    fn reservations_keep_what_is_theirs(
        kind in 0_u8..2, steps in steps(0..FIRST_RESERVED + RESERVATIONS),
    ) {
        let mut link = Link { class: rest(kind), reserved: Vec::new() };
        let mut now = Time::ZERO;
        let mut fates: Vec<Option<bool>> = vec![None; steps.len()];
        let mut counted = [ClassCounters::default(); RESERVATIONS as usize];
        // Amount that each bucket may have passed by now, in millionths of a bit.
        let mut allowed = [0_u128; RESERVATIONS as usize];
        let dscp_of = |id: Id| match steps[id] { Step::Arrive { dscp, .. } => dscp, _ => 255 };
        let mut sent_last = [None::<Id>; RESERVATIONS as usize];
        let mut began = [0; RESERVATIONS as usize];
        for (id, step) in steps.iter().enumerate() {
            let before = link.reserved.clone();
            match step {
                Step::Arrive { dscp, size } => {
                    for lost in offer(&mut link.class, now, packet(id, *dscp, *size)) {
                        prop_assert_eq!(fates[lost].replace(false), None);
                    }
                }
                Step::Send => if let Dequeue::Packet(packet) = next(&mut link.class, now) {
                    prop_assert_eq!(fates[packet.body].replace(true), None);
                    let number = dscp_of(packet.body).wrapping_sub(FIRST_RESERVED);
                    let place = |number| before.iter().position(|(other, _)| *other == number);
                    // Packets that arrived before their reservation wait in the class behind it.
                    let theirs = number < RESERVATIONS && packet.body > began[usize::from(number)];
                    if let (true, Some(place)) = (theirs, place(number)) {
                        let last = sent_last[usize::from(number)].replace(packet.body);
                        prop_assert!(last < Some(packet.body), "{last:?} {}", packet.body);
                        let visited = link.visited();
                        let earlier = &visited[visited.len() - before.len()..][..place];
                        prop_assert!(earlier.iter().all(|(_, waiting)| waiting.packets == 0));
                    }
                },
                Step::Pause(micros) => {
                    now += Duration::from_picos(micros * 1_000_000);
                    for (number, (rate, _)) in &link.reserved {
                        allowed[usize::from(*number)] += u128::from(rate * micros);
                    }
                }
                Step::Reserve(..) => for lost in link.reserve(now, step) {
                    prop_assert_eq!(fates[lost].replace(false), None);
                }
            }
            let visited = link.visited();
            let reserved = &visited[visited.len() - link.reserved.len()..];
            for (&(number, (_, burst)), (counters, _)) in link.reserved.iter().zip(reserved) {
                let index = usize::from(number);
                if !before.iter().any(|(other, _)| *other == number) {
                    began[index] = id;
                    sent_last[index] = None;
                    prop_assert_eq!(*counters, ClassCounters::default());
                    allowed[index] = u128::from(burst) * 8_000_000;
                } else if matches!(step, Step::Reserve(..)) {
                    prop_assert_eq!(*counters, counted[index]);
                }
                counted[index] = *counters;
                let conformed = u128::from(counters.conformed.bytes.get()) * 8_000_000;
                prop_assert!(conformed <= allowed[index], "{conformed} > {}", allowed[index]);
            }
        }
        let lost_or_sent = fates.iter().flatten().count() as u64;
        let arrived = steps.iter().filter(|step| matches!(step, Step::Arrive { .. })).count();
        prop_assert_eq!(lost_or_sent + link.class.backlog().packets, arrived as u64);
    }
}
