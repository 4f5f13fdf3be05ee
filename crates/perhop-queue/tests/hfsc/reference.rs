//! H-FSC beside a second implementation with lists in place of trees, and guarantees by hand.

use std::collections::VecDeque;

use perhop_core::{Dscp, Stream, Time};
use perhop_queue::{
    Dequeue, Discipline, Fifo, Hfsc, HfscCurves, HfscSpec, Ledger, Limit, Queue, ServiceCurve,
};

use crate::lab::*;

/// A curve of two slopes from a point, as in the paper's figure 8: times in picoseconds, service in
/// 10⁻¹² bit.
#[derive(Clone, Copy, Debug)]
struct Line {
    x: i128,
    y: i128,
    dx: i128,
    m1: i128,
    m2: i128,
}

impl Line {
    fn new(curve: ServiceCurve) -> Self {
        let dx = curve.d.as_picos().into();
        Self { x: 0, y: 0, dx, m1: curve.m1.into(), m2: curve.m2.into() }
    }

    fn knee(&self) -> i128 {
        self.y + self.dx * self.m1
    }

    fn at(&self, x: i128) -> i128 {
        let since = (x - self.x).max(0);
        self.y + since.min(self.dx) * self.m1 + (since - self.dx).max(0) * self.m2
    }

    /// The first picosecond at which the curve has given `y`; at a knee that a flat slope reaches,
    /// the end of that slope.
    fn when(&self, y: i128) -> i128 {
        let up = |service: i128, slope: i128| (service + slope - 1) / slope;
        match y {
            _ if y < self.y => self.x,
            _ if y > self.knee() || self.dx * self.m1 == 0 => {
                self.x + self.dx + up(y - self.knee(), self.m2)
            }
            _ => self.x + up(y - self.y, self.m1),
        }
    }

    /// `rtsc_min` of ALTQ: the lower of this curve and one that begins at a point.
    fn lower(&mut self, curve: ServiceCurve, x: i128, y: i128) {
        let new = Self { x, y, ..Self::new(curve) };
        let now = self.at(x);
        if new.m1 <= new.m2 {
            if now >= y {
                *self = new;
            }
        } else if now > y {
            if self.at(x + new.dx) >= new.knee() {
                *self = new;
            } else {
                let more = (self.x + self.dx - x).max(0);
                *self = Self { dx: (now - y) / (new.m1 - new.m2) + more, ..new };
            }
        }
    }
}

#[derive(Debug, Default)]
struct Class {
    parent: usize,
    children: Vec<usize>,
    curves: HfscCurves,
    queue: VecDeque<(usize, i128)>,
    deadlines: Option<Line>,
    eligibles: Option<Line>,
    served: i128,
    eligible: i128,
    deadline: i128,
    virtuals: Option<Line>,
    vt: i128,
    skipped: i128,
    total: i128,
    limits: Option<Line>,
    own_fit: i128,
    active: bool,
    latest: i128,
    selected: i128,
}

struct Reference(Vec<Class>);

const BYTE: i128 = 8_000_000_000_000;

impl Reference {
    fn add(&mut self, parent: usize, curves: HfscCurves) -> usize {
        let index = self.0.len();
        let line = |curve: Option<ServiceCurve>| curve.map(Line::new);
        self.0.push(Class {
            parent,
            curves,
            deadlines: line(curves.realtime),
            virtuals: line(curves.linkshare),
            limits: line(curves.upperlimit),
            ..Class::default()
        });
        if index > 0 {
            self.0[parent].children.push(index);
        }
        index
    }

    /// The times of the first packet of a leaf.
    fn times(&mut self, leaf: usize) {
        let class = &mut self.0[leaf];
        if let (Some(deadlines), Some(eligibles), Some((_, size))) =
            (class.deadlines, class.eligibles, class.queue.front())
        {
            class.eligible = eligibles.when(class.served);
            class.deadline = deadlines.when(class.served + size * BYTE);
        }
    }

    fn fit(&self, index: usize) -> i128 {
        let active = self.0[index].children.iter().filter(|child| self.0[**child].active);
        let below = active.map(|child| self.fit(*child)).min().unwrap_or(0);
        self.0[index].own_fit.max(below)
    }

    fn enqueue(&mut self, now: i128, leaf: usize, id: usize, size: i128) {
        self.0[leaf].queue.push_back((id, size));
        if self.0[leaf].queue.len() > 1 {
            return;
        }
        let class = &mut self.0[leaf];
        if let (Some(curve), Some(deadlines)) = (class.curves.realtime, &mut class.deadlines) {
            deadlines.lower(curve, now, class.served);
            let convex = curve.m1 <= curve.m2;
            class.eligibles =
                Some(Line { dx: if convex { 0 } else { deadlines.dx }, ..*deadlines });
        }
        self.times(leaf);
        let mut index = leaf;
        while index > 0 && !self.0[index].active {
            let Some(curve) = self.0[index].curves.linkshare else { break };
            let parent = self.0[index].parent;
            let siblings = self.0[parent].children.iter().filter(|child| self.0[**child].active);
            let times: Vec<i128> = siblings.map(|child| self.0[*child].vt).collect();
            let system = match (times.iter().min(), times.iter().max()) {
                (Some(least), Some(greatest)) => (least + greatest) / 2,
                _ => self.0[parent].latest,
            };
            let class = &mut self.0[index];
            class.active = true;
            class.vt = class.vt.max(system);
            class.skipped = 0;
            class.virtuals.as_mut().unwrap().lower(curve, class.vt, class.total);
            if let (Some(curve), Some(limits)) = (class.curves.upperlimit, &mut class.limits) {
                limits.lower(curve, now, class.total);
                class.own_fit = limits.when(class.total);
            }
            let vt = class.vt;
            self.0[parent].latest = self.0[parent].latest.max(vt);
            index = parent;
        }
    }

    /// The leaf that sends, and true if by its guarantee; or the time from which one may.
    fn select(&self, now: i128) -> Result<(usize, bool), Option<i128>> {
        let waiting = || (1..self.0.len()).filter(|index| !self.0[*index].queue.is_empty());
        let guaranteed = || waiting().filter(|index| self.0[*index].curves.realtime.is_some());
        let eligible = guaranteed().filter(|index| self.0[*index].eligible <= now);
        if let Some(leaf) = eligible.min_by_key(|index| self.0[*index].deadline) {
            return Ok((leaf, true));
        }
        let mut index = 0;
        loop {
            let ready = self.0[index].children.iter().copied();
            let ready = ready.filter(|child| self.0[*child].active && self.fit(*child) <= now);
            match ready.min_by_key(|child| self.0[*child].vt) {
                Some(child) if self.0[child].children.is_empty() => return Ok((child, false)),
                Some(child) => index = child,
                None => break,
            }
        }
        let later = guaranteed().map(|index| self.0[index].eligible);
        let fits = self.0[0].children.iter().filter(|child| self.0[**child].active);
        Err(later.chain(fits.map(|child| self.fit(*child))).min())
    }

    fn dequeue(&mut self, now: i128) -> Result<usize, Option<i128>> {
        let (leaf, by_guarantee) = self.select(now)?;
        let (id, size) = self.0[leaf].queue.pop_front().unwrap();
        if by_guarantee && self.0[leaf].curves.realtime.is_some() {
            self.0[leaf].served += size * BYTE;
        }
        self.times(leaf);
        let mut index = leaf;
        while index > 0 {
            let parent = self.0[index].parent;
            let children = self.0[index].children.iter();
            let more = !self.0[index].queue.is_empty()
                || children.clone().any(|child| self.0[*child].active);
            if self.0[index].curves.linkshare.is_some() && !by_guarantee {
                self.0[parent].selected = self.0[parent].selected.max(self.0[index].vt);
            }
            let selected = self.0[parent].selected;
            let class = &mut self.0[index];
            class.total += size * BYTE;
            if class.active {
                // ALTQ's adjustment for a class that its upper limit had skipped.
                let time = class.virtuals.unwrap().when(class.total) + class.skipped;
                class.skipped += (selected - time).max(0);
                class.vt = time.max(selected);
                if let Some(limits) = class.limits {
                    class.own_fit = limits.when(class.total);
                }
                class.active = more;
            }
            let vt = class.vt;
            self.0[parent].latest = self.0[parent].latest.max(vt);
            index = parent;
        }
        Ok(id)
    }
}

fn random_curve(numbers: &mut Stream) -> ServiceCurve {
    let slope = |numbers: &mut Stream| 500_000 * (1 + numbers.up_to(7));
    match numbers.up_to(2) {
        0 => linear(slope(numbers)),
        1 => curve(slope(numbers), 1_000 * numbers.up_to(20), slope(numbers)),
        _ => curve(0, 1_000 * (1 + numbers.up_to(9)), slope(numbers)),
    }
}

fn random_curves(numbers: &mut Stream, is_leaf: bool) -> HfscCurves {
    let mut maybe = |chance, odds| (numbers.up_to(odds) < chance).then(|| random_curve(numbers));
    let realtime = if is_leaf { maybe(1, 1) } else { None };
    let upperlimit = maybe(1, 3);
    let only = realtime.is_some() && upperlimit.is_none() && maybe(1, 5).is_some();
    HfscCurves { realtime, linkshare: (!only).then(|| random_curve(numbers)), upperlimit }
}

fn random_tree(numbers: &mut Stream, reference: &mut Reference) -> Vec<HfscSpec<usize>> {
    let mut dscp = 0;
    let mut specs = Vec::new();
    let mut add = |numbers: &mut Stream, reference: &mut Reference, parent| {
        let curves = random_curves(numbers, true);
        reference.add(parent, curves);
        dscp += 1;
        leaf(dscp - 1, curves)
    };
    reference.add(0, HfscCurves::default());
    for _ in 0..1 + numbers.up_to(2) {
        if numbers.up_to(1) == 0 {
            specs.push(add(numbers, reference, 0));
            continue;
        }
        let curves = random_curves(numbers, false);
        let inner = reference.add(0, curves);
        let inside: Vec<_> =
            (0..1 + numbers.up_to(2)).map(|_| add(numbers, reference, inner)).collect();
        let dscps = inside.iter().flat_map(|spec| spec.matches.0[0].conditions.dscps.clone());
        let dscps: Vec<u8> = dscps.map(Dscp::get).collect();
        specs.push(interior(&dscps, curves, inside));
    }
    specs
}

#[test]
fn every_packet_is_that_of_the_lists() {
    let (mut sent, mut waits) = (0, 0);
    for seed in 0..400 {
        let mut numbers = Stream::new(seed, "hfsc");
        let mut reference = Reference(Vec::new());
        let specs = random_tree(&mut numbers, &mut reference);
        let leaves: Vec<usize> = (1..reference.0.len())
            .filter(|index| reference.0[*index].children.is_empty())
            .collect();
        let mut queue = Hfsc::new(specs);
        let mut ledger = Ledger::new();
        let (mut micros, mut id) = (0_u64, 0);
        for _ in 0..300 {
            micros += match numbers.up_to(30) {
                0 => 50_000 * numbers.up_to(9),
                _ => 400 * numbers.up_to(4),
            };
            let picos = micros * 1_000_000;
            if numbers.up_to(9) < 4 {
                let place = numbers.up_to(leaves.len() as u64 - 1) as usize;
                let size = [100, 500, 1500][numbers.up_to(2) as usize];
                for _ in 0..1 + numbers.up_to(3) {
                    let now = Time::from_picos(picos);
                    queue.enqueue(now, packet(id, place as u8, size), &mut ledger);
                    reference.enqueue(picos.into(), leaves[place], id, size.into());
                    id += 1;
                }
                continue;
            }
            let expected = reference.dequeue(picos.into());
            let found = match queue.dequeue(Time::from_picos(picos), &mut ledger) {
                Dequeue::Packet(packet) => Ok(packet.body),
                Dequeue::NotBefore(at) => Err(Some(i128::from(at.as_picos()))),
                Dequeue::Idle => Err(None),
            };
            assert_eq!(found, expected, "seed {seed} at {micros}");
            sent += u32::from(found.is_ok());
            waits += u32::from(matches!(found, Err(Some(_))));
        }
    }
    assert!(sent > 20_000 && waits > 500, "{sent} {waits}");
}

/// Returns the ends of the transmissions of a class, in microseconds.
fn ends(sent: &[Sent], class: u8) -> Vec<u64> {
    let own = sent.iter().filter(|sent| sent.class == class);
    own.map(|sent| sent.end.as_picos() / 1_000_000).collect()
}

/// A leaf with a guarantee of 1 Mb/s alone: a packet of 1000 bytes every 8 ms, each of 800 µs. What
/// it did not use in the first second is no credit for the second.
#[test]
fn a_guarantee_begins_with_each_backlog() {
    let only = HfscCurves { realtime: Some(linear(1_000_000)), ..HfscCurves::default() };
    let mut arrivals = vec![(0, 1, 1000); 2];
    arrivals.extend([(1_000_000, 1, 1000); 4]);
    let sent = run(vec![leaf(1, only)], &arrivals, 2_000_000);
    let expected = [800, 8_800, 1_000_800, 1_008_800, 1_016_800, 1_024_800];
    assert_eq!(ends(&sent, 1), expected);
}

/// 8 Mb/s for 2 ms, two packets of 1000 bytes, then 1 Mb/s: eligible at 0, 1 and 2 ms, then every
/// 8 ms. A backlog that begins again at a second has the steep slope anew.
#[test]
fn a_concave_guarantee_by_hand() {
    let concave = Some(curve(8_000_000, 2_000, 1_000_000));
    let only = HfscCurves { realtime: concave, ..HfscCurves::default() };
    let mut arrivals = vec![(0, 1, 1000); 5];
    arrivals.extend([(1_000_000, 1, 1000); 4]);
    let sent = run(vec![leaf(1, only)], &arrivals, 2_000_000);
    let first = [800, 1_800, 2_800, 10_800, 18_800];
    let second = [1_000_800, 1_001_800, 1_002_800, 1_010_800];
    assert_eq!(ends(&sent, 1), [&first[..], &second].concat());
}

/// Nothing for 10 ms, then 2 Mb/s. The class is eligible by the later slope at once, so that it can
/// keep its deadlines.
#[test]
fn a_convex_guarantee_by_hand() {
    let convex = Some(curve(0, 10_000, 2_000_000));
    let only = HfscCurves { realtime: convex, ..HfscCurves::default() };
    let sent = run(vec![leaf(1, only)], &[(0, 1, 1000); 3], 2_000_000);
    assert_eq!(ends(&sent, 1), [800, 4_800, 8_800]);
}

/// Two guarantees that are eligible at once: the earlier deadline goes first. 500 bytes are due
/// after 2 ms by 2 Mb/s, and 1000 after 8 by 1 Mb/s. At 400 µs, the second class is not eligible
/// again before 2 ms. At 1.2 ms, nobody is, and it sends by its share.
#[test]
fn the_earlier_deadline_goes_first() {
    let with = |rate| HfscCurves { realtime: Some(linear(rate)), ..shares(1_000_000) };
    let specs = vec![leaf(1, with(1_000_000)), leaf(2, with(2_000_000))];
    let arrivals = [(0, 1, 1000), (0, 2, 500), (0, 2, 500)];
    let sent = run(specs, &arrivals, 1_000_000);
    let order: Vec<u8> = sent.iter().map(|sent| sent.class).collect();
    assert_eq!(order, [2, 1, 2]);
}

/// A queue of one packet drops it for the next one, of which the deadline is: 1500, 1000 and 500
/// bytes are due after 12, 8 and 4 ms at 1 Mb/s.
#[test]
fn the_deadline_is_that_of_the_first_packet() {
    let only = HfscCurves { realtime: Some(linear(1_000_000)), ..HfscCurves::default() };
    for (sizes, order) in [([1500, 500], [1, 2]), ([500, 1500], [2, 1])] {
        let one = Queue::Fifo(Fifo::new(Limit::packets(1)).dropping_at_head());
        let mut hfsc = Hfsc::new(vec![queued(1, only, one), leaf(2, only)]);
        let mut ledger = Ledger::new();
        for (id, (dscp, size)) in [(1, sizes[0]), (2, 1000), (1, sizes[1])].into_iter().enumerate()
        {
            hfsc.enqueue(Time::ZERO, packet(id, dscp, size), &mut ledger);
        }
        assert_eq!(ledger.drops.len(), 1);
        for dscp in order {
            let next = hfsc.dequeue(Time::ZERO, &mut ledger);
            assert!(matches!(next, Dequeue::Packet(sent) if sent.header.dscp().get() == dscp));
        }
    }
}
