//! Marking at the edge: new DSCPs for packets that arrive.

use perhop_core::{Dscp, Header};
use perhop_queue::{Classifier, MatchRules};

/// Rules by which packets are remarked (RFC 2475, section 2.3.3.2). The first rule that matches
/// decides; a packet that none matches keeps its DSCP. ECN is not changed.
#[derive(Debug)]
pub struct Marker {
    classifier: Classifier,
    /// DSCP of each rule; `None` at the end, for all other packets.
    marks: Vec<Option<Dscp>>,
}

impl Marker {
    /// Creates a marker with these rules, in order of precedence.
    ///
    /// # Panics
    /// With more than 65535 rules, each element of a list of matches counted.
    pub fn new<M: Into<MatchRules>>(rules: impl IntoIterator<Item = (M, Dscp)>) -> Self {
        let (mut matches, mut marks): (Vec<_>, Vec<_>) =
            rules.into_iter().map(|(matches, mark)| (matches.into(), Some(mark))).unzip();
        matches.push(MatchRules::default());
        marks.push(None);
        Self { classifier: Classifier::new(matches), marks }
    }

    /// Marks a packet.
    pub fn mark(&self, header: &mut Header) {
        if let Some(mark) = self.marks[self.classifier.classify(header)] {
            header.traffic_class = header.traffic_class.with_dscp(mark);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::{AckHint, Ecn, NodeId, Protocol, TrafficClass};
    use perhop_queue::Match;

    fn marked(marker: &Marker, dscp: Dscp, protocol: Protocol) -> TrafficClass {
        let mut header = Header {
            size: 100,
            source: NodeId(0),
            destination: NodeId(1),
            source_port: 0,
            destination_port: 0,
            protocol: protocol.into(),
            traffic_class: TrafficClass::new(dscp).with_ecn(Ecn::Ect0),
            ttl: Header::TTL,
            ack: AckHint::NONE,
        };
        marker.mark(&mut header);
        header.traffic_class
    }

    #[test]
    fn the_first_rule_that_matches_marks_and_the_rest_is_kept() {
        let of = |dscp| Match { dscps: vec![dscp], ..Match::default() };
        let tcp = Match { protocols: vec![Protocol::Tcp], ..Match::default() };
        let marker = Marker::new([(of(Dscp::EF), Dscp::LE), (tcp, Dscp::AF11)]);
        for (dscp, protocol, expected) in [
            (Dscp::EF, Protocol::Tcp, Dscp::LE),
            (Dscp::CS1, Protocol::Tcp, Dscp::AF11),
            (Dscp::CS1, Protocol::Udp, Dscp::CS1),
        ] {
            let class = marked(&marker, dscp, protocol);
            assert_eq!((class.dscp(), class.ecn()), (expected, Ecn::Ect0));
        }
    }

    #[test]
    fn without_rules_nothing_changes() {
        let marker = Marker::new::<Match>([]);
        assert_eq!(marked(&marker, Dscp::EF, Protocol::Icmp).dscp(), Dscp::EF);
    }
}
