//! Our client against real servers of iperf3, and against ours. Without the program `iperf3` the
//! former are left out; where `CI` is set they fail instead.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use perhop_agent::iperf3::{ClientError, Limits, Outcome, Parameters, Server, Settings, drive};
use perhop_core::TrafficClass;
use serde_json::Value;

/// A real server for one test.
fn real() -> Option<(Child, SocketAddr)> {
    let found = Command::new("iperf3").arg("--version").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "CI installs iperf3 (Debian: iperf3)");
    if !found {
        return None;
    }
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let port = address.port().to_string();
    let child = Command::new("iperf3")
        // One that listens on IPv6, too, does not mark what it sends by IPv4.
        .args(["-s", "-4", "-1", "--json", "-p", &port])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It listens when its port is taken; a connection would be its one client.
    let patience = Instant::now() + Duration::from_secs(10);
    while TcpListener::bind(address).is_ok() && Instant::now() < patience {
        thread::sleep(Duration::from_millis(20));
    }
    Some((child, address))
}

fn tcp() -> Parameters {
    let (time, parallel, len) = (Some(1), Some(1), Some(131_072));
    Parameters { tcp: true, time, parallel, len, ..Parameters::default() }
}

fn udp() -> Parameters {
    let (time, parallel, len) = (Some(1), Some(1), Some(1000));
    let (bandwidth, tos) = (Some(8_000_000), Some(0xb8));
    Parameters { udp: true, time, parallel, len, bandwidth, tos, ..Parameters::default() }
}

fn tests() -> [Parameters; 8] {
    [
        Parameters { bandwidth: Some(100_000_000), ..tcp() },
        Parameters { reverse: true, parallel: Some(2), ..tcp() },
        Parameters { bidirectional: true, bandwidth: Some(50_000_000), ..tcp() },
        Parameters { time: None, num: Some(20_000_000), ..tcp() },
        udp(),
        Parameters { reverse: true, parallel: Some(3), ..udp() },
        Parameters { bidirectional: true, udp_counters_64bit: true, ..udp() },
        Parameters { mss: Some(1000), window: Some(200_000), nodelay: true, ..tcp() },
    ]
}

/// The measurements of both ends must agree.
fn check(asked: &Parameters, outcome: &Outcome) {
    let directions = if asked.bidirectional { 2 } else { 1 };
    assert_eq!(outcome.streams.len() as u64, asked.parallel.unwrap() * directions, "{asked:?}");
    for stream in &outcome.streams {
        let told = stream.server.as_ref().unwrap();
        let (ours, theirs) = (stream.counts.bytes, told.bytes.unwrap());
        let (sent, received) = if stream.sent { (ours, theirs) } else { (theirs, ours) };
        assert!(0 < received && received <= sent, "{asked:?}: {received} of {sent}");
        let whole: u64 = stream.intervals.iter().map(|each| each.counts.bytes).sum();
        assert_eq!(whole, ours, "{asked:?}");
        if asked.udp {
            let expected = asked.bandwidth.unwrap() as f64 / 8.0;
            assert!((sent as f64 / expected - 1.0).abs() < 0.1, "{asked:?}: {sent}");
            assert!(received as f64 > 0.8 * sent as f64, "{asked:?}: {received} of {sent}");
            if !stream.sent {
                let arrived = stream.arrived.as_deref().unwrap();
                let marked = TrafficClass::from_octet(46 << 2);
                assert_eq!(arrived, [(marked, stream.counts.packets)], "{asked:?}");
                assert_eq!(
                    stream.counts.packets + stream.counts.lost.unwrap(),
                    told.packets.unwrap()
                );
            } else {
                assert_eq!(stream.counts.packets * 1000, sent);
            }
        } else {
            // Who receives TCP cannot tell how often its sender sent again.
            let (ours, theirs) = (stream.counts.retransmits, told.retransmits);
            assert_eq!(
                (ours.is_some(), theirs.is_some()),
                (stream.sent, !stream.sent),
                "{asked:?}"
            );
        }
    }
}

#[test]
fn real_servers_are_driven() {
    let run = |asked: Parameters| {
        let Some((server, address)) = real() else { return };
        let outcome =
            drive(address, &asked, None).unwrap_or_else(|error| panic!("{asked:?}: {error}"));
        let printed: Value =
            serde_json::from_slice(&server.wait_with_output().unwrap().stdout).unwrap();
        check(&asked, &outcome);
        let streams = printed["end"]["streams"].as_array().unwrap();
        assert_eq!(streams.len(), outcome.streams.len(), "{asked:?}");
        for (theirs, stream) in streams.iter().zip(&outcome.streams) {
            let told = stream.server.as_ref().unwrap();
            if asked.udp {
                assert_eq!(theirs["udp"]["packets"].as_u64(), told.packets, "{asked:?}: {theirs}");
                continue;
            }
            let part = if stream.sent { "receiver" } else { "sender" };
            assert_eq!(theirs[part]["bytes"].as_u64(), told.bytes, "{asked:?}: {theirs}");
        }
    };
    thread::scope(|scope| {
        for asked in tests() {
            scope.spawn(move || run(asked));
        }
    });
}

#[test]
fn our_server_is_driven_too_and_starts_when_it_is_told_to() {
    let listen = vec!["[::1]:0".parse().unwrap()];
    let limits = Limits::default();
    let server = Server::start(Settings { listen, limits, ..Settings::default() }).unwrap();
    let address = server.addresses()[0];
    thread::scope(|scope| {
        for asked in tests() {
            scope.spawn(move || check(&asked, &drive(address, &asked, None).unwrap()));
        }
    });
    let start = perhop_socket::monotonic() + 500_000_000;
    let outcome = drive(address, &udp(), Some(start)).unwrap();
    assert!((start..start + 100_000_000).contains(&outcome.start));
}

#[test]
fn what_a_server_refuses_has_its_reason() {
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let limits = Limits { rate: Some(1_000_000), tests: 1, ..Limits::default() };
    let server = Server::start(Settings { listen, limits, ..Settings::default() }).unwrap();
    let address = server.addresses()[0];
    assert!(matches!(drive(address, &udp(), None), Err(ClientError::Refused(27))));
    let both = Parameters { reverse: true, bidirectional: true, ..tcp() };
    assert!(matches!(drive(address, &both, None), Err(ClientError::Parameters(_))));
    while server.tests() > 0 {
        thread::sleep(Duration::from_millis(5));
    }
    let mut first = TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut first, &[b'a'; 37]).unwrap();
    while server.tests() == 0 {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(matches!(drive(address, &tcp(), None), Err(ClientError::Busy)));
    drop((first, server));
    assert!(matches!(drive(address, &tcp(), None), Err(ClientError::Unreachable(..))));
}
