//! STAMP (RFC 8762, RFC 8972): a session-sender and a session-reflector, which also work with TWAMP
//! Light, and the measurement of the clocks of other agents with both.
//!
//! `packet` and `sessions` compute replies without sockets; `reflector` and `sender` own the
//! sockets.

mod command;
mod key;
mod limits;
mod packet;
mod pair;
mod peer;
mod reflector;
mod sender;
mod sessions;
mod summary;
mod text;

pub(crate) use command::{
    CLOCK_DRIFT, CLOCK_OFFSET, CLOCK_STATED, clock_options, command, reflectors,
};
pub use key::{Key, KeyFileError};
pub use pair::{ClockPair, StatedErrors};
pub use peer::PeerClock;
pub use reflector::{Counts, Reflector, ReflectorSettings};
pub use sender::{Answer, Sender, SenderSettings};
pub use summary::{Clock, Delays, Direction, Summary};
pub(crate) use text::ecn_name;

#[cfg(test)]
mod tests;
