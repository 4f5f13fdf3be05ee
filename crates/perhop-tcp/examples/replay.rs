//! Replays recordings: `replay FILE [--differences] [--least IDENTICAL AGREED]`.
//!
//! Prints, for each kind of path, the share of recordings that are identical to the end, and that
//! of the acknowledgements before the first difference; then the classes of first differences.
//! With `--least` the exit code is 1 if a share of all recordings is lower, in percent.
//!
//! Of recordings of receivers, it prints the shares of acknowledgements that both send, and of
//! windows that are alike; with `--least` each must be 85% at least.

#[path = "../tests/replay/linux.rs"]
mod linux;
#[path = "../tests/replay/receiving.rs"]
mod receiving;
#[path = "../tests/replay/recording.rs"]
mod recording;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::process::ExitCode;

/// Least shares of receivers, in percent.
const RECEIVERS: f64 = 85.0;
const USAGE: &str = "usage: replay FILE [--differences] [--least IDENTICAL AGREED]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().expect(USAGE);
    let differences = arguments.iter().any(|argument| argument == "--differences");
    let least = arguments.iter().position(|argument| argument == "--least").map(|at| {
        [at + 1, at + 2]
            .map(|at| arguments.get(at).and_then(|text| text.parse::<f64>().ok()).expect(USAGE))
    });
    let file = std::fs::File::open(path).expect("the file can be read");
    let mut kinds = BTreeMap::<String, recording::Sum>::new();
    let mut classes = BTreeMap::<recording::Class, usize>::new();
    let mut all = recording::Sum::default();
    let mut receivers = receiving::Outcome::default();
    for line in std::io::BufReader::new(file).lines() {
        let line = line.expect("lines are text");
        if receiving::is_receiver(&line) {
            receivers.add(&receiving::replay(&line));
            continue;
        }
        let outcome = recording::replay(&line);
        if let Some(class) = outcome.class {
            *classes.entry(class).or_default() += 1;
        }
        if let (Some(what), Some(class), true) = (&outcome.difference, outcome.class, differences) {
            let recording::Outcome { kind, seed, acks, agreed, .. } = &outcome;
            println!("{kind} {seed}: {agreed} of {acks} acknowledgements; {what} ({class})");
            outcome.window.iter().for_each(|window| println!("    {window}"));
        }
        all.add(&outcome);
        kinds.entry(outcome.kind.clone()).or_default().add(&outcome);
    }
    let rows = kinds.iter().map(|(kind, sum)| (kind.as_str(), sum));
    for (kind, sum) in rows.chain([("all", &all)]) {
        let recording::Sum { recordings, identical, acks, agreed } = sum;
        let [of_recordings, of_acks] = sum.shares();
        println!(
            "{kind:>8}: {identical} of {recordings} identical ({of_recordings:.1}%), {agreed} of \
             {acks} acknowledgements before the first difference ({of_acks:.1}%)"
        );
    }
    if !classes.is_empty() {
        println!("first differences by class:");
    }
    for (class, count) in &classes {
        println!("{count:>8}: {class}");
    }
    let shares = receivers.shares();
    if receivers.theirs > 0 {
        let receiving::Outcome { theirs, own, same, .. } = receivers;
        let [of_theirs, of_own, windows] = shares;
        println!(
            "receivers: {same} of Linux's {theirs} acknowledgements ({of_theirs:.1}%), and of \
             {own} own ones ({of_own:.1}%); windows within 5%: {windows:.1}%"
        );
        if least.is_some() && shares.into_iter().any(|share| share < RECEIVERS) {
            println!("below the goal of {RECEIVERS}%");
            return ExitCode::FAILURE;
        }
    }
    let below = least.filter(|least| all.recordings > 0 && all.is_below(*least));
    if let Some([identical, agreed]) = below {
        println!("below the goals of {identical}% identical and {agreed}% of acknowledgements");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
