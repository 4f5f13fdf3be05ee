//! The bounds that respond to losses at once.

use super::*;

/// Section 5.5.10.3, with a bandwidth of 1000 and a window of 2000 bytes where no bound is known:
/// bounds before, rate and volume delivered in the round trip, and bounds after.
#[test]
fn bounds_fall_by_three_tenths_but_not_below_what_is_delivered() {
    let none = f64::INFINITY;
    for (before, latest, after) in [
        ((none, none), (0.0, 0.0), (700.0, 1_400.0)),
        ((none, none), (900.0, 1_500.0), (900.0, 1_500.0)),
        ((500.0, 800.0), (0.0, 0.0), (350.0, 560.0)),
        ((500.0, none), (0.0, 0.0), (350.0, 1_400.0)),
        ((none, 800.0), (0.0, 0.0), (700.0, 560.0)),
        ((500.0, 800.0), (351.0, 561.0), (351.0, 561.0)),
        ((500.0, 800.0), (600.0, 900.0), (600.0, 900.0)),
    ] {
        for (round_start, lossy, probing, falls) in [
            (true, true, false, true),
            (false, true, false, false),
            (true, false, false, false),
            (true, true, true, false),
        ] {
            let mut bounds = ShortTerm::new();
            (bounds.bandwidth, bounds.inflight) = before;
            let delivered = RateSample { rate: latest.0, ..RateSample::default() };
            bounds.take_sample(&RateSample { delivered: latest.1 as u64, ..delivered });
            if lossy {
                bounds.note_loss(0);
            }
            bounds.round_start = round_start;
            bounds.adapt(probing, 1_000.0, 2_000.0);
            let expected = if falls { after } else { before };
            assert_eq!((bounds.bandwidth, bounds.inflight), expected, "{before:?} {latest:?}");
            // The losses of a round trip that has ended do not count again.
            (bounds.round_start, bounds.bandwidth) = (true, 5_000.0);
            bounds.adapt(false, 1_000.0, 2_000.0);
            assert_eq!(bounds.bandwidth < 5_000.0, lossy && !round_start);
        }
    }
}

/// Section 5.5.10.3: signals of a round trip are the greatest of its samples; the next begins with
/// the sample that has ended it. An acknowledgement has one loss event however many are lost.
#[test]
fn signals_belong_to_a_round_trip() {
    let mut bounds = ShortTerm::new();
    // Rate, delivered, delivered before, in all, losses before; then the start of a round trip,
    // the greatest rate and volume, and loss events.
    for (rate, delivered, prior, total, losses, starts, greatest, volume, events) in [
        (50.0, 500, 0, 1_000, 0, true, 50.0, 500.0, 0),
        (40.0, 600, 500, 1_600, 2, false, 50.0, 600.0, 1),
        (60.0, 300, 999, 1_900, 1, false, 60.0, 600.0, 2),
        (30.0, 200, 1_600, 2_100, 0, true, 30.0, 200.0, 0),
        (20.0, 100, 2_099, 2_200, 0, false, 30.0, 200.0, 0),
        (20.0, 100, 2_100, 2_300, 0, true, 20.0, 100.0, 0),
    ] {
        // The first loss of a round trip begins one, with what was delivered until then.
        for lost in 0..losses {
            assert_eq!(
                bounds.note_loss(if lost == 0 { 1_600 } else { 0 }),
                lost == 0 && total == 1_600
            );
        }
        let sample =
            RateSample { rate, delivered, prior_delivered: prior, total, ..RateSample::default() };
        bounds.take_sample(&sample);
        bounds.adapt(true, 1.0, 1.0);
        bounds.end_round(&sample);
        let signals = (bounds.round_start, bounds.latest_rate, bounds.latest_volume);
        assert_eq!((signals, bounds.loss_events), ((starts, greatest, volume), events), "{total}");
    }
    bounds.note_loss(2_300);
    bounds.reset_signals();
    assert_eq!((bounds.latest_rate, bounds.latest_volume), (0.0, 0.0));
    assert!(bounds.note_loss(2_300), "the first again");
    bounds.restore(7.0, 8.0);
    assert!(bounds.note_loss(2_300), "spurious ones do not count");
    assert!(!bounds.note_loss(2_300));
}
