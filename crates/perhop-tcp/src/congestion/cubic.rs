//! CUBIC (RFC 9438). Windows are in segments here, times in seconds, as in the RFC.

use perhop_core::Time;

use super::{Acked, Window};

/// Multiplicative decrease (section 4.6).
const BETA: f64 = 0.7;
/// Aggressiveness in segments / s³ (section 5).
const C: f64 = 0.4;
/// Additive increase with which CUBIC's decrease gives Reno's throughput (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

#[derive(Clone, Debug)]
pub(super) struct Cubic {
    /// True if the window grows at least as fast as Reno's (section 4.3).
    reno_friendly: bool,
    /// Window before the last loss, or less by fast convergence: W_max.
    pub maximum: f64,
    /// Window before the last loss: cwnd_prior.
    prior: f64,
    /// This congestion avoidance phase; `None` until its first acknowledgement.
    epoch: Option<Epoch>,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Beginning of the phase, later by the time in which the window did not limit the sender.
    began: Time,
    /// Time of the last acknowledgement.
    heard: Time,
    /// Time from the beginning to the plateau, in seconds: K.
    plateau_after: f64,
    /// Window that Reno would have: W_est.
    reno: f64,
}

impl Cubic {
    pub fn new(reno_friendly: bool) -> Self {
        Self { reno_friendly, maximum: 0.0, prior: 0.0, epoch: None }
    }

    pub fn on_ack(&mut self, window: &mut Window, mss: f64, acked: Acked) {
        let cwnd = window.cwnd / mss;
        let segments = acked.bytes as f64 / mss;
        let maximum = &mut self.maximum;
        let epoch = self.epoch.get_or_insert_with(|| {
            // Slow start may have exceeded the old maximum, which then is not a target.
            *maximum = maximum.max(cwnd);
            let plateau_after = cube_root((*maximum - cwnd) / C);
            Epoch { began: acked.now, heard: acked.now, plateau_after, reno: cwnd }
        });
        epoch.heard = acked.now;
        let alpha = if epoch.reno < self.prior { ALPHA } else { 1.0 };
        epoch.reno += alpha * segments / cwnd;

        let cubic = |seconds: f64| {
            let from_plateau = seconds - epoch.plateau_after;
            C * from_plateau * from_plateau * from_plateau + self.maximum
        };
        let elapsed = acked.now.since(epoch.began).as_secs_f64();
        let grown = if self.reno_friendly && cubic(elapsed) < epoch.reno {
            cwnd.max(epoch.reno)
        } else {
            let next_round = elapsed + acked.smoothed_rtt.as_secs_f64();
            let target = cubic(next_round).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) / cwnd * segments
        };
        window.cwnd = grown * mss;
    }

    /// Records an acknowledgement while the window did not limit the sender: this time does not
    /// count for the cubic function (sections 4.2 and 5.8).
    pub fn on_unused(&mut self, now: Time) {
        if let Some(epoch) = &mut self.epoch {
            epoch.began += now.since(epoch.heard);
            epoch.heard = now;
        }
    }

    /// Responds to a retransmission timeout: the next congestion avoidance begins on its plateau,
    /// where slow start ends (section 4.8).
    pub fn on_timeout(&mut self) {
        self.maximum = 0.0;
        self.epoch = None;
    }

    /// Responds to a loss at a window of `cwnd` segments; returns the factor for the flight.
    pub fn on_loss(&mut self, cwnd: f64) -> f64 {
        let converging = cwnd < self.maximum;
        self.maximum = if converging { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.prior = cwnd;
        self.epoch = None;
        BETA
    }
}

/// Returns the cube root by Newton's method: the C library's differs between versions in the last
/// digit, and results must not differ.
pub(super) fn cube_root(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    // With a third of the binary exponent, the start is within a factor of two of the root.
    let exponent = ((value.to_bits() >> 52) as i64 - 1023) / 3;
    let mut root = f64::from_bits(((exponent + 1023) as u64) << 52);
    for _ in 0..6 {
        root = (2.0 * root + value / (root * root)) / 3.0;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use perhop_core::Duration;

    #[test]
    fn cube_roots_are_right_to_the_last_digits() {
        for value in [1e-9, 0.5, 1.0, 2.0, 27.0, 750.0, 1e6, 1e12] {
            let error = cube_root(value) / f64::cbrt(value) - 1.0;
            assert!(error.abs() < 1e-15, "{value}: {error}");
        }
        assert_eq!([0.0, -8.0].map(cube_root), [0.0, 0.0]);
    }

    /// Acknowledges so many segments of 1000 bytes.
    fn acked(ms: u64, segments: u64, rtt: u64) -> Acked {
        Acked {
            now: Time::ZERO + Duration::from_millis(ms),
            bytes: 1_000 * segments,
            smoothed_rtt: Duration::from_millis(rtt),
            rtt: None,
            ack: 0,
            end: 0,
            limited: true,
            stretched: false,
            bytewise: false,
        }
    }

    #[track_caller]
    fn grows(cubic: &mut Cubic, from: f64, acked: Acked, to: f64) {
        let mut window = Window { cwnd: 1_000.0 * from, ssthresh: 1.0 };
        cubic.on_ack(&mut window, 1_000.0, acked);
        let grown = window.cwnd / 1_000.0;
        assert!((grown - to).abs() < 1e-9, "{grown} for {to}");
    }

    /// Section 4.2 with a maximum of 100 segments: the target is W_cubic(t + RTT), but between the
    /// window and 1.5 windows; an acknowledgement of a segment closes 1/cwnd of the gap.
    #[test]
    fn the_target_is_within_bounds() {
        let from = 32.5;
        let k = (67.5_f64 / 0.4).cbrt(); // 5.5 s
        let w_cubic = |t: f64| 0.4 * (t - k).powi(3) + 100.0;
        let begun = |friendly| {
            let mut cubic = Cubic::new(friendly);
            let _ = cubic.on_loss(100.0);
            grows(&mut cubic, from, acked(0, 0, 0), from);
            cubic
        };
        let target = w_cubic(0.3);
        assert!(from < target && target < 1.5 * from);
        grows(&mut begun(false), from, acked(100, 1, 200), from + (target - from) / from);
        grows(&mut begun(false), from, acked(100, 3, 200), from + 3.0 * (target - from) / from);
        // Beyond 1.5 windows, 48.75 of them: half a segment for each.
        assert!(w_cubic(3.0) > 1.5 * from);
        grows(&mut begun(false), from, acked(3_000, 1, 0), from + 0.5);
        grows(&mut begun(false), from, acked(0, 1, 20_000), from + 0.5);
        // A target below the window does not shrink it.
        grows(&mut begun(false), 90.0, acked(100, 5, 0), 90.0);
    }

    /// Section 4.3: Reno's estimate grows by 3 (1 - 0.7) / (1 + 0.7) = 9/17 of a segment for a
    /// window of segments, and by one from the window before the loss on. It counts if it is above
    /// W_cubic.
    #[test]
    fn renos_estimate_is_the_window_where_it_is_greater() {
        for (friendly, reno, cwnd, segments, expected) in [
            (true, 15.0, 14.0, 14, 15.0 + 9.0 / 17.0),
            (true, 19.9, 14.0, 7, 19.9 + 4.5 / 17.0),
            (true, 20.0, 14.0, 14, 21.0),
            (true, 20.0, 14.0, 7, 20.5),
            (true, 14.0, 30.0, 30, 30.0), // the window does not shrink
            (false, 20.0, 14.0, 14, 14.0 + (0.4 * (0.1_f64 - 2.466_212_074_330_47).powi(3) + 6.0)),
        ] {
            let mut cubic = Cubic::new(friendly);
            let _ = cubic.on_loss(20.0);
            let (began, heard) = (Time::ZERO, Time::ZERO);
            let plateau_after = cube_root(6.0 / 0.4);
            cubic.epoch = Some(Epoch { began, heard, plateau_after, reno });
            grows(&mut cubic, cwnd, acked(0, segments, 100), expected);
        }
    }

    /// Section 4.7: only a window below the last maximum lowers the next one. Section 4.2: a
    /// window above it is on its plateau. Section 4.8: after a timeout any is.
    #[test]
    fn maxima_follow_losses_and_slow_start() {
        let mut cubic = Cubic::new(false);
        for (cwnd, maximum) in [(100.0, 100.0), (100.0, 100.0), (90.0, 76.5), (80.0, 80.0)] {
            assert_eq!(cubic.on_loss(cwnd), 0.7);
            assert_eq!((cubic.maximum, cubic.prior), (maximum, cwnd));
            assert!(cubic.epoch.is_none());
        }
        grows(&mut cubic, 120.0, acked(1_000, 1, 0), 120.0);
        assert_eq!(cubic.maximum, 120.0);
        assert_eq!(cubic.epoch.map(|epoch| epoch.plateau_after), Some(0.0));
        // 0.4 · 2³ = 3.2 above it, two seconds later.
        grows(&mut cubic, 120.0, acked(3_000, 60, 0), 121.6);
        cubic.on_timeout();
        assert_eq!((cubic.maximum, cubic.epoch.is_none()), (0.0, true));
    }
}
