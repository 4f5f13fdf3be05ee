//! What modelled hosts send, apart from the headers.

use perhop_core::{Dscp, Header, Time, prefetch};
use perhop_net::IcmpError;
use perhop_tcp::{Flags, Segment, Seq};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyId(u32);

impl BodyId {
    const fn new(block: usize, place: usize) -> Self {
        Self((block * PLACES + place) as u32)
    }

    const fn block(self) -> usize {
        self.0 as usize / PLACES
    }

    const fn place(self) -> usize {
        self.0 as usize % PLACES
    }
}

/// A body, and what becomes of the copies of its packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub sent: Time,
    pub message: Stored,
    pub endpoint: u32,
    identification: u16,
    /// How many copies are under way, whether one has arrived, and whether the packet is charged to
    /// the socket that has sent it.
    copies: u16,
}

/// A host may send a hundred thousand at once.
const _: () = assert!(size_of::<Slot>() == 40);

/// The bit of [`Slot::copies`] that says that a copy has arrived.
const ARRIVED: u16 = 1 << 15;

/// The bit of [`Slot::copies`] that says that the packet waits in its host's own queue.
const CHARGED: u16 = 1 << 14;

/// A message as it is kept: most are short, and the others wait elsewhere. What a segment's header
/// says of ECN is in the header alone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stored {
    /// A segment without selective acknowledgements.
    Tcp {
        flags: Flags,
        payload: u16,
        seq: Seq,
        ack: Seq,
        window: u32,
        timestamps: (u32, u32),
    },
    /// And without timestamps.
    Bare {
        flags: Flags,
        payload: u16,
        seq: Seq,
        ack: Seq,
        window: u32,
    },
    Datagram {
        sequence: u64,
    },
    EchoRequest {
        sequence: u32,
    },
    EchoReply {
        sequence: u32,
        arrived: Dscp,
    },
    Probe {
        sequence: u32,
    },
    /// A segment with selective acknowledgements, and an ICMP error: which of [`Bodies::long`].
    Sacked(u32),
    Error(u32),
}

/// So many bodies lie in a block.
const PLACES: usize = 64;
/// So many empty blocks are kept whatever is in use.
const SPARE: usize = 64;

/// The bodies of the packets that are under way.
///
/// They are written one after the other into blocks, and a block is used again when all of its
/// packets have arrived or were lost. Packets of an age go together, so that what a burst took is
/// given back soon after it; one that waits for long holds its block, at most [`PLACES`] times what
/// waits.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    /// Without places where the memory was given back.
    blocks: Vec<Box<[Slot]>>,
    /// How many bodies of each block are of packets that are under way.
    live: Vec<u8>,
    /// The block that is written to, and the next place there; it is full after [`PLACES`].
    filling: usize,
    place: usize,
    /// Blocks that are empty, and those of them that have no places.
    spare: Vec<usize>,
    vacant: Vec<usize>,
    /// What is too long for a slot, and places for more.
    long: Vec<Message>,
    free_long: Vec<u32>,
    /// The identification of the next packet.
    next: u16,
}

impl Bodies {
    #[inline(always)]
    pub fn put(&mut self, endpoint: u32, sent: Time, message: Message) -> BodyId {
        if self.place.is_multiple_of(PLACES) {
            self.next_block();
        }
        let id = BodyId::new(self.filling, self.place);
        let message = self.store(message);
        let slot = Slot { sent, message, endpoint, identification: self.next, copies: 1 };
        self.blocks[self.filling][self.place] = slot;
        self.live[self.filling] += 1;
        self.place += 1;
        self.next = self.next.wrapping_add(1);
        id
    }

    /// Goes on with an empty block.
    #[cold]
    fn next_block(&mut self) {
        self.place = 0;
        if self.live.get(self.filling) == Some(&0) {
            return; // all of its packets have come
        }
        self.filling = match self.spare.pop().or_else(|| self.vacant.pop()) {
            Some(block) => block,
            None => {
                self.blocks.push(Box::default());
                self.live.push(0);
                self.blocks.len() - 1
            }
        };
        if self.blocks[self.filling].is_empty() {
            let message = Stored::Probe { sequence: 0 };
            let slot =
                Slot { sent: Time::ZERO, message, endpoint: 0, identification: 0, copies: 0 };
            self.blocks[self.filling] = vec![slot; PLACES].into_boxed_slice();
        }
    }

    /// A block that is not written to has become empty. Its memory is given back if there are many
    /// for what is in use.
    #[cold]
    fn retire(&mut self, block: usize) {
        let empty = self.spare.len() + self.vacant.len();
        if self.spare.len() > SPARE + (self.blocks.len() - empty) / 2 {
            self.blocks[block] = Box::default();
            self.vacant.push(block);
        } else {
            self.spare.push(block);
        }
    }

    #[inline(always)]
    fn store(&mut self, message: Message) -> Stored {
        match message {
            Message::Tcp(segment) if segment.sack.as_slice().is_empty() => {
                let Segment { seq, ack, window, payload, flags, timestamps, .. } = segment;
                match timestamps {
                    Some(timestamps) => {
                        Stored::Tcp { flags, payload, seq, ack, window, timestamps }
                    }
                    None => Stored::Bare { flags, payload, seq, ack, window },
                }
            }
            Message::Datagram { sequence } => Stored::Datagram { sequence },
            Message::EchoRequest { sequence } => Stored::EchoRequest { sequence },
            Message::EchoReply { sequence, arrived } => Stored::EchoReply { sequence, arrived },
            Message::Probe { sequence } => Stored::Probe { sequence },
            Message::Tcp(_) => Stored::Sacked(self.store_long(message)),
            Message::Error { .. } => Stored::Error(self.store_long(message)),
        }
    }

    #[cold]
    fn store_long(&mut self, message: Message) -> u32 {
        match self.free_long.pop() {
            Some(place) => {
                self.long[place as usize] = message;
                place
            }
            None => {
                self.long.push(message);
                self.long.len() as u32 - 1
            }
        }
    }

    /// Where the body of a packet that is under way lies.
    #[inline(always)]
    pub fn slot(&self, id: BodyId) -> &Slot {
        &self.blocks[id.block()][id.place()]
    }

    #[inline(always)]
    fn slot_mut(&mut self, id: BodyId) -> &mut Slot {
        &mut self.blocks[id.block()][id.place()]
    }

    /// The packet waits in its host's own queue, at its socket's expense.
    pub fn charge(&mut self, id: BodyId) {
        self.slot_mut(id).copies |= CHARGED;
    }

    /// Removes the packet from there; returns `true` if it was there.
    pub fn discharge(&mut self, id: BodyId) -> bool {
        let slot = self.slot_mut(id);
        let charged = slot.copies & CHARGED > 0;
        slot.copies &= !CHARGED;
        charged
    }

    /// Gets a body from memory.
    #[inline(always)]
    pub fn prefetch(&self, id: BodyId) {
        prefetch(self.slot(id));
    }

    /// Returns the endpoint that a packet is for.
    #[inline(always)]
    pub fn endpoint(&self, id: BodyId) -> u32 {
        self.slot(id).endpoint
    }

    /// Returns the body of a packet that is under way.
    pub fn get(&self, id: BodyId) -> Body {
        let &Slot { sent, message, endpoint, identification, .. } = self.slot(id);
        Body { endpoint, identification, sent, message: self.message(message) }
    }

    /// What was stored.
    pub fn message(&self, stored: Stored) -> Message {
        match stored {
            Stored::Tcp { .. } | Stored::Bare { .. } => Message::Tcp(self.segment(stored)),
            Stored::Datagram { sequence } => Message::Datagram { sequence },
            Stored::EchoRequest { sequence } => Message::EchoRequest { sequence },
            Stored::EchoReply { sequence, arrived } => Message::EchoReply { sequence, arrived },
            Stored::Probe { sequence } => Message::Probe { sequence },
            Stored::Sacked(place) | Stored::Error(place) => self.long[place as usize],
        }
    }

    /// Returns the segment that was stored.
    ///
    /// # Panics
    /// If it was something else.
    #[inline(always)]
    pub fn segment(&self, stored: Stored) -> Segment {
        match stored {
            Stored::Tcp { flags, payload, seq, ack, window, timestamps } => {
                let timestamps = Some(timestamps);
                Segment { seq, ack, window, payload, flags, timestamps, ..Segment::default() }
            }
            Stored::Bare { flags, payload, seq, ack, window } => {
                Segment { seq, ack, window, payload, flags, ..Segment::default() }
            }
            Stored::Sacked(place) => match self.long[place as usize] {
                Message::Tcp(segment) => segment,
                message => unreachable!("{message:?} for a segment"),
            },
            _ => unreachable!("{stored:?} for a segment"),
        }
    }

    /// A copy of the packet is under way as well, and has the same body; none if there are
    /// too many.
    pub fn copy(&mut self, id: BodyId) -> Option<BodyId> {
        let copies = &mut self.slot_mut(id).copies;
        if *copies & !ARRIVED == !ARRIVED {
            return None;
        }
        *copies += 1;
        Some(id)
    }

    /// A packet has arrived; says whether it is the first copy. What it says may be read
    /// until the next packet is sent.
    #[inline(always)]
    pub fn arrive(&mut self, id: BodyId) -> bool {
        let slot = self.slot_mut(id);
        let first = slot.copies & ARRIVED == 0;
        slot.copies |= ARRIVED;
        self.release(id);
        first
    }

    /// A packet was lost; says whether no copy of it will arrive nor has.
    pub fn lose(&mut self, id: BodyId) -> bool {
        let last = self.slot(id).copies == 1;
        self.release(id);
        last
    }

    #[inline(always)]
    fn release(&mut self, id: BodyId) {
        let slot = self.slot_mut(id);
        slot.copies -= 1;
        if slot.copies & !ARRIVED > 0 {
            return;
        }
        if let Stored::Sacked(place) | Stored::Error(place) = slot.message {
            self.free_long.push(place);
        }
        let block = id.block();
        self.live[block] -= 1;
        if self.live[block] == 0 && block != self.filling {
            self.retire(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::Stream;
    use std::collections::VecDeque;

    fn message(random: &mut Stream, number: u64) -> Message {
        let (seq, ack) = (Seq(number as u32), Seq(random.up_to(9) as u32));
        let segment = Segment { seq, ack, flags: Flags::ACK, window: 7, ..Segment::default() };
        match random.up_to(5) {
            0 => Message::Datagram { sequence: number },
            1 => Message::EchoRequest { sequence: number as u32 },
            2 => Message::EchoReply { sequence: number as u32, arrived: Dscp::EF },
            3 => Message::Tcp(segment),
            4 => Message::Tcp(Segment {
                payload: 9,
                timestamps: Some((1, number as u32)),
                ..segment
            }),
            _ => {
                let mut segment = segment;
                segment.sack.push(number + 1, number + 2);
                Message::Tcp(segment)
            }
        }
    }

    /// Bodies are what they were until the last copy of their packet has gone, over a long mixture
    /// of all that may happen.
    #[test]
    fn a_body_stays_until_the_last_copy_has_gone() {
        let mut random = Stream::new(1, "bodies");
        let mut bodies = Bodies::default();
        let mut under_way: Vec<(BodyId, String)> = Vec::new();
        for number in 0..100_000 {
            // More and more for a while, then fewer.
            if under_way.is_empty() || random.up_to(9) < if number / 5_000 % 2 == 0 { 6 } else { 3 }
            {
                let message = message(&mut random, number);
                let said = format!("{message:?}");
                under_way.push((bodies.put(number as u32, Time::ZERO, message), said));
                continue;
            }
            let place = random.up_to(under_way.len() as u64 - 1) as usize;
            let (id, said) = under_way[place].clone();
            assert_eq!(format!("{:?}", bodies.get(id).message), said);
            match random.up_to(4) {
                0 => under_way.push((bodies.copy(id).unwrap(), said)),
                1 => {
                    under_way.swap_remove(place);
                    bodies.lose(id);
                }
                _ => {
                    under_way.swap_remove(place);
                    bodies.arrive(id);
                }
            }
        }
        for (id, said) in under_way {
            assert_eq!(format!("{:?}", bodies.get(id).message), said);
            bodies.lose(id);
        }
        assert_eq!(bodies.free_long.len(), bodies.long.len());
        assert!(bodies.live.iter().all(|&live| live == 0));
    }

    #[test]
    fn the_first_copy_is_the_first_and_what_arrived_is_not_lost() {
        let mut bodies = Bodies::default();
        let mut put = || bodies.put(0, Time::ZERO, Message::Datagram { sequence: 1 });
        let (twice, alone) = (put(), put());
        assert!(bodies.copy(twice).is_some());
        assert!(bodies.arrive(twice) && !bodies.lose(twice));
        assert!(bodies.lose(alone));
    }

    /// A hundred thousand at once, and then as few as before.
    #[test]
    fn what_a_burst_took_is_given_back() {
        let mut bodies = Bodies::default();
        let put =
            |bodies: &mut Bodies| bodies.put(0, Time::ZERO, Message::Datagram { sequence: 1 });
        let held = |bodies: &Bodies| bodies.blocks.iter().map(|block| block.len()).sum::<usize>();
        let mut under_way: VecDeque<BodyId> = (0..100_000).map(|_| put(&mut bodies)).collect();
        assert!(held(&bodies) < 100_000 + 2 * PLACES);
        for number in 0..300_000 {
            bodies.arrive(under_way.pop_front().unwrap());
            if number % 3 > 0 || under_way.len() < 1000 {
                under_way.push_back(put(&mut bodies));
            }
        }
        assert!(held(&bodies) < 2 * SPARE * PLACES, "{}", held(&bodies));
    }
}
