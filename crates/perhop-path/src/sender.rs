//! A session with a responder, and the trains that are sent in it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use perhop_socket::{
    Batch, Epoll, Event, Interest, Nanos, Socket, monotonic, realtime, sleep_until,
};
use serde::Deserialize;

use crate::bucket::Sent;
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
    /// Seconds after which it ends with what it has measured.
    pub limit_s: u64,
}

/// Packets a second at most: what a responder receives and keeps without loss.
pub(crate) const MOST_PPS: f64 = 25_000.0;
const MILLISECOND: Nanos = 1_000_000;
/// Time limit of the responder's answers, and the number of attempts.
const REPLY_TIMEOUT: Nanos = 500 * MILLISECOND;
const TRIES: u32 = 6;
/// Length of the longest packets, headers included, if the path MTU allows it.
const LONG: f64 = 1400.0;
/// Requests for records at a time.
const WINDOW: usize = 8;

/// Packets at a low rate before a train: they tell the shortest delay.
pub(crate) const LEAD: u32 = 30;

/// Shape of a train.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Train {
    /// Packets, and the length of each in bytes with its headers.
    pub packets: u32,
    pub bytes: f64,
    /// Rate in bit/s.
    pub bps: f64,
    /// Rate of [`LEAD`] more packets before it, if there are any.
    pub lead_bps: Option<f64>,
}

/// Measures with each mark in one session. If the time is over, the later marks are left out.
///
/// # Errors
/// [`ProbeError`] as [`Sender::new`] and `measure`; of the time only if no mark was measured.
pub(crate) fn by_mark<T>(
    settings: &EndToEndSettings,
    go_on: GoOn,
    measure: impl Fn(&mut Sender, u8) -> Result<T, ProbeError>,
) -> Result<Vec<T>, ProbeError> {
    let mut sender = Sender::new(settings, go_on)?;
    let mut all = Vec::new();
    for &octet in &settings.marks {
        match measure(&mut sender, octet) {
            Ok(one) => all.push(one),
            Err(ProbeError::Time(_)) if !all.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// A session with a responder.
pub(crate) struct Sender {
    /// Greatest rate that both ends allow, in bit/s.
    pub max_bps: f64,
    /// Bytes that may be sent yet.
    pub volume: f64,
    /// Length of long packets in bytes.
    pub long: f64,
    /// Time at which the last train began, by the real-time clock.
    pub begun: Nanos,
    socket: Socket,
    responder: SocketAddr,
    epoll: Epoll,
    batch: Batch,
    token: Token,
    train: u32,
    go_on: GoOn,
    end: Nanos,
    limit_s: u64,
}

impl Sender {
    /// Begins a session.
    ///
    /// # Errors
    /// [`ProbeError`] if no responder answers, or sockets cannot be used.
    pub fn new(settings: &EndToEndSettings, go_on: GoOn) -> Result<Self, ProbeError> {
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
            begun: 0,
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

    /// Sends a train; returns the outcome of each packet.
    pub fn train(
        &mut self,
        octet: u8,
        Train { packets, bytes, bps, lead_bps }: Train,
    ) -> Result<Vec<Sent>, ProbeError> {
        self.train += 1;
        let set = self.socket.set_traffic_class(self.responder.ip(), octet);
        set.map_err(tried("cannot set a DSCP"))?;
        let gap = 8e9 * bytes / bps;
        let (lead, lead_gap) = lead_bps.map_or((0, 0.0), |bps| (LEAD, 8e9 * bytes / bps));
        let packets = lead + packets;
        let size = ((bytes - headers(self.responder) as f64) as usize).max(DATA);
        let data = |index| Message::Data { token: self.token, train: self.train, index };
        let mut begun = monotonic();
        let mut sent = Vec::with_capacity(packets as usize);
        for index in 0..packets {
            let slowly = lead_gap * f64::from(index.min(lead));
            let due = begun + (slowly + gap * f64::from(index.saturating_sub(lead))) as Nanos;
            while monotonic() < due {
                if due.saturating_sub(monotonic()) > MILLISECOND / 10 {
                    sleep_until(due);
                }
            }
            // After a long pause, packets that are due at once would exceed the rate.
            let late = monotonic().saturating_sub(due);
            if late > 100 * MILLISECOND {
                begun += late;
            }
            let packet = data(index).write(size);
            let until = monotonic() + 100 * MILLISECOND;
            let mut at = realtime();
            while self.socket.send_to(&packet, self.responder).is_err() && monotonic() < until {
                std::thread::yield_now();
                at = realtime();
            }
            sent.push(at);
        }
        self.volume -= f64::from(packets) * bytes;
        let arrivals = self.record(packets)?;
        let (zero, first) = (sent.first().copied(), arrivals.values().min().copied());
        let (zero, first) = (zero.unwrap_or(0), first.unwrap_or(0));
        self.begun = zero;
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
    fn record(&mut self, packets: u32) -> Result<BTreeMap<u32, u64>, ProbeError> {
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
            if total.is_some() && (before == total || total == Some(packets)) {
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
}
