//! Replays recordings: `replay FILE [--differences]`.

#[path = "../tests/replay/recording.rs"]
mod recording;

use std::collections::BTreeMap;
use std::io::BufRead;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().expect("usage: replay FILE [--differences]");
    let differences = arguments.iter().any(|argument| argument == "--differences");
    let file = std::fs::File::open(path).expect("the file can be read");
    let mut kinds = BTreeMap::<String, [usize; 4]>::new();
    for line in std::io::BufReader::new(file).lines() {
        let outcome = recording::replay(&line.expect("lines are text"));
        if let Some(what) = outcome.difference.as_ref().filter(|_| differences) {
            let recording::Outcome { kind, seed, acks, agreed, .. } = &outcome;
            println!("{kind} {seed}: {agreed} of {acks} acknowledgements; {what}");
            outcome.window.iter().for_each(|window| println!("    {window}"));
        }
        for kind in [outcome.kind.clone(), "all".to_owned()] {
            let sum = kinds.entry(kind).or_default();
            sum[0] += 1;
            sum[1] += usize::from(outcome.difference.is_none());
            sum[2] += outcome.acks;
            sum[3] += outcome.agreed;
        }
    }
    for (kind, [recordings, identical, acks, agreed]) in kinds {
        let share = |part: usize, all: usize| 100.0 * part as f64 / all.max(1) as f64;
        println!(
            "{kind:>8}: {identical} of {recordings} identical ({:.1}%), {agreed} of {acks} \
             acknowledgements before the first difference ({:.1}%)",
            share(identical, recordings),
            share(agreed, acks)
        );
    }
}
