//! Runs scripts of packetdrill over the modelled Linux host: `packetdrill FILE|FOLDER...`.
//!
//! Prints the outcome of each script, and counts. The exit code is 1 if one fails.

#[path = "../tests/packetdrill/host.rs"]
mod host;
#[path = "../tests/replay/linux.rs"]
mod linux;
#[path = "../tests/packetdrill/run.rs"]
mod run;
#[path = "../tests/packetdrill/script.rs"]
mod script;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use run::Outcome;

fn main() -> ExitCode {
    let mut scripts = Vec::new();
    for argument in std::env::args().skip(1) {
        collect(Path::new(&argument), &mut scripts);
    }
    let (mut passed, mut failed, mut not_run) = (0, 0, 0);
    for path in &scripts {
        let name = path.display();
        match run::run(path) {
            Outcome::Passed => {
                passed += 1;
                println!("passed   {name}");
            }
            Outcome::Failed(line, what) => {
                failed += 1;
                println!("FAILED   {name}:{line}: {what}");
            }
            Outcome::NotRun(error) => {
                not_run += 1;
                println!("not run  {name}: {error}");
            }
        }
    }
    println!("{passed} of {} passed; {not_run} more were not run", passed + failed);
    match failed == 0 && passed > 0 {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Adds a script, or all below a folder.
fn collect(path: &Path, scripts: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(path) else {
        scripts.push(path.to_owned());
        return;
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "pkt") {
            collect(&path, scripts);
        }
    }
}
