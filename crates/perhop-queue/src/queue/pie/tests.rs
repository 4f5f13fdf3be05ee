//! Single decisions and updates of RFC 8033 worked out by hand, on both sides of each bound.

use super::*;

const CONFIG: PieConfig = PieConfig {
    limit: Limit::packets(1_000),
    target: Duration::from_millis(15),
    update: Duration::from_millis(15),
    alpha: PieConfig::ALPHA,
    beta: PieConfig::BETA,
    burst: Duration::from_millis(150),
    ecn: true,
};

const PICO: Duration = Duration::from_picos(1);

/// A stream with a first number from 0.125 to 0.84, so that a draw drops at a probability of 0.84,
/// and not at an eighth.
fn random() -> Stream {
    let mut streams = (0..).map(|seed| Stream::new(seed, "pie"));
    let middle = |stream: &Stream| (0.125..0.84).contains(&stream.clone().unit());
    streams.find(middle).unwrap()
}

/// A state in which a draw decides: no burst allowance, a delay of the target, and a sum of
/// probabilities of 1 with the next one.
fn ready(probability: f64) -> Control {
    let controller =
        Controller { probability, old_delay: CONFIG.target, burst_allowance: Duration::ZERO };
    Control { controller, accumulated: 1.0 - probability, ..Control::new(&CONFIG) }
}

/// A change of a state.
type Change<'a> = &'a dyn Fn(&mut Control);

/// Sections 4.1, 4.4 and 5.4: when an arrival is let pass whatever the probability, here of 0.9999
/// or as given, and when it is dropped without a draw.
#[test]
fn safeguards_by_hand() {
    let half = CONFIG.target / 2;
    let just_below = Duration::from_picos(half.as_picos() - 1);
    let drops = |change: Change, bytes| {
        let mut control = ready(0.9999);
        change(&mut control);
        control.drop_early(&CONFIG, Bytes::new(bytes), &mut random())
    };
    let delay = |delay, probability| {
        move |control: &mut Control| {
            control.controller.old_delay = delay;
            control.controller.probability = probability;
            control.accumulated = 9.0;
        }
    };
    let sum = |sum: f64, probability: f64| {
        move |control: &mut Control| {
            control.controller.probability = probability;
            control.accumulated = sum - probability;
        }
    };
    let nothing = |_: &mut Control| {};
    let burst = |control: &mut Control| control.controller.burst_allowance = PICO;
    let rows: [(Change, u64, bool); 14] = [
        // The queue has two packets of 1500 bytes at most.
        (&nothing, 3001, true),
        (&nothing, 3000, false),
        (&nothing, 0, false),
        // A burst is let through.
        (&burst, 9000, false),
        // Half of the target and a fifth: both below.
        (&delay(just_below, 0.19), 9000, false),
        (&delay(just_below, 0.2), 9000, true),
        (&delay(half, 0.19), 9000, true),
        (&delay(half, 0.0001), 9000, true),
        // From a sum of 0.85 on the draw decides; from one of 8.5 on there is none.
        (&sum(0.84, 0.84), 9000, false),
        (&sum(0.85, 0.85), 9000, true),
        (&sum(0.875, 0.125), 9000, false),
        (&sum(8.375, 0.125), 9000, false),
        (&sum(8.5, 0.125), 9000, true),
        (&sum(9.0, 0.125), 9000, true),
    ];
    for (change, bytes, expected) in rows {
        assert_eq!(drops(change, bytes), expected);
    }
}

/// A sum begins anew with each drop, and at a probability of zero; what the safeguards let pass
/// does not count.
#[test]
fn the_sum_of_probabilities_by_hand() {
    let mut random = random();
    let mut control = Control { accumulated: 0.0, ..ready(0.25) };
    for sum in [0.25, 0.5, 0.75] {
        assert!(!control.drop_early(&CONFIG, Bytes::new(9000), &mut random));
        assert_eq!(control.accumulated, sum);
        assert!(!control.drop_early(&CONFIG, Bytes::new(3000), &mut random));
        assert_eq!(control.accumulated, sum);
    }
    control.accumulated = 8.25;
    assert!(control.drop_early(&CONFIG, Bytes::new(9000), &mut random));
    assert_eq!(control.accumulated, 0.0);
    control.accumulated = 0.5;
    control.full();
    assert_eq!(control.accumulated, 0.0);
    control.accumulated = 0.5;
    control.controller.probability = 0.0;
    assert!(!control.drop_early(&CONFIG, Bytes::new(9000), &mut random));
    assert_eq!(control.accumulated, 0.0);
}

/// Section 5.1: below a tenth a packet is marked, from there on dropped.
#[test]
fn marks_end_at_a_tenth() {
    use perhop_core::Ecn;
    for (probability, ecn, capable, marks) in [
        (0.099, true, true, 1),
        (0.1, true, true, 0),
        (0.099, false, true, 0),
        (0.099, true, false, 0),
    ] {
        let mut control = Control { accumulated: 8.5, ..ready(probability) };
        let mut packet = crate::lab::packet(1000, 0);
        let mark = if capable { Ecn::Ect0 } else { Ecn::NotEct };
        packet.header.traffic_class = packet.header.traffic_class.with_ecn(mark);
        let config = PieConfig { ecn, ..CONFIG };
        let backlog = Backlog { packets: 9, bytes: Bytes::new(9000) };
        let mut ledger = Ledger::new();
        let admitted = control.admit(&config, backlog, packet, &mut random(), &mut ledger);
        assert_eq!((admitted.is_some(), ledger.marks), (marks > 0, marks));
        assert_eq!(ledger.drops.len() as u64, 1 - marks);
    }
}

/// Returns the probability after an update with the delays before and now, in milliseconds.
fn updated(probability: f64, old: u64, now: u64) -> f64 {
    let mut controller = Controller {
        probability,
        old_delay: Duration::from_millis(old),
        burst_allowance: Duration::ZERO,
    };
    controller.update(&CONFIG, Duration::from_millis(now));
    assert_eq!(controller.old_delay, Duration::from_millis(now));
    controller.probability
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found}, not {expected}");
}

/// Section 4.2: 0.125 / s · 100 ms above the target are 0.0125, divided by 2 to 2048 while the
/// probability is below the bounds of the table (section 5.2).
#[test]
fn the_table_of_steps_by_hand() {
    for (probability, divisor) in [
        (0.0, 2048.0),
        (0.000_000_999, 2048.0),
        (0.000_001, 512.0),
        (0.000_009_99, 512.0),
        (0.000_01, 128.0),
        (0.000_099_9, 128.0),
        (0.000_1, 32.0),
        (0.000_999, 32.0),
        (0.001, 8.0),
        (0.009_99, 8.0),
        (0.01, 2.0),
        (0.099_9, 2.0),
        (0.1, 1.0),
        (0.5, 1.0),
    ] {
        assert_near(updated(probability, 115, 115), probability + 0.0125 / divisor);
    }
}

/// A growth of 1 ms adds 1.25 / s · 1 ms; from a tenth on, the probability rises by 0.02 at most
/// (section 5.5); it falls without that bound, and decays by 2% more if there is no delay (section
/// 4.2). It stays between 0 and 1.
#[test]
fn updates_by_hand() {
    for (probability, old, now, expected) in [
        // 0.125 · 0.001 + 1.25 · 0.001
        (0.5, 15, 16, 0.5 + 0.001_375),
        (0.5, 16, 15, 0.5 - 0.001_25),
        (0.5, 0, 15, 0.5 + 0.018_75),
        (0.5, 0, 16, 0.5 + 0.02),
        (0.1, 1000, 1000, 0.12),
        (0.099, 1000, 1000, 0.099 + 0.123_125 / 2.0),
        (0.5, 100, 15, 0.5 - 0.106_25),
        (0.5, 0, 0, (0.5 - 0.001_875) * 0.98),
        (0.5, 1, 0, 0.5 - 0.001_875 - 0.001_25),
        (0.5, 0, 1, 0.5 - 0.001_75 + 0.001_25),
        (0.99, 1000, 1000, 1.0),
        (0.05, 200, 0, 0.0),
    ] {
        assert_near(updated(probability, old, now), expected);
    }
}

/// Section 4.4: the allowance falls by the time between updates, down to zero. It is whole again
/// once the probability is zero and two delays in a row are below half of the target.
#[test]
fn the_burst_allowance_by_hand() {
    let picos = |half: i64| {
        Duration::from_picos((CONFIG.target.as_picos() as i64 / 2 + half).cast_unsigned())
    };
    let whole = CONFIG.burst;
    for (probability, old, now, allowance, expected) in [
        (0.5, picos(0), picos(0), Duration::from_millis(150), Duration::from_millis(135)),
        (0.5, picos(0), picos(0), Duration::from_millis(15), Duration::ZERO),
        (0.5, picos(0), picos(0), Duration::from_millis(14), Duration::ZERO),
        (0.5, Duration::ZERO, Duration::ZERO, Duration::ZERO, Duration::ZERO),
        (0.0, picos(-1), picos(-1), Duration::ZERO, whole),
        (0.0, picos(0), picos(-1), Duration::ZERO, Duration::ZERO),
        (0.0, picos(-1), picos(0), Duration::ZERO, Duration::ZERO),
        // It becomes zero in this update.
        (0.000_001, picos(-1), picos(-2), Duration::ZERO, whole),
    ] {
        let mut controller = Controller { probability, old_delay: old, burst_allowance: allowance };
        controller.update(&CONFIG, now);
        assert_eq!(controller.burst_allowance, expected, "{probability} {old:?} {now:?}");
    }
}

/// The delay of the last packet counts while packets wait. At each 15 ms the updates up to then are
/// made, also after a time in which nothing changes.
#[test]
fn updates_come_at_their_times() {
    let at = |micros| Time::ZERO + Duration::from_micros(micros);
    let mut control = Control { delay: Duration::from_millis(115), ..Control::new(&CONFIG) };
    control.catch_up(&CONFIG, false, at(14_999));
    assert_eq!((control.controller.probability, control.next_update), (0.0, at(15_000)));
    control.catch_up(&CONFIG, false, at(15_000));
    assert!(control.controller.probability > 0.0);
    assert_eq!(control.next_update, at(30_000));
    // An empty queue has no delay. The probability is zero soon, and the times stay as they are.
    for (now, next) in [
        (30_000, 45_000),
        (59_999, 60_000),
        (60_000, 75_000),
        (15_000_000, 15_015_000),
        (29_999_999, 30_000_000),
        (60_000_001, 60_015_000),
    ] {
        control.catch_up(&CONFIG, true, at(now));
        assert_eq!(control.next_update, at(next), "{now}");
        assert_eq!(control.controller.old_delay, Duration::ZERO);
    }
    assert_eq!(control.controller.probability, 0.0);
}
