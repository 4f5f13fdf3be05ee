//! Figures that the theory gives.

use perhop_core::{Bytes, Duration, Rate, Stream};
use perhop_queue::{
    AckFilter, Cake, CakeConfig, Coding, Diffserv, Framing, HfscCurves, Isolation, Limit, Queue,
};

use crate::lab::*;

/// The greatest delay of the packets of a class.
fn greatest_delay(sent: &[Sent], class: u8) -> Duration {
    sent.iter().filter(|sent| sent.class == class).map(|sent| sent.delay).max().unwrap()
}

/// The paper's example of an audio session of 64 kb/s with packets of 160 bytes, beside a class
/// with a guarantee that leaves little. A concave curve bounds the delay by 5 ms and a packet; a
/// linear one of the same rate allows the 20 ms between two packets. Delay and bandwidth are
/// decoupled: the other class loses nothing.
#[test]
fn a_concave_curve_decouples_delay_from_bandwidth() {
    let mut arrivals = backlogs(&[2], 1500);
    arrivals.extend((0..50).map(|number| (20_000 * number, 1, 160)));
    arrivals.sort_by_key(|arrival| arrival.0);
    let with = |realtime, share| HfscCurves { realtime: Some(realtime), ..shares(share) };
    let run_with = |audio| {
        let specs = vec![leaf(1, with(audio, 1)), leaf(2, with(linear(9_700_000), LINK))];
        run(specs, &arrivals, 1_000_000)
    };
    let concave = run_with(curve(160 * 8 * 200, 5_000, 64_000));
    let plain = run_with(linear(64_000));
    let packet = Duration::from_micros(1200);
    assert!(greatest_delay(&concave, 1) <= Duration::from_millis(5) + packet);
    assert!(greatest_delay(&plain, 1) <= Duration::from_millis(20) + packet);
    assert!(greatest_delay(&plain, 1) > Duration::from_millis(15));
    for sent in [&concave, &plain] {
        assert!((rate_of(sent, 2) - (LINK as f64 - 64_000.0)).abs() < 30_000.0);
    }
}

/// A convex curve: nothing is guaranteed at first, and a rate later.
#[test]
fn a_convex_curve_guarantees_its_rate_later() {
    let late = HfscCurves {
        realtime: Some(curve(0, 300_000, 4_000_000)),
        linkshare: Some(linear(1_000_000)),
        upperlimit: None,
    };
    let sent =
        run(vec![leaf(1, late), leaf(2, shares(9_000_000))], &backlogs(&[1, 2], 1000), 1_000_000);
    assert!((rate_of(&sent, 1) - 4_000_000.0).abs() < 50_000.0, "{}", rate_of(&sent, 1));
}

/// An upper limit holds where nobody else wants the link, which then idles; a guarantee goes before
/// it.
#[test]
fn an_upper_limit_leaves_the_link_idle() {
    let limited = HfscCurves { upperlimit: Some(linear(2_000_000)), ..shares(9_000_000) };
    let sent = run(vec![leaf(1, limited)], &backlogs(&[1], 1000), 1_000_000);
    assert!((rate_of(&sent, 1) - 2_000_000.0).abs() < 20_000.0, "{}", rate_of(&sent, 1));
    let guaranteed = HfscCurves { realtime: Some(linear(3_000_000)), ..limited };
    let sent = run(vec![leaf(1, guaranteed)], &backlogs(&[1], 1000), 1_000_000);
    assert!((rate_of(&sent, 1) - 3_000_000.0).abs() < 20_000.0, "{}", rate_of(&sent, 1));
}

/// The limit of a class bounds all below it; what it leaves goes to its siblings.
#[test]
fn an_upper_limit_of_a_parent_bounds_its_children() {
    let limited = HfscCurves { upperlimit: Some(linear(3_000_000)), ..shares(5_000_000) };
    let inner = vec![leaf(1, shares(1_000_000)), leaf(2, shares(2_000_000))];
    let specs = vec![interior(&[1, 2], limited, inner), leaf(3, shares(1_000_000))];
    let sent = run(specs, &backlogs(&[1, 2, 3], 1000), 1_000_000);
    for (class, expected) in [(1, 1e6), (2, 2e6), (3, 7e6)] {
        let rate = rate_of(&sent, class);
        assert!((rate - expected).abs() < 40_000.0, "class {class}: {rate}");
    }
}

/// A leaf without link sharing sends by its guarantee only.
#[test]
fn a_leaf_without_a_share_has_its_guarantee_only() {
    let only = HfscCurves { realtime: Some(linear(2_000_000)), ..HfscCurves::default() };
    let sent = run(vec![leaf(1, only)], &backlogs(&[1], 1000), 1_000_000);
    assert!((rate_of(&sent, 1) - 2_000_000.0).abs() < 20_000.0, "{}", rate_of(&sent, 1));
}

/// A class whose queue has a shaper: all classes wait for it while it is its turn, as in Linux.
#[test]
fn a_shaper_in_a_queue_holds_all_classes() {
    let cake = CakeConfig {
        limit: Limit::bytes(Bytes::new(4 << 20)),
        bandwidth: Rate::new(1_000_000),
        framing: Framing { overhead: 0, mpu: 0, coding: Coding::None },
        diffserv: Diffserv::Besteffort,
        isolation: Isolation::Flows,
        rtt: Duration::from_secs(1000), // it never drops
        target: Duration::from_secs(1000),
        ack_filter: AckFilter::Off,
        wash: false,
        ingress: false,
    };
    let queue = Queue::Cake(Box::new(Cake::new(cake, Stream::new(1, "queue"))));
    let specs = vec![queued(1, shares(2_000_000), queue), leaf(2, shares(8_000_000))];
    let sent = run(specs, &backlogs(&[1, 2], 1000), 1_000_000);
    assert!((rate_of(&sent, 1) - 1_000_000.0).abs() < 50_000.0, "{}", rate_of(&sent, 1));
    assert!((rate_of(&sent, 2) - 4_000_000.0).abs() < 200_000.0, "{}", rate_of(&sent, 2));
}
