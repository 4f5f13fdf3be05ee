//! Capacity by the round-trip times of packets of two lengths.

use crate::statistics::Estimate;

/// Round-trip times of short and of long packets to a hop, in seconds, in rounds: within a round
/// short and long packets take turns, and rounds to different hops do.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// Difference of the lengths, in bytes.
    pub bytes: u32,
    /// Round-trip times of each round.
    pub rounds: Vec<Round>,
}

/// Round-trip times of short and of long packets.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Those of short packets.
    pub short: Vec<f64>,
    /// Those of long packets.
    pub long: Vec<f64>,
}

/// Ranks of the round-trip times by which the least possible one is bounded, and the factors by
/// which the distance from the least one is multiplied. If times are as probable near the least
/// possible one as up to the rank, that is farther away in 1 of 1000 cases, see [`least`].
const BOUNDS: [(usize, f64); 3] = [(8, 1.68), (16, 0.585), (32, 0.25)];

/// Returns the least possible time of a sample: the least one that was measured, and an interval.
///
/// Of k uniform times above the least possible one, the first is a share u of the k-th above it
/// with a probability of `(1 - u)^(k - 1)` (Robson and Whitlock, "Estimation of a truncation
/// point", Biometrika 51, 1964). The interval is the widest one of several k, so that neither
/// gaps between few times nor a slow rise of their density make it too narrow.
fn least(times: impl Iterator<Item = f64>) -> Option<Estimate> {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    let first = *times.first()?;
    let mut below = 0.0;
    for (rank, factor) in BOUNDS {
        below = f64::max(below, factor * (times.get(rank - 1)? - first));
    }
    Some(Estimate { value: first, low: first - below, high: first })
}

impl Sizes {
    /// Returns the additional time of the long packets, of some rounds.
    fn extra(&self, rounds: &[Round]) -> Option<Estimate> {
        let long = least(rounds.iter().flat_map(|round| round.long.iter().copied()))?;
        let short = least(rounds.iter().flat_map(|round| round.short.iter().copied()))?;
        Some(long.less(short))
    }
}

/// Returns the rate in bit/s of the links between two hops, from the round-trip times to both.
/// `None` if there are too few samples, the interval includes an infinite rate, or the interval
/// of a round contradicts another's: the load of the path or of a host has changed.
pub fn rate_between(near: Option<&Sizes>, far: &Sizes) -> Option<Estimate> {
    let time = |rounds: std::ops::Range<usize>| {
        let far_extra = far.extra(far.rounds.get(rounds.clone())?)?;
        let Some(near) = near else { return Some(far_extra) };
        // Hops may differ in the shortest packets whose errors are as long as those of long ones.
        let share = f64::from(far.bytes) / f64::from(near.bytes);
        Some(far_extra.less(near.extra(near.rounds.get(rounds)?)?.scaled(share)))
    };
    let all = time(0..far.rounds.len())?;
    let mut common = all;
    for round in 0..far.rounds.len() {
        common = common.and(time(round..round + 1)?)?;
    }
    let bits = 8.0 * f64::from(far.bytes);
    (all.low > 0.0).then(|| all.reversed(|time| bits / time))
}

#[cfg(test)]
mod tests {
    use perhop_core::Stream;

    use super::*;

    /// Returns round-trip times over `seconds` and up to `late` more, drawn by `rise`: the greater
    /// it is, the fewer times are near the least one.
    fn times(count: usize, seconds: f64, late: f64, rise: f64, random: &mut Stream) -> Vec<f64> {
        let draw =
            |random: &mut Stream| (random.up_to(1 << 30) as f64 / f64::from(1 << 30)).powf(rise);
        (0..count).map(|_| seconds + late * draw(random)).collect()
    }

    /// Returns what is found of links of `rates` to the near hop and of one of `rate` behind.
    fn found(
        rates: &[f64],
        rate: f64,
        bytes: [u32; 2],
        rise: f64,
        busy: f64,
        seed: u64,
    ) -> Option<Estimate> {
        let mut random = Stream::new(seed, "late");
        let mut hop = |rates: &[f64], bytes: u32| {
            let rounds = (0..4).map(|round| {
                // Other work makes every packet of some rounds late.
                let busy = if round % 2 == 1 { busy } else { 0.0 };
                let least = |bytes: f64| rates.iter().map(|rate| 8.0 * bytes / rate).sum::<f64>();
                let short = times(50, least(1500.0 - f64::from(bytes)), 30e-6, rise, &mut random);
                let long = times(50, least(1500.0) + busy, 30e-6, rise, &mut random);
                Round { short, long }
            });
            Sizes { bytes, rounds: rounds.collect() }
        };
        let near = hop(rates, bytes[0]);
        let far = hop(&[rates, &[rate]].concat(), bytes[1]);
        rate_between(Some(&near), &far)
    }

    /// Intervals contain the truth, whether times near the least one are frequent or rare.
    #[test]
    fn intervals_hold() {
        for rise in [1.0, 1.5, 0.7] {
            let (mut known, mut wrong) = (0, 0);
            for seed in 0..500 {
                let mut random = Stream::new(seed, "rates");
                let rates =
                    [5e6, 10e6, 20e6].map(|rate| rate * (1.0 + random.up_to(9) as f64 / 10.0));
                let rate = 1e6 * (5 + random.up_to(200)) as f64;
                let Some(rated) = found(&rates, rate, [924, 924], rise, 0.0, seed) else {
                    continue;
                };
                known += 1;
                wrong += u32::from(rate < rated.low || rated.high < rate);
            }
            assert!(known > 350 && wrong <= 3, "{rise}: {wrong} of {known}");
        }
    }

    /// Hops whose errors quote different lengths are compared by the byte.
    #[test]
    fn lengths_may_differ() {
        let rate = found(&[10e6], 20e6, [924, 700], 1.0, 0.0, 1).unwrap();
        assert!((rate.value / 20e6 - 1.0).abs() < 0.02, "{rate:?}");
    }

    #[test]
    fn rounds_that_contradict_each_other_say_nothing() {
        let mut hop = Sizes { bytes: 924, rounds: Vec::new() };
        let mut random = Stream::new(1, "late");
        for extra in [1e-3, 1e-3, 1.2e-3, 1e-3] {
            let short = times(50, 0.0, 30e-6, 1.0, &mut random);
            let long = times(50, extra, 30e-6, 1.0, &mut random);
            hop.rounds.push(Round { short, long });
        }
        assert_eq!(rate_between(None, &hop), None);
        hop.rounds.remove(2);
        assert!(rate_between(None, &hop).is_some());
        hop.rounds[0].long.truncate(20);
        assert_eq!(rate_between(None, &hop), None, "too few");
    }
}
