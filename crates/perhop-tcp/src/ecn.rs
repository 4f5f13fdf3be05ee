//! Explicit congestion notification: negotiation, and the echo of marks.
//!
//! Classic ECN (RFC 3168) echoes one congestion signal per round trip. DCTCP (RFC 8257) echoes for
//! every acknowledgement whether its data was marked. AccECN (RFC 9768) counts marks; implemented
//! are its handshake and its three-bit counter (ACE), but not the option with byte counters, which
//! section 3.2.3 makes optional.

mod echo;
mod marks;

pub(crate) use echo::Echo;
pub(crate) use marks::Marks;

use crate::Flags;

/// ECN mode that an end requests and accepts, and that a connection then has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum EcnMode {
    /// No ECN.
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

    /// Returns the mode that an end set to this mode accepts for a SYN with these bits.
    fn answering(self, syn: Flags) -> Self {
        match self {
            Self::Accurate if syn.ace() == 0b111 => Self::Accurate,
            Self::Accurate if syn.has(Self::Classic.syn()) => Self::Classic,
            Self::Classic | Self::Dctcp if syn.has(Self::Classic.syn()) => self,
            _ => Self::Off,
        }
    }
}

/// Initial value of AccECN's counter of marked packets (RFC 9768, section 3.2.1).
const FIRST_COUNT: u8 = 5;

#[cfg(test)]
mod tests;
