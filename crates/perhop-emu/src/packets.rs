//! Packets for tests.

use std::net::{Ipv4Addr, Ipv6Addr};

use perhop_core::TrafficClass;
use perhop_wire::{Ipv4Repr, Ipv6Repr, fill_ipv4_checksum};

/// Returns a packet from 192.0.2.1 to 198.51.100.7, with `options` words of options.
pub(crate) fn v4(
    class: u8,
    fragment: u16,
    ttl: u8,
    protocol: u8,
    options: usize,
    payload: &[u8],
) -> Vec<u8> {
    let header = Ipv4Repr {
        traffic_class: TrafficClass::from_octet(class),
        total_length: (20 + 4 * options + payload.len()) as u16,
        identification: 0xabcd,
        fragment,
        ttl,
        protocol,
        source: Ipv4Addr::new(192, 0, 2, 1),
        destination: Ipv4Addr::new(198, 51, 100, 7),
    };
    let mut bytes = header.emit().to_vec();
    bytes[0] += options as u8;
    bytes.resize(20 + 4 * options, 1); // no operation
    fill_ipv4_checksum(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns a packet from 2001:db8::1 to 2001:db8::2.
pub(crate) fn v6(class: u8, hop_limit: u8, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let address = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
    let header = Ipv6Repr {
        traffic_class: TrafficClass::from_octet(class),
        flow_label: 0x3_2100,
        payload_length: payload.len() as u16,
        next_header,
        hop_limit,
        source: address(1),
        destination: address(2),
    };
    [&header.emit(), payload].concat()
}
