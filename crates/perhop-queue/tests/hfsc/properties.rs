//! Properties on random curves, trees and arrivals.

use perhop_core::{Duration, Time};
use perhop_queue::{HfscCurves, HfscSpec, ServiceCurve};
use proptest::prelude::*;

use crate::lab::*;

/// Longest packet in bytes, and the time that it takes.
const LONGEST: u32 = 1500;
const LONGEST_TIME: Duration = Duration::from_micros(LONGEST as u64 * 8 * 1_000_000 / LINK);

/// Returns the service in bits that a curve gives in a time.
fn service(curve: &ServiceCurve, time: Duration) -> f64 {
    let first = time.as_secs_f64().min(curve.d.as_secs_f64());
    first * curve.m1 as f64 + (time.as_secs_f64() - first) * curve.m2 as f64
}

/// Returns the time at which a packet has left its queue: its transmission begins.
fn taken(sent: &Sent) -> Time {
    Time::from_picos(sent.end.as_picos() - sent.size * 8_000_000_000_000 / LINK)
}

/// Returns the begins of the periods in which packets of a class are there, where each leaves at
/// `left`.
fn begins(
    arrivals: &[Arrival],
    sent: &[Sent],
    class: u8,
    left: impl Fn(&Sent) -> Time,
) -> Vec<Time> {
    let times = arrivals.iter().filter(|arrival| arrival.1 == class);
    let times: Vec<Time> =
        times.map(|arrival| Time::ZERO + Duration::from_micros(arrival.0)).collect();
    let left: Vec<Time> = sent.iter().filter(|sent| sent.class == class).map(left).collect();
    let of = |number: usize| {
        // Packets leave in order: none is there if all before this one have left.
        number == 0 || left.get(number - 1).is_some_and(|left| *left <= times[number])
    };
    (0..times.len()).filter(|number| of(*number)).map(|number| times[number]).collect()
}

fn random_arrivals(classes: u8) -> impl Strategy<Value = Vec<Arrival>> {
    let gap = prop_oneof![4 => 0_u64..1_500, 1 => 0_u64..30_000];
    prop::collection::vec((gap, 0..classes, 40..=LONGEST), 1..300).prop_map(|all| {
        let mut now = 0;
        let timed = all.into_iter().map(|(gap, class, size)| {
            now += gap;
            (now, class, size)
        });
        timed.collect()
    })
}

prop_compose! {
    /// Curves of four classes, the steeper slopes of which sum up to the link's rate at most.
    fn realtime_curves()(
        parts in prop::collection::vec((1_u64..100, 1_u64..100, 0_u64..50_000, any::<bool>()), 4),
    ) -> Vec<ServiceCurve> {
        let sum: u64 = parts.iter().map(|part| part.0).sum();
        let one = |(weight, flat, d, concave): (u64, u64, u64, bool)| {
            let steep = LINK * weight / sum;
            let flat = (steep * flat / 100).max(1);
            if concave { curve(steep, d, flat) } else { curve(flat - 1, d, steep) }
        };
        parts.into_iter().map(one).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150, failure_persistence: None, ..Default::default()
    })]

    /// The paper's theorem on real-time service: at the end of each packet, the class has received
    /// what its curve demands of some begin of a backlog of it, as of one longest packet before,
    /// whatever the shares of link sharing and its other service were.
    #[test]
    fn guarantees_are_kept_within_a_packet(
        curves in realtime_curves(),
        arrivals in random_arrivals(4),
        weights in prop::collection::vec(1_u64..1_000, 4),
        nested in any::<bool>(),
    ) {
        let specs = (0_u8..4).map(|class| {
            let index = usize::from(class);
            leaf(class, HfscCurves {
                realtime: Some(curves[index]),
                linkshare: Some(linear(weights[index] * 1_000)),
                upperlimit: None,
            })
        });
        let mut specs: Vec<HfscSpec<usize>> = specs.collect();
        if nested {
            let inner = specs.drain(..2).collect();
            specs.insert(0, interior(&[0, 1], shares(1_000), inner));
        }
        let sent = run(specs, &arrivals, 10_000_000);
        prop_assert_eq!(sent.len(), arrivals.len());
        for class in 0..4_u8 {
            // As in ALTQ and Linux, a class has no backlog while its last packet is transmitted.
            let begins = begins(&arrivals, &sent, class, taken);
            let own: Vec<_> = sent.iter().filter(|sent| sent.class == class).collect();
            for packet in &own {
                let met = begins.iter().filter(|begin| **begin < packet.end).any(|begin| {
                    let received: u64 = own
                        .iter()
                        .filter(|other| taken(other) >= *begin && other.end <= packet.end)
                        .map(|other| 8 * other.size)
                        .sum();
                    let time = packet.end.since(*begin).as_picos();
                    let time = time.saturating_sub(LONGEST_TIME.as_picos());
                    let demanded = service(&curves[usize::from(class)], Duration::from_picos(time));
                    // The curve at the end of its last packet; a nanosecond's bits for rounding.
                    received as f64 + 0.1 >= demanded
                });
                prop_assert!(met, "class {class} at {:?}", packet.end);
            }
        }
    }

    /// With linear curves, backlogged classes share as a fluid does that goes down the tree in
    /// proportion to the slopes among classes with a backlog.
    #[test]
    fn link_sharing_is_that_of_a_fluid(
        outer in prop::collection::vec(1_u64..20, 3),
        inner in prop::collection::vec(1_u64..20, 6),
        backlogged in prop::collection::vec(any::<bool>(), 6),
        size in 100_u32..600,
    ) {
        let megabit = 1_000_000;
        let specs = (0..3_usize).map(|number| {
            let (a, b) = (2 * number as u8, 2 * number as u8 + 1);
            let share = |class: u8| shares(inner[usize::from(class)] * megabit);
            let leaves = [a, b].map(|class| leaf(class, share(class)));
            interior(&[a, b], shares(outer[number] * megabit), leaves.into())
        });
        let classes: Vec<u8> = (0..6).filter(|class| backlogged[usize::from(*class)]).collect();
        prop_assume!(!classes.is_empty());
        let sent = run(specs.collect(), &backlogs(&classes, size), 1_000_000);
        let active = |class: usize| if backlogged[class] { inner[class] } else { 0 };
        let inside = |number: usize| active(2 * number) + active(2 * number + 1);
        let total: u64 = (0..3).filter(|number| inside(*number) > 0).map(|n| outer[n]).sum();
        for class in &classes {
            let class = usize::from(*class);
            let share = outer[class / 2] as f64 / total as f64 * inner[class] as f64
                / inside(class / 2) as f64;
            let rate = rate_of(&sent, class as u8);
            let error = (rate - share * LINK as f64).abs();
            // A few packets in half a second.
            let packets = f64::from(3 * size * 16);
            prop_assert!(error <= 0.01 * rate + packets, "class {class}: {rate}, {share}");
        }
    }

    /// From each arrival when no packet of it is there, not even in transmission, a class gets no
    /// more than its upper limit and one packet, if the limit is concave or linear.
    #[test]
    fn upper_limits_hold(
        slopes in prop::collection::vec((100_000_u64..LINK, 0_u64..50_000, 20_u64..=100), 4),
        arrivals in random_arrivals(4),
    ) {
        let limit = |(m1, d, part): &(u64, u64, u64)| curve(*m1, *d, *m1 * *part / 100);
        let limits: Vec<_> = slopes.iter().map(limit).collect();
        let specs = (0_u8..4).map(|class| {
            let upperlimit = Some(limits[usize::from(class)]);
            leaf(class, HfscCurves { upperlimit, ..shares(1_000_000) })
        });
        let sent = run(specs.collect(), &arrivals, 1_000_000_000);
        prop_assert_eq!(sent.len(), arrivals.len());
        for class in 0..4_u8 {
            let own: Vec<_> = sent.iter().filter(|sent| sent.class == class).collect();
            let curve = &limits[usize::from(class)];
            for begin in begins(&arrivals, &sent, class, |sent| sent.end) {
                let mut received = 0;
                for packet in own.iter().filter(|packet| packet.end > begin) {
                    received += 8 * packet.size;
                    let allowed = service(curve, packet.end.since(begin));
                    let most = allowed + 8.0 * f64::from(LONGEST) + 1.0;
                    prop_assert!(received as f64 <= most, "class {class}: {received} > {most}");
                }
            }
        }
    }
}
