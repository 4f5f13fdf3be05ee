//! The whole model on a path of 1 MB/s and 40 ms, a bandwidth-delay product of forty segments.

use super::*;
use crate::congestion::tests::path::Path;

/// Section 4.3: Startup, Drain, cycles of eight phases of a round trip each, and ProbeRTT every ten
/// seconds.
#[test]
fn phases_follow_each_other() {
    let mut bbr = Bbr1::new(Stream::new(1, "test"));
    let mut path = Path::new(&mut bbr);
    let mut found = vec![(bbr.mode, 0.0)];
    while path.now < at(24_000) {
        path.step(&mut bbr);
        let changed = match (found.last().expect("one began at zero").0, bbr.mode) {
            (Mode::ProbeRtt { .. }, Mode::ProbeRtt { .. }) => false,
            (before, now) => before != now,
        };
        if changed {
            found.push((bbr.mode, path.now.as_secs_f64() * 1e3));
        }
    }
    println!("{found:?}");
    assert_eq!(found[1].0, Mode::Drain);
    assert!(matches!(found[2].0, Mode::ProbeBw(_)));
    assert!((5.0 * 40.0..10.0 * 80.0).contains(&found[1].1), "{}", found[1].1);
    assert!((bbr.max_rate.get() / 1e6 - 1.0).abs() < 0.02, "{}", bbr.max_rate.get());
    let mut probes = Vec::new();
    for pair in found[2..].windows(2) {
        let [(mode, from), (next, until)] = [pair[0], pair[1]];
        let lasts = until - from;
        match (mode, next) {
            (Mode::ProbeBw(place), Mode::ProbeBw(after)) => {
                assert_eq!(after, (place + 1) % 8);
                // The drain ends early, and a probe once it has raised the flight.
                let most = if place == 0 { 130.0 } else { 50.0 };
                assert!(lasts <= most && (place == 1 || lasts >= 39.0), "{place} {lasts}");
            }
            (Mode::ProbeRtt { .. }, _) => {
                assert!((200.0..340.0).contains(&lasts), "{lasts}");
                probes.push(from);
            }
            _ => assert!(matches!(next, Mode::ProbeRtt { .. }), "{mode:?} {next:?}"),
        }
    }
    let [first, second] = probes[..] else { panic!("{probes:?}") };
    assert!((10_000.0..10_600.0).contains(&(second - first)), "{probes:?}");
    let share = path.delivered as f64 / 24e6;
    assert!((0.95..=1.0).contains(&share), "{share}");
}
