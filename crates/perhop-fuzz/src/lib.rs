//! Damaged input for parsers. A fuzz target is a test that calls [`fuzz`]; the name of each begins
//! with `fuzz_`, so that `cargo test --workspace fuzz_` runs all of them.
//!
//! Tests try a fixed number of inputs, the same ones every time. `make fuzz` sets
//! `PERHOP_FUZZ_CASES` and `PERHOP_FUZZ_SEED` to try others, and more.
//!
//! `PERHOP_FUZZ_MEMORY` is the greatest growth of the process's memory in KiB, from the first tenth
//! of a target's inputs to the last: `make fuzz-protocols` sets it, and runs one target at a time.

mod mutation;

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use mutation::Mutation;
use perhop_core::Stream;

/// Number of inputs per target, unless the environment sets another.
const CASES: u64 = 1_000_000;
/// Greatest number of inputs in a pool.
const POOL: usize = 512;

/// Factor by which [`fuzz_slow`] tries fewer inputs.
const SLOW: u64 = 5;

/// Does the same as [`fuzz`] with fewer inputs, for a parser that takes many times longer.
///
/// # Panics
/// Under the same conditions as [`fuzz`].
pub fn fuzz_slow(target: &str, seeds: &[Vec<u8>], check: impl Fn(&[u8]) -> bool) {
    run(target, SLOW, seeds, check);
}

/// Calls `check` on `seeds` and on damaged copies of them. `check` panics if the parser is wrong,
/// and returns `true` if the parser accepts the input. An accepted input may be damaged further, so
/// that inputs move away from the seeds.
///
/// # Panics
/// If `check` panics, after the input is printed; and if it rejects a seed, because a target with
/// outdated seeds would test nothing.
pub fn fuzz(target: &str, seeds: &[Vec<u8>], check: impl Fn(&[u8]) -> bool) {
    run(target, 1, seeds, check);
}

fn run(target: &str, slow: u64, seeds: &[Vec<u8>], check: impl Fn(&[u8]) -> bool) {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = number("PERHOP_FUZZ_SEED").unwrap_or(1);
    let cases = number("PERHOP_FUZZ_CASES").unwrap_or(CASES) / slow;
    let mut mutation = Mutation::new(Stream::new(seed, target));
    for (number, bytes) in seeds.iter().enumerate() {
        assert!(check(bytes), "{target}: seed {number} is refused");
    }
    let mut pool = seeds.to_vec();
    let (limit, mut before) = (number("PERHOP_FUZZ_MEMORY"), None);
    for case in 0..cases {
        if case == cases / 10 {
            before = resident();
        }
        let input = mutation.damaged(&pool);
        match catch_unwind(AssertUnwindSafe(|| check(&input))) {
            Ok(false) => {}
            Ok(true) if pool.len() < POOL => pool.push(input),
            Ok(true) => {
                let place = mutation.below(pool.len() - seeds.len()) + seeds.len();
                pool[place] = input;
            }
            Err(panic) => {
                eprintln!("{target}, PERHOP_FUZZ_SEED={seed}: {}", input.escape_ascii());
                resume_unwind(panic);
            }
        }
    }
    if let (Some(before), Some(after)) = (before, resident()) {
        report(target, cases, (before, after), limit);
    }
}

/// Returns the memory of this process in KiB: the pages that are in memory (proc(5)). `None` where
/// the system does not have it.
fn resident() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    pages.split_whitespace().nth(1)?.parse::<u64>().ok().map(|pages| pages * 4)
}

/// Prints the memory of a target after the first tenth of its inputs and after all.
///
/// # Panics
/// If it has grown by more than `limit`.
fn report(target: &str, cases: u64, (before, after): (u64, u64), limit: Option<u64>) {
    let Some(limit) = limit else { return };
    println!(
        "{target}: {cases} inputs, {before} KiB after a tenth of them, {after} KiB at the end"
    );
    let grown = after.saturating_sub(before);
    assert!(grown <= limit, "{target}: memory has grown by {grown} KiB; expected at most {limit}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_grows_is_found() {
        let before = resident().unwrap();
        let kept = vec![1_u8; 64 << 20];
        let after = resident().unwrap();
        report("kept", 10, (before, before + 5), Some(5));
        let found = catch_unwind(|| report("leak", 10, (before, after), Some(1 << 14)));
        assert!(found.is_err(), "{before} {after}");
        drop(kept);
    }
}
