//! Properties of all trees, settings and arrivals.

use perhop_core::{Bytes, Dscp, Duration, Time};
use perhop_queue::{Cbq, CbqClassKind, CbqConfig, CbqSpec, Match};
use proptest::prelude::*;

use super::lab::*;

const ROOT: u64 = 10 * MEGABIT;

/// A leaf: its share of its parent, true if it borrows, its priority.
type Leaf = (u64, bool, u8);

/// Leaves, or classes with leaves.
#[derive(Clone, Debug)]
struct Tree(Vec<(u64, bool, Vec<Leaf>)>);

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = || (1_u64..10, any::<bool>(), 0_u8..3);
    let class = (1_u64..10, any::<bool>(), prop::collection::vec(leaf(), 0..4));
    prop::collection::vec(class, 1..4).prop_map(Tree)
}

/// Returns the tree's classes; the DSCPs of leaves are their numbers. A class without leaves is
/// one.
fn build(tree: &Tree, limit: u64) -> (Vec<CbqSpec<u64>>, u8) {
    let mut next = 0;
    let sum: u64 = tree.0.iter().map(|class| class.0).sum();
    let mut make = |bps, borrow, priority| {
        next += 1;
        let spec = leaf(next - 1, bps, borrow, limit);
        let CbqClassKind::Leaf(class, _) = spec.kind else { unreachable!() };
        CbqSpec { kind: CbqClassKind::Leaf(class, priority), ..spec }
    };
    let mut specs = Vec::new();
    for (part, borrow, leaves) in &tree.0 {
        let bps = ROOT * part / sum;
        if leaves.is_empty() {
            specs.push(make(bps, *borrow, 0));
            continue;
        }
        let parts: u64 = leaves.iter().map(|leaf| leaf.0).sum();
        let inner = leaves
            .iter()
            .map(|&(part, borrow, priority)| make(bps * part / parts, borrow, priority));
        let inner = inner.collect::<Vec<_>>();
        let dscps = inner.iter().flat_map(|spec| spec.matches.0[0].conditions.dscps.clone());
        let dscps: Vec<Dscp> = dscps.collect();
        specs.push(CbqSpec {
            matches: Match { dscps, ..Match::default() }.into(),
            rate: rate(bps),
            borrow: *borrow,
            kind: CbqClassKind::Interior(Box::default(), inner),
        });
    }
    (specs, next)
}

prop_compose! {
    fn settings()(
        tick in prop::sample::select(vec![1_u64, 10]), maxburst in prop::option::of(1_u32..40),
        minburst in 1_u32..4, token_bucket: bool, efficient: bool, kick: bool,
    ) -> CbqConfig {
        CbqConfig {
            tick: Duration::from_millis(tick), maxburst, minburst, token_bucket, efficient, kick,
            ..config(ROOT)
        }
    }
}

fn at(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

/// Gaps in microseconds, leaves and sizes.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u8, u32)>> {
    let gap = prop_oneof![8 => 0_u64..3_000, 1 => 0_u64..100_000];
    prop::collection::vec((gap, any::<u8>(), 40_u32..1501), 1..200)
}

fn schedule(arrivals: &[(u64, u8, u32)], leaves: u8) -> Vec<(Time, perhop_core::Packet<u64>)> {
    let mut now = 0;
    let number = |(number, &(gap, leaf, size)): (usize, &(u64, u8, u32))| {
        now += gap;
        (at(now), packet(leaf % leaves, size, number as u64))
    };
    arrivals.iter().enumerate().map(number).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Every arrival is sent or dropped, and each leaf sends in order. The lab checks that the link
    /// never stalls and that the backlog is right.
    #[test]
    fn nothing_is_lost_or_reordered(
        tree in tree(), config in settings(), arrivals in arrivals(), limit in 1_u64..60,
        wire in prop::sample::select(vec![10 * MEGABIT, 100 * MEGABIT]),
    ) {
        let (specs, leaves) = build(&tree, limit);
        let arrivals = schedule(&arrivals, leaves);
        let mut cbq = Cbq::new(config, specs);
        // A class of 100 kb/s needs 24 s for 200 packets, and two ticks for each.
        let (sent, dropped) = run(&mut cbq, &arrivals, wire, at(100_000_000));
        prop_assert_eq!(sent.len() as u64 + dropped, arrivals.len() as u64);
        for leaf in 0..leaves {
            let numbers = sent.iter().filter(|sent| sent.1 == leaf).map(|sent| sent.3);
            prop_assert!(numbers.is_sorted_by(|a, b| a < b));
        }
    }

    /// The token bucket bounds the output in any time t: its depth, the tokens since it was last
    /// filled, a packet that overdraws it, and the root's rate times t.
    #[test]
    fn the_token_bucket_bounds_the_root(
        tree in tree(), config in settings(), arrivals in arrivals(),
    ) {
        let (specs, leaves) = build(&tree, u64::MAX);
        let arrivals = schedule(&arrivals, leaves);
        // A driver of an infinitely fast wire, so that transmissions begin when packets are handed
        // over.
        let config = CbqConfig { token_bucket: true, kick: true, ..config };
        let mut cbq = Cbq::new(config, specs);
        let (sent, _) = run(&mut cbq, &arrivals, 1_000_000 * MEGABIT, at(100_000_000));
        let depth = 4 * 1500;
        for (index, first) in sent.iter().enumerate() {
            let mut bytes = 0;
            for later in &sent[index..] {
                bytes += later.2;
                let span = later.0.since(first.0);
                let bound = Bytes::new(2 * depth + 1500) + rate(ROOT) * span;
                prop_assert!(Bytes::new(bytes) <= bound + Bytes::new(1));
            }
        }
    }

    /// A class that may not borrow gets its rate and its bursts, and no more.
    #[test]
    fn a_class_that_does_not_borrow_keeps_its_rate(
        config in settings(), share in 1_u64..10, size in 200_u32..1501,
    ) {
        // `efficient` requires a class that may borrow.
        let bps = ROOT * share / 10;
        let shares = drain(config, vec![leaf(0, bps, false, u64::MAX)], size, 20 * MEGABIT);
        let burst = f64::from(config.maxburst.unwrap_or(16).max(2) + 3) * 1500.0 * 8.0 / 5.0;
        prop_assert!(shares[0] <= bps as f64 * 1.02 + burst, "{} of {bps}", shares[0]);
    }
}
