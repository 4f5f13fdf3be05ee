//! Variation of the delay of a link, with which packets overtake each other.

use perhop_core::{Duration, Stream, Time, exp, ln, normal_quantile};

/// Variation of the delay of packets by a random part, above and below zero, as netem's jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Variation {
    /// Unit of the distribution.
    pub by: Duration,
    /// Distribution of the random part in these units.
    pub distribution: VariationDistribution,
    /// True if no packet overtakes another.
    pub in_order: bool,
}

/// Distributions of the random part of a delay, as functions of a uniform number: those of netem
/// (`tabledist` in Linux's `net/sched/sch_netem.c`), whose tables hold the quantiles of these and
/// numbers of at most 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum VariationDistribution {
    /// Uniform from −1 to 1.
    Uniform,
    /// Normal with a standard deviation of 1.
    Normal,
    /// Pareto with a shape of 3 and a mean of 0.
    Pareto,
    /// A quarter of the normal one and three quarters of Pareto's, at the same quantile.
    ParetoNormal,
}

/// The largest number of netem's tables, whose unit is 1/8192 in 16 bits.
const MOST: f64 = 4.0;

impl VariationDistribution {
    /// Returns the quantile at `unit`, in 0 to 1.
    fn quantile(self, unit: f64) -> f64 {
        let normal = || normal_quantile(unit).clamp(-MOST, MOST);
        match self {
            Self::Uniform => 2.0 * unit - 1.0,
            Self::Normal => normal(),
            Self::Pareto => pareto(unit),
            Self::ParetoNormal => 0.25 * normal() + 0.75 * pareto(unit),
        }
    }
}

/// Returns the quantile at `unit` of a Pareto distribution from 1 on with a shape of 3, less its
/// mean of 3/2, in units of its variance of 3/4.
fn pareto(unit: f64) -> f64 {
    let value = exp(-ln((1.0 - unit).max(1e-12)) / 3.0);
    ((value - 1.5) * (4.0 / 3.0)).min(MOST)
}

impl Variation {
    /// Returns a random instant around `at`, not before `earliest`.
    pub(crate) fn around(&self, at: Time, earliest: Time, random: &mut Stream) -> Time {
        let shift = self.distribution.quantile(random.unit()) * self.by.as_picos() as f64;
        let picos = shift.abs().round() as u64;
        let varied = match shift < 0.0 {
            true => Time::from_picos(at.as_picos().saturating_sub(picos)),
            false => at + Duration::from_picos(picos),
        };
        varied.max(earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of iproute2's tables normal.dist, pareto.dist and paretonormal.dist at these shares
    /// of their 4096 entries, which count 1/8192.
    #[test]
    fn quantiles_are_those_of_netems_tables() {
        use VariationDistribution::{Normal, Pareto, ParetoNormal};
        let shares = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99];
        let tables = [
            (Normal, [-19121, -13488, -5525, 0, 5526, 13473, 19064]),
            (Pareto, [-5426, -5274, -4362, -2622, 955, 13255, 32767]),
            (ParetoNormal, [-8849, -7327, -4652, -1966, 2097, 13309, 29341]),
        ];
        for (distribution, values) in tables {
            for (share, value) in shares.into_iter().zip(values) {
                let found = distribution.quantile(share);
                let expected = f64::from(value) / 8192.0;
                assert!((found - expected).abs() < 0.012, "{distribution:?} {share}: {found}");
            }
        }
    }

    /// At an eighth of the tail Pareto's value is 2, a half above its mean in units of 3/4. No
    /// number is beyond 4.
    #[test]
    fn quantiles_are_bounded() {
        use VariationDistribution::{Normal, Pareto, ParetoNormal, Uniform};
        for (distribution, unit, expected) in [
            (Uniform, 0.0, -1.0),
            (Uniform, 0.75, 0.5),
            (Uniform, 1.0, 1.0),
            (Normal, 0.5, 0.0),
            (Normal, 1e-9, -4.0),
            (Normal, 1.0 - 1e-9, 4.0),
            (Pareto, 0.0, -2.0 / 3.0),
            (Pareto, 0.875, 2.0 / 3.0),
            (Pareto, 0.999, 4.0),
            (ParetoNormal, 0.5, 2_f64.cbrt() - 1.5),
            (ParetoNormal, 1.0 - 1e-9, 4.0),
            (ParetoNormal, 1e-9, -1.5),
        ] {
            let found = distribution.quantile(unit);
            assert!((found - expected).abs() < 1e-6, "{distribution:?} {unit}: {found} {expected}");
        }
    }

    #[test]
    fn a_uniform_part_is_as_often_below_zero_as_above() {
        let variation = Variation {
            by: Duration::from_millis(5),
            distribution: VariationDistribution::Uniform,
            in_order: false,
        };
        let mut random = Stream::new(1, "variation");
        let (at, unit) = (Time::from_picos(20_000_000_000), 1_000_000_000);
        let drawn: Vec<u64> =
            (0..20_000).map(|_| variation.around(at, Time::ZERO, &mut random).as_picos()).collect();
        let mean = drawn.iter().sum::<u64>() / 20_000;
        assert!(mean.abs_diff(20 * unit) < unit / 10, "{mean}");
        assert!(drawn.iter().all(|at| (15 * unit..25 * unit).contains(at)));
        assert_eq!(
            variation.around(at, Time::from_picos(26 * unit), &mut random).as_picos(),
            26 * unit
        );
    }
}
