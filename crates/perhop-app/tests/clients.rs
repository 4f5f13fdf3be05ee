//! Clients on a virtual link of fixed rate and delay, with completion times from theory.

mod link;

use link::{Link, MS, exchanges};
use perhop_app::*;
use perhop_core::{Duration, Time};
use proptest::prelude::*;

const EVERY: fn(u64) -> ArrivalsPlan =
    |ms| ArrivalsPlan::Open(GapsPlan { mean: MS(ms), exponential: false });
const POISSON: fn(u64) -> ArrivalsPlan =
    |ms| ArrivalsPlan::Open(GapsPlan { mean: MS(ms), exponential: true });
const CLOSED: fn(u64) -> ArrivalsPlan =
    |ms| ArrivalsPlan::Closed(GapsPlan { mean: MS(ms), exponential: false });

/// A new connection takes a round trip, the request and the first byte another one, and the
/// response its transmission time.
#[test]
fn a_transfer_takes_two_round_trips_and_its_transmission() {
    let plan = ApplicationPlan::Transfers(exchanges(EVERY(1000), 100_000, false));
    let records = Link::new(10, 20).run(&plan, 3500);
    assert_eq!(records.len(), 4);
    for (number, record) in records.iter().enumerate() {
        assert_eq!(record.start, Time::ZERO + MS(1000) * number as u64);
        // 100 kB at 10 Mb/s are 80 ms; the link carries whole frames of 16,384 B.
        assert_eq!(record.end.unwrap().since(record.start), MS(2 * 20 + 2 * 20 + 80));
        assert_eq!((record.opened, record.number), (1, number as u32));
        let first = record.first_byte.unwrap().since(record.start);
        assert_eq!(first, MS(80) + Duration::from_picos(16_384 * 800_000));
    }
}

#[test]
fn a_reused_connection_saves_a_round_trip() {
    let plan = ApplicationPlan::Transfers(exchanges(EVERY(1000), 100_000, true));
    let mut link = Link::new(10, 20);
    let records = link.run(&plan, 2500);
    let times = records.iter().map(|record| record.end.unwrap().since(record.start));
    assert_eq!(times.collect::<Vec<_>>(), [MS(160), MS(120), MS(120)]);
    assert_eq!(link.opened, 1);
}

/// Calls of a client that thinks 50 ms: the first opens the connection.
#[test]
fn a_closed_loop_waits_for_its_response() {
    let plan = ExchangesPlan { server_time: MS(5), ..exchanges(CLOSED(50), 1250, true) };
    let records = Link::new(10, 20).run(&ApplicationPlan::Rpc(plan), 1000);
    // A round trip of 40 ms, the server's 5 ms, and 1 ms for 1250 B.
    assert_eq!(records[1].start.since(records[0].end.unwrap()), MS(50));
    assert!(records[1..].iter().all(|each| each.end.unwrap().since(each.start) == MS(46)));
    assert_eq!(records[1].start, Time::ZERO + MS(86 + 50));
    assert_eq!(records.len(), 10);
}

/// With one connection at a time and requests that come faster than responses, they queue: the
/// n-th response of 80 ms takes 60 ms longer than the one before.
#[test]
fn requests_wait_for_a_connection() {
    let mut plan = exchanges(EVERY(60), 50_000, true);
    plan.connections = 1;
    let records = Link::new(10, 20).run(&ApplicationPlan::Transfers(plan), 300);
    let times = records.iter().map(|record| record.end.unwrap().since(record.start));
    // 40 ms to open it, and then 40 + 40 ms each.
    let expected: Vec<_> = (0..5).map(|n| MS(120 + 20 * n)).collect();
    assert_eq!(times.collect::<Vec<_>>(), expected);
}

#[test]
fn poisson_arrivals_have_the_rate_asked_for() {
    let mut plan = exchanges(POISSON(10), 1000, false);
    plan.response = SizesPlan::Exponential(10_000);
    let records = Link::new(1_000_000, 0).run(&ApplicationPlan::Transfers(plan), 100_000);
    // Five standard deviations of a Poisson number of mean 10,000, and of the mean size.
    let number = records.len() as f64;
    assert!((number - 1e4).abs() < 500.0, "{number}");
    let mean = records.iter().map(|record| record.bytes).sum::<u64>() as f64 / number;
    assert!((mean / 1e4 - 1.0).abs() < 0.05, "{mean}");
}

#[test]
fn a_table_of_sizes_is_interpolated() {
    let mut plan = exchanges(EVERY(1), 1, false);
    // A quarter of all sizes are 100 B, the others are uniform up to 1100 B.
    plan.response = SizesPlan::Table(vec![(100, 250_000_000), (1100, 1_000_000_000)]);
    let records = Link::new(1_000_000, 0).run(&ApplicationPlan::Transfers(plan), 20_000);
    let sizes: Vec<f64> = records.iter().map(|record| record.bytes as f64).collect();
    let share = |limit: f64| sizes.iter().filter(|size| **size <= limit).count() as f64 / 20_000.0;
    // Five standard deviations of a share: at most 5 · √(1/4 / 20,000).
    for (limit, expected) in [(100.0, 0.25), (600.0, 0.625), (850.0, 0.8125), (1100.0, 1.0)] {
        assert!((share(limit) - expected).abs() < 0.018, "{} up to {limit}", share(limit));
    }
    let mut plan = exchanges(EVERY(1), 1, false);
    for points in [vec![], vec![(1, 5)], vec![(9, 1), (3, 1_000_000_000)]] {
        plan.response = SizesPlan::Table(points);
        let built = ApplicationPlan::Rpc(plan.clone()).client("f", 0, (Time::ZERO, Time::MAX), 1);
        assert_eq!(built.unwrap_err(), AppError::Table);
    }
}

#[test]
fn a_lost_connection_leaves_its_exchange_unfinished_and_others_go_on() {
    let plan = ApplicationPlan::Transfers(exchanges(CLOSED(50), 100_000, true));
    let mut client = plan.client("f", 0, (Time::ZERO, Time::MAX), 1).unwrap();
    client.on_timer(Time::ZERO);
    assert!(matches!(client.poll(), Some(Action::Open { connection: 0, .. })));
    client.on_event(Time::ZERO + MS(1), Event::Opened { connection: 0 });
    assert!(matches!(client.poll(), Some(Action::Request { connection: 0, .. })));
    client.on_event(Time::ZERO + MS(2), Event::Lost { connection: 0 });
    let Some(Action::Finished(record)) = client.poll() else { panic!("a record") };
    assert_eq!((record.end, record.number), (None, 0));
    assert_eq!(client.deadline(), Time::ZERO + MS(52));
    client.on_timer(Time::ZERO + MS(52));
    assert!(matches!(client.poll(), Some(Action::Open { connection: 1, .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every request is answered with the bytes that it asks for, and connections close.
    #[test]
    fn every_request_is_answered(
        poisson: bool,
        gap in 1_u64..200,
        response in 1_u64..300_000,
        reuse: bool,
        connections in 1_u16..20,
        server_time in 0_u64..50,
        seed: u64,
    ) {
        let mut plan = exchanges(if poisson { POISSON(gap) } else { CLOSED(gap) }, 1, reuse);
        plan.response = SizesPlan::Exponential(response);
        plan.connections = connections;
        plan.server_time = MS(server_time);
        let plan = ApplicationPlan::Transfers(plan);
        let mut link = Link::new(100, 5).seeded(seed);
        let records = link.run(&plan, 1000);
        prop_assert!(records.iter().all(|record| record.end.is_some()));
        prop_assert_eq!(link.delivered, records.iter().map(|record| record.bytes).sum::<u64>());
        prop_assert!(link.most_open <= usize::from(connections));
        prop_assert_eq!(link.open(), 0, "connections stay open");
        prop_assert_eq!(&records, &Link::new(100, 5).seeded(seed).run(&plan, 1000));
        for record in &records {
            let least = record.bytes as f64 * 8.0 / 1e8 + 0.01 + server_time as f64 / 1e3;
            let took = record.end.unwrap().since(record.start).as_secs_f64();
            prop_assert!(took > least - 1e-9, "{took} s, less than {least} s");
        }
    }
}
