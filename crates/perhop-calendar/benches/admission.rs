//! Times of admission and of the search for the earliest fit with a million reservations, each
//! beside a sorted list of the overlapping ones: `cargo bench -p perhop-calendar`. With `--bench
//! admission -- --json` the figures are one object of p50, p99 and the maximum, in microseconds.
//!
//! 200 links, of which each reservation takes 5; an hour to seven days, within a year, to the
//! second; 1 to 100 Mb/s of 15 Gb/s. Requests are admitted one after the other until a million
//! are booked; the last tenth of them is timed.

use std::time::Instant;

use perhop_calendar::{Booking, Calendar, Effort, LinkSpec, Span};
use perhop_core::Stream;

const ORIGIN: u64 = 1_800_000_000;
const YEAR: u64 = 365 * 86_400;
const RESERVATIONS: u64 = 1_000_000;
const LINKS: u32 = 200;
const HOPS: u32 = 5;
/// A fifth more than a million reservations take on average, in bits per second.
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
    let mut figures = vec![("admission", times)];

    // A rate so high that it is rarely free at once.
    let hungry = |random: &mut Stream| {
        let booking = request(random);
        Booking { rate: booking.rate + 2_000_000_000, ..booking }
    };
    let search = |booking: &Booking| {
        let within = Span::new(booking.span.start(), ORIGIN + 2 * YEAR).expect("a time");
        let (seconds, rate) = (booking.span.seconds(), booking.rate);
        let mut effort = Effort::QUESTION;
        let found = calendar.earliest(&booking.links, None, within, seconds, rate, &mut effort);
        found.expect("links").start.expect("free after a year")
    };
    let times = (0..100_000)
        .map(|_| {
            let booking = hungry(&mut random);
            let start = Instant::now();
            search(&booking);
            start.elapsed().as_nanos() as u64
        })
        .collect();
    figures.push(("earliest fit", times));

    let times = (0..1_000)
        .map(|_| {
            let booking = request(&mut random);
            let start = Instant::now();
            let admitted = list.admits(&booking);
            let took = start.elapsed().as_nanos() as u64;
            assert_eq!(admitted, calendar.check(&booking).is_ok());
            took
        })
        .collect();
    figures.push(("admission, list and sort", times));

    let times = (0..100)
        .map(|_| {
            let booking = hungry(&mut random);
            let start = Instant::now();
            let found = list.earliest(&booking);
            let took = start.elapsed().as_nanos() as u64;
            assert_eq!(found, search(&booking));
            took
        })
        .collect();
    figures.push(("earliest fit, list and sort", times));

    if std::env::args().any(|argument| argument == "--json") {
        let object =
            |(what, times): &mut (&str, Vec<u64>)| format!("{what:?}: {:?}", spread(times));
        println!("{{{}}}", figures.iter_mut().map(object).collect::<Vec<_>>().join(", "));
        return;
    }
    println!("{} booked and {refused} refused in {:.1} s", calendar.len(), total.as_secs_f64());
    println!("{:<34} {:>10} {:>10} {:>10}", "", "p50", "p99", "max");
    for (what, times) in &mut figures {
        let [p50, p99, max] = spread(times);
        println!("{what:<34} {p50:>7.2} µs {p99:>7.2} µs {max:>7.0} µs");
    }
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

/// Returns the median, the 99th percentile and the greatest, in microseconds.
fn spread(nanoseconds: &mut [u64]) -> [f64; 3] {
    nanoseconds.sort_unstable();
    let last = (nanoseconds.len() - 1) as f64;
    [0.5, 0.99, 1.0].map(|share| nanoseconds[(last * share) as usize] as f64 / 1e3)
}

/// The bookings of each link. A request collects those that overlap, sorts their starts and ends,
/// and finds the peak.
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

    /// Returns the earliest start with room, by sorting all bookings that end later.
    fn earliest(&self, booking: &Booking) -> u64 {
        let mut steps: Vec<(u64, u32, i64)> = Vec::new();
        for &link in &booking.links {
            let later = self.0[link as usize].iter().filter(|b| booking.span.start() < b.1);
            steps.extend(later.flat_map(|&(from, to, rate)| {
                [(from, link, rate as i64), (to, link, -(rate as i64))]
            }));
        }
        steps.sort_unstable();
        let (mut start, mut levels) = (booking.span.start(), [0_i64; LINKS as usize]);
        let mut crowded = false;
        let mut steps = steps.into_iter().peekable();
        while let Some((at, link, by)) = steps.next() {
            levels[link as usize] += by;
            if steps.peek().is_some_and(|next| next.0 == at) {
                continue;
            }
            let full = |&link: &u32| levels[link as usize] as u64 + booking.rate > RESERVABLE;
            let now_crowded = booking.links.iter().any(full);
            if now_crowded && !crowded && at >= start + booking.span.seconds() {
                break;
            }
            if crowded && !now_crowded {
                start = start.max(at);
            }
            crowded = now_crowded;
        }
        start
    }
}
