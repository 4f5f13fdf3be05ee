//! Renewal of the consent to datagrams (the idea of RFC 7675).
//!
//! A host that has proved once that it wants datagrams may vanish: it fails, its address goes to
//! another host, or a firewall drops its packets silently. Its proof is therefore repeated: the
//! receiver sends it twice a second, but no more often than datagrams of the stream have arrived,
//! so that a forged sender's address turns the receiver into no amplifier. The sender ends a stream
//! whose proof has not come for [`TIMEOUT`] and [`LEAST_UNANSWERED`] datagrams.
//!
//! Connections need no renewal: without acknowledgements TCP sends only retransmissions.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use perhop_core::TrafficClass;

use super::{FRAME, Frame, Kind, Nonce, secrets_equal};
use crate::live::Token;
use crate::receive::EventSource;
use crate::shared::{Shared, StreamId};
use crate::stream::lock;
use perhop_socket::{Batch, Nanos, Socket};

/// Interval of the proofs of a stream, in nanoseconds.
const INTERVAL: Nanos = 500_000_000;
/// Time without a proof after which a sender ends a stream, in nanoseconds. With a loss of 30% of
/// the proofs, a flow ends by mistake once in more than 10,000 hours.
pub(crate) const TIMEOUT: Nanos = 8_000_000_000;
/// Number of datagrams without a proof until a sender ends a stream. A slow stream has few proofs
/// within [`TIMEOUT`].
const LEAST_UNANSWERED: u64 = 32;
/// Most proofs that a receiver sends after the last datagram. A minute of them outlasts a queue
/// that sends nothing of this stream's class for a while.
const MOST_AFTER_LAST: u64 = 120;
/// Most batches of proofs that are read at once.
const MOST_BATCHES: usize = 64;

/// Returns the buffers into which a sender reads proofs.
pub(crate) fn proof_buffers() -> Batch {
    // A longer datagram is not cut to the length of a frame.
    Batch::new(16, FRAME + 1)
}

/// Consent of the destination of a stream, at its sender.
#[derive(Debug)]
pub(crate) struct Consent {
    stream: (u16, u16),
    token: Token,
    nonce: Nonce,
    /// The address that has proved that it wants datagrams.
    pub to: SocketAddr,
    /// Time of the last proof, and the number of datagrams that were sent before it.
    renewed: Option<(Nanos, u64)>,
    /// Time from which proofs are read again.
    next: Nanos,
}

impl Consent {
    pub fn new(stream: (u16, u16), token: Token, nonce: Nonce, to: SocketAddr) -> Self {
        Self { stream, token, nonce, to, renewed: None, next: 0 }
    }

    /// Returns whether [`renew`](Self::renew) is due.
    pub fn is_due(&self, now: Nanos) -> bool {
        now >= self.next
    }

    /// Reads the proofs that have arrived at the socket of a stream that has sent `sent` datagrams.
    /// Returns whether more may be sent.
    ///
    /// # Errors
    /// [`ErrorKind::ConnectionRefused`] if the port of the destination is closed.
    pub fn renew(
        &mut self,
        socket: &Socket,
        buffers: &mut Batch,
        now: Nanos,
        sent: u64,
    ) -> io::Result<bool> {
        self.next = now + INTERVAL;
        if self.read(socket, buffers)? {
            self.renewed = Some((now, sent));
        }
        // The time begins with the first datagram.
        let (at, before) = *self.renewed.get_or_insert((now, sent));
        Ok(now - at < TIMEOUT || sent - before < LEAST_UNANSWERED)
    }

    /// Reads what has arrived. Returns whether a proof is among it.
    fn read(&self, socket: &Socket, buffers: &mut Batch) -> io::Result<bool> {
        let mut proved = false;
        for _ in 0..MOST_BATCHES {
            let count = match buffers.receive(socket) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Err(error),
                Ok(count) if count > 0 => count,
                _ => break,
            };
            proved |= (0..count).any(|number| {
                let datagram = buffers.get(number);
                let frame = Frame::read(datagram.bytes, self.token);
                datagram.from == Some(self.to) && frame.is_some_and(|frame| self.is_proof(&frame))
            });
        }
        Ok(proved)
    }

    fn is_proof(&self, frame: &Frame) -> bool {
        frame.kind == Kind::Proof
            && (frame.flow, frame.stream) == self.stream
            && secrets_equal(&frame.nonce, &self.nonce)
    }
}

/// Proof of a stream, which its receiver repeats.
#[derive(Debug)]
pub(crate) struct Renewal {
    pub id: StreamId,
    /// Address and port of the receiver, and those of the sender.
    at: SocketAddr,
    to: SocketAddr,
    frame: [u8; FRAME],
    /// Number of datagrams that had arrived at the last proof.
    arrived: u64,
    /// Proofs that may be sent until more datagrams arrive.
    credit: u64,
}

impl Renewal {
    pub fn new(
        (flow, stream): (u16, u16),
        token: Token,
        nonce: Nonce,
        (at, to): (SocketAddr, SocketAddr),
    ) -> Self {
        let frame = Frame { kind: Kind::Proof, flow, stream, nonce }.write(token);
        let id = StreamId { flow: flow.into(), stream: stream.into() };
        Self { id, at, to, frame, arrived: 0, credit: 0 }
    }

    /// Returns the addresses and ports of the sender and of the receiver.
    pub fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.to, self.at)
    }

    /// Returns whether a proof may be sent when `arrived` datagrams have arrived in all.
    fn may_send(&mut self, arrived: u64) -> bool {
        let new = arrived - self.arrived;
        self.arrived = arrived;
        self.credit = (self.credit + new).min(MOST_AFTER_LAST);
        let may = self.credit > 0;
        self.credit = self.credit.saturating_sub(1);
        may
    }
}

/// The proofs of all streams at their receiver: one after another, evenly in each interval.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    streams: Vec<Renewal>,
    /// Number of turns so far, of one stream each.
    turns: u64,
}

impl Renewals {
    pub fn new(streams: Vec<Renewal>) -> Self {
        Self { streams, turns: 0 }
    }

    /// Returns the time of the next turn; [`Nanos::MAX`] if there are no streams.
    pub fn deadline(&self) -> Nanos {
        match self.streams.len() as u64 {
            0 => Nanos::MAX,
            streams => self.turns.saturating_mul(INTERVAL) / streams,
        }
    }

    /// Sends the proofs that are due, from the sockets at which the streams arrive.
    pub fn run(&mut self, shared: &Shared, sources: &[EventSource]) {
        if self.streams.is_empty() {
            return;
        }
        let now = shared.clock.now();
        for _ in 0..self.streams.len() {
            if self.deadline() > now {
                return;
            }
            let turn = (self.turns % self.streams.len() as u64) as usize;
            self.turns += 1;
            let renewal = &mut self.streams[turn];
            let (flow, _) = shared.at(renewal.id);
            let is_over = flow.stop.is_some_and(|stop| now > stop.saturating_add(TIMEOUT));
            let arrived = lock(&flow.received).datagrams[renewal.id.stream].meter.packets;
            if is_over || !renewal.may_send(arrived) {
                continue;
            }
            let socket = sources.iter().find_map(|source| match source {
                EventSource::Datagrams(at, socket) if *at == renewal.at => Some(socket),
                _ => None,
            });
            if let Some(socket) = socket {
                // In the class of the data, as acknowledgements of TCP. Lost ones are repeated.
                let class = TrafficClass::new(flow.dscp).octet();
                let _ = socket.send_from(&renewal.frame, None, renewal.to, class);
            }
        }
        // After a stall, missed turns are not made up for.
        let streams = self.streams.len() as u64;
        if self.deadline() <= now {
            self.turns = now / INTERVAL * streams + self.turns % streams;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the probability that `run` of `trials` in sequence fail, each with probability
    /// `failure`.
    fn probability_of_run(run: usize, trials: usize, failure: f64) -> f64 {
        // Probabilities of the number of failures since the last success.
        let mut since = vec![0.0; run];
        since[0] = 1.0;
        let mut found = 0.0;
        for _ in 0..trials {
            found += since[run - 1] * failure;
            let success = since.iter().sum::<f64>() * (1.0 - failure);
            for place in (1..run).rev() {
                since[place] = since[place - 1] * failure;
            }
            since[0] = success;
        }
        found
    }

    #[test]
    fn heavy_loss_ends_no_flow_within_an_hour() {
        assert!((probability_of_run(2, 3, 0.5) - 0.375).abs() < 1e-12, "3 of 8");
        let hour = 3_600_000_000_000;
        // One of the proofs within the time may be under way.
        let proofs = (TIMEOUT / INTERVAL) as usize - 1;
        let fast = probability_of_run(proofs, (hour / INTERVAL) as usize, 0.3);
        assert!((1e-5..1e-4).contains(&fast), "{fast}");
        // A slow stream has a proof for each datagram, unless that or the proof is lost.
        let datagrams = LEAST_UNANSWERED as usize - 1;
        let slow = probability_of_run(datagrams, 3_600 * 4, 1.0 - 0.7 * 0.7);
        assert!(slow < 1e-5, "{slow}");
    }

    fn renewal() -> Renewal {
        let at = "127.0.0.1:1".parse().unwrap();
        Renewal::new((0, 0), Token([0; 16]), [0; 16], (at, at))
    }

    #[test]
    fn proofs_are_no_more_than_datagrams() {
        let mut one = renewal();
        let sent = (0..100).filter(|_| one.may_send(0)).count();
        assert_eq!(sent, 0, "no datagram has arrived");
        let sent = (0..100).filter(|_| one.may_send(7)).count();
        assert_eq!(sent, 7);
        let sent = (0..1_000).filter(|_| one.may_send(1_000_000)).count();
        assert_eq!(sent as u64, MOST_AFTER_LAST);
    }

    #[test]
    fn proofs_of_many_streams_are_spread() {
        let mut many = Renewals::new((0..4).map(|_| renewal()).collect());
        let times: Vec<_> = (0..6)
            .map(|turns| {
                many.turns = turns;
                many.deadline()
            })
            .collect();
        let part = INTERVAL / 4;
        assert_eq!(times, [0, part, 2 * part, 3 * part, 4 * part, 5 * part]);
        assert_eq!(Renewals::default().deadline(), Nanos::MAX);
    }
}
