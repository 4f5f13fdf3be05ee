use perhop_core::Stream;
use proptest::prelude::*;

use super::*;

const SECOND: f64 = 1e9;
/// Start of the tests by A's clock: a present date, so that numbers have realistic sizes.
const START: u64 = 1_790_000_000_000_000_000;

/// Two clocks and a path, drawn at random.
#[derive(Clone, Debug)]
struct World {
    /// B's clock minus A's at the start, in nanoseconds.
    offset: f64,
    /// Rate at the start, in ppb.
    rate: f64,
    /// Amplitude in ppb, and period in seconds, of a rate that changes as a sine.
    swing: (f64, f64),
    /// Shortest delay of each direction, in nanoseconds.
    delays: [f64; 2],
    /// Mean of what queueing adds in each direction, in nanoseconds.
    queues: [f64; 2],
    /// Part of packets that wait.
    busy: f64,
    /// Part of exchanges that are lost.
    loss: f64,
    seed: u64,
}

impl World {
    /// The offset so many nanoseconds after the start by A's clock.
    fn truth(&self, at: f64) -> f64 {
        let (amplitude, period) = (self.swing.0, self.swing.1 * SECOND);
        let turn = std::f64::consts::TAU / period;
        let wave = amplitude / turn * (1.0 - (turn * at).cos());
        self.offset + (self.rate * at + wave) * 1e-9
    }

    /// B's clock when A's shows so much after the start.
    fn there(&self, at: f64) -> u64 {
        START.wrapping_add_signed((at + self.truth(at)).round() as i64)
    }

    /// An exchange at this time after the start, with this much extra delay each way.
    fn exchange(&self, at: f64, extra: [f64; 2]) -> Exchange {
        let arrives = at + self.delays[0] + extra[0];
        let leaves = arrives + 20_000.0;
        let returns = leaves + self.delays[1] + extra[1];
        let here = |at: f64| START + at.round() as u64;
        Exchange {
            sent: here(at),
            received: self.there(arrives),
            replied: self.there(leaves),
            returned: here(returns),
        }
    }

    /// Runs exchanges at this distance for some seconds, and hands over the estimator after each.
    fn run(&self, seconds: f64, every: f64, mut check: impl FnMut(f64, &ClockEstimator)) {
        let mut random = Stream::new(self.seed, "clock");
        let mut estimator = ClockEstimator::new(ClockModel::default());
        let mut at = 0.0;
        while at < seconds * SECOND {
            let mut unit = || random.up_to(1_000_000) as f64 / 1e6;
            let mut extra = |mean: f64| {
                let waits = unit() < self.busy;
                let time = -(1.0 - unit() * 0.999_999).ln() * mean;
                if waits { time } else { 0.0 }
            };
            let exchange = self.exchange(at, [extra(self.queues[0]), extra(self.queues[1])]);
            if unit() >= self.loss {
                estimator.add(exchange);
                check((exchange.returned - START) as f64, &estimator);
            }
            at += every * SECOND;
        }
    }

    fn error(&self, at: f64, estimate: &ClockEstimate) -> f64 {
        (estimate.offset_at(START + at as u64) as f64 - self.truth(at)).abs()
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let signed = |limit: f64| -limit..limit;
    // A sine's rate changes by at most amplitude times 2π/period: less than the model's 10 ppb/s.
    let swing = (0.0..9.0_f64, 20.0..600.0_f64)
        .prop_map(|(wander, period): (f64, f64)| (wander * period / std::f64::consts::TAU, period));
    let delay = || (10_000.0_f64.ln()..1e8_f64.ln()).prop_map(f64::exp);
    let queue = || (1_000.0_f64.ln()..1e8_f64.ln()).prop_map(f64::exp);
    (
        (signed(5e9), signed(200_000.0), swing),
        ([delay(), delay()], [queue(), queue()], 0.0..1.0, 0.0..0.5),
        any::<u64>(),
    )
        .prop_map(|((offset, rate, swing), (delays, queues, busy, loss), seed)| World {
            offset,
            rate,
            swing,
            delays,
            queues,
            busy,
            loss,
            seed,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever the paths do, the truth is within the bound: now, before and later.
    #[test]
    fn the_truth_is_within_the_bound(world in worlds(), every in 0.02..2.0_f64) {
        world.run(every * 150.0, every, |at, estimator| {
            for then in [at, at * 0.6, at + 1e9] {
                let estimate = estimator.at(START + then as u64).expect("exchanges agree");
                let error = world.error(then, &estimate);
                assert!(error <= estimate.bound as f64 + 1.0, "{error} {estimate:?}");
                // From an estimate at another instant, too.
                let error = world.error(then + 3e9, &estimate);
                assert!(error <= estimate.bound_at(START + (then + 3e9) as u64) as f64 + 2.0);
            }
            assert_eq!(estimator.resets(), 0);
            assert!(estimator.forward.points.len() <= POINTS);
            assert!(estimator.backward.points.len() <= POINTS);
        });
    }

    /// Where delays are equal and some packets do not wait, the error is microseconds, although the
    /// bound is that of the delay. The directions may wait at different times, and differently.
    #[test]
    fn the_error_is_small_when_some_packets_do_not_wait(mut world in worlds()) {
        world.delays[1] = world.delays[0];
        world.busy *= 0.8;
        world.loss *= 0.4;
        world.run(20.0, 0.1, |at, estimator| {
            if at < 5e9 {
                return;
            }
            let estimate = estimator.at(START + at as u64).expect("exchanges agree");
            let error = world.error(at, &estimate);
            assert!(error < 10_000.0, "{error} {estimate:?}");
        });
    }

    /// No numbers make it panic.
    #[test]
    fn any_numbers_are_taken(numbers in prop::collection::vec(any::<[u64; 4]>(), 1..50)) {
        let mut estimator = ClockEstimator::new(ClockModel::default());
        for [sent, received, replied, returned] in numbers {
            estimator.add(Exchange { sent, received, replied, returned });
            if let Some(estimate) = estimator.at(returned) {
                let _ = (estimate.offset_at(sent), estimate.bound_at(replied));
            }
        }
    }
}

/// Clocks that differ by 3 s and 50 ppm, and packets that take 2 ms.
fn plain() -> World {
    World {
        offset: 3.2e9,
        rate: 50_000.0,
        swing: (0.0, 1.0),
        delays: [2e6, 2e6],
        queues: [0.0; 2],
        busy: 0.0,
        loss: 0.0,
        seed: 1,
    }
}

#[test]
fn the_bound_is_half_of_the_round_trip() {
    let world = plain();
    world.run(60.0, 0.2, |at, estimator| {
        let estimate = estimator.at(START + at as u64).unwrap();
        assert!(world.error(at, &estimate) < if at > 1e9 { 3.0 } else { 3e3 }, "{estimate:?}");
        if at > 10e9 {
            assert!((2_000_000..2_003_000).contains(&estimate.bound), "{estimate:?}");
            assert!(estimate.round_trip.abs_diff(4_000_000) < 2_000);
            assert!((estimate.rate_ppb - 50_000.0).abs() < 60.0, "{estimate:?}");
        }
    });
}

/// Half of a difference in delay is the error, which no exchange can tell, and the bound has it.
#[test]
fn unequal_delays_stay_within_the_bound() {
    let world = World { delays: [100_000.0, 3_900_000.0], ..plain() };
    world.run(30.0, 0.2, |at, estimator| {
        let estimate = estimator.at(START + at as u64).unwrap();
        let error = world.error(at, &estimate);
        assert!(error <= estimate.bound as f64, "{error} {estimate:?}");
        assert!(at < 10e9 || (error - 1_900_000.0).abs() < 2_000.0, "{error}");
    });
}

/// A queue that stands for half a minute in one direction is not taken for drift.
#[test]
fn a_standing_queue_is_no_drift() {
    let world = plain();
    let mut estimator = ClockEstimator::new(ClockModel::default());
    let mut random = Stream::new(1, "queue");
    for number in 0..600_u32 {
        let at = f64::from(number) * 0.1 * SECOND;
        let wait = if number >= 300 { 20e6 + random.up_to(2_000_000) as f64 } else { 0.0 };
        let exchange = world.exchange(at, [wait, random.up_to(5_000) as f64]);
        estimator.add(exchange);
        if number > 20 {
            let estimate = estimator.at(exchange.returned).unwrap();
            let at = (exchange.returned - START) as f64;
            assert!(world.error(at, &estimate) < 20_000.0, "{number} {estimate:?}");
        }
    }
}

#[test]
fn what_hosts_state_intersects_with_what_exchanges_show() {
    let world = World { offset: 300_000.0, ..plain() };
    let mut estimator = ClockEstimator::new(ClockModel::default());
    assert!(!estimator.add_stated(START, 1), "nothing is known yet");
    let exchange = world.exchange(0.0, [2e6, 2e6]);
    estimator.add(exchange);
    let alone = estimator.at(exchange.returned).unwrap();
    let truth = world.truth((exchange.returned - START) as f64);
    let stated = truth.abs() as u64 + 50_000;
    assert!(estimator.add_stated(exchange.returned, stated));
    let found = estimator.at(exchange.returned).unwrap();
    assert!(found.bound < alone.bound && found.bound <= stated + 2_000, "{alone:?} {found:?}");
    assert!(world.error((exchange.returned - START) as f64, &found) <= found.bound as f64);
    // The exchange shows that the clock is at most 2 ms behind: it cannot be 5 ms ahead of that.
    let far = World { offset: 5e6, ..plain() };
    let mut other = ClockEstimator::new(ClockModel::default());
    other.add(far.exchange(0.0, [0.0; 2]));
    let before = other.at(START + 1);
    assert!(!other.add_stated(START, 100_000));
    assert_eq!(other.at(START + 1), before);
    // Later, only what the clocks may have parted by since then is added.
    assert!(found.bound_at(exchange.returned + 1_000_000_000) < found.bound + 700_000);
}

#[test]
fn a_clock_that_is_set_is_noticed() {
    let (mut world, mut estimator) = (plain(), ClockEstimator::new(ClockModel::default()));
    for number in 0..200_u32 {
        if number == 100 {
            world.offset += 0.1 * SECOND;
        }
        estimator.add(world.exchange(f64::from(number) * 0.1 * SECOND, [0.0; 2]));
    }
    assert_eq!(estimator.resets(), 1);
    let estimate = estimator.at(START + 20_000_000_000).unwrap();
    assert!(world.error(20e9, &estimate) < 100.0, "{estimate:?}");
}

#[test]
fn it_does_not_grow_within_days() {
    let world = World { swing: (500.0, 86_400.0), ..plain() };
    world.run(3.0 * 86_400.0, 10.0, |at, estimator| {
        assert!(estimator.forward.points.len() + estimator.backward.points.len() <= 2 * POINTS);
        if at as u64 % 1_000_000_000_000 < 10_000_000_000 {
            let estimate = estimator.at(START + at as u64).unwrap();
            assert!(world.error(at, &estimate) < 5_000.0, "{at} {estimate:?}");
        }
    });
}
