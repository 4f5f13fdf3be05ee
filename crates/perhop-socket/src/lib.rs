//! Sockets and clocks of Linux: batches of datagrams, their marks and time stamps, TCP's state, and
//! waiting for many sockets at once.
//!
//! System calls are nix's and socket2's where they have them; the others are in `raw`, the one
//! module with `unsafe` code.

mod batch;
mod clock;
mod epoll;
mod raw;
mod socket;
mod tcp_info;

pub use batch::{Batch, Control, Datagram, Train};
pub use clock::{
    ClockQuality, Nanos, be_prompt, clock_quality, monotonic, put_clock_off, realtime, sleep_until,
    unlimit_files,
};
pub use epoll::{Epoll, Event, Interest};
pub use socket::{Level, Socket};
pub use tcp_info::TcpInfo;
