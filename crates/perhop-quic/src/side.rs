//! Handshake of an end of a connection: as the client that opens it, or as its server.

use perhop_core::{Duration, Time};

use crate::handshake::{ClientHandshake, ServerHandshake};
use crate::{Flight, RttEstimator};

/// Side of a connection.
#[derive(Clone, Debug)]
pub enum Side {
    /// It opens the connection.
    Client(ClientHandshake),
    /// It accepts the connection.
    Server(ServerHandshake),
}

impl Side {
    /// Begins, as the client.
    pub fn start(&mut self) {
        if let Self::Client(client) = self {
            client.start();
        }
    }

    /// Returns `true` if 1-RTT packets can be sent.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Client(client) => client.is_complete(),
            Self::Server(server) => server.is_complete(),
        }
    }

    /// Returns `true` if the handshake is confirmed (RFC 9001, section 4.1.2).
    pub fn is_confirmed(&self) -> bool {
        match self {
            Self::Client(client) => client.is_confirmed(),
            Self::Server(server) => server.is_complete(),
        }
    }

    /// Returns `true` if 1-RTT packets can be read. A server keeps those that arrive before the
    /// client's Finished (RFC 9001, section 5.7).
    pub fn can_read(&self) -> bool {
        match self {
            Self::Client(client) => client.is_complete(),
            Self::Server(_) => true,
        }
    }

    /// Confirms the handshake: the client has HANDSHAKE_DONE or an acknowledgement.
    pub fn confirm(&mut self) {
        if let Self::Client(client) = self {
            client.confirm();
        }
    }

    /// Takes a datagram with its number and its length. Returns a sample of the round-trip time.
    pub fn on_flight(
        &mut self,
        now: Time,
        flight: Flight,
        (number, length): (u64, u16),
    ) -> Option<Duration> {
        match self {
            Self::Client(client) => client.on_flight(now, flight, number),
            Self::Server(server) => server.on_flight(now, flight, number, length),
        }
    }

    /// Returns the next datagram with its number and its length.
    pub fn poll(&mut self, now: Time, rtt: &RttEstimator) -> Option<(Flight, u64, u16)> {
        match self {
            Self::Client(client) => client.poll(now, rtt),
            Self::Server(server) => server.poll(now, rtt),
        }
    }

    /// Returns when [`on_timer`](Self::on_timer) is due.
    pub fn deadline(&self) -> Time {
        match self {
            Self::Client(client) => client.deadline(),
            Self::Server(server) => server.deadline(),
        }
    }

    /// Handles a timeout.
    pub fn on_timer(&mut self, now: Time) {
        match self {
            Self::Client(client) => client.on_timer(now),
            Self::Server(server) => server.on_timer(now),
        }
    }
}
