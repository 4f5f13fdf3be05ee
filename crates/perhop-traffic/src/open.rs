//! Opening of the sockets of a host before traffic runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::thread;

use perhop_core::{Ecn, TrafficClass};
use perhop_wire::{icmpv4, icmpv6};
use perhop_workload::{FIRST_SOURCE_PORT, FlowPlan, PingPlan, SEND_BUFFER, TransportPlan, UdpPlan};

use crate::error::TrafficError;
use crate::job::{Job, NodeJob};
use crate::live::End;
use crate::payload;
use crate::tap;
use perhop_socket::{Level, Socket};

const SOCKET: fn(libc::c_int) -> Level = |option| (libc::SOL_SOCKET, option);

mod addresses;
mod connections;
mod quic;

pub(crate) use addresses::{StreamAddresses, host, lines, node, same_family};
pub(crate) use connections::{ClientSockets, clamp_window, window};

/// Sockets that were opened in a host.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    /// Sockets of senders, by number of the stream.
    pub senders: Vec<(usize, Socket)>,
    pub listeners: Vec<(SocketAddr, Socket)>,
    /// Sockets at which servers of applications accept connections.
    pub servers: Vec<(SocketAddr, Socket)>,
    /// Network namespace of a host with clients, which open their connections during the run.
    pub namespace: Option<Arc<File>>,
    pub datagrams: Vec<(SocketAddr, Socket)>,
    /// Sockets at which connections of QUIC arrive.
    pub quic: Vec<(SocketAddr, Socket)>,
    /// Sockets of receivers that open their connections, by number of the stream.
    pub receivers: Vec<(usize, Socket)>,
    /// Sockets of pings, by number of the ping.
    pub probes: Vec<(usize, Socket)>,
    /// Sockets that receive ICMP; true for ICMPv6.
    pub icmp: Vec<(bool, Socket)>,
    pub tap: Option<Socket>,
    /// Measurements that this host cannot make, with the reasons.
    pub missing: Vec<String>,
}

/// Opens the sockets of each host, in its namespace.
pub(crate) fn open_hosts(
    job: &Job,
    lines: &[StreamAddresses],
    enter: &(dyn Fn(usize) -> io::Result<()> + Sync),
) -> Result<BTreeMap<u16, Opened>, TrafficError> {
    let mut hosts = BTreeMap::new();
    for (number, node) in job.nodes.iter().enumerate() {
        let flows = job.flows.iter().any(|flow| flow.from == node.name || flow.to == node.name);
        let pings = job.pings.iter().any(|ping| ping.from == node.name || ping.to == node.name);
        let Some(namespace) = node.namespace else { continue };
        if !(flows || pings || !node.settings.is_empty()) {
            continue;
        }
        // In a separate thread, because a thread that has entered a namespace stays there.
        let opened = thread::scope(|scope| {
            let open = || {
                enter(namespace).map_err(|error| {
                    let what = "cannot enter its network namespace".to_owned();
                    TrafficError::Socket { node: node.name.clone(), what, error }
                })?;
                Host { job, lines, node }.open()
            };
            let thread = thread::Builder::new().spawn_scoped(scope, open);
            let thread = thread.map_err(TrafficError::Thread)?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        hosts.insert(number as u16, opened);
    }
    Ok(hosts)
}

/// A host whose sockets are opened.
struct Host<'a> {
    job: &'a Job,
    lines: &'a [StreamAddresses],
    node: &'a NodeJob,
}

impl Host<'_> {
    fn failed(&self, what: impl Into<String>) -> impl FnOnce(io::Error) -> TrafficError {
        let (node, what) = (self.node.name.clone(), what.into());
        move |error| TrafficError::Socket { node, what, error }
    }

    fn open(&self) -> Result<Opened, TrafficError> {
        if self.job.live.is_some() && !self.node.settings.is_empty() {
            return Err(TrafficError::SettingsOfLiveHost { node: self.node.name.clone() });
        }
        for (name, value) in &self.node.settings {
            // The meaning of `net.ipv4.tcp_sack` depends on the namespace of the calling thread.
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            fs::write(path, value).map_err(|error| {
                let (name, value) = (name.clone(), value.clone());
                TrafficError::Setting { node: self.node.name.clone(), name, value, error }
            })?;
        }
        let mut opened = Opened::default();
        for (number, line) in self.lines.iter().enumerate() {
            let flow = &self.job.flows[line.flow];
            if self.job.server(line.flow).is_some() {
                continue;
            }
            let reversed = match &flow.transport {
                TransportPlan::Tcp(tcp) if self.job.opens(line.flow) == End::Destination => {
                    Some(tcp)
                }
                _ => None,
            };
            if flow.application.is_some() {
                self.open_application(&mut opened, flow, line.from)?;
                continue;
            }
            match (flow.to == self.node.name, reversed) {
                (true, None) => self.open_receiver(&mut opened, flow, line.to)?,
                (true, Some(tcp)) => {
                    opened
                        .receivers
                        .push((number, self.open_connecting_receiver(flow, tcp, line.to)?));
                }
                (false, _) => {}
            }
            match (flow.from == self.node.name, reversed) {
                (true, None) => opened.senders.push((number, self.open_sender(flow, *line)?)),
                (true, Some(tcp)) => {
                    let at = SocketAddr::new(line.from.ip(), flow.port);
                    self.listen(&mut opened, flow, tcp, at, End::Source)?;
                }
                (false, _) => {}
            }
        }
        let (mut asks, mut answers) = (false, false);
        for (number, ping) in self.job.pings.iter().enumerate() {
            if self.job.reflector(number).is_some() {
                continue;
            }
            answers |= ping.to == self.node.name;
            if ping.from == self.node.name {
                asks = true;
                opened.probes.push((number, self.open_probe(ping, number)?));
            }
        }
        if asks || answers {
            for v6 in self.families() {
                match self.open_icmp(v6) {
                    Ok(socket) => opened.icmp.push((v6, socket)),
                    Err(error) if self.tolerates(&error) && !asks => opened.missing.push(format!(
                        "DSCPs and ECN fields with which pings arrive at {}: {error}",
                        self.node.name
                    )),
                    Err(error) => return Err(error),
                }
            }
        }
        let mut expected = Vec::new();
        for (number, flow) in self.job.flows.iter().enumerate() {
            let tcp = matches!(flow.transport, TransportPlan::Tcp(_));
            if !tcp || self.job.server(number).is_some() {
                continue;
            }
            // The port of the flow belongs to the end that does not open the connection.
            let forward = self.job.opens(number) == End::Source;
            let ends = [(&flow.to, forward), (&flow.from, !forward)];
            for ((end, to_port), class) in ends.into_iter().zip(flow.usual_classes()) {
                if *end == self.node.name {
                    expected.push(tap::Expected { port: flow.port, to_port, class });
                }
            }
        }
        if !expected.is_empty() {
            match tap::open(&expected).map_err(self.failed("cannot open a packet socket")) {
                Ok(tap) => opened.tap = Some(tap),
                Err(error) if self.tolerates(&error) => opened.missing.push(format!(
                    "DSCPs and ECN fields with which packets of TCP arrive at {}: {error}",
                    self.node.name
                )),
                Err(error) => return Err(error),
            }
        }
        Ok(opened)
    }

    /// Returns whether a live host continues after an error, without a measurement for which it
    /// lacks the privilege.
    fn tolerates(&self, error: &TrafficError) -> bool {
        let TrafficError::Socket { error, .. } = error else { return false };
        self.job.live.is_some() && error.kind() == io::ErrorKind::PermissionDenied
    }

    /// Binds a socket to an address. A live host behind an address translator (NAT) has no
    /// interface with its address, and binds to the unspecified one. An end that opens connections
    /// may have any port.
    fn bind(&self, socket: &Socket, at: SocketAddr, any_port: bool) -> io::Result<()> {
        let any = match at {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let failed = |kind, bound: &io::Result<()>| {
            self.job.live.is_some() && bound.as_ref().is_err_and(|error| error.kind() == kind)
        };
        let (mut at, mut bound) = (at, socket.bind(at));
        if failed(io::ErrorKind::AddrNotAvailable, &bound) {
            at.set_ip(any);
            bound = socket.bind(at);
        }
        if any_port && failed(io::ErrorKind::AddrInUse, &bound) {
            at.set_port(0);
            bound = socket.bind(at);
        }
        bound
    }

    /// Returns the versions of ICMP that pings from or to this host need: true for ICMPv6.
    fn families(&self) -> BTreeSet<bool> {
        let name = &self.node.name;
        let own = self.job.pings.iter().filter(|ping| [&ping.from, &ping.to].contains(&name));
        let version = |ping: &PingPlan| Some(host(self.job, name, ping.ipv6).ok()?.is_ipv6());
        own.filter_map(version).collect()
    }

    /// Opens the socket at which a flow arrives, unless it is open.
    fn open_receiver(
        &self,
        opened: &mut Opened,
        flow: &FlowPlan,
        at: SocketAddr,
    ) -> Result<(), TrafficError> {
        let failed = || self.failed(format!("cannot listen on {at}"));
        match &flow.transport {
            TransportPlan::Tcp(tcp) => {
                self.listen(opened, flow, tcp, at, End::Destination)?;
            }
            TransportPlan::Udp(_) => {
                if opened.datagrams.iter().any(|(address, _)| *address == at) {
                    return Ok(());
                }
                let socket = Socket::like(at, libc::SOCK_DGRAM, 0).map_err(failed())?;
                socket.report_traffic_class(at.ip()).map_err(failed())?;
                socket.stamp_arrivals().map_err(failed())?;
                // Room for bursts; the kernel caps it at its limit.
                socket.set_receive_buffer(8 << 20).map_err(failed())?;
                // If the kernel has it (Linux 5.0).
                let _ = socket.set((libc::SOL_UDP, libc::UDP_GRO), 1);
                self.bind(&socket, at, false).map_err(failed())?;
                opened.datagrams.push((at, socket));
            }
            TransportPlan::Quic(_) => self.listen_for_quic(opened, at)?,
        }
        Ok(())
    }

    fn open_sender(&self, flow: &FlowPlan, line: StreamAddresses) -> Result<Socket, TrafficError> {
        let failed = || self.failed(format!("cannot open a socket to send from {}", line.from));
        let marked = TrafficClass::new(flow.dscp);
        let any_port = flow.source_port.is_none();
        match &flow.transport {
            TransportPlan::Tcp(tcp) => {
                let socket = self.sending(flow, tcp, line.from, failed)?;
                let mut from = line.from;
                if self.job.live.is_some() && any_port {
                    // The kernel remembers the ports of an earlier run for a minute (TIME-WAIT).
                    from.set_port(0);
                }
                self.bind(&socket, from, any_port).map_err(failed())?;
                Ok(socket)
            }
            TransportPlan::Udp(udp) => {
                check_datagrams(&flow.name, udp)?;
                let ecn = udp.ecn.unwrap_or(Ecn::NotEct);
                let socket = Socket::like(line.from, libc::SOCK_DGRAM, 0).map_err(failed())?;
                // A live sender has its port exclusively: the receivers' hellos must reach it.
                if self.job.live.is_none() {
                    socket.set(SOCKET(libc::SO_REUSEADDR), 1).map_err(failed())?;
                }
                socket
                    .set_traffic_class(line.from.ip(), marked.with_ecn(ecn).octet())
                    .map_err(failed())?;
                // The kernel doubles the size (socket(7)).
                socket.set_send_buffer(SEND_BUFFER / 2).map_err(failed())?;
                let opens = self.job.opens(line.flow) == End::Source;
                self.bind(&socket, line.from, opens && any_port).map_err(failed())?;
                // A live sender is connected after its other end has proved that it wants data.
                if self.job.live.is_none() {
                    socket.connect(line.to).map_err(failed())?;
                }
                Ok(socket)
            }
            TransportPlan::Quic(_) => {
                let socket = self.quic_socket(line.from).map_err(failed())?;
                socket.connect(line.to).map_err(failed())?;
                Ok(socket)
            }
        }
    }

    /// Opens the socket that sends the requests of a ping. It receives nothing.
    fn open_probe(&self, ping: &PingPlan, number: usize) -> Result<Socket, TrafficError> {
        let failed = || self.failed("cannot open a raw socket for pings");
        let from = SocketAddr::new(host(self.job, &self.node.name, ping.ipv6)?, 0);
        let v4 = from.is_ipv4();
        let socket = match (ping.udp_port, v4) {
            (Some(_), true) => Socket::like(from, libc::SOCK_RAW, libc::IPPROTO_RAW),
            (Some(_), false) => Socket::like(from, libc::SOCK_DGRAM, 0),
            (None, true) => Socket::like(from, libc::SOCK_RAW, libc::IPPROTO_ICMP),
            (None, false) => Socket::like(from, libc::SOCK_RAW, libc::IPPROTO_ICMPV6),
        };
        let socket = socket.map_err(failed())?;
        if ping.udp_port.is_none() {
            socket.filter_icmp(!v4, &[]).map_err(failed())?;
        }
        socket.set_traffic_class(from.ip(), ping.traffic_class().octet()).map_err(failed())?;
        let port = if ping.udp_port.is_some() && !v4 { probe_port(number) } else { 0 };
        self.bind(&socket, SocketAddr::new(from.ip(), port), false).map_err(failed())?;
        Ok(socket)
    }

    fn open_icmp(&self, v6: bool) -> Result<Socket, TrafficError> {
        let failed = || self.failed("cannot open a raw socket for ICMP");
        let (family, protocol, kinds) = if v6 {
            let kinds = [
                icmpv6::ECHO_REQUEST,
                icmpv6::ECHO_REPLY,
                icmpv6::UNREACHABLE,
                icmpv6::TIME_EXCEEDED,
            ];
            (libc::AF_INET6, libc::IPPROTO_ICMPV6, kinds)
        } else {
            let kinds = [
                icmpv4::ECHO_REQUEST,
                icmpv4::ECHO_REPLY,
                icmpv4::UNREACHABLE,
                icmpv4::TIME_EXCEEDED,
            ];
            (libc::AF_INET, libc::IPPROTO_ICMP, kinds)
        };
        let socket = Socket::new(family, libc::SOCK_RAW, protocol).map_err(failed())?;
        socket.filter_icmp(v6, &kinds).map_err(failed())?;
        let address = host(self.job, &self.node.name, v6)?;
        socket.report_traffic_class(address).map_err(failed())?;
        socket.stamp_arrivals().map_err(failed())?;
        socket.set_receive_buffer(1 << 20).map_err(failed())?;
        self.bind(&socket, SocketAddr::new(address, 0), false).map_err(failed())?;
        Ok(socket)
    }
}

/// Returns the source port of a ping's datagrams.
pub(crate) fn probe_port(ping: usize) -> u16 {
    FIRST_SOURCE_PORT | ping as u16
}

/// Checks that datagrams have room for their sequence number and time stamp.
fn check_datagrams(flow: &str, udp: &UdpPlan) -> Result<(), TrafficError> {
    let header = udp.layer.header();
    let smallest = match (&udp.replay, &udp.extreme) {
        (Some(replay), _) => replay.packets.iter().map(|&(_, size)| size).min().unwrap_or(u16::MAX),
        // Sizes below the location are longer than this by `max` when they are sent.
        (None, Some(extreme)) => (extreme.size[0] / 1000) as u16,
        (None, None) => udp.size,
    };
    let size = usize::from(smallest.saturating_sub(header));
    if size < payload::SIZE {
        let (flow, least) = (flow.to_owned(), payload::SIZE);
        return Err(TrafficError::SmallDatagrams { flow, size, least });
    }
    Ok(())
}
