//! Tunnels: packets in packets.

use perhop_core::{
    AckHint, Dscp, Duration, Ecn, Header, InnerFlow, NodeId, Protocol, Time, TrafficClass,
};

use crate::port::PortId;

/// Bytes that a tunnel adds to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct TunnelOverhead {
    /// Bytes of all headers, the outer IP header included, and of an integrity check value.
    pub headers: u32,
    /// Bytes behind the inner packet that are padded with it.
    pub trailer: u32,
    /// Number of which the length of inner packet and trailer becomes a multiple.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
    pub multiple: u32,
    /// True if padding ends at the tunnel's MTU, as in WireGuard.
    pub capped: bool,
}

impl TunnelOverhead {
    /// Returns the length of the outer packet for an inner packet of `size` bytes.
    pub fn outer(&self, size: u32, mtu: u32) -> u32 {
        let bare = size + self.trailer;
        let padded = bare.next_multiple_of(self.multiple);
        let most = if self.capped { bare.max(mtu) } else { padded };
        self.headers + padded.min(most)
    }

    /// Returns the length of the longest inner packet whose outer packet has `mtu` bytes at most.
    pub fn room(&self, mtu: u32) -> u32 {
        let inside = mtu.saturating_sub(self.headers);
        let padded = if self.capped { inside } else { inside - inside % self.multiple };
        padded.saturating_sub(self.trailer)
    }
}

/// Protocol in the outer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Carrier {
    /// IP, with this protocol number.
    Ip(u8),
    /// UDP, from this port to the same one.
    Udp(u16),
    /// UDP to this port, from one that is a hash of the inner packet's flow (RFC 7348, section 5).
    Hashed(u16),
}

impl Carrier {
    /// Returns the protocol number in the outer header.
    pub const fn number(self) -> u8 {
        match self {
            Self::Ip(number) => number,
            Self::Udp(_) | Self::Hashed(_) => 17,
        }
    }
}

/// A tunnel between two nodes, in both directions.
#[derive(Clone, Debug)]
pub struct TunnelSpec {
    /// Ends.
    pub ends: [NodeId; 2],
    /// Bytes that it adds.
    pub overhead: TunnelOverhead,
    /// Protocol of outer packets.
    pub carrier: Carrier,
    /// Extent to which queues see the flows of inner packets. Outer packets with ports from a hash
    /// show them anyway.
    pub flows: InnerFlow,
    /// Longest inner packet, in bytes.
    pub mtu: u32,
    /// DSCP of outer packets; `None` if it is that of the inner packet.
    pub dscp: Option<Dscp>,
    /// True if the exit copies the outer DSCP into the inner packet: the uniform model of RFC 2983,
    /// section 3.1, instead of the pipe model.
    pub uniform: bool,
}

/// Time for which a path MTU is known (RFC 1191, section 6.3).
const KNOWN: Duration = Duration::from_secs(600);

/// Counters of one direction of a tunnel. Bytes are those of inner packets, unless they are outer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelCounters {
    /// Packets that the entry has put into outer ones; each fragment is one.
    pub encapsulated_packets: u64,
    /// Their bytes.
    pub encapsulated_bytes: u64,
    /// Bytes of the outer packets.
    pub outer_bytes: u64,
    /// Packets that were too long to enter, and could not be divided.
    pub dropped_too_long: u64,
    /// Packets whose outer packets would have no route.
    pub dropped_no_route: u64,
    /// Packets that the exit has taken out of outer ones.
    pub decapsulated_packets: u64,
    /// Their bytes.
    pub decapsulated_bytes: u64,
    /// Packets that the exit has dropped for a mark that their transport does not understand (RFC
    /// 6040, section 4.2).
    pub dropped_ecn: u64,
}

/// One direction of a tunnel.
#[derive(Clone, Debug)]
pub(crate) struct Tunnel {
    pub entry: NodeId,
    pub exit: NodeId,
    pub spec: TunnelSpec,
    /// Longest inner packet by an ICMP error about an outer one, and until when that is known: the
    /// soft state of RFC 2003, section 5.1.
    learned: Option<(u32, Time)>,
    /// The device that packets pass before they enter.
    pub device: Option<PortId>,
    pub counters: TunnelCounters,
}

impl Tunnel {
    /// Returns both directions of a tunnel.
    pub fn directions(spec: &TunnelSpec) -> [Self; 2] {
        let [first, second] = spec.ends;
        [(first, second), (second, first)].map(|(entry, exit)| Self {
            entry,
            exit,
            spec: spec.clone(),
            learned: None,
            device: None,
            counters: TunnelCounters::default(),
        })
    }

    /// Returns the length of the longest packet that may enter if the link takes `link` bytes.
    pub fn mtu(&self, now: Time, link: u32) -> u32 {
        let learned =
            self.learned.filter(|(_, until)| *until > now).map_or(u32::MAX, |(mtu, _)| mtu);
        self.spec.mtu.min(learned).min(self.spec.overhead.room(link))
    }

    /// Learns the MTU that an ICMP error about an outer packet names.
    pub fn learn(&mut self, now: Time, mtu: u32) {
        let room = self.spec.overhead.room(mtu);
        if room > 0 && room < self.mtu(now, u32::MAX) {
            self.learned = Some((room, now + KNOWN));
        }
    }

    /// Returns the outer header of a packet if the longest one that may enter has `mtu` bytes. The
    /// ECN field is copied (RFC 6040, section 4.1).
    pub fn outer(&self, inner: &Header, mtu: u32) -> Header {
        /// First of the dynamic ports and their number (RFC 7348, section 5).
        const DYNAMIC: (u16, u64) = (49_152, 16_384);
        let own = inner.traffic_class;
        let (protocol, source_port, destination_port) = match self.spec.carrier {
            Carrier::Ip(_) => (Protocol::Other, 0, 0),
            Carrier::Udp(port) => (Protocol::Udp, port, port),
            Carrier::Hashed(port) => {
                (Protocol::Udp, DYNAMIC.0 + (inner.flow_hash(0) % DYNAMIC.1) as u16, port)
            }
        };
        let outer = Header {
            size: self.spec.overhead.outer(inner.size, mtu),
            source: self.entry,
            destination: self.exit,
            source_port,
            destination_port,
            protocol: protocol.into(),
            traffic_class: self.spec.dscp.map_or(own, |dscp| own.with_dscp(dscp)),
            ttl: Header::TTL,
            ack: AckHint::NONE,
        };
        match self.spec.flows {
            InnerFlow::Hidden => outer,
            InnerFlow::AtEntry => outer.with_inner_flow(InnerFlow::AtEntry, inner.flow_hash(0)),
            InnerFlow::Dissected => {
                outer.with_inner_flow(InnerFlow::Dissected, inner.dissected_hash(0))
            }
        }
    }

    /// Returns `true` if a packet that has arrived at its destination is one of the tunnel.
    pub fn carries(&self, header: &Header) -> bool {
        (self.entry, self.exit) == (header.source, header.destination)
            && match self.spec.carrier {
                Carrier::Ip(_) => header.protocol.protocol() == Protocol::Other,
                Carrier::Udp(port) | Carrier::Hashed(port) => {
                    header.protocol.protocol() == Protocol::Udp && header.destination_port == port
                }
            }
    }

    /// Returns the DSCP and ECN field of an inner packet behind the tunnel; `None` if the packet
    /// must be dropped.
    pub fn emerging(&self, inner: TrafficClass, outer: TrafficClass) -> Option<TrafficClass> {
        let dscp = if self.spec.uniform { outer.dscp() } else { inner.dscp() };
        Some(inner.with_dscp(dscp).with_ecn(emerging(inner.ecn(), outer.ecn())?))
    }
}

/// Returns the ECN field behind a tunnel (RFC 6040, section 4.2, figure 4); `None` if the packet
/// must be dropped, because its transport does not understand the mark.
const fn emerging(inner: Ecn, outer: Ecn) -> Option<Ecn> {
    match (inner, outer) {
        (Ecn::NotEct, Ecn::Ce) => None,
        (Ecn::NotEct, _) => Some(Ecn::NotEct),
        (Ecn::Ce, _) | (_, Ecn::Ce) => Some(Ecn::Ce),
        (_, Ecn::Ect1) => Some(Ecn::Ect1),
        (inner, _) => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IPIP: TunnelOverhead =
        TunnelOverhead { headers: 20, trailer: 0, multiple: 1, capped: false };
    const WIREGUARD: TunnelOverhead =
        TunnelOverhead { headers: 60, trailer: 0, multiple: 16, capped: true };
    const ESP: TunnelOverhead =
        TunnelOverhead { headers: 52, trailer: 2, multiple: 4, capped: false };

    #[test]
    fn lengths_are_those_on_the_wire() {
        assert_eq!((IPIP.outer(1480, 1480), IPIP.room(1500)), (1500, 1480));
        // A call of 200 bytes becomes 208; 1420, the MTU of wg-quick, is not padded to 1424.
        assert_eq!([200, 1420].map(|size| WIREGUARD.outer(size, 1420)), [268, 1480]);
        assert_eq!(WIREGUARD.room(1500), 1440);
        // RFC 4303, section 2.4: payload, padding and two bytes are a multiple of four.
        assert_eq!([1446, 1447, 40].map(|size| ESP.outer(size, 1446)), [1500, 1504, 96]);
        assert_eq!(ESP.room(1500), 1446);
    }

    #[test]
    fn marks_emerge_as_rfc_6040_says() {
        use Ecn::{Ce, Ect0, Ect1, NotEct};
        let outer = [NotEct, Ect0, Ect1, Ce];
        for (inner, expected) in [
            (NotEct, [Some(NotEct), Some(NotEct), Some(NotEct), None]),
            (Ect0, [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]),
            (Ect1, [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]),
            (Ce, [Some(Ce); 4]),
        ] {
            assert_eq!(outer.map(|outer| emerging(inner, outer)), expected, "{inner:?}");
        }
    }

    fn spec(carrier: Carrier, flows: InnerFlow, dscp: Option<Dscp>) -> Tunnel {
        let ends = [NodeId(5), NodeId(6)];
        let (overhead, mtu, uniform) = (IPIP, 1480, false);
        let spec = TunnelSpec { ends, overhead, carrier, flows, mtu, dscp, uniform };
        let [there, back] = Tunnel::directions(&spec);
        assert_eq!([back.entry, back.exit], [there.exit, there.entry]);
        there
    }

    fn inner() -> Header {
        Header {
            size: 1000,
            source: NodeId(1),
            destination: NodeId(2),
            source_port: 3,
            destination_port: 4,
            protocol: Protocol::Tcp.into(),
            traffic_class: TrafficClass::new(Dscp::CS1).with_ecn(Ecn::Ect1),
            ttl: 9,
            ack: AckHint::of(7, true),
        }
    }

    /// RFC 2003, section 3.1, and RFC 7348, section 5: the ports of the carrier, of which a hash of
    /// the inner flow is one of 16,384 dynamic ones.
    #[test]
    fn the_outer_header_is_that_of_the_carrier() {
        let hashed = 49_152 + (inner().flow_hash(0) % 16_384) as u16;
        for (carrier, protocol, number, ports) in [
            (Carrier::Ip(4), Protocol::Other, 4, (0, 0)),
            (Carrier::Ip(47), Protocol::Other, 47, (0, 0)),
            (Carrier::Udp(500), Protocol::Udp, 17, (500, 500)),
            (Carrier::Hashed(4789), Protocol::Udp, 17, (hashed, 4789)),
        ] {
            for dscp in [None, Some(Dscp::EF)] {
                let tunnel = spec(carrier, InnerFlow::Hidden, dscp);
                let outer = tunnel.outer(&inner(), 1480);
                let own = TrafficClass::new(dscp.unwrap_or(Dscp::CS1)).with_ecn(Ecn::Ect1);
                let expected = Header {
                    size: 1020,
                    source: NodeId(5),
                    destination: NodeId(6),
                    source_port: ports.0,
                    destination_port: ports.1,
                    protocol: protocol.into(),
                    traffic_class: own,
                    ttl: 64,
                    ack: AckHint::NONE,
                };
                assert_eq!((outer, carrier.number()), (expected, number), "{carrier:?}");
                assert!(tunnel.carries(&outer));
                // Every field by which another packet differs.
                let others = [
                    Header { source: NodeId(4), ..outer },
                    Header { destination: NodeId(5), ..outer },
                    Header { protocol: Protocol::Tcp.into(), ..outer },
                ];
                assert!(others.iter().all(|other| !tunnel.carries(other)), "{carrier:?}");
                let port = Header { destination_port: 9, ..outer };
                assert_eq!(tunnel.carries(&port), protocol == Protocol::Other, "{carrier:?}");
            }
        }
    }

    #[test]
    fn the_outer_header_shows_as_much_of_the_flow_as_queues_see() {
        let outer = |flows| spec(Carrier::Ip(4), flows, None).outer(&inner(), 1480);
        let hidden = outer(InnerFlow::Hidden);
        for (flows, hash) in [
            (InnerFlow::AtEntry, inner().flow_hash(0)),
            (InnerFlow::Dissected, inner().dissected_hash(0)),
        ] {
            assert_eq!(outer(flows), hidden.with_inner_flow(flows, hash), "{flows:?}");
            assert_ne!(outer(flows), hidden);
        }
    }

    /// RFC 2983, section 3: the exit copies the outer DSCP, or leaves the inner one.
    #[test]
    fn the_exit_keeps_the_dscp_or_copies_it() {
        let tunnel = spec(Carrier::Ip(4), InnerFlow::Hidden, None);
        let [one, other] = [Dscp::CS1, Dscp::EF].map(TrafficClass::new);
        let (marked, ce) = (one.with_ecn(Ecn::Ect0), other.with_ecn(Ecn::Ce));
        assert_eq!(tunnel.emerging(marked, ce), Some(one.with_ecn(Ecn::Ce)));
        assert_eq!(tunnel.emerging(one, ce), None);
        let uniform =
            Tunnel { spec: TunnelSpec { uniform: true, ..tunnel.spec.clone() }, ..tunnel };
        assert_eq!(uniform.emerging(marked, ce), Some(other.with_ecn(Ecn::Ce)));
        assert_eq!(uniform.emerging(marked, other), Some(other.with_ecn(Ecn::Ect0)));
    }

    /// RFC 2003, section 5.1, and RFC 1191, section 6.3: ten minutes.
    #[test]
    fn the_least_of_three_limits_holds() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut tunnel = spec(Carrier::Ip(4), InnerFlow::Hidden, None);
        let mtus = |tunnel: &Tunnel, now| [u32::MAX, 1500, 1499, 1000].map(|l| tunnel.mtu(now, l));
        assert_eq!(mtus(&tunnel, at(0)), [1480, 1480, 1479, 980]);
        tunnel.learn(at(10), 1500);
        assert_eq!(tunnel.learned, None, "it is no news");
        tunnel.learn(at(10), 20);
        assert_eq!(tunnel.learned, None, "nothing would have room");
        tunnel.learn(at(10), 1400);
        assert_eq!(mtus(&tunnel, at(10)), [1380, 1380, 1380, 980]);
        tunnel.learn(at(11), 1400);
        assert_eq!(mtus(&tunnel, at(609))[0], 1380);
        assert_eq!(mtus(&tunnel, at(610))[0], 1480);
        tunnel.learn(at(610), 21);
        assert_eq!(mtus(&tunnel, at(1_209))[0], 1);
    }

    proptest! {
        /// What has room fits, and one byte more does not.
        #[test]
        fn room_is_the_longest_that_fits(
            headers in 20_u32..100, trailer in 0_u32..3, multiple in 1_u32..17, capped: bool,
            mtu in 200_u32..9000,
        ) {
            let capped = capped && trailer == 0;
            let tunnel = TunnelOverhead { headers, trailer, multiple, capped };
            let room = tunnel.room(mtu);
            prop_assert!(tunnel.outer(room, room) <= mtu);
            prop_assert!(tunnel.outer(room + 1, room + 1) > mtu);
        }
    }
}
