//! FQ-CoDel: flow queues, each with CoDel, served by deficit round robin (RFC 8290).

use std::collections::VecDeque;

use perhop_core::{Bytes, Packet, Stream, Time};

use super::codel::{CodelConfig, Control, Standing};
use super::waiting::Waiting;
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
    perturbation: u64,
    flows: Vec<Flow<B>>,
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    backlog: Backlog,
    longest: Bytes,
}

#[derive(Debug)]
struct Flow<B> {
    waiting: Waiting<B>,
    control: Control,
    /// Bytes that the queue may still send in this round; negative after a packet that was longer.
    credit: i64,
    /// True if the queue is in one of the lists.
    active: bool,
}

impl<B> FqCodel<B> {
    /// Creates empty queues; the hash that assigns flows to them is drawn from `random`.
    ///
    /// # Panics
    /// Without a flow queue, or with a quantum of zero.
    pub fn new(config: FqCodelConfig, random: &mut Stream) -> Self {
        assert!(config.flows > 0 && config.quantum > 0, "nothing could be sent");
        let flow =
            || Flow { waiting: Waiting::new(), control: Control::new(), credit: 0, active: false };
        Self {
            config,
            perturbation: random.up_to(u64::MAX),
            flows: (0..config.flows).map(|_| flow()).collect(),
            new: VecDeque::with_capacity(config.flows.into()),
            old: VecDeque::with_capacity(config.flows.into()),
            backlog: Backlog::default(),
            longest: Bytes::ZERO,
        }
    }

    fn flow_of(&self, packet: &Packet<B>) -> u16 {
        let hash = packet.header.flow_hash(self.perturbation);
        // The high bits, scaled: all queues are equally likely, whatever their number.
        ((u128::from(hash) * u128::from(self.config.flows)) >> 64) as u16
    }

    /// Returns the flow queue whose turn it is: the first with credit and a packet in the first
    /// list that has one (section 4.2). Queues before it get their quantum, or leave the list.
    fn turn(&mut self) -> Option<u16> {
        loop {
            let from_new = !self.new.is_empty();
            let index = *self.new.front().or_else(|| self.old.front())?;
            let flow = &mut self.flows[usize::from(index)];
            if flow.credit <= 0 {
                flow.credit += i64::from(self.config.quantum);
                self.leave(from_new);
                self.old.push_back(index);
            } else if flow.waiting.is_empty() {
                flow.control.on_idle();
                flow.active = from_new;
                self.leave(from_new);
                if from_new {
                    // An emptied new queue goes behind the old ones first, so that a flow cannot
                    // stay new by pausing.
                    self.old.push_back(index);
                }
            } else {
                return Some(index);
            }
        }
    }

    fn leave(&mut self, from_new: bool) {
        let list = if from_new { &mut self.new } else { &mut self.old };
        list.pop_front();
    }

    /// Updates the total backlog after a flow queue changed its own.
    fn settle(&mut self, before: Backlog, after: Backlog) {
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
    }

    /// Drops half of the bytes of the longest queue.
    fn shorten_longest(&mut self, now: Time, ledger: &mut Ledger<B>) {
        let mut longest = 0;
        for (index, flow) in self.flows.iter().enumerate() {
            if flow.waiting.backlog().bytes > self.flows[longest].waiting.backlog().bytes {
                longest = index;
            }
        }
        let Flow { waiting, control, .. } = &mut self.flows[longest];
        let before = waiting.backlog();
        let mut dropped = 0;
        while let Some((_, packet)) = waiting.pop(now) {
            ledger.drop(packet, Cause::Limit);
            dropped += 1;
            if dropped == BATCH || waiting.backlog().bytes.get() <= before.bytes.get().div_ceil(2) {
                break;
            }
        }
        control.count_drops(dropped);
        let after = waiting.backlog();
        self.settle(before, after);
    }
}

impl<B> Discipline<B> for FqCodel<B> {
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        let size = packet.size();
        let limit = self.config.codel.limit;
        if !limit.admits(Backlog::default(), size) {
            return ledger.drop(packet, Cause::Limit); // it would not fit into an empty queue
        }
        while !limit.admits(self.backlog, size) {
            self.shorten_longest(now, ledger);
        }
        let index = self.flow_of(&packet);
        let flow = &mut self.flows[usize::from(index)];
        flow.waiting.push(now, packet);
        if !flow.active {
            flow.active = true;
            flow.credit = self.config.quantum.into();
            self.new.push_back(index);
        }
        self.backlog.add(size);
        self.longest = self.longest.max(size);
    }

    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B> {
        while let Some(index) = self.turn() {
            let flow = &mut self.flows[usize::from(index)];
            let before = flow.waiting.backlog();
            let others = match self.config.standing {
                StandingBacklog::All => self.backlog.bytes - before.bytes,
                StandingBacklog::Flow => Bytes::ZERO,
            };
            let standing = Standing { longest: self.longest, others };
            let FqCodelConfig { codel, .. } = &self.config;
            let next = flow.control.dequeue(codel, standing, &mut flow.waiting, now, ledger);
            if let Some(packet) = &next {
                flow.credit -= packet.size().get() as i64;
            }
            let after = flow.waiting.backlog();
            self.settle(before, after);
            if let Some(packet) = next {
                return Dequeue::Packet(packet);
            }
        }
        Dequeue::Idle
    }

    fn pass(&mut self, _now: Time, _packet: &mut Packet<B>) -> Pass {
        Pass::Enqueue // its flow must pay for it by its credit
    }

    /// Returns the length of the head packet of the first queue with credit, or with credit after
    /// the fewest rounds.
    fn head(&mut self, _now: Time) -> Option<Bytes> {
        let mut best = None;
        for &index in self.new.iter().chain(&self.old) {
            let flow = &self.flows[usize::from(index)];
            let Some(size) = flow.waiting.head() else { continue };
            let rounds = match flow.credit {
                1.. => return Some(size),
                owed => 1 - owed / i64::from(self.config.quantum),
            };
            if best.is_none_or(|(fewest, _)| rounds < fewest) {
                best = Some((rounds, size));
            }
        }
        best.map(|(_, size)| size)
    }

    #[inline]
    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn drain(self, packets: &mut Vec<Packet<B>>) {
        for flow in self.flows {
            flow.waiting.drain(packets);
        }
    }
}
