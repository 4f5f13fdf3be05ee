//! A responder: it reports the packets of trains that arrived, and their times of arrival.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use perhop_core::{Bytes, Rate, TokenBucket};
use perhop_socket::{Batch, Epoll, Event, Interest, Nanos, Socket, monotonic, realtime};

use crate::message::{MAX_RECORDS, Message, Token};
use crate::prober::{GoOn, ProbeError, random, tried};

/// Limits of a responder. A session that exceeds them is forgotten, and gets no more answers.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Greatest rate of a session in bit/s.
    pub max_bps: u64,
    /// Bytes of IP packets that a session may send.
    pub max_bytes: u64,
    /// Sessions at the same time.
    pub max_sessions: usize,
}

/// Arrivals that a session keeps of a train.
const MOST_ARRIVALS: usize = 100_000;
/// Time without a packet after which a session ends, in nanoseconds.
const IDLE: Nanos = 30_000_000_000;
const TURN: Nanos = 100_000_000;
/// Greatest lead of a session over the greatest rate: packets arrive together if the network, or
/// this host, was busy.
const AHEAD_MS: u64 = 250;
const AHEAD_BYTES: u64 = 256_000;

struct Session {
    token: Token,
    nonce: Token,
    /// True if the token has come back: the sender is at the address of the session.
    proved: bool,
    last: Nanos,
    train: u32,
    arrivals: Vec<(u32, u64)>,
    /// Bytes that it has sent.
    bytes: u64,
    bucket: TokenBucket<Nanos>,
}

impl Session {
    /// Counts a packet; returns whether the session is within the limits. The rate is that of
    /// arrivals: this process may read packets late, many at once.
    fn count(&mut self, limits: &Limits, arrived: Arrived) -> bool {
        let bytes = arrived.bytes + headers(arrived.from);
        self.last = arrived.now;
        self.bytes = self.bytes.saturating_add(bytes);
        self.bytes <= limits.max_bytes && self.bucket.take_at(arrived.stamp, Bytes::new(bytes))
    }
}

/// Returns the bucket of a session, full.
fn bucket(limits: &Limits) -> TokenBucket<Nanos> {
    let rate = limits.max_bps.max(1);
    let burst = (rate / 8_000).saturating_mul(AHEAD_MS).saturating_add(AHEAD_BYTES);
    TokenBucket::new(Rate::new(rate).expect("not zero"), Bytes::new(burst))
}

/// Bytes of the IP and UDP headers of packets to or from an address.
pub(crate) const fn headers(address: SocketAddr) -> u64 {
    if address.is_ipv4() { 28 } else { 48 }
}

pub(crate) fn token() -> Token {
    let mut token = [0; 16];
    token[..8].copy_from_slice(&random().to_be_bytes());
    token[8..].copy_from_slice(&random().to_be_bytes());
    token
}

/// A responder that listens.
#[derive(Debug)]
pub struct Responder {
    socket: Socket,
    limits: Limits,
}

impl Responder {
    /// Listens on an address.
    ///
    /// # Errors
    /// [`ProbeError`] if the address cannot be used.
    pub fn bind(at: SocketAddr, limits: Limits) -> Result<Self, ProbeError> {
        let open = || {
            let socket = Socket::like(at, libc::SOCK_DGRAM, 0)?;
            socket.stamp_arrivals()?;
            socket.set_receive_buffer(8 << 20)?;
            socket.bind(at)?;
            Ok(socket)
        };
        Ok(Self { socket: open().map_err(tried("cannot listen"))?, limits })
    }

    /// Answers trains until `go_on` says no.
    ///
    /// # Errors
    /// [`ProbeError`] if the kernel fails, or `go_on` answers false.
    pub fn run(&self, mut go_on: GoOn) -> Result<(), ProbeError> {
        let Self { socket, limits } = self;
        let what = "cannot wait";
        let epoll = Epoll::new().map_err(tried(what))?;
        epoll.add(socket.as_fd(), 0, Interest::Readable).map_err(tried(what))?;
        let mut events: [Event; 1] = [Event { events: 0, u64: 0 }];
        let mut batch = Batch::new(64, 2048);
        let mut sessions: HashMap<SocketAddr, Session> = HashMap::new();
        while go_on() {
            let until = monotonic() + TURN;
            epoll.wait(&mut events, until).map_err(tried(what))?;
            loop {
                let count = match batch.receive(socket) {
                    Ok(count) => count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // What an earlier answer met with.
                    Err(_) => continue,
                };
                let now = monotonic();
                sessions.retain(|_, session| now.saturating_sub(session.last) < IDLE);
                for number in 0..count {
                    let datagram = batch.get(number);
                    let Some(from) = datagram.from else { continue };
                    let Some(message) = Message::parse(datagram.bytes) else { continue };
                    let stamp = datagram.control.stamp.unwrap_or_else(realtime);
                    let arrived = Arrived { from, now, stamp, bytes: datagram.bytes.len() as u64 };
                    if let Some(answer) = take(&mut sessions, limits, arrived, message) {
                        // A lost answer is requested again.
                        let _ = socket.send_to(&answer.write(0), from);
                    }
                }
            }
        }
        Err(ProbeError::Interrupted)
    }
}

/// Sender of a message and its arrival, by the monotonic and the kernel's real-time clock.
#[derive(Clone, Copy)]
struct Arrived {
    from: SocketAddr,
    now: Nanos,
    stamp: Nanos,
    /// Bytes of the datagram.
    bytes: u64,
}

/// Takes a message; return the answer, if there is any.
fn take(
    sessions: &mut HashMap<SocketAddr, Session>,
    limits: &Limits,
    arrived: Arrived,
    message: Message,
) -> Option<Message> {
    let Arrived { from, now, stamp, .. } = arrived;
    if let Message::Hello { nonce } = message {
        if sessions.len() >= limits.max_sessions && !sessions.contains_key(&from) {
            // Hellos with forged source addresses keep no sender out.
            let waiting = sessions.iter().filter(|(_, session)| !session.proved);
            let oldest = waiting.min_by_key(|(_, session)| session.last).map(|(at, _)| *at)?;
            sessions.remove(&oldest);
        }
        let fresh = || Session {
            token: token(),
            nonce,
            proved: false,
            last: now,
            train: 0,
            arrivals: Vec::new(),
            bytes: 0,
            bucket: bucket(limits),
        };
        let session = sessions.entry(from).or_insert_with(fresh);
        match (session.nonce == nonce, session.proved) {
            (true, _) => {}
            (false, false) => *session = fresh(),
            // Perhaps from a forged source address.
            (false, true) => return None,
        }
        let (max_bps, max_bytes) = (limits.max_bps, limits.max_bytes);
        return Some(Message::Welcome { nonce, token: session.token, max_bps, max_bytes });
    }
    let (Message::Data { token, train, .. } | Message::RecordRequest { token, train, .. }) =
        message
    else {
        return None;
    };
    let session = sessions.get_mut(&from).filter(|session| session.token == token)?;
    session.proved = true;
    if !session.count(limits, arrived) {
        sessions.remove(&from);
        return None;
    }
    match message {
        Message::Data { index, .. } => {
            if train > session.train {
                session.train = train;
                session.arrivals.clear();
            }
            if train == session.train && session.arrivals.len() < MOST_ARRIVALS {
                session.arrivals.push((index, stamp));
            }
            None
        }
        Message::RecordRequest { first, .. } => {
            let all: &[(u32, u64)] = if train == session.train { &session.arrivals } else { &[] };
            let arrivals = all.iter().skip(first as usize).take(MAX_RECORDS).copied().collect();
            Some(Message::Record { token, train, first, total: all.len() as u32, arrivals })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

    fn arrived(from: SocketAddr, now: Nanos, bytes: u64) -> Arrived {
        Arrived { from, now, stamp: now, bytes }
    }

    #[test]
    fn only_a_session_is_answered() {
        let limits = Limits { max_bps: 1000, max_bytes: 5000, max_sessions: 1 };
        let mut sessions = HashMap::new();
        let other = ([127, 0, 0, 1], 2).into();
        let nonce = [1; 16];
        let hello = Message::Hello { nonce };
        let answer = take(&mut sessions, &limits, arrived(ONE, 1, 64), hello.clone()).unwrap();
        let Message::Welcome { nonce: back, token, max_bps: 1000, max_bytes: 5000 } = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(back, nonce);
        let data = |token, index| Message::Data { token, train: 1, index };
        for (token, from) in [(token, other), ([0; 16], ONE), (token, ONE)] {
            let at = arrived(from, 50, 1200);
            assert_eq!(take(&mut sessions, &limits, at, data(token, 4)), None);
        }
        let request = |token| Message::RecordRequest { token, train: 1, first: 0 };
        assert_eq!(take(&mut sessions, &limits, arrived(other, 60, 1200), request(token)), None);
        let record = take(&mut sessions, &limits, arrived(ONE, 60, 1200), request(token)).unwrap();
        let arrivals = vec![(4, 50)];
        assert_eq!(record, Message::Record { token, train: 1, first: 0, total: 1, arrivals });
    }

    #[test]
    fn the_rate_is_that_of_arrivals_however_late_they_are_read() {
        const GAP: Nanos = 1_000_000;
        let limits = Limits { max_bps: 8_000_000, max_bytes: 10_000_000, max_sessions: 1 };
        // 8 Mb/s for two seconds, read together at their end.
        let answers = |gap: Nanos| {
            let mut sessions = HashMap::new();
            let hello = Message::Hello { nonce: [1; 16] };
            let welcome = take(&mut sessions, &limits, arrived(ONE, 1, 64), hello);
            let Some(Message::Welcome { token, .. }) = welcome else { panic!("{welcome:?}") };
            for index in 0..2000 {
                let at = Arrived {
                    from: ONE,
                    now: 2000 * GAP,
                    stamp: gap * u64::from(index),
                    bytes: 972,
                };
                take(&mut sessions, &limits, at, Message::Data { token, train: 1, index });
            }
            sessions.len()
        };
        assert_eq!(answers(GAP), 1);
        assert_eq!(answers(GAP / 2), 0);
    }

    #[test]
    fn forged_hellos_keep_no_sender_out() {
        let limits = Limits { max_bps: 1000, max_bytes: 5000, max_sessions: 2 };
        let mut sessions = HashMap::new();
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut hello = |port: u16, nonce: u8| {
            let nonce = Message::Hello { nonce: [nonce; 16] };
            take(&mut sessions, &limits, arrived(at(port), port.into(), 64), nonce)
        };
        // Nobody at these addresses sends the token back.
        for port in 10..20 {
            assert!(hello(port, 1).is_some(), "{port}");
        }
        let Some(Message::Welcome { token, .. }) = hello(20, 1) else { panic!("refused") };
        let data = Message::Data { token, train: 1, index: 0 };
        take(&mut sessions, &limits, arrived(at(20), 20, 100), data);
        let mut hello = |port: u16, nonce: u8| {
            let nonce = Message::Hello { nonce: [nonce; 16] };
            take(&mut sessions, &limits, arrived(at(port), port.into(), 64), nonce)
        };
        for port in 30..40 {
            assert!(hello(port, 1).is_some(), "{port}");
        }
        assert_eq!(hello(20, 2), None, "its session goes on");
        assert!(
            matches!(hello(20, 1), Some(Message::Welcome { token: same, .. }) if same == token)
        );
        assert_eq!(sessions.len(), 2);
        // Both are proved then: no third one.
        let Some(Message::Welcome { token, .. }) = take(
            &mut sessions,
            &limits,
            arrived(at(39), 40, 64),
            Message::Hello { nonce: [1; 16] },
        ) else {
            panic!("refused")
        };
        let data = Message::Data { token, train: 1, index: 0 };
        take(&mut sessions, &limits, arrived(at(39), 41, 100), data);
        let hello = Message::Hello { nonce: [1; 16] };
        assert_eq!(take(&mut sessions, &limits, arrived(at(50), 50, 64), hello), None);
    }

    /// Begins a session; returns the number of packets, one each `gap`, until it is forgotten.
    fn packets_until_forgotten(limits: &Limits, gap: Nanos, most: u32) -> u32 {
        let mut sessions = HashMap::new();
        let hello = Message::Hello { nonce: [1; 16] };
        let answer = take(&mut sessions, limits, arrived(ONE, 0, 64), hello.clone());
        let Some(Message::Welcome { token, .. }) = answer else { panic!("{answer:?}") };
        let mut now = 0;
        for index in 0..most {
            now += gap;
            let data = Message::Data { token, train: 1, index };
            take(&mut sessions, limits, arrived(ONE, now, 972), data);
            // What others send in its name does not count, and a hello again changes nothing.
            let foreign = Message::Data { token: [0; 16], train: 1, index };
            take(&mut sessions, limits, arrived(ONE, now, 60_000), foreign);
            let request = Message::RecordRequest { token, train: 1, first: 0 };
            if !sessions.contains_key(&ONE) {
                assert_eq!(take(&mut sessions, limits, arrived(ONE, now, 1200), request), None);
                return index;
            }
            take(&mut sessions, limits, arrived(ONE, now, 64), hello.clone());
        }
        most
    }

    #[test]
    fn who_exceeds_a_limit_is_forgotten() {
        // 1000 bytes with headers, 1 Mb/s: one in 8 ms.
        let limits = Limits { max_bps: 1_000_000, max_bytes: 2_000_000, max_sessions: 1 };
        assert_eq!(packets_until_forgotten(&limits, 8_000_000, 5000), 2000, "volume");
        // 256 kB and 250 ms may come at once.
        assert_eq!(packets_until_forgotten(&limits, 0, 5000), 256 + 31, "rate");
        // At twice the rate, all but half of that.
        let twice = packets_until_forgotten(&limits, 4_000_000, 5000);
        assert!((570..580).contains(&twice), "{twice}");
    }
}
