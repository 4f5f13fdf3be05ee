//! Refusals of an agent, and the end of runs when a connection is lost.

mod common;

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Agent, agents, finish, job, job_between, prepare, rows, tcp, udp};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perhop_agent::{ErrorCode, Identity, Live, LiveError};
use serde_json::json;

const SECOND: Duration = Duration::from_secs(1);
/// The flag of the process that is a controller, and not a test.
const CONTROLLER: &str = "PERHOP_TEST_CONTROLLER";

fn code(error: &LiveError) -> Option<ErrorCode> {
    match error {
        LiveError::Refused { code, .. } => Some(*code),
        _ => None,
    }
}

/// Runs a job to its end, and returns the run.
fn run(job: &perhop_traffic::Job, a: &Agent, b: &Agent, key: &Identity) -> Live {
    let mut live = prepare(job, a, b, key).unwrap();
    live.start().unwrap();
    finish(&live, 10 * SECOND);
    assert_eq!(live.failure(), None);
    live
}

#[test]
fn two_agents_send_what_the_job_says() {
    let key = Identity::generate();
    let (a, b) = (Agent::start(&key.public(), &[]), Agent::start(&key.public(), &[]));
    let flows = [udp("voice", 26_001, 1_000_000), tcp("bulk", 26_002)];
    let mut bulk = flows[1].clone();
    bulk["volume"] = json!(1_000_000);
    let ping = json!({"name": "ping", "from": "a", "to": "b", "dscp": 0, "every":
        100_000_000_000_u64, "size": 56, "start": 0, "stop": 2_000_000_000_000_u64});
    let live = run(&job(20, &[flows[0].clone(), bulk], &[ping]), &a, &b, &key);
    let [voice, bulk] = live.delivered()[..] else { panic!() };
    assert!((245_000..=250_500).contains(&voice), "{voice} B of 250 kB");
    assert_eq!(bulk, 1_000_000);
    assert_eq!(rows(&live, "intervals"), 2 * 20);
    let counters: std::collections::HashMap<_, _> = live.counters().into_iter().collect();
    assert!(counters["start_bound_us"] < 1_000, "{counters:?}");
    for agent in [&a, &b] {
        assert!(agent.calms_down(SECOND).is_some(), "{} sockets", agent.sockets());
    }
}

#[test]
fn either_end_opens_connections_in_both_families() {
    let key = Identity::generate();
    let (a, b) = (Agent::start(&key.public(), &[]), Agent::start(&key.public(), &[]));
    for (addresses, end) in [
        // An end that only the other one can be reached from, as behind a translation of addresses.
        (["0.0.0.0", "127.0.0.2"], "source"),
        (["127.0.0.1", "0.0.0.0"], "destination"),
        (["::1", "::1"], "source"),
        (["::1", "::1"], "destination"),
    ] {
        let mut bulk = tcp("bulk", 26_072);
        bulk["volume"] = json!(100_000);
        let flows = [udp("voice", 26_071, 1_000_000), bulk];
        let live = run(&job_between(addresses, end, 5, &flows, &[]), &a, &b, &key);
        let [voice, bulk] = live.delivered()[..] else { panic!() };
        // 62.5 kB, and some more if an end is stopped late.
        assert!((60_000..=66_000).contains(&voice), "{addresses:?} {end}: {voice} B");
        assert_eq!(bulk, 100_000, "{addresses:?} {end}");
    }
}

#[test]
fn only_the_owner_gives_real_time_priority() {
    let key = Identity::generate();
    let public = key.public();
    let (a, b) = (Agent::start(&public, &[]), Agent::start(&public, &["--real-time"]));
    let mut job = job(30, &[udp("voice", 26_081, 1_000_000)], &[]);
    job.real_time = true;
    let mut live = prepare(&job, &a, &b, &key).unwrap();
    live.start().unwrap();
    thread::sleep(SECOND);
    assert_eq!(a.real_time_threads(), 0);
    // Whether this user may have it.
    let permitted = perhop_socket::reduce_wakeup_latency(true);
    assert_eq!(b.real_time_threads() > 0, permitted);
}

#[test]
fn what_is_sent_stays_within_the_limits() {
    let key = Identity::generate();
    let public = key.public();
    let b = Agent::start(&public, &[]);
    let slow = Agent::start(&public, &["--max-rate", "2 Mbps"]);
    for flow in [udp("fast", 26_011, 20_000_000), tcp("bulk", 26_012)] {
        let live = run(&job(20, std::slice::from_ref(&flow), &[]), &slow, &b, &key);
        let delivered = live.delivered()[0];
        // 2 s at the rate, and what may be sent at once.
        assert!(delivered <= 640_000, "{flow}: {delivered} B in 2 s at 2 Mb/s");
        assert!(delivered >= 300_000, "{flow}: {delivered} B in 2 s at 2 Mb/s");
    }
    for flow in [udp("fast", 26_013, 20_000_000), tcp("bulk", 26_014)] {
        let little = Agent::start(&public, &["--max-volume", "100 kB"]);
        let live = run(&job(10, std::slice::from_ref(&flow), &[]), &little, &b, &key);
        let delivered = live.delivered()[0];
        assert!((50_000..=100_000).contains(&delivered), "{flow}: {delivered} B of 100 kB");
    }
}

#[test]
fn a_job_beyond_the_limits_is_refused() {
    let key = Identity::generate();
    let public = key.public();
    let b = Agent::start(&public, &[]);
    for (options, tenths, flows, says) in [
        (["--max-duration", "1 s"], 11, 1, "--max-duration"),
        (["--max-flows", "2"], 5, 3, "--max-flows"),
    ] {
        let a = Agent::start(&public, &options);
        let flows: Vec<_> =
            (0..flows).map(|flow| udp(&format!("f{flow}"), 26_020 + flow, 1_000)).collect();
        let error = prepare(&job(tenths, &flows, &[]), &a, &b, &key).unwrap_err();
        assert_eq!(code(&error), Some(ErrorCode::Limit), "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(b.calms_down(SECOND).is_some(), "the other agent keeps nothing open");
    }
}

#[test]
fn nobody_is_sent_data_who_has_not_proved_to_want_it() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), &[]);
    let victim = UdpSocket::bind("127.0.0.2:26031").unwrap();
    victim.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let job = job(10, &[udp("flood", 26_031, 100_000_000)], &[]);
    let waiting = thread::spawn(move || {
        let (mut packets, mut longest, begun) = (0, 0, Instant::now());
        while begun.elapsed() < 4 * SECOND {
            let Ok((length, _)) = victim.recv_from(&mut [0; 2_000]) else { continue };
            packets += 1;
            longest = longest.max(length);
        }
        (packets, longest)
    });
    // The other node has no agent: its address is that of somebody who was not asked.
    let error = Live::new(&job, &agents(&[("a", &a)]), &key).expect_err("nobody has proved");
    assert_eq!(code(&error), Some(ErrorCode::Unproved), "{error}");
    let (packets, longest) = waiting.join().unwrap();
    assert!(packets <= 3 && longest <= 64, "{packets} datagrams of up to {longest} B");
    assert!(a.calms_down(SECOND).is_some());
}

#[test]
fn a_session_ends_with_its_controller() {
    if let Ok(text) = std::env::var(CONTROLLER) {
        return control(&text);
    }
    let folder = std::env::temp_dir().join(format!("perhop-controller-{}", std::process::id()));
    let path = folder.join("key");
    let key = perhop_agent::open_identity(&path).unwrap();
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        let options = ["--silence", "1 s"];
        let (a, b) = (Agent::start(&key.public(), &options), Agent::start(&key.public(), &options));
        let text = json!([path.to_str().unwrap(), agents(&[("a", &a), ("b", &b)])]).to_string();
        let mut controller = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_session_ends_with_its_controller", "--nocapture"])
            .env(CONTROLLER, text)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while a.sockets() < a.idle + 2 || b.sockets() < b.idle + 2 {
            assert!(begun.elapsed() < 10 * SECOND, "it has not begun");
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(SECOND);
        kill(Pid::from_raw(controller.id().try_into().unwrap()), signal).unwrap();
        // A controller that is stopped is silent, and its connection stays.
        let within = if signal == Signal::SIGKILL { SECOND } else { 2 * SECOND };
        let times = [a.calms_down(within), b.calms_down(within)];
        eprintln!("after {signal}: {times:?}");
        let _ = controller.kill();
        let _ = controller.wait();
        assert!(times.iter().all(Option::is_some), "{signal}: {} {}", a.sockets(), b.sockets());
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Is the controller of a long run, until somebody ends this process.
fn control(text: &str) {
    let [path, agents]: [String; 2] = serde_json::from_str(text).unwrap();
    let key = perhop_agent::open_identity(path.as_ref()).unwrap();
    let flows = [udp("voice", 26_041, 1_000_000), tcp("bulk", 26_042)];
    let mut live = Live::new(&job(300, &flows, &[]), &agents, &key).unwrap();
    live.start().unwrap();
    finish(&live, 40 * SECOND);
}

#[test]
fn a_lost_agent_is_named_and_what_was_measured_is_kept() {
    let key = Identity::generate();
    let (a, mut b) = (Agent::start(&key.public(), &[]), Agent::start(&key.public(), &[]));
    let flows = [udp("voice", 26_051, 1_000_000), tcp("bulk", 26_052)];
    let mut live = prepare(&job(300, &flows, &[]), &a, &b, &key).unwrap();
    live.start().unwrap();
    thread::sleep(2 * SECOND);
    b.child.kill().unwrap();
    assert!(a.calms_down(Duration::from_millis(2_500)).is_some(), "{} sockets", a.sockets());
    finish(&live, 3 * SECOND);
    let failure = live.failure().unwrap();
    assert!(failure.contains("agent b") && failure.contains("closed"), "{failure}");
    assert!((150_000..400_000).contains(&live.delivered()[0]), "{:?}", live.delivered());
    assert!(rows(&live, "intervals") >= 2 * 10, "{}", rows(&live, "intervals"));
}

#[test]
fn two_controllers_have_two_sessions() {
    let (one, two) = (Identity::generate(), Identity::generate());
    let allow = two.public().to_string();
    let options = ["--allow", &allow, "--max-sessions", "2"];
    let (a, b) = (Agent::start(&one.public(), &options), Agent::start(&one.public(), &options));
    let first = job(20, &[udp("one", 26_061, 1_000_000)], &[]);
    let second = job(20, &[udp("two", 26_062, 1_000_000)], &[]);
    let mut first = prepare(&first, &a, &b, &one).unwrap();
    first.start().unwrap();
    let clash = prepare(&job(20, &[udp("two", 26_061, 1_000_000)], &[]), &a, &b, &two);
    let error = clash.unwrap_err().to_string();
    assert!(error.contains("26061"), "the port is named: {error}");
    let mut second = prepare(&second, &a, &b, &two).unwrap();
    second.start().unwrap();
    let third = prepare(&job(20, &[udp("three", 26_063, 1_000_000)], &[]), &a, &b, &two);
    let error = third.unwrap_err();
    assert_eq!(code(&error), Some(ErrorCode::Busy), "{error}");
    for live in [&first, &second] {
        finish(live, 5 * SECOND);
        assert_eq!(live.failure(), None);
        assert!((245_000..=250_500).contains(&live.delivered()[0]), "{:?}", live.delivered());
    }
}

#[test]
fn hostile_connections_neither_stop_an_agent_nor_make_it_grow() {
    let key = Identity::generate();
    let a = Agent::start(&key.public(), &[]);
    let flood = |count: usize| {
        for number in 0..count {
            let Ok(mut socket) = TcpStream::connect(a.address) else { continue };
            // A record of TLS that claims 16 KiB, rubbish, the end at once, or nothing.
            let bytes: &[u8] =
                [&b"\x16\x03\x01\x40\x00\x01"[..], &[0xff; 400], b"", b"\x16"][number % 4];
            let _ = socket.write_all(bytes);
        }
    };
    flood(500);
    let before = a.resident();
    flood(1_500);
    let slow: Vec<_> = (0..200).filter_map(|_| TcpStream::connect(a.address).ok()).collect();
    let mut live = Live::new(&job(3, &[], &[]), &agents(&[("a", &a)]), &key).unwrap();
    live.start().unwrap();
    finish(&live, 3 * SECOND);
    assert_eq!(live.failure(), None);
    drop(slow);
    assert!(a.calms_down(6 * SECOND).is_some(), "{} sockets", a.sockets());
    let after = a.resident();
    eprintln!("{} kiB before, {} kiB after", before >> 10, after >> 10);
    assert!(after < before + (8 << 20), "{before} B grew to {after} B");
}

#[test]
fn pings_go_only_to_hosts_that_have_proved_that_they_want_packets() {
    let key = Identity::generate();
    let (a, b) = (Agent::start(&key.public(), &[]), Agent::start(&key.public(), &[]));
    let ping = |port: Option<u16>, size: u64| {
        json!({"name": "ping", "from": "a", "to": "b", "dscp": 0, "every": 20_000_000_000_u64,
            "size": size, "udp_port": port, "start": 0, "stop": 300_000_000_000_u64})
    };
    let refused = |live: Result<Live, LiveError>| {
        let error = live.unwrap_err();
        assert_eq!(code(&error), Some(ErrorCode::Limit), "{error}");
        assert!(error.to_string().contains("ping ping: 127.0.0."), "{error}");
        assert!(error.to_string().contains("--third-party"), "{error}");
    };
    // No flow: nobody is there, or another agent that has proved nothing.
    for size in [56, 1400, 60_000] {
        refused(Live::new(&job(3, &[], &[ping(None, size)]), &agents(&[("a", &a)]), &key));
    }
    refused(Live::new(&job(3, &[], &[ping(Some(33_434), 56)]), &agents(&[("a", &a)]), &key));
    refused(prepare(&job(3, &[], &[ping(None, 56)]), &a, &b, &key));
    // The address of a third node, which has a proof for another one.
    let mut third = job(3, &[udp("data", 26_020, 1_000_000)], &[ping(None, 56)]);
    let mut value = serde_json::to_value(&third).unwrap();
    value["nodes"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "c", "namespace": null, "addresses": ["127.0.0.3"]}));
    value["pings"][0]["to"] = json!("c");
    third = serde_json::from_value(value).unwrap();
    refused(prepare(&third, &a, &b, &key));
    // A flow in either direction proves both hosts.
    let mut back = udp("back", 26_022, 1_000_000);
    back["from"] = json!("b");
    back["to"] = json!("a");
    for flow in [udp("there", 26_021, 1_000_000), back, tcp("bulk", 26_023)] {
        let live = run(&job(3, &[flow], &[ping(None, 56)]), &a, &b, &key);
        assert!(rows(&live, "pings") >= 10);
    }
    let open = Agent::start(&key.public(), &["--third-party"]);
    let mut live =
        Live::new(&job(3, &[], &[ping(None, 56)]), &agents(&[("a", &open)]), &key).unwrap();
    live.start().unwrap();
    finish(&live, 10 * SECOND);
    assert!(rows(&live, "pings") >= 10);
}
