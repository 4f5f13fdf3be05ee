//! System calls, as far as they are not in the standard library: nix's and socket2's where they
//! have them, the others in `raw`, the one module with `unsafe` code.

mod batch;
mod clock;
mod epoll;
mod raw;
mod socket;
mod tcp_info;

pub(crate) use batch::{Batch, Control, Datagram, Train};
pub(crate) use clock::{Nanos, be_prompt, monotonic, realtime, sleep_until, unlimit_files};
pub(crate) use epoll::{Epoll, Event, Interest};
pub(crate) use socket::{Level, Socket};
pub(crate) use tcp_info::TcpInfo;
