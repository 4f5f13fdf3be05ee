//! The network of a scenario, for every engine that carries packets itself.
//!
//! A [`NetworkPlan`] has every name and unit resolved; [`NetworkPlan::network`] makes of it what
//! packets of any body move through, and [`NetworkPlan::timeline`] what changes on the way.

mod aqm;
mod build;
mod cbq;
mod changes;
mod network;

pub use aqm::{CodelPlan, DualPi2Plan, FqCodelPlan, PiePlan, RedPlan, RedProfilePlan};
pub use build::BuildError;
pub use cbq::{CbqClassPlan, CbqLeafPlan, CbqPartPlan, CbqPlan};
pub use changes::{Effect, Timeline};
pub use network::*;
