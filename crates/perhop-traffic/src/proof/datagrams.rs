//! Streams of datagrams: their destination addresses, and the proof of these.

use std::net::{IpAddr, SocketAddr};

use super::{Consent, Contacts, Frame, Kind, Nonce, Renewal, nonce, secrets_equal};
use crate::live::Token;
use perhop_socket::{Batch, Nanos, Socket};

/// Times of unsolicited challenges after the first, in nanoseconds.
const CHALLENGE_TIMES: [Nanos; 3] = [0, 300_000_000, 1_000_000_000];
/// Number of hellos that a sender answers before the proof.
const MAX_ANSWERS: u8 = 8;
/// Number of hellos that a receiver sends at most, and the time between them.
const MAX_HELLOS: u8 = 8;
const HELLO_INTERVAL: Nanos = 250_000_000;
/// Time that a receiver waits for a confirmation after its proof.
const CONFIRMATION_TIMEOUT: Nanos = 1_500_000_000;
/// Number of copies of a confirmation, which is not acknowledged.
const CONFIRMATIONS: usize = 3;

/// A stream at its sender.
#[derive(Debug)]
struct Sender {
    id: (u16, u16),
    socket: Socket,
    /// Destination, if this end opens the stream.
    to: Option<SocketAddr>,
    /// Challenges that were sent, by address.
    challenges: Vec<(SocketAddr, Nonce)>,
    challenged: usize,
    answered: u8,
    proved: Option<SocketAddr>,
}

impl Sender {
    fn challenge(&mut self, to: SocketAddr, token: Token) {
        let known = self.challenges.iter().find(|(address, _)| *address == to);
        let known = known.map(|(_, nonce)| *nonce);
        let Some(nonce) = known.or_else(|| nonce().ok()) else { return };
        if !self.challenges.contains(&(to, nonce)) {
            self.challenges.push((to, nonce));
        }
        self.send(Kind::Challenge, nonce, to, token);
    }

    fn send(&self, kind: Kind, nonce: Nonce, to: SocketAddr, token: Token) {
        let frame = Frame { kind, flow: self.id.0, stream: self.id.1, nonce };
        // Lost frames are sent again.
        let _ = self.socket.send_to(&frame.write(token), to);
    }

    fn receive(&mut self, frame: Frame, from: SocketAddr, token: Token) -> bool {
        if (frame.flow, frame.stream) != self.id {
            return false;
        }
        match frame.kind {
            Kind::Hello if self.proved.is_none() && self.answered < MAX_ANSWERS => {
                self.answered += 1;
                self.challenge(from, token);
                true
            }
            Kind::Proof => {
                // Only from the address that the nonce was sent to.
                let sent = self.challenges.iter().find(|(address, _)| *address == from);
                let proved = sent.is_some_and(|(_, nonce)| secrets_equal(&frame.nonce, nonce));
                if proved && self.proved.is_none_or(|address| address == from) {
                    self.proved = Some(from);
                    for _ in 0..CONFIRMATIONS {
                        self.send(Kind::Confirmation, frame.nonce, from, token);
                    }
                }
                proved
            }
            Kind::Hello => {
                // Its confirmation was lost.
                let nonce = self.challenges.iter().find(|(address, _)| *address == from);
                if let (Some(&(_, nonce)), true) = (nonce, self.proved == Some(from)) {
                    self.send(Kind::Confirmation, nonce, from, token);
                }
                true
            }
            _ => false,
        }
    }
}

/// Streams of datagrams whose senders are here.
#[derive(Debug)]
pub(crate) struct DatagramSenders {
    token: Token,
    senders: Vec<Sender>,
    batch: Batch,
    began: Option<Nanos>,
    /// Datagrams from unknown senders.
    pub unknown: u64,
}

impl DatagramSenders {
    pub fn new(token: Token) -> Self {
        let batch = Batch::new(16, 2048);
        Self { token, senders: Vec::new(), batch, began: None, unknown: 0 }
    }

    /// Adds a stream. `to` is its other end, if this end opens it.
    pub fn add(&mut self, id: (u16, u16), socket: Socket, to: Option<SocketAddr>) {
        self.senders.push(Sender {
            id,
            socket,
            to,
            challenges: Vec::new(),
            challenged: 0,
            answered: 0,
            proved: None,
        });
    }

    /// Returns the unproved flows, and their destinations.
    pub fn unproved(&self) -> impl Iterator<Item = (u16, Option<SocketAddr>)> {
        let open = self.senders.iter().filter(|each| each.proved.is_none());
        open.map(|each| (each.id.0, each.to))
    }

    /// Returns the sockets of the proved streams, and the consent of their destinations.
    pub fn into_sockets(self) -> impl Iterator<Item = ((u16, u16), Socket, Consent)> {
        let token = self.token;
        self.senders.into_iter().filter_map(move |each| {
            let to = each.proved?;
            let (_, nonce) = each.challenges.into_iter().find(|(address, _)| *address == to)?;
            Some((each.id, each.socket, Consent::new(each.id, token, nonce, to)))
        })
    }

    /// Makes progress without blocking. Returns whether all streams are proved.
    pub fn run(&mut self, contacts: &mut Contacts<'_>) -> bool {
        let since = contacts.now - *self.began.get_or_insert(contacts.now);
        for sender in &mut self.senders {
            if let (Some(to), None) = (sender.to, sender.proved)
                && CHALLENGE_TIMES.get(sender.challenged).is_some_and(|&at| at <= since)
                && contacts.may_begin(to.ip())
            {
                sender.challenged += 1;
                sender.challenge(to, self.token);
            }
            let Ok(count) = self.batch.receive(&sender.socket) else { continue };
            for number in 0..count {
                let datagram = self.batch.get(number);
                let frame = Frame::read(datagram.bytes, self.token);
                let known = frame.zip(datagram.from);
                let known =
                    known.is_some_and(|(frame, from)| sender.receive(frame, from, self.token));
                self.unknown += u64::from(!known);
            }
            contacts.proved.extend(sender.proved.map(|address| address.ip()));
        }
        self.senders.iter().all(|each| each.proved.is_some())
    }
}

/// A sender that has sent a challenge.
#[derive(Clone, Copy, Debug)]
struct Challenger {
    address: SocketAddr,
    /// Time of its first challenge.
    since: Nanos,
    /// Nonce of its last challenge, or of its confirmation.
    nonce: Nonce,
}

/// A stream at its receiver.
#[derive(Debug)]
struct Receiver {
    id: (u16, u16),
    /// The number of its socket.
    socket: usize,
    /// Its sender, if this end opens it.
    to: Option<SocketAddr>,
    hellos: u8,
    again: Nanos,
    /// The sender, once it has sent a challenge.
    from: Option<Challenger>,
    confirmed: bool,
}

impl Receiver {
    fn is_proved(&self, now: Nanos) -> bool {
        // The sender has sent a challenge and was sent the proof; the confirmation may be lost.
        let answered = self.from.is_some_and(|from| now >= from.since + CONFIRMATION_TIMEOUT);
        self.confirmed || answered
    }
}

/// Streams of datagrams whose receivers are here.
#[derive(Debug)]
pub(crate) struct DatagramReceivers {
    token: Token,
    receivers: Vec<Receiver>,
    sockets: Vec<(SocketAddr, Socket)>,
    batch: Batch,
    /// Datagrams from unknown senders.
    pub unknown: u64,
}

impl DatagramReceivers {
    pub fn new(token: Token, sockets: Vec<(SocketAddr, Socket)>) -> Self {
        let batch = Batch::new(16, 2048);
        Self { token, receivers: Vec::new(), sockets, batch, unknown: 0 }
    }

    /// Adds a stream that arrives at a port. `to` is its sender, if this end opens it.
    pub fn add(&mut self, id: (u16, u16), port: u16, to: Option<SocketAddr>) {
        let socket = self.sockets.iter().position(|(at, _)| at.port() == port);
        let socket = socket.expect("every flow that arrives has its socket");
        let (hellos, again) = (0, 0);
        self.receivers.push(Receiver {
            id,
            socket,
            to,
            hellos,
            again,
            from: None,
            confirmed: false,
        });
    }

    /// Returns whether a sender at this address has sent a challenge.
    pub fn know(&self, address: IpAddr) -> bool {
        self.receivers.iter().any(|each| each.from.is_some_and(|from| from.address.ip() == address))
    }

    /// Returns the unproved flows, and their senders.
    pub fn unproved(&self, now: Nanos) -> impl Iterator<Item = (u16, Option<SocketAddr>)> {
        let open = self.receivers.iter().filter(move |each| !each.is_proved(now));
        open.map(|each| (each.id.0, each.to))
    }

    /// Returns the proofs to repeat, and the sockets.
    pub fn into_sockets(self) -> (Vec<Renewal>, Vec<(SocketAddr, Socket)>) {
        let proof = |each: &Receiver| {
            let Challenger { address, nonce, .. } = each.from?;
            let ends = (self.sockets[each.socket].0, address);
            Some(Renewal::new(each.id, self.token, nonce, ends))
        };
        (self.receivers.iter().filter_map(proof).collect(), self.sockets)
    }

    /// Makes progress without blocking. Returns whether all streams are proved.
    pub fn run(&mut self, contacts: &mut Contacts<'_>) -> bool {
        let now = contacts.now;
        for receiver in &mut self.receivers {
            let Some(to) = receiver.to else { continue };
            let due = !receiver.confirmed && receiver.hellos < MAX_HELLOS && receiver.again <= now;
            if due
                && contacts.may_begin(to.ip())
                && let Ok(nonce) = nonce()
            {
                receiver.hellos += 1;
                receiver.again = now + HELLO_INTERVAL;
                let (flow, stream) = receiver.id;
                let frame = Frame { kind: Kind::Hello, flow, stream, nonce };
                // Lost frames are sent again.
                let _ = self.sockets[receiver.socket].1.send_to(&frame.write(self.token), to);
            }
        }
        for (number, (_, socket)) in self.sockets.iter().enumerate() {
            let Ok(count) = self.batch.receive(socket) else { continue };
            for datagram in (0..count).map(|number| self.batch.get(number)) {
                let size = datagram.control.segment.unwrap_or(datagram.bytes.len()).max(1);
                for bytes in datagram.bytes.chunks(size) {
                    let frame = Frame::read(bytes, self.token).zip(datagram.from);
                    let known = frame.and_then(|(frame, from)| {
                        let ours = |each: &&mut Receiver| {
                            each.id == (frame.flow, frame.stream) && each.socket == number
                        };
                        let receiver = self.receivers.iter_mut().find(ours)?;
                        match frame.kind {
                            Kind::Challenge => {
                                let since = receiver.from.map_or(now, |from| from.since);
                                let nonce = match receiver.from {
                                    Some(known) if receiver.confirmed => known.nonce,
                                    _ => frame.nonce,
                                };
                                receiver.from = Some(Challenger { address: from, since, nonce });
                                let proof = Frame { kind: Kind::Proof, ..frame };
                                let _ = socket.send_to(&proof.write(self.token), from);
                            }
                            Kind::Confirmation => {
                                if let Some(known) = &mut receiver.from
                                    && known.address == from
                                {
                                    known.nonce = frame.nonce;
                                    receiver.confirmed = true;
                                }
                            }
                            _ => return None,
                        }
                        Some(())
                    });
                    self.unknown += u64::from(known.is_none());
                }
            }
        }
        self.receivers.iter().all(|each| each.is_proved(now))
    }
}
