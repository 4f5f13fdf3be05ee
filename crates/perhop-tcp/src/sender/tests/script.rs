//! Tables of acknowledgements and timers, one by one, and what each makes the sender do.
//!
//! Each line has a step, then the segments sent (`r` if again, `f` for the FIN, `c` with CWR), the
//! congestion window and the threshold in segments, and the next timer in milliseconds. Segments
//! are numbered from zero and have 1000 bytes; `end-2` is two before the next. The handshake takes
//! 20 ms.

use super::*;

mod linux;
mod rfcs;

fn at(millis: &str) -> Time {
    let millis: f64 = millis.parse().expect("a step begins with its time");
    Time::from_picos((millis * 1e9) as u64)
}

/// Position of the first byte of a segment.
fn start(segment: &str) -> u64 {
    1 + 1000 * segment.parse::<u64>().expect("a segment is a number")
}

/// Returns the first byte of a segment, or of one so many before the next one to be sent.
fn before(segment: &str, end: Seq) -> u64 {
    match segment.strip_prefix("end-") {
        Some(less) => u64::from(end.0) + 1 - start(less),
        None => start(segment),
    }
}

/// Returns the segments in brief: three and more in a row by the first and the last.
fn runs(sent: &[String]) -> String {
    let mut brief: Vec<String> = Vec::new();
    let mut rest = sent;
    while let [first, others @ ..] = rest {
        let follows = |&(count, next): &(u64, &String)| {
            first.parse::<u64>().is_ok_and(|first| next.parse() == Ok(first + count))
        };
        let more = (1..).zip(others).take_while(follows).count();
        let taken = if more >= 2 { more } else { 0 };
        brief.push(match taken {
            0 => first.clone(),
            _ => format!("{first} to {}", others[taken - 1]),
        });
        rest = &others[taken..];
    }
    brief.join(" ")
}

/// Returns a number without zeros at its end.
fn brief(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

struct Script {
    sender: Sender,
    last_sent: Time,
}

impl Script {
    /// Performs a step; returns its line.
    fn step(&mut self, step: &str) -> String {
        let words: Vec<&str> = step.split_whitespace().collect();
        let now = match words[0] {
            "timer" => {
                let due = self.sender.deadline();
                self.sender.on_timer(due);
                due
            }
            time => {
                let now = at(time);
                self.act(now, words[1], &words[2..]);
                now
            }
        };
        let mut sent = Vec::new();
        while let Some(segment) = self.sender.poll(now) {
            self.last_sent = now;
            let flag = |flag, letter| if segment.flags.has(flag) { letter } else { "" };
            let again = flag(Flags::RETRANSMISSION, "r");
            let (fin, cwr) = (flag(Flags::FIN, "f"), flag(Flags::CWR, "c"));
            sent.push(match segment.flags.has(Flags::SYN) {
                true => format!("SYN{again}"),
                false => format!("{}{again}{fin}{cwr}", segment.seq.0 / 1000),
            });
        }
        let (mss, window) = (f64::from(self.sender.config.mss), self.sender.window);
        let timer = match self.sender.deadline() {
            Time::MAX => "-".to_owned(),
            due => brief(due.as_picos() as f64 / 1e9),
        };
        let (cwnd, ssthresh) = (brief(window.cwnd / mss), brief(window.ssthresh / mss));
        format!("{} | {} | {cwnd}/{ssthresh} | {timer}", words.join(" "), runs(&sent))
    }

    fn act(&mut self, now: Time, verb: &str, words: &[&str]) {
        let sender = &mut self.sender;
        match verb {
            "syn" => {}
            // The answer to the SYN.
            "open" => {
                let ece = match sender.config.ecn {
                    EcnMode::Off => Flags::default(),
                    _ => Flags::ECE,
                };
                let flags = Flags::SYN.with(Flags::ACK).with(ece);
                let answer = Segment { flags, ack: Seq(1), window: 1 << 20, ..Segment::default() };
                sender.on_segment(now, &answer);
            }
            "write" => {
                if sender.unsent() == 0 && sender.flight() == 0 {
                    sender.restart_after_idle(now, now.since(self.last_sent));
                }
                sender.write(words[0].parse().unwrap_or(u64::MAX));
            }
            "close" => sender.close(),
            "stop" => sender.stop(),
            // Next segment expected, blocks, and the millisecond of the echoed timestamp.
            "ack" => {
                let mut answer = Segment {
                    flags: Flags::ACK,
                    ack: Seq::from_offset(before(words[0], sender.next_seq())),
                    window: 1 << 20,
                    ..Segment::default()
                };
                for word in &words[1..] {
                    if *word == "ece" {
                        answer.flags = answer.flags.with(Flags::ECE);
                    } else if let Some(echo) = word.strip_prefix("echo=") {
                        let micros = at(echo).as_picos() / 1_000_000;
                        answer.timestamps = Some((1, micros as u32));
                    } else if let Some(window) = word.strip_prefix("window=") {
                        answer.window = window.parse().expect("a window has bytes");
                    } else {
                        let (first, end) = word.split_once('-').expect("a block is a range");
                        answer.sack.push(start(first), start(end));
                    }
                }
                sender.on_segment(now, &answer);
            }
            _ => panic!("unknown step: {verb}"),
        }
    }
}

/// Compares the lines of tables with what senders do.
#[track_caller]
fn check(tables: &[(SenderConfig, &str)]) {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut wrong = Vec::new();
    for (config, table) in tables {
        let expected: Vec<String> =
            table.lines().map(words).filter(|line| !line.is_empty()).collect();
        let mut script = Script { sender: Sender::new(config.clone()), last_sent: Time::ZERO };
        let steps = expected.iter().map(|line| line.split('|').next().unwrap_or("").trim());
        let actual: Vec<String> = steps.map(|step| words(&script.step(step))).collect();
        if actual != expected {
            wrong.push(actual.join("\n"));
        }
    }
    assert!(wrong.is_empty(), "senders do:\n{}", wrong.join("\n\n"));
}
