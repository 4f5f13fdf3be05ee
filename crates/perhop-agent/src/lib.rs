//! The agent, a program on a host of a live network. It sends and receives the host's part of a
//! scenario's traffic for allowed controllers, and answers standard measurement tools.

mod channel;
mod command;
mod controller;
mod frames;
pub mod iperf3;
mod key;
mod limits;
mod options;
mod path;
mod serve;
mod session;
pub mod stamp;
mod tls;

pub use command::main;
pub use controller::{AgentFacts, Live, LiveError, Peer};
pub use frames::{ErrorCode, Reply, Request, Status};
pub use key::{Identity, KeyError, PublicKey, default_file, open as open_identity};
pub use limits::Limits;
pub use serve::{ServeError, Server, Settings};
