//! iperf3: a server that serves many clients at the same time and measures more than iperf3
//! reports; and a client for its servers.
//!
//! * `server` accepts connections and starts a thread for each test; `test` runs one; `stream`
//!   carries data; `meter` measures received datagrams; `pace` computes when a stream is due.
//! * `control` is the server's end of a control connection as a state machine; `message` and
//!   `datagram` are the formats on the wire; `limits` admits tests.
//! * `record` is the file format of a test's measurements.
//! * `client` drives a server of iperf3's own, or of ours.

mod client;
mod command;
mod control;
mod datagram;
mod limits;
mod message;
mod meter;
mod observer;
mod output;
mod pace;
mod record;
mod server;
mod setup;
mod stream;
mod test;

pub(crate) use client::{Client, Watch};
pub use client::{ClientError, Outcome, StreamOutcome, drive};
pub(crate) use command::{command, settings};
pub use limits::Limits;
pub use message::{Parameters, Results, StreamResult};
pub(crate) use meter::Meter;
pub use record::{Counts, FORMAT, Interval, Record, StreamRecord};
pub use server::{Server, Settings};
pub(crate) use stream::{Room, Stream};
