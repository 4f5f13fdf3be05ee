//! A run in its steady state does not allocate.
#![allow(unsafe_code, reason = "an allocator cannot be had otherwise")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use perhop_core::Time;
use serde_json::{Value, json};

use crate::lab::*;

/// The system's allocator, with a count of this thread's calls, because other tests run beside.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends may still free and allocate after its counter is gone.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Packet hops for which there may be an allocation. A ring buffer grows with its maximum, and the
/// agenda has a node for every few spans with timeouts; packets need none.
const FEW: u64 = 500;

/// Returns allocations and packet hops from `from` to `to`, between which there must be no mark.
fn between(plan: &Value, from: u64, to: u64) -> (u64, u64) {
    let mut simulation = build(plan).unwrap();
    simulation.advance(Time::from_picos(from));
    let before = (ALLOCATIONS.get(), simulation.packet_hops());
    simulation.advance(Time::from_picos(to));
    (ALLOCATIONS.get() - before.0, simulation.packet_hops() - before.1)
}

fn classes() -> Value {
    let mut policed = class(json!({"dscps": [46]}), 1, fifo(64));
    policed["weight"] = Value::Null;
    policed["police"] = json!({"rate": 50_000_000, "burst": 30_000, "exceed": "drop"});
    json!({"classes": [
        policed,
        class(json!({"protocols": ["udp"]}), 20, fifo(64)),
        class(json!({}), 80, fifo(500)),
    ]})
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![1_u8; 100]));
    assert_eq!(ALLOCATIONS.get() - before, 1);
}

#[test]
fn a_run_in_its_stride_does_not_allocate() {
    let changes = json!({
        "queues": [classes(), classes()], "loss_ppb": 100_000, "duplicate_ppb": 1_000_000,
        "reorder": [1_000_000, MILLISECOND],
    });
    let links = [
        link([0, 1], 1_000_000_000, 100 * MICROSECOND),
        link_with([1, 2], 200_000_000, 5 * MILLISECOND, changes),
        link([2, 3], 1_000_000_000, 100 * MICROSECOND),
    ];
    let flows = [
        tcp(0, 3, json!({}), json!({"streams": 5})),
        tcp(3, 0, json!({"congestion_control": "reno"}), json!({})),
        // Overloads its class, so that packets are always being dropped.
        udp(0, 3, 100_000_000, 1000, json!({})),
        udp(0, 3, 60_000_000, 200, json!({"dscp": 46})),
    ];
    let plan = with(plan("hrrh", &links, &[10 * SECOND]), json!({"flows": flows}));
    let (allocations, hops) = between(&plan, 5 * SECOND, 7 * SECOND);
    println!("{allocations} allocations in {hops} hops");
    assert!(hops > 200_000, "{hops} hops");
    assert!(allocations < hops / FEW, "{allocations} allocations in {hops} hops");
}

/// BBR's snapshots and lists of losses are reused, like all other buffers.
#[test]
fn congestion_controls_do_not_allocate_in_their_stride() {
    let codel = json!({"codel": {
        "limit": {"packets": 400}, "target": 5 * MILLISECOND, "interval": 100 * MILLISECOND,
        "ecn": true,
    }});
    let links = [
        link([0, 1], 1_000_000_000, 100 * MICROSECOND),
        link_with(
            [1, 2],
            200_000_000,
            5 * MILLISECOND,
            json!({"queues": [codel, codel], "loss_ppb": 1_000_000}),
        ),
    ];
    let flow = |control: &str, ecn: &str| {
        let settings =
            json!({"congestion_control": control, "ecn": ecn, "rack": true, "dsack": true});
        tcp(0, 2, settings, json!({"streams": 2}))
    };
    let flows = [
        flow("bbr", "off"),
        flow("prague", "accurate"),
        flow("dctcp", "dctcp"),
        flow("cubic", "classic"),
        flow("ledbat++", "off"),
    ];
    let plan = with(plan("hrh", &links, &[20 * SECOND]), json!({"flows": flows}));
    let (allocations, hops) = between(&plan, 12 * SECOND, 14 * SECOND);
    println!("{allocations} allocations in {hops} hops");
    assert!(hops > 100_000, "{hops} hops");
    assert!(allocations < hops / FEW, "{allocations} allocations in {hops} hops");
}

#[test]
fn disciplines_do_not_allocate_in_their_stride() {
    let limit = json!({"packets": 1000});
    let (target, interval) = (5 * MILLISECOND, 100 * MILLISECOND);
    let codel = json!({"limit": limit, "target": target, "interval": interval, "ecn": true});
    let disciplines = [
        json!({"head-drop": {"packets": 100}}),
        json!({"red": {
            "config": {
                "limit": limit, "measure": "packets", "packet_time": 40 * MICROSECOND,
                "weight": 2_000_000, "gentle": true, "ecn": true, "harddrop": true,
            },
            "rules": [{"dscps": [], "thresholds": {
                "min": 20, "max": 60, "probability": 100_000_000,
            }}],
        }}),
        json!({"codel": codel}),
        json!({"fq-codel": {
            "codel": codel, "flows": 1024, "quantum": 1514, "standing": "all",
        }}),
        json!({"cake": {
            "limit": limit, "bandwidth": 150_000_000,
            "framing": {"overhead": 38, "mpu": 84, "coding": "none"},
            "diffserv": "diffserv4", "isolation": "triple-isolate",
            "rtt": interval, "target": target,
            "ack_filter": "on", "wash": true, "ingress": false,
        }}),
        json!({"pie": {
            "limit": limit, "target": 15 * MILLISECOND,
            "update": 15 * MILLISECOND, "burst": 150 * MILLISECOND, "ecn": true,
        }}),
        json!({"dualpi2": {
            "limit": limit, "target": 15 * MILLISECOND, "max_rtt": 100 * MILLISECOND,
            "coupling": 2, "threshold": 800 * MICROSECOND, "range": 400 * MICROSECOND,
            "classic_share": 62_500_000,
        }}),
    ];
    for discipline in disciplines {
        let links = [
            link([0, 1], 1_000_000_000, 100 * MICROSECOND),
            link_with(
                [1, 2],
                200_000_000,
                5 * MILLISECOND,
                json!({"queues": [discipline, fifo(1000)]}),
            ),
        ];
        let flows = [
            tcp(0, 2, json!({"send_window": 500_000}), json!({"streams": 5})),
            udp(0, 2, 20_000_000, 1000, json!({"transport": {"udp": {"ecn": "ect1"}}})),
        ];
        let plan = with(plan("hrh", &links, &[10 * SECOND]), json!({"flows": flows}));
        let (allocations, hops) = between(&plan, 5 * SECOND, 6 * SECOND);
        assert!(hops > 30_000, "{hops} hops with {discipline}");
        assert!(
            allocations < hops / FEW,
            "{allocations} allocations in {hops} hops with {discipline}"
        );
    }
}
