//! Jobs, run to their end.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use perhop_measure::Column;
use perhop_traffic::{Collector, Job, Traffic, TrafficError};
use serde_json::{Value, json};

/// Picoseconds.
pub const MS: u64 = 1_000_000_000;

/// Tables by name, columns by name.
pub type Tables = HashMap<&'static str, HashMap<&'static str, Column>>;

/// Ports that no other test of this process uses, nor another process by chance.
pub fn ports() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    20_000 + (std::process::id() % 1_000) as u16 * 20 + NEXT.fetch_add(1, Ordering::Relaxed)
}

pub fn tcp(dscp: u8, stop: Option<u64>, volume: Option<u64>, more: Value) -> Value {
    let mut tcp = json!({
        "congestion_control": "cubic", "send_window": 1 << 20, "receive_window": 1 << 20,
        "mss": 1460, "sack": true, "timestamps": true, "limited_transmit": true,
        "initial_window": 10, "min_rto": 200 * MS, "delayed_ack": 40 * MS,
    });
    merge(&mut tcp, &more);
    json!({
        "name": "bulk", "from": "near", "to": "far", "dscp": dscp, "port": ports(),
        "streams": 1, "start": 0, "stop": stop,
        "volume": volume, "transport": {"tcp": tcp},
    })
}

pub fn udp(dscp: u8, stop: u64, more: Value) -> Value {
    let mut udp = json!({"rate": 1_000_000, "size": 200});
    merge(&mut udp, &more);
    json!({
        "name": "call", "from": "near", "to": "far", "dscp": dscp, "port": ports(),
        "streams": 1, "start": 0, "stop": stop,
        "volume": null, "transport": {"udp": udp},
    })
}

pub fn merge(into: &mut Value, more: &Value) {
    for (key, value) in more.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

/// A job between 127.0.9.1 and 127.0.9.2, or between ::1 and itself: other programs connect from
/// 127.0.0.1, and what is left of a connection keeps its port for a minute.
pub fn job(v6: bool, marks: &[u64], flows: Vec<Value>, pings: Vec<Value>) -> Value {
    let node =
        |name: &str, address: &str| json!({"name": name, "namespace": 0, "addresses": [address]});
    let nodes = match v6 {
        false => json!([node("near", "127.0.9.1"), node("far", "127.0.9.2")]),
        true => json!([node("near", "::1"), node("far", "::1")]),
    };
    let timers = json!({"min_rto": 200 * MS, "delayed_ack": 40 * MS});
    json!({
        "seed": 1, "marks": marks, "timers": timers, "nodes": nodes, "flows": flows, "pings": pings,
    })
}

pub fn open(job: &Value) -> Result<Traffic, TrafficError> {
    let job: Job = serde_json::from_value(job.clone()).expect("the job is complete");
    Traffic::new(&job, &|_| Ok(()))
}

/// Runs a job to its end.
pub fn run(job: &Value) -> (Traffic, Tables) {
    let mut traffic = open(job).expect("it can be opened");
    traffic.start(Traffic::instant_in(1_000_000)).expect("it can be started");
    while !traffic.is_finished() {
        thread::sleep(Duration::from_millis(5));
    }
    let tables = tables(&traffic);
    (traffic, tables)
}

pub fn tables(traffic: &Traffic) -> Tables {
    traffic.tables().into_iter().map(|(name, table)| (name, table.into_iter().collect())).collect()
}

pub fn integers<'a>(tables: &'a Tables, table: &str, column: &str) -> &'a [i64] {
    match &tables[table][column] {
        Column::Integers(values) => values,
        _ => panic!("{table}.{column} has no integers"),
    }
}

pub fn names<'a>(tables: &'a Tables, table: &str, column: &str) -> Vec<&'a str> {
    match &tables[table][column] {
        Column::Names(names, places) => {
            let name = |place: &i64| names.get(*place as usize).map_or("", String::as_str);
            places.iter().map(name).collect()
        }
        _ => panic!("{table}.{column} has no names"),
    }
}

pub fn floats<'a>(tables: &'a Tables, table: &str, column: &str) -> &'a [f64] {
    match &tables[table][column] {
        Column::Floats(values) => values,
        _ => panic!("{table}.{column} has no floats"),
    }
}

pub fn sum(tables: &Tables, table: &str, column: &str) -> i64 {
    integers(tables, table, column).iter().sum()
}

/// An address of the loopback device that no other test has, nor another process by chance: a live
/// sender's port is its own.
fn own_address() -> String {
    use std::sync::atomic::{AtomicU8, Ordering};
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let process = std::process::id();
    let place = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("127.{}.{}.{place}", 16 + process % 200, process / 200 % 250)
}

/// Has tests wait for each other that use the same port of ::1, or of any address.
pub fn alone() -> impl Drop {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A token of a run.
pub const TOKEN: &str = "00112233445566778899aabbccddeeff";

/// The same job for the processes of its two hosts, and for their controller; `opens` is the end
/// that opens each flow.
pub fn live(job: &Value, opens: &str) -> [Value; 3] {
    let flows = job["flows"].as_array().map_or(0, Vec::len);
    let mut job = job.clone();
    if job["nodes"][0]["addresses"][0] != "::1" {
        job["nodes"][0]["addresses"][0] = json!(own_address());
    }
    let mut all = [(); 3].map(|()| job.clone());
    for (here, job) in all.iter_mut().enumerate() {
        job["live"] = json!({"token": TOKEN, "flows": vec![json!({"opens": opens}); flows]});
        for node in 0..2 {
            job["nodes"][node]["namespace"] = if node == here { json!(0) } else { Value::Null };
        }
    }
    all
}

/// Proves both ends, or gives up.
pub fn prove(ends: &mut [Traffic; 2]) -> bool {
    let until = Traffic::instant_in(4_000_000_000);
    thread::scope(|scope| {
        let proofs = ends.each_mut().map(|end| scope.spawn(move || end.prove(until)));
        proofs.map(|proof| proof.join().expect("nothing panics").expect("there are nonces"))
    }) == [true; 2]
}

/// Runs a live job whose ends were proved, and joins what both ends read.
pub fn run_live(job: &Value, ends: &mut [Traffic; 2]) -> (Collector, Tables) {
    let controller: Job = serde_json::from_value(job.clone()).expect("the job is complete");
    let mut collector = Collector::new(&controller).expect("the job is sound");
    let zero = Traffic::instant_in(1_000_000);
    for end in &mut *ends {
        end.start(zero).expect("it can be started");
    }
    while ends.iter().any(|end| !end.is_finished()) {
        thread::sleep(Duration::from_millis(5));
    }
    for (end, node) in ends.iter_mut().zip(["near", "far"]) {
        for readings in end.take_readings() {
            let text = serde_json::to_string(&readings).expect("readings can be written");
            let readings = serde_json::from_str(&text).expect("and read");
            collector.add(node, readings).expect("they are sound");
        }
    }
    let tables = collector.tables();
    let tables = tables.into_iter().map(|(name, table)| (name, table.into_iter().collect()));
    (collector, tables.collect())
}
