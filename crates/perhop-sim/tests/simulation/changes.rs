//! The timeline of changes.

use perhop_core::Time;
use perhop_sim::BuildError;
use serde_json::{Value, json};

use crate::lab::*;

/// Returns a plan of a host, a router and a host; the second link is the narrow one.
fn narrow(rate: u64, queue: Value, flows: Value, changes: Value) -> Value {
    let second = link_with([1, 2], rate, MILLISECOND, json!({"queues": [queue, fifo(1000)]}));
    json!({
        "network": {
            "seed": 1, "marks": [SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND], "nodes": nodes("hrh"),
            "links": [link([0, 1], 1_000_000_000, MILLISECOND), second], "changes": changes,
        },
        "flows": flows, "pings": [],
    })
}

fn policed(rate: u64, burst: u64) -> Value {
    let mut class = class(json!({}), 1, fifo(1000));
    class["police"] = json!({"rate": rate, "burst": burst, "exceed": "drop"});
    json!({"classes": [class]})
}

/// Returns the bytes that the flow delivered in each second.
fn delivered(plan: Value) -> Vec<i64> {
    run(&plan).integers("intervals", "bytes").to_vec()
}

#[test]
fn a_link_sends_at_its_new_rate_from_the_next_packet_on() {
    // 972 bytes and 28 of headers, far more than the link carries.
    let flow = udp(0, 2, 50_000_000, 972, json!({"stop": 4 * SECOND}));
    let wire = json!({"link": 1, "rate": 4_000_000, "delay": MILLISECOND, "loss_ppb": 0});
    let changes = json!([{"at": 2 * SECOND, "effect": {"wire": wire}}]);
    let bytes = delivered(narrow(8_000_000, fifo(10), json!([flow]), changes));
    assert_eq!(bytes[1], 1000 * 972);
    assert_eq!(bytes[3], 500 * 972);
    // Packets in transit are not slowed down.
    assert!((500 * 972..=502 * 972).contains(&bytes[2]), "{bytes:?}");
}

#[test]
fn what_is_on_its_way_is_not_overtaken() {
    let flow = udp(0, 2, 1_000_000, 972, json!({"stop": 3 * SECOND}));
    let near = json!({"link": 1, "rate": 8_000_000, "delay": MILLISECOND, "loss_ppb": 0});
    let changes = json!([{"at": SECOND, "effect": {"wire": near}}]);
    let mut plan = narrow(8_000_000, fifo(10), json!([flow]), changes);
    plan["network"]["links"][1]["delay"] = json!(SECOND / 2);
    let tables = run(&plan);
    assert_eq!(tables.flow(0, "reordered") as i64, 0);
    assert_eq!(tables.flow(0, "lost") as i64, 0);
}

#[test]
fn a_policer_follows_its_new_curve_to_the_byte() {
    let flow = udp(0, 2, 50_000_000, 972, json!({"stop": 4 * SECOND}));
    let police = json!({"port": 2, "class": "0", "rate": 800_000, "burst": 5_000});
    let changes = json!([{"at": 2 * SECOND, "effect": {"police": police}}]);
    let plan = narrow(100_000_000, policed(8_000_000, 20_000), json!([flow]), changes);
    let tables = run(&plan);
    let conformed = tables.of_rows("queues", "conformed_bytes", "class", 3);
    // A burst, and the arrivals of a second less the millisecond on the first link.
    assert!((1_018_000..=1_019_000).contains(&conformed[0]), "{conformed:?}");
    assert_eq!(conformed[1], 1_000_000);
    // The bucket was almost empty, and stays so.
    assert!((99_000..=101_000).contains(&conformed[2]), "{conformed:?}");
    assert!((99_000..=101_000).contains(&conformed[3]), "{conformed:?}");
    let exceeded = tables.of_rows("queues", "exceeded_bytes", "class", 3);
    assert_eq!(exceeded[1] + conformed[1], exceeded[3] + conformed[3]);
}

#[test]
fn a_smaller_bucket_holds_no_more_than_its_burst() {
    // Nothing is sent until the change; then the new burst conforms, not the old one.
    let flow = udp(0, 2, 50_000_000, 972, json!({"start": 2 * SECOND, "stop": 4 * SECOND}));
    let police = json!({"port": 2, "class": "0", "rate": 8_000, "burst": 5_000});
    let changes = json!([{"at": SECOND, "effect": {"police": police}}]);
    let plan = narrow(100_000_000, policed(8_000, 500_000), json!([flow]), changes);
    let conformed = run(&plan).of_rows("queues", "conformed_bytes", "class", 3);
    assert_eq!(conformed, [0, 0, 5_000, 1_000]);
}

#[test]
fn a_link_that_is_down_loses_what_has_no_other_way() {
    let flow = udp(0, 2, 972 * 8 * 1000, 972, json!({"stop": 4 * SECOND}));
    let state = |at, up| json!({"at": at, "effect": {"state": {"link": 1, "up": up}}});
    let changes = json!([state(SECOND, false), state(3 * SECOND, true)]);
    let tables = run(&narrow(16_000_000, fifo(10), json!([flow]), changes));
    let packets = tables.integers("intervals", "packets");
    let lost = tables.integers("intervals", "lost");
    assert_eq!(lost[0], 0);
    // Transmitted packets arrive. Packets on their way to the router are lost there.
    assert!((0..=2).contains(&packets[1]), "{packets:?}");
    assert!((998..=1002).contains(&lost[1]), "{lost:?}");
    assert_eq!((packets[2], lost[2]), (0, 1000));
    assert!((997..=1000).contains(&packets[3]), "{packets:?}");
    assert_eq!(lost[3], 0);
}

#[test]
fn what_waits_moves_to_the_new_policy() {
    // 200 packets wait when a class replaces the plain queue, and takes all of them.
    let flow = udp(0, 2, 50_000_000, 972, json!({"volume": 220 * 972}));
    let queue = json!({"port": 2, "queue": {"classes": [class(json!({}), 1, fifo(1000))]}});
    let effect = |queue| json!([{"at": SECOND, "effect": {"queue": queue}}]);
    let plan = |changes| narrow(80_000, fifo(1000), json!([flow]), changes);
    let tables =
        run(&with(plan(effect(queue)), json!({"network": {"marks": [SECOND, 30 * SECOND]}})));
    assert_eq!(tables.flow(0, "packets") as i64, 220);
    assert_eq!(tables.flow(0, "reordered") as i64, 0);
    let sent = |class| tables.of_rows("queues", "sent_packets", "class", class);
    // Ports 0, 1, 2 and 3 have a class each, followed by the new root and the class inside it.
    assert_eq!(sent(2), [10]);
    assert_eq!((sent(4), sent(5)), (vec![210], vec![210]));

    // A new queue of ten drops the others, and counts them.
    let tables = run(&with(
        plan(effect(json!({"port": 2, "queue": fifo(10)}))),
        json!({"network": {"marks": [SECOND, 30 * SECOND]}}),
    ));
    assert_eq!(tables.of_rows("queues", "dropped_limit", "class", 4), [200]);
    assert_eq!(tables.flow(0, "packets") as i64, 20);
    assert_eq!(tables.flow(0, "lost") as i64, 200);
}

#[test]
fn changes_at_zero_hold_from_the_start() {
    let flow = udp(0, 2, 50_000_000, 972, json!({"stop": 4 * SECOND}));
    let wire = json!({"link": 1, "rate": 4_000_000, "delay": MILLISECOND, "loss_ppb": 0});
    let changes = json!([{"at": 0, "effect": {"wire": wire}}]);
    let changed = run(&narrow(8_000_000, fifo(10), json!([flow]), changes));
    let slow = run(&narrow(4_000_000, fifo(10), json!([flow]), json!([])));
    assert_eq!(changed.bits(), slow.bits());
}

#[test]
fn results_do_not_depend_on_slices() {
    let flow = udp(0, 2, 7_000_000, 972, json!({"stop": 4 * SECOND}));
    let police = json!({"port": 2, "class": "0", "rate": 800_000, "burst": 5_000});
    let queue = json!({"port": 2, "queue": fifo(10)});
    let changes = json!([
        {"at": SECOND, "effect": {"police": police}},
        {"at": 2 * SECOND, "effect": {"queue": queue}},
    ]);
    let plan = narrow(6_000_000, policed(5_000_000, 20_000), json!([flow]), changes);
    let whole = run(&plan);
    let mut sliced = build(&plan).unwrap();
    for slice in 1..=400 {
        sliced.advance(Time::from_picos(slice * 10 * MILLISECOND));
    }
    assert_eq!(Results::of(&sliced).bits(), whole.bits());
}

#[test]
fn a_change_that_cannot_be_made_is_refused() {
    let refused = |change: Value| refusal(&narrow(8_000_000, fifo(10), json!([]), json!([change])));
    let wire =
        |link, rate| json!({"wire": {"link": link, "rate": rate, "delay": 0, "loss_ppb": 0}});
    let rate = refused(json!({"at": SECOND, "effect": wire(1, 0)}));
    assert_eq!(rate, "network.changes[0].effect.wire.rate: must not be zero");
    let link = refused(json!({"at": SECOND, "effect": wire(2, 1)}));
    assert_eq!(link, BuildError::UnknownLink("port 4".into()).to_string());
    let mark = refused(json!({"at": SECOND + 1, "effect": wire(1, 1)}));
    assert_eq!(mark, BuildError::Marks.to_string());
}
