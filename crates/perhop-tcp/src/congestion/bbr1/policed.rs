//! Token-bucket policers (Flach et al., *An Internet-Wide Analysis of Traffic Policing*, SIGCOMM
//! 2016), as Linux detects them: two intervals between losses with much loss and the same rate.

use perhop_core::Time;

/// Least length of an interval, in round trips; the greatest is four times this.
const ROUNDS: u32 = 4;
/// Least share of lost to delivered bytes in an interval.
const LOSS: f64 = 50.0 / 256.0;
/// Greatest difference of two intervals' rates: as a share, or in bytes per second.
const SHARE: f64 = 1.0 / 8.0;
const DIFFERENCE: f64 = 500.0;
/// Number of round trips for which a detected rate is used.
const KEPT: u32 = 48;

/// State at an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    /// Time of the last delivery.
    pub at: Time,
    /// Bytes delivered and lost since the connection began.
    pub delivered: u64,
    pub lost: u64,
    pub round_start: bool,
    /// True if segments were marked as lost with this acknowledgement.
    pub lossy: bool,
    pub app_limited: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Policed {
    /// Rate of the last interval, or of the detected policer, in bytes per second.
    rate: Option<f64>,
    believed: bool,
    /// Beginning of the interval: time, bytes delivered, and bytes lost.
    began: Option<(Time, u64, u64)>,
    rounds: u32,
}

impl Policed {
    /// Returns the rate of the detected policer, in bytes per second; `None` if none is detected.
    pub fn rate(&self) -> Option<f64> {
        self.rate.filter(|_| self.believed)
    }

    /// Takes an acknowledgement. Returns `true` if the detected rate has expired, so that ProbeBW
    /// must begin again. `probing` is true in ProbeBW.
    pub fn update(&mut self, now: Interval, probing: bool) -> bool {
        if self.believed {
            self.rounds += u32::from(probing && now.round_start);
            let over = self.rounds >= KEPT;
            if over {
                *self = Self::default();
            }
            return over;
        }
        // Before the first loss the policer's bucket may hold tokens.
        let Some((since, delivered, lost)) = self.began else {
            if now.lossy {
                self.begin(now);
                self.count(now);
            }
            return false;
        };
        if now.app_limited {
            *self = Self::default();
            return false;
        }
        self.count(now);
        if self.rounds > 4 * ROUNDS {
            *self = Self::default();
            return false;
        }
        let (delivered, lost) = (now.delivered - delivered, now.lost - lost);
        let seconds = now.at.since(since).as_secs_f64();
        let much = delivered > 0 && lost as f64 >= LOSS * delivered as f64;
        if self.rounds >= ROUNDS && now.lossy && much && seconds >= 0.001 {
            self.end(now, delivered as f64 / seconds);
        }
        false
    }

    fn begin(&mut self, now: Interval) {
        self.began = Some((now.at, now.delivered, now.lost));
        self.rounds = 0;
    }

    fn count(&mut self, now: Interval) {
        self.rounds += u32::from(now.round_start);
    }

    /// Ends an interval; if two in succession have the same rate, that is the policer's.
    fn end(&mut self, now: Interval, rate: f64) {
        if let Some(last) = self.rate {
            let difference = (rate - last).abs();
            if difference <= SHARE * last || difference <= DIFFERENCE {
                (self.rate, self.believed, self.rounds) = (Some((rate + last) / 2.0), true, 0);
                return;
            }
        }
        self.rate = Some(rate);
        self.begin(now);
    }
}
