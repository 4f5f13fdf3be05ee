//! Guarantees of tables: sums, slices, marks, determinism.

use perhop_core::Time;
use proptest::prelude::*;
use serde_json::json;

use crate::lab::*;

const END: u64 = 4 * SECOND;

/// Columns of counters, whose sums do not depend on the marks.
const COUNTS: [(&str, &[&str], &str); 3] = [
    (
        "intervals",
        &["bytes", "packets", "lost", "reordered", "retransmits", "rtt_samples", "srtt_samples"],
        "flow",
    ),
    (
        "queues",
        &[
            "sent_packets",
            "sent_bytes",
            "dropped_packets",
            "dropped_limit",
            "dropped_policer",
            "dropped_early",
            "marked_packets",
            "conformed_packets",
            "conformed_bytes",
            "exceeded_packets",
            "exceeded_bytes",
        ],
        "class",
    ),
    ("links", &["sent_packets", "sent_bytes", "lost_packets"], "link"),
];

/// Sums of every count, by flow, class or port.
fn totals(results: &Results) -> Vec<i64> {
    let mut totals = Vec::new();
    for (table, columns, key) in COUNTS {
        let members = results.integers(table, key).iter().max().unwrap() + 1;
        for column in columns {
            let sum = |member: i64| -> i64 {
                results.of_rows(table, column, key, member as usize).iter().sum()
            };
            totals.extend((0..members).map(sum));
        }
    }
    totals
}

#[test]
fn sums_over_stretches_are_the_totals_wherever_the_marks_are() {
    let once = run(&everything(1, &[END]));
    let irregular = [1, 2, MILLISECOND, 333 * MILLISECOND + 7, SECOND, 3 * SECOND - 1, END];
    let often = every(10 * MILLISECOND, END);
    assert!(once.flow(0, "bytes") > 100_000, "the case is too quiet to tell");
    for marks in [&irregular[..], &often] {
        let results = run(&everything(1, marks));
        assert_eq!(totals(&results), totals(&once));
        // Round-trip times over the whole run do not depend on marks either.
        for table in ["rtts", "srtts"] {
            assert_eq!(results.histogram(table, "flow"), once.histogram(table, "flow"));
        }
        assert_eq!(results.rtts(0), once.rtts(0));
    }
}

#[test]
fn stretches_follow_each_other_from_the_beginning_to_the_end() {
    let marks = [1, 2, MILLISECOND, 333 * MILLISECOND + 7, SECOND, 3 * SECOND - 1, END];
    let results = run(&everything(1, &marks));
    let ends: Vec<f64> = marks.into_iter().map(seconds).collect();
    let starts: Vec<f64> = [0.0].into_iter().chain(ends.iter().copied()).take(ends.len()).collect();
    for (table, rows) in [("intervals", 8), ("queues", 3 + 6), ("links", 6)] {
        let column = |name| results.floats(table, name).iter().copied().step_by(rows);
        assert!(column("start_s").eq(starts.iter().copied()), "{table}");
        assert!(column("end_s").eq(ends.iter().copied()), "{table}");
        assert_eq!(results.floats(table, "end_s").len(), rows * ends.len());
    }
}

#[test]
fn round_trip_times_of_stretches_agree_with_the_histogram() {
    let results = run(&everything(1, &every(100 * MILLISECOND, END)));
    agree_with_the_histogram(&results, "rtt");
    agree_with_the_histogram(&results, "srtt");
}

fn agree_with_the_histogram(results: &Results, name: &str) {
    let table = &format!("{name}s");
    let samples = results.integers("intervals", &format!("{name}_samples"));
    let [means, lows, highs] = ["_s", "_min_s", "_max_s"]
        .map(|part| results.floats("intervals", &format!("{name}{part}")));
    for row in 0..samples.len() {
        let none = [means[row], lows[row], highs[row]].map(f64::is_nan);
        assert_eq!(none, [samples[row] == 0; 3]);
        assert!(samples[row] == 0 || lows[row] <= means[row] + 1e-12);
        assert!(samples[row] == 0 || means[row] <= highs[row] + 1e-12);
    }
    for flow in 0..4 {
        let of_rows = results.integers(table, "flow").iter().enumerate();
        let bins: Vec<usize> =
            of_rows.filter(|(_, of)| **of == flow as i64).map(|(row, _)| row).collect();
        let count: i64 = bins.iter().map(|&bin| results.integers(table, "samples")[bin]).sum();
        assert_eq!(count as u64, results.flow(flow, &format!("{name}_samples")));
        let of_flow = results.integers("intervals", "flow").iter().zip(lows.iter().zip(highs));
        for (_, (low, high)) in
            of_flow.filter(|(of, (low, _))| **of == flow as i64 && !low.is_nan())
        {
            // No sample is outside the non-empty bins, whose rows are of two windows.
            assert!(bins.iter().any(|&bin| results.floats(table, "low_s")[bin] <= *low));
            assert!(bins.iter().any(|&bin| *high < results.floats(table, "high_s")[bin]));
        }
    }
}

/// For a flow with one segment at a time and a round trip a little above 10 ms, the smoothed
/// round-trip time equals each measurement, and is read once in every 10 ms.
#[test]
fn a_smoothed_round_trip_time_is_read_every_ten_milliseconds() {
    let end = 2 * SECOND;
    let links = [link([0, 1], 100_000_000, 5 * MILLISECOND)];
    let mut plan = plan("hh", &links, &every(SECOND, end));
    plan["flows"] = json!([tcp(0, 1, json!({"send_window": 1460, "delayed_ack": 0}), json!({}))]);
    let results = run(&plan);
    for column in ["srtt_s", "srtt_min_s", "srtt_max_s"] {
        // In the second second, because the handshake's packets are small.
        let [smoothed, sampled] =
            [column, "rtt_s"].map(|column| results.floats("intervals", column)[1]);
        assert!((smoothed - sampled).abs() < 1e-9, "{column}: {smoothed} and {sampled}");
    }
    let [samples, read] = ["rtt_samples", "srtt_samples"].map(|column| results.flow(0, column));
    assert_eq!(samples, read);
    assert!((190..200).contains(&read), "{read}");
}

/// Smoothing removes the extremes: it moves by an eighth towards each sample (RFC 6298).
#[test]
fn a_smoothed_round_trip_time_is_narrower_than_what_segments_measure() {
    let results = run(&everything(1, &[END]));
    let of = |column: &str| results.floats("intervals", column)[0];
    assert!(of("rtt_min_s") <= of("srtt_min_s"));
    assert!(of("srtt_max_s") < of("rtt_max_s"), "{} {}", of("srtt_max_s"), of("rtt_max_s"));
    // At most one in 10 ms.
    assert!((100..=400).contains(&results.flow(0, "srtt_samples")));
    assert!(results.flow(0, "srtt_samples") < results.flow(0, "rtt_samples"));
}

#[test]
fn the_seed_decides_every_cell() {
    let marks = every(100 * MILLISECOND, END);
    let bits = |seed| run(&everything(seed, &marks)).bits();
    assert_eq!(bits(1), bits(1));
    assert_ne!(bits(1), bits(2));
}

#[test]
fn a_column_for_every_row() {
    let simulation = {
        let mut simulation = build(&everything(1, &every(100 * MILLISECOND, END))).unwrap();
        simulation.advance(Time::MAX);
        simulation
    };
    for (name, table) in simulation.tables() {
        let lengths: Vec<usize> = table
            .iter()
            .map(|(_, column)| match column {
                perhop_measure::Column::Integers(values)
                | perhop_measure::Column::Names(_, values) => values.len(),
                perhop_measure::Column::Floats(values) => values.len(),
            })
            .collect();
        assert!(lengths.iter().all(|length| *length == lengths[0]), "{name}");
        // The plan has no radio channel and no tunnel.
        assert_eq!(lengths[0] == 0, ["stations", "tunnels"].contains(&name), "{name}");
    }
}

/// Interval of the marks in a run that is stopped; the run ends at the last one at the latest.
const STEP: u64 = 300 * MILLISECOND;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Every cell is independent of the slices of a run.
    #[test]
    fn slices_change_nothing(
        slices in prop::collection::vec(prop_oneof![0..MILLISECOND, 0..SECOND], 0..50),
    ) {
        let marks = every(100 * MILLISECOND, END);
        let plan = everything(1, &marks);
        let mut sliced = build(&plan).unwrap();
        let mut until = 0;
        for slice in slices {
            until += slice;
            sliced.advance(Time::from_picos(until));
            prop_assert_eq!(sliced.now().as_picos(), until.min(END));
        }
        sliced.advance(Time::MAX);
        let mut whole = build(&plan).unwrap();
        whole.advance(Time::MAX);
        prop_assert_eq!(Results::of(&sliced).bits(), Results::of(&whole).bits());
        prop_assert_eq!(sliced.events(), whole.events());
        prop_assert_eq!(sliced.packet_hops(), whole.packet_hops());
    }

    /// The tables of a stopped run include all measurements until then.
    #[test]
    fn a_stopped_run_keeps_what_was_measured(at in 0..=END / STEP * STEP) {
        let mut simulation = build(&everything(1, &every(STEP, END))).unwrap();
        simulation.advance(Time::from_picos(at));
        simulation.stop();
        let results = Results::of(&simulation);
        let delivered: Vec<u64> = (0..7).map(|flow| results.flow(flow, "bytes")).collect();
        prop_assert_eq!(&delivered, &simulation.delivered());
        prop_assert_eq!(results.floats("links", "end_s").last().copied(), Some(seconds(at)));
        // Equal to a run with this end.
        if at > 0 {
            let marks = every(STEP, at).into_iter().chain([at]);
            let mut marks: Vec<u64> = marks.collect();
            marks.dedup();
            prop_assert_eq!(results.bits(), run(&everything(1, &marks)).bits());
        }
        // The run has ended: further calls to advance or stop have no effect.
        let events = simulation.events();
        simulation.advance(Time::MAX);
        simulation.stop();
        prop_assert_eq!(simulation.events(), events);
        prop_assert_eq!(simulation.now().as_picos(), at);
        prop_assert_eq!(Results::of(&simulation).bits(), results.bits());
    }
}
