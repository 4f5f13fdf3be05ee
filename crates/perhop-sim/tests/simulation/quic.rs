//! QUIC compared with theory: ceilings, windows, handshakes, and shares beside TCP.

use serde_json::{Value, json};

use crate::lab::*;

const RATE: u64 = 10_000_000;
const RTT: u64 = 40 * MILLISECOND;

/// Returns links with a bottleneck behind a router, whose queue holds `limit` packets.
fn bottleneck(limit: u64) -> [Value; 2] {
    let changes = json!({"queues": [fifo(limit), fifo(1 << 40)]});
    let slow = link_with([1, 2], RATE, RTT / 2 - MICROSECOND, changes);
    [link([0, 1], 10 * RATE, MICROSECOND), slow]
}

fn over(links: &[Value], flows: &[Value], marks: &[u64]) -> Value {
    with(plan("hrh", links, marks), json!({"flows": flows}))
}

/// A datagram of 1452 B has 28 B of headers around it, and in it a header of 11 B, a tag of 16 B
/// and a STREAM frame of 6 or 10 B (RFC 9000, sections 17.3.1 and 19.8; RFC 9001, section 5.3).
const PAYLOAD: f64 = (1452.0 - 11.0 - 16.0 - 8.0) / (1452.0 + 28.0);

/// Half the window leaves the link just busy if the buffer holds a round trip, as with TCP.
#[test]
fn one_flow_fills_the_link_if_the_buffer_holds_a_round_trip() {
    let product = RATE * RTT / SECOND / 8 / 1480 + 1;
    for control in ["reno", "cubic", "bbr"] {
        let flow = quic(0, 2, json!({"congestion_control": control}), json!({}));
        let plan = over(&bottleneck(product + 3), &[flow], &[5 * SECOND, 35 * SECOND]);
        let share = run(&plan).goodput(0, 5 * SECOND, 35 * SECOND) / (RATE as f64 * PAYLOAD);
        println!("{control} alone: {share:.4} of the ceiling");
        let least = if control == "bbr" { 0.95 } else { 0.985 };
        assert!((least..1.004).contains(&share), "{control}: {share}");
    }
}

/// Connection and stream limits bound the rate to a window per round trip, several streams to the
/// sum of theirs. New limits are announced in eighths of a window.
#[test]
fn a_window_bounds_throughput() {
    let ratio = |streams: u64, window: u64, each: u64, expected: u64| {
        let settings = json!({"streams": streams, "window": window, "stream_window": each});
        let flow = quic(0, 2, settings, json!({}));
        let plan = over(&bottleneck(1000), &[flow], &[5 * SECOND, 15 * SECOND]);
        let goodput = run(&plan).goodput(0, 5 * SECOND, 15 * SECOND);
        goodput / ((expected * 8) as f64 / seconds(RTT))
    };
    for (streams, window, each, expected) in
        [(1, 30_000, 1 << 20, 30_000), (1, 1 << 20, 30_000, 30_000), (3, 1 << 20, 8_000, 24_000)]
    {
        let ratio = ratio(streams, window, each, expected);
        println!("{streams} streams: {ratio:.4} of window / RTT");
        assert!((0.75..1.001).contains(&ratio), "{ratio}");
    }
}

/// Flows of QUIC and TCP with the same congestion control have about equal shares: the ratio of two
/// flows with it is below 1.5 over a minute, in which losses are not synchronised.
#[test]
fn quic_and_tcp_with_the_same_control_share_the_link() {
    for control in ["reno", "cubic"] {
        let settings = json!({"congestion_control": control});
        let (one, other) =
            (quic(0, 2, settings.clone(), json!({})), tcp(0, 2, settings, json!({})));
        let plan = over(&bottleneck(50), &[one, other], &[20 * SECOND, 140 * SECOND]);
        let results = run(&plan);
        let share = |flow| results.goodput(flow, 20 * SECOND, 140 * SECOND);
        let ratio = share(0) / share(1);
        println!("{control}: QUIC has {ratio:.3} of TCP's goodput");
        assert!((0.67..1.5).contains(&ratio), "{control}: {ratio}");
        assert!(share(0) + share(1) > 0.95 * RATE as f64 * PAYLOAD);
    }
}

/// Without reordering each retransmission repairs a loss: data lost once is sent once more.
#[test]
fn every_retransmission_repairs_a_loss() {
    let flow = quic(0, 2, json!({"streams": 4}), json!({"volume": 20_000_000}));
    let results = run(&over(&bottleneck(30), &[flow], &[60 * SECOND]));
    let (lost, again) = (results.flow(0, "lost"), results.flow(0, "retransmits"));
    assert_eq!(results.flow(0, "bytes"), 20_000_000);
    // A probe after a timeout may repeat data that was not lost.
    assert!(lost > 10 && again >= lost && again <= lost + 3, "{again} for {lost}");
    assert_eq!(results.flow(0, "reordered"), 0);
}

/// A small transfer takes two round trips and the transmission times: a handshake and the data.
/// Certificates beyond three times the client's datagram take another one.
#[test]
fn a_small_transfer_takes_two_round_trips() {
    let completion = |certificates: u64| {
        let flow = quic(0, 2, json!({"certificates": certificates}), json!({"volume": 8_000}));
        let results = run(&over(&bottleneck(100), &[flow], &[2 * SECOND]));
        results.floats("intervals", "completion_s")[0] / seconds(RTT)
    };
    let (short, long) = (completion(2_000), completion(4_500));
    assert!((1.5..1.8).contains(&short), "{short}"); // the last half round trip is an answer's
    assert!((long - short - 1.0).abs() < 0.05, "{long}");
}

/// Datagrams grow to the MTU of the path without ICMP errors, of which there are none here.
#[test]
fn datagrams_grow_to_the_path_mtu() {
    let sizes = |mtu: u64| {
        let links = [
            link([0, 1], 10 * RATE, MICROSECOND),
            link_with([1, 2], RATE, RTT / 2, json!({"mtu": mtu})),
        ];
        let flow = quic(0, 2, json!({}), json!({"volume": 3_000_000}));
        let results = run(&over(&links, &[flow], &[10 * SECOND]));
        results.flow(0, "bytes") as f64 / results.flow(0, "packets") as f64
    };
    let (wide, narrow) = (sizes(1500), sizes(1300));
    assert!(wide > 1400.0 && (1200.0..1270.0).contains(&narrow), "{wide} and {narrow}");
}

/// Marks take the place of losses.
#[test]
fn marks_replace_losses() {
    for control in ["cubic", "prague"] {
        let settings = json!({"congestion_control": control, "ecn": true});
        let flow = quic(0, 2, settings, json!({}));
        let (limit, target, interval) =
            (json!({"packets": 1000}), 5 * MILLISECOND, 100 * MILLISECOND);
        let codel = json!({"limit": limit, "target": target, "interval": interval, "ecn": true});
        let changes = json!({"queues": [{"codel": codel}, fifo(1 << 40)]});
        let slow = link_with([1, 2], RATE, RTT / 2 - MICROSECOND, changes);
        let links = [link([0, 1], 10 * RATE, MICROSECOND), slow];
        let results = run(&over(&links, &[flow], &[20 * SECOND]));
        let (marked, echoed) = (results.flow(0, "marked"), results.flow(0, "echoed"));
        assert!(marked > 5 && echoed > marked / 2 && echoed <= marked, "{echoed} of {marked}");
        assert!(results.flow(0, "lost") < 20);
        assert!(results.goodput(0, 0, 20 * SECOND) > 0.85 * RATE as f64);
    }
}
