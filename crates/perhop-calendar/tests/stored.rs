//! Stored reservations added at once, compared with the same ones booked one by one.

use std::collections::BTreeMap;

use perhop_calendar::{
    Booking, Calendar, LinkSpec, Overlaps, Refusal, Span, StoredDirection, StoredPath,
    StoredReservations, StoredSelector,
};
use perhop_fuzz::fuzz_slow;
use proptest::prelude::*;

const ORIGIN: u64 = 1_700_000_000;
const LINKS: u32 = 4;
const PATHS: [&[u32]; 4] = [&[0], &[0, 1, 2], &[3, 1], &[2]];
/// Index of a path with unknown links.
const GONE: usize = PATHS.len();
const BETWEEN: [&str; 3] =
    [r#"["a","b","forward""#, r#"["b","a","both""#, r#"["a \", [\\","c","reverse""#];
const PACKETS: [&str; 3] =
    [r#","tcp",null,[80,90],null]"#, ",null,null,null,46]", r#","udp",[1,2],[3,3],0]"#];

/// A stored reservation; `between` and `packets` are indices.
#[derive(Clone, Debug)]
struct Row {
    span: Span,
    rate: u64,
    owner: u64,
    path: usize,
    class: Option<u32>,
    between: usize,
    packets: usize,
}

fn row() -> impl Strategy<Value = Row> {
    // Near the edges of hours, before and after the calendar's origin.
    let second = || {
        let near = (0_u64..5, 0_u64..5)
            .prop_map(|(hour, off)| (ORIGIN / 3600 - 1) * 3600 + hour * 3600 + off - 2);
        prop_oneof![near, ORIGIN - 3600..ORIGIN + 3 * 3600]
    };
    let span =
        (second(), second()).prop_filter_map("empty", |(a, b)| Span::new(a.min(b), a.max(b)));
    let class = prop::option::of(0_u32..2);
    (span, 1_u64..9, 0_u64..3, 0..=GONE, class, 0..BETWEEN.len(), 0..PACKETS.len()).prop_map(
        |(span, rate, owner, path, class, between, packets)| Row {
            span,
            rate,
            owner,
            path,
            class,
            between,
            packets,
        },
    )
}

/// Returns the directions between two ends: `a`, `b` and `c` are 0, 1 and 2.
fn directions(between: usize) -> Vec<StoredDirection> {
    let ends: &[(u32, bool)] =
        [&[(1, false)][..], &[(10, false), (1, true)], &[(20, true)]][between];
    ends.iter().map(|&(ends, reverse)| StoredDirection { ends, reverse }).collect()
}

fn calendar() -> Calendar {
    let link = |number| LinkSpec {
        ends: [number, number + 1],
        delay_ns: 0,
        reservable: 1 << 40,
        classes: vec![1 << 40, 1 << 40],
    };
    Calendar::new(ORIGIN, &(0..LINKS).map(link).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn what_is_on_file_is_as_if_booked(
        rows in prop::collection::vec(row(), 0..40),
        page in 1_usize..20,
        late in 0_u64..5000,
    ) {
        let now = ORIGIN + late;
        let mut stored = StoredReservations::default();
        let line = |(id, row): (usize, &Row)| format!(
            "{id}\t{}\t{}\t{}\t{}\t{}\t{}\t{}{}",
            row.span.start(), row.span.end(), row.rate, row.owner, row.path,
            row.class.map_or(String::new(), |class| format!("class {class}")),
            BETWEEN[row.between], PACKETS[row.packets],
        );
        let lines: Vec<String> = rows.iter().enumerate().map(line).collect();
        for page in lines.chunks(page) {
            stored.read(&page.join("\n")).expect("lines");
        }

        // Paths resolved from their text.
        let paths: Vec<StoredPath> = stored.paths().iter().map(|words| {
            let words: Vec<&str> = words.split('\t').collect();
            let path: usize = words[0].parse().expect("a path");
            let class = words[1].strip_prefix("class ");
            let class = class.map(|class| class.parse().expect("a class"));
            let between = BETWEEN.iter().position(|&known| known == words[2]).expect("two ends");
            let taken = PATHS.get(path).map(|links| (links.to_vec(), class));
            StoredPath { taken, directions: directions(between) }
        }).collect();
        let selectors: Vec<StoredSelector> = stored.selectors().iter().map(|words| {
            let known = PACKETS.iter().position(|known| known == words).expect("packets") as u32;
            StoredSelector { forward: known, reverse: known + 10 }
        }).collect();
        let (mut calendar, mut overlaps) = (calendar(), Overlaps::default());
        let lost = stored.restore(&paths, &selectors, (ORIGIN, now), &mut calendar, &mut overlaps);

        let (mut expected, mut meant, mut gone) = (self::calendar(), Overlaps::default(), vec![]);
        let mut owners = BTreeMap::new();
        for (id, row) in rows.iter().enumerate() {
            let id = id as u64;
            *owners.entry(row.owner).or_insert(0) += 1;
            for StoredDirection { ends, reverse } in directions(row.between) {
                let selector = row.packets as u32 + if reverse { 10 } else { 0 };
                meant.add(ends, id, false, selector, row.span);
            }
            if row.span.end() <= now {
                continue;
            }
            let Some(links) = PATHS.get(row.path) else {
                gone.push(id);
                continue;
            };
            let span = Span::new(row.span.start().max(ORIGIN), row.span.end()).expect("not over");
            let booking = Booking { links: links.to_vec(), class: row.class, span, rate: row.rate };
            expected.book(id, booking).expect("room");
        }
        prop_assert_eq!(lost, Ok(gone));
        prop_assert_eq!(stored.owners(), &owners);
        prop_assert_eq!(calendar.len(), expected.len());
        same(&calendar, &expected)?;
        for ends in [1, 10, 20] {
            for row in &rows {
                prop_assert_eq!(overlaps.meeting(ends, row.span), meant.meeting(ends, row.span));
            }
        }
        // Later operations have the same results, too.
        for id in 0..rows.len() as u64 {
            prop_assert_eq!(calendar.booking(id), expected.booking(id));
            prop_assert_eq!(calendar.release(id), expected.release(id));
        }
        same(&calendar, &expected)?;
        prop_assert!(calendar.is_empty());
    }
}

fn same(one: &Calendar, other: &Calendar) -> Result<(), TestCaseError> {
    let always = Span::new(ORIGIN - 7200, ORIGIN + 40_000).expect("a span");
    for link in 0..LINKS {
        for class in [None, Some(0), Some(1)] {
            let free = one.free(&[link], class, always);
            prop_assert_eq!(free, other.free(&[link], class, always));
        }
    }
    Ok(())
}

#[test]
fn what_is_no_reservation_is_named() {
    let good = "7\t5\t9\t3\t1\t1\t\t[\"a\",\"b\",\"both\",null,null,null,null]";
    let mut stored = StoredReservations::default();
    assert_eq!(stored.read(good), Ok(()));
    assert_eq!(stored.paths(), ["1\t\t[\"a\",\"b\",\"both\""]);
    assert_eq!(stored.selectors(), [",null,null,null,null]"]);
    for bad in [
        "7",
        "7\t5\t9\t3\t1\t1\t",
        &good.replacen('7', "seven", 1),
        &good.replacen('9', "5", 1),
        &good.replacen("\"both\",null", "\"both\"", 1).replace(",null", ""),
        &good.replacen('"', "", 1),
    ] {
        let error = StoredReservations::default().read(&format!("{good}\n{bad}")).expect_err(bad);
        assert_eq!(error.0, *bad);
    }
}

#[test]
fn nothing_is_restored_twice() {
    let mut stored = StoredReservations::default();
    let line = format!("7\t{ORIGIN}\t{}\t3\t1\t1\t\t[1,2,3,4]", ORIGIN + 9);
    stored.read(&line).expect("a line");
    let directions = vec![StoredDirection { ends: 0, reverse: false }];
    let path = StoredPath { taken: Some((vec![0], None)), directions };
    let (mut calendar, mut overlaps) = (calendar(), Overlaps::default());
    let mut restore = || {
        stored.restore(
            std::slice::from_ref(&path),
            &[StoredSelector { forward: 0, reverse: 0 }],
            (ORIGIN, ORIGIN),
            &mut calendar,
            &mut overlaps,
        )
    };
    assert_eq!(restore(), Ok(vec![]));
    assert_eq!(restore(), Err(Refusal::Exists(7)));
    assert_eq!(overlaps.meeting(0, Span::new(ORIGIN, ORIGIN + 1).expect("a span")).len(), 1);
}

/// Damaged text in place of stored reservations. Rows that are read are added, whatever their
/// numbers.
#[test]
fn fuzz_stored_reservations() {
    let line = |id: u64, between: usize, packets: usize| {
        let (start, end) = (ORIGIN + 5 * id, ORIGIN + 5000);
        let said = format!("{}{}", BETWEEN[between], PACKETS[packets]);
        format!("{id}\t{start}\t{end}\t3\t1\t{between}\tclass 1\t{said}")
    };
    let seeds = [line(1, 0, 0), [line(2, 1, 1), line(3, 2, 2)].join("\n")].map(String::into_bytes);
    fuzz_slow("stored reservations", &seeds, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let mut stored = StoredReservations::default();
        let read = stored.read(&text);
        let owned: u64 = stored.owners().values().sum();
        let is_one =
            |line: &&str| !line.is_empty() && StoredReservations::default().read(line).is_ok();
        let before = text.lines().take_while(is_one).count();
        assert_eq!(owned, before as u64, "lines before the first that is none");
        assert_eq!(read.is_ok(), before == text.lines().count());
        let path = |number: usize| StoredPath {
            taken: (number % 3 < 2).then(|| (PATHS[number % 4].to_vec(), Some(number as u32 % 2))),
            directions: directions(number % 3),
        };
        let paths: Vec<StoredPath> = (0..stored.paths().len()).map(path).collect();
        let selectors = vec![StoredSelector { forward: 0, reverse: 1 }; stored.selectors().len()];
        let (mut calendar, mut overlaps) = (calendar(), Overlaps::default());
        let times = (ORIGIN, ORIGIN);
        match stored.restore(&paths, &selectors, times, &mut calendar, &mut overlaps) {
            Ok(lost) => assert!(calendar.len() + lost.len() <= before),
            Err(_) => assert!(calendar.is_empty()),
        }
        read.is_ok()
    });
}
