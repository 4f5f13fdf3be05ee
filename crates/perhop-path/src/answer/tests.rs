use perhop_core::Dscp;
use perhop_fuzz::fuzz;
use perhop_wire::{IPV4_HEADER, IcmpRepr, Ipv4Repr, fill_icmp_checksum};
use proptest::prelude::*;

use super::*;
use crate::probe::Probe;
use crate::probe::tests::target;

const ROUTER: &str = "203.0.113.5";
const ROUTER_V6: &str = "2001:db8:5::5";

/// Returns a router's error about a packet, as a raw socket hands it over.
fn error(v6: bool, kind: (u8, u8), word: u32, quoted: &[u8]) -> Vec<u8> {
    let message = [&IcmpRepr { kind: kind.0, code: kind.1, rest: word }.emit(), quoted].concat();
    if v6 {
        return message;
    }
    let ip = Ipv4Repr {
        traffic_class: TrafficClass::new(Dscp::CS6),
        total_length: (IPV4_HEADER + message.len()) as u16,
        identification: 7,
        fragment: 0,
        ttl: 60,
        protocol: number::ICMP,
        source: ROUTER.parse().unwrap(),
        destination: "192.0.2.1".parse().unwrap(),
    };
    let mut packet = [&ip.emit()[..], &message].concat();
    fill_icmp_checksum(&mut packet, IPV4_HEADER);
    packet
}

fn from(v6: bool) -> IpAddr {
    if v6 { ROUTER_V6 } else { ROUTER }.parse().unwrap()
}

fn probe() -> Probe {
    Probe { flow: 3, ttl: 2, class: TrafficClass::new(Dscp::EF), size: 200 }
}

fn written(target: &Target, identity: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    target.write(&probe(), identity, &mut bytes);
    bytes
}

/// Time exceeded, by version.
fn expired(v6: bool) -> (u8, u8) {
    if v6 { (3, 0) } else { (11, 0) }
}

fn all_targets() -> impl Iterator<Item = (bool, Target)> {
    [ProbeProtocol::Udp, ProbeProtocol::Icmp]
        .into_iter()
        .flat_map(|protocol| [false, true].map(|v6| (v6, target(v6, protocol))))
}

#[test]
fn errors_say_which_probe_they_answer_and_how_it_arrived() {
    for (v6, target) in all_targets() {
        let mut bytes = written(&target, 777);
        perhop_wire::set_class_and_ttl(&mut bytes, TrafficClass::new(Dscp::AF11), 1);
        for quoted in [&bytes[..], &bytes[..if v6 { 48 } else { 28 }]] {
            let answer = target.answer(&error(v6, expired(v6), 0, quoted), from(v6)).unwrap();
            assert_eq!((answer.identity, answer.flow), (777, 3));
            assert_eq!(answer.class, Some(TrafficClass::new(Dscp::AF11)));
            assert_eq!((answer.kind, answer.from), (Kind::TimeExceeded, from(v6)));
            assert!(!answer.translated);
        }
    }
}

#[test]
fn too_big_has_the_mtu_of_the_next_link() {
    for (v6, target) in all_targets() {
        let kind = if v6 { (2, 0) } else { (3, 4) };
        let bytes = error(v6, kind, 1400, &written(&target, 5));
        assert_eq!(target.answer(&bytes, from(v6)).unwrap().kind, Kind::TooBig(1400));
    }
}

#[test]
fn the_destination_ends_a_path() {
    let udp = target(false, ProbeProtocol::Udp);
    let answer = udp.answer(&error(false, (3, 3), 0, &written(&udp, 5)), from(false)).unwrap();
    assert!(answer.kind == Kind::PortUnreachable && answer.kind.is_final());
    let icmp = target(true, ProbeProtocol::Icmp);
    let reply = IcmpRepr::echo(icmpv6::ECHO_REPLY, icmp.port_of(2), 99).emit();
    let answer = icmp.answer(&reply, icmp.destination).unwrap();
    assert_eq!((answer.kind, answer.identity, answer.flow), (Kind::Reply, 99, 2));
    assert_eq!(icmp.answer(&reply, from(true)), None, "a reply of somebody else's");
}

#[test]
fn a_changed_checksum_tells_of_translation() {
    let target = target(false, ProbeProtocol::Udp);
    let mut bytes = written(&target, 40);
    bytes[IPV4_HEADER + 6] ^= 0x55;
    let answer = target.answer(&error(false, (11, 0), 0, &bytes), from(false)).unwrap();
    assert_eq!((answer.identity, answer.translated), (40, true));
}

#[test]
fn other_peoples_packets_are_ignored() {
    for (v6, ours) in all_targets() {
        let good = written(&ours, 40);
        let others =
            [Target { destination: from(v6), ..ours }, Target { source: from(v6), ..ours }];
        for other in others {
            assert_eq!(other.answer(&error(v6, expired(v6), 0, &good), from(v6)), None);
        }
        if ours.protocol == ProbeProtocol::Udp {
            let other = Target { destination_port: 53, ..ours };
            assert_eq!(other.answer(&error(v6, expired(v6), 0, &good), from(v6)), None);
        }
        // Echo requests of the machine itself, redirects, and what is cut off.
        assert_eq!(ours.answer(&error(v6, (8, 0), 0, &good), from(v6)), None);
        let all = error(v6, expired(v6), 0, &good[..if v6 { 48 } else { 28 }]);
        for length in 0..all.len() {
            assert_eq!(ours.answer(&all[..length], from(v6)), None, "{length}");
        }
    }
    let target = target(false, ProbeProtocol::Udp);
    let mut bytes = error(false, (11, 0), 0, &written(&target, 40));
    bytes[IPV4_HEADER + 2] ^= 1;
    assert_eq!(target.answer(&bytes, from(false)), None, "a wrong checksum");
}

proptest! {
    /// Whatever comes, an answer names a probe that its bytes quote.
    #[test]
    fn any_bytes_are_read(
        v6: bool,
        icmp: bool,
        bytes in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let protocol = if icmp { ProbeProtocol::Icmp } else { ProbeProtocol::Udp };
        let _ = target(v6, protocol).answer(&bytes, from(v6));
    }
}

#[test]
fn fuzz_answers() {
    for (v6, target) in all_targets() {
        let quoted = written(&target, 321);
        let too_big = if v6 { (2, 0) } else { (3, 4) };
        let seeds = [error(v6, expired(v6), 0, &quoted), error(v6, too_big, 1400, &quoted[..48])];
        fuzz(&format!("answers {v6} {:?}", target.protocol), &seeds, |bytes| {
            // The checksum would hide what is behind it from most damaged input.
            let mut bytes = bytes.to_vec();
            if !v6 && bytes.len() > IPV4_HEADER {
                fill_icmp_checksum(&mut bytes, IPV4_HEADER);
            }
            let answer = target.answer(&bytes, from(v6));
            answer.is_none_or(|found| found.kind == Kind::Reply || found.class.is_some())
                && answer.is_some()
        });
    }
}
