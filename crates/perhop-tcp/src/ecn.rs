//! Explicit congestion notification: what both ends agree on, and how marks come back.
//!
//! Classic ECN (RFC 3168) brings one sign of congestion a round trip back; DCTCP's (RFC 8257)
//! says of every acknowledgement whether what it covers was marked; AccECN (RFC 9768) counts marks.
//! Of AccECN there is the handshake and the three-bit counter (ACE), not the option with byte
//! counters, which section 3.2.3 leaves to implementations.

mod echo;
mod marks;

pub(crate) use echo::Echo;
pub(crate) use marks::Marks;

use crate::Flags;

/// What an end asks for and answers, and what a connection then has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum EcnMode {
    /// Nothing.
    #[default]
    Off,
    /// RFC 3168.
    Classic,
    /// The echo of RFC 8257 after the handshake of RFC 3168; both ends must be set to it.
    Dctcp,
    /// RFC 9768.
    Accurate,
}

impl EcnMode {
    /// Returns the bits of a SYN (RFC 3168, section 6.1.1; RFC 9768, section 3.1.1).
    pub(crate) fn syn(self) -> Flags {
        match self {
            Self::Off => Flags::default(),
            Self::Classic | Self::Dctcp => Flags::ECE.with(Flags::CWR),
            Self::Accurate => Flags::ECE.with(Flags::CWR).with(Flags::AE),
        }
    }

    /// What an end that is set to this agrees to when a SYN with these bits comes.
    fn answering(self, syn: Flags) -> Self {
        match self {
            Self::Accurate if syn.ace() == 0b111 => Self::Accurate,
            Self::Accurate if syn.has(Self::Classic.syn()) => Self::Classic,
            Self::Classic | Self::Dctcp if syn.has(Self::Classic.syn()) => self,
            _ => Self::Off,
        }
    }
}

/// Where AccECN's counter of marked packets begins (RFC 9768, section 3.2.1).
const FIRST_COUNT: u8 = 5;

#[cfg(test)]
mod tests;
