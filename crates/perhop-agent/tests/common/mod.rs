//! Agents as processes on loopback, and jobs for them.

#![allow(dead_code)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use perhop_agent::{Identity, Live, LiveError, PublicKey};
use perhop_measure::Column;
use perhop_traffic::Job;
use serde_json::{Value, json};

/// An agent in a process.
pub struct Agent {
    pub child: Child,
    pub address: SocketAddr,
    pub key: String,
    folder: PathBuf,
    /// Sockets that it has when nobody is connected.
    pub idle: usize,
}

impl Agent {
    /// Starts an agent that allows this key, with more options.
    pub fn start(allowed: &PublicKey, options: &[&str]) -> Self {
        let folder = new_folder();
        let program = Command::new(env!("CARGO_BIN_EXE_perhop-agent"));
        let key = folder.join("key");
        Self::start_program(program, folder, &key, allowed, options)
    }

    /// Starts the agent of this program, with its key in a file and a folder that goes with it.
    pub fn start_program(
        mut program: Command,
        folder: PathBuf,
        key: &Path,
        allowed: &PublicKey,
        options: &[&str],
    ) -> Self {
        let mut child = program
            .args(["serve", "--listen", "127.0.0.1:0", "--allow", &allowed.to_string(), "--key"])
            .arg(key)
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut after = |mark: &str| {
            let line = lines.next().unwrap().unwrap();
            line.split_once(mark).unwrap_or_else(|| panic!("{line}")).1.to_owned()
        };
        let address = after("serves at ").parse().unwrap();
        let key = after("key: ");
        let mut agent = Self { child, address, key, folder, idle: 0 };
        agent.idle = agent.sockets();
        agent
    }

    fn of_process<T>(&self, path: &str, read: impl Fn(&str) -> T) -> T {
        read(&format!("/proc/{}/{path}", self.child.id()))
    }

    /// Returns the number of its open sockets.
    pub fn sockets(&self) -> usize {
        self.of_process("fd", |folder| {
            let Ok(files) = fs::read_dir(folder) else { return 0 };
            let links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
            links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
        })
    }

    /// Its memory in bytes.
    pub fn resident(&self) -> usize {
        self.of_process("statm", |file| {
            let text = fs::read_to_string(file).unwrap();
            text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        })
    }

    /// Returns the number of its threads with real-time priority (proc_pid_stat(5), field 41).
    pub fn real_time_threads(&self) -> usize {
        self.of_process("task", |folder| {
            let threads = fs::read_dir(folder).unwrap().flatten();
            let policies = threads.filter_map(|thread| {
                let text = fs::read_to_string(thread.path().join("stat")).ok()?;
                text.rsplit_once(')')?.1.split_whitespace().nth(38)?.parse::<u32>().ok()
            });
            policies.filter(|policy| [1, 2].contains(policy)).count()
        })
    }

    /// Waits until it has only the sockets of an idle agent. Returns how long that took.
    pub fn calms_down(&self, within: Duration) -> Option<Duration> {
        let begun = Instant::now();
        while begun.elapsed() < within {
            if self.sockets() <= self.idle {
                return Some(begun.elapsed());
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the path of a temporary folder that does not exist yet.
pub fn new_folder() -> PathBuf {
    let number = Identity::generate().public().to_string();
    let name: String = number.chars().filter(char::is_ascii_alphanumeric).collect();
    std::env::temp_dir().join(name)
}

/// A flow of datagrams from node a to node b.
pub fn udp(name: &str, port: u16, rate: u64) -> Value {
    json!({"name": name, "from": "a", "to": "b", "dscp": 46, "port": port, "streams": 1,
        "start": 0, "stop": null, "volume": null,
        "transport": {"udp": {"rate": rate, "size": 500, "ecn": null, "bursts": null,
            "replay": null}}})
}

/// A flow of one connection from node a to node b.
pub fn tcp(name: &str, port: u16) -> Value {
    json!({"name": name, "from": "a", "to": "b", "dscp": 0, "port": port, "streams": 1,
        "start": 0, "stop": null, "volume": null,
        "transport": {"tcp": {"congestion_control": "cubic", "send_window": 4_000_000,
            "receive_window": 4_000_000, "mss": 1448, "sack": true,
            "timestamps": true, "limited_transmit": true, "initial_window": 10,
            "min_rto": 200_000_000_000_u64, "delayed_ack": 40_000_000_000_u64}}})
}

/// A job between nodes a and b, of so many tenths of a second.
pub fn job(tenths: u64, flows: &[Value], pings: &[Value]) -> Job {
    job_between(["127.0.0.1", "127.0.0.2"], "source", tenths, flows, pings)
}

/// A job between nodes a and b that have these addresses; this end of flows opens connections.
pub fn job_between(
    [a, b]: [&str; 2],
    end: &str,
    tenths: u64,
    flows: &[Value],
    pings: &[Value],
) -> Job {
    let marks: Vec<u64> = (1..=tenths).map(|tenth| tenth * 100_000_000_000).collect();
    let opens: Vec<_> = flows.iter().map(|_| json!({"opens": end})).collect();
    let token: String = Identity::generate()
        .public()
        .spki()
        .iter()
        .rev()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    serde_json::from_value(json!({
        "seed": 1, "marks": marks, "cuts": [],
        "nodes": [
            {"name": "a", "namespace": null, "addresses": [a]},
            {"name": "b", "namespace": null, "addresses": [b]},
        ],
        "timers": {"min_rto": 200_000_000_000_u64, "delayed_ack": 40_000_000_000_u64},
        "flows": flows, "pings": pings,
        "live": {"token": token, "flows": opens},
    }))
    .unwrap()
}

/// Returns the agents by node, as JSON.
pub fn agents(agents: &[(&str, &Agent)]) -> String {
    let entry = |(node, agent): &(&str, &Agent)| {
        let address = agent.address.to_string();
        json!({"node": node, "agent": {"address": address, "key": agent.key}})
    };
    Value::Array(agents.iter().map(entry).collect()).to_string()
}

/// Connects to two agents, and prepares a job.
pub fn prepare(job: &Job, a: &Agent, b: &Agent, key: &Identity) -> Result<Live, LiveError> {
    Live::new(job, &agents(&[("a", a), ("b", b)]), key)
}

/// Begins a job of which node a alone has an agent.
pub fn start_alone(job: &Job, a: &Agent, key: &Identity) -> Result<Live, LiveError> {
    let mut live = Live::new(job, &agents(&[("a", a)]), key)?;
    live.start()?;
    Ok(live)
}

/// Runs a job of which node a alone has an agent.
pub fn run_alone(job: &Job, a: &Agent, key: &Identity) -> Live {
    let live = start_alone(job, a, key).unwrap();
    finish(&live, Duration::from_secs(20));
    assert_eq!(live.failure(), None);
    live
}

/// Waits until a run is over.
pub fn finish(live: &Live, within: Duration) {
    let begun = Instant::now();
    while !live.is_finished() {
        assert!(begun.elapsed() < within, "not over after {within:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The number of rows of a table.
pub fn rows(live: &Live, table: &str) -> usize {
    let tables = live.tables();
    let (_, columns) = tables.into_iter().find(|(name, _)| *name == table).unwrap();
    match columns.into_iter().next() {
        Some((_, Column::Integers(values))) => values.len(),
        Some((_, Column::Floats(values))) => values.len(),
        Some((_, Column::Names(_, places))) => places.len(),
        None => 0,
    }
}

/// The integers of a column; -1 is null.
pub fn integers(live: &Live, table: &str, column: &str) -> Vec<i64> {
    let tables = live.tables();
    let (_, columns) = tables.into_iter().find(|(name, _)| *name == table).unwrap();
    match columns.into_iter().find(|(name, _)| *name == column) {
        Some((_, Column::Integers(values))) => values,
        other => panic!("{table}.{column}: {other:?}"),
    }
}
