//! Responses of windows to losses and marks, compared with theory.

use super::*;

/// RFC 3168, section 6.1.2: the response to marks is that to a loss, once a round trip, without
/// retransmissions. CUBIC has its own factor.
#[test]
fn the_marks_of_a_round_trip_are_answered_once() {
    for (congestion, factor) in [(Congestion::Reno, 0.5), (cubic(HyStartKind::None, true), 0.7)] {
        for ecn in [EcnMode::Classic, EcnMode::Accurate] {
            let config = SenderConfig { congestion: congestion.clone(), ecn, ..config() };
            let mut connection = Connection::new(config, 1 << 20, &[]);
            // The second window has the numbers 10 to 29.
            connection.marked = vec![12, 14, 15, 20, 29];
            connection.sender.write(u64::MAX);
            connection.run(Time::ZERO + Duration::from_millis(59));
            assert_eq!(connection.sender.cwnd(), 20_000);
            let mut thresholds = vec![f64::INFINITY];
            for _ in 0..1_000 {
                connection.run(connection.now + Duration::from_micros(100));
                thresholds.push(connection.sender.window.ssthresh);
            }
            thresholds.dedup();
            let [_, threshold] = thresholds[..] else { panic!("{ecn:?}: {thresholds:?}") };
            // The window is between 20 and 24 segments when the first mark is echoed.
            assert!((20_000.0 * factor..24_000.0 * factor).contains(&threshold), "{threshold}");
            assert_eq!(connection.sender.retransmits(), 0);
            assert_eq!(connection.receiver.received().marked, 5);
            if ecn == EcnMode::Classic {
                let cwr = connection.sent.iter().filter(|segment| segment.flags.has(Flags::CWR));
                assert_eq!(cwr.count(), 2, "the SYN, and once that the window was reduced");
            }
        }
    }
}

/// RFC 3168, section 6.1.2: the congestion window is halved, including the two segments that an
/// acknowledgement has just taken off the flight. With rate reduction that takes a round trip, as
/// in Linux, and without it happens at once.
#[test]
fn a_mark_halves_the_window_that_was_in_use() {
    for prr in [false, true] {
        // Twenty segments are outstanding at each acknowledgement.
        let config = SenderConfig { ecn: EcnMode::Classic, prr, window: 20_000, ..config() };
        let mut connection = Connection::new(config, 1 << 20, &[]);
        connection.marked = vec![85];
        connection.sender.write(u64::MAX);
        let mut windows = Vec::new();
        for _ in 0..50 {
            connection.run(connection.now + DELAY);
            if connection.sender.window.ssthresh.is_finite() {
                windows.push(connection.sender.window);
            }
        }
        let [first, .., last] = windows[..] else { panic!("no mark was answered") };
        assert_eq!((first.ssthresh, last.ssthresh), (10_000.0, 10_000.0));
        assert_eq!(prr, first.cwnd > 10_000.0, "{first:?}");
        assert!(windows.iter().any(|window| window.cwnd < 11_000.0), "{windows:?}");
    }
}

/// DCTCP's steady state (De Schepper and others, *PI²*, CoNEXT 2016, appendix A): if a share p of
/// the segments is marked, several of them in every window, growth by a segment per round trip and
/// a reduction by p / 2 balance at 2 / p segments. The acknowledgement of a mark, for two segments
/// at most, does not grow the window.
#[test]
fn a_scalable_window_is_two_by_the_share_that_is_marked() {
    let cases = [(Congestion::dctcp(), EcnMode::Dctcp), (Congestion::dctcp(), EcnMode::Accurate)]
        .into_iter()
        .chain([(Congestion::prague(), EcnMode::Accurate)]);
    for (congestion, ecn) in cases {
        for every in [10, 25, 100] {
            let config = SenderConfig { congestion: congestion.clone(), ecn, ..config() };
            let mut connection = Connection::new(config, 1 << 20, &[]);
            connection.mark_every = every;
            connection.sender.write(u64::MAX);
            // Prague is slower from its 500th round trip on.
            connection.run(Time::ZERO + Duration::from_secs(25));
            let mut sum = 0.0;
            for _ in 0..400 {
                connection.run(connection.now + DELAY);
                sum += connection.sender.window.cwnd / f64::from(MSS) / 400.0;
            }
            // Prague at a round trip of 20 ms behaves as at 25 ms: its window is 20 / 25 of it, or
            // more, because its next response is to the first mark after 25 ms.
            let (rtt, most) =
                if connection.sender.pacer.is_some() { (0.8, 1.25) } else { (1.0, 1.05) };
            let law = sum / (2.0 * every as f64 * rtt);
            println!("{ecn:?}, every {every}th marked: {sum:.1} segments, {law:.3} of the law");
            assert!((0.85..most).contains(&law), "{ecn:?}, {every}: {law}");
        }
    }
}

/// Returns the segments per round trip when every `every`-th is lost.
fn response(congestion: Congestion, every: u64, delay: u64, rounds: u64) -> f64 {
    let config = SenderConfig { congestion, window: 1 << 30, ..config() };
    let mut connection = Connection::new(config, 1 << 30, &[]);
    (connection.lose_every, connection.delay) = (every, Duration::from_millis(delay));
    connection.sender.write(u64::MAX);
    let round = Duration::from_millis(2 * delay);
    // A quarter of the time for the effect of slow start to end.
    connection.run(Time::ZERO + round * (rounds / 4));
    let before = connection.receiver.received().delivered;
    connection.run(Time::ZERO + round * rounds);
    let delivered = connection.receiver.received().delivered - before;
    assert!(!matches!(connection.sender.recovery, Recovery::Timeout { .. }));
    delivered as f64 / f64::from(MSS) / (rounds - rounds / 4) as f64
}

/// A host whose own queue is full does not poll when the time of a segment comes, and would be
/// called at that time for ever.
#[test]
fn the_time_of_a_paced_segment_is_due_once() {
    let mut connection = Connection::new(SenderConfig { pacing: true, ..config() }, 1 << 20, &[]);
    connection.sender.write(u64::MAX);
    connection.run(Time::ZERO + DELAY * 5);
    let Connection { sender, .. } = &mut connection;
    let due = sender.pacer.as_ref().unwrap().deadline();
    assert_eq!(sender.deadline(), due, "a segment waits for its time");
    sender.on_timer(due);
    assert!(sender.deadline() > due);
    assert!(sender.poll(due).is_some());
}

/// Evenly spaced losses make a sawtooth (Mathis and others, 1997, section 2, every segment
/// counted): from W/2 to W in W/2 round trips, which are 3/8 W² segments. Their mean is √(3 / 2p).
/// Here, a round trip at W until the loss is detected and one at W/2 in recovery, neither of which
/// grows the window, make 3/8 W² + 3/2 W segments in W/2 + 2 round trips.
#[test]
fn reno_has_the_response_of_the_square_root_law() {
    for (every, rounds) in [(100, 2_000), (1_000, 4_000), (10_000, 6_000)] {
        let segments = response(Congestion::Reno, every, 50, rounds);
        let lost = every as f64;
        let most = ((9.0 / 4.0 + 1.5 * lost).sqrt() - 1.5) / 0.75;
        let law = segments / (lost / (most / 2.0 + 2.0));
        println!("Reno, one of {every} lost: {segments:.1} segments, {law:.3} of the law");
        assert!((0.9..1.1).contains(&law), "{every}: {law}");
    }
}

/// RFC 9438, section 5.1, with C = 0.4 and beta = 0.7: 1.054 (RTT / p)^0.75 segments if the cubic
/// function is above Reno's window, and Reno's otherwise (section 4.3). The derivation omits fast
/// convergence and the round trip of recovery; a fluid model with both has 0.92, 0.92 and 0.99 of
/// it here.
#[test]
fn cubic_has_the_response_of_its_rfc() {
    for (every, delay, rounds) in [(10_000, 100, 2_000), (20_000, 200, 1_000), (10_000, 5, 4_000)] {
        let segments = response(cubic(HyStartKind::None, true), every, delay, rounds);
        let rtt = 2.0 * delay as f64 / 1e3;
        let cubic = 1.054 * (rtt * every as f64).powf(0.75);
        let reno = (1.5 * every as f64).sqrt();
        let law = segments / cubic.max(reno);
        println!(
            "CUBIC, one of {every} lost at {rtt} s: {segments:.1} segments, {law:.3} of the law"
        );
        assert!((0.82..1.05).contains(&law), "{every} at {rtt} s: {law}");
    }
}
