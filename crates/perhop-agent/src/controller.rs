//! A controller: it has agents do their parts of a run, and collects what they measure.

mod agents;
mod clocks;
mod compare;
mod error;
mod gather;
mod live;
mod peer;

#[cfg(test)]
pub(crate) use compare::compare_clocks;
pub use error::LiveError;
pub use live::{AgentFacts, Live};
pub use peer::Peer;
