//! Replay of recorded connections of Linux: a sender takes each acknowledgement at its recorded
//! time, and its segments are compared with those that Linux sent.
//!
//! A recording is a line of JSON: `P`, the settings of the path, and `log`, a list of events with
//! their times in seconds: `syn`, `synack`, `write` (bytes), `tx` (position, length, flags, ECN
//! field, timestamp), `ack` (position, SACK blocks, timestamps, echo of marks, window) and `info`.
//!
//! The phase of Linux's tick and of its timer wheel is not on record. The replay tries 64 phases
//! of the tick, 62.5 µs apart, and keeps the best. A timer may expire earlier or later than the
//! sender's by the granularity of the wheel at its length, and by 8 ms of lateness. The peer echoes
//! the timestamps of the sender's own segments for those of the recorded ones.

use perhop_core::{Duration, Time};
use perhop_tcp::{Flags, SackBlocks, Segment, Sender, Seq};
use serde_json::Value;

use crate::linux::Connection;

/// Parts of a tick of 4 ms.
const PHASES: u64 = 64;
const MS: u64 = 1_000_000_000;
const LATENESS: u64 = 8 * MS;

/// Time in which the kernel acts and the recorder sees it.
const PROMPTLY: Duration = Duration::from_micros(60);
/// Time for which the recorder may be held up.
const HELD_UP: Duration = Duration::from_millis(1);

/// Result of a replay.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub kind: String,
    pub seed: u64,
    /// Acknowledgements on record, and those before the first difference.
    pub acks: usize,
    pub agreed: usize,
    /// The first difference, if any, and its class.
    pub difference: Option<String>,
    pub class: Option<Class>,
    /// The first difference of the congestion windows before it.
    pub window: Option<String>,
}

/// Classes of first differences: that of the congestion window if it differs by then, by the states
/// of Linux; else that of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Growth,
    Reduction,
    Undo,
    Timeout,
    Timer,
    Retransmission,
    NewData,
}

impl Class {
    /// Returns the class of windows that differ for the first time in a state of Linux
    /// (tcp_ca_state), after another one.
    fn of_window(before: u64, state: u64) -> Self {
        match (before, state) {
            (_, 4) => Self::Timeout,
            (_, 2 | 3) => Self::Reduction,
            (2..=4, _) => Self::Undo,
            _ => Self::Growth,
        }
    }
}

impl std::fmt::Display for Class {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Growth => "growth of the window",
            Self::Reduction => "reduction of the window (recovery, marks)",
            Self::Undo => "window after a recovery, undone or not",
            Self::Timeout => "window after a timeout",
            Self::Timer => "timer that expires at another time, or only here or there",
            Self::Retransmission => "retransmission of another segment, or at another moment",
            Self::NewData => "amount of new data within equal windows",
        })
    }
}

/// Sums of outcomes.
#[derive(Default)]
pub struct Sum {
    pub recordings: usize,
    pub identical: usize,
    pub acks: usize,
    pub agreed: usize,
}

impl Sum {
    pub fn add(&mut self, outcome: &Outcome) {
        self.recordings += 1;
        self.identical += usize::from(outcome.difference.is_none());
        self.acks += outcome.acks;
        self.agreed += outcome.agreed;
    }

    /// Returns the shares of identical recordings, and of acknowledgements before the first
    /// difference, in percent.
    pub fn shares(&self) -> [f64; 2] {
        let share = |part: usize, all: usize| 100.0 * part as f64 / all.max(1) as f64;
        [share(self.identical, self.recordings), share(self.agreed, self.acks)]
    }

    /// Returns `true` if one of the shares is less than its goal.
    pub fn is_below(&self, goals: [f64; 2]) -> bool {
        self.shares().iter().zip(goals).any(|(share, goal)| *share < goal)
    }
}

/// Returns a recording's outcome.
///
/// # Panics
/// If the recording is malformed.
pub fn replay(line: &str) -> Outcome {
    let recording: Value = serde_json::from_str(line).expect("a line is a recording in JSON");
    let (settings, log) = (&recording["P"], recording["log"].as_array().expect("it has a log"));
    let outcomes =
        (0..PHASES).map(|phase| Replay::new(settings, log, phase * (4 * MS / PHASES)).run(log));
    let mut best: Option<Outcome> = None;
    for outcome in outcomes {
        let better = best.as_ref().is_none_or(|best| outcome.agreed > best.agreed);
        let ends = outcome.difference.is_none();
        if better || ends {
            best = Some(outcome);
        }
        if ends {
            break;
        }
    }
    best.expect("there are several phases")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| value.as_f64().unwrap_or(0.0) as u64)
}

/// Text of a first difference, and its class if the windows are equal.
type Difference = (String, Class);

struct Replay {
    sender: Sender,
    seed: u64,
    kind: String,
    sack: bool,
    stamped: bool,
    ecn: bool,
    mss: u64,
    /// Time of the sender at the recording's beginning, in picoseconds.
    origin: u64,
    /// Timestamp of Linux at the sender's time zero.
    first_stamp: i64,
    /// Timestamp of the peer at that time, at most.
    peers_stamp: i64,
    /// Timestamps of the sender's segments, in µs, by those of the recorded ones.
    stamps: std::collections::HashMap<u64, u32>,
    /// Segments of the sender that are not compared yet, with their timestamps.
    sent: std::collections::VecDeque<(u64, u64, u32)>,
    last_sent: Time,
    /// The sender's deadline and the time at which it was set.
    armed: (Time, Time),
    /// State of Linux (tcp_ca_state), and the end of what it has sent.
    state: u64,
    end: u64,
    /// Class of the first difference of the windows.
    window_class: Option<Class>,
}

impl Replay {
    fn new(settings: &Value, log: &[Value], phase: u64) -> Self {
        let has = |key: &str| number(&settings[key]) > 0 || settings[key] == Value::Bool(true);
        let (sack, stamped, ecn) = (has("sack"), has("ts"), has("ecn"));
        let config = Connection {
            mss: number(&settings["mss"]) as u16,
            cubic: settings["cc"].as_str() != Some("reno"),
            sack,
            timestamps: stamped,
            ecn,
            // Recordings without it are those of a recorder that sets 255.
            divisor: settings["divisor"].as_u64().map_or(255, |divisor| divisor as u32),
            tick_phase: Duration::from_picos(phase),
        };
        // A timestamp is the millisecond of its transmission, which is recorded a little later.
        let stamps = log.iter().filter(|event| event[0] == "tx" && event[6].is_number());
        let offsets = stamps.map(|event| {
            let millis = event[1].as_f64().unwrap_or(0.0) * 1e3;
            event[6].as_f64().unwrap_or(0.0) - millis
        });
        let offset = offsets.fold(f64::NEG_INFINITY, f64::max);
        let (first_stamp, lead) = match offset.is_finite() {
            true => (offset.floor() as i64, offset - offset.floor()),
            false => (0, 0.0),
        };
        let acks = log.iter().filter(|event| event[0] == "ack" && event[5].is_number());
        let peers = acks
            .map(|event| event[5].as_f64().unwrap_or(0.0) - event[1].as_f64().unwrap_or(0.0) * 1e3);
        let peers_stamp = peers.fold(0.0, f64::max).ceil() as i64 - 10_000;
        // Ten seconds of time before, so that no time is negative.
        let origin = 10_000 * MS + (lead * MS as f64) as u64;
        Self {
            sender: Sender::new(config.sender()),
            seed: number(&settings["seed"]),
            kind: settings["kind"].as_str().unwrap_or("").to_owned(),
            sack,
            stamped,
            ecn,
            mss: number(&settings["mss"]).max(1),
            origin,
            first_stamp: first_stamp - 10_000,
            peers_stamp,
            stamps: std::collections::HashMap::new(),
            sent: std::collections::VecDeque::new(),
            last_sent: Time::ZERO,
            armed: (Time::MAX, Time::ZERO),
            state: 0,
            end: 1,
            window_class: None,
        }
    }

    fn time(&self, event: &Value) -> Time {
        let seconds = event[1].as_f64().unwrap_or(0.0);
        Time::from_picos(self.origin + (seconds * 1e12) as u64)
    }

    fn poll(&mut self, now: Time) {
        while let Some(segment) = self.sender.poll(now) {
            self.last_sent = now;
            if !segment.flags.has(Flags::SYN) {
                let stamp = segment.timestamps.map_or(0, |(stamp, _)| stamp);
                self.sent.push_back((segment.seq.0.into(), segment.payload.into(), stamp));
            }
        }
        let deadline = self.sender.deadline();
        if deadline != self.armed.0 {
            self.armed = (deadline, now);
        }
    }

    /// Returns by how much Linux's timer may expire before or after the sender's.
    fn slack(&self) -> Duration {
        let (deadline, set) = self.armed;
        let length = if deadline > set { deadline.since(set).as_picos() / MS } else { 0 };
        let granularity = match length {
            0..256 => 4,
            256..2_050 => 32,
            2_050..16_400 => 256,
            _ => 2_048,
        };
        Duration::from_picos(granularity * MS + LATENESS)
    }

    fn fire(&mut self, now: Time) {
        self.sender.on_timer(now.max(self.armed.0));
        self.poll(now.max(self.armed.0));
    }

    fn run(mut self, log: &[Value]) -> Outcome {
        let acks = log.iter().filter(|event| event[0] == "ack").count();
        let mut agreed = 0;
        let (mut difference, mut class) = (None, None);
        let mut window = None;
        for (index, event) in log.iter().enumerate() {
            let mut now = self.time(event);
            // The recorder may be held up before the kernel takes what it has written down.
            let next = log.get(index + 1).filter(|next| next[0] == "tx" || next[0] == "info");
            if let (Some("ack" | "write"), Some(next)) = (event[0].as_str(), next) {
                let seen = self.time(next);
                if seen.since(now) < HELD_UP {
                    now = now.max(Time::from_picos(seen.as_picos() - PROMPTLY.as_picos()));
                }
            }
            let name = event[0].as_str().unwrap_or("");
            let result = match name {
                "syn" | "synack" | "write" | "ack" => {
                    let result = self.catch_up(now);
                    if result.is_ok() {
                        self.take(name, event, now);
                    }
                    result
                }
                "tx" => self.compare(event, now),
                "info" => {
                    window = window.or_else(|| self.compare_window(event));
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err((what, of_segment)) = result {
                // The state after what was taken last is on record behind what was sent.
                let later = log[index..].iter().find(|event| event[0] == "info");
                let later = later.filter(|_| name == "tx");
                let before = self.window_class;
                let found = later.and_then(|event| self.compare_window(event));
                window = window.or(found);
                class = before.or(self.window_class).or(Some(of_segment));
                difference = Some(format!("at {:.4} s: {what}", event[1].as_f64().unwrap_or(0.0)));
                break;
            }
            agreed += usize::from(name == "ack");
        }
        if difference.is_none()
            && let Some(&(position, ..)) = self.sent.front()
        {
            difference = Some(format!("at the end: {position} was sent"));
            class = self.window_class.or(Some(self.class_of(position)));
        }
        if difference.is_some() {
            agreed = agreed.saturating_sub(1);
        }
        let (seed, kind) = (self.seed, self.kind);
        Outcome { kind, seed, acks, agreed, difference, class, window }
    }

    /// Lets timers expire that Linux's must have, before an event.
    fn catch_up(&mut self, now: Time) -> Result<(), Difference> {
        if let Some(&(position, length, _)) = self.sent.front() {
            let what = format!("{position}:{length} was sent, and not by Linux");
            return Err((what, self.class_of(position)));
        }
        for _ in 0..100 {
            if self.armed.0 == Time::MAX || self.armed.0 + self.slack() >= now {
                return Ok(());
            }
            self.fire(self.armed.0);
            if let Some((position, length, _)) = self.sent.front() {
                let what = format!("a timer sent {position}:{length}, and Linux did not");
                return Err((what, Class::Timer));
            }
        }
        Err(("the timer expires without end".into(), Class::Timer))
    }

    fn take(&mut self, name: &str, event: &Value, now: Time) {
        let echo = |value: &Value| {
            let millis = value.as_f64().unwrap_or(0.0) as i64 - self.first_stamp;
            let own = self.stamps.get(&number(value)).copied();
            own.unwrap_or((millis.max(0) as u64 * 1000) as u32)
        };
        // A recorded timestamp of the peer is not later than its segment.
        let own = |value: &Value| (number(value) as i64 - self.peers_stamp) as u32 * 1_000;
        match name {
            "syn" => {}
            "synack" => {
                let ece = if self.ecn { Flags::ECE } else { Flags::default() };
                let answer = Segment {
                    flags: Flags::SYN.with(Flags::ACK).with(ece),
                    ack: Seq(1),
                    window: 65_535,
                    ..Segment::default()
                };
                self.sender.on_segment(now, &answer);
            }
            "write" => {
                if self.sender.unsent() == 0 && self.sender.flight() == 0 {
                    self.sender.restart_after_idle(now, now.since(self.last_sent));
                }
                self.sender.write(number(&event[2]));
            }
            _ => {
                let mut sack = SackBlocks::default();
                for block in event[3].as_array().into_iter().flatten() {
                    sack.push(number(&block[0]), number(&block[1]));
                }
                let echoed = event[6] == Value::Bool(true);
                let segment = Segment {
                    seq: Seq(1),
                    ack: Seq(number(&event[2]) as u32),
                    window: number(&event[7]) as u32,
                    flags: Flags::ACK.with(if echoed { Flags::ECE } else { Flags::default() }),
                    timestamps: self.stamped.then(|| (own(&event[5]), echo(&event[4]))),
                    sack: if self.sack { sack } else { SackBlocks::default() },
                    ..Segment::default()
                };
                self.sender.on_segment(now, &segment);
            }
        }
        self.poll(now);
    }

    /// Compares the congestion windows in segments.
    fn compare_window(&mut self, event: &Value) -> Option<String> {
        let (own, theirs) = (self.sender.cwnd() / self.mss, number(&event[2]["cwnd"]));
        let (at, state) = (event[1].as_f64().unwrap_or(0.0), &event[2]["ca"]);
        let before = std::mem::replace(&mut self.state, number(state));
        if own == theirs {
            self.window_class = None;
        }
        if own == theirs || self.sender.flight() == 0 {
            return None;
        }
        self.window_class.get_or_insert(Class::of_window(before, self.state));
        let info = &event[2];
        Some(format!(
            "window {own} for {theirs} at {at:.4} s in state {state}, {} lost, {} SACKed, \
                 round trip {:?} for {}",
            info["lost"],
            info["sacked"],
            self.sender.smoothed_rtt(),
            info["rtt"]
        ))
    }

    /// Returns the class of a segment at a position, sent by one and not by the other.
    fn class_of(&self, position: u64) -> Class {
        if position < self.end { Class::Retransmission } else { Class::NewData }
    }

    /// Compares a segment of Linux with the sender's next one.
    fn compare(&mut self, event: &Value, now: Time) -> Result<(), Difference> {
        let expected = (number(&event[2]), number(&event[3]));
        let missing = || format!("Linux sent {}:{}", expected.0, expected.1);
        for _ in 0..3 {
            if !self.sent.is_empty() {
                break;
            }
            let slack = self.slack();
            if self.armed.0 == Time::MAX || now + slack < self.armed.0 {
                return Err((missing(), self.class_of(expected.0)));
            }
            self.fire(now);
        }
        match self.sent.pop_front() {
            Some((position, length, stamp)) if (position, length) == expected => {
                self.stamps.insert(number(&event[6]), stamp);
                self.end = self.end.max(expected.0 + expected.1);
                Ok(())
            }
            Some((position, length, _)) => {
                let what = format!("{position}:{length} was sent, and {} instead", missing());
                Err((what, self.class_of(position.min(expected.0))))
            }
            None => Err((missing(), Class::Timer)),
        }
    }
}
