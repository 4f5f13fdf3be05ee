//! The parts of a simulation, each with a network and hosts of its own.
//!
//! Every part has all nodes and endpoints under the same numbers, and works on those of its own
//! nodes only. One part is the usual case: it is the whole.

mod division;
mod windows;

use perhop_core::{Duration, NodeId, Time};
use perhop_measure::{Histogram, LossMeter};
use perhop_net::{Network, PortId};
use perhop_plan::Timeline;

use crate::hosts::{BodyId, ClassCounts, Endpoint, ModelledHosts, Role};

pub use self::division::Whole;
pub(crate) use self::division::{Division, divide};

/// Network and hosts of some nodes. No two are in one line of a cache.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Part {
    pub network: Network<BodyId>,
    pub hosts: ModelledHosts,
    /// Changes still to come.
    pub changes: Timeline<BodyId>,
}

/// All parts of a simulation.
#[derive(Debug)]
pub(crate) struct Parts {
    parts: Vec<Part>,
    /// Part of each node; empty with one part.
    owners: Vec<u16>,
    lookahead: Duration,
}

impl Parts {
    /// One part, which is the whole.
    pub fn whole(part: Part) -> Self {
        Self { parts: vec![part], owners: Vec::new(), lookahead: Duration::ZERO }
    }

    /// The parts of a division.
    pub fn divided(parts: Vec<Part>, Division { owners, lookahead, .. }: Division) -> Self {
        Self { parts, owners, lookahead }
    }

    /// Returns the number of parts.
    pub fn number(&self) -> usize {
        self.parts.len()
    }

    /// Returns all parts.
    pub fn iter(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter()
    }

    /// Returns all parts, mutably.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        self.parts.iter_mut()
    }

    /// Returns the first part.
    pub fn first(&self) -> &Part {
        &self.parts[0]
    }

    /// Returns the first part, mutably.
    pub fn first_mut(&mut self) -> &mut Part {
        &mut self.parts[0]
    }

    fn index(&self, node: NodeId) -> usize {
        self.owners.get(usize::from(node.0)).map_or(0, |&part| part.into())
    }

    /// Returns the network that has the transmitter of a port.
    pub fn network(&self, port: PortId) -> &Network<BodyId> {
        let sender = self.first().network.near_end(port);
        &self.parts[self.index(sender)].network
    }

    fn index_of_endpoint(&self, id: u32) -> usize {
        self.index(self.first().hosts.endpoints[id as usize].line.header.source)
    }

    /// Returns the hosts that have an endpoint of a flow or a ping.
    pub fn hosts(&self, id: u32) -> &ModelledHosts {
        &self.parts[self.index_of_endpoint(id)].hosts
    }

    /// Returns the hosts that have an endpoint of a flow or a ping, mutably.
    pub fn hosts_mut(&mut self, id: u32) -> &mut ModelledHosts {
        let index = self.index_of_endpoint(id);
        &mut self.parts[index].hosts
    }

    /// Returns an endpoint of a flow or a ping.
    pub fn endpoint(&self, id: u32) -> &Endpoint {
        &self.hosts(id).endpoints[id as usize]
    }

    /// Returns the number of data packets of a sender that were lost, in whichever part.
    pub fn lost(&self, sender: u32) -> u64 {
        let roles = self.parts.iter().map(|part| &part.hosts.endpoints[sender as usize].role);
        roles.map(Role::lost).sum()
    }

    /// Returns the histograms of a flow between two hosts: round-trip times, smoothed ones, and
    /// one-way delays.
    pub fn histograms(&self, flow: usize, [to, from]: [NodeId; 2]) -> [&Histogram; 3] {
        let [source, sink] = [from, to].map(|node| &self.parts[self.index(node)].hosts);
        [&source.rtts[flow], &source.srtts[flow], &sink.delays[flow]]
    }

    /// Returns the packets of a flow that arrived at a node, by traffic class.
    pub fn arrived_mut(&mut self, flow: usize, node: NodeId, answers: bool) -> &mut ClassCounts {
        let index = self.index(node);
        &mut self.parts[index].hosts.arrived[flow][usize::from(answers)]
    }

    /// Returns the losses of all parts.
    pub fn losses(&mut self) -> &mut LossMeter {
        let [first, others @ ..] = &mut self.parts[..] else { unreachable!("there is a part") };
        for other in others {
            first.hosts.losses.take(&mut other.hosts.losses);
        }
        &mut first.hosts.losses
    }

    /// Processes all events up to and including `until`.
    pub fn run(&mut self, until: Time) {
        match &mut self.parts[..] {
            [Part { network, hosts, .. }] => network.run(until, hosts),
            parts => windows::run(parts, &self.owners, self.lookahead, until),
        }
    }
}
