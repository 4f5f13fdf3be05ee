//! Flags with a fast search for the first one that is set.

/// A fixed number of flags, none set at first. A word holds 64 flags, and each higher level holds
/// one bit for each word below.
#[derive(Clone, Debug)]
pub(crate) struct Flags {
    /// The flags, then the higher levels, up to a single word.
    levels: Vec<Vec<u64>>,
}

impl Flags {
    /// Creates `count` flags, none of them set.
    pub fn new(count: usize) -> Self {
        let mut levels = vec![vec![0; count.div_ceil(64).max(1)]];
        while levels[levels.len() - 1].len() > 1 {
            let words = levels[levels.len() - 1].len().div_ceil(64);
            levels.push(vec![0; words]);
        }
        Self { levels }
    }

    /// Sets a flag, or clears it.
    #[inline]
    pub fn set(&mut self, mut flag: usize, mut on: bool) {
        for level in &mut self.levels {
            let word = &mut level[flag / 64];
            let bit = 1 << (flag % 64);
            *word = if on { *word | bit } else { *word & !bit };
            on = *word != 0;
            flag /= 64;
        }
    }

    /// Returns the first flag that is set.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        let mut first = 0;
        for level in self.levels.iter().rev() {
            let word = level[first];
            if word == 0 {
                return None; // at the top level
            }
            first = 64 * first + word.trailing_zeros() as usize;
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_found(
            count in prop_oneof![1_usize..70, 4_000_usize..5_000],
            steps in prop::collection::vec((any::<usize>(), any::<bool>()), 1..200),
        ) {
            let mut flags = Flags::new(count);
            let mut plain = vec![false; count];
            for (flag, on) in steps {
                flags.set(flag % count, on);
                plain[flag % count] = on;
                prop_assert_eq!(flags.first(), plain.iter().position(|&on| on));
            }
        }
    }
}
