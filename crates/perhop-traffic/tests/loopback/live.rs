//! Both ends of a flow in processes of their own.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use perhop_socket::realtime;
use perhop_traffic::Traffic;
use serde_json::{Value, json};

use crate::lab::{
    MS, floats, integers, job, live, merge, names, open, prove, run_live, sum, tcp, udp,
};

fn both(jobs: &[Value; 3]) -> [Traffic; 2] {
    [open(&jobs[0]).expect("one end can be opened"), open(&jobs[1]).expect("and the other")]
}

#[test]
fn one_end_each_measures_what_both_ends_do() {
    let _alone = crate::lab::alone();
    for (v6, opens) in
        [(false, "source"), (false, "destination"), (true, "source"), (true, "destination")]
    {
        let mut bulk = tcp(8, None, Some(3_000_000), json!({}));
        merge(&mut bulk, &json!({"streams": 3}));
        let mut calls = udp(46, 600 * MS, json!({}));
        merge(&mut calls, &json!({"streams": 2, "volume": 25_000}));
        let jobs = live(&job(v6, &[100 * MS, 1000 * MS], vec![bulk, calls], vec![]), opens);
        let mut ends = both(&jobs);
        assert!(prove(&mut ends), "{:?}", ends.each_ref().map(Traffic::unproved));
        let (mut collector, tables) = run_live(&jobs[2], &mut ends);
        assert_eq!(collector.take_warnings(), Vec::<String>::new());
        assert_eq!(collector.missing(), Vec::<String>::new());
        assert_eq!(collector.delivered(), [9_000_000, 2 * 125 * 200]);
        assert!(collector.windows()[0] > 0);
        let rows = integers(&tables, "intervals", "bytes");
        assert_eq!(rows.len(), 10, "{rows:?}");
        assert_eq!(sum(&tables, "intervals", "bytes"), 9_000_000 + 2 * 125 * 200);
        let lost = integers(&tables, "intervals", "lost");
        assert_eq!((&lost[3..5], &lost[8..]), (&[0, 0][..], &[0, 0][..]));
        assert_eq!(integers(&tables, "intervals", "duplicates")[8..], [0, 0]);
        let completed = floats(&tables, "intervals", "completion_s");
        assert_eq!(completed.iter().filter(|time| !time.is_nan()).count(), 3);
        // What opened the connections is no data.
        let packets = integers(&tables, "intervals", "packets");
        let tcp_packets: i64 = packets[..3].iter().chain(&packets[5..8]).sum();
        assert!(tcp_packets >= 9_000_000 / 65_536, "{tcp_packets}");
        assert!(sum(&tables, "srtts", "samples") > 0);
        // Both directions of TCP, and the datagrams, as they were marked.
        for (flow, node) in
            names(&tables, "codepoints", "flow").iter().zip(names(&tables, "codepoints", "node"))
        {
            assert!(*flow == "bulk" || node == "far" || v6, "{flow} at {node}");
        }
        let dscps = integers(&tables, "codepoints", "dscp_arrived");
        assert_eq!(dscps, integers(&tables, "codepoints", "dscp_sent"));
        assert!(dscps.contains(&8) && dscps.contains(&46), "{dscps:?}");
        // The offset of the other host's clock is unknown.
        assert_eq!(sum(&tables, "intervals", "owd_samples"), 0);
        assert_eq!(sum(&tables, "delays", "samples"), 0);
        assert_eq!(collector.offset_bounds(), [None, None]);
        let jitter = floats(&tables, "intervals", "jitter_s");
        assert!(!jitter[3].is_nan() || jitter[0].is_nan(), "{jitter:?}");
        assert!(collector.counters().contains(&("unknown_senders", 0)));
    }
}

#[test]
fn a_live_flow_has_its_source_port() {
    for (transport, opens) in [("tcp", "source"), ("udp", "source"), ("udp", "destination")] {
        let mut flow = match transport {
            "tcp" => tcp(0, None, Some(100_000), json!({})),
            _ => udp(0, 200 * MS, json!({})),
        };
        let port = crate::lab::ports();
        merge(&mut flow, &json!({"source_port": port}));
        let jobs = live(&job(false, &[100 * MS, 400 * MS], vec![flow], vec![]), opens);
        let mut ends = both(&jobs);
        assert!(prove(&mut ends), "{:?}", ends.each_ref().map(Traffic::unproved));
        let near = jobs[0]["nodes"][0]["addresses"][0].as_str().unwrap().parse::<IpAddr>().unwrap();
        let IpAddr::V4(near) = near else { unreachable!() };
        let local = format!(" {:08X}:{port:04X} ", u32::from(near).swap_bytes());
        let sockets = std::fs::read_to_string(format!("/proc/net/{transport}")).unwrap();
        assert!(sockets.contains(&local), "{local} {sockets}");
        let (collector, _) = run_live(&jobs[2], &mut ends);
        assert!(collector.delivered()[0] > 0);
    }
}

#[test]
fn a_port_that_an_end_does_not_choose_is_refused() {
    let mut flow = tcp(0, None, Some(100_000), json!({}));
    merge(&mut flow, &json!({"source_port": 179}));
    let jobs = live(&job(false, &[400 * MS], vec![flow], vec![]), "destination");
    let refused = open(&jobs[0]).unwrap_err().to_string();
    assert_eq!(refused, "flow bulk: its destination opens the connection; expected no source port");
}

#[test]
fn delays_are_corrected_by_what_is_known_of_the_other_clock() {
    let mut flow = udp(0, 700 * MS, json!({}));
    merge(&mut flow, &json!({"volume": 50_000}));
    let jobs = live(&job(false, &[400 * MS, 900 * MS], vec![flow], vec![]), "source");
    let mut ends = both(&jobs);
    assert!(ends[0].clock_offset("far").is_none(), "nothing comes from there");
    let at = |job: &Value, node: usize| -> IpAddr {
        job["nodes"][node]["addresses"][0].as_str().unwrap().parse().unwrap()
    };
    let [near, far] = [0, 1].map(|node| at(&jobs[2], node));
    assert!(!ends[1].knows(near), "whatever the job says");
    let clock = ends[1].clock_offset("near").expect("a flow comes from there");
    // In truth the clocks are the same: a correction by 5 ms shows as 5 ms.
    clock.set(realtime(), -5_000_000, 0, 70_000);
    assert!(prove(&mut ends));
    assert!(ends[0].knows(far) && ends[1].knows(near));
    assert!(!ends[1].knows("127.0.0.1".parse().unwrap()));
    let (collector, tables) = run_live(&jobs[2], &mut ends);
    assert_eq!(collector.offset_bounds(), [Some(70_000)]);
    let delays = floats(&tables, "intervals", "owd_s");
    assert!((0.005..0.1).contains(&delays[0]), "{delays:?}");
    assert_eq!(sum(&tables, "intervals", "owd_samples"), 250);
    assert_eq!(sum(&tables, "delays", "samples"), 250);
    let least = floats(&tables, "delays", "low_s").iter().copied().fold(f64::MAX, f64::min);
    assert!(least >= 0.0049, "{least}");
}

#[test]
fn pings_are_seen_to_arrive() {
    let ping = json!({
        "name": "idle", "from": "near", "to": "far", "dscp": 10, "every": 20 * MS, "size": 56,
        "start": 0, "stop": 200 * MS,
    });
    let jobs = live(&job(false, &[100 * MS, 400 * MS], vec![], vec![ping]), "source");
    let mut ends = both(&jobs);
    assert!(prove(&mut ends));
    let (_, tables) = run_live(&jobs[2], &mut ends);
    assert_eq!(integers(&tables, "pings", "sequence"), (0..10).collect::<Vec<_>>());
    assert_eq!(names(&tables, "pings", "answer"), ["echo reply"; 10]);
    for column in ["dscp_sent", "dscp_arrived", "dscp_echoed"] {
        assert_eq!(integers(&tables, "pings", column), [10; 10], "{column}");
    }
}

#[test]
fn a_job_does_not_choose_the_source_of_probes() {
    let port = crate::lab::ports();
    let ping = json!({
        "name": "idle", "from": "near", "to": "far", "dscp": 0, "every": 20 * MS, "size": 56,
        "start": 0, "stop": 200 * MS, "udp_port": port,
    });
    let jobs = live(&job(false, &[300 * MS], vec![], vec![ping]), "source");
    // An address of another host.
    let [mut near, ..] = jobs;
    near["nodes"][0]["addresses"] = json!(["192.0.2.1"]);
    let target = UdpSocket::bind(("127.0.9.2", port)).unwrap();
    target.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut near = open(&near).unwrap();
    assert!(near.prove(Traffic::instant_in(0)).unwrap());
    near.start(Traffic::instant_in(1_000_000)).unwrap();
    let (size, from) = target.recv_from(&mut [0; 100]).unwrap();
    assert!(size == 56 && from.ip().is_loopback(), "{size} B from {from}");
}

#[test]
fn an_end_that_is_gone_leaves_what_the_other_one_knows() {
    let flow = udp(0, 60_000 * MS, json!({}));
    let marks: Vec<u64> = (1..=100).map(|mark| mark * 100 * MS).collect();
    let jobs = live(&job(false, &marks, vec![flow], vec![]), "source");
    let mut ends = both(&jobs);
    assert!(prove(&mut ends));
    let mut collector =
        perhop_traffic::Collector::new(&serde_json::from_value(jobs[2].clone()).unwrap()).unwrap();
    let zero = Traffic::instant_in(1_000_000);
    ends.iter_mut().for_each(|end| end.start(zero).unwrap());
    let take = |end: &mut Traffic, node: &str, collector: &mut perhop_traffic::Collector| {
        end.take_readings().into_iter().for_each(|each| collector.add(node, each).unwrap());
    };
    thread::sleep(Duration::from_millis(350));
    let [near, far] = &mut ends;
    far.stop();
    take(far, "far", &mut collector);
    thread::sleep(Duration::from_millis(300));
    near.stop();
    take(near, "near", &mut collector);
    let tables = collector.tables().into_iter().collect::<std::collections::HashMap<_, _>>();
    let column = |name: &str| {
        let found = tables["intervals"].iter().find(|(each, _)| *each == name).unwrap();
        let perhop_measure::Column::Integers(values) = &found.1 else { panic!("{name}") };
        values.clone()
    };
    let bytes = column("bytes");
    assert!(bytes.len() > 5 && bytes[0] > 0 && bytes.ends_with(&[-1, -1]), "{bytes:?}");
    assert!(column("lost").ends_with(&[-1, -1]));
    assert!(column("retransmits").ends_with(&[0, 0]));
    assert!(collector.recorded().as_secs_f64() > 0.6);
}

/// Passes datagrams and connections on from another address, as a translator does.
fn translate(at: SocketAddr, to: SocketAddr, outside: IpAddr) {
    let inside = UdpSocket::bind(at).unwrap();
    thread::spawn(move || {
        let mut known: Vec<(SocketAddr, UdpSocket)> = Vec::new();
        let mut bytes = [0; 2048];
        while let Ok((length, from)) = inside.recv_from(&mut bytes) {
            if !known.iter().any(|(address, _)| *address == from) {
                let out = UdpSocket::bind((outside, 0)).unwrap();
                out.connect(to).unwrap();
                let (back, inside) = (out.try_clone().unwrap(), inside.try_clone().unwrap());
                thread::spawn(move || {
                    let mut bytes = [0; 2048];
                    while let Ok(length) = back.recv(&mut bytes) {
                        let _ = inside.send_to(&bytes[..length], from);
                    }
                });
                known.push((from, out));
            }
            let out = known.iter().find(|(address, _)| *address == from);
            let _ = out.unwrap().1.send(&bytes[..length]);
        }
    });
    let listener = TcpListener::bind(at).unwrap();
    thread::spawn(move || {
        for one in listener.incoming().map_while(Result::ok) {
            let Ok(other) = TcpStream::connect(to) else { continue };
            let ends = [one.try_clone().unwrap(), other.try_clone().unwrap()];
            for (mut from, mut to) in ends.into_iter().zip([other, one]) {
                thread::spawn(move || {
                    let mut bytes = [0; 65_536];
                    while let Ok(length @ 1..) = from.read(&mut bytes) {
                        if to.write_all(&bytes[..length]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
}

#[test]
fn address_translators_are_no_matter() {
    let _alone = crate::lab::alone();
    for opens in ["source", "destination"] {
        let bulk = tcp(0, None, Some(2_000_000), json!({}));
        let mut calls = udp(0, 600 * MS, json!({}));
        merge(&mut calls, &json!({"volume": 25_000}));
        let port = |flow: &Value| flow["port"].as_u64().unwrap() as u16;
        let ports = [port(&bulk), port(&calls)];
        let [mut near, mut far, controller] =
            live(&job(false, &[800 * MS], vec![bulk, calls], vec![]), opens);
        let outside = "127.0.9.6".parse().unwrap();
        // Each end knows the other one by the translator's address.
        let at = |address: &str, port: u16| format!("{address}:{port}").parse().unwrap();
        if opens == "source" {
            near["nodes"][1]["addresses"] = json!(["127.0.9.5"]);
            far["nodes"][0]["addresses"] = json!(["192.0.2.1"]);
            for port in ports {
                translate(at("127.0.9.5", port), at("127.0.9.2", port), outside);
            }
        } else {
            far["nodes"][0]["addresses"] = json!(["127.0.9.7"]);
            near["nodes"][1]["addresses"] = json!(["192.0.2.1"]);
            let source = near["nodes"][0]["addresses"][0].as_str().unwrap();
            for port in [ports[0], 49_152] {
                translate(at("127.0.9.7", port), at(source, port), outside);
            }
        }
        let mut ends = [open(&near).unwrap(), open(&far).unwrap()];
        assert!(prove(&mut ends), "{opens}: {:?}", ends.each_ref().map(Traffic::unproved));
        let (mut collector, tables) = run_live(&controller, &mut ends);
        assert_eq!(collector.take_warnings(), Vec::<String>::new());
        assert_eq!(collector.delivered(), [2_000_000, 125 * 200]);
        assert_eq!(integers(&tables, "intervals", "lost")[1], 0);
    }
}

#[test]
fn a_host_whose_address_is_a_translators_takes_any() {
    let _alone = crate::lab::alone();
    let mut flow = udp(0, 400 * MS, json!({}));
    merge(&mut flow, &json!({"volume": 25_000}));
    let [mut near, far, controller] = live(&job(false, &[500 * MS], vec![flow], vec![]), "source");
    near["nodes"][0]["addresses"] = json!(["192.0.2.1"]);
    let mut ends = [open(&near).unwrap(), open(&far).unwrap()];
    assert!(prove(&mut ends));
    let (collector, _) = run_live(&controller, &mut ends);
    assert_eq!(collector.delivered(), [125 * 200]);
}

#[test]
fn a_live_job_does_not_change_its_hosts() {
    let flow = udp(0, 200 * MS, json!({}));
    let [mut near, ..] = live(&job(false, &[500 * MS], vec![flow], vec![]), "source");
    near["nodes"][0]["settings"] = json!([["net.ipv4.tcp_sack", "0"]]);
    let refused = open(&near).unwrap_err().to_string();
    assert!(refused.contains("near") && refused.contains("settings"), "{refused}");
    near["nodes"][0]["settings"] = json!([]);
    near["live"]["flows"] = json!([]);
    let refused = open(&near).unwrap_err().to_string();
    assert!(refused.contains("0 entries for its 1 flows"), "{refused}");
}

#[test]
fn nodes_can_be_numbered() {
    let flow = udp(0, 200 * MS, json!({}));
    let [mut near, ..] = live(&job(false, &[500 * MS], vec![flow], vec![]), "source");
    // Number 65536 would be number 0, which is another node.
    let other = |_| json!({"name": "other", "namespace": null, "addresses": []});
    let nodes = near["nodes"].as_array_mut().unwrap();
    let far = nodes.pop().unwrap();
    nodes.extend((0..65_535).map(other));
    nodes.push(far);
    let refused = open(&near).unwrap_err().to_string();
    assert!(refused.contains("65537 nodes"), "{refused}");
}

/// Runs a test of this binary as a user without rights.
fn as_nobody(test: &str) {
    use std::os::unix::process::CommandExt;
    let own = std::env::current_exe().unwrap();
    let copy = std::env::temp_dir().join(format!("perhop-traffic-{}", std::process::id()));
    std::fs::copy(own, &copy).unwrap();
    let mut command = std::process::Command::new(&copy);
    command.args(["--exact", test, "--ignored"]).env("TMPDIR", "/tmp").current_dir("/");
    let output = command.gid(65_534).uid(65_534).output();
    std::fs::remove_file(copy).unwrap();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn what_a_user_without_rights_cannot_measure_is_named() {
    as_nobody("live::without_rights");
}

#[test]
#[ignore = "runs as a user without rights"]
fn without_rights() {
    let bulk = tcp(8, None, Some(1_000_000), json!({"congestion_control": "reno"}));
    let mut calls = udp(46, 600 * MS, json!({}));
    merge(&mut calls, &json!({"volume": 25_000}));
    let jobs = live(&job(false, &[900 * MS], vec![bulk, calls], vec![]), "source");
    let mut ends = both(&jobs);
    assert!(prove(&mut ends));
    let (collector, tables) = run_live(&jobs[2], &mut ends);
    assert_eq!(collector.delivered(), [1_000_000, 25_000]);
    let [near, far] = collector.missing() else { panic!("{:?}", collector.missing()) };
    assert!(near.contains("TCP arrive at near") && far.contains("TCP arrive at far"), "{near}");
    assert!(near.contains("ermission") || near.contains("not permitted"), "{near}");
    // What the kernel tells everybody is there; what only packets show is null.
    assert_eq!(integers(&tables, "intervals", "marked"), [-1, 0]);
    assert!(integers(&tables, "intervals", "packets").iter().all(|&packets| packets > 0));
    assert_eq!(names(&tables, "codepoints", "flow"), ["call"]);
    // No pings without raw sockets, and it is said at once.
    let ping = json!({
        "name": "idle", "from": "near", "to": "far", "dscp": 0, "every": MS, "size": 56,
        "start": 0, "stop": 100 * MS,
    });
    let [near, far, _] = live(&job(false, &[900 * MS], vec![], vec![ping]), "source");
    let refused = open(&near).unwrap_err().to_string();
    assert!(refused.contains("near") && refused.contains("raw socket"), "{refused}");
    open(&far).expect("its replies are the kernel's");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let _alone = crate::lab::alone();
    // The destination asks for data at the port that it knows, so that another one is of no use.
    let flow = udp(0, 200 * MS, json!({}));
    let [near, ..] = live(&job(false, &[500 * MS], vec![flow], vec![]), "destination");
    let first = open(&near).unwrap();
    let refused = open(&near).unwrap_err().to_string();
    assert!(refused.contains(":49152") && refused.contains("in use"), "{refused}");
    drop(first);
    open(&near).expect("it is free again");
}
