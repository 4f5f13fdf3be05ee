//! Limits that an agent's owner sets. No controller can raise them.

use std::process::ExitCode;
use std::time::Duration;

use perhop_traffic::{Allowance, AllowanceLimits, Job};
use serde::{Deserialize, Serialize};

use crate::options::{self, Arguments, Opt};

/// Maximum number of marks and cuts of a job.
const MOST_MARKS: usize = 1_000_000;

/// Limits that an agent's owner sets, for the whole agent or for one session; `None` is no limit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Rate at which the agent sends, in bit/s.
    pub rate: Option<u64>,
    /// Bytes that the agent sends in any 24 hours.
    pub volume: Option<u64>,
    /// Duration of a run, in nanoseconds.
    pub duration: Option<u64>,
    /// Streams of all flows, and pings, of a session.
    pub flows: u64,
    /// Number of simultaneous sessions.
    pub sessions: u64,
    /// Probes per second of the agent to addresses that have not proved that they want data.
    pub ping_rate: u32,
    /// Time without a message of the controller after which its session ends, in nanoseconds.
    pub silence: u64,
    /// True if controllers may use servers of iperf3 and STAMP reflectors that belong to others,
    /// and ping hosts that have not proved that they want packets.
    pub third_party: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rate: Some(1_000_000_000),
            volume: Some(1_000_000_000_000),
            duration: Some(nanos(Duration::from_secs(3_600))),
            flows: 1_000,
            sessions: 4,
            ping_rate: 100,
            silence: nanos(Duration::from_secs(5)),
            third_party: false,
        }
    }
}

/// Options that set limits.
pub const OPTIONS: [Opt; 8] = [
    Opt {
        name: "--max-rate",
        value: "RATE",
        help: "rate at which the agent sends; none: no limit (1 Gbps)",
    },
    Opt { name: "--max-volume", value: "SIZE", help: "bytes that the agent sends in 24 h (1 TB)" },
    Opt { name: "--max-duration", value: "TIME", help: "duration of a run (1 h)" },
    Opt { name: "--max-flows", value: "N", help: "streams and pings of a session (1000)" },
    Opt { name: "--max-sessions", value: "N", help: "simultaneous sessions (4)" },
    Opt { name: "--max-ping-rate", value: "N", help: "probes per second to unproved hosts (100)" },
    Opt {
        name: "--silence",
        value: "TIME",
        help: "end a session after this time without a message (5 s)",
    },
    Opt {
        name: "--third-party",
        value: "",
        help: "let controllers ping others, and use their iperf3 servers and STAMP reflectors",
    },
];

/// Reads a value that may be `none`.
fn or_none<T>(
    parse: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<Option<T>, String> {
    move |text| match text {
        "none" => Ok(None),
        text => parse(text).map(Some).map_err(|expected| format!("{expected}, or none")),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn time(text: &str) -> Result<u64, String> {
    options::duration(text).map(nanos)
}

fn silence(text: &str) -> Result<u64, String> {
    let range = nanos(Duration::from_secs(1))..=nanos(Duration::from_secs(600));
    let silence = time(text)?;
    range.contains(&silence).then_some(silence).ok_or_else(|| "expected 1 s to 10 min".into())
}

impl Limits {
    /// Reads the limits of an agent.
    ///
    /// # Errors
    /// The exit code of the process, after the error was reported.
    pub fn read(arguments: &Arguments) -> Result<Self, ExitCode> {
        let usual = Self::default();
        let read = |name, parse: fn(&str) -> Result<u64, String>, usual| {
            Ok::<_, ExitCode>(arguments.value(name, or_none(parse))?.unwrap_or(usual))
        };
        let count = |name| arguments.value(name, options::count);
        let ping_rate = |text: &str| text.parse().map_err(|_| "expected a number such as 100");
        Ok(Self {
            rate: read("--max-rate", options::rate, usual.rate)?,
            volume: read("--max-volume", options::size, usual.volume)?,
            duration: read("--max-duration", time, usual.duration)?,
            flows: count("--max-flows")?.unwrap_or(usual.flows),
            sessions: count("--max-sessions")?.unwrap_or(usual.sessions),
            ping_rate: arguments.value("--max-ping-rate", ping_rate)?.unwrap_or(usual.ping_rate),
            silence: arguments.value("--silence", silence)?.unwrap_or(usual.silence),
            third_party: arguments.has("--third-party"),
        })
    }

    /// Returns what all traffic of an agent with these limits may send together.
    pub fn allowance(&self) -> Allowance {
        let Self { rate, volume, ping_rate, .. } = *self;
        Allowance::new(AllowanceLimits { rate, volume, ping_rate: Some(ping_rate) })
    }

    /// Checks the duration, flows and intervals that a job declares. Its traffic is limited while
    /// it runs.
    ///
    /// # Errors
    /// A message that names the exceeded limit.
    pub fn check(&self, job: &Job) -> Result<(), String> {
        let end = job.marks.last().map_or(0, |end| end.as_picos().div_ceil(1_000));
        if let Some(most) = self.duration.filter(|most| end > *most) {
            let seconds = |nanos: u64| nanos as f64 / 1e9;
            return Err(format!(
                "the run lasts {} s, and this agent allows {} s (--max-duration)",
                seconds(end),
                seconds(most)
            ));
        }
        let streams: u64 = job.flows.iter().map(|flow| u64::from(flow.streams)).sum();
        let flows = streams + job.pings.len() as u64;
        if flows > self.flows {
            return Err(format!(
                "the run has {flows} streams and pings, and this agent allows {} (--max-flows)",
                self.flows
            ));
        }
        match job.marks.len().max(job.cuts.len()) {
            0..=MOST_MARKS => Ok(()),
            marks => Err(format!("the run has {marks} intervals; expected at most {MOST_MARKS}")),
        }
    }
}
