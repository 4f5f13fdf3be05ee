//! Connections over QUIC with a stream for each request and its response, as HTTP/3 has them.
//!
//! Requests are numbered by their streams. Each is known to both ends when it is sent, and the
//! server learns of it when all of it has arrived.

use std::collections::{BTreeMap, BTreeSet};

use perhop_app::{Event, Request};
use perhop_core::{Duration, Header, Packet, Time};
use perhop_measure::{Samples, StreamReading};
use perhop_quic::{Sender, SenderConfig};
use perhop_tcp::Congestion;

use crate::hosts::bodies::{BodyId, Stored};
use crate::hosts::socket::Socket;
use crate::hosts::{ModelledHosts, Net, Role, SrttReadings};

/// Time after which an end whose peer was not told of the end of the connection forgets it: the
/// idle timeout of most implementations (RFC 9000, section 10.1, leaves it open).
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Settings of QUIC connections of a client.
#[derive(Debug)]
pub(crate) struct OverQuic {
    pub sender: SenderConfig,
    /// Length of the server's certificates.
    pub certificates: u32,
    pub waits: bool,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct QuicEnd {
    pub end: Sender,
    pub socket: Socket,
    /// True if a full socket makes the end wait.
    pub waits: bool,
    /// Endpoint of the client, and the connection's number there.
    pub client: u32,
    pub number: u32,
    side: Side,
    pub rtt: Samples,
    pub srtt: Samples,
    srtt_readings: SrttReadings,
    pub delay: Samples,
    /// Packets with data that the network lost.
    pub lost: u64,
}

#[derive(Debug)]
enum Side {
    Client {
        /// Exchange of each stream whose response has not arrived as a whole, with the bytes that
        /// have not.
        exchanges: BTreeMap<u64, (u32, u64)>,
        /// Number of the next stream.
        next: u64,
        /// True once the application knows that the connection is open.
        told: bool,
        /// End of the idle timeout, once the client has closed the connection.
        forgets: Time,
    },
    Server {
        /// Requests that have not arrived as a whole, with the bytes that have not.
        requests: BTreeMap<u64, (Request, u64)>,
        /// Responses by the time at which they are ready: streams, and their bytes.
        responses: BTreeSet<(Time, u64, u64)>,
    },
}

impl QuicEnd {
    pub fn new(
        config: &OverQuic,
        congestion: Congestion,
        (client, number): (u32, u32),
        is_server: bool,
    ) -> Self {
        let side = match is_server {
            true => Side::Server { requests: BTreeMap::new(), responses: BTreeSet::new() },
            false => Side::Client {
                exchanges: BTreeMap::new(),
                next: 0,
                told: false,
                forgets: Time::MAX,
            },
        };
        let mut end = Sender::new(SenderConfig {
            congestion,
            // The server's streams are those of requests; it sends the data.
            streams: 0,
            ack_frequency: config.sender.ack_frequency.filter(|_| is_server),
            certificates: is_server.then_some(config.certificates),
            ..config.sender.clone()
        });
        end.start();
        Self {
            end,
            socket: Socket::default(),
            waits: config.waits,
            client,
            number,
            side,
            rtt: Samples::default(),
            srtt: Samples::default(),
            srtt_readings: SrttReadings::NONE,
            delay: Samples::default(),
            lost: 0,
        }
    }

    pub fn is_client(&self) -> bool {
        matches!(self.side, Side::Client { .. })
    }

    /// As [`Connection::serves`](super::Connection::serves).
    pub fn serves(&self, own: &Header, packet: &Header) -> bool {
        !self.is_client() && own.destination_port == packet.destination_port
    }

    pub fn is_over(&self) -> bool {
        self.end.is_over() && self.socket.queued == 0
    }

    pub fn deadline(&self) -> Time {
        let own = if self.socket.blocked { Time::MAX } else { self.end.deadline() };
        match &self.side {
            Side::Client { forgets, .. } => own.min(*forgets),
            Side::Server { responses, .. } => {
                responses.first().map_or(own, |&(ready, ..)| own.min(ready))
            }
        }
    }

    /// Writes the responses that are ready.
    pub(in crate::hosts) fn respond(&mut self, now: Time) {
        let Side::Server { responses, .. } = &mut self.side else { return };
        while let Some(&(ready, stream, bytes)) = responses.first()
            && ready <= now
        {
            responses.pop_first();
            self.end.write_to(stream, bytes);
        }
    }

    /// Takes data that has arrived. Returns the news for the client's application.
    fn take(&mut self, now: Time, stream: u64, bytes: u64) -> Option<Event> {
        match &mut self.side {
            Side::Client { exchanges, .. } => {
                let (exchange, left) = exchanges.get_mut(&stream)?;
                *left -= bytes;
                let event = Event::Received { exchange: *exchange, bytes };
                if *left == 0 {
                    exchanges.remove(&stream);
                }
                return Some(event);
            }
            Side::Server { requests, responses } => {
                let (request, left) = requests.get_mut(&stream)?;
                *left -= bytes;
                if *left == 0 {
                    responses.insert((now + request.think, stream, request.response));
                    requests.remove(&stream);
                }
            }
        }
        None
    }
}

/// As [`add`](super::add).
pub(super) fn add(sum: &mut StreamReading, client: &QuicEnd, server: &QuicEnd) -> u64 {
    let received = client.end.received();
    let counters = &mut sum.counters;
    counters.delivered += received.delivered;
    counters.packets += received.packets;
    counters.reordered += received.reordered;
    counters.marked += received.marked;
    counters.acks += received.acks;
    counters.lost += server.lost;
    counters.echoed += server.end.marks_echoed();
    counters.retransmits += server.end.retransmits();
    sum.rtt.merge(&server.rtt);
    sum.srtt.merge(&server.srtt);
    sum.delay.merge(&client.delay);
    server.end.cwnd()
}

impl ModelledHosts {
    fn quic_end(&mut self, id: u32) -> Option<&mut QuicEnd> {
        match &mut self.endpoints[id as usize].role {
            Role::QuicEnd(end) => Some(end),
            _ => None,
        }
    }

    /// Sends a request, on a stream of its own.
    pub(super) fn request_at_end(&mut self, network: &mut Net, id: u32, request: Request) {
        let peer = self.endpoints[id as usize].line.peer;
        let Some(client) = self.quic_end(id) else { return };
        let Side::Client { exchanges, next, .. } = &mut client.side else { return };
        let stream = *next;
        *next += 1;
        exchanges.insert(stream, (request.exchange, request.response));
        client.end.expect(stream, request.response);
        client.end.write_to(stream, request.request);
        if let Some(server) = self.quic_end(peer) {
            server.end.expect(stream, request.request);
            if let Side::Server { requests, .. } = &mut server.side {
                requests.insert(stream, (request, request.request));
            }
        }
        self.send_at_end(network, id);
        self.set_timer(network, id);
    }

    /// Closes a connection.
    pub(super) fn close_at_end(&mut self, network: &mut Net, id: u32) {
        let now = network.now();
        if let Some(client) = self.quic_end(id) {
            client.end.close();
            if let Side::Client { forgets, .. } = &mut client.side {
                *forgets = now + IDLE_TIMEOUT;
            }
        }
        self.send_at_end(network, id);
        self.set_timer(network, id);
    }

    /// Takes a packet that has arrived at an end of a connection of an application.
    #[inline(never)]
    pub(in crate::hosts) fn receive_at_end(
        &mut self,
        network: &mut Net,
        (id, first): (u32, bool),
        packet: Packet<BodyId>,
    ) {
        let (now, header) = (network.now(), packet.header);
        let slot = self.bodies.slot(packet.body);
        let (sent, Stored::Quic(place)) = (slot.sent, slot.message) else { return };
        let endpoint = &mut self.endpoints[id as usize];
        let (own, owner) = (endpoint.line.header, endpoint.owner as usize);
        if (header.source_port, header.destination_port) != (own.destination_port, own.source_port)
        {
            return; // of an earlier connection
        }
        self.bodies.quic_mut(place).ecn = header.ecn();
        let received = self.bodies.quic(place);
        let Role::QuicEnd(end) = &mut endpoint.role else { return };
        let is_client = end.is_client();
        self.arrived[owner][usize::from(!is_client)].add(header.traffic_class);
        let delivered = end.end.on_packet(now, received);
        let (client, connection) = (end.client, end.number);
        if is_client {
            if delivered.is_some() && first {
                end.delay.add(now.since(sent));
                self.delays[owner].add(now.since(sent));
            }
        } else if let Some(rtt) = end.end.take_rtt_sample() {
            end.rtt.add(rtt);
            self.rtts[owner].add(rtt);
            if end.srtt_readings.is_due(now)
                && let Some(srtt) = end.end.smoothed_rtt()
            {
                end.srtt.add(srtt);
                self.srtts[owner].add(srtt);
            }
        }
        let delivered = delivered.filter(|delivered| delivered.bytes > 0);
        let news = delivered.and_then(|part| end.take(now, part.stream, part.bytes));
        if let Side::Client { told, .. } = &mut end.side
            && end.end.is_open()
            && !std::mem::replace(told, true)
        {
            self.tell(network, client, Event::Opened { connection });
        }
        if let Some(event) = news {
            self.tell(network, client, event);
        }
        self.send_at_end(network, id);
        self.set_timer(network, id);
        self.end_if_closed(id);
    }

    /// Handles a timer of an end.
    #[inline(never)]
    pub(in crate::hosts) fn end_timer(&mut self, network: &mut Net, id: u32) {
        let (now, peer) = (network.now(), self.endpoints[id as usize].line.peer);
        if let Some(Side::Client { forgets, .. }) = self.quic_end(id).map(|end| &mut end.side)
            && *forgets <= now
        {
            // The server, too, has heard nothing since.
            *forgets = Time::MAX;
            if let Some(server) = self.quic_end(peer) {
                server.end.forget();
            }
            return self.end_if_closed(id);
        }
        self.expire_end(now, id);
        self.send_at_end(network, id);
    }

    fn expire_end(&mut self, now: Time, id: u32) {
        if let Some(end) = self.quic_end(id) {
            end.end.on_timer(now);
        }
    }

    /// Sends all packets that an end may send; see [`send_quic`](Self::send_quic).
    pub(in crate::hosts) fn send_at_end(&mut self, network: &mut Net, id: u32) {
        self.send_quic_packets(network, id);
        while self
            .quic_end(id)
            .is_some_and(|end| !end.socket.blocked && end.end.deadline() <= network.now())
        {
            self.expire_end(network.now(), id);
            self.send_quic_packets(network, id);
        }
    }
}
