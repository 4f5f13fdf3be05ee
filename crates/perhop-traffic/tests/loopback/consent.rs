//! Receivers of datagrams repeat their proof, or get no more.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use perhop_core::Stream;
use perhop_traffic::{SenderReadings, Traffic};
use serde_json::json;

use crate::lab::{MS, job, live, open, prove, udp};

const KIND: usize = 5;
const PROOF: u8 = 3;
const FRAME: usize = 44;
/// Loss of both directions in percent.
const ALL: u32 = 100;

/// Relay between a sender and a receiver, on a path that loses datagrams.
struct Relay {
    /// Socket that the sender sends to, and the one that sends to the receiver.
    near: UdpSocket,
    far: UdpSocket,
    receiver: SocketAddr,
    loss: AtomicU32,
    is_over: AtomicBool,
}

impl Relay {
    fn new(at: SocketAddr, receiver: SocketAddr) -> Self {
        let [near, far] = [at, SocketAddr::new(at.ip(), 0)].map(|at| {
            let socket = UdpSocket::bind(at).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            socket
        });
        Self { near, far, receiver, loss: AtomicU32::new(0), is_over: AtomicBool::new(false) }
    }

    /// Forwards datagrams until the end. `on_proof` is called with each proof of the receiver, and
    /// the sender's address.
    fn run(&self, sender: SocketAddr, mut on_proof: impl FnMut(&[u8], SocketAddr) + Send) {
        let forward = |from: &UdpSocket, to: &UdpSocket, address, seen: &mut dyn FnMut(&[u8])| {
            let mut random = Stream::new(7, "relay");
            let mut bytes = [0; 2048];
            while !self.is_over.load(Ordering::Relaxed) {
                let Ok((length, _)) = from.recv_from(&mut bytes) else { continue };
                seen(&bytes[..length]);
                if random.up_to(99) >= self.loss.load(Ordering::Relaxed).into() {
                    let _ = to.send_to(&bytes[..length], address);
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| forward(&self.near, &self.far, self.receiver, &mut |_| {}));
            scope.spawn(|| {
                forward(&self.far, &self.near, sender, &mut |bytes| {
                    if bytes.len() == FRAME && bytes[KIND] == PROOF {
                        on_proof(bytes, sender);
                    }
                });
            });
        });
    }
}

/// Result of a run of 13 s.
struct Outcome {
    /// Datagrams that were sent by each tenth of a second.
    sent: Vec<u64>,
    warnings: Vec<String>,
    /// Time of the run at which everything was lost.
    cut: f64,
}

impl Outcome {
    /// Returns the time of the run in seconds after which nothing was sent.
    fn stopped(&self) -> f64 {
        let last = *self.sent.last().unwrap();
        self.sent.iter().position(|&sent| sent == last).unwrap() as f64 / 10.0
    }
}

/// Sends datagrams for 13 s. From 2 s on, the path loses this share in percent.
fn send(loss: u32, on_proof: impl FnMut(&Relay, &[u8], SocketAddr) + Send) -> Outcome {
    let marks: Vec<u64> = (1..=130).map(|mark| mark * 100 * MS).collect();
    let jobs = live(&job(false, &marks, vec![udp(46, 13_000 * MS, json!({}))], vec![]), "source");
    let port = jobs[0]["flows"][0]["port"].as_u64().unwrap() as u16;
    let from: SocketAddr =
        format!("{}:49152", jobs[0]["nodes"][0]["addresses"][0].as_str().unwrap()).parse().unwrap();
    let relay = Relay::new(([127, 0, 9, 3], port).into(), ([127, 0, 9, 2], port).into());
    // The relay translates addresses.
    let mut near = jobs[0].clone();
    near["nodes"][1]["addresses"] = json!(["127.0.9.3"]);
    let mut ends = [open(&near).unwrap(), open(&jobs[1]).unwrap()];
    thread::scope(|scope| {
        let relay = &relay;
        let mut on_proof = on_proof;
        scope.spawn(move || relay.run(from, |bytes, to| on_proof(relay, bytes, to)));
        assert!(prove(&mut ends), "{:?}", ends.each_ref().map(Traffic::unproved));
        let begun = Instant::now();
        let zero = Traffic::instant_in(1_000_000);
        ends.iter_mut().for_each(|end| end.start(zero).unwrap());
        thread::sleep(Duration::from_secs(2));
        let cut = begun.elapsed().as_secs_f64();
        relay.loss.store(loss, Ordering::Relaxed);
        while !ends[0].is_finished() {
            thread::sleep(Duration::from_millis(10));
        }
        relay.is_over.store(true, Ordering::Relaxed);
        let mut outcome = Outcome { sent: Vec::new(), warnings: Vec::new(), cut };
        for readings in ends[0].take_readings() {
            let SenderReadings::Udp(streams) = &readings.sources[0].streams else { panic!() };
            outcome.sent.push(streams[0].sent);
            outcome.warnings.extend(readings.warnings);
        }
        assert!(ends[1].delivered()[0] > 0, "what had arrived is kept");
        outcome
    })
}

fn has_stopped_in_time(outcome: &Outcome) {
    let after = outcome.stopped() - outcome.cut;
    assert!((7.0..9.5).contains(&after), "{after} s after the cut");
    let [warning] = &outcome.warnings[..] else { panic!("{:?}", outcome.warnings) };
    assert!(warning.contains("call: 127.0.9.3:"), "{warning}");
}

#[test]
fn a_receiver_that_vanishes_gets_no_more() {
    has_stopped_in_time(&send(ALL, |_, _, _| {}));
}

#[test]
fn forged_proofs_count_for_nothing() {
    let other = UdpSocket::bind("127.0.9.4:0").unwrap();
    let mut forger = None;
    let outcome = send(ALL, |relay, proof, sender| {
        // The first proof is known to the forger, who goes on for ever.
        let (proof, near, other) =
            (proof.to_vec(), relay.near.try_clone().unwrap(), other.try_clone().unwrap());
        forger.get_or_insert_with(|| {
            thread::spawn(move || {
                for _ in 0..140 {
                    // From another address, or with another kind, stream, token or nonce.
                    let _ = other.send_to(&proof, sender);
                    for place in [KIND, 7, 9, 12, 43] {
                        let mut wrong = proof.clone();
                        wrong[place] ^= 1;
                        let _ = near.send_to(&wrong, sender);
                    }
                    let mut other_nonce = proof.clone();
                    [27, 43].into_iter().for_each(|place| other_nonce[place] ^= 1);
                    let _ = near.send_to(&other_nonce, sender);
                    let _ = near.send_to(&[&proof[..], b"x"].concat(), sender);
                    let _ = near.send_to(&proof[..FRAME - 1], sender);
                    thread::sleep(Duration::from_millis(100));
                }
            })
        });
    });
    has_stopped_in_time(&outcome);
    forger.expect("there were proofs").join().unwrap();
}

#[test]
fn heavy_loss_ends_no_flow() {
    let outcome = send(30, |_, _, _| {});
    assert_eq!(outcome.warnings, Vec::<String>::new());
    assert!(outcome.stopped() > 12.5, "{}", outcome.stopped());
}
