//! What Linux leaves to its devices: checksums, and cutting what it sends into packets.
//!
//! A packet comes and goes with the header of `linux/virtio_net.h`. One that is longer than the MTU
//! is *split* when it comes, so that queues and policies see the packets that a real device would
//! send; and packets of a connection that follow each other to a host at once are *joined*, as a real
//! device's driver (GRO) does, which saves their receiver most of the work.

use crate::packet::{IPV6_HEADER, Parsed, TCP, UDP, pseudo_header, seal_v4, set_length};
use crate::store::{Buffer, Partial, Store};
use perhop_core::fold;

/// The length of the header before each packet.
pub(crate) const VNET_HEADER: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Where a segment's checksum is, from where its header begins.
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const CWR: u8 = 0x80;

/// The longest headers of a packet that is joined: IPv6, and TCP with all options.
const MOST_HEADERS: usize = IPV6_HEADER + 60;

/// The longest packet of IP.
const LONGEST: usize = 65_535;

/// The header before each packet: `struct virtio_net_hdr`, in the machine's byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VnetHeader {
    flags: u8,
    gso: u8,
    /// How much of the packet is headers; a hint.
    headers: u16,
    /// How much each packet carries.
    size: u16,
    checksum: Partial,
}

impl VnetHeader {
    /// Of a packet whose checksum is left open, or is not.
    pub fn of(partial: Option<Partial>) -> Self {
        let flags = if partial.is_some() { NEEDS_CHECKSUM } else { 0 };
        Self { flags, checksum: partial.unwrap_or_default(), ..Self::default() }
    }

    /// What precedes a packet that was read.
    pub fn read(bytes: &[u8; VNET_HEADER]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            flags: bytes[0],
            gso: bytes[1],
            headers: word(2),
            size: word(4),
            checksum: Partial { start: word(6), offset: word(8) },
        }
    }

    /// What precedes a packet that is written.
    pub fn write(self) -> [u8; VNET_HEADER] {
        let mut bytes = [self.flags, self.gso, 0, 0, 0, 0, 0, 0, 0, 0];
        let words = [self.headers, self.size, self.checksum.start, self.checksum.offset];
        for (place, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// The checksum that is left open, if it lies within a packet of this length.
    pub fn partial(self, length: usize) -> Option<Partial> {
        let Partial { start, offset } = self.checksum;
        let end = usize::from(start) + usize::from(offset) + 2;
        (self.flags & NEEDS_CHECKSUM != 0 && end <= length).then_some(self.checksum)
    }

    /// Whether it precedes several packets.
    pub fn is_super(self) -> bool {
        self.gso & !GSO_ECN != GSO_NONE
    }
}

/// Divides what a host has sent as one into the packets that it stands for, and hands them over in
/// order, with their lengths. Says how many there were; none if it cannot be divided, or a place for
/// one is missing.
pub(crate) fn split(
    bytes: &[u8],
    (header, parsed): (VnetHeader, &Parsed),
    store: &mut Store,
    packets: &mut Vec<(Buffer, usize)>,
) -> Option<usize> {
    let transport = parsed.transport;
    let segment = parsed.payload(bytes);
    let (headers, offset) = match (header.gso & !GSO_ECN, parsed.number) {
        (GSO_TCP_V4 | GSO_TCP_V6, TCP) if segment.len() >= TCP_HEADER => {
            (4 * usize::from(segment[12] >> 4), TCP_CHECKSUM)
        }
        (GSO_UDP, UDP) => (UDP_HEADER, UDP_CHECKSUM),
        _ => return None,
    };
    let is_tcp = parsed.number == TCP;
    let size = usize::from(header.size);
    let shortest = if is_tcp { TCP_HEADER } else { UDP_HEADER };
    if headers < shortest
        || headers > segment.len()
        || size == 0
        || parsed.later_fragment
        || transport + headers + size > store.length()
    {
        return None;
    }
    let (all_headers, payload) = bytes[..parsed.length].split_at(transport + headers);
    let pieces = payload.chunks(size);
    let last = pieces.len().checked_sub(1)?;
    for (number, piece) in pieces.enumerate() {
        let buffer = store.take()?;
        let length = all_headers.len() + piece.len();
        let packet = &mut store.bytes_mut(buffer)[..length];
        packet[..all_headers.len()].copy_from_slice(all_headers);
        packet[all_headers.len()..].copy_from_slice(piece);
        set_length(packet, length);
        if packet[0] >> 4 == 4 {
            // Each packet has an identification of its own (RFC 6864).
            let first = u16::from_be_bytes([packet[4], packet[5]]);
            packet[4..6].copy_from_slice(&first.wrapping_add(number as u16).to_be_bytes());
            seal_v4(packet);
        }
        let sum = fold(pseudo_header(packet, parsed.number, length - transport));
        let own = &mut packet[transport..];
        if is_tcp {
            let first = u32::from_be_bytes([own[4], own[5], own[6], own[7]]);
            let sequence = first.wrapping_add((number * size) as u32);
            own[4..8].copy_from_slice(&sequence.to_be_bytes());
            if number < last {
                own[13] &= !(FIN | PSH);
            }
            if number > 0 {
                own[13] &= !CWR;
            }
        } else {
            own[4..6].copy_from_slice(&((length - transport) as u16).to_be_bytes());
        }
        let place = usize::from(offset);
        own[place..place + 2].copy_from_slice(&sum.to_be_bytes());
        store.set_partial(buffer, Some(Partial { start: transport as u16, offset }));
        packets.push((buffer, length));
    }
    Some(last + 1)
}

/// Packets of a connection that a host gets as one.
#[derive(Debug)]
pub(crate) struct Joined {
    /// The headers of all of it, …
    headers: [u8; MOST_HEADERS],
    /// … and their length.
    length: usize,
    pub vnet: VnetHeader,
    transport: usize,
    /// What each packet but the last carries.
    size: usize,
    payload: usize,
    next: u32,
    /// Nothing follows a packet that is shorter, or asks to be handed over.
    closed: bool,
}

impl Joined {
    /// The first of perhaps several, if it is one that others can follow.
    pub fn begin(bytes: &[u8], partial: Option<Partial>) -> Option<Self> {
        let Partial { start, offset } = partial?;
        let transport = usize::from(start);
        let v6 = bytes[0] >> 4 == 6;
        let plain = match v6 {
            true => transport == IPV6_HEADER && bytes[6] == TCP,
            false => bytes[0] == 0x45 && transport == 20 && bytes[9] == TCP,
        };
        if !plain || offset != TCP_CHECKSUM || bytes.len() < transport + TCP_HEADER {
            return None;
        }
        // Fragments are put together before they are joined.
        if !v6 && u16::from_be_bytes([bytes[6], bytes[7]]) & 0x3fff != 0 {
            return None;
        }
        let own = &bytes[transport..];
        let headers = transport + 4 * usize::from(own[12] >> 4);
        let size = bytes.len().checked_sub(headers).filter(|&size| size > 0)?;
        if own[13] & !PSH != ACK || headers < transport + TCP_HEADER {
            return None;
        }
        let first = u32::from_be_bytes([own[4], own[5], own[6], own[7]]);
        let mut all_headers = [0; MOST_HEADERS];
        all_headers.get_mut(..headers)?.copy_from_slice(&bytes[..headers]);
        Some(Self {
            headers: all_headers,
            length: headers,
            vnet: VnetHeader {
                flags: NEEDS_CHECKSUM,
                gso: if v6 { GSO_TCP_V6 } else { GSO_TCP_V4 },
                headers: headers as u16,
                size: size as u16,
                checksum: Partial { start, offset },
            },
            transport,
            size,
            payload: size,
            next: first.wrapping_add(size as u32),
            closed: own[13] & PSH != 0,
        })
    }

    /// The headers, which every packet has in its own place.
    pub fn headers(&self) -> &[u8] {
        &self.headers[..self.length]
    }

    /// Takes a packet, if it is what comes next.
    pub fn follow(&mut self, bytes: &[u8], partial: Option<Partial>) -> bool {
        let (length, transport) = (self.length, self.transport);
        if self.closed || partial != Some(self.vnet.checksum) || bytes.len() <= length {
            return false;
        }
        let payload = bytes.len() - length;
        if payload > self.size || length + self.payload + payload > LONGEST {
            return false;
        }
        let (ours, theirs) = (&self.headers[..length], &bytes[..length]);
        // Lengths, identifications and checksums are each packet's own.
        let same_ip = match theirs[0] >> 4 {
            6 => ours[..4] == theirs[..4] && ours[6..transport] == theirs[6..transport],
            _ => {
                ours[..2] == theirs[..2]
                    && ours[6..10] == theirs[6..10]
                    && ours[12..transport] == theirs[12..transport]
            }
        };
        let (ours, theirs) = (&ours[transport..], &theirs[transport..]);
        let same_tcp = ours[..4] == theirs[..4]
            && ours[8..13] == theirs[8..13]
            && theirs[13] & !PSH == ACK
            && ours[14..16] == theirs[14..16]
            && ours[18..] == theirs[18..];
        if !same_ip || !same_tcp || theirs[4..8] != self.next.to_be_bytes() {
            return false;
        }
        self.payload += payload;
        self.next = self.next.wrapping_add(payload as u32);
        self.closed = payload < self.size || theirs[13] & PSH != 0;
        let pushed = theirs[13] & PSH;
        self.headers[transport + 13] |= pushed;
        true
    }

    /// Makes the headers those of all packets together.
    pub fn seal(&mut self) {
        let length = self.length + self.payload;
        set_length(&mut self.headers, length);
        if self.headers[0] >> 4 == 4 {
            seal_v4(&mut self.headers);
        }
        let sum = fold(pseudo_header(&self.headers, TCP, length - self.transport));
        let place = self.transport + usize::from(TCP_CHECKSUM);
        self.headers[place..place + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Computes a checksum that was left open.
pub(crate) fn complete(bytes: &mut [u8], Partial { start, offset }: Partial) {
    let start = usize::from(start);
    let place = start + usize::from(offset);
    let sum = match perhop_core::checksum(perhop_core::sum_of_words(&bytes[start..])) {
        // Of a datagram, zero would say that there is none (RFC 768).
        0 if offset == UDP_CHECKSUM => 0xffff,
        sum => sum,
    };
    bytes[place..place + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests;
