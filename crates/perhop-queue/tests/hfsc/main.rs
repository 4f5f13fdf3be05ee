//! H-FSC: what the paper guarantees, through a link.

mod lab;
#[path = "../../src/lab.rs"]
mod packets;
mod properties;
mod reference;
mod theory;
