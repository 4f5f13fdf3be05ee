use std::net::UdpSocket;
use std::time::Duration;

use perhop_traffic::{Traffic, TrafficError};
use serde_json::json;

use crate::lab::{MS, floats, integers, job, merge, open, run, sum, udp};

#[test]
fn every_datagram_is_counted_once_with_its_delay_and_its_mark() {
    for v6 in [false, true] {
        // 1 Mb/s in datagrams of 200 B: one each 1.6 ms, 125 in 200 ms.
        let flow = udp(46, 200 * MS, json!({}));
        let (traffic, tables) = run(&job(v6, &[100 * MS, 1000 * MS], vec![flow], vec![]));
        assert_eq!(traffic.take_warnings(), Vec::<String>::new());
        assert_eq!(sum(&tables, "intervals", "packets"), 125);
        assert_eq!(sum(&tables, "intervals", "bytes"), 125 * 200);
        assert_eq!(integers(&tables, "intervals", "lost"), [0, 0]);
        assert_eq!(integers(&tables, "intervals", "duplicates"), [0, 0]);
        assert_eq!(floats(&tables, "intervals", "start_s"), [0.0, 0.1]);
        assert_eq!(floats(&tables, "intervals", "end_s"), [0.1, 1.0]);
        // Through the loopback device a datagram takes microseconds; 100 ms is a very busy machine.
        let delays = floats(&tables, "intervals", "owd_s");
        assert!(delays.iter().all(|&delay| delay > 0.0 && delay < 0.1), "{delays:?}");
        assert_eq!(integers(&tables, "codepoints", "dscp_arrived"), [46, 46]);
        assert_eq!(sum(&tables, "codepoints", "packets"), 125);
        assert_eq!(sum(&tables, "delays", "samples"), 125);
        assert_eq!(traffic.delivered(), [125 * 200]);
    }
}

#[test]
fn datagrams_of_many_sizes_and_streams() {
    let random = json!({"rate": 8_000_000, "sizes": "exponential", "gaps": "exponential"});
    let mut flow = udp(0, 200 * MS, random);
    merge(&mut flow, &json!({"streams": 5}));
    let replay = json!({"packets": [[MS, 100], [0, 100], [0, 1400], [MS, 9000]], "repeat": true});
    let replay = udp(8, 100 * MS, json!({"replay": replay, "rate": 0, "size": 0}));
    let (_, tables) = run(&job(false, &[1000 * MS], vec![flow, replay], vec![]));
    let packets = integers(&tables, "intervals", "packets");
    // 8 Mb/s of 200 B a stream: 1000 on average in 200 ms. Six standard deviations.
    let expected = |packets: i64| (packets - 1000).abs() < 6 * 32;
    assert!(packets[..5].iter().all(|&packets| expected(packets)), "{packets:?}");
    // From 1 ms on every 2 ms: three packets and then one, the last at 98 ms.
    assert_eq!(packets[5], 49 * 4 + 3);
    assert_eq!(sum(&tables, "intervals", "lost"), 0);
}

#[test]
fn a_volume_ends() {
    let mut flow = udp(0, 400 * MS, json!({"rate": 80_000_000}));
    merge(&mut flow, &json!({"volume": 10_100}));
    let (_, tables) = run(&job(false, &[800 * MS], vec![flow], vec![]));
    assert_eq!(integers(&tables, "intervals", "packets"), [51]);
    assert_eq!(integers(&tables, "intervals", "bytes"), [10_100]);
}

#[test]
fn packets_of_unknown_senders_are_only_counted() {
    let flow = udp(0, 200 * MS, json!({}));
    let to = ("127.0.9.2", flow["port"].as_u64().unwrap() as u16);
    let job = job(false, &[800 * MS], vec![flow], vec![]);
    let unknown_sender = UdpSocket::bind("127.0.9.3:0").unwrap();
    let mut traffic = open(&job).unwrap();
    for length in [0, 1, 15, 16, 200, 9000] {
        unknown_sender.send_to(&vec![0xff; length], to).unwrap();
    }
    traffic.start(Traffic::instant_in(0)).unwrap();
    while !traffic.is_finished() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let tables = crate::lab::tables(&traffic);
    assert_eq!(sum(&tables, "intervals", "packets"), 125);
    assert_eq!(sum(&tables, "intervals", "lost"), 0);
    assert_eq!(
        traffic.counters().into_iter().find(|(name, _)| *name == "unknown_senders").unwrap().1,
        6
    );
}

#[test]
fn what_nobody_can_number_is_refused() {
    let flow = udp(0, 200 * MS, json!({"size": 15}));
    let refused = open(&job(false, &[MS], vec![flow], vec![])).unwrap_err();
    assert!(matches!(refused, TrafficError::SmallDatagrams { size: 15, .. }), "{refused}");
    let flow = udp(0, 200 * MS, json!({"size": 44, "layer": "ip"}));
    open(&job(false, &[MS], vec![flow], vec![])).unwrap();
}

#[test]
fn a_run_that_is_stopped_has_what_was_measured() {
    let flow = udp(0, 60_000 * MS, json!({}));
    let mut traffic = open(&job(false, &[60_000 * MS], vec![flow], vec![])).unwrap();
    assert!(!traffic.is_finished());
    traffic.start(Traffic::instant_in(0)).unwrap();
    while traffic.delivered()[0] < 2_000 {
        std::thread::sleep(Duration::from_millis(5));
    }
    traffic.stop();
    assert!(traffic.is_finished());
    let tables = crate::lab::tables(&traffic);
    assert!(sum(&tables, "intervals", "bytes") >= 2_000);
    let end = floats(&tables, "intervals", "end_s")[0];
    assert!(end > 0.0 && end < 60.0, "{end}");
    assert_eq!(traffic.recorded().as_secs_f64(), end);
}
