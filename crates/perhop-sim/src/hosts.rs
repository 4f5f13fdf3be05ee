//! Modelled hosts: applications and the stacks below them.
//!
//! Every flow's stream has an endpoint at each of its two hosts, every ping one at the host that
//! asks. A packet names the endpoint that it is for, which is what a port number would be looked
//! up to. An endpoint has one timer; it is set when the endpoint's deadline comes to lie before
//! the instant for which it is set, and a call that comes too early sets it again, so that a
//! deadline that is put off with every segment costs nothing.

use perhop_core::{Duration, Header, NodeId, Packet, Rate, Time};
use perhop_net::{Hosts, Loss, Network, TimerId};
use perhop_tcp::{Receiver, Segment, Sender};

use crate::histogram::Histogram;
use crate::measure::{PingRecord, RttSamples};

/// What a modelled host sends, apart from the header.
#[derive(Clone, Copy, Debug)]
struct Body {
    /// The endpoint that the packet is for.
    endpoint: u32,
    message: Message,
}

#[derive(Clone, Copy, Debug)]
enum Message {
    Tcp(Segment),
    Datagram { sequence: u32 },
    EchoRequest { sequence: u32 },
    EchoReply { sequence: u32 },
}

/// A body as a packet carries it. Packets move from ring to ring at every hop, bodies do not: they
/// wait where they were written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyId(u32);

/// The bodies of the packets that are under way.
#[derive(Debug, Default)]
struct Bodies {
    slots: Vec<Body>,
    free: Vec<BodyId>,
}

impl Bodies {
    fn put(&mut self, body: Body) -> BodyId {
        match self.free.pop() {
            Some(id) => {
                self.slots[id.0 as usize] = body;
                id
            }
            None => {
                self.slots.push(body);
                BodyId(self.slots.len() as u32 - 1)
            }
        }
    }

    fn take(&mut self, id: BodyId) -> Body {
        self.free.push(id);
        self.slots[id.0 as usize]
    }
}

type Net = Network<BodyId>;

/// Where an endpoint sends to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// The header of what it sends; only the length changes.
    pub header: Header,
    /// The endpoint at the other end; a pinger has itself.
    pub peer: u32,
}

impl Line {
    /// Sends a message in a packet of `size` bytes.
    fn send(self, network: &mut Net, bodies: &mut Bodies, size: u32, message: Message) {
        let header = Header { size, ..self.header };
        let body = bodies.put(Body { endpoint: self.peer, message });
        network.send(header.source, Packet { header, body });
    }

    fn send_segment(self, network: &mut Net, bodies: &mut Bodies, segment: Segment) {
        self.send(network, bodies, segment.ip_bytes(), Message::Tcp(segment));
    }
}

/// One end of something.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub line: Line,
    /// The flow or ping that it belongs to.
    pub owner: u32,
    /// When its timer is set for; [`Time::MAX`] if it is not.
    pub timer: Time,
    pub role: Role,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "half of all endpoints are the large one")]
pub(crate) enum Role {
    TcpSender(TcpSender),
    TcpReceiver(Receiver),
    UdpSender(UdpSender),
    UdpReceiver(UdpReceiver),
    Pinger(Pinger),
}

/// When an application runs and how much it sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    pub start: Time,
    /// [`Time::MAX`] if it does not stop by itself.
    pub stop: Time,
    /// [`u64::MAX`] if it has no end.
    pub volume: u64,
}

#[derive(Debug)]
pub(crate) struct TcpSender {
    pub sender: Sender,
    pub schedule: Schedule,
    pub phase: Phase,
    pub rtt: RttSamples,
    /// Data segments that the network lost.
    pub lost: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Waiting,
    Running,
    Stopped,
}

#[derive(Debug)]
pub(crate) struct UdpSender {
    pub stop: Time,
    /// Bytes that are left to send; [`u64::MAX`] has no end.
    pub left: u64,
    pub payload: u16,
    pub sent: u32,
    pub lost: u64,
    /// When the next datagram is due.
    pub due: Time,
    pub pace: Pace,
}

/// The time between datagrams, with the fraction of a picosecond that is carried over so that
/// rounding never adds up.
#[derive(Debug)]
pub(crate) struct Pace {
    gap: Duration,
    /// What `gap` leaves out, in units of 1 ps / `rate`.
    remainder: u64,
    rate: u64,
    carried: u64,
}

impl Pace {
    /// One datagram of `payload` bytes after the other at `rate`.
    pub fn new(payload: u16, rate: Rate) -> Self {
        // 2¹⁶ bytes are 2¹⁹ · 10¹² picobits, which a u64 holds.
        let picobits = u64::from(payload) * 8_000_000_000_000;
        let rate = rate.bits_per_second();
        let gap = Duration::from_picos(picobits / rate);
        Self { gap, remainder: picobits % rate, rate, carried: 0 }
    }

    fn next(&mut self) -> Duration {
        self.carried += self.remainder;
        let whole = u64::from(self.carried >= self.rate);
        self.carried -= whole * self.rate;
        self.gap + Duration::from_picos(whole)
    }
}

#[derive(Debug, Default)]
pub(crate) struct UdpReceiver {
    pub delivered: u64,
    pub packets: u64,
    pub reordered: u64,
    /// One above the highest sequence number that has arrived.
    next: u32,
}

#[derive(Debug)]
pub(crate) struct Pinger {
    pub start: Time,
    pub stop: Time,
    pub every: Duration,
    /// One a request sent; the reply fills in the round-trip time.
    pub records: Vec<PingRecord>,
}

impl TcpSender {
    fn deadline(&self) -> Time {
        match self.phase {
            Phase::Waiting => self.schedule.start,
            Phase::Running => self.sender.deadline().min(self.schedule.stop),
            Phase::Stopped => self.sender.deadline(),
        }
    }

    fn on_timer(&mut self, now: Time) {
        if self.phase == Phase::Waiting && now >= self.schedule.start {
            self.phase = Phase::Running;
            self.sender.write(self.schedule.volume);
            if self.schedule.volume != u64::MAX {
                self.sender.close();
            }
        }
        if self.phase == Phase::Running && now >= self.schedule.stop {
            self.phase = Phase::Stopped;
            self.sender.stop();
        }
        self.sender.on_timer(now);
    }
}

impl UdpSender {
    fn deadline(&self) -> Time {
        if self.due < self.stop && self.left > 0 { self.due } else { Time::MAX }
    }

    /// The payload of the datagram that is due.
    fn next_payload(&mut self) -> u32 {
        let payload = self.left.min(self.payload.into());
        if self.left != u64::MAX {
            self.left -= payload;
        }
        self.sent += 1;
        self.due += self.pace.next();
        payload as u32
    }
}

impl Pinger {
    fn deadline(&self) -> Time {
        let due = self.start + self.every * self.records.len() as u64;
        if due < self.stop { due } else { Time::MAX }
    }
}

impl Endpoint {
    fn deadline(&self) -> Time {
        match &self.role {
            Role::TcpSender(sender) => sender.deadline(),
            Role::TcpReceiver(receiver) => receiver.deadline(),
            Role::UdpSender(sender) => sender.deadline(),
            Role::UdpReceiver(_) => Time::MAX,
            Role::Pinger(pinger) => pinger.deadline(),
        }
    }
}

/// All hosts of a simulation.
#[derive(Debug)]
pub(crate) struct ModelledHosts {
    pub endpoints: Vec<Endpoint>,
    /// Round-trip times of each flow.
    pub rtts: Vec<Histogram>,
    bodies: Bodies,
}

/// Header bytes of a UDP datagram or an ICMP echo over IPv4.
const DATAGRAM_HEADER: u32 = 28;

impl ModelledHosts {
    /// The hosts of so many flows, with their first timers set.
    pub fn start(endpoints: Vec<Endpoint>, flows: usize, network: &mut Net) -> Self {
        let rtts = vec![Histogram::default(); flows];
        let mut hosts = Self { endpoints, rtts, bodies: Bodies::default() };
        for id in 0..hosts.endpoints.len() as u32 {
            hosts.set_timer(network, id);
        }
        hosts
    }

    fn set_timer(&mut self, network: &mut Net, id: u32) {
        let endpoint = &mut self.endpoints[id as usize];
        let deadline = endpoint.deadline();
        if deadline < endpoint.timer {
            endpoint.timer = deadline;
            network.set_timer(deadline, TimerId(id));
        }
    }

    /// Sends whatever a sender's windows let go.
    fn pump(&mut self, network: &mut Net, id: u32) {
        let endpoint = &mut self.endpoints[id as usize];
        let Role::TcpSender(tcp) = &mut endpoint.role else { return };
        if tcp.phase == Phase::Waiting {
            return;
        }
        while let Some(segment) = tcp.sender.poll(network.now()) {
            endpoint.line.send_segment(network, &mut self.bodies, segment);
        }
    }
}

impl Hosts<BodyId> for ModelledHosts {
    #[inline]
    fn receive(&mut self, network: &mut Net, host: NodeId, packet: Packet<BodyId>) {
        let now = network.now();
        let Body { endpoint: id, message } = self.bodies.take(packet.body);
        let endpoint = &mut self.endpoints[id as usize];
        match (&mut endpoint.role, message) {
            (Role::TcpSender(tcp), Message::Tcp(segment)) => {
                tcp.sender.on_segment(now, &segment);
                if let Some(rtt) = tcp.sender.take_rtt_sample() {
                    tcp.rtt.add(rtt);
                    self.rtts[endpoint.owner as usize].add(rtt);
                }
                self.pump(network, id);
            }
            (Role::TcpReceiver(receiver), Message::Tcp(segment)) => {
                if let Some(answer) = receiver.on_segment(now, &segment) {
                    endpoint.line.send_segment(network, &mut self.bodies, answer);
                    return;
                }
            }
            (Role::UdpReceiver(receiver), Message::Datagram { sequence }) => {
                receiver.delivered += u64::from(packet.header.size - DATAGRAM_HEADER);
                receiver.packets += 1;
                receiver.reordered += u64::from(sequence < receiver.next);
                receiver.next = receiver.next.max(sequence + 1);
                return;
            }
            (Role::Pinger(_), Message::EchoRequest { sequence }) => {
                // A host answers an echo request as it came: source and destination change places,
                // the mark stays.
                let asked = packet.header;
                debug_assert_eq!(asked.destination, host);
                let header = Header { source: host, destination: asked.source, ..asked };
                let message = Message::EchoReply { sequence };
                Line { header, peer: id }.send(network, &mut self.bodies, asked.size, message);
                return;
            }
            (Role::Pinger(pinger), Message::EchoReply { sequence }) => {
                let record = &mut pinger.records[sequence as usize];
                record.rtt = Some(now.since(record.sent));
                record.dscp_echoed = Some(packet.header.dscp());
                return;
            }
            (role, message) => unreachable!("{message:?} for {role:?}"),
        }
        self.set_timer(network, id);
    }

    fn timer(&mut self, network: &mut Net, TimerId(id): TimerId) {
        let now = network.now();
        let endpoint = &mut self.endpoints[id as usize];
        if endpoint.timer != now {
            return; // set anew since, for an earlier instant that has passed
        }
        endpoint.timer = Time::MAX;
        if endpoint.deadline() <= now {
            match &mut endpoint.role {
                Role::TcpSender(tcp) => {
                    tcp.on_timer(now);
                    self.pump(network, id);
                }
                Role::TcpReceiver(receiver) => {
                    if let Some(answer) = receiver.on_timer(now) {
                        endpoint.line.send_segment(network, &mut self.bodies, answer);
                    }
                }
                Role::UdpSender(udp) => {
                    let message = Message::Datagram { sequence: udp.sent };
                    let size = DATAGRAM_HEADER + udp.next_payload();
                    endpoint.line.send(network, &mut self.bodies, size, message);
                }
                Role::UdpReceiver(_) => {}
                Role::Pinger(pinger) => {
                    let sequence = pinger.records.len() as u32;
                    pinger.records.push(PingRecord { sent: now, rtt: None, dscp_echoed: None });
                    let message = Message::EchoRequest { sequence };
                    endpoint.line.send(
                        network,
                        &mut self.bodies,
                        endpoint.line.header.size,
                        message,
                    );
                }
            }
        }
        self.set_timer(network, id);
    }

    fn lost(&mut self, packet: Packet<BodyId>, _loss: Loss) {
        let Body { endpoint, message } = self.bodies.take(packet.body);
        let peer = self.endpoints[endpoint as usize].line.peer;
        match (&mut self.endpoints[peer as usize].role, message) {
            (Role::TcpSender(tcp), Message::Tcp(segment)) if segment.payload > 0 => tcp.lost += 1,
            (Role::UdpSender(udp), Message::Datagram { .. }) => udp.lost += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::Bytes;

    #[test]
    fn pacing_does_not_drift() {
        // 1500 · 8 · 10¹² / 155,520,007 is not a whole number of picoseconds.
        let rate = Rate::new(155_520_007).unwrap();
        let mut pace = Pace::new(1500, rate);
        let mut at = Time::ZERO;
        for sent in 1..=10_000_u64 {
            at += pace.next();
            let exact = Bytes::new(sent * 1500) / rate;
            assert!(exact.as_picos() - at.as_picos() <= 1, "{sent}: {at:?}, not {exact:?}");
        }
    }
}
