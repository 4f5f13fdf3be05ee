//! The state machine and the control parameters by tables computed by hand from the draft.
//!
//! Unless a test says otherwise, the bandwidth is 1 MB/s and the least round-trip time 100 ms, so
//! that the bandwidth-delay product is 100,000 bytes, a hundred segments.

use super::super::phases::AckPhase;
use super::*;

const PROBE_RTT: BbrPhase = BbrPhase::ProbeRtt { until: None, round_done: false };

/// Returns a model after Startup, in round 10, and a window of 150,000 bytes.
fn steady(phase: BbrPhase) -> (Bbr, Window) {
    let mut bbr = Bbr::new(Stream::new(1, "test"));
    bbr.begin(&Window::new(10.0 * MSS), MSS);
    bbr.max_bandwidth.update(1e6, false);
    bbr.bandwidth = 1e6;
    bbr.min_rtt.begin(at(0), MS(100));
    bbr.full_pipe.reached = true;
    bbr.round = 10;
    bbr.probe_wait = MS(2_500);
    bbr.phase = phase;
    (bbr, Window::new(150.0 * MSS))
}

/// Returns an acknowledgement of a segment at 1 s, without losses, with this much in flight.
fn ack(in_flight: u64) -> Delivered {
    let sample = RateSample {
        rate: 1e6,
        delivered: 1_000,
        in_flight: 100_000,
        total: 500_000,
        ..RateSample::default()
    };
    Delivered {
        now: at(1_000),
        sample,
        newly: 1_000,
        in_flight,
        recovering: false,
        smoothed_rtt: MS(100),
    }
}

#[track_caller]
fn assert_close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6 * expected.abs().max(1.0), "{value} for {expected}");
}

/// Section 5.6.2: 2.77 initial windows in a round trip, or in a millisecond while none is known.
#[test]
fn pacing_begins_with_the_initial_window() {
    for (smoothed, rate) in [(MS(100), 277_000.0), (Duration::ZERO, 27_700_000.0)] {
        let (mut bbr, _) = steady(BbrPhase::Startup);
        bbr.init_pacing_rate(smoothed);
        assert_close(bbr.pacing_rate.unwrap(), rate);
    }
}

/// 1% less than gain times bandwidth; in Startup it does not fall, and nothing is not a rate.
#[test]
fn pacing_follows_the_bandwidth() {
    for (reached, bandwidth, before, after) in [
        (true, 1e6, 2e6, 1.2375e6),
        (false, 1e6, 2e6, 2e6),
        (false, 1e6, 1e6, 1.2375e6),
        (true, 0.0, 2e6, 2e6),
    ] {
        let (mut bbr, _) = steady(BbrPhase::Up);
        (bbr.full_pipe.reached, bbr.bandwidth) = (reached, bandwidth);
        bbr.pacing_rate = Some(before);
        bbr.set_pacing_rate();
        assert_close(bbr.pacing_rate.unwrap(), after);
    }
}

/// Sections 5.6.3 and 5.6.4.2, with three quanta of two segments; and 15% headroom, but a segment.
#[test]
fn amounts_in_flight() {
    let (mut bbr, _) = steady(BbrPhase::Cruise);
    assert_eq!([1.0, 2.0].map(|gain| bbr.bdp(gain)), [100_000.0, 200_000.0]);
    assert_eq!([5e3, 6_001.0].map(|amount| bbr.quantised(amount)), [6_000.0, 6_001.0]);
    assert!(bbr.with_headroom().is_infinite());
    for (bound, rest) in [(100e3, 85e3), (6_000.0, 5_000.0), (4_500.0, 4_000.0)] {
        bbr.inflight_longterm = bound;
        assert_close(bbr.with_headroom(), rest);
    }
    assert_eq!(bbr.probe_rtt_window(), 50_000.0);
    bbr.phase = BbrPhase::Up;
    assert_eq!([5e3, 1e5].map(|amount| bbr.quantised(amount)), [8_000.0, 102_000.0]);
    bbr.bandwidth = 10_000.0;
    assert_eq!(bbr.probe_rtt_window(), 4_000.0);
    bbr.min_rtt = MinRtt::new();
    assert_eq!([1.0, 2.0].map(|gain| bbr.bdp(gain)), [10_000.0, 10_000.0]);
}

/// Section 5.6.4.6: phase, whether the pipe was full, delivered in all, window, and the window
/// after 1000 bytes more.
#[test]
fn the_window_grows_by_what_is_acknowledged() {
    use BbrPhase::*;
    for (phase, full, total, before, after) in [
        (Cruise, true, 500_000, 150_000.0, 151_000.0),
        (Cruise, true, 500_000, 199_500.0, 200_000.0),
        (Cruise, true, 500_000, 230_000.0, 200_000.0),
        (Up, true, 500_000, 230_000.0, 227_000.0),
        (Startup, false, 500_000, 199_999.0, 200_999.0),
        (Startup, false, 500_000, 200_000.0, 200_000.0),
        (Startup, false, 10_000, 250_000.0, 250_000.0),
        (Startup, false, 9_999, 250_000.0, 251_000.0),
        (Cruise, true, 500_000, 1_000.0, 4_000.0),
        (PROBE_RTT, true, 500_000, 80_000.0, 50_000.0),
        (PROBE_RTT, true, 500_000, 30_000.0, 31_000.0),
    ] {
        let (mut bbr, mut window) = steady(phase);
        bbr.full_pipe.reached = full;
        window.cwnd = before;
        let mut ack = ack(0);
        ack.sample.total = total;
        bbr.set_window(&mut window, &ack);
        assert_eq!(window.cwnd, after, "{phase:?} {total} {before}");
    }
}

/// Section 5.6.4.7: phase, long-term and short-term bound, and the window of 151,000 bytes.
#[test]
fn bounds_limit_the_window() {
    use BbrPhase::*;
    let none = f64::INFINITY;
    for (phase, long_term, short_term, after) in [
        (Down, 120_000.0, none, 120_000.0),
        (Refill, 120_000.0, none, 120_000.0),
        (Up, 120_000.0, none, 120_000.0),
        (Cruise, 120_000.0, none, 102_000.0),
        (Startup, 120_000.0, none, 151_000.0),
        (Drain, 120_000.0, none, 151_000.0),
        (PROBE_RTT, 40_000.0, none, 34_000.0),
        (Cruise, none, 90_000.0, 90_000.0),
        (Drain, none, 90_000.0, 90_000.0),
        (Down, 2_000.0, 90_000.0, 4_000.0),
    ] {
        let (mut bbr, mut window) = steady(phase);
        (bbr.inflight_longterm, bbr.short_term.inflight) = (long_term, short_term);
        bbr.set_window(&mut window, &ack(0));
        assert_eq!(window.cwnd, after, "{phase:?}");
    }
}

/// Section 5.5.9, at 1000 bytes a second: what arrives beyond that since the delivery was last
/// behind, in two halves of five round trips.
#[test]
fn extra_data_is_what_exceeds_the_bandwidth() {
    let mut extra = Aggregation::default();
    extra.restart(at(0));
    for (ms, newly, window, round, expected) in [
        (1_000, 1_500, 1e4, 0, 1_500.0),     // behind until now
        (2_000, 500, 1e4, 1, 1_500.0),       // 1000 more than expected
        (2_000, 1_000, 1e4, 4, 2_000.0),     // 3000 for 1000
        (4_000, 500, 1e4, 5, 2_000.0),       // 3500 for 3000, in the next half
        (4_000, 4_000, 1_200.0, 9, 2_000.0), // 4500, but no more than the window
        (4_000, 0, 900.0, 10, 1_200.0),      // the first half is forgotten
        (4_000, 0, 0.0, 15, 900.0),
    ] {
        extra.update(&Delivered { now: at(ms), newly, ..ack(0) }, 1_000.0, window, round, 5);
        assert_eq!(extra.get(), expected, "at {ms} ms, round {round}");
    }
}

/// Section 5.3.1.3: in recovery, at the end of a round trip, with six losses and more than 2%.
#[test]
fn losses_end_startup() {
    type Change = fn(&mut Bbr, &mut Delivered);
    let lossy: Change = |bbr, ack| {
        ack.recovering = true;
        ack.sample.lost = 2_001;
        bbr.short_term.round_start = true;
        bbr.short_term.loss_events = 6;
    };
    let cases: [(&str, Change, Option<f64>); 7] = [
        ("as needed", |_, _| {}, Some(100_000.0)),
        ("more delivered", |bbr, _| bbr.short_term.latest_volume = 130_000.0, Some(130_000.0)),
        ("no recovery", |_, ack| ack.recovering = false, None),
        ("within a round trip", |bbr, _| bbr.short_term.round_start = false, None),
        ("five", |bbr, _| bbr.short_term.loss_events = 5, None),
        ("two per cent", |_, ack| ack.sample.lost = 2_000, None),
        ("another phase", |bbr, _| bbr.phase = BbrPhase::Up, None),
    ];
    for (case, change, bound) in cases {
        let (mut bbr, _) = steady(BbrPhase::Startup);
        bbr.full_pipe.reached = false;
        let mut ack = ack(100_000);
        lossy(&mut bbr, &mut ack);
        change(&mut bbr, &mut ack);
        bbr.check_startup_done(&ack);
        assert_eq!(bbr.full_pipe.reached, bound.is_some(), "{case}");
        assert_eq!(bbr.phase == BbrPhase::Drain, bound.is_some(), "{case}");
        assert_eq!(bbr.inflight_longterm, bound.unwrap_or(f64::INFINITY), "{case}");
        assert_eq!(bbr.drained_from, if bound.is_some() { 10 } else { 0 }, "{case}");
    }
    // A plateau ends it, too, and says nothing of losses.
    let (mut bbr, _) = steady(BbrPhase::Startup);
    let mut ack = ack(100_000);
    lossy(&mut bbr, &mut ack);
    bbr.check_startup_done(&ack);
    assert_eq!((bbr.phase, bbr.inflight_longterm), (BbrPhase::Drain, f64::INFINITY));
}

/// Section 5.3.2: until the bandwidth-delay product is in flight, or for more than three rounds.
#[test]
fn drain_ends_with_an_empty_queue_or_in_time() {
    for (in_flight, began, ends) in
        [(100_000, 10, true), (100_001, 10, false), (100_001, 7, false), (100_001, 6, true)]
    {
        let (mut bbr, _) = steady(BbrPhase::Drain);
        bbr.drained_from = began;
        bbr.check_drain_done(&ack(in_flight));
        assert_eq!(bbr.phase == BbrPhase::Down, ends, "{in_flight} since round {began}");
    }
    let (mut bbr, _) = steady(BbrPhase::Cruise);
    bbr.check_drain_done(&ack(0));
    assert_eq!(bbr.phase, BbrPhase::Cruise);
}

/// Section 5.3.3.9: what each phase begins with.
#[test]
fn phases_begin_as_the_draft_says() {
    let (mut bbr, _) = steady(BbrPhase::Up);
    bbr.short_term.latest_volume = 9.0;
    bbr.probe_per_segment = 5.0;
    bbr.start_down(at(70), 123);
    let mut random = Stream::new(1, "test");
    assert_eq!(bbr.rounds_since_probe, random.up_to(1));
    assert_close(bbr.probe_wait.as_secs_f64(), 2.0 + random.unit());
    assert_eq!((bbr.phase, bbr.ack_phase), (BbrPhase::Down, AckPhase::Stopping));
    assert_eq!((bbr.cycle_began, bbr.round_ends), (at(70), 123));
    assert_eq!((bbr.short_term.latest_volume, bbr.probe_per_segment), (0.0, f64::INFINITY));

    let (mut bbr, mut window) = steady(BbrPhase::Cruise);
    (bbr.short_term.bandwidth, bbr.short_term.inflight) = (5.0, 6.0);
    (bbr.probe_rounds, bbr.probe_acked, bbr.precautionary) = (4, 7.0, true);
    bbr.cycle_began = Time::ZERO;
    bbr.probe_wait = MS(999);
    bbr.advance_cycle(&ack(100_000), &window);
    assert_eq!((bbr.phase, bbr.ack_phase), (BbrPhase::Refill, AckPhase::Refilling));
    assert!(bbr.short_term.bandwidth.is_infinite() && bbr.short_term.inflight.is_infinite());
    assert_eq!((bbr.probe_rounds, bbr.probe_acked, bbr.precautionary), (0, 0.0, false));
    assert_eq!(bbr.round_ends, 500_000);

    bbr.advance_cycle(&ack(100_000), &window);
    assert_eq!((bbr.phase, bbr.probe_sample), (BbrPhase::Refill, false), "not within a round trip");
    bbr.round_start = true;
    bbr.full_pipe.now = true;
    bbr.round_ends = 0;
    bbr.advance_cycle(&ack(100_000), &window);
    assert_eq!((bbr.phase, bbr.ack_phase), (BbrPhase::Up, AckPhase::Starting));
    assert_eq!((bbr.probe_sample, bbr.full_pipe.now, bbr.round_ends), (true, false, 500_000));
    // The slope doubles with each round trip of a probe.
    assert_eq!((bbr.probe_rounds, bbr.probe_per_segment), (1, 150_000.0));
    for (round, slope) in [(2, 75_000.0), (3, 37_500.0), (4, 18_750.0)] {
        bbr.start_up(0, 1e6, &window);
        assert_eq!((bbr.probe_rounds, bbr.probe_per_segment), (round, slope));
    }
    window.cwnd = 8.0 * MSS;
    bbr.start_up(0, 1e6, &window);
    assert_eq!(bbr.probe_per_segment, 1_000.0);
    (0..40).for_each(|_| bbr.start_up(0, 1e6, &window));
    assert_eq!(bbr.probe_rounds, 30);
}

/// Section 5.3.3.8: after the time that was drawn, 2.5 s; or after as many rounds as there are
/// segments in flight, at most 63.
#[test]
fn a_probe_is_due_in_time_or_as_often_as_renos() {
    for (began, now, cwnd, rounds, due) in [
        (0, 2_500, 150, 0, false),
        (0, 2_501, 150, 0, true),
        (500, 3_000, 150, 0, false),
        (0, 0, 150, 62, false),
        (0, 0, 150, 63, true),
        (0, 0, 20, 19, false),
        (0, 0, 20, 20, true),
    ] {
        for phase in [BbrPhase::Down, BbrPhase::Cruise] {
            let (mut bbr, mut window) = steady(phase);
            bbr.cycle_began = at(began);
            bbr.rounds_since_probe = rounds;
            window.cwnd = cwnd as f64 * MSS;
            // Too much is in flight for Cruise.
            bbr.advance_cycle(&Delivered { now: at(now), ..ack(200_000) }, &window);
            let expected = if due { BbrPhase::Refill } else { phase };
            assert_eq!(bbr.phase, expected, "{began} {now} {cwnd} {rounds}");
        }
    }
}

/// Section 5.3.3.9: headroom below the long-term bound, and an empty queue.
#[test]
fn down_ends_with_room_and_an_empty_queue() {
    for (bound, in_flight, ends) in [
        (f64::INFINITY, 100_000, true),
        (f64::INFINITY, 100_001, false),
        (100_000.0, 85_000, true),
        (100_000.0, 85_001, false),
    ] {
        let (mut bbr, window) = steady(BbrPhase::Down);
        bbr.inflight_longterm = bound;
        let mut ack = ack(in_flight);
        ack.sample.in_flight = 0;
        bbr.advance_cycle(&ack, &window);
        assert_eq!(bbr.phase == BbrPhase::Cruise, ends, "{bound} {in_flight}");
    }
    let (mut bbr, window) = steady(BbrPhase::Down);
    bbr.full_pipe.reached = false;
    bbr.advance_cycle(&ack(0), &window);
    assert_eq!(bbr.phase, BbrPhase::Down, "no cycle before the pipe was full");
}

/// Section 5.3.3.9: a probe ends at a plateau, or early if the last one lost too much; but not
/// while the bound limits it.
#[test]
fn a_probe_ends_at_a_plateau_or_early() {
    // Plateau, last probe too high, in flight, round trips since the window was full, window.
    for (plateau, high, in_flight, full, cwnd, ends, early) in [
        (true, false, 90_000, None, 150_000.0, true, false),
        (false, false, 90_000, None, 150_000.0, false, false),
        (true, false, 90_000, Some(0), 150_000.0, false, false),
        (true, false, 90_000, Some(1), 100_000.0, false, false),
        (true, false, 90_000, Some(2), 150_000.0, true, false),
        (true, false, 90_000, Some(0), 99_999.0, true, false),
        (false, true, 100_000, None, 150_000.0, true, true),
        (false, true, 99_999, None, 150_000.0, false, false),
    ] {
        let (mut bbr, mut window) = steady(BbrPhase::Up);
        (bbr.full_pipe.now, bbr.too_high, bbr.inflight_longterm) = (plateau, high, 100_000.0);
        bbr.window_full = full.map(|ago| bbr.round - ago);
        window.cwnd = cwnd;
        let mut ack = ack(in_flight);
        ack.sample.in_flight = 0;
        // Losses, so that the bound does not grow.
        ack.sample.lost = 1;
        bbr.advance_cycle(&ack, &window);
        let case = (plateau, high, in_flight, full, cwnd);
        assert_eq!(bbr.phase == BbrPhase::Down, ends, "{case:?}");
        assert_eq!((bbr.precautionary, bbr.too_high), (early, high && !ends), "{case:?}");
        if !ends {
            assert!(!bbr.full_pipe.now, "{case:?}");
        }
    }
}

/// Section 5.5.10.1: the bound grows by a segment for each 5000 bytes that are acknowledged while
/// it limits the sender.
#[test]
fn the_long_term_bound_grows_with_a_probe() {
    for (full, cwnd, expected) in [
        (Some(10), 100_000.0, [0.0, 0.0, 0.0, 0.0, 1_000.0, 1_000.0]),
        (Some(10), 99_999.0, [0.0; 6]),
        (None, 100_000.0, [0.0; 6]),
    ] {
        let (mut bbr, mut window) = steady(BbrPhase::Up);
        (bbr.window_full, bbr.inflight_longterm) = (full, 100_000.0);
        bbr.probe_per_segment = 5_000.0;
        window.cwnd = cwnd;
        for growth in expected {
            window.cwnd += if cwnd == 100_000.0 { growth } else { 0.0 };
            bbr.advance_cycle(&ack(90_000), &window);
            assert_eq!(bbr.inflight_longterm, 100_000.0 + growth, "{full:?} {cwnd}");
        }
    }
    // At the end of a round trip the slope doubles: from 100,000 to 50,000 bytes.
    let (mut bbr, mut window) = steady(BbrPhase::Up);
    (bbr.window_full, bbr.inflight_longterm) = (Some(10), 100_000.0);
    (bbr.round_start, bbr.probe_rounds) = (true, 1);
    window.cwnd = 100_000.0;
    bbr.advance_cycle(&ack(90_000), &window);
    assert_eq!((bbr.probe_rounds, bbr.probe_per_segment), (2, 50_000.0));
    // In other phases it is what was in flight without too much loss.
    for (in_flight, lost, expected) in
        [(120_000, 2_400, 120_000.0), (120_000, 2_401, 100_000.0), (90_000, 0, 100_000.0)]
    {
        let (mut bbr, window) = steady(BbrPhase::Cruise);
        bbr.inflight_longterm = 100_000.0;
        let mut ack = ack(90_000);
        (ack.sample.in_flight, ack.sample.lost) = (in_flight, lost);
        bbr.advance_cycle(&ack, &window);
        assert_eq!(bbr.inflight_longterm, expected);
    }
}

/// Section 5.5.10.1: what acknowledgements of a probe mean changes with the round trip.
#[test]
fn acknowledgements_belong_to_parts_of_a_probe() {
    for (round_start, before, after) in [
        (false, AckPhase::Starting, AckPhase::Starting),
        (true, AckPhase::Starting, AckPhase::Feedback),
        (false, AckPhase::Stopping, AckPhase::Stopping),
        (true, AckPhase::Stopping, AckPhase::Init),
        (true, AckPhase::Refilling, AckPhase::Refilling),
    ] {
        let (mut bbr, window) = steady(BbrPhase::Cruise);
        (bbr.round_start, bbr.ack_phase, bbr.probe_sample) = (round_start, before, true);
        bbr.advance_cycle(&ack(90_000), &window);
        assert_eq!(bbr.ack_phase, after);
        assert_eq!(bbr.probe_sample, after != AckPhase::Init);
    }
    // The end of a probe is that of a cycle of the bandwidth, if it was one.
    for (phase, app_limited, second) in
        [(BbrPhase::Cruise, false, 5e5), (BbrPhase::Cruise, true, 1e6), (PROBE_RTT, false, 1e6)]
    {
        let (mut bbr, window) = steady(phase);
        (bbr.round_start, bbr.ack_phase) = (true, AckPhase::Stopping);
        let mut ack = ack(90_000);
        ack.sample.app_limited = app_limited;
        bbr.advance_cycle(&ack, &window);
        bbr.max_bandwidth.update(5e5, false);
        bbr.max_bandwidth.advance();
        assert_eq!(bbr.max_bandwidth.get(), second, "{phase:?} {app_limited}");
    }
    // A probe that ended early is made again if it did not lose too much.
    for (precautionary, too_high, again) in
        [(true, false, true), (true, true, false), (false, false, false)]
    {
        let (mut bbr, window) = steady(BbrPhase::Down);
        (bbr.round_start, bbr.ack_phase) = (true, AckPhase::Stopping);
        (bbr.precautionary, bbr.too_high) = (precautionary, too_high);
        bbr.advance_cycle(&ack(200_000), &window);
        let expected = if again { BbrPhase::Refill } else { BbrPhase::Down };
        assert_eq!(bbr.phase, expected, "{precautionary} {too_high}");
    }
}

/// Section 5.5.10.2: no less than 0.7 of what the path or the window holds, here 80,000 bytes.
#[test]
fn a_probe_that_lost_too_much_lowers_the_bound() {
    for (phase, in_flight, app_limited, bound, after) in [
        (BbrPhase::Up, 50_000.0, false, 56_000.0, BbrPhase::Down),
        (BbrPhase::Up, 70_000.0, true, 99_000.0, BbrPhase::Down),
        (BbrPhase::Cruise, 70_000.0, false, 70_000.0, BbrPhase::Cruise),
    ] {
        let (mut bbr, mut window) = steady(phase);
        window.cwnd = 80_000.0;
        (bbr.inflight_longterm, bbr.probe_sample) = (99_000.0, true);
        bbr.handle_too_high(&window, (at(9), 77), in_flight, app_limited);
        assert_close(bbr.inflight_longterm, bound);
        assert_eq!((bbr.phase, bbr.too_high, bbr.probe_sample), (after, true, false));
    }
}

/// Section 5.3.4.3: ProbeRTT waits until half of the bandwidth-delay product is in flight, then
/// lasts 200 ms and a round trip, and ends with the window before.
#[test]
fn probe_rtt_lasts_200_ms_and_a_round_trip() {
    let (mut bbr, mut window) = steady(BbrPhase::Cruise);
    let ack_at = |ms, in_flight| Delivered { now: at(ms), ..ack(in_flight) };
    assert!(!bbr.check_probe_rtt(&ack_at(0, 90_000), &mut window, false));
    assert_eq!(bbr.phase, BbrPhase::Cruise);
    assert!(bbr.check_probe_rtt(&ack_at(1_000, 50_001), &mut window, true));
    assert_eq!((bbr.phase, bbr.ack_phase), (PROBE_RTT, AckPhase::Stopping));
    assert_eq!((bbr.prior_window, bbr.round_ends), (150_000.0, 500_000));
    window.cwnd = 50_000.0;
    bbr.round_ends = 0;
    let probing = |round_done| BbrPhase::ProbeRtt { until: Some(at(1_300)), round_done };
    assert!(bbr.check_probe_rtt(&ack_at(1_100, 50_000), &mut window, true));
    assert_eq!((bbr.phase, bbr.round_ends), (probing(false), 500_000));
    assert_eq!(bbr.prior_window, 150_000.0, "only at its begin");
    assert!(bbr.check_probe_rtt(&ack_at(1_301, 50_000), &mut window, false));
    assert_eq!(bbr.phase, probing(false), "the round trip is not over");
    bbr.round_start = true;
    assert!(bbr.check_probe_rtt(&ack_at(1_300, 50_000), &mut window, false));
    assert_eq!(bbr.phase, probing(true), "200 ms are not over");
    bbr.round_start = false;
    (bbr.short_term.bandwidth, bbr.short_term.inflight) = (5.0, 6.0);
    assert!(bbr.check_probe_rtt(&ack_at(1_301, 50_000), &mut window, false));
    assert_eq!((bbr.phase, bbr.cycle_began), (BbrPhase::Cruise, at(1_301)));
    assert_eq!(window.cwnd, 150_000.0);
    assert!(bbr.short_term.bandwidth.is_infinite() && bbr.short_term.inflight.is_infinite());
    // The next one is due five seconds later.
    assert!(!bbr.min_rtt.update(at(6_301), None));
    assert!(bbr.min_rtt.update(at(6_302), None));
}

#[test]
fn probe_rtt_begins_and_ends_elsewhere() {
    // In recovery the window before it is kept.
    let (mut bbr, mut window) = steady(BbrPhase::Cruise);
    bbr.prior_window = 170_000.0;
    let recovering = Delivered { recovering: true, ..ack(90_000) };
    assert!(bbr.check_probe_rtt(&recovering, &mut window, true));
    assert_eq!(bbr.prior_window, 170_000.0);
    // After a pause the queue is empty anyway.
    let (mut bbr, mut window) = steady(BbrPhase::Cruise);
    bbr.idle_restart = true;
    let mut nothing = ack(90_000);
    nothing.sample.delivered = 0;
    assert!(!bbr.check_probe_rtt(&nothing, &mut window, true));
    assert!(bbr.idle_restart);
    assert!(!bbr.check_probe_rtt(&ack(90_000), &mut window, true));
    assert!(!bbr.idle_restart);
    // Before the pipe was full, Startup goes on.
    let (mut bbr, mut window) = steady(BbrPhase::ProbeRtt { until: Some(at(5)), round_done: true });
    bbr.full_pipe.reached = false;
    bbr.check_probe_rtt_done(&mut window, at(5), 0);
    assert!(matches!(bbr.phase, BbrPhase::ProbeRtt { .. }));
    bbr.check_probe_rtt_done(&mut window, at(6), 0);
    assert_eq!(bbr.phase, BbrPhase::Startup);
}

/// Section 5.4.1: a probe for bandwidth goes on at the bandwidth; the others at their rates.
#[test]
fn a_restart_from_idle_paces_at_the_bandwidth() {
    use BbrPhase::*;
    for (phase, rate, after) in [
        (Down, 990_000.0, Down),
        (Cruise, 990_000.0, Cruise),
        (Refill, 990_000.0, Refill),
        (Up, 990_000.0, Up),
        (Startup, 5.0, Startup),
        (Drain, 5.0, Drain),
        (ProbeRtt { until: Some(at(8)), round_done: false }, 5.0, Cruise),
    ] {
        let (mut bbr, mut window) = steady(phase);
        bbr.pacing_rate = Some(5.0);
        bbr.on_restart(&mut window, at(9), 0);
        assert_eq!((bbr.phase, bbr.idle_restart), (after, true));
        assert_close(bbr.pacing_rate.unwrap(), rate);
    }
}

/// Section 5.6.4.4: of one recovery in another, and of one in ProbeRTT, the larger window.
#[test]
fn recovery_saves_the_window() {
    for (phase, recovering, before, saved) in [
        (BbrPhase::Cruise, false, 170_000.0, 150_000.0),
        (BbrPhase::Cruise, true, 170_000.0, 170_000.0),
        (BbrPhase::Cruise, true, 90_000.0, 150_000.0),
        (PROBE_RTT, false, 170_000.0, 170_000.0),
    ] {
        let (mut bbr, mut window) = steady(phase);
        bbr.prior_window = before;
        bbr.on_recovery(&window, recovering);
        assert_eq!(bbr.prior_window, saved);
        window.cwnd = 4_000.0;
        bbr.on_recovered(&mut window);
        assert_eq!(window.cwnd, saved);
    }
}

/// Section 5.5.10.3: a probe expects losses, and its bounds stay as they are.
#[test]
fn losses_lower_short_term_bounds_except_while_probing() {
    use BbrPhase::*;
    for (phase, lowered) in [
        (Startup, false),
        (Refill, false),
        (Up, false),
        (Drain, true),
        (Down, true),
        (Cruise, true),
        (PROBE_RTT, true),
    ] {
        let (mut bbr, window) = steady(phase);
        bbr.short_term.note_loss(0);
        bbr.short_term.round_start = true;
        bbr.adapt_to_loss(window.cwnd);
        // Nothing was delivered in the round trip: 0.7 of the bandwidth and of the window.
        let expected = if lowered { (7e5, 105_000.0) } else { (f64::INFINITY, f64::INFINITY) };
        assert_close(bbr.short_term.bandwidth.min(1e9), expected.0.min(1e9));
        assert_close(bbr.short_term.inflight.min(1e9), expected.1.min(1e9));
    }
}

/// Section 5.5.1: a round trip ends with data that was sent after its begin was delivered.
#[test]
fn round_trips_are_counted_by_packets() {
    let (mut bbr, _) = steady(BbrPhase::Cruise);
    bbr.round_ends = 0;
    for (prior_delivered, total, starts, round) in
        [(0, 3_000, true, 11), (2_999, 5_000, false, 11), (3_000, 6_000, true, 12)]
    {
        bbr.update_round(&RateSample { prior_delivered, total, ..RateSample::default() });
        assert_eq!((bbr.round_start, bbr.round), (starts, round));
    }
    assert_eq!((bbr.round_ends, bbr.rounds_since_probe), (6_000, 2));
    for (ago, limited) in [(None, false), (Some(0), true), (Some(1), true), (Some(2), false)] {
        bbr.window_full = ago.map(|ago| bbr.round - ago);
        assert_eq!(bbr.is_window_limited(), limited);
    }
    bbr.on_window_full();
    assert_eq!(bbr.window_full, Some(12));
}
