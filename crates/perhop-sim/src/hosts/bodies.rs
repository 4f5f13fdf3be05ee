//! What modelled hosts send, apart from the headers.

use perhop_core::{Dscp, Header, Time, prefetch};
use perhop_net::IcmpError;
use perhop_tcp::Segment;

/// What a modelled host sends, apart from the header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    /// The endpoint that the packet is for.
    pub endpoint: u32,
    /// What tells the packet from others at every interface that it passes: the identification of
    /// its IPv4 header.
    pub identification: u16,
    /// When it was sent; or, of an error, the packet that it is about.
    pub sent: Time,
    pub message: Message,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    Tcp(Segment),
    Datagram {
        sequence: u64,
    },
    EchoRequest {
        sequence: u32,
    },
    /// The reply to a request that arrived with this mark.
    EchoReply {
        sequence: u32,
        arrived: Dscp,
    },
    /// A datagram to a port on which nobody listens.
    Probe {
        sequence: u32,
    },
    /// An ICMP error about a packet with this header, and this number among the others.
    Error {
        error: IcmpError,
        quoted: Header,
        /// What else the packet was.
        kind: Kind,
        identification: u16,
        sequence: u64,
    },
}

/// What a packet with a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment,
    Datagram,
    EchoRequest,
    EchoReply,
}

/// A body as a packet carries it. Packets move from ring to ring at every hop, bodies do not: they
/// wait where they were written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyId(u32);

/// A body, and what becomes of the copies of its packet.
#[derive(Clone, Copy, Debug)]
struct Slot {
    body: Body,
    /// How many copies are under way.
    copies: u32,
    /// Whether one has arrived.
    arrived: bool,
}

/// The bodies of the packets that are under way.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    slots: Vec<Slot>,
    free: Vec<BodyId>,
    /// The identification of the next packet.
    next: u16,
}

impl Bodies {
    pub fn put(&mut self, endpoint: u32, sent: Time, message: Message) -> BodyId {
        let body = Body { endpoint, identification: self.next, sent, message };
        self.next = self.next.wrapping_add(1);
        let slot = Slot { body, copies: 1, arrived: false };
        match self.free.pop() {
            Some(id) => {
                self.slots[id.0 as usize] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                BodyId(self.slots.len() as u32 - 1)
            }
        }
    }

    /// Gets a body from memory.
    #[inline(always)]
    pub fn prefetch(&self, id: BodyId) {
        prefetch(&self.slots[id.0 as usize]);
    }

    /// The endpoint that a packet is for.
    #[inline(always)]
    pub fn endpoint(&self, id: BodyId) -> u32 {
        self.slots[id.0 as usize].body.endpoint
    }

    /// The body of a packet that is under way.
    pub fn get(&self, id: BodyId) -> Body {
        self.slots[id.0 as usize].body
    }

    /// A copy of the packet is under way as well, and has the same body.
    pub fn copy(&mut self, id: BodyId) -> BodyId {
        self.slots[id.0 as usize].copies += 1;
        id
    }

    /// A packet has arrived; says whether it is the first copy.
    #[inline]
    pub fn arrive(&mut self, id: BodyId) -> bool {
        let slot = &mut self.slots[id.0 as usize];
        let first = !slot.arrived;
        slot.arrived = true;
        self.release(id);
        first
    }

    /// A packet was lost; says whether no copy of it will arrive nor has.
    pub fn lose(&mut self, id: BodyId) -> bool {
        let slot = self.slots[id.0 as usize];
        self.release(id);
        slot.copies == 1 && !slot.arrived
    }

    #[inline]
    fn release(&mut self, id: BodyId) {
        let slot = &mut self.slots[id.0 as usize];
        slot.copies -= 1;
        if slot.copies == 0 {
            self.free.push(id);
        }
    }
}
