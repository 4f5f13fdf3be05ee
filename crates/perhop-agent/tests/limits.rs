//! The owner's limits hold for the whole agent: for all its sessions and servers together.

mod common;

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use common::{Agent, agents, finish, job, prepare, rows, tcp, udp};
use perhop_agent::iperf3::{Parameters, drive};
use perhop_agent::{ErrorCode, Identity, Live, LiveError};
use perhop_traffic::Job;
use serde_json::json;

const SECOND: Duration = Duration::from_secs(1);

/// Runs these jobs at the same time, and returns the bytes that each has delivered.
fn run_together(jobs: &[Job], a: &Agent, b: &Agent, key: &Identity) -> Vec<u64> {
    let mut runs: Vec<_> = jobs.iter().map(|job| prepare(job, a, b, key).unwrap()).collect();
    thread::scope(|scope| {
        for live in &mut runs {
            scope.spawn(|| live.start().unwrap());
        }
    });
    for live in &runs {
        finish(live, 10 * SECOND);
        assert_eq!(live.failure(), None);
    }
    runs.iter().map(|live| live.delivered()[0]).collect()
}

#[test]
fn sessions_share_the_rate() {
    let key = Identity::generate();
    let b = Agent::start(&key.public(), &[]);
    let slow = Agent::start(&key.public(), &["--max-rate", "4 Mbps"]);
    let jobs = [
        job(20, &[tcp("bulk", 26_101)], &[]),
        job(20, &[udp("fast", 26_102, 20_000_000)], &[]),
        job(20, &[udp("voice", 26_103, 500_000)], &[]),
    ];
    let delivered = run_together(&jobs, &slow, &b, &key);
    let all: u64 = delivered.iter().sum();
    eprintln!("{delivered:?}");
    // 2 s at the rate, half a second between the starts at most, and a burst of 64 KiB and a train.
    assert!(all <= 1_000_000 + 250_000 + (136 << 10), "{delivered:?}: {all} B in 2 s at 4 Mb/s");
    assert!(all >= 700_000, "{delivered:?}: {all} B in 2 s at 4 Mb/s");
    assert!(delivered[2] > 60_000, "{delivered:?}: those that send little have their turn, too");
}

#[test]
fn sessions_share_the_volume_and_later_ones_are_refused() {
    let key = Identity::generate();
    let b = Agent::start(&key.public(), &[]);
    let little = Agent::start(&key.public(), &["--max-volume", "200 kB"]);
    let bulk = |port| job(10, &[udp("fast", port, 20_000_000)], &[]);
    let delivered = run_together(&[bulk(26_111), bulk(26_112)], &little, &b, &key);
    let all: u64 = delivered.iter().sum();
    assert!((100_000..=200_000).contains(&all), "{delivered:?}");
    // What is left is less than a datagram, or nothing.
    let rest = match prepare(&job(10, &[tcp("rest", 26_113)], &[]), &little, &b, &key) {
        Ok(mut live) => {
            live.start().unwrap();
            finish(&live, 10 * SECOND);
            live.delivered()[0]
        }
        Err(_) => 0,
    };
    assert!(all + rest <= 200_000, "{delivered:?} {rest}");
    let error = prepare(&bulk(26_114), &little, &b, &key).unwrap_err();
    let LiveError::Refused { code: ErrorCode::Limit, .. } = error else { panic!("{error}") };
    assert!(error.to_string().contains("--max-volume"), "{error}");
}

#[test]
fn sessions_share_the_rate_of_probes() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), &["--max-ping-rate", "10", "--third-party"]);
    let ping = json!({"name": "ping", "from": "a", "to": "b", "dscp": 0, "every":
        10_000_000_000_u64, "size": 56, "start": 0, "stop": 2_000_000_000_000_u64});
    let probes = job(20, &[], &[ping]);
    // Nobody is node b: its address has proved nothing.
    let alone = || Live::new(&probes, &agents(&[("a", &a)]), &key).unwrap();
    let mut runs = [alone(), alone(), alone()];
    runs.iter_mut().for_each(|live| live.start().unwrap());
    runs.iter().for_each(|live| finish(live, 10 * SECOND));
    let sent: Vec<_> = runs.iter().map(|live| rows(live, "pings")).collect();
    let all: usize = sent.iter().sum();
    // 10 at once, and 10 a second for 2 s and the time between the starts.
    assert!((20..=45).contains(&all), "{sent:?}");
}

#[test]
fn clients_of_iperf3_share_the_rate_with_sessions() {
    let key = Identity::generate();
    let b = Agent::start(&key.public(), &[]);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port);
    let options = ["--max-rate", "4 Mbps", "--iperf3", &at.to_string()];
    let slow = Agent::start(&key.public(), &options);
    let asked = |udp: bool| Parameters {
        tcp: !udp,
        udp,
        time: Some(2),
        parallel: Some(1),
        len: Some(1000),
        bandwidth: udp.then_some(4_000_000),
        reverse: true,
        ..Parameters::default()
    };
    let received = thread::scope(|scope| {
        let clients: Vec<_> =
            [false, true].map(|udp| scope.spawn(move || drive(at, &asked(udp), None))).into();
        let delivered = run_together(&[job(20, &[tcp("bulk", 26_131)], &[])], &slow, &b, &key);
        let outcomes = clients.into_iter().map(|client| client.join().unwrap().unwrap());
        let received = outcomes.map(|outcome| outcome.streams[0].counts.bytes);
        received.chain(delivered).collect::<Vec<_>>()
    });
    let all: u64 = received.iter().sum();
    eprintln!("{received:?}");
    // The session starts up to a second after the clients: 3 s at the rate, and a burst.
    assert!(all <= 1_500_000 + 250_000 + (136 << 10), "{received:?}: {all} B at 4 Mb/s");
    assert!(received.iter().all(|bytes| *bytes > 50_000), "{received:?}");
}
