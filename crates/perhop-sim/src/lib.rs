//! The `sim` engine: modelled hosts on perhop's network, in virtual time.
//!
//! A [`Plan`] is a scenario with every name and unit resolved; a [`Simulation`] runs it, in slices
//! as long as the caller likes, and keeps [tables](Table) of what was measured. The same plan and
//! seed give the same tables, however it is sliced.

mod aqm;
mod build;
mod capture;
mod cbq;
mod changes;
mod density;
mod histogram;
mod hosts;
mod jitter;
mod measure;
mod order;
mod plan;
mod simulation;

pub use aqm::{CodelPlan, DualPi2Plan, FqCodelPlan, PiePlan, RedPlan, RedProfilePlan};
pub use build::BuildError;
pub use capture::{CapturePlan, InterfacePlan, Sink};
pub use cbq::{CbqClassPlan, CbqLeafPlan, CbqPartPlan, CbqPlan};
pub use measure::{Column, Table};
pub use plan::*;
pub use simulation::Simulation;
