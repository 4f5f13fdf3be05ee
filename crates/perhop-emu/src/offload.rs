//! Offloads that Linux expects of its devices: checksums and segmentation.
//!
//! Packets are exchanged with the header of `linux/virtio_net.h`. A packet that is longer than the
//! MTU is *split* when it is read, so that queues and policers get the packets that a real device
//! would send. Successive packets of a connection to a host are *joined*, as in a real device's
//! driver (GRO), which saves their receiver most of the work.

use perhop_wire::{
    FRAGMENT_OFFSET, IPV4_HEADER, IPV6_HEADER, IpPacket, Ipv4Header, Ipv6Header, MORE_FRAGMENTS,
    PartialChecksum, Segmentation, TCP_CHECKSUM, TcpHeader, TcpSegment, UDP_CHECKSUM, UDP_HEADER,
    UdpHeader, VnetHeader, fill_ipv4_checksum, flags, fold, is_ipv6, number, pseudo_header,
    set_length,
};

use crate::store::{Buffer, Store};

/// Length of the longest headers of a joined packet, in bytes: IPv6, and TCP with all options.
const MOST_HEADERS: usize = IPV6_HEADER + 60;

/// Length of the longest IP packet, in bytes.
const LONGEST: usize = 65_535;

/// Splits data that a host has sent as one into packets, and hands them over in order, with their
/// lengths. Returns their number; `None` if the data cannot be split, or memory for a packet is
/// missing.
pub(crate) fn split(
    bytes: &[u8],
    (header, parsed): (VnetHeader, &IpPacket),
    store: &mut Store,
    packets: &mut Vec<(Buffer, usize)>,
) -> Option<usize> {
    let transport = parsed.transport;
    let own = parsed.payload(bytes);
    let (headers, offset) = match (header.segmentation()?, parsed.number) {
        (Segmentation::TcpV4 | Segmentation::TcpV6, number::TCP) => {
            (own.len() - TcpSegment::new_checked(own).ok()?.payload().len(), TCP_CHECKSUM)
        }
        (Segmentation::Udp, number::UDP) if own.len() >= UDP_HEADER => (UDP_HEADER, UDP_CHECKSUM),
        _ => return None,
    };
    let size = header.segment();
    if size == 0 || parsed.is_later_fragment() || transport + headers + size > store.length() {
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
        if !is_ipv6(packet) {
            if let Some(mut header) = Ipv4Header::of_mut(packet) {
                // Each packet has its own identification (RFC 6864).
                let first = header.identification();
                header.set_identification(first.wrapping_add(number as u16));
            }
            fill_ipv4_checksum(packet);
        }
        let sum = fold(pseudo_header(packet, parsed.number, length - transport));
        let own = &mut packet[transport..];
        if parsed.number == number::TCP {
            let mut header = TcpHeader::of_mut(own)?;
            header.set_sequence(header.sequence().wrapping_add((number * size) as u32));
            let not_last = if number < last { flags::FIN | flags::PSH } else { 0 };
            let not_first = if number > 0 { flags::CWR } else { 0 };
            header.set_flags(header.flags() & !not_last & !not_first);
            header.set_checksum(sum);
        } else {
            let mut header = UdpHeader::of_mut(own)?;
            header.set_length((length - transport) as u16);
            header.set_checksum(sum);
        }
        let partial = PartialChecksum { start: transport as u16, offset: offset as u16 };
        store.set_partial(buffer, Some(partial));
        packets.push((buffer, length));
    }
    Some(last + 1)
}

/// Returns `true` if a segment with these flags carries data and may be joined with others.
const fn may_join(flags: u16) -> bool {
    flags & !(flags::PSH | flags::AE) == flags::ACK
}

/// Packets of a connection that are handed to a host as one.
#[derive(Debug)]
pub(crate) struct Joined {
    /// Headers of the joined packet.
    headers: [u8; MOST_HEADERS],
    /// Length of the headers, in bytes.
    length: usize,
    pub vnet: VnetHeader,
    checksum: PartialChecksum,
    transport: usize,
    /// Payload of each packet but the last, in bytes.
    size: usize,
    payload: usize,
    next: u32,
    /// True after a shorter packet, or one with the push flag, which none may follow.
    closed: bool,
}

impl Joined {
    /// Begins with a packet, if others can follow it.
    pub fn begin(bytes: &[u8], partial: Option<PartialChecksum>) -> Option<Self> {
        let checksum = partial?;
        let transport = usize::from(checksum.start);
        let is_v6 = is_ipv6(bytes);
        let plain = match is_v6 {
            true => transport == IPV6_HEADER && Ipv6Header::of(bytes)?.next_header() == number::TCP,
            false => {
                let header = Ipv4Header::of(bytes)?;
                // Fragments are reassembled before they are joined.
                transport == IPV4_HEADER
                    && header.header_length() == IPV4_HEADER
                    && header.protocol() == number::TCP
                    && header.fragment() & (MORE_FRAGMENTS | FRAGMENT_OFFSET) == 0
            }
        };
        if !plain || usize::from(checksum.offset) != TCP_CHECKSUM {
            return None;
        }
        let segment = TcpSegment::new_checked(bytes.get(transport..)?).ok()?;
        let (header, size) = (segment.header(), segment.payload().len());
        if size == 0 || !may_join(header.flags()) {
            return None;
        }
        let length = bytes.len() - size;
        let mut headers = [0; MOST_HEADERS];
        headers.get_mut(..length)?.copy_from_slice(&bytes[..length]);
        Some(Self {
            headers,
            length,
            vnet: VnetHeader::of_segments(is_v6, length as u16, size as u16, checksum),
            checksum,
            transport,
            size,
            payload: size,
            next: header.sequence().wrapping_add(size as u32),
            closed: header.flags() & flags::PSH != 0,
        })
    }

    /// Returns the headers, each in place.
    pub fn headers(&self) -> &[u8] {
        &self.headers[..self.length]
    }

    /// Adds a packet, if it is the next of the connection; returns `true` if it was added.
    pub fn follow(&mut self, bytes: &[u8], partial: Option<PartialChecksum>) -> bool {
        if self.closed || partial != Some(self.checksum) || bytes.len() <= self.length {
            return false;
        }
        let payload = bytes.len() - self.length;
        if payload > self.size || self.length + self.payload + payload > LONGEST {
            return false;
        }
        let Some(flags) = self.flags_of_next(&bytes[..self.length]) else { return false };
        self.payload += payload;
        self.next = self.next.wrapping_add(payload as u32);
        self.closed = payload < self.size || flags & flags::PSH != 0;
        if let Some(mut header) = TcpHeader::of_mut(&mut self.headers[self.transport..]) {
            header.set_flags(header.flags() | flags);
        }
        true
    }

    /// Returns the flags of the packet with these headers if the rest agrees with the first
    /// packet's; lengths, identifications and checksums may differ.
    fn flags_of_next(&self, theirs: &[u8]) -> Option<u16> {
        let (our_ip, our_tcp) = self.headers().split_at(self.transport);
        let (their_ip, their_tcp) = theirs.split_at(self.transport);
        let same_ip = match is_ipv6(theirs) {
            true => our_ip[..4] == their_ip[..4] && our_ip[6..] == their_ip[6..],
            false => {
                our_ip[..2] == their_ip[..2]
                    && our_ip[6..10] == their_ip[6..10]
                    && our_ip[12..] == their_ip[12..]
            }
        };
        let (ours, next) = (TcpHeader::of(our_tcp)?, TcpHeader::of(their_tcp)?);
        let same_tcp = ours.ports() == next.ports()
            && next.sequence() == self.next
            && may_join(next.flags())
            // Acknowledgement number, length of the header, reserved bits.
            && our_tcp[8..13] == their_tcp[8..13]
            && ours.window() == next.window()
            && our_tcp[18..] == their_tcp[18..];
        (same_ip && same_tcp).then(|| next.flags())
    }

    /// Sets the headers to those of the joined packet.
    pub fn seal(&mut self) {
        let length = self.length + self.payload;
        set_length(&mut self.headers, length);
        if !is_ipv6(&self.headers) {
            fill_ipv4_checksum(&mut self.headers);
        }
        let sum = fold(pseudo_header(&self.headers, number::TCP, length - self.transport));
        if let Some(mut header) = TcpHeader::of_mut(&mut self.headers[self.transport..]) {
            header.set_checksum(sum);
        }
    }
}

#[cfg(test)]
mod tests;
