//! Modelled hosts: applications and their network stacks.
//!
//! Every stream of a flow has an endpoint at each of its two hosts, every ping one at the host that
//! sends requests. A packet carries the number of its endpoint, in place of a lookup by port. An
//! endpoint has one timer, which is set again when the endpoint's deadline moves before it. If a
//! timer is due before the deadline, it is set again then, so that a deadline that moves with every
//! segment costs nothing.

mod app;
mod bodies;
mod fragments;
mod path_mtu;
mod quic;
mod socket;
mod srtt;
mod tcp;
mod tunnels;
mod udp;

use perhop_core::{
    AckHint, Duration, Ecn, Header, IpVersion, NodeId, Packet, Protocol, Time, TrafficClass,
    prefetch,
};
use perhop_measure::{Answer, Histogram, LossMeter, Pinger};
use perhop_net::{Carrier, Hosts, IcmpError, Loss, Network, Part, Passage, PortId, Sent, TimerId};
use perhop_tcp::{Flags, Handshake, Segment};

use self::app::{Arrived, Connection, QuicEnd};
use self::bodies::{Bodies, Stored};
use self::fragments::Reassembly;
use self::path_mtu::PathMtus;
use crate::capture::ModelledCaptures;

pub(crate) use self::app::{ClientHost, ConnectionConfig, OverQuic, OverTcp, Transport};
pub(crate) use self::bodies::{Body, BodyId, HandedOver, Kind, Message};
pub(crate) use self::quic::{QuicReceiver, QuicSender};
pub(crate) use self::socket::Socket;
pub(crate) use self::srtt::SrttReadings;
pub(crate) use self::tcp::{PacedWriter, Schedule, StreamPhase, TcpReceiver, TcpSender};
pub(crate) use self::udp::{UdpReceiver, UdpSender};

type Net = Network<BodyId>;

/// Direction in which an endpoint sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Header of its packets; only the length varies: it is that of [`send`](Self::send) and the
    /// size here.
    pub header: Header,
    /// Endpoint at the other end; a pinger has itself.
    pub peer: u32,
    /// Options of this end of a TCP connection.
    pub handshake: Option<Handshake>,
}

impl Line {
    /// Returns the bytes that a header of this version has beyond those of IPv4.
    pub const fn beyond_ipv4(version: IpVersion) -> u32 {
        version.header_bytes() - IP_HEADER
    }

    /// Sends a message in a packet of `size` bytes and those of the line's header. Returns the
    /// packet and its state.
    #[inline(always)]
    fn send(
        self,
        network: &mut Net,
        bodies: &mut Bodies,
        size: u32,
        message: Message,
    ) -> ((BodyId, u32), Sent) {
        let size = size + self.header.size;
        let header = Header { size, ..self.header };
        let body = bodies.put(self.peer, network.now(), message);
        ((body, size), network.send(header.source, Packet { header, body }))
    }

    fn send_segment(
        mut self,
        network: &mut Net,
        bodies: &mut Bodies,
        segment: Segment,
    ) -> ((BodyId, u32), Sent) {
        self.header.traffic_class = self.header.traffic_class.with_ecn(segment.ecn);
        self.header.ack = segment.ack_hint();
        let mut size = segment.ip_bytes();
        if segment.flags.has(Flags::SYN)
            && let Some(handshake) = self.handshake
        {
            size += handshake.option_bytes(segment.timestamps.is_some());
        }
        self.send(network, bodies, size, Message::Tcp(segment))
    }
}

/// An endpoint of a stream or of a ping, in a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Endpoint {
    pub line: Line,
    /// Number of the flow or ping to which it belongs.
    pub owner: u32,
    /// Time for which its timer is set; [`Time::MAX`] if it is not.
    timer: Time,
    /// Deadline of its role. Most timers are set in vain, which this tells without access to the
    /// role.
    deadline: Time,
    pub role: Role,
}

/// Behaviour of an endpoint.
#[derive(Debug)]
pub(crate) enum Role {
    TcpSender(Box<TcpSender>),
    TcpReceiver(Box<TcpReceiver>),
    UdpSender(Box<UdpSender>),
    UdpReceiver(Box<UdpReceiver>),
    QuicSender(Box<QuicSender>),
    QuicReceiver(Box<QuicReceiver>),
    Pinger(Box<Pinger>),
    /// A client of an application.
    Client(Box<ClientHost>),
    /// An end of one of its connections.
    Connection(Box<Connection>),
    /// An end of one of its connections over QUIC.
    QuicEnd(Box<QuicEnd>),
    /// A free slot for such an end.
    Closed,
}

const _: () = assert!(size_of::<Endpoint>() == 64);

impl Role {
    /// Returns the number of data packets of a flow's sender that the network lost.
    pub fn lost(&self) -> u64 {
        match self {
            Self::TcpSender(tcp) => tcp.lost,
            Self::UdpSender(udp) => udp.lost,
            Self::QuicSender(quic) => quic.lost,
            _ => 0,
        }
    }

    fn deadline(&self) -> Time {
        match self {
            Self::TcpSender(sender) => sender.deadline(),
            Self::TcpReceiver(tcp) => tcp.receiver.deadline(),
            Self::UdpSender(sender) => sender.deadline(),
            Self::QuicSender(quic) => quic.deadline(),
            Self::QuicReceiver(quic) => quic.receiver.deadline(),
            Self::Pinger(pinger) => pinger.deadline(),
            Self::Client(host) => host.client.deadline(),
            Self::Connection(end) => end.deadline(),
            Self::QuicEnd(end) => end.deadline(),
            Self::UdpReceiver(_) | Self::Closed => Time::MAX,
        }
    }
}

impl Endpoint {
    /// An endpoint of this flow or ping, without a timer.
    pub fn new(line: Line, owner: u32, role: Role) -> Self {
        Self { line, owner, timer: Time::MAX, deadline: Time::MAX, role }
    }

    /// A free slot.
    fn closed() -> Self {
        let nobody = NodeId(u16::MAX);
        let header = Header {
            size: 0,
            source: nobody,
            destination: nobody,
            source_port: 0,
            destination_port: 0,
            protocol: Protocol::Tcp.into(),
            traffic_class: TrafficClass::default(),
            ttl: 0,
            ack: AckHint::NONE,
        };
        let line = Line { header, peer: 0, handshake: None };
        Self::new(line, 0, Role::Closed)
    }
}

/// Number of packets that arrived with each DSCP and ECN field, in rising order. Few of these
/// traffic classes occur, and only these have an entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassCounts(Vec<(TrafficClass, u64)>);

impl ClassCounts {
    #[inline]
    fn add(&mut self, class: TrafficClass) {
        match self.0.iter_mut().find(|(known, _)| *known == class) {
            Some((_, packets)) => *packets += 1,
            None => self.add_first(class),
        }
    }

    #[cold]
    fn add_first(&mut self, class: TrafficClass) {
        let place = self.0.partition_point(|(known, _)| known.octet() < class.octet());
        self.0.insert(place, (class, 1));
    }

    /// Returns the counts since the last call.
    pub fn take(&mut self) -> impl Iterator<Item = (TrafficClass, u64)> {
        self.0.iter_mut().map(|(class, packets)| (*class, std::mem::take(packets)))
    }
}

/// All modelled hosts of a simulation.
#[derive(Debug)]
pub(crate) struct ModelledHosts {
    pub endpoints: Vec<Endpoint>,
    /// Round-trip times of each flow since the last cut.
    pub rtts: Vec<Histogram>,
    /// Smoothed round-trip times of each flow since the last cut.
    pub srtts: Vec<Histogram>,
    /// One-way delays of each flow's data since the last cut.
    pub delays: Vec<Histogram>,
    pub captures: ModelledCaptures,
    /// Losses of data packets, by flow.
    pub losses: LossMeter,
    /// DSCPs and ECN fields with which each flow's packets arrived since the last mark: data, and
    /// acknowledgements or replies.
    pub arrived: Vec<[ClassCounts; 2]>,
    bodies: Bodies,
    path_mtus: PathMtus,
    reassembly: Reassembly,
}

/// Number of endpoints that a processor's cache is expected to hold.
const CACHED: usize = 256;

/// Bytes of an IPv4 header without options.
const IP_HEADER: u32 = IpVersion::V4.header_bytes();
/// Bytes of a UDP header.
const UDP_HEADER: u16 = 8;
/// Greatest number of endpoints, each with one timer: the network numbers its events and timers in
/// 31 bits.
pub(crate) const MOST_ENDPOINTS: usize = 1 << 20;

/// Header bytes of a UDP datagram or an ICMP echo over IPv4.
pub(crate) const DATAGRAM_HEADER: u32 = 28;

impl ModelledHosts {
    /// Creates the hosts of `flows` flows, and sets the first timers of the hosts that are `own`.
    pub fn start(
        endpoints: Vec<Endpoint>,
        flows: usize,
        captures: ModelledCaptures,
        network: &mut Net,
        own: impl Fn(NodeId) -> bool,
    ) -> Self {
        let rtts = vec![Histogram::default(); flows];
        let [srtts, delays] = [rtts.clone(), rtts.clone()];
        let arrived = vec![<[ClassCounts; 2]>::default(); flows];
        let bodies = Bodies::default();
        let losses = LossMeter::default();
        let mut hosts = Self {
            endpoints,
            rtts,
            srtts,
            delays,
            captures,
            losses,
            arrived,
            bodies,
            path_mtus: PathMtus::default(),
            reassembly: Reassembly::default(),
        };
        hosts.fit_datagrams(network);
        for id in 0..hosts.endpoints.len() {
            if own(hosts.endpoints[id].line.header.source) {
                hosts.set_timer(network, id as u32);
            }
        }
        hosts
    }

    /// Removes the body of a packet that goes on in another part of the network.
    pub fn hand_over(&mut self, body: BodyId) -> HandedOver {
        self.bodies.hand_over(body)
    }

    /// Adds the body of a packet from another part.
    pub fn take_over(&mut self, body: HandedOver) -> BodyId {
        self.bodies.take_over(body)
    }

    /// Returns the histograms of each flow: round-trip times, smoothed ones, and one-way delays.
    pub fn histograms_mut(&mut self) -> [&mut [Histogram]; 3] {
        [&mut self.rtts, &mut self.srtts, &mut self.delays]
    }

    #[inline(always)]
    fn set_timer(&mut self, network: &mut Net, id: u32) {
        let endpoint = &mut self.endpoints[id as usize];
        endpoint.deadline = endpoint.role.deadline();
        if endpoint.deadline < endpoint.timer {
            endpoint.timer = endpoint.deadline;
            network.set_timer(endpoint.deadline, TimerId(id));
        }
    }

    /// Sends all segments that a sender's windows permit.
    fn send_segments(&mut self, network: &mut Net, id: u32) {
        let endpoint = &mut self.endpoints[id as usize];
        let Role::TcpSender(first) = &mut endpoint.role else { return };
        let mut tcp = first;
        if tcp.phase == StreamPhase::Waiting {
            return;
        }
        let line = endpoint.line;
        while !tcp.is_blocked()
            && let Some(segment) = tcp.sender.poll(network.now())
        {
            if let Some(writer) = &mut tcp.writer {
                writer.last_sent = network.now();
            }
            let (packet, sent) = line.send_segment(network, &mut self.bodies, segment);
            if let Some(waits) = sent.waits
                && tcp.small_queues
            {
                self.wait(network, id, packet, waits);
                let Role::TcpSender(again) = &mut self.endpoints[id as usize].role else { return };
                tcp = again;
            }
        }
    }
}

impl Hosts<BodyId> for ModelledHosts {
    #[inline]
    fn receive(&mut self, network: &mut Net, host: NodeId, packet: Packet<BodyId>) {
        let now = network.now();
        // Read in place: making a message of it would cost as much as taking it.
        let slot = self.bodies.slot(packet.body);
        let (id, sent, stored) = (packet.body.endpoint, slot.sent, slot.message);
        if let Stored::Probe { .. } = stored {
            // No process listens there.
            network.send_icmp_error(host, &packet, IcmpError::PortUnreachable, self);
        }
        let first = self.bodies.arrive(packet.body);
        let endpoint = &mut self.endpoints[id as usize];
        let owner = endpoint.owner as usize;
        let class = packet.header.traffic_class;
        match (&mut endpoint.role, stored) {
            (
                Role::TcpSender(tcp),
                Stored::Tcp { .. } | Stored::Bare { .. } | Stored::Sacked(_),
            ) => {
                let segment = self.bodies.segment(stored);
                self.arrived[owner][1].add(class);
                if let Some(rtt) = tcp.sender.on_segment(now, &segment) {
                    tcp.rtt.add(rtt);
                    self.rtts[owner].add(rtt);
                    if let Some(srtt) = tcp.read_srtt(now) {
                        tcp.srtt.add(srtt);
                        self.srtts[owner].add(srtt);
                    }
                }
                self.send_segments(network, id);
            }
            (
                Role::TcpReceiver(tcp),
                Stored::Tcp { .. } | Stored::Bare { .. } | Stored::Sacked(_),
            ) => {
                let mut segment = self.bodies.segment(stored);
                self.arrived[owner][0].add(class);
                segment.ecn = packet.header.ecn();
                if !first {
                    // A duplicate is not a late arrival.
                    segment.flags = segment.flags.with(Flags::RETRANSMISSION);
                } else if segment.payload > 0 {
                    let delay = now.since(sent);
                    tcp.delay.add(delay);
                    self.delays[owner].add(delay);
                }
                let answer = tcp.receiver.on_segment(now, &segment);
                endpoint.deadline = tcp.receiver.deadline();
                if let Some(answer) = answer {
                    endpoint.line.send_segment(network, &mut self.bodies, answer);
                }
                if endpoint.deadline == Time::MAX {
                    return;
                }
            }
            (Role::Connection(_), Stored::Tcp { .. } | Stored::Bare { .. } | Stored::Sacked(_)) => {
                let segment = self.bodies.segment(stored);
                let arrived = Arrived { segment, header: packet.header, sent, first };
                return self.receive_on_connection(network, id, arrived);
            }
            (_, Stored::Error(_)) if self.bodies.is_about_outer(stored) => {
                return self.take_tunnel_error(network, stored);
            }
            (Role::Closed, _) => return,
            (Role::QuicSender(_) | Role::QuicReceiver(_), Stored::Quic(_)) => {
                return self.receive_quic(network, (id, first), packet);
            }
            (Role::QuicEnd(_), Stored::Quic(_)) => {
                return self.receive_at_end(network, (id, first), packet);
            }
            // Of an earlier connection.
            (Role::QuicEnd(_), _) | (Role::Connection(_), Stored::Quic(_)) => return,
            (Role::UdpReceiver(receiver), Stored::Datagram { sequence }) => {
                self.arrived[owner][0].add(class);
                let delay = now.since(sent);
                let headers = DATAGRAM_HEADER + endpoint.line.header.size;
                let payload = u64::from(packet.header.size - headers);
                if receiver.add(sequence, payload, delay, packet.header.ecn() == Ecn::Ce) {
                    self.delays[owner].add(delay);
                }
                return;
            }
            (Role::UdpReceiver(receiver), Stored::Fragment { sequence, offset, total }) => {
                let part = (offset, total, packet.header);
                let Some(marked) = self.reassembly.add(now, (id, sequence), part) else { return };
                self.arrived[owner][0].add(class);
                let delay = now.since(sent);
                if receiver.add(sequence, u64::from(total - UDP_HEADER), delay, marked) {
                    self.delays[owner].add(delay);
                }
                return;
            }
            (Role::Pinger(_), Stored::EchoRequest { sequence }) => {
                // A host or router returns an echo request unchanged: source and destination are
                // exchanged, and the DSCP stays.
                let asked = packet.header;
                debug_assert_eq!(asked.destination, host);
                let (source, destination) = (host, asked.source);
                let header = Header { source, destination, ttl: Header::TTL, ..asked };
                let line = Line { header, peer: id, handshake: None };
                let message = Message::EchoReply { sequence, arrived: asked.traffic_class };
                line.send(network, &mut self.bodies, 0, message);
                return;
            }
            (Role::Pinger(pinger), Stored::EchoReply { sequence, arrived }) => {
                let answer = Answer {
                    rtt: Duration::ZERO,
                    node: packet.header.source,
                    error: None,
                    arrived: Some(arrived),
                    echoed: Some(packet.header.traffic_class),
                };
                pinger.on_answer(sequence, now, true, answer);
                return;
            }
            (Role::Pinger(pinger), Stored::Error(_)) => {
                let Message::Error { error, quoted, sequence, .. } = self.bodies.message(stored)
                else {
                    unreachable!("an error is an error")
                };
                if quoted.source != endpoint.line.header.source {
                    return; // about an answer
                }
                let node = packet.header.source;
                let answer = Answer {
                    rtt: Duration::ZERO,
                    node,
                    error: Some(error),
                    arrived: Some(quoted.traffic_class),
                    echoed: Some(packet.header.traffic_class),
                };
                let from_destination = node == endpoint.line.header.destination;
                pinger.on_answer(sequence as u32, now, from_destination, answer);
                return;
            }
            (Role::Pinger(_), Stored::Probe { .. }) => return,
            (Role::TcpSender(_) | Role::UdpSender(_) | Role::Connection(_), Stored::Error(_)) => {
                self.take_error(network, id, self.bodies.message(stored));
            }
            (_, Stored::Error(_)) => return,
            (role, stored) => unreachable!("{stored:?} for {role:?}"),
        }
        self.set_timer(network, id);
    }

    #[inline(always)]
    fn prefetches(&self) -> bool {
        self.endpoints.len() > CACHED
    }

    #[inline(always)]
    fn prefetch(&mut self, &body: &BodyId, part: Part) {
        let endpoint = &self.endpoints[body.endpoint as usize];
        match (&endpoint.role, part) {
            (_, Part::Endpoint) => {
                prefetch(endpoint);
                self.bodies.prefetch(body);
            }
            (Role::TcpSender(tcp), Part::Connection) => prefetch(&**tcp),
            (Role::TcpReceiver(tcp), Part::Connection) => prefetch(&**tcp),
            (Role::TcpSender(tcp), _) => {
                tcp.sender.prefetch();
                self.bodies.prefetch_long(body);
            }
            (Role::TcpReceiver(tcp), _) => tcp.receiver.prefetch(),
            _ => {}
        }
    }

    fn timer(&mut self, network: &mut Net, TimerId(id): TimerId) {
        let now = network.now();
        let Some(endpoint) = self.endpoints.get_mut(id as usize) else {
            return self.forget_path_mtus(now);
        };
        if endpoint.timer != now {
            return; // it was set again, for an earlier instant that has passed
        }
        endpoint.timer = Time::MAX;
        debug_assert_eq!(endpoint.deadline, endpoint.role.deadline());
        if endpoint.deadline > now {
            if endpoint.deadline < Time::MAX {
                endpoint.timer = endpoint.deadline;
                network.set_timer(endpoint.deadline, TimerId(id));
            }
            return;
        }
        match &mut endpoint.role {
            Role::TcpSender(tcp) => {
                if tcp.phase == StreamPhase::Waiting {
                    self.path_mtus.apply(&endpoint.line.header, &mut tcp.sender);
                }
                tcp.on_timer(now);
                self.send_segments(network, id);
            }
            Role::TcpReceiver(tcp) => {
                if let Some(answer) = tcp.receiver.on_timer(now) {
                    endpoint.line.send_segment(network, &mut self.bodies, answer);
                }
            }
            Role::UdpSender(_) => self.send_datagrams(network, id),
            Role::UdpReceiver(_) | Role::Closed => {}
            Role::QuicSender(_) | Role::QuicReceiver(_) => self.quic_timer(network, id),
            Role::Client(_) => return self.client_timer(network, id),
            Role::Connection(_) => self.connection_timer(network, id),
            Role::QuicEnd(_) => self.end_timer(network, id),
            Role::Pinger(pinger) => {
                let (ttl, train) = pinger.next_train().unwrap_or_default();
                let header = Header { ttl, ..endpoint.line.header };
                let line = Line { header, ..endpoint.line };
                for _ in 0..train {
                    let sequence = pinger.record(now, ttl);
                    let message = match header.protocol().base() {
                        Protocol::Udp => Message::Probe { sequence },
                        _ => Message::EchoRequest { sequence },
                    };
                    line.send(network, &mut self.bodies, 0, message);
                }
            }
        }
        self.set_timer(network, id);
    }

    fn observe(&mut self, at: Time, port: PortId, passage: Passage, packet: &Packet<BodyId>) {
        let body = self.bodies.get(packet.body);
        let sender = self.endpoints[body.endpoint as usize].line.peer;
        let line = &self.endpoints[sender as usize].line;
        self.captures.packet(at, (port, passage), &packet.header, (&body, line));
    }

    fn departed(&mut self, network: &mut Net, body: BodyId, size: u32) {
        self.confirm_accepted(network.now(), body);
        let Some(id) = self.release(body, size) else { return };
        match self.endpoints[id as usize].role {
            Role::UdpSender(_) => self.send_datagrams(network, id),
            Role::QuicSender(_) => self.send_quic(network, id),
            Role::Connection(_) => self.send_on_connection(network, id),
            Role::QuicEnd(_) => self.send_at_end(network, id),
            _ => self.send_segments(network, id),
        }
        self.set_timer(network, id);
    }

    fn lost(&mut self, packet: Packet<BodyId>, loss: Loss, at: Option<PortId>) {
        let Body { endpoint, message, .. } = self.bodies.get(packet.body);
        if let Message::Outer { .. } = message {
            if let Some(inner) = self.lose_outer(packet.body) {
                self.lost(inner, loss, at);
            }
            return;
        }
        let has_data =
            matches!(message, Message::Quic(place) if self.bodies.quic(place).data().is_some());
        if !self.bodies.lose(packet.body) {
            return;
        }
        let peer = self.endpoints[endpoint as usize].line.peer;
        let sender = &mut self.endpoints[peer as usize];
        match (&mut sender.role, message) {
            (Role::TcpSender(tcp), Message::Tcp(segment)) if segment.payload > 0 => tcp.lost += 1,
            (Role::Connection(end), Message::Tcp(segment))
                if segment.payload > 0 && end.serves(&sender.line.header, &packet.header) =>
            {
                end.lost += 1;
            }
            (Role::UdpSender(udp), Message::Datagram { .. }) => match (udp.unconfirmed, loss) {
                // What was sent earlier is confirmed when a queue drops it.
                (Some((body, payload)), Loss::Queue(_)) if body == packet.body => {
                    return udp.on_refused(payload);
                }
                _ => udp.lost += 1,
            },
            (Role::UdpSender(udp), Message::Fragment { sequence, .. }) => {
                if !udp.lose_part(sequence) {
                    return; // the datagram was lost before
                }
            }
            (Role::QuicSender(quic), Message::Quic(_)) if has_data => quic.lost += 1,
            (Role::QuicEnd(end), Message::Quic(_))
                if has_data && end.serves(&sender.line.header, &packet.header) =>
            {
                end.lost += 1;
            }
            _ => return,
        }
        self.losses.add(sender.owner, loss, at);
    }

    fn copy(&mut self, packet: &Packet<BodyId>) -> Option<BodyId> {
        self.bodies.copy(packet.body)
    }

    fn enclose(&mut self, packet: Packet<BodyId>, carrier: Carrier) -> BodyId {
        self.enclose_packet(packet, carrier)
    }

    fn is_outer(&self, body: &BodyId) -> bool {
        matches!(self.bodies.get(*body).message, Message::Outer { .. })
    }

    fn disclose(&mut self, body: BodyId) -> Option<Packet<BodyId>> {
        self.disclose_packet(body)
    }

    fn divide(&mut self, packet: &Packet<BodyId>, mtu: u32, pieces: &mut Vec<(BodyId, u32)>) {
        self.divide_fragment(packet, mtu, pieces);
    }

    fn quote(
        &mut self,
        _node: NodeId,
        packet: &Packet<BodyId>,
        error: IcmpError,
    ) -> Option<(BodyId, u32)> {
        let Body { endpoint, identification, sent, message } = self.bodies.get(packet.body);
        let (kind, sequence) = match message {
            Message::Error { .. } => return None,
            Message::Tcp(segment) => (Kind::Segment, segment.seq.0.into()),
            Message::Datagram { sequence } => (Kind::Datagram, sequence),
            // Only about the first one (RFC 1122, section 3.2.2).
            Message::Fragment { sequence, offset: 0, .. } => (Kind::Datagram, sequence),
            Message::Fragment { .. } => return None,
            Message::Probe { sequence } => (Kind::Datagram, sequence.into()),
            Message::Quic(place) => (Kind::Datagram, self.bodies.quic(place).number),
            Message::EchoRequest { sequence } => (Kind::EchoRequest, sequence.into()),
            Message::EchoReply { sequence, .. } => (Kind::EchoReply, sequence.into()),
            Message::Outer { number, .. } => (Kind::Outer(number), 0),
        };
        // The endpoint that sent the packet.
        let endpoint = self.endpoints[endpoint as usize].line.peer;
        let quoted = packet.header;
        let message = Message::Error { error, quoted, kind, identification, sequence };
        let body = self.bodies.put(endpoint, sent, message);
        Some((body, IcmpError::packet_size(&quoted)))
    }
}
