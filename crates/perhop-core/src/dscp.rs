//! Differentiated services code points (RFC 2474).

use std::fmt;

use thiserror::Error;

/// A differentiated services code point: six bits that name a per-hop behaviour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(try_from = "u8", into = "u8"))]
pub struct Dscp(u8);

/// A number above 63 was given for a DSCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a DSCP has six bits: {0} is not in 0..=63")]
pub struct InvalidDscp(pub u8);

impl Dscp {
    /// Default forwarding, "best effort" (RFC 2474, section 4.1).
    pub const DEFAULT: Self = Self(0);
    /// Lower effort (RFC 8622).
    pub const LE: Self = Self(1);
    /// Class selector 1, the QBone scavenger service's mark.
    pub const CS1: Self = Self(8);
    /// Assured forwarding class 1, low drop precedence (RFC 2597).
    pub const AF11: Self = Self(10);
    /// Expedited forwarding (RFC 3246).
    pub const EF: Self = Self(46);
    /// Class selector 6, precedence "internetwork control" (RFC 2474, section 4.2.2).
    pub const CS6: Self = Self(48);
    /// Number of code points.
    pub const COUNT: usize = 64;

    /// Returns the code point with this value.
    ///
    /// # Errors
    /// [`InvalidDscp`] above 63.
    pub const fn new(value: u8) -> Result<Self, InvalidDscp> {
        if value < 64 { Ok(Self(value)) } else { Err(InvalidDscp(value)) }
    }

    /// Returns every code point, from the least on.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }

    /// Returns the six bits.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Returns its name in capitals, such as `EF`, `CS1` or `AF41` (RFC 2474, RFC 2597, RFC 3246,
    /// RFC 5865, RFC 8622), or its number where it has none. `CS0` is what 0 is called.
    pub fn name(self) -> String {
        match self.0 {
            1 => "LE".into(),
            44 => "VA".into(),
            46 => "EF".into(),
            value if value % 8 == 0 => format!("CS{}", value / 8),
            value if value % 2 == 0 && value % 8 < 7 && (8..40).contains(&value) => {
                format!("AF{}{}", value / 8, value % 8 / 2)
            }
            value => value.to_string(),
        }
    }

    /// Returns the code point of a name, in any case, or of a number.
    pub fn named(name: &str) -> Option<Self> {
        let number = name.parse().ok().and_then(|value| Self::new(value).ok());
        let name = name.to_ascii_uppercase();
        number
            .or_else(|| (name == "BE" || name == "DF").then_some(Self::DEFAULT))
            .or_else(|| Self::all().find(|dscp| dscp.name() == name))
    }
}

impl TryFrom<u8> for Dscp {
    type Error = InvalidDscp;

    fn try_from(value: u8) -> Result<Self, InvalidDscp> {
        Self::new(value)
    }
}

impl From<Dscp> for u8 {
    fn from(dscp: Dscp) -> Self {
        dscp.0
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Explicit congestion notification: the ECN field of a packet (RFC 3168, section 5; RFC 8311; RFC
/// 9331).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Ecn {
    /// The transport does not support ECN: routers drop the packet where they would mark others.
    #[default]
    #[cfg_attr(feature = "serde", serde(skip))]
    NotEct = 0b00,
    /// The transport supports ECN and requests the low-latency treatment of L4S (RFC 9331).
    Ect1 = 0b01,
    /// The transport supports ECN.
    Ect0 = 0b10,
    /// Congestion was experienced on the way.
    #[cfg_attr(feature = "serde", serde(skip))]
    Ce = 0b11,
}

impl Ecn {
    /// Returns `true` if a router may mark the packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// The octet that IPv4 calls type of service and IPv6 traffic class: DSCP and ECN (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct TrafficClass(u8);

impl TrafficClass {
    /// Creates a traffic class of a DSCP, for a transport without ECN.
    pub const fn new(dscp: Dscp) -> Self {
        Self(dscp.0 << 2)
    }

    /// Returns the DSCP.
    pub const fn dscp(self) -> Dscp {
        Dscp(self.0 >> 2)
    }

    /// Returns the same octet with another DSCP; the ECN bits stay.
    #[must_use]
    pub const fn with_dscp(self, dscp: Dscp) -> Self {
        Self(dscp.0 << 2 | self.0 & 0b11)
    }

    /// Returns the ECN bits.
    pub const fn ecn(self) -> Ecn {
        match self.0 & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Returns the same octet with other ECN bits; the DSCP stays.
    #[must_use]
    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        Self(self.0 & !0b11 | ecn as u8)
    }

    /// Creates a traffic class from the octet of an IP header.
    pub const fn from_octet(octet: u8) -> Self {
        Self(octet)
    }

    /// Returns the whole octet, as it stands in the IP header.
    pub const fn octet(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        for (value, name) in [(0, "CS0"), (1, "LE"), (8, "CS1"), (10, "AF11"), (38, "AF43")] {
            assert_eq!(Dscp(value).name(), name);
        }
        assert_eq!(
            (Dscp(46).name(), Dscp(44).name(), Dscp(7).name()),
            ("EF".into(), "VA".into(), "7".into())
        );
        for dscp in Dscp::all() {
            assert_eq!(Dscp::named(&dscp.name().to_lowercase()), Some(dscp));
            assert_eq!(Dscp::named(&dscp.to_string()), Some(dscp));
        }
        assert_eq!(Dscp::named("be"), Some(Dscp::DEFAULT));
        assert_eq!((Dscp::named("64"), Dscp::named("AF50"), Dscp::named("")), (None, None, None));
    }

    #[test]
    fn the_scavenger_mark_is_tos_0x20() {
        assert_eq!(TrafficClass::new(Dscp::CS1).octet(), 0x20);
    }

    #[test]
    fn remarking_changes_the_dscp_alone() {
        let octet = TrafficClass(0b1011_1010);
        assert_eq!(octet.with_dscp(Dscp::LE).octet(), 0b0000_0110);
        assert_eq!(octet.dscp(), Dscp::EF);
    }

    #[test]
    fn marking_changes_the_ecn_bits_alone() {
        let octet = TrafficClass::new(Dscp::EF);
        for ecn in [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce] {
            let marked = octet.with_ecn(ecn);
            assert_eq!((marked.dscp(), marked.ecn()), (Dscp::EF, ecn));
        }
        // RFC 3168, figure 1: ECT(1) is 01, ECT(0) is 10, CE is 11.
        assert_eq!(octet.with_ecn(Ecn::Ect1).octet(), 0b1011_1001);
        assert_eq!(octet.with_ecn(Ecn::Ect0).octet(), 0b1011_1010);
        assert_eq!(octet.with_ecn(Ecn::Ect0).with_ecn(Ecn::Ce).octet(), 0b1011_1011);
    }

    #[test]
    fn seven_bits_are_too_many() {
        assert_eq!(Dscp::new(64), Err(InvalidDscp(64)));
    }
}
