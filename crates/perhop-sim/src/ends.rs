//! The endpoints of all flows and pings of a plan.

use perhop_core::NodeId;
use perhop_measure::StreamCounters;
use perhop_net::{Network, NodeKind};
use perhop_plan::{BuildError, Names};

use crate::build::{client, pinger, stream};
use crate::capture::ModelledCaptures;
use crate::hosts::{BodyId, Endpoint, MOST_ENDPOINTS, ModelledHosts};
use crate::parts::Part;
use crate::plan::*;

/// Endpoints of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub flow: u32,
    /// Number within the flow.
    pub number: u32,
    pub sender: u32,
    /// That of the sender for a client of an application.
    pub receiver: u32,
    /// Counters at the last mark.
    pub last: StreamCounters,
}

/// Numbers of the endpoints.
#[derive(Debug)]
pub(crate) struct Ends {
    pub streams: Vec<Stream>,
    pub pingers: Vec<u32>,
}

impl Ends {
    /// Numbers the endpoints of a plan.
    pub fn of(plan: &Plan) -> Result<Self, BuildError> {
        let mut next = 0;
        let number = plan.flows.iter().map(|flow| usize::from(flow.streams)).sum();
        let mut streams = Vec::with_capacity(number);
        for (flow, each) in plan.flows.iter().enumerate() {
            let further = u32::from(each.application.is_none());
            for number in 0..u32::from(each.streams) {
                let (sender, receiver) = (next, next + further);
                let (flow, last) = (flow as u32, StreamCounters::default());
                streams.push(Stream { flow, number, sender, receiver, last });
                next = receiver + 1;
            }
        }
        if next as usize + plan.pings.len() > MOST_ENDPOINTS {
            return Err(BuildError::TooLarge("there are more than half a million streams"));
        }
        Ok(Self { streams, pingers: (next..).take(plan.pings.len()).collect() })
    }

    /// Returns the part of a simulation with this network and the hosts that are `own`.
    pub fn part(
        &self,
        plan: &Plan,
        names: &Names,
        mut network: Network<BodyId>,
        own: impl Fn(NodeId) -> bool,
    ) -> Result<Part, BuildError> {
        let addresses =
            plan.network.nodes.iter().map(|node| (node.address, node.address_v6)).collect();
        let captures = ModelledCaptures::new(addresses);
        let endpoints = self.endpoints(plan, names)?;
        let hosts = ModelledHosts::start(endpoints, plan.flows.len(), captures, &mut network, own);
        Ok(Part { network, hosts, changes: plan.network.timeline(names)? })
    }

    fn endpoints(&self, plan: &Plan, names: &Names) -> Result<Vec<Endpoint>, BuildError> {
        let kinds = plan.network.kinds();
        let host = |name: &str| {
            let node = names.node(name)?;
            match kinds[usize::from(node.0)] {
                NodeKind::Host => Ok(node),
                NodeKind::Router => Err(BuildError::NotAHost(name.into())),
            }
        };
        let seed = plan.network.seed;
        let mut endpoints = Vec::with_capacity(2 * self.streams.len() + self.pingers.len());
        for each in &self.streams {
            let (index, number) = (each.flow as usize, each.number as usize);
            let flow = &plan.flows[index];
            let ends = (host(&flow.from)?, host(&flow.to)?);
            match &flow.application {
                Some(application) => {
                    endpoints.push(client(flow, application, index, ends, number, seed)?);
                }
                None => {
                    let sender = each.sender as usize;
                    endpoints.extend(stream(flow, index, ends, number, sender, seed)?);
                }
            }
        }
        for (index, ping) in plan.pings.iter().enumerate() {
            // Routers reply to pings, too.
            let ends = (host(&ping.from)?, names.node(&ping.to)?);
            endpoints.push(pinger(ping, index, ends, endpoints.len())?);
        }
        Ok(endpoints)
    }
}
