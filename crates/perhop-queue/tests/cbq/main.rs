//! Class-based queueing as in ALTQ: its deficiencies by mechanism, and its invariants.

mod lab;
mod mechanisms;
mod properties;
mod reference;
