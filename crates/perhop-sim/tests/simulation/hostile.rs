//! Plans that no scenario compiles to: an error, or a run; never a panic, never a hang.

use perhop_core::Time;
use perhop_net::RouteError;
use perhop_sim::{BuildError, Plan, Simulation};
use perhop_workload::WorkloadError;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::lab::*;

/// What a plan with these changes at these places is refused with.
fn refusal(changes: &[(&str, Value)]) -> Option<BuildError> {
    let mut plan = everything(1, &[SECOND]);
    for (place, change) in changes {
        *plan.pointer_mut(place).expect(place) = change.clone();
    }
    build(&plan).err()
}

const CLASSES: &str = "/network/links/1/queues/0/classes";

#[test]
fn what_a_plan_has_wrong_is_said() {
    use BuildError::*;
    assert_eq!(refusal(&[]), None);
    let cases = [
        ("/network/links/0/rate", json!(0), Zero("a link's rate")),
        ("/network/links/1/queues/0/classes/0/weight", json!(0), Zero("a class's weight")),
        ("/network/links/1/queues/0/classes/0/police/rate", json!(0), Zero("a policer's rate")),
        (CLASSES, json!([]), NoClass),
        ("/flows/0/transport/tcp/mss", json!(0), Zero("a segment size")),
        ("/flows/3/transport/udp/rate", json!(0), Workload(WorkloadError::Zero("a flow's rate"))),
        (
            "/flows/3/transport/udp/size",
            json!(0),
            Workload(WorkloadError::Zero("a datagram's payload")),
        ),
        (
            "/flows/3/transport/udp/size",
            json!(28),
            Workload(WorkloadError::Zero("a datagram's payload")),
        ),
        (
            "/flows/3/transport/udp/replay",
            json!({"packets": [[5, 28]], "repeat": false}),
            Workload(WorkloadError::Zero("a datagram's payload")),
        ),
        ("/pings/0/every", json!(0), Workload(WorkloadError::Zero("a ping's interval"))),
        ("/flows/0/from", json!(1), NotAHost(1)),
        ("/flows/0/to", json!(4), NotAHost(4)),
        ("/pings/1/to", json!(65_535), NotAHost(65_535)),
        ("/network/marks", json!([0, 1]), Marks),
        ("/network/marks", json!([2, 1]), Marks),
        ("/network/marks", json!([2, 2]), Marks),
        ("/cuts", json!([2, 2]), Marks),
        ("/network/links/0/ends/0", json!(4), Network(RouteError::NoSuchNode(4, 4))),
        ("/network/links/0/ends/0", json!(1), Network(RouteError::Loop(1))),
    ];
    for (place, change, expected) in cases {
        assert_eq!(refusal(&[(place, change.clone())]), Some(expected), "{place} = {change}");
    }
    for place in [
        "/flows/0/dscp",
        "/pings/0/dscp",
        "/network/links/1/queues/0/classes/0/police/exceed/remark",
        "/network/links/1/queues/0/classes/0/matches/dscps/0",
    ] {
        assert!(matches!(refusal(&[(place, json!(64))]), Some(Dscp(_))), "{place}");
    }
}

#[test]
fn what_goes_beyond_the_model_is_refused() {
    let cases = [
        // A datagram would take less than a picosecond: time would stand still.
        vec![("/flows/3/transport/udp/rate", json!(8_000_000_000_000_001_u64))],
        vec![("/flows/3/transport/udp/rate", json!(u64::MAX))],
        // What no packet holds.
        vec![
            ("/flows/3/transport/udp/layer", json!("application")),
            ("/flows/3/transport/udp/size", json!(65_508)),
        ],
        // Less than a datagram in a burst, of which many would make a gap.
        vec![("/flows/3/transport/udp/bursts/on", json!(1))],
        vec![("/flows/3/transport/udp/bursts/lengths/pareto", json!(1_000))],
        // All at once, for ever.
        vec![(
            "/flows/3/transport/udp/replay",
            json!({"packets": [[0, 100], [1, 100]], "repeat": true}),
        )],
        vec![("/network/links/0/loss_ppb", json!(1_000_000_001))],
        // Virtual time would overflow.
        vec![("/network/links/1/queues/0/classes/0/weight", json!(u64::MAX))],
        vec![(CLASSES, json!(vec![class(json!({}), 1, fifo(1)); (1 << 16) + 1]))],
        // Events are numbered in 24 bits.
        vec![("/flows", json!(vec![tcp(0, 3, json!({}), json!({"streams": 65_535})); 9]))],
    ];
    for changes in cases {
        let refusal = refusal(&changes);
        let (place, _) = &changes[0];
        let beyond = matches!(
            refusal,
            Some(BuildError::TooLarge(_) | BuildError::Workload(WorkloadError::TooLarge(_)))
        );
        assert!(beyond, "{place}: {refusal:?}");
    }
    // The end of time, where nothing can be after anything.
    assert_eq!(refusal(&[("/network/marks", json!([u64::MAX]))]), Some(BuildError::Marks));
}

#[test]
fn an_empty_plan_is_over_at_once() {
    let results = run(&plan("", &[], &[]));
    assert!(results.integers("links", "link").is_empty());
    let results = run(&plan("hr", &[], &[SECOND]));
    assert!(results.floats("links", "end_s").is_empty());
}

/// The last picoseconds of the clock, where sums of times saturate.
#[test]
fn a_run_may_last_until_the_clock_ends() {
    let late = u64::MAX - 3 * MILLISECOND;
    let mut plan = everything(1, &[late, u64::MAX - 1]);
    for flow in plan["flows"].as_array_mut().unwrap() {
        flow["start"] = json!(late);
        flow["stop"] = Value::Null;
    }
    for ping in plan["pings"].as_array_mut().unwrap() {
        ping["start"] = json!(late);
    }
    let police = json!({"rate": u64::MAX, "burst": u64::MAX});
    let class = plan.pointer_mut("/network/links/1/queues/0/classes/0").unwrap();
    *class = with(class.take(), json!({"police": police}));
    *plan.pointer_mut("/network/links/1/jitter").unwrap() = json!(u64::MAX);
    let results = run(&plan);
    assert!(results.port(2, "sent_packets") > 1, "nothing was sent at the end");
    assert!(results.rtts(0).iter().all(Option::is_none));
}

/// The places of every value in a plan.
fn places(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{here}/{index}"), all);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                places(member, &format!("{here}/{name}"), all);
            }
        }
        _ => {}
    }
}

fn hostile() -> impl Strategy<Value = Value> {
    prop_oneof![
        8 => prop::sample::select(vec![
            0, 1, 2, 4, 63, 64, 200, 255, 1_000, 65_535, 65_536, (1 << 32) - 1, 1 << 32,
            1_000_000_000, 1 << 53, i64::MAX as u64, u64::MAX - 1, u64::MAX,
        ]).prop_map(|number| json!(number)),
        1 => any::<u64>().prop_map(|number| json!(number)),
        1 => prop::sample::select(vec![
            json!(null), json!(-1), json!(0.5), json!(""), json!("host"), json!([]), json!({}),
            json!(true), json!([0, 0]), json!([[9, 1]]), json!({"fifo": {"bytes": 0}}),
        ]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_plan_is_refused_or_runs(
        changes in prop::collection::vec((any::<prop::sample::Index>(), hostile()), 1..5),
        until in 0..50_000_u64,
    ) {
        let mut plan = everything(1, &[1_000, MILLISECOND, SECOND]);
        for flow in plan["flows"].as_array_mut().unwrap() {
            flow["start"] = json!(0);
        }
        let mut all = Vec::new();
        places(&plan, "", &mut all);
        for (place, change) in changes {
            // Another change may have taken the place away.
            if let Some(value) = plan.pointer_mut(place.get::<String>(&all[1..])) {
                *value = change;
            }
        }
        let Ok(plan) = serde_json::from_value::<Plan>(plan) else { return Ok(()) };
        if let Ok(mut simulation) = Simulation::new(&plan) {
            // Not for long: an event a picosecond is slow, but it is what was asked for.
            simulation.advance(Time::from_picos(until));
            simulation.tables();
            simulation.stop();
            simulation.tables();
        }
    }
}
