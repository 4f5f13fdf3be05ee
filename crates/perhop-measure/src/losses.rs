//! Where flows lose packets, and why.

use std::collections::BTreeMap;

use perhop_net::{Loss, PortId};
use perhop_queue::Cause;

use crate::tables::{Losses, Stretch, Table};

/// Counts what flows lose, from mark to mark.
#[derive(Clone, Debug, Default)]
pub struct LossMeter {
    /// Since the last mark, by flow, port and [cause](number).
    counts: BTreeMap<(u32, Option<PortId>, u8), u64>,
    table: Losses,
}

impl LossMeter {
    /// A packet of a flow was lost before this port or on its link, or where no link was to take
    /// it.
    pub fn add(&mut self, flow: u32, loss: Loss, at: Option<PortId>) {
        *self.counts.entry((flow, at, number(loss))).or_default() += 1;
    }

    /// Adds a row for everything that was lost since the last time.
    pub fn record(&mut self, stretch: Stretch) {
        for ((flow, at, cause), packets) in std::mem::take(&mut self.counts) {
            self.table.push((flow, at, cause), stretch, packets);
        }
    }

    /// The table `losses`.
    pub fn table(&self) -> (&'static str, Table) {
        ("losses", self.table.clone().into_table())
    }
}

/// The number that stands for a loss in tables.
fn number(loss: Loss) -> u8 {
    match loss {
        Loss::Queue(Cause::Limit) => 0,
        Loss::Queue(Cause::Policer) => 1,
        Loss::Queue(Cause::Early) => 2,
        Loss::Link => 3,
        Loss::NoRoute => 4,
        Loss::Expired => 5,
        Loss::TooBig => 6,
    }
}
