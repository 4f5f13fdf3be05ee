//! Class-based queueing as ALTQ has it: its faults by mechanism, and what holds in spite of them.

mod lab;
mod mechanisms;
mod properties;
