//! A controller: it has agents do their parts of a run, and collects what they measure.

mod error;
mod peer;

pub use error::LiveError;
pub use peer::Peer;
