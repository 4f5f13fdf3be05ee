//! The whole model on a path of 1 MB/s and 40 ms, a bandwidth-delay product of forty segments.

use super::*;
use crate::congestion::tests::path::Path;

/// Returns the phases of so many seconds, with their beginnings and ends in milliseconds.
fn phases(bbr: &mut Bbr, path: &mut Path, seconds: u64) -> Vec<(String, f64, f64)> {
    let name = |phase: BbrPhase| format!("{phase:?}").split(' ').next().unwrap_or("").to_owned();
    let mut found = vec![(name(bbr.phase), 0.0, 0.0)];
    while path.now < at(1_000 * seconds) {
        path.step(bbr);
        let now = path.now.as_secs_f64() * 1e3;
        let last = found.last_mut().expect("one began at zero");
        last.2 = now;
        if last.0 != name(bbr.phase) {
            found.push((name(bbr.phase), now, now));
        }
    }
    found
}

/// Section 5.3: Startup, Drain, and cycles of ProbeBW that ProbeRTT interrupts every five seconds.
#[test]
fn phases_follow_each_other() {
    let mut bbr = Bbr::new(Stream::new(1, "test"));
    let mut path = Path::new(&mut bbr);
    let found = phases(&mut bbr, &mut path, 16);
    let names: Vec<&str> = found.iter().map(|phase| phase.0.as_str()).collect();
    println!("{found:?}");
    // The queue is empty after Drain, so that Down has nothing to do.
    assert_eq!(names[..3], ["Startup", "Drain", "Cruise"]);
    for pair in names.windows(2).skip(2) {
        let follows = match pair[0] {
            "Down" => &["Cruise", "Refill", "ProbeRtt"][..],
            "Cruise" => &["Refill", "ProbeRtt"],
            "Refill" => &["Up", "ProbeRtt"],
            "Up" => &["Down", "ProbeRtt"],
            _ => &["Cruise"],
        };
        assert!(follows.contains(&pair[1]), "{pair:?}");
    }
    // The rate doubles to the path's in a few round trips of 40 ms, and three without growth
    // follow, in which the queue grows to the window of two products.
    let (_, _, startup) = found[0];
    assert!((5.0 * 40.0..10.0 * 80.0).contains(&startup), "{startup}");
    let least = bbr.min_rtt.known().unwrap().as_secs_f64() * 1e3;
    assert!((least - 40.0).abs() < 1.0, "{least}");
    assert!((bbr.max_bandwidth.get() / 1e6 - 1.0).abs() < 0.02, "{}", bbr.max_bandwidth.get());
    for (number, (name, from, until)) in found.iter().enumerate().skip(3) {
        let (lasts, whole) =
            (until - from, number + 1 < found.len() && names[number + 1] != "ProbeRtt");
        match name.as_str() {
            // A round trip.
            "Refill" if whole => assert!((39.0..90.0).contains(&lasts), "{lasts}"),
            // 200 ms, a round trip, and the time until half of the product is in flight.
            "ProbeRtt" if whole => assert!((200.0..340.0).contains(&lasts), "{lasts}"),
            // Forty segments are forty round trips between probes.
            "Cruise" if whole => assert!(lasts < 41.0 * 45.0, "{lasts}"),
            _ => {}
        }
    }
    let probes: Vec<f64> =
        found.iter().filter(|phase| phase.0 == "ProbeRtt").map(|phase| phase.1).collect();
    assert!((2..=3).contains(&probes.len()), "{probes:?}");
    for pair in probes.windows(2) {
        let apart = pair[1] - pair[0];
        assert!((5_000.0..5_600.0).contains(&apart), "{apart}");
    }
    let share = path.delivered as f64 / 16e6;
    assert!((0.95..=1.0).contains(&share), "{share}");
}
