//! Builds the network from a plan.

use std::collections::BTreeSet;

use perhop_core::{NodeId, Stream};
use perhop_net::{
    Access, LinkSpec, Marker, Network, NodeKind, PortId, RouteError, TraceError, Wire,
};
use perhop_workload::WorkloadError;
use thiserror::Error;

use crate::classes::{Site, checked_rules, resolve};
use crate::names::Names;
use crate::network::{
    AccessPlan, CellPlan, ChannelPlan, EndPlan, LinkPlan, MediumPlan, NetworkPlan, RemarkPlan,
};
use crate::tunnels::DevicePlan;

/// Greatest contention window, in slots.
const MOST_WINDOW: u32 = 32_767;

/// Greatest number of frames in an aggregate.
const MOST_FRAMES: u32 = 1_024;

/// Greatest number of resource blocks in a TTI.
const MOST_BLOCKS: u32 = 1_000;

/// Greatest number of retransmissions by HARQ.
const MOST_RETRIES: u32 = 255;

/// Error: a plan cannot be run. A validated scenario does not cause it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The network is invalid.
    #[error(transparent)]
    Network(#[from] RouteError),
    /// A flow or a ping cannot be sent.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A size is zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// A number is too large, or out of its range.
    #[error("too large: {0}")]
    TooLarge(&'static str),
    /// A policy has no class.
    #[error("a policy needs a class")]
    NoClass,
    /// A flow or a ping is at a node that is not a host.
    #[error("node {0} is not a host")]
    NotAHost(String),
    /// A node is not in the network.
    #[error("unknown node {0}")]
    UnknownNode(String),
    /// A directed link is not in the network.
    #[error("unknown link {0}")]
    UnknownLink(String),
    /// Two nodes, or two directed links or devices of tunnels, have the same name.
    #[error("the name {0} is given twice")]
    Twice(String),
    /// A link of a cell does not join its base station, or is there in one direction only.
    #[error("links of a cell join users to {0}, in both directions")]
    Cell(String),
    /// A trace is invalid.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Packets are captured where a simulation has one part only.
    #[error("packets cannot be captured on several threads")]
    CaptureInParts,
    /// The marks do not rise, or there is no mark for the instant of a change.
    #[error("marks must rise, and changes stand in order of time, at marks")]
    Marks,
}

impl NetworkPlan {
    /// Returns the network at time zero, without packets.
    ///
    /// # Errors
    /// [`BuildError`] for an invalid value.
    pub fn network<B: Copy>(&self, names: &Names) -> Result<Network<B>, BuildError> {
        let links =
            self.links.iter().map(|plan| plan.spec(names, self.seed)).collect::<Result<_, _>>()?;
        let mut network = Network::new(&self.kinds(), links, self.seed)?;
        for (node, plan) in self.nodes.iter().enumerate() {
            let node = NodeId(node as u16);
            network.set_balance(node, plan.balance);
            network.set_icmp_errors(node, plan.icmp_errors);
        }
        for (number, plan) in self.links.iter().enumerate() {
            if let Some(mtu) = plan.mtu {
                network.set_mtu(number as u32, mtu);
            }
            if let Some(encapsulation) = plan.encapsulation {
                network.set_encapsulation(number as u32, encapsulation);
            }
            for (end, port) in [(0, 0), (1, 1)] {
                if let Some(trace) = &plan.ends[end].trace {
                    network.set_trace(PortId(2 * number as u32 + port), trace.trace()?);
                }
            }
            // Packets that arrive at the first end come from the second, by the odd port.
            for (end, port) in [(0, 1), (1, 0)] {
                let rules = &plan.ends[end].remark;
                if !rules.is_empty() {
                    let port = PortId(2 * number as u32 + port);
                    network.set_marker(port, marker(rules, names)?);
                }
            }
        }
        let tunnels = self.tunnels.iter().map(|plan| plan.spec(names));
        network.set_tunnels(&tunnels.collect::<Result<Vec<_>, _>>()?);
        for (tunnel, plan) in self.tunnels.iter().enumerate() {
            for (end, device) in plan.devices.iter().enumerate() {
                if let Some(DevicePlan { name, discipline, shape }) = device {
                    let site = Site { names, stream: name, seed: self.seed };
                    network.add_device(tunnel, end, discipline.root(*shape, site)?);
                }
            }
        }
        let mut shared = BTreeSet::new();
        for plan in &self.channels {
            let on = &plan.on;
            let ports = on.iter().map(|link| names.port(link)).collect::<Result<Vec<_>, _>>()?;
            if let Some(twice) = ports.iter().position(|&port| !shared.insert(port)) {
                return Err(BuildError::Twice(on[twice].clone()));
            }
            let stream = Stream::new(self.seed, &format!("channel {}", plan.name));
            network.share(&ports, self.access(plan, &ports, names)?, stream);
        }
        Ok(network)
    }

    /// Returns how these ports share a channel.
    fn access(
        &self,
        plan: &ChannelPlan,
        ports: &[PortId],
        names: &Names,
    ) -> Result<Access, BuildError> {
        if ports.is_empty() {
            return Err(BuildError::Zero("the links on a channel"));
        }
        match &plan.access {
            AccessPlan::Wifi(wifi) => {
                if wifi.frames == 0 {
                    return Err(BuildError::Zero("the frames in an aggregate"));
                }
                let window = wifi.cw_min > wifi.cw_max || wifi.cw_max > MOST_WINDOW;
                if window || wifi.frames > MOST_FRAMES {
                    return Err(BuildError::TooLarge("a contention window, or an aggregate"));
                }
                Ok(Access::Wifi(*wifi))
            }
            AccessPlan::Lte(CellPlan { base, settings }) => {
                if settings.resource_blocks == 0 {
                    return Err(BuildError::Zero("the resource blocks of a cell"));
                }
                if settings.resource_blocks > MOST_BLOCKS || settings.retries > MOST_RETRIES {
                    return Err(BuildError::TooLarge("the resource blocks, or retries, of a cell"));
                }
                for port in ports {
                    let apart =
                        !self.links[port.0 as usize / 2].ends.iter().any(|end| end.node == *base);
                    // Both directions, so that none is without users.
                    if apart || !ports.contains(&PortId(port.0 ^ 1)) {
                        return Err(BuildError::Cell(base.clone()));
                    }
                }
                Ok(Access::Lte { base: names.node(base)?, lte: *settings })
            }
        }
    }

    /// Returns the kind of each node.
    pub fn kinds(&self) -> Vec<NodeKind> {
        self.nodes.iter().map(|node| node.kind).collect()
    }
}

impl LinkPlan {
    fn spec<B>(&self, names: &Names, seed: u64) -> Result<LinkSpec<B>, BuildError> {
        let queue =
            |end: &EndPlan| end.discipline.root(end.shape, Site { names, stream: &end.name, seed });
        let [near, far] = &self.ends;
        Ok(LinkSpec {
            name: near.name.clone(),
            ends: [names.node(&near.node)?, names.node(&far.node)?],
            wires: [near.medium.wire(), far.medium.wire()],
            queues: [queue(near)?, queue(far)?],
        })
    }
}

impl MediumPlan {
    /// Returns the medium in the types of the network.
    pub fn wire(&self) -> Wire {
        Wire {
            rate: self.rate,
            delay: self.delay,
            jitter: self.jitter,
            variation: self.variation,
            delay_limit: self.delay_limit,
            loss: self.loss,
            duplicate: self.duplicate,
            reorder: self.reorder,
            gilbert: self.gilbert,
            overhead: self.overhead,
        }
    }
}

fn marker(rules: &[RemarkPlan], names: &Names) -> Result<Marker, BuildError> {
    if rules.len() > usize::from(u16::MAX) {
        return Err(BuildError::TooLarge("a link's end has more than 65535 rules for marks"));
    }
    checked_rules(rules.iter().map(|rule| &rule.matches[..]))?;
    let rule = |rule: &RemarkPlan| Ok((resolve(&rule.matches, names)?, rule.dscp));
    Ok(Marker::new(rules.iter().map(rule).collect::<Result<Vec<_>, BuildError>>()?))
}
