//! Interarrival jitter (RFC 3550, section 6.4.1).

use perhop_core::Duration;

/// An estimate of the variation of the delay between packets. Each packet moves it by a sixteenth
/// towards the difference between its delay and that of the packet before. The arithmetic is that
/// of appendix A.8 in integers, with picoseconds for timestamps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jitter {
    /// Delay of the last packet.
    transit: Option<Duration>,
    /// The estimate times sixteen, in picoseconds.
    scaled: u64,
}

/// Greatest difference, 13 days, in picoseconds: sixteen times this fits.
const MAX_DIFFERENCE: u64 = 1 << 60;

impl Jitter {
    /// Adds a packet with the delay `transit`.
    #[inline]
    pub fn add(&mut self, transit: Duration) {
        if let Some(before) = self.transit.replace(transit) {
            let difference = transit.as_picos().abs_diff(before.as_picos()).min(MAX_DIFFERENCE - 1);
            self.scaled = self.scaled - ((self.scaled + 8) >> 4) + difference;
        }
    }

    /// Returns the present estimate; `None` before the first packet.
    pub fn estimate(&self) -> Option<Duration> {
        self.transit.map(|_| Duration::from_picos(self.scaled >> 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(transits: &[u64]) -> u64 {
        let mut jitter = Jitter::default();
        transits.iter().for_each(|&transit| jitter.add(Duration::from_picos(transit)));
        jitter.estimate().map_or(u64::MAX, Duration::as_picos)
    }

    #[test]
    fn a_worked_example() {
        assert_eq!(after(&[]), u64::MAX);
        assert_eq!(after(&[5_000]), 0);
        // |D| = 1600: J₁ = 1600; then |D| = 0: J₂ = 1600 − ⌊1608 / 16⌋ = 1500; then |D| = 800:
        // J₃ = 1500 − ⌊1508 / 16⌋ + 800 = 2206. Each is sixteen times the estimate.
        assert_eq!(after(&[5_000, 6_600]), 100);
        assert_eq!(after(&[5_000, 6_600, 6_600]), 93);
        assert_eq!(after(&[5_000, 6_600, 6_600, 5_800]), 137);
    }

    #[test]
    fn it_is_the_estimate_in_floating_point_but_for_rounding() {
        let mut random = perhop_core::Stream::new(1, "transit");
        let transits: Vec<u64> = (0..10_000).map(|_| random.up_to(50_000_000)).collect();
        let mut jitter = 0.0_f64;
        for pair in transits.windows(2) {
            jitter += (pair[1].abs_diff(pair[0]) as f64 - jitter) / 16.0;
        }
        assert!((after(&transits) as f64 - jitter).abs() < 2.0);
    }

    #[test]
    fn regular_steps_of_delay_are_the_jitter() {
        let alternating: Vec<u64> = (0..1_000).map(|number| 1_000_000 * (number % 2)).collect();
        assert!(after(&alternating).abs_diff(1_000_000) <= 1);
    }

    #[test]
    fn the_longest_delays_fit() {
        let extremes: Vec<u64> = (0..1_000).map(|number| u64::MAX * (number % 2)).collect();
        assert!(after(&extremes) <= MAX_DIFFERENCE);
    }
}
