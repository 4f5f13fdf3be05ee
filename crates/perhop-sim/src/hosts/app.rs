//! Applications over connections, which open and close during the run.
//!
//! A [`ClientHost`] is the endpoint of a client at a flow's destination. Each of its connections
//! has an endpoint at either host ([`Connection`]), in a slot that a later connection uses again. A
//! packet of an earlier connection is recognised by its ports, as hosts do.

mod connection;
mod quic;
mod traffic;

use std::collections::BTreeMap;

use perhop_app::{Action, Client, Event, Record, Responder};
use perhop_core::{Header, Time};
use perhop_measure::{Samples, StreamCounters, StreamReading};
use perhop_tcp::{Congestion, Handshake, Receiver, ReceiverConfig, Sender, SenderConfig};

use super::{Endpoint, Line, MOST_ENDPOINTS, ModelledHosts, Net, Role};

pub(crate) use connection::{Connection, Side};
pub(crate) use quic::{OverQuic, QuicEnd};
pub(super) use traffic::Arrived;

/// First port after those that clients use in turn: the ephemeral ports (RFC 6335, section 6).
const PORTS: u32 = 1 << 16;

/// Settings of TCP connections of a client.
#[derive(Debug)]
pub(crate) struct OverTcp {
    pub sender: SenderConfig,
    pub receiver: ReceiverConfig,
    pub handshake: Handshake,
    pub small_queues: bool,
}

/// Transport of the connections of a client.
#[derive(Debug)]
pub(crate) enum Transport {
    Tcp(OverTcp),
    Quic(OverQuic),
}

/// Settings of the connections of a client.
#[derive(Debug)]
pub(crate) struct ConnectionConfig {
    pub transport: Transport,
    /// Header of packets to the server; the source port is that of the first connection.
    pub header: Header,
    /// Distance between the ports of two connections: the flow's number of clients.
    pub clients: u16,
    /// Congestion control of a connection, by its number, if it draws random numbers.
    pub congestion: Option<fn(u64, &str) -> Congestion>,
    pub seed: u64,
    /// Name of its random streams.
    pub name: String,
}

impl ConnectionConfig {
    /// Returns the congestion control of an end of a connection in its initial state, which is
    /// `usual` if it draws no random numbers.
    fn congestion(&self, usual: &Congestion, connection: u32, end: &str) -> Congestion {
        self.congestion.map_or_else(
            || usual.clone(),
            |drawn| drawn(self.seed, &format!("{} {connection} {end} probes", self.name)),
        )
    }

    /// Returns the behaviour of an end of connection `number` of the client `id`.
    fn end(&self, (id, number): (u32, u32), multiplexed: Option<bool>) -> Role {
        let end = if multiplexed.is_some() { "server" } else { "client" };
        match &self.transport {
            Transport::Tcp(tcp) => {
                let congestion = self.congestion(&tcp.sender.congestion, number, end);
                let sender = Sender::new(SenderConfig { congestion, ..tcp.sender.clone() });
                let ends = (sender, Receiver::new(tcp.receiver.clone()));
                let side = multiplexed.map_or(Side::Client, |multiplexed| Side::Server {
                    responder: Responder::new(multiplexed),
                    syn: None,
                });
                Role::Connection(Box::new(Connection::new(ends, (id, number), tcp, side)))
            }
            Transport::Quic(quic) => {
                let congestion = self.congestion(&quic.sender.congestion, number, end);
                let is_server = multiplexed.is_some();
                Role::QuicEnd(Box::new(QuicEnd::new(quic, congestion, (id, number), is_server)))
            }
        }
    }

    fn header(&self, connection: u32) -> Header {
        let first = u32::from(self.header.source_port);
        let step = u64::from(connection) * u64::from(self.clients);
        let port = first + (step % u64::from(PORTS - first)) as u32;
        Header { source_port: port as u16, ..self.header }
    }
}

/// A client and what it has measured.
#[derive(Debug)]
pub(crate) struct ClientHost {
    pub client: Client,
    pub config: ConnectionConfig,
    /// Endpoint of each open connection at the client.
    pub connections: BTreeMap<u32, u32>,
    pub records: Vec<Record>,
    /// Slots of both endpoints of connections that have ended, which later ones use again. Each
    /// client has its own, so that the order of slots does not depend on other clients.
    free: Vec<[u32; 2]>,
    /// Counters and samples of the connections that have ended.
    ended: StreamReading,
}

impl ClientHost {
    pub fn new(client: Client, config: ConnectionConfig) -> Self {
        // QUIC has none.
        let sacks = matches!(config.transport, Transport::Tcp(_)).then_some(0);
        Self {
            client,
            config,
            connections: BTreeMap::new(),
            records: Vec::new(),
            free: Vec::new(),
            ended: StreamReading {
                counters: StreamCounters { sacks, ..StreamCounters::default() },
                ..StreamReading::default()
            },
        }
    }
}

/// Adds a connection's counters and samples to those of its client. Returns the server's window.
fn add(sum: &mut StreamReading, client: &Role, server: &Role) -> u64 {
    let (client, server) = match (client, server) {
        (Role::Connection(client), Role::Connection(server)) => (client, server),
        (Role::QuicEnd(client), Role::QuicEnd(server)) => return quic::add(sum, client, server),
        roles => unreachable!("a connection between {roles:?}"),
    };
    let received = client.receiver.received();
    let counters = &mut sum.counters;
    counters.delivered += received.delivered;
    counters.packets += received.segments;
    counters.reordered += received.reordered;
    counters.marked += received.marked;
    counters.acks += received.acks;
    counters.sacks = counters.sacks.map(|sacks| sacks + received.sacks);
    counters.lost += server.lost;
    counters.echoed += server.sender.marks_echoed();
    counters.retransmits += server.sender.retransmits();
    sum.rtt.merge(&server.rtt);
    sum.srtt.merge(&server.srtt);
    sum.delay.merge(&client.delay);
    server.sender.cwnd()
}

impl ModelledHosts {
    /// Returns the sums over the connections of a client; its window is that of all open ones.
    pub fn read_client(&self, host: &ClientHost) -> StreamReading {
        let mut sum = host.ended;
        let mut cwnd = None;
        for &at_client in host.connections.values() {
            let client = &self.endpoints[at_client as usize];
            let server = &self.endpoints[client.line.peer as usize];
            cwnd = Some(cwnd.unwrap_or(0) + add(&mut sum, &client.role, &server.role));
        }
        StreamReading { cwnd, ..sum }
    }

    /// Removes the samples of a client that were recorded at a mark.
    pub fn clear_samples(&mut self, id: u32) {
        let Role::Client(host) = &mut self.endpoints[id as usize].role else { return };
        [host.ended.rtt, host.ended.srtt, host.ended.delay] = [Samples::default(); 3];
        let open: Vec<u32> = host.connections.values().copied().collect();
        for at_client in open {
            let peer = self.endpoints[at_client as usize].line.peer;
            for each in [at_client, peer] {
                match &mut self.endpoints[each as usize].role {
                    Role::Connection(end) => {
                        [end.rtt, end.srtt, end.delay] = [Samples::default(); 3];
                    }
                    Role::QuicEnd(end) => {
                        [end.rtt, end.srtt, end.delay] = [Samples::default(); 3];
                    }
                    _ => {}
                }
            }
        }
    }

    /// Lets a client begin what is due.
    pub(super) fn client_timer(&mut self, network: &mut Net, id: u32) {
        if let Role::Client(host) = &mut self.endpoints[id as usize].role {
            host.client.on_timer(network.now());
        }
        self.run_client(network, id);
    }

    /// Passes news to a client.
    fn tell(&mut self, network: &mut Net, id: u32, event: Event) {
        if let Role::Client(host) = &mut self.endpoints[id as usize].role {
            host.client.on_event(network.now(), event);
        }
        self.run_client(network, id);
    }

    /// Carries out the actions of a client.
    fn run_client(&mut self, network: &mut Net, id: u32) {
        loop {
            let Role::Client(host) = &mut self.endpoints[id as usize].role else { return };
            let Some(action) = host.client.poll() else { break };
            let at_client = |connection| host.connections.get(connection).copied();
            match action {
                Action::Open { connection, multiplexed } => {
                    self.open(network, id, connection, multiplexed);
                }
                Action::Request { connection, request } => {
                    if let Some(at_client) = at_client(&connection) {
                        match host.config.transport {
                            Transport::Tcp(_) => self.request(network, at_client, request),
                            Transport::Quic(_) => self.request_at_end(network, at_client, request),
                        }
                    }
                }
                Action::Close { connection } => {
                    if let Some(at_client) = at_client(&connection) {
                        match host.config.transport {
                            Transport::Tcp(_) => self.close(network, at_client),
                            Transport::Quic(_) => self.close_at_end(network, at_client),
                        }
                    }
                }
                Action::Finished(record) => host.records.push(record),
            }
        }
        self.set_timer(network, id);
    }

    /// Opens a connection.
    fn open(&mut self, network: &mut Net, id: u32, number: u32, multiplexed: bool) {
        let Role::Client(host) = &mut self.endpoints[id as usize].role else { return };
        let free = host.free.pop();
        if free.is_none() && self.endpoints.len() >= MOST_ENDPOINTS {
            return; // as if its host never answered
        }
        let slots = free.unwrap_or_else(|| {
            [(); 2].map(|()| {
                self.endpoints.push(Endpoint::closed());
                self.endpoints.len() as u32 - 1
            })
        });
        let owner = self.endpoints[id as usize].owner;
        let Role::Client(host) = &mut self.endpoints[id as usize].role else { return };
        let [at_client, at_server] = slots;
        host.connections.insert(number, at_client);
        let config = &host.config;
        let is_over_quic = matches!(config.transport, Transport::Quic(_));
        let there = config.header(number);
        let back = Header {
            source: there.destination,
            destination: there.source,
            source_port: there.destination_port,
            destination_port: there.source_port,
            ..there
        };
        let roles = [None, Some(multiplexed)].map(|server| config.end((id, number), server));
        let handshake = match &config.transport {
            Transport::Tcp(tcp) => Some(tcp.handshake),
            Transport::Quic(_) => None,
        };
        let ends = [(there, at_server), (back, at_client)];
        for ((slot, role), (header, peer)) in slots.into_iter().zip(roles).zip(ends) {
            let mut role = role;
            if let Role::Connection(end) = &mut role {
                self.path_mtus.apply(&header, &mut end.sender);
            }
            let line = Line { header, peer, handshake };
            self.endpoints[slot as usize] = Endpoint::new(line, owner, role);
        }
        match is_over_quic {
            true => self.send_at_end(network, at_client),
            false => self.send_on_connection(network, at_client),
        }
        self.set_timer(network, at_client);
    }

    /// Ends a connection if both sides have closed it and all is acknowledged: its slots are free.
    pub(super) fn end_if_closed(&mut self, end: u32) {
        let (own, peer) = (&self.endpoints[end as usize], self.endpoints[end as usize].line.peer);
        let roles = [&own.role, &self.endpoints[peer as usize].role];
        let (is_over, own_is_client, (id, number)) = match roles {
            [Role::Connection(own), Role::Connection(other)] => {
                (own.is_over() && other.is_over(), own.is_client(), (own.client, own.number))
            }
            [Role::QuicEnd(own), Role::QuicEnd(other)] => {
                (own.is_over() && other.is_over(), own.is_client(), (own.client, own.number))
            }
            _ => return,
        };
        if !is_over {
            return;
        }
        let ends = if own_is_client { [end, peer] } else { [peer, end] };
        let [client, server] = ends.map(|slot| {
            let endpoint = &mut self.endpoints[slot as usize];
            endpoint.timer = Time::MAX;
            std::mem::replace(&mut endpoint.role, Role::Closed)
        });
        let Role::Client(host) = &mut self.endpoints[id as usize].role else { return };
        host.connections.remove(&number);
        host.free.push(ends);
        add(&mut host.ended, &client, &server);
    }
}
