//! Applications that write to a QUIC connection and read from it. Packets are sent over UDP
//! sockets.

use perhop_core::{Duration, Time};
use perhop_measure::{Samples, StreamCounters, StreamReading};
use perhop_quic::{Receiver, Sender, sizes};

use super::bodies::{BodyId, Stored};
use super::socket::Socket;
use super::srtt::SrttReadings;
use super::tcp::{Schedule, StreamPhase};
use super::{Header, IP_HEADER, Message, ModelledHosts, Net, Packet, Role};

#[derive(Debug)]
pub(crate) struct QuicSender {
    pub sender: Sender,
    pub schedule: Schedule,
    pub phase: StreamPhase,
    pub rtt: Samples,
    pub srtt: Samples,
    pub srtt_readings: SrttReadings,
    /// Packets with data that the network lost.
    pub lost: u64,
    /// True if a full socket blocks the sender.
    pub waits: bool,
    pub socket: Socket,
}

#[derive(Debug)]
pub(crate) struct QuicReceiver {
    pub receiver: Receiver,
    /// One-way delays of packets with data.
    pub delay: Samples,
}

impl QuicSender {
    pub fn deadline(&self) -> Time {
        if self.socket.blocked {
            return Time::MAX; // its packets go on when there is room
        }
        match self.phase {
            StreamPhase::Waiting => self.schedule.start,
            StreamPhase::Running => self.sender.deadline().min(self.schedule.stop),
            StreamPhase::Stopped => self.sender.deadline(),
        }
    }

    fn on_timer(&mut self, now: Time) {
        if self.phase == StreamPhase::Waiting && now >= self.schedule.start {
            self.phase = StreamPhase::Running;
            self.sender.start();
            self.sender.write(self.schedule.volume);
        }
        if self.phase == StreamPhase::Running && now >= self.schedule.stop {
            self.phase = StreamPhase::Stopped;
            self.sender.stop();
        }
        self.sender.on_timer(now);
    }

    /// Returns the smoothed round-trip time if a reading is due.
    fn read_srtt(&mut self, now: Time) -> Option<Duration> {
        if self.srtt_readings.is_due(now) { self.sender.smoothed_rtt() } else { None }
    }

    /// Returns its counters, with those of its receiver and its losses.
    pub fn read(&self, receiver: &QuicReceiver, lost: u64) -> StreamReading {
        let received = receiver.receiver.received();
        let counters = StreamCounters {
            delivered: received.delivered,
            packets: received.packets,
            lost,
            reordered: received.reordered,
            marked: received.marked,
            echoed: self.sender.marks_echoed(),
            retransmits: self.sender.retransmits(),
            acks: received.acks,
            sacks: None,
            completion: (self.schedule.volume == received.delivered)
                .then(|| received.last.since(self.schedule.start)),
            order: None,
        };
        StreamReading {
            counters,
            cwnd: Some(self.sender.cwnd()),
            rtt: self.rtt,
            srtt: self.srtt,
            delay: receiver.delay,
            jitter: None,
        }
    }
}

impl ModelledHosts {
    /// Takes a packet of QUIC that has arrived at the endpoint `id`.
    #[inline(never)]
    pub(super) fn receive_quic(
        &mut self,
        network: &mut Net,
        (id, first): (u32, bool),
        packet: Packet<BodyId>,
    ) {
        let now = network.now();
        let slot = self.bodies.slot(packet.body);
        let (sent, stored) = (slot.sent, slot.message);
        let Stored::Quic(place) = stored else { return };
        let endpoint = &mut self.endpoints[id as usize];
        let owner = endpoint.owner as usize;
        let class = packet.header.traffic_class;
        self.bodies.quic_mut(place).ecn = packet.header.ecn();
        let received = self.bodies.quic(place);
        match &mut endpoint.role {
            Role::QuicSender(quic) => {
                self.arrived[owner][1].add(class);
                quic.sender.on_packet(now, received);
                if let Some(rtt) = quic.sender.take_rtt_sample() {
                    quic.rtt.add(rtt);
                    self.rtts[owner].add(rtt);
                    if let Some(srtt) = quic.read_srtt(now) {
                        quic.srtt.add(srtt);
                        self.srtts[owner].add(srtt);
                    }
                }
            }
            Role::QuicReceiver(quic) => {
                self.arrived[owner][0].add(class);
                if quic.receiver.on_packet(now, received) && first {
                    let delay = now.since(sent);
                    quic.delay.add(delay);
                    self.delays[owner].add(delay);
                }
            }
            _ => return,
        }
        self.send_quic(network, id);
        self.set_timer(network, id);
    }

    /// Handles a timer of an endpoint.
    #[inline(never)]
    pub(super) fn quic_timer(&mut self, network: &mut Net, id: u32) {
        self.expire(network.now(), id);
        self.send_quic(network, id);
    }

    fn expire(&mut self, now: Time, id: u32) {
        match &mut self.endpoints[id as usize].role {
            Role::QuicSender(quic) => quic.on_timer(now),
            Role::QuicReceiver(quic) => quic.receiver.on_timer(now),
            _ => {}
        }
    }

    /// Sends all packets that an endpoint may send. A timer that an acknowledgement has moved into
    /// the past expires at once (RFC 9002, appendix A.8).
    pub(super) fn send_quic(&mut self, network: &mut Net, id: u32) {
        self.send_quic_packets(network, id);
        while self.endpoints[id as usize].role.deadline() <= network.now() {
            self.expire(network.now(), id);
            self.send_quic_packets(network, id);
        }
    }

    pub(super) fn send_quic_packets(&mut self, network: &mut Net, id: u32) {
        let now = network.now();
        loop {
            let endpoint = &mut self.endpoints[id as usize];
            let (packet, waits) = match &mut endpoint.role {
                Role::QuicSender(quic) => {
                    if quic.phase == StreamPhase::Waiting || quic.socket.is_full(quic.waits) {
                        return;
                    }
                    (quic.sender.poll(now), quic.waits)
                }
                Role::QuicReceiver(quic) => (quic.receiver.poll(now), false),
                Role::QuicEnd(quic) => {
                    quic.respond(now);
                    if quic.socket.is_full(quic.waits) {
                        return;
                    }
                    (quic.end.poll(now), quic.waits)
                }
                _ => return,
            };
            let Some(packet) = packet else { return };
            let size = IP_HEADER + sizes::UDP_HEADER + u32::from(packet.datagram);
            let mut line = endpoint.line;
            let class = line.header.traffic_class.with_ecn(packet.ecn);
            line.header = Header { traffic_class: class, ..line.header };
            let message = Message::Quic(self.bodies.put_quic(packet));
            let (sent_packet, sent) = line.send(network, &mut self.bodies, size, message);
            if let Some(room) = sent.waits
                && waits
            {
                self.wait(network, id, sent_packet, room);
            }
        }
    }
}
