//! Adaptive video: a client that fetches segments, plays them, and chooses their bit rates.

use std::collections::VecDeque;

use perhop_core::{Duration, Time};

use crate::client::Application;
use crate::plan::{AlgorithmPlan, VideoPlan};
use crate::wire::REQUEST_BYTES;
use crate::{Action, Event, Record, RecordKind, Request};

/// Number of segments whose throughput predicts that of the next one (Yin, Jindal, Sekar and
/// Sinopoli, *A Control-Theoretic Approach for Dynamic Adaptive Video Streaming over HTTP*, SIGCOMM
/// 2015, section 7.1).
const SAMPLES: usize = 5;

/// A client of one video over one connection.
#[derive(Clone, Debug)]
pub(crate) struct Video {
    plan: VideoPlan,
    start: Time,
    stop: Time,
    connection: Connection,
    /// Segments that the video has.
    segments: u32,
    /// Number of the next segment to request.
    next: u32,
    /// Place of the last requested segment's bit rate.
    level: usize,
    /// Segment that is being fetched, and the bytes of it that have arrived.
    fetching: Option<(Record, u64)>,
    /// Throughput of the last segments, in bit/s, the newest first.
    throughputs: VecDeque<f64>,
    /// Buffered playing time at `as_of`.
    buffer: Duration,
    as_of: Time,
    playback: Playback,
    stalls: u32,
    actions: VecDeque<Action>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    /// The video has not begun.
    Unopened,
    Opening(u32),
    Open(u32),
    Closed,
}

#[derive(Clone, Copy, Debug)]
enum Playback {
    /// Waits for data, at first or in a stall.
    Waiting(Record),
    Playing,
    /// All was played, or the viewer has left.
    Over,
}

impl Video {
    pub fn new(plan: &VideoPlan, (start, stop): (Time, Time)) -> Self {
        let length = plan.length.unwrap_or(Duration::MAX).as_picos();
        let segments = length.div_ceil(plan.segment.as_picos()).min(u32::MAX.into()) as u32;
        Self {
            plan: plan.clone(),
            start,
            stop,
            connection: Connection::Unopened,
            segments,
            next: 0,
            level: 0,
            fetching: None,
            throughputs: VecDeque::new(),
            buffer: Duration::ZERO,
            as_of: start,
            playback: Playback::Waiting(Record::begin(RecordKind::Startup, 0, start)),
            stalls: 0,
            actions: VecDeque::new(),
        }
    }

    fn begun(&self) -> bool {
        self.connection != Connection::Unopened
    }

    /// Returns when the buffer is empty, if the video is being played.
    fn runs_dry(&self) -> Time {
        match self.playback {
            Playback::Playing => self.as_of + self.buffer,
            _ => Time::MAX,
        }
    }

    /// Returns when the next segment fits into the buffer, if one is to be requested.
    fn has_room(&self) -> Time {
        let idle = matches!(self.connection, Connection::Open(_)) && self.fetching.is_none();
        if !idle || self.next == self.segments || matches!(self.playback, Playback::Over) {
            return Time::MAX;
        }
        let excess = (self.buffer + self.plan.segment) - self.plan.buffer;
        match self.playback {
            Playback::Playing => self.as_of + excess,
            _ if excess == Duration::ZERO => self.as_of,
            _ => Time::MAX,
        }
    }

    /// Plays up to `now`.
    fn play(&mut self, now: Time) {
        let dry = self.runs_dry();
        if let Playback::Playing = self.playback {
            self.buffer = self.buffer - now.since(self.as_of);
        }
        self.as_of = now;
        if dry > now {
            return;
        }
        self.playback = if self.next == self.segments && self.fetching.is_none() {
            Playback::Over
        } else {
            self.stalls += 1;
            Playback::Waiting(Record::begin(RecordKind::Stall, self.stalls - 1, dry))
        };
    }

    /// Begins or continues playback if enough is buffered, or nothing more will come.
    fn resume(&mut self, now: Time) {
        let Playback::Waiting(record) = self.playback else { return };
        if self.buffer >= self.plan.startup || self.next == self.segments {
            self.actions.push_back(Action::Finished(Record { end: Some(now), ..record }));
            self.playback = Playback::Playing;
        }
    }

    /// Ends the video when the viewer leaves: a stall lasts until then.
    fn leave(&mut self) {
        if let Playback::Waiting(record) = self.playback {
            let end = (record.kind == RecordKind::Stall).then_some(self.stop);
            self.actions.push_back(Action::Finished(Record { end, ..record }));
        }
        self.playback = Playback::Over;
    }

    fn close_if_over(&mut self) {
        let fetched = self.next == self.segments || matches!(self.playback, Playback::Over);
        if let Connection::Open(connection) = self.connection
            && fetched
            && self.fetching.is_none()
        {
            self.actions.push_back(Action::Close { connection });
            self.connection = Connection::Closed;
        }
    }

    /// Requests the next segment if there is room for it.
    fn fetch(&mut self, now: Time) {
        if self.has_room() > now {
            return;
        }
        let Connection::Open(connection) = self.connection else { return };
        self.level = self.choice();
        let bitrate = self.plan.bitrates[self.level];
        let bits = u128::from(bitrate) * u128::from(self.plan.segment.as_picos());
        let response = (bits / 8_000_000_000_000).clamp(1, 1 << 50) as u64;
        let mut record = Record::begin(RecordKind::Segment, self.next, now);
        (record.bytes, record.exchanges, record.bitrate) = (response, 1, Some(bitrate));
        record.opened = u32::from(self.next == 0);
        self.fetching = Some((record, 0));
        let request = Request {
            exchange: self.next,
            request: self.plan.request.max(REQUEST_BYTES),
            response,
            think: Duration::ZERO,
        };
        self.next += 1;
        self.actions.push_back(Action::Request { connection, request });
    }

    /// Returns the place of the next segment's bit rate; the first is the lowest.
    fn choice(&self) -> usize {
        match self.plan.algorithm {
            _ if self.next == 0 => 0,
            AlgorithmPlan::Throughput => by_throughput(&self.plan.bitrates, &self.throughputs),
            AlgorithmPlan::Buffer => {
                by_buffer(&self.plan.bitrates, self.level, self.buffer, self.plan.buffer)
            }
        }
    }

    fn on_bytes(&mut self, now: Time, exchange: u32, bytes: u64) {
        let Some((record, received)) = &mut self.fetching else { return };
        if record.number != exchange {
            return;
        }
        record.first_byte.get_or_insert(now);
        *received += bytes;
        if *received < record.bytes {
            return;
        }
        let record = *record;
        let took = now.since(record.start).as_secs_f64().max(1e-12);
        self.throughputs.push_front(record.bytes as f64 * 8.0 / took);
        self.throughputs.truncate(SAMPLES);
        self.play(now);
        self.fetching = None;
        self.buffer += self.plan.segment;
        let record = Record { end: Some(now), buffer: Some(self.buffer), ..record };
        self.actions.push_back(Action::Finished(record));
        self.resume(now);
    }
}

/// Returns the place of the highest bit rate below the harmonic mean of `throughputs`; the lowest
/// if there is none.
fn by_throughput(bitrates: &[u64], throughputs: &VecDeque<f64>) -> usize {
    let inverse: f64 = throughputs.iter().map(|rate| 1.0 / rate).sum();
    let mean = throughputs.len() as f64 / inverse;
    bitrates.iter().rposition(|&rate| (rate as f64) < mean).unwrap_or(0)
}

/// Returns the place of the next bit rate by BBA-0 (Huang, Johari, McKeown, Trunnell and Watson, *A
/// Buffer-Based Approach to Rate Adaptation*, SIGCOMM 2014, algorithm 1 and section 4). Below the
/// reservoir it is the lowest; from there the rate map rises linearly up to the highest at 90% of
/// the buffer. The bit rate changes only when the map passes the next higher or lower one. The
/// paper's reservoir is 90 s of a buffer of 240 s.
fn by_buffer(bitrates: &[u64], level: usize, buffer: Duration, most: Duration) -> usize {
    let last = bitrates.len() - 1;
    let (reservoir, upper) = (most * 3 / 8, most * 9 / 10);
    if buffer <= reservoir {
        return 0;
    }
    if buffer >= upper {
        return last;
    }
    let [lowest, highest] = [bitrates[0], bitrates[last]].map(|rate| rate as f64);
    let along = (buffer - reservoir).as_secs_f64() / (upper - reservoir).as_secs_f64();
    let map = lowest + along * (highest - lowest);
    let rate = |place: usize| bitrates[place] as f64;
    if level < last && map >= rate(level + 1) {
        (0..=last).rev().find(|&place| rate(place) < map).unwrap_or(0)
    } else if level > 0 && map <= rate(level - 1) {
        (0..=last).find(|&place| rate(place) > map).unwrap_or(last)
    } else {
        level
    }
}

impl Application for Video {
    fn deadline(&self) -> Time {
        if !self.begun() {
            return if self.start < self.stop { self.start } else { Time::MAX };
        }
        let leaves = match self.playback {
            Playback::Over => Time::MAX,
            _ => self.stop,
        };
        self.runs_dry().min(self.has_room()).min(leaves)
    }

    fn on_timer(&mut self, now: Time) {
        if !self.begun() && self.start < self.stop {
            self.connection = Connection::Opening(0);
            self.actions.push_back(Action::Open { connection: 0, multiplexed: false });
            return;
        }
        self.play(now);
        if now >= self.stop {
            self.leave();
        }
        self.fetch(now);
        self.close_if_over();
    }

    fn on_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Opened { connection } => {
                if self.connection == Connection::Opening(connection) {
                    self.connection = Connection::Open(connection);
                }
            }
            Event::Received { exchange, bytes } => self.on_bytes(now, exchange, bytes),
            Event::Lost { connection } => {
                // Its segment is requested again over the next connection, unless the viewer has
                // left.
                if let Some((record, _)) = self.fetching.take() {
                    self.next = record.number;
                }
                if let Playback::Over = self.playback {
                    self.connection = Connection::Closed;
                } else {
                    let connection = connection + 1;
                    self.connection = Connection::Opening(connection);
                    self.actions.push_back(Action::Open { connection, multiplexed: false });
                }
            }
        }
        self.play(now);
        self.fetch(now);
        self.close_if_over();
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn unfinished(&self) -> Vec<Record> {
        let waiting = match self.playback {
            Playback::Waiting(record) if self.begun() => Some(record),
            _ => None,
        };
        self.fetching.map(|(record, _)| record).into_iter().chain(waiting).collect()
    }
}

#[cfg(test)]
mod tests;
