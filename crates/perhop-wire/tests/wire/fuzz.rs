//! Damaged packets, read by this crate and by etherparse, which share no code.

use etherparse::{IpSlice, TcpOptionElement, TcpSlice, UdpSlice};
use perhop_core::TrafficClass;
use perhop_fuzz::fuzz;
use perhop_wire::{
    IcmpHeader, IpPacket, Ipv4Header, Ipv6Header, Malformed, QuotedPacket, TcpOption, TcpSegment,
    UdpHeader, fill_icmp_checksum, fill_ipv4_checksum, fill_transport_checksum, flags, is_ipv6,
    number, set_class_and_ttl, set_length,
};

use crate::ip::{v4, v6};
use crate::linux;

fn seeds() -> Vec<Vec<u8>> {
    let datagram = [0x30, 0x39, 0, 0x35, 0, 12, 0, 0, 1, 2, 3, 4];
    let mut extended = vec![60, 0, 0, 0, 0, 0, 0, 0];
    extended.extend([51, 1].into_iter().chain([0; 14]));
    extended.extend([17, 4].into_iter().chain([0; 22]));
    extended.extend(datagram);
    let mut fragment = vec![17, 0, 0x00, 0x09, 0x01, 0x02, 0x03, 0x04];
    fragment.extend(datagram);
    let mut seeds = linux::all();
    seeds.push(v4(0xb9, 0, 17, 17, 10, &datagram));
    seeds.push(v4(0, 0x2007, 17, 17, 0, &datagram));
    seeds.push(v6(0xb9, 17, 0, &extended));
    seeds.push(v6(0, 17, 44, &fragment));
    seeds
}

/// Checks that both readers agree, as far as both know the protocol.
fn agree(bytes: &[u8], packet: &IpPacket) {
    let Ok(theirs) = IpSlice::from_slice(bytes) else {
        // etherparse requires the order of extension headers of RFC 8200.
        assert!(packet.transport > 40 || packet.number == number::AUTHENTICATION || is_ipv6(bytes));
        return;
    };
    assert_eq!(packet.source, theirs.source_addr());
    assert_eq!(packet.destination, theirs.destination_addr());
    let (class, ttl, length) = match &theirs {
        IpSlice::Ipv4(four) => {
            let header = four.header();
            let class = header.dcp().value() << 2 | header.ecn().value();
            let offset = 8 * header.fragments_offset().value();
            assert_eq!(packet.fragment.offset, offset);
            assert_eq!(packet.fragment.more, header.more_fragments());
            assert_eq!(packet.fragment.identification, u32::from(header.identification()));
            assert_eq!(packet.may_be_fragmented, !header.dont_fragment());
            (class, header.ttl(), header.total_len().into())
        }
        IpSlice::Ipv6(six) => {
            let header = six.header();
            let length = 40 + usize::from(header.payload_length());
            (header.traffic_class(), header.hop_limit(), length)
        }
    };
    assert_eq!((packet.traffic_class.octet(), packet.ttl, packet.length), (class, ttl, length));
    // etherparse skips headers that this crate takes for a transport: an authentication header in
    // IPv4, mobility and others. It takes an IPv6 length of zero for the length of the data.
    let payload = theirs.payload();
    if packet.number == payload.ip_number.0 && length > 40 {
        assert_eq!(packet.payload(bytes), payload.payload);
        assert_eq!(packet.fragment.is_part(), payload.fragmented);
    }
}

fn transports_agree(packet: &IpPacket, own: &[u8]) {
    if packet.number == number::TCP {
        let theirs = TcpSlice::from_slice(own);
        let ours = TcpSegment::new_checked(own);
        assert_eq!(ours.is_ok(), theirs.is_ok());
        let (Ok(ours), Ok(theirs)) = (ours, theirs) else { return };
        let header = ours.header();
        assert_eq!(header.source_port(), theirs.source_port());
        assert_eq!(header.destination_port(), theirs.destination_port());
        assert_eq!(header.sequence(), theirs.sequence_number());
        assert_eq!(header.acknowledgement(), theirs.acknowledgment_number());
        assert_eq!(header.window(), theirs.window_size());
        assert_eq!(header.checksum(), theirs.checksum());
        assert_eq!(header.urgent(), theirs.urgent_pointer());
        let bits = [theirs.fin(), theirs.syn(), theirs.rst(), theirs.psh(), theirs.ack()];
        let more = [theirs.urg(), theirs.ece(), theirs.cwr(), theirs.ns()];
        let bits = bits.into_iter().chain(more).zip(0..);
        let all = bits.fold(0, |all, (bit, place)| all | u16::from(bit) << place);
        assert_eq!(header.flags(), all);
        assert_eq!(all & flags::AE != 0, theirs.ns());
        assert_eq!(ours.payload(), theirs.payload());
        options_agree(&ours, &theirs);
    } else if packet.number == number::UDP {
        let (ours, theirs) = (UdpHeader::of(own), UdpSlice::from_slice_lax(own));
        let (Some(ours), Ok(theirs)) = (ours, theirs) else { return };
        assert_eq!(ours.source_port(), theirs.source_port());
        assert_eq!(ours.destination_port(), theirs.destination_port());
        assert_eq!((ours.length(), ours.checksum()), (theirs.length(), theirs.checksum()));
    }
}

/// Checks that both read the same options, up to one that etherparse does not know.
fn options_agree(ours: &TcpSegment<'_>, theirs: &TcpSlice<'_>) {
    for (own, other) in ours.options().zip(theirs.options_iterator()) {
        let Ok(other) = other else { return };
        let same = match (own, other) {
            (TcpOption::Nop, TcpOptionElement::Noop)
            | (TcpOption::SackPermitted, TcpOptionElement::SelectiveAcknowledgementPermitted) => {
                true
            }
            (TcpOption::Mss(own), TcpOptionElement::MaximumSegmentSize(other)) => own == other,
            (TcpOption::WindowScale(own), TcpOptionElement::WindowScale(other)) => own == other,
            (TcpOption::Timestamps { value, echo }, TcpOptionElement::Timestamp(a, b)) => {
                (value, echo) == (a, b)
            }
            (TcpOption::Sack(own), TcpOptionElement::SelectiveAcknowledgement(first, others)) => {
                let others = others.into_iter().flatten();
                own.as_slice() == std::iter::once(first).chain(others).collect::<Vec<_>>()
            }
            _ => false,
        };
        assert!(same, "{own:?}");
    }
}

/// A field that is written changes, and the rest of the packet does not.
fn changes_are_what_they_say(bytes: &[u8], packet: &IpPacket) {
    let mut changed = bytes[..packet.length].to_vec();
    let class = TrafficClass::from_octet(packet.traffic_class.octet().wrapping_mul(7) ^ 0x5a);
    set_class_and_ttl(&mut changed, class, packet.ttl ^ 0x81);
    let again = IpPacket::parse(&changed);
    // A sum of zero has two forms; in one of them a header of zeros would be valid.
    let expected = IpPacket { traffic_class: class, ttl: packet.ttl ^ 0x81, ..*packet };
    assert_eq!(again, Ok(expected));
    set_class_and_ttl(&mut changed, packet.traffic_class, packet.ttl);
    fill_ipv4_checksum(&mut changed[..if is_ipv6(bytes) { 0 } else { 60.min(packet.length) }]);
    assert_eq!(IpPacket::parse(&changed), Ok(*packet));
    let length = packet.length - packet.transport;
    fill_transport_checksum(&mut changed, packet.transport, packet.number, length);
    fill_icmp_checksum(&mut changed, packet.transport);
    if let Some(mut header) = IcmpHeader::of_mut(&mut changed[packet.transport..]) {
        header.set_kind(header.kind().wrapping_add(1));
    }
    assert_eq!(changed[..packet.transport], bytes[..packet.transport]);
}

#[test]
fn fuzz_packets() {
    fuzz("packets", &seeds(), |bytes| {
        let parsed = IpPacket::parse(bytes);
        if let Err(malformed) = parsed {
            let mut bytes = bytes.to_vec();
            let length = bytes.len();
            set_class_and_ttl(&mut bytes, TrafficClass::from_octet(1), 2);
            set_length(&mut bytes, length);
            fill_transport_checksum(&mut bytes, 20, number::UDP, 0);
            // With the right length and checksum, an IPv4 header without options is valid.
            let short = Ipv4Header::of(&bytes).is_some_and(|header| header.header_length() == 20);
            fill_ipv4_checksum(&mut bytes);
            let fixed = IpPacket::parse(&bytes);
            let is_v4 = malformed != Malformed::Version && !is_ipv6(&bytes);
            assert!(!(is_v4 && short) || fixed.is_ok(), "{fixed:?}");
            assert_eq!(Ipv6Header::of(&bytes).is_some(), length >= 40);
            let _ = QuotedPacket::parse(&bytes);
            return false;
        }
        let Ok(packet) = parsed else { return false };
        assert!(packet.transport <= packet.length && packet.length <= bytes.len());
        agree(bytes, &packet);
        if !packet.is_later_fragment() {
            transports_agree(&packet, packet.payload(bytes));
        }
        let quoted = QuotedPacket::parse(bytes).map(|quoted| (quoted.source, quoted.number));
        let whole = (!packet.is_later_fragment()).then_some((packet.source, packet.number));
        assert_eq!(quoted, whole);
        changes_are_what_they_say(bytes, &packet);
        true
    });
}

#[test]
fn fuzz_options() {
    // At the transport, because checksums of IP would reject nearly all damaged packets.
    let seeds: Vec<Vec<u8>> =
        linux::all().into_iter().filter(|it| it[9] == 6).map(|it| it[20..].to_vec()).collect();
    let packet = IpPacket::parse(&linux::all()[0]).expect("a segment");
    fuzz("options", &seeds, |bytes| {
        transports_agree(&packet, bytes);
        TcpSegment::new_checked(bytes).is_ok()
    });
}
