//! Errors and replies, compared with the expectations of their receivers.

use perhop_fuzz::fuzz;
use perhop_wire::number::TCP;
use perhop_wire::{fold, sum_of_words};

use super::*;
use crate::packets::{v4, v6};

fn own() -> Addresses {
    let v6 = Ipv6Addr::new(0xfd70, 0x6572, 0x686f, 0x7000, 0, 0, 0xa00, 9);
    Addresses { v4: Ipv4Addr::new(10, 0, 0, 9), v6 }
}

/// Returns the sum of a message with its pseudo-header, which is all ones if its checksum is right.
fn message_sum(packet: &[u8]) -> u16 {
    let parsed = IpPacket::parse(packet).unwrap();
    let payload = parsed.payload(packet);
    let mut sum = sum_of_words(payload);
    if parsed.source.is_ipv6() {
        sum += sum_of_words(&packet[8..40]) + u64::from(number::ICMPV6) + payload.len() as u64;
    }
    fold(sum)
}

fn told(about: &[u8], error: IcmpError) -> Vec<u8> {
    let mut out = [0xee; 1500];
    let parsed = IpPacket::parse(about).unwrap();
    let length = super::error(&mut out, own(), (about, &parsed), error);
    out[..length].to_vec()
}

#[test]
fn an_error_quotes_as_much_as_it_may() {
    for (length, quoted) in [(12, 32), (1400, 548)] {
        let about = v4(0x28, 0, 1, 17, 0, &vec![7; length]);
        let packet = told(&about, IcmpError::TimeExceeded);
        let parsed = IpPacket::parse(&packet).unwrap();
        assert_eq!(parsed.source, "10.0.0.9".parse::<IpAddr>().unwrap());
        assert_eq!(parsed.destination, "192.0.2.1".parse::<IpAddr>().unwrap());
        assert_eq!(&packet[20..22], [11, 0]);
        assert_eq!(&packet[28..], &about[..quoted]);
        assert_eq!(message_sum(&packet), 0xffff);
    }
    for (length, quoted) in [(12, 52), (1400, 1232)] {
        let about = v6(0x28, 1, 17, &vec![7; length]);
        let packet = told(&about, IcmpError::PortUnreachable);
        let parsed = IpPacket::parse(&packet).unwrap();
        assert_eq!(parsed.source, "fd70:6572:686f:7000::a00:9".parse::<IpAddr>().unwrap());
        assert_eq!((&packet[40..42], packet.len()), (&[1, 4][..], 48 + quoted));
        assert_eq!(&packet[48..], &about[..quoted]);
        assert_eq!(message_sum(&packet), 0xffff);
    }
}

#[test]
fn an_echo_comes_back_as_it_went() {
    for (mut bytes, request, reply) in [
        (v4(0x28, 0, 9, 1, 2, &[8, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]), 8, 0),
        (v6(0x28, 9, 58, &[128, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]), 128, 129),
    ] {
        let asked = IpPacket::parse(&bytes).unwrap();
        assert_eq!(bytes[asked.transport], request);
        assert!(answer(&mut bytes, &asked));
        let told = IpPacket::parse(&bytes).unwrap();
        assert_eq!((told.source, told.destination), (asked.destination, asked.source));
        assert_eq!((told.traffic_class, told.ttl), (asked.traffic_class, Header::TTL));
        let payload = told.payload(&bytes);
        assert_eq!((payload[0], &payload[4..]), (reply, &[1, 2, 3, 4, 5, 6, 7][..]));
        assert_eq!(message_sum(&bytes), 0xffff);
        assert!(!answer(&mut bytes, &told), "a reply is not answered");
    }
    let mut short = v4(0, 0, 9, 1, 0, &[8, 0, 0]);
    let parsed = IpPacket::parse(&short).unwrap();
    assert!(!answer(&mut short, &parsed));
}

#[test]
fn errors_about_errors_and_groups_are_not_sent() {
    let may = |bytes: &[u8]| permits_error(bytes, &IpPacket::parse(bytes).unwrap());
    assert!(may(&v4(0, 0, 1, TCP, 0, &[0; 20])));
    assert!(may(&v4(0, 0, 1, 1, 0, &[8, 0, 0, 0])));
    assert!(may(&v6(0, 1, 58, &[128, 0, 0, 0])));
    for kind in [3, 4, 5, 11, 12] {
        assert!(!may(&v4(0, 0, 1, 1, 0, &[kind, 0, 0, 0])), "{kind}");
    }
    for kind in 0..128 {
        assert!(!may(&v6(0, 1, 58, &[kind, 0, 0, 0])), "{kind}");
    }
    assert!(!may(&v4(0, 0x0010, 1, TCP, 0, &[0; 20])), "a later fragment");
    let mut group = v4(0, 0, 1, 17, 0, &[0; 8]);
    group[16..20].copy_from_slice(&[224, 0, 0, 1]);
    fill_ipv4_checksum(&mut group);
    assert!(!may(&group));
}

/// For any input, an answer of a router is a valid packet.
#[test]
fn fuzz_routers() {
    let mut seeds = vec![
        v4(0x28, 0, 9, 1, 2, &[8, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]),
        v6(0x28, 9, 58, &[128, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]),
        v4(0, 0x2000, 9, 1, 0, &[8, 0, 0, 0, 1, 2, 3, 4]),
    ];
    seeds.push(told(&v4(0x28, 0, 1, 17, 0, &[7; 40]), IcmpError::TimeExceeded));
    seeds.push(told(&v6(0x28, 1, 17, &[7; 40]), IcmpError::TooBig { mtu: 1280 }));
    fuzz("routers", &seeds, |bytes| {
        let Ok(parsed) = IpPacket::parse(bytes) else { return false };
        if permits_error(bytes, &parsed) {
            let mut out = [0xee; 1500];
            let length = error(&mut out, own(), (bytes, &parsed), IcmpError::PortUnreachable);
            let told = IpPacket::parse(&out[..length]).expect("an error is a packet");
            assert_eq!((told.length, told.destination), (length, parsed.source));
            assert_eq!(message_sum(&out[..length]), 0xffff);
            assert!(!permits_error(&out[..length], &told), "about an error");
        }
        let mut fragment = bytes.to_vec();
        answer_fragment(&mut fragment, &parsed);
        let mut reply = bytes.to_vec();
        if answer(&mut reply, &parsed) {
            let answered = IpPacket::parse(&reply).expect("a reply is a packet");
            assert_eq!(
                (answered.source, answered.destination),
                (parsed.destination, parsed.source)
            );
            assert_eq!(message_sum(&reply), 0xffff);
            assert_eq!(reply_to(&reply, &answered), None);
        }
        assert!(IpPacket::parse(&fragment).is_ok_and(|it| it.source == parsed.destination));
        true
    });
}
