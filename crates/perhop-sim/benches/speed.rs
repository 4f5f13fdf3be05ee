//! Speed of the simulator: `cargo bench -p perhop-sim`, part of `make bench`.
//!
//! Two cases with published figures of other simulators, and the growth of the cost with flows and
//! classes. Each is run a few times and the best is printed, since a busy machine only makes a run
//! slower. Arguments select cases; `--once` runs each once, for an instrument that counts
//! instructions (`bench/instructions.py`).
//!
//! The last two columns are the memory of a run, per stream: the maximum, and the memory at its
//! end.
#![allow(unsafe_code, reason = "an allocator cannot be had otherwise")]

#[path = "../tests/simulation/short_plans.rs"]
mod short_plans;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use perhop_core::Time;
use perhop_sim::{Plan, Simulation};
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000_000;
const MILLISECOND: u64 = SECOND / 1_000;

/// The system's allocator, with counters of the bytes in use and of their maximum.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(held, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both may exist for a moment, if the block cannot grow in place.
        let both = HELD.fetch_add(size, Relaxed) + size;
        MOST.fetch_max(both, Relaxed);
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Name of a case, its plan, and its duration in seconds.
type Case = (&'static str, fn() -> Value, u64);

fn main() {
    let mut words: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let once = words.iter().any(|word| word == "--once");
    words.retain(|word| word != "--once");
    println!(
        "{:<46} {:>12} {:>9} {:>8} {:>10} {:>10}",
        "", "sim s/wall s", "M hops/s", "Mb/s", "B at most", "B at last"
    );
    let cases: [Case; 6] = [
        ("20 CUBIC flows over 500 Mb/s, 10 ms, 10 s", tcp, 10),
        ("1 Gb/s of 1500 B UDP over 6 links of 10 Gb/s", || udp(&fifo(1000)), 2),
        ("the same with three weighted classes a link", || udp(&classes(3)), 2),
        ("the same with 1000 weighted classes a link", || udp(&classes(1000)), 2),
        ("10 CUBIC streams over 10 Gb/s, 10 ms, 2 s", || streams(10), 2),
        ("10,000 CUBIC streams over 10 Gb/s, 10 ms, 2 s", || streams(10_000), 2),
    ];
    for (name, plan, seconds) in cases {
        if words.is_empty() || words.iter().any(|word| name.contains(word)) {
            report(name, &plan(), seconds, once);
        }
    }
}

fn report(name: &str, plan: &Value, seconds: u64, once: bool) {
    let plan: Plan =
        serde_json::from_value(short_plans::expand(plan)).expect("the plan is complete");
    let runs = (0..if once { 1 } else { 3 }).map(|_| run(&plan));
    let best = runs.min_by(|a, b| a.wall.total_cmp(&b.wall)).expect("a run");
    let streams: usize = plan.flows.iter().map(|flow| usize::from(flow.streams)).sum();
    println!(
        "{name:<46} {:>12.1} {:>9.2} {:>8.2} {:>10} {:>10}",
        seconds as f64 / best.wall,
        best.hops as f64 / best.wall / 1e6,
        best.bytes as f64 * 8.0 / seconds as f64 / 1e6,
        best.most / streams,
        best.held / streams,
    );
    if once {
        println!("packet hops: {}", best.hops);
    }
}

/// Results of a run.
struct Run {
    /// Wall-clock time, in seconds.
    wall: f64,
    /// Packet hops.
    hops: u64,
    /// Bytes delivered.
    bytes: u64,
    /// Bytes of memory: maximum, and at the end.
    most: usize,
    held: usize,
}

fn run(plan: &Plan) -> Run {
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let mut simulation = Simulation::new(plan).expect("the plan is sound");
    let began = Instant::now();
    simulation.advance(Time::MAX);
    Run {
        wall: began.elapsed().as_secs_f64(),
        hops: simulation.packet_hops(),
        bytes: simulation.delivered().iter().sum(),
        most: MOST.load(Relaxed) - before,
        held: HELD.load(Relaxed) - before,
    }
}

fn kinds(nodes: &[&str]) -> Vec<Value> {
    nodes.iter().map(|kind| json!({"kind": kind})).collect()
}

fn fifo(packets: u64) -> Value {
    json!({"fifo": {"packets": packets}})
}

/// Classes by DSCP as far as there are any, and by port beyond; the traffic is in the second.
fn classes(number: u16) -> Value {
    let class = |matches: Value, weight: u16| {
        let queue = fifo(64);
        json!({"matches": matches, "weight": weight, "police": null, "queue": queue})
    };
    let mut classes = vec![class(json!({"dscps": [8]}), 1), class(json!({"dscps": [10]}), 70)];
    for port in 3..number {
        classes.push(class(json!({"destination_ports": [[port, port]]}), 1));
    }
    classes.push(class(json!({}), 29));
    json!({"classes": classes})
}

fn link(name: &str, ends: [u16; 2], rate: u64, delay: u64, queue: &Value) -> Value {
    json!({
        "name": name, "ends": ends, "rate": rate, "delay": delay, "jitter": 0, "loss_ppb": 0,
        "overhead": {"fixed": 2}, "queues": [queue, queue],
    })
}

/// Twenty senders and receivers behind two routers; flow i starts at 10 · i ms.
fn tcp() -> Value {
    let mut nodes = vec!["router"; 2];
    let mut links = vec![link("bottleneck", [0, 1], 500_000_000, 10 * MILLISECOND, &fifo(1000))];
    let mut flows = Vec::new();
    for flow in 0..20_u16 {
        let (sender, receiver) = (2 + 2 * flow, 3 + 2 * flow);
        nodes.extend(["host", "host"]);
        let access =
            |name: String, ends| link(&name, ends, 1_000_000_000, MILLISECOND, &fifo(1000));
        links.push(access(format!("sender {flow}"), [sender, 0]));
        links.push(access(format!("receiver {flow}"), [1, receiver]));
        flows.push(json!({
            "from": sender, "to": receiver, "dscp": 0, "port": 5001, "streams": 1,
            "start": u64::from(flow) * 10 * MILLISECOND, "stop": null, "volume": null,
            "transport": {"tcp": {
                "congestion_control": "cubic", "send_window": 8 << 20, "receive_window": 8 << 20,
                "mss": 1448, "sack": true, "timestamps": true, "limited_transmit": true,
                "initial_window": 10, "min_rto": 200 * MILLISECOND,
                "delayed_ack": 40 * MILLISECOND,
            }},
        }));
    }
    json!({
        "network": {"seed": 1, "marks": [10 * SECOND], "nodes": kinds(&nodes), "links": links},
        "flows": flows, "pings": [],
    })
}

/// Streams between two hosts, a bandwidth-delay product of 8333 packets between them.
fn streams(number: u16) -> Value {
    let queue = fifo(8333);
    let mut plan = tcp();
    plan["network"]["nodes"] = json!(kinds(&["host", "router", "router", "host"]));
    plan["network"]["links"] = json!([
        link("a", [0, 1], 40_000_000_000, MILLISECOND, &fifo(100_000)),
        link("b", [1, 2], 10_000_000_000, 8 * MILLISECOND, &queue),
        link("c", [2, 3], 40_000_000_000, MILLISECOND, &fifo(100_000)),
    ]);
    let mut flow = plan["flows"][0].take();
    (flow["from"], flow["to"], flow["streams"]) = (json!(0), json!(3), json!(number));
    plan["flows"] = json!([flow]);
    plan["network"]["marks"] = json!([2 * SECOND]);
    plan
}

/// Returns a host, five routers, a host.
fn udp(queue: &Value) -> Value {
    let nodes = ["host", "router", "router", "router", "router", "router", "host"];
    let links: Vec<Value> = (0..6)
        .map(|hop| link(&format!("hop {hop}"), [hop, hop + 1], 10_000_000_000, MILLISECOND, queue))
        .collect();
    let flow = json!({
        "from": 0, "to": 6, "dscp": 10, "port": 5001, "streams": 1, "start": 0, "stop": null,
        "volume": null, "transport": {"udp": {"rate": 981_333_333, "size": 1472}},
    });
    json!({
        "network": {"seed": 1, "marks": [2 * SECOND], "nodes": kinds(&nodes), "links": links},
        "flows": [flow], "pings": [],
    })
}
