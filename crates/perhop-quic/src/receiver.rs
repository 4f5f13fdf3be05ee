//! The receiving side: a server that accepts the connection, reads the data of its streams and
//! acknowledges it.

use perhop_core::{Duration, Ecn, Time};

use crate::handshake::ServerHandshake;
use crate::inbound::{Announced, Inbound, Received};
use crate::{Ack, AckFrequency, Acknowledger, Frames, Kind, Packet, Recovery};

/// Settings of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Number of streams.
    pub streams: u32,
    /// Windows of each stream and of the connection.
    pub windows: [u64; 2],
    /// Length of its certificates, at most [`MOST_CERTIFICATES`](crate::sizes::MOST_CERTIFICATES).
    pub certificates: u32,
}

/// Frames of a packet, to be sent again if it is lost.
#[derive(Clone, Copy, Debug, Default)]
struct Content {
    done: bool,
    announced: Announced,
    acks: Option<u64>,
}

/// The receiving side of a connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    handshake: ServerHandshake,
    recovery: Recovery<Content>,
    acks: Acknowledger,
    inbound: Inbound,
    done_due: bool,
    probes: u32,
}

impl Receiver {
    /// Creates a receiver.
    pub fn new(config: &ReceiverConfig) -> Self {
        Self {
            handshake: ServerHandshake::new(config.certificates),
            recovery: Recovery::default(),
            acks: Acknowledger::default(),
            inbound: Inbound::new(config.streams.max(1), config.windows),
            done_due: false,
            probes: 0,
        }
    }

    /// Returns the counters.
    pub fn received(&self) -> Received {
        self.inbound.received
    }

    /// Returns the smoothed round-trip time, as the receiver measures it.
    pub fn smoothed_rtt(&self) -> Option<Duration> {
        self.recovery.rtt().smoothed()
    }

    /// Takes a packet of the sender. Call [`poll`](Self::poll) after it. Returns `true` if it has
    /// data and has not arrived before.
    pub fn on_packet(&mut self, now: Time, packet: &Packet) -> bool {
        let frames = match &packet.kind {
            Kind::Handshake(flight) => {
                let was = self.handshake.is_complete();
                let (number, length) = (packet.number, packet.datagram);
                if let Some(rtt) = self.handshake.on_flight(now, *flight, number, length) {
                    self.recovery.on_handshake_sample(now, rtt);
                }
                if !was && self.handshake.is_complete() {
                    self.done_due = true;
                    self.acks.demand(); // packets that waited for their keys
                }
                return false;
            }
            Kind::OneRtt(frames) => frames,
        };
        if !self.acks.on_packet(now, packet.number, frames.elicit_ack(), packet.ecn) {
            return false;
        }
        if let Some(frequency) = frames.ack_frequency {
            self.set_frequency(frequency);
        }
        if let Some(ack) = &frames.ack {
            self.on_ack(now, ack);
        }
        let Some(data) = &frames.stream else { return false };
        self.inbound.on_data(now, packet, data);
        true
    }

    fn set_frequency(&mut self, frequency: AckFrequency) {
        self.acks.set_frequency(frequency);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        if self.recovery.on_ack(now, ack, true) {
            self.probes = 0;
        }
        for packet in &self.recovery.acked {
            if let Some(largest) = packet.content.acks {
                self.acks.on_ack_acked(largest);
            }
        }
        self.repeat_lost();
        self.recovery.forget(now);
    }

    /// Sends what was lost again.
    fn repeat_lost(&mut self) {
        for packet in &self.recovery.lost {
            self.done_due |= packet.content.done;
            self.inbound.repeat(packet.content.announced);
        }
    }

    /// Returns when [`on_timer`](Self::on_timer) is due.
    pub fn deadline(&self) -> Time {
        let complete = self.handshake.is_complete();
        let acks = if complete { self.acks.deadline() } else { Time::MAX };
        self.handshake.deadline().min(acks).min(self.recovery.deadline(complete))
    }

    /// Handles timers. Call [`poll`](Self::poll) after it.
    pub fn on_timer(&mut self, now: Time) {
        self.handshake.on_timer(now);
        if self.recovery.deadline(self.handshake.is_complete()) > now {
            return;
        }
        if self.recovery.on_timer(now) {
            self.probes = 1;
            return;
        }
        self.repeat_lost();
        self.recovery.forget(now);
    }

    /// Returns the next packet to send at `now`, if any. Call it until it returns `None`.
    ///
    /// Its packets are few and small: congestion control would never hold one back.
    #[must_use]
    pub fn poll(&mut self, now: Time) -> Option<Packet> {
        if let Some(sent) = self.handshake.poll(now, self.recovery.rtt()) {
            return Some(Packet::of_handshake(sent));
        }
        if !self.handshake.is_complete() {
            return None; // it can read no 1-RTT packets (RFC 9001, section 5.7)
        }
        let handshake_done = std::mem::take(&mut self.done_due);
        let mut frames = Frames { handshake_done, ..Frames::default() };
        let announced = self.inbound.take(&mut frames);
        let mut content = Content { done: handshake_done, announced, acks: None };
        if std::mem::take(&mut self.probes) > 0 && !frames.elicit_ack() {
            self.repeat_in_flight(&mut frames, &mut content);
        }
        if !frames.elicit_ack() && !self.acks.is_due(now) {
            return None;
        }
        // Once per round trip it asks for an acknowledgement, to forget old ranges (RFC 9000,
        // section 13.2.4).
        frames.ping |=
            !frames.elicit_ack() && self.acks.has_gaps() && self.recovery.packets_in_flight() == 0;
        frames.ack = self.acks.take(now);
        content.acks = frames.ack.as_ref().map(Ack::largest);
        self.inbound.received.acks += u64::from(frames.ack.is_some());
        let elicits = frames.elicit_ack();
        let number = self.recovery.next_number();
        let packet = frames.packet(number, self.recovery.largest_acked(), Ecn::NotEct);
        match elicits {
            true => self.recovery.on_sent(now, packet.datagram, content),
            false => self.recovery.on_sent_ack(now, packet.datagram),
        }
        Some(packet)
    }

    /// Makes a probe after a timeout: what is in flight, with its present values.
    fn repeat_in_flight(&self, frames: &mut Frames, content: &mut Content) {
        for sent in self.recovery.contents() {
            content.done |= sent.done;
            content.announced.add(sent.announced);
        }
        frames.handshake_done = content.done;
        self.inbound.write(content.announced, frames);
        frames.ping = !frames.elicit_ack();
    }
}
