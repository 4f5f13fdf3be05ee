//! TCP connections that are opened and proved before data is sent.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use super::{Contacts, FRAME, Frame, Kind, Nonce, nonce, secrets_equal};
use crate::live::{End, Token};
use perhop_socket::{Nanos, Socket};

/// Time that an accepted connection has to identify its stream.
const IDENTIFICATION_TIMEOUT: Nanos = 5_000_000_000;
/// Time between attempts to connect.
const RETRY_INTERVAL: Nanos = 250_000_000;
/// Number of unidentified connections beyond one per stream.
const MAX_UNIDENTIFIED: usize = 64;

/// A stream over TCP.
#[derive(Debug)]
struct Stream {
    id: (u16, u16),
    /// The end in this process.
    end: End,
    to: SocketAddr,
    /// The socket that connects, if this end opens the connection.
    socket: Option<Socket>,
    /// State.
    phase: Phase,
    error: Option<io::Error>,
}

#[derive(Debug)]
enum Phase {
    /// Waits until the other end connects.
    Passive,
    /// Waits to connect again at this instant.
    Idle(Nanos),
    /// Waits until the connection is open.
    Connecting,
    /// Waits for a frame.
    Handshake(Handshake),
    /// The connection is proved.
    Proved,
}

/// Exchange of frames, with the received bytes of the next frame.
#[derive(Debug)]
struct Handshake {
    bytes: [u8; FRAME],
    length: usize,
    /// The challenge that was sent.
    challenge: Option<Nonce>,
}

impl Handshake {
    const fn new() -> Self {
        Self { bytes: [0; FRAME], length: 0, challenge: None }
    }

    /// Reads the next frame. Returns an error if the connection has ended, or sends other data.
    fn receive(&mut self, socket: &Socket, token: Token) -> io::Result<Option<Frame>> {
        while self.length < FRAME {
            match socket.read(&mut self.bytes[self.length..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(more) => self.length += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        self.length = 0;
        let frame = Frame::read(&self.bytes, token);
        frame.map(Some).ok_or_else(|| ErrorKind::InvalidData.into())
    }
}

/// Sends a frame. A new connection has room for it.
fn send(socket: &Socket, frame: Frame, token: Token) -> io::Result<()> {
    match socket.send(&frame.write(token))? {
        FRAME => Ok(()),
        _ => Err(ErrorKind::WriteZero.into()),
    }
}

/// An accepted connection whose stream is not known yet.
#[derive(Debug)]
struct Accepted {
    socket: Socket,
    from: Option<SocketAddr>,
    until: Nanos,
    handshake: Handshake,
    /// The stream that it claims.
    claimed: Option<usize>,
}

/// Connections to open and prove.
#[derive(Debug)]
pub(crate) struct Connections {
    token: Token,
    streams: Vec<Stream>,
    listeners: Vec<Socket>,
    accepted: Vec<Accepted>,
    /// Connections from unknown senders.
    pub unknown: u64,
}

impl Connections {
    pub fn new(token: Token, listeners: Vec<Socket>) -> Self {
        Self { token, streams: Vec::new(), listeners, accepted: Vec::new(), unknown: 0 }
    }

    /// Adds a stream that this end opens with `socket`, or that the other end opens.
    pub fn add(&mut self, id: (u16, u16), end: End, to: SocketAddr, socket: Option<Socket>) {
        let phase = if socket.is_some() { Phase::Idle(0) } else { Phase::Passive };
        self.streams.push(Stream { id, end, to, socket, phase, error: None });
    }

    /// Returns the unproved streams: flow, other end, its address, and the last error.
    pub fn unproved(&self) -> impl Iterator<Item = (u16, End, SocketAddr, Option<&io::Error>)> {
        let open = self.streams.iter().filter(|each| !matches!(each.phase, Phase::Proved));
        open.map(|each| (each.id.0, each.end, each.to, each.error.as_ref()))
    }

    /// Returns the connections, once all are proved.
    pub fn into_sockets(self) -> impl Iterator<Item = ((u16, u16), End, Socket)> {
        self.streams.into_iter().filter_map(|each| Some((each.id, each.end, each.socket?)))
    }

    /// Makes progress without blocking. Returns whether all connections are proved.
    pub fn run(&mut self, contacts: &mut Contacts<'_>) -> bool {
        let (token, now) = (self.token, contacts.now);
        for stream in &mut self.streams {
            if let Err(error) = stream.run(contacts, token) {
                stream.error = Some(error);
                stream.phase = Phase::Idle(now + RETRY_INTERVAL);
                if let Some(socket) = &stream.socket {
                    socket.abort();
                }
            }
        }
        self.accept(now);
        for mut each in std::mem::take(&mut self.accepted) {
            match self.receive(&mut each) {
                Ok(true) => {
                    let Some(stream) = each.claimed.and_then(|it| self.streams.get_mut(it)) else {
                        continue;
                    };
                    contacts.proved.extend(each.from.map(|from| from.ip()));
                    stream.socket = Some(each.socket);
                    stream.phase = Phase::Proved;
                }
                Ok(false) if now < each.until => self.accepted.push(each),
                _ => self.unknown += 1,
            }
        }
        self.streams.iter().all(|each| matches!(each.phase, Phase::Proved))
    }

    fn accept(&mut self, now: Nanos) {
        let most = self.streams.len() + MAX_UNIDENTIFIED;
        for listener in &self.listeners {
            while let Ok((socket, from)) = listener.accept() {
                if self.accepted.len() >= most {
                    self.unknown += 1;
                    continue;
                }
                let (until, handshake) = (now + IDENTIFICATION_TIMEOUT, Handshake::new());
                self.accepted.push(Accepted { socket, from, until, handshake, claimed: None });
            }
        }
    }

    /// Reads from an accepted connection. Returns whether it is proved.
    fn receive(&mut self, accepted: &mut Accepted) -> io::Result<bool> {
        let refused = || io::Error::from(ErrorKind::InvalidData);
        let Some(frame) = accepted.handshake.receive(&accepted.socket, self.token)? else {
            return Ok(false);
        };
        let id = (frame.flow, frame.stream);
        let passive = |each: &Stream| each.id == id && matches!(each.phase, Phase::Passive);
        let place = self.streams.iter().position(passive).ok_or_else(refused)?;
        match (frame.kind, self.streams[place].end, accepted.handshake.challenge) {
            // The sender of data connected.
            (Kind::Challenge, End::Destination, _) => {
                send(&accepted.socket, Frame { kind: Kind::Proof, ..frame }, self.token)?;
                accepted.claimed = Some(place);
                Ok(true)
            }
            // The receiver of data connected.
            (Kind::Hello, End::Source, None) => {
                let challenge = Frame { kind: Kind::Challenge, nonce: nonce()?, ..frame };
                send(&accepted.socket, challenge, self.token)?;
                accepted.handshake.challenge = Some(challenge.nonce);
                accepted.claimed = Some(place);
                Ok(false)
            }
            (Kind::Proof, End::Source, Some(expected))
                if accepted.claimed == Some(place) && secrets_equal(&frame.nonce, &expected) =>
            {
                Ok(true)
            }
            _ => Err(refused()),
        }
    }
}

impl Stream {
    fn run(&mut self, contacts: &mut Contacts<'_>, token: Token) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let (flow, stream) = self.id;
        match &mut self.phase {
            Phase::Passive | Phase::Proved => Ok(()),
            Phase::Idle(at) if *at > contacts.now => Ok(()),
            Phase::Idle(_) if !contacts.may_begin(self.to.ip()) => Ok(()),
            Phase::Idle(_) => {
                self.phase = Phase::Connecting;
                socket.connect(self.to)
            }
            Phase::Connecting if !socket.is_writable() => Ok(()),
            Phase::Connecting => {
                if let Some(error) = socket.take_error() {
                    return Err(error);
                }
                let mut handshake = Handshake::new();
                let first = match self.end {
                    End::Destination => Frame { kind: Kind::Hello, flow, stream, nonce: nonce()? },
                    End::Source => {
                        let nonce = *handshake.challenge.insert(nonce()?);
                        Frame { kind: Kind::Challenge, flow, stream, nonce }
                    }
                };
                send(socket, first, token)?;
                self.phase = Phase::Handshake(handshake);
                Ok(())
            }
            Phase::Handshake(handshake) => {
                let Some(frame) = handshake.receive(socket, token)? else { return Ok(()) };
                if (frame.flow, frame.stream) != self.id {
                    return Err(ErrorKind::InvalidData.into());
                }
                match (frame.kind, self.end, handshake.challenge) {
                    (Kind::Challenge, End::Destination, _) => {
                        send(socket, Frame { kind: Kind::Proof, ..frame }, token)?;
                    }
                    (Kind::Proof, End::Source, Some(expected))
                        if secrets_equal(&frame.nonce, &expected) => {}
                    _ => return Err(ErrorKind::InvalidData.into()),
                }
                contacts.proved.insert(self.to.ip());
                self.phase = Phase::Proved;
                Ok(())
            }
        }
    }
}
