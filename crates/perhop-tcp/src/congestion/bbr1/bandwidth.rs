//! The maximum delivery rate, and the detection of its plateau.

/// Rounds for which a rate sample is valid (section 4.1.1.5: BtlBwFilterLen).
const ROUNDS: u64 = 10;

/// Maximum rate of the current round trip and of the ten before.
#[derive(Clone, Debug, Default)]
pub(super) struct MaxRate {
    /// Maximum of each round, in a ring.
    greatest: [f64; ROUNDS as usize + 1],
    round: u64,
}

impl MaxRate {
    pub fn get(&self) -> f64 {
        self.greatest.iter().copied().fold(0.0, f64::max)
    }

    pub fn update(&mut self, round: u64, rate: f64) {
        let places = self.greatest.len() as u64;
        for passed in self.round + 1..=round.min(self.round + places) {
            self.greatest[(passed % places) as usize] = 0.0;
        }
        self.round = round;
        let place = &mut self.greatest[(round % places) as usize];
        *place = place.max(rate);
    }
}

/// Detection that the pipe is full: three round trips with growth below a quarter (section
/// 4.3.2.2).
#[derive(Clone, Debug, Default)]
pub(super) struct FullPipe {
    /// Rate from which growth is measured.
    rate: f64,
    rounds: u32,
    pub reached: bool,
}

impl FullPipe {
    /// Checks the growth at the start of a round trip that the application did not limit, with the
    /// maximum rate.
    pub fn check(&mut self, rate: f64) {
        if self.reached {
            return;
        }
        if rate >= self.rate * 1.25 {
            (self.rate, self.rounds) = (rate, 0);
            return;
        }
        self.rounds += 1;
        self.reached = self.rounds >= 3;
    }

    /// Discards the rate from which growth is measured, after a timeout or a spurious loss: the
    /// next one is growth, which begins the count anew.
    pub fn forget(&mut self) {
        self.rate = 0.0;
    }
}
