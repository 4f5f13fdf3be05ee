//! Nobody gets data who has not proved to want it.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use perhop_traffic::{SenderReadings, Traffic, TrafficError};
use serde_json::{Value, json};

use crate::lab::{MS, TOKEN, job, live, open, tcp, udp};

const FRAME: usize = 44;
const KIND: usize = 5;

/// A sender, its address, and the address that its data is to go to.
fn sender(flow: Value, opens: &str) -> (Traffic, IpAddr, SocketAddr) {
    let at = format!("127.0.9.2:{}", flow["port"]).parse().unwrap();
    let [near, ..] = live(&job(false, &[500 * MS], vec![flow], vec![]), opens);
    let from = near["nodes"][0]["addresses"][0].as_str().unwrap().parse().unwrap();
    (open(&near).unwrap(), from, at)
}

fn patient(socket: UdpSocket) -> UdpSocket {
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    socket
}

/// Datagrams that arrive within 2 s, each with its sender. `answer` says what comes back.
fn gather(
    socket: &UdpSocket,
    mut answer: impl FnMut(&[u8], SocketAddr),
    traffic: &mut Traffic,
) -> Vec<Vec<u8>> {
    thread::scope(|scope| {
        let proof = scope.spawn(|| traffic.prove(Traffic::instant_in(2_000_000_000)).unwrap());
        let (mut all, mut bytes) = (Vec::new(), [0; 2048]);
        while !proof.is_finished() {
            if let Ok((length, from)) = socket.recv_from(&mut bytes) {
                all.push(bytes[..length].to_vec());
                answer(&bytes[..length], from);
            }
        }
        assert!(!proof.join().unwrap(), "nothing was proved");
        all
    })
}

fn refuses_to_start(traffic: &mut Traffic) {
    let refused = traffic.start(Traffic::instant_in(0)).unwrap_err();
    assert!(matches!(refused, TrafficError::Unproved(_)), "{refused}");
    assert!(!traffic.unproved().is_empty());
}

#[test]
fn who_never_proves_gets_three_small_datagrams() {
    let (mut traffic, _, at) = sender(udp(0, 400 * MS, json!({})), "source");
    let socket = patient(UdpSocket::bind(at).unwrap());
    let all = gather(&socket, |_, _| {}, &mut traffic);
    assert!((1..=3).contains(&all.len()), "{}", all.len());
    assert!(all.iter().all(|datagram| datagram.len() <= 64));
    refuses_to_start(&mut traffic);
    assert!(socket.recv(&mut [0; 9]).is_err(), "nor afterwards");
}

#[test]
fn who_is_to_ask_and_does_not_gets_nothing() {
    let _alone = crate::lab::alone();
    let (mut traffic, _, at) = sender(udp(0, 400 * MS, json!({})), "destination");
    let socket = patient(UdpSocket::bind(at).unwrap());
    let all = gather(&socket, |_, _| {}, &mut traffic);
    assert_eq!(all.len(), 0);
    refuses_to_start(&mut traffic);
}

#[test]
fn wrong_nonces_prove_nothing() {
    // An echo of the challenge; another nonce; the right one of another token, stream or address;
    // the nonce of an earlier run. The nonce masks the token.
    let mut earlier: Option<Vec<u8>> = None;
    for case in 0..7 {
        let (mut traffic, _, at) = sender(udp(0, 400 * MS, json!({})), "source");
        let socket = patient(UdpSocket::bind(at).unwrap());
        let other = UdpSocket::bind("127.0.9.3:0").unwrap();
        let all = gather(
            &socket,
            |challenge, from| {
                assert_eq!((challenge.len(), challenge[KIND]), (FRAME, 2));
                let mut proof = challenge.to_vec();
                proof[KIND] = 3;
                match case {
                    0 => proof[KIND] = 2,
                    1 => [27, 43].into_iter().for_each(|place| proof[place] ^= 1),
                    2 => proof[12] ^= 1,
                    3 => proof[9] ^= 1,
                    4 => proof[7] ^= 1,
                    6 => proof[12..].copy_from_slice(&earlier.as_ref().unwrap()[12..]),
                    _ => {}
                }
                let by = if case == 5 { &other } else { &socket };
                by.send_to(&proof, from).unwrap();
            },
            &mut traffic,
        );
        assert!((1..=3).contains(&all.len()), "case {case}: {}", all.len());
        earlier = Some(all[0].clone());
        refuses_to_start(&mut traffic);
    }
}

#[test]
fn who_asks_for_ever_gets_few_answers() {
    let _alone = crate::lab::alone();
    let (mut traffic, from, at) = sender(udp(0, 400 * MS, json!({})), "destination");
    let socket = patient(UdpSocket::bind(at).unwrap());
    let mut hello = b"phpr\x01\x01\0\0\0\0\0\0".to_vec();
    hello.extend(u128::from_str_radix(TOKEN, 16).unwrap().to_be_bytes());
    hello.extend([0; 16]);
    let asking = socket.try_clone().unwrap();
    let beside = thread::spawn(move || {
        for _ in 0..100 {
            asking.send_to(&hello, (from, 49_152)).unwrap();
            thread::sleep(Duration::from_millis(10));
        }
    });
    let all = gather(&socket, |_, _| {}, &mut traffic);
    beside.join().unwrap();
    assert_eq!(all.len(), 8, "one for each of the first hellos");
    assert!(all.iter().all(|datagram| datagram.len() <= 64));
    refuses_to_start(&mut traffic);
}

#[test]
fn a_closed_port_gets_nothing_more() {
    let flow = udp(0, 5_000 * MS, json!({}));
    let marks: Vec<u64> = (1..=50).map(|mark| mark * 100 * MS).collect();
    let jobs = live(&job(false, &marks, vec![flow], vec![]), "source");
    let mut ends = [open(&jobs[0]).unwrap(), open(&jobs[1]).unwrap()];
    assert!(crate::lab::prove(&mut ends));
    let zero = Traffic::instant_in(1_000_000);
    ends.iter_mut().for_each(|end| end.start(zero).unwrap());
    let [mut near, far] = ends;
    thread::sleep(Duration::from_millis(500));
    drop(far);
    thread::sleep(Duration::from_millis(300));
    let mut sent = || {
        let last = near.take_readings().pop().unwrap();
        match &last.sources[0].streams {
            SenderReadings::Udp(streams) => streams[0].sent,
            SenderReadings::Tcp(_) => panic!("a flow of datagrams"),
        }
    };
    let before = sent();
    thread::sleep(Duration::from_millis(700));
    assert!(before > 50 && sent() == before, "{before}");
}

#[test]
fn a_connection_carries_no_data_before_the_proof() {
    for wrong in [false, true] {
        let (mut traffic, _, at) = sender(tcp(0, Some(400 * MS), None, json!({})), "source");
        let listener = TcpListener::bind(at).unwrap();
        let server = thread::spawn(move || {
            let (mut peer, from) = listener.accept().unwrap();
            assert_ne!(from.port(), 49_152, "the same port could not connect again for a minute");
            peer.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
            let mut bytes = vec![0; FRAME];
            peer.read_exact(&mut bytes).unwrap();
            if wrong {
                let mut proof = bytes.clone();
                proof[KIND] = 3;
                [27, 43].into_iter().for_each(|place| proof[place] ^= 1);
                peer.write_all(&proof).unwrap();
            }
            // Until it is closed, or for a while.
            let mut more = Vec::new();
            let _ = peer.read_to_end(&mut more);
            more.len()
        });
        assert!(!traffic.prove(Traffic::instant_in(400_000_000)).unwrap());
        refuses_to_start(&mut traffic);
        assert_eq!(server.join().unwrap(), 0, "not a byte of data");
    }
}

/// Returns the packets that a job sends within 1.2 s to an address that answers nothing.
fn first_packets(mut flow: Value, opens: &str, mut count: impl FnMut() -> usize) -> usize {
    crate::lab::merge(&mut flow, &json!({"streams": 500}));
    let (mut traffic, ..) = sender(flow, opens);
    thread::scope(|scope| {
        let proof = scope.spawn(|| traffic.prove(Traffic::instant_in(1_200_000_000)).unwrap());
        let mut all = 0;
        while !proof.is_finished() {
            all += count();
        }
        assert!(!proof.join().unwrap(), "nothing was proved");
        all
    })
}

#[test]
fn first_packets_to_who_proved_nothing_are_few() {
    // 100 at once, and 100 each second.
    let most = 100 + 130;
    let flow = udp(0, 400 * MS, json!({}));
    let socket = UdpSocket::bind(("127.0.9.2", flow["port"].as_u64().unwrap() as u16)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let challenges =
        first_packets(flow, "source", || usize::from(socket.recv(&mut [0; 99]).is_ok()));
    assert!((100..=most).contains(&challenges), "{challenges} datagrams");
    // Each connection is closed at once, and opened again.
    let flow = tcp(0, Some(400 * MS), None, json!({}));
    let listener = TcpListener::bind(("127.0.9.2", flow["port"].as_u64().unwrap() as u16)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let connections = first_packets(flow, "source", || {
        thread::sleep(Duration::from_millis(1));
        std::iter::from_fn(|| listener.accept().ok()).count()
    });
    assert!((100..=most).contains(&connections), "{connections} connections");
}

#[test]
fn who_connects_gets_nothing_without_the_token() {
    let flow = tcp(0, Some(400 * MS), None, json!({}));
    let port = flow["port"].as_u64().unwrap() as u16;
    let (mut traffic, from, _) = sender(flow, "destination");
    let at = (from, port);
    let mut unknown = TcpStream::connect(at).unwrap();
    let mut silent = TcpStream::connect(at).unwrap();
    let mut hello = b"phpr\x01\x01\0\0\0\0\0\0".to_vec();
    hello.extend([0; 32]);
    unknown.write_all(&hello).unwrap();
    assert!(!traffic.prove(Traffic::instant_in(300_000_000)).unwrap());
    for peer in [&mut unknown, &mut silent] {
        peer.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut bytes = Vec::new();
        let _ = peer.read_to_end(&mut bytes);
        assert_eq!(bytes.len(), 0);
    }
    refuses_to_start(&mut traffic);
}
