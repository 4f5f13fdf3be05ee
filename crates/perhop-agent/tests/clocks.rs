//! One-way delays between hosts whose clocks disagree.

mod common;

use std::time::Duration;

use common::{Agent, finish, job, prepare, udp};
use perhop_agent::{Identity, Live};
use perhop_measure::Column;

/// A column of numbers of the intervals.
fn column(live: &Live, name: &str) -> Vec<f64> {
    let tables = live.tables();
    let (_, columns) = tables.into_iter().find(|(table, _)| *table == "intervals").unwrap();
    match columns.into_iter().find(|(column, _)| *column == name) {
        Some((_, Column::Floats(values))) => values,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn clocks_that_are_seconds_off_and_drift_do_not_spoil_one_way_delays() {
    let key = Identity::generate();
    let public = key.public();
    let a = Agent::start(&public, &["--clock-offset", "3.2s", "--clock-drift", "50ppm"]);
    let b = Agent::start(&public, &["--clock-offset", "-1.7s", "--clock-drift", "-30ppm"]);
    let mut live = prepare(&job(30, &[udp("voice", 26_101, 800_000)], &[]), &a, &b, &key).unwrap();
    live.start().unwrap();
    finish(&live, Duration::from_secs(10));
    assert_eq!(live.failure(), None);
    let bound = live.offset_bounds()[0].expect("the clocks were compared") as f64 / 1e9;
    // On loopback a datagram takes next to nothing, but for what its threads wait for a processor.
    let least = column(&live, "owd_min_s").into_iter().fold(f64::MAX, f64::min);
    let delays = column(&live, "owd_s");
    let known = delays.iter().filter(|delay| delay.is_finite()).count();
    eprintln!("least {least} s, bound {bound} s, {delays:?}");
    assert!(known >= 28, "one-way delays of {known} intervals of 30");
    assert!(bound < 0.01, "{bound} s");
    assert!(least <= bound.max(50e-6), "{least} s where next to nothing was to be found");
    let mean = delays.iter().filter(|delay| delay.is_finite()).sum::<f64>() / known as f64;
    assert!(mean < bound.max(50e-6) + 1e-3, "{mean} s");
}
