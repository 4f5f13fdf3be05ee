//! Pings from an agent to STAMP and TWAMP Light reflectors that belong to others.

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::{Agent, integers, job, rows, run_alone, start_alone};
use perhop_agent::stamp::{Reflector, ReflectorSettings};
use perhop_agent::{ErrorCode, Identity, Live, LiveError};
use perhop_measure::Column;
use perhop_traffic::Job;
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);
const FOREIGN: &[&str] = &["--third-party"];
const MILLISECOND: u64 = 1_000_000_000;

fn ping(name: &str, every_ms: u64, stop_ms: u64) -> Value {
    json!({"name": name, "from": "a", "to": "b", "dscp": 46, "ecn": "ect1", "size": 56,
        "every": every_ms * MILLISECOND, "start": 0, "stop": stop_ms * MILLISECOND})
}

/// A job of pings to a reflector on 127.0.0.2.
fn to_reflector(address: SocketAddr, tenths: u64, pings: &[Value]) -> Job {
    let mut job = job(tenths, &[], pings);
    job.live.as_mut().unwrap().reflectors = vec![Some(address.port()); pings.len()];
    job
}

/// The round-trip times in seconds; NaN if there is none.
fn round_trips(live: &Live) -> Vec<f64> {
    let tables = live.tables();
    let (_, columns) = tables.into_iter().find(|(name, _)| *name == "pings").unwrap();
    match columns.into_iter().find(|(name, _)| *name == "rtt_s") {
        Some((_, Column::Floats(values))) => values,
        other => panic!("{other:?}"),
    }
}

fn reflector() -> Reflector {
    Reflector::start("127.0.0.2:0".parse().unwrap(), ReflectorSettings::default()).unwrap()
}

/// A socket that handles each datagram with its number, and counts them.
struct Host {
    address: SocketAddr,
    heard: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    fn start(mut answer: impl FnMut(usize, &[u8]) -> Option<Vec<u8>> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.2:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let (heard, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, over) = (Arc::clone(&heard), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let mut bytes = [0; 2048];
            while !over.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
                let number = counter.fetch_add(1, Ordering::Relaxed);
                if let Some(reply) = answer(number, &bytes[..length]) {
                    socket.send_to(&reply, from).unwrap();
                }
            }
        });
        Self { address, heard, stop, thread: Some(thread) }
    }

    fn heard(&self) -> usize {
        self.heard.load(Ordering::Relaxed)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// The reply of TWAMP Light (RFC 5357, appendix I), whose reflector takes so many nanoseconds; it
/// returns what it takes for padding.
fn twamp_light(request: &[u8], takes: u64) -> Vec<u8> {
    let received = 5_000_u64 << 32;
    let replied = received + (takes << 32) / 1_000_000_000;
    let mut reply = request[..4].to_vec();
    reply.extend(replied.to_be_bytes());
    reply.extend([0x80, 0x01, 0, 0]);
    reply.extend(received.to_be_bytes());
    reply.extend(&request[..14]);
    reply.extend([0, 0, 255, 0, 0, 0]);
    reply.extend(&request[reply.len()..]);
    reply
}

#[test]
fn a_reflector_tells_round_trips_and_both_directions_of_marks() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), FOREIGN);
    let reflector = reflector();
    let live =
        run_alone(&to_reflector(reflector.address(), 12, &[ping("probe", 50, 1_000)]), &a, &key);
    assert_eq!(live.take_warnings(), Vec::<String>::new());
    assert_eq!(live.missing(), Vec::<String>::new());
    let trips = round_trips(&live);
    assert_eq!(trips.len(), 20);
    assert!(trips.iter().all(|trip| *trip > 0.0 && *trip < 0.2), "{trips:?}");
    for column in ["dscp_sent", "dscp_arrived", "dscp_echoed"] {
        assert_eq!(integers(&live, "pings", column), [46; 20], "{column}");
    }
    assert_eq!(integers(&live, "pings", "ecn_arrived"), [1; 20]);
    assert_eq!(integers(&live, "pings", "ttl"), [255; 20]);
    assert_eq!(reflector.counts().answered, 20);
    assert!(a.calms_down(SECOND).is_some());
}

#[test]
fn what_a_reflector_does_not_tell_is_null_and_its_own_time_is_left_out() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), FOREIGN);
    // Every fourth request gets no reply, and every other one is held for a while.
    let host = Host::start(|number, request| {
        assert_eq!(request.len(), 56);
        thread::sleep(Duration::from_millis(40));
        (number % 4 != 3).then(|| twamp_light(request, 40_000_000))
    });
    let live = run_alone(&to_reflector(host.address, 16, &[ping("probe", 100, 1_000)]), &a, &key);
    let (answered, lost): (Vec<_>, Vec<_>) =
        round_trips(&live).into_iter().partition(|trip| !trip.is_nan());
    assert_eq!((answered.len(), lost.len()), (8, 2));
    let least = answered.iter().copied().fold(f64::MAX, f64::min);
    assert!(least < 0.03, "the reflector takes 40 ms: {answered:?}");
    for column in ["dscp_arrived", "ecn_arrived"] {
        assert_eq!(integers(&live, "pings", column), [-1; 10], "{column}");
    }
    let echoed = integers(&live, "pings", "dscp_echoed");
    assert_eq!(echoed.iter().filter(|dscp| **dscp == 0).count(), 8, "{echoed:?}");
    let [missing] = &live.missing()[..] else { panic!("{:?}", live.missing()) };
    assert!(missing.contains("ping probe arrives: the reflector does not support"), "{missing}");
}

#[test]
fn a_host_that_does_not_answer_gets_thirty_requests() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), FOREIGN);
    for (train, most) in [(1, 30), (7, 28)] {
        let host = Host::start(|_, _| None);
        let mut ping = ping("probe", 50, 6_000);
        ping["train"] = json!(train);
        let live = run_alone(&to_reflector(host.address, 60, &[ping]), &a, &key);
        assert_eq!(host.heard(), most);
        assert_eq!(rows(&live, "pings"), most);
        assert!(round_trips(&live).iter().all(|trip| trip.is_nan()));
        let [warning] = &live.take_warnings()[..] else { panic!("expected one warning") };
        let expected = format!("has not answered {most} requests in a row");
        assert!(warning.contains(&expected), "{warning}");
    }
}

#[test]
fn a_reflector_that_falls_silent_is_left_alone() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), FOREIGN);
    let host = Host::start(|number, request| (number < 10).then(|| twamp_light(request, 0)));
    let live = run_alone(&to_reflector(host.address, 60, &[ping("probe", 50, 6_000)]), &a, &key);
    // 10 replies, and then 30 requests, the last of which has 2 s for its reply.
    assert!((60..=85).contains(&host.heard()), "{}", host.heard());
    assert_eq!(rows(&live, "pings"), host.heard());
    assert!(live.take_warnings().iter().any(|text| text.contains("30 requests in a row")));
}

#[test]
fn pings_end_with_their_session() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), FOREIGN);
    for dies in [false, true] {
        let host = Host::start(|_, request| Some(twamp_light(request, 0)));
        let mut live =
            start_alone(&to_reflector(host.address, 300, &[ping("probe", 20, 30_000)]), &a, &key)
                .unwrap();
        let begun = Instant::now();
        while host.heard() < 20 && begun.elapsed() < 10 * SECOND {
            thread::sleep(Duration::from_millis(10));
        }
        let begun = Instant::now();
        if !dies {
            live.stop();
            assert!(rows(&live, "pings") >= 20);
        }
        drop(live);
        assert!(a.calms_down(SECOND).is_some(), "{} sockets", a.sockets());
        assert!(begun.elapsed() < 2 * SECOND);
        let heard = host.heard();
        thread::sleep(SECOND / 2);
        assert_eq!(host.heard(), heard);
    }
}

#[test]
fn requests_keep_within_the_probes_that_the_owner_allows() {
    let key = Identity::generate();
    let slow = Agent::start(&key.public(), &["--third-party", "--max-ping-rate", "10"]);
    let host = Host::start(|_, request| Some(twamp_light(request, 0)));
    let live = run_alone(&to_reflector(host.address, 32, &[ping("probe", 10, 3_000)]), &slow, &key);
    // Ten at once, and ten in a second.
    assert!((20..=42).contains(&host.heard()), "{}", host.heard());
    assert!(live.take_warnings().iter().any(|text| text.contains("are limited")));
}

#[test]
fn the_owner_of_an_agent_decides_on_reflectors_of_others() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), &[]);
    let host = Host::start(|_, _| None);
    let job = to_reflector(host.address, 5, &[ping("probe", 50, 500)]);
    let Err(LiveError::Refused { code, message, .. }) = start_alone(&job, &a, &key) else {
        panic!("it was not refused")
    };
    assert_eq!(code, ErrorCode::Limit);
    let expected = format!("ping probe: the STAMP reflector {} belongs to", host.address);
    assert!(message.starts_with(&expected) && message.contains("--third-party"), "{message}");
    assert_eq!(host.heard(), 0);
}

#[test]
fn pings_that_stamp_cannot_measure_are_refused() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), FOREIGN);
    let reflector = reflector();
    for (field, value, text) in [
        ("size", json!(55), "a payload of 55 B; expected 56 B at least"),
        ("ttl", json!([1, 8]), "have TTL 255 and its port"),
        ("ttl", json!([3, 3]), "have TTL 255 and its port"),
        ("udp_port", json!(9), "have TTL 255 and its port"),
        ("train", json!(31), "trains of 31; expected 1 to 30 requests"),
    ] {
        let mut ping = ping("probe", 50, 500);
        ping[field] = value;
        let job = to_reflector(reflector.address(), 5, &[ping]);
        let Err(LiveError::Refused { code, message, .. }) = start_alone(&job, &a, &key) else {
            panic!("{field} was not refused")
        };
        assert_eq!(code, ErrorCode::Job);
        assert!(message.starts_with("ping probe: ") && message.contains(text), "{message}");
    }
}
