//! iperf3, both ways: a server for its clients, many at a time, which measures what iperf3 does not
//! say; and a client for its servers.
//!
//! * `server` accepts connections and gives each test a thread; `test` runs one; `stream` carries
//!   data; `meter` measures received datagrams; `pace` says when a stream is due.
//! * `control` is the server's end of a control connection as a state machine; `message` and
//!   `datagram` are what goes over the network; `limits` admits tests.
//! * `record` is what is kept of a test.
//! * `client` drives a server of iperf3's own, or of ours.

mod client;
mod command;
mod control;
mod datagram;
mod limits;
mod message;
mod meter;
mod output;
mod pace;
mod record;
mod server;
mod setup;
mod stream;
mod test;

pub use client::{ClientError, Outcome, StreamOutcome, drive};
pub(crate) use command::{command, settings};
pub use limits::Limits;
pub use message::{Parameters, Results, StreamResult};
pub use record::{Counts, FORMAT, Interval, Record, StreamRecord};
pub use server::{Server, Settings};
