//! One end of a connection between a client and its server.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use perhop_app::wire::{FRAME_BYTES, MAX_FRAME, REQUEST_BYTES};
use perhop_app::{Frame, Frames, Request, Responder};
use perhop_core::Time;
use perhop_socket::{Interest, Socket};

use super::stream::{Headers, Piece};
use crate::shared::StreamId;

/// Unsent bytes of a server below which it writes the next frame of interleaved responses, as
/// modelled servers do.
const LOW_WATER: libc::c_int = 16_384;

/// Bytes that are read at once.
const READ: usize = 256 << 10;

/// Bytes of a body that are written at once.
const WRITE: usize = MAX_FRAME as usize;

/// Has the kernel take little more than it can send, so that a server interleaves frames shortly
/// before they are sent.
pub(super) fn hold_little(socket: &Socket) {
    let _ = socket.set((libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), LOW_WATER);
}

/// Buffers for reading and writing, of all connections.
#[derive(Debug)]
pub(super) struct Room {
    read: Box<[u8]>,
    write: Box<[u8]>,
}

impl Default for Room {
    fn default() -> Self {
        let zeros = |length| vec![0; length].into_boxed_slice();
        Self { read: zeros(READ), write: zeros(REQUEST_BYTES as usize + WRITE) }
    }
}

/// A header and the body after it, as far as they are not written.
#[derive(Clone, Copy, Debug)]
struct Unwritten {
    header: [u8; REQUEST_BYTES as usize],
    /// Bytes of the header that were written, and its length.
    written: usize,
    length: usize,
    body: u64,
}

impl Unwritten {
    fn new(bytes: &[u8], body: u64) -> Self {
        let mut header = [0; REQUEST_BYTES as usize];
        header[..bytes.len()].copy_from_slice(bytes);
        Self { header, written: 0, length: bytes.len(), body }
    }

    /// Writes as much as there is room for. Returns true if that is all.
    fn write(&mut self, socket: &Socket, room: &mut [u8], more: bool) -> io::Result<bool> {
        while self.written < self.length || self.body > 0 {
            let header = &self.header[self.written..self.length];
            room[..header.len()].copy_from_slice(header);
            let body = self.body.min(WRITE as u64);
            let more = more || body < self.body;
            match socket.write(&room[..header.len() + body as usize], more) {
                Ok(bytes) => {
                    let of_header = bytes.min(header.len());
                    self.written += of_header;
                    self.body -= (bytes - of_header) as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Responses on their way to a client.
#[derive(Debug)]
pub(super) enum Inbound {
    /// One after the other, in the order of the requests.
    InOrder(Frames),
    /// Interleaved in frames with headers; the exchange of the current frame.
    Multiplexed(Headers<{ FRAME_BYTES as usize }>, u32),
}

/// Side of a connection.
#[derive(Debug)]
pub(super) enum Side {
    Client {
        open: bool,
        /// True once the client has closed it.
        closing: bool,
        inbound: Box<Inbound>,
    },
    Server {
        responder: Responder,
        requests: Headers<{ REQUEST_BYTES as usize }>,
        /// The request whose body arrives.
        request: Option<Request>,
        /// Instant at which the server is woken for the next response.
        timer: Time,
    },
}

impl Side {
    pub fn client(multiplexed: bool) -> Self {
        let inbound = match multiplexed {
            true => Inbound::Multiplexed(Headers::default(), 0),
            false => Inbound::InOrder(Frames::default()),
        };
        Self::Client { open: false, closing: false, inbound: Box::new(inbound) }
    }

    pub fn server(multiplexed: bool) -> Self {
        Self::Server {
            responder: Responder::new(multiplexed),
            requests: Headers::default(),
            request: None,
            timer: Time::MAX,
        }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// Client, and the connection's number there.
    pub of: (StreamId, u32),
    pub socket: Arc<Socket>,
    pub interest: Interest,
    /// Bytes that have arrived.
    pub received: u64,
    side: Side,
    unwritten: VecDeque<Unwritten>,
    /// True if the socket has no room.
    blocked: bool,
    /// True if the other end sends nothing more.
    ended: bool,
}

impl Connection {
    pub fn new(of: (StreamId, u32), socket: Arc<Socket>, side: Side) -> Self {
        let interest = match side {
            Side::Client { .. } => Interest::Both,
            Side::Server { .. } => Interest::Readable,
        };
        let unwritten = VecDeque::new();
        Self { of, socket, interest, received: 0, side, unwritten, blocked: false, ended: false }
    }

    pub fn is_client(&self) -> bool {
        matches!(self.side, Side::Client { .. })
    }

    pub fn is_opening(&self) -> bool {
        matches!(self.side, Side::Client { open: false, .. })
    }

    pub fn is_closing(&self) -> bool {
        matches!(self.side, Side::Client { closing: true, .. })
    }

    pub fn open(&mut self) {
        if let Side::Client { open, .. } = &mut self.side {
            *open = true;
        }
    }

    /// Closes the client's end. Returns false if it was not open.
    pub fn close(&mut self) -> bool {
        let Side::Client { open, closing, .. } = &mut self.side else { return false };
        *closing = true;
        self.unwritten.clear();
        self.socket.end();
        *open
    }

    /// Returns `true` if nothing more arrives or is sent.
    pub fn is_over(&self) -> bool {
        self.ended
            && match &self.side {
                Side::Client { .. } => true,
                Side::Server { responder, .. } => responder.is_idle() && self.unwritten.is_empty(),
            }
    }

    /// Returns what to wait for.
    pub fn wanted(&self) -> Interest {
        match (self.ended, self.blocked) {
            (false, false) => Interest::Readable,
            (false, true) => Interest::Both,
            (true, false) => Interest::Errors,
            (true, true) => Interest::Writable,
        }
    }

    /// Returns when the server has a response, if nobody waits for that instant yet.
    pub fn ready_at(&mut self) -> Option<Time> {
        let Side::Server { responder, timer, .. } = &mut self.side else { return None };
        let due = if self.blocked { Time::MAX } else { responder.deadline() };
        (std::mem::replace(timer, due) != due && due < Time::MAX).then_some(due)
    }

    /// Sends a request.
    pub fn request(&mut self, request: &Request) {
        let Side::Client { inbound, closing: false, .. } = &mut self.side else { return };
        if let Inbound::InOrder(frames) = &mut **inbound {
            let Request { exchange, response: payload, .. } = *request;
            frames.push(Frame { exchange, header: 0, payload, last: true });
        }
        self.unwritten.push_back(Unwritten::new(&request.emit(), request.request - REQUEST_BYTES));
    }

    /// Reads what has arrived, and passes on bytes of responses. Returns the number of bytes.
    pub fn read(
        &mut self,
        now: Time,
        room: &mut Room,
        mut received: impl FnMut(u32, u64),
    ) -> io::Result<u64> {
        let read = match self.socket.read(&mut room.read) {
            Ok(0) => {
                self.ended = true;
                return Ok(0);
            }
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error),
        };
        self.received += read as u64;
        let malformed = || io::Error::from(ErrorKind::InvalidData);
        let mut bytes = &room.read[..read];
        match &mut self.side {
            Side::Client { inbound, .. } => match &mut **inbound {
                Inbound::InOrder(frames) => {
                    let mut left = read as u64;
                    while let Some((frame, payload, _)) = frames.take(&mut left) {
                        received(frame.exchange, payload);
                    }
                }
                Inbound::Multiplexed(headers, exchange) => {
                    while let Some(piece) = headers.next(&mut bytes) {
                        match piece {
                            Piece::Header(header) => {
                                let frame = Frame::parse(&header).ok_or_else(malformed)?;
                                (headers.body, *exchange) = (frame.payload, frame.exchange);
                            }
                            Piece::Body(payload) => received(*exchange, payload),
                        }
                    }
                }
            },
            Side::Server { responder, requests, request, .. } => {
                while let Some(piece) = requests.next(&mut bytes) {
                    if let Piece::Header(header) = piece {
                        let found = Request::parse(&header).ok_or_else(malformed)?;
                        requests.body = found.request - REQUEST_BYTES;
                        *request = Some(found);
                    }
                    if requests.body == 0
                        && let Some(request) = request.take()
                    {
                        responder.on_request(now, &request);
                    }
                }
            }
        }
        Ok(read as u64)
    }

    /// Writes requests, or responses that are ready, as much as there is room for.
    pub fn write(&mut self, now: Time, room: &mut Room) -> io::Result<()> {
        loop {
            if self.unwritten.is_empty()
                && let Side::Server { responder, .. } = &mut self.side
                && let Some(frame) = responder.next_frame(now)
            {
                let header = &frame.emit()[..frame.header as usize];
                self.unwritten.push_back(Unwritten::new(header, frame.payload));
            }
            let several = self.unwritten.len() > 1;
            let Some(first) = self.unwritten.front_mut() else { break };
            let more = match &self.side {
                Side::Client { .. } => several,
                Side::Server { responder, .. } => responder.deadline() <= now,
            };
            if !first.write(&self.socket, &mut room.write, more)? {
                self.blocked = true;
                return Ok(());
            }
            self.unwritten.pop_front();
        }
        self.blocked = false;
        Ok(())
    }
}
