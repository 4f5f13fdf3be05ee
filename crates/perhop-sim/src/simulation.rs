//! A plan, compiled and run.

use perhop_core::{
    Bytes, Dscp, Duration, Ecn, Header, InvalidDscp, NodeId, Overhead, Protocol, Rate, Time,
    TrafficClass,
};
use perhop_net::{Balance, LinkCounters, LinkSpec, Network, NodeKind, RouteError, Wire};
use perhop_queue::{
    Action, Actions, Class, ClassSpec, Classes, Counters, Fifo, Match, Policer, Queue, Service,
    Shaper, Sharing, Weight,
};
use perhop_tcp::{Congestion, LossDetection, Receiver, ReceiverConfig, Sender, SenderConfig};
use thiserror::Error;

use crate::hosts::{
    BodyId, Endpoint, Line, ModelledHosts, Pace, Phase, Pinger, Role, Schedule, TcpSender,
    UdpReceiver, UdpSender,
};
use crate::measure::{Intervals, Links, Pings, Queues, RttSamples, Rtts, StreamReading, Table};
use crate::plan::*;

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
    /// A rate, a weight, a size or an interval is zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// Something is beyond what can be counted, or beyond what makes sense.
    #[error("too large: {0}")]
    TooLarge(&'static str),
    /// A policy has no class.
    #[error("a policy needs a class")]
    NoClass,
    /// A flow or a ping names a node that is not a host.
    #[error("node {0} is not a host")]
    NotAHost(u16),
    /// The instants at which counters are read do not rise.
    #[error("marks must rise")]
    Marks,
}

/// The network numbers its events and the hosts' timers, one an endpoint, in 24 bits.
const MAX_ENDPOINTS: usize = 1 << 20;
/// As much weight as a set of classes may have, 281 Tb/s, so that virtual time never overflows.
const MAX_WEIGHTS: u128 = 1 << 48;

/// A stream's endpoints.
#[derive(Debug)]
struct Stream {
    flow: usize,
    /// Its number within the flow.
    number: usize,
    sender: usize,
    receiver: usize,
    last: StreamReading,
}

/// A running simulation.
#[derive(Debug)]
pub struct Simulation {
    network: Network<BodyId>,
    hosts: ModelledHosts,
    streams: Vec<Stream>,
    flows: usize,
    /// The endpoints of the pings.
    pingers: Vec<usize>,
    rates: Vec<Rate>,
    marks: Vec<Time>,
    /// The first mark that was not reached.
    next_mark: usize,
    /// Up to where the tables go.
    recorded: Time,
    last_links: Vec<LinkCounters>,
    /// Of every class of every port, depth first.
    last_queues: Vec<Counters>,
    intervals: Intervals,
    queues: Queues,
    links: Links,
}

impl Simulation {
    /// Compiles a plan.
    ///
    /// # Errors
    /// [`BuildError`] says what the plan has wrong.
    pub fn new(plan: &Plan) -> Result<Self, BuildError> {
        if !plan.marks.is_sorted_by(|a, b| a < b) || plan.marks.first() == Some(&0) {
            return Err(BuildError::Marks);
        }
        if plan.marks.last() == Some(&Time::MAX.as_picos()) {
            return Err(BuildError::TooLarge("the last mark is later than every event"));
        }
        let streams = plan.flows.iter().map(|flow| 2 * usize::from(flow.streams));
        if streams.sum::<usize>() + plan.pings.len() > MAX_ENDPOINTS {
            return Err(BuildError::TooLarge("there are more than half a million streams"));
        }
        let kind = |node: &NodePlan| match node.kind {
            KindPlan::Host => NodeKind::Host,
            KindPlan::Router => NodeKind::Router,
        };
        let nodes: Vec<NodeKind> = plan.nodes.iter().map(kind).collect();
        let links = plan
            .links
            .iter()
            .map(|link_plan| link(link_plan, plan.seed))
            .collect::<Result<_, _>>()?;
        let mut network = Network::new(&nodes, links, plan.seed)?;
        for (node, plan) in plan.nodes.iter().enumerate() {
            network.set_balance(NodeId(node as u16), balance(plan.balance));
        }
        let endpoints_of = |from: u16, to: u16| {
            let host = |node: u16| match nodes.get(usize::from(node)) {
                Some(NodeKind::Host) => Ok(NodeId(node)),
                _ => Err(BuildError::NotAHost(node)),
            };
            Ok::<_, BuildError>((host(from)?, host(to)?))
        };

        let mut endpoints = Vec::new();
        let mut streams = Vec::new();
        for (index, flow) in plan.flows.iter().enumerate() {
            let (from, to) = endpoints_of(flow.from, flow.to)?;
            for number in 0..usize::from(flow.streams) {
                let sender = endpoints.len();
                streams.push(Stream {
                    flow: index,
                    number,
                    sender,
                    receiver: sender + 1,
                    last: StreamReading::default(),
                });
                endpoints.extend(stream(flow, index, (from, to), number, sender)?);
            }
        }
        let mut pingers = Vec::new();
        for (index, ping) in plan.pings.iter().enumerate() {
            let (from, to) = endpoints_of(ping.from, ping.to)?;
            pingers.push(endpoints.len());
            endpoints.push(pinger(ping, index, (from, to), endpoints.len())?);
        }
        let hosts = ModelledHosts::start(endpoints, plan.flows.len(), &mut network);

        let rates = plan.links.iter().flat_map(|link| [link.rate, link.rate]);
        let mut classes = 0;
        for port in network.ports() {
            visit_classes(network.queue(port), &mut |_| classes += 1);
        }
        Ok(Self {
            last_links: vec![LinkCounters::default(); 2 * plan.links.len()],
            last_queues: vec![Counters::default(); classes],
            network,
            hosts,
            streams,
            flows: plan.flows.len(),
            pingers,
            rates: rates
                .map(|rate| non_zero_rate(rate, "a link's rate"))
                .collect::<Result<_, _>>()?,
            marks: plan.marks.iter().copied().map(Time::from_picos).collect(),
            next_mark: 0,
            recorded: Time::ZERO,
            intervals: Intervals::default(),
            queues: Queues::default(),
            links: Links::default(),
        })
    }

    /// The instant that the simulation has reached.
    pub fn now(&self) -> Time {
        self.network.now()
    }

    /// When it ends.
    pub fn end(&self) -> Time {
        self.marks.last().copied().unwrap_or(Time::ZERO)
    }

    /// Events processed so far.
    pub fn events(&self) -> u64 {
        self.network.events()
    }

    /// Links crossed by packets so far.
    pub fn packet_hops(&self) -> u64 {
        self.network.packet_hops()
    }

    /// Bytes that each flow has delivered so far.
    pub fn delivered(&self) -> Vec<u64> {
        let mut delivered = vec![0; self.flows];
        for stream in &self.streams {
            delivered[stream.flow] += self.read(stream).delivered;
        }
        delivered
    }

    /// Runs until `until` or the end, whichever is first, reading counters at every mark.
    pub fn advance(&mut self, until: Time) {
        let until = until.min(self.end());
        while let Some(&mark) = self.marks.get(self.next_mark)
            && mark <= until
        {
            self.network.run(mark, &mut self.hosts);
            self.next_mark += 1;
            self.record(mark);
        }
        self.network.run(until, &mut self.hosts);
    }

    /// Ends the run where it is, and records what was measured since the last mark.
    pub fn stop(&mut self) {
        let now = self.now();
        self.marks.truncate(self.next_mark);
        if now > self.recorded {
            self.record(now);
            self.marks.push(now);
            self.next_mark += 1;
        }
    }

    /// The tables, by name: `intervals`, `pings`, `queues`, `links`, `rtts`. Flows, pings and
    /// links are numbers; a port is `2 · link` or, back, `2 · link + 1`; classes are numbered over
    /// all ports, each port's root first and then its classes, depth first.
    pub fn tables(&self) -> Vec<(&'static str, Table)> {
        let mut pings = Pings::default();
        for (index, &pinger) in self.pingers.iter().enumerate() {
            let endpoint = &self.hosts.endpoints[pinger];
            let Role::Pinger(pinger) = &endpoint.role else { unreachable!("pingers are pingers") };
            for (sequence, record) in pinger.records.iter().enumerate() {
                pings.push(index, sequence, endpoint.line.header.dscp(), record);
            }
        }
        let mut rtts = Rtts::default();
        for (flow, histogram) in self.hosts.rtts.iter().enumerate() {
            histogram.bins().for_each(|bin| rtts.push(flow, bin));
        }
        vec![
            ("intervals", self.intervals.clone().into_table()),
            ("pings", pings.into_table()),
            ("queues", self.queues.clone().into_table()),
            ("links", self.links.clone().into_table()),
            ("rtts", rtts.into_table()),
        ]
    }

    /// Adds a row to each table for what happened since the last one.
    fn record(&mut self, now: Time) {
        let stretch = (self.recorded, now);
        for index in 0..self.streams.len() {
            let stream = &self.streams[index];
            let reading = self.read(stream);
            let place = (stream.flow, stream.number);
            self.intervals.push(place, stretch, &stream.last, &reading);
            if let Role::TcpSender(tcp) = &mut self.hosts.endpoints[stream.sender].role {
                tcp.rtt = RttSamples::default();
            }
            self.streams[index].last = reading;
        }
        let span = now.since(self.recorded).as_secs_f64();
        let mut class = 0;
        for port in self.network.ports() {
            let index = port.0 as usize;
            let counters = self.network.link_counters(port);
            let capacity = self.rates[index].bits_per_second() as f64 / 8.0 * span;
            self.links.push(index, stretch, &self.last_links[index], &counters, capacity);
            self.last_links[index] = counters;
            visit_classes(self.network.queue(port), &mut |queue| {
                self.queues.push(class, stretch, &self.last_queues[class], queue);
                self.last_queues[class] = *queue.counters();
                class += 1;
            });
        }
        self.recorded = now;
    }

    fn read(&self, stream: &Stream) -> StreamReading {
        let role = |endpoint: usize| &self.hosts.endpoints[endpoint].role;
        match (role(stream.sender), role(stream.receiver)) {
            (Role::TcpSender(tcp), Role::TcpReceiver(receiver)) => {
                let received = receiver.received();
                StreamReading {
                    delivered: received.delivered,
                    packets: received.segments,
                    lost: tcp.lost,
                    reordered: received.reordered,
                    retransmits: tcp.sender.retransmits(),
                    cwnd: Some(tcp.sender.cwnd()),
                    completion: (tcp.schedule.volume == received.delivered)
                        .then(|| received.last.since(tcp.schedule.start)),
                    rtt: tcp.rtt,
                }
            }
            (Role::UdpSender(udp), Role::UdpReceiver(receiver)) => StreamReading {
                delivered: receiver.delivered,
                packets: receiver.packets,
                lost: udp.lost,
                reordered: receiver.reordered,
                ..StreamReading::default()
            },
            roles => unreachable!("a stream from and to {roles:?}"),
        }
    }
}

/// Calls `visit` for a class and, depth first, every class inside it.
fn visit_classes<B>(class: &Class<B>, visit: &mut impl FnMut(&Class<B>)) {
    visit(class);
    for inner in class.inner() {
        visit_classes(inner, visit);
    }
}

fn balance(plan: BalancePlan) -> Balance {
    match plan {
        BalancePlan::PerFlow => Balance::PerFlow,
        BalancePlan::PerDestination => Balance::PerDestination,
        BalancePlan::PerPacket => Balance::PerPacket,
    }
}

fn non_zero_rate(bits_per_second: u64, what: &'static str) -> Result<Rate, BuildError> {
    Rate::new(bits_per_second).ok_or(BuildError::Zero(what))
}

fn link(plan: &LinkPlan, seed: u64) -> Result<LinkSpec<BodyId>, BuildError> {
    if plan.loss_ppb > 1_000_000_000 {
        return Err(BuildError::TooLarge("a link loses more than all packets"));
    }
    let root = |end: usize| {
        let class = Class::new(queue(&plan.queues[end], seed)?);
        Ok::<_, BuildError>(match plan.shapes[end] {
            Some(shape) => class.shaped(shaper(shape)?),
            None => class,
        })
    };
    Ok(LinkSpec {
        name: plan.name.clone(),
        ends: plan.ends.map(NodeId),
        wire: Wire {
            rate: non_zero_rate(plan.rate, "a link's rate")?,
            delay: Duration::from_picos(plan.delay),
            jitter: Duration::from_picos(plan.jitter),
            loss_ppb: plan.loss_ppb,
            overhead: match plan.overhead {
                OverheadPlan::Fixed(bytes) => Overhead::Fixed(bytes),
                OverheadPlan::Atm => Overhead::Atm,
            },
        },
        queues: [root(0)?, root(1)?],
    })
}

fn queue(plan: &QueuePlan, seed: u64) -> Result<Queue<BodyId>, BuildError> {
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
    })
}

fn classes(plans: &[ClassPlan], sharing: Sharing, seed: u64) -> Result<Queue<BodyId>, BuildError> {
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

fn class(plan: &ClassPlan, seed: u64) -> Result<ClassSpec<BodyId>, BuildError> {
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

fn shaper(plan: ShapePlan) -> Result<Shaper<BodyId>, BuildError> {
    Ok(Shaper::new(non_zero_rate(plan.rate, "a shaper's rate")?, Bytes::new(plan.burst)))
}

fn policer(plan: PolicePlan) -> Result<Policer, BuildError> {
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

fn actions(plan: PolicePlan) -> Result<Actions, BuildError> {
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

fn matches(plan: &MatchPlan) -> Result<Match, BuildError> {
    let protocol = |protocol: &ProtocolPlan| match protocol {
        ProtocolPlan::Icmp => Protocol::Icmp,
        ProtocolPlan::Tcp => Protocol::Tcp,
        ProtocolPlan::Udp => Protocol::Udp,
    };
    let ranges = |ports: &[(u16, u16)]| ports.iter().map(|&(low, high)| low..=high).collect();
    let nodes = |nodes: &[u16]| nodes.iter().copied().map(NodeId).collect();
    Ok(Match {
        dscps: plan.dscps.iter().map(|&dscp| Dscp::new(dscp)).collect::<Result<_, _>>()?,
        protocols: plan.protocols.iter().map(protocol).collect(),
        ports: ranges(&plan.ports),
        source_ports: ranges(&plan.source_ports),
        destination_ports: ranges(&plan.destination_ports),
        sources: nodes(&plan.sources),
        destinations: nodes(&plan.destinations),
    })
}

/// The first source port of a flow's streams: the first ephemeral one (RFC 6335, section 6).
const FIRST_SOURCE_PORT: u16 = 49_152;

/// The two endpoints of a stream, the sender's first.
fn stream(
    flow: &FlowPlan,
    owner: usize,
    (from, to): (NodeId, NodeId),
    number: usize,
    sender: usize,
) -> Result<[Endpoint; 2], BuildError> {
    let schedule = Schedule {
        start: Time::from_picos(flow.start),
        stop: flow.stop.map_or(Time::MAX, Time::from_picos),
        volume: flow.volume.unwrap_or(u64::MAX),
    };
    let ecn = match &flow.transport {
        TransportPlan::Udp(UdpPlan { ecn: Some(ecn), .. }) => ecn.ecn(),
        _ => Ecn::NotEct,
    };
    let (protocol, roles) = match &flow.transport {
        TransportPlan::Tcp(plan) => {
            if plan.mss == 0 {
                return Err(BuildError::Zero("a segment size"));
            }
            let sender = Sender::new(SenderConfig {
                mss: plan.mss,
                window: plan.send_window,
                initial_window: plan.initial_window,
                min_rto: Duration::from_picos(plan.min_rto),
                congestion: match plan.congestion_control {
                    CongestionPlan::Reno => Congestion::Reno,
                    CongestionPlan::Cubic => Congestion::cubic(plan.hystart),
                    CongestionPlan::Ledbat => Congestion::ledbat(),
                },
                loss_detection: match (plan.sack, plan.rack) {
                    (false, _) => LossDetection::Duplicates,
                    (true, false) => LossDetection::Sack,
                    (true, true) => LossDetection::Rack,
                },
                prr: plan.prr,
                limited_transmit: plan.limited_transmit,
                timestamps: plan.timestamps,
            });
            let receiver = Receiver::new(ReceiverConfig {
                window: plan.receive_window,
                delayed_ack: Duration::from_picos(plan.delayed_ack),
                sack: plan.sack,
                dsack: plan.dsack,
                window_scaling: plan.window_scaling,
                timestamps: plan.timestamps,
            });
            let sender = TcpSender {
                sender,
                schedule,
                phase: Phase::Waiting,
                rtt: RttSamples::default(),
                lost: 0,
            };
            (Protocol::Tcp, [Role::TcpSender(sender), Role::TcpReceiver(receiver)])
        }
        TransportPlan::Udp(plan) => {
            if plan.size == 0 {
                return Err(BuildError::Zero("a datagram's size"));
            }
            let rate = non_zero_rate(plan.rate, "a flow's rate")?;
            if Bytes::new(plan.size.into()) / rate <= Duration::from_picos(1) {
                return Err(BuildError::TooLarge("a flow sends a datagram every picosecond"));
            }
            let sender = UdpSender {
                stop: schedule.stop,
                left: schedule.volume,
                payload: plan.size,
                sent: 0,
                lost: 0,
                due: schedule.start,
                pace: Pace::new(plan.size, rate),
            };
            let roles = [Role::UdpSender(sender), Role::UdpReceiver(UdpReceiver::default())];
            (Protocol::Udp, roles)
        }
    };
    let there = Header {
        size: 0,
        source: from,
        destination: to,
        source_port: FIRST_SOURCE_PORT.wrapping_add(number as u16),
        destination_port: flow.port,
        protocol,
        traffic_class: TrafficClass::new(Dscp::new(flow.dscp)?).with_ecn(ecn),
    };
    let back = Header {
        source: to,
        destination: from,
        source_port: there.destination_port,
        destination_port: there.source_port,
        ..there
    };
    let endpoint = |header, peer: usize, role| Endpoint {
        line: Line { header, peer: peer as u32 },
        owner: owner as u32,
        timer: Time::MAX,
        role,
    };
    let [sends, receives] = roles;
    Ok([endpoint(there, sender + 1, sends), endpoint(back, sender, receives)])
}

fn pinger(
    plan: &PingPlan,
    owner: usize,
    (source, destination): (NodeId, NodeId),
    id: usize,
) -> Result<Endpoint, BuildError> {
    if plan.every == 0 {
        return Err(BuildError::Zero("a ping's interval"));
    }
    let header = Header {
        // IPv4 and ICMP headers before the payload.
        size: 28 + u32::from(plan.size),
        source,
        destination,
        source_port: 0,
        destination_port: 0,
        protocol: Protocol::Icmp,
        traffic_class: TrafficClass::new(Dscp::new(plan.dscp)?),
    };
    let pinger = Pinger {
        start: Time::from_picos(plan.start),
        stop: Time::from_picos(plan.stop),
        every: Duration::from_picos(plan.every),
        records: Vec::new(),
    };
    let role = Role::Pinger(pinger);
    let line = Line { header, peer: id as u32 };
    Ok(Endpoint { line, owner: owner as u32, timer: Time::MAX, role })
}
