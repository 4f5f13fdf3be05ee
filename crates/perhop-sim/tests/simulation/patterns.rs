//! Patterns of traffic compared with results of queueing theory.

use serde_json::{Value, json};

use crate::lab::*;

const RATE: u64 = 100_000_000;
const SIZE: u64 = 1000;
/// Transmission time of a packet of the mean size.
const SERVICE: u64 = SIZE * 8 * SECOND / RATE;

/// Returns a plan of a flow that loads a link to `load` per mille with IP packets of `SIZE` bytes
/// on average.
fn loaded(load: u64, settings: Value, marks: &[u64]) -> Value {
    let settings = json!({"transport": {"udp": with(json!({"layer": "ip"}), settings)}});
    let flow = udp(0, 1, RATE / 1000 * load, SIZE, settings);
    with(plan("hh", &[link([0, 1], RATE, 0)], marks), json!({"flows": [flow]}))
}

/// Returns the mean number of waiting packets, and the share of the time in which the link is busy.
fn queue(load: u64, settings: Value) -> (f64, f64) {
    let results = run(&loaded(load, settings, &every(17 * SERVICE, 4_000_000 * SERVICE)));
    let waiting = results.of_rows("queues", "backlog_packets", "class", 0);
    let busy = results.port(0, "sent_bytes") as f64 * 8.0 / RATE as f64;
    let mean = waiting.iter().sum::<i64>() as f64 / waiting.len() as f64;
    (mean, busy / (4_000_000.0 * seconds(SERVICE)))
}

#[test]
fn poisson_arrivals_of_equal_packets_queue_as_in_m_d_1() {
    for load in [500, 800] {
        let (waiting, busy) = queue(load, json!({"gaps": "exponential"}));
        let rho = load as f64 / 1000.0;
        let expected = rho * rho / (2.0 * (1.0 - rho));
        assert!((waiting / expected - 1.0).abs() < 0.02, "{waiting}, not {expected}");
        assert!((busy / rho - 1.0).abs() < 0.005, "{busy}, not {rho}");
    }
}

#[test]
fn poisson_arrivals_of_exponential_packets_queue_as_in_m_m_1() {
    for load in [500, 800] {
        let settings = json!({"gaps": "exponential", "sizes": "exponential"});
        let (waiting, busy) = queue(load, settings);
        let rho = load as f64 / 1000.0;
        let expected = rho * rho / (1.0 - rho);
        assert!((waiting / expected - 1.0).abs() < 0.03, "{waiting}, not {expected}");
        assert!((busy / rho - 1.0).abs() < 0.005, "{busy}, not {rho}");
    }
}

#[test]
fn regular_arrivals_never_queue() {
    assert_eq!(queue(999, json!({})).0, 0.0);
}

/// A Poisson process: counts in equal intervals have a variance equal to their mean.
#[test]
fn poisson_counts_vary_as_much_as_they_are() {
    let marks = every(100 * SERVICE, 1_000_000 * SERVICE);
    let results = run(&loaded(500, json!({"gaps": "exponential"}), &marks));
    let counts = results.integers("intervals", "packets");
    let mean = counts.iter().sum::<i64>() as f64 / counts.len() as f64;
    let squares = counts.iter().map(|&count| (count as f64 - mean).powi(2)).sum::<f64>();
    let dispersion = squares / mean / counts.len() as f64;
    // Five standard deviations: √(2 / 10,000) each.
    assert!((dispersion - 1.0).abs() < 0.071, "{dispersion}");
}

#[test]
fn streams_and_flows_have_random_numbers_of_their_own() {
    let settings =
        |name| json!({"streams": 2, "name": name, "transport": {"udp": {"gaps": "exponential"}}});
    let flows = ["a", "b"].map(|name| udp(0, 1, 1_000_000, SIZE, settings(name)));
    let marks = every(10 * MILLISECOND, SECOND);
    let counts = |flows: &[Value]| -> Vec<Vec<i64>> {
        let network = plan("hh", &[link([0, 1], 1_000_000_000, 0)], &marks);
        let results = run(&with(network, json!({"flows": flows})));
        let packets = results.integers("intervals", "packets");
        let streams = 2 * flows.len();
        (0..streams).map(|at| packets.iter().skip(at).step_by(streams).copied().collect()).collect()
    };
    let both = counts(&flows);
    for (first, other) in [(0, 1), (0, 2), (1, 3), (2, 3)] {
        assert_ne!(both[first], both[other]);
    }
    assert_eq!(both[..2], counts(&flows[..1])[..]);
}

#[test]
fn a_replay_sends_what_is_written() {
    let packets = [(5 * MILLISECOND, 100), (MILLISECOND, 1472), (0, 28)];
    let marks = every(MILLISECOND, 20 * MILLISECOND);
    for (repeat, expected) in [(false, 1600), (true, 3 * 1600)] {
        let replay = json!({"packets": packets, "repeat": repeat});
        let flow = udp(0, 1, 1, 1, json!({"transport": {"udp": {"replay": replay}}}));
        let network = plan("hh", &[link([0, 1], 1_000_000_000, 0)], &marks);
        let results = run(&with(network, json!({"flows": [flow]})));
        assert_eq!(results.flow(0, "bytes"), expected);
        // 128 bytes at 1 Gb/s take a microsecond, so that packets sent at a mark arrive after it.
        assert_eq!(results.integers("intervals", "packets")[4..8], [0, 1, 2, 0]);
    }
}
