//! Length of a packet on the wire, as shapers and schedulers count it.

use perhop_core::Bytes;

/// Layer-2 overhead that counts (tc-cake(8), overhead compensation parameters). It does not depend
/// on the overhead of the link, which may be another one than the bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Framing {
    /// Bytes that are added to an IP packet.
    pub overhead: u16,
    /// Least length after that.
    pub mpu: u16,
    /// Coding of the sum.
    pub coding: Coding,
}

/// Coding of frames on a DSL line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Coding {
    /// None.
    #[default]
    None,
    /// Cells of 53 bytes that carry 48.
    Atm,
    /// A byte for each 64 bytes or part of them. This is slightly more than the 65 bytes for 64 of
    /// IEEE 802.3, section 61.3, as in Linux.
    Ptm,
}

impl Framing {
    /// Returns the length of a packet whose IP length is `size`.
    pub fn charge(&self, size: Bytes) -> Bytes {
        let length = (size.get() + u64::from(self.overhead)).max(self.mpu.into());
        Bytes::new(match self.coding {
            Coding::None => length,
            Coding::Atm => length.div_ceil(48) * 53,
            Coding::Ptm => length + length.div_ceil(64),
        })
    }
}
