//! Random times and sizes.

use perhop_core::{Duration, Stream, Time};

use crate::plan::{GapsPlan, SizesPlan};

/// Largest size that is drawn, in bytes.
const MOST: f64 = (1_u64 << 40) as f64;

/// Lengths of time.
#[derive(Clone, Debug)]
pub(crate) struct Gaps {
    plan: GapsPlan,
    random: Stream,
}

impl Gaps {
    pub fn new(plan: GapsPlan, random: Stream) -> Self {
        Self { plan, random }
    }

    /// Returns the first event of a series that begins at `start`: that instant for a regular
    /// series, and one gap later for a random one.
    pub fn first(&mut self, start: Time) -> Time {
        if self.plan.exponential { start + self.next() } else { start }
    }

    pub fn next(&mut self) -> Duration {
        match self.plan.exponential {
            false => self.plan.mean,
            true => {
                let mean = self.plan.mean.as_picos() as f64;
                Duration::from_picos((mean * self.random.exponential() + 0.5) as u64)
            }
        }
    }
}

/// Sizes.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    plan: SizesPlan,
    least: u64,
    random: Stream,
}

impl Sizes {
    /// Creates sizes of at least `least` bytes: smaller ones are raised to it.
    pub fn new(plan: SizesPlan, least: u64, random: Stream) -> Self {
        Self { plan, least, random }
    }

    pub fn next(&mut self) -> u64 {
        let random = &mut self.random;
        let size = match &self.plan {
            SizesPlan::Constant(size) => return (*size).max(self.least),
            SizesPlan::Exponential(mean) => *mean as f64 * random.exponential(),
            SizesPlan::Pareto(mean, shape) => *mean as f64 * random.pareto(f64::from(*shape) / 1e3),
            SizesPlan::Lognormal(median, sigma) => {
                *median as f64 * random.lognormal(f64::from(*sigma) / 1e3)
            }
            SizesPlan::Table(points) => interpolated(points, random.up_to(999_999_999) as u32),
        };
        ((size.min(MOST) + 0.5) as u64).max(self.least)
    }
}

/// Returns the size below which `share` parts per billion of all sizes are.
fn interpolated(points: &[(u64, u32)], share: u32) -> f64 {
    let place = points.partition_point(|point| point.1 <= share);
    let Some(&(above, to)) = points.get(place) else {
        return points.last().map_or(0.0, |point| point.0 as f64);
    };
    let (below, from) = place.checked_sub(1).map_or((above, 0), |before| points[before]);
    let along = f64::from(share - from) / f64::from(to - from);
    below as f64 + along * (above - below) as f64
}
