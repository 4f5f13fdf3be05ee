//! HyStart in Linux (Ha and Rhee, *Taming the elephants: new TCP slow start*, Computer Networks 55,
//! 2011; net/ipv4/tcp_cubic.c): slow start ends at once when the round-trip time rises, or when a
//! train of closely spaced acknowledgements in a round is as long as the path.

use perhop_core::{Duration, Time};

use super::{Acked, Window};
use crate::Offset;

/// Window below which slow start does not end, in segments (hystart_low_window).
const LEAST: f64 = 16.0;
/// Greatest distance of acknowledgements in a train (hystart_ack_delta_us).
const SPACING: Duration = Duration::from_millis(2);
/// Samples of a round before its minimum round-trip time is evaluated (HYSTART_MIN_SAMPLES).
const SAMPLES: u32 = 8;
/// Bounds of the threshold of a rise, which is an eighth of the minimum round-trip time.
const RISE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));
/// Allowance for acknowledgements that large segments delay: four of this many bytes at the pacing
/// rate (sk_gso_max_size), and at most a millisecond.
const LARGEST: f64 = 65_536.0;
const HELD_BACK: f64 = 0.001;

/// State of a connection's slow starts.
#[derive(Clone, Debug)]
pub(super) struct LinuxHyStart {
    /// True if segments are paced, which may delay them by half a round trip.
    paced: bool,
    /// The round ends when data beyond this is acknowledged.
    round_end: Offset,
    round_began: Time,
    /// Time of the last acknowledgement of the train.
    train: Time,
    /// Minimum round-trip time of the connection, and of this round with its number of samples.
    least: Duration,
    current: Duration,
    samples: u32,
    /// True if slow start has ended.
    found: bool,
}

impl LinuxHyStart {
    pub fn new(paced: bool) -> Self {
        Self {
            paced,
            round_end: 0,
            round_began: Time::ZERO,
            train: Time::ZERO,
            least: Duration::MAX,
            current: Duration::MAX,
            samples: 0,
            found: false,
        }
    }

    /// Resets the detection after a retransmission timeout.
    pub fn on_timeout(&mut self) {
        *self = Self::new(self.paced);
    }

    /// Takes an acknowledgement, and sets the threshold to the window at the end of slow start.
    pub fn on_ack(&mut self, window: &mut Window, mss: f64, acked: Acked) {
        let Some(rtt) = acked.data_rtt() else { return };
        self.least = self.least.min(rtt);
        if self.found || !window.in_slow_start() {
            return;
        }
        if acked.ack > self.round_end {
            self.round_end = acked.end;
            (self.round_began, self.train) = (acked.now, acked.now);
            (self.current, self.samples) = (Duration::MAX, 0);
        }
        if window.cwnd < LEAST * mss {
            return;
        }
        if self.train_is_long(window, acked) || self.delay_has_risen(rtt) {
            self.found = true;
            window.ssthresh = window.cwnd;
        }
    }

    fn train_is_long(&mut self, window: &Window, acked: Acked) -> bool {
        if acked.now.since(self.train) > SPACING {
            return false;
        }
        self.train = acked.now;
        let rate = 2.0 * window.cwnd / acked.smoothed_rtt.as_secs_f64().max(1e-6);
        let held_back = (4.0 * LARGEST / rate).min(HELD_BACK);
        let path = self.least + Duration::from_picos((held_back * 1e12) as u64);
        acked.now.since(self.round_began) > if self.paced { path } else { path / 2 }
    }

    fn delay_has_risen(&mut self, rtt: Duration) -> bool {
        self.current = self.current.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        self.current > self.least + (self.least / 8).clamp(RISE.0, RISE.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: f64 = 1000.0;

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    /// Returns the acknowledgement, counted from one, at which slow start ends, in a round that
    /// began at zero with a window of `segments` and a minimum round-trip time of 40 ms.
    /// Acknowledgements arrive every `gap` µs.
    fn ends_after(segments: f64, paced: bool, gap: u64, rtt: u64) -> Option<u64> {
        let mut hystart = LinuxHyStart::new(paced);
        let mut window = Window::new(segments * MSS);
        let acked = |now, ack, rtt| Acked {
            now,
            bytes: 1000,
            smoothed_rtt: Duration::from_millis(40),
            rtt: Some(Duration::from_micros(rtt)),
            ack,
            end: 1_000_000,
            limited: true,
            stretched: false,
            bytewise: false,
        };
        hystart.on_ack(&mut window, MSS, acked(at(0), 2, 40_000));
        (1..40).find(|&count| {
            hystart.on_ack(&mut window, MSS, acked(at(count * gap), 2 + count, rtt));
            window.ssthresh == window.cwnd
        })
    }

    /// A train is as long as half of 41 ms, or all of it with pacing. Gaps of more than 2 ms end
    /// it.
    #[test]
    fn a_train_as_long_as_the_path_ends_slow_start() {
        assert_eq!(ends_after(20.0, false, 2_000, 40_000), Some(11));
        assert_eq!(ends_after(20.0, true, 2_000, 40_000), Some(21));
        assert_eq!(ends_after(20.0, false, 2_001, 40_000), None);
        assert_eq!(ends_after(16.0, false, 2_000, 40_000), Some(11));
        assert_eq!(ends_after(15.0, false, 2_000, 40_000), None, "a small window");
    }

    /// A handshake that was faster than any data is not a sample: flows that begin together wait
    /// for each other's initial windows from the first data on.
    #[test]
    fn the_round_trip_of_the_handshake_does_not_count() {
        let mut hystart = LinuxHyStart::new(false);
        let mut window = Window::new(20.0 * MSS);
        let mut ack = |ack, rtt| {
            hystart.on_ack(
                &mut window,
                MSS,
                Acked {
                    now: at(3_000 * ack),
                    bytes: 1000,
                    smoothed_rtt: Duration::from_millis(40),
                    rtt: Some(Duration::from_millis(rtt)),
                    ack,
                    end: if ack > 100 { 1_000 } else { 100 },
                    limited: true,
                    stretched: false,
                    bytewise: false,
                },
            );
            window.ssthresh
        };
        assert!(ack(1, 40).is_infinite());
        for number in 2..40 {
            assert!(ack(number, 50).is_infinite(), "an eighth more than the handshake's");
        }
        for number in 101..109 {
            assert!(ack(number, 57).is_infinite());
        }
        assert!(ack(109, 57).is_finite(), "an eighth more than the first data's");
    }

    /// At the ninth sample that is more than an eighth above the minimum.
    #[test]
    fn a_rise_by_an_eighth_ends_slow_start() {
        assert_eq!(ends_after(20.0, true, 3_000, 45_001), None, "the round's least counts");
        let mut hystart = LinuxHyStart::new(false);
        hystart.least = Duration::from_millis(40);
        let late = |hystart: &mut LinuxHyStart, micros| {
            (0..9)
                .map(|_| hystart.delay_has_risen(Duration::from_micros(micros)))
                .collect::<Vec<_>>()
        };
        assert_eq!(late(&mut hystart.clone(), 45_000), [false; 9]);
        let risen = late(&mut hystart, 45_001);
        assert_eq!(risen.iter().position(|&risen| risen), Some(8));
    }

    /// hystart_ack_delay: four segments of 64 KiB at twice a window of 20 MB in 40 ms, 1 GB/s, take
    /// 262 us. A train may last half of 2.262 ms, or all of it with pacing.
    #[test]
    fn large_segments_delay_acknowledgements() {
        for (paced, ends) in [(false, 114), (true, 227)] {
            let mut hystart = LinuxHyStart::new(paced);
            let mut window = Window::new(20_000.0 * MSS);
            let found = (0..300).find(|&count| {
                let acked = Acked {
                    now: at(5_000 + count * 10),
                    bytes: 1000,
                    smoothed_rtt: Duration::from_millis(40),
                    rtt: Some(Duration::from_millis(2)),
                    ack: 2 + count,
                    end: 1_000_000,
                    limited: true,
                    stretched: false,
                    bytewise: false,
                };
                hystart.on_ack(&mut window, MSS, acked);
                window.ssthresh.is_finite()
            });
            assert_eq!(found, Some(ends));
            // A timeout begins anew, with what is known of pacing.
            hystart.on_timeout();
            assert_eq!(
                (hystart.found, hystart.paced, hystart.least),
                (false, paced, Duration::MAX)
            );
        }
    }

    /// An eighth, but 4 ms at least and 16 ms at most.
    #[test]
    fn the_rise_has_bounds() {
        for (least, rtt, risen) in [
            (8_000, 12_000, false),
            (8_000, 12_001, true),
            (80_000, 90_000, false),
            (80_000, 90_001, true),
            (200_000, 216_000, false),
            (200_000, 216_001, true),
        ] {
            let mut hystart = LinuxHyStart::new(false);
            hystart.least = Duration::from_micros(least);
            let found = (0..9).map(|_| hystart.delay_has_risen(Duration::from_micros(rtt))).last();
            assert_eq!(found, Some(risen), "{least} {rtt}");
        }
    }
}
