//! Classification of packets.

mod decision;
mod rules;

use std::collections::HashSet;
use std::ops::RangeInclusive;

use perhop_core::{Dscp, Header, LinkClass, NodeId, Protocol};

pub use rules::{MatchRule, MatchRules};

use decision::Decision;
use rules::Outcome;

/// Ports, as a list of ranges; empty means every port.
pub type PortRanges = Vec<RangeInclusive<u16>>;

/// Conditions on a packet. All must hold; an empty list is no condition, so that
/// [`Match::default`] matches every packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// DSCPs.
    pub dscps: Vec<Dscp>,
    /// Protocols.
    pub protocols: Vec<Protocol>,
    /// Source or destination ports.
    pub ports: PortRanges,
    /// Source ports.
    pub source_ports: PortRanges,
    /// Destination ports.
    pub destination_ports: PortRanges,
    /// Source nodes.
    pub sources: Vec<NodeId>,
    /// Destination nodes.
    pub destinations: Vec<NodeId>,
    /// Classes at layer 2 with which packets arrive.
    pub link_classes: Vec<LinkClass>,
}

impl Match {
    /// Returns `true` if a packet with this header matches.
    pub fn matches(&self, header: &Header) -> bool {
        fn among<T: PartialEq>(list: &[T], value: T) -> bool {
            list.is_empty() || list.contains(&value)
        }
        fn within(ranges: &PortRanges, ports: &[u16]) -> bool {
            let hit = |range: &RangeInclusive<u16>| ports.iter().any(|port| range.contains(port));
            ranges.is_empty() || ranges.iter().any(hit)
        }
        let (source_port, destination_port) = header.ports();
        among(&self.dscps, header.dscp())
            && among(&self.protocols, header.protocol())
            && within(&self.ports, &[source_port, destination_port])
            && within(&self.source_ports, &[source_port])
            && within(&self.destination_ports, &[destination_port])
            && among(&self.sources, header.source)
            && among(&self.destinations, header.destination)
            && among(&self.link_classes, header.link_class())
    }

    /// Returns `true` if the conditions depend on nothing but the DSCP.
    fn is_dscp_only(&self) -> bool {
        *self == Self { dscps: self.dscps.clone(), ..Self::default() }
    }
}

/// The filters of an ordered list of classes; the first that matches decides.
#[derive(Debug)]
pub struct Classifier {
    /// Conditions of all rules of all classes, in order; the last ones match every packet.
    matches: Vec<Match>,
    /// For each rule, what it decides; `None` if every class has one rule.
    outcomes: Option<Vec<Outcome>>,
    /// Search structures, each for a list of rules.
    decisions: Vec<Decision>,
    /// Index of the decision for each DSCP.
    by_dscp: [u8; Dscp::COUNT],
    /// Class of all packets with a DSCP if nothing else matters; otherwise [`UNDECIDED`], or
    /// [`RULES`] if classes have several rules.
    alone: [u32; Dscp::COUNT],
}

const UNDECIDED: u32 = u32::MAX - 1;
const RULES: u32 = u32::MAX;

/// The most rules of a classifier.
const MOST_RULES: usize = 1 << 16;

impl Classifier {
    /// Creates a classifier for classes with these filters. The last class takes the packets that
    /// no other matches, whatever its filter.
    ///
    /// # Panics
    /// Without a class, or with more than 65536 rules of classes in sum.
    pub fn new<M: Into<MatchRules>>(filters: impl IntoIterator<Item = M>) -> Self {
        let mut filters: Vec<MatchRules> = filters.into_iter().map(Into::into).collect();
        *filters.last_mut().expect("a classifier needs a class") = MatchRules::default();
        let (matches, outcomes) = rules::flat(filters);
        assert!(matches.len() <= MOST_RULES, "a classifier has 65536 rules at most");
        // DSCPs that no rule names share a list.
        let named: HashSet<Dscp> = matches.iter().flat_map(|rule| &rule.dscps).copied().collect();
        let mut unnamed = None;
        let mut lists: Vec<Vec<u16>> = Vec::new();
        let by_dscp = std::array::from_fn(|value| {
            let dscp = Dscp::new(value as u8).expect("the array is as long as there are DSCPs");
            let is_named = named.contains(&dscp);
            if let (false, Some(list)) = (is_named, unnamed) {
                return list;
            }
            let candidates = rules::candidates(&matches, &outcomes, dscp);
            let known = lists.iter().position(|list| *list == candidates);
            let list = known.unwrap_or_else(|| {
                lists.push(candidates);
                lists.len() - 1
            }) as u8;
            if !is_named {
                unnamed = Some(list);
            }
            list
        });
        let own = |(rule, outcome): (usize, &Outcome)| *outcome == Outcome::Class(rule as u16);
        let one_each = outcomes.iter().enumerate().all(own);
        let alone = by_dscp.map(|list: u8| match lists[usize::from(list)][..] {
            [rule] => match outcomes[usize::from(rule)] {
                Outcome::Class(class) => u32::from(class),
                Outcome::Skip(_) => unreachable!("the last rule of a list matches"),
            },
            _ if one_each => UNDECIDED,
            _ => RULES,
        });
        let decisions = lists.into_iter().map(|list| Decision::new(&matches, list)).collect();
        let outcomes = (!one_each).then_some(outcomes);
        Self { matches, outcomes, decisions, by_dscp, alone }
    }

    /// Returns the conditions of classes that have one rule each.
    pub(crate) fn into_matches(self) -> Vec<Match> {
        debug_assert!(self.outcomes.is_none(), "classes have several rules");
        self.matches
    }

    /// Returns the index of the class that a packet with this header belongs to.
    #[inline]
    pub fn classify(&self, header: &Header) -> usize {
        let dscp = usize::from(header.dscp().get());
        match self.alone[dscp] {
            class if class < UNDECIDED => class as usize,
            _ => self.decide(dscp, header),
        }
    }

    /// Returns the class of a packet whose DSCP alone does not decide it.
    #[inline(never)]
    fn decide(&self, dscp: usize, header: &Header) -> usize {
        if self.alone[dscp] == RULES {
            return self.by_rules(header);
        }
        let decision = usize::from(self.by_dscp[dscp]);
        usize::from(self.decisions[decision].first(&self.matches, header))
    }

    /// Returns the class of a packet where classes have several rules.
    #[cold]
    fn by_rules(&self, header: &Header) -> usize {
        let decision = &self.decisions[usize::from(self.by_dscp[usize::from(header.dscp().get())])];
        let outcomes = self.outcomes.as_ref().expect("there are classes with several rules");
        let mut from = 0;
        loop {
            let rule = decision.first_from(from, &self.matches, header);
            match outcomes[usize::from(rule)] {
                Outcome::Class(class) => return usize::from(class),
                Outcome::Skip(to) => from = to,
            }
        }
    }
}

#[cfg(test)]
mod tests;
