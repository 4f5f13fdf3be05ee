//! Traffic classes at layer 2: those of VLAN tags and MPLS labels.

use crate::Dscp;

/// Tag or label that every packet on a link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Encapsulation {
    /// VLAN tag of IEEE 802.1Q, with a priority code point (PCP).
    Dot1q,
    /// Labels of MPLS, with a traffic class (TC, RFC 5462).
    Mpls,
}

/// Class of a packet at layer 2, as the node that has the packet knows it: the PCP or TC with which
/// the packet has arrived, or the value with which the node marks it for the next link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkClass(u8);

impl LinkClass {
    /// The packet has arrived without a tag or label, or is new, and is not marked.
    pub const NONE: Self = Self(0);

    /// Number of values of a PCP or TC.
    pub const VALUES: u8 = 8;

    /// Returns the class of a packet that has arrived with `value`, 0 to 7, of an encapsulation.
    pub const fn arrived(encapsulation: Encapsulation, value: u8) -> Self {
        match encapsulation {
            Encapsulation::Dot1q => Self(1 + value % Self::VALUES),
            Encapsulation::Mpls => Self(1 + Self::VALUES + value % Self::VALUES),
        }
    }

    /// Returns the class of a packet that is to leave with `value`, 0 to 7.
    pub const fn marked(value: u8) -> Self {
        Self(1 + 2 * Self::VALUES + value % Self::VALUES)
    }

    /// Returns the class of a packet with this DSCP that has crossed a link: of one without an
    /// encapsulation, or of one with it. There it has its mark. Without a mark, it has the value
    /// with which it has come over the last link if that had the same encapsulation, as behind a
    /// bridge or a label switching router; otherwise the first three bits of its DSCP, which were
    /// the precedence of RFC 791.
    #[must_use]
    pub const fn over(self, link: Option<Encapsulation>, dscp: Dscp) -> Self {
        let Some(encapsulation) = link else { return Self::NONE };
        let (kind, value) = match self.0.checked_sub(1) {
            None => return Self::arrived(encapsulation, dscp.get() >> 3),
            Some(code) => (code / Self::VALUES, code % Self::VALUES),
        };
        match (kind, encapsulation) {
            (0, Encapsulation::Dot1q) | (1, Encapsulation::Mpls) | (2, _) => {
                Self::arrived(encapsulation, value)
            }
            _ => Self::arrived(encapsulation, dscp.get() >> 3),
        }
    }

    /// Returns the number from which [`from_code`](Self::from_code) makes the class: below 25.
    pub(crate) const fn code(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_code(code: u8) -> Self {
        Self(code)
    }
}

#[cfg(test)]
mod tests {
    use super::Encapsulation::{Dot1q, Mpls};
    use super::*;
    use crate::{IpVersion, Protocol, Transport};

    #[test]
    fn a_mark_holds_for_one_link() {
        for encapsulation in [Dot1q, Mpls] {
            let arrived = LinkClass::marked(6).over(Some(encapsulation), Dscp::CS1);
            assert_eq!(arrived, LinkClass::arrived(encapsulation, 6));
            assert_eq!(arrived.over(None, Dscp::CS1), LinkClass::NONE);
        }
    }

    #[test]
    fn like_encapsulations_keep_the_class_and_others_take_the_precedence() {
        for (one, other) in [(Dot1q, Mpls), (Mpls, Dot1q)] {
            for value in 0..8 {
                let arrived = LinkClass::arrived(one, value);
                assert_eq!(arrived.over(Some(one), Dscp::EF), arrived);
                let precedence = LinkClass::arrived(other, 5);
                assert_eq!(arrived.over(Some(other), Dscp::EF), precedence);
                assert_eq!(LinkClass::NONE.over(Some(other), Dscp::EF), precedence);
            }
        }
    }

    #[test]
    fn a_class_and_a_protocol_share_a_byte() {
        let over = |version| Protocol::ALL.map(|protocol| protocol.over(version));
        for protocol in IpVersion::ALL.map(over).into_iter().flatten() {
            for code in 0..=3 * LinkClass::VALUES {
                let class = LinkClass::from_code(code);
                let both = Transport::from(protocol).with_link_class(class);
                assert_eq!((both.protocol(), both.link_class()), (protocol, class));
            }
        }
        assert_eq!(size_of::<Transport>(), 1);
    }
}
