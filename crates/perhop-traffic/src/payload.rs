//! What a datagram begins with: whose it is, its number, and when it was sent.

use std::array::TryFromSliceError;

/// How many bytes it takes.
pub(crate) const SIZE: usize = 16;

/// The mark of a run, which distinguishes its datagrams from those of unknown senders.
pub(crate) type Tag = u16;

/// What a datagram begins with, in network byte order: the run's tag in 2 bytes, the datagram's
/// number in its stream in 6, and when it was sent in 8, in nanoseconds of the real-time clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    /// From 0; 48 bits, which a stream of ten million datagrams a second fills in most of a year.
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

    /// What the datagram says; nothing if it is another run's or none of ours.
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
