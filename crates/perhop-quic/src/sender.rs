//! An end that sends the data of its streams: the client that opens the connection, or either end
//! of a connection with data in both directions.

mod duplex;
mod lost;
mod streams;

use perhop_core::{Duration, Ecn, Time};
use perhop_tcp::Congestion;

use crate::controller::{AckEvent, Controller, Sent, initial_window};
use crate::discovery::BLACK_HOLE;
use crate::handshake::{ClientHandshake, ServerHandshake};
use crate::inbound::{Announced, Delivered, Inbound};
use crate::side::Side;
use crate::sizes::{LEAST_DATAGRAM, short_packet, stream_frame};
use crate::{
    Ack, AckFrequency, Acknowledger, Discovery, Flight, Frames, Kind, Packet, Recovery, StreamFrame,
};

use duplex::End;
use lost::Lost;
use streams::Streams;

/// Number of probes on a timeout (RFC 9002, section 6.2.4: one or two).
const PROBES: u32 = 2;

/// Settings of a sender.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// Congestion control, in its initial state.
    pub congestion: Congestion,
    /// Payload of the first datagrams, in bytes.
    pub datagram: u16,
    /// Greatest payload for which it probes; without probes, at most `datagram`.
    pub most_datagram: u16,
    /// Initial congestion window in bytes; that of RFC 9002, section 7.2, if none.
    pub initial_window: Option<u64>,
    /// True if packets are paced.
    pub pacing: bool,
    /// True if packets are ECN-capable.
    pub ecn: bool,
    /// Frequency of acknowledgements that it requests.
    pub ack_frequency: Option<AckFrequency>,
    /// Number of streams that send at the same time, from the start on.
    pub streams: u32,
    /// Limit of each stream and of the connection, known from the handshake; the same in both
    /// directions.
    pub limits: [u64; 2],
    /// Length of the certificates of the server's end; `None` for the client's.
    pub certificates: Option<u32>,
}

/// What a packet has carried, to be sent again if it is lost.
#[derive(Clone, Copy, Debug, Default)]
struct Content {
    data: Option<StreamFrame>,
    ack_frequency: bool,
    done: bool,
    announced: Announced,
    /// Size of a probe of the path MTU.
    probe: Option<u16>,
    /// Largest number that its ACK frame acknowledges.
    acks: Option<u64>,
    /// True if it was sent with ECT.
    ect: bool,
    sent: Sent,
}

/// An end of a connection that sends data.
#[derive(Clone, Debug)]
pub struct Sender {
    config: SenderConfig,
    side: Side,
    recovery: Recovery<Content>,
    acks: Acknowledger,
    controller: Controller,
    discovery: Discovery,
    streams: Streams,
    inbound: Inbound,
    /// Data to send again.
    again: Lost,
    /// True if the frequency of acknowledgements is to be sent.
    frequency_due: bool,
    /// True if HANDSHAKE_DONE is to be sent, by the server.
    done_due: bool,
    end: End,
    /// Probes to send, after a timeout.
    probes: u32,
    /// Counts of ECT(0), ECT(1) and CE in the last acknowledgement, and the packets sent with ECT
    /// that were acknowledged; none if validation has failed (RFC 9000, section 13.4.2).
    ecn: Option<([u64; 3], u64)>,
    echoed: u64,
    retransmits: u64,
    spurious: u64,
    sample: Option<Duration>,
}

impl Sender {
    /// Creates a sender. [`start`](Self::start) opens the connection.
    pub fn new(config: SenderConfig) -> Self {
        let datagram = config.datagram;
        let window = config.initial_window.map_or(initial_window(datagram), |bytes| bytes as f64);
        let congestion = config.congestion.clone();
        Self {
            side: match config.certificates {
                None => Side::Client(ClientHandshake::new()),
                Some(bytes) => Side::Server(ServerHandshake::new(bytes)),
            },
            recovery: Recovery::default(),
            acks: Acknowledger::default(),
            controller: Controller::new(congestion, datagram, window, config.pacing),
            discovery: Discovery::new(datagram, config.most_datagram),
            streams: Streams::new(config.streams, config.limits),
            inbound: Inbound::new(0, config.limits),
            again: Lost::default(),
            frequency_due: config.ack_frequency.is_some(),
            done_due: false,
            end: End::default(),
            probes: 0,
            ecn: config.ecn.then_some(([0; 3], 0)),
            echoed: 0,
            retransmits: 0,
            spurious: 0,
            sample: None,
            config,
        }
    }

    /// Opens the connection.
    pub fn start(&mut self) {
        self.side.start();
    }

    /// Writes `bytes` more as the application, divided between the streams; [`u64::MAX`] writes
    /// without end.
    pub fn write(&mut self, bytes: u64) {
        self.streams.write(bytes);
    }

    /// Stops the application: no new data is sent, and losses are repaired.
    pub fn stop(&mut self) {
        self.streams.stop();
    }

    /// Returns the congestion window, in bytes.
    pub fn cwnd(&self) -> u64 {
        self.controller.window()
    }

    /// Returns the bytes in flight.
    pub fn in_flight(&self) -> u64 {
        self.recovery.bytes_in_flight()
    }

    /// Returns the payload of full datagrams, as far as the path MTU is known.
    pub fn datagram(&self) -> u16 {
        self.discovery.current()
    }

    /// Returns the number of packets with data that was sent before.
    pub fn retransmits(&self) -> u64 {
        self.retransmits
    }

    /// Returns the number of packets that were declared lost and have arrived.
    pub fn spurious(&self) -> u64 {
        self.spurious
    }

    /// Returns the number of marked packets that the receiver has reported.
    pub fn marks_echoed(&self) -> u64 {
        self.echoed
    }

    /// Returns the round-trip time that the last acknowledgement measured, if any, at the first
    /// call after it.
    pub fn take_rtt_sample(&mut self) -> Option<Duration> {
        self.sample.take()
    }

    /// Returns the smoothed round-trip time; none before the first sample.
    pub fn smoothed_rtt(&self) -> Option<Duration> {
        self.recovery.rtt().smoothed()
    }

    /// Takes a packet of the other end. Call [`poll`](Self::poll) after it. Returns the data that
    /// has become readable, if it has any that is new.
    pub fn on_packet(&mut self, now: Time, packet: &Packet) -> Option<Delivered> {
        let frames = match &packet.kind {
            Kind::Handshake(flight) => {
                self.on_flight(now, *flight, packet);
                return None;
            }
            Kind::OneRtt(frames) => frames,
        };
        // Without keys, it cannot read the packet.
        if !self.side.can_read()
            || self.take_close(Some(frames))
            || !self.acks.on_packet(now, packet.number, frames.elicit_ack(), packet.ecn)
        {
            return None;
        }
        if let Some(frequency) = frames.ack_frequency {
            self.acks.set_frequency(frequency);
        }
        if frames.handshake_done || frames.ack.is_some() {
            self.side.confirm();
        }
        if let Some(limit) = frames.max_data {
            self.streams.raise(limit);
        }
        for &(stream, limit) in &frames.max_stream_data {
            self.streams.raise_stream(stream, limit);
        }
        if let Some(ack) = &frames.ack {
            self.on_ack(now, ack);
        }
        frames.stream.as_ref().map(|data| self.inbound.on_data(now, packet, data))
    }

    fn on_flight(&mut self, now: Time, flight: Flight, packet: &Packet) {
        if self.take_close(None) {
            return;
        }
        let had_keys = self.side.is_complete();
        if let Some(sample) = self.side.on_flight(now, flight, (packet.number, packet.datagram)) {
            self.recovery.on_handshake_sample(now, sample);
            self.sample = Some(sample);
        }
        if !had_keys && self.side.is_complete() {
            self.done_due = self.config.certificates.is_some();
            self.acks.demand(); // packets that waited for their keys
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        let newly = self.recovery.on_ack(now, ack, self.side.is_confirmed());
        if newly {
            self.probes = 0;
        }
        self.sample = self.recovery.sample.or(self.sample);
        let acked = std::mem::take(&mut self.recovery.acked);
        let spurious = std::mem::take(&mut self.recovery.spurious);
        self.spurious += spurious.len() as u64;
        for packet in acked.iter().chain(&spurious) {
            if let Some(data) = packet.content.data {
                self.streams.on_acked(&data);
            }
            if let Some(largest) = packet.content.acks {
                self.acks.on_ack_acked(largest);
            }
            if let Some(size) = packet.content.probe {
                let datagram = self.discovery.on_acked(size);
                self.controller.resize(datagram);
            }
            if packet.content.ack_frequency
                && let Some(frequency) = self.config.ack_frequency
            {
                // Until then it was the greater of both (the draft, section 7).
                self.recovery.max_ack_delay = frequency.max_delay;
            }
        }
        // Congestion events come first (RFC 9002, appendix A.7).
        if newly {
            self.take_marks(now, ack, &acked);
        }
        self.take_losses(now);
        let event = AckEvent {
            now,
            rtt: self.recovery.rtt(),
            sample: self.recovery.sample,
            numbers: (ack.largest() + 1, self.recovery.next_number()),
            in_flight: self.recovery.bytes_in_flight(),
        };
        if newly {
            self.controller.on_acked(event, &acked, |content| content.sent);
        }
        (self.recovery.acked, self.recovery.spurious) = (acked, spurious);
        self.recovery.forget(now);
    }

    /// Validates the counts of ECN, and passes new marks to congestion control (RFC 9000, section
    /// 13.4.2.1; RFC 9002, appendix B.7).
    fn take_marks(&mut self, now: Time, ack: &Ack, acked: &[crate::SentPacket<Content>]) {
        let Some((before, _)) = self.ecn else { return };
        let newly = acked.iter().filter(|packet| packet.content.ect).count() as u64;
        if newly == 0 {
            return;
        }
        let counts = ack.ecn.unwrap_or_default();
        let rise = |place: usize| counts[place].checked_sub(before[place]);
        let (Some(ect0), Some(ect1), Some(ce)) = (rise(0), rise(1), rise(2)) else {
            return; // an older acknowledgement
        };
        let ect = if self.controller.ect() == Ecn::Ect1 { ect1 } else { ect0 };
        if ect + ce < newly {
            self.ecn = None;
            return;
        }
        self.ecn = Some((counts, newly));
        self.echoed += ce;
        let Some(last) = acked.last() else { return };
        let delivered = acked.iter().map(|packet| u64::from(packet.bytes)).sum::<u64>();
        let marked = (ce * u64::from(self.discovery.current())).min(delivered);
        let event = AckEvent {
            now,
            rtt: self.recovery.rtt(),
            sample: self.recovery.sample,
            numbers: (ack.largest() + 1, self.recovery.next_number()),
            in_flight: self.recovery.bytes_in_flight(),
        };
        self.controller.on_marks(event, (delivered, marked), last.at);
    }

    /// Handles lost packets: their data is sent again.
    fn take_losses(&mut self, now: Time) {
        if self.recovery.lost.is_empty() {
            return;
        }
        let persistent = self.recovery.is_persistent();
        let mut lost = std::mem::take(&mut self.recovery.lost);
        for packet in &lost {
            if let Some(data) = packet.content.data {
                self.again.push_back(StreamFrame { retransmission: true, ..data });
            }
            if let Some(size) = packet.content.probe {
                self.discovery.on_lost(size);
            }
            self.frequency_due |= packet.content.ack_frequency;
            self.done_due |= packet.content.done;
            self.inbound.repeat(packet.content.announced);
        }
        // The loss of a probe of the path MTU is no sign of congestion (RFC 9000, section 14.4).
        let all = lost.clone();
        lost.retain(|packet| packet.content.probe.is_none());
        self.controller.on_lost(now, &lost, |content| content.sent, persistent);
        if persistent {
            self.recovery.forget_minimum_rtt();
        }
        self.recovery.lost = all;
    }

    /// Returns when [`on_timer`](Self::on_timer) is due.
    pub fn deadline(&self) -> Time {
        if self.is_over() {
            return Time::MAX;
        }
        let acks = if self.side.is_complete() { self.acks.deadline() } else { Time::MAX };
        let own = self.side.deadline().min(acks);
        own.min(self.recovery.deadline(self.side.is_confirmed())).min(self.controller.deadline())
    }

    /// Handles timers. Call [`poll`](Self::poll) after it.
    pub fn on_timer(&mut self, now: Time) {
        self.side.on_timer(now);
        self.controller.on_timer(now);
        if self.recovery.deadline(self.side.is_confirmed()) > now {
            return;
        }
        if self.recovery.on_timer(now) {
            self.probes = if self.recovery.packets_in_flight() > 1 { PROBES } else { 1 };
            if self.recovery.timeouts() >= BLACK_HOLE
                && let Some(datagram) = self.discovery.on_black_hole()
            {
                self.controller.resize(datagram);
            }
            return;
        }
        self.take_losses(now);
        self.recovery.forget(now);
    }

    /// Returns the next packet that may be sent at `now`, if any. Call it until it returns `None`.
    #[must_use]
    pub fn poll(&mut self, now: Time) -> Option<Packet> {
        if self.is_over() {
            return self.poll_close(now);
        }
        if let Some(sent) = self.side.poll(now, self.recovery.rtt()) {
            return Some(Packet::of_handshake(sent));
        }
        if !self.side.is_complete() {
            return None;
        }
        if self.probes > 0 {
            self.probes -= 1;
            return Some(self.probe(now));
        }
        if !self.again.is_empty()
            && let Some(packet) = self.ack_if_due(now)
        {
            return Some(packet);
        }
        let full = self.discovery.current();
        let has_frames = self.frequency_due || self.done_due || self.inbound.is_due();
        let wants = !self.again.is_empty() || has_frames || self.streams.has_data();
        if wants {
            if self.permits(now, full) {
                if let Some(packet) = self.data(now) {
                    return Some(packet);
                }
            } else {
                return self.ack_if_due(now);
            }
        }
        if let Some(size) = self.due_mtu_probe()
            && self.permits(now, size)
        {
            return Some(self.mtu_probe(now, size));
        }
        self.controller.on_idle(self.in_flight());
        self.ack_if_due(now)
    }

    /// Returns `true` if congestion control permits a packet with this payload.
    fn permits(&mut self, now: Time, datagram: u16) -> bool {
        let available = self.streams.available_in_all().saturating_add(self.again.bytes());
        let (in_flight, rtt) = (self.recovery.bytes_in_flight(), self.recovery.rtt());
        self.controller.permits(now, (datagram, available), in_flight, rtt)
    }

    /// Returns the size of a probe of the path MTU that is due: between other data, once the
    /// handshake is confirmed.
    fn due_mtu_probe(&self) -> Option<u16> {
        self.discovery.probe().filter(|_| self.side.is_confirmed())
    }

    /// Returns a packet with data, or with another frame that waits.
    fn data(&mut self, now: Time) -> Option<Packet> {
        if let Some(size) = self.due_mtu_probe()
            && self.again.is_empty()
        {
            let fits = self.permits(now, size);
            return fits.then(|| self.mtu_probe(now, size));
        }
        let (mut frames, announced) = self.own_frames(now);
        let room = self.room(&frames);
        frames.stream = self.next_lost(room).or_else(|| self.streams.next(room));
        if frames.elicit_ack() {
            return Some(self.send(now, frames, (None, announced)));
        }
        // All lost data has arrived meanwhile.
        frames.ack.is_some().then(|| self.send_ack(now, frames))
    }

    /// Returns the frames that wait besides data.
    fn own_frames(&mut self, now: Time) -> (Frames, Announced) {
        let due = std::mem::take(&mut self.frequency_due);
        if let Some(frequency) = self.config.ack_frequency.filter(|_| due) {
            // The greater of both delays until it is acknowledged (the draft, section 7).
            self.recovery.max_ack_delay = self.recovery.max_ack_delay.max(frequency.max_delay);
        }
        // Lost data fills its packet again only without an acknowledgement.
        let bundles = self.acks.is_waiting() && self.again.is_empty();
        let ack = if bundles { self.acks.take(now) } else { None };
        let ack_frequency = self.config.ack_frequency.filter(|_| due);
        let handshake_done = std::mem::take(&mut self.done_due);
        self.inbound.received.acks += u64::from(ack.is_some());
        let mut frames = Frames { ack, ack_frequency, handshake_done, ..Frames::default() };
        let announced = self.inbound.take(&mut frames);
        (frames, announced)
    }

    /// Returns the room for a STREAM frame beside other frames, in bytes.
    fn room(&self, frames: &Frames) -> u16 {
        let largest = self.recovery.largest_acked();
        let header = short_packet(self.recovery.next_number(), largest);
        self.discovery.current().saturating_sub(header + frames.bytes())
    }

    /// Takes lost data that was not acknowledged meanwhile, at most `room` bytes with its frame.
    fn next_lost(&mut self, room: u16) -> Option<StreamFrame> {
        while let Some(mut data) = self.again.pop_front() {
            // Neighbours are sent together.
            while let Some(next) = self.again.front()
                && (next.stream, next.offset) == (data.stream, data.offset + u64::from(data.length))
                && let Some(length) = data.length.checked_add(next.length)
                && data.length < room
            {
                data.length = length;
                self.again.pop_front();
            }
            let end = data.offset + u64::from(data.length);
            let Some((start, until)) = self.streams.unacked(data.stream, data.offset, end) else {
                continue;
            };
            let fits = room.saturating_sub(stream_frame(data.stream, start));
            if fits == 0 {
                self.again.push_front(data);
                return None;
            }
            let length = (until - start).min(fits.into()) as u16;
            let rest = start + u64::from(length);
            if rest < end {
                let left = (end - rest) as u16;
                self.again.push_front(StreamFrame { offset: rest, length: left, ..data });
            }
            return Some(StreamFrame { offset: start, length, ..data });
        }
        None
    }

    /// Returns a probe after a timeout: new data if there is any, otherwise the oldest data in
    /// flight, otherwise a PING (RFC 9002, section 6.2.4).
    fn probe(&mut self, now: Time) -> Packet {
        let (mut frames, announced) = self.own_frames(now);
        let room = self.room(&frames);
        let lost = self.next_lost(room);
        frames.stream = lost.or_else(|| self.streams.next(room)).or_else(|| {
            let oldest = self.recovery.contents().find_map(|content| content.data)?;
            let fits = room.saturating_sub(stream_frame(oldest.stream, oldest.offset));
            let length = oldest.length.min(fits);
            (length > 0).then_some(StreamFrame { length, retransmission: true, ..oldest })
        });
        frames.ping = frames.stream.is_none();
        self.send(now, frames, (None, announced))
    }

    /// Returns a probe of the path MTU: a PING with padding (RFC 9000, section 14.4).
    fn mtu_probe(&mut self, now: Time, size: u16) -> Packet {
        self.discovery.on_sent();
        let mut frames = Frames { ping: true, ..Frames::default() };
        let header = short_packet(self.recovery.next_number(), self.recovery.largest_acked());
        frames.padding = size.saturating_sub(header + frames.bytes());
        self.send(now, frames, (Some(size), Announced::default()))
    }

    /// Returns an acknowledgement, if one is due and no data can carry it.
    fn ack_if_due(&mut self, now: Time) -> Option<Packet> {
        if !self.acks.is_due(now) {
            return None;
        }
        // Once per round trip, one that receives data asks for an acknowledgement, to forget old
        // ranges (RFC 9000, section 13.2.4).
        let ping = self.inbound.is_used()
            && self.acks.has_gaps()
            && self.recovery.packets_in_flight() == 0;
        let frames = Frames { ack: self.acks.take(now), ping, ..Frames::default() };
        self.inbound.received.acks += 1;
        Some(match ping {
            true => self.send(now, frames, (None, Announced::default())),
            false => self.send_ack(now, frames),
        })
    }

    /// Returns a packet with an acknowledgement only, which is not in flight.
    fn send_ack(&mut self, now: Time, frames: Frames) -> Packet {
        let number = self.recovery.next_number();
        let packet = frames.packet(number, self.recovery.largest_acked(), self.field());
        self.recovery.on_sent_ack(now, packet.datagram);
        packet
    }

    /// Returns the ECN field of its packets.
    fn field(&self) -> Ecn {
        if self.ecn.is_some() { self.controller.ect() } else { Ecn::NotEct }
    }

    /// Returns a packet that is in flight: a probe of the path MTU if it has that size, with the
    /// limits that its frames announce.
    fn send(
        &mut self,
        now: Time,
        frames: Frames,
        (probe, announced): (Option<u16>, Announced),
    ) -> Packet {
        let mut content = Content {
            data: frames.stream,
            ack_frequency: frames.ack_frequency.is_some(),
            done: frames.handshake_done,
            announced,
            probe,
            acks: frames.ack.as_ref().map(Ack::largest),
            ect: self.field() != Ecn::NotEct,
            sent: None,
        };
        self.retransmits += u64::from(frames.stream.is_some_and(|data| data.retransmission));
        let number = self.recovery.next_number();
        let packet = frames.packet(number, self.recovery.largest_acked(), self.field());
        debug_assert!(
            packet.datagram <= self.discovery.current().max(probe.unwrap_or(LEAST_DATAGRAM))
        );
        let in_flight = self.in_flight() + u64::from(packet.datagram);
        content.sent = self.controller.on_sent(now, packet.datagram, in_flight);
        self.recovery.on_sent(now, packet.datagram, content);
        packet
    }
}

#[cfg(test)]
mod tests;
