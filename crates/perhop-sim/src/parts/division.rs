//! Division of a network into parts with about the same load.
//!
//! Parts meet once per window, and a window is as long as the least delay between them. So nodes
//! that short links join are in one part. What remains is grouped by load, so that few packets
//! change parts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use perhop_core::{Duration, NodeId};
use perhop_net::{Network, NodeKind, PortId, Topology};
use perhop_plan::{BuildError, EffectPlan, Names};
use perhop_workload::{DatagramSizesPlan, FlowPlan, TransportPlan, UdpPlan};

use crate::hosts::BodyId;
use crate::plan::Plan;

mod groups;

use self::groups::Groups;

/// A division of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// Part of each node.
    pub owners: Vec<u16>,
    /// Number of parts, at least two.
    pub parts: usize,
    /// Least delay between two parts.
    pub lookahead: Duration,
}

/// Reason why a network is not divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// Nobody has asked for parts.
    NotAsked,
    /// There are tunnels.
    Tunnels,
    /// Links duplicate packets.
    Duplicates,
    /// Datagrams are divided into fragments.
    Fragments,
    /// Connections of applications take other paths when links go up or down.
    Detours,
    /// No link between two groups of nodes has a delay.
    NoDelay,
    /// Parts would meet so often that they would take longer than the whole.
    Short,
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAsked => "one thread is asked for",
            Self::Tunnels => "it has tunnels",
            Self::Duplicates => "links duplicate packets",
            Self::Fragments => "datagrams may be longer than the MTU of a link",
            Self::Detours => "it has applications over connections, and links go up or down",
            Self::NoDelay => {
                "no link that could be cut has a delay, is free of reordering, and is on no path \
                 of an application's connection"
            }
            Self::Short => {
                "the delays of its links are so short that threads would wait for each other \
                 longer than they save"
            }
        })
    }
}

/// Cost of a window in packets that cross a link.
const WINDOW: f64 = 100.0;
/// Length from which windows take little time, however few packets there are.
const LONG: Duration = Duration::from_millis(1);
/// Greatest expected time of a division with shorter windows, relative to that of the whole. Where
/// few packets are sent, there are fewer windows than their length allows.
const WORST: f64 = 4.0;
/// Greatest number of flows whose paths are found.
const SAMPLE: usize = 512;
/// Greatest number of window lengths that are tried.
const LENGTHS: usize = 8;

/// Divides a network into at most `threads` parts. The same plan has the same division.
pub(crate) fn divide(
    plan: &Plan,
    names: &Names,
    network: &Network<BodyId>,
    threads: usize,
) -> Result<Result<Division, Whole>, BuildError> {
    if threads < 2 {
        return Ok(Err(Whole::NotAsked));
    }
    if let Some(reason) = indivisible(plan) {
        return Ok(Err(reason));
    }
    let topology = topology(network, plan);
    let delays = delays(plan, names, network)?;
    let mut together = Groups::new(plan.network.nodes.len());
    for (link, delay) in delays.iter().enumerate() {
        if delay.is_none() {
            together.join(ends(&topology, link));
        }
    }
    for channel in &plan.network.channels {
        let ports =
            channel.on.iter().map(|link| names.port(link)).collect::<Result<Vec<_>, _>>()?;
        for pair in ports.windows(2) {
            together.join([pair[0], pair[1]].map(|port| topology.far_end(port)));
        }
    }
    for flow in plan.flows.iter().filter(|flow| flow.application.is_some()) {
        let [one, other] = [names.node(&flow.from)?, names.node(&flow.to)?];
        let there = join_paths(&topology, &mut together, BTreeSet::from([one]), other);
        // Routers send errors back, perhaps on other ways.
        let mut back = join_paths(&topology, &mut together, there, one);
        back.insert(other);
        join_paths(&topology, &mut together, back, other);
    }
    let loads = Loads::of(plan, names, &topology, network)?;
    // Hosts at the edge stay with their router, unless nothing else can be cut.
    let mut with_hosts = together.clone();
    for link in 0..delays.len() {
        let [a, b] = ends(&topology, link);
        if [a, b].iter().any(|node| plan.network.nodes[usize::from(node.0)].kind == NodeKind::Host)
        {
            with_hosts.join([a, b]);
        }
    }
    let of = |together: &Groups| best(together, &topology, &delays, &loads, threads);
    Ok(of(&with_hosts).or_else(|reason| match of(&together) {
        Err(Whole::NoDelay) => Err(reason),
        found => found,
    }))
}

/// Returns why no network with this plan is divided, if that is so.
fn indivisible(plan: &Plan) -> Option<Whole> {
    let network = &plan.network;
    if !network.tunnels.is_empty() {
        return Some(Whole::Tunnels);
    }
    let mut media = network.links.iter().flat_map(|link| &link.ends).map(|end| &end.medium);
    if media.any(|medium| medium.duplicate > 0) {
        return Some(Whole::Duplicates);
    }
    let mtu = network.links.iter().filter_map(|link| link.mtu).min().unwrap_or(u32::MAX);
    if plan.flows.iter().any(|flow| longest_datagram(flow) > mtu) {
        return Some(Whole::Fragments);
    }
    let detours =
        network.changes.iter().any(|change| matches!(change.effect, EffectPlan::State(_)));
    let applications = plan.flows.iter().any(|flow| flow.application.is_some());
    (detours && applications).then_some(Whole::Detours)
}

/// Returns the greatest length of an IP packet with a datagram of this flow, if it is UDP.
fn longest_datagram(flow: &FlowPlan) -> u32 {
    /// Bytes of the headers of IPv6 and UDP.
    const HEADERS: u32 = 48;
    match &flow.transport {
        TransportPlan::Udp(UdpPlan {
            size,
            sizes: DatagramSizesPlan::Constant,
            replay: None,
            extreme: None,
            ..
        }) => u32::from(*size) + HEADERS,
        TransportPlan::Udp(_) => u32::MAX,
        _ => 0,
    }
}

fn topology(network: &Network<BodyId>, plan: &Plan) -> Topology {
    let links = (0..plan.network.links.len() as u32).map(|link| {
        let ports = [PortId(2 * link), PortId(2 * link + 1)];
        let [there, back] = ports.map(|port| network.far_end(port));
        ([back, there], ports.map(|port| network.wire(port).delay))
    });
    Topology::new(&plan.network.kinds(), links)
}

fn ends(topology: &Topology, link: usize) -> [NodeId; 2] {
    [1, 0].map(|side| topology.far_end(PortId(2 * link as u32 + side)))
}

/// Returns the least delay of each link over the run; `None` if it cannot be cut.
fn delays(
    plan: &Plan,
    names: &Names,
    network: &Network<BodyId>,
) -> Result<Vec<Option<Duration>>, BuildError> {
    let mut ports: Vec<_> = network.ports().map(|port| network.least_delay(port)).collect();
    for change in &plan.network.changes {
        if let EffectPlan::Wire(wire) = &change.effect {
            let delay = &mut ports[names.port(&wire.on)?.0 as usize];
            *delay = delay.map(|delay| delay.min(wire.delay));
        }
    }
    let both = |two: &[Option<Duration>]| {
        let least = two[0]?.min(two[1]?);
        (least > Duration::ZERO).then_some(least)
    };
    Ok(ports.chunks(2).map(both).collect())
}

/// Joins all nodes on shortest paths from some nodes to a destination, and returns them.
fn join_paths(
    topology: &Topology,
    together: &mut Groups,
    mut nodes: BTreeSet<NodeId>,
    to: NodeId,
) -> BTreeSet<NodeId> {
    let ways = topology.next_hops(to);
    let mut open = Vec::from_iter(nodes.iter().copied());
    while let Some(node) = open.pop() {
        together.join([node, to]);
        for &port in &ways[usize::from(node.0)] {
            let next = topology.far_end(port);
            if nodes.insert(next) {
                open.push(next);
            }
        }
    }
    nodes
}

/// Expected packets per second.
struct Loads {
    nodes: Vec<f64>,
    ports: Vec<f64>,
}

impl Loads {
    /// Estimates loads from the paths of flows: the streams on a link share it, and use the least
    /// of their shares.
    fn of(
        plan: &Plan,
        names: &Names,
        topology: &Topology,
        network: &Network<BodyId>,
    ) -> Result<Self, BuildError> {
        let mut by_destination: BTreeMap<NodeId, Vec<(NodeId, &FlowPlan)>> = BTreeMap::new();
        for flow in plan.flows.iter().step_by(plan.flows.len().div_ceil(SAMPLE).max(1)) {
            let ends = (names.node(&flow.from)?, flow);
            by_destination.entry(names.node(&flow.to)?).or_default().push(ends);
        }
        let mut streams = vec![0.0; network.ports().count()];
        let mut paths = Vec::new();
        for (to, flows) in by_destination {
            let ways = topology.next_hops(to);
            for (from, flow) in flows {
                let (mut node, mut path) = (from, Vec::new());
                while let Some(&port) = ways[usize::from(node.0)].first()
                    && path.len() < ways.len()
                {
                    path.push(port);
                    streams[port.0 as usize] += f64::from(flow.streams);
                    node = topology.far_end(port);
                }
                paths.push((flow, from, path));
            }
        }
        // Every node has some, so that parts are of similar size without flows.
        let mut loads =
            Self { nodes: vec![1.0; topology.nodes()], ports: vec![0.0; streams.len()] };
        for (flow, from, path) in paths {
            let share = |port: &PortId| {
                network.wire(*port).rate.bits_per_second() as f64 / streams[port.0 as usize]
            };
            let wanted = match &flow.transport {
                TransportPlan::Udp(udp) if udp.rate > 0 => udp.rate as f64,
                _ => f64::INFINITY,
            };
            /// Bits of a packet of usual length.
            const PACKET: f64 = 8_000.0;
            let packets = path.iter().map(share).fold(wanted, f64::min) / PACKET;
            let packets = packets.min(1e9) * f64::from(flow.streams);
            // Hosts do more than to forward.
            loads.nodes[usize::from(from.0)] += 2.0 * packets;
            for port in path {
                loads.nodes[usize::from(topology.far_end(port).0)] += packets;
                loads.ports[port.0 as usize] += packets;
            }
        }
        Ok(loads)
    }
}

/// Returns the division with the most parts, and of these the one with the least expected time, or
/// why there is none.
fn best(
    together: &Groups,
    topology: &Topology,
    delays: &[Option<Duration>],
    loads: &Loads,
    threads: usize,
) -> Result<Division, Whole> {
    let apart = |link: &usize| together.are_apart(ends(topology, *link));
    let links = (0..delays.len()).filter(apart);
    let lengths: BTreeSet<Duration> = links.filter_map(|link| delays[link]).collect();
    let step = lengths.len().div_ceil(LENGTHS).max(1);
    let mut best: Result<((usize, f64), Vec<u16>), _> = Err(Whole::NoDelay);
    let undivided: f64 = loads.nodes.iter().sum();
    // The shortest one leaves the most groups, and is always tried.
    for &length in lengths.iter().step_by(step) {
        let mut groups = together.clone();
        for (link, delay) in delays.iter().enumerate() {
            if delay.is_none_or(|delay| delay < length) {
                groups.join(ends(topology, link));
            }
        }
        let links = (0..delays.len())
            .map(|link| (ends(topology, link), loads.ports[2 * link] + loads.ports[2 * link + 1]));
        if let Some((load, owners)) = groups.divide(&loads.nodes, links, threads) {
            let time = load + WINDOW / length.as_secs_f64();
            if length < LONG && time > WORST * undivided {
                best = best.or(Err(Whole::Short));
                continue;
            }
            let cost = (usize::MAX - parts_of(&owners), time);
            if best.as_ref().map_or(true, |(least, _)| cost < *least) {
                best = Ok((cost, owners));
            }
        }
    }
    let (_, owners) = best?;
    let crosses = |link: &usize| {
        let [a, b] = ends(topology, *link);
        owners[usize::from(a.0)] != owners[usize::from(b.0)]
    };
    let lookahead = (0..delays.len()).filter(crosses).filter_map(|link| delays[link]).min();
    let parts = parts_of(&owners);
    // Parts without links between them never need to meet.
    Ok(Division { owners, parts, lookahead: lookahead.unwrap_or(Duration::MAX) })
}

fn parts_of(owners: &[u16]) -> usize {
    owners.iter().max().map_or(0, |&last| usize::from(last) + 1)
}
