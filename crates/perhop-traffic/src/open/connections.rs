//! Sockets of TCP connections, for both ends that may open them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use nix::sched::{CloneFlags, setns};
use perhop_core::TrafficClass;
use perhop_workload::{FlowPlan, TcpPlan, TransportPlan, WorkloadError};

use super::{Host, Opened, SOCKET};
use crate::error::TrafficError;
use crate::job::{Job, linux_name};
use crate::live::End;
use crate::tcp::LEAST_UNSENT;
use perhop_socket::{Level, Socket};

// linux/tcp.h; some versions of the libc crate lack it.
const TCP_RTO_MIN_US: libc::c_int = 45;
const TCP_DELACK_MAX_US: libc::c_int = 46;

/// Network namespace of the calling thread (proc(5)).
const NAMESPACE: &str = "/proc/thread-self/ns/net";

/// Connections of clients that may wait to be accepted; the kernel has a limit of its own.
const BACKLOG: i32 = 4096;

const TCP: fn(libc::c_int) -> Level = |option| (libc::IPPROTO_TCP, option);

impl Host<'_> {
    /// Opens a socket that connects to the sender of a flow, and receives.
    pub(super) fn open_connecting_receiver(
        &self,
        flow: &FlowPlan,
        tcp: &TcpPlan,
        at: SocketAddr,
    ) -> Result<Socket, TrafficError> {
        let failed = || self.failed(format!("cannot open a socket to receive at {}", at.ip()));
        let socket = self.receiving(flow, tcp, at, failed)?;
        self.bind(&socket, SocketAddr::new(at.ip(), 0), true).map_err(failed())?;
        Ok(socket)
    }

    /// Opens the socket at which one end of a flow accepts connections of the other, unless it is
    /// open.
    pub(super) fn listen(
        &self,
        opened: &mut Opened,
        flow: &FlowPlan,
        tcp: &TcpPlan,
        at: SocketAddr,
        end: End,
    ) -> Result<(), TrafficError> {
        let failed = || self.failed(format!("cannot listen on {at}"));
        if opened.listeners.iter().any(|(address, _)| *address == at) {
            return Ok(());
        }
        let socket = match end {
            End::Source => self.sending(flow, tcp, at, failed)?,
            End::Destination => self.receiving(flow, tcp, at, failed)?,
        };
        self.bind(&socket, at, false).map_err(failed())?;
        socket.listen(i32::from(flow.streams).max(128)).map_err(failed())?;
        opened.listeners.push((at, socket));
        Ok(())
    }

    /// Opens what an application needs in this host before it runs: the socket of its server, and
    /// the namespace of its clients.
    pub(super) fn open_application(
        &self,
        opened: &mut Opened,
        flow: &FlowPlan,
        at: SocketAddr,
    ) -> Result<(), TrafficError> {
        if flow.to == self.node.name && opened.namespace.is_none() {
            let failed = self.failed("cannot open its network namespace");
            opened.namespace = Some(Arc::new(File::open(NAMESPACE).map_err(failed)?));
        }
        let taken = opened.servers.iter().any(|(address, _)| *address == at);
        if flow.from != self.node.name {
            return Ok(());
        }
        if let TransportPlan::Quic(_) = flow.transport {
            return self.listen_for_quic(opened, at);
        }
        if !taken {
            let failed = || self.failed(format!("cannot listen on {at}"));
            let socket = self.both(flow, at, failed)?;
            socket.listen(BACKLOG).map_err(failed())?;
            opened.servers.push((at, socket));
        }
        Ok(())
    }

    /// Returns a socket bound to an address, for connections with data in both directions.
    fn both<F: FnOnce(io::Error) -> TrafficError>(
        &self,
        flow: &FlowPlan,
        at: SocketAddr,
        failed: impl Fn() -> F,
    ) -> Result<Socket, TrafficError> {
        let TransportPlan::Tcp(tcp) = &flow.transport else {
            return Err(WorkloadError::NoConnections(flow.name.clone()).into());
        };
        let socket = self.sending(flow, tcp, at, &failed)?;
        set_receive_window(&socket, tcp).map_err(failed())?;
        // As for modelled hosts: what was written does not wait for acknowledgements, and a server
        // has little unsent data only if it interleaves responses.
        socket.set(TCP(libc::TCP_NODELAY), 1).map_err(failed())?;
        socket.set(TCP(libc::TCP_NOTSENT_LOWAT), 0).map_err(failed())?;
        self.bind(&socket, at, false).map_err(failed())?;
        Ok(socket)
    }

    /// Returns a socket for connections that receive.
    pub(super) fn receiving<F: FnOnce(io::Error) -> TrafficError>(
        &self,
        flow: &FlowPlan,
        tcp: &TcpPlan,
        at: SocketAddr,
        failed: impl Fn() -> F,
    ) -> Result<Socket, TrafficError> {
        let socket = self.connection(flow, tcp, at, failed())?;
        set_receive_window(&socket, tcp).map_err(failed())?;
        Ok(socket)
    }

    /// Returns a socket for connections that send.
    pub(super) fn sending<F: FnOnce(io::Error) -> TrafficError>(
        &self,
        flow: &FlowPlan,
        tcp: &TcpPlan,
        from: SocketAddr,
        failed: impl Fn() -> F,
    ) -> Result<Socket, TrafficError> {
        let socket = self.connection(flow, tcp, from, failed())?;
        // The receiver's window limits the data in flight; the buffer holds twice as much.
        if !tcp.autotuning {
            let buffer = window(tcp).saturating_mul(2).max(256 << 10);
            socket.set_send_buffer(buffer).map_err(failed())?;
        }
        let least = LEAST_UNSENT as libc::c_int;
        socket.set(TCP(libc::TCP_NOTSENT_LOWAT), least).map_err(failed())?;
        Ok(socket)
    }

    /// Returns a socket with the settings of both ends of a connection.
    fn connection(
        &self,
        flow: &FlowPlan,
        tcp: &TcpPlan,
        at: SocketAddr,
        failed: impl FnOnce(io::Error) -> TrafficError,
    ) -> Result<Socket, TrafficError> {
        let class = TrafficClass::new(flow.dscp).octet();
        let marked = Socket::like(at, libc::SOCK_STREAM, 0).and_then(|socket| {
            socket.set(SOCKET(libc::SO_REUSEADDR), 1)?;
            socket.set_traffic_class(at.ip(), class)?;
            Ok(socket)
        });
        let socket = marked.map_err(failed)?;
        self.set_tcp(&socket, &flow.name, tcp)?;
        Ok(socket)
    }

    /// Sets the TCP options of both ends of a connection.
    pub(super) fn set_tcp(
        &self,
        socket: &Socket,
        flow: &str,
        tcp: &TcpPlan,
    ) -> Result<(), TrafficError> {
        let refused = |what| {
            let flow = flow.to_owned();
            move |error| TrafficError::Refused { flow, what, error }
        };
        let name = linux_name(tcp.congestion_control);
        let set = socket.set_bytes(TCP(libc::TCP_CONGESTION), name.as_bytes());
        set.map_err(|error| {
            let flow = flow.to_owned();
            match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    let allowed = congestion_controls("allowed");
                    TrafficError::ForbiddenCongestionControl { flow, name, allowed }
                }
                _ => {
                    let available = congestion_controls("available");
                    TrafficError::NoCongestionControl { flow, name, available }
                }
            }
        })?;
        // The maximum segment size does not include TCP options (RFC 9293, section 3.7.1).
        let options = if tcp.timestamps { 12 } else { 0 };
        let mss = libc::c_int::from(tcp.mss) + options;
        socket.set(TCP(libc::TCP_MAXSEG), mss).map_err(refused("a segment size"))?;
        if tcp.min_rto != self.job.timers.min_rto {
            let micros = (tcp.min_rto.as_picos() / 1_000_000).max(1) as libc::c_int;
            socket.set(TCP(TCP_RTO_MIN_US), micros).map_err(refused("min_rto"))?;
        }
        if tcp.delayed_ack != self.job.timers.delayed_ack {
            let micros = (tcp.delayed_ack.as_picos() / 1_000_000).max(1) as libc::c_int;
            socket.set(TCP(TCP_DELACK_MAX_US), micros).map_err(refused("delayed_ack"))?;
        }
        if tcp.pacing {
            // Any limit makes TCP pace its segments, here at its own rate.
            let most = u64::MAX / 2;
            let set = socket.set_bytes(SOCKET(libc::SO_MAX_PACING_RATE), &most.to_ne_bytes());
            set.map_err(refused("pacing"))?;
        }
        Ok(())
    }
}

/// Opens sockets of clients while the job runs.
#[derive(Debug)]
pub(crate) struct ClientSockets {
    job: Job,
    /// Network namespaces of hosts with clients, by number of the node.
    namespaces: BTreeMap<u16, Arc<File>>,
    /// Namespace of the calling thread, by its inode.
    current: Option<u64>,
}

impl ClientSockets {
    pub fn new(job: &Job, opened: &BTreeMap<u16, Opened>) -> Self {
        let namespaces = opened.iter();
        let namespaces = namespaces.filter_map(|(at, host)| Some((*at, host.namespace.clone()?)));
        Self { job: job.clone(), namespaces: namespaces.collect(), current: None }
    }

    /// Opens the socket of a client of a flow, bound to an address. The calling thread, always the
    /// same one, stays in the namespace of the client's host.
    pub fn open(&mut self, flow: usize, at: SocketAddr) -> Result<Socket, TrafficError> {
        let flow = &self.job.flows[flow];
        let node = self.job.node(&flow.to)?;
        let host = Host { job: &self.job, lines: &[], node };
        let failed = || host.failed(format!("cannot open a socket of {} at {at}", flow.name));
        let namespace = self.namespaces.get(&self.job.number(&flow.to)?);
        if let Some(namespace) = namespace {
            let wanted = inode(namespace).map_err(failed())?;
            let current = match self.current {
                Some(current) => current,
                None => File::open(NAMESPACE).and_then(|own| inode(&own)).map_err(failed())?,
            };
            if current != wanted {
                setns(namespace, CloneFlags::CLONE_NEWNET)
                    .map_err(|error| failed()(error.into()))?;
            }
            self.current = Some(wanted);
        }
        match flow.transport {
            TransportPlan::Quic(_) => host.quic_socket(at).map_err(failed()),
            _ => host.both(flow, at, failed),
        }
    }
}

fn inode(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.ino())
}

/// The window of a connection that Linux tunes automatically.
const AUTOTUNED: u32 = u32::MAX;

/// Returns the bytes that a connection may have in flight: the smaller of its two windows.
pub(crate) fn window(tcp: &TcpPlan) -> u32 {
    if tcp.autotuning { AUTOTUNED } else { tcp.send_window.min(tcp.receive_window) }
}

/// Limits the offered window of a receiver. Its buffer, which the kernel makes twice as large as
/// requested, holds the window and the overhead of packets.
fn set_receive_window(socket: &Socket, tcp: &TcpPlan) -> io::Result<()> {
    if tcp.autotuning {
        return Ok(());
    }
    let buffer = window(tcp).clamp(4096, 1 << 30);
    socket.set_receive_buffer(buffer)?;
    clamp_window(socket, window(tcp));
    Ok(())
}

/// Limits the offered window of a receiver from now on. Linux discards the limit when it measures
/// the memory overhead of the first packets of a connection (`tcp_measure_rcv_mss`), so that the
/// limit must be set again.
pub(crate) fn clamp_window(socket: &Socket, window: u32) {
    if window == AUTOTUNED {
        return;
    }
    let window = libc::c_int::try_from(window).unwrap_or(libc::c_int::MAX);
    let _ = socket.set(TCP(libc::TCP_WINDOW_CLAMP), window);
}

/// Returns the names of the congestion controls that are `available` or `allowed` to all users.
fn congestion_controls(kind: &str) -> String {
    let names = fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{kind}_congestion_control"));
    match names {
        Ok(names) => names.split_whitespace().collect::<Vec<_>>().join(", "),
        // Such as in a root folder without /proc.
        Err(_) => "an unknown list".to_owned(),
    }
}
