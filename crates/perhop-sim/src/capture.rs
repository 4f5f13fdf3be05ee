//! Captures of modelled packets. Their [bytes](wire) are made from the model's values, and only
//! while a capture runs.

mod wire;

use std::net::{Ipv4Addr, Ipv6Addr};

use perhop_core::{Header, Time};
use perhop_measure::Captures;
use perhop_net::{Passage, PortId};

use crate::hosts::{Body, Line};

/// All captures of a simulation.
#[derive(Debug)]
pub(crate) struct ModelledCaptures {
    pub captures: Captures,
    /// Addresses, by node.
    addresses: Vec<(Ipv4Addr, Ipv6Addr)>,
    /// Bytes of the current packet.
    bytes: Vec<u8>,
}

impl ModelledCaptures {
    /// Creates an empty set of captures in a network whose nodes have these addresses.
    pub fn new(addresses: Vec<(Ipv4Addr, Ipv6Addr)>) -> Self {
        Self { captures: Captures::default(), addresses, bytes: Vec::new() }
    }

    /// Captures a packet that passes an interface; `line` is that of its sender.
    pub fn packet(
        &mut self,
        at: Time,
        passage: (PortId, Passage),
        header: &Header,
        (body, line): (&Body, &Line),
    ) {
        self.bytes.clear();
        wire::packet(&mut self.bytes, &self.addresses, header, body, line);
        self.captures.packet(at, passage, (&self.bytes, header.size));
    }
}
