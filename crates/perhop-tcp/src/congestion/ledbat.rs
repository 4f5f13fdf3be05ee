//! LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus-01): a scavenger at the end host. It keeps the
//! queueing delay, measured by round-trip times, below a target, and so yields to other flows that
//! fill the queue.

use perhop_core::{Duration, Time};

use super::{Acked, Window};

/// Target of the queueing delay (section 4.1).
const TARGET: Duration = Duration::from_millis(60);
/// Minutes over which the base delay is the minimum (RFC 6817, section 2.4.2: BASE_HISTORY).
const MINUTES: usize = 10;
const MINUTE: u64 = Duration::from_secs(60).as_picos();
/// Number of samples over which the current delay is the minimum (CURRENT_FILTER).
const SAMPLES: usize = 4;
/// Least window, which is that of a slowdown, too, in segments (section 4.4).
const LEAST: f64 = 2.0;
/// Time between slowdowns, in multiples of the length of the last one (section 4.4).
const SLOWDOWN_SHARE: u64 = 9;

#[derive(Clone, Debug)]
pub(super) struct Ledbat {
    /// Minimum round-trip time of each minute, and the number of the newest minute.
    base: [Duration; MINUTES],
    minute: u64,
    recent: [Duration; SAMPLES],
    place: usize,
    phase: LedbatPhase,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum LedbatPhase {
    /// Initial slow start.
    Starting,
    /// Adapting until the next slowdown.
    Steady { slowdown: Time },
    /// A slowdown: the least window until an instant, so that samples show the base delay.
    Held { began: Time, until: Time },
    /// Slow start after a slowdown, up to the window before it.
    Returning { began: Time },
}

impl Ledbat {
    pub fn new() -> Self {
        Self {
            base: [Duration::MAX; MINUTES],
            minute: 0,
            recent: [Duration::MAX; SAMPLES],
            place: 0,
            phase: LedbatPhase::Starting,
        }
    }

    pub fn on_ack(&mut self, window: &mut Window, mss: f64, acked: Acked) {
        if let Some(rtt) = acked.rtt {
            self.take_sample(acked.now, rtt);
        }
        let base = self.base.iter().copied().min().unwrap_or(Duration::MAX);
        let current = self.recent.iter().copied().min().unwrap_or(Duration::MAX);
        if base == Duration::MAX || current == Duration::MAX {
            return;
        }
        let queueing = current.as_picos().saturating_sub(base.as_picos()) as f64;
        let delay = queueing / TARGET.as_picos() as f64;
        let gain = gain(base);
        let two_rounds = acked.smoothed_rtt * 2;
        match self.phase {
            LedbatPhase::Starting if delay > 0.75 || !window.in_slow_start() => {
                window.ssthresh = window.ssthresh.min(window.cwnd);
                self.phase = LedbatPhase::Steady { slowdown: acked.now + two_rounds };
            }
            LedbatPhase::Steady { slowdown } if acked.now >= slowdown => {
                window.ssthresh = window.cwnd.max(LEAST * mss);
                window.cwnd = LEAST * mss;
                self.phase = LedbatPhase::Held { began: acked.now, until: acked.now + two_rounds };
            }
            LedbatPhase::Held { began, until } if acked.now >= until => {
                self.phase = LedbatPhase::Returning { began };
            }
            LedbatPhase::Returning { began } if !window.in_slow_start() => {
                let took = acked.now.since(began);
                self.phase = LedbatPhase::Steady { slowdown: acked.now + took * SLOWDOWN_SHARE };
            }
            _ => {}
        }
        if matches!(self.phase, LedbatPhase::Held { .. }) {
            return;
        }
        let bytes = acked.bytes as f64;
        if window.in_slow_start() {
            if acked.limited {
                window.cwnd += gain * bytes;
            }
            return;
        }
        // Per round trip: a gain in segments, less the window times the relative excess of the
        // delay over its target, but at most half the window (section 4.2).
        let round = bytes / window.cwnd;
        let above = (delay - 1.0).max(0.0) * window.cwnd;
        let change = (gain * mss - above).max(-window.cwnd / 2.0) * round;
        if change < 0.0 || acked.limited {
            window.cwnd = (window.cwnd + change).max(LEAST * mss);
        }
    }

    fn take_sample(&mut self, now: Time, rtt: Duration) {
        let minute = now.as_picos() / MINUTE;
        // Minutes without a sample are discarded, too.
        let passed = (minute - self.minute).min(MINUTES as u64);
        for skipped in 0..passed {
            self.base[((minute - skipped) % MINUTES as u64) as usize] = Duration::MAX;
        }
        self.minute = minute;
        let least = &mut self.base[(minute % MINUTES as u64) as usize];
        *least = rtt.min(*least);
        self.recent[self.place] = rtt;
        self.place = (self.place + 1) % SAMPLES;
    }
}

/// Returns the growth relative to Reno's. Up to 16 times slower on short paths, where a target of
/// 60 ms is many round trips (section 4.2).
fn gain(base: Duration) -> f64 {
    let ratio = (TARGET * 2).as_picos().div_ceil(base.as_picos().max(1));
    1.0 / ratio.min(16) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;
    const MSS: f64 = 1000.0;

    #[test]
    fn the_gain_is_that_of_the_draft() {
        assert_eq!(gain(Duration::ZERO), 1.0 / 16.0);
        for (base, expected) in [
            (1, 16.0),
            (7, 16.0),
            (8, 15.0),
            (10, 12.0),
            (50, 3.0),
            (119, 2.0),
            (120, 1.0),
            (500, 1.0),
        ] {
            assert_eq!(gain(MS(base)), 1.0 / expected, "{base} ms");
        }
    }

    fn acked(now: Time, bytes: u64, smoothed_rtt: Duration) -> Acked {
        Acked {
            now,
            bytes,
            smoothed_rtt,
            rtt: None,
            ack: 0,
            end: 0,
            limited: true,
            stretched: false,
            bytewise: false,
        }
    }

    /// Simulates a round trip of acknowledgements of a segment each, in a steady state without a
    /// slowdown.
    fn round(rtt: u64) -> f64 {
        let mut ledbat = Ledbat::new();
        ledbat.phase = LedbatPhase::Steady { slowdown: Time::MAX };
        ledbat.take_sample(Time::ZERO, MS(120));
        ledbat.recent = [MS(rtt); SAMPLES];
        let mut window = Window { cwnd: 100.0 * MSS, ssthresh: 1.0 };
        let acked = acked(Time::ZERO, 100_000, MS(rtt));
        ledbat.on_ack(&mut window, MSS, acked);
        window.cwnd / MSS
    }

    /// Section 4.2, a round trip at a window of 100 segments and a base delay of 120 ms.
    #[test]
    fn the_window_follows_the_delay() {
        assert_eq!(round(120), 101.0);
        assert_eq!(round(180), 101.0);
        // A tenth above the target: a tenth of the window less, and the gain.
        assert!((round(186) - 91.0).abs() < 1e-9);
        // Twice the target and more: half the window.
        assert_eq!(round(240), 50.0);
    }

    /// Sections 4.2 to 4.4, at a base delay of 120 ms, where the gain is Reno's, and a smoothed
    /// round-trip time of 100 ms: slow start up to 3/4 of the target, 45 ms; a slowdown to two
    /// segments two round trips later, for two more; slow start up to the window before; and the
    /// next slowdown after nine times the length of that one.
    #[test]
    fn slowdowns_are_a_tenth_of_the_time() {
        let mut ledbat = Ledbat::new();
        ledbat.base[0] = MS(120);
        let mut window = Window::new(10.0 * MSS);
        let mut ack = |ms: u64, queueing: u64, limited: bool| {
            ledbat.recent = [MS(120 + queueing); SAMPLES];
            let acked = Acked {
                now: Time::ZERO + MS(ms),
                bytes: 1_000,
                smoothed_rtt: MS(100),
                rtt: None,
                ack: 0,
                end: 0,
                limited,
                stretched: false,
                bytewise: false,
            };
            ledbat.on_ack(&mut window, MSS, acked);
            (window.cwnd, ledbat.phase)
        };
        let steady = |ms| LedbatPhase::Steady { slowdown: Time::ZERO + MS(ms) };
        let held =
            LedbatPhase::Held { began: Time::ZERO + MS(1_202), until: Time::ZERO + MS(1_402) };
        let returning = LedbatPhase::Returning { began: Time::ZERO + MS(1_202) };
        assert_eq!(ack(1_000, 0, true), (11_000.0, LedbatPhase::Starting));
        assert_eq!(ack(1_001, 45, false), (11_000.0, LedbatPhase::Starting));
        // From now on a segment in a round trip.
        let (cwnd, phase) = ack(1_002, 46, true);
        assert_eq!((cwnd, phase), (11_000.0 + 1e6 / 11_000.0, steady(1_202)));
        assert_eq!(ack(1_201, 0, false), (cwnd, steady(1_202)));
        assert_eq!(ack(1_202, 0, true), (2_000.0, held));
        assert_eq!(ack(1_401, 0, true), (2_000.0, held));
        assert_eq!(ack(1_402, 0, true), (3_000.0, returning));
        assert_eq!(ack(1_403, 0, false), (3_000.0, returning));
        for after in 4..=12 {
            assert_eq!(ack(1_500, 0, true), (1_000.0 * f64::from(after), returning));
        }
        // The window before is reached: the slowdown took 400 ms.
        let (_, phase) = ack(1_602, 0, false);
        assert_eq!(phase, steady(1_602 + 9 * 400));
        // Far above the target half the window is left after a round trip, but two segments.
        let (cwnd, _) = ack(1_603, 600, false);
        assert_eq!(cwnd, 11_500.0);
    }

    #[test]
    fn the_base_delay_is_forgotten_after_ten_minutes() {
        let mut ledbat = Ledbat::new();
        let minutes = |count: u64| Time::ZERO + Duration::from_secs(60 * count);
        ledbat.take_sample(minutes(0), MS(10));
        ledbat.take_sample(minutes(9), MS(30));
        assert_eq!(ledbat.base.iter().min(), Some(&MS(10)));
        ledbat.take_sample(minutes(10), MS(30));
        assert_eq!(ledbat.base.iter().min(), Some(&MS(30)));
    }

    /// RFC 6817, section 2.4.2: the least of the last four samples. Section 4.4: a slowdown leaves
    /// two segments, to which slow start returns if the window was smaller.
    #[test]
    fn the_current_delay_is_the_least_of_four() {
        let mut ledbat = Ledbat::new();
        for (rtt, least) in [(50, 50), (70, 50), (60, 50), (80, 50), (90, 60), (95, 60), (99, 80)] {
            ledbat.take_sample(Time::ZERO, MS(rtt));
            assert_eq!(ledbat.recent.iter().min(), Some(&MS(least)));
        }
        ledbat.phase = LedbatPhase::Steady { slowdown: Time::ZERO };
        let mut window = Window { cwnd: 1_500.0, ssthresh: 1_500.0 };
        let acked = acked(Time::ZERO, 1_000, MS(99));
        ledbat.on_ack(&mut window, MSS, acked);
        assert_eq!(window, Window { cwnd: 2_000.0, ssthresh: 2_000.0 });
        // Without a sample there is nothing to adapt to.
        let mut window = Window::new(1_500.0);
        Ledbat::new().on_ack(&mut window, MSS, acked);
        assert_eq!(window, Window::new(1_500.0));
    }

    /// Section 4.3: the initial slow start ends with the first loss, too, which sets the threshold.
    /// The threshold is not above the window.
    #[test]
    fn a_loss_ends_the_initial_slow_start() {
        for (queueing, cwnd, ssthresh, after) in [
            (0, 10.0, 10.0, Some(10.0)),
            (0, 10.0, 8.0, Some(8.0)),
            (0, 10.0, 11.0, None),
            (50, 10.0, 11.0, Some(10.0)),
        ] {
            let mut ledbat = Ledbat::new();
            ledbat.base[0] = MS(120);
            ledbat.recent = [MS(120 + queueing); SAMPLES];
            let mut window = Window { cwnd: cwnd * MSS, ssthresh: ssthresh * MSS };
            let acked = acked(Time::ZERO + MS(70), 0, MS(100));
            ledbat.on_ack(&mut window, MSS, acked);
            let phase = match after {
                Some(_) => LedbatPhase::Steady { slowdown: Time::ZERO + MS(270) },
                None => LedbatPhase::Starting,
            };
            assert_eq!(ledbat.phase, phase, "{queueing} {cwnd} {ssthresh}");
            assert_eq!(window.ssthresh, after.unwrap_or(ssthresh) * MSS);
        }
        // Half an hour later no minute has its minimum any more.
        let mut ledbat = Ledbat::new();
        ledbat.take_sample(Time::ZERO, MS(10));
        ledbat.take_sample(Time::ZERO + Duration::from_secs(1_805), MS(30));
        assert_eq!(ledbat.base.iter().min(), Some(&MS(30)));
        ledbat.take_sample(Time::ZERO + Duration::from_secs(1_859), MS(40));
        assert_eq!(ledbat.base.iter().min(), Some(&MS(30)), "the same minute");
    }
}
