//! HyStart++ (RFC 9406): slow start ends when the round-trip time rises, before a queue overflows.

use perhop_core::Duration;

use super::{Acked, Window};
use crate::Offset;

/// Bounds of the threshold of a rise (section 4.3: MIN_RTT_THRESH, MAX_RTT_THRESH).
const RISE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));
/// Divisor of the last round's minimum that gives the threshold of a rise (MIN_RTT_DIVISOR).
const RISE_DIVISOR: u64 = 8;
/// Samples of a round before it is evaluated (N_RTT_SAMPLE).
const SAMPLES: u32 = 8;
/// Factor by which conservative slow start is slower (CSS_GROWTH_DIVISOR).
const GROWTH_DIVISOR: f64 = 4.0;
/// Rounds of conservative slow start before congestion avoidance (CSS_ROUNDS).
const ROUNDS: u32 = 5;
/// Greatest growth of the window by an acknowledgement without pacing, in segments (L).
const BURST: f64 = 8.0;

/// State of a connection's initial slow start.
#[derive(Clone, Debug)]
pub(super) struct HyStart {
    /// End of the round in acknowledged data: windowEnd.
    round_end: Offset,
    /// Minimum round-trip times of the last round and of this one; [`Duration::MAX`] for none.
    last: Duration,
    current: Duration,
    samples: u32,
    /// Conservative slow start: the minimum round-trip time at its beginning, and the rounds since.
    conservative: Option<(Duration, u32)>,
    /// True if segments are paced, so that growth needs no bound against bursts.
    paced: bool,
}

impl HyStart {
    pub fn new(paced: bool) -> Self {
        Self {
            round_end: 0,
            last: Duration::MAX,
            current: Duration::MAX,
            samples: 0,
            conservative: None,
            paced,
        }
    }

    /// Takes an acknowledgement in the initial slow start: grows the window, and sets the threshold
    /// at the end of slow start (section 4.2).
    pub fn on_ack(&mut self, window: &mut Window, mss: f64, acked: Acked) {
        if acked.ack >= self.round_end {
            self.round_end = acked.end;
            self.last = std::mem::replace(&mut self.current, Duration::MAX);
            self.samples = 0;
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
                if *rounds >= ROUNDS {
                    window.ssthresh = window.cwnd;
                    return;
                }
            }
        }
        if acked.limited {
            let bytes = acked.bytes as f64;
            let grown = if self.paced { bytes } else { bytes.min(BURST * mss) };
            let divisor = if self.conservative.is_some() { GROWTH_DIVISOR } else { 1.0 };
            window.cwnd += grown / divisor;
        }
        let Some(rtt) = acked.rtt else { return };
        self.current = self.current.min(rtt);
        self.samples += 1;
        if self.samples < SAMPLES {
            return;
        }
        match self.conservative {
            Some((baseline, _)) if self.current < baseline => self.conservative = None,
            Some(_) => {}
            None if self.last == Duration::MAX => {}
            None => {
                let rise = (self.last / RISE_DIVISOR).clamp(RISE.0, RISE.1);
                if self.current >= self.last + rise {
                    self.conservative = Some((self.current, 0));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::Time;

    const MSS: f64 = 1000.0;

    /// Rounds of ten acknowledgements, each for one segment.
    struct Rounds {
        hystart: HyStart,
        window: Window,
        ack: Offset,
    }

    impl Rounds {
        fn new() -> Self {
            let (hystart, window) = (HyStart::new(false), Window::new(10.0 * MSS));
            Self { hystart, window, ack: 1 }
        }

        /// Simulates a round with a round-trip time in milliseconds; returns the growth of the
        /// window.
        fn round(&mut self, millis: u64) -> f64 {
            let before = self.window.cwnd;
            // At the first acknowledgement of a round, all data of the next round has been sent.
            let end = self.ack + 11_000;
            for _ in 0..10 {
                self.ack += 1000;
                let acked = Acked {
                    now: Time::ZERO,
                    bytes: 1000,
                    smoothed_rtt: Duration::ZERO,
                    rtt: Some(Duration::from_millis(millis)),
                    ack: self.ack,
                    end,
                    limited: true,
                    stretched: false,
                    bytewise: false,
                };
                self.hystart.on_ack(&mut self.window, MSS, acked);
            }
            self.window.cwnd - before
        }

        fn conservative(&self) -> bool {
            self.hystart.conservative.is_some()
        }
    }

    /// Section 4.2: the threshold is an eighth, but at least 4 ms and at most 16 ms.
    #[test]
    fn the_rise_that_counts_is_an_eighth_within_bounds() {
        for (rtt, rise) in [(8, 4), (32, 4), (80, 10), (128, 16), (400, 16)] {
            for (more, found) in [(rise - 1, false), (rise, true)] {
                let mut rounds = Rounds::new();
                rounds.round(rtt);
                rounds.round(rtt);
                rounds.round(rtt + more);
                assert_eq!(rounds.conservative(), found, "{rtt} ms and {more} ms more");
            }
        }
    }

    #[test]
    fn five_slower_rounds_end_slow_start() {
        let mut rounds = Rounds::new();
        assert_eq!(rounds.round(50), 10.0 * MSS);
        rounds.round(50);
        // Detected with the eighth sample; the rest of the round grows by a quarter.
        assert_eq!(rounds.round(60), 8.5 * MSS);
        for _ in 0..4 {
            assert_eq!(rounds.round(60), 2.5 * MSS);
            assert_eq!(rounds.window.ssthresh, f64::INFINITY);
        }
        let before = rounds.window.cwnd;
        rounds.ack += 1000;
        let (ack, end) = (rounds.ack, rounds.ack + 10_000);
        let acked = Acked {
            now: Time::ZERO,
            bytes: 1000,
            smoothed_rtt: Duration::ZERO,
            rtt: None,
            ack,
            end,
            limited: true,
            stretched: false,
            bytewise: false,
        };
        rounds.hystart.on_ack(&mut rounds.window, MSS, acked);
        assert_eq!(rounds.window, Window { cwnd: before, ssthresh: before });
    }

    #[test]
    fn slow_start_resumes_when_the_rise_was_a_passing_one() {
        let mut rounds = Rounds::new();
        rounds.round(50);
        rounds.round(50);
        rounds.round(60);
        assert!(rounds.conservative());
        rounds.round(55);
        assert!(!rounds.conservative());
        assert_eq!(rounds.round(55), 10.0 * MSS);
    }

    /// Section 4.3: at most eight segments an acknowledgement without pacing; a window that is not
    /// used does not grow.
    #[test]
    fn growth_by_an_acknowledgement() {
        for (paced, bytes, limited, conservative, growth) in [
            (false, 8_000, true, false, 8_000.0),
            (false, 9_000, true, false, 8_000.0),
            (true, 9_000, true, false, 9_000.0),
            (false, 9_000, false, false, 0.0),
            (false, 9_000, true, true, 2_000.0),
            (true, 9_000, true, true, 2_250.0),
        ] {
            let mut hystart = HyStart::new(paced);
            hystart.round_end = Offset::MAX;
            hystart.conservative = conservative.then_some((Duration::ZERO, 0));
            let mut window = Window::new(10.0 * MSS);
            let acked = Acked {
                now: Time::ZERO,
                bytes,
                smoothed_rtt: Duration::ZERO,
                rtt: None,
                ack: 1,
                end: 1,
                limited,
                stretched: false,
                bytewise: false,
            };
            hystart.on_ack(&mut window, MSS, acked);
            assert_eq!(window.cwnd - 10.0 * MSS, growth, "{paced} {bytes} {limited}");
        }
    }

    /// Section 4.2: eight samples of a round are needed, a round without any is not compared, and
    /// an unchanged round-trip time does not resume slow start.
    #[test]
    fn rounds_with_few_samples_are_not_compared() {
        let mut rounds = Rounds::new();
        rounds.round(50);
        rounds.round(50);
        rounds.round(60);
        rounds.round(60);
        assert!(rounds.conservative(), "as long as at the beginning of the rise");
        let acked = |ack, rtt: Option<u64>| Acked {
            now: Time::ZERO,
            bytes: 1000,
            smoothed_rtt: Duration::ZERO,
            rtt: rtt.map(Duration::from_millis),
            ack,
            end: 100,
            limited: true,
            stretched: false,
            bytewise: false,
        };
        for (last, samples, found) in [(Some(50), 7, false), (Some(50), 8, true), (None, 8, false)]
        {
            let mut hystart = HyStart::new(false);
            let mut window = Window::new(10.0 * MSS);
            hystart.on_ack(&mut window, MSS, acked(1, last));
            for sample in 0..samples {
                hystart.on_ack(&mut window, MSS, acked(100 + sample, Some(90)));
                // The round goes on.
                hystart.round_end = 1_000;
            }
            assert_eq!(hystart.conservative.is_some(), found, "{last:?} {samples}");
        }
    }
}
