//! Plans and results for tests.

use std::collections::BTreeMap;

use perhop_core::Time;
use perhop_measure::{Column, Table};
use perhop_sim::{BuildError, Plan, Simulation};
use serde_json::{Value, json};

use crate::short_plans::expand;

pub const MICROSECOND: u64 = 1_000_000;
pub const MILLISECOND: u64 = 1_000 * MICROSECOND;
pub const SECOND: u64 = 1_000 * MILLISECOND;

/// Header bytes of TCP over IPv4 without options.
pub const TCP_HEADER: u64 = 40;
/// Header bytes of UDP and of an ICMP echo over IPv4.
pub const DATAGRAM_HEADER: u64 = 28;

/// Returns `base` with the members of `changes` merged, at any depth.
pub fn with(mut base: Value, changes: Value) -> Value {
    match (&mut base, changes) {
        (Value::Object(members), Value::Object(changes)) => {
            for (name, change) in changes {
                let member = members.entry(name).or_insert(Value::Null);
                *member = with(member.take(), change);
            }
            base
        }
        (_, change) => change,
    }
}

/// Returns nodes from a string: `h` is a host, `r` a router.
pub fn nodes(kinds: &str) -> Vec<Value> {
    let kind = |kind| if kind == 'h' { "host" } else { "router" };
    kinds.chars().map(|letter| json!({"kind": kind(letter)})).collect()
}

pub fn fifo(packets: u64) -> Value {
    json!({"fifo": {"packets": packets}})
}

/// Returns a class with a share by weight.
pub fn class(matches: Value, weight: u64, queue: Value) -> Value {
    json!({"matches": matches, "weight": weight, "police": null, "queue": queue})
}

/// Returns a link with unlimited queues.
pub fn link(ends: [u16; 2], rate: u64, delay: u64) -> Value {
    link_with(ends, rate, delay, json!({}))
}

pub fn link_with(ends: [u16; 2], rate: u64, delay: u64, changes: Value) -> Value {
    let [a, b] = ends;
    let link = json!({
        "name": format!("{a}-{b}"), "ends": ends, "rate": rate, "delay": delay, "jitter": 0,
        "loss_ppb": 0, "overhead": {"fixed": 0}, "queues": [fifo(1 << 40), fifo(1 << 40)],
    });
    with(link, changes)
}

fn flow(from: u16, to: u16, transport: Value) -> Value {
    json!({
        "from": from, "to": to, "dscp": 0, "port": 5001, "source_port": null, "streams": 1,
        "start": 0, "stop": null, "volume": null, "transport": transport,
    })
}

/// Returns a TCP flow with Linux's settings: CUBIC, SACK, an initial window of ten segments, ACKs
/// delayed by 40 ms.
pub fn tcp(from: u16, to: u16, settings: Value, changes: Value) -> Value {
    let linux = json!({
        "congestion_control": "cubic", "send_window": 64 << 20, "receive_window": 64 << 20,
        "mss": 1460, "sack": true, "timestamps": false, "limited_transmit": true,
        "initial_window": 10, "min_rto": 200 * MILLISECOND, "delayed_ack": 40 * MILLISECOND,
    });
    with(flow(from, to, json!({"tcp": with(linux, settings)})), changes)
}

/// Returns a UDP flow of `rate` bits of payload per second in datagrams of `size` bytes.
pub fn udp(from: u16, to: u16, rate: u64, size: u64, changes: Value) -> Value {
    with(flow(from, to, json!({"udp": {"rate": rate, "size": size}})), changes)
}

/// Returns a QUIC flow with perhop's default settings, and datagrams of 1452 bytes at most.
pub fn quic(from: u16, to: u16, settings: Value, changes: Value) -> Value {
    let usual = json!({
        "congestion_control": "cubic", "hystart": "hystart++", "streams": 1, "window": 64 << 20,
        "stream_window": 64 << 20, "datagram": 1200, "max_datagram": 1452, "pacing": true,
        "ecn": false, "certificates": 2_000, "waits": true,
    });
    with(flow(from, to, json!({"quic": with(usual, settings)})), changes)
}

/// Returns a ping every `every` that never stops.
pub fn ping(from: u16, to: u16, every: u64, changes: Value) -> Value {
    let ping = json!({
        "from": from, "to": to, "dscp": 0, "every": every, "size": 56, "start": 0,
        "stop": u64::MAX,
    });
    with(ping, changes)
}

/// Returns marks every `interval` up to `end`, a multiple of it.
pub fn every(interval: u64, end: u64) -> Vec<u64> {
    (1..=end / interval).map(|mark| mark * interval).collect()
}

/// Returns a plan of nodes (see [`nodes`]), links and marks; without flows and pings.
pub fn plan(kinds: &str, links: &[Value], marks: &[u64]) -> Value {
    json!({
        "network": {"seed": 1, "marks": marks, "nodes": nodes(kinds), "links": links},
        "flows": [], "pings": [],
    })
}

/// Returns a plan with many features at once: TCP, UDP, a call and an application, losses and
/// jitter, classes and policers, pings. It takes four seconds.
pub fn everything(seed: u64, marks: &[u64]) -> Value {
    let mut policed = class(json!({"dscps": [8]}), 20, fifo(20));
    policed["police"] = json!({"rate": 500_000, "burst": 6_000, "exceed": {"remark": 1}});
    let classes = json!({"classes": [
        policed, class(json!({"protocols": ["udp"]}), 30, fifo(20)), class(json!({}), 50, fifo(20)),
    ]});
    let changes = json!({
        "jitter": MILLISECOND, "loss_ppb": 2_000_000, "queues": [classes, fifo(50)],
        "overhead": "atm",
    });
    let links = [
        link([0, 1], 100_000_000, MICROSECOND),
        link_with([1, 2], 4_000_000, 5 * MILLISECOND, changes),
        link([2, 3], 100_000_000, MICROSECOND),
    ];
    let flows = [
        tcp(0, 3, json!({}), json!({"streams": 2, "stop": 3 * SECOND})),
        tcp(
            3,
            0,
            json!({"congestion_control": "reno", "sack": false}),
            json!({"start": SECOND / 3}),
        ),
        tcp(0, 3, json!({}), json!({"dscp": 8, "volume": 100_000, "start": SECOND})),
        udp(
            0,
            3,
            2_000_000,
            1000,
            json!({
                "start": SECOND / 2, "stop": 2 * SECOND, "transport": {"udp": {
                    "layer": "ip", "gaps": "exponential", "sizes": "exponential",
                    "replay": null,
                    "bursts": {
                        "on": SECOND / 5, "off": SECOND / 50, "lengths": {"pareto": 1_500},
                    },
                }},
            }),
        ),
        udp(
            3,
            0,
            64_000,
            160,
            json!({"dscp": 46, "transport": {"udp": {"playout": {
                "frame": 20 * MILLISECOND, "buffer": "adaptive",
            }}}}),
        ),
        tcp(
            0,
            3,
            json!({}),
            json!({"stop": 3 * SECOND, "application": {"rpc": {
                "arrivals": {"open": {"mean": 100 * MILLISECOND, "exponential": true}},
                "request": {"constant": 100}, "response": {"exponential": 5_000},
                "server_time": MILLISECOND, "reuse": true, "connections": 4,
            }}}),
        ),
        quic(0, 3, json!({"streams": 3}), json!({"start": SECOND, "stop": 3 * SECOND})),
    ];
    let pings =
        [ping(0, 3, 50 * MILLISECOND, json!({"dscp": 8})), ping(3, 0, 70 * MILLISECOND, json!({}))];
    let changes = json!({
        "network": {"seed": seed}, "flows": flows, "pings": pings, "cuts": [SECOND],
    });
    with(plan("hrrh", &links, marks), changes)
}

pub fn build(plan: &Value) -> Result<Simulation, BuildError> {
    let plan = serde_json::from_value::<Plan>(expand(plan)).expect("the plan is complete");
    Simulation::new(&plan)
}

/// Returns the error of a plan, with the path of a value that cannot be read.
pub fn refusal(plan: &Value) -> String {
    refusal_of(&expand(plan)).expect("the plan has something wrong")
}

/// Returns the error of a plan with names; `None` if it is accepted.
pub fn refusal_of(plan: &Value) -> Option<String> {
    match serde_path_to_error::deserialize::<_, Plan>(plan) {
        Ok(plan) => Simulation::new(&plan).err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

/// Runs a plan to its end.
pub fn run(plan: &Value) -> Results {
    let mut simulation = build(plan).expect("the plan is sound");
    simulation.advance(Time::MAX);
    Results::of(&simulation)
}

/// Tables by name.
pub struct Results(Vec<(&'static str, Table)>);

impl Results {
    pub fn of(simulation: &Simulation) -> Self {
        Self(simulation.tables())
    }

    fn column(&self, table: &str, column: &str) -> &Column {
        let (_, table) = self.0.iter().find(|(name, _)| *name == table).expect("a table's name");
        let found = table.iter().find(|(name, _)| *name == column);
        &found.expect("a column's name").1
    }

    /// Returns a column of integers, or of names as numbers.
    pub fn integers(&self, table: &str, column: &str) -> &[i64] {
        match self.column(table, column) {
            Column::Integers(values) | Column::Names(_, values) => values,
            Column::Floats(_) => panic!("{table}.{column} has floats"),
        }
    }

    /// Returns a column of names.
    pub fn names(&self, table: &str, column: &str) -> Vec<&str> {
        match self.column(table, column) {
            Column::Names(names, places) => {
                let name = |place: &i64| names.get(*place as usize).map_or("", String::as_str);
                places.iter().map(name).collect()
            }
            _ => panic!("{table}.{column} has numbers"),
        }
    }

    /// Returns a column of floats.
    pub fn floats(&self, table: &str, column: &str) -> &[f64] {
        match self.column(table, column) {
            Column::Floats(values) => values,
            _ => panic!("{table}.{column} has integers"),
        }
    }

    /// Returns the values of a column in the rows whose `key` is `value`.
    pub fn of_rows(&self, table: &str, column: &str, key: &str, value: usize) -> Vec<i64> {
        let keys = self.integers(table, key).iter();
        let rows = keys.zip(self.integers(table, column)).filter(|(key, _)| **key == value as i64);
        rows.map(|(_, cell)| *cell).collect()
    }

    /// Returns the sum of a column for a class over the whole run.
    pub fn class(&self, class: usize, column: &str) -> u64 {
        self.of_rows("queues", column, "class", class).iter().sum::<i64>() as u64
    }

    /// Returns the sum of a column for a flow over the whole run.
    pub fn flow(&self, flow: usize, column: &str) -> u64 {
        self.of_rows("intervals", column, "flow", flow).iter().sum::<i64>() as u64
    }

    /// Returns the sum of a column for a port over the whole run.
    pub fn port(&self, port: usize, column: &str) -> u64 {
        self.of_rows("links", column, "link", port).iter().sum::<i64>() as u64
    }

    /// Returns the goodput of a flow between two marks, in bits per second.
    pub fn goodput(&self, flow: usize, from: u64, to: u64) -> f64 {
        let seconds = |picos: u64| picos as f64 / SECOND as f64;
        let flows =
            self.integers("intervals", "flow").iter().zip(self.integers("intervals", "bytes"));
        let spans =
            self.floats("intervals", "start_s").iter().zip(self.floats("intervals", "end_s"));
        let within = flows.zip(spans).filter(|((of, _), (start, end))| {
            **of == flow as i64 && seconds(from) <= **start && **end <= seconds(to)
        });
        let bytes: i64 = within.map(|((_, bytes), _)| bytes).sum();
        bytes as f64 * 8.0 / seconds(to - from)
    }

    /// Returns the samples of a histogram by row of a key and by the lower end of the bin, whatever
    /// the windows.
    pub fn histogram(&self, table: &str, key: &str) -> BTreeMap<(i64, u64), i64> {
        let mut bins = BTreeMap::new();
        let rows = self.integers(table, key).iter().zip(self.floats(table, "low_s"));
        for ((row, low), samples) in rows.zip(self.integers(table, "samples")) {
            *bins.entry((*row, low.to_bits())).or_default() += samples;
        }
        bins
    }

    /// Returns the round-trip times of a ping, in seconds; `None` for lost ones.
    pub fn rtts(&self, ping: usize) -> Vec<Option<f64>> {
        let rows = self.integers("pings", "ping").iter().zip(self.floats("pings", "rtt_s"));
        let of_ping = rows.filter(|(of, _)| **of == ping as i64);
        of_ping.map(|(_, rtt)| (!rtt.is_nan()).then_some(*rtt)).collect()
    }

    /// Returns every cell of every table as its bits in memory, so that NaN equals NaN.
    pub fn bits(&self) -> Vec<Vec<u64>> {
        let bits = |column: &Column| match column {
            Column::Integers(values) | Column::Names(_, values) => {
                values.iter().map(|value| *value as u64).collect()
            }
            Column::Floats(values) => values.iter().map(|value| value.to_bits()).collect(),
        };
        self.0
            .iter()
            .flat_map(|(_, table)| table.iter().map(move |(_, column)| bits(column)))
            .collect()
    }
}

/// Returns picoseconds in the unit of the tables.
pub fn seconds(picos: u64) -> f64 {
    picos as f64 / SECOND as f64
}

/// Returns the time that `bytes` on the wire take at `rate`, rounded up to a picosecond: the tests'
/// own arithmetic.
pub fn transmission(bytes: u64, rate: u64) -> u64 {
    (u128::from(bytes) * 8 * u128::from(SECOND)).div_ceil(rate.into()) as u64
}
