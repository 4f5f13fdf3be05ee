//! Sessions of a stateful reflector (RFC 8762, section 4).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use perhop_socket::Nanos;

/// A session: the ends, and the identifier of the sender (RFC 8972, section 3).
pub(super) type SessionId = (SocketAddr, Option<IpAddr>, u16);

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Packets received, including this one.
    pub received: u32,
    /// Packets replied to before this one: its sequence number.
    pub replied: u32,
}

#[derive(Debug)]
struct Session {
    counters: Counters,
    last: Nanos,
}

/// Time without a packet after which a session is over.
const IDLE: Nanos = 900_000_000_000;

/// Open sessions.
#[derive(Debug)]
pub(super) struct Sessions {
    most: usize,
    open: HashMap<SessionId, Session>,
    /// Time of the last removal of idle sessions.
    swept: Nanos,
}

impl Sessions {
    pub(super) fn new(most: usize) -> Self {
        Self { most, open: HashMap::new(), swept: 0 }
    }

    /// Counts a packet that is received and replied to. Returns `None` if too many sessions are
    /// open.
    pub(super) fn count(&mut self, id: SessionId, now: Nanos) -> Option<Counters> {
        if self.open.len() >= self.most && !self.open.contains_key(&id) {
            // At most once per second, so that a flood of new sessions costs little.
            if now.saturating_sub(self.swept) >= 1_000_000_000 {
                self.swept = now;
                self.open.retain(|_, session| now.saturating_sub(session.last) < IDLE);
            }
            if self.open.len() >= self.most {
                return None;
            }
        }
        let session =
            self.open.entry(id).or_insert(Session { counters: Counters::default(), last: now });
        if now.saturating_sub(session.last) >= IDLE {
            session.counters = Counters::default();
        }
        session.last = now;
        session.counters.received = session.counters.received.wrapping_add(1);
        let counters = session.counters;
        session.counters.replied = session.counters.replied.wrapping_add(1);
        Some(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_and_end() {
        let mut sessions = Sessions::new(2);
        let id = |ssid| ("192.0.2.1:9".parse().unwrap(), None, ssid);
        for number in 0..3 {
            let counters = Counters { received: number + 1, replied: number };
            assert_eq!(sessions.count(id(1), 5), Some(counters));
        }
        assert_eq!(sessions.count(id(2), 6).unwrap().received, 1);
        assert_eq!(sessions.count(id(3), 7), None);
        // Both are idle by then.
        assert_eq!(sessions.count(id(3), 7 + IDLE).unwrap().received, 1);
        assert_eq!(sessions.open.len(), 1);
        assert_eq!(sessions.count(id(3), 8 + 2 * IDLE).unwrap().received, 1);
    }
}
