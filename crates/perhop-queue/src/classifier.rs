//! Classification of packets.

mod decision;

use std::ops::RangeInclusive;

use perhop_core::{Dscp, Header, NodeId, Protocol};

use decision::Decision;

/// Ports, as a list of ranges; empty means every port.
pub type PortRanges = Vec<RangeInclusive<u16>>;

/// Filter of a class. All conditions must hold; an empty list is no condition, so that
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
        among(&self.dscps, header.dscp())
            && among(&self.protocols, header.protocol)
            && within(&self.ports, &[header.source_port, header.destination_port])
            && within(&self.source_ports, &[header.source_port])
            && within(&self.destination_ports, &[header.destination_port])
            && among(&self.sources, header.source)
            && among(&self.destinations, header.destination)
    }

    /// Returns `true` if the filter depends on nothing but the DSCP.
    fn is_dscp_only(&self) -> bool {
        *self == Self { dscps: self.dscps.clone(), ..Self::default() }
    }
}

/// An ordered list of filters, one for each class; the first that matches decides.
#[derive(Debug)]
pub struct Classifier {
    matches: Vec<Match>,
    /// Search structures, each for a list of classes.
    decisions: Vec<Decision>,
    /// Index of the decision for each DSCP.
    by_dscp: [u8; Dscp::COUNT],
    /// Class of all packets with a DSCP if nothing else matters; otherwise [`UNDECIDED`].
    alone: [u32; Dscp::COUNT],
}

const UNDECIDED: u32 = u32::MAX;

impl Classifier {
    /// Creates a classifier for classes with these filters. The last class takes the packets that
    /// no other matches, whatever its filter.
    ///
    /// # Panics
    /// Without a class, or with more than 65536.
    pub fn new(matches: Vec<Match>) -> Self {
        assert!((1..=1 << 16).contains(&matches.len()), "a classifier needs 1 to 65536 classes");
        let last = matches.len() - 1;
        // The classes that a packet with a DSCP can match, in order, up to the first with no other
        // condition. DSCPs that no class names share a list.
        let mut lists: Vec<Vec<u16>> = Vec::new();
        let by_dscp = std::array::from_fn(|value| {
            let dscp = Dscp::new(value as u8).expect("the array is as long as there are DSCPs");
            let mut candidates = Vec::new();
            for (class, rule) in matches.iter().enumerate() {
                if class == last || rule.dscps.is_empty() || rule.dscps.contains(&dscp) {
                    candidates.push(class as u16);
                    if rule.is_dscp_only() {
                        break;
                    }
                }
            }
            let known = lists.iter().position(|list| *list == candidates);
            known.unwrap_or_else(|| {
                lists.push(candidates);
                lists.len() - 1
            }) as u8
        });
        let alone = by_dscp.map(|list: u8| match lists[usize::from(list)][..] {
            [class] => u32::from(class),
            _ => UNDECIDED,
        });
        let decisions = lists.into_iter().map(|list| Decision::new(&matches, list)).collect();
        Self { matches, decisions, by_dscp, alone }
    }

    /// Returns the filters.
    pub(crate) fn into_matches(self) -> Vec<Match> {
        self.matches
    }

    /// Returns the index of the class that a packet with this header belongs to.
    #[inline]
    pub fn classify(&self, header: &Header) -> usize {
        let dscp = usize::from(header.dscp().get());
        if self.alone[dscp] != UNDECIDED {
            return self.alone[dscp] as usize;
        }
        let decision = usize::from(self.by_dscp[dscp]);
        usize::from(self.decisions[decision].first(&self.matches, header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::TrafficClass;
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

    prop_compose! {
        fn rule()(
            dscps in prop::collection::vec(dscp(), 0..3),
            protocols in prop::collection::vec(protocol(), 0..2),
            (ports, source_ports, destination_ports) in (ports(), ports(), ports()),
            (sources, destinations) in (nodes(), nodes()),
        ) -> Match {
            Match {
                dscps, protocols, ports, source_ports, destination_ports, sources, destinations,
            }
        }
    }

    prop_compose! {
        fn header()(
            dscp in dscp(), protocol in protocol(), source in 0_u16..4, destination in 0_u16..4,
            source_port in 0_u16..8, destination_port in 0_u16..8,
        ) -> Header {
            Header {
                size: 100, source: NodeId(source), destination: NodeId(destination),
                source_port, destination_port, protocol, traffic_class: TrafficClass::new(dscp),
                ttl: Header::TTL,
            }
        }
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
    }
}
