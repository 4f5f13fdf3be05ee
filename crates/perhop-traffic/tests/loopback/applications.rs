//! Applications over connections that open and close while the job runs.

use serde_json::{Value, json};

use crate::lab::{MS, floats, integers, job, merge, open, ports, run, sum, tables, tcp};
use crate::quic;

const SECOND: u64 = 1000 * MS;

/// Returns a flow of an application whose clients begin nothing after `stop`.
fn flow(kind: &str, application: Value, stop: u64) -> Value {
    let mut flow = tcp(8, Some(stop), None, json!({}));
    merge(&mut flow, &json!({"name": kind, "application": {kind: application}}));
    flow
}

/// Has the connections of a flow over QUIC.
fn over_quic(mut flow: Value, settings: Value) -> Value {
    flow["transport"] = json!({"quic": quic::settings(&settings)});
    flow
}

fn exchanges(more: Value) -> Value {
    let mut usual = json!({
        "arrivals": {"open": {"mean": 20 * MS, "exponential": false}},
        "request": {"constant": 200}, "response": {"constant": 100_000}, "server_time": 0,
        "reuse": false, "connections": 1000,
    });
    merge(&mut usual, &more);
    usual
}

/// Returns the seconds that each completion took.
fn took(tables: &crate::lab::Tables) -> Vec<f64> {
    let ends = floats(tables, "completions", "end_s").iter();
    ends.zip(floats(tables, "completions", "start_s")).map(|(end, start)| end - start).collect()
}

#[test]
fn every_byte_of_every_transfer_arrives_once() {
    // QUIC takes more of a busy processor.
    let cases = [
        (false, false, 100_000, None),
        (false, true, 100_000, None),
        (true, false, 100_000, None),
        (false, false, 20_000, Some(json!({"ecn": true}))),
        (true, true, 20_000, Some(json!({"congestion_control": "bbr1"}))),
        (false, true, 20_000, Some(json!({"window": 20_000, "stream_window": 5_000}))),
    ];
    for (v6, reuse, size, quic) in cases {
        let [request, response] = [json!({"constant": size}), json!({"constant": size})];
        let settings = json!({"reuse": reuse, "request": request, "response": response});
        let mut flow = flow("transfers", exchanges(settings), 300 * MS);
        flow = quic.into_iter().fold(flow, over_quic);
        merge(&mut flow, &json!({"streams": 3}));
        let transport = flow["transport"].clone();
        let ecn = transport["quic"]["ecn"] == true;
        let (traffic, tables) = run(&job(v6, &[200 * MS, 500 * MS], vec![flow], vec![]));
        assert_eq!(traffic.take_warnings(), Vec::<String>::new());
        let all = took(&tables);
        assert_eq!(all.len(), 45, "3 clients, every 20 ms: {transport} {all:?}");
        assert!(all.iter().all(|&took| took > 0.0 && took < 0.2), "{transport}: {all:?}");
        let sum_of_all = 45 * size;
        assert_eq!(traffic.delivered(), [sum_of_all]);
        assert_eq!(sum(&tables, "intervals", "bytes"), sum_of_all as i64);
        assert_eq!(sum(&tables, "completions", "bytes"), sum_of_all as i64);
        let opened = sum(&tables, "completions", "opened");
        assert!(if reuse { (3..10).contains(&opened) } else { opened == 45 }, "{opened}");
        assert!(sum(&tables, "intervals", "packets") >= sum_of_all as i64 / 65_536);
        assert!(sum(&tables, "intervals", "acks") > 0);
        assert!(sum(&tables, "srtts", "samples") > 0);
        assert!(integers(&tables, "codepoints", "dscp_arrived").iter().all(|&dscp| dscp == 8));
        // Both ends send data.
        let fields = integers(&tables, "codepoints", "ecn_arrived");
        assert!(fields.iter().all(|&field| field == if ecn { 2 } else { 0 }), "{fields:?}");
        assert_eq!(traffic.counters()[0], ("unknown_senders", 0));
    }
}

#[test]
fn a_server_takes_its_time() {
    let settings = json!({"server_time": 60 * MS, "response": {"constant": 10}, "reuse": true});
    for over in [|flow| flow, |flow| over_quic(flow, json!({}))] {
        let flow = over(flow("rpc", exchanges(settings.clone()), 100 * MS));
        let (traffic, tables) = run(&job(false, &[300 * MS], vec![flow], vec![]));
        assert_eq!(traffic.take_warnings(), Vec::<String>::new());
        let took = took(&tables);
        assert_eq!(took.len(), 5);
        assert!(took.iter().all(|&took| (0.06..0.16).contains(&took)), "{took:?}");
    }
}

#[test]
fn pages_load_with_and_without_multiplexing() {
    let object = |after: Option<u32>, response: u64| {
        json!({
            "after": after, "host": 0, "request": 400, "response": response, "server_time": MS,
        })
    };
    let mut objects = vec![object(None, 30_000)];
    objects.extend((0..20).map(|_| object(Some(0), 50_000)));
    let (tcp, quic): (fn(_) -> _, fn(_) -> _) = (|flow| flow, |flow| over_quic(flow, json!({})));
    for (multiplexed, over) in [(false, tcp), (true, tcp), (true, quic)] {
        let page = json!({
            "objects": objects, "multiplexed": multiplexed, "connections": 6,
            "pause": {"mean": 50 * MS, "exponential": false},
        });
        let flow = over(flow("web", page, 200 * MS));
        // QUIC has streams in place of frames.
        let frames = multiplexed && flow["transport"]["quic"].is_null();
        let (traffic, tables) = run(&job(false, &[400 * MS], vec![flow], vec![]));
        assert_eq!(traffic.take_warnings(), Vec::<String>::new());
        let took = took(&tables);
        assert!((2..=4).contains(&took.len()), "{took:?}");
        assert!(took.iter().all(|&took| (0.002..0.15).contains(&took)), "{took:?}");
        let opened = integers(&tables, "completions", "opened");
        assert!(opened.iter().all(|&opened| opened == if multiplexed { 1 } else { 6 }));
        // A header of 9 bytes for each frame of at most 16384.
        let headers = if frames { 9 * (2 + 20 * 4) } else { 0 };
        let pages = took.len() as i64;
        assert_eq!(sum(&tables, "intervals", "bytes"), pages * (1_030_000 + headers));
    }
}

#[test]
fn a_video_plays_and_the_end_of_the_run_closes_everything() {
    let video = json!({
        "bitrates": [1_000_000, 8_000_000], "segment": 100 * MS, "buffer": 300 * MS,
        "startup": 100 * MS, "length": null, "algorithm": "throughput", "request": 200,
    });
    let mut quic = over_quic(flow("video", video.clone(), 10 * SECOND), json!({}));
    quic["name"] = json!("quic");
    let video = flow("video", video, 10 * SECOND);
    let settings = json!({"server_time": 5 * SECOND});
    let slow = flow("rpc", exchanges(settings), 10 * SECOND);
    let mut traffic = open(&job(false, &[10 * SECOND], vec![video, quic, slow], vec![])).unwrap();
    traffic.start(perhop_traffic::Traffic::instant_in(0)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let before = std::time::Instant::now();
    traffic.stop();
    assert!(before.elapsed().as_millis() < 500, "nobody waits for what is under way");
    let tables = tables(&traffic);
    let rates = integers(&tables, "completions", "bitrate_bps");
    let ends = floats(&tables, "completions", "end_s");
    let kinds = |rate: i64| rates.iter().zip(ends).filter(move |each| *each.0 == rate);
    assert_eq!(kinds(1_000_000).count(), 2, "the first segments");
    assert!((6..16).contains(&kinds(8_000_000).count()), "{rates:?}");
    let calls = kinds(-1).filter(|each| each.1.is_nan()).count();
    assert!((20..30).contains(&calls), "calls are incomplete: {calls}");
}

#[test]
fn clients_without_a_server_try_again_and_nobody_waits() {
    let settings = json!({"arrivals": {"open": {"mean": 400 * MS, "exponential": false}}});
    let tcp = flow("transfers", exchanges(settings), SECOND);
    let mut quic = over_quic(tcp.clone(), json!({}));
    merge(&mut quic, &json!({"name": "quic", "port": ports()}));
    let mut job = job(false, &[500 * MS], vec![tcp, quic], vec![]);
    // Clients at an address from which nothing reaches 127.0.9.1.
    job["nodes"][1]["addresses"] = json!(["192.0.2.1"]);
    let (traffic, tables) = run(&job);
    let warnings = traffic.take_warnings();
    for name in ["transfers: ", "quic: "] {
        let own = warnings.iter().filter(|warning| warning.starts_with(name)).count();
        assert!((1..3).contains(&own), "{warnings:?}");
    }
    assert!(floats(&tables, "completions", "end_s").iter().all(|end| end.is_nan()));
    assert_eq!(took(&tables).len(), 4);
}

#[test]
fn applications_need_tcp_and_both_ends() {
    let mut flow = flow("rpc", exchanges(json!({})), SECOND);
    let mut live = job(false, &[SECOND], vec![flow.clone()], vec![]);
    live["live"] = json!({"token": crate::lab::TOKEN, "flows": [{"opens": "source"}]});
    let refused = open(&live).unwrap_err().to_string();
    assert_eq!(refused, "flow rpc: its application cannot run in a live job");
    flow["transport"] = json!({"udp": {"rate": 1_000_000, "size": 200}});
    let refused = open(&job(false, &[SECOND], vec![flow], vec![])).unwrap_err().to_string();
    assert!(refused.contains("needs TCP"), "{refused}");
}
