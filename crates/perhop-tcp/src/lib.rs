//! TCP as pure state machines: no clock, no sockets, no allocation per segment.
//!
//! A [`Sender`] opens a connection, sends its application's data and recovers lost data; a
//! [`Receiver`] accepts the connection, reorders the data and acknowledges it. Their driver carries
//! their [`Segment`]s and calls them when their timers expire. Both follow the RFCs named in their
//! modules.
//!
//! Positions in the stream have 64 bits; segments carry the 32 bits of the protocol ([`Seq`]).

mod congestion;
mod delivery;
mod ecn;
mod handshake;
mod receiver;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod timestamps;

pub use congestion::{
    Acked, Congestion, CubicConfig, DecreaseFrom, Delivered, HyStartKind, Marked, PathModel, Window,
};
pub use delivery::{DeliveredPacket, Deliveries, LostSegment, RateSample, Snapshot};
pub use ecn::EcnMode;
pub use handshake::{Handshake, window_shift};
pub use receiver::{Receiver, ReceiverConfig, autotuned_shift};
pub use rtt::{RtoRule, RttEstimator};
pub use segment::{Flags, SackBlocks, Segment, Seq};
pub use sender::{LossDetection, Sender, SenderConfig, TcpInfo};

/// Header bytes of a TCP segment over IPv4 without options.
pub const HEADER_BYTES: u32 = 40;

/// Bytes of a TCP header without options.
pub const TCP_HEADER_BYTES: u32 = 20;

/// Length of the timestamp option with padding, in bytes (RFC 7323, appendix A).
pub const TIMESTAMP_BYTES: u32 = 12;

/// A position in the stream: the SYN is byte 0, the data follows, the FIN comes last.
pub type Offset = u64;
