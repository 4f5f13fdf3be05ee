//! HTB: tables, and a second implementation.

mod lab;
#[path = "../../src/lab.rs"]
mod packets;
mod reference;
mod tables;
