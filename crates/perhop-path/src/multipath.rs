//! Multipath detection: which flows to probe at which hop until every parallel path is found with a
//! stated confidence (Augustin, Friedman, Teixeira, "Multipath tracing with Paris traceroute",
//! E2EMON 2007; Veitch et al., "Failure control in multipath route tracing", INFOCOM 2009).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Flows that are tried at most.
const MOST_FLOWS: u16 = 512;
/// New flows that are tried at a time.
const BATCH: usize = 16;
/// Number of probes to a hop that has never answered, …
const ATTEMPTS_SILENT: u32 = 3;
/// … and to one that has answered others.
const ATTEMPTS: u32 = 12;

/// Node at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// The host that probes: hop 0.
    Source,
    /// A router that answered.
    Router(IpAddr),
    /// The destination, or another node at which the path ends.
    End(IpAddr),
    /// A router that does not answer. All those of a hop count as one.
    Silent,
}

/// A probe to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HopFlow {
    /// Time to live.
    pub ttl: u8,
    /// Number of the flow.
    pub flow: u16,
}

/// A link between two hops, at the time to live of its far end.
pub type Link = (u8, Node, Node);

/// Returns the number of flows that must have gone through a router, all to one of `found` next
/// hops, before the probability is at most `risk` that it has one more. The probability that `n`
/// flows, each to one of `K = found + 1` next hops at random, leave out at least one of them is
/// `Σ (-1)^(i+1) C(K, i) (1 - i/K)^n`, with i from 1 to K (Veitch et al., section III).
pub fn flows_needed(found: usize, risk: f64) -> usize {
    let ways = found + 1;
    let missed = |flows: usize| {
        let (mut sum, mut combinations) = (0.0, 1.0);
        for i in 1..=ways {
            combinations *= (ways - i + 1) as f64 / i as f64;
            let sign = if i % 2 == 1 { 1.0 } else { -1.0 };
            sum += sign * combinations * (1.0 - i as f64 / ways as f64).powi(flows as i32);
        }
        sum
    };
    (ways..).find(|&flows| missed(flows) <= risk).unwrap_or(ways)
}

/// The paths that flows take, as far as they are known.
#[derive(Debug)]
pub struct Multipath {
    risk: f64,
    longest: u8,
    found: BTreeMap<HopFlow, Node>,
    attempts: BTreeMap<HopFlow, u32>,
    /// Routers of which too few flows were found, with their hop.
    unsure: BTreeSet<(u8, Node)>,
}

impl Multipath {
    /// Nothing is known yet. `risk` is the probability to miss a next hop of a router that shares
    /// load evenly among its next hops; `longest` is the greatest time to live.
    pub fn new(risk: f64, longest: u8) -> Self {
        Self {
            risk,
            longest,
            found: BTreeMap::new(),
            attempts: BTreeMap::new(),
            unsure: BTreeSet::new(),
        }
    }

    /// Records the answer to a probe: its sender, and whether the path ends there. `None` without
    /// an answer.
    pub fn take(&mut self, hop_flow: HopFlow, answer: Option<(IpAddr, bool)>) {
        *self.attempts.entry(hop_flow).or_default() += 1;
        match answer {
            Some((address, true)) => self.found.insert(hop_flow, Node::End(address)),
            Some((address, false)) => self.found.insert(hop_flow, Node::Router(address)),
            None => None,
        };
    }

    /// Returns the node of a flow at a hop; `None` while it is not known.
    fn node(&self, hop_flow: HopFlow) -> Option<Node> {
        if hop_flow.ttl == 0 {
            return Some(Node::Source);
        }
        if let Some(&node) = self.found.get(&hop_flow) {
            return Some(node);
        }
        let tries = self.attempts.get(&hop_flow).copied().unwrap_or(0);
        let most = if self.answers(hop_flow.ttl) { ATTEMPTS } else { ATTEMPTS_SILENT };
        (tries >= most).then_some(Node::Silent)
    }

    /// Returns whether a node at this hop has answered.
    pub fn answers(&self, ttl: u8) -> bool {
        let hop = HopFlow { ttl, flow: 0 }..=HopFlow { ttl, flow: u16::MAX };
        self.found.range(hop).next().is_some()
    }

    /// Returns whether a flow has no answer at a hop that answers others, so that its node is
    /// unknown.
    fn is_lost(&self, ttl: u8, node: Node) -> bool {
        node == Node::Silent && self.answers(ttl)
    }

    /// Flows that were tried at a hop.
    fn tried(&self, ttl: u8) -> impl Iterator<Item = u16> {
        let hop = HopFlow { ttl, flow: 0 }..=HopFlow { ttl, flow: u16::MAX };
        self.attempts.range(hop).map(|(hop_flow, _)| hop_flow.flow)
    }

    /// Flows by the node at which they are at a hop.
    fn flows(&self, ttl: u8) -> BTreeMap<Node, Vec<u16>> {
        let mut nodes: BTreeMap<Node, Vec<u16>> = BTreeMap::new();
        if ttl == 0 {
            nodes.insert(Node::Source, (0..MOST_FLOWS).collect());
            return nodes;
        }
        for flow in self.tried(ttl) {
            if let Some(node) = self.node(HopFlow { ttl, flow }) {
                nodes.entry(node).or_default().push(flow);
            }
        }
        nodes
    }

    /// Returns the probes to a hop to repeat. A router that limits its errors answers the first of
    /// them: these are of flows from the nodes with the fewest known flows to the hop.
    fn unanswered(&self, ttl: u8) -> Vec<HopFlow> {
        let near = |flow| self.node(HopFlow { ttl: ttl - 1, flow });
        let mut answered: BTreeMap<Option<Node>, usize> = BTreeMap::new();
        let mut again = Vec::new();
        for flow in self.tried(ttl) {
            let hop_flow = HopFlow { ttl, flow };
            if self.found.contains_key(&hop_flow) {
                *answered.entry(near(flow)).or_default() += 1;
            } else if self.node(hop_flow).is_none() {
                again.push(hop_flow);
            }
        }
        again.sort_by_key(|hop_flow| answered.get(&near(hop_flow.flow)).copied().unwrap_or(0));
        again
    }

    /// Returns the probes to send next, all of one hop; none if every path is known. The caller
    /// must pass the answer to each probe to [`Multipath::take`].
    pub fn next_probes(&mut self) -> Vec<HopFlow> {
        for ttl in 0..self.longest {
            let again = self.unanswered(ttl + 1);
            if !again.is_empty() {
                return again;
            }
            let (mut hop_flows, mut lacking) = (Vec::new(), 0);
            for (node, flows) in self.flows(ttl) {
                if matches!(node, Node::End(_))
                    || self.unsure.contains(&(ttl, node))
                    || self.is_lost(ttl, node)
                {
                    continue;
                }
                let known: Vec<Node> = flows
                    .iter()
                    .filter_map(|&flow| self.node(HopFlow { ttl: ttl + 1, flow }))
                    .collect();
                let different: BTreeSet<Node> = known.iter().copied().collect();
                let answered = known.iter().filter(|&&node| node != Node::Silent).count();
                // Silent routers cannot be distinguished.
                let silent = answered == 0 && known.len() >= ATTEMPTS_SILENT as usize;
                let needed = match different.iter().filter(|&&p| p != Node::Silent).count() {
                    _ if silent => 0,
                    found => flows_needed(found.max(1), self.risk),
                };
                let more = needed.saturating_sub(answered);
                let unknown = flows
                    .iter()
                    .map(|&flow| HopFlow { ttl: ttl + 1, flow })
                    .filter(|&hop_flow| self.node(hop_flow).is_none());
                let first = if answered == 0 { more.min(ATTEMPTS_SILENT as usize) } else { more };
                let before = hop_flows.len();
                hop_flows.extend(unknown.take(first));
                if hop_flows.len() == before && more > 0 {
                    // A router's flows come by chance: try others at its own hop.
                    lacking += more;
                    if self.tried(ttl).count() >= usize::from(MOST_FLOWS) || ttl == 0 {
                        self.unsure.insert((ttl, node));
                        lacking -= more;
                    }
                }
            }
            if !hop_flows.is_empty() {
                return hop_flows;
            }
            if lacking > 0 {
                let tried: BTreeSet<u16> = self.tried(ttl).collect();
                return (0..MOST_FLOWS)
                    .filter(|flow| !tried.contains(flow))
                    .map(|flow| HopFlow { ttl, flow })
                    .take(lacking.clamp(1, BATCH))
                    .collect();
            }
        }
        Vec::new()
    }

    /// Returns all links that flows were seen to take.
    pub fn links(&self) -> BTreeSet<Link> {
        let mut links = BTreeSet::new();
        for ttl in 1..=self.longest {
            for flow in self.tried(ttl) {
                let far = self.node(HopFlow { ttl, flow });
                let near = self.node(HopFlow { ttl: ttl - 1, flow });
                if let (Some(near), Some(far)) = (near, far)
                    && !self.is_lost(ttl - 1, near)
                    && !self.is_lost(ttl, far)
                {
                    links.insert((ttl, near, far));
                }
            }
        }
        links
    }

    /// Returns the nodes of a hop, with how many flows went through each.
    pub fn nodes(&self, ttl: u8) -> BTreeMap<Node, usize> {
        self.flows(ttl).into_iter().map(|(node, flows)| (node, flows.len())).collect()
    }

    /// Returns a flow that comes to an address at a hop.
    pub fn flow_through(&self, ttl: u8, address: IpAddr) -> Option<u16> {
        self.flows(ttl)
            .into_iter()
            .find(|(node, _)| matches!(node, Node::Router(it) | Node::End(it) if *it == address))
            .and_then(|(_, flows)| flows.first().copied())
    }

    /// Returns whether the next hops of every router are known with the requested confidence.
    pub fn is_sure(&self) -> bool {
        self.unsure.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use perhop_core::Stream;

    use super::*;

    /// The stopping points of Augustin et al. (2007), table 1, for a risk of 5%.
    #[test]
    fn the_number_of_flows_is_that_of_the_papers() {
        let found: Vec<usize> = (1..=6).map(|found| flows_needed(found, 0.05)).collect();
        assert_eq!(found, [6, 11, 16, 21, 27, 33]);
        assert_eq!(flows_needed(1, 0.001), 11);
    }

    fn router(hop: u8, number: usize) -> IpAddr {
        Ipv4Addr::new(10, 0, hop, number as u8).into()
    }

    /// Returns the router that a flow reaches at a hop, from router to router at random.
    fn node_of(widths: &[usize], seed: u64, ttl: u8, flow: u16) -> (IpAddr, bool) {
        let mut at = 0;
        for hop in 1..=ttl {
            let Some(&width) = widths.get(usize::from(hop) - 1) else {
                return (router(99, 1), true);
            };
            let mut stream = Stream::new(seed, &format!("{hop} {at} {flow}"));
            at = stream.up_to(width as u64 - 1) as usize;
        }
        (router(ttl, at), false)
    }

    /// Over hops with one to four routers each, some of which answer only now and then, every link
    /// is found, and none that there is not; or the result is said to be unsure, which is rare. The
    /// cases are the same in every run.
    #[test]
    fn every_way_is_found() {
        let mut unsure = 0;
        for seed in 0..200 {
            let mut random = Stream::new(seed, "network");
            let hops = 1 + random.up_to(4);
            let widths: Vec<usize> = (0..hops).map(|_| 1 + random.up_to(3) as usize).collect();
            let limited: Vec<bool> = (0..6).map(|_| random.up_to(1) == 1).collect();
            let mut paths = Multipath::new(1e-9, 12);
            let (mut sent, mut lost) = (0, Stream::new(seed, "lost"));
            loop {
                let hop_flows = paths.next_probes();
                if hop_flows.is_empty() {
                    break;
                }
                for hop_flow in hop_flows {
                    sent += 1;
                    let limited = limited.get(usize::from(hop_flow.ttl) - 1) == Some(&true);
                    let silent = limited && lost.up_to(9) < 3;
                    let node = node_of(&widths, seed, hop_flow.ttl, hop_flow.flow);
                    paths.take(hop_flow, (!silent).then_some(node));
                }
                assert!(sent < 30_000);
            }
            let mut expected = 1;
            for pair in widths.windows(2) {
                expected += pair[0] * pair[1];
            }
            expected += widths[0] - 1 + widths[widths.len() - 1];
            let links = paths.links();
            let known = |(_, a, b): &&Link| *a != Node::Silent && *b != Node::Silent;
            let found = links.iter().filter(known).count();
            match paths.is_sure() {
                true => assert_eq!(found, expected, "{links:?}"),
                false => {
                    unsure += 1;
                    assert!(found <= expected, "{links:?}");
                }
            }
        }
        assert!(unsure <= 10, "{unsure} of 200 are unsure");
    }

    /// A router behind three parallel ones answers one probe in the time of three rounds.
    #[test]
    fn links_to_a_router_that_limits_its_errors_are_found() {
        for seed in 0..50 {
            let mut paths = Multipath::new(0.001, 4);
            let mut rounds = 0;
            while let hop_flows @ [_, ..] = &paths.next_probes()[..] {
                rounds += 1;
                for (place, &hop_flow) in hop_flows.iter().enumerate() {
                    let node = node_of(&[1, 3, 1], seed, hop_flow.ttl, hop_flow.flow);
                    let answers = hop_flow.ttl != 3 || (place == 0 && rounds % 3 == 0);
                    paths.take(hop_flow, answers.then_some(node));
                }
            }
            let near: BTreeSet<Node> = paths.links().iter().map(|link| link.1).collect();
            assert!((0..3).all(|number| near.contains(&Node::Router(router(2, number)))), "{seed}");
        }
    }

    #[test]
    fn hops_that_never_answer_cost_few_probes() {
        let mut paths = Multipath::new(0.001, 5);
        let mut sent = 0;
        while let hop_flows @ [_, ..] = &paths.next_probes()[..] {
            for &hop_flow in hop_flows {
                sent += 1;
                let answer = match hop_flow.ttl {
                    1 => Some((router(1, 1), false)),
                    4.. => Some((router(9, 9), true)),
                    _ => None,
                };
                paths.take(hop_flow, answer);
            }
        }
        assert_eq!(paths.nodes(2), BTreeMap::from([(Node::Silent, 3)]));
        assert!(paths.nodes(4).contains_key(&Node::End(router(9, 9))));
        assert!(sent < 70, "{sent}");
    }
}
