//! System calls, as far as they are not in the standard library: the one module with `unsafe` code.
//! What it offers is safe to call with anything.

mod address;
mod batch;
mod clock;
mod epoll;
mod memory;
mod socket;
mod tcp_info;

pub(crate) use address::SocketAddress;
pub(crate) use batch::{Batch, Control, Datagram, Train};
pub(crate) use clock::{Nanos, be_prompt, monotonic, realtime, sleep_until, unlimit_files};
pub(crate) use epoll::{Epoll, Event, Interest};
pub(crate) use memory::memory_file;
pub(crate) use socket::{Level, Socket};
pub(crate) use tcp_info::TcpInfo;
