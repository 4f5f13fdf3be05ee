//! Measurements of a stream's packets: delays, jitter, order.

use serde_json::{Value, json};

use crate::lab::*;

const RATE: u64 = 10_000_000;
/// A datagram of 1000 bytes with its headers.
const SIZE: u64 = 972;

fn one_link(flows: &[Value], changes: Value, marks: &[u64]) -> Value {
    let link = link_with([0, 1], RATE, 5 * MILLISECOND, changes);
    with(plan("hh", &[link], marks), json!({"flows": flows}))
}

#[test]
fn the_delay_of_a_datagram_is_exact() {
    let marks = every(SECOND, 3 * SECOND);
    let flow = udp(0, 1, 80_000, SIZE, json!({"start": SECOND / 2}));
    let results = run(&one_link(&[flow], json!({}), &marks));
    let delay = seconds(5 * MILLISECOND + transmission(1000, RATE));
    for column in ["owd_s", "owd_min_s", "owd_max_s"] {
        for &found in results.floats("intervals", column) {
            assert!((found / delay - 1.0).abs() < 1e-12, "{found}, not {delay}");
        }
    }
    assert_eq!(results.integers("intervals", "owd_samples"), [6, 10, 10]);
    assert_eq!(results.floats("intervals", "jitter_s"), [0.0; 3]);
    let [low, high] = ["low_s", "high_s"].map(|column| results.floats("delays", column)[0]);
    assert!((low..high).contains(&delay));
    assert_eq!(results.integers("delays", "samples"), [26]);
}

/// Two flows share a link: the second always waits for the first, or never.
#[test]
fn waiting_is_delay() {
    let marks = [SECOND];
    let first = udp(0, 1, 777_600, SIZE, json!({}));
    let results = run(&one_link(&[first.clone(), first], json!({}), &marks));
    let one = transmission(1000, RATE);
    for (flow, expected) in [one, 2 * one].into_iter().enumerate() {
        let found = results.floats("intervals", "owd_s")[flow];
        let expected = seconds(5 * MILLISECOND + expected);
        assert!((found / expected - 1.0).abs() < 1e-12, "{found}, not {expected}");
    }
}

#[test]
fn delays_of_data_over_tcp_are_measured_too() {
    let settings = json!({"send_window": 1460 * 5, "initial_window": 5});
    let results = run(&one_link(&[tcp(0, 1, settings, json!({}))], json!({}), &[SECOND]));
    // Five segments fill the window; the last waits for four at first and for none later.
    let least = seconds(5 * MILLISECOND + transmission(1500, RATE));
    let found = results.floats("intervals", "owd_min_s")[0];
    assert!((found / least - 1.0).abs() < 1e-12, "{found}, not {least}");
    assert_eq!(
        results.integers("intervals", "owd_samples"),
        results.integers("intervals", "packets"),
    );
    assert_eq!(results.integers("intervals", "duplicates"), [-1]);
}

#[test]
fn distributions_begin_anew_at_cuts() {
    let marks = every(SECOND / 2, 4 * SECOND);
    let flow = udp(0, 1, 800_000, SIZE, json!({}));
    let changes = json!({"cuts": [SECOND, 3 * SECOND]});
    let whole = one_link(&[flow], json!({"jitter": 20 * MILLISECOND}), &marks);
    let results = run(&with(whole.clone(), changes));
    let starts = results.floats("delays", "start_s");
    let samples = results.integers("delays", "samples");
    let within = |start: f64| -> i64 {
        let rows = starts.iter().zip(samples).filter(|(of, _)| **of == start);
        rows.map(|(_, samples)| samples).sum()
    };
    let packets = results.integers("intervals", "packets");
    assert_eq!(within(0.0), packets[..2].iter().sum::<i64>());
    assert_eq!(within(1.0), packets[2..6].iter().sum::<i64>());
    assert_eq!(within(3.0), packets[6..].iter().sum::<i64>());
    // In sum they equal those without cuts.
    let uncut = run(&whole);
    assert_eq!(
        uncut.integers("delays", "samples").iter().sum::<i64>(),
        samples.iter().sum::<i64>()
    );
}

/// Two paths of different delay in turn: every other packet is late.
#[test]
fn packets_that_take_turns_on_unlike_ways_are_reordered() {
    let links = [
        link([0, 1], 1_000_000_000, 0),
        link([1, 2], 1_000_000_000, 0),
        link([1, 2], 1_000_000_000, 35 * MILLISECOND),
        link([2, 3], 1_000_000_000, 0),
    ];
    let mut network = plan("hrrh", &links, &[SECOND]);
    network["network"]["nodes"][1]["balance"] = json!("per-packet");
    // A datagram every 10 ms: the odd ones are 35 ms late, behind the third after them.
    let flow = udp(0, 3, 8 * SIZE * 100, SIZE, json!({}));
    let results = run(&with(network, json!({"flows": [flow]})));
    let packets = results.flow(0, "packets");
    assert_eq!(packets, 98); // of 100; the last two on the long path have not arrived
    // Odd packet n arrives after n + 1 and n + 3, and between them n - 2, which is late as well:
    // three places behind n + 1, two for the first of them.
    assert_eq!(results.flow(0, "reordered"), 48);
    assert_eq!(results.flow(0, "reordered_by_3"), 0);
    assert_eq!(results.integers("intervals", "extent_max"), [3]);
    let extent = results.floats("intervals", "extent")[0];
    assert!((extent - (47.0 * 3.0 + 2.0) / 48.0).abs() < 1e-12, "{extent}");
    // The jitter is 16 sixteenths of the 35 ms by which each delay differs from the last.
    let jitter = results.floats("intervals", "jitter_s")[0];
    assert!((jitter - 0.035).abs() < 0.001, "{jitter}");
    assert_eq!(results.of_rows("displacements", "early", "flow", 0).iter().sum::<i64>(), 49);
}

#[test]
fn what_a_link_does_to_packets_is_what_is_measured_of_them() {
    let flow = udp(0, 1, 8 * SIZE * 1_000, SIZE, json!({"stop": 20 * SECOND}));
    // Half of the copies, and of the late packets, are lost behind the link that causes them.
    let changes =
        json!({"duplicate_ppb": 20_000_000, "reorder": [10_000_000, 7_500 * MICROSECOND]});
    let fast = |ends, changes| link_with(ends, 1_000_000_000, MILLISECOND, changes);
    for lossy in [false, true] {
        let loss = json!({"loss_ppb": if lossy { 500_000_000 } else { 0 }});
        let links = [fast([0, 2], changes.clone()), fast([2, 1], loss)];
        let network = plan("hhr", &links, &[21 * SECOND]);
        let results = run(&with(network, json!({"flows": [flow]})));
        let [copies, late] =
            ["duplicated_packets", "reordered_packets"].map(|c| results.port(0, c));
        assert!(copies.abs_diff(400) < 99 && late.abs_diff(200) < 71, "{copies}, {late}");
        let [arrived, lost, reordered, duplicates] =
            ["packets", "lost", "reordered", "duplicates"].map(|column| results.flow(0, column));
        assert_eq!(arrived + lost, 20_000);
        assert_eq!(results.port(2, "lost_packets") + arrived + duplicates, 20_000 + copies);
        if !lossy {
            assert_eq!((lost, reordered, duplicates), (0, late, copies));
            // Seven packets overtake a late one, except for those that are late themselves, and
            // earlier late ones may arrive in between.
            assert!((7..=10).contains(&results.integers("intervals", "extent_max")[0]));
            assert!(late - results.flow(0, "reordered_by_3") < 20);
        } else {
            // A packet with a copy arrives with a probability of 3/4, and both with 1/4.
            assert!(duplicates.abs_diff(copies / 4) < 50, "{duplicates} of {copies}");
            assert!(lost.abs_diff(10_000 - copies / 4) < 400, "{lost}");
        }
    }
}

#[test]
fn tcp_delivers_all_in_order_however_a_link_treats_it() {
    let changes = json!({
        "duplicate_ppb": 30_000_000, "reorder": [30_000_000, 3 * MILLISECOND],
        "loss_ppb": 1_000_000, "jitter": MILLISECOND,
    });
    for settings in [json!({}), json!({"rack": true, "dsack": true}), json!({"sack": false})] {
        let flow = tcp(0, 1, settings, json!({"volume": 3_000_000}));
        let results = run(&one_link(&[flow], changes.clone(), &[60 * SECOND]));
        assert_eq!(results.flow(0, "bytes"), 3_000_000);
        assert!(results.flow(0, "reordered") > 10);
    }
    // Copies alone are not reordering.
    let flow = tcp(0, 1, json!({}), json!({"volume": 3_000_000}));
    let results = run(&one_link(&[flow], json!({"duplicate_ppb": 100_000_000}), &[60 * SECOND]));
    assert_eq!((results.flow(0, "bytes"), results.flow(0, "reordered")), (3_000_000, 0));
}
