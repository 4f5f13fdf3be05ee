//! Plans that no scenario compiles to cause an error, or a run, but never a panic or a hang.

use perhop_core::Time;
use perhop_sim::{Plan, Simulation};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::lab::*;
use crate::short_plans::expand;

/// Returns the error of a plan with these changes at these places, if it is refused.
fn refused(changes: &[(&str, Value)]) -> Option<String> {
    let mut plan = expand(&everything(1, &[SECOND]));
    for (place, change) in changes {
        *plan.pointer_mut(place).expect(place) = change.clone();
    }
    refusal_of(&plan)
}

const CLASSES: &str = "/network/links/1/ends/0/discipline/classes/classes";

#[test]
fn what_a_plan_has_wrong_is_said() {
    assert_eq!(refused(&[]), None);
    let in_class = |place| format!("{CLASSES}/0/{place}");
    let rules = |number| json!(vec![json!({"permit": true, "conditions": {}}); number]);
    let cases = [
        ("/network/links/0/ends/0/medium/rate".into(), json!(0), "medium.rate: must not be zero"),
        (in_class("weight"), json!(0), "classes[0].weight: must not be zero"),
        (in_class("police/rate"), json!(0), "classes[0].police.rate: must not be zero"),
        (CLASSES.into(), json!([]), "a policy needs a class"),
        ("/flows/0/transport/tcp/mss".into(), json!(0), "a segment size must not be zero"),
        ("/flows/0/source_port".into(), json!(0), "a flow's source port must not be zero"),
        ("/flows/0/source_port".into(), json!(65_535), "source ports of its streams must be at"),
        ("/flows/3/transport/udp/rate".into(), json!(0), "a flow's rate must not be zero"),
        ("/flows/3/transport/udp/size".into(), json!(0), "a datagram's payload must not be zero"),
        ("/flows/3/transport/udp/size".into(), json!(28), "a datagram's payload must not be zero"),
        ("/flows/6/transport/quic/certificates".into(), json!(65_536), "certificates have at most"),
        (
            "/flows/3/transport/udp/replay".into(),
            json!({"packets": [[5, 28]], "repeat": false}),
            "a datagram's payload must not be zero",
        ),
        ("/pings/0/every".into(), json!(0), "pings[0].every: must not be zero"),
        ("/flows/0/from".into(), json!("1"), "node 1 is not a host"),
        ("/flows/0/to".into(), json!("4"), "unknown node 4"),
        ("/pings/1/to".into(), json!(""), "unknown node "),
        ("/network/marks".into(), json!([0, 1]), "marks must rise"),
        ("/network/marks".into(), json!([2, 1]), "marks must rise"),
        ("/network/marks".into(), json!([2, 2]), "marks must rise"),
        ("/cuts".into(), json!([2, 2]), "marks must rise"),
        ("/network/links/0/ends/0/node".into(), json!("4"), "unknown node 4"),
        ("/network/links/0/ends/0/node".into(), json!("1"), "itself"),
        ("/network/links/0/ends/0/name".into(), json!("1-2"), "the name 1-2 is given twice"),
        ("/network/nodes/0/name".into(), json!("1"), "the name 1 is given twice"),
        (in_class("match/0/conditions/dscp/0"), json!(64), "64 is not in 0..=63"),
        (in_class("match/0/conditions"), json!({"source": ["9"]}), "unknown node 9"),
        (in_class("match"), rules(65_536), "more than 65535 rules"),
        (in_class("police/exceed/remark"), json!(64), "64 is not in 0..=63"),
        ("/flows/0/dscp".into(), json!(64), "64 is not in 0..=63"),
        ("/pings/0/dscp".into(), json!(64), "64 is not in 0..=63"),
        (
            "/network/links/0/ends/1/medium/loss".into(),
            json!(1_000_000_001),
            "medium.loss: a share of more",
        ),
        (in_class("discipline"), json!({"queue": {"taildrop": {}}}), "unknown variant `taildrop`"),
    ];
    for (place, change, expected) in cases {
        let said = refused(&[(&place, change.clone())]).unwrap_or_default();
        assert!(said.contains(expected), "{place} = {change}: {said}");
    }
}

#[test]
fn what_goes_beyond_the_model_is_refused() {
    let weight = format!("{CLASSES}/0/weight");
    let plan = expand(&everything(1, &[SECOND]));
    let mut class = plan.pointer(CLASSES).expect(CLASSES)[0].clone();
    class["police"] = Value::Null;
    let mut flow = plan["flows"][0].clone();
    flow["streams"] = json!(65_535);
    let cases = [
        // A datagram would take less than a picosecond, so that time would not advance.
        vec![("/flows/3/transport/udp/rate", json!(8_000_000_000_000_001_u64))],
        vec![("/flows/3/transport/udp/rate", json!(u64::MAX))],
        // Sizes that no packet holds.
        vec![
            ("/flows/3/transport/udp/layer", json!("application")),
            ("/flows/3/transport/udp/size", json!(65_508)),
        ],
        // Less than a datagram in a burst, so that a gap would extend over many bursts.
        vec![("/flows/3/transport/udp/bursts/on", json!(1))],
        vec![("/flows/3/transport/udp/bursts/lengths/pareto", json!(1_000))],
        // All at once, endlessly.
        vec![(
            "/flows/3/transport/udp/replay",
            json!({"packets": [[0, 100], [1, 100]], "repeat": true}),
        )],
        // Virtual time would overflow.
        vec![(weight.as_str(), json!(u64::MAX))],
        vec![(CLASSES, json!(vec![class; (1 << 16) + 1]))],
        // Events are numbered in 24 bits.
        vec![("/flows", json!(vec![flow; 9]))],
    ];
    for changes in cases {
        let said = refused(&changes).unwrap_or_default();
        assert!(said.starts_with("too large: "), "{}: {said}", changes[0].0);
    }
    // The end of the clock, after which no event can be.
    let said = refused(&[("/network/marks", json!([u64::MAX]))]);
    assert!(said.is_some_and(|said| said.starts_with("marks must rise")));
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

/// Collects the places of all values in a plan.
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
        let mut plan = expand(&plan);
        let mut all = Vec::new();
        places(&plan, "", &mut all);
        for (place, change) in changes {
            // An earlier change may have removed the place.
            if let Some(value) = plan.pointer_mut(place.get::<String>(&all[1..])) {
                *value = change;
            }
        }
        let Ok(plan) = serde_json::from_value::<Plan>(plan) else { return Ok(()) };
        if let Ok(mut simulation) = Simulation::new(&plan) {
            // For a short time only: a plan may request an event per picosecond, which is slow.
            simulation.advance(Time::from_picos(until));
            simulation.tables();
            simulation.stop();
            simulation.tables();
        }
    }
}
