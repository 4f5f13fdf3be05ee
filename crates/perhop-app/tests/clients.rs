//! Clients on a virtual link of fixed rate and delay, with completion times from theory.

mod link;

use link::{Link, MS, exchanges, page, video};
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

/// Real hosts are late at times.
#[test]
fn a_client_that_wakes_late_begins_only_what_was_due_before_its_stop() {
    let plan = ApplicationPlan::Transfers(exchanges(EVERY(20), 1000, false));
    let mut client = plan.client("f", 0, (Time::ZERO, Time::ZERO + MS(100)), 1).unwrap();
    client.on_timer(Time::ZERO + MS(500));
    let begun = client.unfinished();
    let starts: Vec<_> = begun.iter().map(|record| record.start).collect();
    assert_eq!(starts, [0, 20, 40, 60, 80].map(|ms| Time::ZERO + MS(ms)));
    assert_eq!(client.deadline(), Time::MAX);
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

/// A page of 10 kB, and 12 objects of 10 kB that it reveals. At 8 Mb/s an object takes 10 ms.
#[test]
fn a_page_takes_what_its_connections_permit() {
    let took = |multiplexed, rtt: u64| {
        let plan = page(&[(None, 10_000)], 12, multiplexed);
        let mut link = Link::new(8, rtt / 2);
        let record = link.run(&plan, 1)[0];
        assert_eq!((record.exchanges, record.bytes), (13, 130_000));
        assert_eq!(record.opened as usize, link.opened);
        (record.end.unwrap().since(record.start), link.opened)
    };
    // The link is the limit, whatever carries it: two round trips and 10 ms for the page, then one
    // for what it reveals, and 120 ms. Frames have headers of 9 B, which take 9 us each.
    let frames = Duration::from_micros(13 * 9);
    assert_eq!(took(true, 2), (MS(2 * 2 + 10 + 2 + 120) + frames, 1));
    // Six connections at a time; the first is open, others open meanwhile. Responses keep the link
    // busy while requests for the others travel.
    assert_eq!(took(false, 2), (MS(2 * 2 + 10 + 2 + 120), 6));
    // With a round trip of 200 ms the second six objects need another one: the sixth of the first
    // six arrives 60 ms after the first. Five of the first six need a connection before.
    let (http1, _) = took(false, 200);
    let (multiplexed, _) = took(true, 200);
    assert_eq!(multiplexed, MS(400 + 10 + 200 + 120) + frames);
    assert!(http1 >= MS(400 + 10 + 400 + 200), "{http1:?}");
}

/// A chain of three objects: each costs a round trip.
#[test]
fn an_object_waits_for_the_one_that_reveals_it() {
    let plan = page(&[(None, 1000), (Some(0), 1000), (Some(1), 1000)], 0, true);
    let record = Link::new(8, 50).run(&plan, 1)[0];
    let frames = Duration::from_micros(3 * 9);
    assert_eq!(record.end.unwrap().since(record.start), MS(100 + 3 * 100 + 3) + frames);
}

/// A link of 3 Mb/s and no delay, and bit rates of 1, 2 and 4 Mb/s: the second is the highest that
/// can be sustained.
#[test]
fn video_by_throughput_chooses_the_highest_bit_rate_below_the_link() {
    let records = Link::new(3, 0).run(&video(AlgorithmPlan::Throughput, 30), 120_000);
    let of = |kind| records.iter().filter(move |record| record.kind == kind);
    let rates: Vec<u64> = of(RecordKind::Segment).map(|record| record.bitrate.unwrap()).collect();
    assert_eq!(rates[0], 1_000_000);
    assert!(rates[1..].iter().all(|rate| *rate == 2_000_000), "{rates:?}");
    // The first segment of 4 s at 1 Mb/s takes 4/3 s, and playback begins with it.
    let startup = of(RecordKind::Startup).next().unwrap().end.unwrap();
    assert!((startup.as_secs_f64() - 4.0 / 3.0).abs() < 1e-9);
    assert_eq!(of(RecordKind::Stall).count(), 0);
    // 30 s are buffered, and then one segment is fetched every 4 s.
    let last = of(RecordKind::Segment).next_back().unwrap();
    assert!(last.buffer.unwrap() <= Duration::from_secs(30));
    // Of 118.7 s of playback and 30 s in the buffer.
    assert_eq!(rates.len(), 37);
}

/// BBA-0 alternates around the rate of the link and never stalls.
#[test]
fn video_by_buffer_uses_the_link() {
    let records = Link::new(3, 0).run(&video(AlgorithmPlan::Buffer, 240), 1_200_000);
    let of = |kind| records.iter().filter(move |record| record.kind == kind);
    assert_eq!(of(RecordKind::Stall).count(), 0);
    let later = of(RecordKind::Segment).filter(|record| record.start > Time::ZERO + MS(400_000));
    let rates: Vec<u64> = later.map(|record| record.bitrate.unwrap()).collect();
    let mean = rates.iter().sum::<u64>() as f64 / rates.len() as f64;
    assert!((mean / 3e6 - 1.0).abs() < 0.05, "{mean}");
}

/// At half the lowest bit rate, every segment of 4 s takes 8 s: half of the time is a stall.
#[test]
fn video_stalls_on_a_link_that_is_too_slow() {
    for algorithm in [AlgorithmPlan::Throughput, AlgorithmPlan::Buffer] {
        let ApplicationPlan::Video(mut plan) = video(algorithm, 30) else { unreachable!() };
        plan.bitrates = vec![2_000_000, 4_000_000];
        let records = Link::new(1, 0).run(&ApplicationPlan::Video(plan), 100_000);
        let stalls: Vec<_> = records.iter().filter(|r| r.kind == RecordKind::Stall).collect();
        // From 12 s on, and every 8 s; the viewer leaves in the last one.
        assert_eq!(stalls.len(), 12);
        assert!(stalls[..11].iter().all(|r| r.end.unwrap().since(r.start) == MS(4000)));
        assert_eq!(stalls[11].end.unwrap(), Time::ZERO + MS(100_000));
    }
}

/// A video of 10 s has three segments; it ends without a stall.
#[test]
fn a_video_ends() {
    let ApplicationPlan::Video(mut plan) = video(AlgorithmPlan::Buffer, 30) else { unreachable!() };
    plan.length = Some(MS(10_000));
    let mut link = Link::new(3, 10);
    let records = link.run(&ApplicationPlan::Video(plan), 100_000);
    let kinds: Vec<_> = records.iter().map(|record| record.kind.name()).collect();
    assert_eq!(kinds, ["segment", "startup", "segment", "segment"]);
    assert_eq!(link.open(), 0);
}

/// A viewer leaves before the connection has opened: it closes, and nothing is due any more.
#[test]
fn a_viewer_may_leave_before_anything_has_arrived() {
    for stop in [1, 39, 41, 81, 500] {
        let mut link = Link::new(3, 20);
        let records = link.run(&video(AlgorithmPlan::Throughput, 30), stop);
        assert_eq!(link.open(), 0, "left after {stop} ms");
        let startup = records.iter().find(|record| record.kind == RecordKind::Startup).unwrap();
        assert_eq!(startup.end, None);
    }
}

/// Without its connection, a video opens another one for the same segment, until the viewer leaves.
#[test]
fn a_video_outlives_its_connection() {
    let plan = video(AlgorithmPlan::Throughput, 30);
    let mut client = plan.client("f", 0, (Time::ZERO, Time::ZERO + MS(9000)), 1).unwrap();
    client.on_timer(Time::ZERO);
    for connection in 0..3 {
        let open = Action::Open { connection, multiplexed: false };
        assert_eq!(client.poll(), Some(open));
        let now = Time::ZERO + MS(10 + u64::from(connection));
        client.on_event(now, Event::Opened { connection });
        let Some(Action::Request { request, .. }) = client.poll() else { panic!("a request") };
        assert_eq!(request.exchange, 0);
        client.on_event(now, Event::Lost { connection });
    }
    client.on_timer(Time::ZERO + MS(9000));
    let left = std::iter::from_fn(|| client.poll()).collect::<Vec<_>>();
    assert!(matches!(left[..], [Action::Open { connection: 3, .. }, Action::Finished(_)]));
    client.on_event(Time::ZERO + MS(9001), Event::Lost { connection: 3 });
    assert_eq!((client.poll(), client.deadline()), (None, Time::MAX));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Pages of any shape are complete, with all bytes of all objects, and their connections close.
    #[test]
    fn every_page_is_complete(
        shape in prop::collection::vec((any::<u32>(), 1_u64..100_000), 1..30),
        more in 0_usize..20,
        multiplexed: bool,
        seed: u64,
    ) {
        let after = |(number, (after, size)): (usize, (u32, u64))| {
            ((number > 0).then(|| after % number as u32), size)
        };
        let objects: Vec<_> = shape.into_iter().enumerate().map(after).collect();
        let plan = page(&objects, more, multiplexed);
        let mut link = Link::new(50, 5).seeded(seed);
        let records = link.run(&plan, 5000);
        prop_assert!(records.len() > 1 && records.iter().all(|record| record.end.is_some()));
        prop_assert_eq!(link.delivered, records.iter().map(|record| record.bytes).sum::<u64>());
        prop_assert_eq!(link.open(), 0);
    }

    /// What is played was fetched: playing time, stalls and start-up time are the time of the run.
    #[test]
    fn playing_and_waiting_take_all_of_the_time(
        rate in 1_u64..10,
        delay in 0_u64..100,
        buffer in 8_u64..60,
        by_buffer: bool,
        stop in 10_u64..200,
    ) {
        let algorithm = if by_buffer { AlgorithmPlan::Buffer } else { AlgorithmPlan::Throughput };
        let records = Link::new(rate, delay).run(&video(algorithm, buffer), stop * 1000);
        let waited: f64 = records
            .iter()
            .filter(|record| matches!(record.kind, RecordKind::Stall | RecordKind::Startup))
            .map(|record| record.end.map_or(0.0, |end| end.since(record.start).as_secs_f64()))
            .sum();
        let stopped = Time::ZERO + MS(stop * 1000);
        let before = |record: &&Record| record.end.is_some_and(|end| end <= stopped);
        let fetched: Vec<_> =
            records.iter().filter(|record| record.bitrate.is_some()).filter(before).collect();
        let played = stop as f64 - waited;
        let left = 4.0 * fetched.len() as f64 - played;
        prop_assert!((-1e-6..=buffer as f64 + 1e-6).contains(&left), "{left} s are left");
        let most = fetched.iter().map(|record| record.buffer.unwrap()).max();
        prop_assert!(most.unwrap_or(Duration::ZERO) <= Duration::from_secs(buffer));
    }

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
