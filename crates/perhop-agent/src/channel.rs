//! Non-blocking control connections: frames over TLS over TCP.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use perhop_socket::{Nanos, monotonic};
use rustls::{Connection, Error as TlsError};
use serde::Serialize;
use thiserror::Error;

use crate::frames::{self, Decoder, FrameError};

/// Number of bytes that are read at once.
const CHUNK: usize = 32 << 10;
/// Maximum number of unsent bytes.
const MOST_WAITING: usize = 64 << 20;
/// Maximum time from the first byte of a frame to its last, in nanoseconds.
pub const FRAME_TIMEOUT: Nanos = 60_000_000_000;

/// Reason for the end of a connection.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The other side has closed it.
    #[error("the connection was closed")]
    Closed,
    /// The network has ended it.
    #[error("the connection failed: {0}")]
    Io(io::Error),
    /// The key of the other side is not allowed, or the TLS handshake or a record failed.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The other side has sent a malformed frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The other side does not read.
    #[error("the other side does not read: {} MiB are unsent", MOST_WAITING >> 20)]
    Unread,
    /// A frame is not completed in time.
    #[error("a frame is incomplete after {:.1} s", .0.as_secs_f64())]
    SlowFrame(Duration),
    /// The other side has sent nothing for too long.
    #[error("nothing was received for {:.1} s", .0.as_secs_f64())]
    Silent(Duration),
}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Closed,
            io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

/// A received frame.
#[derive(Debug)]
pub struct Received {
    /// Its text.
    pub frame: Vec<u8>,
    /// Time of reading by the monotonic clock, in nanoseconds.
    pub at: Nanos,
}

/// A control connection.
#[derive(Debug)]
pub struct Channel {
    socket: TcpStream,
    tls: Connection,
    decoder: Decoder,
    /// Frames that TLS has not accepted yet, and their total size in bytes.
    outgoing: VecDeque<Vec<u8>>,
    waiting: usize,
    /// Time of the last received data.
    heard: Nanos,
    /// Time of the first byte of an incomplete frame, or of the TLS records that have it.
    frame_since: Option<Nanos>,
    /// Maximum time from the first byte of a frame to its last.
    frame_timeout: Nanos,
    closed: bool,
}

impl Channel {
    /// Returns a channel on a new connection.
    ///
    /// # Errors
    /// If the socket cannot be set up.
    pub fn new(socket: TcpStream, mut tls: Connection, longest: usize) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        // The limit of unsent data is enforced here.
        tls.set_buffer_limit(None);
        Ok(Self {
            socket,
            tls,
            decoder: Decoder::new(longest),
            outgoing: VecDeque::new(),
            waiting: 0,
            heard: monotonic(),
            frame_since: None,
            frame_timeout: FRAME_TIMEOUT,
            closed: false,
        })
    }

    /// Accepts frames of at most `longest` bytes from now on.
    pub fn set_longest(&mut self, longest: usize) {
        self.decoder.set_limit(longest);
    }

    /// Ends the connection if a frame takes longer than this, in nanoseconds; a minute by default.
    pub fn set_frame_timeout(&mut self, timeout: Nanos) {
        self.frame_timeout = timeout;
    }

    /// Returns whether the handshake, and thus the check of the other side's key, is incomplete.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Checks that data was received within the last `most` nanoseconds.
    ///
    /// # Errors
    /// [`ChannelError::Silent`].
    pub fn check_silence(&self, most: Nanos) -> Result<(), ChannelError> {
        let silence = monotonic().saturating_sub(self.heard);
        if silence > most {
            Err(ChannelError::Silent(Duration::from_nanos(silence)))
        } else {
            Ok(())
        }
    }

    /// Queues a message for sending.
    pub fn send(&mut self, message: &impl Serialize) {
        let frame = frames::write(message);
        self.waiting += frame.len();
        self.outgoing.push_back(frame);
    }

    /// Returns whether data is waiting to be sent.
    pub fn wants_write(&self) -> bool {
        self.tls.wants_write() || (!self.outgoing.is_empty() && !self.tls.is_handshaking())
    }

    /// Returns the next complete message.
    ///
    /// # Errors
    /// [`ChannelError`] if the bytes are not a frame, or if the connection has ended.
    pub fn receive(&mut self) -> Result<Option<Received>, ChannelError> {
        match self.decoder.next_frame()? {
            Some(frame) => {
                self.frame_since = self.decoder.is_partial().then_some(self.heard);
                Ok(Some(Received { frame, at: self.heard }))
            }
            None if self.closed => Err(ChannelError::Closed),
            None => Ok(None),
        }
    }

    /// Sends and reads without blocking, a bounded number of bytes. Call [`receive`](Self::receive)
    /// until it returns no message before this is called again.
    ///
    /// # Errors
    /// [`ChannelError`] if the connection is over. After an orderly close, earlier messages can
    /// still be received.
    pub fn progress(&mut self) -> Result<(), ChannelError> {
        self.flush()?;
        if self.waiting > MOST_WAITING {
            return Err(ChannelError::Unread);
        }
        let read = match self.tls.read_tls(&mut self.socket) {
            Ok(0) => {
                self.closed = true;
                return Ok(());
            }
            Ok(read) => read,
            Err(error) if is_temporary(&error) => 0,
            Err(error) => return Err(error.into()),
        };
        if read > 0 {
            self.heard = monotonic();
            // A TLS record of 16 KiB shows none of its bytes before the last has come.
            self.frame_since.get_or_insert(self.heard);
            if let Err(error) = self.tls.process_new_packets() {
                // Send the TLS alert, in case the other side still reads.
                let _ = self.tls.write_tls(&mut self.socket);
                return Err(error.into());
            }
            self.take_plaintext()?;
            self.flush()?;
        }
        match self.frame_since {
            Some(since) if monotonic().saturating_sub(since) > self.frame_timeout => {
                Err(ChannelError::SlowFrame(Duration::from_nanos(self.frame_timeout)))
            }
            _ => Ok(()),
        }
    }

    fn take_plaintext(&mut self) -> Result<(), ChannelError> {
        let mut chunk = [0; CHUNK];
        loop {
            match self.tls.reader().read(&mut chunk) {
                Ok(0) => {
                    self.closed = true;
                    return Ok(());
                }
                Ok(length) => {
                    self.decoder.push(&chunk[..length]);
                }
                Err(error) if is_temporary(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends without blocking.
    ///
    /// # Errors
    /// [`ChannelError`] if the connection is over.
    pub fn flush(&mut self) -> Result<(), ChannelError> {
        loop {
            while self.tls.wants_write() {
                match self.tls.write_tls(&mut self.socket) {
                    Ok(_) => {}
                    Err(error) if is_temporary(&error) => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
            if self.tls.is_handshaking() {
                return Ok(());
            }
            let Some(frame) = self.outgoing.pop_front() else { return Ok(()) };
            self.waiting -= frame.len();
            self.tls.writer().write_all(&frame)?;
        }
    }

    /// Closes the connection after sending queued data, for at most `within`.
    pub fn close(mut self, within: Duration) {
        let until = monotonic() + within.as_nanos() as Nanos;
        let flush = |channel: &mut Self| {
            while channel.flush().is_ok() && channel.wants_write() && monotonic() < until {
                wait(&[channel], until);
            }
        };
        flush(&mut self);
        self.tls.send_close_notify();
        flush(&mut self);
        let _ = self.socket.shutdown(Shutdown::Write);
        // Closing a socket with unread data resets the connection, which may discard sent data.
        // Therefore read until the other side closes too.
        let mut chunk = [0; CHUNK];
        while monotonic() < until {
            match self.socket.read(&mut chunk) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if is_temporary(&error) => {
                    wait(&[&self], until);
                }
                Err(_) => break,
            }
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Waits until one of these channels is ready, or the monotonic clock reaches `until`. Returns for
/// each whether it is ready.
pub fn wait(channels: &[&Channel], until: Nanos) -> Vec<bool> {
    let mut fds: Vec<_> = channels
        .iter()
        .map(|channel| {
            let mut flags = PollFlags::POLLIN;
            flags.set(PollFlags::POLLOUT, channel.wants_write());
            PollFd::new(channel.socket.as_fd(), flags)
        })
        .collect();
    let left = until.saturating_sub(monotonic()).div_ceil(1_000_000);
    // An interrupted wait ends early, which all callers handle.
    let _ = poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
    fds.iter().map(|fd| fd.any().unwrap_or(true)).collect()
}
