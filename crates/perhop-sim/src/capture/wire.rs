//! The bytes of a packet: IPv4 (RFC 791) with TCP (RFC 9293), UDP (RFC 768) or ICMP (RFC 792).
//!
//! Fields without a value in the model are zero: payloads, except for the number at the beginning
//! of a datagram, and urgent pointers. Checksums are those of the whole packet.

use std::net::Ipv4Addr;

use perhop_core::{Header, Protocol};
use perhop_tcp::{Flags, Handshake, Segment, Seq};
use perhop_wire::{
    DONT_FRAGMENT, ICMP_HEADER, IPV4_HEADER, IcmpRepr, Ipv4Repr, MORE_FRAGMENTS, TcpHeader,
    TcpOption, TcpRepr, UDP_HEADER, UdpRepr, fill_icmp_checksum, fill_transport_checksum, flags,
    icmpv4, number,
};

use super::outer;
use crate::hosts::{Body, Kind, Message};

/// Number of bytes that an ICMP error quotes beyond the IP header.
const QUOTE: usize = 8;

/// Writes a packet's headers, and its payload up to the last byte that is not zero. `addresses` are
/// those of the nodes; `handshake` has the options of the sender.
pub(super) fn packet(
    out: &mut Vec<u8>,
    addresses: &[Ipv4Addr],
    header: &Header,
    body: &Body,
    handshake: Option<Handshake>,
) {
    let place = match body.message {
        Message::Fragment { offset, total, .. } => {
            let end = usize::from(offset) * 8 + length(header);
            offset | if end < total.into() { MORE_FRAGMENTS } else { 0 }
        }
        _ => DONT_FRAGMENT,
    };
    ip(out, addresses, header, (body.identification, place));
    match body.message {
        Message::Fragment { sequence, offset: 0, total } => {
            udp(out, header, sequence as u32, total.into());
        }
        Message::Fragment { .. } => {} // zeros
        Message::Tcp(segment) => tcp(out, header, &segment, handshake),
        Message::Datagram { sequence } => udp(out, header, sequence as u32, length(header)),
        Message::Probe { sequence } => udp(out, header, sequence, length(header)),
        Message::EchoRequest { sequence } => {
            echo(out, icmpv4::ECHO_REQUEST, body.endpoint, sequence)
        }
        Message::EchoReply { sequence, .. } => {
            echo(out, icmpv4::ECHO_REPLY, body.endpoint, sequence)
        }
        Message::Outer { number, .. } => outer::complete(out, header, number),
        Message::Error { error, quoted, kind: quoted_kind, identification, sequence } => {
            let start = out.len();
            let (kind, code) = error.type_and_code();
            out.extend_from_slice(&IcmpRepr { kind, code, rest: error.word() }.emit());
            ip(out, addresses, &quoted, (identification, DONT_FRAGMENT));
            quote(out, &quoted, (quoted_kind, sequence as u32), body.endpoint);
            out.resize(start + ICMP_HEADER + IPV4_HEADER + QUOTE, 0);
            fill_icmp_checksum(&mut out[start - IPV4_HEADER..], IPV4_HEADER);
        }
    }
}

/// Writes at least the eight bytes behind the IP header that an ICMP error quotes (RFC 792).
fn quote(out: &mut Vec<u8>, header: &Header, (kind, sequence): (Kind, u32), sender: u32) {
    match kind {
        Kind::Segment => {
            let sequence = sequence.wrapping_add(first_number(header));
            let ports = [header.source_port, header.destination_port];
            out.extend_from_slice(ports.map(u16::to_be_bytes).as_flattened());
            out.extend_from_slice(&sequence.to_be_bytes());
        }
        Kind::Datagram => udp(out, header, sequence, length(header)),
        Kind::EchoRequest => echo(out, icmpv4::ECHO_REQUEST, sender, sequence),
        Kind::EchoReply => echo(out, icmpv4::ECHO_REPLY, sender, sequence),
        Kind::Outer(number) => outer::complete(out, header, number),
    }
}

/// Returns the bytes behind the IP header.
const fn length(header: &Header) -> usize {
    header.size as usize - IPV4_HEADER
}

/// Writes an IP header with an identification and the word of flags and fragment offset.
fn ip(
    out: &mut Vec<u8>,
    addresses: &[Ipv4Addr],
    header: &Header,
    (identification, fragment): (u16, u16),
) {
    let ip = Ipv4Repr {
        traffic_class: header.traffic_class,
        total_length: header.size as u16,
        identification,
        fragment,
        ttl: header.ttl,
        protocol: protocol(header),
        source: addresses[header.source.index()],
        destination: addresses[header.destination.index()],
    };
    out.extend_from_slice(&ip.emit());
}

const fn protocol(header: &Header) -> u8 {
    match header.protocol() {
        Protocol::Icmp => number::ICMP,
        Protocol::Tcp => number::TCP,
        Protocol::Udp => number::UDP,
        Protocol::Other => 0, // completed later
    }
}

fn tcp(out: &mut Vec<u8>, header: &Header, segment: &Segment, handshake: Option<Handshake>) {
    let start = out.len();
    let shift = handshake.and_then(|own| own.window_shift).unwrap_or(0);
    let opens = segment.flags.has(Flags::SYN);
    let acknowledges = segment.flags.has(Flags::ACK);
    let seq = segment.seq.0.wrapping_add(first_number(header));
    // The other side has its own initial sequence number.
    let theirs = first_number(&reversed(header));
    let ack = if acknowledges { segment.ack.0.wrapping_add(theirs) } else { 0 };
    // A SYN's window is not scaled (RFC 7323, section 2.2).
    let window = if opens { segment.window } else { segment.window >> shift };

    let values = TcpRepr {
        source_port: header.source_port,
        destination_port: header.destination_port,
        sequence: seq,
        acknowledgement: ack,
        flags: control(segment.flags),
        window: window.min(u16::MAX.into()) as u16,
    };
    out.extend_from_slice(&values.emit());
    if let (true, Some(handshake)) = (opens, handshake) {
        opening_options(out, segment, handshake);
    } else {
        options(out, segment, theirs);
    }
    let length = out.len() - start;
    if let Some(mut written) = TcpHeader::of_mut(&mut out[start..]) {
        written.set_header_length(length);
    }
    debug_assert_eq!(IPV4_HEADER + length + usize::from(segment.payload), header.size as usize);
    seal(out, start, header, self::length(header));
}

/// Returns the initial sequence number of a connection in one direction. It depends on the
/// addresses and ports only (RFC 9293, section 3.4.1), so that it is the same at all interfaces.
fn first_number(header: &Header) -> u32 {
    const ISN: u64 = 0x4953_4e00;
    header.flow_hash(ISN) as u32
}

fn reversed(header: &Header) -> Header {
    Header {
        source: header.destination,
        destination: header.source,
        source_port: header.destination_port,
        destination_port: header.source_port,
        ..*header
    }
}

/// Returns the control bits.
fn control(flags: Flags) -> u16 {
    let bits = [
        (Flags::FIN, flags::FIN),
        (Flags::SYN, flags::SYN),
        (Flags::ACK, flags::ACK),
        (Flags::ECE, flags::ECE),
        (Flags::CWR, flags::CWR),
        (Flags::AE, flags::AE),
    ];
    bits.iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, bit)| bit).sum()
}

/// Writes the options of a SYN: those of [`Handshake::option_bytes`], and timestamps.
fn opening_options(out: &mut Vec<u8>, segment: &Segment, handshake: Handshake) {
    use TcpOption::{Mss, Nop, SackPermitted, Timestamps, WindowScale};
    let mut put = |options: &[TcpOption<'_>]| options.iter().for_each(|option| option.write(out));
    put(&[Mss(handshake.mss)]);
    match (segment.timestamps, handshake.sack) {
        (Some(_), true) => put(&[SackPermitted]),
        (Some(_), false) => put(&[Nop, Nop]),
        (None, true) => put(&[Nop, Nop, SackPermitted]),
        (None, false) => {}
    }
    if let Some((value, echo)) = segment.timestamps {
        put(&[Timestamps { value, echo }]);
    }
    if let Some(shift) = handshake.window_shift {
        put(&[Nop, WindowScale(shift)]);
    }
}

/// Writes the options of another segment, aligned as in RFC 7323, appendix A. SACK blocks count
/// from the other side's initial sequence number.
fn options(out: &mut Vec<u8>, segment: &Segment, first: u32) {
    let mut put = |option: TcpOption<'_>| {
        let aligned = [TcpOption::Nop, TcpOption::Nop, option];
        aligned.iter().for_each(|option| option.write(out));
    };
    if let Some((value, echo)) = segment.timestamps {
        put(TcpOption::Timestamps { value, echo });
    }
    let blocks = segment.sack.as_slice();
    if !blocks.is_empty() {
        let from_first = |number: Seq| number.0.wrapping_add(first);
        let blocks = blocks.iter().map(|&(left, right)| (from_first(left), from_first(right)));
        put(TcpOption::Sack(blocks.collect()));
    }
}

/// Writes a datagram of `length` bytes, or its first part. Like iperf's, it begins with its number
/// if it is long enough.
fn udp(out: &mut Vec<u8>, header: &Header, sequence: u32, length: usize) {
    let start = out.len();
    let values = UdpRepr {
        source_port: header.source_port,
        destination_port: header.destination_port,
        length: length as u16,
    };
    out.extend_from_slice(&values.emit());
    if length >= UDP_HEADER + 4 {
        out.extend_from_slice(&sequence.to_be_bytes());
    }
    seal(out, start, header, length);
}

/// Writes an echo request or reply; its identifier is that of the application that sends requests.
fn echo(out: &mut Vec<u8>, kind: u8, asker: u32, sequence: u32) {
    out.extend_from_slice(&IcmpRepr::echo(kind, asker as u16, sequence as u16).emit());
}

/// Computes the checksum of the transport that begins at `start` and has `length` bytes. Zeros
/// behind the written bytes do not change it.
fn seal(out: &mut [u8], start: usize, header: &Header, length: usize) {
    let packet = &mut out[start - IPV4_HEADER..];
    fill_transport_checksum(packet, IPV4_HEADER, protocol(header), length);
}

#[cfg(test)]
mod tests;
