//! Signals worked out by hand: 100 ms over the roots of 2, 3 and 4 are 70.710678118654…,
//! 57.735026918962… and 50 ms.

use super::*;

const TARGET: Duration = Duration::from_millis(5);
const INTERVAL: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_picos(70_710_678_118);
const THIRD: Duration = Duration::from_picos(57_735_026_918);
const FOURTH: Duration = Duration::from_millis(50);
const PICO: Duration = Duration::from_picos(1);

/// The instant before another one.
fn before(time: Time) -> Time {
    Time::from_picos(time.as_picos() - 1)
}

fn times() -> Times {
    Times::new(None, TARGET, INTERVAL)
}

/// Returns what is decided about a packet that has waited for `delay`.
fn decide(cobalt: &mut Cobalt, now: Time, delay: Duration, capable: bool) -> Signal {
    cobalt.decide(&times(), (now, delay), 0, capable, &mut Stream::new(1, "cobalt"))
}

/// Returns `true` if congestion is signalled by a packet above the target.
fn signals(cobalt: &mut Cobalt, now: Time, capable: bool) -> bool {
    decide(cobalt, now, TARGET * 2, capable).congestion
}

fn state(cobalt: &Cobalt) -> (u32, bool, Time) {
    (cobalt.count, cobalt.dropping, cobalt.next)
}

/// A queue with signals at 100 ms and the spacings after it, so that three count.
fn signalled(capable: bool) -> (Cobalt, Time) {
    let mut cobalt = Cobalt::default();
    assert!(!signals(&mut cobalt, Time::ZERO, capable));
    let mut due = Time::ZERO + INTERVAL;
    for (number, spacing) in (2..).zip([SECOND, THIRD]) {
        assert!(!signals(&mut cobalt, before(due), capable));
        assert!(signals(&mut cobalt, due, capable));
        due += spacing;
        assert_eq!(state(&cobalt), (number, true, due));
    }
    (cobalt, due)
}

/// A drop that comes late leaves the time of the next one; a mark is a packet that was delivered,
/// from which the time is counted.
#[test]
fn signals_that_are_late() {
    let (mut cobalt, due) = signalled(false);
    let late = due + FOURTH + PICO;
    assert!(signals(&mut cobalt, late, false));
    assert_eq!(state(&cobalt), (4, true, due + FOURTH));
    assert!(signals(&mut cobalt, late, false));
    assert!(!signals(&mut cobalt, late, false));
    let (mut cobalt, due) = signalled(true);
    let late = due + FOURTH + PICO;
    assert!(signals(&mut cobalt, late, true));
    assert_eq!(state(&cobalt), (4, true, late));
}

/// Below the target, each due time takes one signal back, at intervals over the root of those that
/// are left; the first signal of an episode after all are forgotten comes an interval after its
/// begin, and otherwise as soon as the spacing of those left says.
#[test]
fn signals_are_forgotten_one_by_one() {
    let (cobalt, due) = signalled(false);
    let left = [(due, 2, due + SECOND), (due + SECOND, 1, due + SECOND + INTERVAL)];
    for (now, count, next) in left {
        for (now, expected) in [(before(now), None), (now, Some((count, false, next)))] {
            let mut cobalt = cobalt;
            assert!(!decide(&mut cobalt, now, TARGET, false).congestion);
            if let Some(expected) = expected {
                assert_eq!(state(&cobalt), expected);
                // The next episode begins with what is left.
                let spacing = if count == 2 { SECOND } else { INTERVAL };
                assert!(!signals(&mut cobalt, now, false));
                assert!(!signals(&mut cobalt, before(now + spacing), false));
                assert!(signals(&mut cobalt, now + spacing, false));
            }
        }
    }
    // The last one is forgotten, too; then an episode may begin at any time.
    let mut cobalt = cobalt;
    let end = due + SECOND + INTERVAL;
    assert!(!decide(&mut cobalt, end, TARGET, false).congestion);
    assert_eq!(state(&cobalt), (0, false, end + INTERVAL));
    assert!(
        !signals(&mut cobalt, end, false) && !signals(&mut cobalt, before(end + INTERVAL), false)
    );
    assert!(signals(&mut cobalt, end + INTERVAL, false));
}

/// The delay must exceed the target, four frames and, while drops are charged, two frames of each
/// bulk flow.
#[test]
fn a_delay_that_is_not_longer_than_frames_signals_nothing() {
    let frame = Duration::from_millis(2);
    for (target, bulk, least) in [(5, 0, 8), (9, 0, 9), (5, 2, 8), (5, 7, 28)] {
        let times = Times { target: Duration::from_millis(target), interval: INTERVAL, frame };
        let least = Duration::from_millis(least);
        for (delay, above) in [(least, false), (least + PICO, true)] {
            let mut cobalt = Cobalt::default();
            let mut random = Stream::new(1, "cobalt");
            for now in [Time::ZERO, Time::ZERO + INTERVAL] {
                let signal = cobalt.decide(&times, (now, delay), bulk, false, &mut random);
                assert_eq!(signal.congestion, above && now > Time::ZERO, "{bulk} {least:?}");
            }
        }
    }
}

/// 1/256 more for each overflow that is more than a target after the last change, 1/4096 less for
/// an empty queue that is found, and for each target of rest. Packets are dropped with that
/// probability, those that CoDel drops excepted.
#[test]
fn blue_rises_and_falls() {
    let whole = 1_u64 << 32;
    assert_eq!([RISE, FALL].map(u64::from), [whole / 256, whole / 4096]);
    let times = times();
    let (mut cobalt, mut now) = (Cobalt::default(), Time::ZERO);
    for (gap, blue) in [(TARGET, 0), (PICO, RISE), (TARGET, RISE), (PICO, 2 * RISE)] {
        now += gap;
        cobalt.on_overflow(&times, now);
        assert_eq!((cobalt.blue, state(&cobalt)), (blue, (1, true, now)));
    }
    for (gap, blue) in [(TARGET, 2 * RISE), (PICO, 2 * RISE - FALL)] {
        now += gap;
        cobalt.dropping = true;
        cobalt.on_empty(&times, now);
        assert_eq!((cobalt.blue, cobalt.dropping), (blue, false));
    }
    // After an overflow the first packet above the target is a signal, and not drawn.
    let mut draws = Stream::new(2, "blue");
    let mut expected = draws.clone();
    cobalt.on_overflow(&times, now);
    let first = cobalt.decide(&times, (now, TARGET * 2), 0, false, &mut draws);
    assert_eq!(first, Signal { congestion: true, flood: false });
    cobalt.blue = 1 << 30;
    let mut floods = 0;
    for _ in 0..40 {
        let signal = cobalt.decide(&times, (now, TARGET), 0, false, &mut draws);
        assert_eq!(signal.flood, expected.up_to(u32::MAX.into()) < 1 << 30);
        floods += u32::from(signal.flood);
    }
    assert!((1..40).contains(&floods));
    // A mark does not spare a packet.
    cobalt.blue = u32::MAX;
    cobalt.on_overflow(&times, now);
    let marked = cobalt.decide(&times, (now, TARGET * 2), 0, true, &mut draws);
    assert_eq!(marked, Signal { congestion: true, flood: true });
}

/// A queue at rest is up to date when it is used again: its signals are forgotten at their times,
/// and its probability has fallen once for each whole target.
#[test]
fn a_queue_at_rest_forgets() {
    let times = times();
    // One without signals is as good as new an interval after its last packet.
    let mut fresh = Cobalt::default();
    assert!(!decide(&mut fresh, Time::ZERO + TARGET, TARGET, false).congestion);
    assert_eq!(state(&fresh), (0, false, Time::ZERO + TARGET + INTERVAL));
    let (mut cobalt, due) = signalled(false);
    (cobalt.blue, cobalt.blue_changed) = (3 * FALL, due);
    assert!(!cobalt.rest(&times, before(due + TARGET * 2)));
    assert_eq!((cobalt.count, cobalt.blue), (2, 2 * FALL));
    assert_eq!(cobalt.blue_changed, due + TARGET);
    let last = due + SECOND + INTERVAL;
    let idle = last + INTERVAL;
    for (now, empty) in [(before(last), false), (last, false), (before(idle), false), (idle, true)]
    {
        let mut cobalt = cobalt;
        assert_eq!(cobalt.rest(&times, now), empty);
        assert_eq!((cobalt.count, cobalt.blue), (u32::from(now < last), 0));
    }
    // A probability that outlives the signals counts, too; in 4096 targets the greatest is gone.
    let target = Duration::from_millis(1);
    for (steps, empty) in [(4095, false), (4096, true), (1 << 32, true)] {
        let mut cobalt = Cobalt { blue: u32::MAX, ..Cobalt::default() };
        let now = Time::ZERO + target * steps;
        assert_eq!(cobalt.rest(&Times { target, ..times }, now), empty);
        assert_eq!(cobalt.blue, if empty { 0 } else { FALL - 1 });
    }
}
