//! Queues of flows that take turns, for disciplines that treat each flow alone.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use perhop_core::{Bytes, Header, Packet, Stream, Time};

use super::rounds::Rounds;
use super::waiting::Waiting;
use crate::Backlog;

/// A queue of flows, with the state `S` that a discipline keeps for each.
#[derive(Debug)]
pub(super) struct FlowQueue<B, S> {
    pub waiting: Waiting<B>,
    pub state: S,
    /// Bytes that the queue may still send in its turn; negative after a packet that was longer.
    credit: i64,
    /// True if the queue is in one of the lists.
    active: bool,
}

impl<B, S> FlowQueue<B, S> {
    /// Returns the number of quanta that the queue lacks for credit.
    fn rounds(&self, quantum: i64) -> i64 {
        if self.credit > 0 { 0 } else { 1 - self.credit / quantum }
    }
}

/// Queues by hash of the 5-tuple, served by deficit round robin (DRR++, RFC 8290, section 4.2).
///
/// A queue that becomes active is served for one quantum before those that have been active for
/// longer: flows that send less than that per round wait for no other queue. Packets keep their
/// order within a flow.
#[derive(Debug)]
pub(super) struct FlowQueues<B, S> {
    perturbation: u64,
    /// Bytes that a queue may send in its turn.
    quantum: i64,
    queues: Vec<FlowQueue<B, S>>,
    new: VecDeque<u16>,
    old: Rounds,
    backlog: Backlog,
}

impl<B, S> FlowQueues<B, S> {
    /// Creates empty queues; the hash that assigns flows to them is drawn from `random`.
    ///
    /// # Panics
    /// Without a queue, or with a quantum of zero.
    pub fn new(queues: u16, quantum: u32, random: &mut Stream, state: impl Fn() -> S) -> Self {
        assert!(queues > 0 && quantum > 0, "nothing could be sent");
        let queue =
            || FlowQueue { waiting: Waiting::new(), state: state(), credit: 0, active: false };
        Self {
            perturbation: random.up_to(u64::MAX),
            quantum: quantum.into(),
            queues: (0..queues).map(|_| queue()).collect(),
            new: VecDeque::new(),
            old: Rounds::new(),
            backlog: Backlog::default(),
        }
    }

    /// Returns the queue of a packet by a hash of its header with a perturbation.
    pub fn index_of(&self, packet: &Packet<B>, hash: impl Fn(&Header, u64) -> u64) -> u16 {
        let hash = hash(&packet.header, self.perturbation);
        // The high bits, scaled: all queues are equally likely, whatever their number.
        ((u128::from(hash) * self.queues.len() as u128) >> 64) as u16
    }

    /// Returns a queue. Its packets are changed by [`change`](Self::change) only.
    pub fn queue(&mut self, index: u16) -> &mut FlowQueue<B, S> {
        &mut self.queues[usize::from(index)]
    }

    /// Returns all queues.
    pub fn queues(&self) -> &[FlowQueue<B, S>] {
        &self.queues
    }

    /// Returns the backlog of all queues together.
    #[inline]
    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Returns the active queues that are not new ones, in the order of their turns.
    pub fn old_queues(&self) -> &Rounds {
        &self.old
    }

    /// Adds a packet to a queue, which becomes a new one if it was not active.
    pub fn push(&mut self, now: Time, index: u16, packet: Packet<B>) {
        if self.add(now, index, packet) {
            self.new.push_back(index);
        }
    }

    /// Adds a packet to a queue, which has its turn after all others if it was not active.
    pub fn push_last(&mut self, now: Time, index: u16, packet: Packet<B>) {
        if self.add(now, index, packet) {
            self.old.push(index, 0);
        }
    }

    /// Adds a packet to a queue; returns `true` if it was not active.
    fn add(&mut self, now: Time, index: u16, packet: Packet<B>) -> bool {
        self.backlog.add(packet.size());
        let queue = &mut self.queues[usize::from(index)];
        queue.waiting.push(now, packet);
        let activated = !queue.active;
        if activated {
            queue.active = true;
            queue.credit = self.quantum;
        }
        activated
    }

    /// Removes a queue that is not a new one from the turns at once, if it is empty.
    pub fn retire(&mut self, index: u16) {
        let queue = &mut self.queues[usize::from(index)];
        if queue.active && queue.waiting.is_empty() {
            queue.active = false;
            self.old.remove(index);
        }
    }

    /// Draws another hash, and takes all packets out, with their times of arrival, in the order of
    /// turns. No queue is active afterwards.
    pub fn rehash(&mut self, random: &mut Stream) -> Vec<(Time, Packet<B>)> {
        self.perturbation = random.up_to(u64::MAX);
        let mut packets = Vec::with_capacity(self.backlog.packets as usize);
        for index in self.new.drain(..).chain(self.old.iter().map(|(index, _)| index)) {
            let queue = &mut self.queues[usize::from(index)];
            queue.active = false;
            packets.extend(queue.waiting.take());
        }
        self.old.clear();
        self.backlog = Backlog::default();
        packets
    }

    /// Returns the queue whose turn it is: the first with credit and a packet in the first list
    /// that has one (section 4.2). Queues before it get their quantum, or leave the list: `idle`
    /// is called with their state.
    pub fn turn(&mut self, mut idle: impl FnMut(&mut S)) -> Option<u16> {
        loop {
            let new = self.new.front().copied();
            let index = new.or_else(|| self.old.advance())?;
            let queue = &mut self.queues[usize::from(index)];
            if queue.credit > 0 && !queue.waiting.is_empty() {
                return Some(index);
            }
            match new {
                Some(_) => _ = self.new.pop_front(),
                None => self.old.pop(),
            }
            if queue.credit <= 0 {
                // It gets as many quanta as it lacks, one in each round.
                let rounds = queue.rounds(self.quantum);
                queue.credit += rounds * self.quantum;
                self.old.push(index, rounds as u32 - 1);
                continue;
            }
            idle(&mut queue.state);
            queue.active = new.is_some();
            if queue.active {
                // An emptied new queue goes behind the old ones first, so that a flow cannot stay
                // new by pausing.
                self.old.push(index, 0);
            }
        }
    }

    /// Calls `change` on a queue, from which it may take packets, and updates the total backlog.
    pub fn change<T>(&mut self, index: u16, change: impl FnOnce(&mut FlowQueue<B, S>) -> T) -> T {
        let queue = &mut self.queues[usize::from(index)];
        let before = queue.waiting.backlog();
        let result = change(queue);
        let after = queue.waiting.backlog();
        self.backlog.packets = self.backlog.packets + after.packets - before.packets;
        self.backlog.bytes = self.backlog.bytes + after.bytes - before.bytes;
        result
    }

    /// Charges a packet that a queue has sent in its turn.
    pub fn charge(&mut self, index: u16, sent: Bytes) {
        self.queues[usize::from(index)].credit -= sent.get() as i64;
    }

    /// Returns the length of the head packet of the first queue with credit, or with credit after
    /// the fewest rounds.
    pub fn head(&self) -> Option<Bytes> {
        let mut best = None;
        let new = self.new.iter().map(|&index| (index, 0));
        for (index, rounds) in new.chain(self.old.iter()) {
            let queue = &self.queues[usize::from(index)];
            let Some(size) = queue.waiting.head() else { continue };
            match i64::from(rounds) + queue.rounds(self.quantum) {
                0 => return Some(size),
                rounds if best.is_none_or(|(fewest, _)| rounds < fewest) => {
                    best = Some((rounds, size));
                }
                _ => {}
            }
        }
        best.map(|(_, size)| size)
    }

    /// Returns all packets, queue by queue.
    pub fn drain(self, packets: &mut Vec<Packet<B>>) {
        for queue in self.queues {
            queue.waiting.drain(packets);
        }
    }
}
