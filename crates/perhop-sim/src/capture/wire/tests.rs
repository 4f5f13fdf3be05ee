//! Packets that are written, and read back by a reader that shares no code with the writer.

use perhop_core::{AckHint, Dscp, Ecn, NodeId, Time, TrafficClass};
use perhop_tcp::SackBlocks;
use proptest::prelude::*;

use super::*;

const ADDRESSES: [Addresses; 2] = [
    (Ipv4Addr::new(192, 0, 2, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    (Ipv4Addr::new(198, 51, 100, 7), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7)),
];

fn header(protocol: Protocol, size: u32, class: TrafficClass) -> Header {
    Header {
        size,
        source: NodeId(0),
        destination: NodeId(1),
        source_port: 49_152,
        destination_port: 5001,
        protocol: protocol.into(),
        traffic_class: class,
        ttl: 17,
        ack: AckHint::NONE,
    }
}

/// Returns the header of the packet over IPv6, if `v6`, which is longer by 20 bytes.
fn over(header: Header, v6: bool) -> Header {
    let version = IpVersion::of(v6);
    let size = header.size + Line::beyond_ipv4(version);
    Header { size, protocol: header.protocol().over(version).into(), ..header }
}

fn written(header: &Header, message: Message, handshake: Option<Handshake>) -> Vec<u8> {
    let body = Body { endpoint: 0x1_0007, identification: 0xabcd, sent: Time::ZERO, message };
    let mut out = Vec::new();
    let line = Line { header: *header, peer: 0, handshake };
    packet(&mut out, &ADDRESSES, header, &body, &line);
    out
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) << 16 | u32::from(word(bytes, at + 2))
}

/// Returns the ones' complement sum of 16-bit words, with the carries: all ones for data with its
/// checksum.
fn folded(bytes: &[u8]) -> u16 {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(2), 0);
    (0..padded.len() / 2).fold(0, |sum: u16, index| {
        let (sum, carry) = sum.overflowing_add(word(&padded, 2 * index));
        sum + u16::from(carry)
    })
}

/// Checks the IP header and the checksums; returns the transport, with its payload padded to full
/// length.
fn opened(bytes: &[u8], header: &Header, protocol: u8) -> Vec<u8> {
    let mut whole = bytes.to_vec();
    assert!(whole.len() <= header.size as usize, "longer than the packet");
    whole.resize(header.size as usize, 0);
    if header.version() == IpVersion::V6 {
        return opened_v6(whole, header, protocol);
    }
    assert_eq!(whole[0], 0x45);
    assert_eq!(whole[1], header.traffic_class.octet());
    assert_eq!(u32::from(word(&whole, 2)), header.size);
    assert_eq!((word(&whole, 4), word(&whole, 6)), (0xabcd, 0x4000));
    assert_eq!((whole[8], whole[9]), (header.ttl, protocol));
    assert_eq!((&whole[12..16], &whole[16..20]), (&[192, 0, 2, 1][..], &[198, 51, 100, 7][..]));
    assert_eq!(folded(&whole[..20]), 0xffff, "the header's checksum");
    let payload = whole.split_off(20);
    let sealed = if protocol == 1 {
        payload.clone()
    } else {
        // RFC 9293, section 3.1, and RFC 768: the pseudo-header.
        let length = (payload.len() as u16).to_be_bytes();
        let pseudo = [&whole[12..20], &[0, protocol], &length, &payload];
        pseudo.concat()
    };
    assert_eq!(folded(&sealed), 0xffff, "the payload's checksum");
    payload
}

/// As [`opened`], for a whole packet of IPv6 (RFC 8200, section 3).
fn opened_v6(mut whole: Vec<u8>, header: &Header, protocol: u8) -> Vec<u8> {
    let protocol = if protocol == 1 { 58 } else { protocol };
    let first = long(&whole, 0);
    assert_eq!((first >> 28, first >> 20 & 0xff), (6, header.traffic_class.octet().into()));
    assert_eq!(first & 0xf_ffff, header.flow_label());
    assert_eq!(u32::from(word(&whole, 4)), header.size - 40);
    assert_eq!((whole[6], whole[7]), (protocol, header.ttl));
    assert_eq!(whole[8..24], ADDRESSES[0].1.octets());
    assert_eq!(whole[24..40], ADDRESSES[1].1.octets());
    let payload = whole.split_off(40);
    // Section 8.1: the pseudo-header, of ICMPv6, too (RFC 4443, section 2.3).
    let length = (payload.len() as u32).to_be_bytes();
    let pseudo = [&whole[8..40], &length, &[0, 0, 0, protocol], &payload];
    assert_eq!(folded(&pseudo.concat()), 0xffff, "the payload's checksum");
    payload
}

/// Returns the options: kind and value of each.
fn options_of(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some(&kind) = bytes.first() {
        let length = if kind == 1 { 1 } else { usize::from(bytes[1]) };
        if kind != 1 {
            found.push((kind, bytes[2..length].to_vec()));
        }
        bytes = &bytes[length..];
    }
    found
}

fn longs(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

prop_compose! {
    fn classes()(dscp in 0_u8..64, ecn in 0_usize..4) -> TrafficClass {
        let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][ecn];
        TrafficClass::new(Dscp::new(dscp).unwrap()).with_ecn(ecn)
    }
}

prop_compose! {
    fn segments()(
        (seq, ack, window) in (any::<u32>(), any::<u32>(), any::<u32>()),
        payload in 0_u16..9000,
        (flags, ece, cwr, ae) in (0_usize..5, any::<bool>(), any::<bool>(), any::<bool>()),
        timestamps in any::<Option<(u32, u32)>>(),
        blocks in prop::collection::vec((any::<u32>(), any::<u32>()), 0..5),
    ) -> Segment {
        let syn = flags < 2;
        let mut sack = SackBlocks::default();
        if !syn {
            blocks.iter().for_each(|block| sack.push(block.0.into(), block.1.into()));
        }
        let flags = [
            Flags::SYN,
            Flags::SYN.with(Flags::ACK),
            Flags::ACK,
            Flags::FIN.with(Flags::ACK),
            Flags::ACK.with(Flags::RETRANSMISSION),
        ][flags];
        let ecn = [(ece, Flags::ECE), (cwr, Flags::CWR), (ae, Flags::AE)];
        let set = ecn.iter().filter(|(is_set, _)| *is_set);
        let flags = set.fold(flags, |flags, (_, flag)| flags.with(*flag));
        let payload = if syn { 0 } else { payload };
        let (seq, ack) = (Seq(seq), Seq(ack));
        Segment { seq, ack, window, payload, flags, timestamps, sack, ..Segment::default() }
    }
}

prop_compose! {
    fn handshakes()(
        mss in any::<u16>(),
        window_shift in prop::option::of(0_u8..15),
        sack in any::<bool>(),
    ) -> Handshake {
        Handshake { mss, window_shift, sack }
    }
}

proptest! {
    #[test]
    fn segments_are_written_as_they_are(
        segment in segments(),
        handshake in handshakes(),
        class in classes(),
        v6 in any::<bool>(),
    ) {
        let syn = segment.flags.has(Flags::SYN);
        let opening = handshake.option_bytes(segment.timestamps.is_some());
        let size = segment.ip_bytes() + if syn { opening } else { 0 };
        let header = over(header(Protocol::Tcp, size, class), v6);
        let bytes = written(&header, Message::Tcp(segment), Some(handshake));
        let tcp = opened(&bytes, &header, 6);

        prop_assert_eq!((word(&tcp, 0), word(&tcp, 2)), (49_152, 5001));
        let [ours, theirs] = [first_number(&header), first_number(&reversed(&header))];
        prop_assert_eq!(long(&tcp, 4), segment.seq.0.wrapping_add(ours));
        let ack = segment.flags.has(Flags::ACK);
        let expected = if ack { segment.ack.0.wrapping_add(theirs) } else { 0 };
        prop_assert_eq!(long(&tcp, 8), expected);
        let offset = usize::from(tcp[12] >> 4) * 4;
        let [ece, cwr, ae] = [Flags::ECE, Flags::CWR, Flags::AE].map(|f| segment.flags.has(f));
        prop_assert_eq!(tcp[12] & 0x0f, u8::from(ae));
        prop_assert_eq!(tcp.len() - offset, usize::from(segment.payload));
        let bits = u8::from(segment.flags.has(Flags::FIN))
            | u8::from(syn) << 1
            | u8::from(ack) << 4
            | u8::from(ece) << 6
            | u8::from(cwr) << 7;
        prop_assert_eq!(tcp[13], bits);
        let shift = if syn { 0 } else { handshake.window_shift.unwrap_or(0) };
        let window = (segment.window >> shift).min(65_535);
        prop_assert_eq!((u32::from(word(&tcp, 14)), word(&tcp, 18)), (window, 0));
        prop_assert!(tcp[offset..].iter().all(|&byte| byte == 0));

        let mut expected = Vec::new();
        if syn {
            expected.push((2, handshake.mss.to_be_bytes().to_vec()));
            if handshake.sack {
                expected.push((4, vec![]));
            }
        }
        if let Some((value, echo)) = segment.timestamps {
            expected.push((8, longs(&[value, echo])));
        }
        if let (true, Some(shift)) = (syn, handshake.window_shift) {
            expected.push((3, vec![shift]));
        }
        let blocks = segment.sack.as_slice();
        if !blocks.is_empty() {
            let ends = blocks.iter().flat_map(|block| [block.0.0, block.1.0]);
            let ends: Vec<u32> = ends.map(|end| end.wrapping_add(theirs)).collect();
            expected.push((5, longs(&ends)));
        }
        prop_assert_eq!(options_of(&tcp[20..offset]), expected);
    }

    #[test]
    fn datagrams_are_written_as_they_are(
        payload in 0_u32..65_508,
        sequence in any::<u64>(),
        class in classes(),
        v6 in any::<bool>(),
    ) {
        let header = over(header(Protocol::Udp, 28 + payload, class), v6);
        let udp = opened(&written(&header, Message::Datagram { sequence }, None), &header, 17);
        prop_assert_eq!((word(&udp, 0), word(&udp, 2)), (49_152, 5001));
        prop_assert_eq!(u32::from(word(&udp, 4)), 8 + payload);
        prop_assert_ne!(word(&udp, 6), 0, "no checksum");
        if payload >= 4 {
            prop_assert_eq!(long(&udp, 8), sequence as u32);
        }
        prop_assert!(udp[8..].iter().skip(4).all(|&byte| byte == 0));
    }

    #[test]
    fn echoes_are_written_as_they_are(
        payload in 0_u32..65_508,
        sequence in any::<u32>(),
        reply in any::<bool>(),
        class in classes(),
        v6 in any::<bool>(),
    ) {
        let header = over(header(Protocol::Icmp, 28 + payload, class), v6);
        let message = match reply {
            true => Message::EchoReply { sequence, arrived: TrafficClass::default() },
            false => Message::EchoRequest { sequence },
        };
        let echo = opened(&written(&header, message, None), &header, 1);
        let kinds = if v6 { [128, 129] } else { [8, 0] };
        prop_assert_eq!((echo[0], echo[1]), (kinds[usize::from(reply)], 0));
        prop_assert_eq!((word(&echo, 4), word(&echo, 6)), (7, sequence as u16));
    }

    /// An error quotes the IP header and the first eight bytes behind it, unchanged. Over IPv6 it
    /// quotes as much as fits, of which the model knows those bytes.
    #[test]
    fn errors_quote_what_was_sent(
        segment in segments(),
        payload in 0_u32..1_000,
        sequence in any::<u32>(),
        which in 0_usize..5,
        error in 0_usize..3,
        v6 in any::<bool>(),
    ) {
        let segment = Segment { flags: Flags::ACK, ..segment };
        let class = TrafficClass::new(Dscp::EF);
        let (message, kind, about, number) = match which {
            0 => {
                let header = header(Protocol::Tcp, segment.ip_bytes(), class);
                (Message::Tcp(segment), Kind::Segment, header, segment.seq.0)
            }
            1 | 2 => {
                let header = header(Protocol::Udp, 28 + payload, class);
                let message = match which {
                    1 => Message::Datagram { sequence: sequence.into() },
                    _ => Message::Probe { sequence },
                };
                (message, Kind::Datagram, header, sequence)
            }
            3 => {
                let header = header(Protocol::Icmp, 28 + payload, class);
                (Message::EchoRequest { sequence }, Kind::EchoRequest, header, sequence)
            }
            _ => {
                let header = header(Protocol::Icmp, 28 + payload, class);
                let message = Message::EchoReply { sequence, arrived: TrafficClass::default() };
                (message, Kind::EchoReply, header, sequence)
            }
        };
        let about = over(about, v6);
        let mut original = written(&about, message, None);
        original.resize(about.size as usize, 0);
        use perhop_net::IcmpError::{NetUnreachable, PortUnreachable, TimeExceeded};
        let error = [TimeExceeded, NetUnreachable, PortUnreachable][error];
        let answer = Message::Error {
            error, quoted: about, kind, identification: 0xabcd, sequence: number.into(),
        };
        let size = perhop_net::IcmpError::packet_size(&about);
        let known = if v6 { 48 } else { 28 };
        prop_assert_eq!(size, if v6 { (about.size + 48).min(1280) } else { 56 });
        let header = Header { size, ..over(header(Protocol::Icmp, 0, class), v6) };
        let icmp = opened(&written(&header, answer, None), &header, 1);
        let expected = if v6 { error.type_and_code_v6() } else { error.type_and_code() };
        prop_assert_eq!((icmp[0], icmp[1]), expected);
        prop_assert_eq!(&icmp[4..8], [0; 4]);
        prop_assert_eq!(&icmp[8..8 + known], &original[..known]);
    }
}
