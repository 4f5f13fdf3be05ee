//! BBR: the goals of its model (draft-ietf-ccwg-bbr-06, section 3).

use serde_json::{Value, json};

use crate::lab::*;

const RATE: u64 = 50_000_000;
const RTT: u64 = 40 * MILLISECOND;
/// Share of a link's rate that is TCP's payload.
const PAYLOAD: f64 = 1460.0 / 1500.0;

fn bbr(changes: Value) -> Value {
    let settings = json!({"congestion_control": "bbr", "rack": true, "dsack": true});
    tcp(0, 2, settings, changes)
}

/// Returns the results for a host, a router, the bottleneck with a queue of `products`
/// bandwidth-delay products, and a host.
fn over(products: f64, loss_ppb: u32, flows: &[Value], marks: &[u64]) -> Results {
    let packets = (products * (RATE * (RTT / MICROSECOND) / 1_000_000 / 12_000) as f64) as u64;
    let slow = json!({"queues": [fifo(packets), fifo(1 << 40)], "loss_ppb": loss_ppb});
    let links = [
        link([0, 1], 10 * RATE, MICROSECOND),
        link_with([1, 2], RATE, RTT / 2 - MICROSECOND, slow),
    ];
    run(&with(plan("hrh", &links, marks), json!({"flows": flows})))
}

/// Goodput as a share of the link, between two marks.
fn share(results: &Results, flow: usize, marks: &[u64]) -> f64 {
    results.goodput(flow, marks[0], marks[marks.len() - 1]) / (RATE as f64 * PAYLOAD)
}

/// Returns the share of packets lost after the first mark.
fn loss(results: &Results, flow: usize) -> f64 {
    let [lost, packets] = ["lost", "packets"]
        .map(|column| results.of_rows("intervals", column, "flow", flow)[1..].iter().sum::<i64>());
    lost as f64 / (lost + packets) as f64
}

/// A full pipe and almost no queue: the rate is the delivery rate, and the window, of at most two
/// products, limits only while probing. ProbeRTT costs two per cent (section 5.3.4.2).
#[test]
fn alone_it_fills_a_deep_queue_by_much_less_than_a_product() {
    let marks = every(SECOND / 10, 60 * SECOND)[99..].to_vec();
    let results = over(10.0, 0, &[bbr(json!({}))], &marks);
    let share = share(&results, 0, &marks);
    let rtts = &results.floats("intervals", "rtt_s")[1..];
    let mean = rtts.iter().sum::<f64>() / rtts.len() as f64;
    let most = rtts.iter().copied().fold(0.0, f64::max);
    println!("alone: {share:.4} of the link, {:.1} ms, at most {:.1} ms", mean * 1e3, most * 1e3);
    assert!(share > 0.94, "{share}");
    assert!(mean < 1.1 * seconds(RTT), "{mean}");
    // A probe ends after three round trips at 1.25 times the rate without growth (5.3.3.7).
    assert!(most < 2.0 * seconds(RTT), "{most}");
    assert_eq!(loss(&results, 0), 0.0);
}

/// Random loss below its threshold of 2% ends no probe. In each of some sixty round trips between
/// probes, losses reduce the rate (section 5.3.3.8.3): at 1%, by a quarter according to the mean of
/// 0.99ⁿ. Reno and CUBIC have a twelfth of the link.
#[test]
fn one_per_cent_of_random_loss_costs_a_quarter() {
    let marks = [10 * SECOND, 60 * SECOND];
    let with_loss = |flow| share(&over(2.0, 10_000_000, &[flow], &marks), 0, &marks);
    let (model, cubic) = (with_loss(bbr(json!({}))), with_loss(tcp(0, 2, json!({}), json!({}))));
    println!("1% loss: BBR has {model:.3} of the link, CUBIC {cubic:.3}");
    assert!(model > 0.7, "{model}");
    assert!(cubic < 0.2);
}

/// Shallow buffers: throughput stays, and the threshold bounds the loss (section 5.5.10.2).
#[test]
fn shallow_buffers_leave_it_its_throughput() {
    for (products, least) in [(0.1, 0.85), (0.25, 0.9), (0.5, 0.9)] {
        let marks = [10 * SECOND, 70 * SECOND];
        let results = over(products, 0, &[bbr(json!({}))], &marks);
        let (share, loss) = (share(&results, 0, &marks), loss(&results, 0));
        println!("a buffer of {products} BDP: {share:.3} of the link, {:.3}% lost", loss * 100.0);
        assert!(share > least, "{products}: {share}");
        assert!(loss < 0.02, "{products}: {loss}");
    }
}

#[test]
fn two_of_them_share() {
    for products in [0.5, 2.0] {
        let marks = [30 * SECOND, 150 * SECOND];
        let flows = [bbr(json!({})), bbr(json!({"start": 5 * SECOND}))];
        let results = over(products, 0, &flows, &marks);
        let [first, second] = [0, 1].map(|flow| share(&results, flow, &marks));
        println!("{products} BDP: {first:.3} and {second:.3} of the link");
        assert!(first + second > 0.9);
        assert!((0.6..1.67).contains(&(first / second)), "{first} and {second}");
    }
}

/// Section 5.3.3.8: its probes leave room for Reno and CUBIC. The share depends on the buffer;
/// neither flow starves.
#[test]
fn beside_cubic_neither_starves() {
    for products in [1.0, 4.0] {
        let marks = [30 * SECOND, 150 * SECOND];
        let flows = [bbr(json!({})), tcp(0, 2, json!({"rack": true}), json!({"start": SECOND}))];
        let results = over(products, 0, &flows, &marks);
        let [model, cubic] = [0, 1].map(|flow| share(&results, flow, &marks));
        println!("{products} BDP: BBR {model:.3} of the link, CUBIC {cubic:.3}");
        assert!(model + cubic > 0.9);
        assert!((0.05..0.95).contains(&model), "{model}");
    }
}

/// Another seed gives other probes, and the same seed the same results.
#[test]
fn probes_are_drawn_from_the_seed() {
    let bytes = |seed: u64| {
        let links = [link([0, 1], RATE, RTT / 2)];
        let flow = with(bbr(json!({})), json!({"to": 1}));
        let plan = with(
            plan("hh", &links, &[20 * SECOND]),
            json!({"flows": [flow], "network": {"seed": seed}}),
        );
        run(&plan).bits()
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

/// Version 1, as in Linux.
fn bbr1(changes: Value) -> Value {
    with(bbr(changes), json!({"transport": {"tcp": {"congestion_control": "bbr1"}}}))
}

/// Version 1 alone: a full link except in ProbeRTT, 200 ms in ten seconds; a probe of one round
/// trip in eight puts a quarter of the product into the queue.
#[test]
fn version_1_alone_fills_a_deep_queue_by_a_quarter_of_a_product() {
    let marks = every(SECOND / 10, 60 * SECOND)[99..].to_vec();
    let results = over(10.0, 0, &[bbr1(json!({}))], &marks);
    let share = share(&results, 0, &marks);
    let rtts = &results.floats("intervals", "rtt_s")[1..];
    let most = rtts.iter().copied().fold(0.0, f64::max);
    println!("version 1 alone: {share:.4} of the link, at most {:.1} ms", most * 1e3);
    assert!(share > 0.95, "{share}");
    assert!(most < 1.5 * seconds(RTT), "{most}");
    assert_eq!(loss(&results, 0), 0.0);
}

/// Cardwell et al., *BBR* (ACM Queue 14, 2016), figure 8: random loss costs little more than the
/// lost packets, far below the 20% at which a probe gains nothing.
#[test]
fn version_1_does_not_mind_random_loss() {
    let marks = [10 * SECOND, 60 * SECOND];
    for percent in [1, 5] {
        let results = over(2.0, percent * 10_000_000, &[bbr1(json!({}))], &marks);
        let share = share(&results, 0, &marks);
        println!("version 1, {percent}% lost: {share:.3} of the link");
        assert!(share > 0.92 * (1.0 - f64::from(percent) / 100.0), "{share}");
    }
}

/// Ware et al., *Modeling BBR's Interactions with Loss-Based Congestion Control* (IMC 2019): beside
/// CUBIC its window of two products decides. In shallow buffers it takes most of the link; in deep
/// ones its share falls as the buffer grows.
#[test]
fn version_1_beside_cubic_has_what_its_window_holds() {
    let share_of = |products: f64| {
        let marks = [30 * SECOND, 150 * SECOND];
        let flows = [bbr1(json!({})), tcp(0, 2, json!({"rack": true}), json!({"start": SECOND}))];
        let results = over(products, 0, &flows, &marks);
        let [model, cubic] = [0, 1].map(|flow| share(&results, flow, &marks));
        println!("{products} BDP: version 1 {model:.3} of the link, CUBIC {cubic:.3}");
        assert!(model + cubic > 0.9);
        model
    };
    let shares = [0.5, 1.0, 4.0, 16.0].map(share_of);
    assert!(shares[0] > 0.7 && shares[1] > 0.7, "{shares:?}");
    assert!(shares[2] < shares[1] && shares[3] < shares[2] && shares[3] < 0.5, "{shares:?}");
}
