//! H-FSC: what the paper guarantees, through a link.

mod lab;
mod properties;
mod reference;
mod theory;
