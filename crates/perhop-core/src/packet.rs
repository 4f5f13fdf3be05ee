//! Packets as the network sees them.

use crate::{Bytes, Dscp, Ecn, LinkClass, TrafficClass};

/// A node of the network: a host or a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
pub struct NodeId(pub u16);

impl NodeId {
    /// Returns the node's index in tables that are indexed by node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Version of the internet protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// Both versions.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Returns the version: IPv6 if `v6`.
    pub const fn of(v6: bool) -> Self {
        if v6 { Self::V6 } else { Self::V4 }
    }

    /// Returns the bytes of a header without options or extensions: 20 (RFC 791, section 3.1), or
    /// 40 (RFC 8200, section 3).
    pub const fn header_bytes(self) -> u32 {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }

    /// Returns the least MTU of a link, in bytes: 68 (RFC 791, section 3.2), or 1280 (RFC 8200,
    /// section 5).
    pub const fn least_mtu(self) -> u32 {
        match self {
            Self::V4 => 68,
            Self::V6 => 1280,
        }
    }
}

/// The transport protocols that perhop tells apart. Those of IPv6 have values of their own, so that
/// a header needs no version: plans name the protocol, and the version apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Protocol {
    /// Internet control message protocol; its ports are zero.
    Icmp,
    /// Transmission control protocol.
    Tcp,
    /// User datagram protocol.
    Udp,
    /// Any other protocol; its ports are zero. Modelled hosts do not use it.
    #[cfg_attr(feature = "serde", serde(skip))]
    Other,
    /// ICMPv6 (RFC 4443).
    #[cfg_attr(feature = "serde", serde(skip))]
    Icmp6,
    /// TCP over IPv6.
    #[cfg_attr(feature = "serde", serde(skip))]
    Tcp6,
    /// UDP over IPv6.
    #[cfg_attr(feature = "serde", serde(skip))]
    Udp6,
    /// Any other protocol over IPv6.
    #[cfg_attr(feature = "serde", serde(skip))]
    Other6,
}

impl Protocol {
    /// The protocols over IPv4.
    pub const ALL: [Self; 4] = [Self::Icmp, Self::Tcp, Self::Udp, Self::Other];

    /// Returns the protocol over this version.
    #[must_use]
    pub const fn over(self, version: IpVersion) -> Self {
        match (self, version) {
            (Self::Icmp | Self::Icmp6, IpVersion::V4) => Self::Icmp,
            (Self::Tcp | Self::Tcp6, IpVersion::V4) => Self::Tcp,
            (Self::Udp | Self::Udp6, IpVersion::V4) => Self::Udp,
            (Self::Other | Self::Other6, IpVersion::V4) => Self::Other,
            (Self::Icmp | Self::Icmp6, IpVersion::V6) => Self::Icmp6,
            (Self::Tcp | Self::Tcp6, IpVersion::V6) => Self::Tcp6,
            (Self::Udp | Self::Udp6, IpVersion::V6) => Self::Udp6,
            (Self::Other | Self::Other6, IpVersion::V6) => Self::Other6,
        }
    }

    /// Returns the version that carries the protocol.
    pub const fn version(self) -> IpVersion {
        match self {
            Self::Icmp | Self::Tcp | Self::Udp | Self::Other => IpVersion::V4,
            Self::Icmp6 | Self::Tcp6 | Self::Udp6 | Self::Other6 => IpVersion::V6,
        }
    }

    /// Returns the same protocol over IPv4, to compare protocols whatever the version.
    #[must_use]
    pub const fn base(self) -> Self {
        self.over(IpVersion::V4)
    }
}

/// The fields of a packet that routers read. Addresses are nodes: a prefix is resolved to its nodes
/// when a scenario is compiled, so that IPv4 and IPv6 cost the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the IP packet in bytes, headers included.
    pub size: u32,
    /// Source node.
    pub source: NodeId,
    /// Destination node.
    pub destination: NodeId,
    /// Source port; zero for ICMP.
    pub source_port: u16,
    /// Destination port; zero for ICMP.
    pub destination_port: u16,
    /// Transport protocol, the version that carries it, and the class at layer 2.
    pub protocol: Transport,
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Time to live, or hop limit: the number of routers that may still forward the packet.
    pub ttl: u8,
    /// What an ACK filter reads of a TCP segment. Outer packets of tunnels say here how they show
    /// the flow of the inner packet ([`Header::with_inner_flow`]).
    pub ack: AckHint,
}

/// Extent to which hashes of flows see the inner packet of a tunnel, in Linux's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum InnerFlow {
    /// Nowhere: the outer packets of a tunnel are one flow.
    #[default]
    Hidden,
    /// At the entry of the tunnel, by hashes that are kept with the packet; behind it, the outer
    /// packets are one flow.
    AtEntry,
    /// On the whole path: the flow dissector reads the inner header.
    Dissected,
}

/// Transport protocol and [`LinkClass`] of a packet, which share a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Transport(u8);

impl Transport {
    /// Bits of the protocol.
    const PROTOCOL: u8 = 0b111;

    /// Returns the protocol.
    #[inline]
    pub const fn protocol(self) -> Protocol {
        match self.0 & Self::PROTOCOL {
            0 => Protocol::Icmp,
            1 => Protocol::Tcp,
            2 => Protocol::Udp,
            3 => Protocol::Other,
            4 => Protocol::Icmp6,
            5 => Protocol::Tcp6,
            6 => Protocol::Udp6,
            _ => Protocol::Other6,
        }
    }

    /// Returns the class at layer 2.
    #[inline]
    pub const fn link_class(self) -> LinkClass {
        LinkClass::from_code(self.0 >> 3)
    }

    /// Returns the same protocol with another class at layer 2.
    #[inline]
    #[must_use]
    pub const fn with_link_class(self, class: LinkClass) -> Self {
        Self(self.0 & Self::PROTOCOL | class.code() << 3)
    }
}

impl From<Protocol> for Transport {
    fn from(protocol: Protocol) -> Self {
        Self(protocol as u8)
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("Transport")
            .field(&self.protocol())
            .field(&self.link_class())
            .finish()
    }
}

/// What an ACK filter reads of a TCP segment, in a byte, because routers see no bodies: a hash of
/// the acknowledgement number, and whether a later acknowledgement says all that this one does.
///
/// Two segments of a connection with different hashes acknowledge different data. The later one
/// acknowledges more, unless an earlier hop has reordered them. Equal hashes prove nothing: one in
/// 64 pairs of different numbers has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckHint(u8);

impl AckHint {
    /// Not a TCP segment, or one without an acknowledgement.
    pub const NONE: Self = Self(0);

    /// Not a TCP segment, but a packet with an [inner flow](InnerFlow::AtEntry).
    const AT_ENTRY: Self = Self(1);
    /// Not a TCP segment, but a packet with an [inner flow](InnerFlow::Dissected).
    const DISSECTED: Self = Self(2);

    /// Bit of a segment that a later acknowledgement supersedes.
    const PURE: u8 = 0x80;
    /// Bit of every segment with an acknowledgement.
    const ACK: u8 = 0x40;

    /// Returns the hint of a segment that acknowledges the bytes before `number`. It is `pure` if
    /// it has no data, no selective acknowledgements and no flag but ACK.
    #[inline]
    pub const fn of(number: u32, pure: bool) -> Self {
        // The high bits of a product with the golden ratio (Knuth, volume 3, section 6.4): equal
        // steps of the number give different values.
        let hash = (number.wrapping_mul(0x9e37_79b9) >> 26) as u8;
        Self(hash | Self::ACK | if pure { Self::PURE } else { 0 })
    }

    /// Returns `true` if a later acknowledgement of the connection supersedes the segment.
    #[inline]
    pub const fn is_pure(self) -> bool {
        self.0 & Self::PURE != 0
    }

    /// Returns `true` if both segments have acknowledgements, which differ.
    #[inline]
    pub const fn differs(self, other: Self) -> bool {
        self.0 & other.0 & Self::ACK != 0 && (self.0 ^ other.0) & !Self::PURE != 0
    }
}

/// Packets are copied between rings, and most of each copy is the header.
const _: () = assert!(size_of::<Header>() == 16);

impl Header {
    /// The time to live that hosts and routers begin with, as RFC 1700 recommends.
    pub const TTL: u8 = 64;

    /// Returns the length of the IP packet, headers included.
    pub const fn size(&self) -> Bytes {
        Bytes::new(self.size as u64)
    }

    /// Returns the code point that names the packet's per-hop behaviour.
    pub const fn dscp(&self) -> Dscp {
        self.traffic_class.dscp()
    }

    /// Returns the packet's ECN field.
    pub const fn ecn(&self) -> Ecn {
        self.traffic_class.ecn()
    }

    /// Returns the transport protocol.
    #[inline]
    pub const fn protocol(&self) -> Protocol {
        self.protocol.protocol()
    }

    /// Returns the class at layer 2.
    #[inline]
    pub const fn link_class(&self) -> LinkClass {
        self.protocol.link_class()
    }

    /// Replaces the class at layer 2.
    #[inline]
    pub const fn set_link_class(&mut self, class: LinkClass) {
        self.protocol = self.protocol.with_link_class(class);
    }

    /// Returns the version of the internet protocol.
    pub const fn version(&self) -> IpVersion {
        self.protocol().version()
    }

    /// Returns the flow label of an IPv6 packet: 20 bits that are uniformly distributed, the same
    /// for all packets of a flow, and not zero (RFC 6437, section 3). A hash of addresses and label
    /// therefore divides flows as a hash of addresses, protocol and ports does, which routers use
    /// (RFC 6438, section 3).
    pub fn flow_label(&self) -> u32 {
        const LABEL: u64 = 0x464c_4142;
        (self.flow_hash(LABEL) % 0xf_ffff) as u32 + 1
    }

    /// Returns the header of an outer packet that shows the flow of its inner packet, whose hash is
    /// `hash`. It keeps the hash in place of ports: all of them ([`InnerFlow::Dissected`]), so that
    /// it must have none, or the source port ([`InnerFlow::AtEntry`]), which must be equal to the
    /// destination port.
    #[must_use]
    pub fn with_inner_flow(mut self, flow: InnerFlow, hash: u64) -> Self {
        debug_assert!(self.source_port == self.destination_port, "a port would be lost");
        match flow {
            InnerFlow::Hidden => return self,
            InnerFlow::AtEntry => self.ack = AckHint::AT_ENTRY,
            InnerFlow::Dissected => {
                debug_assert!(self.destination_port == 0, "a port would be lost");
                self.ack = AckHint::DISSECTED;
                self.destination_port = (hash >> 16) as u16;
            }
        }
        self.source_port = hash as u16;
        self
    }

    /// Returns source and destination port as they are on the wire; zeros without ports.
    #[inline]
    pub const fn ports(&self) -> (u16, u16) {
        match self.ack {
            AckHint::AT_ENTRY => (self.destination_port, self.destination_port),
            AckHint::DISSECTED => (0, 0),
            _ => (self.source_port, self.destination_port),
        }
    }

    /// Returns a number that is the same for all packets of a flow: a hash of its addresses, ports
    /// and protocol with `perturbation`, so that another perturbation makes other flows collide.
    ///
    /// The flow is that of the inner packet as far as [`InnerFlow`] says, as with Linux's
    /// `skb_get_hash`: a hash that was computed before encapsulation stays with the packet until
    /// the packet leaves the node.
    pub fn flow_hash(&self, perturbation: u64) -> u64 {
        let entered = self.ack == AckHint::AT_ENTRY && self.ttl == Self::TTL;
        if entered {
            self.hash(perturbation, (self.source_port, self.destination_port))
        } else {
            self.dissected_hash(perturbation)
        }
    }

    /// Returns the same hash of what a flow dissector reads in the packet's bytes, as with Linux's
    /// `skb_get_hash_perturb`: hashes from before encapsulation have no effect.
    pub fn dissected_hash(&self, perturbation: u64) -> u64 {
        let dissected = self.ack == AckHint::DISSECTED;
        let ports =
            if dissected { (self.source_port, self.destination_port) } else { self.ports() };
        self.hash(perturbation, ports)
    }

    /// Returns the same hash of the packet's first header, without a look into tunnels.
    pub fn outer_hash(&self, perturbation: u64) -> u64 {
        self.hash(perturbation, self.ports())
    }

    fn hash(&self, perturbation: u64, (source_port, destination_port): (u16, u16)) -> u64 {
        let ends = u64::from(self.source.0) << 48
            | u64::from(self.destination.0) << 32
            | u64::from(source_port) << 16
            | u64::from(destination_port);
        mix(mix(perturbation ^ ends).wrapping_add(self.protocol() as u64))
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the result depends on
/// every bit of `number`.
const fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// A packet: its header, and a body that the network carries without reading it. The body is a
/// segment on a modelled host, and the buffer of the real packet on an emulated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<B> {
    /// The fields that routers read.
    pub header: Header,
    /// The fields that only hosts read.
    pub body: B,
}

impl<B> Packet<B> {
    /// Returns the length of the IP packet, headers included.
    pub const fn size(&self) -> Bytes {
        self.header.size()
    }

    /// Returns the packet as a router forwards it, with a time to live that is less by one; it must
    /// not be zero.
    #[must_use]
    pub fn forwarded(mut self) -> Self {
        self.header.ttl -= 1;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(source_port: u16, protocol: Protocol) -> Header {
        Header {
            size: 1500,
            source: NodeId(1),
            destination: NodeId(2),
            source_port,
            destination_port: 5001,
            protocol: protocol.into(),
            traffic_class: TrafficClass::default(),
            ttl: Header::TTL,
            ack: AckHint::NONE,
        }
    }

    #[test]
    fn hints_tell_acknowledgements_apart() {
        let pure = |number| AckHint::of(number, true);
        assert!(pure(1).is_pure() && !AckHint::of(1, false).is_pure() && !AckHint::NONE.is_pure());
        assert!(!pure(1).differs(AckHint::of(1, false)) && !pure(1).differs(AckHint::NONE));
        // The next acknowledgements of two segments each, wherever the connection begins.
        for first in (0..u32::MAX).step_by(1 << 22) {
            for step in 1..20 {
                assert!(pure(first).differs(pure(first.wrapping_add(2 * 1448 * step))), "{step}");
            }
        }
        let collisions = (1..6_300_u32).filter(|step| !pure(0).differs(pure(step * 1448))).count();
        assert!((50..200).contains(&collisions), "{collisions}");
    }

    #[test]
    fn a_flow_is_its_five_tuple() {
        let flow = header(49_152, Protocol::Tcp);
        let later = Header { size: 40, traffic_class: TrafficClass::new(Dscp::EF), ..flow };
        assert_eq!(flow.flow_hash(7), later.flow_hash(7));
        assert_ne!(flow.flow_hash(7), flow.flow_hash(8));
        assert_ne!(flow.flow_hash(7), header(49_153, Protocol::Tcp).flow_hash(7));
        assert_ne!(flow.flow_hash(7), header(49_152, Protocol::Udp).flow_hash(7));
    }

    #[test]
    fn versions_of_a_protocol_are_told_apart() {
        for protocol in Protocol::ALL {
            let six = protocol.over(IpVersion::V6);
            assert_eq!((protocol.version(), six.version()), (IpVersion::V4, IpVersion::V6));
            assert_eq!((six.base(), six.over(IpVersion::V4)), (protocol, protocol));
            assert_ne!(header(1, protocol).flow_hash(7), header(1, six).flow_hash(7));
        }
    }

    #[test]
    fn a_tunnel_shows_its_flows_where_linux_sees_them() {
        let outer = |source_port, flow, inner: u64| {
            let ports = |header| Header { source_port, destination_port: source_port, ..header };
            let protocol = if source_port == 0 { Protocol::Other } else { Protocol::Udp };
            ports(header(0, protocol)).with_inner_flow(flow, inner)
        };
        let hashes = |header: Header| {
            [header, Packet { header, body: () }.forwarded().header]
                .map(|header| [header.flow_hash(7), header.dissected_hash(7), header.outer_hash(7)])
                .concat()
        };
        // Which hashes of two inner flows differ: kept, dissected and outer ones at the entry, and
        // the same behind the first router.
        for (port, flow, differ) in [
            (0, InnerFlow::Hidden, [false; 6]),
            (51_820, InnerFlow::AtEntry, [true, false, false, false, false, false]),
            (0, InnerFlow::Dissected, [true, true, false, true, true, false]),
        ] {
            let [one, other] = [0x1234_0001, 0x1234_0002].map(|inner| outer(port, flow, inner));
            let said: Vec<bool> =
                hashes(one).iter().zip(hashes(other)).map(|(one, other)| *one != other).collect();
            assert_eq!(said, differ, "{flow:?}");
            assert_eq!(one.ports(), (port, port), "{flow:?}");
        }
        let [one, other] =
            [0x1_0000, 0x2_0000].map(|inner| outer(0, InnerFlow::Dissected, inner).flow_hash(7));
        assert_ne!(one, other, "32 bits of the inner hash count");
    }

    #[test]
    fn flow_labels_differ_and_are_never_zero() {
        let mut labels: Vec<u32> =
            (0..1_000).map(|port| header(port, Protocol::Tcp6).flow_label()).collect();
        assert!(labels.iter().all(|&label| label > 0 && label < 1 << 20));
        labels.sort_unstable();
        labels.dedup();
        // Of 1000 random labels, half a pair is expected to be equal.
        assert!(labels.len() > 995, "{}", labels.len());
    }

    #[test]
    fn flows_spread_evenly() {
        // 64,000 flows over 64 places: each has 1000, give or take five standard deviations.
        let mut places = [0_u32; 64];
        for port in 0..64_000 {
            places[(header(port, Protocol::Tcp).flow_hash(1) % 64) as usize] += 1;
        }
        assert!(places.iter().all(|count| count.abs_diff(1_000) < 160), "{places:?}");
    }
}
