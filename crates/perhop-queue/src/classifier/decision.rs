//! Decisions that examine few of many rules.
//!
//! The idea is that of HiCuts (P. Gupta and N. McKeown, *Packet Classification using Hierarchical
//! Intelligent Cuttings*, 1999): divide the list of rules by the value of one field until few are
//! left, and examine those in order.

use std::ops::RangeInclusive;

use perhop_core::{Header, Protocol};

use super::Match;

/// Length of a list that is not divided further.
const FEW: usize = 4;

/// Factor by which dividing a list may lengthen the parts in sum, because a rule without a
/// condition on the field, or with a wide range, is in several parts.
const COPIES: usize = 8;

/// A search for the first match in a list of rules. The last of a list always matches.
#[derive(Clone, Debug)]
pub(super) enum Decision {
    /// Examine each rule in order.
    Scan(Vec<u16>),
    /// Select a part of the list by the value of a field.
    Cut(Cut),
}

/// Parts of a list by the value of a field.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    field: Field,
    /// The first value of each part, in rising order from zero.
    starts: Vec<u16>,
    parts: Vec<Decision>,
}

/// Field that a rule can have a condition on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    DestinationPort,
    SourcePort,
    /// Either of the ports, so that a packet has two values.
    Port,
    Destination,
    Source,
    Protocol,
}

impl Field {
    const ALL: [Self; 6] = [
        Self::DestinationPort,
        Self::SourcePort,
        Self::Port,
        Self::Destination,
        Self::Source,
        Self::Protocol,
    ];

    fn of(self, header: &Header) -> u16 {
        match self {
            Self::DestinationPort | Self::Port => header.ports().1,
            Self::SourcePort => header.ports().0,
            Self::Destination => header.destination.0,
            Self::Source => header.source.0,
            Self::Protocol => number(header.protocol()),
        }
    }

    /// Returns the values of the field that a rule accepts; empty if it has no condition on it.
    fn asked(self, rule: &Match) -> Vec<RangeInclusive<u16>> {
        match self {
            Self::DestinationPort => rule.destination_ports.clone(),
            Self::SourcePort => rule.source_ports.clone(),
            Self::Port => rule.ports.clone(),
            Self::Destination => rule.destinations.iter().map(|node| node.0..=node.0).collect(),
            Self::Source => rule.sources.iter().map(|node| node.0..=node.0).collect(),
            Self::Protocol => {
                rule.protocols.iter().map(|&protocol| number(protocol)..=number(protocol)).collect()
            }
        }
    }
}

const fn number(protocol: Protocol) -> u16 {
    protocol as u16
}

impl Decision {
    /// Creates the decision for these rules, in order, the last of which matches every packet.
    pub fn new(rules: &[Match], list: Vec<u16>) -> Self {
        Self::by(rules, list, &Field::ALL)
    }

    fn by(rules: &[Match], list: Vec<u16>, fields: &[Field]) -> Self {
        if list.len() <= FEW {
            return Self::Scan(list);
        }
        // The field that most of the rules have a condition on divides best.
        let looks = |field: Field| {
            list.iter().filter(|&&rule| !field.asked(&rules[usize::from(rule)]).is_empty()).count()
        };
        let mut by_use = fields.to_vec();
        // The sort is stable, so that the order is the same on all platforms.
        by_use.sort_by_cached_key(|&field| std::cmp::Reverse(looks(field)));
        for field in by_use {
            if let Some((starts, parts)) = cut(rules, &list, field) {
                let left: Vec<Field> = fields.iter().copied().filter(|&f| f != field).collect();
                let parts = parts.into_iter().map(|part| Self::by(rules, part, &left)).collect();
                return Self::Cut(Cut { field, starts, parts });
            }
        }
        Self::Scan(list)
    }

    /// Returns the first rule that a packet with this header matches.
    #[inline]
    pub fn first(&self, rules: &[Match], header: &Header) -> u16 {
        match self {
            Self::Scan(list) => {
                let (&last, others) = list.split_last().expect("no list is empty");
                let matches = |rule: &&u16| rules[usize::from(**rule)].matches(header);
                *others.iter().find(matches).unwrap_or(&last)
            }
            Self::Cut(cut) => cut.first(rules, header),
        }
    }

    /// Returns the first rule that a packet with this header matches, from the rule `from` on,
    /// which is not behind the last one of the list.
    pub fn first_from(&self, from: u16, rules: &[Match], header: &Header) -> u16 {
        match self {
            Self::Scan(list) => {
                let left = &list[list.partition_point(|&rule| rule < from)..];
                let matches = |rule: &&u16| rules[usize::from(**rule)].matches(header);
                *left.iter().find(matches).expect("the last rule matches")
            }
            Self::Cut(cut) => {
                let first = |value| cut.part(value).first_from(from, rules, header);
                match cut.field {
                    Field::Port => {
                        let (source_port, destination_port) = header.ports();
                        first(destination_port).min(first(source_port))
                    }
                    field => first(field.of(header)),
                }
            }
        }
    }
}

impl Cut {
    fn first(&self, rules: &[Match], header: &Header) -> u16 {
        let first = self.part(self.field.of(header)).first(rules, header);
        match self.field {
            // A rule is in the part of either port, or in both if it has no condition on ports.
            Field::Port => first.min(self.part(header.ports().0).first(rules, header)),
            _ => first,
        }
    }

    fn part(&self, value: u16) -> &Decision {
        &self.parts[self.starts.partition_point(|&start| start <= value) - 1]
    }
}

/// Returns the parts of the list by the value of a field: the first value of each, and its rules,
/// in order. `None` if dividing does not help.
fn cut(rules: &[Match], list: &[u16], field: Field) -> Option<(Vec<u16>, Vec<Vec<u16>>)> {
    let asked: Vec<_> = list.iter().map(|&rule| field.asked(&rules[usize::from(rule)])).collect();
    let mut starts = vec![0];
    for range in asked.iter().flatten() {
        starts.push(*range.start());
        starts.extend(range.end().checked_add(1));
    }
    starts.sort_unstable();
    starts.dedup();
    let mut parts = vec![Vec::new(); starts.len()];
    let mut copies = 0;
    for (&rule, asked) in list.iter().zip(&asked) {
        if asked.is_empty() {
            parts.iter_mut().for_each(|part| part.push(rule));
            copies += parts.len();
        }
        for range in asked {
            let from = starts.partition_point(|start| start < range.start());
            let to = starts.partition_point(|start| start <= range.end());
            for part in &mut parts[from..to] {
                // Ranges of a rule may overlap.
                if part.last() != Some(&rule) {
                    part.push(rule);
                    copies += 1;
                }
            }
        }
        if copies > COPIES * list.len() {
            return None;
        }
    }
    let longest = parts.iter().map(Vec::len).max().unwrap_or(0);
    (longest * 2 <= list.len() + 1).then_some((starts, parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::{AckHint, Encapsulation, LinkClass, NodeId, TrafficClass};

    fn header(source_port: u16, destination_port: u16) -> Header {
        Header {
            size: 100,
            source: NodeId(0),
            destination: NodeId(1),
            source_port,
            destination_port,
            protocol: Protocol::Udp.into(),
            ttl: Header::TTL,
            ack: AckHint::NONE,
            traffic_class: TrafficClass::default(),
        }
    }

    fn longest(decision: &Decision) -> usize {
        match decision {
            Decision::Scan(list) => list.len(),
            Decision::Cut(cut) => cut.parts.iter().map(longest).max().unwrap_or(0),
        }
    }

    /// Returns a thousand classes, each with a port of its own, and one for the rest.
    fn by_port(rule: impl Fn(u16) -> Match) -> (Vec<Match>, Decision) {
        let mut rules: Vec<Match> = (0..1000).map(rule).collect();
        rules.push(Match::default());
        let decision = Decision::new(&rules, (0..=1000).collect());
        (rules, decision)
    }

    #[test]
    fn a_thousand_ports_are_told_apart_without_a_scan() {
        let destination = |port| Match { destination_ports: vec![port..=port], ..Match::default() };
        let either = |port| Match { ports: vec![port..=port], ..Match::default() };
        for rule in [destination as fn(u16) -> Match, either] {
            let (rules, decision) = by_port(rule);
            assert!(longest(&decision) <= 2);
            assert_eq!(decision.first(&rules, &header(5000, 777)), 777);
            assert_eq!(decision.first(&rules, &header(5000, 5001)), 1000);
        }
        let (rules, decision) = by_port(either);
        assert_eq!(decision.first(&rules, &header(12, 777)), 12);
        assert_eq!(decision.first(&rules, &header(777, 12)), 12);
    }

    #[test]
    fn ranges_that_all_overlap_are_not_copied_without_end() {
        let (rules, decision) =
            by_port(|port| Match { destination_ports: vec![port..=60_000], ..Match::default() });
        assert!(matches!(decision, Decision::Scan(_)));
        assert_eq!(decision.first(&rules, &header(0, 500)), 0);
    }

    /// Rules for `n` ports that are not adjacent make 2 n + 1 parts, and each of four rules that
    /// depend on no field is in all of them: 28 + 4 · 57 = 256 entries are eight times the 32
    /// rules, 29 + 4 · 59 = 265 more than eight times the 33.
    #[test]
    fn a_division_lengthens_the_list_eightfold_at_most() {
        let elsewhere = LinkClass::arrived(Encapsulation::Dot1q, 1);
        for (ports, parts) in [(28, Some(57)), (29, None)] {
            let own = |number: u16| {
                let port = 100 + 2 * number;
                Match { destination_ports: vec![port..=port], ..Match::default() }
            };
            let everywhere = Match { link_classes: vec![elsewhere], ..Match::default() };
            let rules: Vec<Match> = (0..ports)
                .map(own)
                .chain(std::iter::repeat_n(everywhere, 3))
                .chain([Match::default()])
                .collect();
            let decision = Decision::new(&rules, (0..ports + 4).collect());
            let divided = match &decision {
                Decision::Scan(_) => None,
                Decision::Cut(cut) => Some(cut.parts.len()),
            };
            assert_eq!(divided, parts);
            for (port, rule) in [(100, 0), (102, 1), (101, ports + 3), (99, ports + 3)] {
                assert_eq!(decision.first(&rules, &header(100, port)), rule);
            }
        }
    }

    /// Of several fields, the one that most rules ask for divides the list; of two that as many ask
    /// for, the first.
    #[test]
    fn the_field_that_most_rules_ask_for_divides() {
        let sources = |number: u16| Match { sources: vec![NodeId(number)], ..Match::default() };
        let ports =
            |number: u16| Match { destination_ports: vec![number..=number], ..Match::default() };
        let both = |number| Match { sources: sources(number).sources, ..ports(number) };
        for (other, field) in [
            (sources(6), Field::Source),
            (ports(6), Field::DestinationPort),
            (both(6), Field::DestinationPort),
        ] {
            let rules: Vec<Match> = (1..6).map(both).chain([other, Match::default()]).collect();
            let decision = Decision::new(&rules, (0..7).collect());
            assert!(matches!(decision, Decision::Cut(cut) if cut.field == field), "{field:?}");
        }
    }

    /// Two ports with twenty rules each: one part for either, and the last rule in both. With a
    /// third of the rules more for one of them, dividing would leave more than half.
    #[test]
    fn rules_that_share_a_value_are_divided_once() {
        let rules = |number: u16, first: u16| -> Vec<Match> {
            let port = |rule| if rule < first { 7 } else { 8 };
            let rule = |rule| Match { ports: vec![port(rule)..=port(rule)], ..Match::default() };
            (0..number).map(rule).chain([Match::default()]).collect()
        };
        for (number, first, expected) in [(40, 20, 21), (40, 21, 41)] {
            let rules = rules(number, first);
            let decision = Decision::new(&rules, (0..=number).collect());
            assert_eq!(longest(&decision), expected);
            for (port, rule) in [(7, 0), (8, first), (6, number), (9, number)] {
                assert_eq!(decision.first(&rules, &header(5, port)), rule);
                assert_eq!(decision.first_from(rule, &rules, &header(port, 5)), rule);
            }
        }
        // A list of four rules is examined in order.
        let rules: Vec<Match> = rules(4, 2);
        for (length, expected) in [(4, None), (5, Some(4))] {
            let list = (0..length).collect();
            let parts = match Decision::new(&rules[5 - usize::from(length)..], list) {
                Decision::Scan(_) => None,
                Decision::Cut(cut) => Some(cut.parts.len()),
            };
            assert_eq!(parts, expected);
        }
    }
}
