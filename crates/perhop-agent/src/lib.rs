//! The program on a live host: it sends and receives its side of a scenario's traffic for a
//! controller that it allows, and answers standard measurement tools.

mod command;
mod key;
pub mod options;

pub use command::main;
pub use key::{Identity, KeyError, PublicKey, default_file};
