//! Scalable congestion controls: DCTCP compared with its arithmetic, Prague through a dual queue.

use serde_json::{Value, json};

use crate::lab::*;

/// Share of a link's rate that is TCP's payload.
const PAYLOAD: f64 = 1460.0 / 1500.0;

/// Returns a plan of a host, a router, the bottleneck with `queue`, and a host.
fn over(queue: &Value, rate: u64, rtt: u64, flows: &[Value], marks: &[u64]) -> Value {
    let slow = json!({"queues": [queue, fifo(1 << 40)]});
    let links = [
        link([0, 1], 10 * rate, MICROSECOND),
        link_with([1, 2], rate, rtt / 2 - MICROSECOND, slow),
    ];
    with(plan("hrh", &links, marks), json!({"flows": flows}))
}

fn dctcp() -> Value {
    json!({"congestion_control": "dctcp", "ecn": "dctcp", "delayed_ack": 0, "sack": true})
}

fn prague() -> Value {
    json!({"congestion_control": "prague", "ecn": "accurate", "rack": true, "prr": true})
}

/// RED that marks every packet while `packets` or more wait, and drops from twice that on: the
/// marking that DCTCP requires of a switch (RFC 8257, section 3.1).
fn step(packets: u64) -> Value {
    json!({"red": {
        "config": {
            "limit": {"packets": 1000}, "measure": "packets", "packet_time": 1,
            "weight": 1_000_000_000, "gentle": true, "ecn": true, "harddrop": true,
        },
        "rules": [{"dscps": [], "thresholds": {
            "min": packets, "max": packets, "probability": 1_000_000_000,
        }}],
    }})
}

/// Alizadeh, Javanmard and Prabhakar, *Analysis of DCTCP*, SIGMETRICS 2011, and the paper of 2010,
/// section 3.3: with one flow and marking above K packets, the queue goes up to K + 1 and down by
/// √(2 (C · RTT + K)) / 2, once in as many round trips.
#[test]
fn dctcp_makes_the_sawtooth_of_its_analysis() {
    let (rate, rtt, threshold) = (100_000_000_u64, 20 * MILLISECOND, 40);
    let product = (rate * rtt / SECOND) as f64 / 12_000.0;
    let amplitude = (2.0 * (product + threshold as f64)).sqrt() / 2.0;
    let flow = tcp(0, 2, dctcp(), json!({}));
    let marks: Vec<u64> = (0..4_000).map(|n| 20 * SECOND + n * 5 * MILLISECOND).collect();
    let results = run(&over(&step(threshold), rate, rtt, &[flow], &marks));
    let backlog: Vec<f64> = results
        .of_rows("queues", "backlog_packets", "class", 2)
        .into_iter()
        .skip(1)
        .map(|packets| packets as f64)
        .collect();
    let goodput = results.goodput(0, marks[0], marks[3_999]) / (rate as f64 * PAYLOAD);
    let cwnd = results.of_rows("intervals", "cwnd", "flow", 0);
    let cwnd: Vec<f64> = cwnd.iter().skip(1).map(|&bytes| bytes as f64 / 1460.0).collect();
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let swing = most(&cwnd) - least(&cwnd);
    println!(
        "queue {} to {} packets, window {:.1} to {:.1}, {goodput:.4} of the link; \
         theory {:.1} to {}",
        least(&backlog),
        most(&backlog),
        least(&cwnd),
        most(&cwnd),
        threshold as f64 + 1.0 - amplitude,
        threshold + 1
    );
    let retransmits = results.integers("intervals", "retransmits");
    assert_eq!(retransmits[1..].iter().sum::<i64>(), 0);
    assert!(goodput > 0.999, "{goodput}");
    // A round trip passes before the first mark is echoed, in which the window grows by one.
    assert!(most(&backlog) <= threshold as f64 + 3.0);
    assert!(least(&backlog) >= threshold as f64 - amplitude);
    assert!((swing / amplitude - 1.0).abs() < 0.25, "{swing}, expected {amplitude}");
}

fn dual_queue(rate: u64) -> Value {
    // Two packets of 1500 B have to fit below the threshold.
    let threshold = MILLISECOND.max(2 * transmission(1500, rate));
    json!({"dualpi2": {
        "limit": {"packets": 2000}, "target": 15 * MILLISECOND, "max_rtt": 100 * MILLISECOND,
        "coupling": 2, "threshold": threshold, "range": 1, "classic_share": 62_500_000,
    }})
}

/// RFC 9332, section 1.2: the queue of L4S traffic stays at about a millisecond, and flows of both
/// kinds share.
#[test]
fn prague_and_cubic_share_a_dual_queue_and_prague_has_the_low_delay() {
    let (rate, rtt) = (50_000_000_u64, 20 * MILLISECOND);
    let flows = [tcp(0, 2, prague(), json!({})), tcp(0, 2, json!({"rack": true}), json!({}))];
    let marks = [20 * SECOND, 80 * SECOND];
    let results = run(&over(&dual_queue(rate), rate, rtt, &flows, &marks));
    let [l4s, classic] = [0, 1].map(|flow| results.goodput(flow, marks[0], marks[1]));
    let rtts = results.floats("intervals", "rtt_s");
    println!(
        "Prague {:.1} Mb/s at {:.2} ms, CUBIC {:.1} Mb/s at {:.2} ms",
        l4s / 1e6,
        rtts[2] * 1e3,
        classic / 1e6,
        rtts[3] * 1e3
    );
    assert!(rtts[2] - seconds(rtt) < 0.0015 && rtts[3] - seconds(rtt) > 0.01);
    assert!(l4s + classic > 0.95 * rate as f64 * PAYLOAD);
    assert!((0.5..2.0).contains(&(l4s / classic)), "{}", l4s / classic);
}
