//! FQ-CoDel: flow queues, each with CoDel, served by deficit round robin (RFC 8290).

use perhop_core::{Bytes, Header, Packet, Stream, Time};

use super::codel::{CodelConfig, Control, Standing};
use super::flow_queues::{FlowQueue, FlowQueues};
use crate::{Backlog, Cause, Dequeue, Discipline, Ledger, Pass};

/// Greatest number of packets that an overflow drops at once (RFC 8290, section 4.1).
const BATCH: u32 = 64;

/// FQ-CoDel's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct FqCodelConfig {
    /// CoDel's settings for each flow queue. The limit is that of all queues together: 10,240
    /// packets (RFC 8290, section 5.2.3).
    pub codel: CodelConfig,
    /// Number of flow queues: 1024 (section 5.2.5).
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub flows: u16,
    /// Bytes that a flow queue may send in its turn: 1514 (section 5.2.4); not zero.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub quantum: u32,
    /// Backlog that must exceed one packet before a flow queue's delay counts.
    pub standing: StandingBacklog,
}

/// The backlog that CoDel compares with the longest packet (RFC 8289, section 5.3), in FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum StandingBacklog {
    /// The backlog of all flow queues together, as in Linux: `fq_codel_dequeue` passes the backlog
    /// of the discipline to `codel_should_drop`. A flow with one waiting packet then gets signals,
    /// too, if it waits behind enough others.
    All,
    /// The backlog of the flow queue alone, by the text of the RFC on CoDel in each queue.
    Flow,
}

/// Queues by hash of the 5-tuple. A queue that becomes active is served for one quantum before
/// those that have been active for longer: flows that send less than that per round wait for no
/// other queue.
///
/// Packets keep their order within a flow. When all queues together are full, the longest one drops
/// half of its bytes, but no more than 64 packets, from its head. CoDel counts these packets as
/// drops of its own (Linux: `fq_codel_drop`), so that it soon drops more often.
#[derive(Debug)]
pub struct FqCodel<B> {
    config: FqCodelConfig,
    flows: FlowQueues<B, Control>,
    longest: Bytes,
}

impl<B> FqCodel<B> {
    /// Creates empty queues; the hash that assigns flows to them is drawn from `random`.
    ///
    /// # Panics
    /// Without a flow queue, or with a quantum of zero.
    pub fn new(config: FqCodelConfig, random: &mut Stream) -> Self {
        let flows = FlowQueues::new(config.flows, config.quantum, random, Control::new);
        Self { config, flows, longest: Bytes::ZERO }
    }

    /// Drops half of the bytes of the longest queue.
    fn shorten_longest(&mut self, now: Time, ledger: &mut Ledger<B>) {
        let bytes = |queue: &FlowQueue<_, _>| queue.waiting.backlog().bytes;
        let queues = self.flows.queues();
        let longest = (1..queues.len()).fold(0, |longest, index| {
            if bytes(&queues[index]) > bytes(&queues[longest]) { index } else { longest }
        });
        self.flows.change(longest as u16, |FlowQueue { waiting, state, .. }| {
            let before = waiting.backlog();
            let mut dropped = 0;
            while let Some((_, packet)) = waiting.pop(now) {
                ledger.drop(packet, Cause::Limit);
                dropped += 1;
                let bytes = waiting.backlog().bytes;
                if dropped == BATCH || bytes.get() <= before.bytes.get().div_ceil(2) {
                    break;
                }
            }
            state.count_drops(dropped);
        });
    }
}

impl<B> Discipline<B> for FqCodel<B> {
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        let size = packet.size();
        let limit = self.config.codel.limit;
        if !limit.admits(Backlog::default(), size) {
            return ledger.drop(packet, Cause::Limit); // it would not fit into an empty queue
        }
        while !limit.admits(self.flows.backlog(), size) {
            self.shorten_longest(now, ledger);
        }
        let index = self.flows.index_of(&packet, Header::flow_hash);
        self.flows.push(now, index, packet);
        self.longest = self.longest.max(size);
    }

    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B> {
        let FqCodelConfig { codel, standing, .. } = &self.config;
        while let Some(index) = self.flows.turn(Control::on_idle) {
            let total = self.flows.backlog().bytes;
            let next = self.flows.change(index, |FlowQueue { waiting, state, .. }| {
                let others = match standing {
                    StandingBacklog::All => total - waiting.backlog().bytes,
                    StandingBacklog::Flow => Bytes::ZERO,
                };
                let standing = Standing { longest: self.longest, others };
                state.dequeue(codel, standing, waiting, now, ledger)
            });
            if let Some(packet) = next {
                self.flows.charge(index, packet.size());
                return Dequeue::Packet(packet);
            }
        }
        Dequeue::Idle
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
