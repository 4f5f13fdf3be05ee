//! Retransmissions after a loss, their times, and their effect on the window.

use super::*;

#[test]
fn one_loss_is_repaired_by_one_retransmission_without_a_timeout() {
    for loss_detection in EVERY {
        let config = SenderConfig { loss_detection, ..config() };
        let connection = Connection::transfer(config, 100, &[20]);
        assert_eq!(connection.sender.retransmits(), 1, "{loss_detection:?}");
        let timeout = connection.sender.rtt.timeout();
        assert!(timeout < Duration::from_millis(300), "{loss_detection:?} backed off: {timeout:?}");
        assert_eq!(connection.data_sent(), 101);
    }
}

#[test]
fn several_losses_in_a_window_are_repaired_in_one_round_trip_with_sack() {
    let lost: Vec<u64> = (30..50).step_by(2).collect();
    let connection = Connection::transfer(config(), 200, &lost);
    assert_eq!(connection.sender.retransmits(), 10);
    let timeout = connection.sender.rtt.timeout();
    assert!(timeout < Duration::from_millis(250), "a timeout backed off: {timeout:?}");
}

#[test]
fn limited_transmit_repairs_a_loss_near_the_end_of_a_small_window() {
    // Three segments are outstanding and the first is lost: two of three duplicates arrive, and
    // only new data causes the third.
    let stuck = SenderConfig { initial_window: 3, limited_transmit: false, ..config() };
    let mut with =
        Connection::new(SenderConfig { limited_transmit: true, ..stuck.clone() }, 1 << 20, &[0]);
    let mut without = Connection::new(stuck, 1 << 20, &[0]);
    for connection in [&mut with, &mut without] {
        connection.sender.write(20 * u64::from(MSS));
        connection.run(Time::ZERO + Duration::from_millis(100));
    }
    assert_eq!((with.sender.retransmits(), without.sender.retransmits()), (1, 0));
}

#[test]
fn a_lost_last_segment_waits_for_the_timer() {
    let connection = Connection::transfer(config(), 10, &[9]);
    assert_eq!(connection.sender.retransmits(), 1);
}

#[test]
fn a_lost_retransmission_is_repaired_by_the_timer() {
    let connection = Connection::transfer(config(), 60, &[20, 31, 32, 33, 34, 35, 36, 37, 38, 39]);
    assert!(connection.sender.retransmits() >= 10);
}

#[test]
fn a_lost_retransmission_lowers_the_threshold_again() {
    // Segment 20 is lost, and so is its retransmission. Until the timer expires, SACKed data makes
    // room for new data and the flight grows.
    let rehearsal = Connection::transfer(config(), 100, &[20]);
    let mut data = rehearsal.sent.iter().filter(|segment| segment.payload > 0);
    let retransmission = data.position(|segment| segment.flags.has(Flags::RETRANSMISSION));
    let lost = [20, retransmission.unwrap() as u64];
    let mut connection = Connection::new(config(), 1 << 20, &lost);
    connection.sender.write(u64::MAX);
    connection.run(Time::ZERO + Duration::from_millis(150));
    let in_recovery = connection.sender.window;
    assert!(matches!(connection.sender.recovery, Recovery::Fast { .. }));
    assert!(connection.sender.flight() as f64 > 2.0 * in_recovery.cwnd);
    connection.run(connection.sender.deadline());
    assert!(matches!(connection.sender.recovery, Recovery::Timeout { .. }));
    assert_eq!(connection.sender.window.ssthresh, in_recovery.cwnd / 2.0);
}

#[test]
fn the_timer_backs_off_while_nothing_arrives() {
    let mut connection = Connection::new(config(), 1 << 20, &(0..1_000).collect::<Vec<_>>());
    connection.sender.write(u64::from(MSS));
    connection.run(Time::ZERO + Duration::from_secs(10));
    // From 20 ms: 200 ms, then doubled each time; 0.2 · (2⁶ - 1) = 12.6 s is beyond the end.
    assert_eq!(connection.sender.retransmits(), 5);
}

/// RFC 9438, section 4.8: after a timeout CUBIC is on its plateau at the end of slow start, and
/// does not return to its old window.
#[test]
fn cubic_starts_from_a_plateau_after_a_timeout() {
    let congestion = cubic(HyStartKind::None, false);
    let config = SenderConfig { congestion, window: 1 << 30, ..config() };
    // Slow start sends 10, 20, 40 and 80 segments; the fifth round, of 160, is lost as a whole.
    let mut connection = Connection::new(config, 1 << 30, &(150..310).collect::<Vec<_>>());
    connection.sender.write(u64::MAX);
    let mut slow_start_ended = None;
    let mut now = Time::ZERO;
    while slow_start_ended.is_none_or(|at| now.since(at) < Duration::from_secs(3)) {
        now += DELAY;
        assert!(secs(now) < 10.0, "still in slow start");
        connection.run(now);
        let window = &connection.sender.window;
        if slow_start_ended.is_none() && window.cwnd >= window.ssthresh {
            slow_start_ended = Some(now);
        }
    }
    let window = connection.sender.window;
    let grown = (window.cwnd - window.ssthresh) / f64::from(MSS);
    // 0.4 · 3³ by the equation; it would be 45 segments and more with the old plateau.
    assert!((grown - 10.8).abs() < 2.0, "{window:?} has grown by {grown} segments");
}

/// After a timeout slow start continues although no new data can be sent: 60 segments do not take
/// 60 round trips and as many delayed acknowledgements, 3.6 s.
#[test]
fn a_lost_tail_is_repaired_in_slow_start() {
    let lost: Vec<u64> = (40..100).collect();
    for application in [100, 101] {
        let config = SenderConfig { initial_window: 100, ..config() };
        let mut connection = Connection::new(config, 1 << 20, &lost);
        connection.sender.write(application * u64::from(MSS));
        connection.run(Time::ZERO + Duration::from_millis(100));
        connection.run(connection.sender.deadline());
        let timeout = connection.now;
        assert!(matches!(connection.sender.recovery, Recovery::Timeout { .. }));
        while connection.sender.flight() > 0 {
            connection.run(connection.now + Duration::from_millis(1));
        }
        let taken = connection.now.since(timeout);
        assert!(taken < Duration::from_millis(400), "{taken:?}");
    }
}

/// Returns the number of the first retransmission among the transmissions of data.
fn first_retransmission(connection: &Connection) -> u64 {
    let mut data = connection.sent.iter().filter(|segment| segment.payload > 0);
    data.position(|segment| segment.flags.has(Flags::RETRANSMISSION)).unwrap() as u64
}

/// RFC 8985, section 3.1: detection by time finds the loss of a retransmission; counting does not.
#[test]
fn rack_repairs_a_lost_retransmission_without_a_timeout() {
    for prr in [false, true] {
        let config = SenderConfig { prr, ..rack() };
        let again = first_retransmission(&Connection::transfer(config.clone(), 200, &[40]));
        let mut connection = Connection::new(config, 1 << 20, &[40, again]);
        connection.sender.write(u64::MAX);
        connection.run(Time::ZERO + Duration::from_millis(180));
        assert_eq!(connection.sender.retransmits(), 2);
        assert!(connection.sender.scoreboard.acknowledged() > 100_000);
        assert!(!matches!(connection.sender.recovery, Recovery::Timeout { .. }));
        // Lost in two successive windows: two signs of congestion (RFC 5681, section 4.3).
        let first = Connection::transfer(rack(), 200, &[40]).sender.window.ssthresh;
        assert!(connection.sender.window.ssthresh < 0.6 * first);
    }
}

/// Linux reduces once per recovery, and once more if a retransmission after a timeout is lost
/// (tcp_fastretrans_alert); RFC 5681, section 4.3, requires two reductions in either case.
#[test]
fn linux_takes_a_lost_retransmission_for_no_second_sign_in_fast_recovery() {
    let linux = SenderConfig { prr: true, decrease_from_window: true, ..rack() };
    let again = first_retransmission(&Connection::transfer(linux.clone(), 200, &[40]));
    let mut connection = Connection::new(linux.clone(), 1 << 20, &[40, again]);
    connection.sender.write(u64::MAX);
    connection.run(Time::ZERO + Duration::from_millis(180));
    assert_eq!(connection.sender.retransmits(), 2);
    let once = Connection::transfer(linux.clone(), 200, &[40]).sender.window.ssthresh;
    assert_eq!(connection.sender.window.ssthresh, once);

    // No segment of a window arrives, nor the probe, nor the third segment after the timeout.
    for config in [linux, rack()] {
        let config = SenderConfig { initial_window: 20, frto: false, ..config };
        let lost: Vec<u64> = (0..=20).chain([23]).collect();
        let mut connection = Connection::new(config, 1 << 20, &lost);
        connection.sender.write(20 * u64::from(MSS));
        let linux = |sender: &Sender| sender.linux.as_ref().is_some_and(|linux| linux.is_in_loss());
        while !matches!(connection.sender.recovery, Recovery::Timeout { .. })
            && !linux(&connection.sender)
        {
            connection.run(connection.now + Duration::from_millis(1));
        }
        let timeout = connection.sender.window.ssthresh;
        connection.run(connection.now + Duration::from_millis(150));
        assert!(connection.sender.window.ssthresh < timeout, "{:?}", connection.sender.window);
    }
}

/// Several blocks in one acknowledgement arrived in order, as far as is known: a lower one after a
/// higher is not reordering, which would delay every detection.
#[test]
fn two_blocks_of_one_acknowledgement_are_no_reordering() {
    let mut sender = Sender::new(rack());
    let at = |millis| Time::ZERO + Duration::from_millis(millis);
    let mut sack = SackBlocks::default();
    assert!(sender.poll(at(0)).is_some());
    let answer = Segment {
        flags: Flags::SYN.with(Flags::ACK),
        ack: Seq(1),
        window: 1 << 20,
        ..Segment::default()
    };
    sender.on_segment(at(20), &answer);
    sender.write(u64::MAX);
    while sender.poll(at(20)).is_some() {}
    // The third segment, and before it in the option the sixth, which arrived last.
    sack.push(5001, 6001);
    sack.push(2001, 3001);
    sender.on_segment(at(40), &Segment { flags: Flags::ACK, sack, ..answer });
    let mut more = SackBlocks::default();
    more.push(5001, 7001);
    sender.on_segment(at(40), &Segment { flags: Flags::ACK, sack: more, ..answer });
    // Three have arrived beyond the first: it is lost at once.
    assert!(matches!(sender.recovery, Recovery::Fast { .. }), "{:?}", sender.recovery);
}

/// RFC 6675, section 6: the acknowledgement of the first hole's retransmission takes a round trip.
/// Data sent before and SACKed meanwhile gives no information about it.
#[test]
fn the_timer_starts_again_when_the_first_hole_is_filled() {
    let at = |millis| Time::ZERO + Duration::from_millis(millis);
    let mut connection = Connection::new(config(), 1 << 20, &[]);
    connection.sender.write(u64::MAX);
    connection.run(at(20)); // the handshake
    let sender = &mut connection.sender;
    let start = sender.scoreboard.acknowledged();
    assert_eq!(sender.flight(), 10 * u64::from(MSS));
    let sack = |sender: &mut Sender, now, segments: u64| {
        let mut sack = crate::SackBlocks::default();
        sack.push(start + u64::from(MSS), start + (1 + segments) * u64::from(MSS));
        let ack = Seq::from_offset(start);
        let flags = Flags::ACK;
        sender
            .on_segment(now, &Segment { ack, window: 1 << 20, sack, flags, ..Segment::default() });
        std::iter::from_fn(|| sender.poll(now)).filter(|sent| sent.seq == ack).count()
    };
    for (millis, segments, sent) in [(40, 1, 0), (45, 2, 0), (50, 3, 1)] {
        assert_eq!(sack(sender, at(millis), segments), sent);
    }
    assert_eq!(sender.deadline, at(50) + sender.rtt.timeout());
    sack(sender, at(60), 4);
    assert_eq!(sender.deadline, at(60) + sender.rtt.timeout());
    // Data sent after it shows that its own acknowledgement is overdue.
    sack(sender, at(100), 11);
    sack(sender, at(120), 12);
    assert_eq!(sender.scoreboard.sacked_segments(), 12);
    assert!(sender.deadline < at(120) + sender.rtt.timeout());
}

/// RFC 8985, section 6.3: data sent less than a round trip before the timeout is not lost.
#[test]
fn a_timeout_resends_nothing_that_is_still_under_way() {
    // Five segments and the probe after them are lost; three follow right before the timeout.
    let mut connection = Connection::new(rack(), 1 << 20, &[0, 1, 2, 3, 4, 5]);
    connection.sender.write(5 * u64::from(MSS));
    connection.run(Time::ZERO + Duration::from_millis(100));
    assert_eq!(connection.sender.retransmits(), 1);
    let timeout = connection.sender.deadline;
    connection.run(Time::ZERO + (timeout.since(Time::ZERO) - Duration::from_millis(5)));
    connection.sender.write(3 * u64::from(MSS));
    connection.run(timeout);
    assert!(matches!(connection.sender.recovery, Recovery::Timeout { .. }));
    assert_eq!(connection.sender.scoreboard.pipe(), 4 * u64::from(MSS), "three and the first");
    connection.run(timeout + Duration::from_secs(1));
    assert_eq!(connection.sender.flight(), 0);
    assert_eq!(connection.sender.retransmits(), 1 + 5);
}

/// RFC 8985, section 3.3: the last segments of a flow are repaired after a probe, which is sent
/// after two round trips, instead of by the timer after 200 ms or more.
#[test]
fn a_lost_tail_is_repaired_by_a_probe() {
    for lost in [vec![99], vec![97, 98, 99]] {
        let mut connection = Connection::new(rack(), 1 << 20, &lost);
        connection.sender.write(100 * u64::from(MSS));
        connection.sender.close();
        let mut rto = Connection::new(config(), 1 << 20, &lost);
        rto.sender.write(100 * u64::from(MSS));
        rto.sender.close();
        for connection in [&mut connection, &mut rto] {
            while !connection.sender.is_finished() {
                connection.run(connection.now + Duration::from_millis(1));
            }
        }
        println!("{lost:?}: probe {:.3} s, timer {:.3} s", secs(connection.now), secs(rto.now));
        assert!(connection.now + Duration::from_millis(60) < rto.now, "{lost:?}");
    }
}

/// Writes messages of so many bytes, with a pause of milliseconds after each.
fn talk(config: SenderConfig, messages: &[(u64, u64)], lost: &[u64]) -> Connection {
    let mut connection = Connection::new(config, 1 << 20, lost);
    for &(bytes, pause) in messages {
        connection.sender.write(bytes);
        connection.run(connection.now + Duration::from_millis(pause));
    }
    connection
}

/// A probe that repairs a loss is no recovery for a model of the path, which would wait for its
/// end (Linux: tcp_process_tlp_ack leaves the window to cong_control).
#[test]
fn a_model_of_the_path_ignores_what_a_probe_has_repaired() {
    let config = SenderConfig { congestion: Congestion::bbr1(Stream::new(1, "test")), ..rack() };
    let mut connection = talk(config, &[(20_000, 100)], &[20]);
    connection.sender.write(100);
    while connection.sender.retransmits() == 0 {
        connection.run(connection.now + Duration::from_millis(1));
    }
    for bytes in [100, 100, 5_000] {
        connection.sender.write(bytes);
        connection.run(connection.now + Duration::from_millis(100));
    }
    assert_eq!(connection.sender.retransmits(), 1);
    assert_eq!(connection.receiver.received().delivered, 25_300);
}

proptest! {
    /// Whatever is lost of messages with pauses, all that is written arrives.
    #[test]
    fn messages_arrive(
        messages in prop::collection::vec((1_u64..5000, 0_u64..600), 1..40),
        lost in prop::collection::vec(0_u64..150, 0..40),
        loss_detection in prop::sample::select(&EVERY[..]),
        control in prop::sample::select(&["reno", "bbr", "bbr1"][..]),
        timestamps: bool,
    ) {
        let congestion = match control {
            "bbr" => Congestion::bbr(Stream::new(1, "test")),
            "bbr1" => Congestion::bbr1(Stream::new(1, "test")),
            _ => Congestion::Reno,
        };
        let config = SenderConfig { loss_detection, congestion, timestamps, ..config() };
        let mut connection = talk(config, &messages, &lost);
        connection.run(connection.now + Duration::from_secs(10_000));
        let written: u64 = messages.iter().map(|message| message.0).sum();
        prop_assert_eq!(connection.receiver.received().delivered, written);
    }
}

/// Section 3.2: once reordering is detected, a delay below the window is not a loss; in the first
/// round, segments count as in RFC 6675. Beyond the window, reported duplicates widen it.
#[test]
fn rack_tolerates_reordering_once_it_has_seen_some() {
    for millis in [4, 9] {
        let late: Vec<_> =
            (30..2000).step_by(10).map(|n| (n, Duration::from_millis(millis))).collect();
        let retransmits =
            |config| Connection::transfer_late(config, 2500, &[], &late).sender.retransmits();
        let (rack, counting) = (retransmits(rack()), retransmits(config()));
        println!("{millis} ms late: {rack} in vain by time, {counting} by counting");
        assert!(2 * rack < counting, "{rack} by time, {counting} by counting");
    }
}

#[test]
fn proportional_rate_reduction_ends_at_the_threshold_without_a_burst() {
    let lost: Vec<u64> = (100..130).step_by(2).collect();
    for loss_detection in [LossDetection::Sack, LossDetection::Rack] {
        let config = SenderConfig { prr: true, loss_detection, ..config() };
        let mut connection = Connection::new(config, 1 << 20, &lost);
        connection.sender.write(u64::MAX);
        let mut last = Recovery::Open;
        let mut recovered = None;
        for _ in 0..400 {
            connection.run(connection.now + Duration::from_millis(1));
            if last != Recovery::Open && connection.sender.recovery == Recovery::Open {
                recovered = Some(connection.sender.window);
            }
            last = connection.sender.recovery;
        }
        let window = recovered.expect("recovery ends");
        assert_eq!(connection.sender.retransmits(), 15);
        assert!(window.cwnd < window.ssthresh + 10.0 * f64::from(MSS), "{window:?}");
    }
}

/// RFC 6582, section 3.2, step 3, and RFC 6675, section 5: recovery ends with a window of the
/// threshold. The acknowledgement that ends it covers data that was SACKed long ago, which must not
/// grow the window: here by 15 / 10 of a segment.
#[test]
fn the_end_of_recovery_grows_the_window_by_what_it_delivers() {
    for loss_detection in EVERY {
        // Paced, so that acknowledgements arrive one by one.
        let config = SenderConfig { loss_detection, pacing: true, ..config() };
        let mut connection = Connection::new(config, 1 << 20, &[12]);
        connection.sender.write(u64::MAX);
        let mut recovered = false;
        for _ in 0..2_000 {
            let before = connection.sender.recovery != Recovery::Open;
            connection.run(connection.now + Duration::from_micros(100));
            if before && connection.sender.recovery == Recovery::Open {
                let Window { cwnd, ssthresh } = connection.sender.window;
                assert!((0.0..=250.0).contains(&(cwnd - ssthresh)), "{loss_detection:?}: {cwnd}");
                recovered = true;
                break;
            }
        }
        assert!(recovered, "{loss_detection:?}");
    }
}
