//! Replay of recordings of how Linux receives: a receiver takes each segment at its recorded time,
//! and its acknowledgements are compared with those of Linux.
//!
//! `validation/kernel_receiver.py` tells what a recording has. Of the segments that Linux takes
//! together some are acknowledged as one, by chance, so that acknowledgements are compared as a
//! set: one is the same if the receiver sends one with the same position and blocks within 2 ms.

use std::collections::HashMap;

use perhop_core::{Duration, Time};
use perhop_tcp::{EcnMode, Flags, Receiver, ReceiverConfig, Segment, Seq};
use serde_json::Value;

/// Data of a full segment, in bytes.
const MSS: u16 = 1_448;
/// Linux's largest receive window: 5/8 of 6 MiB.
const LARGEST: u32 = (6 << 20) / 8 * 5;
/// Time before the recording, in seconds.
const BEFORE: f64 = 10.0;
/// Greatest difference of the times of two acknowledgements that are the same, in seconds.
const SOON: f64 = 2e-3;
/// Greatest difference of windows that are the same.
const ALIKE: f64 = 0.05;

/// Result of a replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Acknowledgements of Linux.
    pub theirs: usize,
    /// Acknowledgements of the receiver.
    pub own: usize,
    /// Those that both sent.
    pub same: usize,
    /// Those of them whose windows differ by no more than 5%.
    pub windows: usize,
}

impl Outcome {
    pub fn add(&mut self, other: &Self) {
        self.theirs += other.theirs;
        self.own += other.own;
        self.same += other.same;
        self.windows += other.windows;
    }

    /// Returns the shares, in percent: of Linux's acknowledgements that the receiver sends, of the
    /// receiver's that Linux sends, and of windows that are alike.
    pub fn shares(&self) -> [f64; 3] {
        let share = |part: usize, all: usize| 100.0 * part as f64 / all.max(1) as f64;
        [share(self.same, self.theirs), share(self.same, self.own), share(self.windows, self.same)]
    }
}

/// An acknowledgement without its time and window.
type Key = (u64, Vec<(u64, u64)>);

/// Returns `true` if a line is a recording of a receiver.
pub fn is_receiver(line: &str) -> bool {
    let recording: Value = serde_json::from_str(line).expect("a line is a recording in JSON");
    recording["P"]["kind"] == "receiver"
}

/// Returns a recording's outcome.
///
/// # Panics
/// If the recording is malformed.
pub fn replay(line: &str) -> Outcome {
    let recording: Value = serde_json::from_str(line).expect("a line is a recording in JSON");
    let log = recording["log"].as_array().expect("it has a log");
    let own = acknowledgements(log);
    let mut by_key: HashMap<&Key, Vec<(f64, f64)>> = HashMap::new();
    for (time, window, key) in &own {
        by_key.entry(key).or_default().push((*time, *window));
    }
    let mut outcome = Outcome { own: own.len(), ..Outcome::default() };
    for event in log.iter().filter(|event| event[0] == "ack") {
        let (time, key, window) = (seconds(event), key(event), number(&event[4]) as f64);
        if key.0 <= 1 {
            continue;
        }
        outcome.theirs += 1;
        let near = by_key.get_mut(&key).and_then(|sent| {
            let near = sent.iter().position(|(at, _)| (at - time).abs() < SOON)?;
            Some(sent.swap_remove(near))
        });
        if let Some((_, own)) = near {
            outcome.same += 1;
            outcome.windows += usize::from((own / window - 1.0).abs() <= ALIKE);
        }
    }
    outcome
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("it is a number")
}

fn seconds(event: &Value) -> f64 {
    event[1].as_f64().expect("it is a time")
}

fn time(event: &Value) -> Time {
    Time::from_picos(((seconds(event) + BEFORE) * 1e12) as u64)
}

/// Returns the peer's timestamp, in microseconds. It counts milliseconds, from a second before the
/// recording on.
fn stamp(value: &Value) -> u32 {
    (number(value) as u32 - 1_000 + (BEFORE * 1e3) as u32) * 1_000
}

fn key(event: &Value) -> Key {
    let blocks = event[3].as_array().expect("it has blocks").iter();
    (number(&event[2]), blocks.map(|block| (number(&block[0]), number(&block[1]))).collect())
}

/// Returns what the receiver sends after its SYN: time, window, and the rest.
fn acknowledgements(log: &[Value]) -> Vec<(f64, f64, Key)> {
    let mut receiver = Receiver::new(ReceiverConfig {
        window: LARGEST,
        autotuning: Some(MSS),
        quick_acks: Some(MSS),
        delayed_ack: Duration::from_millis(40),
        sack: true,
        dsack: true,
        window_scaling: true,
        timestamps: true,
        ecn: EcnMode::Off,
    });
    let mut sent = Vec::new();
    let mut take = |at: Time, answer: Segment| {
        let blocks = answer.sack.as_slice().iter();
        let blocks = blocks.map(|(start, end)| (start.0.into(), end.0.into())).collect();
        let key: Key = (answer.ack.0.into(), blocks);
        if key.0 > 1 {
            sent.push((at.as_picos() as f64 * 1e-12 - BEFORE, answer.window.into(), key));
        }
    };
    // Linux's first timestamp, in milliseconds, and the receiver's own one, in microseconds.
    let mut stamps = (0, 0);
    for event in log {
        let now = time(event);
        let mut segment = Segment { flags: Flags::ACK, ack: Seq(1), ..Segment::default() };
        match event[0].as_str() {
            Some("syn") => {
                segment.flags = Flags::SYN;
                segment.timestamps = Some((stamp(&event[2]), 0));
            }
            Some("synack") => {
                stamps = (number(&event[2]) as u32, (now.as_picos() / 1_000_000) as u32);
                continue;
            }
            Some("data") => {
                let after = (number(&event[5]) as u32).wrapping_sub(stamps.0);
                let echoed = stamps.1.wrapping_add(after.wrapping_mul(1_000));
                segment.seq = Seq(number(&event[2]) as u32);
                segment.payload = number(&event[3]) as u16;
                segment.timestamps = Some((stamp(&event[4]), echoed));
            }
            _ => continue,
        }
        while receiver.deadline() <= now {
            let at = receiver.deadline();
            receiver.on_timer(at).into_iter().for_each(|answer| take(at, answer));
        }
        receiver.on_segment(now, &segment).into_iter().for_each(|answer| take(now, answer));
    }
    sent
}
