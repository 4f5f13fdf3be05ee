//! Addresses of nodes, and addresses and ports of streams.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use perhop_workload::{FIRST_SOURCE_PORT, FlowPlan, TransportPlan};

use crate::app::client_port;
use crate::error::TrafficError;
use crate::job::{Job, NodeJob};
use crate::live::End;

/// Addresses of a stream: source and destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamAddresses {
    pub flow: usize,
    pub from: SocketAddr,
    pub to: SocketAddr,
}

/// Returns the streams of a job in order, each with its own addresses and ports.
pub(crate) fn lines(job: &Job) -> Result<Vec<StreamAddresses>, TrafficError> {
    let mut taken = HashSet::new();
    // Required ports first, so that no other stream takes one.
    for (index, flow) in job.flows.iter().enumerate() {
        let is_tcp = matches!(flow.transport, TransportPlan::Tcp(_));
        if flow.source_port.is_some() && is_tcp && job.opens(index) == End::Destination {
            return Err(TrafficError::SourcePortOfListener { flow: flow.name.clone() });
        }
        for number in 0..flow.streams {
            let Some(port) = flow.required_source_port(number)? else { break };
            if !taken.insert(Identity::new(job, flow, port)?) {
                let (flow, node) = (flow.name.clone(), flow.from.clone());
                return Err(TrafficError::SourcePortTaken { flow, node, port });
            }
        }
    }
    let mut lines = Vec::new();
    for (index, flow) in job.flows.iter().enumerate() {
        let (from, to) = (host(job, &flow.from, flow.ipv6)?, host(job, &flow.to, flow.ipv6)?);
        same_family(from, to)?;
        for number in 0..flow.streams {
            if flow.application.is_some() {
                // The data comes from the port of the flow, and goes to the client's first one.
                let port = client_port(number.into(), flow.streams, 0)
                    .ok_or_else(|| no_port(flow, &flow.to))?;
                let (from, to) = (SocketAddr::new(from, flow.port), SocketAddr::new(to, port));
                lines.push(StreamAddresses { flow: index, from, to });
                continue;
            }
            let port = match flow.required_source_port(number)? {
                Some(port) => port,
                None => free_port(job, flow, number, &mut taken)?,
            };
            let (from, to) = (SocketAddr::new(from, port), SocketAddr::new(to, flow.port));
            lines.push(StreamAddresses { flow: index, from, to });
        }
    }
    Ok(lines)
}

/// Properties that identify a stream among all others of a job.
#[derive(PartialEq, Eq, Hash)]
struct Identity<'a> {
    is_tcp: bool,
    node: &'a str,
    source_port: u16,
    /// `None` in a live job: until it is proved, only the port identifies a stream at its source.
    ends: Option<(IpAddr, SocketAddr)>,
}

impl<'a> Identity<'a> {
    fn new(job: &Job, flow: &'a FlowPlan, source_port: u16) -> Result<Self, TrafficError> {
        let is_tcp = matches!(flow.transport, TransportPlan::Tcp(_));
        let ends = match job.live {
            None => {
                let (from, to) =
                    (host(job, &flow.from, flow.ipv6)?, host(job, &flow.to, flow.ipv6)?);
                Some((from, SocketAddr::new(to, flow.port)))
            }
            Some(_) => None,
        };
        Ok(Self { is_tcp, node: &flow.from, source_port, ends })
    }
}

/// Returns the first source port that no other stream has, from that of the stream's number on.
fn free_port<'a>(
    job: &Job,
    flow: &'a FlowPlan,
    number: u16,
    taken: &mut HashSet<Identity<'a>>,
) -> Result<u16, TrafficError> {
    for more in 0..=u16::MAX - FIRST_SOURCE_PORT {
        let port = FIRST_SOURCE_PORT | number.wrapping_add(more);
        if taken.insert(Identity::new(job, flow, port)?) {
            return Ok(port);
        }
    }
    Err(no_port(flow, &flow.from))
}

fn no_port(flow: &FlowPlan, node: &str) -> TrafficError {
    let error = io::ErrorKind::AddrInUse.into();
    let what = format!("ports for the streams of {}", flow.name);
    TrafficError::Socket { node: node.to_owned(), what, error }
}

/// Returns the address of a host, in this process or another, of the version if it has one.
pub(crate) fn host(job: &Job, node: &str, v6: bool) -> Result<IpAddr, TrafficError> {
    let plan = Some(job.node(node)?);
    let plan = plan.filter(|plan| plan.namespace.is_some() || job.live.is_some());
    address(plan, node, v6)
}

/// Returns the address of a node, which may be a router, of the version if it has one.
pub(crate) fn node(job: &Job, node: &str, v6: bool) -> Result<IpAddr, TrafficError> {
    address(Some(job.node(node)?), node, v6)
}

fn address(plan: Option<&NodeJob>, node: &str, v6: bool) -> Result<IpAddr, TrafficError> {
    let own = plan.map(|plan| &plan.addresses[..]).unwrap_or_default();
    let address = own.iter().find(|own| own.is_ipv6() == v6).or(own.first());
    address.copied().ok_or_else(|| TrafficError::NotAHost(node.into()))
}

pub(crate) fn same_family(from: IpAddr, to: IpAddr) -> Result<(), TrafficError> {
    match from.is_ipv4() == to.is_ipv4() {
        true => Ok(()),
        false => Err(TrafficError::Families(from, to)),
    }
}
