//! Path MTU discovery (RFC 1191, section 6.4).

use super::*;

/// Transfers `segments` full segments over a path that carries `longest` bytes of data.
fn narrow(config: SenderConfig, segments: u64, longest: u16, lost: &[u64]) -> Connection {
    let mut connection = Connection::new(config, 1 << 20, lost);
    connection.narrow = Some((longest, true));
    connection.sender.write(segments * u64::from(MSS));
    connection.sender.close();
    connection.run(Time::ZERO + Duration::from_secs(10_000));
    assert!(connection.sender.is_finished(), "unfinished: {:?}", connection.sender);
    assert_eq!(connection.receiver.received().delivered, segments * u64::from(MSS));
    connection
}

/// The discovery takes as long as the error does: no timeout, no smaller window.
#[test]
fn segments_that_are_too_long_cost_the_time_of_an_error_and_no_window() {
    for loss_detection in EVERY {
        for timestamps in [false, true] {
            let config = SenderConfig { loss_detection, timestamps, ..config() };
            let known = SenderConfig { mss: 700, ..config.clone() };
            let mut before = Connection::new(known, 1 << 20, &[]);
            before.sender.write(100_000);
            before.sender.close();
            let finishes = |connection: &mut Connection| {
                while !connection.sender.is_finished() {
                    connection.run(connection.now + Duration::from_millis(1));
                }
                connection.now
            };
            let mut found = Connection::new(config, 1 << 20, &[]);
            found.narrow = Some((700, true));
            found.sender.write(100_000);
            found.sender.close();
            let (known, found_at) = (finishes(&mut before), finishes(&mut found));
            assert_eq!(found_at.since(known), DELAY, "{loss_detection:?}");
            assert_eq!(found.sender.window.ssthresh, f64::INFINITY);
            // The ten segments of the first window, anew.
            assert_eq!(found.sender.retransmits(), 10_000_u64.div_ceil(700));
            let longest = found.sent[11..].iter().map(|segment| segment.payload).max();
            assert_eq!(longest, Some(700));
        }
    }
}

#[test]
fn a_smaller_mtu_of_another_path_is_no_congestion() {
    let mut connection = Connection::new(config(), 1 << 20, &[30]);
    connection.sender.write(u64::MAX);
    connection.run(Time::ZERO + Duration::from_secs(1));
    connection.narrow = Some((500, true));
    let mut before = connection.sender.window;
    while connection.sender.config.mss == MSS {
        before = connection.sender.window;
        connection.run(connection.now + Duration::from_micros(100));
    }
    // As many segments as before, of half the length.
    let after = connection.sender.window;
    assert!((0.5..0.52).contains(&(after.cwnd / before.cwnd)), "{before:?}, {after:?}");
    assert!(after.ssthresh >= 0.75 * after.cwnd && after.ssthresh < f64::INFINITY, "{after:?}");
    connection.narrow = None;
    connection.sender.limit_segments(None);
    connection.run(connection.now + Duration::from_millis(500));
    assert_eq!(connection.sent.last().unwrap().payload, MSS);
}

/// RFC 2923, section 2.1.
#[test]
fn a_router_that_says_nothing_makes_a_black_hole() {
    let mut connection = Connection::new(config(), 1 << 20, &[]);
    connection.narrow = Some((700, false));
    connection.sender.write(u64::MAX);
    connection.run(Time::ZERO + Duration::from_secs(20));
    assert_eq!(connection.receiver.received().delivered, 0);
}

/// RFC 5927, section 4.1: an error about data that is not in flight may be forged.
#[test]
fn an_error_about_other_data_has_no_effect() {
    let mut connection = Connection::new(config(), 1 << 20, &[]);
    connection.sender.write(u64::MAX);
    connection.run(Time::ZERO + Duration::from_millis(205));
    let (una, end) =
        (connection.sender.scoreboard.acknowledged(), connection.sender.scoreboard.end());
    for seq in [una - 1, end, end + 100_000] {
        connection.sender.on_too_big(connection.now, Seq::from_offset(seq), 100);
        assert_eq!(connection.sender.config.mss, MSS);
    }
    connection.sender.on_too_big(connection.now, Seq::from_offset(una), 100);
    assert_eq!(connection.sender.config.mss, 80);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// All data arrives whatever else is lost, and nothing too long is sent twice.
    #[test]
    fn a_transfer_over_a_narrow_path_ends(
        longest in 48_u16..1_100,
        lost in prop::collection::vec(0_u64..300, 0..20),
        detection in 0_usize..3,
        (prr, timestamps, bbr) in any::<(bool, bool, bool)>(),
    ) {
        let loss_detection = EVERY[detection];
        let congestion = match bbr {
            true => Congestion::bbr(Stream::new(1, "probes")),
            false => Congestion::Reno,
        };
        let config = SenderConfig { loss_detection, prr, timestamps, congestion, ..config() };
        let connection = narrow(config, 60, longest, &lost);
        let long = |segment: &&Segment| segment.payload > longest;
        let again = |segment: &&Segment| segment.flags.has(Flags::RETRANSMISSION);
        prop_assert_eq!(connection.sent.iter().filter(long).filter(again).count(), 0);
    }
}
