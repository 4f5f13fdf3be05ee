//! QUIC as pure state machines: no clock and no sockets.
//!
//! A [`Sender`] opens a connection (RFC 9001) and sends the data of its streams (RFC 9000); a
//! [`Receiver`] accepts the connection and acknowledges the data. Between two senders, one of which
//! is the server, data flows in both directions. Loss detection and recovery follow RFC 9002.
//! Congestion controls are those of `perhop-tcp`. Their driver carries their [`Packet`]s and calls
//! them when their timers expire.
//!
//! Packets have frames instead of bytes. Their sizes are those on the wire ([`sizes`]).

mod acknowledger;
mod controller;
mod discovery;
mod flow_control;
mod handshake;
mod inbound;
mod pacer;
mod packet;
mod ranges;
mod receiver;
mod recovery;
mod rtt;
mod sender;
mod side;
pub mod sizes;

pub use acknowledger::{AckFrequency, Acknowledger, MAX_ACK_DELAY};
pub use controller::{Controller, initial_window};
pub use discovery::Discovery;
pub use handshake::Flight;
pub use inbound::{Delivered, Received};
pub use packet::{Ack, Frames, Kind, Packet, StreamFrame};
pub use ranges::Ranges;
pub use receiver::{Receiver, ReceiverConfig};
pub use recovery::{Recovery, SentPacket};
pub use rtt::{GRANULARITY, RttEstimator};
pub use sender::{Sender, SenderConfig};
