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

/// Inputs that a target is tried on unless the environment says otherwise.
const CASES: u64 = 1_000_000;
/// Inputs that a pool holds at most.
const POOL: usize = 512;

/// How many times fewer inputs [`fuzz_slow`] tries.
const SLOW: u64 = 5;

/// Do as [`fuzz`] does for a parser that takes many times longer, with fewer inputs.
///
/// # Panics
/// As [`fuzz`] does.
pub fn fuzz_slow(target: &str, seeds: &[Vec<u8>], check: impl Fn(&[u8]) -> bool) {
    run(target, SLOW, seeds, check);
}

/// Try `check` on `seeds` and on damaged copies of them. `check` panics if the parser is wrong, and
/// says whether the parser took the input. An input that it takes may be damaged further, so that
/// inputs move away from the seeds.
///
/// # Panics
/// If `check` panics, after the input is printed; and if it does not take a seed, because a target
/// whose seeds are out of date would try nothing.
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
