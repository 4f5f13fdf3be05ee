//! Trains to a responder: policers and shapers on the path.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use perhop_core::TrafficClass;
use perhop_socket::{
    Batch, Epoll, Event, Interest, Nanos, Socket, monotonic, realtime, sleep_until,
};
use serde::{Deserialize, Serialize};

use crate::bucket::{Bucket, Kind, Sent, find};
use crate::capacity::lower_slope;
use crate::hops::Mark;
use crate::message::{DATA, HELLO, MAX_RECORDS, Message, RECORD_REQUEST, Token};
use crate::prober::{GoOn, ProbeError, tried};
use crate::respond::{headers, token};

/// Settings of the measurement of the path to a responder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndToEndSettings {
    /// Address and port of the responder.
    pub responder: SocketAddr,
    /// Traffic classes of the trains, as octets.
    pub marks: Vec<u8>,
    /// Length of the longest packets, IP header included: the path MTU.
    pub mtu: u16,
    /// Greatest rate of a train in bit/s; the responder may allow less.
    pub max_bps: u64,
    /// Bytes that may be sent; the responder may allow less.
    pub volume: u64,
    /// Seconds after which it ends with an error.
    pub limit_s: u64,
}

/// Findings of the trains of one mark.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EndToEnd {
    /// Mark that they were sent with.
    pub sent: Mark,
    /// Rate of the narrowest link in bit/s of IP packets, as the responder received a short train;
    /// `None` behind a policer.
    pub narrow_bps: Option<f64>,
    /// Token bucket that the trains have exceeded; `None` if they have not exceeded any.
    pub bucket: Option<Bucket>,
    /// Rate in bit/s and bytes of the longest train.
    pub train_bps: f64,
    /// Bytes of that train: a greater bucket is not found. 0 if nothing was measured: no packet
    /// arrived, or no more bytes may be sent.
    pub train_bytes: u64,
}

const MILLISECOND: Nanos = 1_000_000;
/// Time limit of the responder's answers, and the number of attempts.
const REPLY_TIMEOUT: Nanos = 500 * MILLISECOND;
const TRIES: u32 = 6;
/// Length of the longest packets, headers included, if the path MTU allows it, and of the shortest.
const LONG: f64 = 1400.0;
const SHORT: f64 = 120.0;
/// Packets a second and of a train at most: what a responder receives and keeps without loss.
const MOST_PPS: f64 = 25_000.0;
const MOST: f64 = 60_000.0;
/// Packets of the first train.
const FIRST: u32 = 64;
/// Packets of it that pass most buckets, and how much faster they must be than all.
const FULL: usize = 16;
const FASTER: f64 = 1.3;
/// Share of the narrowest link's rate that trains take, so that they do not queue there.
const BELOW: f64 = 0.95;
/// Bytes that trains of one mark need at least.
const LEAST_VOLUME: f64 = 1e6;
/// Requests for records at a time.
const WINDOW: usize = 8;

/// Measures the path to a responder.
///
/// # Errors
/// [`ProbeError`] if no responder answers, sockets cannot be used, or the time is over.
pub fn measure_end_to_end(
    settings: &EndToEndSettings,
    go_on: GoOn,
) -> Result<Vec<EndToEnd>, ProbeError> {
    let mut sender = Sender::new(settings, go_on)?;
    settings.marks.iter().map(|&octet| sender.measure(octet)).collect()
}

struct Sender {
    socket: Socket,
    responder: SocketAddr,
    epoll: Epoll,
    batch: Batch,
    token: Token,
    max_bps: f64,
    /// Bytes that may be sent yet.
    volume: f64,
    train: u32,
    /// Length of long packets.
    long: f64,
    go_on: GoOn,
    end: Nanos,
    limit_s: u64,
}

impl Sender {
    fn new(settings: &EndToEndSettings, go_on: GoOn) -> Result<Self, ProbeError> {
        let (what, responder) = ("cannot reach the responder", settings.responder);
        let socket = Socket::like(responder, libc::SOCK_DGRAM, 0).map_err(tried(what))?;
        socket.set_send_buffer(4 << 20).map_err(tried(what))?;
        socket.connect(responder).map_err(tried(what))?;
        let epoll = Epoll::new().map_err(tried(what))?;
        epoll.add(socket.as_fd(), 0, Interest::Readable).map_err(tried(what))?;
        let mut sender = Self {
            socket,
            responder,
            epoll,
            batch: Batch::new(64, 2048),
            token: [0; 16],
            max_bps: settings.max_bps as f64,
            volume: settings.volume as f64,
            train: 0,
            long: LONG.min(settings.mtu.into()),
            go_on,
            end: monotonic().saturating_add(settings.limit_s.saturating_mul(1_000_000_000)),
            limit_s: settings.limit_s,
        };
        let nonce = token();
        for _ in 0..TRIES {
            sender.send(&Message::Hello { nonce }, HELLO)?;
            for message in sender.receive(REPLY_TIMEOUT)? {
                if let Message::Welcome { nonce: back, token, max_bps, max_bytes } = message
                    && back == nonce
                {
                    sender.token = token;
                    sender.max_bps = sender.max_bps.min(max_bps as f64);
                    sender.volume = sender.volume.min(max_bytes as f64);
                    return Ok(sender);
                }
            }
        }
        Err(ProbeError::NoResponder(responder))
    }

    fn check(&mut self) -> Result<(), ProbeError> {
        if monotonic() >= self.end {
            return Err(ProbeError::Time(self.limit_s));
        }
        if (self.go_on)() { Ok(()) } else { Err(ProbeError::Interrupted) }
    }

    /// Sends a control message, in the default class.
    fn send(&mut self, message: &Message, size: usize) -> Result<(), ProbeError> {
        let set = self.socket.set_traffic_class(self.responder.ip(), 0);
        set.map_err(tried("cannot set a DSCP"))?;
        self.volume -= (size as u64 + headers(self.responder)) as f64;
        // Lost messages are sent again.
        let _ = self.socket.send_to(&message.write(size), self.responder);
        Ok(())
    }

    /// Takes messages, until none has come for so long after the first.
    fn receive(&mut self, timeout: Nanos) -> Result<Vec<Message>, ProbeError> {
        let (mut messages, until) = (Vec::new(), monotonic() + timeout);
        let mut events: [Event; 1] = [Event { events: 0, u64: 0 }];
        while messages.is_empty() && monotonic() < until {
            self.check()?;
            let waited = self.epoll.wait(&mut events, until);
            waited.map_err(tried("cannot wait for the responder"))?;
            while let Ok(count) = self.batch.receive(&self.socket) {
                for number in 0..count {
                    messages.extend(Message::parse(self.batch.get(number).bytes));
                }
            }
            // An error of the port ends a wait at once.
            if self.socket.take_error().is_some() {
                sleep_until(monotonic() + 20 * MILLISECOND);
            }
        }
        Ok(messages)
    }

    /// Sends a train of packets of `bytes`, at `bps` or at once; returns the outcome of each.
    fn train(
        &mut self,
        octet: u8,
        packets: u32,
        bytes: f64,
        bps: Option<f64>,
    ) -> Result<Vec<Sent>, ProbeError> {
        self.train += 1;
        let set = self.socket.set_traffic_class(self.responder.ip(), octet);
        set.map_err(tried("cannot set a DSCP"))?;
        let gap = bps.map_or(0.0, |bps| 8e9 * bytes / bps);
        let size = ((bytes - headers(self.responder) as f64) as usize).max(DATA);
        let data = |index| Message::Data { token: self.token, train: self.train, index };
        let begun = monotonic();
        let mut sent = Vec::with_capacity(packets as usize);
        for index in 0..packets {
            let due = begun + (gap * f64::from(index)) as Nanos;
            while monotonic() < due {
                if due.saturating_sub(monotonic()) > MILLISECOND / 10 {
                    sleep_until(due);
                }
            }
            let packet = data(index).write(size);
            let late = monotonic() + 100 * MILLISECOND;
            while self.socket.send_to(&packet, self.responder).is_err() && monotonic() < late {
                std::thread::yield_now();
            }
            sent.push(realtime());
        }
        self.volume -= f64::from(packets) * bytes;
        let arrivals = self.record()?;
        let (zero, first) = (sent.first().copied(), arrivals.values().min().copied());
        let (zero, first) = (zero.unwrap_or(0), first.unwrap_or(0));
        Ok(sent
            .iter()
            .enumerate()
            .map(|(index, &at)| Sent {
                sent: at.saturating_sub(zero) as f64 / 1e9,
                arrived: arrivals
                    .get(&(index as u32))
                    .map(|&arrived| arrived.saturating_sub(first) as f64 / 1e9),
            })
            .collect())
    }

    /// Returns the arrivals of the last train: time in ns by index.
    fn record(&mut self) -> Result<BTreeMap<u32, u64>, ProbeError> {
        let mut total = None;
        // Until no more packets arrive.
        for _ in 0..40 {
            sleep_until(monotonic() + 250 * MILLISECOND);
            let before = total;
            for message in self.request_record(&[u32::MAX])? {
                if let Message::Record { total: now, .. } = message {
                    total = Some(now);
                }
            }
            if total.is_some() && before == total {
                break;
            }
        }
        let total = total.ok_or(ProbeError::NoResponder(self.responder))?;
        let mut missing: BTreeSet<u32> = (0..total).step_by(MAX_RECORDS).collect();
        let mut arrivals = BTreeMap::new();
        let mut tries = 0;
        while !missing.is_empty() && tries < TRIES {
            let asked: Vec<u32> = missing.iter().take(WINDOW).copied().collect();
            let before = missing.len();
            for message in self.request_record(&asked)? {
                if let Message::Record { first, arrivals: more, .. } = message
                    && missing.remove(&first)
                {
                    for (index, at) in more {
                        arrivals.entry(index).or_insert(at);
                    }
                }
            }
            tries = if missing.len() < before { 0 } else { tries + 1 };
        }
        Ok(arrivals)
    }

    /// Requests records, and returns the messages that arrive.
    fn request_record(&mut self, firsts: &[u32]) -> Result<Vec<Message>, ProbeError> {
        // Within the responder's limit of rate.
        let gap = (8e9 * (RECORD_REQUEST as f64 + 48.0) / self.max_bps) as Nanos;
        for &first in firsts {
            sleep_until(monotonic() + gap);
            self.send(
                &Message::RecordRequest { token: self.token, train: self.train, first },
                RECORD_REQUEST,
            )?;
        }
        let mut messages = Vec::new();
        while messages.len() < firsts.len() {
            let more = self.receive(REPLY_TIMEOUT)?;
            if more.is_empty() {
                break;
            }
            let (token, train) = (self.token, self.train);
            messages.extend(more.into_iter().filter(|message| {
                matches!(message, Message::Record { token: its, train: of, .. }
                    if *its == token && *of == train)
            }));
        }
        Ok(messages)
    }

    /// Measures with one mark.
    fn measure(&mut self, octet: u8) -> Result<EndToEnd, ProbeError> {
        let mut found = EndToEnd {
            sent: TrafficClass::from_octet(octet).into(),
            narrow_bps: None,
            bucket: None,
            train_bps: 0.0,
            train_bytes: 0,
        };
        if self.volume < LEAST_VOLUME {
            return Ok(found);
        }
        let long = self.long;
        let first = self.train(octet, FIRST, long, Some(self.max_bps))?;
        let arrivals = first.iter().enumerate();
        let points: Vec<(f64, f64)> =
            arrivals.filter_map(|(index, one)| Some((index as f64, one.arrived?))).collect();
        let rate = |points: &[(f64, f64)]| {
            lower_slope(points).filter(|&it| it > 0.0).map(|it| 8.0 * long / it)
        };
        // Before a shaper's bucket is empty, packets come as fast as the links are.
        let narrow_bps = match (rate(&points[..points.len().min(FULL)]), rate(&points)) {
            (Some(early), Some(all)) if early > FASTER * all => Some(early),
            (_, all) => all,
        };
        found.narrow_bps = narrow_bps;
        let Some(narrow) = narrow_bps else { return Ok(found) };
        let fastest = (BELOW * narrow).min(self.max_bps);
        // A second of traffic, to see whether there is a bucket.
        let limit = f64::min(self.volume / long / 4.0, MOST);
        let rate = fastest.min(MOST_PPS * 8.0 * long);
        let packets = (rate / 8.0 / long).clamp(200.0, limit.max(200.0));
        self.refill(found.bucket, narrow);
        let rough = self.train(octet, packets as u32, long, Some(rate))?;
        (found.train_bps, found.train_bytes) = (rate, (packets * long) as u64);
        found.bucket = find(&rough, long);
        // Then a train that fits the bucket: short packets, and about three times its rate.
        for _ in 0..2 {
            let Some(Bucket { bps, burst, .. }) = found.bucket else { break };
            let rate = fastest.min(3.0 * bps);
            let least = (rate / 8.0 / MOST_PPS).max(SHORT);
            let bytes = (burst / 40.0).clamp(least, f64::max(least, long)).min(long).floor();
            let rate = rate.min(MOST_PPS * 8.0 * bytes);
            if rate < 1.2 * bps {
                break;
            }
            let empty = 8.0 * burst / (rate - bps);
            let enough = (8.0 * 1500.0 * bytes / bps).clamp(0.5, 4.0);
            let limit = f64::min(self.volume / bytes / 2.0, MOST);
            let packets = ((empty + enough) * rate / 8.0 / bytes).min(limit);
            self.refill(found.bucket, narrow);
            let fine = self.train(octet, packets as u32, bytes, Some(rate))?;
            match find(&fine, bytes) {
                Some(bucket) => found.bucket = Some(bucket),
                None => break,
            }
        }
        if found.bucket.is_some_and(|bucket| bucket.kind == Kind::Policer) {
            // The packets that pass come as they were sent.
            found.narrow_bps = None;
        }
        Ok(found)
    }

    /// Waits until a bucket is full again, as far as it is known.
    fn refill(&self, bucket: Option<Bucket>, narrow: f64) {
        let full = match bucket {
            Some(bucket) => 1.5 * 8.0 * bucket.burst / bucket.bps,
            None => 8.0 * 100.0 * self.long / narrow,
        };
        sleep_until(monotonic() + ((full.clamp(0.1, 5.0)) * 1e9) as Nanos);
    }
}
