//! Properties of all sets of classes: a link in virtual time drives random policies with random
//! packets, and each property is checked on the record.

use std::collections::{HashSet, VecDeque};

use perhop_core::{
    AckHint, Bytes, Dscp, Duration, Header, NodeId, Packet, Protocol, Rate, Time, TrafficClass,
};
use perhop_queue::{
    Action, Actions, Backlog, Cause, Class, ClassCounters, ClassService, ClassSpec, Classes,
    Dequeue, Discipline, Fifo, Ledger, Limit, Match, MatchRules, Pass, Policer, Queue, Sharing,
    Weight,
};
use proptest::prelude::*;

const MTU: u64 = 1500;

/// Body of a packet: its index in the sequence of arrivals.
type Id = usize;

#[derive(Clone, Copy, Debug)]
struct Arrival {
    gap: Duration,
    class: u8,
    size: u32,
}

#[derive(Clone, Debug)]
struct ClassPlan {
    strict: bool,
    weight: u64,
    limit: Limit,
    /// The limit again, for the independent arithmetic of the checks.
    limits: (u64, u64),
    police: Option<(u64, u64)>,
}

/// Record of a packet.
#[derive(Clone, Copy, Debug)]
struct Fate {
    class: u8,
    size: u64,
    arrived: Time,
    /// Begin and end of its transmission; `None` if it was dropped.
    sent: Option<(Time, Time)>,
}

struct Run {
    fates: Vec<Fate>,
    order: Vec<Id>,
    drops: Vec<Cause>,
    classes: Class<Id>,
}

fn packet(id: Id, arrival: &Arrival) -> Packet<Id> {
    let header = Header {
        size: arrival.size,
        source: NodeId(0),
        destination: NodeId(1),
        source_port: 0,
        destination_port: 0,
        protocol: Protocol::Udp.into(),
        traffic_class: TrafficClass::new(Dscp::new(arrival.class).unwrap()),
        ttl: Header::TTL,
        ack: AckHint::NONE,
    };
    Packet { header, body: id }
}

/// Classes by DSCP: class i takes DSCP i.
fn classes(plans: &[ClassPlan]) -> Class<Id> {
    classes_sharing(plans, Sharing::Wfq)
}

fn classes_sharing(plans: &[ClassPlan], sharing: Sharing) -> Class<Id> {
    let spec = |(index, plan): (usize, &ClassPlan)| {
        let matches = Match { dscps: vec![Dscp::new(index as u8).unwrap()], ..Match::default() };
        let mut class = Class::new(Queue::Fifo(Fifo::new(plan.limit)));
        if let Some((rate, burst)) = plan.police {
            let policer = Policer::new(Rate::new(rate).unwrap(), Bytes::new(burst));
            class = class.policed(policer, Actions::exceed(Action::Drop));
        }
        let service = match plan.strict {
            true => ClassService::Strict,
            false => ClassService::Share(Weight::new(plan.weight).unwrap(), 0),
        };
        ClassSpec { matches: matches.into(), service, class }
    };
    let specs = plans.iter().enumerate().map(spec).collect();
    Class::new(Queue::Classes(Box::new(Classes::sharing(specs, sharing))))
}

/// Sends `arrivals` through a link of `rate`, checking conservation, limits and work as it goes.
fn run(root: Class<Id>, rate: Rate, arrivals: &[Arrival], plans: &[ClassPlan]) -> Run {
    let mut run = Run { fates: Vec::new(), order: Vec::new(), drops: Vec::new(), classes: root };
    let mut link = Link { rate, free: Time::ZERO, waiting: Backlog::default() };
    let mut now = Time::ZERO;
    for (id, arrival) in arrivals.iter().enumerate() {
        now += arrival.gap;
        link.work_until(now, &mut run);
        run.fates.push(Fate {
            class: arrival.class,
            size: arrival.size.into(),
            arrived: now,
            sent: None,
        });
        link.offer(now, packet(id, arrival), &mut run);
        assert_eq!(run.classes.backlog(), link.waiting, "a packet was lost or made");
        for (class, plan) in run.classes.inner().iter().zip(plans) {
            let Backlog { packets, bytes } = class.backlog();
            assert!(packets <= plan.limits.0 && bytes.get() <= plan.limits.1, "beyond the limit");
        }
    }
    link.work_until(Time::MAX, &mut run);
    assert!(dequeue(&mut run.classes, Time::MAX).is_none());
    run
}

/// Returns the packet to send; these disciplines drop nothing at that point, and never wait.
fn dequeue(class: &mut Class<Id>, now: Time) -> Option<Packet<Id>> {
    let mut ledger = Ledger::new();
    let next = class.dequeue(now, &mut ledger);
    assert!(ledger.drops.is_empty() && ledger.marks == 0);
    match next {
        Dequeue::Packet(packet) => Some(packet),
        Dequeue::NotBefore(at) => panic!("nothing before {at:?}"),
        Dequeue::Idle => None,
    }
}

struct Link {
    rate: Rate,
    free: Time,
    waiting: Backlog,
}

impl Link {
    fn offer(&mut self, now: Time, packet: Packet<Id>, run: &mut Run) {
        if self.waiting.packets == 0 && self.free <= now {
            match run.classes.pass(now, &packet.header) {
                Pass::Send => return self.send(now, &packet, run),
                Pass::Drop(cause) => return run.drops.push(cause),
                Pass::Enqueue => self.free = now,
            }
        }
        let mut ledger = Ledger::new();
        self.waiting.packets += 1;
        self.waiting.bytes += packet.size();
        run.classes.enqueue(now, packet, &mut ledger);
        for dropped in ledger.drops {
            self.waiting.packets -= 1;
            self.waiting.bytes -= dropped.packet.size();
            run.drops.push(dropped.cause);
        }
        self.work_until(now, run);
    }

    /// Transmits all packets that may begin by `until`; the last event was an arrival at that time
    /// or earlier.
    fn work_until(&mut self, until: Time, run: &mut Run) {
        while self.waiting.packets > 0 && self.free <= until {
            let head = run.classes.head(self.free);
            let packet = dequeue(&mut run.classes, self.free).expect("a backlogged link idles");
            assert_eq!(head, Some(packet.size()));
            self.waiting.packets -= 1;
            self.waiting.bytes -= packet.size();
            self.send(self.free, &packet, run);
        }
    }

    fn send(&mut self, at: Time, packet: &Packet<Id>, run: &mut Run) {
        self.free = at + packet.size() / self.rate;
        let fate = &mut run.fates[packet.body];
        assert!(fate.sent.is_none(), "sent twice");
        fate.sent = Some((at, self.free));
        run.order.push(packet.body);
    }
}

prop_compose! {
    fn arrival(classes: u8)(
        class in 0..classes,
        size in prop_oneof![Just(40_u32), Just(MTU as u32), 40..=MTU as u32],
        // At 100 Mb/s a full packet takes 120 µs.
        gap in prop_oneof![3 => Just(0), 2 => 0_u64..200, 1 => 0_u64..2_000],
    ) -> Arrival {
        Arrival { gap: Duration::from_micros(gap), class, size }
    }
}

prop_compose! {
    fn class_plan()(
        strict in prop::bool::weighted(0.2),
        weight in prop_oneof![1_u64..100, 1_000_u64..1_000_000],
        limits in prop_oneof![
            (1_u64..20).prop_map(|packets| (packets, u64::MAX)),
            (MTU..30_000).prop_map(|bytes| (u64::MAX, bytes)),
        ],
        police in prop::option::weighted(0.3, (100_000_u64..50_000_000, MTU..20_000)),
    ) -> ClassPlan {
        let limit = match limits {
            (packets, u64::MAX) => Limit::packets(packets),
            (_, bytes) => Limit::bytes(Bytes::new(bytes)),
        };
        ClassPlan { strict, weight, limit, limits, police: police.filter(|_| strict) }
    }
}

fn policy_and_traffic() -> impl Strategy<Value = (Vec<ClassPlan>, Vec<Arrival>)> {
    prop::collection::vec(class_plan(), 1..6).prop_flat_map(|plans| {
        let arrivals = prop::collection::vec(arrival(plans.len() as u8), 1..300);
        (Just(plans), arrivals)
    })
}

/// Weighted classes without policers and without a limit.
fn fair_policy_and_traffic() -> impl Strategy<Value = (Vec<ClassPlan>, Vec<Arrival>)> {
    policy_and_traffic().prop_map(|(mut plans, arrivals)| {
        for plan in &mut plans {
            plan.strict = false;
            plan.police = None;
            plan.limit = Limit::packets(u64::MAX);
            plan.limits = (u64::MAX, u64::MAX);
        }
        (plans, arrivals)
    })
}

/// Offers packets to a link, and has those that are like the one before, and find the link idle
/// like it, pass `together` or one by one. Returns the begin of each transmission, and all
/// counters.
fn transmissions(
    plans: &[ClassPlan],
    sharing: Sharing,
    arrivals: &[Arrival],
    together: bool,
) -> (Vec<(Id, Time)>, Vec<ClassCounters>) {
    let mut class = classes_sharing(plans, sharing);
    let (mut sent, mut free, mut now) = (Vec::new(), Time::ZERO, Time::ZERO);
    // The last packet that has passed, and how many like it have passed since.
    let mut last: Option<(Header, u64)> = None;
    let mut ledger = Ledger::new();
    for (id, arrival) in arrivals.iter().enumerate() {
        now += arrival.gap;
        let packet = packet(id, arrival);
        while class.backlog().packets > 0 && free <= now {
            let next = dequeue(&mut class, free).expect("a backlogged link idles");
            sent.push((next.body, free));
            free += next.size() / link();
        }
        let idle = class.backlog().packets == 0 && free <= now;
        let again = last.as_mut().filter(|(header, _)| {
            together && idle && *header == packet.header && class.repeats(header)
        });
        if let Some((_, number)) = again {
            *number += 1;
        } else {
            if let Some((header, number @ 1..)) = last.take() {
                class.pass_again(&header, number);
            }
            match if idle { class.pass(now, &packet.header) } else { Pass::Enqueue } {
                Pass::Send => last = Some((packet.header, 0)),
                Pass::Drop(_) => continue,
                Pass::Enqueue => {
                    class.enqueue(now, packet, &mut ledger);
                    free = free.max(now);
                    continue;
                }
            }
        }
        sent.push((id, now));
        free = now + packet.size() / link();
    }
    if let Some((header, number @ 1..)) = last {
        class.pass_again(&header, number);
    }
    let mut counters = Vec::new();
    class.visit(&mut |_, class, _| counters.push(*class));
    (sent, counters)
}

fn link() -> Rate {
    Rate::new(100_000_000).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, failure_persistence: None, ..Default::default()
    })]

    /// Packets that repeat the pass before may pass together.
    #[test]
    fn packets_pass_together_as_one_by_one(
        (plans, arrivals) in policy_and_traffic(),
        sharing in prop_oneof![Just(Sharing::Wfq), Just(Sharing::Drr), Just(Sharing::LinkShare)],
    ) {
        // Each comes again, some often.
        let again = |(number, arrival): (usize, Arrival)| {
            let gap = Duration::from_micros(if number % 2 == 0 { 200 } else { 0 });
            let copies = (0..number % 9).map(move |_| Arrival { gap, ..arrival });
            std::iter::once(arrival).chain(copies)
        };
        let arrivals: Vec<_> = arrivals.into_iter().enumerate().flat_map(again).collect();
        let run = |together| transmissions(&plans, sharing, &arrivals, together);
        prop_assert_eq!(run(true), run(false));
    }

    /// Each packet is sent or dropped, once; a class sends in order of arrival; counters agree.
    #[test]
    fn packets_are_conserved_and_kept_in_order((plans, arrivals) in policy_and_traffic()) {
        let run = run(classes(&plans), link(), &arrivals, &plans);
        let sent: HashSet<Id> = run.order.iter().copied().collect();
        prop_assert_eq!(sent.len(), run.order.len());
        prop_assert_eq!(sent.len() + run.drops.len(), arrivals.len());
        for (index, class) in run.classes.inner().iter().enumerate() {
            let of_class =
                |id: &&Id| usize::from(run.fates[**id].class) == index;
            let sent: Vec<Id> = run.order.iter().filter(of_class).copied().collect();
            prop_assert!(sent.is_sorted(), "class {} reordered: {:?}", index, sent);
            let offered = arrivals.iter().filter(|a| usize::from(a.class) == index).count();
            let counters = class.counters();
            prop_assert_eq!(counters.sent.packets as usize, sent.len());
            let bytes: u64 = sent.iter().map(|id| run.fates[*id].size).sum();
            prop_assert_eq!(counters.sent.bytes.get(), bytes);
            prop_assert_eq!(counters.dropped_total() as usize, offered - sent.len());
            if plans[index].police.is_some() {
                let measured = counters.conformed.packets + counters.exceeded.packets;
                prop_assert_eq!(measured as usize, offered);
                prop_assert_eq!(counters.dropped(Cause::Policer), counters.exceeded.packets);
            }
        }
    }

    /// The transmitter is busy from the first arrival of a busy period until no packet waits.
    #[test]
    fn the_link_never_idles_while_a_packet_waits((plans, arrivals) in policy_and_traffic()) {
        let run = run(classes(&plans), link(), &arrivals, &plans);
        let mut idle_since = Time::ZERO;
        for &id in &run.order {
            let (begin, end) = run.fates[id].sent.unwrap();
            if begin > idle_since {
                let waited = run.fates.iter().any(|fate| {
                    fate.sent.is_some_and(|(sent, _)| sent >= begin) && fate.arrived < begin
                });
                prop_assert!(!waited, "idle from {idle_since:?} to {begin:?}");
            }
            idle_since = end;
        }
    }

    /// No packet of a later strict class, or of a shared one, begins while one waits before it.
    #[test]
    fn strict_classes_go_first((plans, arrivals) in policy_and_traffic()) {
        let run = run(classes(&plans), link(), &arrivals, &plans);
        for &id in &run.order {
            let fate = run.fates[id];
            let (begin, _) = fate.sent.unwrap();
            let before = |other: &Fate| plans[usize::from(other.class)].strict
                && (!plans[usize::from(fate.class)].strict || other.class < fate.class);
            let overtaken = run.fates.iter().any(|other| before(other)
                && other.arrived < begin && other.sent.is_some_and(|(sent, _)| sent > begin));
            prop_assert!(!overtaken);
        }
    }

    /// While two classes are both backlogged, their amounts differ from the ratio of their weights
    /// by what one packet ahead of, or behind, the fluid share of each allows.
    #[test]
    fn shares_hold_within_one_packet((plans, arrivals) in fair_policy_and_traffic()) {
        let run = run(classes(&plans), link(), &arrivals, &plans);
        for a in 0..plans.len() {
            for b in 0..a {
                check_shares(&run, &plans, a, b)?;
            }
        }
    }

    /// WFQ's delay bound (Parekh and Gallager; Goyal, Lam and Vin for the form used here): a packet
    /// leaves at most one maximum packet's time after a dedicated server with its class's
    /// guaranteed rate would have sent it.
    #[test]
    fn the_delay_bound_of_wfq_holds((plans, arrivals) in fair_policy_and_traffic()) {
        let run = run(classes(&plans), link(), &arrivals, &plans);
        let sum: u64 = plans.iter().map(|plan| plan.weight).sum();
        let mut clocks = vec![0_u128; plans.len()];
        let slack = u128::from((Bytes::new(MTU) / link()).as_picos());
        for (id, fate) in run.fates.iter().enumerate() {
            let class = usize::from(fate.class);
            let alone = u128::from((Bytes::new(fate.size) / link()).as_picos())
                * u128::from(sum) / u128::from(plans[class].weight);
            clocks[class] = clocks[class].max(u128::from(fate.arrived.as_picos())) + alone;
            let (_, end) = fate.sent.unwrap();
            // Rounding: at most a picosecond per packet.
            let bound = clocks[class] + slack + id as u128 + 1;
            prop_assert!(u128::from(end.as_picos()) <= bound, "{id}: {end:?} > {bound}");
        }
    }

    /// A nested policy divides its class's share and keeps its own order.
    #[test]
    fn a_nested_policy_conserves_packets((plans, arrivals) in policy_and_traffic()) {
        let nested = ClassSpec {
            matches: MatchRules::default(),
            service: ClassService::Share(Weight::new(1).unwrap(), 0),
            class: classes(&plans),
        };
        let root = Class::new(Queue::Classes(Box::new(Classes::new(vec![nested]))));
        let unlimited = [ClassPlan {
            strict: false, weight: 1, limit: Limit::packets(u64::MAX),
            limits: (u64::MAX, u64::MAX), police: None,
        }];
        let nested = run(root, link(), &arrivals, &unlimited);
        prop_assert_eq!(nested.order.len() + nested.drops.len(), arrivals.len());
        let mut seen = vec![VecDeque::new(); plans.len()];
        for &id in &nested.order {
            seen[usize::from(nested.fates[id].class)].push_back(id);
        }
        prop_assert!(seen.iter().all(|ids| ids.iter().is_sorted()));
    }
}

/// Compares two classes over every stretch in which both have a packet waiting or in service.
fn check_shares(run: &Run, plans: &[ClassPlan], a: usize, b: usize) -> Result<(), TestCaseError> {
    // A class is backlogged from an arrival until the last earlier packet is sent.
    let busy = |class: usize| {
        let mut stretches: Vec<(Time, Time)> = Vec::new();
        for fate in run.fates.iter().filter(|fate| usize::from(fate.class) == class) {
            let (_, end) = fate.sent.unwrap();
            match stretches.last_mut() {
                Some((_, until)) if fate.arrived <= *until => *until = end,
                _ => stretches.push((fate.arrived, end)),
            }
        }
        stretches
    };
    for (begin_a, end_a) in busy(a) {
        for (begin_b, end_b) in busy(b) {
            let (begin, end) = (begin_a.max(begin_b), end_a.min(end_b));
            if begin >= end {
                continue;
            }
            // Normalised service, scaled by both weights to stay in integers. A packet counts
            // when its transmission begins, so that a packet of slack on either side remains.
            let (weight_a, weight_b) = (plans[a].weight as i128, plans[b].weight as i128);
            let mut gap = 0_i128;
            let bound = MTU as i128 * (weight_a + weight_b);
            let mut low = 0;
            let mut high = 0;
            for &id in &run.order {
                let fate = run.fates[id];
                let (sent, _) = fate.sent.unwrap();
                if sent < begin || sent >= end {
                    continue;
                }
                match usize::from(fate.class) {
                    class if class == a => gap += fate.size as i128 * weight_b,
                    class if class == b => gap -= fate.size as i128 * weight_a,
                    _ => continue,
                }
                (low, high) = (low.min(gap), high.max(gap));
            }
            // A class is never more than a packet ahead of its fluid share nor a packet behind, so
            // that over any part of the stretch each may gain two.
            prop_assert!(high - low <= 2 * bound, "{} > {}", high - low, 2 * bound);
        }
    }
    Ok(())
}

#[test]
fn three_saturated_classes_get_their_shares_to_the_packet() {
    let weights = [1_u64, 70, 29];
    let plans: Vec<ClassPlan> = weights
        .iter()
        .map(|&weight| ClassPlan {
            strict: false,
            weight,
            limit: Limit::packets(u64::MAX),
            limits: (u64::MAX, u64::MAX),
            police: None,
        })
        .collect();
    let mut root = classes(&plans);
    let mut ledger = Ledger::new();
    for id in 0..3_000 {
        let arrival = Arrival { gap: Duration::ZERO, class: (id % 3) as u8, size: 1500 };
        root.enqueue(Time::ZERO, packet(id, &arrival), &mut ledger);
    }
    let mut sent = [0_u64; 3];
    for round in 1..=1_000_u64 {
        let packet = dequeue(&mut root, Time::ZERO).unwrap();
        sent[packet.header.dscp().get() as usize] += 1;
        for (sent, weight) in sent.iter().zip(weights) {
            let ideal = round as f64 * weight as f64 / 100.0;
            assert!((*sent as f64 - ideal).abs() <= 1.0, "{sent} of {round}, ideal {ideal}");
        }
    }
    assert_eq!(sent, [10, 700, 290]);
}

#[test]
fn a_policed_strict_class_cannot_starve_the_rest() {
    let unlimited = ClassPlan {
        strict: false,
        weight: 1,
        limit: Limit::packets(u64::MAX),
        limits: (u64::MAX, u64::MAX),
        police: None,
    };
    let plans = [
        ClassPlan { strict: true, police: Some((10_000_000, 3_000)), ..unlimited.clone() },
        unlimited,
    ];
    // Both classes offer 100 Mb/s for 120 ms.
    let arrivals: Vec<Arrival> = (0..2_000)
        .map(|id| Arrival {
            gap: Duration::from_micros(if id % 2 == 0 { 120 } else { 0 }),
            class: (id % 2) as u8,
            size: 1500,
        })
        .collect();
    let run = run(classes(&plans), link(), &arrivals, &plans);
    let strict = run.classes.inner()[0].counters();
    // 10 Mb/s for the 119.88 ms between the first and the last packet, and the burst, are 152,850
    // bytes: 101 whole packets.
    assert_eq!(strict.sent.bytes.get(), 101 * 1500);
    assert_eq!(strict.conformed.packets, 101);
    assert_eq!(strict.exceeded.packets, 899);
}

#[test]
fn exceeding_packets_are_remarked_and_stay_in_their_class() {
    let scavenger = Dscp::LE;
    let policer = Policer::new(Rate::new(1_000_000).unwrap(), Bytes::new(1_500));
    let mut class = Class::new(Queue::Fifo(Fifo::new(Limit::packets(10))))
        .policed(policer, Actions::exceed(Action::Remark(scavenger)));
    let mut ledger = Ledger::new();
    for id in 0..2 {
        let arrival = Arrival { gap: Duration::ZERO, class: 10, size: 1500 };
        class.enqueue(Time::ZERO, packet(id, &arrival), &mut ledger);
    }
    let dscps: Vec<u8> = std::iter::from_fn(|| dequeue(&mut class, Time::ZERO))
        .map(|packet| packet.header.dscp().get())
        .collect();
    assert_eq!(dscps, [10, scavenger.get()]);
    assert!(ledger.drops.is_empty());
}

#[test]
fn a_time_limit_is_what_drains_in_that_time() {
    let limit = Limit::time(Duration::from_millis(50), Rate::new(2_400_000).unwrap());
    let held = Backlog { packets: 9, bytes: Bytes::new(13_500) };
    assert!(limit.admits(held, Bytes::new(1_500)));
    assert!(!limit.admits(held, Bytes::new(1_501)));
}
