//! The calendar compared with one that examines every booking, and its paths with all paths.

use perhop_calendar::{
    Booking, Calendar, Constraints, Effort, Fit, LinkSpec, Overlaps, PacketSet, Path, Refusal,
    Selector, Span,
};
use proptest::prelude::*;

const ORIGIN: u64 = 1_700_000_000;
const NODES: u32 = 5;
const CLASSES: u32 = 2;

/// A calendar that examines every booking.
#[derive(Clone, Debug)]
struct Reference {
    links: Vec<LinkSpec>,
    bookings: Vec<Known>,
}

/// A booking's number, the booking, and its hold.
type Known = (u64, Booking, Option<(Span, u64)>);

impl Reference {
    /// Returns the rate booked on a link, in a class or in all, at a second.
    fn level(&self, link: u32, class: Option<u32>, second: u64) -> u64 {
        self.bookings
            .iter()
            .filter(|(_, b, _)| b.links.contains(&link) && (class.is_none() || b.class == class))
            .map(|(_, b, held)| {
                let terms = [Some((b.span, b.rate)), *held].into_iter().flatten();
                let now = terms.filter(|(s, _)| s.start() <= second && second < s.end());
                now.map(|(_, rate)| rate).max().unwrap_or(0)
            })
            .sum()
    }

    fn reservable(&self, link: u32, class: Option<u32>) -> u64 {
        let spec = &self.links[link as usize];
        class.map_or(spec.reservable, |class| spec.classes[class as usize])
    }

    /// Returns the rate free on all links at a second.
    fn free_at(&self, links: &[u32], class: Option<u32>, second: u64) -> u64 {
        let free = |link: u32, class| {
            self.reservable(link, class).saturating_sub(self.level(link, class, second))
        };
        let of = |&link: &u32| match class {
            Some(_) => free(link, None).min(free(link, class)),
            None => free(link, None),
        };
        links.iter().map(of).min().unwrap()
    }

    /// Returns the seconds in a span at which the free rate may change.
    fn edges(&self, span: Span) -> Vec<u64> {
        let spans = self.bookings.iter().flat_map(|(_, b, held)| {
            [Some(b.span), held.map(|(span, _)| span)].into_iter().flatten()
        });
        let ends = spans.flat_map(|span| [span.start(), span.end()]);
        let mut edges: Vec<u64> = ends.filter(|&e| span.start() < e && e < span.end()).collect();
        edges.push(span.start());
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    fn free(&self, links: &[u32], class: Option<u32>, span: Span) -> u64 {
        self.edges(span).iter().map(|&edge| self.free_at(links, class, edge)).min().unwrap()
    }

    /// Returns the earliest start, which is that of the span or the end of a booking.
    fn earliest(
        &self,
        links: &[u32],
        class: Option<u32>,
        within: Span,
        seconds: u64,
        rate: u64,
    ) -> Option<u64> {
        self.edges(within).into_iter().find(|&start| {
            start + seconds <= within.end()
                && self.free(links, class, Span::new(start, start + seconds).unwrap()) >= rate
        })
    }

    /// Collects all paths without a loop.
    fn ways(&self, from: u32, to: u32, so_far: &mut Vec<u32>, all: &mut Vec<Vec<u32>>) {
        let at = so_far.last().map_or(from, |&link| self.links[link as usize].ends[1]);
        if at == to {
            all.push(so_far.clone());
            return;
        }
        for link in 0..self.links.len() as u32 {
            let [begin, end] = self.links[link as usize].ends;
            let been = end == from || so_far.iter().any(|&l| self.links[l as usize].ends[1] == end);
            if begin == at && !been {
                so_far.push(link);
                self.ways(from, to, so_far, all);
                so_far.pop();
            }
        }
    }

    fn path(&self, links: Vec<u32>) -> Path {
        let delay_ns = links.iter().map(|&link| self.links[link as usize].delay_ns).sum();
        Path { links, delay_ns }
    }
}

fn links() -> impl Strategy<Value = Vec<LinkSpec>> {
    let link = (
        0..NODES,
        1..NODES,
        0_u64..4,
        5_u64..12,
        prop::collection::vec(1_u64..9, CLASSES as usize),
    );
    let link = link.prop_map(|(from, further, delay_ns, reservable, classes)| LinkSpec {
        ends: [from, (from + further) % NODES],
        delay_ns,
        reservable,
        classes,
    });
    // All nodes exist.
    prop::collection::vec(link, 3..12).prop_map(|mut links| {
        links[0].ends = [0, NODES - 1];
        links
    })
}

fn second() -> impl Strategy<Value = u64> {
    // Near the edges of hours, and across a few of them.
    let near =
        (1_u64..6, 0_u64..5).prop_map(|(hour, off)| ORIGIN - ORIGIN % 3600 + hour * 3600 + off - 2);
    prop_oneof![near, ORIGIN..ORIGIN + 5 * 3600]
}

fn span() -> impl Strategy<Value = Span> {
    (second(), second()).prop_filter_map("empty", |(a, b)| Span::new(a.min(b), a.max(b)))
}

fn booking() -> impl Strategy<Value = Booking> {
    let links = prop::collection::vec(0_u32..12, 1..4);
    let class = prop::option::of(0..CLASSES);
    (links, class, span(), 1_u64..6).prop_map(|(links, class, span, rate)| Booking {
        links,
        class,
        span,
        rate,
    })
}

#[derive(Clone, Debug)]
enum Action {
    Book(u64, Booking),
    Change(u64, Booking),
    Release(u64),
    /// Holds a rate, without admission.
    Keep(u64, Span, u64),
    LetGo(u64),
    /// Checks a booking without another one.
    Without(u64, Booking),
}

fn action() -> impl Strategy<Value = Action> {
    let id = 0_u64..12;
    prop_oneof![
        4 => (id.clone(), booking()).prop_map(|(id, booking)| Action::Book(id, booking)),
        2 => (id.clone(), booking()).prop_map(|(id, booking)| Action::Change(id, booking)),
        1 => id.clone().prop_map(Action::Release),
        3 => (id.clone(), span(), 1_u64..9)
            .prop_map(|(id, span, rate)| Action::Keep(id, span, rate)),
        1 => id.clone().prop_map(Action::LetGo),
        2 => (id, booking()).prop_map(|(id, booking)| Action::Without(id, booking)),
    ]
}

fn apply(
    calendar: &mut Calendar,
    reference: &mut Reference,
    action: Action,
) -> Result<(), TestCaseError> {
    let place =
        |reference: &Reference, id| reference.bookings.iter().position(|(known, ..)| *known == id);
    match action {
        Action::Book(id, booking) => {
            let answer = calendar.book(id, booking.clone());
            if place(reference, id).is_some() {
                prop_assert_eq!(answer, Err(Refusal::Exists(id)));
            } else if admits(reference, &booking, &answer)? {
                reference.bookings.push((id, booking, None));
            }
        }
        Action::Change(id, booking) => {
            let answer = calendar.change(id, booking.clone());
            match place(reference, id) {
                None => prop_assert_eq!(answer, Err(Refusal::Unknown(id))),
                Some(place) => {
                    let old = reference.bookings.remove(place);
                    let new = if admits(reference, &booking, &answer)? {
                        (id, booking, None)
                    } else {
                        old
                    };
                    reference.bookings.push(new);
                }
            }
        }
        Action::Release(id) => match place(reference, id) {
            None => prop_assert_eq!(calendar.release(id), Err(Refusal::Unknown(id))),
            Some(place) => {
                prop_assert_eq!(calendar.release(id), Ok(reference.bookings.remove(place).1));
            }
        },
        Action::Keep(id, span, rate) => {
            let answer = calendar.hold(id, span, rate);
            match place(reference, id) {
                None => prop_assert_eq!(answer, Err(Refusal::Unknown(id))),
                Some(_) if span.start() < ORIGIN => {
                    prop_assert_eq!(answer, Err(Refusal::Horizon(ORIGIN)));
                }
                Some(place) => {
                    prop_assert_eq!(answer, Ok(()));
                    reference.bookings[place].2 = Some((span, rate));
                }
            }
        }
        Action::LetGo(id) => match place(reference, id) {
            None => prop_assert_eq!(calendar.release_hold(id), Err(Refusal::Unknown(id))),
            Some(place) => {
                prop_assert_eq!(calendar.release_hold(id), Ok(()));
                reference.bookings[place].2 = None;
            }
        },
        Action::Without(id, booking) => {
            let own = place(reference, id).map(|place| reference.bookings.remove(place));
            let answer = calendar.without(Some(id), |calendar| calendar.check(&booking));
            admits(reference, &booking, &answer)?;
            reference.bookings.extend(own);
        }
    }
    Ok(())
}

/// Checks that the calendar admits a booking if there is room, and names the shortage otherwise.
fn admits(
    reference: &Reference,
    booking: &Booking,
    answer: &Result<(), Refusal>,
) -> Result<bool, TestCaseError> {
    let mut links = booking.links.clone();
    links.sort_unstable();
    links.dedup();
    let known = links.iter().all(|&link| (link as usize) < reference.links.len());
    if !known || links.len() < booking.links.len() {
        prop_assert!(matches!(answer, Err(Refusal::Links(..))), "{answer:?}");
        return Ok(false);
    }
    if booking.span.start() < ORIGIN {
        prop_assert_eq!(answer, &Err(Refusal::Horizon(ORIGIN)));
        return Ok(false);
    }
    let free = reference.free(&booking.links, booking.class, booking.span);
    if free >= booking.rate {
        prop_assert_eq!(answer, &Ok(()));
        return Ok(true);
    }
    let Err(Refusal::Shortage(shortage)) = answer else { panic!("{answer:?}") };
    prop_assert_eq!(shortage.free, free);
    // The first second of the shortage has too little, and no second before it.
    let least = |second| {
        let (link, class) = (shortage.link, shortage.class);
        reference.reservable(link, class).saturating_sub(reference.level(link, class, second))
    };
    prop_assert!(least(shortage.crowded.start()) < booking.rate);
    prop_assert!(least(shortage.crowded.end() - 1) < booking.rate);
    if let Some(before) = Span::new(booking.span.start(), shortage.crowded.start()) {
        prop_assert!(reference.edges(before).into_iter().all(|edge| least(edge) >= booking.rate));
    }
    Ok(false)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Through any sequence of bookings, changes, holds and releases: a booking is admitted if
    /// there is room, a refusal changes nothing, and free rates, earliest fits, paths and the
    /// widest path agree with the reference.
    #[test]
    fn a_calendar_is_never_wrong(
        links in links(),
        actions in prop::collection::vec(action(), 0..40),
        queries in prop::collection::vec((booking(), 1_u64..4000, 0..NODES, 1..NODES), 1..8),
    ) {
        let mut calendar = Calendar::new(ORIGIN, &links);
        let mut reference = Reference { links, bookings: Vec::new() };
        for action in actions {
            apply(&mut calendar, &mut reference, action)?;
        }
        prop_assert_eq!(calendar.len(), reference.bookings.len());
        // Admitted bookings fit; holds may exceed the capacity.
        let mut admitted = reference.clone();
        admitted.bookings.iter_mut().for_each(|(.., held)| *held = None);
        for link in 0..admitted.links.len() as u32 {
            for (_, Booking { span, .. }, _) in &admitted.bookings {
                let level = admitted.level(link, None, span.start());
                prop_assert!(level <= admitted.reservable(link, None));
            }
        }
        for (booking, seconds, from, further) in queries {
            let Booking { mut links, class, span, rate } = booking;
            links.retain(|&link| (link as usize) < reference.links.len());
            links.sort_unstable();
            links.dedup();
            if let Ok(free) = calendar.free(&links, class, span) {
                prop_assert_eq!(free.first().unwrap().span.start(), span.start());
                prop_assert_eq!(free.last().unwrap().span.end(), span.end());
                for pair in free.windows(2) {
                    prop_assert_eq!(pair[0].span.end(), pair[1].span.start());
                    prop_assert_ne!(pair[0].level, pair[1].level);
                }
                for edge in reference.edges(span) {
                    let holds = |span: Span| span.start() <= edge && edge < span.end();
                    let stretch = free.iter().find(|stretch| holds(stretch.span));
                    prop_assert_eq!(stretch.unwrap().level, reference.free_at(&links, class, edge));
                }
                let mut effort = Effort(u64::MAX);
                let found =
                    calendar.earliest(&links, class, span, seconds, rate, &mut effort).unwrap();
                let within = Span::new(span.start().max(ORIGIN), span.end());
                let expected =
                    within.and_then(|span| reference.earliest(&links, class, span, seconds, rate));
                prop_assert_eq!(found.start, expected);
                // With less effort the search finds it as well, or it is not before the searched
                // instant.
                let few = calendar.earliest(&links, class, span, seconds, rate, &mut Effort(3));
                match (few.unwrap(), expected) {
                    (Fit { start: Some(start), .. }, _) => prop_assert_eq!(Some(start), expected),
                    (Fit { searched, .. }, Some(start)) => prop_assert!(searched <= start),
                    _ => {}
                }
                for parts in [1, 3, 50] {
                    let coarse = calendar.free_in_parts(&links, class, span, parts).unwrap();
                    prop_assert!(coarse.len() as u64 <= parts + 1);
                    prop_assert_eq!(coarse.first().unwrap().span.start(), span.start());
                    prop_assert_eq!(coarse.last().unwrap().span.end(), span.end());
                    for part in coarse {
                        prop_assert_eq!(part.level, reference.free(&links, class, part.span));
                    }
                }
                prop_assert!(calendar.changes(&links, class, span).unwrap() >= free.len() - 1);
            } else {
                prop_assert!(links.is_empty());
            }

            let to = (from + further) % NODES;
            let mut all = Vec::new();
            reference.ways(from, to, &mut Vec::new(), &mut all);
            let mut all: Vec<Path> = all.into_iter().map(|links| reference.path(links)).collect();
            all.sort_by_key(|path| (path.links.len(), path.delay_ns));
            let width = |path: &Path| reference.free(&path.links, class, span);
            let open: Vec<&Path> = all.iter().filter(|path| width(path) >= rate).collect();
            let any = Constraints::default();
            let found = calendar.paths((from, to), class, (span, rate), &any, 1000);
            prop_assert_eq!(found.len(), open.len());
            for (found, expected) in found.iter().zip(&open) {
                prop_assert!(open.contains(&found));
                let cost = |path: &Path| (path.links.len(), path.delay_ns);
                prop_assert_eq!(cost(found), cost(expected));
            }
            let limits = Constraints {
                avoid_nodes: vec![(to + 1) % NODES],
                avoid_links: vec![0],
                via: vec![(to + 2) % NODES],
                max_hops: Some(3),
                max_delay_ns: Some(5),
            };
            let keeps = |path: &&Path| {
                let spec = |link: &u32| &reference.links[*link as usize];
                let touches =
                    |node: u32| path.links.iter().any(|link| spec(link).ends.contains(&node));
                !touches(limits.avoid_nodes[0])
                    && !path.links.contains(&0)
                    && touches(limits.via[0])
                    && path.links.len() <= 3 && path.delay_ns <= 5
            };
            let expected = open.iter().copied().filter(keeps).count();
            let found = calendar.paths((from, to), class, (span, rate), &limits, 1000);
            prop_assert_eq!(found.len(), expected);
            let widest = calendar.widest((from, to), class, span, &any);
            prop_assert_eq!(widest.as_ref().map(|(_, width)| *width), all.iter().map(width).max());
            if let Some((path, least)) = widest {
                prop_assert_eq!(width(&path), least);
            }
        }
    }
}

#[test]
fn bad_bookings_are_refused() {
    let link = LinkSpec { ends: [0, 1], delay_ns: 0, reservable: 10, classes: vec![4] };
    let mut calendar = Calendar::new(ORIGIN, &[link]);
    let good = Booking {
        links: vec![0],
        class: Some(0),
        span: Span::new(ORIGIN, ORIGIN + 1).unwrap(),
        rate: 4,
    };
    let with = |change: fn(&mut Booking)| {
        let mut booking = good.clone();
        change(&mut booking);
        booking
    };
    let refused = |booking: &Booking| calendar.check(booking).unwrap_err();
    assert!(matches!(refused(&with(|b| b.links.clear())), Refusal::Links(..)));
    assert!(matches!(refused(&with(|b| b.links = vec![0, 0])), Refusal::Links(..)));
    assert!(matches!(refused(&with(|b| b.links = vec![7])), Refusal::Links(..)));
    assert_eq!(refused(&with(|b| b.class = Some(1))), Refusal::Class(0, 1));
    assert_eq!(refused(&with(|b| b.rate = 0)), Refusal::Rate);
    assert_eq!(refused(&with(|b| b.rate = u64::MAX)), Refusal::Rate);
    let long = Span::new(ORIGIN, u64::MAX).unwrap();
    assert_eq!(refused(&Booking { span: long, ..good.clone() }), Refusal::Horizon(ORIGIN));
    let early = Span::new(ORIGIN - 1, ORIGIN + 1).unwrap();
    assert_eq!(refused(&Booking { span: early, ..good.clone() }), Refusal::Horizon(ORIGIN));
    assert!(matches!(refused(&with(|b| b.rate = 5)), Refusal::Shortage(s) if s.free == 4));
    calendar.book(1, good.clone()).unwrap();
    assert_eq!(calendar.book(1, good), Err(Refusal::Exists(1)));
    assert_eq!(Span::new(5, 5), None);
}

#[test]
fn what_is_over_is_forgotten() {
    let link = LinkSpec { ends: [0, 1], delay_ns: 0, reservable: 10, classes: vec![] };
    let mut calendar = Calendar::new(ORIGIN, &[link]);
    let booking = |from, to| Booking {
        links: vec![0],
        class: None,
        span: Span::new(ORIGIN + from, ORIGIN + to).unwrap(),
        rate: 6,
    };
    calendar.book(1, booking(0, 7200)).unwrap();
    calendar.book(2, booking(7200, 100_000)).unwrap();
    calendar.forget_before(ORIGIN + 50_000);
    assert_eq!(calendar.len(), 1);
    assert_eq!(calendar.check(&booking(0, 10)), Err(Refusal::Horizon(ORIGIN + 50_000)));
    assert!(calendar.check(&booking(99_999, 100_001)).is_err());
    calendar.check(&booking(100_000, 100_001)).unwrap();
    calendar.release(2).unwrap();
    calendar.check(&booking(50_000, 100_001)).unwrap();
}

/// Entries between two ends: number, number of the selector, span.
fn kept() -> impl Strategy<Value = Vec<(u32, u32, Span)>> {
    let span = (0_u64..400, 1_u64..120).prop_map(|(start, length)| {
        Span::new(ORIGIN + start, ORIGIN + start + length).expect("not empty")
    });
    prop::collection::vec((0_u32..3, 0_u32..5, span), 0..40)
}

proptest! {
    /// The entries that overlap with a span are found, in order, and no others; also after
    /// removals.
    #[test]
    fn overlaps_are_those_that_meet(
        all in kept(),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        start in 0_u64..500,
        length in 1_u64..200,
    ) {
        let mut overlaps = Overlaps::default();
        let mut left: Vec<(u64, u32, u32, Span)> = Vec::new();
        for (id, &(ends, selector, span)) in all.iter().enumerate() {
            overlaps.add(ends, id as u64, false, selector, span);
            left.push((id as u64, ends, selector, span));
        }
        for index in gone {
            if !left.is_empty() {
                let (id, ends, _, span) = left.remove(index.index(left.len()));
                prop_assert!(overlaps.remove(ends, id, false, span));
                prop_assert!(!overlaps.remove(ends, id, false, span));
            }
        }
        let asked = Span::new(ORIGIN + start, ORIGIN + start + length).expect("not empty");
        left.sort_by_key(|&(id, _, _, span)| (span.start(), id));
        for ends in 0..3 {
            let expected: Vec<(u64, u32, u64)> = left
                .iter()
                .filter(|&&(_, between, _, span)| {
                    between == ends && span.start() < asked.end() && asked.start() < span.end()
                })
                .map(|&(id, _, selector, span)| (id, selector, span.end()))
                .collect();
            prop_assert_eq!(overlaps.meeting(ends, asked), expected);
        }
    }
}

/// A hold may start with the booking: both are separate entries, and removing one keeps the other.
#[test]
fn held_packets_are_apart() {
    let mut overlaps = Overlaps::default();
    let [one, other] = [Some(1), Some(2)]
        .map(|protocol| overlaps.number(Selector { protocol, ..Selector::default() }));
    let span = Span::new(ORIGIN, ORIGIN + 60).expect("not empty");
    overlaps.add(0, 7, false, one, span);
    overlaps.add(0, 7, true, other, span);
    assert_eq!(overlaps.meeting(0, span), [(7, one, ORIGIN + 60), (7, other, ORIGIN + 60)]);
    for selector in [one, other] {
        assert!(overlaps.claim(&[PacketSet { ends: 0, selector }], Some(8), span).is_some());
        assert_eq!(overlaps.claim(&[PacketSet { ends: 0, selector }], Some(7), span), None);
    }
    assert!(overlaps.remove(0, 7, true, span));
    assert_eq!(overlaps.meeting(0, span), [(7, one, ORIGIN + 60)]);
}

/// A hold that outlasts its booking is kept until it ends itself.
#[test]
fn held_terms_are_kept_until_they_are_over() {
    let link = LinkSpec { ends: [0, 1], delay_ns: 0, reservable: 10, classes: vec![] };
    let mut calendar = Calendar::new(ORIGIN, &[link]);
    let span = |from, to| Span::new(ORIGIN + from, ORIGIN + to).expect("not empty");
    let booking = |from, to| Booking { links: vec![0], class: None, span: span(from, to), rate: 6 };
    calendar.book(1, booking(0, 7200)).unwrap();
    assert_eq!(calendar.hold(1, span(0, 100_000), 0), Err(Refusal::Rate));
    calendar.hold(1, span(0, 100_000), 8).unwrap();
    calendar.forget_before(ORIGIN + 50_000);
    assert_eq!(calendar.len(), 1);
    assert!(calendar.check(&booking(99_999, 100_001)).is_err());
    calendar.release(1).unwrap();
    calendar.check(&booking(50_000, 100_001)).unwrap();
    calendar.book(1, booking(60_000, 70_000)).unwrap();
    calendar.hold(1, span(60_000, 100_000), 8).unwrap();
    calendar.forget_before(ORIGIN + 100_000);
    assert!(calendar.is_empty());
}

/// A link with reduced capacity keeps its bookings, and admits no more.
#[test]
fn what_was_promised_is_restored() {
    let link = LinkSpec { ends: [0, 1], delay_ns: 0, reservable: 10, classes: Vec::new() };
    let mut calendar = Calendar::new(ORIGIN, &[link]);
    let span = Span::new(ORIGIN, ORIGIN + 60).expect("not empty");
    let booking = |rate| Booking { links: vec![0], class: None, span, rate };
    assert_eq!(calendar.restore(vec![(1, booking(30))]), Ok(()));
    assert_eq!(calendar.restore(vec![(1, booking(30))]), Err(Refusal::Exists(1)));
    assert_eq!(calendar.restore(vec![(2, booking(0))]), Err(Refusal::Rate));
    assert!(matches!(calendar.book(3, booking(1)), Err(Refusal::Shortage(_))));
    assert_eq!(calendar.change(1, booking(10)), Ok(()));
    assert_eq!(calendar.release(1), Ok(booking(10)));
}
