//! Flow control (RFC 9000, section 4): limits of a connection and of its streams.

/// Share of the window that is consumed before a new limit is announced: an eighth, as in quinn.
/// RFC 9000, section 4.2, leaves it open.
const UPDATE_SHARE: u64 = 8;

/// A limit that a receiver announces. Its application reads data as soon as it can.
#[derive(Clone, Copy, Debug)]
pub struct Credit {
    window: u64,
    announced: u64,
}

impl Credit {
    /// Creates a limit of `window` bytes, which both ends know from the handshake.
    pub fn new(window: u64) -> Self {
        Self { window, announced: window }
    }

    /// Returns the limit that is announced now, after the application has read `consumed` bytes;
    /// none if the last one is still good.
    pub fn announce(&mut self, consumed: u64) -> Option<u64> {
        let limit = consumed.saturating_add(self.window);
        if limit - self.announced < self.window.div_ceil(UPDATE_SHARE) {
            return None;
        }
        self.announced = limit;
        Some(limit)
    }

    /// Returns the last limit.
    pub fn announced(&self) -> u64 {
        self.announced
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// RFC 9000, section 4.1: limits only rise; a sender that has used up its limit gets a new
        /// one, and never more than the window beyond what was read.
        #[test]
        fn limits_rise_before_they_are_used_up(
            window in 1_u64..100_000,
            reads in proptest::collection::vec(0_u64..20_000, 1..60),
        ) {
            let mut credit = Credit::new(window);
            let (mut consumed, mut limit) = (0, window);
            for read in reads {
                consumed = limit.min(consumed + read);
                if let Some(higher) = credit.announce(consumed) {
                    prop_assert!(higher > limit);
                    limit = higher;
                }
                prop_assert!(limit > consumed && limit <= consumed + window);
            }
        }
    }
}
