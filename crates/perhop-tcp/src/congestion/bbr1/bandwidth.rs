//! The greatest delivery rate, and whether it still grows.

/// Rounds for which a rate counts (section 4.1.1.5: BtlBwFilterLen).
const ROUNDS: u64 = 10;

/// The greatest rate of the current round trip and of the ten before.
#[derive(Clone, Debug, Default)]
pub(super) struct MaxRate {
    /// By round, in a ring.
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

/// Whether the pipe is full: three round trips without a quarter more (section 4.3.2.2).
#[derive(Clone, Debug, Default)]
pub(super) struct FullPipe {
    /// The rate to grow from.
    rate: f64,
    rounds: u32,
    pub reached: bool,
}

impl FullPipe {
    /// At the start of a round trip that the application did not limit, with the greatest rate.
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

    /// A timeout: what the rate grew from says nothing any more.
    pub fn forget(&mut self) {
        self.rate = 0.0;
    }

    /// A spurious loss: nor do the round trips without growth.
    pub fn restart(&mut self) {
        (self.rate, self.rounds) = (0.0, 0);
    }
}
