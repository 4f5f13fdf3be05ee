//! Applications over connections that open and close during the run.

use perhop_core::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::lab::*;

const RTT: u64 = 100 * MILLISECOND;

/// Returns a flow of transfers or calls from the server 0 to clients at host 1.
fn exchanges(kind: &str, settings: Value, tcp_settings: Value, changes: Value) -> Value {
    let usual = json!({
        "arrivals": {"open": {"mean": 10 * SECOND, "exponential": false}},
        "request": {"constant": 100}, "response": {"constant": 100_000}, "server_time": 0,
        "reuse": false, "connections": 1000,
    });
    let reno = json!({"congestion_control": "reno", "delayed_ack": 0});
    let mut flow = tcp(0, 1, with(reno, tcp_settings), changes);
    let mut application = usual;
    for (key, value) in settings.as_object().expect("settings are an object") {
        application[key] = value.clone();
    }
    flow["application"] = json!({kind: application});
    flow
}

fn direct(rate: u64, flows: &[Value], end: u64) -> Value {
    with(plan("hh", &[link([0, 1], rate, RTT / 2)], &[end]), json!({"flows": flows}))
}

/// Returns start and end of each completion, in picoseconds; the end of one that is incomplete is
/// `None`.
fn spans(results: &Results) -> Vec<(u64, Option<u64>)> {
    let picos = |seconds: &f64| (seconds * SECOND as f64).round() as u64;
    let ends = results.floats("completions", "end_s").iter();
    let ends = ends.map(|end| (!end.is_nan()).then(|| picos(end)));
    results.floats("completions", "start_s").iter().map(picos).zip(ends).collect()
}

/// Returns the time that an idle path takes for a response of `bytes` after its request of 100 B,
/// by slow start (RFC 5681, section 3.1): each acknowledgement of a segment releases two more. The
/// server acknowledges the request first.
fn by_slow_start(rate: u64, bytes: u64) -> u64 {
    let on_wire = |bytes| transmission(bytes, rate);
    let (mut free, mut last) = (on_wire(TCP_HEADER), 0);
    let mut released = std::collections::VecDeque::from([0; 10]);
    let mut left = bytes;
    while left > 0 {
        let payload = left.min(1460);
        left -= payload;
        let at: u64 = released.pop_front().expect("an acknowledgement released it");
        free = at.max(free) + on_wire(payload + TCP_HEADER);
        last = free + RTT / 2;
        let acknowledged = last + on_wire(TCP_HEADER) + RTT / 2;
        released.extend([acknowledged; 2]);
    }
    on_wire(100 + TCP_HEADER) + RTT / 2 + last
}

/// A handshake of SYNs with 12 bytes of options, and then slow start, to the picosecond.
#[test]
fn a_transfer_on_an_idle_path_takes_what_slow_start_takes() {
    for rate in [100_000_000, 1_000_000_000] {
        for bytes in [1, 1460, 14_600, 14_601, 100_000, 1_000_000] {
            let settings = json!({"response": {"constant": bytes}});
            let flow = exchanges("transfers", settings, json!({}), json!({}));
            let results = run(&direct(rate, &[flow], 9 * SECOND));
            let opening = 2 * (transmission(TCP_HEADER + 12, rate) + RTT / 2);
            let expected = opening + by_slow_start(rate, bytes);
            // Tables have seconds with 53 bits.
            let took = spans(&results)[0].1.expect("it is complete");
            assert!(took.abs_diff(expected) <= 1, "{bytes} B: {took} instead of {expected} ps");
            assert_eq!(results.flow(0, "bytes"), bytes);
        }
    }
}

/// The second exchange of a connection needs no handshake, and begins with the window that the
/// first one has reached, until a retransmission timeout of silence has passed.
#[test]
fn a_reused_connection_keeps_its_window_for_a_short_time() {
    let time = |pause: u64| {
        let arrivals = json!({"closed": {"mean": pause, "exponential": false}});
        let settings =
            json!({"arrivals": arrivals, "reuse": true, "response": {"constant": 43_800}});
        let flow = exchanges("rpc", settings, json!({}), json!({}));
        let results = run(&direct(1_000_000_000, &[flow], 9 * SECOND));
        let spans = spans(&results);
        assert_eq!(results.integers("completions", "opened")[..2], [1, 0]);
        (spans[1].1.unwrap() - spans[1].0) as f64 / RTT as f64
    };
    // 30 segments: two round trips from a window of ten segments, and one from forty.
    assert!((1.0..1.1).contains(&time(RTT)), "{}", time(RTT));
    assert!((2.0..2.1).contains(&time(SECOND)), "{}", time(SECOND));
}

/// A client acknowledges the answer to its SYN at once, also if it has nothing to send: its
/// connection waits for a call while another one took the call that it was opened for. Without
/// that, its server's timer expires, and the response waits for slow start from one segment. On
/// a lossless path nothing is sent twice: 21 segments of a window of ten take two round trips
/// after the request's, and the handshake another one.
#[test]
fn a_connection_that_is_not_used_at_once_is_open() {
    let settings = json!({
        "arrivals": {"open": {"mean": 170 * MILLISECOND, "exponential": true}},
        "reuse": true, "response": {"constant": 30_000},
    });
    let flow = exchanges("rpc", settings, json!({}), json!({"stop": 50 * SECOND}));
    let results = run(&direct(1_000_000_000, &[flow], 60 * SECOND));
    assert_eq!(results.flow(0, "retransmits"), 0);
    let spans = spans(&results);
    let longest = spans.iter().map(|span| span.1.unwrap() - span.0).max().unwrap();
    assert!(spans.len() > 200, "{}", spans.len());
    assert!(longest < 4 * RTT, "{longest}");
}

/// A request and its response carry acknowledgements: a server that is about to delay its own has
/// none to send, and nor has a client that asks again at once.
#[test]
fn data_carries_delayed_acknowledgements() {
    let arrivals = json!({"closed": {"mean": 0, "exponential": false}});
    let settings = json!({"arrivals": arrivals, "reuse": true, "response": {"constant": 1000}});
    let packets = |ecn: &str| {
        let tcp = json!({"delayed_ack": 40 * MILLISECOND, "ecn": ecn});
        let flow = exchanges("rpc", settings.clone(), tcp, json!({}));
        let results = run(&direct(1_000_000_000, &[flow], 10 * SECOND));
        let calls = results.integers("completions", "opened").len() as f64;
        [0, 1].map(|port| results.port(port, "sent_packets") as f64 / calls)
    };
    // One packet per call and direction; two with ECN, whose bits both directions would need.
    assert!(packets("off").iter().all(|each| (1.0..1.05).contains(each)));
    assert!(packets("classic").iter().all(|each| (1.9..2.1).contains(each)));
}

/// The bytes of a flow are those that its clients have asked for.
#[test]
fn every_byte_is_counted_once() {
    let settings = json!({
        "arrivals": {"open": {"mean": 50 * MILLISECOND, "exponential": true}},
        "response": {"exponential": 50_000},
    });
    let flow =
        exchanges("transfers", settings, json!({}), json!({"streams": 3, "stop": 4 * SECOND}));
    let results = run(&direct(100_000_000, &[flow], 20 * SECOND));
    let spans = spans(&results);
    assert!(spans.len() > 150 && spans.iter().all(|span| span.1.is_some()));
    let asked: i64 = results.integers("completions", "bytes").iter().sum();
    assert_eq!(results.flow(0, "bytes"), asked as u64);
}

/// Slots are used again: memory does not grow with the number of connections.
#[test]
fn connections_end() {
    let arrivals = json!({"open": {"mean": 10 * MILLISECOND, "exponential": false}});
    let settings = json!({"arrivals": arrivals, "response": {"constant": 1000}});
    let flow = exchanges("transfers", settings, json!({}), json!({"stop": 59 * SECOND}));
    let mut simulation = build(&direct(1_000_000_000, &[flow], 60 * SECOND)).unwrap();
    let mut most = 0;
    for second in 1..=60 {
        simulation.advance(Time::from_picos(second * SECOND));
        most = most.max(simulation.open_connections());
    }
    // Opening, request, and closing from both ends: three and a half round trips of 100 ms.
    assert!((30..40).contains(&most), "{most}");
    assert_eq!(simulation.open_connections(), 0);
    let results = Results::of(&simulation);
    assert_eq!(results.floats("completions", "end_s").len(), 5900);
    assert_eq!(results.flow(0, "bytes"), 5_900_000);
}

#[test]
fn what_has_not_ended_is_in_the_table() {
    let settings = json!({"arrivals": {"open": {"mean": SECOND, "exponential": false}}});
    let flow = exchanges("transfers", settings, json!({}), json!({"start": SECOND / 2}));
    let results = run(&direct(1_000_000, &[flow], 2 * SECOND));
    let spans = spans(&results);
    assert_eq!(spans.iter().map(|span| span.1.is_some()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(spans[1].0, 3 * SECOND / 2);
    assert_eq!(results.integers("completions", "number"), [0, 1]);
}

/// Replaces the transport of a flow by QUIC with a window, certificates of a length, and a
/// congestion control.
fn over_quic(flow: &mut Value, (window, certificates): (u64, u64), control: &str) {
    let settings = json!({
        "window": window, "stream_window": window / 2, "certificates": certificates,
        "congestion_control": control, "ecn": window % 2 == 0 && !control.starts_with("bbr"),
    });
    flow["transport"] = quic(0, 1, settings, json!({}))["transport"].clone();
}

fn lossy(kind: &str, seed: u64, loss_ppb: u32, limit: u64, settings: Value, tcp: Value) -> Value {
    let changes = json!({
        "loss_ppb": loss_ppb, "jitter": MILLISECOND, "duplicate_ppb": loss_ppb,
        "queues": [fifo(limit), fifo(limit)],
    });
    let links = [link_with([0, 1], 20_000_000, 10 * MILLISECOND, changes)];
    let span = json!({"stop": 3 * SECOND, "streams": 2});
    let flow = exchanges(kind, settings, tcp, span);
    // A lost SYN costs a second: 600 requests, one after the other, may take minutes.
    let marks = [SECOND, 2 * SECOND, 3000 * SECOND];
    with(plan("hh", &links, &marks), json!({"network": {"seed": seed}, "flows": [flow]}))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is lost, every request is answered with what it asks for, connections end, and the
    /// same seed gives the same tables.
    #[test]
    fn every_request_is_answered(
        seed: u64,
        loss_ppb in prop::sample::select(&[0_u32, 10_000_000, 100_000_000][..]),
        limit in 2_u64..100,
        (closed, reuse, rpc) in any::<(bool, bool, bool)>(),
        gap in 5_u64..500,
        response in 1_u64..200_000,
        control in prop::sample::select(&["reno", "cubic", "bbr", "bbr1", "ledbat++"][..]),
        (rack, timestamps, autotuning, small_queues) in any::<(bool, bool, bool, bool)>(),
        connections in 1_u64..20,
        datagrams in prop::option::of((3_000_u64..100_000, 500_u64..8_000)),
    ) {
        let gaps = json!({"mean": gap * MILLISECOND, "exponential": true});
        let mut settings = json!({
            "reuse": reuse, "response": {"exponential": response}, "connections": connections,
            "server_time": MILLISECOND,
        });
        settings["arrivals"] = if closed { json!({"closed": gaps}) } else { json!({"open": gaps}) };
        let tcp = json!({
            "congestion_control": control, "rack": rack, "timestamps": timestamps,
            "autotuning": autotuning, "small_queues": small_queues, "quick_acks": autotuning,
            "delayed_ack": 40 * MILLISECOND,
        });
        let kind = if rpc { "rpc" } else { "transfers" };
        let mut plan = lossy(kind, seed, loss_ppb, limit, settings, tcp);
        if let Some(settings) = datagrams {
            over_quic(&mut plan["flows"][0], settings, control);
        }
        let mut simulation = build(&plan).unwrap();
        simulation.advance(Time::MAX);
        let results = Results::of(&simulation);
        prop_assert!(spans(&results).iter().all(|span| span.1.is_some()), "not all is complete");
        let asked: i64 = results.integers("completions", "bytes").iter().sum();
        prop_assert_eq!(results.flow(0, "bytes"), asked as u64);
        prop_assert_eq!(simulation.open_connections(), 0, "connections stay open");
        prop_assert_eq!(results.bits(), run(&plan).bits());
    }

    /// Pages and videos over a link that loses come to an end, whenever their clients stop.
    #[test]
    fn pages_and_videos_end(
        seed: u64,
        loss_ppb in prop::sample::select(&[0_u32, 20_000_000][..]),
        limit in 5_u64..100,
        stop in 1_u64..6000,
        (web, choice) in any::<(bool, bool)>(),
        objects in prop::collection::vec((any::<u32>(), 1_u64..60_000), 1..12),
        (buffer, bitrate) in (2_u64..20, 10_000_u64..9_000_000),
        datagrams in prop::option::of((3_000_u64..100_000, 500_u64..8_000)),
    ) {
        let mut plan = lossy("rpc", seed, loss_ppb, limit, json!({}), json!({}));
        let object = |(number, (after, size)): (usize, &(u32, u64))| json!({
            "after": (number > 0).then(|| *after as usize % number.max(1)), "host": number % 2,
            "request": 100, "response": size, "server_time": MILLISECOND,
        });
        let objects: Vec<_> = objects.iter().enumerate().map(object).collect();
        let pages = json!({
            "objects": objects, "multiplexed": choice, "connections": 6,
            "pause": {"mean": 100 * MILLISECOND, "exponential": true},
        });
        let video = json!({
            "bitrates": [bitrate, 2 * bitrate, 5 * bitrate], "segment": SECOND, "length": null,
            "buffer": buffer * SECOND, "startup": 2 * SECOND, "request": 100,
            "algorithm": if choice { "throughput" } else { "buffer" },
        });
        let flow = &mut plan["flows"][0];
        flow["application"] = if web { json!({"web": pages}) } else { json!({"video": video}) };
        flow["stop"] = json!(stop * MILLISECOND);
        if let Some(settings) = datagrams {
            over_quic(flow, settings, "cubic");
        }
        let mut simulation = build(&plan).unwrap();
        simulation.advance(Time::MAX);
        prop_assert_eq!(simulation.open_connections(), 0, "connections stay open");
        let results = Results::of(&simulation);
        let kinds = results.names("completions", "kind");
        for (kind, span) in kinds.into_iter().zip(spans(&results)) {
            let complete = span.1.is_some();
            prop_assert!(complete || kind == "startup", "a {kind} is not complete");
        }
        let asked: i64 = results.integers("completions", "bytes").iter().sum();
        prop_assert!(results.flow(0, "bytes") >= asked as u64);
    }
}
