//! Overhead of layer 2.

use crate::Bytes;

/// Layer-2 overhead: the bytes that a packet occupies on a link beyond its IP length.
///
/// Link rates include it, so it decides how much of a rate is left for IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Overhead {
    /// The same number of bytes on every packet.
    Fixed(u32),
    /// AAL5 over ATM with LLC/SNAP encapsulation (RFC 2684, section 5.1): 8 bytes of header and
    /// 8 of trailer, padded to cells that carry 48 bytes in 53.
    Atm,
}

impl Overhead {
    /// Bare IP packets.
    pub const NONE: Self = Self::Fixed(0);

    /// Returns the length on the wire of a packet whose IP length is `size`.
    pub fn on_wire(self, size: Bytes) -> Bytes {
        match self {
            Self::Fixed(extra) => size + Bytes::new(extra.into()),
            Self::Atm => Bytes::new((size.get() + 16).div_ceil(48) * 53),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_takes_32_cells() {
        assert_eq!(Overhead::Atm.on_wire(Bytes::new(1500)), Bytes::new(32 * 53));
    }

    #[test]
    fn an_acknowledgement_takes_two_cells_by_one_byte() {
        assert_eq!(Overhead::Atm.on_wire(Bytes::new(32)), Bytes::new(53));
        assert_eq!(Overhead::Atm.on_wire(Bytes::new(33)), Bytes::new(106));
    }

    #[test]
    fn a_fixed_overhead_is_added_once() {
        assert_eq!(Overhead::Fixed(38).on_wire(Bytes::new(1500)), Bytes::new(1538));
    }
}
