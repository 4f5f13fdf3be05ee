//! The receiving side: a server that accepts the connection, reads the data of its streams and
//! acknowledges it.

use perhop_core::{Duration, Ecn, Time};

use crate::flow_control::Credit;
use crate::handshake::ServerHandshake;
use crate::{Ack, AckFrequency, Acknowledger, Frames, Kind, Packet, Ranges, Recovery, StreamFrame};

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

/// Counters of the data that has arrived.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// Bytes delivered to the application: those of each stream in order.
    pub delivered: u64,
    /// Packets with data.
    pub packets: u64,
    /// Of these, those that arrived after a later one.
    pub reordered: u64,
    /// Of these, those with CE.
    pub marked: u64,
    /// Packets sent with an acknowledgement.
    pub acks: u64,
    /// Time of the last delivery.
    pub last: Time,
}

/// A stream: its data that has arrived, and its limit.
#[derive(Clone, Debug)]
struct Stream {
    arrived: Ranges,
    /// End of the data that was delivered.
    delivered: u64,
    credit: Credit,
    /// True if its limit is to be sent.
    due: bool,
}

/// Frames of a packet, to be sent again if it is lost.
#[derive(Clone, Copy, Debug, Default)]
struct Content {
    done: bool,
    max_data: bool,
    /// Stream whose limit it has.
    stream: Option<u32>,
    acks: Option<u64>,
}

/// The receiving side of a connection.
#[derive(Clone, Debug)]
pub struct Receiver {
    handshake: ServerHandshake,
    recovery: Recovery<Content>,
    acks: Acknowledger,
    streams: Vec<Stream>,
    credit: Credit,
    max_data_due: bool,
    done_due: bool,
    probes: u32,
    largest: Option<u64>,
    received: Received,
}

impl Receiver {
    /// Creates a receiver.
    pub fn new(config: &ReceiverConfig) -> Self {
        let [each, all] = config.windows;
        let credit = Credit::new(each);
        let stream = Stream { arrived: Ranges::default(), delivered: 0, credit, due: false };
        Self {
            handshake: ServerHandshake::new(config.certificates),
            recovery: Recovery::default(),
            acks: Acknowledger::default(),
            streams: vec![stream; config.streams.max(1) as usize],
            credit: Credit::new(all),
            max_data_due: false,
            done_due: false,
            probes: 0,
            largest: None,
            received: Received::default(),
        }
    }

    /// Returns the counters.
    pub fn received(&self) -> Received {
        self.received
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
        self.received.packets += 1;
        self.received.reordered += u64::from(self.largest.is_some_and(|seen| packet.number < seen));
        self.received.marked += u64::from(packet.ecn == Ecn::Ce);
        self.largest = self.largest.max(Some(packet.number));
        self.deliver(now, data);
        true
    }

    fn set_frequency(&mut self, frequency: AckFrequency) {
        self.acks.set_frequency(frequency);
    }

    /// Delivers what is in order, and decides on new limits.
    fn deliver(&mut self, now: Time, data: &StreamFrame) {
        let place = (data.stream / 4) as usize;
        let Some(stream) = self.streams.get_mut(place) else { return };
        stream.arrived.insert(data.offset, data.offset + u64::from(data.length));
        let end = stream.arrived.first_missing(stream.delivered);
        if end == stream.delivered {
            return;
        }
        self.received.delivered += end - stream.delivered;
        self.received.last = now;
        stream.delivered = end;
        stream.due |= stream.credit.announce(end).is_some();
        self.max_data_due |= self.credit.announce(self.received.delivered).is_some();
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

    /// Sends what was lost again: the present limits, not the old ones (RFC 9000, section 13.3).
    fn repeat_lost(&mut self) {
        for packet in &self.recovery.lost {
            self.done_due |= packet.content.done;
            self.max_data_due |= packet.content.max_data;
            if let Some(stream) = packet.content.stream {
                self.streams[stream as usize].due = true;
            }
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
        let mut frames = Frames {
            handshake_done: std::mem::take(&mut self.done_due),
            max_data: std::mem::take(&mut self.max_data_due).then(|| self.credit.announced()),
            ..Frames::default()
        };
        let mut content = Content {
            done: frames.handshake_done,
            max_data: frames.max_data.is_some(),
            ..Content::default()
        };
        if let Some(place) = self.streams.iter().position(|stream| stream.due) {
            let stream = &mut self.streams[place];
            stream.due = false;
            frames.max_stream_data.push((4 * place as u64, stream.credit.announced()));
            content.stream = Some(place as u32);
        }
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
        self.received.acks += u64::from(frames.ack.is_some());
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
            content.max_data |= sent.max_data;
            content.stream = content.stream.or(sent.stream);
        }
        frames.handshake_done = content.done;
        frames.max_data = content.max_data.then(|| self.credit.announced());
        if let Some(place) = content.stream {
            let limit = self.streams[place as usize].credit.announced();
            frames.max_stream_data.push((4 * u64::from(place), limit));
        }
        frames.ping = !frames.elicit_ack();
    }
}
