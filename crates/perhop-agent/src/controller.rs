//! A controller: it has agents do their parts of a run, and collects what they measure.

mod agents;
mod clocks;
mod error;
mod gather;
mod live;
mod peer;

pub use error::LiveError;
#[cfg(test)]
pub(crate) use live::compare_clocks;
pub use live::{AgentFacts, Live};
pub use peer::Peer;
