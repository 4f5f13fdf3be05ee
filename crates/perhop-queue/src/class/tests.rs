use perhop_core::{Dscp, Duration};
use proptest::prelude::*;

use super::*;
use crate::lab::packet;
use crate::{
    Action, Cbq, CbqClassKind, CbqConfig, CbqSpec, ClassService, ClassSpec, Classes, Codel,
    CodelConfig, Coding, Framing, Hfsc, HfscClassKind, HfscCurves, HfscSpec, Htb, HtbClassKind,
    HtbRates, HtbSpec, Match, MatchRules, Policed, PolicerSpec, ServiceCurve, Sharing, Weight,
};

fn micros(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

/// 8 Mb/s: a byte in a microsecond.
fn rate() -> Rate {
    Rate::new(8_000_000).unwrap()
}

fn fifo(name: &str) -> Class<()> {
    Class::new(Queue::Fifo(Fifo::new(Limit::packets(4)))).named(name)
}

fn matches(dscps: &[u8]) -> MatchRules {
    let dscps = dscps.iter().map(|dscp| Dscp::new(*dscp).unwrap()).collect();
    Match { dscps, ..Match::default() }.into()
}

/// HTB with a class `both`, of the leaves `one` and `pair`, the latter with `two` and `three`; and
/// a leaf `four`.
fn htb() -> Class<()> {
    let rates = HtbRates {
        rate: rate(),
        burst: Bytes::new(9000),
        ceil: rate(),
        cburst: Bytes::new(9000),
        priority: 0,
        quantum: Weight::new(1500).unwrap(),
    };
    let spec = |dscps: &[u8], kind| HtbSpec { matches: matches(dscps), rates: Some(rates), kind };
    let leaf = |dscp, name| spec(&[dscp], HtbClassKind::Leaf(fifo(name)));
    let inner =
        |name: &str, dscps: &[u8], specs| spec(dscps, HtbClassKind::Interior(name.into(), specs));
    let pair = inner("pair", &[2, 3], vec![leaf(2, "two"), leaf(3, "three")]);
    let both = inner("both", &[1, 2, 3], vec![leaf(1, "one"), pair]);
    let framing = Framing { overhead: 0, mpu: 0, coding: Coding::None };
    Class::new(Queue::Htb(Box::new(Htb::new(rates, framing, vec![both, leaf(4, "four")]))))
}

/// CBQ with a class `bought` of the leaves `eight` and `nine`, and a leaf `ten`.
fn cbq() -> Class<()> {
    let config = CbqConfig {
        rate: rate(),
        tick: Duration::from_millis(1),
        packet: Bytes::new(1500),
        maxburst: None,
        minburst: 2,
        token_bucket: false,
        efficient: true,
        kick: true,
    };
    let spec = |dscps: &[u8], kind| {
        let bps = rate().bits_per_second() / 4 * dscps.len() as u64;
        CbqSpec { matches: matches(dscps), rate: Rate::new(bps).unwrap(), borrow: true, kind }
    };
    let leaf = |dscp, name| spec(&[dscp], CbqClassKind::Leaf(fifo(name), 0));
    let inner = vec![leaf(8, "eight"), leaf(9, "nine")];
    let bought = spec(&[8, 9], CbqClassKind::Interior("bought".into(), inner));
    Class::new(Queue::Cbq(Box::new(Cbq::new(config, vec![bought, leaf(10, "ten")])))).named("cbq")
}

/// CBQ's classes count what is below them; packets leave when the classes may send.
#[test]
fn classes_of_cbq_count_what_is_below_them() {
    for drains in [false, true] {
        let (mut class, mut ledger) = (cbq(), Ledger::new());
        for (dscp, packets) in [(8, 1), (9, 5), (10, 2)] {
            for _ in 0..packets {
                class.enqueue(Time::ZERO, packet(100 + u32::from(dscp), dscp), &mut ledger);
            }
        }
        let waiting = [
            row("cbq", [7, 108 + 436 + 220], [0, 1]),
            row("bought", [5, 108 + 436], [0, 1]),
            row("eight", [1, 108], [0, 0]),
            row("nine", [4, 436], [0, 1]),
            row("ten", [2, 220], [0, 0]),
        ];
        assert_eq!(rows(&class), waiting);
        for name in ["cbq", "eight", "nine", "ten"] {
            assert_eq!(class.class_mut(name).map(|class| class.name()), Some(name));
        }
        assert!(class.class_mut("bought").is_none() && class.inner().is_empty());
        if drains {
            let mut drained = Vec::new();
            class.drain(&mut drained);
            let dscps: Vec<u8> = drained.iter().map(|sent| sent.header.dscp().get()).collect();
            assert_eq!(dscps, [8, 9, 9, 9, 9, 10, 10]);
            continue;
        }
        let (mut now, mut left) = (Time::ZERO, 7);
        while left > 0 {
            assert!(class.head(now).is_some());
            match class.dequeue(now, &mut ledger) {
                Dequeue::Packet(_) => left -= 1,
                Dequeue::NotBefore(at) => now = at,
                Dequeue::Idle => panic!("idle with a backlog"),
            }
        }
        assert_eq!((class.head(now), class.dequeue(now, &mut ledger)), (None, Dequeue::Idle));
        for ((name, [waited, _], [_, dropped]), sent) in waiting.into_iter().zip(rows(&class)) {
            assert_eq!(sent, row(&name, [0, 0], [waited, dropped]));
        }
    }
}

/// H-FSC with a class `curves` of the leaves `five` and `six`.
fn hfsc() -> Class<()> {
    let curve = ServiceCurve { m1: 8_000_000, d: Duration::ZERO, m2: 8_000_000 };
    let curves = HfscCurves { linkshare: Some(curve), ..HfscCurves::default() };
    let leaf = |dscp, name| HfscSpec {
        matches: matches(&[dscp]),
        curves,
        kind: HfscClassKind::Leaf(fifo(name)),
    };
    let kind = HfscClassKind::Interior("curves".into(), vec![leaf(5, "five"), leaf(6, "six")]);
    let spec = HfscSpec { matches: matches(&[5, 6]), curves, kind };
    Class::new(Queue::Hfsc(Box::new(Hfsc::new(vec![spec]))))
}

/// A link whose class `link` has classes of every kind behind a policer.
fn link() -> Class<()> {
    let spec = |dscps: &[u8], class| ClassSpec {
        matches: matches(dscps),
        service: ClassService::Share(Weight::new(1).unwrap(), 0),
        class,
    };
    let specs = vec![
        spec(&[1, 2, 3, 4], htb().named("htb")),
        spec(&[5, 6], hfsc().named("hfsc")),
        spec(&[], fifo("rest")),
    ];
    let policer = PolicerSpec {
        name: "gate".into(),
        matches: matches(&[7]),
        policer: Policer::new(rate(), Bytes::new(250)),
        actions: Actions::exceed(Action::Drop),
    };
    let classes = Queue::Classes(Box::new(Classes::new(specs)));
    Class::new(Queue::Policed(Box::new(Policed::new(vec![policer], classes)))).named("link")
}

/// For each class, its name, the packets and bytes that wait in it, and those that it has sent and
/// dropped.
type Rows = Vec<(String, [u64; 2], [u64; 2])>;

fn rows(class: &Class<()>) -> Rows {
    let mut rows = Vec::new();
    class.visit(&mut |name, counters, backlog| {
        let waiting = [backlog.packets, backlog.bytes.get()];
        rows.push((name.into(), waiting, [counters.sent.packets, counters.dropped_total()]));
    });
    rows
}

fn row(name: &str, waiting: [u64; 2], counted: [u64; 2]) -> (String, [u64; 2], [u64; 2]) {
    (name.into(), waiting, counted)
}

/// Offers one packet more of each DSCP than of the one before it, of 100 bytes and the DSCP.
fn fill(class: &mut Class<()>, ledger: &mut Ledger<()>) {
    for dscp in 1..8 {
        for _ in 0..dscp {
            class.enqueue(Time::ZERO, packet(100 + u32::from(dscp), dscp), ledger);
        }
    }
}

/// A queue holds four packets, and the policer admits two of 107 bytes.
#[test]
fn classes_of_all_levels_count_what_is_below_them() {
    let (mut class, mut ledger) = (link(), Ledger::new());
    fill(&mut class, &mut ledger);
    let waiting = [
        row("link", [20, 101 + 204 + 309 + 416 + 420 + 424 + 214], [0, 8]),
        row("gate", [0, 0], [0, 5]),
        row("htb", [10, 1030], [0, 0]),
        row("both", [6, 614], [0, 0]),
        row("one", [1, 101], [0, 0]),
        row("pair", [5, 513], [0, 0]),
        row("two", [2, 204], [0, 0]),
        row("three", [3, 309], [0, 0]),
        row("four", [4, 416], [0, 0]),
        row("hfsc", [8, 844], [0, 3]),
        row("curves", [8, 844], [0, 3]),
        row("five", [4, 420], [0, 1]),
        row("six", [4, 424], [0, 2]),
        row("rest", [2, 214], [0, 0]),
    ];
    assert_eq!(rows(&class), waiting);
    let bytes = Bytes::new(waiting[0].1[1]);
    assert_eq!(class.backlog(), Backlog { packets: 20, bytes });
    // Its packets, class by class, when another one replaces it.
    let mut drained = Vec::new();
    let mut other = link();
    fill(&mut other, &mut ledger);
    other.drain(&mut drained);
    let dscps: Vec<u8> = drained.iter().map(|packet| packet.header.dscp().get()).collect();
    let sorted = (1..8).flat_map(|dscp| vec![dscp; [1, 2, 3, 4, 4, 4, 2][usize::from(dscp) - 1]]);
    assert_eq!(dscps, sorted.collect::<Vec<u8>>());
    while let Dequeue::Packet(_) = class.dequeue(Time::ZERO, &mut ledger) {}
    for ((name, [waited, _], [_, dropped]), sent) in waiting.into_iter().zip(rows(&class)) {
        let sends = if name == "gate" { 0 } else { waited };
        assert_eq!(sent, row(&name, [0, 0], [sends, dropped]));
    }
}

fn voice() -> Reserved {
    Reserved {
        name: "voice".into(),
        matches: Match { dscps: vec![Dscp::EF], ..Match::default() },
        police: None,
        limit: Limit::packets(3),
    }
}

/// The packets of a class that is replaced go to the new one, which drops what it does not hold.
/// Reserved classes keep theirs, and are kept.
#[test]
fn a_class_that_is_replaced_hands_over_its_packets() {
    for reserved in [false, true] {
        let (mut class, mut ledger) = (fifo("old"), Ledger::new());
        let mut expected = vec![100, 200];
        if reserved {
            class.set_reserved(Time::ZERO, &[voice()], &mut ledger);
            class.enqueue(Time::ZERO, packet(60, 46), &mut ledger);
            expected.insert(0, 60);
        }
        for size in [100, 200, 300] {
            class.enqueue(Time::ZERO, packet(size, 0), &mut ledger);
        }
        let new = Class::new(Queue::Fifo(Fifo::new(Limit::packets(2)))).named("new");
        class.replace(Time::ZERO, new, &mut ledger);
        assert_eq!(rows(&class), [row("new", [2, 300], [0, 1])]);
        assert_eq!(class.reserved().len(), usize::from(reserved));
        assert_eq!(class.backlog().packets, expected.len() as u64);
        let dropped: Vec<_> = ledger.drops.iter().map(|drop| (drop.packet, drop.cause)).collect();
        assert_eq!(dropped, [(packet(300, 0), Cause::Limit)]);
        for size in expected {
            assert_eq!(class.head(Time::ZERO), Some(Bytes::new(size)));
            let next = class.dequeue(Time::ZERO, &mut ledger);
            assert!(matches!(next, Dequeue::Packet(sent) if sent.size().get() == size));
        }
        assert_eq!(class.dequeue(Time::ZERO, &mut ledger), Dequeue::Idle);
    }
}

/// A reservation that stays changes its policer, loses it or gets one, and its queue's limit. It
/// keeps its packets and counters.
#[test]
fn a_reservation_changes_its_policer_and_its_limit() {
    let (mut class, mut ledger) = (fifo("rest"), Ledger::new());
    let police = |bytes| Some((Rate::new(8).unwrap(), Bytes::new(bytes)));
    // Bucket and queue, and how many of six packets of 100 bytes wait, in sum. A bucket that is
    // changed keeps its tokens, of which there are none; a new one is full.
    for (police, limit, waiting, exceeded) in [
        (police(200), 6, 2, 4),
        (police(900), 9, 2, 10),
        (None, 5, 5, 10),
        (police(300), 9, 8, 13),
        (police(300), 20, 8, 19),
    ] {
        let reserved = Reserved { police, limit: Limit::packets(limit), ..voice() };
        class.set_reserved(Time::ZERO, &[reserved], &mut ledger);
        for _ in 0..6 {
            class.enqueue(Time::ZERO, packet(100, 46), &mut ledger);
        }
        let voice = &class.reserved()[0];
        assert_eq!(voice.backlog().packets, waiting);
        assert_eq!(voice.counters().exceeded.packets, exceeded);
        assert_eq!(voice.counters().dropped(Cause::Policer), exceeded);
    }
    // Without the reservation, its packets wait in the class behind it, which holds four.
    class.set_reserved(Time::ZERO, &[], &mut ledger);
    assert_eq!(rows(&class), [row("rest", [4, 400], [0, 4])]);
}

/// The first class of a name, from the link on inwards; of a tree, its leaves alone. Behind
/// reserved classes it is the same.
#[test]
fn classes_are_found_by_name() {
    let mut class = link();
    for reserved in [false, true] {
        if reserved {
            class.set_reserved(Time::ZERO, &[voice()], &mut Ledger::new());
            assert_eq!(class.reserved().iter().map(Class::name).collect::<Vec<_>>(), ["voice"]);
        }
        let names = ["link", "htb", "one", "two", "three", "four", "hfsc", "five", "six", "rest"];
        for name in names {
            assert_eq!(class.class_mut(name).map(|class| class.name().to_owned()).unwrap(), name);
        }
        for name in ["both", "pair", "curves", "gate", "voice", ""] {
            assert!(class.class_mut(name).is_none(), "{name}");
        }
        let found = class.class_mut("link").unwrap();
        assert_eq!(
            found.inner().iter().map(Class::name).collect::<Vec<_>>(),
            ["htb", "hfsc", "rest"]
        );
        assert!(found.reserved().is_empty());
        assert_eq!(rows(&class).len(), 14);
    }
    assert!(fifo("").inner().is_empty());
}

/// A class without a policer has none to change; one with a policer has its new burst.
#[test]
fn policers_of_classes_are_changed() {
    let mut class = fifo("open");
    assert!(!class.set_policer(Time::ZERO, rate(), Bytes::new(300)));
    assert!(!fifo("marked").marked(Dscp::EF).set_policer(Time::ZERO, rate(), Bytes::new(300)));
    class = class.policed(Policer::new(rate(), Bytes::new(100)), Actions::exceed(Action::Drop));
    assert!(class.set_policer(Time::ZERO, rate(), Bytes::new(300)));
    let mut ledger = Ledger::new();
    for _ in 0..4 {
        class.enqueue(micros(200), packet(100, 0), &mut ledger);
    }
    assert_eq!((class.backlog().packets, ledger.drops.len()), (3, 1));
}

/// CoDel announces 100 bytes, for which there are tokens, and drops them; the packet behind them,
/// of 1500, waits in the shaper until the bucket of 1000 bytes is full.
#[test]
fn a_packet_that_waits_in_the_shaper_is_in_the_backlog() {
    let codel = Codel::new(CodelConfig {
        limit: Limit::packets(10),
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        ecn: false,
    });
    let queue = Queue::Codel(Box::new(codel));
    let mut class = Class::new(queue).shaped(Shaper::new(rate(), Bytes::new(1000)));
    let mut ledger = Ledger::new();
    for (dscp, size) in [100, 900, 100, 1500, 1400, 100].into_iter().enumerate() {
        class.enqueue(Time::ZERO, packet(size, dscp as u8), &mut ledger);
    }
    // The delay is first above the target at 10 ms; 600 bytes are in the bucket at 110 ms.
    for (at, size) in [(10_000, 100), (109_500, 900)] {
        assert_eq!(class.head(micros(at)), Some(Bytes::new(size)));
        let next = class.dequeue(micros(at), &mut ledger);
        assert!(matches!(next, Dequeue::Packet(sent) if sent.size().get() == size));
    }
    assert_eq!(class.head(micros(110_000)), Some(Bytes::new(100)));
    let due = micros(110_400);
    assert_eq!(class.dequeue(micros(110_000), &mut ledger), Dequeue::NotBefore(due));
    assert_eq!(class.head(micros(110_000)), Some(Bytes::new(1500)));
    assert_eq!(class.backlog(), Backlog { packets: 3, bytes: Bytes::new(3000) });
    assert_eq!((class.counters().sent.packets, class.counters().dropped(Cause::Early)), (2, 1));
    let next = class.dequeue(due, &mut ledger);
    assert!(matches!(next, Dequeue::Packet(sent) if sent.header.size == 1500));
    assert_eq!(class.backlog(), Backlog { packets: 2, bytes: Bytes::new(1500) });
}

/// A plain queue has no policer, mark or shaper, and drops at its tail. Packets pass it alike, and
/// classes of such queues, unless they are too long for it.
#[test]
fn plain_queues() {
    let limit = Limit::bytes(Bytes::new(500));
    let tail = || Class::new(Queue::Fifo(Fifo::<()>::new(limit)));
    let head = || Class::new(Queue::Fifo(Fifo::new(limit).dropping_at_head()));
    let shared = |inner: fn(Class<()>) -> Class<()>, sharing| {
        let service = ClassService::Share(Weight::new(1).unwrap(), 0);
        let spec = ClassSpec { matches: MatchRules::default(), service, class: inner(tail()) };
        Class::new(Queue::Classes(Box::new(Classes::sharing(vec![spec], sharing))))
    };
    let shaped = |class: Class<()>| class.shaped(Shaper::new(rate(), Bytes::ZERO));
    for (class, plain, repeats) in [
        (tail(), true, true),
        (head(), false, true),
        (shaped(tail()), false, false),
        (tail().marked(Dscp::EF), false, false),
        (shared(|class| class, Sharing::Wfq), false, true),
        (shared(|class| class.marked(Dscp::EF), Sharing::Wfq), false, false),
        (shared(|class| class, Sharing::LinkShare), false, false),
        (link(), false, false),
    ] {
        assert_eq!(class.is_plain(), plain);
        assert_eq!(class.plain_limit(), plain.then_some(limit));
        assert_eq!(class.waiting().count(), 0);
        assert_eq!(class.repeats(&packet(500, 0).header), repeats);
        assert!(!class.repeats(&packet(501, 0).header));
    }
}

proptest! {
    /// A link that schedules packets of a plain queue, and keeps them, sends and drops what one
    /// does that takes each from the queue in its turn, at the same instants.
    #[test]
    fn packets_are_scheduled_as_they_would_be_sent(
        limit in prop_oneof![
            (0_u64..6).prop_map(Limit::packets),
            (0_u64..5000).prop_map(|bytes| Limit::bytes(Bytes::new(bytes))),
        ],
        steps in prop::collection::vec(
            (prop_oneof![Just(0_u64), 0..700_u64, Just(1000)], 0_u8..20,
             prop_oneof![Just(1000_u32), 40..1500_u32]),
            1..100,
        ),
    ) {
        let class = || Class::new(Queue::Fifo(Fifo::new(limit)));
        let (mut ahead, mut queue) = (class(), class());
        let (mut begins, mut expected) = (Vec::new(), Vec::new());
        let mut next = Time::MAX;
        let (mut ahead_free, mut free, mut now) = (Time::ZERO, Time::ZERO, Time::ZERO);
        let mut ledger = Ledger::new();
        for (gap, what, size) in steps {
            now += Duration::from_micros(gap);
            while next <= now {
                let at = next;
                let begun;
                (begun, next) = ahead.begin();
                begins.push((at, begun));
            }
            while queue.backlog().packets > 0 && free <= now {
                let Dequeue::Packet(sent) = queue.dequeue(free, &mut ledger) else { panic!() };
                expected.push((free, sent.size()));
                free += sent.size() / rate();
            }
            prop_assert_eq!(&begins, &expected);
            if what == 0 {
                // Another queue replaces this one.
                let waiting = queue.backlog().packets as usize;
                prop_assert_eq!(ahead.unschedule(), (waiting > 0).then_some((waiting, free)));
                prop_assert_eq!(queue.take().len(), waiting);
                (ahead_free, next) = (free, Time::MAX);
                continue;
            }
            let packet = packet(size, 0);
            let scheduled = ahead.schedule(now, ahead_free, packet.size());
            let pass = match queue.backlog().packets == 0 && free <= now {
                true => queue.pass(now, &packet.header),
                false => Pass::Enqueue,
            };
            let drops = ledger.drops.len();
            match pass {
                Pass::Send => {
                    expected.push((now, packet.size()));
                    begins.push((scheduled.unwrap(), packet.size()));
                    free = now + packet.size() / rate();
                }
                Pass::Drop(cause) => prop_assert_eq!(scheduled, Err(cause)),
                Pass::Enqueue => {
                    queue.enqueue(now, packet, &mut ledger);
                    prop_assert_eq!(scheduled.is_err(), ledger.drops.len() > drops);
                }
            }
            if let Ok(at) = scheduled {
                ahead_free = at + packet.size() / rate();
                if at > now {
                    next = next.min(at);
                }
            }
            prop_assert_eq!(ahead.backlog(), queue.backlog());
            prop_assert_eq!(ahead.counters(), queue.counters());
        }
    }
}
