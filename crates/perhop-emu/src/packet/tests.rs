//! Packets that are written by hand, by an independent writer, and by nobody who means well.

use perhop_core::{Ecn, NodeId};
use proptest::prelude::*;

use super::*;

/// A packet from 192.0.2.1 to 198.51.100.7, by the layout in RFC 791.
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
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A packet from 2001:db8::1 to 2001:db8::2, by the layout in RFC 8200.
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
    let parsed = Parsed::new(&bytes).unwrap();
    assert_eq!(parsed.source, "192.0.2.1".parse::<IpAddr>().unwrap());
    assert_eq!(parsed.destination, "198.51.100.7".parse::<IpAddr>().unwrap());
    assert_eq!((parsed.length, parsed.ttl, parsed.transport), (32, 17, 20));
    assert_eq!((parsed.protocol, parsed.ports), (Protocol::Udp, [12_345, 53]));
    assert_eq!(parsed.traffic_class.dscp().get(), 46);
    assert_eq!(parsed.traffic_class.ecn(), Ecn::Ect1);
    assert!(!parsed.may_be_divided && !parsed.later_fragment);

    let bytes = v6(0xb9, 17, 17, &DATAGRAM);
    let parsed = Parsed::new(&bytes).unwrap();
    assert_eq!(parsed.source, "2001:db8::1".parse::<IpAddr>().unwrap());
    assert_eq!((parsed.length, parsed.ttl, parsed.transport), (52, 17, 40));
    assert_eq!((parsed.protocol, parsed.ports), (Protocol::Udp, [12_345, 53]));
    assert_eq!(parsed.traffic_class.octet(), 0xb9);
}

#[test]
fn options_and_extensions_are_skipped() {
    let parsed = Parsed::new(&v4(0, 0, 64, 6, 10, &DATAGRAM)).unwrap();
    assert_eq!((parsed.transport, parsed.ports[1]), (60, 53));
    // Hop-by-hop options, destination options of 16 bytes, an authentication header of 24.
    let mut payload = vec![60, 0, 0, 0, 0, 0, 0, 0];
    payload.extend([51, 1].into_iter().chain([0; 14]));
    payload.extend([17, 4].into_iter().chain([0; 22]));
    payload.extend(DATAGRAM);
    let parsed = Parsed::new(&v6(0, 64, 0, &payload)).unwrap();
    assert_eq!((parsed.number, parsed.transport, parsed.ports[0]), (17, 88, 12_345));
}

#[test]
fn later_fragments_have_no_ports() {
    let first = Parsed::new(&v4(0, 0x2000, 64, 17, 0, &DATAGRAM)).unwrap();
    assert_eq!((first.later_fragment, first.ports[1]), (false, 53));
    assert!(first.may_be_divided);
    let later = Parsed::new(&v4(0, 0x0010, 64, 17, 0, &DATAGRAM)).unwrap();
    assert_eq!((later.later_fragment, later.ports), (true, [0, 0]));
    let mut payload = vec![17, 0, 0x00, 0x08, 0, 0, 0, 1];
    payload.extend(DATAGRAM);
    let later = Parsed::new(&v6(0, 64, 44, &payload)).unwrap();
    assert_eq!((later.later_fragment, later.ports, later.number), (true, [0, 0], 17));
}

#[test]
fn what_is_no_packet_is_refused() {
    let good = v4(0, 0, 64, 17, 0, &DATAGRAM);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Parsed::new(&bytes).unwrap_err()
    };
    assert_eq!(Parsed::new(&[]), Err(Malformed::Truncated));
    assert_eq!(with(0, 0x55), Malformed::Version);
    assert_eq!(with(0, 0x44), Malformed::Length);
    assert_eq!(with(3, 19), Malformed::Length);
    assert_eq!(with(2, 1), Malformed::Truncated);
    assert_eq!(with(8, 63), Malformed::Checksum);
    for length in 0..good.len() {
        assert_eq!(Parsed::new(&good[..length]), Err(Malformed::Truncated), "{length}");
    }
    let endless: Vec<u8> = [0, 0, 0, 0, 0, 0, 0, 0].repeat(40);
    assert_eq!(Parsed::new(&v6(0, 64, 0, &endless)), Err(Malformed::Extensions));
    assert_eq!(Parsed::new(&v6(0, 64, 0, &[6, 9, 0, 0, 0, 0, 0, 0])), Err(Malformed::Truncated));
}

/// Bytes of a packet, some of them changed, some of its end missing.
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
    /// Whatever comes is refused or read within its bounds.
    #[test]
    fn nothing_is_read_beyond_its_end(bytes in hostile()) {
        if let Ok(parsed) = Parsed::new(&bytes) {
            prop_assert!(parsed.length <= bytes.len());
            prop_assert!(parsed.transport <= parsed.length);
            prop_assert_eq!(parsed.payload(&bytes).len(), parsed.length - parsed.transport);
        }
    }

    /// After a change the checksum is that of a packet that was written like this at first.
    #[test]
    fn a_change_is_a_packet_written_like_that(
        class in any::<u8>(), ttl in any::<u8>(), other in any::<u8>(), left in any::<u8>(),
        options in 0..11_usize, number in any::<u8>(),
    ) {
        let header = Header {
            size: 0,
            source: NodeId(0),
            destination: NodeId(0),
            source_port: 0,
            destination_port: 0,
            protocol: Protocol::Other,
            traffic_class: TrafficClass::from_octet(other),
            ttl: left,
        };
        let mut bytes = v4(class, 0, ttl, number, options, &DATAGRAM);
        patch(&mut bytes, &header);
        prop_assert_eq!(bytes, v4(other, 0, left, number, options, &DATAGRAM));
        let mut bytes = v6(class, ttl, 17, &DATAGRAM);
        patch(&mut bytes, &header);
        prop_assert_eq!(bytes, v6(other, left, 17, &DATAGRAM));
    }
}
