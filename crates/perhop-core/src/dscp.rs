//! Differentiated services code points (RFC 2474).

use std::fmt;

use thiserror::Error;

/// A differentiated services code point: six bits that name a per-hop behaviour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// How many code points there are.
    pub const COUNT: usize = 64;

    /// The code point with this value.
    ///
    /// # Errors
    /// [`InvalidDscp`] above 63.
    pub const fn new(value: u8) -> Result<Self, InvalidDscp> {
        if value < 64 { Ok(Self(value)) } else { Err(InvalidDscp(value)) }
    }

    /// The six bits.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The octet that IPv4 calls type of service and IPv6 traffic class: DSCP and ECN (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TrafficClass(u8);

impl TrafficClass {
    /// A DSCP on a transport without ECN.
    pub const fn new(dscp: Dscp) -> Self {
        Self(dscp.0 << 2)
    }

    /// The DSCP.
    pub const fn dscp(self) -> Dscp {
        Dscp(self.0 >> 2)
    }

    /// The same octet with another DSCP; the ECN bits stay.
    #[must_use]
    pub const fn with_dscp(self, dscp: Dscp) -> Self {
        Self(dscp.0 << 2 | self.0 & 0b11)
    }

    /// The whole octet, as it stands in the IP header.
    pub const fn octet(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn seven_bits_are_too_many() {
        assert_eq!(Dscp::new(64), Err(InvalidDscp(64)));
    }
}
