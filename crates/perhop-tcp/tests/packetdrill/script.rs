//! Scripts of packetdrill, read (N. Cardwell and others, "packetdrill: Scriptable Network Stack
//! Testing, from Sockets to Packets", USENIX ATC 2013).

use std::fmt;

/// Reason for which a script cannot be run, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// It is no script.
    Malformed(usize, String),
    /// It needs what perhop does not model.
    NotModelled(usize, String),
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Malformed(line, what) => write!(formatter, "line {line}: {what}"),
            Self::NotModelled(line, what) => write!(formatter, "line {line}: {what}: not modelled"),
        }
    }
}

pub type Result<T> = std::result::Result<T, Error>;

/// When an event happens, or may happen at the earliest and at the latest, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Any,
    /// Since the script began.
    At(i64, i64),
    /// Since the event before.
    After(i64, i64),
}

/// A segment; positions are relative to the initial sequence numbers, as in the script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// True from the peer, false from the host under test.
    pub incoming: bool,
    /// True if its ECN field is CE.
    pub marked: bool,
    /// Letters of the header's bits: `S`, `F`, `P`, `R`, `E` (ECE), `W` (CWR), `.` (ACK).
    pub flags: String,
    pub start: u64,
    pub end: u64,
    pub ack: Option<u64>,
    pub window: Option<u32>,
    pub options: Options,
}

impl Packet {
    pub fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }
}

/// Options of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// True if any are permitted (`<...>`).
    pub any: bool,
    pub mss: Option<u16>,
    pub scale: Option<u8>,
    pub sack_permitted: bool,
    /// Value and echo.
    pub timestamps: Option<(u32, u32)>,
    pub sack: Vec<(u64, u64)>,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Packet(Packet),
    /// A system call: its name, its arguments and its result.
    Call(String, Vec<String>, String),
    /// Text in Python, which reads the connection's TCP_INFO.
    Code(String),
    /// Text for a shell.
    Command(String),
}

/// An action at its time, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub line: usize,
    pub when: When,
    pub action: Action,
}

/// A script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Tolerance of times, in microseconds.
    pub tolerance: i64,
    pub events: Vec<Event>,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// If it is malformed, or has packets of other protocols or options that are not modelled.
    pub fn read(text: &str) -> Result<Self> {
        let mut reader = Reader { text, at: 0 };
        let mut script = Self { tolerance: 4_000, events: Vec::new() };
        while reader.skip_space() {
            if let Some(option) = reader.take_line_after("--") {
                if let Some(value) = option.strip_prefix("tolerance_usecs=") {
                    script.tolerance = reader.number(value)?;
                }
                continue;
            }
            let line = reader.line();
            let when = if reader.rest().starts_with('`') { When::Any } else { reader.when()? };
            reader.skip_space();
            // Until when a call may block is not checked: nothing blocks here.
            if let Some(rest) = reader.rest().strip_prefix("...") {
                let end = rest.trim_start().find(char::is_whitespace).unwrap_or(0);
                reader.at += 3 + rest.len() - rest.trim_start().len() + end;
                reader.skip_space();
            }
            script.events.push(Event { line, when, action: reader.action()? });
        }
        Ok(script)
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn line(&self) -> usize {
        1 + self.text[..self.at].matches('\n').count()
    }

    fn malformed(&self, what: impl Into<String>) -> Error {
        Error::Malformed(self.line(), what.into())
    }

    fn not_modelled(&self, what: impl Into<String>) -> Error {
        Error::NotModelled(self.line(), what.into())
    }

    fn number<T: std::str::FromStr>(&self, word: &str) -> Result<T> {
        word.parse().map_err(|_| self.malformed(format!("{word:?} is no number")))
    }

    /// Skips spaces and comments; returns `true` unless the text ends.
    fn skip_space(&mut self) -> bool {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            let rest = self.rest();
            let end = match rest.get(..2) {
                Some("//") => rest.find('\n'),
                Some("/*") => rest.find("*/").map(|end| end + 2),
                _ if rest.starts_with('#') => rest.find('\n'),
                _ => return !rest.is_empty(),
            };
            self.at += end.unwrap_or(rest.len());
        }
    }

    /// Takes the text up to `end`, and `end`.
    fn take_until(&mut self, end: &str) -> Result<&'a str> {
        let rest = self.rest();
        let length = rest.find(end).ok_or_else(|| self.malformed(format!("no {end:?} follows")))?;
        self.at += length + end.len();
        Ok(&rest[..length])
    }

    fn take_line_after(&mut self, prefix: &str) -> Option<&'a str> {
        let line = self.rest().strip_prefix(prefix)?.lines().next().unwrap_or("");
        self.at += prefix.len() + line.len();
        Some(line.trim_end())
    }

    /// Reads `+.1`, `0.5`, `*`, `+.1~+.2` or, of a call that blocks, `+0...0.01`.
    fn when(&mut self) -> Result<When> {
        let rest = self.rest();
        let length = rest.find(|c: char| !"+.0123456789~*".contains(c)).unwrap_or(rest.len());
        let word = &rest[..length];
        if word == "*" {
            self.at += length;
            return Ok(When::Any);
        }
        let (first, last) = match word.split_once('~') {
            Some((first, last)) => (first, last),
            None => word.split_once("...").map_or((word, word), |(first, _)| (first, first)),
        };
        let micros = |text: &str| {
            let seconds: f64 = self.number(text.trim_start_matches('+'))?;
            Ok((seconds * 1e6).round() as i64)
        };
        let (earliest, latest) = (micros(first)?, micros(last)?);
        let when = match first.starts_with('+') {
            true => When::After(earliest, latest),
            false => When::At(earliest, latest),
        };
        self.at += length;
        Ok(when)
    }

    fn action(&mut self) -> Result<Action> {
        let rest = self.rest();
        if rest.starts_with('`') {
            self.at += 1;
            return Ok(Action::Command(self.take_until("`")?.to_owned()));
        }
        if rest.starts_with("%{") {
            self.at += 2;
            return Ok(Action::Code(self.take_until("}%")?.to_owned()));
        }
        if rest.starts_with(['<', '>']) {
            self.at += 1;
            let packet = self.packet(rest.starts_with('<'))?;
            return Ok(Action::Packet(packet));
        }
        self.call()
    }

    fn packet(&mut self, incoming: bool) -> Result<Packet> {
        let rest = self.rest();
        let mut open = false;
        let length = rest.find(|c: char| {
            open = open && c != '>' || c == '<';
            c == '\n' && !open
        });
        let text = &rest[..length.unwrap_or(rest.len())];
        let text = text.split("//").next().unwrap_or(text).trim();
        let (header, options) = match text.split_once('<') {
            Some((header, options)) => {
                let options = options.strip_suffix('>');
                (header, Some(options.ok_or_else(|| self.malformed("options do not end"))?))
            }
            None => (text, None),
        };
        let mut packet = Packet { incoming, ..Packet::default() };
        let mut words = header.split_whitespace().peekable();
        if words.peek().is_some_and(|word| word.starts_with('[')) {
            packet.marked = match words.next() {
                Some("[ce]") => true,
                Some("[ect0]" | "[noecn]") => false,
                other => return Err(self.not_modelled(other.unwrap_or("").to_owned())),
            };
        }
        packet.flags = words.next().unwrap_or("").to_owned();
        if packet.flags.is_empty() || packet.flags.contains(|c| !"SFPREW.-".contains(c)) {
            return Err(self.not_modelled(format!("the packet {text:?}")));
        }
        let range = words.next().unwrap_or("");
        let (start, more) = range.split_once(':').unwrap_or((range, ""));
        let (end, length) = more.split_once('(').unwrap_or((more, ""));
        (packet.start, packet.end) = (self.number(start)?, self.number(end)?);
        let length: u64 = self.number(length.trim_end_matches(')'))?;
        if packet.start.checked_add(length) != Some(packet.end) {
            return Err(self.malformed(format!("{range} does not have {length} bytes")));
        }
        while let Some(word) = words.next() {
            let value = words.next().unwrap_or("");
            match word {
                "ack" => packet.ack = Some(self.number(value)?),
                "win" => packet.window = Some(self.number(value)?),
                _ => return Err(self.not_modelled(format!("{word} {value}"))),
            }
        }
        if let Some(options) = options {
            packet.options = self.options(options)?;
        }
        self.at += length_of(rest, text);
        Ok(packet)
    }

    fn options(&self, text: &str) -> Result<Options> {
        let mut options = Options::default();
        for option in text.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            let words: Vec<_> = option.split_whitespace().collect();
            match *words.as_slice() {
                ["..."] => options.any = true,
                ["nop" | "eol"] => {}
                ["mss", mss] => options.mss = Some(self.number(mss)?),
                ["wscale", scale] => options.scale = Some(self.number(scale)?),
                ["sackOK"] => options.sack_permitted = true,
                ["TS", "val", value, "ecr", echo] => {
                    options.timestamps = Some((self.number(value)?, self.number(echo)?));
                }
                ["sack", ref blocks @ ..] => {
                    for block in blocks {
                        let (start, end) = block.split_once(':').unwrap_or((block, ""));
                        options.sack.push((self.number(start)?, self.number(end)?));
                    }
                }
                _ => return Err(self.not_modelled(format!("the option {option:?}"))),
            }
        }
        Ok(options)
    }

    fn call(&mut self) -> Result<Action> {
        let name = self.take_until("(")?.trim();
        if name.is_empty() || name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            return Err(self.malformed(format!("{name:?} is no system call")));
        }
        let rest = self.rest();
        let (mut depth, mut begin, mut arguments) = (0_i32, 0, Vec::new());
        for (at, letter) in rest.char_indices() {
            match letter {
                ')' if depth == 0 => {
                    arguments.push(rest[begin..at].trim().to_owned());
                    self.at += at + 1;
                    let line = self.rest().lines().next().unwrap_or("");
                    self.at += line.len();
                    let result = line.split("//").next().unwrap_or("").trim();
                    let result = result.strip_prefix('=').map(str::trim);
                    let result = result.ok_or_else(|| self.malformed("a call has no result"))?;
                    return Ok(Action::Call(name.to_owned(), arguments, result.to_owned()));
                }
                ',' if depth == 0 => {
                    arguments.push(rest[begin..at].trim().to_owned());
                    begin = at + 1;
                }
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
        }
        Err(self.malformed("a call does not end"))
    }
}

/// Returns the length of a text up to the end of a part of it.
fn length_of(text: &str, part: &str) -> usize {
    text.find(part).map_or(0, |begin| begin + part.len())
}
