//! The bytes of a packet: IPv4 (RFC 791) or IPv6 (RFC 8200) with TCP (RFC 9293), UDP (RFC 768) or
//! ICMP (RFC 792, RFC 4443).
//!
//! Fields without a value in the model are zero: payloads, except for the number at the beginning
//! of a datagram, and urgent pointers. Checksums are those of the whole packet.

use std::net::{Ipv4Addr, Ipv6Addr};

use perhop_core::{Header, IpVersion, Protocol};
use perhop_tcp::{Flags, Handshake, Segment, Seq};
use perhop_wire::{
    DONT_FRAGMENT, FRAGMENT_HEADER, ICMP_HEADER, IPV4_HEADER, IcmpRepr, Ipv4Repr, Ipv6Repr,
    MORE_FRAGMENTS, TcpHeader, TcpOption, TcpRepr, UDP_HEADER, UdpRepr, complete_outer,
    fill_icmp_checksum, fill_transport_checksum, flags, icmpv4, icmpv6, number,
};

use crate::hosts::{Body, Kind, Line, Message};

/// Number of bytes that an ICMPv4 error quotes beyond the IP header.
const QUOTE: usize = 8;

/// Addresses of a node.
type Addresses = (Ipv4Addr, Ipv6Addr);

/// Writes a packet's headers, and its payload up to the last byte that is not zero. `addresses` are
/// those of the nodes; `line` is that of the sender.
pub(super) fn packet(
    out: &mut Vec<u8>,
    addresses: &[Addresses],
    header: &Header,
    body: &Body,
    line: &Line,
) {
    let place = match body.message {
        Message::Fragment { offset, total, .. } => {
            let end = usize::from(offset) * 8 + fragment_length(header);
            Some(offset | if end < total.into() { MORE_FRAGMENTS } else { 0 })
        }
        _ => None,
    };
    // Later fragments have no ports, but the flow label of the first.
    let labelled = if place.is_some() { &line.header } else { header };
    let packet = ip(out, addresses, (header, labelled.flow_label()), (body.identification, place));
    match body.message {
        Message::Fragment { sequence, offset: 0, total } => {
            udp(out, packet, header, sequence as u32, total.into());
        }
        Message::Fragment { .. } => {} // zeros
        Message::Tcp(segment) => tcp(out, packet, header, &segment, line.handshake),
        Message::Datagram { sequence } => udp(out, packet, header, sequence as u32, length(header)),
        Message::Probe { sequence } => udp(out, packet, header, sequence, length(header)),
        Message::Quic(_) => udp(out, packet, header, 0, length(header)),
        Message::EchoRequest { sequence } => {
            echo(out, packet, header, Kind::EchoRequest, (body.endpoint, sequence));
        }
        Message::EchoReply { sequence, .. } => {
            echo(out, packet, header, Kind::EchoReply, (body.endpoint, sequence));
        }
        Message::Outer { number, .. } => complete_outer(out, header, number),
        Message::Error { error, quoted, kind: quoted_kind, identification, sequence } => {
            let start = out.len();
            let (kind, code) = match header.version() {
                IpVersion::V4 => error.type_and_code(),
                IpVersion::V6 => error.type_and_code_v6(),
            };
            out.extend_from_slice(&IcmpRepr { kind, code, rest: error.word() }.emit());
            quote(out, addresses, &quoted, (quoted_kind, sequence as u32), (body, identification));
            let length = match header.version() {
                IpVersion::V4 => ICMP_HEADER + IPV4_HEADER + QUOTE,
                IpVersion::V6 => length(header),
            };
            out.resize(start + length, 0);
            fill_icmp_checksum(&mut out[packet..], start - packet);
        }
    }
}

/// Writes the IP header that an ICMP error quotes, and at least eight bytes behind it (RFC 792).
fn quote(
    out: &mut Vec<u8>,
    addresses: &[Addresses],
    header: &Header,
    (kind, sequence): (Kind, u32),
    (body, identification): (&Body, u16),
) {
    let packet = ip(out, addresses, (header, header.flow_label()), (identification, None));
    match kind {
        Kind::Segment => {
            let sequence = sequence.wrapping_add(first_number(header));
            let ports = [header.source_port, header.destination_port];
            out.extend_from_slice(ports.map(u16::to_be_bytes).as_flattened());
            out.extend_from_slice(&sequence.to_be_bytes());
            // The length of a header without options, which an IPv6 quote includes.
            out.extend_from_slice(&[0, 0, 0, 0, 5 << 4]);
        }
        Kind::Datagram => udp(out, packet, header, sequence, length(header)),
        Kind::EchoRequest | Kind::EchoReply => {
            echo(out, packet, header, kind, (body.endpoint, sequence));
        }
        Kind::Outer(number) => complete_outer(out, header, number),
    }
}

/// Returns the bytes behind the IP header.
const fn length(header: &Header) -> usize {
    (header.size - header.version().header_bytes()) as usize
}

/// Returns the bytes of a fragment's part of its datagram.
const fn fragment_length(header: &Header) -> usize {
    match header.version() {
        IpVersion::V4 => length(header),
        IpVersion::V6 => length(header) - FRAGMENT_HEADER,
    }
}

/// Writes an IP header, with a flow label, the identification, and the offset and flag of a
/// fragment; returns where it begins.
fn ip(
    out: &mut Vec<u8>,
    addresses: &[Addresses],
    (header, flow_label): (&Header, u32),
    (identification, fragment): (u16, Option<u16>),
) -> usize {
    let start = out.len();
    let [source, destination] =
        [header.source, header.destination].map(|node| addresses[node.index()]);
    if header.version() == IpVersion::V4 {
        let ip = Ipv4Repr {
            traffic_class: header.traffic_class,
            total_length: header.size as u16,
            identification,
            fragment: fragment.unwrap_or(DONT_FRAGMENT),
            ttl: header.ttl,
            protocol: protocol(header),
            source: source.0,
            destination: destination.0,
        };
        out.extend_from_slice(&ip.emit());
        return start;
    }
    let ip = Ipv6Repr {
        traffic_class: header.traffic_class,
        flow_label,
        payload_length: length(header) as u16,
        next_header: if fragment.is_some() { number::FRAGMENT } else { protocol(header) },
        hop_limit: header.ttl,
        source: source.1,
        destination: destination.1,
    };
    out.extend_from_slice(&ip.emit());
    if let Some(fragment) = fragment {
        // The offset is in the high bits, the flag in the lowest one (RFC 8200, section 4.5).
        let word = fragment << 3 | u16::from(fragment & MORE_FRAGMENTS != 0);
        out.extend_from_slice(&[protocol(header), 0]);
        out.extend_from_slice(&word.to_be_bytes());
        out.extend_from_slice(&u32::from(identification).to_be_bytes());
    }
    start
}

const fn protocol(header: &Header) -> u8 {
    match header.protocol() {
        Protocol::Icmp => number::ICMP,
        Protocol::Icmp6 => number::ICMPV6,
        Protocol::Tcp | Protocol::Tcp6 => number::TCP,
        Protocol::Udp | Protocol::Udp6 => number::UDP,
        Protocol::Other | Protocol::Other6 => 0, // completed later
    }
}

fn tcp(
    out: &mut Vec<u8>,
    packet: usize,
    header: &Header,
    segment: &Segment,
    handshake: Option<Handshake>,
) {
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
    debug_assert_eq!(length + usize::from(segment.payload), self::length(header));
    seal(out, (packet, start), header, self::length(header));
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
fn udp(out: &mut Vec<u8>, packet: usize, header: &Header, sequence: u32, length: usize) {
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
    seal(out, (packet, start), header, length);
}

/// Writes an echo request or reply; its identifier is that of the application that sends requests.
/// The checksum of ICMPv6 covers the length, so that the zeros of the payload are written, too.
fn echo(
    out: &mut Vec<u8>,
    packet: usize,
    header: &Header,
    kind: Kind,
    (asker, sequence): (u32, u32),
) {
    let start = out.len();
    let kind = match (header.version(), kind) {
        (IpVersion::V4, Kind::EchoRequest) => icmpv4::ECHO_REQUEST,
        (IpVersion::V4, _) => icmpv4::ECHO_REPLY,
        (IpVersion::V6, Kind::EchoRequest) => icmpv6::ECHO_REQUEST,
        (IpVersion::V6, _) => icmpv6::ECHO_REPLY,
    };
    out.extend_from_slice(&IcmpRepr::echo(kind, asker as u16, sequence as u16).emit());
    if header.version() == IpVersion::V6 {
        out.resize(start + length(header), 0);
        fill_icmp_checksum(&mut out[packet..], start - packet);
    }
}

/// Computes the checksum of the transport that begins at `start` and has `length` bytes, in the
/// packet that begins at `packet`. Zeros behind the written bytes do not change it.
fn seal(out: &mut [u8], (packet, start): (usize, usize), header: &Header, length: usize) {
    fill_transport_checksum(&mut out[packet..], start - packet, protocol(header), length);
}

#[cfg(test)]
mod tests;
