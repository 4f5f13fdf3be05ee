//! A network in parts, on several threads, has the same results as the whole.

use perhop_core::Time;
use perhop_sim::{Plan, Simulation, Whole};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::lab::*;
use crate::short_plans::expand;

const END: u64 = 300 * MILLISECOND;

/// Returns a simulation on so many threads.
fn on_threads(plan: &Value, threads: usize) -> Simulation {
    let plan = serde_json::from_value::<Plan>(expand(plan)).expect("the plan is complete");
    Simulation::with_threads(&plan, threads).expect("the plan is sound")
}

/// Runs a plan on so many threads; returns the tables, and the packets that crossed links.
fn results(plan: &Value, threads: usize) -> (Vec<Vec<u64>>, u64) {
    let mut simulation = on_threads(plan, threads);
    simulation.advance(Time::MAX);
    (Results::of(&simulation).bits(), simulation.packet_hops())
}

fn queue() -> impl Strategy<Value = Value> {
    let matches = prop::sample::select(vec![json!({"protocols": ["udp"]}), json!({"dscps": [8]})]);
    prop_oneof![
        3 => Just(fifo(1_000)),
        2 => (1_u64..30).prop_map(fifo),
        1 => Just(json!({"codel": {
            "limit": {"packets": 100}, "target": MILLISECOND, "interval": 20 * MILLISECOND,
            "ecn": false,
        }})),
        2 => (matches, 1_u64..9).prop_map(|(matches, weight)| json!({"classes": [
            class(matches, weight, fifo(20)), class(json!({}), 5, fifo(20)),
        ]})),
    ]
}

prop_compose! {
    /// Few rates and delays, so that many packets arrive at the same instant.
    fn wire(from: u16, to: u16)(
        rate in prop::sample::select(vec![2_000_000_u64, 10_000_000, 100_000_000]),
        delay in prop::sample::select(vec![0, MILLISECOND, 5 * MILLISECOND]),
        jitter in prop_oneof![4 => Just(0), 1 => 0..MILLISECOND],
        loss_ppb in prop_oneof![4 => Just(0), 1 => 0_u32..50_000_000],
        reorder in prop_oneof![
            9 => Just((0, 0)), 1 => (0_u32..50_000_000, 0..3 * MILLISECOND),
        ],
        variation in prop_oneof![
            9 => Just(None),
            1 => (1..3 * MILLISECOND, any::<bool>()).prop_map(Some),
        ],
        delay_limit in prop_oneof![9 => Just(None), 1 => (1_u32..20).prop_map(Some)],
        queues in [queue(), queue()],
    ) -> Value {
        let mut changes = json!({
            "jitter": jitter, "loss_ppb": loss_ppb, "queues": queues, "reorder": reorder,
            "delay_limit": delay_limit,
        });
        if let Some((by, in_order)) = variation {
            changes["variation"] =
                json!({"by": by, "distribution": "normal", "in_order": in_order});
        }
        link_with([from, to], rate, delay, changes)
    }
}

/// Routers in a tree, with some more links for rings and meshes, and a host or two at each.
fn networks() -> impl Strategy<Value = (u16, u16, Vec<Value>)> {
    let shape = (2_u16..8, prop::collection::vec((any::<u16>(), any::<u16>()), 0..5), 1_u16..3);
    shape.prop_flat_map(|(routers, chords, each)| {
        let mut pairs: Vec<(u16, u16)> = (1..routers).map(|router| (router / 2, router)).collect();
        for (a, b) in chords {
            let (a, b) = (a % routers, b % routers);
            let joined = pairs.contains(&(a, b)) || pairs.contains(&(b, a));
            if a != b && !joined {
                pairs.push((a, b));
            }
        }
        let hosts = each * routers;
        pairs.extend((0..hosts).map(|host| (routers + host, host % routers)));
        let links: Vec<_> = pairs.into_iter().map(|(a, b)| wire(a, b)).collect();
        (Just(routers), Just(hosts), links)
    })
}

fn traffic(from: u16, to: u16) -> impl Strategy<Value = (bool, Value)> {
    let (start, stop) = (0_u64..4, 100 * MILLISECOND..END);
    let shared = (start, stop, prop::sample::select(vec![0, 8]), 1_u16..3);
    (shared, 0_u8..9, any::<bool>()).prop_map(move |((start, stop, dscp, streams), kind, other)| {
        let schedule = json!({
            "start": start * 10 * MILLISECOND, "stop": stop, "dscp": dscp, "streams": streams,
        });
        match kind {
            0..=3 => {
                let control = if other { "cubic" } else { "reno" };
                let settings = json!({"congestion_control": control, "sack": other});
                (true, tcp(from, to, settings, schedule))
            }
            4 | 5 => (true, udp(from, to, 1_000_000, if other { 972 } else { 97 }, schedule)),
            6 => (true, quic(from, to, json!({"streams": 2}), schedule)),
            7 => {
                let call = json!({"transport": {"udp": {"playout": {
                    "frame": 20 * MILLISECOND, "buffer": "adaptive",
                }}}});
                (true, udp(from, to, 64_000, 160, with(schedule, call)))
            }
            _ => (false, ping(from, to, 7 * MILLISECOND, json!({"dscp": dscp}))),
        }
    })
}

prop_compose! {
    fn plans()((routers, hosts, links) in networks())(
        ends in prop::collection::vec((0..hosts, 1..hosts), 1..8)
            .prop_flat_map(move |ends| {
                ends.into_iter()
                    .map(|(from, by)| traffic(routers + from, routers + (from + by) % hosts))
                    .collect::<Vec<_>>()
            }),
        changed in prop::collection::vec((0..links.len(), 0_u8..3), 0..3),
        (routers, hosts, links) in Just((routers, hosts, links)),
        seed in 0_u64..1_000,
    ) -> Value {
        let (flows, pings): (Vec<_>, Vec<_>) = ends.into_iter().partition(|(is_flow, _)| *is_flow);
        let [flows, pings] =
            [flows, pings].map(|some| some.into_iter().map(|(_, one)| one).collect::<Vec<_>>());
        let mut changes = Vec::new();
        for (link, kind) in changed {
            changes.push((100 * MILLISECOND, match kind {
                0 => json!({"state": {"link": link, "up": false}}),
                1 => json!({"wire": {
                    "link": link, "rate": 5_000_000, "delay": 2 * MILLISECOND, "loss_ppb": 0,
                }}),
                _ => json!({"queue": {"port": 2 * link, "queue": fifo(5), "shape": null}}),
            }));
            if kind == 0 {
                changes.push((200 * MILLISECOND, json!({"state": {"link": link, "up": true}})));
            }
        }
        changes.sort_by_key(|(at, _)| *at);
        let changes: Vec<Value> = changes
            .into_iter()
            .map(|(at, effect)| json!({"at": at, "effect": effect}))
            .collect();
        let own = json!({
            "network": {"seed": seed, "changes": changes}, "flows": flows, "pings": pings,
            "cuts": [200 * MILLISECOND],
        });
        let kinds = "r".repeat(routers.into()) + &"h".repeat(hosts.into());
        with(plan(&kinds, &links, &every(100 * MILLISECOND, END)), own)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn tables_do_not_depend_on_the_number_of_threads(plan in plans()) {
        let expected = results(&plan, 1);
        for threads in [2, 3, 5] {
            let found = results(&plan, threads);
            prop_assert!(found == expected, "{} threads", threads);
        }
    }
}

/// Four routers in a chain with links of 1 ms, and a host at either end.
fn chain() -> Value {
    let links = [
        link([0, 1], 100_000_000, 0),
        link([1, 2], 10_000_000, MILLISECOND),
        link([2, 3], 10_000_000, MILLISECOND),
        link([3, 4], 10_000_000, MILLISECOND),
        link([4, 5], 100_000_000, 0),
    ];
    let flows = json!([tcp(0, 5, json!({}), json!({})), udp(5, 0, 1_000_000, 972, json!({}))]);
    with(plan("hrrrrh", &links, &[SECOND]), json!({"flows": flows}))
}

#[test]
fn slices_of_any_length_give_the_same() {
    let plan = chain();
    let expected = results(&plan, 1);
    let mut simulation = on_threads(&plan, 2);
    assert_eq!((simulation.parts(), simulation.whole()), (2, None));
    for number in 1..=300 {
        simulation.advance(Time::from_picos(number * 10 * MILLISECOND / 3));
    }
    assert_eq!(simulation.now(), simulation.end());
    assert_eq!((Results::of(&simulation).bits(), simulation.packet_hops()), expected);
}

#[test]
fn there_are_no_more_parts_than_can_be_cut() {
    let plan = chain();
    for (threads, parts) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 4), (1_000, 4)] {
        assert_eq!(on_threads(&plan, threads).parts(), parts, "{threads}");
    }
    assert_eq!(results(&plan, 4), results(&plan, 1));
}

#[test]
fn what_cannot_be_cut_is_run_as_a_whole_and_says_why() {
    let whole = |plan: &Value| on_threads(plan, 2).whole();
    assert_eq!(on_threads(&chain(), 1).whole(), Some(Whole::NotAsked));
    let mut near = chain();
    for link in near["network"]["links"].as_array_mut().unwrap() {
        link["delay"] = json!(0);
    }
    assert_eq!(whole(&near), Some(Whole::NoDelay));
    for link in near["network"]["links"].as_array_mut().unwrap() {
        link["delay"] = json!(5 * MICROSECOND);
    }
    assert_eq!(whole(&near), Some(Whole::Short));
    for link in near["network"]["links"].as_array_mut().unwrap() {
        link["delay"] = json!(100 * MICROSECOND);
    }
    assert_eq!(whole(&near), Some(Whole::Short));
    near["network"]["links"][2]["delay"] = json!(MILLISECOND);
    assert_eq!(whole(&near), None);
    let mut twice = chain();
    twice["network"]["links"][1]["duplicate_ppb"] = json!(1_000);
    assert_eq!(whole(&twice), Some(Whole::Duplicates));
    let mut short = chain();
    short["network"]["links"][2]["mtu"] = json!(576);
    assert_eq!(whole(&short), Some(Whole::Fragments));
    let clients = json!({"application": {"rpc": {
        "arrivals": {"open": {"mean": 10 * MILLISECOND, "exponential": true}},
        "request": {"constant": 100}, "response": {"exponential": 5_000},
        "server_time": MILLISECOND, "reuse": true, "connections": 4,
    }}});
    let mut served = chain();
    served["flows"] = json!([tcp(0, 5, json!({}), clients)]);
    assert_eq!(whole(&served), Some(Whole::NoDelay));
    served["network"]["marks"] = json!([SECOND / 2, SECOND]);
    let down = json!({"state": {"link": 2, "up": false}});
    served["network"]["changes"] = json!([{"at": SECOND / 2, "effect": down}]);
    assert_eq!(whole(&served), Some(Whole::Detours));
    assert_eq!(results(&served, 2), results(&served, 1));
}

/// The connections of an application stay in one part; what passes them does not.
#[test]
fn applications_keep_their_paths_in_one_part() {
    let mut plan = chain();
    plan["network"]["nodes"].as_array_mut().unwrap().push(json!({"kind": "host"}));
    plan["network"]["links"].as_array_mut().unwrap().push(link([6, 2], 10_000_000, MILLISECOND));
    let rpc = json!({"application": {"rpc": {
        "arrivals": {"open": {"mean": 5 * MILLISECOND, "exponential": true}},
        "request": {"constant": 100}, "response": {"exponential": 5_000},
        "server_time": MILLISECOND, "reuse": false, "connections": 4,
    }}});
    plan["flows"].as_array_mut().unwrap().push(tcp(0, 6, json!({}), rpc));
    assert_eq!(on_threads(&plan, 2).parts(), 2);
    assert_eq!(results(&plan, 2), results(&plan, 1));
}

/// Errors about packets of a connection may go back on a path that no other packet of it takes.
#[test]
fn applications_keep_the_paths_of_errors_in_one_part() {
    let near = |a, b| link([a, b], 10_000_000, MILLISECOND);
    let far_there = |a, b| {
        let back = json!({"back": {"delay": MILLISECOND}});
        link_with([a, b], 10_000_000, 3 * MILLISECOND, back)
    };
    let far_back = |a, b| {
        let back = json!({"back": {"delay": 2 * MILLISECOND}});
        link_with([a, b], 10_000_000, MILLISECOND, back)
    };
    // From host 0: 1, 2, 4, 5; from host 6: 5, 7, 8, 1; an error from router 4: 3, 1.
    let mut links = [near(0, 1), far_back(1, 2), far_there(1, 3), far_there(1, 8)].to_vec();
    links.extend([far_back(2, 4), far_there(3, 4), far_back(4, 5), near(5, 6)]);
    links.extend([far_there(7, 5), far_there(8, 7)]);
    links[6]["mtu"] = json!(576);
    let rpc = json!({"application": {"rpc": {
        "arrivals": {"open": {"mean": 5 * MILLISECOND, "exponential": true}},
        "request": {"constant": 5_000}, "response": {"constant": 5_000},
        "server_time": MILLISECOND, "reuse": false, "connections": 4,
    }}});
    let settings = json!({"flows": [tcp(6, 0, json!({}), rpc)]});
    let plan = with(plan("hrrrrrhrr", &links, &[SECOND]), settings);
    assert_eq!(on_threads(&plan, 2).whole(), Some(Whole::NoDelay));
}
