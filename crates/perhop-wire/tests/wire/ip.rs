//! IP packets written by hand, by an independent writer, and damaged ones.

use std::net::IpAddr;

use perhop_core::{Ecn, Protocol, TrafficClass};
use perhop_wire::{
    Fragment, IpPacket, Ipv4Header, Ipv4Repr, Ipv6Header, Ipv6Repr, Malformed, QuotedPacket,
    fill_ipv4_checksum, set_class_and_ttl, set_length, updated_checksum,
};
use proptest::prelude::*;

use crate::naive_checksum;

/// Returns a packet from 192.0.2.1 to 198.51.100.7, by the layout in RFC 791.
pub(crate) fn v4(
    tos: u8,
    flags: u16,
    ttl: u8,
    number: u8,
    options: usize,
    payload: &[u8],
) -> Vec<u8> {
    let header = 20 + 4 * options;
    let mut bytes = vec![0x40 | (header / 4) as u8, tos];
    bytes.extend(((header + payload.len()) as u16).to_be_bytes());
    bytes.extend([0xab, 0xcd]);
    bytes.extend(flags.to_be_bytes());
    bytes.extend([ttl, number, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7]);
    bytes.resize(header, 1); // no operation
    let sum = naive_checksum(&bytes);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Returns a packet from 2001:db8::1 to 2001:db8::2, by the layout in RFC 8200.
pub(crate) fn v6(class: u8, hops: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60 | class >> 4, class << 4 | 0x3, 0x21, 0x00];
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([next, hops]);
    for last in [1, 2] {
        bytes.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    bytes.extend(payload);
    bytes
}

const DATAGRAM: [u8; 12] = [0x30, 0x39, 0x00, 0x35, 0, 12, 0, 0, 1, 2, 3, 4];

#[test]
fn a_datagram_is_read() {
    let bytes = v4(0xb9, 0x4000, 17, 17, 0, &DATAGRAM);
    let parsed = IpPacket::parse(&bytes).unwrap();
    assert_eq!(parsed.source, "192.0.2.1".parse::<IpAddr>().unwrap());
    assert_eq!(parsed.destination, "198.51.100.7".parse::<IpAddr>().unwrap());
    assert_eq!((parsed.length, parsed.ttl, parsed.transport), (32, 17, 20));
    assert_eq!((parsed.protocol(), parsed.ports), (Protocol::Udp, [12_345, 53]));
    assert_eq!(parsed.traffic_class.dscp().get(), 46);
    assert_eq!(parsed.traffic_class.ecn(), Ecn::Ect1);
    assert!(!parsed.may_be_fragmented && !parsed.is_later_fragment());

    let bytes = v6(0xb9, 17, 17, &DATAGRAM);
    let parsed = IpPacket::parse(&bytes).unwrap();
    assert_eq!(parsed.source, "2001:db8::1".parse::<IpAddr>().unwrap());
    assert_eq!((parsed.length, parsed.ttl, parsed.transport), (52, 17, 40));
    assert_eq!((parsed.protocol(), parsed.ports), (Protocol::Udp6, [12_345, 53]));
    assert_eq!(parsed.traffic_class.octet(), 0xb9);
}

#[test]
fn options_and_extensions_are_skipped() {
    let parsed = IpPacket::parse(&v4(0, 0, 64, 6, 10, &DATAGRAM)).unwrap();
    assert_eq!((parsed.transport, parsed.ports[1]), (60, 53));
    // Hop-by-hop options, destination options of 16 bytes, an authentication header of 24.
    let mut payload = vec![60, 0, 0, 0, 0, 0, 0, 0];
    payload.extend([51, 1].into_iter().chain([0; 14]));
    payload.extend([17, 4].into_iter().chain([0; 22]));
    payload.extend(DATAGRAM);
    let parsed = IpPacket::parse(&v6(0, 64, 0, &payload)).unwrap();
    assert_eq!((parsed.number, parsed.transport, parsed.ports[0]), (17, 88, 12_345));
}

#[test]
fn later_fragments_have_no_ports() {
    let first = IpPacket::parse(&v4(0, 0x2000, 64, 17, 0, &DATAGRAM)).unwrap();
    assert_eq!((first.is_later_fragment(), first.ports[1]), (false, 53));
    assert!(first.may_be_fragmented);
    let later = IpPacket::parse(&v4(0, 0x0010, 64, 17, 0, &DATAGRAM)).unwrap();
    assert_eq!((later.is_later_fragment(), later.ports), (true, [0, 0]));
    let mut payload = vec![17, 0, 0x00, 0x08, 0, 0, 0, 1];
    payload.extend(DATAGRAM);
    let later = IpPacket::parse(&v6(0, 64, 44, &payload)).unwrap();
    assert_eq!((later.is_later_fragment(), later.ports, later.number), (true, [0, 0], 17));
}

#[test]
fn what_is_no_packet_is_refused() {
    let good = v4(0, 0, 64, 17, 0, &DATAGRAM);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        IpPacket::parse(&bytes).unwrap_err()
    };
    assert_eq!(IpPacket::parse(&[]), Err(Malformed::Truncated));
    assert_eq!(with(0, 0x55), Malformed::Version);
    assert_eq!(with(0, 0x44), Malformed::Length);
    assert_eq!(with(3, 19), Malformed::Length);
    assert_eq!(with(2, 1), Malformed::Truncated);
    assert_eq!(with(8, 63), Malformed::Checksum);
    for length in 0..good.len() {
        assert_eq!(IpPacket::parse(&good[..length]), Err(Malformed::Truncated), "{length}");
    }
    let endless: Vec<u8> = [0, 0, 0, 0, 0, 0, 0, 0].repeat(40);
    assert_eq!(IpPacket::parse(&v6(0, 64, 0, &endless)), Err(Malformed::Extensions));
    assert_eq!(
        IpPacket::parse(&v6(0, 64, 0, &[6, 9, 0, 0, 0, 0, 0, 0])),
        Err(Malformed::Truncated)
    );
}

/// Bytes of a packet, some of them changed, or without the end.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop::collection::vec(any::<u8>(), 0..120);
    let number = prop::sample::select(vec![0_u8, 1, 6, 17, 43, 44, 50, 51, 58, 60, 255]);
    let packet = (any::<bool>(), any::<u8>(), any::<u16>(), number, 0..11_usize, payload).prop_map(
        |(is_v4, class, flags, number, options, payload)| match is_v4 {
            true => v4(class, flags, 64, number, options, &payload),
            false => v6(class, 64, number, &payload),
        },
    );
    let change = (any::<prop::sample::Index>(), any::<u8>());
    (packet, prop::collection::vec(change, 0..4), any::<prop::sample::Index>(), any::<bool>())
        .prop_map(|(mut bytes, changes, end, cut)| {
            for (place, value) in changes {
                let length = bytes.len();
                bytes[place.index(length)] = value;
            }
            if cut {
                bytes.truncate(end.index(bytes.len() + 1));
            }
            bytes
        })
}

proptest! {
    /// Any input is rejected or read within its bounds.
    #[test]
    fn nothing_is_read_beyond_its_end(bytes in hostile()) {
        if let Ok(parsed) = IpPacket::parse(&bytes) {
            prop_assert!(parsed.length <= bytes.len());
            prop_assert!(parsed.transport <= parsed.length);
            prop_assert_eq!(parsed.payload(&bytes).len(), parsed.length - parsed.transport);
        }
    }

    /// A quote is read like its packet, as far as it goes.
    #[test]
    fn a_quote_is_the_beginning_of_a_packet(
        bytes in hostile(), end in any::<prop::sample::Index>(),
    ) {
        let Ok(packet) = IpPacket::parse(&bytes) else { return Ok(()) };
        let end = end.index(packet.length + 1);
        let quoted = QuotedPacket::parse(&bytes[..end]);
        prop_assert_eq!(quoted.is_some(), end >= packet.transport && !packet.is_later_fragment());
        if let Some(quoted) = quoted {
            let ends = (quoted.source, quoted.destination, quoted.number);
            prop_assert_eq!(ends, (packet.source, packet.destination, packet.number));
            prop_assert_eq!(quoted.traffic_class, packet.traffic_class);
            prop_assert_eq!(quoted.identification, packet.fragment.identification);
            prop_assert_eq!(quoted.transport, &bytes[packet.transport..end]);
        }
    }

    /// After a change the checksum is that of a packet written with the new values.
    #[test]
    fn a_change_is_a_packet_written_like_that(
        class in any::<u8>(), ttl in any::<u8>(), other in any::<u8>(), left in any::<u8>(),
        options in 0..11_usize, number in any::<u8>(),
    ) {
        let changed = |mut bytes: Vec<u8>| {
            set_class_and_ttl(&mut bytes, TrafficClass::from_octet(other), left);
            bytes
        };
        let expected = v4(other, 0, left, number, options, &DATAGRAM);
        prop_assert_eq!(changed(v4(class, 0, ttl, number, options, &DATAGRAM)), expected);
        prop_assert_eq!(changed(v6(class, ttl, 17, &DATAGRAM)), v6(other, left, 17, &DATAGRAM));
    }

    #[test]
    fn changes_fit_into_any_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let length = bytes.len();
        set_class_and_ttl(&mut bytes, TrafficClass::from_octet(0xb8), 3);
        set_length(&mut bytes, length);
        fill_ipv4_checksum(&mut bytes);
        prop_assert_eq!(bytes.len(), length);
    }

    /// An updated checksum equals the one computed again, whatever words change (RFC 1624).
    #[test]
    fn an_updated_checksum_is_the_one_computed_anew(
        words in any::<[u16; 9]>(), after in any::<[u16; 2]>(), at in 0..8_usize,
    ) {
        let bytes = |words: &[u16]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_be_bytes()).collect()
        };
        let mut changed = words;
        changed[at..at + 2].copy_from_slice(&after);
        let sum = updated_checksum(naive_checksum(&bytes(&words)), &words[at..at + 2], &after);
        let anew = naive_checksum(&bytes(&changed));
        // Only zeros have the sum zero, for which ones' complement has two forms.
        prop_assert!(sum == anew || changed == [0; 9], "{sum:04x} {anew:04x}");
    }

    #[test]
    fn headers_are_read_as_they_are_written(
        class in any::<u8>(), words in any::<[u16; 3]>(), octets in any::<[u8; 2]>(),
        label in 0..1_u32 << 20, addresses in any::<([u8; 16], [u8; 16])>(),
    ) {
        let (traffic_class, short) = (TrafficClass::from_octet(class), |all: [u8; 16]| {
            std::net::Ipv4Addr::new(all[0], all[1], all[2], all[3])
        });
        let repr = Ipv4Repr {
            traffic_class,
            total_length: words[0],
            identification: words[1],
            fragment: words[2],
            ttl: octets[0],
            protocol: octets[1],
            source: short(addresses.0),
            destination: short(addresses.1),
        };
        let bytes = repr.emit();
        prop_assert_eq!(naive_checksum(&bytes), 0);
        let header = Ipv4Header::of(&bytes).unwrap();
        prop_assert_eq!((Ipv4Repr::parse(&header), header.header_length()), (repr, 20));
        let repr = Ipv6Repr {
            traffic_class,
            flow_label: label,
            payload_length: words[0],
            next_header: octets[0],
            hop_limit: octets[1],
            source: addresses.0.into(),
            destination: addresses.1.into(),
        };
        prop_assert_eq!(Ipv6Repr::parse(&Ipv6Header::of(&repr.emit()).unwrap()), repr);
    }
}

/// The example of RFC 1624, section 4, in which RFC 1141 goes wrong.
#[test]
fn an_update_does_not_make_the_other_zero() {
    assert_eq!(updated_checksum(0xdd2f, &[0x5555], &[0x3285]), 0x0000);
}

#[test]
fn a_fragment_says_which_part_it_has() {
    let first = IpPacket::parse(&v4(0, 0x2000, 64, 17, 0, &DATAGRAM)).unwrap().fragment;
    assert_eq!(first, Fragment { identification: 0xabcd, offset: 0, more: true });
    let last = IpPacket::parse(&v4(0, 0x1fff, 64, 17, 0, &DATAGRAM)).unwrap().fragment;
    assert_eq!(last, Fragment { identification: 0xabcd, offset: 65_528, more: false });
    assert!(first.is_part() && last.is_part() && !Fragment::default().is_part());
    let mut payload = vec![17, 0, 0x00, 0x09, 0x01, 0x02, 0x03, 0x04];
    payload.extend(DATAGRAM);
    let middle = IpPacket::parse(&v6(0, 64, 44, &payload)).unwrap().fragment;
    assert_eq!(middle, Fragment { identification: 0x0102_0304, offset: 8, more: true });
}
