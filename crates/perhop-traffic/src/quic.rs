//! QUIC connections: one thread serves both ends of all.
//!
//! `quinn_proto` is the protocol; this module is its sockets, clock and applications. The sender of
//! a bulk transfer opens its connection, and so does the client of an application. Both ends are in
//! this process, so that the other end knows the connections that it accepts by their addresses.

mod config;
mod counters;
mod driver;
mod end;
mod exchange;
mod link;
mod outgoing;
mod requests;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use perhop_app::ApplicationPlan;
use perhop_socket::Socket;
use perhop_workload::{FlowPlan, QuicPlan, TransportPlan};
use quinn_proto::{ClientConfig, EndpointConfig, ServerConfig};

use crate::error::TrafficError;
use crate::job::Job;
use crate::open::{ClientSockets, Opened, StreamAddresses};
use crate::shared::{Shared, StreamId};

use config::Identity;
pub(crate) use counters::QuicCounters;
use driver::Driver;

/// Streams for requests that a server permits at once, or more if pages have more objects (RFC
/// 9114, section 6.1).
const REQUESTS: usize = 100;

/// Settings of a flow.
#[derive(Debug)]
struct Settings {
    plan: QuicPlan,
    client: ClientConfig,
    server: Arc<ServerConfig>,
}

/// Sockets and settings of a job's QUIC connections, until they start.
#[derive(Debug)]
pub(crate) struct QuicSockets {
    listeners: Vec<(SocketAddr, Socket)>,
    /// Senders of bulk transfers, with the addresses of both ends.
    senders: Vec<(StreamId, Socket, [SocketAddr; 2])>,
    clients: ClientSockets,
    settings: BTreeMap<usize, Settings>,
    most: u64,
}

impl QuicSockets {
    /// Takes the sockets of a job's flows over QUIC; `None` if it has none. Clients may have `most`
    /// connections at once.
    ///
    /// # Errors
    /// [`TrafficError::Quic`] if quinn lacks a setting.
    pub fn new(
        job: &Job,
        lines: &[StreamAddresses],
        opened: &mut BTreeMap<u16, Opened>,
        most: u64,
    ) -> Result<Option<Self>, TrafficError> {
        let mut identity = None;
        let mut settings = BTreeMap::new();
        for (number, flow) in job.flows.iter().enumerate() {
            let TransportPlan::Quic(plan) = &flow.transport else { continue };
            let mut made = || {
                let identity = match &mut identity {
                    Some(identity) => identity,
                    none => none.insert(Identity::generate()?),
                };
                let requests = requests(flow);
                let server = Arc::new(config::server(identity, plan, requests)?);
                let client = config::client(identity, plan, requests)?;
                Ok(Settings { plan: plan.clone(), client, server })
            };
            let made = made().map_err(|what| TrafficError::Quic { flow: flow.name.clone(), what });
            settings.insert(number, made?);
        }
        if settings.is_empty() {
            return Ok(None);
        }
        let mut next = vec![0; job.flows.len()];
        let ids = lines.iter().map(|line| {
            let id = StreamId { flow: line.flow, stream: next[line.flow] };
            next[line.flow] += 1;
            id
        });
        let ids: Vec<_> = ids.collect();
        let is_ours = |(number, _): &mut (usize, Socket)| settings.contains_key(&ids[*number].flow);
        let senders = opened.values_mut().flat_map(|host| host.senders.extract_if(.., is_ours));
        let senders = senders.map(|(number, socket)| {
            let StreamAddresses { from, to, .. } = lines[number];
            (ids[number], socket, [from, to])
        });
        let senders = senders.collect();
        let listeners = opened.values_mut().flat_map(|host| host.quic.drain(..)).collect();
        let clients = ClientSockets::new(job, opened);
        Ok(Some(Self { listeners, senders, clients, settings, most }))
    }

    /// Runs all connections until the end of the run.
    pub fn run(self, shared: &Shared) -> io::Result<()> {
        let most = |settings: &Settings| settings.plan.datagram.max(settings.plan.max_datagram);
        let largest = self.settings.values().map(most).max().unwrap_or(0);
        let mut config = EndpointConfig::default();
        config.max_udp_payload_size(largest).map_err(io::Error::other)?;
        let mut driver =
            Driver::new(shared, self.settings, Arc::new(config), (self.clients, self.most))?;
        for (id, socket, [from, to]) in self.senders {
            driver.add_sender(id, socket, [from, to])?;
        }
        for (at, socket) in self.listeners {
            driver.add_listener(at, socket)?;
        }
        shared.clock.await_zero();
        driver.run()
    }
}

/// Returns the number of requests that a client of a flow may send at once; `None` without clients.
fn requests(flow: &FlowPlan) -> Option<u32> {
    let requests = match flow.application.as_ref()? {
        ApplicationPlan::Web(page) => page.objects.len(),
        _ => 1,
    };
    Some(requests.max(REQUESTS) as u32)
}

/// Other ends of connections, by the addresses of the end that opens them and of the other.
type Expected = HashMap<(SocketAddr, SocketAddr), driver::Opening>;
