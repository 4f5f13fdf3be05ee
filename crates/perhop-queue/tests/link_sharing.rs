//! Random trees of classes under random loads, compared with the shares of a fluid server.

use perhop_core::{Bytes, Dscp, Duration, Packet, Rate, Time};
use perhop_queue::{
    Class, ClassService, ClassSpec, Classes, Dequeue, Discipline, Fifo, Ledger, Limit, Match,
    Queue, Shaper, Sharing, Weight,
};
use proptest::prelude::*;

#[path = "../src/lab.rs"]
mod lab;

/// The link's rate in bits per second.
const LINK: u64 = 100_000_000;
const CEILING_BURST: u64 = 6_000;

#[derive(Clone, Debug)]
struct ShareClass {
    guarantee: u64,
    ceiling: Option<u64>,
    priority: u8,
    children: Vec<ShareClass>,
    /// Load of a leaf, in bits per second, and the size of its packets.
    load: u64,
    size: u32,
}

/// Shape of a tree: shares of the parent's guarantee in 1/64, and ceilings relative to the
/// guarantee.
#[derive(Clone, Debug)]
struct Sketch {
    part: u64,
    ceiling: Option<u64>,
    priority: u8,
    load: u64,
    size: u32,
    children: Vec<Sketch>,
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let own = || {
        (
            1_u64..16,
            prop::option::weighted(0.4, 64_u64..256),
            0_u8..3,
            prop_oneof![1 => Just(0), 4 => 1_u64..200],
            prop::sample::select(vec![200_u32, 500, 1000, 1500]),
        )
    };
    let make = |((part, ceiling, priority, load, size), children)| Sketch {
        part,
        ceiling,
        priority,
        load,
        size,
        children,
    };
    let leaf = own().prop_map(move |own| make((own, Vec::new())));
    leaf.prop_recursive(3, 24, 4, move |inner| {
        (own(), prop::collection::vec(inner, 1..5)).prop_map(make)
    })
}

/// Returns a node with the guarantee from its parent.
fn node(sketch: &Sketch, guarantee: u64, priorities: bool) -> ShareClass {
    let sum: u64 = sketch.children.iter().map(|child| child.part).sum();
    let part = |child: &Sketch| node(child, guarantee * child.part / sum, priorities);
    ShareClass {
        guarantee,
        ceiling: sketch.ceiling.map(|ceiling| guarantee * ceiling / 64),
        priority: if priorities { sketch.priority } else { 0 },
        children: sketch.children.iter().map(part).collect(),
        load: LINK * sketch.load / 100,
        size: sketch.size,
    }
}

/// Returns the root, with the whole link.
fn tree(children: &[Sketch], priorities: bool) -> ShareClass {
    let root = Sketch {
        part: 1,
        ceiling: None,
        priority: 0,
        load: 0,
        size: 1500,
        children: children.to_vec(),
    };
    node(&root, LINK, priorities)
}

// The reference: water filling.

/// Returns the greatest rate that a node can use.
fn demand(node: &ShareClass) -> f64 {
    let wanted = match node.children.is_empty() {
        true => node.load as f64,
        false => node.children.iter().map(demand).sum(),
    };
    node.ceiling.map_or(wanted, |ceiling| wanted.min(ceiling as f64))
}

/// Divides `rate` in proportion to `weights`, with at most `wanted` for each.
fn fill(mut rate: f64, weights: &[f64], wanted: &[f64]) -> Vec<f64> {
    let mut got = vec![0.0; weights.len()];
    loop {
        let open: Vec<usize> = (0..weights.len()).filter(|&i| wanted[i] - got[i] > 1e-6).collect();
        let sum: f64 = open.iter().map(|&i| weights[i]).sum();
        if open.is_empty() || rate < 1e-6 {
            return got;
        }
        // The level rises until one has enough, or nothing is left.
        let level =
            open.iter().map(|&i| (wanted[i] - got[i]) / weights[i]).fold(rate / sum, f64::min);
        for i in open {
            got[i] += level * weights[i];
        }
        rate -= level * sum;
    }
}

/// Computes the share of each leaf of `rate`: guarantees first, the rest by priority and guarantee.
fn reference(node: &ShareClass, rate: f64, shares: &mut Vec<f64>) {
    if node.children.is_empty() {
        return shares.push(rate);
    }
    let weights: Vec<f64> = node.children.iter().map(|child| child.guarantee as f64).collect();
    let wanted: Vec<f64> = node.children.iter().map(demand).collect();
    let promised: Vec<f64> =
        weights.iter().zip(&wanted).map(|(guarantee, wanted)| guarantee.min(*wanted)).collect();
    let mut got = fill(rate, &weights, &promised);
    for priority in 0..=u8::MAX {
        let left = rate - got.iter().sum::<f64>();
        let more: Vec<f64> = node
            .children
            .iter()
            .enumerate()
            .map(|(i, child)| if child.priority == priority { wanted[i] - got[i] } else { 0.0 })
            .collect();
        for (got, more) in got.iter_mut().zip(fill(left, &weights, &more)) {
            *got += more;
        }
    }
    for (child, rate) in node.children.iter().zip(got) {
        reference(child, rate, shares);
    }
}

// The tested tree.

/// Builds a class whose leaves have different DSCPs; a class matches those of its leaves.
fn build(node: &ShareClass, sharing: Sharing, next: &mut u8) -> (Class<usize>, Vec<Dscp>) {
    let (queue, dscps) = if node.children.is_empty() {
        *next += 1;
        (Queue::Fifo(Fifo::new(Limit::packets(50))), vec![Dscp::new(*next - 1).unwrap()])
    } else {
        let mut dscps = Vec::new();
        let specs = node.children.iter().map(|child| {
            let (class, of_child) = build(child, sharing, next);
            dscps.extend(&of_child);
            let matches = Match { dscps: of_child, ..Match::default() };
            let weight = Weight::new(child.guarantee.max(1)).unwrap();
            ClassSpec {
                matches: matches.into(),
                service: ClassService::Share(weight, child.priority),
                class,
            }
        });
        let specs = specs.collect();
        (Queue::Classes(Box::new(Classes::sharing(specs, sharing))), dscps)
    };
    let class = Class::new(queue);
    match node.ceiling {
        Some(rate) => {
            let rate = Rate::new(rate.max(1)).unwrap();
            (class.shaped(Shaper::new(rate, Bytes::new(CEILING_BURST))), dscps)
        }
        None => (class, dscps),
    }
}

fn leaves<'a>(node: &'a ShareClass, found: &mut Vec<&'a ShareClass>) {
    match node.children.is_empty() {
        true => found.push(node),
        false => node.children.iter().for_each(|child| leaves(child, found)),
    }
}

/// A departure: its begin, leaf and bytes.
type Sent = (Time, usize, u64);

/// Feeds every leaf at its load for `span`, and drains the root through the link.
fn run(root: &mut Class<usize>, tree: &ShareClass, span: Duration) -> Vec<Sent> {
    let mut found = Vec::new();
    leaves(tree, &mut found);
    let rate = Rate::new(LINK).unwrap();
    // Leaves start one after the other, so that they are not synchronised.
    let mut arrivals: Vec<(Time, usize)> = found
        .iter()
        .enumerate()
        .filter(|(_, leaf)| leaf.load > 0)
        .map(|(i, _)| (Time::ZERO + Duration::from_micros(7 * i as u64), i))
        .collect();
    let end = Time::ZERO + span;
    let (mut now, mut sent) = (Time::ZERO, Vec::new());
    let mut ledger = Ledger::new();
    let mut waiting = 0_u64;
    // The next instant at which the root is polled.
    let mut ask = Time::MAX;
    while now < end {
        let due = arrivals.iter().enumerate().min_by_key(|(_, arrival)| **arrival);
        let (slot, at, leaf) = match due {
            Some((slot, &(at, leaf))) => (slot, at, leaf),
            None => break,
        };
        if at <= ask {
            now = at;
            let size = found[leaf].size;
            arrivals[slot].0 = at + Bytes::new(size.into()) / Rate::new(found[leaf].load).unwrap();
            root.enqueue(now, packet(leaf, size), &mut ledger);
            waiting = waiting + 1 - ledger.drops.len() as u64;
            ledger.drops.clear();
            assert_eq!(root.backlog().packets, waiting);
            let free = sent.last().map_or(now, |&(began, _, size)| began + Bytes::new(size) / rate);
            ask = free.max(now);
        } else {
            now = ask;
            match root.dequeue(now, &mut ledger) {
                Dequeue::Packet(packet) => {
                    waiting -= 1;
                    sent.push((now, packet.body, packet.size().get()));
                    ask = if waiting > 0 { now + packet.size() / rate } else { Time::MAX };
                }
                Dequeue::NotBefore(at) => {
                    assert!(at > now && waiting > 0);
                    ask = at;
                }
                Dequeue::Idle => {
                    assert_eq!(waiting, 0, "the root idles with a backlog");
                    ask = Time::MAX;
                }
            }
        }
    }
    sent
}

/// Returns a packet of a leaf, with the DSCP of this number.
fn packet(leaf: usize, size: u32) -> Packet<usize> {
    Packet { header: lab::packet(size, leaf as u8).header, body: leaf }
}

/// Checks that every node's departures stay below its ceiling's curve; `first` is its first leaf.
/// The bound is exact, except inside another ceiling (`held`), where a packet may wait for the next
/// one's time.
fn check_ceilings(
    node: &ShareClass,
    first: usize,
    sent: &[Sent],
    held: bool,
) -> Result<usize, TestCaseError> {
    let mut next = first;
    if node.children.is_empty() {
        next += 1;
    }
    for child in &node.children {
        next = check_ceilings(child, next, sent, held || node.ceiling.is_some())?;
    }
    if let Some(ceiling) = node.ceiling {
        // An independent bucket: the debt since the bucket was last full must not exceed the burst.
        const BYTE: u128 = 8_000_000_000_000;
        let burst = u128::from(CEILING_BURST) + if held { 1_500 } else { 0 };
        let (mut debt, mut last) = (0_u128, Time::ZERO);
        for &(at, leaf, size) in sent {
            if (first..next).contains(&leaf) {
                let earned = u128::from(at.since(last).as_picos()) * u128::from(ceiling.max(1));
                debt = debt.saturating_sub(earned) + u128::from(size) * BYTE;
                prop_assert!(debt <= burst * BYTE, "above the ceiling at {at:?}");
                last = at;
            }
        }
    }
    Ok(next)
}

/// Collects, for each leaf, how many packets its bucket and those of the classes around it hold: a
/// class's bucket has room for one packet of each of its siblings, and for two of its own.
fn tokens_above(node: &ShareClass, above: u32, packets: &mut Vec<u32>) {
    if node.children.is_empty() {
        packets.push(above);
    }
    for child in &node.children {
        tokens_above(child, above + 1 + node.children.len() as u32, packets);
    }
}

fn check(sketches: &[Sketch], priorities: bool, sharing: Sharing) -> Result<(), TestCaseError> {
    let tree = tree(sketches, priorities);
    let mut found = Vec::new();
    leaves(&tree, &mut found);
    prop_assume!(found.len() <= 64);
    let mut root = build(&tree, sharing, &mut 0).0;
    let span = Duration::from_millis(1_000);
    let sent = run(&mut root, &tree, span);
    check_ceilings(&tree, 0, &sent, false)?;
    let mut shares = Vec::new();
    reference(&tree, demand(&tree).min(LINK as f64), &mut shares);
    // At either end of the interval a class may be a packet ahead or behind, at each of three
    // levels; with guarantees, by the content of the buckets above it.
    let mut packets = Vec::new();
    match sharing {
        Sharing::LinkShare => tokens_above(&tree, 0, &mut packets),
        _ => packets.resize(found.len(), 3),
    }
    let half = Time::ZERO + span / 2;
    for (leaf, share) in shares.iter().enumerate() {
        let bytes: u64 = sent.iter().filter(|s| s.1 == leaf && s.0 >= half).map(|s| s.2).sum();
        let expected = share / 8.0 / 2.0;
        let slack = (expected * 0.01).max(f64::from(packets[leaf]) * 1500.0);
        prop_assert!(
            (bytes as f64 - expected).abs() <= slack,
            "leaf {leaf} of {}: {bytes} bytes, expected {expected}\n{tree:#?}",
            shares.len()
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn weighted_fair_trees_fill_as_water_does(sketches in prop::collection::vec(sketch(), 1..5)) {
        check(&sketches, false, Sharing::Wfq)?;
    }

    #[test]
    fn trees_with_priorities_fill_as_water_does(sketches in prop::collection::vec(sketch(), 1..5)) {
        check(&sketches, true, Sharing::LinkShare)?;
    }
}
