//! The bytes of a packet: IPv4 (RFC 791) with TCP (RFC 9293), UDP (RFC 768) or ICMP (RFC 792).
//!
//! What the model does not have is zero: payloads, but for the number that a datagram begins with,
//! and urgent pointers. Checksums are those of the whole packet.

use std::net::Ipv4Addr;

use perhop_core::{Header, Protocol, checksum, sum_of_words};
use perhop_tcp::{Flags, Handshake, Segment};

use crate::hosts::{Body, Kind, Message};

const IP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const ICMP_HEADER: usize = 8;
/// What TCP segments count before their options.
const TCP_HEADER: usize = 20;

/// What an ICMP error quotes beyond an IP header.
const QUOTE: usize = 8;
/// The flag that forbids fragments: none of the model's networks has them.
const DONT_FRAGMENT: u16 = 0x4000;

// RFC 792.
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;

// RFC 9293, section 3.2, RFC 2018, RFC 7323: kinds of options and their lengths.
const NOP: u8 = 1;
const MSS: [u8; 2] = [2, 4];
const WINDOW_SCALE: [u8; 2] = [3, 3];
const SACK_PERMITTED: [u8; 2] = [4, 2];
const SACK: u8 = 5;
const TIMESTAMPS: [u8; 2] = [8, 10];

/// Writes a packet's headers, and of its payload what is not zero. `addresses` are those of the
/// nodes; `handshake` is what its sender said when the connection was opened.
pub(super) fn packet(
    out: &mut Vec<u8>,
    addresses: &[Ipv4Addr],
    header: &Header,
    body: &Body,
    handshake: Option<Handshake>,
) {
    ip(out, addresses, header, body.identification);
    match body.message {
        Message::Tcp(segment) => tcp(out, header, &segment, handshake),
        Message::Datagram { sequence } => udp(out, header, sequence as u32),
        Message::Probe { sequence } => udp(out, header, sequence),
        Message::EchoRequest { sequence } => echo(out, ECHO_REQUEST, body.endpoint, sequence),
        Message::EchoReply { sequence, .. } => echo(out, ECHO_REPLY, body.endpoint, sequence),
        Message::Error { error, quoted, kind, identification, sequence } => {
            let start = out.len();
            let (code, subcode) = error.type_and_code();
            out.extend_from_slice(&[code, subcode, 0, 0]);
            out.extend_from_slice(&error.word().to_be_bytes());
            ip(out, addresses, &quoted, identification);
            quote(out, &quoted, (kind, sequence as u32), body.endpoint);
            out.resize(start + ICMP_HEADER + IP_HEADER + QUOTE, 0);
            let sum = checksum(sum_of_words(&out[start..]));
            out[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// Writes at least the bytes that an ICMP error quotes of what a packet carries (RFC 792): eight.
fn quote(out: &mut Vec<u8>, header: &Header, (kind, sequence): (Kind, u32), sender: u32) {
    match kind {
        Kind::Segment => {
            ports(out, header);
            out.extend_from_slice(&sequence.wrapping_add(first_number(header)).to_be_bytes());
        }
        Kind::Datagram => udp(out, header, sequence),
        Kind::EchoRequest => echo(out, ECHO_REQUEST, sender, sequence),
        Kind::EchoReply => echo(out, ECHO_REPLY, sender, sequence),
    }
}

fn ip(out: &mut Vec<u8>, addresses: &[Ipv4Addr], header: &Header, id: u16) {
    let start = out.len();
    out.push(4 << 4 | (IP_HEADER / 4) as u8);
    out.push(header.traffic_class.octet());
    for field in [header.size as u16, id, DONT_FRAGMENT] {
        out.extend_from_slice(&field.to_be_bytes());
    }
    out.extend_from_slice(&[header.ttl, protocol(header), 0, 0]);
    for node in [header.source, header.destination] {
        out.extend_from_slice(&addresses[node.index()].octets());
    }
    let sum = checksum(sum_of_words(&out[start..]));
    out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
}

/// The protocol's number (IANA, Assigned Internet Protocol Numbers).
const fn protocol(header: &Header) -> u8 {
    match header.protocol {
        Protocol::Icmp => 1,
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        Protocol::Other => unreachable!(),
    }
}

fn tcp(out: &mut Vec<u8>, header: &Header, segment: &Segment, handshake: Option<Handshake>) {
    let start = out.len();
    let shift = handshake.and_then(|own| own.window_shift).unwrap_or(0);
    let opens = segment.flags.has(Flags::SYN);
    let acknowledges = segment.flags.has(Flags::ACK);
    let seq = segment.seq.0.wrapping_add(first_number(header));
    // The other side counts from a number of its own.
    let theirs = first_number(&reversed(header));
    let ack = if acknowledges { segment.ack.0.wrapping_add(theirs) } else { 0 };
    // A SYN's window is not scaled (RFC 7323, section 2.2).
    let window = if opens { segment.window } else { segment.window >> shift };

    ports(out, header);
    out.extend_from_slice(&seq.to_be_bytes());
    out.extend_from_slice(&ack.to_be_bytes());
    out.extend_from_slice(&control(segment.flags).to_be_bytes());
    out.extend_from_slice(&(window.min(u16::MAX.into()) as u16).to_be_bytes());
    out.extend_from_slice(&[0; 4]); // checksum, urgent pointer
    debug_assert_eq!(out.len() - start, TCP_HEADER);
    if let (true, Some(handshake)) = (opens, handshake) {
        opening_options(out, segment, handshake);
    } else {
        options(out, segment, theirs);
    }
    let length = out.len() - start;
    out[start + 12] |= (length as u8 / 4) << 4;
    debug_assert_eq!(IP_HEADER + length + usize::from(segment.payload), header.size as usize);
    seal(out, start, 16, header, 0);
}

/// The number of a connection's first byte in one direction. It depends on the addresses and ports
/// (RFC 9293, section 3.4.1), and on nothing else, so that it is the same at every interface.
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

/// The control bits (RFC 9293, section 3.1; the ninth is RFC 9768's).
fn control(flags: Flags) -> u16 {
    let bits = [
        (Flags::FIN, 0x001),
        (Flags::SYN, 0x002),
        (Flags::ACK, 0x010),
        (Flags::ECE, 0x040),
        (Flags::CWR, 0x080),
        (Flags::AE, 0x100),
    ];
    bits.iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, bit)| bit).sum()
}

/// Options of a SYN: what [`Handshake::option_bytes`] and the timestamps have room for.
fn opening_options(out: &mut Vec<u8>, segment: &Segment, handshake: Handshake) {
    out.extend_from_slice(&MSS);
    out.extend_from_slice(&handshake.mss.to_be_bytes());
    let sack = if handshake.sack { SACK_PERMITTED } else { [NOP; 2] };
    match segment.timestamps {
        Some(_) => out.extend_from_slice(&sack),
        None if handshake.sack => out.extend_from_slice(&[NOP, NOP, sack[0], sack[1]]),
        None => {}
    }
    timestamps(out, segment);
    if let Some(shift) = handshake.window_shift {
        out.extend_from_slice(&[NOP, WINDOW_SCALE[0], WINDOW_SCALE[1], shift]);
    }
}

/// Options of every other segment, each aligned as RFC 7323, appendix A, has it. What is
/// selectively acknowledged counts from the other side's first number.
fn options(out: &mut Vec<u8>, segment: &Segment, first: u32) {
    if segment.timestamps.is_some() {
        out.extend_from_slice(&[NOP, NOP]);
        timestamps(out, segment);
    }
    let blocks = segment.sack.as_slice();
    if !blocks.is_empty() {
        out.extend_from_slice(&[NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
        for (left, right) in blocks {
            out.extend_from_slice(&left.0.wrapping_add(first).to_be_bytes());
            out.extend_from_slice(&right.0.wrapping_add(first).to_be_bytes());
        }
    }
}

fn timestamps(out: &mut Vec<u8>, segment: &Segment) {
    if let Some((value, echo)) = segment.timestamps {
        out.extend_from_slice(&TIMESTAMPS);
        out.extend_from_slice(&value.to_be_bytes());
        out.extend_from_slice(&echo.to_be_bytes());
    }
}

/// A datagram. As iperf's do, it begins with its number, if it is long enough.
fn udp(out: &mut Vec<u8>, header: &Header, sequence: u32) {
    let start = out.len();
    let length = header.size as usize - IP_HEADER;
    ports(out, header);
    out.extend_from_slice(&(length as u16).to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    if length >= UDP_HEADER + 4 {
        out.extend_from_slice(&sequence.to_be_bytes());
    }
    // Zero would say that there is no checksum (RFC 768).
    seal(out, start, 6, header, 0xffff);
}

fn ports(out: &mut Vec<u8>, header: &Header) {
    out.extend_from_slice(&header.source_port.to_be_bytes());
    out.extend_from_slice(&header.destination_port.to_be_bytes());
}

/// An echo request or reply; its identifier is that of the application which asks.
fn echo(out: &mut Vec<u8>, kind: u8, asker: u32, sequence: u32) {
    let start = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0]);
    out.extend_from_slice(&(asker as u16).to_be_bytes());
    out.extend_from_slice(&(sequence as u16).to_be_bytes());
    let sum = checksum(sum_of_words(&out[start..]));
    out[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
}

/// Puts the checksum of a transport that covers a pseudo-header (RFC 9293, section 3.1) at `place`;
/// `zero` takes the place of a sum that is zero.
fn seal(out: &mut [u8], start: usize, place: usize, header: &Header, zero: u16) {
    // The addresses are the last eight bytes of the IP header before.
    let pseudo = sum_of_words(&out[start - 8..start])
        + u64::from(protocol(header))
        + (u64::from(header.size) - IP_HEADER as u64);
    let sum = match checksum(pseudo + sum_of_words(&out[start..])) {
        0 => zero,
        sum => sum,
    };
    out[start + place..start + place + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests;
