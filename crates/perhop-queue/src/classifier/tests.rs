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
