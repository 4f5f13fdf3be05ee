use perhop_core::{Dscp, Duration, Time, TrafficClass};
use perhop_measure::{Column, Histogram, Samples};
use serde_json::json;

use super::*;
use crate::readings::{
    ConnectionReceiver, ConnectionSender, DatagramReceiver, DatagramSender, SenderReadings,
    StreamResult,
};

const MS: u64 = 1_000_000_000;

fn job() -> Job {
    let tcp = json!({"tcp": {
        "congestion_control": "cubic", "send_window": 65536, "receive_window": 65536, "mss": 1460,
        "sack": true, "timestamps": true, "limited_transmit": true, "initial_window": 10,
        "min_rto": 200 * MS, "delayed_ack": 40 * MS,
    }});
    let udp = json!({"udp": {"rate": 1_000_000, "size": 200}});
    let flow = |name: &str, streams: u16, transport: &serde_json::Value| {
        json!({
            "name": name, "from": "a", "to": "b", "dscp": 10, "port": 5000, "streams": streams,
            "start": 0, "stop": 2000 * MS, "volume": null, "transport": transport,
        })
    };
    let node = |name: &str, address: &str| json!({"name": name, "addresses": [address]});
    serde_json::from_value(json!({
        "seed": 1, "marks": [1000 * MS, 2000 * MS], "cuts": [1000 * MS],
        "timers": {"min_rto": 200 * MS, "delayed_ack": 40 * MS},
        "nodes": [node("a", "192.0.2.1"), node("b", "192.0.2.2"), node("c", "192.0.2.3")],
        "flows": [flow("bulk", 1, &tcp), flow("calls", 2, &udp)],
        "pings": [{
            "name": "idle", "from": "a", "to": "b", "dscp": 0, "every": 500 * MS, "size": 56,
            "start": 0, "stop": 2000 * MS,
        }],
    }))
    .expect("the job is complete")
}

/// Returns the readings of the source and the destination at a mark.
fn readings(mark: u32) -> [Readings; 2] {
    let n = u64::from(mark) + 1;
    let (at, read) = (Time::from_picos(n * 1000 * MS), n * 1_000_000_000 + 50);
    let both = Readings { mark, at, read, ..Readings::default() };
    let mut delays = Histogram::default();
    delays.add(Duration::from_millis(n));
    let sender = ConnectionSender {
        retransmits: 5 * n,
        repeated: n,
        cwnd: Some(14_600),
        window: 60_000,
        ..ConnectionSender::default()
    };
    let sent = DatagramSender { sent: 120 * n, history: vec![(read - 60, 110 * n)] };
    let source = Readings {
        sources: vec![
            SourceReading {
                flow: 0,
                streams: SenderReadings::Tcp(vec![sender]),
                arrived: Some(vec![(TrafficClass::new(Dscp::AF11), 50)]),
                srtts: delays.clone(),
            },
            SourceReading {
                flow: 1,
                streams: SenderReadings::Udp(vec![sent.clone(), sent]),
                arrived: Some(vec![]),
                srtts: Histogram::default(),
            },
        ],
        pings: vec![PingReading {
            first: 2 * mark,
            sent: vec![(at, 64), (at, 64)],
            ..PingReading::default()
        }],
        ..both.clone()
    };
    let connection = ConnectionReceiver {
        delivered: 1000 * n,
        packets: 100 * n,
        marked: Some(n),
        acks: 50 * n,
        completion: None,
    };
    let mut delay = Samples::default();
    delay.add(Duration::from_millis(n));
    let stream =
        DatagramReceiver { delivered: 700 * n, packets: 70 * n, delay, ..Default::default() };
    let destination = Readings {
        destinations: vec![
            DestinationReading {
                completed: Vec::new(),
                flow: 0,
                streams: ReceiverReadings::Tcp(vec![connection]),
                arrived: Some(vec![
                    (TrafficClass::from_octet(0x23), 3),
                    (TrafficClass::new(Dscp::AF11), 97),
                ]),
                delays: Histogram::default(),
                displacements: None,
                offset_bound: None,
            },
            DestinationReading {
                completed: Vec::new(),
                flow: 1,
                streams: ReceiverReadings::Udp(vec![stream; 2]),
                arrived: Some(vec![(TrafficClass::new(Dscp::AF11), 140)]),
                delays,
                displacements: Some(vec![[0, 140 * n]]),
                offset_bound: Some(n),
            },
        ],
        pings: vec![PingReading {
            arrived: vec![(2 * mark, TrafficClass::from_octet(0x22))],
            ..PingReading::default()
        }],
        ..both
    };
    [source, destination]
}

fn collected(order: &[(u32, usize)]) -> Collector {
    let mut collector = Collector::new(&job()).expect("the job is sound");
    for &(mark, end) in order {
        // Serialised as by other hosts.
        let text = serde_json::to_string(&readings(mark)[end]).expect("readings can be written");
        let read = serde_json::from_str(&text).expect("and read");
        collector.add(["a", "b"][end], read).expect("they are sound");
    }
    collector
}

fn integers(collector: &Collector, table: &str, name: &str) -> Vec<i64> {
    let tables = collector.tables();
    let (_, columns) = tables.iter().find(|(each, _)| *each == table).expect("the table is there");
    let found = columns.iter().find(|(each, _)| *each == name);
    match &found.expect("the column is there").1 {
        Column::Integers(values) | Column::Names(_, values) => values.clone(),
        Column::Floats(values) => values.iter().map(|value| (value * 1e6) as i64).collect(),
    }
}

#[test]
fn readings_of_both_ends_make_rows_in_whatever_order_they_come() {
    let expected = collected(&[(0, 0), (0, 1), (1, 0), (1, 1)]);
    assert_eq!(integers(&expected, "intervals", "bytes"), [1000, 700, 700, 1000, 700, 700]);
    assert_eq!(integers(&expected, "intervals", "retransmits"), [5, 0, 0, 5, 0, 0]);
    // For TCP, retransmitted segments that were not duplicates; for UDP, datagrams sent long ago.
    // 110 were sent long before the second mark, and 140 have arrived.
    assert_eq!(integers(&expected, "intervals", "lost"), [4, 0, 0, 4, 0, 0]);
    assert_eq!(integers(&expected, "codepoints", "packets"), [3, 97, 50, 140, 3, 97, 50, 140]);
    assert_eq!(integers(&expected, "codepoints", "dscp_arrived")[..4], [8, 10, 10, 10]);
    assert_eq!(integers(&expected, "codepoints", "ecn_arrived")[..4], [3, 0, 0, 0]);
    assert_eq!(integers(&expected, "delays", "samples"), [1, 1]);
    assert_eq!(integers(&expected, "pings", "sequence"), [0, 1, 2, 3]);
    assert_eq!(expected.windows(), [60_000, 0]);
    assert_eq!(expected.delivered(), [2000, 2800]);
    assert_eq!(expected.offset_bounds(), [None, Some(2)]);
    for order in [
        [(0, 1), (0, 0), (1, 1), (1, 0)],
        [(0, 0), (1, 0), (0, 1), (1, 1)],
        [(0, 1), (1, 1), (0, 0), (1, 0)],
    ] {
        let found = collected(&order);
        assert_eq!(format!("{:?}", found.tables()), format!("{:?}", expected.tables()));
        assert_eq!(found.delivered(), expected.delivered());
    }
}

#[test]
fn an_end_that_no_longer_tells_leaves_nulls() {
    let silent = collected(&[(0, 0), (0, 1), (1, 0)]);
    assert_eq!(silent.recorded(), Time::from_picos(2000 * MS));
    assert_eq!(silent.delivered(), [1000, 1400]);
    assert_eq!(silent.windows(), [60_000, 0]);
    for column in ["bytes", "packets", "marked"] {
        assert_eq!(integers(&silent, "intervals", column)[3..], [-1; 3], "{column}");
    }
    assert_eq!(integers(&silent, "intervals", "lost"), [4, 0, 0, 4, -1, -1]);
    assert_eq!(integers(&silent, "intervals", "retransmits")[3..], [5, 0, 0]);
    assert_eq!(integers(&silent, "intervals", "acks")[3..], [-1, 0, 0]);
    assert_eq!(integers(&silent, "intervals", "owd_samples")[3..], [0; 3]);
    assert_eq!(integers(&silent, "codepoints", "packets"), [3, 97, 50, 140, 50]);

    let unsent = collected(&[(0, 0), (0, 1), (1, 1)]);
    assert_eq!(integers(&unsent, "intervals", "bytes")[3..], [1000, 700, 700]);
    for column in ["lost", "reordered", "retransmits", "echoed"] {
        assert_eq!(integers(&unsent, "intervals", column)[3], -1, "{column}");
    }
    assert_eq!(integers(&unsent, "intervals", "lost")[4..], [-1, -1]);
    assert_eq!(integers(&unsent, "intervals", "cwnd"), [14_600, -1, -1, -1, -1, -1]);
}

#[test]
fn what_a_host_may_not_look_at_is_null() {
    let mut collector = Collector::new(&job()).unwrap();
    let [source, mut destination] = readings(0);
    let first = &mut destination.destinations[0];
    first.arrived = None;
    let ReceiverReadings::Tcp(streams) = &mut first.streams else { panic!("it is TCP") };
    streams[0].marked = None;
    destination.missing = vec!["b: no rights".to_owned()];
    collector.add("b", destination).unwrap();
    collector.add("a", source).unwrap();
    assert_eq!(integers(&collector, "intervals", "marked"), [-1, 0, 0]);
    assert_eq!(integers(&collector, "intervals", "packets"), [100, 70, 70]);
    assert_eq!(integers(&collector, "codepoints", "packets"), [50, 140]);
    assert_eq!(collector.missing(), ["b: no rights"]);
}

#[test]
fn readings_that_contradict_the_job_are_refused() {
    let mut collector = Collector::new(&job()).unwrap();
    let [source, destination] = readings(0);
    let mut refused = |node: &str, readings: &Readings, what: &str| {
        let error = collector.add(node, readings.clone()).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    refused("d", &source, "unknown node d");
    refused("b", &source, "another host");
    refused("c", &destination, "another host");
    refused("a", &Readings { mark: 3, ..source.clone() }, "2 marks");
    refused("a", &Readings { at: Time::from_picos(9000 * MS), ..source.clone() }, "last mark");
    let mut other = source.clone();
    other.sources[0].flow = 7;
    refused("a", &other, "no flow 7");
    let mut other = source.clone();
    other.sources[1].streams = SenderReadings::Udp(Vec::new());
    refused("a", &other, "0 streams of UDP; expected 2 of UDP");
    let mut other = source.clone();
    other.sources[1].streams = other.sources[0].streams.clone();
    refused("a", &other, "1 streams of TCP; expected 2 of UDP");
    let mut other = source.clone();
    other.pings[0].first = 1;
    refused("a", &other, "missing");
    let mut other = source.clone();
    other.pings[0].sent = vec![(Time::ZERO, 64); 5];
    refused("a", &other, "4 requests at most");
    let mut other = destination.clone();
    other.pings[0].arrived = vec![(4, TrafficClass::default())];
    refused("b", &other, "4 requests at most");
    let mut other = destination.clone();
    other.pings[0].sent = vec![(Time::ZERO, 64)];
    refused("b", &other, "sent by another host");
    assert!(collector.tables().iter().all(|(_, table)| match &table[0].1 {
        Column::Names(_, rows) => rows.is_empty(),
        _ => false,
    }));
}

/// Returns a job whose flows have a server of iperf3 at this end, in node b or a.
fn job_with_servers(end: End) -> Job {
    let name = if end == End::Source { "source" } else { "destination" };
    let flow = json!({"opens": "source", "server": {"end": name, "address": "192.0.2.2:5201"}});
    let mut job = job();
    let live = json!({"token": "0".repeat(32), "flows": [flow, flow]});
    job.live = Some(serde_json::from_value(live).expect("it is complete"));
    job
}

fn result(flow: u32, from: u64, to: u64, streams: Vec<StreamResult>) -> ServerReading {
    let at = |ms| Time::from_picos(ms * MS);
    ServerReading { flow, interval: (at(from), at(to)), streams }
}

#[test]
fn what_only_a_server_counts_has_the_interval_in_which_it_counted() {
    let mut collector = Collector::new(&job_with_servers(End::Destination)).expect("it is sound");
    let told = StreamResult {
        bytes: Some(900),
        packets: Some(9),
        lost: Some(3),
        jitter: Some(Duration::from_millis(2)),
        retransmits: None,
    };
    for mark in 0..2 {
        let [mut source, _] = readings(mark);
        let SenderReadings::Tcp(streams) = &mut source.sources[0].streams else { panic!() };
        streams[0].acked = Some(400 * u64::from(mark + 1));
        if mark == 1 {
            source.results.push(result(1, 100, 1700, vec![told; 2]));
        }
        collector.add("a", source).expect("it is sound");
    }
    // A row of each mark for what the agent knows; a row of the whole test for the server's rest.
    let column = |name| integers(&collector, "intervals", name);
    let mut rows: Vec<_> = column("flow").into_iter().zip(column("bytes")).collect();
    rows.sort_unstable();
    assert_eq!(rows, [(0, 400), (0, 400), (1, 900), (1, 900)]);
    let server = column("flow").iter().position(|flow| *flow == 1).expect("it has a row");
    let cell = |name| column(name)[server];
    assert_eq!([cell("start_s"), cell("end_s")], [100_000, 1_700_000]);
    assert_eq!([cell("packets"), cell("lost"), cell("jitter_s")], [9, 3, 2_000]);
    assert_eq!([cell("reordered"), cell("marked"), cell("retransmits")], [-1; 3]);
    let agent = column("flow").iter().position(|flow| *flow == 0).expect("it has rows");
    let cell = |name| column(name)[agent];
    assert_eq!([cell("packets"), cell("acks"), cell("marked")], [-1; 3], "nobody counts them");
    assert_eq!([cell("retransmits"), cell("lost"), cell("reordered")], [5, 4, 0]);
    assert_eq!(collector.delivered(), [800, 1800]);
}

#[test]
fn a_receiver_alone_counts_losses_by_gaps_and_the_server_tells_retransmissions_at_the_end() {
    let mut collector = Collector::new(&job_with_servers(End::Source)).expect("it is sound");
    for mark in 0..2 {
        let [_, mut destination] = readings(mark);
        let ReceiverReadings::Udp(streams) = &mut destination.destinations[1].streams else {
            panic!()
        };
        streams.iter_mut().for_each(|stream| stream.overtaken = 2 * u64::from(mark + 1));
        if mark == 1 {
            let told = StreamResult { retransmits: Some(11), ..StreamResult::default() };
            destination.results.push(result(0, 0, 2000, vec![told]));
        }
        collector.add("b", destination).expect("it is sound");
    }
    let column = |name| integers(&collector, "intervals", name);
    assert_eq!(column("bytes"), [1000, 700, 700, 1000, 700, 700]);
    assert_eq!(column("lost"), [-1, 2, 2, -1, 2, 2]);
    assert_eq!(column("retransmits"), [-1, 0, 0, 11, 0, 0]);
}

#[test]
fn results_that_contradict_the_job_are_refused() {
    let one = vec![StreamResult::default()];
    for (node, wrong, says) in [
        ("b", result(0, 0, 100, one.clone()), "another host at this end"),
        ("a", result(7, 0, 100, one.clone()), "there is no flow 7"),
        ("a", result(0, 100, 100, one.clone()), "impossible interval"),
        ("a", result(0, 0, 2001, one.clone()), "impossible interval"),
        ("a", result(1, 0, 100, one.clone()), "2 streams"),
        (
            "a",
            result(0, 0, 100, vec![StreamResult { bytes: Some(u64::MAX), ..one[0] }]),
            "a counter",
        ),
    ] {
        let mut collector =
            Collector::new(&job_with_servers(End::Destination)).expect("it is sound");
        let reading = Readings { results: vec![wrong], ..Readings::default() };
        let error = collector.add(node, reading).expect_err("it is refused").to_string();
        assert!(error.contains(says), "{error}");
    }
    let mut plain = Collector::new(&job()).expect("it is sound");
    let reading = Readings { results: vec![result(0, 0, 100, one)], ..Readings::default() };
    assert!(plain.add("a", reading).is_err(), "the flow has no server");
}

#[test]
fn fuzz_readings() {
    let seeds = [0, 1].map(|end| serde_json::to_vec(&readings(0)[end]).unwrap());
    perhop_fuzz::fuzz("readings", &seeds, |bytes| {
        let Ok(readings) = serde_json::from_slice::<Readings>(bytes) else { return false };
        let mut collector = Collector::new(&job()).unwrap();
        let taken = collector.add("a", readings.clone()).is_ok();
        let taken = collector.add("b", readings).is_ok() || taken;
        let _ = (collector.tables(), collector.delivered(), collector.windows());
        taken
    });
}
