//! From a plan to the network.

use perhop_core::{Bytes, Dscp, Duration, InvalidDscp, NodeId, Overhead, Protocol, Rate};
use perhop_net::{
    Balance, IcmpErrors, LinkSpec, Marker, Network, NodeKind, PortId, RouteError, Wire,
};
use perhop_queue::{
    Action, Actions, Class, ClassSpec, Classes, Fifo, Match, Policer, Queue, Service, Shaper,
    Sharing, Weight,
};
use perhop_workload::WorkloadError;
use thiserror::Error;

use crate::network::*;

/// A plan that cannot be run. A scenario that was validated does not lead here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The network cannot be built.
    #[error(transparent)]
    Network(#[from] RouteError),
    /// A DSCP has too many bits.
    #[error(transparent)]
    Dscp(#[from] InvalidDscp),
    /// A flow or a ping cannot be sent.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A rate, a weight, a size or an interval is zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// Something is beyond what can be counted, or beyond what makes sense.
    #[error("too large: {0}")]
    TooLarge(&'static str),
    /// A policy has no class.
    #[error("a policy needs a class")]
    NoClass,
    /// A class of class-based queueing is divided by another policy.
    #[error("class-based queueing has no policies inside")]
    NestedClasses,
    /// A flow or a ping names a node that is not a host.
    #[error("node {0} is not a host")]
    NotAHost(u16),
    /// A change is of a link that there is not.
    #[error("there is no link {0}")]
    NoSuchLink(u32),
    /// A capture names a port that there is not.
    #[error("there is no port {0}")]
    NoSuchPort(u32),
    /// The instants at which counters are read do not rise, or one of a change is missing.
    #[error("marks must rise, and changes stand in order of time, at marks")]
    Marks,
}

/// As much weight as a set of classes may have, 281 Tb/s, so that virtual time never overflows.
const MAX_WEIGHTS: u128 = 1 << 48;

/// A rate, of what `what` says.
///
/// # Errors
/// [`BuildError::Zero`] if it is zero.
pub(crate) fn non_zero_rate(bits_per_second: u64, what: &'static str) -> Result<Rate, BuildError> {
    Rate::new(bits_per_second).ok_or(BuildError::Zero(what))
}

pub(crate) fn loss(ppb: u32) -> Result<u32, BuildError> {
    match ppb <= 1_000_000_000 {
        true => Ok(ppb),
        false => Err(BuildError::TooLarge("a share of more than all packets")),
    }
}

impl NetworkPlan {
    /// The network, in which nothing has happened yet.
    ///
    /// # Errors
    /// [`BuildError`] says what the plan has wrong.
    pub fn network<B: Clone>(&self) -> Result<Network<B>, BuildError> {
        let links =
            self.links.iter().map(|plan| link(plan, self.seed)).collect::<Result<_, _>>()?;
        let mut network = Network::new(&self.kinds(), links, self.seed)?;
        for (node, plan) in self.nodes.iter().enumerate() {
            let node = NodeId(node as u16);
            network.set_balance(node, balance(plan.balance));
            network.set_icmp_errors(node, icmp_errors(plan.icmp_errors)?);
        }
        for (number, plan) in self.links.iter().enumerate() {
            if let Some(mtu) = plan.mtu {
                network.set_mtu(number as u32, mtu);
            }
            // What arrives at the first end has come from the second, by the odd port.
            for (end, port) in [(0, 1), (1, 0)] {
                if !plan.remarks[end].is_empty() {
                    let port = PortId(2 * number as u32 + port);
                    network.set_marker(port, marker(&plan.remarks[end])?);
                }
            }
        }
        Ok(network)
    }

    /// What each node does with packets for others.
    pub fn kinds(&self) -> Vec<NodeKind> {
        let kind = |node: &NodePlan| match node.kind {
            KindPlan::Host => NodeKind::Host,
            KindPlan::Router => NodeKind::Router,
        };
        self.nodes.iter().map(kind).collect()
    }

    /// The rate of each port.
    ///
    /// # Errors
    /// [`BuildError::Zero`] if one is zero.
    pub fn rates(&self) -> Result<Vec<Rate>, BuildError> {
        let rates = self.links.iter().flat_map(|link| [link.rate, link.rate]);
        rates.map(|rate| non_zero_rate(rate, "a link's rate")).collect()
    }
}

/// What stands before a transmitter.
pub(crate) fn root<B>(
    plan: &QueuePlan,
    shape: Option<ShapePlan>,
    seed: u64,
) -> Result<Class<B>, BuildError> {
    let class = Class::new(queue(plan, seed)?);
    Ok(match shape {
        Some(shape) => class.shaped(shaper(shape)?),
        None => class,
    })
}

fn link<B>(plan: &LinkPlan, seed: u64) -> Result<LinkSpec<B>, BuildError> {
    let root = |end: usize| root(&plan.queues[end], plan.shapes[end], seed);
    Ok(LinkSpec {
        name: plan.name.clone(),
        ends: plan.ends.map(NodeId),
        wire: plan.wire()?,
        queues: [root(0)?, root(1)?],
    })
}

impl LinkPlan {
    /// What lies between the ends.
    ///
    /// # Errors
    /// [`BuildError`] if its rate is zero or a probability above one.
    pub fn wire(&self) -> Result<Wire, BuildError> {
        Ok(Wire {
            rate: non_zero_rate(self.rate, "a link's rate")?,
            delay: Duration::from_picos(self.delay),
            jitter: Duration::from_picos(self.jitter),
            loss_ppb: loss(self.loss_ppb)?,
            duplicate_ppb: loss(self.duplicate_ppb)?,
            detour_ppb: loss(self.detour.0)?,
            detour: Duration::from_picos(self.detour.1),
            overhead: match self.overhead {
                OverheadPlan::Fixed(bytes) => Overhead::Fixed(bytes),
                OverheadPlan::Atm => Overhead::Atm,
            },
        })
    }
}

pub(crate) fn queue<B>(plan: &QueuePlan, seed: u64) -> Result<Queue<B>, BuildError> {
    Ok(match plan {
        QueuePlan::Fifo(limit) => Queue::Fifo(Fifo::new(limit.limit())),
        QueuePlan::HeadDrop(limit) => Queue::Fifo(Fifo::new(limit.limit()).dropping_at_head()),
        QueuePlan::Red(plan) => plan.queue(seed)?,
        QueuePlan::Codel(plan) => plan.queue()?,
        QueuePlan::FqCodel(plan) => plan.queue(seed)?,
        QueuePlan::Pie(plan) => plan.queue(seed)?,
        QueuePlan::DualPi2(plan) => plan.queue()?,
        QueuePlan::Classes(plans) => classes(plans, Sharing::Wfq, seed)?,
        QueuePlan::Drr(plans) => classes(plans, Sharing::Drr, seed)?,
        QueuePlan::LinkSharing(plans) => classes(plans, Sharing::LinkShare, seed)?,
        QueuePlan::Cbq(plan) => plan.queue(seed)?,
    })
}

fn classes<B>(plans: &[ClassPlan], sharing: Sharing, seed: u64) -> Result<Queue<B>, BuildError> {
    if plans.is_empty() {
        return Err(BuildError::NoClass);
    }
    if plans.len() > usize::from(u16::MAX) {
        return Err(BuildError::TooLarge("a policy has more than 65535 classes"));
    }
    let weights = plans.iter().map(|class| u128::from(class.weight.unwrap_or(0)));
    if weights.sum::<u128>() > MAX_WEIGHTS {
        return Err(BuildError::TooLarge("the weights of a policy's classes"));
    }
    let specs = plans.iter().map(|plan| class(plan, seed)).collect::<Result<_, _>>()?;
    Ok(Queue::Classes(Box::new(Classes::sharing(specs, sharing))))
}

fn class<B>(plan: &ClassPlan, seed: u64) -> Result<ClassSpec<B>, BuildError> {
    let mut class = Class::new(queue(&plan.queue, seed)?);
    if let Some(police) = plan.police {
        class = class.policed(policer(police)?, actions(police)?);
    }
    if let Some(shape) = plan.shape {
        class = class.shaped(shaper(shape)?);
    }
    let service = match plan.weight {
        None => Service::Strict,
        Some(weight) => {
            let weight = Weight::new(weight).ok_or(BuildError::Zero("a class's weight"))?;
            Service::Share(weight, plan.priority)
        }
    };
    Ok(ClassSpec { matches: matches(&plan.matches)?, service, class })
}

fn shaper<B>(plan: ShapePlan) -> Result<Shaper<B>, BuildError> {
    Ok(Shaper::new(non_zero_rate(plan.rate, "a shaper's rate")?, Bytes::new(plan.burst)))
}

pub(crate) fn policer(plan: PolicePlan) -> Result<Policer, BuildError> {
    let rate = non_zero_rate(plan.rate, "a policer's rate")?;
    let burst = Bytes::new(plan.burst);
    let policer = match (plan.peak, plan.excess_burst) {
        (Some(peak), _) => {
            let peak_rate = non_zero_rate(peak.rate, "a policer's peak rate")?;
            Policer::two_rate(rate, burst, peak_rate, Bytes::new(peak.burst))
        }
        (None, Some(excess)) => Policer::single_rate(rate, burst, Bytes::new(excess)),
        (None, None) => Policer::new(rate, burst),
    };
    Ok(if plan.colour_aware { policer.colour_aware() } else { policer })
}

pub(crate) fn actions(plan: PolicePlan) -> Result<Actions, BuildError> {
    let action = |plan| {
        Ok::<_, BuildError>(match plan {
            ActionPlan::Send => Action::Send,
            ActionPlan::Drop => Action::Drop,
            ActionPlan::Remark(dscp) => Action::Remark(Dscp::new(dscp)?),
        })
    };
    Ok(Actions {
        conform: action(plan.conform)?,
        exceed: action(plan.exceed)?,
        violate: action(plan.violate)?,
    })
}

impl From<ProtocolPlan> for Protocol {
    fn from(plan: ProtocolPlan) -> Self {
        match plan {
            ProtocolPlan::Icmp => Self::Icmp,
            ProtocolPlan::Tcp => Self::Tcp,
            ProtocolPlan::Udp => Self::Udp,
        }
    }
}

pub(crate) fn matches(plan: &MatchPlan) -> Result<Match, BuildError> {
    let ranges = |ports: &[(u16, u16)]| ports.iter().map(|&(low, high)| low..=high).collect();
    let nodes = |nodes: &[u16]| nodes.iter().copied().map(NodeId).collect();
    Ok(Match {
        dscps: plan.dscps.iter().map(|&dscp| Dscp::new(dscp)).collect::<Result<_, _>>()?,
        protocols: plan.protocols.iter().copied().map(Protocol::from).collect(),
        ports: ranges(&plan.ports),
        source_ports: ranges(&plan.source_ports),
        destination_ports: ranges(&plan.destination_ports),
        sources: nodes(&plan.sources),
        destinations: nodes(&plan.destinations),
    })
}

fn balance(plan: BalancePlan) -> Balance {
    match plan {
        BalancePlan::PerFlow => Balance::PerFlow,
        BalancePlan::PerDestination => Balance::PerDestination,
        BalancePlan::PerPacket => Balance::PerPacket,
    }
}

fn icmp_errors(plan: IcmpErrorsPlan) -> Result<IcmpErrors, BuildError> {
    Ok(match plan {
        IcmpErrorsPlan::All => IcmpErrors::All,
        IcmpErrorsPlan::None => IcmpErrors::None,
        IcmpErrorsPlan::Limited { every: 0, .. } | IcmpErrorsPlan::Limited { burst: 0, .. } => {
            return Err(BuildError::Zero("a limit of ICMP errors"));
        }
        IcmpErrorsPlan::Limited { every, burst } => {
            IcmpErrors::Limited { every: Duration::from_picos(every), burst }
        }
    })
}

fn marker(rules: &[RemarkPlan]) -> Result<Marker, BuildError> {
    if rules.len() > usize::from(u16::MAX) {
        return Err(BuildError::TooLarge("a link's end has more than 65535 rules for marks"));
    }
    let rule = |rule: &RemarkPlan| Ok((matches(&rule.matches)?, Dscp::new(rule.dscp)?));
    Ok(Marker::new(rules.iter().map(rule).collect::<Result<Vec<_>, BuildError>>()?))
}
