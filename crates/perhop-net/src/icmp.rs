//! ICMP errors about packets that cannot be delivered (RFC 792, RFC 4443).

use perhop_core::{
    AckHint, Dscp, Duration, Header, IpVersion, NodeId, Protocol, Time, TrafficClass,
};

/// Reason of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum IcmpError {
    /// The time to live was used up in transit: type 11, code 0.
    TimeExceeded,
    /// A router has no route to the destination: type 3, code 0.
    NetUnreachable,
    /// No process listens on the destination port: type 3, code 3.
    PortUnreachable,
    /// The packet exceeds the MTU of the next link: type 3, code 4 (RFC 1191, section 4).
    TooBig {
        /// MTU of that link, in bytes.
        mtu: u32,
    },
}

impl IcmpError {
    /// Returns the type and code in the ICMP header.
    pub const fn type_and_code(self) -> (u8, u8) {
        match self {
            Self::TimeExceeded => (11, 0),
            Self::NetUnreachable => (3, 0),
            Self::PortUnreachable => (3, 3),
            Self::TooBig { .. } => (3, 4),
        }
    }

    /// Returns the type and code in the ICMPv6 header (RFC 4443, sections 3.1 to 3.3).
    pub const fn type_and_code_v6(self) -> (u8, u8) {
        match self {
            Self::TimeExceeded => (3, 0),
            Self::NetUnreachable => (1, 0),
            Self::PortUnreachable => (1, 4),
            Self::TooBig { .. } => (2, 0),
        }
    }

    /// Returns the last word of the ICMP header: the MTU of the next link, in bytes, or zero.
    pub const fn word(self) -> u32 {
        match self {
            Self::TooBig { mtu } => mtu,
            _ => 0,
        }
    }

    /// Returns the length of the packet with an error about a packet with this header.
    ///
    /// Over IPv4 it quotes what RFC 792 requires: the IP header and the 8 bytes after it. Over IPv6
    /// it quotes as much as fits the least MTU of 1280 bytes (RFC 4443, section 2.4).
    pub fn packet_size(about: &Header) -> u32 {
        const ICMP_HEADER: u32 = 8;
        let version = about.version();
        let headers = version.header_bytes() + ICMP_HEADER;
        let quote = match version {
            IpVersion::V4 => headers,
            IpVersion::V6 => version.least_mtu() - headers,
        };
        headers + about.size.min(quote)
    }

    /// Returns the header of the packet of `size` bytes with which `node` answers a packet with
    /// this header. Routers mark it CS6 (RFC 1812, section 4.3.2.5: precedence 6), hosts do not
    /// (RFC 1122, section 3.2.2). RFC 4443 says nothing of the mark, so that IPv6 has the same.
    pub(crate) fn header(self, node: NodeId, about: &Header, size: u32) -> Header {
        let dscp = match self {
            Self::TimeExceeded | Self::NetUnreachable | Self::TooBig { .. } => Dscp::CS6,
            Self::PortUnreachable => Dscp::DEFAULT,
        };
        Header {
            size,
            source: node,
            destination: about.source,
            source_port: 0,
            destination_port: 0,
            protocol: Protocol::Icmp.over(about.version()).into(),
            traffic_class: TrafficClass::new(dscp),
            ttl: Header::TTL,
            ack: AckHint::NONE,
        }
    }
}

/// Limit of the ICMP errors that a node sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase", deny_unknown_fields))]
pub enum IcmpErrors {
    /// An error about every packet for which one is permitted.
    #[default]
    All,
    /// No errors.
    None,
    /// Limited by a token bucket that is full at first (RFC 1812, section 4.3.2.8).
    Limited {
        /// Time between two tokens.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
        every: Duration,
        /// Tokens that the bucket holds; at least one.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "perhop_core::spelling::positive"))]
        burst: u32,
    },
}

/// Limit of a node's ICMP errors, and the state of its bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ErrorBudget {
    errors: IcmpErrors,
    /// Time at which the bucket will be full.
    full_at: Time,
}

impl ErrorBudget {
    pub fn new(errors: IcmpErrors) -> Self {
        Self { errors, full_at: Time::ZERO }
    }

    /// Returns `true` if an error may be sent.
    pub fn allows(&self, now: Time) -> bool {
        match self.errors {
            IcmpErrors::All => true,
            IcmpErrors::None => false,
            IcmpErrors::Limited { every, burst } => {
                self.full_at <= now + every * u64::from(burst.saturating_sub(1))
            }
        }
    }

    /// Records that an error is sent.
    pub fn spend(&mut self, now: Time) {
        if let IcmpErrors::Limited { every, .. } = self.errors {
            self.full_at = self.full_at.max(now) + every;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns which of the errors at these instants, in microseconds, are sent.
    fn sent(errors: IcmpErrors, instants: &[u64]) -> Vec<u64> {
        let mut budget = ErrorBudget::new(errors);
        let may = |at: &&u64| {
            let now = Time::ZERO + Duration::from_micros(**at);
            let allowed = budget.allows(now);
            if allowed {
                budget.spend(now);
            }
            allowed
        };
        instants.iter().filter(may).copied().collect()
    }

    #[test]
    fn one_every_half_second_answers_the_first_and_third_of_three_quick_probes() {
        // Effect of the default of IOS on a traceroute that waits 3 s for the second answer.
        let limited = IcmpErrors::Limited { every: Duration::from_micros(500_000), burst: 1 };
        assert_eq!(sent(limited, &[0, 10_000, 3_010_000]), [0, 3_010_000]);
        assert_eq!(sent(limited, &[0, 499_999, 500_000]), [0, 500_000]);
        assert_eq!(sent(IcmpErrors::None, &[0, 1]), [0; 0]);
        assert_eq!(sent(IcmpErrors::All, &[0, 0, 1]), [0, 0, 1]);
    }

    /// RFC 792 with RFC 1191; RFC 4443, sections 3.1 to 3.3.
    #[test]
    fn types_and_codes_are_those_of_the_standards() {
        let errors = [
            IcmpError::TimeExceeded,
            IcmpError::NetUnreachable,
            IcmpError::PortUnreachable,
            IcmpError::TooBig { mtu: 1400 },
        ];
        assert_eq!(errors.map(IcmpError::type_and_code), [(11, 0), (3, 0), (3, 3), (3, 4)]);
        assert_eq!(errors.map(IcmpError::type_and_code_v6), [(3, 0), (1, 0), (1, 4), (2, 0)]);
        assert_eq!(errors.map(IcmpError::word), [0, 0, 0, 1400]);
    }

    fn about(protocol: Protocol, size: u32) -> Header {
        Header {
            size,
            source: NodeId(3),
            destination: NodeId(4),
            source_port: 5,
            destination_port: 6,
            protocol: protocol.into(),
            traffic_class: TrafficClass::new(Dscp::EF),
            ttl: 7,
            ack: AckHint::of(8, true),
        }
    }

    /// IPv4: headers of 20 and 8 bytes, and as many of the packet. IPv6: headers of 40 and 8 bytes,
    /// and what fits 1280 bytes.
    #[test]
    fn an_error_quotes_as_much_as_its_version_says() {
        for (protocol, size, expected) in [
            (Protocol::Udp, 20, 48),
            (Protocol::Udp, 27, 55),
            (Protocol::Udp, 28, 56),
            (Protocol::Udp, 1500, 56),
            (Protocol::Udp6, 40, 88),
            (Protocol::Udp6, 1231, 1279),
            (Protocol::Udp6, 1232, 1280),
            (Protocol::Udp6, 9000, 1280),
        ] {
            let found = IcmpError::packet_size(&about(protocol, size));
            assert_eq!(found, expected, "{protocol:?} {size}");
        }
    }

    #[test]
    fn an_error_is_a_new_packet_to_the_source() {
        let too_big = IcmpError::TooBig { mtu: 1400 };
        for (error, dscp) in [
            (IcmpError::TimeExceeded, Dscp::CS6),
            (IcmpError::NetUnreachable, Dscp::CS6),
            (too_big, Dscp::CS6),
            (IcmpError::PortUnreachable, Dscp::DEFAULT),
        ] {
            for (protocol, own) in
                [(Protocol::Tcp, Protocol::Icmp), (Protocol::Tcp6, Protocol::Icmp6)]
            {
                let expected = Header {
                    size: 99,
                    source: NodeId(9),
                    destination: NodeId(3),
                    source_port: 0,
                    destination_port: 0,
                    protocol: own.into(),
                    traffic_class: TrafficClass::new(dscp),
                    ttl: 64,
                    ack: AckHint::NONE,
                };
                let found = error.header(NodeId(9), &about(protocol, 1500), 99);
                assert_eq!(found, expected, "{error:?}");
            }
        }
    }

    proptest! {
        /// Reference of the bucket: `burst` tokens at first, and one more after each full period
        /// since it was last full.
        #[test]
        fn a_bucket_is_never_overdrawn(
            every in 1_u64..50, burst in 1_u32..6, gaps in prop::collection::vec(0_u64..100, 1..60),
        ) {
            let instants: Vec<u64> =
                gaps.iter().scan(0, |now, gap| { *now += gap; Some(*now) }).collect();
            let limited = IcmpErrors::Limited { every: Duration::from_micros(every), burst };
            let found = sent(limited, &instants);
            // Credit in microseconds, exact.
            let (mut credit, mut last) = (u64::from(burst) * every, 0);
            let mut expected = Vec::new();
            for &now in &instants {
                credit = (credit + now - last).min(u64::from(burst) * every);
                last = now;
                if credit >= every {
                    credit -= every;
                    expected.push(now);
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
