//! Bodies of packets of modelled hosts.

use perhop_core::{Header, Time, TrafficClass, prefetch};
use perhop_net::IcmpError;
use perhop_tcp::{Flags, Segment, Seq};

/// Body of a packet of a modelled host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    /// Endpoint to which the packet is sent.
    pub endpoint: u32,
    /// Distinguishes the packet at every interface: the identification of its IPv4 header.
    pub identification: u16,
    /// Time at which it was sent; for an error, the time of the packet that caused it.
    pub sent: Time,
    pub message: Message,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    Tcp(Segment),
    /// A packet of QUIC: its place in [`Bodies`].
    Quic(u32),
    Datagram {
        sequence: u64,
    },
    /// A part of a datagram: `offset` is its place, in units of 8 bytes, and `total` the length of
    /// UDP header and payload.
    Fragment {
        sequence: u64,
        offset: u16,
        total: u16,
    },
    EchoRequest {
        sequence: u32,
    },
    /// Reply to a request that arrived with this DSCP and ECN field.
    EchoReply {
        sequence: u32,
        arrived: TrafficClass,
    },
    /// A datagram to a port on which no process listens.
    Probe {
        sequence: u32,
    },
    /// An ICMP error about a packet with this header and this identification.
    Error {
        error: IcmpError,
        quoted: Header,
        /// Kind of that packet.
        kind: Kind,
        identification: u16,
        sequence: u64,
    },
    /// The outer packet of a tunnel with this protocol number, around the packet with this header
    /// and body.
    Outer {
        header: Header,
        body: BodyId,
        number: u8,
    },
}

/// Kind of a numbered packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Segment,
    Datagram,
    EchoRequest,
    EchoReply,
    /// The outer packet of a tunnel with this protocol number; it has no number of its own.
    Outer(u8),
}

/// Body of a packet in the network. Packets are copied between rings at every hop; bodies stay in
/// place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyId {
    slot: u32,
    /// Endpoint to which the packet is sent: it can be prefetched without access to the body.
    pub endpoint: u32,
}

impl BodyId {
    const fn new(block: usize, place: usize, endpoint: u32) -> Self {
        Self { slot: (block * PLACES + place) as u32, endpoint }
    }

    const fn block(self) -> usize {
        self.slot as usize / PLACES
    }

    const fn place(self) -> usize {
        self.slot as usize % PLACES
    }
}

/// A body, and the state of its packet's copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub sent: Time,
    pub message: Stored,
    identification: u16,
    /// Number of copies in transit, whether one has arrived, and whether the packet is charged to
    /// its sender's socket.
    copies: u16,
}

/// A host may send a hundred thousand packets at once.
const _: () = assert!(size_of::<Slot>() == 40);

/// Bit of [`Slot::copies`] that is set when a copy has arrived.
const ARRIVED: u16 = 1 << 15;

/// Bit of [`Slot::copies`] that is set while the packet waits in its host's own queue.
const CHARGED: u16 = 1 << 14;

/// A message in compact form: most fit, and the others are in [`Bodies::long`]. A segment's ECN
/// field is in the header only.
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
    /// A segment without SACK blocks and timestamps.
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
    Fragment {
        sequence: u64,
        offset: u16,
        total: u16,
    },
    EchoRequest {
        sequence: u32,
    },
    EchoReply {
        sequence: u32,
        arrived: TrafficClass,
    },
    Probe {
        sequence: u32,
    },
    /// Index in [`Bodies::long`] of a segment with SACK blocks, of an ICMP error, or of an outer
    /// packet.
    Sacked(u32),
    Error(u32),
    Outer(u32),
    /// Index in [`Bodies::quic`].
    Quic(u32),
}

/// Body of a packet between two parts of the network.
#[derive(Debug)]
pub(crate) struct HandedOver {
    endpoint: u32,
    slot: Slot,
    /// What the slot refers to, if anything.
    long: Option<Box<Long>>,
}

#[derive(Debug)]
enum Long {
    Message(Message),
    Quic(perhop_quic::Packet),
}

/// Number of bodies in a block.
const PLACES: usize = 64;
/// Number of empty blocks that are kept in any case.
const SPARE: usize = 64;

/// Bodies of the packets in transit.
///
/// They are written into blocks in order, and a block is used again when all of its packets have
/// arrived or were lost. Packets of the same age share a block, so that memory that a burst took is
/// freed soon after it. A packet that waits for long keeps its block, so that at most [`PLACES`]
/// times the memory of waiting packets is in use.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    /// Blocks; empty where memory was freed.
    blocks: Vec<Box<[Slot]>>,
    /// Number of bodies of packets in transit, for each block.
    live: Vec<u8>,
    /// Block that is being filled, and its next place; it is full after [`PLACES`].
    filling: usize,
    place: usize,
    /// Empty blocks, and those of them without memory.
    spare: Vec<usize>,
    vacant: Vec<usize>,
    /// Messages too long for a slot, and free entries.
    long: Vec<Message>,
    free_long: Vec<u32>,
    /// Packets of QUIC, and free entries.
    quic: Vec<perhop_quic::Packet>,
    free_quic: Vec<u32>,
    /// Identification of the next packet.
    next: u16,
}

impl Bodies {
    #[inline(always)]
    pub fn put(&mut self, endpoint: u32, sent: Time, message: Message) -> BodyId {
        if self.place.is_multiple_of(PLACES) {
            self.next_block();
        }
        let id = BodyId::new(self.filling, self.place, endpoint);
        let message = self.store(message);
        let slot = Slot { sent, message, identification: self.next, copies: 1 };
        self.blocks[self.filling][self.place] = slot;
        self.live[self.filling] += 1;
        self.place += 1;
        self.next = self.next.wrapping_add(1);
        id
    }

    /// Removes the body of a packet that goes on in another part of the network.
    pub fn hand_over(&mut self, id: BodyId) -> HandedOver {
        let slot = *self.slot(id);
        let long = match slot.message {
            Stored::Sacked(_) | Stored::Error(_) | Stored::Outer(_) => {
                Some(Box::new(Long::Message(self.message(slot.message))))
            }
            Stored::Quic(place) => Some(Box::new(Long::Quic(self.quic(place).clone()))),
            _ => None,
        };
        self.release(id);
        HandedOver { endpoint: id.endpoint, slot, long }
    }

    /// Adds the body of a packet from another part.
    pub fn take_over(&mut self, HandedOver { endpoint, slot, long }: HandedOver) -> BodyId {
        let message = match long.map(|long| *long) {
            None => self.message(slot.message),
            Some(Long::Message(message)) => message,
            Some(Long::Quic(packet)) => Message::Quic(self.put_quic(packet)),
        };
        let id = self.put(endpoint, slot.sent, message);
        self.identify(id, slot.identification);
        id
    }

    /// Continues with an empty block.
    #[cold]
    fn next_block(&mut self) {
        self.place = 0;
        if self.live.get(self.filling) == Some(&0) {
            return; // all of its packets have arrived
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
            let slot = Slot { sent: Time::ZERO, message, identification: 0, copies: 0 };
            self.blocks[self.filling] = vec![slot; PLACES].into_boxed_slice();
        }
    }

    /// Retires a full block that has become empty. Its memory is freed if there are many empty
    /// blocks for those in use.
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
            Message::Fragment { sequence, offset, total } => {
                Stored::Fragment { sequence, offset, total }
            }
            Message::EchoRequest { sequence } => Stored::EchoRequest { sequence },
            Message::EchoReply { sequence, arrived } => Stored::EchoReply { sequence, arrived },
            Message::Probe { sequence } => Stored::Probe { sequence },
            Message::Quic(place) => Stored::Quic(place),
            Message::Tcp(_) => Stored::Sacked(self.store_long(message)),
            Message::Error { .. } => Stored::Error(self.store_long(message)),
            Message::Outer { .. } => Stored::Outer(self.store_long(message)),
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

    /// Stores a packet of QUIC; its place is part of a message.
    pub fn put_quic(&mut self, packet: perhop_quic::Packet) -> u32 {
        match self.free_quic.pop() {
            Some(place) => {
                self.quic[place as usize] = packet;
                place
            }
            None => {
                self.quic.push(packet);
                self.quic.len() as u32 - 1
            }
        }
    }

    /// Returns a packet of QUIC.
    pub fn quic(&self, place: u32) -> &perhop_quic::Packet {
        &self.quic[place as usize]
    }

    /// Returns a packet of QUIC, to set the ECN field with which it has arrived.
    pub fn quic_mut(&mut self, place: u32) -> &mut perhop_quic::Packet {
        &mut self.quic[place as usize]
    }

    /// Frees the entry of a long message.
    #[cold]
    fn free(&mut self, message: Stored) {
        match message {
            Stored::Sacked(place) | Stored::Error(place) | Stored::Outer(place) => {
                self.free_long.push(place);
            }
            Stored::Quic(place) => self.free_quic.push(place),
            _ => {}
        }
    }

    /// Returns the slot of the body of a packet in transit.
    #[inline(always)]
    pub fn slot(&self, id: BodyId) -> &Slot {
        &self.blocks[id.block()][id.place()]
    }

    #[inline(always)]
    fn slot_mut(&mut self, id: BodyId) -> &mut Slot {
        &mut self.blocks[id.block()][id.place()]
    }

    /// Sets the identification of a packet, which all fragments of a datagram share.
    pub fn identify(&mut self, id: BodyId, identification: u16) {
        self.slot_mut(id).identification = identification;
    }

    /// Records that the packet waits in its host's own queue and is charged to its socket.
    pub fn charge(&mut self, id: BodyId) {
        self.slot_mut(id).copies |= CHARGED;
    }

    /// Removes the charge; returns `true` if there was one.
    pub fn discharge(&mut self, id: BodyId) -> bool {
        let slot = self.slot_mut(id);
        let charged = slot.copies & CHARGED > 0;
        slot.copies &= !CHARGED;
        charged
    }

    /// Prefetches a body.
    #[inline(always)]
    pub fn prefetch(&self, id: BodyId) {
        prefetch(self.slot(id));
    }

    /// Prefetches the long message of a body, if it has one.
    #[inline(always)]
    pub fn prefetch_long(&self, id: BodyId) {
        if let Stored::Sacked(place) = self.slot(id).message {
            prefetch(&self.long[place as usize]);
        }
    }

    /// Returns the body of a packet in transit.
    pub fn get(&self, id: BodyId) -> Body {
        let &Slot { sent, message, identification, .. } = self.slot(id);
        Body { endpoint: id.endpoint, identification, sent, message: self.message(message) }
    }

    /// Returns the stored message.
    pub fn message(&self, stored: Stored) -> Message {
        match stored {
            Stored::Tcp { .. } | Stored::Bare { .. } => Message::Tcp(self.segment(stored)),
            Stored::Datagram { sequence } => Message::Datagram { sequence },
            Stored::Fragment { sequence, offset, total } => {
                Message::Fragment { sequence, offset, total }
            }
            Stored::EchoRequest { sequence } => Message::EchoRequest { sequence },
            Stored::EchoReply { sequence, arrived } => Message::EchoReply { sequence, arrived },
            Stored::Probe { sequence } => Message::Probe { sequence },
            Stored::Sacked(place) | Stored::Error(place) | Stored::Outer(place) => {
                self.long[place as usize]
            }
            Stored::Quic(place) => Message::Quic(place),
        }
    }

    /// Returns the stored segment.
    ///
    /// # Panics
    /// If another message was stored.
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

    /// Records a copy of the packet in transit, with the same body; returns `None` if there are too
    /// many.
    pub fn copy(&mut self, id: BodyId) -> Option<BodyId> {
        let copies = &mut self.slot_mut(id).copies;
        if *copies & !ARRIVED == !ARRIVED {
            return None;
        }
        *copies += 1;
        Some(id)
    }

    /// Returns `true` if there is one copy of the packet in transit.
    pub fn is_last(&self, id: BodyId) -> bool {
        self.slot(id).copies & !(ARRIVED | CHARGED) == 1
    }

    /// Returns `true` if an ICMP error is about the outer packet of a tunnel.
    pub fn is_about_outer(&self, stored: Stored) -> bool {
        matches!(self.message(stored), Message::Error { kind: Kind::Outer(_), .. })
    }

    /// Records an arrival; returns `true` for the first copy. The message may be read until the
    /// next packet is sent.
    #[inline(always)]
    pub fn arrive(&mut self, id: BodyId) -> bool {
        let slot = self.slot_mut(id);
        let first = slot.copies & ARRIVED == 0;
        slot.copies |= ARRIVED;
        self.release(id);
        first
    }

    /// Records a loss; returns `true` if no copy has arrived or will arrive.
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
        let message = slot.message;
        if let Stored::Sacked(_) | Stored::Error(_) | Stored::Outer(_) | Stored::Quic(_) = message {
            self.free(message);
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
            2 => Message::EchoReply {
                sequence: number as u32,
                arrived: TrafficClass::from_octet(0xb8),
            },
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

    /// Bodies are unchanged until the last copy of their packet is gone, over a long mixture of
    /// operations.
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
