//! TCP with explicit congestion notification, through queues that mark.

use serde_json::{Value, json};

use crate::lab::*;

const RATE: u64 = 20_000_000;
/// Share of a link's rate that is TCP's payload.
const PAYLOAD: f64 = 1460.0 / 1500.0;

/// CoDel with marks for ECN-capable packets, with the defaults of RFC 8289.
fn codel() -> Value {
    json!({"codel": {
        "limit": {"packets": 1000}, "target": 5 * MILLISECOND, "interval": 100 * MILLISECOND,
        "ecn": true,
    }})
}

/// Returns the results for a host, a router, the bottleneck with `queue`, and a host; a round trip
/// of 40 ms.
fn run_over(queue: &Value, flows: &[Value], marks: &[u64]) -> Results {
    let slow = json!({"queues": [queue, fifo(1 << 40)]});
    let links = [
        link([0, 1], 10 * RATE, MICROSECOND),
        link_with([1, 2], RATE, 20 * MILLISECOND - MICROSECOND, slow),
    ];
    run(&with(plan("hrh", &links, marks), json!({"flows": flows})))
}

/// RFC 3168, section 1: congestion is signalled without loss.
#[test]
fn marks_come_in_the_place_of_losses_and_are_echoed() {
    for control in ["reno", "cubic"] {
        for ecn in ["off", "classic", "accurate"] {
            let settings =
                json!({"congestion_control": control, "ecn": ecn, "hystart": "hystart++"});
            let flow = tcp(0, 2, settings, json!({}));
            let marks = [10 * SECOND, 60 * SECOND];
            let results = run_over(&codel(), &[flow], &marks);
            let share = results.goodput(0, marks[0], marks[1]) / (RATE as f64 * PAYLOAD);
            let [lost, marked, echoed, again] =
                ["lost", "marked", "echoed", "retransmits"].map(|column| results.flow(0, column));
            println!("{control}, {ecn}: {share:.3}, {lost} lost, {marked} marked, {echoed} echoed");
            assert!(share > 0.8, "{share}");
            if ecn == "off" {
                assert!(lost > 5 && marked == 0 && echoed == 0);
                continue;
            }
            assert_eq!((lost, again), (0, 0));
            assert!(marked > 5);
            // The third port is the bottleneck's; a mark may be in transit at the end.
            let class = results.class(2, "marked_packets");
            assert!(marked <= class && class <= marked + 2, "{marked} of {class}");
            if ecn == "accurate" {
                assert!(echoed <= marked && marked <= echoed + 2, "{echoed} of {marked}");
            } else {
                // Until the sender has responded, the acknowledgements of a round trip repeat the
                // echo.
                assert!(echoed > 10 * marked, "{echoed} of {marked}");
            }
        }
    }
}

/// The response to a mark is that to a loss, so that flows of both kinds share. Two flows may stay
/// synchronised for a whole run, hence the mean over starts.
#[test]
fn a_flow_with_marks_and_one_with_losses_share() {
    let flow = |ecn, start| {
        let settings = json!({"congestion_control": "reno", "ecn": ecn});
        tcp(0, 2, settings, json!({"start": start}))
    };
    let marks = [20 * SECOND, 120 * SECOND];
    for ecn in ["classic", "accurate"] {
        let shares = [0, 37, 74, 111, 148, 185].map(|later| {
            let start = SECOND + later * MILLISECOND;
            let results = run_over(&codel(), &[flow(ecn, 0), flow("off", start)], &marks);
            let [with, without] = [0, 1].map(|index| results.goodput(index, marks[0], marks[1]));
            with / (with + without)
        });
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        println!("{ecn} has {shares:.3?} beside a flow without, {mean:.3} in the mean");
        assert!((0.35..0.65).contains(&mean), "{ecn}: {mean}");
    }
}
