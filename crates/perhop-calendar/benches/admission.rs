//! A million reservations: how long admission takes, and the search for the earliest fit, beside a
//! list of what overlaps that is sorted for each request: `cargo bench -p perhop-calendar`.
//!
//! 200 links, of which each reservation takes 5; an hour to seven days, within a year, to the
//! second; 1 to 100 Mb/s of 15 Gb/s. Requests are admitted one after the other until a million
//! are booked; the last tenth of them is timed.

use std::time::Instant;

use perhop_calendar::{Booking, Calendar, LinkSpec, Span};
use perhop_core::Stream;

const ORIGIN: u64 = 1_800_000_000;
const YEAR: u64 = 365 * 86_400;
const RESERVATIONS: u64 = 1_000_000;
const LINKS: u32 = 200;
const HOPS: u32 = 5;
/// A fifth more than what a million reservations take on average.
const RESERVABLE: u64 = 15_000_000_000;

fn main() {
    let mut random = Stream::new(1, "requests");
    // A ring, so that consecutive links are a path.
    let link = |from| LinkSpec {
        ends: [from, (from + 1) % LINKS],
        delay_ns: 1_000_000,
        reservable: RESERVABLE,
        classes: Vec::new(),
    };
    let mut calendar = Calendar::new(ORIGIN, &(0..LINKS).map(link).collect::<Vec<_>>());
    let mut list = SortedList::default();
    let mut times = Vec::new();
    let mut refused = 0;
    let began = Instant::now();
    let mut id = 0;
    while (calendar.len() as u64) < RESERVATIONS {
        let booking = request(&mut random);
        let start = Instant::now();
        let answer = calendar.book(id, booking.clone());
        let took = start.elapsed().as_nanos();
        if calendar.len() as u64 > RESERVATIONS * 9 / 10 {
            times.push(took as u64);
        }
        match answer {
            Ok(()) => list.add(booking),
            Err(_) => refused += 1,
        }
        id += 1;
    }
    let total = began.elapsed();
    println!("{} booked and {refused} refused in {:.1} s", calendar.len(), total.as_secs_f64());
    println!("{:<34} {:>10} {:>10} {:>10}", "", "p50", "p99", "max");
    report("admission, 5 of 200 links", &mut times);

    let mut times: Vec<u64> = (0..100_000)
        .map(|_| {
            let Booking { links, span, rate, .. } = request(&mut random);
            // So much that it is rarely free at once.
            let wanted = rate + 2_000_000_000;
            let within = Span::new(span.start(), ORIGIN + 2 * YEAR).expect("a time");
            let start = Instant::now();
            let found = calendar.earliest(&links, None, within, span.seconds(), wanted);
            assert!(found.expect("links").is_some());
            start.elapsed().as_nanos() as u64
        })
        .collect();
    report("earliest fit", &mut times);

    let mut times: Vec<u64> = (0..1_000)
        .map(|_| {
            let booking = request(&mut random);
            let start = Instant::now();
            let admitted = list.admits(&booking);
            let took = start.elapsed().as_nanos() as u64;
            assert_eq!(admitted, calendar.check(&booking).is_ok());
            took
        })
        .collect();
    report("list and sort, the same requests", &mut times);
}

fn request(random: &mut Stream) -> Booking {
    let seconds = 3_600 + random.up_to(7 * 86_400 - 3_600);
    let start = ORIGIN + random.up_to(YEAR - seconds);
    let first = random.up_to(u64::from(LINKS) - 1) as u32;
    Booking {
        links: (0..HOPS).map(|hop| (first + hop) % LINKS).collect(),
        class: None,
        span: Span::new(start, start + seconds).expect("not empty"),
        rate: 1_000_000 * (1 + random.up_to(99)),
    }
}

fn report(what: &str, nanoseconds: &mut [u64]) {
    nanoseconds.sort_unstable();
    let at =
        |share: f64| nanoseconds[((nanoseconds.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    println!("{what:<34} {:>7.2} µs {:>7.2} µs {:>7.0} µs", at(0.5), at(0.99), at(1.0));
}

/// For each link its bookings; a request collects those that overlap, sorts where they begin and
/// end, and finds the peak.
#[derive(Default)]
struct SortedList(Vec<Vec<(u64, u64, u64)>>);

impl SortedList {
    fn add(&mut self, booking: Booking) {
        self.0.resize_with(LINKS as usize, Vec::new);
        for link in booking.links {
            self.0[link as usize].push((booking.span.start(), booking.span.end(), booking.rate));
        }
    }

    fn admits(&self, booking: &Booking) -> bool {
        booking.links.iter().all(|&link| {
            let (start, end) = (booking.span.start(), booking.span.end());
            let overlapping = self.0[link as usize].iter().filter(|b| b.0 < end && start < b.1);
            let mut steps: Vec<(u64, i64)> = overlapping
                .flat_map(|&(from, to, rate)| [(from, rate as i64), (to, -(rate as i64))])
                .collect();
            steps.sort_unstable();
            let (mut level, mut peak) = (0, 0);
            for (at, by) in steps {
                level += by;
                if at < end {
                    peak = peak.max(level);
                }
            }
            peak as u64 + booking.rate <= RESERVABLE
        })
    }
}
