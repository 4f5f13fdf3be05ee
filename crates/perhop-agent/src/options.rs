//! Options of commands: `--name VALUE` or `--name=VALUE`, and quantities with units, spelled as in
//! scenarios.

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

/// Exit code for wrong arguments, as in every command of perhop.
const USAGE: u8 = 2;

/// One option of a command.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// Its name, with the dashes.
    pub name: &'static str,
    /// Placeholder of its value in the help; empty for an option without a value.
    pub value: &'static str,
    /// Text of the help.
    pub help: &'static str,
}

/// The arguments that a command takes.
#[derive(Debug)]
pub struct Usage {
    /// The name of the command.
    pub command: &'static str,
    /// Positional arguments in the help, such as `[FILE]`; empty if there are none.
    pub positional: &'static str,
    /// Description of the command in one sentence.
    pub about: &'static str,
    /// Its options.
    pub options: &'static [Opt],
}

/// Parsed arguments of a command.
#[derive(Debug, Default)]
pub struct Arguments {
    command: &'static str,
    given: Vec<(&'static str, String)>,
    /// Positional arguments.
    pub positional: Vec<String>,
}

impl Usage {
    /// Parses arguments. Prints the help for `--help`, and reports wrong arguments; the command
    /// must then end with the exit code of the error.
    ///
    /// # Errors
    /// The exit code of the process.
    pub fn read(&self, arguments: &[String]) -> Result<Arguments, ExitCode> {
        let mut read = Arguments { command: self.command, ..Arguments::default() };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if argument == "--help" || argument == "-h" {
                print!("{}", self.help());
                return Err(ExitCode::SUCCESS);
            }
            if !argument.starts_with("--") {
                if self.positional.is_empty() {
                    return Err(self.wrong(&format!("unexpected argument {argument:?}")));
                }
                read.positional.push(argument.clone());
                continue;
            }
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            let Some(option) = self.options.iter().find(|option| option.name == name) else {
                return Err(self.wrong(&format!("{name} is not an option of this command")));
            };
            let value = match (option.value.is_empty(), value) {
                (true, None) => String::new(),
                (true, Some(_)) => return Err(self.wrong(&format!("{name} takes no value"))),
                (false, Some(value)) => value,
                (false, None) => match rest.next() {
                    Some(value) => value.clone(),
                    None => {
                        return Err(self.wrong(&format!("{name} needs a value: {}", option.value)));
                    }
                },
            };
            read.given.push((option.name, value));
        }
        Ok(read)
    }

    fn wrong(&self, what: &str) -> ExitCode {
        wrong(self.command, &format!("{what}; see perhop-agent {} --help", self.command))
    }

    fn help(&self) -> String {
        let positional = match self.positional {
            "" => String::new(),
            some => format!(" {some}"),
        };
        let mut text = format!(
            "Usage: perhop-agent {} [OPTIONS]{positional}\n\n{}\n",
            self.command, self.about
        );
        if !self.options.is_empty() {
            text += "\nOptions:\n";
        }
        for Opt { name, value, help } in self.options {
            let head = format!("{name} {value}");
            text += &format!("  {:<24} {help}\n", head.trim_end());
        }
        text
    }
}

/// Reports wrong arguments of a command.
pub fn wrong(command: &str, what: &str) -> ExitCode {
    eprintln!("perhop-agent {command}: {what}");
    ExitCode::from(USAGE)
}

impl Arguments {
    /// Returns all values of an option, in the order given.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.given.iter().filter(move |(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    /// Returns the last value of an option.
    pub fn last<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).last()
    }

    /// Returns whether an option was given.
    pub fn has(&self, name: &str) -> bool {
        self.last(name).is_some()
    }

    /// Returns the last value of an option, parsed by `parse`: one of the functions of this module
    /// or a `FromStr`. Reports a value that `parse` refuses.
    ///
    /// # Errors
    /// The exit code of the process.
    pub fn value<T, E: std::fmt::Display>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, ExitCode> {
        let Some(text) = self.last(name) else { return Ok(None) };
        let wrong = |error| wrong(self.command, &format!("{name} {text:?}: {error}"));
        parse(text).map(Some).map_err(wrong)
    }
}

/// Units, each with its number of base units.
type Units = [(&'static str, u64)];

const RATES: &Units = &[
    ("bps", 1),
    ("kbps", 1_000),
    ("Mbps", 1_000_000),
    ("Gbps", 1_000_000_000),
    ("b/s", 1),
    ("kb/s", 1_000),
    ("Mb/s", 1_000_000),
    ("Gb/s", 1_000_000_000),
];
const TIMES: &Units = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const SIZES: &Units = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

fn quantity(text: &str, units: &Units, what: &str, example: &str) -> Result<u64, String> {
    let expected = || format!("expected a {what} such as {example:?}");
    let text = text.trim();
    let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let well_formed = !whole.is_empty() && fraction.len() <= 9 && !fraction.contains('.');
    let &(_, size) = units
        .iter()
        .find(|(name, _)| *name == unit.trim_start())
        .filter(|_| well_formed)
        .ok_or_else(expected)?;
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| expected())?;
    let value = digits.saturating_mul(size.into()) / 10_u128.pow(fraction.len() as u32);
    u64::try_from(value).map_err(|_| expected())
}

/// Reads a rate, such as `100 Mbps`; in bit/s.
///
/// # Errors
/// A text of the expected form.
pub fn rate(text: &str) -> Result<u64, String> {
    quantity(text, RATES, "rate", "100 Mbps")
}

/// Reads a duration, such as `10 s`.
///
/// # Errors
/// A text of the expected form.
pub fn duration(text: &str) -> Result<Duration, String> {
    quantity(text, TIMES, "duration", "10 s").map(Duration::from_nanos)
}

/// Reads a size, such as `10 GB`; in bytes.
///
/// # Errors
/// A text of the expected form.
pub fn size(text: &str) -> Result<u64, String> {
    quantity(text, SIZES, "size", "10 GB")
}

/// Reads a number.
///
/// # Errors
/// A text of the expected form.
pub fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected a number such as 4".into())
}

/// Resolves `HOST`, `HOST:PORT` or `[HOST]:PORT`; the first address of a name, and `port` if the
/// text has none.
///
/// # Errors
/// The reason why there is no such address.
pub fn resolve(text: &str, port: u16) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let found = text.to_socket_addrs().or_else(|_| (bare, port).to_socket_addrs());
    match found.map(|mut all| all.next()) {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err("no such host or address".into()),
        Err(error) => Err(format!("no such host or address: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: Usage = Usage {
        command: "test",
        positional: "[FILE]",
        about: "Tests.",
        options: &[
            Opt { name: "--allow", value: "KEY", help: "a key; repeatable" },
            Opt { name: "--max-rate", value: "RATE", help: "a rate" },
            Opt { name: "--quick", value: "", help: "a switch" },
        ],
    };

    fn read(line: &[&str]) -> Option<Arguments> {
        let line: Vec<String> = line.iter().map(ToString::to_string).collect();
        USAGE.read(&line).ok()
    }

    #[test]
    fn options_come_in_both_forms_and_the_last_counts() {
        let read = read(&["--allow", "a b", "file", "--allow=c=d", "--quick"]).unwrap();
        assert_eq!(read.all("--allow").collect::<Vec<_>>(), ["a b", "c=d"]);
        assert_eq!(read.last("--allow"), Some("c=d"));
        assert!(read.has("--quick") && !read.has("--max-rate"));
        assert_eq!(read.positional, ["file"]);
    }

    #[test]
    fn what_a_command_does_not_take_is_refused() {
        assert!(read(&["--never"]).is_none());
        assert!(read(&["--allow"]).is_none(), "no value");
        assert!(read(&["--quick=1"]).is_none());
        let strict = Usage { positional: "", ..USAGE };
        assert!(strict.read(&["file".into()]).is_err());
        let wrong = read(&["--max-rate", "9"]).unwrap();
        assert!(wrong.value("--max-rate", rate).is_err());
    }

    #[test]
    fn hosts_have_names_and_usual_ports() {
        let at = |text: &str| text.parse().unwrap();
        assert_eq!(resolve("192.0.2.1", 862), Ok(at("192.0.2.1:862")));
        assert_eq!(resolve("192.0.2.1:863", 862), Ok(at("192.0.2.1:863")));
        assert_eq!(resolve("[::1]", 862), Ok(at("[::1]:862")));
        assert_eq!(resolve("::1", 862), Ok(at("[::1]:862")));
        assert!(resolve("localhost:863", 862).is_ok_and(|at| at.port() == 863));
        assert!(resolve("no such host", 862).is_err());
    }

    #[test]
    fn quantities_have_the_units_of_scenarios() {
        assert_eq!(rate("100 Mbps"), Ok(100_000_000));
        assert_eq!(rate("1.5Gb/s"), Ok(1_500_000_000));
        assert_eq!(duration("0.25 s"), Ok(Duration::from_millis(250)));
        assert_eq!(size("3 KiB"), Ok(3072));
        for wrong in ["", "9", "Mbps", "1..5 Mbps", "-1 Mbps", "1e9 bps", "99999999999 Gbps", "1 s"]
        {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
