//! The `sim` engine against theory, through plans as the scenario compiler writes them.

mod allocations;
mod lab;
mod pings;
mod queues;
mod tables;
mod tcp;
