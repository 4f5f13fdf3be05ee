//! Applications as pure state machines: no clock, no sockets, no contents.
//!
//! A [`Client`] decides when connections open and what is requested over them. Its driver passes
//! [`Event`]s to it, calls it when its deadline has come, and carries out its [`Action`]s. The
//! server is the same for all kinds: a [`Responder`] per connection answers a [`Request`] with as
//! many bytes as it asks for. Bytes have no contents: modelled connections carry only their number
//! ([`Frames`]); real ones carry the headers of [`wire`].

mod action;
mod build;
mod client;
mod exchanges;
mod frames;
mod plan;
mod pool;
mod random;
mod responder;
mod video;
mod web;
pub mod wire;

pub use action::{Action, Event, Record, RecordKind, Request};
pub use build::AppError;
pub use client::Client;
pub use frames::{Frame, Frames};
pub use plan::*;
pub use responder::Responder;
