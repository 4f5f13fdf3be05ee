//! Header of the datagrams of flows: tag, number and time of sending.

use std::array::TryFromSliceError;

/// Size in bytes.
pub(crate) const SIZE: usize = 16;

/// Tag of a run, which distinguishes its datagrams from those of unknown senders.
pub(crate) type Tag = u16;

/// Header of a datagram, in network byte order: the tag of the run in 2 bytes, the number of the
/// datagram in its stream in 6, and the time of sending in 8, in nanoseconds of the real-time
/// clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// Number from 0. Its 48 bits last 325 days at ten million datagrams per second.
    pub sequence: u64,
    pub sent: u64,
}

const SEQUENCE: u64 = (1 << 48) - 1;

impl Payload {
    pub fn write(self, tag: Tag) -> [u8; SIZE] {
        let first = u64::from(tag) << 48 | (self.sequence & SEQUENCE);
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&first.to_be_bytes());
        bytes[8..].copy_from_slice(&self.sent.to_be_bytes());
        bytes
    }

    /// Parses a datagram. Returns `None` if it is too short or has another tag.
    pub fn read(bytes: &[u8], tag: Tag) -> Option<Self> {
        let word = |range| -> Result<u64, TryFromSliceError> {
            let word: &[u8] = bytes.get(range).unwrap_or_default();
            Ok(u64::from_be_bytes(word.try_into()?))
        };
        let (first, sent) = (word(0..8).ok()?, word(8..16).ok()?);
        (first >> 48 == u64::from(tag)).then_some(Self { sequence: first & SEQUENCE, sent })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn what_is_written_is_read(
            tag: Tag, sequence in 0..=SEQUENCE, sent: u64, padding in 0..99_usize,
        ) {
            let payload = Payload { sequence, sent };
            let mut bytes = payload.write(tag).to_vec();
            bytes.resize(SIZE + padding, 7);
            prop_assert_eq!(Payload::read(&bytes, tag), Some(payload));
            prop_assert_eq!(Payload::read(&bytes, tag ^ 1), None);
        }

        #[test]
        fn anything_can_be_read(tag: Tag, bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let read = Payload::read(&bytes, tag);
            let ours = bytes.len() >= SIZE && bytes[..2] == tag.to_be_bytes();
            prop_assert_eq!(read.is_some(), ours);
            if let Some(payload) = read {
                prop_assert_eq!(&payload.write(tag)[..], &bytes[..SIZE]);
            }
        }
    }
}
