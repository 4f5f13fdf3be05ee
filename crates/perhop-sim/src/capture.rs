//! Captures of modelled packets. Their [bytes](wire) are made from what the model knows, and only
//! while somebody captures.

mod wire;

use std::net::Ipv4Addr;

use perhop_core::{Header, Time};
use perhop_measure::Captures;
use perhop_net::{Passage, PortId};
use perhop_tcp::Handshake;

use crate::hosts::Body;

/// All captures of a simulation.
#[derive(Debug)]
pub(crate) struct ModelledCaptures {
    pub captures: Captures,
    /// By node.
    addresses: Vec<Ipv4Addr>,
    /// The packet at hand.
    bytes: Vec<u8>,
}

impl ModelledCaptures {
    /// No captures yet, in a network whose nodes have these addresses.
    pub fn new(addresses: Vec<Ipv4Addr>) -> Self {
        Self { captures: Captures::default(), addresses, bytes: Vec::new() }
    }

    /// A packet passes an interface; `handshake` is what its sender said of itself, if it is TCP's.
    pub fn packet(
        &mut self,
        at: Time,
        passage: (PortId, Passage),
        header: &Header,
        (body, handshake): (&Body, Option<Handshake>),
    ) {
        self.bytes.clear();
        wire::packet(&mut self.bytes, &self.addresses, header, body, handshake);
        self.captures.packet(at, passage, (&self.bytes, header.size));
    }
}
