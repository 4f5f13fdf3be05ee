//! Mutation of inputs.

use perhop_core::Stream;

/// Numbers at which lengths, counts and sums often fail.
const HOSTILE: [u64; 16] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    u64::MAX,
];
/// Greatest number of changes of one input.
const MOST_CHANGES: usize = 4;
/// Greatest number of bytes that an insertion adds.
const MOST_ADDED: usize = 40;
/// Length of the longest input, in bytes.
const LONGEST: usize = 1 << 16;

pub(crate) struct Mutation {
    random: Stream,
}

impl Mutation {
    pub fn new(random: Stream) -> Self {
        Self { random }
    }

    /// Returns a number from 0 up to, but not including, `end`; zero if that is zero.
    pub fn below(&mut self, end: usize) -> usize {
        self.random.up_to((end as u64).saturating_sub(1)) as usize
    }

    fn byte(&mut self) -> u8 {
        self.random.up_to(0xff) as u8
    }

    fn hostile(&mut self) -> u64 {
        HOSTILE[self.below(HOSTILE.len())]
    }

    /// One input of the pool with some changes.
    pub fn damaged(&mut self, pool: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = pool[self.below(pool.len())].clone();
        for _ in 0..=self.below(MOST_CHANGES) {
            self.change(&mut bytes, pool);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, pool: &[Vec<u8>]) {
        let at = self.below(bytes.len());
        match self.below(9) {
            0 => {
                let bit = self.below(8);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            1 => {
                let value = self.byte();
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            2 => {
                // A field of 1, 2, 4 or 8 bytes, in either order.
                let (value, width) = (self.hostile(), 1 << self.below(4));
                let field = match self.below(2) {
                    0 => value.to_be_bytes()[8 - width..].to_vec(),
                    _ => value.to_le_bytes()[..width].to_vec(),
                };
                for (byte, new) in bytes[at..].iter_mut().zip(field) {
                    *byte = new;
                }
            }
            3 => bytes.truncate(at),
            4 => {
                let added = self.below(MOST_ADDED);
                let added: Vec<u8> = (0..added).map(|_| self.byte()).collect();
                bytes.splice(at..at, added);
            }
            5 => {
                let end = at + self.below(MOST_ADDED).min(bytes.len() - at);
                bytes.drain(at..end);
            }
            6 => {
                let end = at + self.below(MOST_ADDED).min(bytes.len() - at);
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            7 => {
                let other = &pool[self.below(pool.len())];
                let from = self.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => self.change_number(bytes, at),
        }
    }

    /// Replaces the first decimal number from `at` on.
    fn change_number(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit) else { return };
        let start = at + start;
        let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = match self.below(4) {
            0 => format!("-{}", self.hostile()),
            1 => format!("{}e9", self.hostile()),
            _ => self.hostile().to_string(),
        };
        bytes.splice(start..start + digits, number.into_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_happens_and_the_same_seed_makes_the_same_inputs() {
        let pool = [b"length 12, then the rest".to_vec(), vec![0; 30], vec![]];
        let inputs = |seed| {
            let mut mutation = Mutation::new(Stream::new(seed, "test"));
            (0..50_000).map(|_| mutation.damaged(&pool)).collect::<Vec<_>>()
        };
        let found = inputs(1);
        assert_eq!(found, inputs(1));
        assert_ne!(found, inputs(2));
        let text = |part: &[u8]| found.iter().filter(|one| one.starts_with(part)).count();
        assert!(text(b"length 4294967295, then the rest") > 0);
        assert!(text(b"length 12, then \0") > 0, "joined with another");
        assert!(found.iter().any(|one| one.len() > 60) && found.iter().any(Vec::is_empty));
    }
}
