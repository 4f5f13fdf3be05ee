//! Runs scripts of packetdrill over the modelled Linux host.
//!
//! A segment of a script may be several of the host's: Linux hands data to the device in parts of
//! many segments. PSH and URG, timestamps' values, and windows that the host advertises are not
//! compared.

use std::fmt::Write;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use perhop_core::{Duration, Time};
use perhop_tcp::{Flags, TIMESTAMP_BYTES};

use crate::host::{Host, Sent, Settings};
use crate::script::{Action, Error, Event, Packet, Result, Script, When};

/// Result of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// The host does otherwise: the line, and what it does.
    Failed(usize, String),
    NotRun(Error),
}

/// Commands that change nothing in what is compared.
const HARMLESS: [&str; 5] = [
    "ip tcp_metrics flush",
    "ethtool -K tun0",
    "tc qdisc add dev tun0 root pfifo",
    "#",
    // Both ways to find the end of slow start, as by default.
    "echo 3 > /sys/module/tcp_cubic/parameters/hystart_detect",
];

/// Settings of Linux that change nothing in what is compared.
const OTHER: [&str; 17] = [
    "tcp_rmem",
    "tcp_wmem",
    "tcp_syn_retries",
    "tcp_synack_retries",
    "tcp_dsack",
    "tcp_fack",
    "tcp_sack",
    "tcp_timestamps",
    "tcp_ecn",
    "tcp_ecn_option",
    "tcp_pacing_ss_ratio",
    "tcp_pacing_ca_ratio",
    "tcp_notsent_lowat",
    "tcp_fastopen",
    "tcp_fastopen_key",
    "tcp_syncookies",
    "tcp_min_tso_segs",
];

/// Runs a script, whose commands may name other files beside it.
pub fn run(path: &Path) -> Outcome {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return Outcome::NotRun(Error::Malformed(0, error.to_string())),
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let script = match Script::read(&text) {
        Ok(script) => script,
        Err(error) => return Outcome::NotRun(error),
    };
    let settings = match settings(&script, folder) {
        Ok(settings) => settings,
        Err(error) => return Outcome::NotRun(error),
    };
    let mut runner = Runner {
        now: ORIGIN,
        last: None,
        settings,
        opening: Opening::None,
        host: None,
        closed: false,
        tolerance: script.tolerance,
        code: String::from(PRELUDE),
    };
    for event in &script.events {
        match runner.step(event) {
            Ok(()) => {}
            Err(Stop::Differs(what)) => return Outcome::Failed(event.line, what),
            Err(Stop::NotModelled(what)) => {
                return Outcome::NotRun(Error::NotModelled(event.line, what));
            }
        }
    }
    judge(&runner.code)
}

/// Time of the script's beginning: late enough that none is negative.
const ORIGIN: Time = Time::from_picos(10_000_000_000_000);

const PRELUDE: &str = "\
import sys, textwrap
TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss = range(5)
own = {name: value for name, value in globals().items() if name.startswith('TCP_')}
def run(line, text, info):
    own.update(info)
    try:
        exec(textwrap.dedent(text).strip(), own)
    except Exception as error:
        sys.exit(f'{line} {type(error).__name__}: {error} in {text.strip()}')
";

/// Runs the script's code; its standard output is its own.
fn judge(code: &str) -> Outcome {
    if code == PRELUDE {
        return Outcome::Passed;
    }
    let run = || {
        let mut python = Command::new("python3")
            .args(["-I", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = python.stdin.take() {
            input.write_all(code.as_bytes())?;
        }
        python.wait_with_output()
    };
    match run() {
        Ok(result) if result.status.success() => Outcome::Passed,
        Ok(result) => {
            let text = String::from_utf8_lossy(&result.stderr);
            let (line, what) = text.trim().split_once(' ').unwrap_or(("0", text.trim()));
            Outcome::Failed(line.parse().unwrap_or(0), what.to_owned())
        }
        Err(error) => Outcome::NotRun(Error::NotModelled(0, format!("python3: {error}"))),
    }
}

/// Returns what a script's commands set.
fn settings(script: &Script, folder: &Path) -> Result<Settings> {
    let mut settings = Settings::default();
    for event in &script.events {
        if let Action::Command(text) = &event.action {
            command(&mut settings, text, folder, event.line)?;
        }
    }
    Ok(settings)
}

fn command(settings: &mut Settings, text: &str, folder: &Path, line: usize) -> Result<()> {
    let text = text.replace("\\\n", " ");
    for command in text.lines().map(str::trim).filter(|command| !command.is_empty()) {
        let first = command.split_whitespace().next().unwrap_or("");
        if let Ok(more) = std::fs::read_to_string(folder.join(first))
            && first.ends_with(".sh")
        {
            self::command(settings, &more, folder, line)?;
        } else if command.contains("net.ipv4.") || command.contains("net/ipv4/") {
            sysctls(settings, command, line)?;
        } else if !HARMLESS.iter().any(|harmless| command.starts_with(harmless))
            && !first.contains("sysctl_restore")
        {
            return Err(Error::NotModelled(line, format!("the command {command:?}")));
        }
    }
    Ok(())
}

fn sysctls(settings: &mut Settings, command: &str, line: usize) -> Result<()> {
    for word in command.split_whitespace() {
        let word = word.replace('/', ".");
        let Some((_, setting)) = word.split_once("net.ipv4.") else { continue };
        let Some((name, value)) = setting.split_once('=') else {
            return Err(Error::NotModelled(line, format!("the command {command:?}")));
        };
        match (name, value) {
            ("tcp_congestion_control", "cubic" | "reno") => {
                settings.connection.cubic = value == "cubic"
            }
            ("tcp_slow_start_after_idle", "0" | "1") => settings.restarts = value == "1",
            ("tcp_tso_win_divisor", _) if value.parse::<u32>().is_ok() => {
                settings.connection.divisor = value.parse().unwrap_or(3);
            }
            ("tcp_recovery", "1") | ("tcp_reordering", "3") => {}
            ("tcp_early_retrans", "3" | "4") | ("tcp_frto", "1" | "2") => {}
            _ if OTHER.contains(&name) => {}
            _ => return Err(Error::NotModelled(line, format!("{name}={value}"))),
        }
    }
    Ok(())
}

/// Reason for which a script ends before its end.
enum Stop {
    Differs(String),
    NotModelled(String),
}

/// What is on record of the handshake.
#[derive(Clone, Debug)]
enum Opening {
    None,
    /// The SYN of one side, and when it was sent.
    Syn(Packet, Time),
    /// The host's own answer to the peer's SYN, which is not acknowledged yet.
    Answered,
    Open,
}

struct Runner {
    now: Time,
    /// When the last packet arrived, if nothing has happened since.
    last: Option<Time>,
    settings: Settings,
    opening: Opening,
    host: Option<Host>,
    /// True once the application has ended writing.
    closed: bool,
    tolerance: i64,
    /// Text in Python that judges the connection's TCP_INFO.
    code: String,
}

fn micros(micros: i64) -> Duration {
    Duration::from_micros(micros.max(0) as u64)
}

impl Runner {
    fn step(&mut self, event: &Event) -> std::result::Result<(), Stop> {
        if matches!(&event.action, Action::Packet(packet) if packet.has('R')) {
            return Err(Stop::NotModelled("RST".into()));
        }
        let outgoing = matches!(&event.action, Action::Packet(packet) if !packet.incoming);
        let arrives = matches!(&event.action, Action::Packet(packet) if packet.incoming);
        // Times between two arrivals are as written; others since what has happened.
        let since = if arrives { self.last.unwrap_or(self.now) } else { self.now };
        let (earliest, latest) = match event.when {
            When::Any => (None, None),
            When::At(first, last) => (Some(ORIGIN + micros(first)), Some(ORIGIN + micros(last))),
            When::After(first, last) => (Some(since + micros(first)), Some(since + micros(last))),
        };
        if !outgoing {
            self.advance(earliest.unwrap_or(self.now).max(self.now));
        }
        self.last = arrives.then_some(self.now);
        match &event.action {
            Action::Packet(packet) if outgoing => self.leave(packet, earliest.zip(latest)),
            Action::Packet(packet) => self.arrive(packet),
            Action::Call(name, arguments, result) => self.call(name, arguments, result),
            Action::Code(text) => self.add_code(event.line, text),
            Action::Command(_) => Ok(()),
        }
    }

    /// Lets time pass.
    fn advance(&mut self, until: Time) {
        if let Some(host) = &mut self.host {
            while host.deadline() <= until {
                self.now = host.deadline().max(self.now);
                host.expire(self.now);
            }
        }
        self.now = until;
    }

    fn arrive(&mut self, packet: &Packet) -> std::result::Result<(), Stop> {
        let Some(window @ 1..) = packet.window else {
            return Err(Stop::NotModelled("a window of zero".into()));
        };
        match std::mem::replace(&mut self.opening, Opening::Open) {
            Opening::None => self.opening = Opening::Syn(packet.clone(), self.now),
            Opening::Syn(own, at) if !own.incoming && packet.has('S') => {
                self.agree(&own, packet);
                let mut host = Host::new(self.settings.clone(), at);
                own.options.timestamps.iter().for_each(|&(own, _)| host.name_stamp(own));
                host.open(self.now, window, false);
                self.host = Some(host);
            }
            Opening::Answered if !packet.has('S') => {
                let host = self.host.as_mut();
                let host = host.ok_or_else(|| Stop::NotModelled("the handshake".into()))?;
                host.open(self.now, window, true);
                if packet.end > packet.start {
                    host.take(self.now, packet);
                }
            }
            Opening::Open if !packet.has('S') => match &mut self.host {
                Some(host) => host.take(self.now, packet),
                None => return Err(Stop::NotModelled("the handshake".into())),
            },
            _ => return Err(Stop::NotModelled("another SYN".into())),
        }
        Ok(())
    }

    /// Takes what both sides' SYNs say.
    fn agree(&mut self, own: &Packet, peers: &Packet) {
        let both = |has: fn(&Packet) -> bool| has(own) && has(peers);
        let settings = &mut self.settings;
        let connection = &mut settings.connection;
        connection.timestamps = both(|packet| packet.options.timestamps.is_some());
        connection.sack = both(|packet| packet.options.sack_permitted);
        connection.ecn = both(|packet| packet.has('E'));
        let stamps = if connection.timestamps { TIMESTAMP_BYTES as u16 } else { 0 };
        let mss = [own, peers].map(|packet| packet.options.mss.unwrap_or(536));
        connection.mss = mss[0].min(mss[1]).saturating_sub(stamps).max(1);
        if both(|packet| packet.options.scale.is_some()) {
            settings.scale = peers.options.scale.unwrap_or(0).min(14);
        }
    }

    fn leave(
        &mut self,
        packet: &Packet,
        times: Option<(Time, Time)>,
    ) -> std::result::Result<(), Stop> {
        if packet.has('S') {
            let at = times.map_or(self.now, |(earliest, _)| earliest.max(self.now));
            self.advance(at);
            match std::mem::replace(&mut self.opening, Opening::Answered) {
                Opening::None => self.opening = Opening::Syn(packet.clone(), self.now),
                Opening::Syn(peers, _) if peers.incoming => {
                    self.agree(packet, &peers);
                    let mut host = Host::new(self.settings.clone(), self.now);
                    packet.options.timestamps.iter().for_each(|&(own, _)| host.name_stamp(own));
                    self.host = Some(host);
                }
                _ => return Err(Stop::NotModelled("another SYN".into())),
            }
            return Ok(());
        }
        let Some(host) = &mut self.host else {
            return Err(Stop::NotModelled("the handshake".into()));
        };
        let slack = self.tolerance.max(match times {
            Some((earliest, _)) => (earliest.since(self.now).as_picos() / 8_000_000) as i64,
            None => i64::MAX >> 24,
        });
        let (earliest, latest) = times.unwrap_or((self.now, self.now));
        let limit = latest + micros(slack);
        while host.sent.is_empty() && host.deadline() <= limit {
            self.now = host.deadline().max(self.now);
            host.expire(self.now);
        }
        let seconds = |at: Time| at.since(ORIGIN).as_picos() as f64 * 1e-12;
        let Some(first) = host.sent.front().copied() else {
            let what = format!("nothing was sent by {:.6} s", seconds(limit));
            return Err(Stop::Differs(what));
        };
        if first.at > limit || first.at + micros(slack) < earliest {
            return Err(Stop::Differs(format!(
                "{} was sent at {:.6} s, not from {:.6} s to {:.6} s",
                text(&first),
                seconds(first.at),
                seconds(earliest),
                seconds(latest),
            )));
        }
        self.now = self.now.max(first.at);
        let mut at = packet.start;
        loop {
            while host.sent.is_empty() && host.deadline() <= limit {
                host.expire(host.deadline().max(self.now));
            }
            let Some(sent) = host.sent.pop_front() else {
                return Err(Stop::Differs(format!("nothing was sent from {at} on")));
            };
            let (start, end) = sent.range();
            // Here a FIN is a segment of its own.
            let ends = sent.segment.flags.has(Flags::FIN) || !packet.has('F');
            let last = end == packet.end && ends;
            if start != at || end > packet.end || !last && start == end {
                return Err(Stop::Differs(format!("{} was sent", text(&sent))));
            }
            compare(packet, &sent, last)?;
            at = end;
            if last {
                return Ok(());
            }
        }
    }

    fn call(
        &mut self,
        name: &str,
        arguments: &[String],
        result: &str,
    ) -> std::result::Result<(), Stop> {
        let whole = || Stop::NotModelled(format!("{name}({}) = {result}", arguments.join(", ")));
        let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
        match name {
            "socket" | "bind" | "listen" | "accept" | "fcntl" | "connect" => {
                if result.starts_with("-1") && !result.contains("EINPROGRESS") {
                    return Err(whole());
                }
            }
            "setsockopt" => match argument(2) {
                "TCP_NODELAY" if argument(3) == "[1]" => self.settings.prompt = true,
                // The SYN says so.
                "TCP_MAXSEG" if self.host.is_none() => {}
                "SO_REUSEADDR" | "SO_SNDBUF" | "IP_TOS" | "IP_MTU_DISCOVER" => {}
                "TCP_CONGESTION" if argument(3) == "\"cubic\"" => {
                    self.settings.connection.cubic = true
                }
                "TCP_CONGESTION" if argument(3) == "\"reno\"" => {
                    self.settings.connection.cubic = false
                }
                _ => return Err(whole()),
            },
            "read" => {
                let bytes = result.parse().map_err(|_| whole())?;
                self.host.as_mut().ok_or_else(whole)?.read(bytes);
            }
            "write" | "send" if !self.closed && matches!(argument(3), "" | "0") => {
                let bytes = result.parse().map_err(|_| whole())?;
                let host = self.host.as_mut().ok_or_else(whole)?;
                if host.holds_back(bytes) {
                    return Err(Stop::NotModelled("Nagle's algorithm".into()));
                }
                host.write(self.now, bytes);
            }
            "write" if result.contains("EPIPE") && self.closed => {}
            "close" | "shutdown" if name == "close" || argument(1) != "SHUT_RD" => {
                let host = self.host.as_mut().ok_or_else(whole)?;
                if name == "close" && host.has_unread() {
                    return Err(Stop::NotModelled("RST".into()));
                }
                host.close(self.now);
                self.closed = true;
            }
            _ => return Err(whole()),
        }
        Ok(())
    }

    /// Adds code with what it may read of TCP_INFO.
    fn add_code(&mut self, line: usize, text: &str) -> std::result::Result<(), Stop> {
        let Some(info) = self.host.as_ref().and_then(|host| host.sender.tcp_info()) else {
            return Err(Stop::NotModelled("TCP_INFO before the connection is open".into()));
        };
        let fields = [
            ("tcpi_ca_state", info.state.into()),
            ("tcpi_snd_cwnd", info.cwnd),
            ("tcpi_snd_ssthresh", info.ssthresh),
            ("tcpi_unacked", info.unacked),
            ("tcpi_sacked", info.sacked),
            ("tcpi_lost", info.lost),
            ("tcpi_retrans", info.retrans),
            ("tcpi_total_retrans", info.total_retrans),
            ("tcpi_reordering", info.reordering),
            ("tcpi_snd_mss", self.settings.connection.mss.into()),
        ];
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words.filter(|word| word.starts_with("tcpi_")) {
            if fields.iter().all(|(name, _)| *name != word) {
                return Err(Stop::NotModelled(word.to_owned()));
            }
        }
        let values: Vec<_> = fields.iter().map(|(name, n)| format!("{name:?}: {n}")).collect();
        let _ = writeln!(self.code, "run({line}, {text:?}, {{{}}})", values.join(", "));
        Ok(())
    }
}

fn text(sent: &Sent) -> String {
    let (start, end) = sent.range();
    let fin = if sent.segment.flags.has(Flags::FIN) { "F" } else { "" };
    format!("{fin}. {start}:{end}({}) ack {}", end - start, sent.segment.ack.0)
}

/// Compares the header of a segment with what the script expects of it; of several segments, the
/// last one has a FIN.
fn compare(packet: &Packet, sent: &Sent, last: bool) -> std::result::Result<(), Stop> {
    let segment = &sent.segment;
    let letters = [('F', Flags::FIN), ('E', Flags::ECE), ('W', Flags::CWR)];
    for (letter, flag) in letters {
        let expected = packet.has(letter) && (letter != 'F' || last);
        if segment.flags.has(flag) != expected {
            let which = if expected { "without" } else { "with" };
            return Err(Stop::Differs(format!("{} was sent {which} {letter}", text(sent))));
        }
    }
    if packet.ack.is_some_and(|ack| ack != u64::from(segment.ack.0)) {
        return Err(Stop::Differs(format!("{} was sent", text(sent))));
    }
    let blocks = segment.sack.as_slice().iter();
    let blocks: Vec<_> = blocks.map(|(start, end)| (start.0.into(), end.0.into())).collect();
    if !packet.options.any && blocks != packet.options.sack {
        return Err(Stop::Differs(format!("{} was sent with SACK {blocks:?}", text(sent))));
    }
    Ok(())
}
