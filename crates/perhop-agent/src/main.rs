//! The program `perhop-agent`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    perhop_agent::main(&arguments)
}
