use std::net::Ipv6Addr;

use perhop_core::Dscp;
use perhop_fuzz::fuzz;
use perhop_wire::{Ipv6Repr, checksum, sum_of_words};
use proptest::prelude::*;

use super::*;

fn numbered() -> Numbered {
    Numbered {
        from: (Ipv4Addr::new(192, 0, 2, 1), 49_152),
        to: (Ipv4Addr::new(192, 0, 2, 9), 33_434),
        traffic_class: TrafficClass::new(Dscp::EF),
        ttl: 3,
        number: 0x1234,
        size: 32,
    }
}

/// Returns an error that quotes the first `kept` bytes of a packet.
fn error(kind: u8, code: u8, packet: &[u8], kept: usize) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0, 0, 0, 0, 0];
    bytes.extend(&packet[..kept.min(packet.len())]);
    bytes
}

#[test]
fn an_error_names_the_datagram_by_its_first_eight_bytes() {
    let mut packet = Vec::new();
    numbered().write(&mut packet);
    assert_eq!(packet.len(), 20 + 8 + 32);
    let expected = Message::Error {
        error: IcmpError::TimeExceeded,
        probe: Probe::Datagram { source_port: 49_152, destination_port: 33_434, number: 0x1234 },
        class: TrafficClass::new(Dscp::EF),
        destination: Ipv4Addr::new(192, 0, 2, 9).into(),
    };
    assert_eq!(message(&error(icmpv4::TIME_EXCEEDED, 0, &packet, 28)), Some(expected));
    // Quoted too short.
    assert_eq!(message(&error(icmpv4::TIME_EXCEEDED, 0, &packet, 23)), None);
    // "Fragmentation needed" does not show whether the destination exists.
    assert_eq!(message(&error(icmpv4::UNREACHABLE, 4, &packet, 28)), None);
}

#[test]
fn the_checksum_of_a_datagram_holds() {
    let mut packet = Vec::new();
    numbered().write(&mut packet);
    let datagram = &packet[IPV4_HEADER..];
    let pseudo = sum_of_words(&packet[12..20]) + 17 + datagram.len() as u64;
    // The checksum over a message that includes its checksum is zero.
    assert_eq!(checksum(pseudo + sum_of_words(datagram)), 0);
    assert_eq!(checksum(sum_of_words(&packet[..20])), 0);
}

#[test]
fn a_datagram_whose_source_the_kernel_inserts_has_no_checksum() {
    let mut packet = Vec::new();
    Numbered { from: (Ipv4Addr::UNSPECIFIED, 49_152), ..numbered() }.write(&mut packet);
    assert_eq!((&packet[12..16], &packet[26..28]), (&[0; 4][..], &[0; 2][..]));
}

#[test]
fn an_echo_and_what_answers_it() {
    let mut bytes = Vec::new();
    write_echo(&mut bytes, icmpv4::ECHO_REQUEST, 7, 9, 56);
    assert_eq!(bytes.len(), 64);
    assert_eq!(checksum(sum_of_words(&bytes)), 0);
    let probe = Probe::Echo { identifier: 7, sequence: 9 };
    assert_eq!(message(&bytes), Some(Message::Request(probe)));
    bytes[0] = icmpv4::ECHO_REPLY;
    assert_eq!(message(&bytes), Some(Message::Reply(probe)));
    write_echo(&mut bytes, icmpv6::ECHO_REQUEST, 7, 9, 0);
    assert_eq!(message_6(&bytes), Some(Message::Request(probe)));
}

#[test]
fn an_error_over_ipv6_names_an_echo() {
    let mut packet = vec![0; 40];
    packet[0] = 6 << 4 | 0xb; // traffic class 0xb8: EF
    packet[1] = 0x80;
    packet[6] = number::ICMPV6;
    packet[24..40].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
    let mut inner = Vec::new();
    write_echo(&mut inner, icmpv6::ECHO_REQUEST, 1, 2, 8);
    packet.extend(inner);
    let expected = Message::Error {
        error: IcmpError::NetUnreachable,
        probe: Probe::Echo { identifier: 1, sequence: 2 },
        class: TrafficClass::new(Dscp::EF),
        destination: Ipv6Addr::LOCALHOST.into(),
    };
    assert_eq!(message_6(&error(icmpv6::UNREACHABLE, 0, &packet, 99)), Some(expected));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_quote_that_is_changed_is_never_taken_for_another_probe_of_the_same_ports(
        at in 0..28_usize, to: u8,
    ) {
        let mut packet = Vec::new();
        numbered().write(&mut packet);
        packet[at] = to;
        if let Some(Message::Error { probe: Probe::Datagram { number, .. }, .. }) =
            message(&error(icmpv4::TIME_EXCEEDED, 0, &packet, 28))
        {
            // Only the identification and the length in the header identify the probe.
            prop_assert!(number == 0x1234 || matches!(at, 4 | 5));
        }
    }
}

#[test]
fn fuzz_messages() {
    let (mut packet, mut request) = (Vec::new(), Vec::new());
    numbered().write(&mut packet);
    write_echo(&mut request, icmpv6::ECHO_REQUEST, 7, 9, 8);
    let six = Ipv6Repr {
        traffic_class: TrafficClass::new(Dscp::EF),
        flow_label: 0,
        payload_length: request.len() as u16,
        next_header: number::ICMPV6,
        hop_limit: 1,
        source: Ipv6Addr::LOCALHOST,
        destination: Ipv6Addr::LOCALHOST,
    };
    let six = [&six.emit()[..], &request].concat();
    let seeds = [
        error(icmpv4::TIME_EXCEEDED, 0, &packet, 28),
        error(icmpv6::UNREACHABLE, 4, &six, 99),
        request,
        packet,
    ];
    fuzz("messages", &seeds, |bytes| {
        let (four, six) = (message(bytes), message_6(bytes));
        for (read, is_v6) in [(four, false), (six, true)] {
            if let Some(Message::Error { destination, .. }) = read {
                assert_eq!(destination.is_ipv6(), is_v6);
                assert!(bytes.len() >= ICMP_HEADER + IPV4_HEADER + 8, "quotes less than it must");
            }
        }
        let behind = ipv4(bytes);
        assert!(behind.is_none_or(|(_, behind)| behind.len() + IPV4_HEADER <= bytes.len()));
        four.is_some() || six.is_some() || behind.is_some()
    });
}
