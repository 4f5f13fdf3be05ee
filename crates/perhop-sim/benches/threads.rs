//! Speed of the simulator on several threads: `cargo bench -p perhop-sim --bench threads`, part of
//! `make bench`.
//!
//! A backbone of 50 routers with links of 1 to 4 ms, and 2,000 flows between 200 hosts. Runs on one
//! thread and on several alternate, and the ratio is that of each pair: what else a machine does
//! then troubles both alike. Arguments are numbers of threads, by default 2; `--once` runs each
//! number once, without pairs.

#[path = "../tests/simulation/short_plans.rs"]
mod short_plans;

use std::time::Instant;

use perhop_core::{Stream, Time};
use perhop_sim::{Plan, Simulation};
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000_000;
const MILLISECOND: u64 = SECOND / 1_000;

const COLUMNS: u64 = 10;
const ROUTERS: u64 = 5 * COLUMNS;
const HOSTS: u64 = 4 * ROUTERS;
const FLOWS: u64 = 2_000;
const PAIRS: usize = 5;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let once = words.iter().any(|word| word == "--once");
    let mut numbers: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if numbers.is_empty() {
        numbers.push(2);
    }
    let plan: Plan =
        serde_json::from_value(short_plans::expand(&backbone())).expect("the plan is complete");
    if once {
        for threads in numbers {
            let run = run(&plan, threads);
            println!("{threads} threads: {:.2} s, packet hops: {}", run.wall, run.hops);
        }
        return;
    }
    println!("backbone of {ROUTERS} routers, {FLOWS} flows, 1 s");
    println!(
        "{:>8} {:>6} {:>8} {:>8} {:>10} {:>6}",
        "threads", "pair", "one s", "s", "M hops/s", "ratio"
    );
    for threads in numbers {
        let mut ratios: Vec<f64> = (1..=PAIRS)
            .map(|pair| {
                let (one, several) = (run(&plan, 1), run(&plan, threads));
                assert_eq!(one.hops, several.hops);
                let ratio = one.wall / several.wall;
                let speed = several.hops as f64 / several.wall / 1e6;
                println!(
                    "{threads:>8} {pair:>6} {:>8.2} {:>8.2} {speed:>10.2} {ratio:>6.2}",
                    one.wall, several.wall
                );
                ratio
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        println!("{threads:>8} median {:>35.2}", ratios[PAIRS / 2]);
    }
}

struct Run {
    /// Wall-clock time, in seconds.
    wall: f64,
    /// Packet hops.
    hops: u64,
}

fn run(plan: &Plan, threads: usize) -> Run {
    let mut simulation = Simulation::with_threads(plan, threads).expect("the plan is sound");
    assert_eq!(simulation.parts(), threads, "{:?}", simulation.whole());
    let began = Instant::now();
    simulation.advance(Time::MAX);
    Run { wall: began.elapsed().as_secs_f64(), hops: simulation.packet_hops() }
}

/// Routers in a grid, four hosts at each. A quarter of the flows are UDP, the others TCP.
fn backbone() -> Value {
    let mut random = Stream::new(1, "backbone");
    let link = |a: u64, b: u64, delay: u64| {
        let queue = json!({"fifo": {"packets": 1_000}});
        json!({
            "name": format!("{a}-{b}"), "ends": [a, b], "rate": 1_000_000_000_u64, "delay": delay,
            "jitter": 0, "loss_ppb": 0, "overhead": {"fixed": 38}, "queues": [queue, queue],
        })
    };
    let mut links = Vec::new();
    for router in 0..ROUTERS {
        let mut far = || (1_000 + random.up_to(3_000)) * MILLISECOND / 1_000;
        if router % COLUMNS > 0 {
            links.push(link(router - 1, router, far()));
        }
        if router >= COLUMNS {
            links.push(link(router - COLUMNS, router, far()));
        }
    }
    links.extend((0..HOSTS).map(|host| link(ROUTERS + host, host / 4, MILLISECOND / 100)));
    let flows: Vec<Value> = (0..FLOWS)
        .map(|number| {
            let from = random.up_to(HOSTS - 1);
            let to = (from + 1 + random.up_to(HOSTS - 2)) % HOSTS;
            let transport = if number % 4 == 0 {
                json!({"udp": {"rate": 2_000_000, "size": 1_000}})
            } else {
                json!({"tcp": {
                    "congestion_control": "cubic", "send_window": 4 << 20,
                    "receive_window": 4 << 20, "mss": 1460, "sack": true, "timestamps": false,
                    "limited_transmit": true, "initial_window": 10,
                    "min_rto": 200 * MILLISECOND, "delayed_ack": 40 * MILLISECOND,
                }})
            };
            json!({
                "from": ROUTERS + from, "to": ROUTERS + to, "dscp": 0, "port": 5_001,
                "source_port": null, "streams": 1, "start": random.up_to(SECOND / 10),
                "stop": null, "volume": null, "transport": transport,
            })
        })
        .collect();
    let nodes = (0..ROUTERS + HOSTS)
        .map(|node| json!({"kind": if node < ROUTERS { "router" } else { "host" }}))
        .collect::<Vec<_>>();
    json!({
        "network": {
            "seed": 1, "marks": [SECOND / 2, SECOND], "nodes": nodes, "links": links,
        },
        "flows": flows, "pings": [],
    })
}
