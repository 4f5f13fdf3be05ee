//! Flows between an agent and servers of iperf3 that belong to others: iperf3's own where that is
//! installed, and ours otherwise. In CI it must be installed.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Agent, finish, job, run_alone, start_alone, tcp, udp};
use perhop_agent::iperf3::{Limits, Parameters, Server, Settings, drive};
use perhop_agent::{ErrorCode, Identity, Live, LiveError};
use perhop_measure::Column;
use perhop_traffic::{End, Iperf3Server, Job};
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);
const FOREIGN: &[&str] = &["--third-party"];

/// A server of iperf3.
enum Iperf3 {
    Real(Child),
    Ours(#[expect(dead_code, reason = "dropping it ends it")] Server),
}

impl Drop for Iperf3 {
    fn drop(&mut self) {
        if let Self::Real(child) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn serve() -> (Iperf3, SocketAddr) {
    let found = Command::new("iperf3").arg("--version").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "CI installs iperf3 (Debian: iperf3)");
    if !found {
        let listen = vec!["127.0.0.2:0".parse().unwrap()];
        let limits = Limits { tests: 1, ..Limits::default() };
        let server = Server::start(Settings { listen, limits, ..Settings::default() }).unwrap();
        let address = server.addresses()[0];
        return (Iperf3::Ours(server), address);
    }
    let address = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let port = address.port().to_string();
    let child = Command::new("iperf3")
        .args(["-s", "-4", "-B", "127.0.0.2", "-p", &port])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let patience = Instant::now() + 10 * SECOND;
    while TcpListener::bind(address).is_ok() && Instant::now() < patience {
        thread::sleep(Duration::from_millis(20));
    }
    (Iperf3::Real(child), address)
}

/// A job of flows, given with the end that is the server.
fn to_server(address: SocketAddr, tenths: u64, flows: &[(Value, End)]) -> Job {
    let plans: Vec<_> = flows.iter().map(|(flow, _)| flow.clone()).collect();
    let mut job = job(tenths, &plans, &[]);
    let live = job.live.as_mut().unwrap();
    for ((_, end), flow) in flows.iter().zip(&mut live.flows) {
        flow.server = Some(Iperf3Server { end: *end, address });
    }
    job
}

/// A flow from a to b, or back, between two tenths of a second.
fn during(mut flow: Value, end: End, from: u64, to: u64) -> (Value, End) {
    let tenth = 100_000_000_000_u64;
    flow["start"] = json!(from * tenth);
    flow["stop"] = json!(to * tenth);
    if end == End::Source {
        flow["from"] = json!("b");
        flow["to"] = json!("a");
    }
    (flow, end)
}

/// The values of a column in the rows of a flow; -1 for null.
fn column(live: &Live, flow: &str, wanted: &str) -> Vec<f64> {
    let tables = live.tables();
    let (_, columns) = tables.into_iter().find(|(name, _)| *name == "intervals").unwrap();
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for (name, column) in columns {
        match column {
            Column::Names(names, places) if name == "flow" => {
                rows = places.iter().map(|place| names[*place as usize] == flow).collect();
            }
            Column::Integers(all) if name == wanted => {
                values = all.iter().map(|value| *value as f64).collect();
            }
            Column::Floats(all) if name == wanted => values = all,
            _ => {}
        }
    }
    assert_eq!(rows.len(), values.len(), "{wanted}");
    values.into_iter().zip(rows).filter_map(|(value, own)| own.then_some(value)).collect()
}

fn total(live: &Live, flow: &str, wanted: &str) -> f64 {
    column(live, flow, wanted).into_iter().filter(|value| *value >= 0.0).sum()
}

#[test]
fn flows_to_and_from_a_server_are_measured_one_after_another() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), FOREIGN);
    let (_server, address) = serve();
    let mut volume = tcp("volume", 1);
    volume["streams"] = json!(2);
    volume["volume"] = json!(300_000);
    let flows = [
        during(udp("call", 1, 1_000_000), End::Destination, 0, 10),
        during(udp("heard", 1, 2_000_000), End::Source, 12, 22),
        during(tcp("up", 1), End::Destination, 24, 29),
        during(tcp("down", 1), End::Source, 31, 36),
        during(volume, End::Destination, 38, 42),
    ];
    let live = run_alone(&to_server(address, 44, &flows), &a, &key);
    assert_eq!(live.take_warnings(), Vec::<String>::new());
    let bytes = |flow| total(&live, flow, "bytes");
    // What only the server knows is one row of the whole test.
    assert_eq!(column(&live, "call", "bytes").len(), 1);
    let [start, end] = ["start_s", "end_s"].map(|each| column(&live, "call", each)[0]);
    assert!(start.abs() < 0.02 && (end - 1.0).abs() < 0.05, "{start} to {end}");
    assert!((115_000.0..=126_000.0).contains(&bytes("call")), "{}", bytes("call"));
    let [packets, lost] = ["packets", "lost"].map(|each| total(&live, "call", each));
    assert_eq!((packets, lost), (bytes("call") / 500.0, 0.0));
    assert!((0.0..0.01).contains(&column(&live, "call", "jitter_s")[0]));
    assert_eq!(column(&live, "call", "reordered"), [-1.0], "the server does not say");
    // At its own end the agent measures as always, at its own marks.
    assert_eq!(column(&live, "heard", "bytes").len(), 44);
    assert!((235_000.0..=251_000.0).contains(&bytes("heard")), "{}", bytes("heard"));
    assert!(column(&live, "heard", "bytes")[..11].iter().all(|bytes| *bytes == 0.0));
    assert_eq!(total(&live, "heard", "lost"), 0.0);
    assert!(column(&live, "heard", "lost").iter().all(|lost| *lost == 0.0), "it counts gaps");
    for flow in ["up", "down"] {
        assert!(bytes(flow) > 1e6, "{flow}: {}", bytes(flow));
        assert_eq!(column(&live, flow, "bytes").len(), 44, "{flow}");
    }
    assert!(column(&live, "up", "retransmits").iter().all(|count| *count >= 0.0));
    assert!(column(&live, "up", "packets").iter().all(|count| *count == -1.0), "not seen");
    assert!(total(&live, "down", "packets") > 0.0);
    let again = column(&live, "down", "retransmits");
    let known: Vec<_> = again.iter().filter(|count| **count >= 0.0).collect();
    assert_eq!(known.len(), 1, "the server says it once: {again:?}");
    assert_eq!(bytes("volume"), 600_000.0);
    let delivered = live.delivered();
    assert_eq!(delivered[4], 600_000);
    assert_eq!(delivered[0] as f64, bytes("call"));
    assert!(a.calms_down(SECOND).is_some());
}

#[test]
fn the_owner_of_an_agent_decides_on_hosts_of_others() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), &[]);
    let (_server, address) = serve();
    let flow = during(tcp("up", 1), End::Destination, 0, 5);
    let Err(LiveError::Refused { code, message, .. }) =
        start_alone(&to_server(address, 5, &[flow]), &a, &key)
    else {
        panic!("it was not refused")
    };
    assert_eq!(code, ErrorCode::Limit);
    let expected = format!("flow up: the iperf3 server {address} belongs to somebody else");
    assert!(message.starts_with(&expected) && message.contains("--third-party"), "{message}");
}

#[test]
fn a_host_that_is_no_server_gets_a_cookie_and_no_more() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), FOREIGN);
    for answer in [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", &[1, 2, 4], &[0xff]] {
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard = thread::spawn(move || {
            listener.set_nonblocking(true).unwrap();
            let (mut most, begun) = (0, Instant::now());
            // A busy server is asked again for five seconds.
            while begun.elapsed() < 6 * SECOND {
                let Ok((mut caller, _)) = listener.accept() else {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                };
                caller.set_nonblocking(false).unwrap();
                caller.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                let _ = caller.write_all(answer);
                let mut bytes = Vec::new();
                let _ = caller.read_to_end(&mut bytes);
                most = most.max(bytes.len());
            }
            most
        });
        let flow = during(udp("flood", 1, 100_000_000), End::Destination, 0, 5);
        let Err(LiveError::Refused { code, message, .. }) =
            start_alone(&to_server(address, 5, &[flow]), &a, &key)
        else {
            panic!("it was not refused")
        };
        assert_eq!(code, ErrorCode::Unproved, "{message}");
        assert!(message.starts_with(&format!("flow flood: the iperf3 server {address}: ")));
        assert_eq!(heard.join().unwrap(), 37, "{answer:?}");
        assert!(a.calms_down(SECOND).is_some());
    }
}

#[test]
fn a_test_ends_with_its_session() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), FOREIGN);
    let (_server, address) = serve();
    for (flow, end) in [
        (tcp("up", 1), End::Destination),
        (tcp("down", 1), End::Source),
        (udp("call", 1, 5_000_000), End::Destination),
        (udp("heard", 1, 5_000_000), End::Source),
    ] {
        let job = to_server(address, 100, &[during(flow.clone(), end, 0, 100)]);
        let mut live = start_alone(&job, &a, &key).unwrap();
        thread::sleep(SECOND);
        let begun = Instant::now();
        live.stop();
        drop(live);
        assert!(a.calms_down(SECOND).is_some(), "{flow}: {} sockets", a.sockets());
        assert!(begun.elapsed() < 2 * SECOND);
    }
}

#[test]
fn a_server_that_goes_away_ends_the_run_and_what_was_measured_is_kept() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), FOREIGN);
    for (flow, end) in [(tcp("up", 1), End::Destination), (udp("heard", 1, 1_000_000), End::Source)]
    {
        let (server, address) = serve();
        let name = flow["name"].as_str().unwrap().to_owned();
        let job = to_server(address, 100, &[during(flow, end, 0, 100)]);
        let live = start_alone(&job, &a, &key).unwrap();
        thread::sleep(2 * SECOND);
        drop(server);
        finish(&live, 3 * SECOND);
        let failure = live.failure().unwrap();
        assert!(
            failure.contains(&format!("flow {name}: the iperf3 server {address}")),
            "{failure}"
        );
        assert!(total(&live, &name, "bytes") > 100_000.0, "{name}");
        assert!(column(&live, &name, "bytes").len() >= 10);
        assert!(a.calms_down(SECOND).is_some());
    }
}

#[test]
fn a_busy_server_is_named() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), FOREIGN);
    let (_server, address) = serve();
    let other = thread::spawn(move || {
        let time = Some(8);
        let asked =
            Parameters { tcp: true, time, bandwidth: Some(1_000_000), ..Default::default() };
        drive(address, &asked, None).map(|_| ())
    });
    thread::sleep(SECOND);
    let job = to_server(address, 5, &[during(tcp("up", 1), End::Destination, 0, 5)]);
    let begun = Instant::now();
    let Err(LiveError::Refused { code, message, .. }) = start_alone(&job, &a, &key) else {
        panic!("it was not refused")
    };
    assert_eq!(code, ErrorCode::Unproved);
    let expected = format!("flow up: the iperf3 server {address}: the server runs another test");
    assert!(message.starts_with(&expected), "{message}");
    assert!(begun.elapsed() < 9 * SECOND);
    other.join().unwrap().unwrap();
    run_alone(&job, &a, &key);
}

#[test]
fn two_flows_at_one_time_do_not_fit_one_server() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), FOREIGN);
    let (_server, address) = serve();
    let flows = [
        during(tcp("first", 1), End::Destination, 0, 5),
        during(tcp("second", 2), End::Source, 4, 8),
    ];
    let Err(LiveError::Refused { code, message, .. }) =
        start_alone(&to_server(address, 10, &flows), &a, &key)
    else {
        panic!("it was not refused")
    };
    assert_eq!(code, ErrorCode::Job);
    assert!(message.starts_with("flows first and second need the iperf3 server"), "{message}");
}

#[test]
fn the_limits_of_an_agent_hold_for_its_tests() {
    let key = Identity::generate();
    let slow = Agent::start(&key.public(), &["--third-party", "--max-rate", "2 Mbps"]);
    let (_server, address) = serve();
    for flow in [udp("fast", 1, 20_000_000), tcp("bulk", 1)] {
        let job = to_server(address, 22, &[during(flow.clone(), End::Destination, 0, 20)]);
        let delivered = run_alone(&job, &slow, &key).delivered()[0];
        // 2 s at the rate, and what may be sent at once.
        assert!((300_000..=640_000).contains(&delivered), "{flow}: {delivered} B in 2 s at 2 Mb/s");
        let little = Agent::start(&key.public(), &["--third-party", "--max-volume", "100 kB"]);
        let delivered = run_alone(&job, &little, &key).delivered()[0];
        assert!((50_000..=100_000).contains(&delivered), "{flow}: {delivered} B of 100 kB");
    }
}
