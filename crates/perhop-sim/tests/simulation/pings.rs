//! Pings: their measurements, and their DSCP.

use serde_json::{Value, json};

use crate::lab::*;

/// Returns the results for a host, a router and a host; 1 Gb/s and 1 ms to the router, then the
/// link `second`.
fn path(second: Value, flows: &[Value], pings: &[Value], end: u64) -> Results {
    let links = [link([0, 1], 1_000_000_000, MILLISECOND), second];
    run(&with(plan("hrh", &links, &[end]), json!({"flows": flows, "pings": pings})))
}

#[test]
fn an_idle_path_is_measured_to_the_picosecond() {
    let (rate, delay) = (2_999_999, 7 * MILLISECOND + 3);
    for size in [0, 1, 56, 1472] {
        let second = link_with([1, 2], rate, delay, json!({"overhead": "atm"}));
        let pings = [ping(0, 2, 100 * MILLISECOND, json!({"size": size, "start": 5}))];
        let results = path(second, &[], &pings, SECOND);
        let packet = size + DATAGRAM_HEADER;
        let cells = (packet + 16).div_ceil(48) * 53;
        let one_way =
            transmission(packet, 1_000_000_000) + MILLISECOND + transmission(cells, rate) + delay;
        assert_eq!(results.rtts(0), vec![Some(seconds(2 * one_way)); 10], "{size} bytes");
        let sent: Vec<f64> = (0..10).map(|n| seconds(5 + n * 100 * MILLISECOND)).collect();
        assert_eq!(results.floats("pings", "sent_s"), sent);
        assert_eq!(results.integers("pings", "sequence"), (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn pings_go_out_from_start_until_before_stop() {
    let schedule = json!({"start": 250 * MILLISECOND, "stop": 450 * MILLISECOND});
    let pings = [ping(0, 2, 100 * MILLISECOND, schedule), ping(2, 0, SECOND, json!({}))];
    let results =
        path(link([1, 2], 1_000_000_000, MILLISECOND), &[], &pings, 2 * SECOND + MILLISECOND);
    assert_eq!(results.rtts(0).len(), 2);
    // The third one in the other direction is sent at 2 s and still in transit.
    let other = results.rtts(1);
    assert_eq!(other.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
}

/// The wait behind a full queue: its limit, and the rest of the packet in transmission.
#[test]
fn under_load_the_queues_limit_bounds_the_round_trip() {
    const RATE: u64 = 10_000_000;
    let limits = [
        (fifo(50), transmission(50 * 1500, RATE)),
        (json!({"fifo": {"bytes": 30_000}}), transmission(30_000, RATE)),
    ];
    for (queue, longest) in limits {
        let second =
            link_with([1, 2], RATE, 5 * MILLISECOND, json!({"queues": [queue, fifo(1000)]}));
        let flood = udp(0, 2, 20_000_000, 1472, json!({}));
        let pings = [ping(0, 2, 13 * MILLISECOND, json!({}))];
        let results = path(second, &[flood], &pings, 4 * SECOND);
        let idle = seconds(
            2 * (transmission(84, 1_000_000_000) + transmission(84, RATE) + 6 * MILLISECOND),
        );
        let bound = idle + seconds(longest + transmission(1500, RATE));
        let rtts: Vec<f64> = results.rtts(0).into_iter().flatten().collect();
        assert!(rtts.len() > 30, "{} answers", rtts.len());
        assert!(rtts.iter().all(|&rtt| idle <= rtt && rtt <= bound));
        assert!(rtts.iter().any(|&rtt| rtt > idle + 0.9 * seconds(longest)));
    }
}

#[test]
fn a_lost_ping_has_no_round_trip_time() {
    let second = link_with([1, 2], 1_000_000_000, MILLISECOND, json!({"loss_ppb": 300_000_000}));
    let pings = [ping(0, 2, 10 * MILLISECOND, json!({"dscp": 46, "stop": 20 * SECOND}))];
    let results = path(second, &[], &pings, 21 * SECOND);
    let rtts = results.rtts(0);
    let lost = rtts.iter().filter(|rtt| rtt.is_none()).count();
    // Requests and replies are lost: 1 − 0.7² of 2000, within five standard deviations of 22.
    assert!(lost.abs_diff(1_020) < 112, "{lost} of {}", rtts.len());
    let echoed = results.integers("pings", "dscp_echoed");
    let expected = rtts.iter().map(|rtt| if rtt.is_some() { 46 } else { -1 });
    assert!(echoed.iter().copied().eq(expected));
    assert_eq!(results.port(2, "lost_packets") + results.port(3, "lost_packets"), lost as u64);
}

/// Returns a class that remarks above 1 kb/s, which the first packet uses up for the rest of the
/// test.
fn remarking(dscp: u8) -> Value {
    let mut class = class(json!({}), 1, fifo(1000));
    class["police"] = json!({"rate": 1_000, "burst": 84, "exceed": {"remark": dscp}});
    json!({"classes": [class]})
}

#[test]
fn the_mark_that_comes_back_is_the_one_that_arrived() {
    let pings = [ping(0, 2, 100 * MILLISECOND, json!({"dscp": 46, "stop": 300 * MILLISECOND}))];
    let echoed = |there: Value, back: Value| {
        let second =
            link_with([1, 2], 1_000_000_000, MILLISECOND, json!({"queues": [there, back]}));
        let results = path(second, &[], &pings, SECOND);
        assert_eq!(results.integers("pings", "dscp_sent"), [46, 46, 46]);
        results.integers("pings", "dscp_echoed").to_vec()
    };
    assert_eq!(echoed(fifo(9), fifo(9)), [46, 46, 46]);
    assert_eq!(echoed(remarking(8), fifo(9)), [46, 8, 8]);
    assert_eq!(echoed(fifo(9), remarking(10)), [46, 10, 10]);
    // The reply to a remarked request is remarked once more.
    assert_eq!(echoed(remarking(8), remarking(10)), [46, 10, 10]);
}

#[test]
fn a_remarked_packet_falls_into_another_class_downstream() {
    let classes = json!({"classes": [
        class(json!({"dscps": [8]}), 1, fifo(100)), class(json!({}), 1, fifo(100)),
    ]});
    let links = [
        link_with([0, 1], 1_000_000_000, MILLISECOND, json!({"queues": [remarking(8), fifo(9)]})),
        link_with([1, 2], 1_000_000_000, MILLISECOND, json!({"queues": [classes, fifo(9)]})),
    ];
    let pings = [ping(0, 2, 10 * MILLISECOND, json!({"stop": 100 * MILLISECOND}))];
    let results = run(&with(plan("hrh", &links, &[SECOND]), json!({"pings": pings})));
    // Classes: 0 and 1 of the first port, 2 of its way back, 3 to 5 of the second link's port.
    assert_eq!(results.class(1, "exceeded_packets"), 9);
    assert_eq!(results.class(1, "dropped_packets"), 0);
    assert_eq!((results.class(4, "sent_packets"), results.class(5, "sent_packets")), (9, 1));
}
