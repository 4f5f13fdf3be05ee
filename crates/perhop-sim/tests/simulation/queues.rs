//! Queues under traffic at constant rates, for which all results can be computed.

use serde_json::{Value, json};

use crate::lab::*;

/// Two hosts and a link of 8 Mb/s, where a thousand bytes take a millisecond.
fn direct(queue: Value, flows: &[Value], marks: &[u64]) -> Value {
    let link = link_with([0, 1], 8_000_000, MILLISECOND, json!({"queues": [queue, fifo(1000)]}));
    with(plan("hh", &[link], marks), json!({"flows": flows}))
}

#[test]
fn a_constant_rate_delivers_to_the_byte() {
    // A datagram of 972 + 28 bytes every 2 ms from 0 to 998 ms; the last arrives after 1 s.
    let flow = udp(0, 1, 3_888_000, 972, json!({"stop": SECOND}));
    let results = run(&direct(fifo(1000), &[flow], &[SECOND, 2 * SECOND]));
    assert_eq!(results.of_rows("intervals", "packets", "flow", 0), [500, 0]);
    assert_eq!(results.flow(0, "bytes"), 500 * 972);
    assert_eq!(results.port(0, "sent_bytes"), 500 * 1000);
    assert_eq!(results.floats("links", "utilisation")[0], 0.5);
}

#[test]
fn a_volume_ends_with_a_shorter_datagram() {
    let flow = udp(0, 1, 800_000, 1000, json!({"volume": 12_345}));
    let results = run(&direct(fifo(1000), &[flow], &[SECOND]));
    assert_eq!((results.flow(0, "packets"), results.flow(0, "bytes")), (13, 12_345));
}

#[test]
fn an_overloaded_queue_carries_its_rate_and_drops_the_rest() {
    // Twice what the link carries: 2000 packets of 1000 bytes in a second.
    let flow = udp(0, 1, 2 * 7_776_000, 972, json!({"stop": SECOND}));
    // A mark includes the events of its instant, such as the transmission that begins at 1 s.
    let results = run(&direct(fifo(20), &[flow], &[SECOND - 1, SECOND, 2 * SECOND]));
    let count = |column| results.of_rows("queues", column, "class", 0);
    // The transmitter never idles, and 20 wait in the end.
    assert_eq!(count("sent_packets"), [1000, 1, 19]);
    assert_eq!(count("dropped_limit"), [2000 - 1000 - 20, 0, 0]);
    assert_eq!(count("backlog_packets"), [20, 19, 0]);
    assert_eq!(count("backlog_bytes"), [20_000, 19_000, 0]);
    assert_eq!(results.flow(0, "lost"), results.class(0, "dropped_packets"));
    // The last datagram that arrives within the first second was sent 2 ms before its end.
    assert_eq!(results.goodput(0, 0, SECOND), 999.0 * 972.0 * 8.0);
}

/// Flows at constant rates and a ping through one queue, N·D/D/1: each ping waits as long as
/// Lindley's recursion predicts (D. V. Lindley, *The theory of queues with a single server*, 1952).
#[test]
fn pings_wait_as_lindleys_recursion_says() {
    const RATE: u64 = 10_000_007;
    const DELAY: u64 = 3 * MILLISECOND;
    // Period, offset and IP length of each flow; the load is 0.95, and coprime periods cause all
    // patterns of arrivals.
    let sources =
        [(4_999_999_991, 0, 1500), (3_000_000_019, 777_777, 500), (7_000_000_003, 13, 1400)];
    let period = 11_000_000_017;
    let end = 3 * SECOND;

    let flow = |&(period, offset, size): &(u64, u64, u64)| {
        let payload = size - DATAGRAM_HEADER;
        // The nearest rate; the recursion below uses the times that result from it.
        let rate = payload * 8 * SECOND / period;
        udp(0, 1, rate, payload, json!({"start": offset}))
    };
    let pings = ping(0, 1, period, json!({"start": 99}));
    let link = link([0, 1], RATE, DELAY);
    let plan = with(
        plan("hh", &[link], &[end]),
        json!({"flows": sources.iter().map(flow).collect::<Vec<_>>(), "pings": [pings]}),
    );

    let mut arrivals: Vec<(u64, u64, bool)> = Vec::new();
    for (_, offset, size) in sources {
        let payload = size - DATAGRAM_HEADER;
        let rate = payload * 8 * SECOND / sources.iter().find(|source| source.2 == size).unwrap().0;
        let sent_at = |n: u64| {
            let picobits = u128::from(n * payload * 8) * u128::from(SECOND);
            offset + (picobits / u128::from(rate)) as u64
        };
        arrivals.extend((0..).map(sent_at).take_while(|&at| at < end).map(|at| (at, size, false)));
    }
    arrivals
        .extend((0..).map(|n| 99 + n * period).take_while(|&at| at < end).map(|at| (at, 84, true)));
    arrivals.sort_unstable();
    assert!(arrivals.is_sorted_by(|a, b| a.0 < b.0), "a tie makes the order ambiguous");

    let mut free = 0;
    let mut expected = Vec::new();
    for (at, size, is_ping) in arrivals {
        free = at.max(free) + transmission(size, RATE);
        if is_ping {
            let back = DELAY + transmission(84, RATE) + DELAY;
            expected.push((free + back < end).then_some(seconds(free - at + back)));
        }
    }
    let measured = run(&plan).rtts(0);
    assert!(measured.iter().flatten().any(|&rtt| rtt > seconds(2 * DELAY + 2 * MILLISECOND)));
    assert_eq!(measured, expected);
}

/// Cumulative counts of a class at each mark.
fn cumulated(results: &Results, class: usize, column: &str) -> Vec<u64> {
    let per_stretch = results.of_rows("queues", column, "class", class);
    let sum = |sum: &mut u64, count: &i64| {
        *sum += *count as u64;
        Some(*sum)
    };
    per_stretch.iter().scan(0, sum).collect()
}

/// The guarantee of a token bucket: no more than burst + rate · t over any time t.
#[test]
fn a_policer_passes_no_more_than_its_burst_and_rate() {
    const BURST: u64 = 20_000;
    const RATE: u64 = 1_000_000;
    let mut policed = class(json!({}), 1, fifo(1000));
    policed["police"] = json!({"rate": RATE, "burst": BURST, "exceed": "drop"});
    let flow = udp(0, 1, 4_000_000, 972, json!({"start": MILLISECOND}));
    let marks: Vec<u64> = (1..200).map(|n| n * n * MILLISECOND / 7 + n).collect();
    let results = run(&direct(json!({"classes": [policed]}), &[flow], &marks));

    let conformed = cumulated(&results, 1, "conformed_bytes");
    for (first, &from) in marks.iter().enumerate() {
        for (last, &to) in marks.iter().enumerate().skip(first + 1) {
            let passed = (conformed[last] - conformed[first]) as f64;
            assert!(passed <= BURST as f64 + RATE as f64 / 8.0 * seconds(to - from));
        }
    }
    // Under overload the bucket is used up, to less than two packets.
    let elapsed = seconds(marks.last().unwrap() - MILLISECOND);
    let allowed = BURST as f64 + RATE as f64 / 8.0 * elapsed;
    assert!(*conformed.last().unwrap() as f64 > allowed - 2000.0);
    assert_eq!(results.class(1, "exceeded_packets"), results.class(1, "dropped_policer"));
    assert_eq!(results.class(1, "conformed_packets"), results.class(1, "sent_packets"));
    assert_eq!(results.flow(0, "lost"), results.class(1, "dropped_policer"));
}

/// WF2Q+ is within a packet of the fluid server (Bennett and Zhang, *Hierarchical Packet Fair
/// Queueing Algorithms*, 1997).
#[test]
fn saturated_classes_share_by_weight_to_within_a_packet() {
    let weights = [1_u64, 70, 29];
    let sizes = [1472_u64, 1000, 700];
    let classes: Vec<Value> =
        (0..3).map(|n| class(json!({"dscps": [n]}), weights[n], fifo(50))).collect();
    // Each offers the whole link's rate.
    let flows: Vec<Value> =
        (0..3).map(|n| udp(0, 1, 8_000_000, sizes[n], json!({"dscp": n}))).collect();
    let marks = every(37 * MILLISECOND, 20 * 37 * 37 * MILLISECOND);
    let results = run(&direct(json!({"classes": classes}), &flows, &marks));

    let sent: Vec<Vec<u64>> = (1..=3).map(|n| cumulated(&results, n, "sent_bytes")).collect();
    // Each flow's first packet arrives after a transmission; from then on all are backlogged.
    for mark in 0..marks.len() {
        let total: u64 = sent.iter().map(|class| class[mark]).sum();
        for class in 0..3 {
            let fair = (total * weights[class]) as f64 / 100.0;
            let ahead = sent[class][mark] as f64 - fair;
            assert!(ahead.abs() <= 1500.0, "class {class} is {ahead} bytes ahead at mark {mark}");
        }
    }
    assert!(results.floats("links", "utilisation").iter().step_by(2).all(|&used| used > 0.95));
}

#[test]
fn a_strict_class_goes_first_up_to_its_policed_rate() {
    let police = json!({"rate": 2_000_000, "burst": 3_000, "exceed": "drop"});
    let strict = json!({
        "matches": {"dscps": [46]}, "weight": null, "police": police, "queue": fifo(64),
    });
    let classes = json!({"classes": [strict, class(json!({}), 1, fifo(50))]});
    let flows =
        [udp(0, 1, 5_000_000, 972, json!({"dscp": 46})), udp(0, 1, 20_000_000, 972, json!({}))];
    let results = run(&direct(classes, &flows, &[10 * SECOND]));
    let strict = results.class(1, "sent_bytes");
    assert_eq!(strict, results.class(1, "conformed_bytes"));
    assert!((2_499_000..=2_503_000).contains(&strict), "{strict} of 2.5 MB in 10 s");
    // The other class has the rest of 10 MB, except for the first packet.
    let both = strict + results.class(2, "sent_bytes");
    assert!((9_999_000..=10_001_000).contains(&both), "{both}");
    assert_eq!(results.class(1, "dropped_limit"), 0);
}

#[test]
fn a_strict_class_waits_for_one_packet_at_most() {
    let strict = json!({
        "matches": {"dscps": [46]}, "weight": null, "police": null, "queue": fifo(64),
    });
    let classes = json!({"classes": [strict, class(json!({}), 1, fifo(50))]});
    let flood = udp(0, 1, 20_000_000, 1472, json!({}));
    let expedited = ping(0, 1, 7 * MILLISECOND + 13, json!({"dscp": 46}));
    let plan = with(direct(classes, &[flood], &[SECOND]), json!({"pings": [expedited]}));
    let idle = seconds(2 * (transmission(84, 8_000_000) + MILLISECOND));
    let one_packet = seconds(transmission(1500, 8_000_000));
    let rtts: Vec<f64> = run(&plan).rtts(0).into_iter().flatten().collect();
    assert!(rtts.iter().all(|&rtt| idle <= rtt && rtt <= idle + one_packet));
    assert!(rtts.iter().any(|&rtt| rtt > idle + 0.9 * one_packet));
}

/// Each criterion of a class selects its packets from the same traffic. Hosts 0 and 1 send to hosts
/// 2 and 3 over the link between routers 4 and 5.
#[test]
fn classes_take_what_they_match() {
    let flows = [
        udp(0, 2, 800_000, 1000, json!({"port": 1000, "volume": 10_000})),
        udp(0, 3, 800_000, 1000, json!({"port": 2000, "volume": 20_000})),
        udp(1, 2, 800_000, 1000, json!({"port": 3000, "volume": 30_000, "dscp": 8})),
        // Two segments, the SYN and the FIN; the handshake's last ACK is the first segment's.
        tcp(1, 3, json!({"mss": 1000, "delayed_ack": 0}), json!({"port": 4000, "volume": 2_000})),
    ];
    let pings = [ping(1, 2, SECOND, json!({}))];
    let cases = [
        (json!({"ports": [[1000, 1000]]}), 10),
        (json!({"ports": [[1, 999], [2000, 3500]]}), 20 + 30),
        (json!({"destination_ports": [[2000, 4000]]}), 20 + 30 + 4),
        (json!({"source_ports": [[49152, 49152]]}), 10 + 20 + 30 + 4),
        (json!({"source_ports": [[1000, 4000]]}), 0),
        (json!({"protocols": ["udp"]}), 10 + 20 + 30),
        (json!({"protocols": ["tcp"]}), 4),
        (json!({"protocols": ["icmp", "tcp"]}), 1 + 4),
        (json!({"sources": [0]}), 10 + 20),
        (json!({"sources": [1, 2, 3]}), 30 + 4 + 1),
        (json!({"destinations": [2]}), 10 + 30 + 1),
        (json!({"sources": [0], "destinations": [3]}), 20),
        (json!({"sources": [1], "protocols": ["udp"], "ports": [[3000, 3000]]}), 30),
        (json!({"sources": [1], "dscps": [8, 10]}), 30),
        (json!({"dscps": [0]}), 10 + 20 + 4 + 1),
    ];
    for (matches, expected) in cases {
        let queue = json!({"classes": [
            class(matches.clone(), 1, fifo(1000)), class(json!({}), 1, fifo(1000)),
        ]});
        let bottleneck =
            link_with([4, 5], 100_000_000, MILLISECOND, json!({"queues": [queue, fifo(1000)]}));
        let access = |host, router| link([host, router], 1_000_000_000, MICROSECOND);
        let links = [bottleneck, access(0, 4), access(1, 4), access(2, 5), access(3, 5)];
        let plan = with(plan("hhhhrr", &links, &[SECOND]), json!({"flows": flows, "pings": pings}));
        let results = run(&plan);
        // Port 0's root is class 0, the two in it are 1 and 2.
        assert_eq!(results.class(1, "sent_packets"), expected, "{matches}");
        assert_eq!(results.class(2, "sent_packets"), 10 + 20 + 30 + 4 + 1 - expected, "{matches}");
    }
}

/// Streams have the source port of their flow and the next ports, and acknowledgements go there.
#[test]
fn a_class_takes_the_flow_with_its_source_port() {
    let flows = [
        udp(0, 1, 800_000, 1000, json!({"source_port": 53, "streams": 3, "volume": 10_000})),
        udp(0, 1, 800_000, 1000, json!({"source_port": 56, "volume": 20_000})),
        udp(0, 1, 800_000, 1000, json!({"volume": 40_000})),
        // Two segments, the SYN and the FIN; the handshake's last ACK is the first segment's.
        tcp(
            0,
            1,
            json!({"mss": 1000, "delayed_ack": 0}),
            json!({"source_port": 65_535, "volume": 2_000}),
        ),
    ];
    let cases = [
        ([53, 53], 10, 0),
        ([54, 55], 10 + 10, 0),
        ([53, 56], 30 + 20, 0),
        ([1, 49_151], 30 + 20, 0),
        ([49_152, 49_152], 40, 0),
        ([65_535, 65_535], 4, 4),
    ];
    for (ports, there, back) in cases {
        let rest = || class(json!({}), 1, fifo(1000));
        let queue = |matches| json!({"classes": [class(matches, 1, fifo(1000)), rest()]});
        let queues = json!({"queues": [
            queue(json!({"source_ports": [ports]})), queue(json!({"destination_ports": [ports]})),
        ]});
        let link = link_with([0, 1], 100_000_000, MILLISECOND, queues);
        let results = run(&with(plan("hh", &[link], &[SECOND]), json!({"flows": flows})));
        // Each port has its root and two classes.
        assert_eq!(results.class(1, "sent_packets"), there, "{ports:?}");
        assert_eq!(results.class(4, "sent_packets"), back, "{ports:?}");
    }
}

/// The reverse direction: acknowledgements have exchanged ports and the DSCP of the data.
#[test]
fn acknowledgements_are_classified_too() {
    let cases = [
        json!({"ports": [[4000, 4000]]}),
        json!({"source_ports": [[4000, 4000]]}),
        json!({"destination_ports": [[49152, 49152]]}),
        json!({"sources": [1]}),
        json!({"dscps": [10]}),
    ];
    for matches in cases {
        let queue = json!({"classes": [
            class(matches.clone(), 1, fifo(1000)), class(json!({}), 1, fifo(1000)),
        ]});
        let link =
            link_with([0, 1], 8_000_000, MILLISECOND, json!({"queues": [fifo(1000), queue]}));
        let flow = tcp(0, 1, json!({}), json!({"port": 4000, "volume": 100_000, "dscp": 10}));
        let results = run(&with(plan("hh", &[link], &[SECOND]), json!({"flows": [flow]})));
        // Class 0 is the queue of the forward direction.
        assert!(results.class(2, "sent_packets") > 30, "{matches}");
        assert_eq!(results.class(3, "sent_packets"), 0, "{matches}");
    }
}

#[test]
fn nested_classes_divide_their_parents_share() {
    let inner = |dscp: u8, weight| class(json!({"dscps": [dscp]}), weight, fifo(50));
    let parent =
        class(json!({"dscps": [1, 2]}), 40, json!({"classes": [inner(1, 3), inner(2, 1)]}));
    let classes = json!({"classes": [parent, class(json!({}), 60, fifo(50))]});
    let flows: Vec<Value> = (0..3).map(|n| udp(0, 1, 8_000_000, 972, json!({"dscp": n}))).collect();
    let results = run(&direct(classes, &flows, &[10 * SECOND]));
    let sent: Vec<u64> = (0..5).map(|class| results.class(class, "sent_packets")).collect();
    // Root, parent, its two, the other; of 10,000 packets, to within one per level.
    for (class, expected) in [10_000_u64, 4_000, 3_000, 1_000, 6_000].into_iter().enumerate() {
        assert!(sent[class].abs_diff(expected) <= 2, "{sent:?}");
    }
    assert_eq!(sent[1], sent[2] + sent[3]);
    assert_eq!(sent[0], sent[1] + sent[4]);
}
