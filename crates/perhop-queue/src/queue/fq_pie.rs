//! FQ-PIE: flow queues, each with PIE, served by deficit round robin.
//!
//! M. Tahiliani, *Flow Queue PIE*, draft-tahiliani-tsvwg-fq-pie; Linux's `sch_fq_pie` has the same
//! defaults. PIE is that of RFC 8033 on each queue, with its own timestamps, probability and burst
//! allowance; the turns are those of RFC 8290.

use perhop_core::{Bytes, Header, Packet, Stream, Time};

use super::flow_queues::{FlowQueue, FlowQueues};
use super::pie::{Control, PieConfig};
use crate::{Backlog, Cause, Dequeue, Discipline, Ledger, Pass};

/// FQ-PIE's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct FqPieConfig {
    /// PIE's settings for each flow queue. The limit is that of all queues together: 10,240
    /// packets (Linux: `fq_pie_init`).
    pub pie: PieConfig,
    /// Number of flow queues: 1024.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub flows: u16,
    /// Bytes that a flow queue may send in its turn: 1514; not zero.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub quantum: u32,
}

/// Queues by hash of the 5-tuple, each with PIE. A queue that becomes active is served for one
/// quantum before those that have been active for longer.
///
/// Packets keep their order within a flow, and only arrivals are dropped: early by PIE of their
/// queue, or because all queues together are full (Linux: `fq_pie_qdisc_enqueue`).
#[derive(Debug)]
pub struct FqPie<B> {
    config: FqPieConfig,
    flows: FlowQueues<B, Control>,
    random: Stream,
}

impl<B> FqPie<B> {
    /// Creates empty queues. The hash that assigns flows to them, and the drops, are drawn from
    /// `random`.
    ///
    /// # Panics
    /// Without a flow queue, with a quantum of zero, or if the time between two updates is zero.
    pub fn new(config: FqPieConfig, mut random: Stream) -> Self {
        let state = || Control::new(&config.pie);
        let flows = FlowQueues::new(config.flows, config.quantum, &mut random, state);
        Self { config, flows, random }
    }
}

impl<B> Discipline<B> for FqPie<B> {
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        let pie = &self.config.pie;
        let total = self.flows.backlog();
        let index = self.flows.index_of(&packet, Header::flow_hash);
        let FlowQueue { waiting, state, .. } = self.flows.queue(index);
        state.catch_up(pie, waiting.is_empty(), now);
        if !pie.limit.admits(total, packet.size()) {
            state.full();
            return ledger.drop(packet, Cause::Limit);
        }
        let admitted = state.admit(pie, waiting.backlog(), packet, &mut self.random, ledger);
        if let Some(packet) = admitted {
            self.flows.push(now, index, packet);
        }
    }

    fn dequeue(&mut self, now: Time, _ledger: &mut Ledger<B>) -> Dequeue<B> {
        let Some(index) = self.flows.turn(|_| {}) else { return Dequeue::Idle };
        let next = self.flows.change(index, |FlowQueue { waiting, state, .. }| {
            state.catch_up(&self.config.pie, waiting.is_empty(), now);
            state.dequeue(waiting, now)
        });
        let packet = next.expect("the queue whose turn it is has a packet");
        self.flows.charge(index, packet.size());
        Dequeue::Packet(packet)
    }

    fn pass(&mut self, _now: Time, _header: &Header) -> Pass {
        Pass::Enqueue // its flow must pay for it by its credit
    }

    fn head(&mut self, _now: Time) -> Option<Bytes> {
        self.flows.head()
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.flows.backlog()
    }

    fn drain(self, packets: &mut Vec<Packet<B>>) {
        self.flows.drain(packets);
    }
}
