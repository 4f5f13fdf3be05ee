//! Links: arrival times and losses.

use perhop_core::{Bytes, Duration, Overhead, Time};
use perhop_net::{
    LinkCounters, LinkSpec, Loss, Network, Reorder, Trace, TraceMedium, TraceStep, Wire,
};

use crate::lab::*;

/// A host, two routers, a host; each link with its own rate, delay and overhead.
const RATES: [u64; 3] = [10_000_000, 155_520_007, 2_999_999];
const DELAYS: [u64; 3] = [MILLISECOND + 1, 37, 20 * MILLISECOND];
const OVERHEADS: [Overhead; 3] = [Overhead::Fixed(38), Overhead::Atm, Overhead::NONE];

fn three_links() -> Vec<LinkSpec<Line>> {
    let hop = |hop: usize| {
        let wire = wire(RATES[hop], DELAYS[hop]);
        link([hop as u16, hop as u16 + 1], Wire { overhead: OVERHEADS[hop], ..wire })
    };
    (0..3).map(hop).collect()
}

/// Returns the length over AAL5: 16 bytes more, in cells of 53 that carry 48 (RFC 2684).
fn atm(size: u64) -> u64 {
    (size + 16).div_ceil(48) * 53
}

#[test]
fn store_and_forward_adds_up_to_the_picosecond() {
    for size in [20_u32, 32, 33, 40, 576, 1500, 65_535] {
        let on_wire = [u64::from(size) + 38, atm(size.into()), size.into()];
        let one_way: u64 =
            (0..3).map(|hop| transmission(on_wire[hop], RATES[hop]) + DELAYS[hop]).sum();
        let script =
            vec![Send { at: 5, from: 0, to: 3, size }, Send { at: SECOND, from: 3, to: 0, size }];
        let (network, hosts) = play(&[Host, Router, Router, Host], three_links(), 1, script);
        assert_eq!(hosts.arrived(), [Some(5 + one_way), Some(SECOND + one_way)], "{size} bytes");
        for (hop, bytes) in on_wire.into_iter().enumerate() {
            for port in [forth(hop as u32), back(hop as u32)] {
                let counters = network.link_counters(port);
                assert_eq!((counters.packets, counters.bytes), (1, Bytes::new(bytes)));
            }
        }
    }
}

#[test]
fn a_saturated_link_sends_back_to_back_at_its_rate() {
    // Lengths and a rate for which no transmission is a whole number of picoseconds.
    let (rate, delay) = (155_520_007, 3 * MILLISECOND);
    let sizes: Vec<u32> = (0..500).map(|packet| 40 + packet * 7 % 1461).collect();
    let script = sizes.iter().map(|&size| Send { at: 10, from: 0, to: 1, size }).collect();
    let (_, hosts) = play(&[Host, Host], vec![link([0, 1], wire(rate, delay))], 1, script);
    let mut departure = 10;
    let expected = sizes.iter().map(|&size| {
        departure += transmission(size.into(), rate);
        Some(departure + delay)
    });
    assert_eq!(hosts.arrived(), expected.collect::<Vec<_>>());
}

#[test]
fn the_slowest_link_spaces_packets_and_faster_ones_keep_the_space() {
    let links = vec![
        link([0, 1], wire(1_000_000_000, 50)),
        link([1, 2], wire(10_000_000, 200)),
        link([2, 3], wire(100_000_000, 70)),
    ];
    let script = vec![Send { at: 0, from: 0, to: 3, size: 1500 }; 100];
    let (_, hosts) = play(&[Host, Router, Router, Host], links, 1, script);
    // 12 µs, 1.2 ms and 120 µs per packet; the second link sends without a pause.
    let first = 12 * MICROSECOND + 1_200 * MICROSECOND + 120 * MICROSECOND + 50 + 200 + 70;
    let expected = (0..100).map(|packet| Some(first + packet * 1_200 * MICROSECOND));
    assert_eq!(hosts.arrived(), expected.collect::<Vec<_>>());
}

#[test]
fn a_packet_that_comes_as_the_transmitter_falls_free_waits_for_nothing() {
    // One packet every transmission time, to the picosecond, and one a picosecond early.
    let (rate, slot) = (8_000_000, MILLISECOND);
    let mut script: Vec<Send> =
        (0..10).map(|n| Send { at: n * slot, from: 0, to: 1, size: 1000 }).collect();
    script.push(Send { at: 10 * slot - 1, from: 0, to: 1, size: 1000 });
    let (network, hosts) = play(&[Host, Host], vec![link([0, 1], wire(rate, 0))], 1, script);
    let expected = (1..=11).map(|n| Some(n * slot));
    assert_eq!(hosts.arrived(), expected.collect::<Vec<_>>());
    assert_eq!(network.events(), 2 * 11, "a timer and an arrival each");
}

#[test]
fn directions_of_a_link_do_not_touch_each_other() {
    let both_ways = |n: u16| Send { at: 0, from: n % 2, to: 1 - n % 2, size: 1000 };
    let script = (0..20).map(both_ways).collect();
    let (_, hosts) =
        play(&[Host, Host], vec![link([0, 1], wire(8_000_000, MILLISECOND))], 1, script);
    let expected = (0..20).map(|n| Some((n / 2 + 2) * MILLISECOND));
    assert_eq!(hosts.arrived(), expected.collect::<Vec<_>>());
}

const JITTER: u64 = 5 * MILLISECOND;

/// Returns the additional delay of each packet when one is sent every `gap` over a link with
/// jitter.
fn lateness(gap: u64, packets: u64) -> Vec<u64> {
    let wire = Wire { jitter: Duration::from_picos(JITTER), ..wire(1_000_000_000, MILLISECOND) };
    let script = (0..packets).map(|n| Send { at: n * gap, from: 0, to: 1, size: 125 }).collect();
    let (_, hosts) = play(&[Host, Host], vec![link([0, 1], wire)], 1, script);
    let in_order: Vec<Line> = hosts.arrivals.iter().map(|&(.., line)| line).collect();
    assert!(in_order.is_sorted(), "jitter reordered packets");
    let due = |n: usize| n as u64 * gap + MICROSECOND + MILLISECOND;
    hosts.arrived().iter().enumerate().map(|(n, at)| at.unwrap() - due(n)).collect()
}

#[test]
fn jitter_is_uniform_where_packets_are_far_apart() {
    let lateness = lateness(2 * JITTER, 20_000);
    assert!(lateness.iter().all(|&late| late <= JITTER));
    // A binomial with p = 1/10 in each tenth: five standard deviations of √(n p (1 − p)).
    for tenth in 0..10 {
        let bounds = tenth * JITTER / 10..(tenth + 1) * JITTER / 10;
        let hits = lateness.iter().filter(|late| bounds.contains(late)).count();
        assert!(hits.abs_diff(2_000) < 5 * 43, "{hits} of 20000 in tenth {tenth}");
    }
}

#[test]
fn jitter_keeps_order_and_its_bound_where_packets_are_close() {
    let lateness = lateness(JITTER / 50, 5_000);
    assert!(lateness.iter().all(|&late| late <= JITTER));
    assert!(lateness.iter().any(|&late| late > JITTER / 2));
}

/// Returns the packets of 20,000 that are lost on a link from node 0 to node 1 with 2% loss, with
/// other links beside it.
fn lost(seed: u64, others: Vec<LinkSpec<Line>>) -> Vec<Line> {
    let wire = Wire { loss: 20_000_000, ..wire(1_000_000_000, 0) };
    let mut links = vec![link([0, 1], wire)];
    links.extend(others);
    let mut script: Vec<Send> =
        (0..20_000).map(|n| Send { at: n * MICROSECOND, from: 0, to: 1, size: 125 }).collect();
    // Packets on the other links and in the reverse direction draw from other streams.
    script.extend((0..1_000).map(|n| Send { at: n * MICROSECOND + 7, from: 2, to: 0, size: 125 }));
    script.extend((0..1_000).map(|n| Send { at: n * MICROSECOND + 9, from: 1, to: 0, size: 125 }));
    let (network, hosts) = play(&[Host, Host, Router], links, seed, script);
    let lost: Vec<Line> = hosts
        .losses
        .iter()
        .filter(|&&(line, loss)| line < 20_000 && loss == Loss::Link)
        .map(|&(line, _)| line)
        .collect();
    let counters = network.link_counters(forth(0));
    assert_eq!((counters.packets, counters.lost), (20_000, lost.len() as u64));
    lost
}

#[test]
fn random_loss_has_its_share_and_depends_on_the_seed_alone() {
    let alone = lost(1, Vec::new());
    // Five standard deviations of a binomial with n = 20,000 and p = 2%: √(n p (1 − p)) = 19.8.
    assert!(alone.len().abs_diff(400) < 99, "{} of 20000", alone.len());
    assert_eq!(alone, lost(1, Vec::new()));
    assert_ne!(alone, lost(2, Vec::new()));
    let lossy = Wire { loss: 500_000_000, ..wire(1_000_000_000, 0) };
    assert_eq!(alone, lost(1, vec![link([2, 0], lossy), link([1, 2], lossy)]));
}

#[test]
fn directions_of_a_link_lose_different_packets() {
    let lossy = Wire { loss: 300_000_000, ..wire(1_000_000_000, 0) };
    let both_ways = |n: u64| {
        let from = (n % 2) as u16;
        Send { at: n / 2 * MICROSECOND, from, to: 1 - from, size: 125 }
    };
    let (_, hosts) =
        play(&[Host, Host], vec![link([0, 1], lossy)], 1, (0..2_000).map(both_ways).collect());
    let lost = |way: u32| -> Vec<u32> {
        let lines = hosts.losses.iter().map(|&(line, _)| line);
        lines.filter(|line| line % 2 == way).map(|line| line / 2).collect()
    };
    assert_ne!(lost(0), lost(1));
}

#[test]
fn a_lost_packet_takes_its_time_on_the_link() {
    let always = Wire { loss: 1_000_000_000, ..wire(8_000_000, 0) };
    let script = vec![Send { at: 0, from: 0, to: 1, size: 1000 }; 3];
    let mut network =
        perhop_net::Network::new(&[Host, Host], vec![link([0, 1], always)], 1).unwrap();
    let mut hosts = Scripted::new(script, &mut network);
    network.run(perhop_core::Time::from_picos(MILLISECOND), &mut hosts);
    assert_eq!(hosts.losses, [(0, Loss::Link), (1, Loss::Link)]);
    assert_eq!(network.next_event().unwrap().as_picos(), 2 * MILLISECOND);
}

/// Returns the arrivals of packets that are sent every microsecond over a millisecond, in order.
fn arrivals(changes: Wire, packets: u64) -> (Vec<(u64, Line)>, LinkCounters) {
    let script =
        (0..packets).map(|n| Send { at: n * MICROSECOND, from: 0, to: 1, size: 125 }).collect();
    let (network, hosts) = play(&[Host, Host], vec![link([0, 1], changes)], 1, script);
    let arrivals = hosts.arrivals.iter().map(|&(at, _, line)| (at.as_picos(), line)).collect();
    (arrivals, network.link_counters(forth(0)))
}

#[test]
fn reordered_packets_are_overtaken_and_lose_nothing_else() {
    let by = 7 * MICROSECOND + 500_000;
    for jitter in [0, 10 * MICROSECOND] {
        let wire = Wire {
            reorder: Some(Reorder { share: 100_000_000, by: Duration::from_picos(by), gap: 0 }),
            jitter: Duration::from_picos(jitter),
            ..wire(1_000_000_000, MILLISECOND)
        };
        let (arrivals, counters) = arrivals(wire, 20_000);
        assert!(arrivals.is_sorted_by_key(|&(at, _)| at));
        // Five standard deviations of a binomial with n = 20,000 and p = 1/10.
        assert!(counters.reordered.abs_diff(2_000) < 213, "{}", counters.reordered);
        let mut lines: Vec<Line> = arrivals.iter().map(|&(_, line)| line).collect();
        lines.sort_unstable();
        assert!(lines.iter().copied().eq(0..20_000), "every packet arrives once");
        if jitter == 0 {
            let due = |line: Line| u64::from(line + 1) * MICROSECOND + MILLISECOND;
            let late = arrivals.iter().filter(|&&(at, line)| at == due(line) + by).count();
            let in_time = arrivals.iter().filter(|&&(at, line)| at == due(line)).count();
            assert_eq!((late as u64, in_time as u64), (counters.reordered, 20_000 - late as u64));
        } else {
            // Packets that are not reordered keep their order among each other.
            let mut straight = arrivals.iter().map(|&(_, line)| line).collect::<Vec<_>>();
            straight.retain(|&line| {
                let place = arrivals.iter().position(|&(_, of)| of == line).unwrap();
                arrivals[..place].iter().all(|&(_, before)| before < line)
            });
            assert!(straight.len() >= 20_000 - 3 * counters.reordered as usize);
        }
    }
}

/// A packet with 7 µs more arrives at the instant of the seventh after it, and first, because it
/// was sent before.
#[test]
fn of_packets_that_arrive_together_the_first_sent_is_first() {
    let by = Duration::from_picos(7 * MICROSECOND);
    for share in [100_000_000, 500_000_000, 1_000_000_000] {
        let reorder = Some(Reorder { share, by, gap: 0 });
        let (arrivals, counters) =
            arrivals(Wire { reorder, ..wire(1_000_000_000, MILLISECOND) }, 5_000);
        assert!(arrivals.is_sorted());
        assert!(counters.reordered > 400);
        let together = arrivals.windows(2).filter(|pair| pair[0].0 == pair[1].0).count();
        assert!(together > 300 || share == 1_000_000_000, "{together}");
    }
}

/// The only packet on the wire can be overtaken: the last one due becomes the first.
#[test]
fn the_only_packet_on_the_wire_can_be_overtaken() {
    let wire = Wire {
        reorder: Some(Reorder {
            share: 500_000_000,
            by: Duration::from_picos(100 * MICROSECOND),
            gap: 0,
        }),
        ..wire(1_000_000_000, 0)
    };
    let (arrivals, counters) = arrivals(wire, 1_000);
    assert_eq!(arrivals.len(), 1_000);
    assert!(arrivals.is_sorted_by_key(|&(at, _)| at));
    assert!(counters.reordered > 400);
}

#[test]
fn copies_arrive_right_behind_their_packets() {
    let wire = Wire { duplicate: 250_000_000, ..wire(1_000_000_000, MILLISECOND) };
    let (arrivals, counters) = arrivals(wire, 20_000);
    assert_eq!(arrivals.len() as u64, 20_000 + counters.duplicated);
    // Five standard deviations of a binomial with n = 20,000 and p = 1/4.
    assert!(counters.duplicated.abs_diff(5_000) < 307, "{}", counters.duplicated);
    assert!(arrivals.is_sorted());
    let pairs = arrivals.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert_eq!(pairs as u64, counters.duplicated);
    // The transmitter does not count copies.
    assert_eq!(counters.packets, 20_000);
}

/// Each impairment alone: whether a wire has it from the beginning, or is set before the first
/// packet or while packets of another one are under way.
#[test]
fn a_wire_that_is_set_has_all_its_impairments() {
    use perhop_net::{Gilbert, Variation, VariationDistribution};
    let plain = wire(8_000_000, 4 * MILLISECOND);
    let by = Duration::from_picos(3 * MILLISECOND);
    let half = 500_000_000;
    let variation = |in_order| {
        let distribution = VariationDistribution::Uniform;
        Some(Variation { by, distribution, in_order })
    };
    let reorder = |gap| Some(Reorder { share: half, by, gap });
    let gilbert = Some(Gilbert { p: half, r: half, good: 0, bad: 1_000_000_000 });
    let wires = [
        plain,
        Wire { jitter: by, ..plain },
        Wire { loss: half, ..plain },
        Wire { gilbert, ..plain },
        Wire { duplicate: half, ..plain },
        Wire { reorder: reorder(0), ..plain },
        Wire { reorder: reorder(2), ..plain },
        Wire { variation: variation(true), ..plain },
        Wire { variation: variation(false), ..plain },
        Wire { delay_limit: Some(2), ..plain },
    ];
    let script: Vec<Send> = (0..100)
        .map(|n| Send { at: n / 10 * 20 * MILLISECOND, from: 0, to: 1, size: 1000 })
        .collect();
    let run = |first: Wire, set: Option<Wire>| {
        let mut network = Network::new(&[Host, Host], vec![link([0, 1], first)], 1).unwrap();
        let mut hosts = Scripted::new(script.clone(), &mut network);
        if let Some(wire) = set {
            network.set_wire(forth(0), wire);
        }
        network.run(Time::MAX, &mut hosts);
        (hosts.arrivals, hosts.losses, network.link_counters(forth(0)))
    };
    let expected = wires.map(|wire| run(wire, None));
    for (number, other) in expected.iter().enumerate() {
        let of_plain = number > 0 && *other == expected[0];
        assert!(!of_plain, "impairment {number} has no effect");
    }
    for (number, wire) in wires.into_iter().enumerate() {
        assert_eq!(run(plain, Some(wire)), expected[number], "{wire:?}");
        assert_eq!(run(Wire { loss: 1, ..plain }, Some(wire)), expected[number], "{wire:?}");
    }
}

/// A link with a trace that changes as a timeline does behaves as one whose wire is set.
#[test]
fn a_trace_is_a_timeline_of_rates() {
    let steps = [(0, 8_000_000), (100, 1_000_000), (300, 20_000_000), (450, 3_000_000)];
    let trace = || {
        let step = |&(at, rate): &(u64, u64)| TraceStep {
            at: Duration::from_picos(at * MILLISECOND),
            rate,
            medium: None,
        };
        Trace::new(steps.iter().map(step).collect(), None).unwrap()
    };
    let sizes = (0..400_u32).map(|packet| 40 + packet * 7 % 1461);
    let script: Vec<Send> = sizes
        .enumerate()
        .map(|(n, size)| Send { at: n as u64 * 2 * MILLISECOND + 7, from: 0, to: 1, size })
        .collect();
    let play_with = |watched: bool| {
        let links = vec![link([0, 1], wire(1_000_000_000, 5 * MILLISECOND))];
        let mut network = Network::new(&[Host, Host], links, 1).unwrap();
        network.set_trace(forth(0), trace());
        if watched {
            network.watch(forth(0));
        }
        let mut hosts = Scripted::new(script.clone(), &mut network);
        network.run(Time::MAX, &mut hosts);
        (hosts.arrived(), network.link_counters(forth(0)))
    };
    let (arrived, counters) = play_with(false);
    assert_eq!((&arrived, counters), (&play_with(true).0, play_with(true).1));
    // Each packet ends when the bits of the trace since the begin of its transmission suffice.
    let sent = |from: u64, to: u64| trace().capacity(Time::from_picos(from), Time::from_picos(to));
    let mut busy = 0;
    for (send, at) in script.iter().zip(&arrived) {
        let (begins, ends) = (busy.max(send.at), at.unwrap() - 5 * MILLISECOND);
        assert!((sent(begins, ends) - f64::from(send.size)).abs() < 1e-3, "{send:?}");
        busy = ends;
    }
}

/// From 50 ms on, a packet takes 4 ms instead of 1 ms, whether a trace begins after packets of the
/// same length or the wire changes.
#[test]
fn a_trace_may_be_set_later() {
    let mut network =
        Network::new(&[Host, Host], vec![link([0, 1], wire(8_000_000, 0))], 1).unwrap();
    let script = (0..6).map(|n| Send { at: n * 20 * MILLISECOND, from: 0, to: 1, size: 1000 });
    let mut hosts = Scripted::new(script.collect(), &mut network);
    network.run(Time::from_picos(50 * MILLISECOND), &mut hosts);
    assert!(network.trace(forth(0)).is_none());
    let step = TraceStep { at: Duration::ZERO, rate: 2_000_000, medium: None };
    network.set_trace(forth(0), Trace::new(vec![step], None).unwrap());
    assert!(network.trace(forth(0)).is_some() && network.trace(back(0)).is_none());
    network.run(Time::MAX, &mut hosts);
    let expected = [1, 21, 41, 64, 84, 104].map(|at| Some(at * MILLISECOND));
    assert_eq!(hosts.arrived(), expected);
    assert_eq!(network.events(), 12, "a timer and an arrival each");
}

/// The jitter of a trace draws as that of a wire does, and a step without a value keeps it.
#[test]
fn a_trace_changes_the_jitter() {
    let by = |millis| Duration::from_picos(millis * MILLISECOND);
    let medium = |jitter| Some(TraceMedium { jitter, ..TraceMedium::default() });
    let step = |at, medium| TraceStep { at: by(at), rate: 8_000_000, medium };
    let steps = vec![step(0, None), step(100, medium(Some(by(5)))), step(300, medium(None))];
    let script: Vec<Send> =
        (0..50).map(|n| Send { at: n * 10 * MILLISECOND, from: 0, to: 1, size: 1000 }).collect();
    let plain = wire(8_000_000, 2 * MILLISECOND);
    let run = |traced: bool| {
        let mut network = Network::new(&[Host, Host], vec![link([0, 1], plain)], 1).unwrap();
        if traced {
            network.set_trace(forth(0), Trace::new(steps.clone(), None).unwrap());
        }
        let mut hosts = Scripted::new(script.clone(), &mut network);
        network.run(Time::from_picos(99 * MILLISECOND), &mut hosts);
        if !traced {
            network.set_wire(forth(0), Wire { jitter: by(5), ..plain });
        }
        network.run(Time::MAX, &mut hosts);
        hosts.arrived()
    };
    assert_eq!(run(true), run(false));
}

/// Delay and loss of a trace replace those of the wire from one packet to the next.
#[test]
fn a_trace_changes_the_delay_and_the_loss() {
    let medium = |delay, loss| {
        let delay = Some(Duration::from_picos(delay * MILLISECOND));
        Some(TraceMedium { delay, jitter: None, loss: Some(loss) })
    };
    let step = |at, medium| TraceStep {
        at: Duration::from_picos(at * MILLISECOND),
        rate: 12_000_000,
        medium,
    };
    let steps = vec![
        step(0, medium(20, 0)),
        step(100, medium(5, 0)),
        step(200, medium(5, 999_999_999)),
        step(300, medium(1, 0)),
    ];
    let links = vec![link([0, 1], wire(1_000, 0))];
    let mut network = Network::new(&[Host, Host], links, 1).unwrap();
    network.set_trace(forth(0), Trace::new(steps, None).unwrap());
    let script = (0..40).map(|n| Send { at: n * 10 * MILLISECOND, from: 0, to: 1, size: 1500 });
    let mut hosts = Scripted::new(script.collect(), &mut network);
    network.run(Time::MAX, &mut hosts);
    for (number, at) in hosts.arrived().into_iter().enumerate() {
        let sent = 10 * number as u64 + 1;
        let expected = match number {
            0..10 => Some(sent + 20),
            10 => Some(111), // packets stay in order
            11..20 => Some(sent + 5),
            20..30 => None,
            _ => Some(sent + 1),
        };
        assert_eq!(at, expected.map(|at| at * MILLISECOND), "{number}");
    }
}
