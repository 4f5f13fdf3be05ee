//! Random networks and traffic: no panic, no loss without a count, no link above its rate.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::lab::*;

/// Two routers between up to three hosts on each side.
const SIDE: u16 = 3;
const LEFT: u16 = 2 * SIDE;
const RIGHT: u16 = LEFT + 1;
const END: u64 = 2 * SECOND;

fn limit() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0_u64..60).prop_map(fifo),
        (0_u64..60_000).prop_map(|bytes| json!({"fifo": {"bytes": bytes}})),
    ]
}

fn police() -> impl Strategy<Value = Value> {
    let policer = (
        (10_000_u64..5_000_000, 0_u64..20_000),
        (prop::option::of(0_u64..20_000), prop::option::of((1_000_000_u64..9_000_000, shape()))),
        (any::<bool>(), action(), action()),
    );
    prop_oneof![
        2 => Just(Value::Null),
        1 => policer.prop_map(|((rate, burst), (excess, peak), (aware, exceed, violate))| {
            let peak = peak.map(|(_, shape)| shape);
            json!({
                "rate": rate, "burst": burst, "excess_burst": excess, "peak": peak,
                "colour_aware": aware, "exceed": exceed, "violate": violate,
            })
        }),
    ]
}

fn action() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("drop")),
        Just(json!("send")),
        (0_u8..64).prop_map(|dscp| json!({"remark": dscp})),
    ]
}

fn shape() -> impl Strategy<Value = Value> {
    (100_000_u64..9_000_000, prop_oneof![Just(0), 0_u64..20_000])
        .prop_map(|(rate, burst)| json!({"rate": rate, "burst": burst}))
}

fn matches() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::collection::vec(0_u8..4, 0..3).prop_map(|dscps| json!({"dscps": dscps})),
        prop::sample::select(vec!["tcp", "udp", "icmp"])
            .prop_map(|one| json!({"protocols": [one]})),
        (0..2 * SIDE).prop_map(|node| json!({"sources": [node]})),
        (5_000_u16..5_004).prop_map(|port| json!({"ports": [[port, port]]})),
    ]
}

/// A plain queue or classes, which may have classes inside.
fn queue() -> impl Strategy<Value = Value> {
    limit().prop_recursive(2, 8, 4, |inner| {
        let weight = prop::option::weighted(0.8, 1_u64..1_000_000);
        let shape = prop_oneof![3 => Just(Value::Null), 1 => shape()];
        let class = (matches(), weight, 0_u8..3, police(), shape, inner).prop_map(
            |(matches, weight, priority, police, shape, queue)| {
                json!({
                    "matches": matches, "weight": weight, "priority": priority,
                    "police": police, "shape": shape, "queue": queue,
                })
            },
        );
        let scheduler = prop::sample::select(vec!["classes", "drr", "link-sharing"]);
        (scheduler, prop::collection::vec(class, 1..4))
            .prop_map(|(scheduler, classes)| json!({scheduler: classes}))
    })
}

prop_compose! {
    fn wire(ends: [u16; 2], rates: std::ops::Range<u64>)(
        rate in rates,
        delay in 0..30 * MILLISECOND,
        jitter in prop_oneof![2 => Just(0), 1 => 0..10 * MILLISECOND],
        loss_ppb in prop_oneof![2 => Just(0), 1 => 0_u32..50_000_000],
        duplicate_ppb in prop_oneof![2 => Just(0), 1 => 0_u32..50_000_000],
        reorder in prop_oneof![2 => Just((0, 0)), 1 => (0_u32..50_000_000, 0..10 * MILLISECOND)],
        overhead in prop_oneof![
            Just(json!("atm")),
            (0_u32..40).prop_map(|extra| json!({"fixed": extra})),
        ],
        queues in [queue(), queue()],
    ) -> Value {
        let changes = json!({
            "jitter": jitter, "loss_ppb": loss_ppb, "overhead": overhead, "queues": queues,
            "duplicate_ppb": duplicate_ppb, "reorder": reorder,
        });
        link_with(ends, rate, delay, changes)
    }
}

fn links() -> impl Strategy<Value = Vec<Value>> {
    let access = |host: u16| {
        let router = if host < SIDE { LEFT } else { RIGHT };
        wire([host, router], 1_000_000..50_000_000).boxed()
    };
    let mut links: Vec<BoxedStrategy<Value>> = (0..2 * SIDE).map(access).collect();
    links.push(wire([LEFT, RIGHT], 100_000..20_000_000).boxed());
    links
}

prop_compose! {
    fn ends()(from in 0..2 * SIDE, distance in 1..2 * SIDE) -> (u16, u16) {
        (from, (from + distance) % (2 * SIDE))
    }
}

prop_compose! {
    fn schedule()(
        dscp in 0_u8..4, port in 5_000_u16..5_004, streams in 1_u16..3, start in 0..SECOND,
        lasts in prop::option::of(1..SECOND), volume in prop::option::of(0_u64..500_000),
    ) -> Value {
        json!({
            "dscp": dscp, "port": port, "streams": streams, "start": start,
            "stop": lasts.map(|lasts| start + lasts), "volume": volume,
        })
    }
}

prop_compose! {
    fn a_tcp_flow()(
        (from, to) in ends(), schedule in schedule(),
        (reno, sack, timestamps, limited_transmit) in any::<(bool, bool, bool, bool)>(),
        (send_window, receive_window) in (1_000_u32..300_000, 1_000_u32..300_000),
        (mss, initial_window) in (100_u16..1_461, 1_u32..20),
        delayed_ack in prop_oneof![Just(0), Just(40 * MILLISECOND)],
    ) -> Value {
        let settings = json!({
            "congestion_control": if reno { "reno" } else { "cubic" }, "sack": sack,
            "timestamps": timestamps, "limited_transmit": limited_transmit, "mss": mss,
            "send_window": send_window, "receive_window": receive_window,
            "initial_window": initial_window, "delayed_ack": delayed_ack,
        });
        tcp(from, to, settings, schedule)
    }
}

prop_compose! {
    fn a_udp_flow()(
        (from, to) in ends(), schedule in schedule(), rate in 1_000_u64..5_000_000,
        size in 29_u64..2_000, layer in prop::sample::select(vec!["application", "ip"]),
        kinds in [any::<bool>(), any::<bool>()],
    ) -> Value {
        // Exponential sizes are below 37 means, and must stay below the longest packet here.
        let size = if kinds[1] { 29 + size % 26 } else { size };
        let [gaps, sizes] = kinds.map(|random| if random { "exponential" } else { "constant" });
        let settings = json!({"transport": {"udp": {
            "layer": layer, "gaps": gaps, "sizes": sizes,
        }}});
        // One byte at 5 Mb/s is a packet every 1.6 µs, and half a million of them would not show
        // more.
        udp(from, to, rate.min(size * 8 * 2_000), size, with(schedule, settings))
    }
}

prop_compose! {
    fn a_ping()(
        (from, to) in ends(), dscp in 0_u8..4, every in MILLISECOND..SECOND, size in 0_u16..1_500,
    ) -> Value {
        ping(from, to, every, json!({"dscp": dscp, "size": size}))
    }
}

prop_compose! {
    fn a_plan()(
        seed in 0_u64..1_000,
        links in links(),
        flows in prop::collection::vec(prop_oneof![2 => a_tcp_flow(), 1 => a_udp_flow()], 0..6),
        pings in prop::collection::vec(a_ping(), 0..4),
        mut marks in prop::collection::btree_set(1..END, 0..6),
    ) -> Value {
        marks.insert(END);
        let marks: Vec<u64> = marks.into_iter().collect();
        let own = json!({"network": {"seed": seed}, "flows": flows, "pings": pings});
        with(plan("hhhhhhrr", &links, &marks), own)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn packets_are_conserved_and_links_keep_their_rate(plan in a_plan()) {
        let results = run(&plan);
        let backlogs = results.integers("queues", "backlog_packets");
        let classes = (*results.integers("queues", "class").iter().max().unwrap() + 1) as usize;
        let backlog = &backlogs[backlogs.len() - classes..];
        let roots = check_classes(&plan, &results, backlog)?;
        check_links(&plan, &results, &roots)?;
        check_routers(&plan, &results, &roots, backlog)?;
        check_flows(&plan, &results)?;
    }
}

/// Checks that the sums over the classes inside a class are those of the class. Returns each port's
/// root.
fn check_classes(
    plan: &Value,
    results: &Results,
    backlog: &[i64],
) -> Result<Vec<usize>, TestCaseError> {
    /// Checks a class and returns the number after the last one in it.
    fn check(
        queue: &Value,
        number: usize,
        results: &Results,
        backlog: &[i64],
    ) -> Result<usize, TestCaseError> {
        let mut next = number + 1;
        let kinds = ["classes", "drr", "link-sharing"];
        let inner = kinds.iter().find_map(|kind| queue[kind].as_array());
        let mut children = Vec::new();
        for class in inner.into_iter().flatten() {
            children.push(next);
            next = check(&class["queue"], next, results, backlog)?;
        }
        if inner.is_some() {
            for column in ["sent_packets", "sent_bytes"] {
                let sum: u64 = children.iter().map(|&child| results.class(child, column)).sum();
                prop_assert_eq!(sum, results.class(number, column), "{}", column);
            }
            prop_assert_eq!(
                children.iter().map(|&child| backlog[child]).sum::<i64>(),
                backlog[number]
            );
        }
        // Drops inside count outside, too.
        let inside =
            |column| children.iter().map(|&child| results.class(child, column)).sum::<u64>();
        let [total, limit, policer, exceeded, violated] = [
            "dropped_packets",
            "dropped_limit",
            "dropped_policer",
            "exceeded_packets",
            "violated_packets",
        ]
        .map(|column| results.class(number, column));
        prop_assert_eq!(total, limit + policer);
        prop_assert!(inside("dropped_packets") <= total);
        prop_assert!(policer <= exceeded + violated + inside("dropped_policer"));
        Ok(next)
    }
    let (mut roots, mut next) = (Vec::new(), 0);
    for link in plan["network"]["links"].as_array().unwrap() {
        for queue in link["queues"].as_array().unwrap() {
            roots.push(next);
            next = check(queue, next, results, backlog)?;
        }
    }
    prop_assert_eq!(next, backlog.len());
    Ok(roots)
}

/// Checks that a link carries the packets that its queue sent, and no more than its rate and the
/// packet in transmission at either end of an interval.
fn check_links(plan: &Value, results: &Results, roots: &[usize]) -> Result<(), TestCaseError> {
    let links = plan["network"]["links"].as_array().unwrap();
    for (port, &root) in roots.iter().enumerate() {
        prop_assert_eq!(results.port(port, "sent_packets"), results.class(root, "sent_packets"));
        prop_assert!(results.port(port, "lost_packets") <= results.port(port, "sent_packets"));
        let rate = links[port / 2]["rate"].as_u64().unwrap() as f64;
        let rows = results.integers("links", "link").iter().enumerate();
        for (row, _) in rows.filter(|(_, of)| **of == port as i64) {
            let [start, end, used] = ["start_s", "end_s", "utilisation"]
                .map(|column| results.floats("links", column)[row]);
            // The longest packet here: 2028 bytes in 43 cells.
            let one_packet = 43.0 * 53.0 * 8.0 / rate / (end - start);
            prop_assert!(used <= 1.0 + one_packet + 1e-9, "{} of port {}", used, port);
        }
    }
    Ok(())
}

/// Packets that reached a router left it, were dropped there, wait there, or are still in transit
/// to it.
fn check_routers(
    plan: &Value,
    results: &Results,
    roots: &[usize],
    backlog: &[i64],
) -> Result<(), TestCaseError> {
    let links = plan["network"]["links"].as_array().unwrap();
    for router in [LEFT, RIGHT] {
        let (mut came, mut gone, mut under_way) = (0, 0, 0);
        for (port, &root) in roots.iter().enumerate() {
            let link = &links[port / 2];
            let count = |name: &str| link[name].as_u64().unwrap();
            let [from, to] =
                [port % 2, 1 - port % 2].map(|end| link["ends"][end].as_u64().unwrap());
            if to == u64::from(router) {
                came += results.port(port, "sent_packets") - results.port(port, "lost_packets")
                    + results.port(port, "duplicated_packets");
                // The shortest packet has at least 20 bytes.
                let reorder = link["reorder"][1].as_u64().unwrap();
                let flight = count("delay") + count("jitter") + reorder;
                under_way += flight / transmission(20, count("rate")) + 1;
            }
            if from == u64::from(router) {
                gone += results.class(root, "sent_packets")
                    + results.class(root, "dropped_packets")
                    + backlog[root] as u64;
            }
        }
        prop_assert!(gone <= came, "router {} sent {} of {}", router, gone, came);
        prop_assert!(came - gone <= under_way, "router {} sent {} of {}", router, gone, came);
    }
    Ok(())
}

/// No more is delivered than was sent, and every loss has a place and a cause.
fn check_flows(plan: &Value, results: &Results) -> Result<(), TestCaseError> {
    for (number, flow) in plan["flows"].as_array().unwrap().iter().enumerate() {
        if let Some(volume) = flow["volume"].as_u64() {
            let streams = flow["streams"].as_u64().unwrap();
            prop_assert!(results.flow(number, "bytes") <= streams * volume);
        }
        let told = results.of_rows("losses", "packets", "flow", number).iter().sum::<i64>();
        prop_assert_eq!(told as u64, results.flow(number, "lost"));
    }
    Ok(())
}
