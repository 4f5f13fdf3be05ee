//! Options of the sockets of a test.

use std::fs;
use std::net::SocketAddr;

use perhop_socket::Socket;

use super::limits::Plan;
use super::message::Parameters;

/// Default receive buffer for datagrams, in bytes.
const RECEIVE_BUFFER: u32 = 4 << 20;
/// Maximum length of the name of a congestion control (`TCP_CA_NAME_MAX`).
const NAME: usize = 16;

/// Enables keep-alive probes, so that the kernel notices within seconds that the client is
/// unreachable.
pub(crate) fn keep_alive(socket: &Socket) {
    let tcp = |option| (libc::IPPROTO_TCP, option);
    let options = [
        ((libc::SOL_SOCKET, libc::SO_KEEPALIVE), 1),
        (tcp(libc::TCP_KEEPIDLE), 1),
        (tcp(libc::TCP_KEEPINTVL), 1),
        (tcp(libc::TCP_KEEPCNT), 3),
        (tcp(libc::TCP_USER_TIMEOUT), 4_000),
        (tcp(libc::TCP_NODELAY), 1),
    ];
    for (option, value) in options {
        // Without them, a vanished client is noticed at the end of its test.
        let _ = socket.set(option, value);
    }
}

/// Sets the options that the client requested. The maximum segment size is not set, because the
/// client announces it.
pub(crate) fn prepare(socket: &Socket, peer: SocketAddr, plan: &Plan, asked: &Parameters) {
    let _ = socket.set_traffic_class(peer.ip(), plan.tos);
    if let Some(window) = plan.window {
        // Not beyond the limit for users.
        for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
            let _ = socket.set((libc::SOL_SOCKET, option), window as libc::c_int);
        }
    } else if plan.udp {
        let _ = socket.set_receive_buffer(RECEIVE_BUFFER);
    }
    if plan.udp {
        return;
    }
    if asked.nodelay {
        let _ = socket.set((libc::IPPROTO_TCP, libc::TCP_NODELAY), 1);
    }
    // Only loaded congestion controls: another name makes the kernel load a module.
    let known = || fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if let Some(name) = &asked.congestion
        && known().is_ok_and(|known| known.split_whitespace().any(|each| each == name))
    {
        let _ = socket.set_bytes((libc::IPPROTO_TCP, libc::TCP_CONGESTION), name.as_bytes());
    }
}

/// Returns the congestion control of a connection.
pub(crate) fn congestion(socket: &Socket) -> Option<String> {
    let mut name = [0; NAME];
    socket.get_bytes((libc::IPPROTO_TCP, libc::TCP_CONGESTION), &mut name).ok()?;
    let name: Vec<u8> = name.into_iter().take_while(|&byte| byte != 0).collect();
    String::from_utf8(name).ok().filter(|name| !name.is_empty())
}
