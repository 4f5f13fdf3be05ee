//! Cost of access to this machine's memory: `cargo bench -p perhop-sim --bench memory`, part of
//! `make bench`.
//!
//! The state of thousands of connections is in no cache, and connections hear in no order. The
//! table shows what each access to a line in a random place costs: if the next place depends on
//! what is read, if it does not, and if nine lines in a row are read at each place. It bounds the
//! growth of a hop's cost with streams.

use std::hint::black_box;
use std::time::Instant;

use perhop_core::Stream;

/// A line of a cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(u64);

const ACCESSES: usize = 1 << 21;
const ROW: usize = 9;

fn main() {
    println!("{:>10} {:>14} {:>14} {:>14}", "ns a line", "one by one", "independent", "in rows");
    for mebibytes in [1_usize, 4, 8, 16, 32, 64] {
        let mut lines = vec![Line(0); (mebibytes << 20) / size_of::<Line>()];
        let mut random = Stream::new(1, "memory");
        let last = (lines.len() - ROW) as u64;
        let places: Vec<usize> = (0..ACCESSES).map(|_| random.up_to(last) as usize).collect();
        let one_by_one = nanoseconds(ACCESSES, || {
            // Lines are zero, which a processor does not know before it has read them.
            places.iter().fold(0, |read, place| lines[place + read as usize].0)
        });
        let independent =
            nanoseconds(ACCESSES, || places.iter().map(|place| lines[*place].0).sum());
        let in_rows = nanoseconds(ACCESSES / ROW * ROW, || {
            let rows = places[..ACCESSES / ROW].iter();
            rows.for_each(|place| {
                lines[*place..place + ROW].iter_mut().for_each(|line| line.0 = 0)
            });
            0
        });
        println!(
            "{:>10} {one_by_one:>14.1} {independent:>14.1} {in_rows:>14.1}",
            format!("{mebibytes} MiB")
        );
    }
}

/// Returns the time of an access, in the best of three runs.
fn nanoseconds(accesses: usize, mut run: impl FnMut() -> u64) -> f64 {
    let times = (0..3).map(|_| {
        let began = Instant::now();
        black_box(run());
        began.elapsed().as_secs_f64()
    });
    times.fold(f64::INFINITY, f64::min) * 1e9 / accesses as f64
}
