//! The state machine and the control parameters by tables computed by hand from the draft.
//!
//! Unless a test says otherwise, the rate is 1 MB/s and the minimum round-trip time 40 ms, so that
//! the bandwidth-delay product is forty segments, and a burst has two.

use super::*;

const PROBE_RTT: Mode = Mode::ProbeRtt { until: None, round_done: false };

fn probing(until: u64, round_done: bool) -> Mode {
    Mode::ProbeRtt { until: Some(at(until)), round_done }
}

#[track_caller]
fn assert_close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6 * expected.abs().max(1.0), "{value} for {expected}");
}

/// Sections 4.1.1.1, 4.2.3.1 and 4.3.4.1: the gains of pacing and window.
#[test]
fn gains_are_those_of_the_draft() {
    let cases = [
        (Mode::Startup, 2.885, 2.885),
        (Mode::Drain, 1.0 / 2.885, 2.885),
        (Mode::ProbeBw(0), 1.25, 2.0),
        (Mode::ProbeBw(1), 0.75, 2.0),
        (Mode::ProbeBw(2), 1.0, 2.0),
        (Mode::ProbeBw(7), 1.0, 2.0),
        (PROBE_RTT, 1.0, 1.0),
    ];
    for (mode, pacing, window) in cases {
        let (bbr, _) = steady(mode);
        assert_eq!((bbr.pacing_gain(), bbr.window_gain()), (pacing, window), "{mode:?}");
    }
    // Linux: the rate of a policer is not probed.
    for (mode, pacing) in [(Mode::ProbeBw(0), 1.0), (Mode::ProbeBw(1), 1.0), (Mode::Startup, 2.885)]
    {
        let (mut bbr, _) = steady(mode);
        bbr.policed = policed();
        assert_eq!(bbr.pacing_gain(), pacing, "{mode:?}");
        assert_eq!(bbr.rate(), 10_000.0);
    }
}

/// Returns an acknowledgement after so many round trips of 100 ms, each of which delivers 1000
/// bytes and loses 300.
fn lossy(round: u64) -> Interval {
    Interval {
        at: at(100 * round),
        delivered: 1_000 * round,
        lost: 300 * round,
        round_start: true,
        lossy: true,
        app_limited: false,
    }
}

/// Returns a policer of 10 kB/s that was found in two intervals of four round trips: the first
/// begins with the first loss.
fn policed() -> Policed {
    let mut policed = Policed::default();
    (1..=7).for_each(|round| assert!(!policed.update(lossy(round), true)));
    assert_eq!(policed.rate(), None);
    policed.update(lossy(8), true);
    assert_eq!(policed.rate(), Some(10_000.0));
    policed
}

/// Each departs from the eight round trips of [`policed`] in one respect; the number of the round
/// trip in which the policer is found.
#[test]
fn what_ends_or_discards_an_interval() {
    type Change = fn(&mut Interval);
    let cases: [(&str, Change, Option<u64>); 8] = [
        ("as needed", |_| {}, Some(8)),
        // 50 of 256: 196 of 1000 are enough, 195 are not.
        ("just enough loss", |now| now.lost = 196 * (now.delivered / 1000), Some(8)),
        ("too little loss", |now| now.lost = 195 * (now.delivered / 1000), None),
        // The interval in which the application had no data is discarded; the next loss begins one.
        ("no data", |now| now.app_limited = now.delivered == 3_000, Some(11)),
        // The interval ends with the next loss, in round trip 5, and the second four later.
        ("late loss", |now| now.lossy = now.delivered != 4_000, Some(9)),
        // An interval has sixteen round trips at most: the first ends with the sixteenth, the
        // second four later; or it is discarded, and the loss in round trip 18 begins another.
        (
            "rare losses",
            |now| now.lossy = now.delivered < 2_000 || now.delivered >= 16_000,
            Some(20),
        ),
        ("too rare", |now| now.lossy = now.delivered < 2_000 || now.delivered >= 17_000, Some(25)),
        ("within a millisecond", |now| now.at = at(5), None),
    ];
    for (case, change, expected) in cases {
        let mut policed = Policed::default();
        let found = (1..40).find(|&round| {
            let mut now = lossy(round);
            change(&mut now);
            policed.update(now, true);
            policed.rate().is_some()
        });
        assert_eq!(found, expected, "{case}");
    }
    // The rates of two intervals differ by 500 B/s at most, or by an eighth of the first.
    for (first, second, alike) in [
        (1_000, 1_125, true),
        (1_000, 1_128, false),
        (1_000, 875, true),
        (1_000, 872, false),
        (100, 150, true),
        (100, 151, false),
    ] {
        let mut policed = Policed::default();
        let (mut delivered, mut lost) = (0, 0);
        for round in 0..8 {
            let volume = if round <= 3 { first } else { second };
            // An interval of 300 ms has three round trips beyond the one that begins it.
            (delivered, lost) = (delivered + volume, lost + volume);
            policed.update(Interval { delivered, lost, ..lossy(round) }, true);
        }
        assert_eq!(policed.rate().is_some(), alike, "{first} and {second}");
    }
}

/// Linux uses a policer's rate for 48 round trips of ProbeBW, and then begins its cycle anew.
#[test]
fn the_rate_of_a_policer_expires() {
    let (mut bbr, _) = steady(Mode::ProbeBw(3));
    bbr.policed = policed();
    bbr.delivered = (9_000, at(5_000));
    (0..47).for_each(|_| bbr.update_policed(true, false, false));
    (0..9).for_each(|_| bbr.update_policed(false, false, false));
    assert_eq!((bbr.rate(), bbr.phase_began), (10_000.0, at(0)));
    bbr.update_policed(true, false, false);
    assert_eq!((bbr.rate(), bbr.phase_began), (1e6, at(5_000)));
    // Round trips outside ProbeBW do not count.
    let (mut bbr, _) = steady(PROBE_RTT);
    bbr.policed = policed();
    (0..100).for_each(|_| bbr.update_policed(true, false, false));
    assert_eq!(bbr.rate(), 10_000.0);
}

/// Section 4.2.1: 2.885 initial windows in a round trip, less 1%, or in a millisecond while none
/// is known.
#[test]
fn pacing_begins_with_the_initial_window() {
    for (smoothed, rate) in [(MS(100), 285_615.0), (Duration::ZERO, 28_561_500.0)] {
        let (mut bbr, mut window) = steady(Mode::Startup);
        bbr.full_pipe = FullPipe::default();
        bbr.pacing_rate = None;
        let mut first = ack(1, 5_000);
        (first.smoothed_rtt, first.sample.rate) = (smoothed, 0.0);
        bbr.max_rate = MaxRate::default();
        bbr.on_ack(&mut window, first);
        assert_close(bbr.pacing_rate().unwrap(), rate);
        assert_eq!(bbr.delivered, (1_000_000, at(1)));
    }
}

/// 1% less than gain times rate; before the pipe was full it does not fall, and nothing is not a
/// rate.
#[test]
fn pacing_follows_the_rate() {
    for (reached, known, before, after) in [
        (true, true, 2e6, 1.2375e6),
        (false, true, 2e6, 2e6),
        (false, true, 1e6, 1.2375e6),
        (true, false, 2e6, 2e6),
    ] {
        let (mut bbr, _) = steady(Mode::ProbeBw(0));
        bbr.full_pipe.reached = reached;
        if !known {
            bbr.max_rate = MaxRate::default();
        }
        bbr.pacing_rate = Some(before);
        bbr.set_pacing_rate(1.25);
        assert_close(bbr.pacing_rate.unwrap(), after);
    }
}

/// Linux: whole segments in 2⁻¹⁰ s, at least two, or one below 1.2 Mbit/s; at most 65,535 bytes.
#[test]
fn bursts_have_whole_segments() {
    for (rate, segments) in
        [(149_999.0, 1.0), (150_000.0, 2.0), (3_071_999.0, 2.0), (3_072_000.0, 3.0), (1e9, 65.0)]
    {
        let (mut bbr, _) = steady(Mode::ProbeBw(2));
        bbr.pacing_rate = Some(rate);
        assert_eq!(bbr.burst(), segments * MSS, "{rate}");
    }
    // Three bursts more, in an even number of segments; two more while probing.
    for (mode, rate, segments) in [
        (Mode::ProbeBw(2), 1e6, 46.0),
        (Mode::ProbeBw(2), 1.000_01e6, 48.0),
        (Mode::ProbeBw(2), 1.05e6, 48.0),
        (Mode::ProbeBw(0), 1e6, 48.0),
        (Mode::Startup, 1e6, 46.0),
    ] {
        let (bbr, _) = steady(mode);
        assert_eq!(bbr.inflight(rate, 1.0), segments * MSS, "{mode:?} {rate}");
    }
    let (mut bbr, _) = steady(Mode::ProbeBw(2));
    bbr.min_rtt = None;
    assert_eq!(bbr.inflight(1e6, 2.0), 16.0 * MSS, "the initial window");
}

/// Section 4.2.3.6: mode, whether the pipe was full, delivered in all, window, and the window after
/// 1000 bytes more. The target of Startup is 2.885 · 40 segments and three bursts.
#[test]
fn the_window_grows_by_what_is_acknowledged() {
    for (mode, full, total, before, after) in [
        (Mode::ProbeBw(2), true, 500_000, 80_000.0, 81_000.0),
        (Mode::ProbeBw(2), true, 500_000, 85_500.0, 86_000.0),
        (Mode::ProbeBw(2), true, 500_000, 100_000.0, 86_000.0),
        (Mode::ProbeBw(2), true, 500_000, 1_000.0, 4_000.0),
        (Mode::Startup, false, 500_000, 121_999.0, 122_999.0),
        (Mode::Startup, false, 500_000, 122_000.0, 122_000.0),
        (Mode::Startup, false, 10_000, 130_000.0, 130_000.0),
        (Mode::Startup, false, 9_999, 130_000.0, 131_000.0),
        (PROBE_RTT, true, 500_000, 80_000.0, 4_000.0),
        (PROBE_RTT, true, 500_000, 2_000.0, 4_000.0),
    ] {
        let (mut bbr, mut window) = steady(mode);
        bbr.full_pipe.reached = full;
        window.cwnd = before;
        let mut ack = ack(1, 0);
        ack.sample.total = total;
        bbr.set_window(&mut window, &ack);
        assert_eq!(window.cwnd, after, "{mode:?} {total} {before}");
    }
}

/// Section 4.2.3.4: recovery, bytes lost, flight, window, and the window and recovery after.
#[test]
fn the_window_in_recovery() {
    use Recovery::*;
    let (conserving, later) = (Fast { conserving: true }, Fast { conserving: false });
    for (recovery, lost, in_flight, before, after, then) in [
        (Open, 5_000, 60_000, 80_000.0, 76_000.0, Open),
        (Open, 100_000, 60_000, 80_000.0, 4_000.0, Open),
        (Beginning, 0, 60_000, 80_000.0, 61_000.0, conserving),
        (Beginning, 1_000, 0, 80_000.0, 1_000.0, conserving),
        (conserving, 0, 60_000, 50_000.0, 61_000.0, conserving),
        (conserving, 2_000, 60_000, 70_000.0, 68_000.0, conserving),
        (conserving, 90_000, 0, 70_000.0, 1_000.0, conserving),
        (later, 0, 60_000, 50_000.0, 51_000.0, later),
        (Timeout, 0, 60_000, 1_000.0, 4_000.0, Timeout),
    ] {
        let (mut bbr, mut window) = steady(Mode::ProbeBw(2));
        (bbr.recovery, bbr.newly_lost, window.cwnd) = (recovery, lost, before);
        bbr.set_window(&mut window, &ack(1, in_flight));
        assert_eq!((window.cwnd, bbr.recovery), (after, then), "{recovery:?} {lost} {in_flight}");
        let begins = recovery == Beginning;
        assert_eq!(bbr.round_ends, if begins { 1_000_000 } else { u64::MAX });
    }
}

/// Linux adds what aggregated acknowledgements delivered beyond the rate once the pipe was full,
/// but no more than 100 ms of it.
#[test]
fn aggregation_adds_to_the_window() {
    for (extra, full, target) in
        [(30_000, true, 116_000.0), (200_000, true, 186_000.0), (30_000, false, 86_000.0)]
    {
        let (mut bbr, mut window) = steady(Mode::ProbeBw(2));
        bbr.aggregation.restart(at(0));
        let burst = Delivered { newly: extra, ..ack(0, 0) };
        bbr.aggregation.update(&burst, 1e6, 1e9, 0, 5);
        bbr.full_pipe.reached = full;
        (0..300).for_each(|_| bbr.set_window(&mut window, &ack(1, 0)));
        assert_eq!(window.cwnd, target, "{extra} {full}");
    }
}

/// Section 4.1.1.3: rate, limited by the application, data delivered before it was sent; then
/// whether a round trip starts, its number, and the greatest rate.
#[test]
fn samples_count_in_their_round_trips() {
    for (rate, limited, prior, starts, round, greatest) in [
        (2e6, false, 5_000, true, 1, 2e6),
        (2e6, false, 4_999, false, 0, 2e6),
        (0.0, false, 5_000, false, 0, 1e6),
        (0.9e6, true, 5_000, true, 1, 1e6),
        (1e6, true, 5_000, true, 1, 1e6),
        (3e6, true, 5_000, true, 1, 3e6),
    ] {
        let (mut bbr, _) = steady(Mode::ProbeBw(2));
        (bbr.round_ends, bbr.round_start) = (5_000, true);
        bbr.recovery = Recovery::Fast { conserving: true };
        let mut ack = ack(1, 0);
        (ack.sample.rate, ack.sample.app_limited) = (rate, limited);
        ack.sample.prior_delivered = prior;
        bbr.update_rate(&ack);
        assert_eq!((bbr.round_start, bbr.round), (starts, round), "{rate} {limited} {prior}");
        assert_eq!(bbr.recovery, Recovery::Fast { conserving: !starts });
        assert_eq!(bbr.round_ends, if starts { 1_000_000 } else { 5_000 });
        assert_eq!(bbr.max_rate.get(), greatest, "{rate} {limited} {prior}");
    }
    // A sample that the application limited does not stay for ten rounds if it is not the greatest.
    let (mut bbr, _) = steady(Mode::ProbeBw(2));
    let mut limited = ack(1, 0);
    (limited.sample.app_limited, limited.sample.rate, bbr.round) = (true, 0.5e6, 5);
    bbr.update_rate(&limited);
    bbr.max_rate.update(11, 0.1e6);
    assert_eq!(bbr.max_rate.get(), 0.1e6);
}

/// Section 4.3.4.3: a phase lasts longer than the minimum round-trip time.
#[test]
fn phases_last_a_round_trip() {
    for (place, in_flight, ms, ends) in [
        (0, 90_000, 40, false),
        (0, 90_000, 41, true),
        (1, 90_000, 40, false),
        (1, 90_000, 41, true),
        (2, 90_000, 40, false),
        (2, 90_000, 41, true),
        (7, 90_000, 41, true),
    ] {
        let (mut bbr, _) = steady(Mode::ProbeBw(place));
        bbr.phase_began = at(7);
        bbr.advance_cycle(&ack(7 + ms, in_flight));
        let after = if ends { ((place + 1) % 8, at(7 + ms)) } else { (place, at(7)) };
        assert_eq!((bbr.mode, bbr.phase_began), (Mode::ProbeBw(after.0), after.1));
    }
    let (mut bbr, _) = steady(Mode::Drain);
    bbr.advance_cycle(&ack(1_000, 0));
    assert_eq!(bbr.mode, Mode::Drain);
}

/// Sections 4.3.2.2 and 4.3.3: two round trips had no growth.
#[test]
fn startup_ends_with_a_full_pipe_and_drain_with_an_empty_queue() {
    for (mode, round_start, app_limited, in_flight, after) in [
        (Mode::Startup, true, false, 46_001, Some(Mode::Drain)),
        (Mode::Startup, false, false, 46_001, Some(Mode::Startup)),
        (Mode::Startup, true, true, 46_001, Some(Mode::Startup)),
        (Mode::Startup, true, false, 46_000, None),
        (Mode::Drain, false, false, 46_001, Some(Mode::Drain)),
        (Mode::Drain, false, false, 46_000, None),
        (Mode::ProbeBw(5), false, false, 10_000, Some(Mode::ProbeBw(5))),
    ] {
        let (mut bbr, _) = steady(mode);
        bbr.full_pipe = FullPipe::default();
        (0..3).for_each(|_| bbr.full_pipe.check(1e6));
        bbr.round_start = round_start;
        let mut ack = ack(33, in_flight);
        ack.sample.app_limited = app_limited;
        bbr.check_full_and_drained(&ack);
        match after {
            Some(after) => assert_eq!((bbr.mode, bbr.phase_began), (after, at(0))),
            None => {
                assert!(matches!(bbr.mode, Mode::ProbeBw(_)), "{:?}", bbr.mode);
                assert_eq!(bbr.phase_began, at(33));
            }
        }
    }
}

/// Section 4.3.5: time, sample, whether the sender was idle; then the minimum, its time, and
/// whether ProbeRTT begins.
#[test]
fn the_least_round_trip_is_valid_for_ten_seconds() {
    for (now, rtt, idle, least, since, begins) in [
        (10_000, Some(50), false, 40, 0, false),
        (10_000, Some(40), false, 40, 0, false),
        (10_000, Some(39), false, 39, 10_000, false),
        (10_001, Some(50), false, 50, 10_001, true),
        (10_001, None, false, 40, 0, true),
        (10_001, Some(50), true, 50, 10_001, false),
    ] {
        let (mut bbr, mut window) = steady(Mode::ProbeBw(2));
        window.cwnd = 80.0 * MSS;
        bbr.idle_restart = idle;
        let mut ack = ack(now, 80_000);
        ack.sample.rtt = rtt.map(MS);
        assert_eq!(bbr.update_min_rtt(&mut window, &ack), begins);
        assert_eq!(bbr.min_rtt, Some((MS(least), at(since))), "{now} {rtt:?}");
        assert_eq!(bbr.mode, if begins { PROBE_RTT } else { Mode::ProbeBw(2) });
        assert_eq!(bbr.prior_window, if begins { 80_000.0 } else { 0.0 });
        assert!(!bbr.idle_restart, "data was delivered");
    }
    let (mut bbr, mut window) = steady(Mode::ProbeBw(2));
    (bbr.min_rtt, bbr.idle_restart) = (None, true);
    assert_eq!(PathModel::min_rtt(&bbr), Duration::ZERO);
    let mut nothing = ack(10_001, 0);
    nothing.sample.delivered = 0;
    assert!(!bbr.update_min_rtt(&mut window, &nothing));
    assert_eq!((bbr.min_rtt, bbr.idle_restart), (Some((MS(50), at(10_001))), true));
}

/// Section 4.3.5: mode, start of a round trip, time, flight; and the mode after.
#[test]
fn probe_rtt_waits_for_its_flight_its_time_and_a_round_trip() {
    for (mode, round_start, now, in_flight, after) in [
        (PROBE_RTT, true, 100, 4_001, Some(PROBE_RTT)),
        (PROBE_RTT, true, 100, 4_000, Some(probing(300, false))),
        (probing(300, false), false, 301, 4_000, Some(probing(300, false))),
        (probing(300, false), true, 300, 4_000, Some(probing(300, true))),
        (probing(300, true), false, 300, 4_000, Some(probing(300, true))),
        (probing(300, true), false, 301, 4_000, None),
        (probing(300, false), true, 301, 9_000, None),
    ] {
        let (mut bbr, mut window) = steady(mode);
        window.cwnd = 4.0 * MSS;
        (bbr.round_start, bbr.prior_window) = (round_start, 70_000.0);
        assert!(bbr.update_min_rtt(&mut window, &ack(now, in_flight)));
        let case = (mode, round_start, now, in_flight);
        match after {
            Some(after) => {
                assert_eq!((bbr.mode, window.cwnd), (after, 4_000.0), "{case:?}");
                let began =
                    matches!((mode, after), (PROBE_RTT, Mode::ProbeRtt { until: Some(_), .. }));
                assert_eq!(bbr.round_ends, if began { 1_000_000 } else { u64::MAX });
            }
            None => {
                assert!(matches!(bbr.mode, Mode::ProbeBw(_)), "{case:?}");
                assert_eq!((window.cwnd, bbr.phase_began), (70_000.0, at(now)));
                assert_eq!(bbr.min_rtt, Some((MS(40), at(now))), "the next in ten seconds");
            }
        }
    }
    // Before the pipe was full, Startup goes on.
    let (mut bbr, mut window) = steady(probing(300, true));
    bbr.full_pipe.reached = false;
    bbr.check_probe_rtt_done(&mut window, at(301));
    assert_eq!(bbr.mode, Mode::Startup);
}

/// Section 4.2.3.4: of one recovery in another, and of one in ProbeRTT, the larger window.
#[test]
fn recovery_saves_the_window() {
    for (mode, recovering, before, saved) in [
        (Mode::ProbeBw(2), false, 90_000.0, 80_000.0),
        (Mode::ProbeBw(2), true, 90_000.0, 90_000.0),
        (Mode::ProbeBw(2), true, 70_000.0, 80_000.0),
        (PROBE_RTT, false, 90_000.0, 90_000.0),
    ] {
        let (mut bbr, mut window) = steady(mode);
        (bbr.prior_window, window.cwnd) = (before, 80_000.0);
        bbr.on_recovery(&window, recovering);
        let begun = if recovering { Recovery::Open } else { Recovery::Beginning };
        assert_eq!((bbr.prior_window, bbr.recovery), (saved, begun));
        window.cwnd = 4_000.0;
        bbr.recovery = Recovery::Timeout;
        bbr.on_recovered(&mut window);
        assert_eq!((window.cwnd, bbr.recovery), (saved, Recovery::Open));
    }
    // ProbeRTT in recovery keeps the window before that.
    for (recovery, saved) in [(Recovery::Open, 80_000.0), (Recovery::Timeout, 90_000.0)] {
        let (mut bbr, mut window) = steady(Mode::ProbeBw(2));
        (bbr.prior_window, window.cwnd, bbr.recovery) = (90_000.0, 80_000.0, recovery);
        bbr.update_min_rtt(&mut window, &ack(10_001, 80_000));
        assert_eq!(bbr.prior_window, saved);
    }
}

/// Linux: bbr_set_state. A timeout measures growth anew, and ends an interval of a policer as the
/// start of a round trip with losses.
#[test]
fn a_timeout_forgets_the_plateau() {
    let (mut bbr, _) = steady(Mode::Startup);
    bbr.full_pipe = FullPipe::default();
    (0..3).for_each(|_| bbr.full_pipe.check(1e6));
    bbr.on_timeout();
    assert_eq!(bbr.recovery, Recovery::Timeout);
    bbr.full_pipe.check(0.1e6);
    assert!(!bbr.full_pipe.reached, "growth from nothing");
    bbr.policed = Policed::default();
    for round in 1..=8 {
        assert_eq!(bbr.policed.rate(), None);
        bbr.delivered = (1_000 * round, at(100 * round));
        bbr.on_lost(&Window::new(0.0), at(0), lost(300), 0);
        bbr.on_timeout();
    }
    assert_eq!(bbr.policed.rate(), Some(10_000.0));
    assert_eq!((bbr.lost, bbr.newly_lost), (2_400, 2_400));
}

/// Linux: bbr_cwnd_event. The cycle goes on at the estimate, other modes at their rates.
#[test]
fn a_restart_from_idle_paces_at_the_rate() {
    for (mode, rate, stays) in [
        (Mode::ProbeBw(0), 990_000.0, true),
        (Mode::ProbeBw(1), 990_000.0, true),
        (Mode::Startup, 5.0, true),
        (Mode::Drain, 5.0, true),
        (probing(9, false), 5.0, true),
        (probing(8, false), 5.0, false),
    ] {
        let (mut bbr, mut window) = steady(mode);
        bbr.pacing_rate = Some(5.0);
        bbr.on_restart(&mut window, at(9), 0);
        assert_eq!((bbr.mode == mode, bbr.idle_restart), (stays, true), "{mode:?}");
        assert_close(bbr.pacing_rate.unwrap(), rate);
    }
    // What was delivered before the pause is no aggregation.
    let (mut bbr, mut window) = steady(Mode::ProbeBw(2));
    bbr.aggregation.update(&Delivered { newly: 1_000, ..ack(0, 0) }, 1e6, 1e9, 0, 5);
    bbr.on_restart(&mut window, at(500), 0);
    bbr.aggregation.update(&Delivered { newly: 1_000, ..ack(500, 0) }, 1e6, 1e9, 0, 5);
    assert_eq!(bbr.aggregation.get(), 2_000.0);
}
