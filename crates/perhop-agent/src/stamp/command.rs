//! `perhop-agent stamp reflect` and `perhop-agent stamp send`.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use perhop_core::{Dscp, TrafficClass};
use perhop_socket::{
    SimulatedClock, monotonic, reduce_wakeup_latency, simulate_clock_error, sleep_until,
};
use perhop_wire::{STAMP_PORT, StampFormat};

use super::key::Key;
use super::reflector::{Reflector, ReflectorSettings};
use super::sender::{Sender, SenderSettings};
use super::summary::Summary;
use super::text::text;
use crate::options::{Arguments, Opt, Usage, count, duration, resolve, wrong};

/// Option for a simulated offset of this process's clock, for tests of clock estimation;
/// [`clock_options`] reads it.
pub(crate) const CLOCK_OFFSET: Opt =
    Opt { name: "--clock-offset", value: "TIME", help: "for tests: simulated offset of the clock" };
/// Option for a simulated drift of this process's clock, likewise.
pub(crate) const CLOCK_DRIFT: Opt =
    Opt { name: "--clock-drift", value: "PPM", help: "for tests: simulated drift of the clock" };

/// Option for the error that the simulated clock's host states, likewise.
pub(crate) const CLOCK_STATED: Opt = Opt {
    name: "--clock-stated",
    value: "TIME",
    help: "for tests: simulated error that is stated for the clock",
};

const KEY: Opt = Opt {
    name: "--key",
    value: "FILE",
    help: "authenticate packets by the key in a file (hexadecimal digits)",
};
const PTP: Opt =
    Opt { name: "--ptp", value: "", help: "time stamps in the format of PTP instead of NTP" };

const REFLECT: Usage = Usage {
    command: "stamp reflect",
    positional: "",
    about: "Answers STAMP and TWAMP Light packets (RFC 8762, RFC 8972), on loopback unless told \
            otherwise.",
    options: &[
        Opt {
            name: "--listen",
            value: "ADDRESS",
            help: "address and port; repeatable (127.0.0.1:862)",
        },
        KEY,
        PTP,
        Opt {
            name: "--answer-short",
            value: "",
            help: "answer shorter packets, too, with a base packet (RFC 8762, section 4.6)",
        },
        Opt { name: "--stateless", value: "", help: "do not count the packets of sessions" },
        Opt {
            name: "--permit-dscp",
            value: "DSCP",
            help: "permit this DSCP on replies; repeatable (all)",
        },
        Opt {
            name: "--max-rate",
            value: "N",
            help: "packets per second that are answered (20000)",
        },
        Opt {
            name: "--max-source-rate",
            value: "N",
            help: "packets per second that are answered per source address (1000)",
        },
        Opt { name: "--max-sessions", value: "N", help: "simultaneous sessions (4096)" },
        CLOCK_OFFSET,
        CLOCK_DRIFT,
        CLOCK_STATED,
    ],
};

const SEND: Usage = Usage {
    command: "stamp send",
    positional: "HOST[:PORT]",
    about: "Measures delay, loss, reordering, DSCP and ECN to a STAMP reflector and back.",
    options: &[
        Opt { name: "--count", value: "N", help: "packets (50)" },
        Opt { name: "--every", value: "TIME", help: "time between packets (100 ms)" },
        Opt { name: "--size", value: "BYTES", help: "length of packets, without UDP and IP" },
        Opt { name: "--dscp", value: "DSCP", help: "DSCP of packets, such as EF or 46 (0)" },
        Opt { name: "--ecn", value: "0-3", help: "their ECN field (0)" },
        Opt { name: "--reply-dscp", value: "DSCP", help: "DSCP of replies (that of --dscp)" },
        Opt { name: "--plain", value: "", help: "no TLVs: packets of RFC 8762 and TWAMP Light" },
        KEY,
        PTP,
        Opt { name: "--wait", value: "TIME", help: "time limit of replies (2 s)" },
        Opt { name: "--need-ssid", value: "", help: "ignore replies without the identifier" },
        Opt { name: "--zero-padding", value: "", help: "pad with zeros, not with random bytes" },
        Opt { name: "--trust-clock", value: "", help: "use the error that the reflector states" },
        Opt { name: "--json", value: "", help: "the summary as JSON" },
        CLOCK_OFFSET,
        CLOCK_DRIFT,
        CLOCK_STATED,
    ],
};

/// Maximum number of packets of a session.
const MOST: u64 = 1_000_000;
/// Shortest time between packets, in nanoseconds.
const SHORTEST: u64 = 10_000;

/// Runs `perhop-agent stamp …`.
pub(crate) fn command(arguments: &[String]) -> ExitCode {
    let result = match arguments.split_first() {
        Some((word, rest)) if word == "reflect" => reflect(rest),
        Some((word, rest)) if word == "send" => send(rest),
        Some((word, _)) if word == "--help" || word == "-h" => {
            println!("Usage: perhop-agent stamp reflect|send [OPTIONS] ...");
            println!("\nSee perhop-agent stamp reflect --help, perhop-agent stamp send --help.");
            Ok(())
        }
        _ => Err(wrong("stamp", "expected `reflect` or `send`; see perhop-agent stamp --help")),
    };
    result.err().unwrap_or(ExitCode::SUCCESS)
}

/// Reads [`CLOCK_OFFSET`], [`CLOCK_DRIFT`] and [`CLOCK_STATED`], and simulates this error of the
/// clock if they are given.
///
/// # Errors
/// The exit code of the process.
pub(crate) fn clock_options(arguments: &Arguments) -> Result<(), ExitCode> {
    let offset = arguments.value("--clock-offset", |text| {
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text),
        };
        duration(rest).map(|offset| sign * i64::try_from(offset.as_nanos()).unwrap_or(i64::MAX))
    })?;
    let drift = arguments.value("--clock-drift", |text| {
        let number: Option<f64> = text.trim_end_matches("ppm").trim().parse().ok();
        let number = number.filter(|ppm| ppm.abs() <= 1e5);
        number.map(|ppm| (ppm * 1e3).round() as i64).ok_or("expected a drift such as 50ppm")
    })?;
    let stated = arguments.value("--clock-stated", |text| {
        duration(text).map(|error| u64::try_from(error.as_nanos()).unwrap_or(u64::MAX))
    })?;
    if offset.is_some() || drift.is_some() || stated.is_some() {
        let (offset, rate) = (offset.unwrap_or(0), drift.unwrap_or(0));
        simulate_clock_error(SimulatedClock { offset, rate, stated });
    }
    Ok(())
}

fn key(arguments: &Arguments) -> Result<Option<Key>, ExitCode> {
    arguments.value("--key", |file| Key::read(Path::new(file)))
}

fn format(arguments: &Arguments) -> StampFormat {
    if arguments.has("--ptp") { StampFormat::Ptp } else { StampFormat::Ntp }
}

fn dscp(text: &str) -> Result<Dscp, String> {
    Dscp::named(text).ok_or_else(|| "expected a DSCP such as EF, AF41 or 46".into())
}

fn number(arguments: &Arguments, name: &str, default: u32) -> Result<u32, ExitCode> {
    let read = |text: &str| count(text).and_then(|it| u32::try_from(it).map_err(|e| e.to_string()));
    Ok(arguments.value(name, read)?.unwrap_or(default))
}

fn fail(command: &str, what: &str) -> ExitCode {
    eprintln!("perhop-agent {command}: {what}");
    ExitCode::FAILURE
}

fn reflect(arguments: &[String]) -> Result<(), ExitCode> {
    let arguments = REFLECT.read(arguments)?;
    clock_options(&arguments)?;
    let mut permitted = Vec::new();
    for text in arguments.all("--permit-dscp") {
        let read = dscp(text);
        permitted.push(read.map_err(|what| wrong("stamp reflect", &format!("{text:?}: {what}")))?);
    }
    let default = ReflectorSettings::default();
    let settings = ReflectorSettings {
        key: key(&arguments)?,
        format: format(&arguments),
        stateful: !arguments.has("--stateless"),
        short: arguments.has("--answer-short"),
        permitted: if permitted.is_empty() { default.permitted } else { permitted },
        source_rate: number(&arguments, "--max-source-rate", default.source_rate)?,
        rate: number(&arguments, "--max-rate", default.rate)?,
        sessions: number(&arguments, "--max-sessions", default.sessions as u32)? as usize,
    };
    let mut started = reflectors("stamp reflect", &arguments, "--listen", &settings)?;
    if started.is_empty() {
        started.push(open("stamp reflect", "127.0.0.1:862", &settings)?);
    }
    loop {
        thread::park_timeout(Duration::from_secs(3600));
    }
}

/// Starts a reflector at each address of an option, and prints the addresses.
///
/// # Errors
/// The exit code of the process.
pub(crate) fn reflectors(
    command: &str,
    arguments: &Arguments,
    option: &str,
    settings: &ReflectorSettings,
) -> Result<Vec<Reflector>, ExitCode> {
    arguments.all(option).map(|text| open(command, text, settings)).collect()
}

fn open(command: &str, text: &str, settings: &ReflectorSettings) -> Result<Reflector, ExitCode> {
    let address = address(text, command)?;
    let reflector = Reflector::start(address, settings.clone()).map_err(|error| {
        let rights = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "; ports below 1024 need CAP_NET_BIND_SERVICE: grant it, or use another port"
            }
            _ => "",
        };
        fail(command, &format!("cannot open a STAMP reflector at {address}: {error}{rights}"))
    })?;
    println!("stamp: listening on {}", reflector.address());
    let _ = io::stdout().flush();
    Ok(reflector)
}

fn address(text: &str, command: &str) -> Result<SocketAddr, ExitCode> {
    resolve(text, STAMP_PORT).map_err(|error| fail(command, &format!("{text:?}: {error}")))
}

fn send(arguments: &[String]) -> Result<(), ExitCode> {
    let arguments = SEND.read(arguments)?;
    clock_options(&arguments)?;
    let [host] = &arguments.positional[..] else {
        return Err(wrong("stamp send", "expected one host; see perhop-agent stamp send --help"));
    };
    let to = address(host, "stamp send")?;
    let marked = arguments.value("--dscp", dscp)?.unwrap_or(Dscp::DEFAULT);
    let ecn = arguments.value("--ecn", |text| match text.parse() {
        Ok(ecn @ 0..=3_u8) => Ok(ecn),
        _ => Err("expected a number from 0 to 3: 1 is ECT(1), 2 is ECT(0)"),
    })?;
    let settings = SenderSettings {
        key: key(&arguments)?,
        format: format(&arguments),
        class: TrafficClass::from_octet(marked.get() << 2 | ecn.unwrap_or(0)),
        reply_dscp: arguments.value("--reply-dscp", dscp)?.unwrap_or(marked),
        needs_ssid: arguments.has("--need-ssid"),
        zero_padding: arguments.has("--zero-padding"),
        trusts_clock: arguments.has("--trust-clock"),
        class_of_service: !arguments.has("--plain"),
        direct_measurement: !arguments.has("--plain"),
        size: number(&arguments, "--size", 0)? as usize,
        timeout: arguments.value("--wait", duration)?.unwrap_or(Duration::from_secs(2)),
    };
    let packets = arguments.value("--count", |text| match count(text) {
        Ok(some @ 1..=MOST) => Ok(some),
        _ => Err(format!("expected a number from 1 to {MOST}")),
    })?;
    let every = arguments.value("--every", |text| match duration(text) {
        Ok(time) if time.as_nanos() >= SHORTEST.into() => Ok(time),
        _ => Err("expected a time of at least 10 µs, such as \"100 ms\"".to_string()),
    })?;
    let every = every.map_or(100_000_000, |every| every.as_nanos() as u64);
    let failed = |error| fail("stamp send", &format!("{to}: {error}"));
    let mut sender = Sender::new(to, settings.clone()).map_err(failed)?;
    let (mut answers, mut next, mut refused) = (Vec::new(), monotonic(), None);
    reduce_wakeup_latency(true);
    for _ in 0..packets.unwrap_or(50) {
        sleep_until(next);
        next += every;
        refused = sender.send().err().or(refused);
        sender.receive(next, |answer| answers.push(answer)).map_err(failed)?;
    }
    let end = monotonic() + settings.timeout.as_nanos() as u64;
    sender.receive(end, |answer| answers.push(answer)).map_err(failed)?;
    let summary = Summary::new(&settings, sender.sent(), sender.stray(), &answers);
    if arguments.has("--json") {
        let json = serde_json::to_string_pretty(&summary);
        println!("{}", json.map_err(|error| fail("stamp send", &error.to_string()))?);
    } else {
        println!("STAMP to {to}");
        print!("{}", text(&summary));
    }
    if answers.is_empty() {
        let why = refused.map_or(String::new(), |error| format!(" ({error})"));
        let hint = "check that a reflector runs there, with the same key";
        return Err(fail("stamp send", &format!("{to}: no reply{why}; {hint}")));
    }
    Ok(())
}
