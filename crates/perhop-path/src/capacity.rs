//! Estimators of the capacity of links: the rate at which a link sends IP packets of the given
//! length (RFC 5136, section 2.3.3).
//!
//! A train leaves a link at which it queues with the spacing of its packets' transmission times
//! there (Dovrolis, Ramanathan, Moore, "Packet-dispersion techniques and a capacity-estimation
//! methodology", IEEE/ACM Transactions on Networking 12(6), 2004). Behind a slower link trains do
//! not queue; there the least round-trip times of packets of two lengths tell the transmission
//! time of their difference (Jacobson, "pathchar", 1997; Downey, "Using pathchar to estimate
//! Internet link characteristics", SIGCOMM 1999).

use serde::Serialize;

use crate::sizes::{Sizes, rate_between};
use crate::statistics::{Estimate, quantile};

/// Returns the slope of the line below all points that is nearest to them on average: the edge of
/// their lower convex hull at the mean abscissa. Delays of single packets are never negative, so
/// that the points without a delay are on this line (Moon, Skelly, Towsley, "Estimation and removal
/// of clock skew from network delay measurements", INFOCOM 1999).
///
/// `None` with fewer than two abscissas. Points are in the order of their abscissas.
pub fn lower_slope(points: &[(f64, f64)]) -> Option<f64> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        while let [.., a, b] = hull[..] {
            let turn = (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0);
            if turn > 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    let mean = points.iter().map(|point| point.0).sum::<f64>() / points.len() as f64;
    let edge = hull.windows(2).find(|edge| edge[1].0 >= mean && edge[1].0 > edge[0].0)?;
    Some((edge[1].1 - edge[0].1) / (edge[1].0 - edge[0].0))
}

/// Trains from which a rate is estimated at least.
const LEAST_TRAINS: usize = 3;

/// Returns the rate in bit/s of the narrowest link up to a hop, from trains of packets of `bytes`.
/// A train is the number of each packet and the time of its answer in seconds.
///
/// Cross traffic and a sender that stalls make trains longer, never shorter in the long run: the
/// estimate is the lower quartile of the spacings, and the interval that of the lower half.
///
/// `None` if there are too few trains.
pub fn narrow_rate(trains: &[Vec<(f64, f64)>], bytes: u32) -> Option<Estimate> {
    let mut slopes: Vec<f64> =
        trains.iter().filter_map(|train| lower_slope(train)).filter(|&it| it > 0.0).collect();
    slopes.sort_by(f64::total_cmp);
    (slopes.len() >= LEAST_TRAINS).then(|| {
        let bits = 8.0 * f64::from(bytes);
        Estimate { value: quantile(&slopes, 0.25), low: slopes[0], high: quantile(&slopes, 0.5) }
            .reversed(|spacing| bits / spacing)
    })
}

/// Returns whether the spacing of a train's answers is that of the answers on the return path, and
/// not that of the train: trains of shorter packets have a spacing in proportion to the lengths of
/// their answers rather than of their packets.
///
/// `spacings`, `packets` and `answers` are those of short packets as a share of those of long ones.
pub fn is_of_answers(spacings: f64, packets: f64, answers: f64) -> bool {
    (spacings - answers).abs() < (spacings - packets).abs()
}

/// Method that found the capacity of a hop, or the reason why it is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// By the spacing of trains: the link is the narrowest so far.
    Trains,
    /// By round-trip times of packets of two lengths.
    Sizes,
    /// Unknown: a link before is as narrow or narrower, and the link is too fast for sizes.
    BehindNarrower,
    /// Unknown: this host did not send faster.
    Sender,
    /// Unknown: the return path is too slow for the answers to trains.
    ReturnPath,
    /// Unknown: the router answered too few packets of a train.
    Unanswered,
}

/// Capacity of the link before a hop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// Method that found it, or the reason why it is unknown.
    pub method: Method,
    /// The rate in bit/s of IP packets of the path MTU; `None` if unknown.
    pub bps: Option<Estimate>,
    /// A rate in bit/s that the link has at least.
    pub at_least_bps: Option<f64>,
    /// The hop at which the stretch of links begins that this is the capacity of: the last one
    /// before this that answered trains. 0 is this host.
    pub from_hop: u8,
}

/// Ratio by which a link must be narrower than those before to be distinguished from them.
const NARROWER: f64 = 1.05;
/// Greatest half width of an interval, as a share, with which a capacity counts as known.
const MOST_UNCERTAINTY: f64 = 0.06;

/// Measurements of a hop.
#[derive(Clone, Debug, Default)]
pub struct HopSeries {
    /// The rate of the narrowest link up to the hop, by trains.
    pub narrow: Option<Estimate>,
    /// True if that is the rate of the return path, see [`is_of_answers`].
    pub of_answers: bool,
    /// The rate in bit/s at which this host sent these trains.
    pub sender_bps: f64,
    /// Round-trip times by size.
    pub sizes: Option<Sizes>,
}

/// Returns the capacity of the link before each hop, from the first.
pub fn capacities(hops: &[HopSeries]) -> Vec<Capacity> {
    // The last hop with an answer, and the narrowest rate up to it.
    let (mut from_hop, mut narrowest) = (0, f64::INFINITY);
    let mut near: Option<(u8, &Sizes)> = None;
    let mut found = Vec::new();
    for (number, series) in hops.iter().enumerate() {
        let hop = number as u8 + 1;
        let by_sizes = series.sizes.as_ref().and_then(|far| match near {
            // The stretch must be the same as that of the trains.
            Some((at, sizes)) if at == from_hop => rate_between(Some(sizes), far),
            None if from_hop == 0 => rate_between(None, far),
            _ => None,
        });
        let by_sizes = by_sizes.filter(|rate| rate.uncertainty() <= MOST_UNCERTAINTY);
        let unknown = |method, at_least_bps| Capacity { method, bps: None, at_least_bps, from_hop };
        let known = |method, rate: Estimate| Capacity {
            method,
            bps: Some(rate),
            at_least_bps: None,
            from_hop,
        };
        found.push(match series.narrow {
            None => unknown(Method::Unanswered, None),
            Some(rate) if series.of_answers => unknown(Method::ReturnPath, Some(rate.low)),
            Some(rate) if rate.value > 0.9 * series.sender_bps => {
                unknown(Method::Sender, Some(rate.low.min(series.sender_bps)))
            }
            Some(rate)
                if rate.value * NARROWER < narrowest && rate.uncertainty() <= MOST_UNCERTAINTY =>
            {
                known(Method::Trains, rate)
            }
            Some(rate) => by_sizes.map_or_else(
                || unknown(Method::BehindNarrower, Some(rate.low)),
                |rate| known(Method::Sizes, rate),
            ),
        });
        if let Some(rate) = series.narrow.filter(|_| !series.of_answers) {
            from_hop = hop;
            narrowest = narrowest.min(rate.value);
            near = series.sizes.as_ref().map(|sizes| (hop, sizes)).or(near);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use perhop_core::Stream;
    use proptest::prelude::*;

    use super::*;
    use crate::sizes::Round;

    /// Times of answers to a train over links of these rates, each late by up to `late` seconds.
    fn train(
        rates: &[f64],
        bytes: u32,
        packets: u32,
        late: f64,
        random: &mut Stream,
    ) -> Vec<(f64, f64)> {
        let mut free = vec![0.0_f64; rates.len()];
        (0..packets)
            .map(|number| {
                let mut at = 0.0;
                for (free, rate) in free.iter_mut().zip(rates) {
                    at = f64::max(at, *free) + 8.0 * f64::from(bytes) / rate;
                    *free = at;
                }
                (f64::from(number), at + late * random.up_to(1000) as f64 / 1000.0)
            })
            .collect()
    }

    proptest! {
        /// The narrowest link is found whatever the delays of single answers.
        #[test]
        fn trains_tell_the_narrowest_rate(
            rates in prop::collection::vec(1e6_f64..1e9, 1..6), seed: u64,
        ) {
            let mut random = Stream::new(seed, "late");
            let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            let trains: Vec<_> =
                (0..7).map(|_| train(&rates, 1500, 200, 60e-6, &mut random)).collect();
            let found = narrow_rate(&trains, 1500).unwrap();
            prop_assert!((found.value / least - 1.0).abs() < 0.03, "{found:?} {least}");
            prop_assert!(found.low <= found.value && found.value <= found.high);
        }
    }

    /// A link behind a narrower one is known within 10%, or unknown, and never slower than the
    /// stated minimum.
    #[test]
    fn links_are_known_or_said_to_be_unknown() {
        let choice = [5e6, 10e6, 20e6, 100e6, 1e9];
        let (mut known, mut wrong) = (0, 0);
        for seed in 0..300 {
            let mut random = Stream::new(seed, "late");
            let length = 1 + random.up_to(5);
            let rates: Vec<f64> = (0..length).map(|_| choice[random.up_to(4) as usize]).collect();
            let mut hops = Vec::new();
            for hop in 1..=rates.len() {
                let way = &rates[..hop];
                let trains: Vec<_> =
                    (0..7).map(|_| train(way, 1500, 200, 30e-6, &mut random)).collect();
                let mut times = |bytes: f64| -> Vec<f64> {
                    let least: f64 = way.iter().map(|rate| 8.0 * bytes / rate).sum();
                    (0..50).map(|_| least + 30e-6 * random.up_to(1000) as f64 / 1000.0).collect()
                };
                let round = |_| Round { short: times(576.0), long: times(1500.0) };
                let sizes = Sizes { bytes: 924, rounds: (0..4).map(round).collect() };
                let narrow = narrow_rate(&trains, 1500);
                hops.push(HopSeries {
                    narrow,
                    of_answers: false,
                    sender_bps: 4e9,
                    sizes: Some(sizes),
                });
            }
            for (found, &rate) in capacities(&hops).iter().zip(&rates) {
                match found.bps {
                    Some(bps) => {
                        known += 1;
                        wrong += u32::from((bps.value / rate - 1.0).abs() >= 0.1);
                    }
                    None => assert!(found.at_least_bps.unwrap() < 1.03 * rate),
                }
            }
        }
        assert!(known > 400, "{known}");
        assert_eq!(wrong, 0);
    }

    #[test]
    fn what_this_host_does_not_exceed_is_unknown() {
        let rate = Estimate { value: 1e9, low: 0.99e9, high: 1.01e9 };
        let rates =
            |narrow| HopSeries { narrow: Some(narrow), sender_bps: 1e9, ..HopSeries::default() };
        let series = rates(rate);
        let silent = HopSeries::default();
        let slow = Estimate { value: 1e8, low: 0.99e8, high: 1.01e8 };
        let behind = rates(slow);
        let back = HopSeries { of_answers: true, ..rates(slow) };
        let found = capacities(&[series, silent, back, behind]);
        let methods: Vec<Method> = found.iter().map(|it| it.method).collect();
        assert_eq!(
            methods,
            [Method::Sender, Method::Unanswered, Method::ReturnPath, Method::Trains]
        );
        assert_eq!((found[3].from_hop, found[3].bps), (1, Some(slow)));
    }

    #[test]
    fn the_way_back_shows_in_trains_of_shorter_packets() {
        // Routers quote 548 bytes of both; half the length takes half the time, or the same.
        assert!(!is_of_answers(0.52, 0.5, 1.0));
        assert!(is_of_answers(0.97, 0.5, 1.0));
    }

    #[test]
    fn the_line_is_below_all_points() {
        let points = [(0.0, 0.0), (1.0, 5.0), (2.0, 4.0), (3.0, 6.5), (4.0, 8.0)];
        assert_eq!(lower_slope(&points), Some(2.0));
        assert_eq!(lower_slope(&points[..1]), None);
        assert_eq!(lower_slope(&[]), None);
    }
}
