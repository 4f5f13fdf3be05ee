//! Sockets and clocks of Linux: batches of datagrams with DSCP, ECN and time stamps, the state of
//! TCP connections, and readiness of many sockets.
//!
//! System calls use nix and socket2 where these support them. The others are in `raw`, the only
//! module with `unsafe` code.

mod batch;
mod clock;
mod epoll;
mod raw;
mod socket;
mod tcp_info;

pub use batch::{Batch, Control, Datagram, Train};
pub use clock::{
    ClockQuality, Nanos, SimulatedClock, clock_quality, monotonic, realtime, reduce_wakeup_latency,
    simulate_clock_error, sleep_until, unlimit_files,
};
pub use epoll::{Epoll, Event, Interest};
pub use raw::random_bytes;
pub use socket::{Level, Socket};
pub use tcp_info::TcpInfo;
