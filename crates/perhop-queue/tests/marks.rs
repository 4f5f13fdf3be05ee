//! Marks of classes: the DSCP with which packets leave, and what looks at which DSCP.

use perhop_core::{
    AckHint, Bytes, Dscp, Duration, Encapsulation, Header, LinkClass, NodeId, Packet, Protocol,
    Rate, Time, TrafficClass,
};
use perhop_queue::{
    Action, Actions, Cause, Class, ClassService, ClassSpec, Classes, Dequeue, Discipline, Fifo,
    Framing, Ledger, Limit, Mark, Match, Measure, Policed, Policer, PolicerSpec, Queue,
    QueueConfig, RedConfig, RedProfile, RedRule, RedSpec, Weight,
};

fn dscp(value: u8) -> Dscp {
    Dscp::new(value).unwrap()
}

fn packet(value: u8) -> Packet<()> {
    let header = Header {
        size: 1000,
        source: NodeId(0),
        destination: NodeId(1),
        source_port: 0,
        destination_port: 0,
        protocol: Protocol::Udp.into(),
        traffic_class: TrafficClass::new(dscp(value)),
        ttl: Header::TTL,
        ack: AckHint::NONE,
    };
    Packet { header, body: () }
}

fn fifo() -> Class<()> {
    Class::new(Queue::Fifo(Fifo::new(Limit::packets(100))))
}

/// Returns a policer that lets one packet conform.
fn one(class: Class<()>, exceed: Action) -> Class<()> {
    class.policed(Policer::new(Rate::new(8).unwrap(), Bytes::new(1000)), Actions::exceed(exceed))
}

/// Returns classes for the DSCPs 1 and 2, and one for the rest.
fn by_dscp(classes: [Class<()>; 3]) -> Class<()> {
    Class::new(queue_by_dscp(classes))
}

fn queue_by_dscp(classes: [Class<()>; 3]) -> Queue<()> {
    let specs = classes.into_iter().zip([vec![dscp(1)], vec![dscp(2)], vec![]]);
    let spec = |(class, dscps)| ClassSpec {
        matches: Match { dscps, ..Match::default() }.into(),
        service: ClassService::Share(Weight::new(1).unwrap(), 0),
        class,
    };
    Queue::Classes(Box::new(Classes::new(specs.map(spec).collect())))
}

/// Offers packets with these DSCPs, and returns those with which packets leave, sorted.
fn leave(class: &mut Class<()>, offered: &[u8]) -> Vec<u8> {
    let mut ledger = Ledger::new();
    let mut left = Vec::new();
    for &value in offered {
        class.enqueue(Time::ZERO, packet(value), &mut ledger);
    }
    while let Dequeue::Packet(packet) = class.dequeue(Time::ZERO, &mut ledger) {
        left.push(packet.header.dscp().get());
    }
    left.sort_unstable();
    left
}

/// Returns the number of packets that each inner class has sent.
fn sent(class: &Class<()>) -> Vec<u64> {
    class.inner().iter().map(|inner| inner.counters().sent.packets).collect()
}

#[test]
fn packets_leave_with_the_mark_of_their_class() {
    let mut class = by_dscp([fifo().marked(dscp(46)), fifo(), fifo().marked(dscp(0))]);
    assert_eq!(leave(&mut class, &[1, 2, 3]), [0, 2, 46]);
    assert_eq!(sent(&class), [1, 1, 1]);
}

#[test]
fn an_idle_link_marks_too() {
    let mut class = fifo().marked(dscp(46));
    assert!(!class.is_plain());
    assert_eq!(class.pass(Time::ZERO, &packet(1).header), perhop_queue::Pass::Enqueue);
    assert_eq!(leave(&mut class, &[1]), [46]);
}

#[test]
fn a_remark_of_the_policer_replaces_the_mark() {
    let mut class = one(fifo().marked(dscp(46)), Action::Remark(dscp(8)));
    assert_eq!(leave(&mut class, &[1, 1, 1]), [8, 8, 46]);
    assert_eq!(class.counters().remarked, 2);
}

#[test]
fn a_policer_sees_the_mark() {
    let policer = Policer::new(Rate::new(8).unwrap(), Bytes::new(9000)).colour_aware();
    let aware = |class: Class<()>| class.policed(policer.clone(), Actions::exceed(Action::Drop));
    // AF12 is yellow, so that no packet conforms.
    assert_eq!(leave(&mut aware(fifo()), &[12, 10]), [10]);
    assert_eq!(leave(&mut aware(fifo().marked(dscp(12))), &[12, 10]), [0; 0]);
}

#[test]
fn classes_inside_classify_by_the_dscp_that_packets_had() {
    let inner = || by_dscp([fifo(), fifo(), fifo()]);
    let mut class = inner().marked(dscp(2));
    assert_eq!(leave(&mut class, &[1, 2, 3, 3]), [2, 2, 2, 2]);
    assert_eq!(sent(&class), [1, 1, 2]);
    // To any depth, also below classes with marks of their own.
    let mut class = by_dscp([inner().marked(dscp(9)), fifo(), inner()]).marked(dscp(2));
    assert_eq!(leave(&mut class, &[1, 1, 3]), [2, 9, 9]);
    assert_eq!(sent(&class), [2, 0, 1]);
    assert_eq!(sent(&class.inner()[0]), [2, 0, 0]);
    assert_eq!(sent(&class.inner()[2]), [0, 0, 1]);
}

#[test]
fn the_innermost_mark_is_the_last() {
    let mut class = by_dscp([fifo().marked(dscp(5)), fifo(), fifo()]).marked(dscp(7));
    assert_eq!(leave(&mut class, &[1, 2]), [5, 7]);
}

#[test]
fn classes_inside_see_the_remark_of_an_outer_policer() {
    let inner = by_dscp([fifo(), fifo(), fifo()]);
    let mut class = one(inner.marked(dscp(9)), Action::Remark(dscp(2)));
    assert_eq!(leave(&mut class, &[1, 1, 1]), [2, 2, 9]);
    assert_eq!(sent(&class), [1, 2, 0]);
    // Also where the outermost class marks, and the policer is further in.
    let inner = by_dscp([fifo(), fifo(), fifo()]);
    let remarks = one(inner, Action::Remark(dscp(2)));
    let mut class = by_dscp([remarks, fifo(), fifo()]).marked(dscp(9));
    assert_eq!(leave(&mut class, &[1, 1, 1]), [2, 2, 9]);
    assert_eq!(sent(&class.inner()[0]), [1, 2, 0]);
}

#[test]
fn marks_at_layer_2_leave_the_dscp_and_what_classes_inside_see() {
    let arrived = LinkClass::arrived(Encapsulation::Dot1q, 3);
    let mark = |dscp, link: u8| Mark { dscp, link: Some(LinkClass::marked(link)) };
    // A class inside for the PCP 3, which remarks; the policer outside changes DSCPs alone.
    let spec = |link_classes, class: Class<()>| ClassSpec {
        matches: Match { link_classes, ..Match::default() }.into(),
        service: ClassService::Share(Weight::new(1).unwrap(), 0),
        class,
    };
    let inside = vec![spec(vec![arrived], fifo().marked(mark(None, 6))), spec(vec![], fifo())];
    let inner = Class::new(Queue::Classes(Box::new(Classes::new(inside))));
    let mut class = one(inner.marked(mark(Some(dscp(9)), 1)), Action::Remark(dscp(2)));
    let mut ledger = Ledger::new();
    for link in [arrived, arrived, LinkClass::NONE] {
        let mut packet = packet(1);
        packet.header.set_link_class(link);
        class.enqueue(Time::ZERO, packet, &mut ledger);
    }
    assert_eq!(sent_after(&mut class, &mut ledger), [(2, 1), (2, 6), (9, 6)]);
    assert_eq!(sent(&class), [2, 1]);
}

/// Returns the DSCPs and the marks at layer 2 of the packets that a class holds, sorted.
fn sent_after(class: &mut Class<()>, ledger: &mut Ledger<()>) -> Vec<(u8, u8)> {
    let mut left = Vec::new();
    while let Dequeue::Packet(packet) = class.dequeue(Time::ZERO, ledger) {
        let mark = packet.header.link_class();
        let value = (0..8).find(|&value| mark == LinkClass::marked(value)).unwrap();
        left.push((packet.header.dscp().get(), value));
    }
    left.sort_unstable();
    left
}

#[test]
fn red_has_the_thresholds_of_the_mark() {
    let rule =
        |dscps, min, max| RedRule { dscps, thresholds: RedProfile { min, max, probability: 1.0 } };
    let spec = RedSpec {
        config: RedConfig {
            limit: Limit::packets(100),
            measure: Measure::Packets,
            weight: 1.0,
            packet_time: Duration::from_millis(1),
            gentle: false,
            ecn: false,
            harddrop: false,
        },
        // By default nothing is dropped; packets with the mark are from the first one waiting on.
        rules: vec![rule(vec![], 90.0, 99.0), rule(vec![dscp(46)], 0.5, 1.0)],
    };
    let stream = || perhop_core::Stream::new(1, "red");
    let class = || Class::new(QueueConfig::Red(spec.clone()).queue(stream));
    assert_eq!(leave(&mut class(), &[1; 20]).len(), 20);
    assert!(leave(&mut class().marked(dscp(46)), &[1; 20]).len() < 5);
}

/// Returns a policer before classes that lets `packets` with these DSCPs conform.
fn before(name: &str, packets: u64, dscps: &[u8], exceed: Action) -> PolicerSpec {
    let dscps = dscps.iter().map(|&value| dscp(value)).collect();
    PolicerSpec {
        name: name.into(),
        matches: Match { dscps, ..Match::default() }.into(),
        policer: Policer::new(Rate::new(8).unwrap(), Bytes::new(1000 * packets)),
        actions: Actions::exceed(exceed),
    }
}

/// Returns classes for the DSCPs 1 and 2, and one for the rest, behind policers.
fn behind(policers: Vec<PolicerSpec>) -> Class<()> {
    let classes = [fifo().named("one"), fifo().named("two"), fifo().named("rest")];
    Class::new(Queue::Policed(Box::new(Policed::new(policers, queue_by_dscp(classes)))))
}

/// Returns the packets that each policer and class dropped and exceeded, by name.
fn exceeded(class: &Class<()>) -> Vec<(String, u64, u64)> {
    let mut seen = Vec::new();
    class.visit(&mut |name, counters, _| {
        seen.push((name.to_owned(), counters.dropped(Cause::Policer), counters.exceeded.packets));
    });
    seen
}

#[test]
fn a_policer_before_classes_has_one_bucket_for_all_of_them() {
    let mut class = behind(vec![before("both", 3, &[1, 2], Action::Drop)]);
    assert_eq!(leave(&mut class, &[1, 2, 5, 1, 2, 1, 5]), [1, 1, 2, 5, 5]);
    let zero = |name: &str| (name.to_owned(), 0, 0);
    let expected =
        [(String::new(), 2, 0), ("both".into(), 2, 2), zero("one"), zero("two"), zero("rest")];
    assert_eq!(exceeded(&class), expected);
    assert_eq!(class.inner().len(), 3);
}

#[test]
fn policers_before_classes_measure_in_turn() {
    // The second one gets what the first one lets pass, with its new DSCP.
    let policers =
        vec![before("a", 1, &[1], Action::Remark(dscp(2))), before("b", 2, &[2], Action::Drop)];
    let mut class = behind(policers);
    assert_eq!(leave(&mut class, &[1, 1, 1, 1]), [1, 2, 2]);
    assert_eq!(exceeded(&class)[1..3], [("a".into(), 0, 3), ("b".into(), 1, 1)]);
}

#[test]
fn a_policer_before_inner_classes_selects_by_the_mark_that_packets_had() {
    let inner = behind(vec![before("inner", 1, &[1], Action::Drop)]).marked(dscp(9));
    let mut class = by_dscp([inner, fifo(), fifo()]);
    assert_eq!(leave(&mut class, &[1, 1]), [9]);
}

/// Behind a mark, a packet that conforms keeps the DSCP by which it is classified; one that exceeds
/// has that of the remark, for later policers, too.
#[test]
fn policers_before_marked_classes_leave_what_they_do_not_remark() {
    let policers = || {
        vec![
            before("a", 1, &[1], Action::Remark(dscp(2))),
            before("b", 1, &[2], Action::Remark(dscp(3))),
        ]
    };
    for (offered, left, classes) in [
        ([1, 5, 7], [9, 9, 9], [1, 0, 2]),
        ([1, 1, 7], [2, 9, 9], [1, 1, 1]),
        ([2, 2, 1], [3, 9, 9], [1, 1, 1]),
        ([1, 1, 1], [2, 3, 9], [1, 1, 1]),
    ] {
        let mut class = behind(policers()).marked(dscp(9));
        assert_eq!(leave(&mut class, &offered), left, "{offered:?}");
        assert_eq!(sent(&class), classes, "{offered:?}");
    }
}

#[test]
fn a_framed_policer_counts_the_bytes_of_layer_2() {
    let framing = Framing { overhead: 14, ..Framing::default() };
    for (burst, conform) in [(1013, 0), (1014, 1), (2027, 1), (2028, 2)] {
        let policer = Policer::new(Rate::new(8).unwrap(), Bytes::new(burst)).framed(framing);
        let mut class = fifo().policed(policer, Actions::exceed(Action::Drop));
        assert_eq!(leave(&mut class, &[0, 0, 0]).len(), conform);
    }
}

/// A packet that finds the link idle passes the policers that do not select it, and is measured
/// by those that do. What they do is counted.
#[test]
fn an_idle_link_measures_too() {
    let policers =
        || vec![before("a", 1, &[1], Action::Remark(dscp(2))), before("b", 1, &[2], Action::Drop)];
    for (offered, expected) in [
        (1, perhop_queue::Pass::Enqueue),
        (2, perhop_queue::Pass::Enqueue),
        (5, perhop_queue::Pass::Send),
    ] {
        let mut class = behind(policers());
        assert_eq!(class.pass(Time::ZERO, &packet(offered).header), expected, "{offered}");
        assert_eq!(sent(&class), [0, 0, u64::from(offered == 5)]);
    }
    let mut class = behind(policers());
    let mut ledger = Ledger::new();
    for offered in [1, 1, 1, 2] {
        class.enqueue(Time::ZERO, packet(offered), &mut ledger);
    }
    // Of "a", one conforms and two get the DSCP 2; of "b", the first of these conforms.
    let mut rows = Vec::new();
    class.visit(&mut |name, counters, waiting| {
        let [conformed, exceeded] =
            [counters.conformed, counters.exceeded].map(|each| (each.packets, each.bytes.get()));
        rows.push((name.to_owned(), conformed, exceeded, counters.remarked, waiting.packets));
    });
    let row = |name: &str, conformed: u64, exceeded: u64, remarked, waiting| {
        (
            name.to_owned(),
            (conformed, 1000 * conformed),
            (exceeded, 1000 * exceeded),
            remarked,
            waiting,
        )
    };
    let expected = [row("", 0, 0, 0, 2), row("a", 1, 2, 2, 0), row("b", 1, 2, 0, 0)];
    assert_eq!(rows[..3], expected);
    assert_eq!(class.backlog().bytes, Bytes::new(2000));
    assert_eq!(class.head(Time::ZERO), Some(Bytes::new(1000)));
    let mut drained = Vec::new();
    class.drain(&mut drained);
    assert_eq!(drained.iter().map(|sent| sent.header.dscp().get()).collect::<Vec<_>>(), [1, 2]);
}

/// Of four packets of 1000 bytes, one is within the committed burst, one within that in excess, and
/// two are in neither.
#[test]
fn three_colours_are_counted() {
    let policer = Policer::single_rate(Rate::new(8).unwrap(), Bytes::new(1000), Bytes::new(1000));
    let mut class = fifo().policed(policer, Actions::exceed(Action::Remark(dscp(2))));
    assert_eq!(leave(&mut class, &[1; 4]), [1, 2]);
    let counters = class.counters();
    let measured = [counters.conformed, counters.exceeded, counters.violated];
    let measured = measured.map(|each| (each.packets, each.bytes.get()));
    assert_eq!(measured, [(1, 1000), (1, 1000), (2, 2000)]);
    assert_eq!((counters.remarked, counters.dropped(Cause::Policer)), (1, 2));
    assert_eq!((counters.sent.packets, counters.sent.bytes.get()), (2, 2000));
    assert_eq!(counters.dropped_total(), 2);
}
