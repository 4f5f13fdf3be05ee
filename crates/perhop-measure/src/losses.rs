//! Where flows lose packets, and why.

use std::collections::BTreeMap;

use perhop_net::{Loss, PortId};
use perhop_queue::Cause;

use crate::tables::{Labels, Losses, Stretch, Table};

/// Counts what flows lose, from mark to mark.
#[derive(Clone, Debug, Default)]
pub struct LossMeter {
    /// Since the last mark, by flow, port and cause.
    counts: BTreeMap<(u32, Option<PortId>, Loss), u64>,
    table: Losses,
}

impl LossMeter {
    /// A packet of a flow was lost before this port or on its link, or where no link was to take
    /// it.
    pub fn add(&mut self, flow: u32, loss: Loss, at: Option<PortId>) {
        *self.counts.entry((flow, at, loss)).or_default() += 1;
    }

    /// Adds a row for everything that was lost since the last time.
    pub fn record(&mut self, stretch: Stretch) {
        for ((flow, at, loss), packets) in std::mem::take(&mut self.counts) {
            self.table.push((flow, at, cause(loss)), stretch, packets);
        }
    }

    /// Returns the table `losses`.
    pub fn table(&self, labels: &Labels) -> (&'static str, Table) {
        ("losses", self.table.clone().into_table(labels))
    }
}

/// What a loss is called in tables.
fn cause(loss: Loss) -> &'static str {
    match loss {
        Loss::Queue(Cause::Limit) => "full queue",
        Loss::Queue(Cause::Policer) => "policer",
        Loss::Queue(Cause::Early) => "early drop",
        Loss::Link => "wire",
        Loss::NoRoute => "no route",
        Loss::Expired => "TTL expired",
        Loss::TooBig => "too long",
    }
}
