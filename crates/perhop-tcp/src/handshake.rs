//! Options that both sides exchange when they open a connection.

/// The options of one side's SYN, apart from timestamps, which every segment has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Maximum segment size that this side accepts, in bytes: the size of a packet without headers
    /// and options (RFC 9293, section 3.7.1).
    pub mss: u16,
    /// Number of bits by which this side shifts the windows that it advertises (RFC 7323, section
    /// 2); `None` without window scaling.
    pub window_shift: Option<u8>,
    /// True if this side accepts selective acknowledgements (RFC 2018, section 2).
    pub sack: bool,
}

impl Handshake {
    /// Returns the bytes that these options take in a SYN's header, beyond those of its timestamps
    /// and padded to words: four for the segment size, four for the shift, and four for selective
    /// acknowledgements, which fit into the padding of timestamps (RFC 7323, appendix A).
    pub const fn option_bytes(&self, timestamps: bool) -> u32 {
        let shift = if self.window_shift.is_some() { 4 } else { 0 };
        let sack = if self.sack && !timestamps { 4 } else { 0 };
        4 + shift + sack
    }
}

/// Returns the number of bits by which a receiver shifts its windows (RFC 7323, section 2.3): the
/// least with which a buffer of `window` bytes fits into 16 bits, at most 14.
pub fn window_shift(window: u32) -> u8 {
    (0..14).find(|&shift| window >> shift <= u32::from(u16::MAX)).unwrap_or(14)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_fill_words() {
        let plain = Handshake { mss: 1460, window_shift: None, sack: false };
        assert_eq!((plain.option_bytes(false), plain.option_bytes(true)), (4, 4));
        let sack = Handshake { sack: true, ..plain };
        assert_eq!((sack.option_bytes(false), sack.option_bytes(true)), (8, 4));
        // As Linux sends it: 20 bytes of options, 12 of which are for timestamps.
        let all = Handshake { window_shift: Some(7), ..sack };
        assert_eq!((all.option_bytes(false), all.option_bytes(true)), (12, 8));
    }

    #[test]
    fn a_shift_is_no_larger_than_the_buffer_needs() {
        let shifts = [0, 65_535, 65_536, 131_071, 131_072, 4 << 20, 1 << 30, u32::MAX];
        assert_eq!(shifts.map(window_shift), [0, 0, 1, 1, 2, 7, 14, 14]);
    }
}
