//! Parts of the model, compared with the draft's arithmetic.

mod bounds;
mod path;
mod tables;

use super::*;
use perhop_core::Stream;

const MSS: f64 = 1000.0;
const MS: fn(u64) -> Duration = Duration::from_millis;

fn at(ms: u64) -> Time {
    Time::ZERO + MS(ms)
}

fn sample(rate: f64) -> RateSample {
    RateSample { rate, ..RateSample::default() }
}

/// Section 5.5.6: a bandwidth sample counts in its cycle and in the next.
#[test]
fn the_greatest_bandwidth_is_that_of_two_cycles() {
    let mut filter = MaxFilter::default();
    filter.update(10.0, false);
    filter.update(8.0, false);
    assert_eq!(filter.get(), 10.0);
    filter.advance();
    filter.update(7.0, false);
    assert_eq!(filter.get(), 10.0);
    filter.advance();
    assert_eq!(filter.get(), 7.0);
    filter.advance();
    assert_eq!(filter.get(), 7.0, "a cycle without a sample does not count");
    // Section 5.5.5: an application-limited sample counts only if it is greater.
    filter.update(6.0, true);
    assert_eq!(filter.get(), 7.0);
    filter.update(9.0, true);
    assert_eq!(filter.get(), 9.0);
}

/// Section 5.3.1.2: three round trips with growth below a quarter.
#[test]
fn the_pipe_is_full_after_three_round_trips_without_growth() {
    let mut full = FullPipe::default();
    for rate in [100.0, 125.0, 156.25, 190.0, 195.0] {
        full.check(&sample(rate));
        assert!(!full.now);
    }
    full.check(&RateSample { app_limited: true, ..sample(100.0) });
    full.check(&sample(0.0)); // which has no rate
    assert!(!full.now);
    full.check(&sample(195.0));
    assert!(full.now && full.reached);
    full.reset(195.0);
    assert!(!full.now && full.reached);
}

/// Section 5.3.4.3: a minimum is kept for ten seconds, and ProbeRTT is due after five.
#[test]
fn the_least_round_trip_is_remembered_for_ten_seconds() {
    let mut least = MinRtt::new();
    least.begin(at(0), MS(50));
    assert!(!least.update(at(1_000), Some(MS(40))));
    assert!(!least.update(at(6_000), Some(MS(60))));
    assert_eq!(least.known(), Some(MS(40)));
    assert!(least.update(at(6_001), Some(MS(60))), "five seconds without a lower one");
    assert_eq!(least.known(), Some(MS(40)));
    assert!(!least.update(at(11_001), Some(MS(70))));
    assert_eq!(least.known(), Some(MS(60)));
}

/// Section 5.5.10.3: at the end of a round trip with loss, the bounds fall to the delivered rate
/// and volume, but by no more than beta.
#[test]
fn short_term_bounds_follow_what_is_delivered() {
    let mut bounds = ShortTerm::new();
    let round = |bounds: &mut ShortTerm, start: u64, volume: u64, lossy: bool| {
        let of = |prior_delivered, total| RateSample {
            rate: volume as f64,
            delivered: volume,
            prior_delivered,
            total,
            ..RateSample::default()
        };
        bounds.take_sample(&of(start, start + volume));
        bounds.adapt(false, 1_000.0, 2_000.0);
        bounds.end_round(&of(start, start + volume));
        if lossy {
            bounds.note_loss(start + volume);
        }
    };
    round(&mut bounds, 0, 900, true);
    assert!(bounds.bandwidth.is_infinite());
    round(&mut bounds, 900, 900, false);
    // 900 of 1000 were delivered, and the bound falls from 2000 to no less than 1400.
    assert_eq!((bounds.bandwidth, bounds.inflight), (900.0, 1_400.0));
    round(&mut bounds, 1_800, 100, false);
    assert_eq!((bounds.bandwidth, bounds.inflight), (900.0, 1_400.0), "a round without loss");
    bounds.forget();
    assert!(bounds.bandwidth.is_infinite() && bounds.inflight.is_infinite());
}

/// Section 5.5.10.2: with 100 segments in flight and four losses, of which the last is the last
/// segment, losses crossed 2% before it: (0.02 · 99 − 3) / 0.98 segments before.
#[test]
fn the_long_term_bound_is_where_losses_crossed_two_per_cent() {
    let mut bbr = Bbr::new(Stream::new(1, "test"));
    let window = Window::new(100.0 * MSS);
    bbr.begin(&window, MSS);
    bbr.probe_sample = true;
    let lost = |lost| LostSegment { length: 1_000, in_flight: 100_000, lost, app_limited: false };
    bbr.on_lost(&window, at(0), lost(2_000), 0);
    assert!(bbr.inflight_longterm.is_infinite());
    bbr.on_lost(&window, at(0), lost(4_000), 0);
    let expected = 99_000.0 + (0.02 * 99_000.0 - 3_000.0) / 0.98;
    assert!((bbr.inflight_longterm - expected).abs() < 1e-6, "{}", bbr.inflight_longterm);
    assert!(!bbr.probe_sample, "once a probe");
}

/// The table of section 5.6.1, and the share of a cycle that section 5.3.4.2 gives to ProbeRTT.
#[test]
fn gains_are_those_of_the_table() {
    use BbrPhase::*;
    let probe_rtt = ProbeRtt { until: None, round_done: false };
    let gains = [Startup, Drain, Down, Cruise, Refill, Up, probe_rtt]
        .map(|phase| (phase.pacing_gain(), phase.window_gain()));
    let table =
        [(2.77, 2.0), (0.5, 2.0), (0.9, 2.0), (1.0, 2.0), (1.0, 2.0), (1.25, 2.25), (1.0, 0.5)];
    assert_eq!(gains, table);
}

/// Section 5.5.11.2: bounds that spurious losses lowered are restored, a probe that they ended
/// continues, and so does the search for a plateau.
#[test]
fn losses_that_were_none_are_taken_back() {
    let mut bbr = Bbr::new(Stream::new(1, "test"));
    let mut window = Window::new(100.0 * MSS);
    bbr.begin(&window, MSS);
    bbr.max_bandwidth.update(1e6, false);
    bbr.bandwidth = 1e6;
    bbr.inflight_longterm = 120_000.0;
    bbr.full_pipe.reached = true;
    bbr.phase = BbrPhase::Up;
    bbr.probe_sample = true;
    let lost = LostSegment { length: 1_000, in_flight: 90_000, lost: 9_000, app_limited: false };
    bbr.on_recovery(&window, false);
    bbr.on_lost(&window, at(0), lost, 0);
    assert!(bbr.inflight_longterm < 90_000.0 && bbr.phase == BbrPhase::Down, "the probe has ended");
    (bbr.short_term.bandwidth, bbr.short_term.inflight) = (0.7e6, 70_000.0);
    (0..3).for_each(|_| bbr.full_pipe.check(&sample(1.0)));
    window.cwnd = 10.0 * MSS;

    bbr.on_recovered(&mut window);
    bbr.on_spurious_loss(&mut window, 7);
    assert_eq!(window.cwnd, 100.0 * MSS);
    assert_eq!(bbr.inflight_longterm, 120_000.0);
    assert!(bbr.short_term.inflight.is_infinite() && bbr.short_term.bandwidth.is_infinite());
    assert_eq!((bbr.phase, bbr.round_ends), (BbrPhase::Up, 7));
    assert!(!bbr.full_pipe.now);

    // Once only: there is nothing to restore before the next loss.
    bbr.phase = BbrPhase::Cruise;
    bbr.on_spurious_loss(&mut window, 7);
    assert_eq!(bbr.phase, BbrPhase::Cruise);
}

/// Section 5.5.11.2: growth is measured anew, in Startup, too, which goes on if spurious losses had
/// ended it.
#[test]
fn spurious_losses_restart_the_search_for_a_plateau() {
    for (before, now, after) in [
        (BbrPhase::Startup, BbrPhase::Startup, BbrPhase::Startup),
        (BbrPhase::Startup, BbrPhase::Drain, BbrPhase::Startup),
        (BbrPhase::Cruise, BbrPhase::Refill, BbrPhase::Refill),
    ] {
        let mut bbr = Bbr::new(Stream::new(1, "test"));
        let mut window = Window::new(100.0 * MSS);
        bbr.begin(&window, MSS);
        (0..3).for_each(|_| bbr.full_pipe.check(&sample(1e6)));
        bbr.phase = before;
        let lost = LostSegment { length: 1_000, in_flight: 1_000, lost: 1_000, app_limited: false };
        bbr.on_lost(&window, at(0), lost, 0);
        bbr.phase = now;
        bbr.on_spurious_loss(&mut window, 7);
        assert_eq!(bbr.phase, after, "{before:?} {now:?}");
        // The first is growth, so that the fourth is the third without.
        (0..3).for_each(|_| bbr.full_pipe.check(&sample(1e6)));
        assert!(!bbr.full_pipe.now, "{before:?} {now:?}");
        bbr.full_pipe.check(&sample(1e6));
        assert!(bbr.full_pipe.now, "{before:?} {now:?}");
    }
}
