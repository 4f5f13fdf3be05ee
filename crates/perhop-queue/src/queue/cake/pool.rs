//! Waiting packets of all flow queues in one pool, and the queues as lists in it.

use perhop_core::{AckHint, Bytes, Packet, Protocol, Time};

use crate::Backlog;

/// End of a list.
const NONE: u32 = u32::MAX;

/// A waiting packet.
#[derive(Debug)]
struct Slot<B> {
    arrived: Time,
    /// Length that the shaper counts.
    charged: Bytes,
    next: u32,
    /// `None` if the slot is free.
    packet: Option<Packet<B>>,
}

/// A packet that has left its queue.
#[derive(Debug)]
pub struct Taken<B> {
    pub packet: Packet<B>,
    pub arrived: Time,
    /// Length that the shaper counts.
    pub charged: Bytes,
}

/// Memory of waiting packets. It grows to the most that ever waited, and is used again.
#[derive(Debug)]
pub struct Pool<B> {
    slots: Vec<Slot<B>>,
    free: u32,
}

/// A queue in order of arrival.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    pub backlog: Backlog,
    /// Number of packets that a later acknowledgement may supersede.
    pure: u32,
}

impl<B> Pool<B> {
    pub const fn new() -> Self {
        Self { slots: Vec::new(), free: NONE }
    }

    fn put(&mut self, slot: Slot<B>) -> u32 {
        if self.free == NONE {
            self.slots.push(slot);
            return self.slots.len() as u32 - 1;
        }
        let index = self.free;
        let place = &mut self.slots[index as usize];
        self.free = place.next;
        *place = slot;
        index
    }

    fn take(&mut self, index: u32) -> (Taken<B>, u32) {
        let slot = &mut self.slots[index as usize];
        let (next, packet) = (slot.next, slot.packet.take().expect("a listed slot has a packet"));
        slot.next = self.free;
        self.free = index;
        (Taken { packet, arrived: slot.arrived, charged: slot.charged }, next)
    }

    fn packet(&self, index: u32) -> &Packet<B> {
        self.slots[index as usize].packet.as_ref().expect("a listed slot has a packet")
    }
}

impl List {
    pub const fn new() -> Self {
        let backlog = Backlog { packets: 0, bytes: Bytes::ZERO };
        Self { head: NONE, tail: NONE, backlog, pure: 0 }
    }

    pub const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Returns the length of the first packet.
    pub fn head<B>(&self, pool: &Pool<B>) -> Option<Bytes> {
        (!self.is_empty()).then(|| pool.packet(self.head).size())
    }

    pub fn push<B>(&mut self, pool: &mut Pool<B>, now: Time, packet: Packet<B>, charged: Bytes) {
        self.backlog.add(packet.size());
        self.pure += u32::from(packet.header.ack.is_pure());
        let packet = Some(packet);
        let index = pool.put(Slot { arrived: now, charged, next: NONE, packet });
        match self.is_empty() {
            true => self.head = index,
            false => pool.slots[self.tail as usize].next = index,
        }
        self.tail = index;
    }

    pub fn pop<B>(&mut self, pool: &mut Pool<B>) -> Option<Taken<B>> {
        (!self.is_empty()).then(|| self.remove(pool, NONE, self.head))
    }

    /// Removes the packet at `index`, which follows the one at `before`.
    fn remove<B>(&mut self, pool: &mut Pool<B>, before: u32, index: u32) -> Taken<B> {
        let (taken, next) = pool.take(index);
        match before {
            NONE => self.head = next,
            before => pool.slots[before as usize].next = next,
        }
        if self.tail == index {
            self.tail = before;
        }
        self.backlog.packets -= 1;
        self.backlog.bytes -= taken.packet.size();
        self.pure -= u32::from(taken.packet.header.ack.is_pure());
        taken
    }

    /// Removes the first pure acknowledgement that the last packet supersedes, if another one
    /// follows it that the last packet supersedes, too (Linux: `cake_ack_filter`). If `aggressive`,
    /// the only one is enough if it is the last but one packet.
    ///
    /// Duplicate acknowledgements of the last packet's number stay, and all with selective ones.
    pub fn filter<B>(&mut self, pool: &mut Pool<B>, aggressive: bool) -> Option<Taken<B>> {
        let last = &pool.packet(self.tail).header;
        if self.pure <= u32::from(last.ack.is_pure()) || last.ack == AckHint::NONE {
            return None; // no earlier packet is pure
        }
        let ends = (last.source, last.destination, last.source_port, last.destination_port);
        let (mut found, mut before, mut index) = (None, NONE, self.head);
        while index != self.tail {
            let header = &pool.packet(index).header;
            let same = header.protocol().base() == Protocol::Tcp
                && ends
                    == (
                        header.source,
                        header.destination,
                        header.source_port,
                        header.destination_port,
                    );
            if same && header.ack.is_pure() && header.ack.differs(last.ack) {
                match found {
                    None => found = Some((before, index)),
                    Some((before, index)) => return Some(self.remove(pool, before, index)),
                }
            }
            (before, index) = (index, pool.slots[index as usize].next);
        }
        match found {
            Some((early, index)) if aggressive && before == index => {
                Some(self.remove(pool, early, index))
            }
            _ => None,
        }
    }
}
