//! A socket with its connections.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;

use perhop_core::TrafficClass;
use perhop_socket::Socket;
use quinn_proto::{ConnectionHandle, Endpoint};

use super::link::Link;
use crate::shared::StreamId;

/// A datagram that waits for room in its socket.
#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    to: SocketAddr,
    class: TrafficClass,
}

/// A socket with its connections: one that it opens, or all that it accepts.
#[derive(Debug)]
pub(super) struct End {
    pub socket: Socket,
    pub at: SocketAddr,
    /// The stream whose connection it opens, and the address of the other end.
    pub opens: Option<(StreamId, SocketAddr)>,
    pub endpoint: Endpoint,
    pub links: BTreeMap<ConnectionHandle, Link>,
    waiting: VecDeque<Waiting>,
}

impl End {
    pub fn new(
        socket: Socket,
        at: SocketAddr,
        opens: Option<(StreamId, SocketAddr)>,
        endpoint: Endpoint,
    ) -> Self {
        Self { socket, at, opens, endpoint, links: BTreeMap::new(), waiting: VecDeque::new() }
    }

    /// Returns true if datagrams wait.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends a datagram, or keeps it if the socket is full. Others that cannot be sent are lost, as
    /// on any link.
    pub fn send(&mut self, bytes: &[u8], to: SocketAddr, class: TrafficClass) {
        let sent = self.socket.send_from(bytes, None, to, class.octet());
        if sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.waiting.push_back(Waiting { bytes: bytes.to_vec(), to, class });
        }
    }

    /// Sends the datagrams that wait, as far as there is room.
    pub fn send_waiting(&mut self) {
        for Waiting { bytes, to, class } in std::mem::take(&mut self.waiting) {
            self.send(&bytes, to, class);
        }
    }
}
