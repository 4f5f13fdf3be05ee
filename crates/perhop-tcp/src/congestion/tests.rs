//! Growth and reductions by hand and by theory.

use super::*;

pub(super) mod path;

const MSS: f64 = 1000.0;

fn cubic(reno_friendly: bool) -> Congestion {
    Congestion::cubic(CubicConfig { hystart: HyStartKind::None, reno_friendly, linux: false })
}

fn flight(bytes: f64) -> DecreaseFrom {
    DecreaseFrom::Flight(bytes)
}

fn acked(bytes: u64, millis: u64) -> Acked {
    Acked {
        now: Time::ZERO + Duration::from_millis(millis),
        bytes,
        smoothed_rtt: Duration::from_millis(100),
        rtt: None,
        ack: 0,
        end: 0,
        limited: true,
        stretched: false,
        bytewise: false,
    }
}

#[test]
fn slow_start_doubles_a_round_trip_whether_acks_are_delayed_or_not() {
    for segments_an_ack in [1, 2] {
        let mut window = Window::new(10.0 * MSS);
        for _ in 0..10 / segments_an_ack {
            Congestion::Reno.on_ack(&mut window, MSS, acked(segments_an_ack * 1000, 0));
        }
        assert_eq!(window.cwnd, 20.0 * MSS);
    }
}

/// tcp_slow_start: all acknowledged bytes count, up to the threshold.
#[test]
fn linux_doubles_its_window_though_acknowledgements_are_stretched() {
    let mut window = Window { cwnd: 10.0 * MSS, ssthresh: 25.0 * MSS };
    let stretched = Acked { stretched: true, ..acked(10_000, 0) };
    Congestion::Reno.on_ack(&mut window, MSS, stretched);
    assert_eq!(window.cwnd, 20.0 * MSS);
    Congestion::Reno.on_ack(&mut window, MSS, stretched);
    assert_eq!(window.cwnd, 25.0 * MSS);
}

/// RFC 5681, section 3.1: the window grows by a segment for every window of bytes, in whole
/// segments. As many acknowledgements as the window has segments are a round trip.
#[test]
fn reno_grows_by_a_segment_for_a_window_of_segments() {
    let mut window = Window { cwnd: 5.0 * MSS, ssthresh: 5.0 * MSS };
    for segments in 5..50_u32 {
        assert!((window.cwnd / MSS - f64::from(segments)).abs() < 1e-6, "{}", window.cwnd);
        (0..segments).for_each(|_| Congestion::Reno.on_ack(&mut window, MSS, acked(1000, 0)));
    }
}

/// Only the model sets the window, also in Startup, which has no threshold.
#[test]
fn slow_start_is_not_a_models() {
    let random = || Stream::new(1, "test");
    for mut model in [Congestion::bbr(random()), Congestion::bbr1(random())] {
        let mut window = Window::new(10.0 * MSS);
        model.on_ack(&mut window, MSS, acked(2000, 1));
        assert_eq!(window, Window::new(10.0 * MSS));
    }
}

#[test]
fn reno_adds_a_segment_a_round_trip_and_halves() {
    let mut window = Window { cwnd: 20.0 * MSS, ssthresh: 20.0 * MSS };
    for _ in 0..20 {
        Congestion::Reno.on_ack(&mut window, MSS, acked(1000, 0));
    }
    assert!((window.cwnd / MSS - 21.0).abs() < 0.05, "{window:?}");
    Congestion::Reno.on_loss(&mut window, MSS, flight(21.0 * MSS));
    assert_eq!((window.cwnd, window.ssthresh), (10.5 * MSS, 10.5 * MSS));
    Congestion::Reno.on_loss(&mut window, MSS, flight(3.0 * MSS));
    assert_eq!(window.ssthresh, 2.0 * MSS);
    // Linux: ⌊10 / 2⌋ and ⌊11 · 717 / 1024⌋ segments, whatever is in flight.
    window.cwnd = 10.9 * MSS;
    Congestion::Reno.on_loss(&mut window, MSS, DecreaseFrom::Window);
    assert_eq!((window.cwnd, window.ssthresh), (5.0 * MSS, 5.0 * MSS));
    window.cwnd = 11.9 * MSS;
    let config = CubicConfig { hystart: HyStartKind::None, reno_friendly: true, linux: true };
    Congestion::cubic(config).on_loss(&mut window, MSS, DecreaseFrom::Window);
    assert_eq!((window.cwnd, window.ssthresh), (7.0 * MSS, 7.0 * MSS));
}

/// RFC 9438, equation 2: the window is back at its old maximum after K seconds.
#[test]
fn cubic_returns_to_its_maximum_after_k() {
    let mut cubic = cubic(true);
    let mut window = Window { cwnd: 1000.0 * MSS, ssthresh: 1.0 };
    cubic.on_loss(&mut window, MSS, flight(1000.0 * MSS));
    assert_eq!(window.cwnd, 700.0 * MSS);
    let k = (300.0_f64 / 0.4).cbrt();
    let mut passed = 0;
    while window.cwnd < 999.0 * MSS {
        passed += 1;
        assert!(passed < 20_000, "{window:?}");
        // A window's worth of acknowledgements every 100 ms, in slices of a millisecond.
        let bytes = window.cwnd / 100.0;
        cubic.on_ack(&mut window, MSS, acked(bytes as u64, passed));
    }
    // At 999 of 1000 segments the cubic is (1 / 0.4)^(1/3) = 1.36 s before its plateau.
    let expected = k - (1.0_f64 / 0.4).cbrt();
    let seconds = passed as f64 / 1000.0;
    assert!((seconds - expected).abs() < 0.3, "{seconds} s instead of {expected} s");
}

/// RFC 9438, section 4.3: at a short round-trip time CUBIC grows at least as Reno would.
#[test]
fn cubic_is_reno_friendly_on_short_paths() {
    let mut cubic = cubic(true);
    let mut window = Window { cwnd: 20.0 * MSS, ssthresh: 1.0 };
    cubic.on_loss(&mut window, MSS, flight(20.0 * MSS));
    for millis in 1..=200 {
        // A round trip of 1 ms.
        let acked =
            Acked { smoothed_rtt: Duration::from_millis(1), ..acked(window.cwnd as u64, millis) };
        cubic.on_ack(&mut window, MSS, acked);
    }
    // 3 (1 - 0.7) / (1 + 0.7) of a segment a round trip up to 20, then one.
    let rounds_to_prior = 6.0 / (0.9 / 1.7);
    let expected = 20.0 + (200.0 - rounds_to_prior);
    assert!((window.cwnd / MSS - expected).abs() < 3.0, "{window:?}, expected {expected}");
}

#[test]
fn cubic_is_cubic_on_short_paths_without_its_reno_friendly_region() {
    let mut cubic = cubic(false);
    let mut window = Window { cwnd: 20.0 * MSS, ssthresh: 1.0 };
    cubic.on_loss(&mut window, MSS, flight(20.0 * MSS));
    for millis in 1..=1000 {
        let acked =
            Acked { smoothed_rtt: Duration::from_millis(1), ..acked(window.cwnd as u64, millis) };
        cubic.on_ack(&mut window, MSS, acked);
    }
    // K is (6 / 0.4)^(1/3) seconds, of which one has passed.
    let expected = 20.0 - 0.4 * (15.0_f64.cbrt() - 1.0).powi(3);
    assert!((window.cwnd / MSS - expected).abs() < 0.01, "{window:?}, expected {expected}");
}

/// RFC 9438, sections 4.2 and 5.8: time in which the window is not used does not count.
#[test]
fn cubic_does_not_grow_by_time_in_which_its_window_was_not_used() {
    // Returns the window after two seconds of use with a pause of `pause` between them.
    let grown = |pause: u64| {
        let mut cubic = cubic(false);
        let mut window = Window { cwnd: 100.0 * MSS, ssthresh: 1.0 };
        cubic.on_loss(&mut window, MSS, flight(100.0 * MSS));
        for tenths in 0..20 + 10 * pause {
            let limited = !(10..10 + 10 * pause).contains(&tenths);
            let bytes = if limited { window.cwnd as u64 } else { 1000 };
            let acked = Acked { limited, ..acked(bytes, 100 * tenths) };
            cubic.on_ack(&mut window, MSS, acked);
        }
        window.cwnd / MSS
    };
    let (used, paused) = (grown(0), grown(60));
    assert!((paused - used).abs() < 0.01, "{paused} instead of {used} segments");
}

/// Fast convergence (RFC 9438, section 4.7): a flow with a loss before it was back at its old
/// maximum stores a lower one.
#[test]
fn cubic_releases_bandwidth_to_newcomers() {
    let mut cubic = Cubic::new(true);
    let _ = cubic.on_loss(100.0);
    assert_eq!(cubic.maximum, 100.0);
    let _ = cubic.on_loss(80.0);
    assert_eq!(cubic.maximum, 80.0 * 1.7 / 2.0);
}

/// RFC 3465, section 2.2: at most two segments an acknowledgement; in congestion avoidance all
/// that is acknowledged counts, in whole segments of the window or, for QUIC, in bytes.
#[test]
fn renos_growth_by_an_acknowledgement() {
    for (cwnd, bytes, limited, bytewise, after) in [
        (10_000.0, 1_999, true, false, 11_999.0),
        (10_000.0, 2_000, true, false, 12_000.0),
        (10_000.0, 9_000, true, false, 12_000.0),
        (10_000.0, 2_000, false, false, 10_000.0),
        (20_000.0, 5_000, true, false, 20_250.0),
        (20_800.0, 5_000, true, false, 21_050.0),
        (25_000.0, 5_000, true, true, 25_200.0),
        (25_600.0, 5_120, true, true, 25_800.0),
        (20_000.0, 5_000, false, false, 20_000.0),
    ] {
        let mut window = Window { cwnd, ssthresh: 20_000.0 };
        let acked = Acked { limited, bytewise, ..acked(bytes, 0) };
        Congestion::Reno.on_ack(&mut window, MSS, acked);
        assert_eq!(window, Window { cwnd: after, ssthresh: 20_000.0 }, "{cwnd} {bytes}");
    }
    // Less than a segment counts as one.
    let mut window = Window { cwnd: 500.0, ssthresh: 500.0 };
    Congestion::Reno.on_ack(&mut window, MSS, acked(500, 0));
    assert_eq!(window.cwnd, 1_000.0);
}

/// The field of data packets, the need for pacing, Prague's factor, and what Linux has.
#[test]
fn properties_of_each_control() {
    let random = || Stream::new(1, "test");
    let linux = |hystart| CubicConfig { hystart, reno_friendly: true, linux: true };
    let kind = |hystart| Some(LinuxKind::Cubic { reno_friendly: true, hystart });
    let cases = [
        (Congestion::Reno, Ecn::Ect0, false, None, Some(LinuxKind::Reno)),
        (cubic(true), Ecn::Ect0, false, None, None),
        (Congestion::cubic(linux(HyStartKind::None)), Ecn::Ect0, false, None, kind(false)),
        (Congestion::cubic(linux(HyStartKind::Linux)), Ecn::Ect0, false, None, kind(true)),
        (Congestion::cubic(linux(HyStartKind::PlusPlus)), Ecn::Ect0, false, None, None),
        (Congestion::ledbat(), Ecn::Ect0, false, None, None),
        (Congestion::dctcp(), Ecn::Ect0, false, None, None),
        (Congestion::prague(), Ecn::Ect1, true, Some(1.0), None),
        (Congestion::bbr(random()), Ecn::NotEct, true, None, None),
        (Congestion::bbr1(random()), Ecn::NotEct, true, None, None),
    ];
    for (mut control, ect, paced, factor, kind) in cases {
        let modelled = ect == Ecn::NotEct;
        assert_eq!((control.ect(), control.needs_pacing()), (ect, paced), "{control:?}");
        assert_eq!((control.pacing_factor(), control.linux()), (factor, kind), "{control:?}");
        assert_eq!((control.is_modelled(), control.model().is_some()), (modelled, modelled));
        assert_eq!(control.pacing_rate(), None);
        assert_eq!(control.before_loss().is_some(), matches!(control, Congestion::Cubic(_)));
    }
}

/// RFC 8257, section 3.3: alpha is 1 at first, so that a mark halves the window, of which two
/// segments stay; others answer as to a loss, by what was in flight.
#[test]
fn marks_reduce_the_window() {
    for (mut control, cwnd, after) in [
        (Congestion::dctcp(), 30_000.0, 15_000.0),
        (Congestion::dctcp(), 3_000.0, 2_000.0),
        (Congestion::Reno, 30_000.0, 10_000.0),
        (cubic(true), 30_000.0, 14_000.0),
        (Congestion::ledbat(), 30_000.0, 10_000.0),
    ] {
        let mut window = Window::new(cwnd);
        let at = Marked {
            now: Time::ZERO,
            ack: 0,
            end: 0,
            delivered: 1_000,
            marked: 1_000,
            smoothed_rtt: Duration::from_millis(100),
        };
        assert!(control.on_mark(&mut window, MSS, flight(20_000.0), at));
        assert_eq!(window, Window { cwnd: after, ssthresh: after }, "{control:?}");
    }
}

/// Settings of CUBIC without and with HyStart.
fn cubic_with(hystart: HyStartKind, linux: bool) -> Congestion {
    Congestion::cubic(CubicConfig { hystart, reno_friendly: true, linux })
}

/// RFC 9406, sections 4.2 and 4.3: eight segments for an acknowledgement in the first slow start,
/// and all with pacing; two in others (RFC 3465), also once a loss has ended the first.
#[test]
fn slow_starts_of_cubic() {
    for (hystart, paced, lost, ssthresh, growth) in [
        (HyStartKind::PlusPlus, false, false, f64::INFINITY, 8_000.0),
        (HyStartKind::PlusPlus, true, false, f64::INFINITY, 9_000.0),
        (HyStartKind::PlusPlus, false, false, 50_000.0, 2_000.0),
        (HyStartKind::PlusPlus, true, true, f64::INFINITY, 2_000.0),
        (HyStartKind::None, true, false, f64::INFINITY, 2_000.0),
        (HyStartKind::Linux, true, false, f64::INFINITY, 2_000.0),
    ] {
        let mut control = cubic_with(hystart, false);
        if paced {
            control.pace();
        }
        if lost {
            control.on_loss(&mut Window::new(10.0 * MSS), MSS, flight(10.0 * MSS));
        }
        let mut window = Window { cwnd: 20.0 * MSS, ssthresh };
        control.on_ack(&mut window, MSS, acked(9_000, 0));
        assert_eq!(window.cwnd - 20.0 * MSS, growth, "{hystart:?} {paced} {lost} {ssthresh}");
    }
}

/// Linux's HyStart stays for later slow starts: after a loss it knows the minimum round-trip time,
/// and after a timeout nothing but whether segments are paced.
#[test]
fn linux_hystart_survives_a_loss() {
    for paced in [false, true] {
        let mut control = cubic_with(HyStartKind::Linux, true);
        if paced {
            control.pace();
        }
        let begun = format!("{control:?}");
        let handshake = Acked { rtt: Some(Duration::from_millis(30)), ack: 1, ..acked(0, 0) };
        let mut window = Window::new(20.0 * MSS);
        control.on_ack(&mut window, MSS, handshake);
        assert_eq!(format!("{control:?}"), begun, "the handshake is no data");
        control.on_ack(&mut window, MSS, Acked { ack: 2, ..handshake });
        let hystart = |control: &Congestion| {
            let Congestion::Cubic(CubicState { slow_start, .. }) = control else { panic!("CUBIC") };
            format!("{slow_start:?}")
        };
        let known = hystart(&control);
        assert!(known.contains(&format!("paced: {paced}")), "{known}");
        control.on_loss(&mut window, MSS, flight(20.0 * MSS));
        assert_eq!(hystart(&control), known);
        control.on_timeout();
        assert_eq!(format!("{control:?}"), begun);
    }
    // RFC 9438, section 4.8: a timeout leaves no maximum.
    let mut control = cubic_with(HyStartKind::None, false);
    let mut window = Window { cwnd: 100.0 * MSS, ssthresh: 1.0 };
    control.on_loss(&mut window, MSS, flight(100.0 * MSS));
    control.on_timeout();
    let Congestion::Cubic(CubicState { growth: Growth::Rfc9438(cubic), .. }) = &control else {
        panic!("RFC 9438's CUBIC");
    };
    assert_eq!(cubic.maximum, 0.0);
}

/// RFC 7661, section 1, with every control.
#[test]
fn unused_windows_stay() {
    let random = || Stream::new(1, "test");
    for mut control in [
        Congestion::Reno,
        cubic_with(HyStartKind::None, false),
        cubic_with(HyStartKind::None, true),
        Congestion::dctcp(),
        Congestion::bbr(random()),
        Congestion::bbr1(random()),
    ] {
        for ssthresh in [f64::INFINITY, 1.0] {
            let mut window = Window { cwnd: 20.0 * MSS, ssthresh };
            control.on_ack(&mut window, MSS, Acked { limited: false, ..acked(9_000, 5) });
            assert_eq!(window.cwnd, 20.0 * MSS, "{control:?}");
        }
    }
}

/// RFC 5681, equation 4, and RFC 9438, section 4.6: half or seven tenths of the flight, or Linux's
/// 717 / 1024 of whole segments of the window; two segments at least. A model sets its own.
#[test]
fn losses_reduce_the_window() {
    let random = || Stream::new(1, "test");
    for (mut control, from, after) in [
        (Congestion::Reno, flight(9_000.0), 4_500.0),
        (Congestion::Reno, flight(3_999.0), 2_000.0),
        (Congestion::Reno, flight(4_002.0), 2_001.0),
        (Congestion::Reno, DecreaseFrom::Window, 15_000.0),
        (Congestion::ledbat(), flight(9_000.0), 4_500.0),
        (Congestion::dctcp(), flight(9_000.0), 4_500.0),
        (cubic_with(HyStartKind::None, false), flight(9_000.0), 6_300.0),
        (cubic_with(HyStartKind::None, true), flight(1_024.0 * 9.0), 717.0 * 9.0),
        (cubic_with(HyStartKind::None, true), DecreaseFrom::Window, 21_000.0), // 31 · 0.7002
        (Congestion::bbr(random()), flight(9_000.0), 31_500.0),
        (Congestion::bbr1(random()), flight(9_000.0), 31_500.0),
    ] {
        let mut window = Window { cwnd: 31_500.0, ssthresh: f64::INFINITY };
        control.on_loss(&mut window, MSS, from);
        assert_eq!(window.cwnd, after, "{control:?} {from:?}");
        let threshold = if control.is_modelled() { f64::INFINITY } else { after };
        assert_eq!(window.ssthresh, threshold, "{control:?} {from:?}");
    }
}
