//! The command `iperf3`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use super::client::drive;
use super::limits::Limits;
use super::message::Parameters;
use super::server::{Server, Settings};
use crate::options::{Arguments, Opt, Usage, count, duration, rate, resolve, size, wrong};

/// Default address: the port of iperf3 on loopback.
const LISTEN: &str = "127.0.0.1:5201";
/// The port of iperf3.
const PORT: u16 = 5201;

const USAGE: Usage = Usage {
    command: "iperf3",
    positional: "",
    about: "Answer iperf3 clients, many at the same time, and measure more than iperf3 reports.",
    options: &[
        Opt {
            name: "--listen",
            value: "ADDR",
            help: "address and port; repeatable [127.0.0.1:5201]",
        },
        Opt {
            name: "--records",
            value: "DIR",
            help: "write a record of each test into this folder",
        },
        Opt {
            name: "--max-rate",
            value: "RATE",
            help: "rate of a test in each direction [no limit]",
        },
        Opt { name: "--max-duration", value: "TIME", help: "duration of a test [300 s]" },
        Opt {
            name: "--max-volume",
            value: "SIZE",
            help: "bytes of a test in both directions [no limit]",
        },
        Opt {
            name: "--max-streams",
            value: "N",
            help: "streams of a test in each direction [128]",
        },
        Opt { name: "--max-tests", value: "N", help: "tests at the same time [32]" },
        Opt { name: "--max-records", value: "N", help: "files in the folder of records [100000]" },
        Opt {
            name: "--same-clock",
            value: "",
            help: "clients run on this machine, in namespaces: delays are absolute",
        },
        Opt {
            name: "--client",
            value: "HOST",
            help: "run a test against this server instead; prints JSON",
        },
        Opt {
            name: "--parameters",
            value: "JSON",
            help: "parameters of the client's test, as in iperf3's protocol",
        },
    ],
};

/// Runs the command.
pub fn command(arguments: &[String]) -> ExitCode {
    let given = match USAGE.read(arguments) {
        Ok(given) => given,
        Err(code) => return code,
    };
    if given.last("--client").is_some() {
        return client(&given).unwrap_or_else(|code| code);
    }
    let started = Ok(given).and_then(|given| {
        let mut settings = settings("iperf3", &given, "--listen", limits(&given)?)?;
        if settings.listen.is_empty() {
            settings.listen.push(LISTEN.parse().expect("it is an address"));
        }
        Server::start(settings).map_err(|error| {
            eprintln!("perhop-agent iperf3: {error}");
            ExitCode::FAILURE
        })
    });
    match started {
        Ok(server) => {
            for address in server.addresses() {
                println!("iperf3: listening on {address}");
            }
            loop {
                std::thread::park();
            }
        }
        Err(code) => code,
    }
}

/// Runs one test against a server, and prints its outcome.
fn client(given: &Arguments) -> Result<ExitCode, ExitCode> {
    let json = |text: &str| serde_json::from_str::<Parameters>(text);
    let server = given.value("--client", |text: &str| resolve(text, PORT))?;
    let asked = given.value("--parameters", json)?;
    let usual = Parameters { tcp: true, time: Some(10), ..Parameters::default() };
    let Some(server) = server else { return Ok(ExitCode::FAILURE) };
    let failed = |error: &dyn std::fmt::Display| {
        eprintln!("perhop-agent iperf3: {error}");
        ExitCode::FAILURE
    };
    let outcome = drive(server, &asked.unwrap_or(usual), None).map_err(|error| failed(&error))?;
    println!("{}", serde_json::to_string_pretty(&outcome).map_err(|error| failed(&error))?);
    Ok(ExitCode::SUCCESS)
}

fn limits(given: &Arguments) -> Result<Limits, ExitCode> {
    let usual = Limits::default();
    let number = |name, usual: u64| given.value(name, count).map(|given| given.unwrap_or(usual));
    Ok(Limits {
        duration: given.value("--max-duration", duration)?.unwrap_or(usual.duration),
        rate: given.value("--max-rate", rate)?,
        volume: given.value("--max-volume", size)?,
        streams: number("--max-streams", usual.streams.into())?.min(1024) as u32,
        tests: number("--max-tests", usual.tests.into())?.min(1024) as u32,
        records: number("--max-records", usual.records as u64)? as usize,
    })
}

/// Returns the settings of a server that a command starts; `listen` is the name of the option with
/// its addresses.
pub(crate) fn settings(
    command: &'static str,
    given: &Arguments,
    listen: &'static str,
    limits: Limits,
) -> Result<Settings, ExitCode> {
    let addresses = given.all(listen).map(|text| {
        text.parse::<SocketAddr>().map_err(|_| {
            let expected = "expected an address and port such as 192.0.2.1:5201 or [::]:5201";
            wrong(command, &format!("{listen} {text:?}: {expected}"))
        })
    });
    let same_clock = given.last("--same-clock").is_some();
    let records = given.last("--records").map(PathBuf::from);
    let listen = addresses.collect::<Result<_, _>>()?;
    Ok(Settings { listen, limits, records, same_clock, ..Settings::default() })
}
