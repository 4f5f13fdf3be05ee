//! Sockets of QUIC connections.

use std::io;
use std::net::SocketAddr;

use perhop_socket::Socket;
use perhop_workload::SEND_BUFFER;

use super::{Host, Opened, SOCKET};
use crate::error::TrafficError;

impl Host<'_> {
    /// Opens the socket at which connections of QUIC arrive, unless it is open.
    pub(super) fn listen_for_quic(
        &self,
        opened: &mut Opened,
        at: SocketAddr,
    ) -> Result<(), TrafficError> {
        if opened.quic.iter().all(|(address, _)| *address != at) {
            let failed = self.failed(format!("cannot listen on {at}"));
            opened.quic.push((at, self.quic_socket(at).map_err(failed)?));
        }
        Ok(())
    }

    /// Returns a socket bound to an address for an end of QUIC connections. Packets have their DSCP
    /// and ECN field when they are sent, and are never fragmented: probes find the path's MTU (RFC
    /// 9000, section 14).
    pub(super) fn quic_socket(&self, at: SocketAddr) -> io::Result<Socket> {
        let socket = Socket::like(at, libc::SOCK_DGRAM, 0)?;
        socket.set(SOCKET(libc::SO_REUSEADDR), 1)?;
        socket.report_traffic_class(at.ip())?;
        match at {
            SocketAddr::V4(_) => {
                socket.set((libc::IPPROTO_IP, libc::IP_MTU_DISCOVER), libc::IP_PMTUDISC_PROBE)?;
            }
            SocketAddr::V6(_) => {
                let option = (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER);
                socket.set(option, libc::IPV6_PMTUDISC_PROBE)?;
            }
        }
        // The kernel doubles the size (socket(7)).
        socket.set_send_buffer(SEND_BUFFER / 2)?;
        // Room for bursts; the kernel caps it at its limit.
        socket.set_receive_buffer(8 << 20)?;
        self.bind(&socket, at, false)?;
        Ok(socket)
    }
}
