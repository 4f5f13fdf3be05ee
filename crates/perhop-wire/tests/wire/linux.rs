//! Packets that Linux sent over its loopback, with the values that tshark reads in them.
//!
//! Linux leaves the checksums of TCP and UDP to the device; on the loopback they stay open.

use perhop_wire::{
    ICMP_HEADER, IcmpHeader, IcmpRepr, IpPacket, PartialChecksum, QuotedPacket, TcpHeader,
    TcpOption, TcpRepr, TcpSegment, UdpHeader, UdpRepr, fill_icmp_checksum,
    fill_transport_checksum, flags, icmpv4, icmpv6, number, set_class_and_ttl,
};

use crate::{naive_checksum, naive_transport_checksum};

/// A SYN over IPv4, marked EF, with all options but SACK blocks.
const SYN: &str = "45b8003c03df4000400638237f0000017f000001c00013894fa098df00000000a002ffd7fe3000\
     000204ffd70402080a6d7b8e5b000000000103030a";
/// Port unreachable, about a datagram over IPv4.
const UNREACHABLE: &str = "45c0003e6ce4000040010f197f0000017f000001030369f20000000045000022aaac40\
     004011921c7f0000017f000001c001829a000efe21706572686f70";
/// An echo request over IPv4, and the reply.
const ECHO_REQUEST: &str =
    "450000246ce540004001cff17f0000017f0000010800a35b489300010001020304050607";
const ECHO_REPLY: &str = "450000246ce6000040010ff17f0000017f0000010000ab5b489300010001020304050607";
/// A SYN over IPv6, marked AF11, with all options but SACK blocks.
const SYN_6: &str = "6285a2b100280640000000000000000000000000000000010000000000000000000000000000\
     0001c0001389707d018800000000a002ffc4003000000204ffc40402080a5f192936000000000103030a";
/// Port unreachable, about a datagram over IPv6.
const UNREACHABLE_6: &str = "60063dc6003e3a400000000000000000000000000000000100000000000000000000\
     00000000000101043842000000006006bfdf000e114000000000000000000000000000000001000000000000\
     00000000000000000001c001829a000e0021706572686f70";
/// An echo request over IPv6, and the reply.
const ECHO_REQUEST_6: &str = "600eac1a00103a4000000000000000000000000000000001000000000000000000\
     0000000000000180002b0e489400010001020304050607";
const ECHO_REPLY_6: &str = "600c36a700103a400000000000000000000000000000000100000000000000000000\
     00000000000181002a0e489400010001020304050607";

/// Returns all packets of this file.
pub(crate) fn all() -> Vec<Vec<u8>> {
    let four = [SYN, UNREACHABLE, ECHO_REQUEST, ECHO_REPLY];
    let six = [SYN_6, UNREACHABLE_6, ECHO_REQUEST_6, ECHO_REPLY_6];
    four.into_iter().chain(six).map(bytes).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

#[test]
fn segments_are_read_as_tshark_reads_them() {
    for (hex, dscp, length, repr, clock) in [
        (SYN, 46, 60, (1_335_924_959, 65_495), 1_836_813_915),
        (SYN_6, 10, 80, (1_887_240_584, 65_476), 1_595_484_470),
    ] {
        let bytes = bytes(hex);
        let packet = IpPacket::parse(&bytes).unwrap();
        assert_eq!((packet.length, packet.traffic_class.dscp().get()), (length, dscp));
        assert_eq!((packet.number, packet.ttl, packet.ports), (number::TCP, 64, [49_152, 5001]));
        let segment = TcpSegment::new_checked(packet.payload(&bytes)).unwrap();
        let expected = TcpRepr {
            source_port: 49_152,
            destination_port: 5001,
            sequence: repr.0,
            acknowledgement: 0,
            flags: flags::SYN,
            window: repr.1,
        };
        assert_eq!(TcpRepr::parse(&segment.header()), expected);
        let options: Vec<TcpOption<'_>> = segment.options().collect();
        let expected = [
            TcpOption::Mss(repr.1),
            TcpOption::SackPermitted,
            TcpOption::Timestamps { value: clock, echo: 0 },
            TcpOption::Nop,
            TcpOption::WindowScale(10),
        ];
        assert_eq!(options, expected);
        let mut written = Vec::new();
        options.iter().for_each(|option| option.write(&mut written));
        assert_eq!((written.as_slice(), segment.payload()), (segment.option_bytes(), &[][..]));
    }
}

#[test]
fn a_checksum_that_is_left_open_is_filled_in() {
    for hex in [SYN, SYN_6] {
        let mut left_open = bytes(hex);
        let mut anew = left_open.clone();
        let offset = IpPacket::parse(&anew).unwrap().transport;
        assert_ne!(naive_transport_checksum(&anew, offset, 6), 0);
        // Linux wrote the sum of the pseudo-header there.
        PartialChecksum { start: offset as u16, offset: 16 }.fill(&mut left_open);
        assert_eq!(naive_transport_checksum(&left_open, offset, 6), 0);
        let length = anew.len() - offset;
        fill_transport_checksum(&mut anew, offset, number::TCP, length);
        assert_eq!(anew, left_open);
        assert_ne!(TcpHeader::of(&anew[offset..]).unwrap().checksum(), 0);
    }
}

#[test]
fn echoes_are_read_as_tshark_reads_them() {
    for (hex, kind, offset) in [
        (ECHO_REQUEST, icmpv4::ECHO_REQUEST, 20),
        (ECHO_REPLY, icmpv4::ECHO_REPLY, 20),
        (ECHO_REQUEST_6, icmpv6::ECHO_REQUEST, 40),
        (ECHO_REPLY_6, icmpv6::ECHO_REPLY, 40),
    ] {
        let sent = bytes(hex);
        let header = IcmpHeader::of(&sent[offset..]).unwrap();
        let identifier = header.identifier();
        assert_eq!(IcmpRepr::parse(&header), IcmpRepr::echo(kind, identifier, 1));
        assert_eq!(header.sequence(), 1);
        if offset == 20 {
            assert_eq!(identifier, 18_579);
        }
        let mut again = sent.clone();
        again[offset + 2..offset + 4].fill(0xee);
        fill_icmp_checksum(&mut again, offset);
        assert_eq!(again, sent);
        // Another type, and back: the checksum changes with it.
        IcmpHeader::of_mut(&mut again[offset..]).unwrap().set_kind(kind ^ 1);
        let changed = again.clone();
        fill_icmp_checksum(&mut again, offset);
        assert_eq!(again, changed);
    }
}

#[test]
fn errors_quote_a_packet_as_tshark_reads_it() {
    for (hex, offset, error, identification) in [
        (UNREACHABLE, 20, (icmpv4::UNREACHABLE, 3), 0xaaac),
        (UNREACHABLE_6, 40, (icmpv6::UNREACHABLE, 4), 0),
    ] {
        let bytes = bytes(hex);
        let header = IcmpHeader::of(&bytes[offset..]).unwrap();
        assert_eq!((header.kind(), header.code(), header.rest()), (error.0, error.1, 0));
        let quoted = QuotedPacket::parse(&bytes[offset + ICMP_HEADER..]).unwrap();
        assert_eq!((quoted.number, quoted.identification), (number::UDP, identification));
        let udp = UdpHeader::of(quoted.transport).unwrap();
        let expected = UdpRepr { source_port: 49_153, destination_port: 33_434, length: 14 };
        assert_eq!(UdpRepr::parse(&udp), expected);
        assert_eq!(&quoted.transport[8..], b"perhop");
    }
}

#[test]
fn a_packet_is_remarked_as_if_sent_so() {
    let mut bytes = bytes(SYN);
    let class = perhop_core::TrafficClass::from_octet(0x23);
    set_class_and_ttl(&mut bytes, class, 1);
    assert_eq!((bytes[1], bytes[8], naive_checksum(&bytes[..20])), (0x23, 1, 0));
    assert_eq!(IpPacket::parse(&bytes).unwrap().traffic_class, class);
}
