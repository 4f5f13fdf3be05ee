//! Correlated loss: the model of Gilbert and Elliott.

use perhop_core::Stream;

/// Correlated loss of packets, by a Markov chain of two states that takes a step with each packet.
///
/// Each state has a probability of loss. In Gilbert's model the good state loses nothing (E. N.
/// Gilbert, *Capacity of a burst-noise channel*, Bell System Technical Journal 39, 1960); Elliott
/// adds losses in the good state (*Estimates of error rates for codes on burst-noise channels*,
/// same journal 42, 1963). The parameters are those of netem's `loss gemodel`, where `bad` is 1 − h
/// and `good` is 1 − k. All are in parts per billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Gilbert {
    /// Probability of a step from the good state to the bad one.
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::share"))]
    #[cfg_attr(feature = "serde", schemars(with = "u32"))]
    pub p: u32,
    /// Probability of a step from the bad state to the good one.
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::share"))]
    #[cfg_attr(feature = "serde", schemars(with = "u32"))]
    pub r: u32,
    /// Probability of a loss in the good state.
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::share"))]
    #[cfg_attr(feature = "serde", schemars(with = "u32"))]
    pub good: u32,
    /// Probability of a loss in the bad state.
    #[cfg_attr(feature = "serde", serde(with = "perhop_core::spelling::share"))]
    #[cfg_attr(feature = "serde", schemars(with = "u32"))]
    pub bad: u32,
}

impl Gilbert {
    /// Returns `true` if the next packet is lost.
    ///
    /// `bad` is the state of the previous packet. Without one, the state has the stationary
    /// distribution, so that the mean loss does not depend on the number of packets.
    pub(crate) fn loses(&self, bad: &mut Option<bool>, random: &mut Stream) -> bool {
        let now = match *bad {
            Some(true) => !random.chance_ppb(self.r),
            Some(false) => random.chance_ppb(self.p),
            None => {
                let (p, r) = (u64::from(self.p), u64::from(self.r));
                p > 0 && random.up_to(p + r - 1) < p
            }
        };
        *bad = Some(now);
        let loss = if now { self.bad } else { self.good };
        loss > 0 && random.chance_ppb(loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: usize = 200_000;

    /// Returns the share of lost packets, and the mean number of packets lost in a row.
    fn losses(gilbert: Gilbert, seed: u64) -> (f64, f64) {
        let mut random = Stream::new(seed, "gilbert");
        let mut bad = None;
        let (mut lost, mut bursts, mut before) = (0_usize, 0_usize, false);
        for _ in 0..PACKETS {
            let now = gilbert.loses(&mut bad, &mut random);
            lost += usize::from(now);
            bursts += usize::from(now && !before);
            before = now;
        }
        (lost as f64 / PACKETS as f64, lost as f64 / bursts as f64)
    }

    /// Compares the mean and the length of bursts with the chain's, within five standard
    /// deviations.
    ///
    /// With losses of certainty, states and losses are the same. The mean is p / (p + r); the
    /// variance of the sum is n · m (1 − m) (1 + λ) / (1 − λ) with λ = 1 − p − r, because the
    /// correlation of states k steps apart is λᵏ. The length of a burst is geometric with the mean
    /// 1 / r and the variance (1 − r) / r².
    #[test]
    fn mean_and_bursts_are_those_of_the_chain() {
        for (seed, p, r) in [(1, 0.01, 0.2), (2, 0.002, 0.5), (3, 0.1, 0.05), (4, 0.3, 0.9)] {
            let ppb = |share: f64| (share * 1e9).round() as u32;
            let gilbert = Gilbert { p: ppb(p), r: ppb(r), good: 0, bad: 1_000_000_000 };
            let (mean, burst) = losses(gilbert, seed);
            let (expected, memory) = (p / (p + r), 1.0 - p - r);
            let variance = expected * (1.0 - expected) * (1.0 + memory) / (1.0 - memory);
            let spread = 5.0 * (variance / PACKETS as f64).sqrt();
            assert!((mean - expected).abs() < spread, "{mean} of {expected} ± {spread}");
            let bursts = PACKETS as f64 * expected * r;
            let spread = 5.0 * ((1.0 - r) / (r * r) / bursts).sqrt();
            assert!((burst - 1.0 / r).abs() < spread, "{burst} of {} ± {spread}", 1.0 / r);
        }
    }

    /// The probability of a loss is the mean of both states' probabilities, by their shares. Given
    /// a loss, the state is known better, and so is the loss of the next packet (Elliott, 1963).
    #[test]
    fn both_states_can_lose() {
        let gilbert = Gilbert { p: 50_000_000, r: 200_000_000, good: 10_000_000, bad: 500_000_000 };
        let (mean, burst) = losses(gilbert, 5);
        let (in_good, in_bad) = (0.8 * 0.01, 0.2 * 0.5);
        // Five standard deviations, of which correlation makes at most (1 + 0.75) / (1 − 0.75).
        let spread = 5.0 * (0.108 * 0.892 * 7.0 / PACKETS as f64).sqrt();
        assert!((mean - (in_good + in_bad)).abs() < spread, "{mean} ± {spread}");
        let after = (in_good * (0.95 * 0.01 + 0.05 * 0.5) + in_bad * (0.2 * 0.01 + 0.8 * 0.5))
            / (in_good + in_bad);
        // A burst ends with a packet that arrives: losses per burst are 1 / (1 − P(loss | loss)).
        assert!((burst - 1.0 / (1.0 - after)).abs() < 0.05, "{burst}");
    }

    /// The first packet of each of many directions is lost with the mean probability.
    #[test]
    fn the_first_packet_is_lost_as_often_as_others() {
        for (p, r) in [(10_000_000, 40_000_000), (1, 4)] {
            let gilbert = Gilbert { p, r, good: 0, bad: 1_000_000_000 };
            let first = |seed| gilbert.loses(&mut None, &mut Stream::new(seed, "first"));
            let lost = (0..10_000).filter(|&seed| first(seed)).count();
            // Five standard deviations of a binomial with p = 1/5.
            assert!((1_800..=2_200).contains(&lost), "{lost}");
        }
    }
}
