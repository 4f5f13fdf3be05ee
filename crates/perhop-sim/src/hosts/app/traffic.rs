//! Segments of connections with data in both directions.

use perhop_app::{Event, Frame, Request};
use perhop_core::{Duration, Header, Time};
use perhop_tcp::{Flags, Segment, Seq};

use super::{Connection, Side};
use crate::hosts::{ModelledHosts, Net, Role};

/// A segment that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub segment: Segment,
    pub header: Header,
    /// Time at which it was sent.
    pub sent: Time,
    /// False for a duplicate.
    pub first: bool,
}

impl ModelledHosts {
    fn connection(&mut self, id: u32) -> Option<&mut Connection> {
        match &mut self.endpoints[id as usize].role {
            Role::Connection(connection) => Some(connection),
            _ => None,
        }
    }

    /// Sends all segments that an end's windows permit, and has a server write what there is room
    /// for.
    pub(in crate::hosts) fn send_on_connection(&mut self, network: &mut Net, id: u32) {
        let now = network.now();
        let line = self.endpoints[id as usize].line;
        loop {
            let Some(end) = self.connection(id) else { return };
            if end.is_blocked() {
                return;
            }
            if let Some(frame) = end.next_frame(now) {
                end.follow_close();
                if let Some(client) = self.connection(line.peer) {
                    client.inbound.push(frame);
                }
                continue;
            }
            let Some(mut segment) = end.sender.poll(now) else { return };
            if segment.flags.has(Flags::SYN) && !end.is_client() {
                // The acknowledgement of the client's SYN stands for it.
                if let Some(answer) = end.receiver.repeat_answer(now) {
                    line.send_segment(network, &mut self.bodies, answer);
                }
                continue;
            }
            end.last_sent = now;
            if !segment.flags.has(Flags::SYN) {
                end.receiver.piggyback(now, &mut segment);
            }
            let small_queues = end.small_queues;
            let (packet, sent) = line.send_segment(network, &mut self.bodies, segment);
            if let Some(waits) = sent.waits
                && small_queues
            {
                self.wait(network, id, packet, waits);
            }
        }
    }

    /// Sends an acknowledgement.
    fn acknowledge(&mut self, network: &mut Net, id: u32, mut answer: Segment) {
        let line = self.endpoints[id as usize].line;
        if let Some(end) = self.connection(id)
            && !answer.flags.has(Flags::SYN)
        {
            let next = end.sender.next_seq();
            answer.seq = if next == Seq(0) { Seq(1) } else { next };
        }
        line.send_segment(network, &mut self.bodies, answer);
    }

    /// Sends a request.
    pub(super) fn request(&mut self, network: &mut Net, id: u32, request: Request) {
        let peer = self.endpoints[id as usize].line.peer;
        if let Some(server) = self.connection(peer) {
            let Request { exchange, request: payload, .. } = request;
            server.inbound.push(Frame { exchange, header: 0, payload, last: true });
            server.requests.push_back(request);
        }
        if let Some(client) = self.connection(id) {
            client.write(network.now(), request.request);
        }
        self.send_on_connection(network, id);
        self.set_timer(network, id);
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, network: &mut Net, id: u32) {
        if let Some(client) = self.connection(id) {
            client.sender.close();
        }
        self.send_on_connection(network, id);
        self.set_timer(network, id);
    }

    #[inline(never)]
    pub(in crate::hosts) fn receive_on_connection(
        &mut self,
        network: &mut Net,
        id: u32,
        arrived: Arrived,
    ) {
        let Arrived { mut segment, header, sent, first } = arrived;
        let now = network.now();
        let endpoint = &self.endpoints[id as usize];
        let (line, owner) = (endpoint.line, endpoint.owner as usize);
        if header.destination_port != line.header.source_port
            || header.source_port != line.header.destination_port
        {
            return; // of an earlier connection
        }
        let Some(end) = self.connection(id) else { return };
        let is_client = end.is_client();
        self.arrived[owner][usize::from(!is_client)].add(header.traffic_class);
        let handshake = self.share_handshake(now, id, &segment);
        let Some(end) = self.connection(id) else { return };
        let was_open = end.sender.is_open();
        let next = end.sender.next_seq();
        let data = segment.payload > 0 || segment.flags.has(Flags::FIN);
        let opens = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        let acknowledges = !(data || opens) || end.piggyback && end.sender.is_advanced_by(&segment);
        if acknowledges && let Some(rtt) = end.sender.on_segment(now, &segment).or(handshake) {
            let smoothed = end.measure(now, rtt);
            if !is_client {
                self.rtts[owner].add(rtt);
                smoothed.into_iter().for_each(|smoothed| self.srtts[owner].add(smoothed));
            }
        }
        if data || opens {
            segment.ecn = header.ecn();
            let Some(end) = self.connection(id) else { return };
            if !first {
                segment.flags = segment.flags.with(Flags::RETRANSMISSION);
            }
            let answer = end.receiver.on_segment(now, &segment);
            if first && is_client && segment.payload > 0 {
                end.delay.add(now.since(sent));
                self.delays[owner].add(now.since(sent));
            }
            if let Some(answer) = answer {
                self.acknowledge(network, id, answer);
            }
        }
        self.deliver(network, id, was_open);
        if let Some(end) = self.connection(id) {
            end.follow_close();
            self.send_on_connection(network, id);
            if is_client && (!was_open || segment.flags.has(Flags::SYN)) {
                self.confirm_handshake(network, id, &segment, next);
            }
            self.set_timer(network, id);
            self.end_if_closed(id);
        }
    }

    /// Acknowledges the server's SYN at once, unless data of the client does so (RFC 9293, section
    /// 3.10.7.3). `next` was the position of that data when the SYN arrived.
    fn confirm_handshake(&mut self, network: &mut Net, id: u32, answer: &Segment, next: Seq) {
        let now = network.now();
        let line = self.endpoints[id as usize].line;
        let Some(end) = self.connection(id) else { return };
        let waits = end.sender.is_open() && end.receiver.received().segments == 0;
        if waits && end.sender.next_seq() == next {
            let confirmation = end.receiver.confirm(now, answer, next);
            line.send_segment(network, &mut self.bodies, confirmation);
        }
    }

    /// Opens the server's direction. Its SYN leaves with the acknowledgement of the client's; when
    /// the client is heard again, it has acknowledged both, which gives the server a round-trip
    /// time.
    fn share_handshake(&mut self, now: Time, id: u32, segment: &Segment) -> Option<Duration> {
        let peer = self.endpoints[id as usize].line.peer;
        let server = self.connection(id)?;
        let Side::Server { syn, .. } = &mut server.side else { return None };
        if segment.flags.has(Flags::SYN) && !server.sender.is_open() {
            let own = server.sender.poll(now);
            *syn = syn.or(own);
            return None;
        }
        let own = syn.take()?;
        let answer = self.connection(peer)?.receiver.on_segment(now, &own)?;
        let timestamps = segment.timestamps;
        self.connection(id)?.sender.on_segment(now, &Segment { timestamps, ..answer })
    }

    /// Passes data that has arrived to the application.
    fn deliver(&mut self, network: &mut Net, id: u32, was_open: bool) {
        let now = network.now();
        let Some(end) = self.connection(id) else { return };
        let (client, connection) = (end.client, end.number);
        let delivered = end.receiver.received().delivered;
        let mut bytes = delivered - std::mem::replace(&mut end.taken, delivered);
        let opened = !was_open && end.sender.is_open();
        let Side::Server { responder, .. } = &mut end.side else {
            if opened {
                self.tell(network, client, Event::Opened { connection });
            }
            while let Some(end) = self.connection(id)
                && let Some((frame, payload, _)) = end.inbound.take(&mut bytes)
            {
                let event = Event::Received { exchange: frame.exchange, bytes: payload };
                self.tell(network, client, event);
            }
            return;
        };
        while let Some((_, _, complete)) = end.inbound.take(&mut bytes) {
            if complete && let Some(request) = end.requests.pop_front() {
                responder.on_request(now, &request);
            }
        }
    }

    pub(in crate::hosts) fn connection_timer(&mut self, network: &mut Net, id: u32) {
        let now = network.now();
        let Some(end) = self.connection(id) else { return };
        end.sender.on_timer(now);
        let answer = end.receiver.on_timer(now);
        self.send_on_connection(network, id);
        if let Some(answer) = answer {
            self.acknowledge(network, id, answer);
        }
    }
}
