//! The handshake (RFC 9000, section 7; RFC 9001, section 4): datagrams with Initial and Handshake
//! packets, until 1-RTT packets can be sent.
//!
//! A client opens the connection, and has its keys after a round trip. It acknowledges each
//! datagram of the server at once, so that these need no acknowledgements of their own here.

use perhop_core::{Duration, Time};

use crate::RttEstimator;
use crate::sizes::{CLIENT_FINISHED, LEAST_DATAGRAM, LONG_HEADER, SERVER_MESSAGES, TAG};

/// Data that a server may send for each byte that it has received, before the client's address is
/// validated (RFC 9000, section 8.1).
const AMPLIFICATION: u64 = 3;

/// Part of each datagram of a server's first flight that has headers, frames and tags: one Initial
/// or Handshake packet.
const OVERHEAD: u16 = LONG_HEADER + 8 + TAG;

/// Length of a Handshake packet with an ACK frame only.
const HANDSHAKE_ACK: u16 = LONG_HEADER + 5 + TAG;

/// Contents of a datagram of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flight {
    /// A client's Initial packet with its ClientHello.
    Hello,
    /// A part of the server's first flight, in reply to the client's datagram with this number.
    Server {
        /// Number of this part, from 0 on.
        part: u8,
        /// Number of parts.
        of: u8,
        /// Number of the client's datagram.
        answers: u64,
    },
    /// A client's acknowledgement.
    Ack {
        /// Parts that have arrived, as bits.
        parts: u64,
        /// Largest number of the server's datagrams.
        largest: u64,
    },
    /// A client's Finished, which acknowledges the server's whole flight.
    Finished {
        /// Largest number of the server's datagrams.
        largest: u64,
    },
}

/// Timer of a probe timeout during the handshake (RFC 9002, section 6.2.1 without max_ack_delay).
#[derive(Clone, Copy, Debug)]
struct Timer {
    deadline: Time,
    timeouts: u32,
}

impl Timer {
    const OFF: Self = Self { deadline: Time::MAX, timeouts: 0 };

    fn set(&mut self, now: Time, rtt: &RttEstimator) {
        let timeout = rtt.probe_timeout(Duration::ZERO) * (1 << self.timeouts.min(16));
        self.deadline = now + timeout;
    }
}

/// The client's side.
#[derive(Clone, Debug)]
pub struct ClientHandshake {
    /// Transmission times of its datagrams.
    sent: Vec<Time>,
    /// Parts of the server's flight that have arrived, as bits.
    parts: u64,
    /// Largest number of the server's datagrams.
    largest: u64,
    /// Datagram to send, if any.
    due: Option<Flight>,
    complete: bool,
    confirmed: bool,
    timer: Timer,
}

impl ClientHandshake {
    /// Creates the side of a client that has not begun.
    pub fn new() -> Self {
        Self {
            sent: Vec::new(),
            parts: 0,
            largest: 0,
            due: None,
            complete: false,
            confirmed: false,
            timer: Timer::OFF,
        }
    }

    /// Begins.
    pub fn start(&mut self) {
        self.due = Some(Flight::Hello);
    }

    /// Returns `true` if 1-RTT packets can be sent.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns `true` if the handshake is confirmed (RFC 9001, section 4.1.2).
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Confirms the handshake: HANDSHAKE_DONE or an acknowledgement of a 1-RTT packet has arrived.
    pub fn confirm(&mut self) {
        (self.confirmed, self.timer, self.due) = (true, Timer::OFF, None);
    }

    /// Takes a datagram of the server with its number. Returns a sample of the round-trip time.
    pub fn on_flight(&mut self, now: Time, flight: Flight, number: u64) -> Option<Duration> {
        let Flight::Server { part, of, answers } = flight else { return None };
        self.largest = self.largest.max(number);
        if self.complete {
            // The Finished did not arrive.
            self.due = (!self.confirmed).then(|| self.answer());
            return None;
        }
        let first = self.parts == 0;
        self.parts |= 1 << part;
        self.timer.timeouts = 0;
        self.complete = self.parts.count_ones() == u32::from(of);
        self.due = Some(self.answer());
        let sent = self.sent.get(answers as usize).copied();
        sent.filter(|_| first).map(|sent| now.since(sent))
    }

    /// Returns what the client has to say now.
    fn answer(&self) -> Flight {
        let (parts, largest) = (self.parts, self.largest);
        match (parts, self.complete) {
            (_, true) => Flight::Finished { largest },
            (0, _) => Flight::Hello,
            _ => Flight::Ack { parts, largest },
        }
    }

    /// Returns the next datagram with its number and its length.
    pub fn poll(&mut self, now: Time, rtt: &RttEstimator) -> Option<(Flight, u64, u16)> {
        let flight = self.due.take()?;
        // Datagrams with Initial packets are padded (RFC 9000, section 14.1): the first one, and
        // the first acknowledgement.
        let length = match flight {
            _ if self.sent.len() < 2 || self.parts == 0 => LEAST_DATAGRAM,
            Flight::Finished { .. } => HANDSHAKE_ACK + CLIENT_FINISHED,
            _ => HANDSHAKE_ACK,
        };
        self.sent.push(now);
        self.timer.set(now, rtt);
        Some((flight, self.sent.len() as u64 - 1, length))
    }

    /// Returns when [`on_timer`](Self::on_timer) is due.
    pub fn deadline(&self) -> Time {
        if self.due.is_some() { Time::ZERO } else { self.timer.deadline }
    }

    /// Sends the last flight again if its timeout has passed. A client does so until the handshake
    /// is confirmed, so that the server can go on (RFC 9002, section 6.2.2.1).
    pub fn on_timer(&mut self, now: Time) {
        if now < self.timer.deadline {
            return;
        }
        self.timer.timeouts += 1;
        self.due = Some(self.answer());
    }
}

/// The server's side.
#[derive(Clone, Debug)]
pub struct ServerHandshake {
    /// Lengths of the parts of its flight.
    parts: Vec<u16>,
    /// Parts to send, and those that the client has acknowledged, as bits.
    due: u64,
    acked: u64,
    /// Number of the client's last datagram.
    answers: u64,
    /// Bytes received, and sent, before the client's address was validated.
    received: u64,
    sent: u64,
    validated: bool,
    complete: bool,
    /// Transmission times of its datagrams.
    times: Vec<Time>,
    /// Largest number that the client has acknowledged.
    largest: Option<u64>,
    timer: Timer,
    /// True if the timer begins again: a datagram was acknowledged.
    restart: bool,
}

impl ServerHandshake {
    /// Creates the side of a server with certificates of this many bytes.
    pub fn new(certificates: u32) -> Self {
        let room = u32::from(LEAST_DATAGRAM - OVERHEAD);
        // ServerHello has a packet of its own in the first datagram.
        let mut left = certificates + SERVER_MESSAGES + u32::from(OVERHEAD);
        let mut parts = Vec::new();
        while left > 0 && parts.len() < 64 {
            let here = left.min(room);
            // The first datagram elicits an acknowledgement of its Initial packet and is padded.
            let length = here as u16 + OVERHEAD;
            parts.push(if parts.is_empty() { LEAST_DATAGRAM } else { length });
            left -= here;
        }
        Self {
            parts,
            due: 0,
            acked: 0,
            answers: 0,
            received: 0,
            sent: 0,
            validated: false,
            complete: false,
            times: Vec::new(),
            largest: None,
            timer: Timer::OFF,
            restart: false,
        }
    }

    fn every(&self) -> u64 {
        u64::MAX >> (64 - self.parts.len())
    }

    /// Returns `true` if the client's Finished has arrived, so that 1-RTT packets can be read.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Takes a datagram of the client with its number and its length. Returns a sample of the
    /// round-trip time.
    pub fn on_flight(
        &mut self,
        now: Time,
        flight: Flight,
        number: u64,
        length: u16,
    ) -> Option<Duration> {
        self.received += u64::from(length);
        self.answers = self.answers.max(number);
        let newest = match flight {
            Flight::Server { .. } => return None,
            Flight::Hello => {
                // A second one shows that the flight was lost (RFC 9002, section 6.2.3).
                self.due = self.every() & !self.acked;
                return None;
            }
            Flight::Ack { parts, largest } => {
                self.validated = true;
                self.acked |= parts;
                largest
            }
            Flight::Finished { largest } => {
                (self.validated, self.complete) = (true, true);
                self.acked = self.every();
                largest
            }
        };
        self.due &= !self.acked;
        if self.largest >= Some(newest) {
            return None;
        }
        (self.largest, self.restart) = (Some(newest), true);
        self.times.get(newest as usize).map(|&sent| now.since(sent))
    }

    /// Returns the next datagram with its number and its length, as far as amplification is
    /// permitted.
    pub fn poll(&mut self, now: Time, rtt: &RttEstimator) -> Option<(Flight, u64, u16)> {
        if std::mem::take(&mut self.restart) {
            self.timer = Timer::OFF;
            if self.acked != self.every() {
                self.timer.set(now, rtt);
            }
        }
        if self.due == 0 {
            return None;
        }
        let part = self.due.trailing_zeros() as u8;
        let length = self.parts[usize::from(part)];
        if !self.validated && self.sent + u64::from(length) > AMPLIFICATION * self.received {
            // No timeout: the client's next datagram lets it go on (RFC 9002, section 6.2.2.1).
            return None;
        }
        self.due &= self.due - 1;
        self.sent += u64::from(length);
        self.times.push(now);
        self.timer.set(now, rtt);
        let of = self.parts.len() as u8;
        let answers = self.answers;
        Some((Flight::Server { part, of, answers }, self.times.len() as u64 - 1, length))
    }

    /// Returns when [`on_timer`](Self::on_timer) is due.
    pub fn deadline(&self) -> Time {
        self.timer.deadline
    }

    /// Sends the parts again that were not acknowledged, if their timeout has passed.
    pub fn on_timer(&mut self, now: Time) {
        if now < self.timer.deadline {
            return;
        }
        self.timer = Timer { deadline: Time::MAX, timeouts: self.timer.timeouts + 1 };
        self.due = self.every() & !self.acked;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DELAY: Duration = Duration::from_millis(10);

    /// Runs a handshake in which the datagrams with these numbers, of both sides together, are
    /// lost. Returns the time until the client and the server have keys, and the greatest
    /// amplification.
    fn run(certificates: u32, lost: &[usize]) -> (Duration, Duration, f64) {
        let (mut client, mut server) = (ClientHandshake::new(), ServerHandshake::new(certificates));
        let (mut rtts, mut wire) = ([RttEstimator::default(); 2], Vec::new());
        let (mut now, mut count, mut most) = (Time::ZERO, 0, 0.0_f64);
        let (mut client_at, mut server_at) = (Time::MAX, Time::MAX);
        client.start();
        while server_at == Time::MAX {
            client.on_timer(now);
            server.on_timer(now);
            let mut send = |to, (flight, number, length)| {
                if !lost.contains(&count) {
                    wire.push((now + DELAY, to, flight, number, length));
                }
                count += 1;
            };
            while let Some(sent) = client.poll(now, &rtts[0]) {
                send(1, sent);
            }
            while let Some(sent) = server.poll(now, &rtts[1]) {
                send(0, sent);
            }
            if !server.validated {
                most = most.max(server.sent as f64 / server.received.max(1) as f64);
            }
            let arrival = wire.iter().map(|packet| packet.0).min().unwrap_or(Time::MAX);
            now = arrival.min(client.deadline()).min(server.deadline()).max(now);
            assert!(now < Time::ZERO + Duration::from_secs(600), "a deadlock");
            for (_, to, flight, number, length) in wire.extract_if(.., |packet| packet.0 <= now) {
                let sample = match to {
                    0 => client.on_flight(now, flight, number),
                    _ => server.on_flight(now, flight, number, length),
                };
                if let Some(sample) = sample {
                    assert!(!lost.is_empty() || sample == DELAY * 2);
                    rtts[to].sample(sample, Duration::ZERO);
                }
            }
            if client.is_complete() {
                client_at = client_at.min(now);
            }
            if server.is_complete() {
                server_at = server_at.min(now);
            }
        }
        (client_at.since(Time::ZERO), server_at.since(Time::ZERO), most)
    }

    /// RFC 9000, section 8.1, and RFC 9001, section 4: a round trip with certificates that fit, and
    /// another with more than three times the client's datagram.
    #[test]
    fn a_handshake_takes_a_round_trip_unless_amplification_limits_it() {
        assert_eq!(run(2000, &[]).0, DELAY * 2);
        let (client, server, most) = run(5000, &[]);
        assert_eq!((client, server), (DELAY * 4, DELAY * 5));
        assert!(most <= 3.0 && most > 2.5, "{most}");
    }

    /// RFC 9002, section 6.2.2: the first timeout is a second, and later ones follow the estimate.
    #[test]
    fn lost_datagrams_are_repaired_by_timeouts() {
        let lost_hello = run(2000, &[0]).0;
        assert_eq!(lost_hello, Duration::from_millis(999) + DELAY * 2);
        let twice = run(2000, &[0, 1]).0;
        assert_eq!(twice, Duration::from_millis(3 * 999) + DELAY * 2);
        // The last of three parts: the client's acknowledgement of the first two has no effect on
        // it, and its timeout of 20 ms and four times 10 ms asks for it.
        let (client, ..) = run(2000, &[3]);
        assert!(client < Duration::from_millis(250), "{client:?}");
    }

    proptest! {
        /// No loss of single datagrams blocks the handshake for ever, and the server never sends
        /// more than three times what it received before it knows the client's address.
        #[test]
        fn no_loss_is_a_deadlock(
            lost in proptest::collection::vec(0_usize..30, 0..12),
            certificates in 0_u32..20_000,
        ) {
            let (.., most) = run(certificates, &lost);
            prop_assert!(most <= 3.0);
        }
    }
}
