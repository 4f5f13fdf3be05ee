//! Nodes that remark arriving packets: the effect downstream, and the counters.

use serde_json::{Value, json};

use crate::lab::*;

const RATE: u64 = 1_000_000_000;

/// Returns the results for a host, two routers and a host; the first router remarks packets of the
/// first host by these rules, the second those of the first router.
fn row(first: Value, second: Value, flows: &[Value], pings: &[Value]) -> Results {
    let by_dscp = json!({"classes": [
        class(json!({"dscps": [8]}), 1, fifo(100)), class(json!({}), 1, fifo(100)),
    ]});
    let links = [
        link_with([0, 1], RATE, MILLISECOND, json!({"remarks": [[], first]})),
        link_with(
            [1, 2],
            RATE,
            MILLISECOND,
            json!({"remarks": [[], second], "queues": [by_dscp, fifo(9)]}),
        ),
        link([2, 3], RATE, MILLISECOND),
    ];
    let plan = plan("hrrh", &links, &every(SECOND / 2, SECOND));
    run(&with(plan, json!({"flows": flows, "pings": pings})))
}

fn rule(matches: Value, dscp: u8) -> Value {
    json!({"matches": matches, "dscp": dscp})
}

fn clear() -> Value {
    json!([rule(json!({}), 0)])
}

/// Returns (flow, node, DSCP on arrival, packets) over the run.
fn arrived(results: &Results) -> Vec<(i64, i64, i64, i64)> {
    let column = |name| results.integers("codepoints", name);
    let mut found: Vec<(i64, i64, i64, i64)> = Vec::new();
    for (row, &packets) in column("packets").iter().enumerate() {
        let key = (column("flow")[row], column("node")[row], column("dscp_arrived")[row]);
        match found.iter_mut().find(|known| (known.0, known.1, known.2) == key) {
            Some(known) => known.3 += packets,
            None => found.push((key.0, key.1, key.2, packets)),
        }
    }
    found
}

#[test]
fn a_mark_at_the_edge_decides_the_class_downstream() {
    let edge = json!([rule(json!({"destination_ports": [[5001, 5001]]}), 8)]);
    let flows = [
        udp(0, 3, 1_000_000, 1000, json!({})),
        udp(0, 3, 1_000_000, 1000, json!({"port": 5002, "dscp": 46})),
    ];
    let results = row(edge, json!([]), &flows, &[]);
    // Classes: 0 and 1 are the first link's ports, 2 to 4 the second's, whose 3 takes CS1.
    let (marked, kept) = (results.class(3, "sent_packets"), results.class(4, "sent_packets"));
    assert!(marked > 100 && kept > 100, "{marked}, {kept}");
    let packets = |flow| results.flow(flow, "packets") as i64;
    assert_eq!(arrived(&results), [(0, 3, 8, packets(0)), (1, 3, 46, packets(1))]);
    let sent = results.integers("codepoints", "dscp_sent");
    assert!(sent.iter().eq([0, 46, 0, 46].iter()), "{sent:?}");
}

#[test]
fn acknowledgements_keep_their_mark_where_only_data_is_cleared() {
    let flow = tcp(0, 3, json!({}), json!({"dscp": 8, "volume": 100_000}));
    let results = row(clear(), json!([]), &[flow], &[]);
    let found = arrived(&results);
    assert_eq!(found.iter().map(|row| (row.1, row.2)).collect::<Vec<_>>(), [(3, 0), (0, 8)]);
    assert!(found.iter().all(|row| row.3 > 30), "{found:?}");
}

#[test]
fn the_first_router_that_clears_is_where_quotes_change() {
    let trace = ping(0, 3, SECOND, json!({"dscp": 46, "ttl": [1, 3], "stop": SECOND / 2}));
    let of = |first, second| {
        let results = row(first, second, &[], std::slice::from_ref(&trace));
        results.integers("pings", "dscp_arrived").to_vec()
    };
    assert_eq!(of(json!([]), json!([])), [46, 46]);
    assert_eq!(of(json!([]), clear()), [46, 0]);
    assert_eq!(of(clear(), json!([])), [0, 0]);
}

#[test]
fn a_host_can_mark_what_it_receives() {
    let links = [link_with([0, 1], RATE, MILLISECOND, json!({"remarks": [clear(), []]}))];
    let plan = with(
        plan("hh", &links, &[SECOND]),
        json!({"pings": [ping(0, 1, SECOND, json!({"dscp": 46, "stop": SECOND}))]}),
    );
    let results = run(&plan);
    assert_eq!(results.integers("pings", "dscp_arrived"), [46]);
    assert_eq!(results.integers("pings", "dscp_echoed"), [0]);
}

#[test]
fn a_code_point_has_six_bits() {
    let links =
        [link_with([0, 1], RATE, MILLISECOND, json!({"remarks": [[rule(json!({}), 64)], []]}))];
    let said = refusal(&plan("hh", &links, &[SECOND]));
    assert!(said.contains("remark[0].dscp: a DSCP has six bits"), "{said}");
}
