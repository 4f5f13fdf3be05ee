//! An agent answers the trains of `perhop path --buckets`, within its owner's limits.

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use common::Agent;
use perhop_agent::Identity;
use perhop_path::{EndToEndSettings, measure_end_to_end};

/// An address on loopback whose UDP port is free.
fn free() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn trains_are_answered_within_the_owners_limits() {
    let key = Identity::generate();
    let responder = free();
    let at = responder.to_string();
    let limits = ["--max-rate", "8 Mbps", "--max-volume", "3 MB", "--max-sessions", "1"];
    let _agent = Agent::start(&key.public(), &[&["--path", &at], &limits[..]].concat());
    let settings = EndToEndSettings {
        responder,
        marks: vec![0, 184, 40],
        mtu: 1500,
        max_bps: 1_000_000_000,
        volume: 100_000_000,
        limit_s: 60,
    };
    let found = measure_end_to_end(&settings, Box::new(|| true)).unwrap();
    // The sender is told the limits: all that is within them was measured, and nothing else.
    assert!(found[0].train_bytes > 0 && found[0].train_bps <= 8e6, "{:?}", found[0]);
    assert!(found.iter().map(|each| each.train_bytes).sum::<u64>() < 3_000_000, "{found:?}");

    // Another sender has to wait for the only session.
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.connect(responder).unwrap();
    other.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut hello = *b"PhP1\x01................................................................";
    hello[5..21].fill(7);
    other.send(&hello).unwrap();
    let mut answer = [0; 2048];
    assert!(other.recv(&mut answer).is_err());
}

/// A sender that does not keep the limits gets no answers any more.
#[test]
fn who_exceeds_a_limit_is_not_answered() {
    let key = Identity::generate();
    let responder = free();
    let at = responder.to_string();
    let limits = ["--path", &at, "--max-rate", "none", "--max-volume", "100 kB"];
    let _agent = Agent::start(&key.public(), &limits);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(responder).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut answer = [0; 2048];
    let mut hello = [b"PhP1\x01".as_slice(), &[7; 16]].concat();
    hello.resize(64, 0);
    socket.send(&hello).unwrap();
    assert_eq!(socket.recv(&mut answer).unwrap(), 53);
    let token = answer[21..37].to_vec();
    let message = |kind: u8, train: u32| {
        let number = 0_u32.to_be_bytes();
        let mut it =
            [b"PhP1", &[kind][..], &token[..], &train.to_be_bytes()[..], &number[..]].concat();
        it.resize(1200, 0);
        it
    };
    socket.send(&message(3, 1)).unwrap();
    socket.send(&message(4, 1)).unwrap();
    let answered = socket.recv(&mut answer).unwrap();
    assert_eq!(answered, 5 + 16 + 12 + 12, "one packet arrived");
    for _ in 0..90 {
        socket.send(&message(3, 1)).unwrap();
        std::thread::sleep(Duration::from_micros(100));
    }
    socket.send(&message(4, 1)).unwrap();
    assert!(socket.recv(&mut answer).is_err(), "a session of more than 100 kB is over");
}
