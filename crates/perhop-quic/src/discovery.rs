//! Discovery of the path MTU by probes: DPLPMTUD (RFC 8899; RFC 9000, section 14.3).
//!
//! ICMP errors are not used: they are not authenticated (RFC 9000, section 14.2.1).

use crate::sizes::LEAST_DATAGRAM;

/// Number of lost probes of a size that show that it does not fit (RFC 8899, section 5.1.2:
/// MAX_PROBES).
const MOST_PROBES: u32 = 3;
/// Range in which no probe is sent any more, in bytes. RFC 8899, section 5.3.2, leaves the search
/// open.
const NEAR: u16 = 20;
/// Consecutive probe timeouts that show a black hole: packets of this size no longer arrive (RFC
/// 8899, section 4.3).
pub const BLACK_HOLE: u32 = 3;

/// Search for the largest payload of datagrams.
#[derive(Clone, Copy, Debug)]
pub struct Discovery {
    /// Payload that is known to fit.
    current: u16,
    /// Greatest payload that may fit.
    most: u16,
    /// True if a greater payload was found not to fit.
    narrowed: bool,
    /// Probes of the next size that were lost.
    lost: u32,
    /// True while a probe is in flight.
    in_flight: bool,
}

impl Discovery {
    /// Creates a search from `first` to `most` bytes.
    pub fn new(first: u16, most: u16) -> Self {
        Self { current: first, most: most.max(first), narrowed: false, lost: 0, in_flight: false }
    }

    /// Returns the payload of full datagrams.
    pub fn current(&self) -> u16 {
        self.current
    }

    /// Returns the size of the next probe: first the greatest, which usually fits, then the middle
    /// of the range.
    fn next(&self) -> u16 {
        match self.narrowed {
            false => self.most,
            true => self.current + (self.most - self.current).div_ceil(2),
        }
    }

    /// Returns the size of a probe that is due.
    pub fn probe(&self) -> Option<u16> {
        let searching = self.most >= self.current + NEAR;
        (searching && !self.in_flight).then(|| self.next())
    }

    /// Records that the probe was sent.
    pub fn on_sent(&mut self) {
        self.in_flight = true;
    }

    /// Records that a probe has arrived. Returns the new payload.
    pub fn on_acked(&mut self, size: u16) -> u16 {
        (self.in_flight, self.lost) = (false, 0);
        self.current = self.current.max(size.min(self.most));
        self.current
    }

    /// Records that a probe was lost, which says nothing about congestion (RFC 9000, section 14.4).
    pub fn on_lost(&mut self, size: u16) {
        self.in_flight = false;
        self.lost += 1;
        if self.lost >= MOST_PROBES {
            (self.most, self.narrowed, self.lost) = ((size - 1).max(self.current), true, 0);
        }
    }

    /// Returns the least payload if full datagrams no longer arrive, and searches again below the
    /// present one.
    pub fn on_black_hole(&mut self) -> Option<u16> {
        if self.current <= LEAST_DATAGRAM {
            return None;
        }
        *self = Self { narrowed: true, ..Self::new(LEAST_DATAGRAM, self.current - 1) };
        Some(self.current)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The search ends within 20 bytes of the path's MTU, and never above it.
        #[test]
        fn the_search_finds_the_path_mtu(fits in 1200_u16..9000, most in 1200_u16..9000) {
            let mut search = Discovery::new(LEAST_DATAGRAM, most);
            let mut probes = 0;
            while let Some(size) = search.probe() {
                prop_assert!(size > search.current() && size <= most);
                search.on_sent();
                prop_assert_eq!(search.probe(), None);
                if size <= fits { search.on_acked(size); } else { search.on_lost(size) }
                probes += 1;
                prop_assert!(probes < 60);
            }
            let best = fits.min(most);
            prop_assert!(search.current() <= best && search.current() + NEAR > best);
        }
    }

    #[test]
    fn one_lost_probe_shows_nothing() {
        let mut search = Discovery::new(1200, 1452);
        let first = search.probe().unwrap();
        for _ in 0..MOST_PROBES - 1 {
            search.on_lost(first);
            assert_eq!(search.probe(), Some(first));
        }
        search.on_lost(first);
        assert!(search.probe().unwrap() < first);
    }

    #[test]
    fn a_black_hole_leads_back_to_the_least_datagram() {
        let mut search = Discovery::new(1200, 1452);
        assert_eq!(search.on_black_hole(), None);
        search.on_acked(1452);
        assert_eq!(search.on_black_hole(), Some(1200));
        assert!(search.probe().is_some_and(|size| size < 1452));
    }
}
