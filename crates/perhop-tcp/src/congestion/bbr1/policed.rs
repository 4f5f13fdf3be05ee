//! Token-bucket policers (Flach et al., An Internet-Wide Analysis of Traffic Policing, SIGCOMM
//! 2016), as Linux detects them: two intervals between losses with much loss and the same rate.

use perhop_core::Time;

/// Round trips of an interval, at least; four times as many at most.
const ROUNDS: u32 = 4;
/// What is lost of what is delivered in an interval, at least.
const LOSS: f64 = 50.0 / 256.0;
/// How far two intervals' rates may differ: as a share, or in bytes a second.
const SHARE: f64 = 1.0 / 8.0;
const DIFFERENCE: f64 = 500.0;
/// For how many round trips the rate is kept.
const KEPT: u32 = 48;

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    /// When data was delivered last.
    pub at: Time,
    /// Bytes delivered and lost since the connection began.
    pub delivered: u64,
    pub lost: u64,
    pub round_start: bool,
    /// True if something was lost with it.
    pub lossy: bool,
    pub app_limited: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Policed {
    /// The last interval's rate, or the policer's if it is believed in.
    rate: Option<f64>,
    believed: bool,
    /// Where the interval began.
    began: Option<(Time, u64, u64)>,
    rounds: u32,
}

impl Policed {
    /// Returns the policer's rate in bytes a second, if there seems to be one.
    pub fn rate(&self) -> Option<f64> {
        self.rate.filter(|_| self.believed)
    }

    /// Takes an acknowledgement; returns whether the policer is given up, so that ProbeBW is to
    /// begin anew. `probing` is whether that is the mode.
    pub fn update(&mut self, now: Interval, probing: bool) -> bool {
        if self.believed {
            self.rounds += u32::from(probing && now.round_start);
            let over = self.rounds >= KEPT;
            if over {
                *self = Self::default();
            }
            return over;
        }
        // Before the first loss the policer's tokens are not used up.
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

    /// An interval is over; the second of two with the same rate tells the policer's.
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
