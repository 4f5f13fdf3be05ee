//! No more leaves a host than its owner allows, whatever the job says.

use std::thread;
use std::time::Duration;

use perhop_traffic::{Allowance, AllowanceLimits, Job, Limits, Traffic};
use serde_json::{Value, json};

use crate::lab::{MS, floats, job, live, open, prove, run_live, tcp, udp};

/// Returns limits without a duration.
fn allow(limits: AllowanceLimits) -> Limits {
    Limits { allowance: Allowance::new(limits), duration: None }
}

fn limited(flow: Value, limits: Limits, marks: &[u64]) -> (Vec<u64>, Vec<String>, f64) {
    let jobs = live(&job(false, marks, vec![flow], vec![]), "source");
    let near: Job = serde_json::from_value(jobs[0].clone()).unwrap();
    let near = Traffic::with_limits(&near, &|_| Ok(()), limits).unwrap();
    let mut ends = [near, open(&jobs[1]).unwrap()];
    assert!(prove(&mut ends));
    let (mut collector, tables) = run_live(&jobs[2], &mut ends);
    let end = floats(&tables, "intervals", "end_s").iter().copied().fold(0.0, f64::max);
    (collector.delivered(), collector.take_warnings(), end)
}

fn flows() -> [Value; 2] {
    [tcp(0, Some(500 * MS), None, json!({})), udp(0, 500 * MS, json!({"rate": 400_000_000}))]
}

#[test]
fn no_faster_than_the_rate() {
    for flow in flows() {
        let limits = allow(AllowanceLimits { rate: Some(40_000_000), ..Default::default() });
        let (delivered, ..) = limited(flow, limits, &[900 * MS]);
        // 5 MB a second for half a second, and a burst: 64 KiB and a train.
        let most = 2_500_000 + (130 << 10);
        assert!((1_000_000..=most).contains(&delivered[0]), "{delivered:?}");
    }
}

#[test]
fn no_more_than_the_volume() {
    for flow in flows() {
        let limits = allow(AllowanceLimits { volume: Some(300_000), ..Default::default() });
        let (delivered, warnings, _) = limited(flow, limits, &[900 * MS]);
        assert!((200_000..=300_000).contains(&delivered[0]), "{delivered:?}");
        assert!(warnings.iter().any(|each| each.contains("limit of bytes")), "{warnings:?}");
    }
}

#[test]
fn no_longer_than_the_duration() {
    for mut flow in flows() {
        crate::lab::merge(&mut flow, &json!({"stop": 1500 * MS}));
        let duration = Some(perhop_core::Duration::from_millis(300));
        let limits = AllowanceLimits { rate: Some(40_000_000), ..Default::default() };
        let limits = Limits { duration, ..allow(limits) };
        let (delivered, warnings, _) = limited(flow, limits, &[800 * MS]);
        assert!(delivered[0] <= 1_500_000 + (128 << 10), "{delivered:?}");
        assert!(delivered[0] > 500_000, "{delivered:?}");
        assert!(warnings.iter().any(|each| each.contains("limit of the duration")), "{warnings:?}");
    }
}

#[test]
fn pings_to_who_proved_nothing_are_few() {
    let ping = json!({
        "name": "idle", "from": "near", "to": "far", "dscp": 0, "every": MS, "size": 56,
        "start": 0, "stop": 900 * MS,
    });
    let jobs = live(&job(false, &[900 * MS], vec![], vec![ping]), "source");
    let near: Job = serde_json::from_value(jobs[0].clone()).unwrap();
    let limits = allow(AllowanceLimits { ping_rate: Some(10), ..Default::default() });
    let near = Traffic::with_limits(&near, &|_| Ok(()), limits).unwrap();
    let mut ends = [near, open(&jobs[1]).unwrap()];
    let (collector, tables) = run_live(&jobs[2], &mut ends);
    let sent = crate::lab::integers(&tables, "pings", "sequence").len();
    assert!((10..=19).contains(&sent), "{sent}");
    drop(collector);
}

/// Returns the number of requests of this size, one each millisecond, that leave within 0.9 s.
fn requests(size: u16, flows: Vec<Value>, limits: Limits) -> usize {
    let ping = json!({
        "name": "idle", "from": "near", "to": "far", "dscp": 0, "every": MS, "size": size,
        "start": 0, "stop": 900 * MS,
    });
    let jobs = live(&job(false, &[900 * MS], flows, vec![ping]), "source");
    let near: Job = serde_json::from_value(jobs[0].clone()).unwrap();
    let near = Traffic::with_limits(&near, &|_| Ok(()), limits).unwrap();
    let mut ends = [near, open(&jobs[1]).unwrap()];
    assert!(prove(&mut ends));
    let (_, tables) = run_live(&jobs[2], &mut ends);
    crate::lab::integers(&tables, "pings", "sequence").len()
}

#[test]
fn a_long_ping_counts_as_the_packets_that_it_becomes() {
    let limits = allow(AllowanceLimits { ping_rate: Some(10), ..Default::default() });
    assert_eq!(requests(10_000, vec![], limits), 2);
}

#[test]
fn pings_to_who_proved_something_stay_within_the_rate_and_the_volume() {
    let flow = || vec![udp(0, 10 * MS, json!({"rate": 100_000}))];
    let all = AllowanceLimits { ping_rate: Some(0), ..Default::default() };
    assert!(requests(50_000, flow(), allow(all)) > 20);
    // Less than 1 kB in 0.9 s, and the bucket of probes once.
    let slow = allow(AllowanceLimits { rate: Some(80_000), ..all });
    assert_eq!(requests(50_000, flow(), slow), 1);
    let little = allow(AllowanceLimits { volume: Some(160_000), ..all });
    assert_eq!(requests(50_000, flow(), little), 3);
}

#[test]
fn nothing_is_sent_after_the_end() {
    let flow = tcp(0, None, None, json!({}));
    let jobs = live(&job(false, &[60_000 * MS], vec![flow], vec![]), "source");
    let mut ends = [open(&jobs[0]).unwrap(), open(&jobs[1]).unwrap()];
    assert!(prove(&mut ends));
    let zero = Traffic::instant_in(0);
    ends.iter_mut().for_each(|end| end.start(zero).unwrap());
    while ends[1].delivered()[0] < 1_000_000 {
        thread::sleep(Duration::from_millis(5));
    }
    let [near, far] = &mut ends;
    near.stop();
    thread::sleep(Duration::from_millis(100));
    let delivered = far.delivered();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(far.delivered(), delivered);
}
