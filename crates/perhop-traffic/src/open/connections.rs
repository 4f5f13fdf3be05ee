//! Sockets of TCP connections, for both ends that may open them.

use std::fs;
use std::io;
use std::net::SocketAddr;

use perhop_core::TrafficClass;
use perhop_workload::{FlowPlan, TcpPlan};

use super::{Host, Opened, SOCKET};
use crate::error::TrafficError;
use crate::job::linux_name;
use crate::live::End;
use crate::tcp::LEAST_UNSENT;
use perhop_socket::{Level, Socket};

// linux/tcp.h; some versions of the libc crate lack it.
const TCP_RTO_MIN_US: libc::c_int = 45;
const TCP_DELACK_MAX_US: libc::c_int = 46;

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
