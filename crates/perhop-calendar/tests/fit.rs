//! The earliest fit, compared with a search second by second, and the cost of the search.

use perhop_calendar::{
    Booking, Calendar, Effort, LinkSpec, Overlaps, PacketSet, Selector, Span, Wanted,
};
use proptest::prelude::*;

const ORIGIN: u64 = 1_700_000_000;

fn span(start: u64, end: u64) -> Span {
    Span::new(ORIGIN + start, ORIGIN + end).expect("not empty")
}

const YEAR: u64 = 365 * 86_400;

fn one_link() -> Calendar {
    Calendar::new(
        ORIGIN,
        &[LinkSpec { ends: [0, 1], delay_ns: 0, reservable: 10, classes: Vec::new() }],
    )
}

fn wanted<'a>(ways: &'a [Vec<u32>], seconds: u64, sets: &'a [PacketSet]) -> Wanted<'a> {
    Wanted { ways, class: None, within: span(0, 2 * YEAR), seconds, rate: 1, sets, mine: None }
}

/// The search for a free second in a link that is full for two years, by one booking or by many,
/// examines changes and not seconds.
#[test]
fn a_full_link_is_jumped_over() {
    let ways = [vec![0]];
    for length in [2 * YEAR - 10, 86_400, 3_601] {
        let mut calendar = one_link();
        let edges: Vec<u64> =
            (0..2 * YEAR - 10).step_by(length as usize).chain([2 * YEAR - 10]).collect();
        for (id, pair) in edges.windows(2).enumerate() {
            let booking =
                Booking { links: vec![0], class: None, span: span(pair[0], pair[1]), rate: 10 };
            calendar.book(id as u64, booking).expect("room");
        }
        let mut effort = Effort::QUESTION;
        let fit =
            wanted(&ways, 1, &[]).find(&mut calendar, &Overlaps::default(), &mut effort).unwrap();
        assert_eq!(fit.start, Some(ORIGIN + 2 * YEAR - 10));
        assert!(Effort::QUESTION.0 - effort.0 < 20_000, "{effort:?}");
    }
}

/// A search in a year of gaps that are a second too short ends, and returns how far it went.
#[test]
fn a_search_has_an_end() {
    let mut calendar = one_link();
    let mut overlaps = Overlaps::default();
    let selector = overlaps.number(Selector::default());
    let bookings = (0..400_000).map(|n| {
        let when = span(60 * n, 60 * n + 55);
        (n, Booking { links: vec![0], class: None, span: when, rate: 10 })
    });
    calendar.restore(bookings.collect()).expect("they make sense");
    overlaps.add_all((0..400_000).map(|n| (1, n, selector, span(60 * n, 60 * n + 55))));
    let ways = [vec![0]];
    for (calendar, sets) in
        [(&mut calendar, &[][..]), (&mut one_link(), &[PacketSet { ends: 1, selector }][..])]
    {
        let mut effort = Effort::QUESTION;
        let fit = wanted(&ways, 6, sets).find(calendar, &overlaps, &mut effort).unwrap();
        assert_eq!((fit.start, effort), (None, Effort(0)));
        assert!(ORIGIN + 18_000 < fit.searched && fit.searched < ORIGIN + YEAR);
        let short = wanted(&ways, 5, sets).find(calendar, &overlaps, &mut Effort(5_000)).unwrap();
        assert_eq!(short.start, Some(ORIGIN + 55));
    }
}

/// Packets between one of two pairs of ends, of few ports.
fn packets() -> impl Strategy<Value = Selector> {
    let protocol = prop::option::of(0_u8..2);
    let ports = prop::option::of((1_u16..5, 0_u16..3)).prop_map(|p| p.map(|(a, n)| (a, a + n)));
    (protocol, ports, prop::option::of(0_u8..2)).prop_map(|(protocol, port, dscp)| Selector {
        protocol,
        ports: [None, port],
        dscp,
    })
}

proptest! {
    /// The earliest start is found at which one of the paths has room and no other reservation has
    /// the packets. The booking to be replaced and its hold are ignored.
    #[test]
    fn what_fits_is_found(
        bookings in prop::collection::vec(
            (0_u64..300, 1_u64..200, 1_u64..7, 0_usize..2, 0_u32..2, packets()),
            1..25,
        ),
        (length, rate) in (1_u64..150, 1_u64..11),
        asked in prop::collection::vec((0_u32..2, packets()), 0..3),
        own in 0_u64..25,
    ) {
        let link = |reservable| LinkSpec { ends: [0, 1], delay_ns: 0, reservable, classes: vec![] };
        let mut calendar = Calendar::new(ORIGIN, &[link(10), link(6)]);
        let mut overlaps = Overlaps::default();
        let mut kept = Vec::new();
        for (id, (start, seconds, rate, link, ends, packets)) in bookings.into_iter().enumerate() {
            let (id, when) = (id as u64, span(start, start + seconds));
            let booking = Booking { links: vec![link as u32], class: None, span: when, rate };
            calendar.restore(vec![(id, booking)]).expect("it makes sense");
            let selector = overlaps.number(packets);
            overlaps.add(ends, id, false, selector, when);
            kept.push((id, when, rate, link, ends, packets));
            // Half of them have a longer hold, so that the hold decides.
            if id % 2 == 1 {
                let when = span(start, start + seconds + 40);
                calendar.hold(id, when, rate).expect("it makes sense");
                overlaps.add(ends, id, true, selector, when);
                kept.last_mut().expect("one").1 = when;
            }
        }
        let before = calendar.free(&[0], None, span(0, 900));
        let set = |&(ends, packets): &(u32, Selector)| PacketSet {
            ends,
            selector: overlaps.number(packets),
        };
        let sets: Vec<PacketSet> = asked.iter().map(set).collect();
        let fits = |start: u64| {
            let meets = |s: &Span| s.start() < start + length && start < s.end();
            let room = [(0, 10), (1, 6)].iter().any(|&(link, most)| {
                (start..start + length).all(|second| {
                    let there = kept.iter().filter(|k| k.3 == link && k.0 != own);
                    let level: u64 = there
                        .filter(|k| k.1.start() <= second && second < k.1.end())
                        .map(|k| k.2)
                        .sum();
                    level + rate <= most
                })
            });
            let claimed = kept.iter().any(|(id, when, _, _, ends, theirs)| {
                let overlaps =
                    |(at, packets): &(_, Selector)| at == ends && packets.overlap(theirs);
                *id != own && meets(when) && asked.iter().any(overlaps)
            });
            (room, claimed)
        };
        let until = ORIGIN + 900;
        let expected = (ORIGIN..=until - length).find(|&start| fits(start) == (true, false));
        let ways = [vec![0], vec![1]];
        let wanted = Wanted {
            ways: &ways,
            class: None,
            within: Span::new(ORIGIN, until).expect("not empty"),
            seconds: length,
            rate,
            sets: &sets,
            mine: Some(own),
        };
        let found = wanted.find(&mut calendar, &overlaps, &mut Effort(u64::MAX)).unwrap();
        prop_assert_eq!(found.start, expected);
        prop_assert_eq!(calendar.free(&[0], None, span(0, 900)), before);
        let now = Span::new(ORIGIN, ORIGIN + length).expect("not empty");
        let claim = overlaps.claim(&sets, Some(own), now);
        prop_assert_eq!(claim.is_some(), fits(ORIGIN).1);
        if let Some((set, (id, _, end))) = claim {
            let (_, when, _, _, ends, theirs) = kept[id as usize];
            let own_end = if id % 2 == 1 { when.end() - 40 } else { when.end() };
            prop_assert_eq!(asked[set].0, ends);
            prop_assert!([own_end, when.end()].contains(&end));
            prop_assert!(asked[set].1.overlap(&theirs) && id != own);
        }
    }
}
