mod turns;

use proptest::prelude::*;

use super::*;
use crate::lab::packet;
use crate::{
    Cause, Cbq, CbqClassKind, CbqConfig, CbqSpec, DualPi2, DualPi2Config, Fifo, Framing, Hfsc,
    HfscClassKind, HfscCurves, HfscSpec, Htb, HtbClassKind, HtbRates, HtbSpec, Limit, Measure,
    Queue, QueueConfig, RedConfig, RedProfile, RedRule, RedSpec, ServiceCurve, Shaper,
};
use perhop_core::{Dscp, Duration, Ecn, Rate, Stream};

const STRICT: ClassService = ClassService::Strict;

fn micros(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

fn spec(dscp: u8, service: ClassService, class: Class<()>) -> ClassSpec<()> {
    let dscps = vec![Dscp::new(dscp).unwrap()];
    ClassSpec { matches: Match { dscps, ..Match::default() }.into(), service, class }
}

fn fifo(packets: u64) -> Class<()> {
    Class::new(Queue::Fifo(Fifo::new(Limit::packets(packets)).dropping_at_head()))
}

/// Returns a class of 8 Mb/s, a byte in a microsecond, of the DSCPs 3n to 3n + 2: of a queue, whose
/// head may be dropped for another packet; or of strict classes, so that an arrival may change what
/// waits, and until when. These have no shapers of their own: [`Classes::head`] may name a class
/// that its shaper holds back, for whose packet the shaper around it would wait.
fn shaped(number: u8, packets: u64, burst: u64) -> Class<()> {
    let shaper = |burst| Shaper::new(Rate::new(8_000_000).unwrap(), Bytes::new(burst));
    let class = if packets < 3 {
        fifo(packets)
    } else {
        let inner = vec![
            spec(3 * number, STRICT, fifo(2)),
            spec(3 * number + 1, STRICT, fifo(packets)),
            spec(3 * number + 2, STRICT, fifo(1)),
        ];
        Class::new(Queue::Classes(Box::new(Classes::new(inner))))
    };
    class.shaped(shaper(burst))
}

/// A packet that waits for the shaper until 1000 µs makes room for one that need not wait, and the
/// next one must wait until the same instant again, whether the class was polled in between or not.
#[test]
fn a_class_that_was_woken_may_sleep_until_the_same_instant() {
    for polled in [false, true] {
        for service in [STRICT, ClassService::Share(Weight::new(1).unwrap(), 0)] {
            let mut classes = Classes::new(vec![spec(0, service, shaped(0, 1, 1500))]);
            let mut ledger = Ledger::new();
            let mut send = |classes: &mut Classes<()>, at, size| {
                classes.enqueue(micros(at), packet(size, 0), &mut ledger);
                classes.dequeue(micros(at), &mut ledger)
            };
            assert_eq!(send(&mut classes, 0, 1500), Dequeue::Packet(packet(1500, 0)));
            assert_eq!(send(&mut classes, 0, 1000), Dequeue::NotBefore(micros(1000)));
            assert_eq!(send(&mut classes, 100, 40), Dequeue::Packet(packet(40, 0)));
            if polled {
                assert_eq!(classes.dequeue(micros(100), &mut Ledger::new()), Dequeue::Idle);
            }
            assert_eq!(send(&mut classes, 100, 960), Dequeue::NotBefore(micros(1000)));
            assert_eq!(classes.head(micros(100)), Some(Bytes::new(960)));
            let next = classes.dequeue(micros(1000), &mut ledger);
            assert_eq!(next, Dequeue::Packet(packet(960, 0)));
            assert_eq!(ledger.drops.len(), 1);
        }
    }
}

/// Strict classes without a scheduler: each is polled in turn until one sends.
struct Polled(Vec<Class<()>>);

impl Polled {
    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<()>) -> Dequeue<()> {
        let mut first = Time::MAX;
        for class in &mut self.0 {
            match class.dequeue(now, ledger) {
                Dequeue::NotBefore(at) => first = first.min(at),
                Dequeue::Idle => {}
                sent @ Dequeue::Packet(_) => return sent,
            }
        }
        if first < Time::MAX { Dequeue::NotBefore(first) } else { Dequeue::Idle }
    }

    fn backlogs(&self) -> Vec<Backlog> {
        self.0.iter().map(Class::backlog).collect()
    }
}

proptest! {
    /// Classes that sleep and wake send what they would send if each was polled all the time, at
    /// the same instants.
    #[test]
    fn sleepers_do_as_if_they_were_polled(
        plans in prop::collection::vec((1_u64..5, 0_u64..3_000), 1..5),
        steps in prop::collection::vec(
            (0_u8..12, prop_oneof![Just(0_u32), 40..400_u32, 40..1500_u32],
             prop_oneof![Just(0_u64), 0..300_u64, 0..4_000_u64]),
            1..120,
        ),
        shared in any::<bool>(),
    ) {
        let class = |(number, (packets, burst))| shaped(number, packets, burst);
        let classes = || (0..).zip(plans.clone()).map(class).collect::<Vec<_>>();
        let last = plans.len() - 1;
        let spec = |(number, class)| ClassSpec {
            matches: MatchRules::from(Match {
                dscps: (0..3).map(|inner| Dscp::new(3 * number as u8 + inner).unwrap()).collect(),
                ..Match::default()
            }),
            // A class alone has the same turns by its share.
            service: match shared && number == last {
                true => ClassService::Share(Weight::new(7).unwrap(), 0),
                false => STRICT,
            },
            class,
        };
        let mut asleep = Classes::new(classes().into_iter().enumerate().map(spec).collect());
        let mut polled = Polled(classes());
        let (mut dropped, mut expected) = (Ledger::new(), Ledger::new());
        let mut now = Time::ZERO;
        for (dscp, size, gap) in steps {
            let until = now + Duration::from_micros(gap);
            // A link that takes no time polls whenever it was told to.
            loop {
                let head = asleep.head(now);
                let next = asleep.dequeue(now, &mut dropped);
                prop_assert_eq!(next, polled.dequeue(now, &mut expected));
                let backlogs: Vec<_> = asleep.classes().iter().map(Class::backlog).collect();
                prop_assert_eq!(&backlogs, &polled.backlogs());
                let waiting = backlogs.iter().map(|each| each.packets).sum::<u64>();
                let bytes = backlogs.iter().fold(Bytes::ZERO, |sum, each| sum + each.bytes);
                prop_assert_eq!(asleep.backlog(), Backlog { packets: waiting, bytes });
                match next {
                    Dequeue::Packet(sent) => prop_assert_eq!(head, Some(sent.size())),
                    Dequeue::NotBefore(at) => {
                        prop_assert!(at > now && head.is_some());
                        if at > until {
                            break;
                        }
                        now = at;
                    }
                    Dequeue::Idle => {
                        prop_assert_eq!((head, waiting), (None, 0));
                        break;
                    }
                }
            }
            now = until;
            // Packets without a class of their own go to the last one, as does a DSCP's.
            if size > 0 {
                let class = usize::from(dscp / 3).min(last);
                let packet = packet(size, dscp);
                asleep.enqueue(now, packet, &mut dropped);
                polled.0[class].enqueue(now, packet, &mut expected);
                prop_assert_eq!(&dropped.drops, &expected.drops);
            }
        }
    }
}

/// Quanta of 100 and 200 bytes, and packets of 100: one and two in turn. As weights, they stand for
/// 1500 and 3000 bytes in deficit round robin, and divide packet by packet in WF²Q+: finish tags of
/// 300 and 150, start tags of 300 and 150.
#[test]
fn weights_by_kind_of_sharing() {
    let drr = [[0].repeat(15), [1].repeat(15)].concat();
    for (sharing, expected) in [
        (Sharing::DrrQuanta, [0, 1, 1].repeat(10)),
        (Sharing::Drr, drr),
        (Sharing::Wfq, [1, 0, 1].repeat(10)),
    ] {
        let share = |weight| ClassService::Share(Weight::new(weight).unwrap(), 0);
        let specs = vec![spec(0, share(100), fifo(99)), spec(1, share(200), fifo(99))];
        let mut classes = Classes::sharing(specs, sharing);
        let mut ledger = Ledger::new();
        for number in 0..60 {
            classes.enqueue(Time::ZERO, packet(100, number % 2), &mut ledger);
        }
        let sent: Vec<u8> = (0..30)
            .map(|_| match classes.dequeue(Time::ZERO, &mut ledger) {
                Dequeue::Packet(sent) => sent.header.dscp().get(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(sent, expected, "{sharing:?}");
    }
}

/// A packet that passes an idle link is charged to its class: in WF²Q+ the other class is next, in
/// deficit round robin nothing is left of it, and in link sharing it is paid by the guarantee of 8
/// kb/s, a byte in a millisecond, of which there are 4500 bytes at first. A strict class pays
/// nothing.
#[test]
fn packets_that_pass_are_charged() {
    let shared = |class| {
        let weight = Weight::new(8_000).unwrap();
        spec(class, ClassService::Share(weight, 0), fifo(99))
    };
    // How many packets of 100 bytes pass before, until when, and the classes that send then.
    for (sharing, passes, at_millis, expected) in [
        (Sharing::Wfq, 0, 0, [0, 1, 0, 1]),
        (Sharing::Wfq, 1, 0, [1, 0, 1, 0]),
        (Sharing::Wfq, 5, 0, [1, 0, 1, 0]), // each begins a busy period
        (Sharing::Drr, 5, 0, [0, 0, 0, 0]),
        (Sharing::LinkShare, 1, 0, [1, 0, 1, 0]),
        (Sharing::LinkShare, 45, 0, [1, 0, 1, 1]), // the next one overdraws the guarantee
        (Sharing::LinkShare, 46, 0, [1; 4]),       // by 100 bytes
        (Sharing::LinkShare, 46, 99, [1; 4]),
        (Sharing::LinkShare, 46, 100, [1, 0, 1, 1]),
    ] {
        let mut classes = Classes::sharing(vec![shared(0), shared(1)], sharing);
        let mut ledger = Ledger::new();
        for _ in 0..passes {
            assert_eq!(classes.pass(micros(0), &packet(100, 0).header), Pass::Send);
        }
        let now = micros(1000 * at_millis);
        for number in 0..12 {
            classes.enqueue(now, packet(100, number % 2), &mut ledger);
        }
        let sent = [0; 4].map(|_| match classes.dequeue(now, &mut ledger) {
            Dequeue::Packet(sent) => sent.header.dscp().get(),
            other => panic!("{other:?}"),
        });
        assert_eq!(sent, expected, "{sharing:?} {passes}");
    }
    // A class that has overdrawn its guarantee borrows, after the guarantee of one with a lower
    // priority; a hundred milliseconds later it has one again.
    for (passes, wait, expected) in
        [(45, 0, 0), (46, 0, 1), (46, 99, 1), (46, 100, 0), (46, 101, 0)]
    {
        let weight = Weight::new(8_000).unwrap();
        let turns = |class| spec(class, ClassService::Turns(weight, class, weight), fifo(99));
        let specs = vec![turns(0), turns(1), spec(2, STRICT, fifo(99))];
        let mut classes = Classes::sharing(specs, Sharing::LinkShare);
        let mut ledger = Ledger::new();
        for dscp in [0, 2] {
            for _ in 0..passes {
                assert_eq!(classes.pass(micros(0), &packet(100, dscp).header), Pass::Send);
            }
        }
        let now = micros(1000 * wait);
        for dscp in [1, 0] {
            classes.enqueue(now, packet(100, dscp), &mut ledger);
        }
        let next = classes.dequeue(now, &mut ledger);
        assert_eq!(next, Dequeue::Packet(packet(100, expected)), "{passes} {wait}");
    }
}

/// Returns the sets of classes, each of two: one of this queue for the DSCP 8, and one for the
/// rest.
fn sets(queue: impl Fn() -> Queue<()>) -> Vec<Queue<()>> {
    let rate = Rate::new(8_000_000).unwrap();
    let matches =
        || MatchRules::from(Match { dscps: vec![Dscp::new(8).unwrap()], ..Match::default() });
    let pair = || [(matches(), Class::new(queue())), (MatchRules::default(), fifo(99))];
    let mut sets = Vec::new();
    let shared = ClassService::Share(Weight::new(1_000_000).unwrap(), 0);
    for (service, sharing) in [
        (STRICT, Sharing::Wfq),
        (shared, Sharing::Wfq),
        (shared, Sharing::Drr),
        (shared, Sharing::LinkShare),
    ] {
        let services = [service, shared];
        let specs = pair().into_iter().zip(services);
        let spec = |((matches, class), service)| ClassSpec { matches, service, class };
        let classes = Classes::sharing(specs.map(spec).collect(), sharing);
        sets.push(Queue::Classes(Box::new(classes)));
    }
    let curve = Some(ServiceCurve { m1: 4_000_000, d: Duration::ZERO, m2: 4_000_000 });
    for realtime in [None, curve] {
        let curves = HfscCurves { realtime, linkshare: curve, upperlimit: None };
        let spec =
            |(matches, class)| HfscSpec { matches, curves, kind: HfscClassKind::Leaf(class) };
        sets.push(Queue::Hfsc(Box::new(Hfsc::new(pair().into_iter().map(spec).collect()))));
    }
    let rates = HtbRates {
        rate,
        burst: Bytes::new(100_000),
        ceil: rate,
        cburst: Bytes::new(100_000),
        priority: 0,
        quantum: Weight::new(100).unwrap(),
    };
    for own in [None, Some(rates)] {
        let spec =
            |(matches, class), rates| HtbSpec { matches, rates, kind: HtbClassKind::Leaf(class) };
        let [first, last] = pair();
        let specs = vec![spec(first, own), spec(last, Some(rates))];
        sets.push(Queue::Htb(Box::new(Htb::new(rates, Framing::default(), specs))));
    }
    let config = CbqConfig {
        rate,
        tick: Duration::from_millis(1),
        packet: Bytes::new(1500),
        maxburst: None,
        minburst: 2,
        token_bucket: false,
        efficient: true,
        kick: true,
    };
    let spec = |(matches, class)| CbqSpec {
        matches,
        rate: Rate::new(4_000_000).unwrap(),
        borrow: true,
        kind: CbqClassKind::Leaf(class, 0),
    };
    sets.push(Queue::Cbq(Box::new(Cbq::new(config, pair().into_iter().map(spec).collect()))));
    sets
}

/// DualPI2 drops all but one of three packets that have waited for 30 times its target, when they
/// are to be sent: its class has nothing left when it is asked for the second. The other class
/// sends its two packets all the same, and so again.
#[test]
fn a_class_that_drops_all_that_waits_holds_nobody() {
    let config = DualPi2Config {
        limit: Limit::packets(99),
        target: Duration::from_millis(1),
        max_rtt: Duration::from_millis(3),
        coupling: 2,
        threshold: Duration::from_millis(1),
        range: Duration::ZERO,
        classic_share_ppb: 62_500_000,
    };
    for (number, mut queue) in
        sets(|| Queue::DualPi2(Box::new(DualPi2::new(config)))).into_iter().enumerate()
    {
        let mut ledger = Ledger::new();
        // Probabilities add up, and a sum above 1 drops: of a sum of 1 that is left, all go.
        for (at, left, dropped) in [(0, &[0, 0, 8][..], 2), (100_000, &[0, 0], 5)] {
            for dscp in [8, 0, 8, 0, 8] {
                queue.enqueue(micros(at), packet(100, dscp), &mut ledger);
            }
            let (mut now, mut sent) = (micros(at + 30_000), Vec::new());
            loop {
                let Backlog { packets, bytes } = queue.backlog();
                assert_eq!(bytes, Bytes::new(100) * packets);
                match queue.dequeue(now, &mut ledger) {
                    Dequeue::Packet(packet) => sent.push(packet.header.dscp().get()),
                    Dequeue::NotBefore(at) => now = at,
                    Dequeue::Idle => break,
                }
            }
            sent.sort_unstable();
            assert_eq!(sent, left, "set {number}");
            assert_eq!((ledger.drops.len(), queue.backlog()), (dropped, Backlog::default()));
            assert!(ledger.drops.iter().all(|drop| drop.cause == Cause::Early));
            assert_eq!(queue.head(now), None);
        }
    }
}

/// RED of the greatest probability marks every packet that finds two waiting: the class counts the
/// marks, and so does every class above it.
#[test]
fn marks_count_in_the_classes_above() {
    let spec = RedSpec {
        config: RedConfig {
            limit: Limit::packets(99),
            measure: Measure::Packets,
            weight: 1.0,
            packet_time: Duration::from_millis(1),
            gentle: false,
            ecn: true,
            harddrop: false,
        },
        rules: vec![RedRule {
            dscps: vec![],
            thresholds: RedProfile { min: 0.0, max: 1.0, probability: 1.0 },
        }],
    };
    let red = || QueueConfig::Red(spec.clone()).queue(|| Stream::new(1, "red"));
    // The same one level deeper.
    let curve = ServiceCurve { m1: 8_000, d: Duration::ZERO, m2: 8_000 };
    let curves = HfscCurves { linkshare: Some(curve), ..HfscCurves::default() };
    let leaf = |class| {
        let kind = HfscClassKind::Leaf(class);
        HfscSpec { matches: MatchRules::default(), curves, kind }
    };
    let kind = HfscClassKind::Interior("inner".into(), vec![leaf(Class::new(red()))]);
    let inner = HfscSpec { kind, ..leaf(fifo(1)) };
    let deep = Queue::Hfsc(Box::new(Hfsc::new(vec![inner])));
    let shallow = sets(red).into_iter().map(|queue| (queue, vec![3, 3, 0]));
    for (queue, expected) in shallow.chain([(deep, vec![3; 3])]) {
        let mut class = Class::new(queue).named("all");
        let mut ledger = Ledger::new();
        for _ in 0..5 {
            let mut packet = packet(100, 8);
            packet.header.traffic_class = packet.header.traffic_class.with_ecn(Ecn::Ect0);
            class.enqueue(Time::ZERO, packet, &mut ledger);
        }
        let mut marked = Vec::new();
        class.visit(&mut |_, counters, _| marked.push(counters.marked));
        assert_eq!((ledger.marks, marked), (3, expected));
    }
}
