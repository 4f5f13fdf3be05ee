//! The `sim` engine: modelled hosts on perhop's network, in virtual time.
//!
//! A [`Plan`] is a scenario with every unit resolved. A [`Simulation`] runs it, in slices of any
//! length, and keeps [tables](perhop_measure::Table) of measurements. The same plan and seed give
//! the same tables, whatever the slices.

mod build;
mod capture;
mod ends;
mod hosts;
mod parts;
mod plan;
mod simulation;

pub use parts::Whole;
pub use perhop_plan::BuildError;
pub use plan::*;
pub use simulation::Simulation;
