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
    use super::cube_root;

    #[test]
    fn cube_roots_are_right_to_the_last_digits() {
        for value in [1e-9, 0.5, 1.0, 2.0, 27.0, 750.0, 1e6, 1e12] {
            let error = cube_root(value) / f64::cbrt(value) - 1.0;
            assert!(error.abs() < 1e-15, "{value}: {error}");
        }
        assert_eq!(cube_root(0.0), 0.0);
    }
}
