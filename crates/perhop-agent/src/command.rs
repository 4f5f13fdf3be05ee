//! The command line: `perhop-agent COMMAND …`, which is `perhop agent COMMAND …` too.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::{iperf3, key, serve, stamp};

/// Function of a command; its arguments are those after its name.
type Run = fn(&[String]) -> ExitCode;

/// The commands: name, text for `--help`, and function.
const COMMANDS: &[(&str, &str, Run)] = &[
    ("iperf3", "answer iperf3 clients, and measure more than iperf3 reports", iperf3::command),
    ("key", "print the public key of this host; create the pair of keys if missing", key::command),
    ("serve", "serve allowed controllers", serve::command),
    ("stamp", "answer or send STAMP packets: delay, loss, DSCP and ECN each way", stamp::command),
];

/// Exit code for wrong arguments, as in all commands of perhop.
const USAGE: u8 = 2;

/// Runs a command, given without the program's name.
pub fn main(arguments: &[String]) -> ExitCode {
    match arguments.split_first() {
        None => help(&mut io::stderr(), ExitCode::from(USAGE)),
        Some((word, _)) if ["-h", "--help", "help"].contains(&word.as_str()) => {
            help(&mut io::stdout(), ExitCode::SUCCESS)
        }
        Some((word, rest)) => match COMMANDS.iter().find(|(name, ..)| name == word) {
            Some((_, _, run)) => run(rest),
            None => {
                eprintln!("perhop-agent: {word:?} is not a command; see perhop-agent --help");
                ExitCode::from(USAGE)
            }
        },
    }
}

fn help(out: &mut dyn Write, code: ExitCode) -> ExitCode {
    let mut text = String::from("Usage: perhop-agent COMMAND ...\n\nCommands:\n");
    for (name, what, _) in COMMANDS {
        text += &format!("  {name:<9} {what}\n");
    }
    // A reader that closes the pipe early is no error.
    let _ = out.write_all(text.as_bytes());
    code
}
