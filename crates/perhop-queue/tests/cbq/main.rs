//! Class-based queueing as in ALTQ: its deficiencies by mechanism, and its invariants.

mod lab;
mod mechanisms;
#[path = "../../src/lab.rs"]
mod packets;
mod properties;
mod reference;
