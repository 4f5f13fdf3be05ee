//! A responder: it reports the packets of trains that arrived, and their times of arrival.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use perhop_socket::{Batch, Epoll, Event, Interest, Nanos, Socket, monotonic, realtime};

use crate::message::{Message, RECORDS, Token};
use crate::prober::{GoOn, ProbeError, random, tried};

/// Limits of a responder.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Greatest rate of a train in bit/s.
    pub max_bps: u64,
    /// Bytes that a session may send.
    pub max_bytes: u64,
    /// Sessions at the same time.
    pub max_sessions: usize,
}

/// Arrivals that a session keeps of a train.
const MOST_ARRIVALS: usize = 100_000;
/// Time without a packet after which a session ends, in nanoseconds.
const IDLE: Nanos = 30_000_000_000;
const TURN: Nanos = 100_000_000;

struct Session {
    token: Token,
    nonce: Token,
    last: Nanos,
    train: u32,
    arrivals: Vec<(u32, u64)>,
}

pub(crate) fn token() -> Token {
    let mut token = [0; 16];
    token[..8].copy_from_slice(&random().to_be_bytes());
    token[8..].copy_from_slice(&random().to_be_bytes());
    token
}

/// Answers trains on an address until `go_on` says no.
///
/// # Errors
/// [`ProbeError`] if the socket cannot be used, or `go_on` answers false.
pub fn respond(at: SocketAddr, limits: Limits, mut go_on: GoOn) -> Result<(), ProbeError> {
    let what = "cannot listen";
    let socket = Socket::like(at, libc::SOCK_DGRAM, 0).map_err(tried(what))?;
    socket.stamp_arrivals().map_err(tried(what))?;
    socket.set_receive_buffer(8 << 20).map_err(tried(what))?;
    socket.bind(at).map_err(tried(what))?;
    let epoll = Epoll::new().map_err(tried(what))?;
    epoll.add(socket.as_fd(), 0, Interest::Readable).map_err(tried(what))?;
    let mut events: [Event; 1] = [Event { events: 0, u64: 0 }];
    let mut batch = Batch::new(64, 2048);
    let mut sessions: HashMap<SocketAddr, Session> = HashMap::new();
    while go_on() {
        let until = monotonic() + TURN;
        epoll.wait(&mut events, until).map_err(tried("cannot wait"))?;
        loop {
            let count = match batch.receive(&socket) {
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
                if let Some(answer) = take(&mut sessions, &limits, (from, now, stamp), message) {
                    // A lost answer is requested again.
                    let _ = socket.send_to(&answer.write(0), from);
                }
            }
        }
    }
    Err(ProbeError::Interrupted)
}

/// Takes a message; return the answer, if there is any.
fn take(
    sessions: &mut HashMap<SocketAddr, Session>,
    limits: &Limits,
    (from, now, stamp): (SocketAddr, Nanos, Nanos),
    message: Message,
) -> Option<Message> {
    if let Message::Hello { nonce } = message {
        let full = sessions.len() >= limits.max_sessions && !sessions.contains_key(&from);
        if full {
            return None;
        }
        let known = sessions.get(&from).filter(|session| session.nonce == nonce);
        let token = known.map_or_else(token, |session| session.token);
        let fresh = Session { token, nonce, last: now, train: 0, arrivals: Vec::new() };
        sessions.insert(from, fresh);
        let (max_bps, max_bytes) = (limits.max_bps, limits.max_bytes);
        return Some(Message::Welcome { nonce, token, max_bps, max_bytes });
    }
    let session = sessions.get_mut(&from)?;
    match message {
        Message::Data { token, train, index } if token == session.token => {
            session.last = now;
            if train > session.train {
                session.train = train;
                session.arrivals.clear();
            }
            if train == session.train && session.arrivals.len() < MOST_ARRIVALS {
                session.arrivals.push((index, stamp));
            }
            None
        }
        Message::Ask { token, train, first } if token == session.token => {
            session.last = now;
            let all: &[(u32, u64)] = if train == session.train { &session.arrivals } else { &[] };
            let arrivals = all.iter().skip(first as usize).take(RECORDS).copied().collect();
            Some(Message::Record { token, train, first, total: all.len() as u32, arrivals })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_is_answered() {
        let limits = Limits { max_bps: 1, max_bytes: 2, max_sessions: 1 };
        let mut sessions = HashMap::new();
        let (one, other) = (([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into());
        let nonce = [1; 16];
        let hello = Message::Hello { nonce };
        let answer = take(&mut sessions, &limits, (one, 1, 1), hello.clone()).unwrap();
        let Message::Welcome { nonce: back, token, max_bps: 1, max_bytes: 2 } = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(back, nonce);
        assert_eq!(take(&mut sessions, &limits, (other, 1, 1), hello), None, "one session");
        let data = |token, index| Message::Data { token, train: 1, index };
        for (token, from) in [(token, other), ([0; 16], one), (token, one)] {
            assert_eq!(take(&mut sessions, &limits, (from, 2, 50), data(token, 4)), None);
        }
        let ask = |token| Message::Ask { token, train: 1, first: 0 };
        assert_eq!(take(&mut sessions, &limits, (other, 3, 3), ask(token)), None);
        let record = take(&mut sessions, &limits, (one, 3, 3), ask(token)).unwrap();
        let arrivals = vec![(4, 50)];
        assert_eq!(record, Message::Record { token, train: 1, first: 0, total: 1, arrivals });
    }
}
