use super::*;
use perhop_core::{AckHint, Encapsulation, TrafficClass, Transport};
use proptest::prelude::*;

fn dscp() -> impl Strategy<Value = Dscp> {
    (0_u8..8).prop_map(|value| Dscp::new(value).unwrap())
}

fn ports() -> impl Strategy<Value = PortRanges> {
    prop::collection::vec((0_u16..6, 0_u16..3).prop_map(|(low, more)| low..=low + more), 0..2)
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop::sample::select(vec![Protocol::Icmp, Protocol::Tcp, Protocol::Udp])
}

fn nodes() -> impl Strategy<Value = Vec<NodeId>> {
    prop::collection::vec((0_u16..4).prop_map(NodeId), 0..2)
}

/// Classes with which packets arrive, or none.
fn link_class() -> impl Strategy<Value = LinkClass> {
    let arrived = (prop::sample::select(vec![Encapsulation::Dot1q, Encapsulation::Mpls]), 0_u8..3)
        .prop_map(|(encapsulation, value)| LinkClass::arrived(encapsulation, value));
    prop_oneof![Just(LinkClass::NONE), arrived]
}

prop_compose! {
    fn rule()(
        dscps in prop::collection::vec(dscp(), 0..3),
        protocols in prop::collection::vec(protocol(), 0..2),
        (ports, source_ports, destination_ports) in (ports(), ports(), ports()),
        (sources, destinations) in (nodes(), nodes()),
        link_classes in prop::collection::vec(link_class(), 0..2),
    ) -> Match {
        Match {
            dscps, protocols, ports, source_ports, destination_ports, sources, destinations,
            link_classes,
        }
    }
}

prop_compose! {
    fn header()(
        dscp in dscp(), protocol in protocol(), source in 0_u16..4, destination in 0_u16..4,
        source_port in 0_u16..8, destination_port in 0_u16..8, link_class in link_class(),
    ) -> Header {
        Header {
            size: 100, source: NodeId(source), destination: NodeId(destination),
            source_port, destination_port, traffic_class: TrafficClass::new(dscp),
            protocol: Transport::from(protocol).with_link_class(link_class),
            ttl: Header::TTL,
            ack: AckHint::NONE,
        }
    }
}

prop_compose! {
    /// A filter of several rules, which few packets, or all, may match.
    fn rules()(rules in prop::collection::vec((any::<bool>(), rule()), 0..5)) -> MatchRules {
        let rules = rules.into_iter();
        MatchRules(rules.map(|(permit, conditions)| MatchRule { permit, conditions }).collect())
    }
}

fn filter() -> impl Strategy<Value = MatchRules> {
    prop_oneof![rule().prop_map(MatchRules::from), rules()]
}

/// Returns what the rules say, read one after the other.
fn naive(filter: &MatchRules, header: &Header) -> bool {
    for MatchRule { permit, conditions } in &filter.0 {
        if conditions.matches(header) {
            return *permit;
        }
    }
    false
}

proptest! {
    /// The tables do not change the result: the first match in order decides.
    #[test]
    fn the_first_match_decides(
        mut rules in prop_oneof![
            prop::collection::vec(rule(), 0..6), prop::collection::vec(rule(), 0..60),
        ],
        headers in prop::collection::vec(header(), 20),
    ) {
        rules.push(Match::default());
        let classifier = Classifier::new(rules.clone());
        for header in headers {
            let expected = rules.iter().position(|rule| rule.matches(&header)).unwrap();
            prop_assert_eq!(classifier.classify(&header), expected);
        }
    }

    /// In filters of several rules, one that excludes a packet leads on to the next class; the last
    /// class takes the rest, whatever its filter.
    #[test]
    fn the_first_rule_that_applies_decides_within_a_class(
        filters in prop_oneof![
            prop::collection::vec(filter(), 1..6), prop::collection::vec(filter(), 1..40),
        ],
        headers in prop::collection::vec(header(), 40),
    ) {
        let classifier = Classifier::new(filters.clone());
        for header in headers {
            let first = filters.iter().position(|filter| naive(filter, &header));
            let expected = first.unwrap_or(filters.len() - 1);
            prop_assert_eq!(classifier.classify(&header), expected);
            prop_assert!(filters.iter().all(|each| each.matches(&header) == naive(each, &header)));
        }
    }
}

#[test]
fn a_rule_for_each_class_needs_no_outcomes() {
    let plain =
        Classifier::new([Match { dscps: vec![Dscp::EF], ..Match::default() }, Match::default()]);
    assert!(plain.outcomes.is_none());
    assert_eq!(plain.alone.iter().filter(|&&class| class < UNDECIDED).count(), Dscp::COUNT);
}

/// A packet of TCP with the DSCP 10, from port 1000 of node 1 to port 2000 of node 2, which arrived
/// with the PCP 3; and, for each condition, whether it matches.
#[test]
fn conditions_by_hand() {
    let header = Header {
        size: 100,
        source: NodeId(1),
        destination: NodeId(2),
        source_port: 1000,
        destination_port: 2000,
        traffic_class: TrafficClass::new(Dscp::new(10).unwrap()),
        protocol: Transport::from(Protocol::Tcp)
            .with_link_class(LinkClass::arrived(Encapsulation::Dot1q, 3)),
        ttl: Header::TTL,
        ack: AckHint::NONE,
    };
    let all = Match::default;
    let dscps = |values: &[u8]| Match {
        dscps: values.iter().map(|value| Dscp::new(*value).unwrap()).collect(),
        ..all()
    };
    let ports = |ports: RangeInclusive<u16>| Match { ports: vec![0..=0, ports], ..all() };
    let from = |ports: RangeInclusive<u16>| Match { source_ports: vec![0..=0, ports], ..all() };
    let to = |ports: RangeInclusive<u16>| Match { destination_ports: vec![0..=0, ports], ..all() };
    let arrived = |value| Match {
        link_classes: vec![LinkClass::arrived(Encapsulation::Dot1q, value)],
        ..all()
    };
    for (conditions, expected) in [
        (all(), true),
        (dscps(&[10]), true),
        (dscps(&[9, 10]), true),
        (dscps(&[9, 11]), false),
        (Match { protocols: vec![Protocol::Udp, Protocol::Tcp], ..all() }, true),
        (Match { protocols: vec![Protocol::Udp], ..all() }, false),
        (ports(1000..=1000), true),
        (ports(2000..=2000), true),
        (ports(900..=1100), true),
        (ports(1001..=1999), false),
        (from(1000..=1000), true),
        (from(900..=1000), true),
        (from(1001..=1100), false),
        (from(900..=999), false),
        (from(2000..=2000), false),
        (to(2000..=2000), true),
        (to(2000..=2100), true),
        (to(1900..=1999), false),
        (to(2001..=2100), false),
        (to(1000..=1000), false),
        (Match { sources: vec![NodeId(7), NodeId(1)], ..all() }, true),
        (Match { sources: vec![NodeId(2)], ..all() }, false),
        (Match { destinations: vec![NodeId(7), NodeId(2)], ..all() }, true),
        (Match { destinations: vec![NodeId(1)], ..all() }, false),
        (arrived(3), true),
        (arrived(4), false),
        (Match { link_classes: vec![LinkClass::NONE], ..all() }, false),
        // All conditions must hold.
        (Match { sources: vec![NodeId(1)], ..dscps(&[10]) }, true),
        (Match { sources: vec![NodeId(2)], ..dscps(&[10]) }, false),
        (Match { sources: vec![NodeId(1)], ..dscps(&[11]) }, false),
        (Match { sources: vec![NodeId(1)], destinations: vec![NodeId(1)], ..all() }, false),
    ] {
        assert_eq!(conditions.matches(&header), expected, "{conditions:?}");
        let class = usize::from(!expected);
        assert_eq!(Classifier::new([conditions, Match::default()]).classify(&header), class);
    }
}

/// The last class takes what is left, also if it is the only one or excludes packets itself.
#[test]
fn the_last_class_takes_the_rest() {
    let nothing = MatchRules(Vec::new());
    let ef = Match { dscps: vec![Dscp::EF], ..Match::default() };
    let other = MatchRules(vec![MatchRule { permit: false, conditions: Match::default() }]);
    let header = crate::lab::packet(100, 0).header;
    assert_eq!(Classifier::new([nothing.clone()]).classify(&header), 0);
    assert_eq!(Classifier::new([ef.clone().into(), nothing.clone()]).classify(&header), 1);
    assert_eq!(Classifier::new([ef.into(), nothing, other]).classify(&header), 2);
}

/// Classes and rules have numbers of 16 bits.
#[test]
fn a_classifier_has_65536_rules_at_most() {
    let classes = |number| {
        std::panic::catch_unwind(|| Classifier::new(std::iter::repeat_n(Match::default(), number)))
    };
    assert_eq!(classes(65_536).unwrap().classify(&crate::lab::packet(100, 0).header), 0);
    assert!(classes(65_537).is_err());
}
