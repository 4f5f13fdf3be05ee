use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use perhop_traffic::{Traffic, TrafficError};
use serde_json::json;

use crate::lab::{MS, floats, integers, job, merge, open, run, sum, tcp};

#[test]
fn a_volume_arrives_whole_and_says_when() {
    for v6 in [false, true] {
        let mut flow = tcp(8, None, Some(3_000_000), json!({}));
        merge(&mut flow, &json!({"streams": 3}));
        let (traffic, tables) = run(&job(v6, &[200 * MS, 1000 * MS], vec![flow], vec![]));
        assert_eq!(traffic.take_warnings(), Vec::<String>::new());
        assert_eq!(traffic.delivered(), [9_000_000]);
        assert_eq!(sum(&tables, "intervals", "bytes"), 9_000_000);
        let completed = floats(&tables, "intervals", "completion_s");
        let completed: Vec<_> = completed.iter().filter(|time| !time.is_nan()).collect();
        assert_eq!(completed.len(), 3, "{completed:?}");
        assert!(completed.iter().all(|&&time| time > 0.0 && time < 1.0), "{completed:?}");
        // Everything that arrived was marked, in both directions.
        assert!(integers(&tables, "codepoints", "dscp_arrived").iter().all(|&dscp| dscp == 8));
        let packets = sum(&tables, "codepoints", "packets");
        assert!(packets > 9_000_000 / 1460, "{packets}");
        assert!(sum(&tables, "intervals", "packets") >= 9_000_000 / 1460);
        assert!(sum(&tables, "intervals", "acks") > 0);
        assert!(sum(&tables, "srtts", "samples") > 0);
        assert_eq!(
            sum(&tables, "rtts", "samples"),
            0,
            "round-trip times of single segments are unknown"
        );
        assert!(integers(&tables, "intervals", "cwnd").iter().all(|&cwnd| cwnd > 0));
    }
}

#[test]
fn source_ports_are_those_of_the_flow_in_each_run() {
    let mut flow = tcp(0, None, Some(100_000), json!({}));
    merge(&mut flow, &json!({"streams": 2, "source_port": 19_998}));
    // Another one has no source port, and must not get one of these.
    let mut other = tcp(0, None, Some(100_000), json!({}));
    merge(&mut other, &json!({"name": "other", "port": flow["port"]}));
    let mut same = flow.clone();
    merge(&mut same, &json!({"name": "same", "source_port": 49_152}));
    let job = job(false, &[300 * MS], vec![flow, same, other], vec![]);
    // The second run begins while the kernel remembers the connections of the first.
    for _ in 0..2 {
        // A stream from another address or port would not be recognised.
        let (traffic, _) = run(&job);
        assert_eq!(traffic.take_warnings(), Vec::<String>::new());
        assert_eq!(traffic.delivered(), [200_000, 200_000, 100_000]);
    }
    let mut twice = job;
    twice["flows"][1]["source_port"] = json!(19_999);
    let refused = open(&twice).unwrap_err().to_string();
    assert_eq!(refused, "flow same: another stream of near has the source port 19999");
}

#[test]
fn a_connection_stops_when_it_is_told_to() {
    let flow = tcp(0, Some(200 * MS), None, json!({}));
    let (traffic, tables) = run(&job(false, &[200 * MS, 400 * MS, 600 * MS], vec![flow], vec![]));
    assert_eq!(traffic.take_warnings(), Vec::<String>::new());
    let bytes = integers(&tables, "intervals", "bytes");
    assert!(bytes[0] > 1_000_000, "{bytes:?}");
    assert_eq!(bytes[2], 0, "{bytes:?}");
}

#[test]
fn no_more_than_the_window_is_ever_offered() {
    for window in [8 << 10, 64 << 10, 1 << 20] {
        let windows = json!({"send_window": window, "receive_window": 4 << 20});
        let flow = tcp(0, Some(300 * MS), None, windows);
        let (traffic, tables) = run(&job(false, &[300 * MS], vec![flow], vec![]));
        let got = traffic.windows()[0];
        // What packets take beside their data may cost a little, and the kernel may offer more for
        // a moment until it is told not to.
        assert!(got < 2 * window && got > window / 2, "{got} of {window}");
        assert!(sum(&tables, "intervals", "bytes") > 0);
    }
}

#[test]
fn what_a_kernel_does_not_have_is_named() {
    let flow = tcp(0, None, None, json!({"congestion_control": "prague"}));
    let refused = open(&job(false, &[MS], vec![flow], vec![])).unwrap_err();
    assert!(matches!(refused, TrafficError::NoCongestionControl { name: "prague", .. }));
    let message = refused.to_string();
    assert!(message.contains("reno") && message.contains("bulk"), "{message}");
}

#[test]
fn many_streams_share_a_few_threads() {
    let mut flow = tcp(0, Some(600 * MS), None, json!({"receive_window": 64 << 10}));
    merge(&mut flow, &json!({"streams": 300}));
    let (traffic, tables) = run(&job(false, &[800 * MS], vec![flow], vec![]));
    assert_eq!(traffic.take_warnings(), Vec::<String>::new());
    let bytes = integers(&tables, "intervals", "bytes");
    assert!(bytes.iter().all(|&bytes| bytes > 0), "{bytes:?}");
}

#[test]
fn an_unknown_sender_is_not_let_in() {
    let flow = tcp(0, None, Some(100_000), json!({}));
    let to = format!("127.0.9.2:{}", flow["port"]);
    let mut traffic = open(&job(false, &[500 * MS], vec![flow], vec![])).unwrap();
    let mut unknown_sender = TcpStream::connect(to).unwrap();
    let _ = unknown_sender.write_all(b"not ours");
    traffic.start(Traffic::instant_in(0)).unwrap();
    while !traffic.is_finished() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(traffic.delivered(), [100_000]);
    assert!(traffic.counters().contains(&("unknown_senders", 1)), "{:?}", traffic.counters());
}

#[test]
fn who_is_not_there_is_named_and_nobody_waits() {
    let flow = tcp(0, Some(100 * MS), None, json!({}));
    let mut job = job(false, &[100 * MS], vec![flow], vec![]);
    // An address that is unreachable from the loopback address.
    job["nodes"][0]["addresses"] = json!(["192.0.2.1"]);
    let refused = open(&job).unwrap_err().to_string();
    assert!(refused.contains("192.0.2.1") && refused.contains("assign"), "{refused}");
}
