//! SFQ, stochastic fairness queueing.
//!
//! P. McKenney, *Stochastic Fairness Queueing*, INFOCOM 1990, as Linux's `sch_sfq` has it: turns in
//! bytes instead of packets (deficit round robin), a limit for each flow, and a hash that may
//! change at regular intervals. Its optional RED is left out.

use perhop_core::{Bytes, Duration, Header, Packet, Stream, Time};

use super::flow_queues::FlowQueues;
use crate::{Backlog, Cause, Dequeue, Discipline, Drop, Ledger, Limit, Pass};

/// SFQ's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct SfqConfig {
    /// Limit of all queues together: 127 packets.
    pub limit: Limit,
    /// Most packets of one queue: 127; not zero.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub depth: u16,
    /// Most queues that hold packets at a time: 127; not zero.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub flows: u16,
    /// Number of values of the hash, each of which has a queue: 1024.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub divisor: u16,
    /// Bytes that a queue may send in its turn: 1514; not zero.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub quantum: u32,
    /// Time after which the hash changes; never if it is zero.
    pub perturb: Duration,
    /// Packet that a full queue drops: its last or its first.
    pub drop: Drop,
}

/// Queues by hash of the 5-tuple, which take turns.
///
/// A queue that becomes active has its turn after all others, and one that becomes empty is
/// forgotten: its next packet begins with a whole quantum. When all queues together are full, the
/// longest one in packets drops its last packet, or its first; of several that are equally long,
/// the one that has changed last. If each holds one packet, the one that is next loses it.
#[derive(Debug)]
pub struct Sfq<B> {
    config: SfqConfig,
    flows: FlowQueues<B, Change>,
    /// Number of changes of queues so far.
    changes: u64,
    /// Time at which the hash changes next.
    next_perturbation: Time,
    random: Stream,
}

/// Number of the last change of a queue's length.
type Change = u64;

impl<B> Sfq<B> {
    /// Creates empty queues; the hash that assigns flows to them is drawn from `random`.
    ///
    /// # Panics
    /// Without a queue, or with a quantum of zero.
    pub fn new(config: SfqConfig, mut random: Stream) -> Self {
        assert!(config.depth > 0 && config.flows > 0, "nothing could wait");
        let flows = FlowQueues::new(config.divisor, config.quantum, &mut random, Change::default);
        let next_perturbation = match config.perturb {
            Duration::ZERO => Time::MAX,
            perturb => Time::ZERO + perturb,
        };
        Self { config, flows, changes: 0, next_perturbation, random }
    }

    /// Changes the hash if it is time. Waiting packets move to their new queues; those that find
    /// them full are dropped (Linux: `sfq_rehash`).
    fn perturb(&mut self, now: Time, ledger: &mut Ledger<B>) {
        if now < self.next_perturbation {
            return;
        }
        let periods = now.since(self.next_perturbation).as_picos() / self.config.perturb.as_picos();
        self.next_perturbation += self.config.perturb * (periods + 1);
        for (arrived, packet) in self.flows.rehash(&mut self.random) {
            let index = self.flows.index_of(&packet, Header::dissected_hash);
            if self.has_room(index) {
                self.push(arrived, index, packet);
            } else {
                ledger.drop(packet, Cause::Limit);
            }
        }
    }

    /// Returns `true` if a queue, alone, may take another packet.
    fn has_room(&mut self, index: u16) -> bool {
        match self.flows.queue(index).waiting.backlog().packets {
            0 => self.flows.old_queues().len() < usize::from(self.config.flows),
            packets => packets < u64::from(self.config.depth),
        }
    }

    fn push(&mut self, arrived: Time, index: u16, packet: Packet<B>) {
        self.flows.push_last(arrived, index, packet);
        self.changes += 1;
        self.flows.queue(index).state = self.changes;
    }

    /// Drops a packet of a queue: its first or its last.
    fn shorten(&mut self, now: Time, index: u16, ledger: &mut Ledger<B>) {
        let drop = self.config.drop;
        let dropped = self.flows.change(index, |queue| match drop {
            Drop::Head => queue.waiting.pop(now).map(|(_, packet)| packet),
            Drop::Tail => queue.waiting.pop_last(),
        });
        ledger.drop(dropped.expect("a queue with packets"), Cause::Limit);
        self.changes += 1;
        self.flows.queue(index).state = self.changes;
        self.flows.retire(index);
    }

    /// Returns the queue that drops a packet when all are full together.
    fn longest(&self) -> u16 {
        let queues = self.flows.queues();
        let length = |index: u16| {
            let queue = &queues[usize::from(index)];
            (queue.waiting.backlog().packets, queue.state)
        };
        let active = self.flows.old_queues();
        let longest = active.iter().map(|(index, _)| index).max_by_key(|index| length(*index));
        match longest.expect("a queue that is full has packets") {
            index if length(index).0 > 1 => index,
            _ => active.front().expect("a queue that is full has packets"),
        }
    }
}

impl<B> Discipline<B> for Sfq<B> {
    fn enqueue(&mut self, now: Time, packet: Packet<B>, ledger: &mut Ledger<B>) {
        self.perturb(now, ledger);
        let SfqConfig { limit, drop, .. } = self.config;
        let (index, size) = (self.flows.index_of(&packet, Header::dissected_hash), packet.size());
        let waiting = self.flows.queue(index).waiting.backlog().packets;
        let room = self.has_room(index);
        if !limit.admits(Backlog::default(), size) || !room && (waiting == 0 || drop == Drop::Tail)
        {
            return ledger.drop(packet, Cause::Limit);
        }
        self.push(now, index, packet);
        if !room {
            self.shorten(now, index, ledger);
        }
        while limit.is_exceeded(self.flows.backlog()) {
            let longest = self.longest();
            self.shorten(now, longest, ledger);
        }
    }

    fn dequeue(&mut self, now: Time, ledger: &mut Ledger<B>) -> Dequeue<B> {
        self.perturb(now, ledger);
        let Some(index) = self.flows.turn(|_| {}) else { return Dequeue::Idle };
        let next = self.flows.change(index, |queue| queue.waiting.pop(now));
        let (_, packet) = next.expect("the queue whose turn it is has a packet");
        self.changes += 1;
        self.flows.queue(index).state = self.changes;
        self.flows.charge(index, packet.size());
        self.flows.retire(index);
        Dequeue::Packet(packet)
    }

    fn pass(&mut self, _now: Time, header: &Header) -> Pass {
        // A queue that becomes empty is forgotten, so that a packet that passes leaves nothing.
        match self.config.limit.admits(Backlog::default(), header.size()) {
            true => Pass::Send,
            false => Pass::Drop(Cause::Limit),
        }
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
