//! Random numbers that a run can repeat.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::elementary::{exp, ln};

/// One component's own stream of random numbers.
///
/// A stream is made from the run's seed and the component's name, so that adding a component
/// changes no other's numbers. The generator is xoshiro256++, the same on every platform.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// Returns the stream of the component `name` in the run with this `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a spreads the name over 64 bits; `seed_from_u64` mixes (SplitMix64).
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(Xoshiro256PlusPlus::seed_from_u64(hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Returns a number in `0..=limit`, with probabilities that differ from uniform by at most
    /// 2⁻⁶⁴.
    pub fn up_to(&mut self, limit: u64) -> u64 {
        let span = u128::from(limit) + 1;
        ((u128::from(self.0.next_u64()) * span) >> 64) as u64
    }

    /// Returns a number in `0..1`, one of 2⁵³ that are equally far apart.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns an exponentially distributed number with a mean of 1, at most 53 ln 2 (36.7): the
    /// logarithm of a uniform number, by arithmetic that every platform rounds alike.
    pub fn exponential(&mut self) -> f64 {
        -ln(1.0 - self.unit())
    }

    /// Returns a number with a Pareto distribution of this `shape`, above 1, and a mean of 1: its
    /// smallest value is (shape − 1) / shape, its variance infinite up to a shape of 2.
    pub fn pareto(&mut self, shape: f64) -> f64 {
        debug_assert!(shape > 1.0);
        (shape - 1.0) / shape * exp(self.exponential() / shape)
    }

    /// Returns a number of a normal distribution with a mean of 0 and a variance of 1, by
    /// Marsaglia's polar method (1964).
    pub fn normal(&mut self) -> f64 {
        loop {
            let [x, y] = [0; 2].map(|_| 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * ln(square) / square).sqrt();
            }
        }
    }

    /// Returns a number with a median of 1 whose logarithm is normally distributed with a standard
    /// deviation of `sigma`. Its mean is e to the power of half of the square of `sigma`.
    pub fn lognormal(&mut self, sigma: f64) -> f64 {
        exp((sigma * self.normal()).clamp(-700.0, 700.0))
    }

    /// Returns the residual life of a renewal process whose lengths are those of
    /// [`pareto`](Self::pareto): its density at x is the probability that a length exceeds x. Its
    /// mean is infinite up to a shape of 2.
    pub fn pareto_residual(&mut self, shape: f64) -> f64 {
        debug_assert!(shape > 1.0);
        let least = (shape - 1.0) / shape;
        let below = self.unit();
        if below < least {
            return below;
        }
        // Beyond the least length, the residual exceeds x with (least / x)^(shape − 1) / shape.
        least * exp(-ln(shape * (1.0 - below)) / (shape - 1.0))
    }

    /// Returns a number of the standard distribution of largest extreme values (Gumbel's), by
    /// inversion. Its mean is Euler's constant.
    pub fn extreme(&mut self) -> f64 {
        -ln(self.exponential().max(f64::MIN_POSITIVE))
    }

    /// Returns `true` with a probability of `ppb` parts per billion.
    pub fn chance_ppb(&mut self, ppb: u32) -> bool {
        self.up_to(999_999_999) < u64::from(ppb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_seed_and_name_alone() {
        let draw = |seed, name| Stream::new(seed, name).up_to(u64::MAX);
        assert_eq!(draw(1, "r1>r2"), draw(1, "r1>r2"));
        assert_ne!(draw(1, "r1>r2"), draw(2, "r1>r2"));
        assert_ne!(draw(1, "r1>r2"), draw(1, "r2>r1"));
    }

    #[test]
    fn numbers_are_portable() {
        // Recorded once; a change here changes every seeded result that users have kept.
        assert_eq!(Stream::new(1, "r1>r2").up_to(999), 109);
        let mut stream = Stream::new(1, "r1>r2");
        let numbers = [stream.exponential(), stream.pareto(1.5), stream.extreme()];
        let recorded = [4593033449104028785, 4600707989362421737, 13832116280726190654];
        assert_eq!(numbers.map(f64::to_bits), recorded);
    }

    #[test]
    fn chance_has_the_probability_asked_for() {
        let mut stream = Stream::new(7, "loss");
        let hits = (0..100_000).filter(|_| stream.chance_ppb(250_000_000)).count();
        // Five standard deviations of a binomial with p = 1/4.
        assert!((24_300..=25_700).contains(&hits), "{hits}");
    }

    #[test]
    fn unit_numbers_are_uniform() {
        let mut stream = Stream::new(7, "early");
        let numbers: Vec<f64> = (0..100_000).map(|_| stream.unit()).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        // Five standard deviations of the mean: 5 · √(1/12) / √100,000.
        let mean = numbers.iter().sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.0046, "{mean}");
    }

    /// The Kolmogorov-Smirnov statistic of a sample, times the root of its size.
    fn distance(mut sample: Vec<f64>, below: impl Fn(f64) -> f64) -> f64 {
        sample.sort_by(f64::total_cmp);
        let size = sample.len() as f64;
        let steps = sample.iter().enumerate();
        let gaps = steps.map(|(rank, &value)| {
            let expected = below(value);
            (expected - rank as f64 / size).max((rank as f64 + 1.0) / size - expected)
        });
        gaps.fold(0.0, f64::max) * size.sqrt()
    }

    /// Value that the statistic exceeds with a probability of one in ten thousand: 2 exp(−2 x²).
    const RARE: f64 = 2.23;

    #[test]
    fn exponential_numbers_are() {
        for seed in 0..10 {
            let mut stream = Stream::new(seed, "gaps");
            let sample: Vec<f64> = (0..100_000).map(|_| stream.exponential()).collect();
            assert!(sample.iter().all(|&number| (0.0..37.0).contains(&number)));
            // Five standard deviations of the mean: 5 / √100,000.
            let mean = sample.iter().sum::<f64>() / 1e5;
            assert!((mean - 1.0).abs() < 0.0158, "{mean}");
            let far = distance(sample, |x| 1.0 - (-x).exp());
            assert!(far < RARE, "{far} with seed {seed}");
        }
    }

    #[test]
    fn pareto_numbers_are() {
        for (seed, shape) in [1.05, 1.2, 1.5, 2.0, 2.5, 7.0].into_iter().enumerate() {
            let mut stream = Stream::new(seed as u64, "times");
            let least = (shape - 1.0) / shape;
            let sample: Vec<f64> = (0..100_000).map(|_| stream.pareto(shape)).collect();
            assert!(sample.iter().all(|&number| number >= least * (1.0 - 1e-15)));
            let far = distance(sample, |x| 1.0 - (least / x).powf(shape));
            assert!(far < RARE, "{far} with shape {shape}");
        }
    }

    #[test]
    fn lognormal_numbers_are() {
        for (seed, sigma) in [0.0, 0.3, 1.0, 2.5].into_iter().enumerate() {
            let mut stream = Stream::new(seed as u64, "sizes");
            let normal: Vec<f64> = (0..100_000).map(|_| stream.normal()).collect();
            // Five standard deviations of the mean and of the mean square, whose variance is 2.
            let mean = normal.iter().sum::<f64>() / 1e5;
            let square = normal.iter().map(|x| x * x).sum::<f64>() / 1e5;
            assert!(mean.abs() < 0.0158 && (square - 1.0).abs() < 0.0224, "{mean}, {square}");
            // A normal number is below −1.2816, −0.6745, 0, … with these probabilities.
            for (limit, share) in [(-1.281_551_6, 0.1), (-0.674_489_8, 0.25), (0.0, 0.5)] {
                let below = normal.iter().filter(|x| **x < limit).count() as f64 / 1e5;
                assert!((below - share).abs() < 0.008, "{below} below {limit}");
            }
            let above = (0..100_000).filter(|_| stream.lognormal(sigma) > 1.0).count() as f64;
            assert!(sigma == 0.0 || (above / 1e5 - 0.5).abs() < 0.008, "{above} above the median");
        }
    }

    #[test]
    fn limits_are_inclusive() {
        let mut stream = Stream::new(3, "jitter");
        let seen: Vec<u64> = (0..100).map(|_| stream.up_to(2)).collect();
        assert!((0..=2).all(|value| seen.contains(&value)));
        assert_eq!(stream.up_to(0), 0);
    }
}
