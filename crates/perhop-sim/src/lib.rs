//! The `sim` engine: modelled hosts on perhop's network, in virtual time.
//!
//! A [`Plan`] is a scenario with every name and unit resolved; a [`Simulation`] runs it, in slices
//! as long as the caller likes, and keeps [tables](perhop_measure::Table) of what was measured. The
//! same plan and seed give the same tables, however it is sliced.

mod build;
mod capture;
mod hosts;
mod plan;
mod simulation;

pub use perhop_plan::BuildError;
pub use plan::*;
pub use simulation::Simulation;
