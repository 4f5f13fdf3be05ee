//! Losses of flows, by place and cause.

use std::collections::BTreeMap;

use perhop_net::{Loss, PortId};
use perhop_queue::Cause;

use crate::tables::{Labels, Losses, Stretch, Table};

/// Counts the losses of flows between marks.
#[derive(Clone, Debug, Default)]
pub struct LossMeter {
    /// Losses since the last mark, by flow, port and cause.
    counts: BTreeMap<(u32, Option<PortId>, Loss), u64>,
    table: Losses,
}

impl LossMeter {
    /// Counts a packet of a flow that was lost before this port or on its link; `None` if it was on
    /// no link.
    pub fn add(&mut self, flow: u32, loss: Loss, at: Option<PortId>) {
        *self.counts.entry((flow, at, loss)).or_default() += 1;
    }

    /// Takes the losses since the last mark from another meter.
    pub fn take(&mut self, other: &mut Self) {
        for (place, packets) in std::mem::take(&mut other.counts) {
            *self.counts.entry(place).or_default() += packets;
        }
    }

    /// Adds rows for the losses since the last call.
    pub fn record(&mut self, stretch: Stretch) {
        for ((flow, at, loss), packets) in std::mem::take(&mut self.counts) {
            self.table.push((flow, at, cause(loss)), stretch, packets);
        }
    }

    /// Returns the table `losses`.
    pub fn table(&self, labels: &Labels) -> (&'static str, Table) {
        ("losses", self.table.table(labels))
    }
}

/// Returns the name of a cause in tables.
fn cause(loss: Loss) -> &'static str {
    match loss {
        Loss::Queue(Cause::Limit) => "full queue",
        Loss::Queue(Cause::Policer) => "policer",
        Loss::Queue(Cause::Early) => "early drop",
        Loss::Link => "wire",
        Loss::DelayLine => "full delay line",
        Loss::NoRoute => "no route",
        Loss::Expired => "TTL expired",
        Loss::TooBig => "too long",
    }
}
