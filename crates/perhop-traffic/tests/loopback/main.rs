//! Traffic between two addresses of the loopback device.

mod applications;
mod connections;
mod consent;
mod datagrams;
mod lab;
mod limits;
mod live;
mod probes;
mod proofs;
mod quic;
