//! Classes and packets of trees.

use perhop_core::{Bytes, Dscp, Packet, Rate};
use perhop_queue::{
    Class, Fifo, HtbClassKind, HtbRates, HtbSpec, Limit, Match, MatchRules, Queue, Weight,
};

use crate::packets;

/// Returns rates in kbit/s, with bursts of 3000 bytes.
pub fn rates(rate: u64, ceil: u64, quantum: u64) -> HtbRates {
    HtbRates {
        rate: Rate::new(rate * 1000).unwrap(),
        burst: Bytes::new(3000),
        ceil: Rate::new(ceil * 1000).unwrap(),
        cburst: Bytes::new(3000),
        priority: 0,
        quantum: Weight::new(quantum).unwrap(),
    }
}

fn matches(dscps: &[u8]) -> MatchRules {
    let dscps = dscps.iter().map(|dscp| Dscp::new(*dscp).unwrap()).collect();
    Match { dscps, ..Match::default() }.into()
}

/// Returns a leaf for this DSCP, whose queue holds 20 packets.
pub fn leaf(dscp: u8, rates: Option<HtbRates>) -> HtbSpec<()> {
    let queue = Queue::Fifo(Fifo::new(Limit::packets(20)));
    HtbSpec { matches: matches(&[dscp]), rates, kind: HtbClassKind::Leaf(Class::new(queue)) }
}

/// Returns a class for these DSCPs, divided into others.
pub fn interior(dscps: &[u8], rates: HtbRates, inner: Vec<HtbSpec<()>>) -> HtbSpec<()> {
    let kind = HtbClassKind::Interior(Box::default(), inner);
    HtbSpec { matches: matches(dscps), rates: Some(rates), kind }
}

/// Returns a packet of a DSCP and a size.
pub fn packet((dscp, size): (u8, u32)) -> Packet<()> {
    packets::packet(size, dscp)
}
