//! The `sim` engine against theory, through plans as the scenario compiler writes them.

mod allocations;
mod hostile;
mod lab;
mod pings;
mod queues;
mod random;
mod tables;
mod tcp;
