//! The header of iperf3's datagrams: seconds, microseconds and sequence number, big-endian.

/// Size of the longer form in bytes.
pub(crate) const LONGEST: usize = 16;

/// Header of a datagram. Its time stamp is of the sender's monotonic clock, whose zero is
/// arbitrary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Time of sending in microseconds, by the sender's clock.
    pub sent: u64,
    /// Sequence number, from 1.
    pub sequence: u64,
}

impl Header {
    /// Parses a datagram with a sequence number of 64 bits (`wide`) or 32 bits.
    pub fn read(bytes: &[u8], wide: bool) -> Option<Self> {
        let (seconds, rest) = bytes.split_first_chunk()?;
        let (micros, rest) = rest.split_first_chunk()?;
        let sequence = match wide {
            true => u64::from_be_bytes(*rest.first_chunk()?),
            false => u32::from_be_bytes(*rest.first_chunk()?).into(),
        };
        let [seconds, micros] = [seconds, micros].map(|word| u64::from(u32::from_be_bytes(*word)));
        Some(Self { sent: seconds * 1_000_000 + micros, sequence })
    }

    /// Returns the header and its size in bytes.
    pub fn write(self, wide: bool) -> ([u8; LONGEST], usize) {
        let mut bytes = [0; LONGEST];
        bytes[..4].copy_from_slice(&((self.sent / 1_000_000) as u32).to_be_bytes());
        bytes[4..8].copy_from_slice(&((self.sent % 1_000_000) as u32).to_be_bytes());
        match wide {
            true => bytes[8..].copy_from_slice(&self.sequence.to_be_bytes()),
            false => bytes[8..12].copy_from_slice(&(self.sequence as u32).to_be_bytes()),
        }
        (bytes, if wide { 16 } else { 12 })
    }
}

#[cfg(test)]
mod tests {
    use perhop_fuzz::fuzz;

    use super::*;

    #[test]
    fn both_forms_are_read_back() {
        let header = Header { sent: 7_000_009, sequence: 258 };
        for wide in [false, true] {
            let (bytes, length) = header.write(wide);
            assert_eq!(Header::read(&bytes[..length], wide), Some(header));
            assert_eq!(Header::read(&bytes[..length - 1], wide), None);
        }
        let (bytes, _) = header.write(false);
        assert_eq!(bytes[..12], [0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 1, 2]);
    }

    #[test]
    fn fuzz_iperf3_datagrams() {
        let (bytes, _) = Header { sent: 7_000_009, sequence: 258 }.write(true);
        fuzz("iperf3 datagrams", &[bytes.to_vec()], |bytes| {
            Header::read(bytes, false);
            Header::read(bytes, true).is_some()
        });
    }
}
