//! Probes whose time to live is used up, and the answers.

use serde_json::{Value, json};

use crate::lab::*;

const RATE: u64 = 1_000_000_000;
/// Name of the answer.
const ECHO: &str = "echo reply";
const EXCEEDED: &str = "time exceeded";
const UNREACHABLE_PORT: &str = "port unreachable";

/// Returns a plan of a host, three routers and a host, with a millisecond between each two.
fn row(pings: &[Value], end: u64) -> Value {
    let links: Vec<Value> = (0..4).map(|n| link([n, n + 1], RATE, MILLISECOND)).collect();
    with(plan("hrrrh", &links, &[end]), json!({"pings": pings}))
}

/// Returns the round-trip time of a probe of `size` bytes to the n-th node, with an answer of
/// `answer` bytes.
fn round_trip(hops: u64, size: u64, answer: u64) -> f64 {
    seconds(hops * (2 * MILLISECOND + transmission(size, RATE) + transmission(answer, RATE)))
}

#[test]
fn every_router_on_the_way_answers_and_then_the_destination() {
    for (port, size, last) in [(None, 84, ECHO), (Some(33434), 84, UNREACHABLE_PORT)] {
        let changes = json!({"ttl": [1, 4], "udp_port": port, "stop": SECOND});
        let results = run(&row(&[ping(0, 4, SECOND, changes)], SECOND));
        assert_eq!(results.integers("pings", "ttl"), [1, 2, 3, 4]);
        assert_eq!(results.integers("pings", "node"), [1, 2, 3, 4]);
        let answers = [EXCEEDED, EXCEEDED, EXCEEDED, last];
        assert_eq!(results.names("pings", "answer"), answers);
        let echo = if last == ECHO { size } else { 56 };
        let expected: Vec<_> = (1..=4)
            .map(|hops| Some(round_trip(hops, size, if hops == 4 { echo } else { 56 })))
            .collect();
        assert_eq!(results.rtts(0), expected);
        // Evenly spaced over the round.
        assert_eq!(results.floats("pings", "sent_s"), [0.0, 0.25, 0.5, 0.75]);
        // Routers mark their errors CS6, hosts do not mark theirs; an echo keeps its DSCP.
        assert_eq!(results.integers("pings", "dscp_echoed"), [48, 48, 48, 0]);
        assert_eq!(results.integers("pings", "dscp_arrived"), [0; 4]);
    }
}

#[test]
fn a_router_answers_pings_itself() {
    let results = run(&row(&[ping(0, 2, SECOND, json!({"dscp": 10}))], SECOND / 2));
    assert_eq!(results.rtts(0), [Some(round_trip(2, 84, 84))]);
    assert_eq!(results.integers("pings", "node"), [2]);
    assert_eq!(results.integers("pings", "dscp_echoed"), [10]);
}

#[test]
fn later_rounds_stop_at_the_destination() {
    let changes = json!({"ttl": [1, 30], "stop": 3 * SECOND});
    let results = run(&row(&[ping(0, 4, SECOND, changes)], 4 * SECOND));
    // Those of the first round are in transit when the answer arrives: 33 ms apart.
    assert_eq!(results.integers("pings", "ttl"), [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4]);
    assert!(results.rtts(0).iter().all(Option::is_some));
}

#[test]
fn trains_are_sent_back_to_back_and_spread_by_the_narrowest_link() {
    const NARROW: u64 = 10_000_000;
    let links = [
        link([0, 1], RATE, MILLISECOND),
        link([1, 2], NARROW, MILLISECOND),
        link([2, 3], RATE, MILLISECOND),
    ];
    let trains = json!({"ttl": [1, 3], "train": 5, "size": 1472, "stop": SECOND});
    let plan =
        with(plan("hrrh", &links, &[SECOND]), json!({"pings": [ping(0, 3, SECOND, trains)]}));
    let results = run(&plan);
    let rtts: Vec<f64> = results.rtts(0).into_iter().flatten().collect();
    let sent = results.floats("pings", "sent_s");
    assert_eq!(rtts.len(), 15);
    let gaps = |train: usize| -> Vec<f64> {
        let arrived: Vec<f64> = (5 * train..5 * train + 5).map(|n| sent[n] + rtts[n]).collect();
        arrived.windows(2).map(|pair| pair[1] - pair[0]).collect()
    };
    // Packet-pair dispersion: before the narrow link at the rate of the first link, behind it at
    // its own.
    for (train, rate) in [(0, RATE), (1, NARROW)] {
        let expected = seconds(transmission(1500, rate));
        assert!(gaps(train).iter().all(|gap| (gap - expected).abs() < 1e-10), "{:?}", gaps(train));
    }
}

#[test]
fn routers_limit_what_they_say_and_may_be_silent() {
    let mut plan = row(&[ping(0, 4, SECOND / 10, json!({"ttl": [1, 2]}))], SECOND);
    plan["network"]["nodes"][1]["icmp_errors"] =
        json!({"limited": {"every": SECOND / 2, "burst": 1}});
    plan["network"]["nodes"][2]["icmp_errors"] = json!("none");
    let results = run(&plan);
    let answered: Vec<usize> = (0..20).filter(|n| results.rtts(0)[*n].is_some()).collect();
    // Ten probes for each, a tenth of a second apart; the first router answers at 0 and 0.5 s.
    assert_eq!(answered, [0, 10]);
}

/// Returns a class that remarks above 1 b/s, which the first packet uses up for the rest of the
/// test.
fn remarking(dscp: u8) -> Value {
    let mut class = class(json!({}), 1, fifo(1000));
    class["police"] = json!({"rate": 1, "burst": 84, "exceed": {"remark": dscp}});
    json!({"classes": [class]})
}

#[test]
fn errors_quote_the_mark_as_it_arrived() {
    let mut links: Vec<Value> = (0..4).map(|n| link([n, n + 1], RATE, MILLISECOND)).collect();
    links[1] = with(links[1].clone(), json!({"queues": [remarking(8), fifo(9)]}));
    let changes = json!({"ttl": [1, 4], "dscp": 46, "start": 0, "stop": 2 * SECOND});
    let pings = json!({"pings": [ping(0, 4, SECOND, changes)]});
    let results = run(&with(plan("hrrrh", &links, &[2 * SECOND]), pings));
    let arrived = results.integers("pings", "dscp_arrived");
    // The first router is before the policer, and one packet conforms.
    assert_eq!(arrived, [46, 46, 8, 8, 46, 8, 8, 8]);
}

#[test]
fn a_plan_must_make_sense() {
    for changes in [json!({"ttl": [0, 3]}), json!({"ttl": [4, 3]}), json!({"train": 0})] {
        refusal(&row(&[ping(0, 4, SECOND, changes)], SECOND));
    }
    assert_eq!(refusal(&row(&[ping(0, 5, SECOND, json!({}))], SECOND)), "unknown node 5");
    assert_eq!(refusal(&row(&[ping(2, 4, SECOND, json!({}))], SECOND)), "node 2 is not a host");
    for limit in [json!({"every": 0, "burst": 1}), json!({"every": 1, "burst": 0})] {
        let mut plan = row(&[], SECOND);
        plan["network"]["nodes"][1]["icmp_errors"] = json!({"limited": limit});
        assert!(refusal(&plan).starts_with("network.nodes[1].icmp_errors.limited"));
    }
}
