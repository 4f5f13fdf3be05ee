//! Damaged input for parsers. A fuzz target is a test that calls [`fuzz`]; the name of each begins
//! with `fuzz_`, so that `cargo test --workspace fuzz_` runs all of them.
//!
//! Tests try a fixed number of inputs, the same ones every time. `make fuzz` sets
//! `PERHOP_FUZZ_CASES` and `PERHOP_FUZZ_SEED` to try others, and more.

mod mutation;

use std::env;
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
    for _ in 0..cases {
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
}
