//! Parts of the model, compared with the draft's and Linux's arithmetic.

mod path;
mod tables;

use super::*;
use crate::delivery::RateSample;

const MSS: f64 = 1000.0;
const MS: fn(u64) -> Duration = Duration::from_millis;

fn at(ms: u64) -> Time {
    Time::ZERO + MS(ms)
}

/// Returns a model with a rate of 1 MB/s (a segment a millisecond), a round trip of 40 ms and a
/// full pipe.
fn steady(mode: Mode) -> (Bbr1, Window) {
    let mut bbr = Bbr1::new(Stream::new(1, "test"));
    let window = Window::new(10.0 * MSS);
    bbr.begin(&window, MSS);
    bbr.max_rate.update(0, 1e6);
    bbr.min_rtt = Some((MS(40), at(0)));
    bbr.full_pipe.reached = true;
    bbr.pacing_rate = Some(1e6);
    bbr.round_ends = u64::MAX;
    bbr.mode = mode;
    (bbr, window)
}

/// Returns an acknowledgement of a segment.
fn ack(ms: u64, in_flight: u64) -> Delivered {
    let sample = RateSample {
        rate: 1e6,
        delivered: 40_000,
        total: 1_000_000,
        rtt: Some(MS(50)),
        ..RateSample::default()
    };
    let now = at(ms);
    Delivered { now, sample, newly: 1000, in_flight, recovering: false, smoothed_rtt: MS(50) }
}

fn lost(length: u64) -> LostSegment {
    LostSegment { length, in_flight: 0, lost: length, app_limited: false }
}

/// Section 4.1.1.5: a rate sample is valid in its round trip and in ten more.
#[test]
fn the_greatest_rate_is_that_of_ten_round_trips() {
    let mut rate = MaxRate::default();
    rate.update(3, 9.0);
    rate.update(4, 5.0);
    (5..=13).for_each(|round| rate.update(round, 1.0));
    assert_eq!(rate.get(), 9.0);
    rate.update(14, 1.0);
    assert_eq!(rate.get(), 5.0);
    rate.update(1000, 2.0);
    assert_eq!(rate.get(), 2.0);
}

/// Section 4.3.2.2.
#[test]
fn the_pipe_is_full_after_three_round_trips_without_growth() {
    let mut full = FullPipe::default();
    for rate in [100.0, 125.0, 156.25, 190.0, 195.0] {
        full.check(rate);
        assert!(!full.reached);
    }
    full.check(195.0);
    assert!(full.reached);
}

/// The target of section 4.2.3 with Linux's room for bursts: twice 40 segments of 1000 B, three
/// bursts of two segments (a millisecond at 1 MB/s is less than one), and two while probing.
#[test]
fn the_window_goes_to_twice_the_product_and_three_bursts() {
    for (mode, expected) in [(Mode::ProbeBw(2), 86.0), (Mode::ProbeBw(0), 88.0)] {
        let (mut bbr, mut window) = steady(mode);
        (0..100).for_each(|_| bbr.set_window(&mut window, &ack(1, 0)));
        assert_eq!(window.cwnd, expected * MSS);
    }
    let (bbr, _) = steady(Mode::ProbeBw(2));
    assert_eq!(bbr.inflight(1e6, 1.25), 56.0 * MSS);
    // 10 MB/s: nine segments in 1/1024 s, and an even number of segments in all.
    let (mut bbr, _) = steady(Mode::ProbeBw(2));
    bbr.pacing_rate = Some(10e6);
    assert_eq!(bbr.burst(), 9.0 * MSS);
    assert_eq!(bbr.inflight(10e6, 1.0), 428.0 * MSS);
}

/// Section 4.3.4.3: the flight and the time at which each phase ends.
#[test]
fn phases_of_the_cycle_end_as_they_should() {
    // Returns `true` if an acknowledgement `ms` after the phase began, with this many segments in
    // flight, ends the phase.
    let after = |place, ms, segments: u64, loss| {
        let (mut bbr, _) = steady(Mode::ProbeBw(place));
        bbr.newly_lost = loss;
        bbr.advance_cycle(&ack(ms, segments * 1000 - 1000 - loss));
        bbr.mode == Mode::ProbeBw((place + 1) % 8)
    };
    assert!(!after(0, 39, 80, 0), "not before a round trip");
    // The target is 58 (56, and two while probing), of which a burst of two is about to be sent.
    assert!(!after(0, 41, 55, 0));
    assert!(after(0, 41, 56, 0));
    assert!(after(0, 41, 45, 1000), "a loss ends it");
    assert!(!after(1, 39, 47, 0));
    assert!(after(1, 39, 46, 0), "drained");
    assert!(after(1, 41, 80, 0));
    assert!(!after(2, 39, 10, 0));
    assert!(after(7, 41, 80, 0));
}

/// Section 4.3.4.3: any phase but the draining one.
#[test]
fn a_cycle_begins_anywhere_but_where_it_drains() {
    let (mut bbr, _) = steady(Mode::Drain);
    let mut seen = [0; 8];
    for _ in 0..1000 {
        bbr.start_cycle(at(0));
        let Mode::ProbeBw(place) = bbr.mode else { panic!("not in the cycle") };
        seen[place] += 1;
    }
    assert_eq!(seen[1], 0);
    assert!((0..8).all(|place| place == 1 || seen[place] > 100), "{seen:?}");
}

/// Section 4.2.3.4: in the first round trip of recovery as much is sent as is delivered, then twice
/// that, and the old window is restored at the end.
#[test]
fn recovery_conserves_packets_for_a_round_trip() {
    let (mut bbr, mut window) = steady(Mode::ProbeBw(2));
    window.cwnd = 80.0 * MSS;
    bbr.on_lost(&window, at(0), lost(1000), 0);
    bbr.on_recovery(&window, false);
    bbr.on_ack(&mut window, ack(1, 60_000));
    assert_eq!(window.cwnd, 61.0 * MSS);
    bbr.on_ack(&mut window, ack(2, 60_000));
    assert_eq!(window.cwnd, 61.0 * MSS, "one for one");
    let mut second = ack(40, 60_000);
    second.sample.prior_delivered = 1_000_000;
    bbr.on_ack(&mut window, second);
    assert_eq!(window.cwnd, 62.0 * MSS, "grown by what is delivered");
    bbr.on_lost(&window, at(41), lost(5000), 0);
    bbr.on_ack(&mut window, ack(41, 50_000));
    assert_eq!(window.cwnd, 58.0 * MSS, "less what was lost");
    bbr.on_recovered(&mut window);
    assert_eq!(window.cwnd, 80.0 * MSS);
}

/// Section 4.3.5: after ten seconds without a lower round trip, four segments for 200 ms and a
/// round trip.
#[test]
fn probe_rtt_lasts_200_ms_every_ten_seconds() {
    let (mut bbr, mut window) = steady(Mode::ProbeBw(2));
    window.cwnd = 80.0 * MSS;
    bbr.on_ack(&mut window, ack(10_000, 80_000));
    assert!(matches!(bbr.mode, Mode::ProbeBw(_)));
    assert!(bbr.on_ack(&mut window, ack(10_001, 80_000)));
    assert_eq!(window.cwnd, 4.0 * MSS);
    assert_eq!(bbr.min_rtt(), MS(50), "the old one has expired");
    bbr.on_ack(&mut window, ack(10_050, 4_000));
    let mut round = ack(10_250, 4_000);
    round.sample.prior_delivered = 1_000_000;
    bbr.on_ack(&mut window, round);
    assert_eq!(window.cwnd, 4.0 * MSS, "not longer than 200 ms");
    bbr.on_ack(&mut window, ack(10_251, 4_000));
    assert!(matches!(bbr.mode, Mode::ProbeBw(_)));
    assert!(window.cwnd >= 80.0 * MSS);
}

/// Two intervals of four round trips, each with a loss of a fifth and rates within an eighth: their
/// mean is the policer's rate. It is used for 48 round trips.
#[test]
fn a_policer_is_found_after_two_alike_intervals() {
    // Round trips of 100 ms that deliver and lose these amounts.
    let found = |volumes: [u64; 2], lost_share: f64| {
        let mut policed = Policed::default();
        let (mut delivered, mut lost, mut ms) = (0, 0, 0);
        let mut round = |policed: &mut Policed, volume: u64| {
            ms += 100;
            delivered += volume;
            lost += (volume as f64 * lost_share) as u64;
            let (at, lossy) = (at(ms), true);
            let round_start = true;
            policed.update(
                Interval { at, delivered, lost, round_start, lossy, app_limited: false },
                true,
            )
        };
        round(&mut policed, 1_000);
        // The round that begins an interval is its first.
        (0..3).for_each(|_| assert!(!round(&mut policed, volumes[0])));
        assert_eq!(policed.rate(), None);
        (0..4).for_each(|_| assert!(!round(&mut policed, volumes[1])));
        let rate = policed.rate();
        if rate.is_some() {
            (0..47).for_each(|_| assert!(!round(&mut policed, 1)));
            assert!(policed.rate().is_some());
            assert!(round(&mut policed, 1), "given up");
            assert_eq!(policed.rate(), None);
        }
        rate
    };
    assert_eq!(found([10_000, 11_000], 0.2), Some(105_000.0));
    assert_eq!(found([10_000, 12_000], 0.2), None, "a fifth more");
    assert_eq!(found([10_000, 10_000], 0.19), None, "too little loss");
}

/// Linux: bbr_undo_cwnd. The window is restored at the end of recovery, the search for a full pipe
/// begins again, and spurious losses are not a sign of a policer.
#[test]
fn losses_that_were_none_are_taken_back() {
    let (mut bbr, mut window) = steady(Mode::Startup);
    window.cwnd = 80.0 * MSS;
    bbr.full_pipe = FullPipe::default();
    (0..3).for_each(|_| bbr.full_pipe.check(1e6));
    bbr.on_recovery(&window, false);
    bbr.on_lost(&window, at(0), lost(1000), 0);
    bbr.on_ack(&mut window, ack(1, 30_000));
    assert_eq!(window.cwnd, 31.0 * MSS);

    bbr.on_recovered(&mut window);
    bbr.on_spurious_loss(&mut window, 0);
    assert_eq!(window.cwnd, 80.0 * MSS);
    // Growth is measured from the first of these; without it, the second would have been the third
    // without growth.
    (0..3).for_each(|_| bbr.full_pipe.check(1e6));
    assert!(!bbr.full_pipe.reached);
    bbr.full_pipe.check(1e6);
    assert!(bbr.full_pipe.reached);

    for round in 1..=8 {
        let (delivered, lost) = (1_000 * round, 300 * round);
        let (at, round_start, lossy, app_limited) = (at(100 * round), true, true, false);
        bbr.policed.update(Interval { at, delivered, lost, round_start, lossy, app_limited }, true);
    }
    assert!(bbr.policed.rate().is_some());
    bbr.on_spurious_loss(&mut window, 0);
    assert_eq!(bbr.policed.rate(), None);
}
