//! The program on a live host: it sends and receives its side of a scenario's traffic for a
//! controller that it allows, and answers standard measurement tools.

mod command;

pub use command::main;
