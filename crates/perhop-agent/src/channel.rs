//! Non-blocking control connections: frames over TLS over TCP.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use perhop_socket::{Nanos, monotonic};
use rustls::{Connection, Error as TlsError};
use serde::Serialize;
use thiserror::Error;

use crate::frames::{self, Decoder, FrameError};

/// Number of bytes that are read at once.
const CHUNK: usize = 32 << 10;
/// Maximum number of unsent bytes of a connection.
const MOST_WAITING: usize = 64 << 20;
/// Maximum number of unsent bytes of all connections of an agent, a quarter of the memory that
/// packaging/perhop-agent.service allows.
const MOST_WAITING_IN_ALL: usize = 256 << 20;
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
    #[error("the other side does not read, and {0} B of messages to it are unsent")]
    Unread(usize),
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

/// Memory for unsent messages, which the clones of this value share.
///
/// A connection may have as much as is left for all others (dynamic thresholds: Choudhury and
/// Hahne, 1998). If several do not read, each thus has an equal part, and some memory is left for
/// those that do.
#[derive(Clone, Debug)]
pub struct SendMemory {
    used: Arc<AtomicUsize>,
    most: usize,
}

impl Default for SendMemory {
    fn default() -> Self {
        Self::new(MOST_WAITING_IN_ALL)
    }
}

impl SendMemory {
    /// Returns a memory of `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { used: Arc::default(), most }
    }

    /// Takes memory for a message of a connection that has `own` bytes already. Returns whether
    /// there is enough.
    fn take(&self, own: usize, bytes: usize) -> bool {
        let wanted = own.saturating_add(bytes);
        let more = |used: usize| {
            let left = self.most.saturating_sub(used).min(MOST_WAITING);
            (wanted <= left).then_some(used + bytes)
        };
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A control connection.
#[derive(Debug)]
pub struct Channel {
    socket: TcpStream,
    tls: Connection,
    decoder: Decoder,
    /// Frames that TLS has not accepted yet.
    outgoing: VecDeque<Vec<u8>>,
    /// Size of the frame that TLS is sending in bytes, and of this and all outgoing ones.
    sending: usize,
    waiting: usize,
    /// Memory from which `waiting` is taken.
    memory: SendMemory,
    /// True if a message was not queued because its memory was used up.
    overflowed: bool,
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
            sending: 0,
            waiting: 0,
            memory: SendMemory::default(),
            overflowed: false,
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

    /// Takes the memory of unsent messages from this, which other connections share. Call it before
    /// anything is sent.
    pub fn set_send_memory(&mut self, memory: SendMemory) {
        debug_assert_eq!(self.waiting, 0, "nothing was sent");
        self.memory = memory;
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

    /// Queues a message for sending. If its memory is used up, the connection ends with the next
    /// [`progress`](Self::progress).
    pub fn send(&mut self, message: &impl Serialize) {
        let frame = frames::write(message);
        if self.overflowed || !self.memory.take(self.waiting, frame.len()) {
            self.overflowed = true;
            return;
        }
        self.waiting += frame.len();
        self.outgoing.push_back(frame);
    }

    /// Gives back the memory of the frame that TLS has sent.
    fn release_sent(&mut self) {
        self.memory.give_back(self.sending);
        self.waiting -= self.sending;
        self.sending = 0;
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
        if self.overflowed {
            return Err(ChannelError::Unread(self.waiting));
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
            self.release_sent();
            if self.tls.is_handshaking() {
                return Ok(());
            }
            let Some(frame) = self.outgoing.pop_front() else { return Ok(()) };
            self.sending = frame.len();
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

impl Drop for Channel {
    fn drop(&mut self) {
        self.memory.give_back(self.waiting);
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::key::Identity;
    use crate::tls;

    const MIB: usize = 1 << 20;

    /// A connection whose memory is taken from `memory`, and its other side, after the handshake.
    fn pair(memory: &SendMemory) -> [Channel; 2] {
        let [agent, controller] = [(); 2].map(|()| Identity::generate());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let accepted = tls::accept(&tls::agent(&agent, &[controller.public()]).unwrap()).unwrap();
        let connected = tls::connect(&tls::controller(&controller, agent.public()).unwrap());
        let mut channels = [
            Channel::new(far, accepted, 16 * MIB).unwrap(),
            Channel::new(near, connected.unwrap(), 16 * MIB).unwrap(),
        ];
        channels[0].set_send_memory(memory.clone());
        while channels.iter().any(Channel::is_handshaking) {
            channels.iter_mut().for_each(|channel| channel.progress().unwrap());
        }
        channels
    }

    #[test]
    fn those_who_do_not_read_use_bounded_memory_in_all() {
        let memory = SendMemory::new(8 * MIB);
        let used = || memory.used.load(Ordering::Relaxed);
        let message = "x".repeat(100_000);
        let mut deaf: Vec<_> = (0..7).map(|_| pair(&memory)).collect();
        let [mut agent, mut reader] = pair(&memory);
        let mut ended = 0;
        let mut most = 0;
        for _ in 0..2_000 {
            for [channel, _] in &mut deaf {
                channel.send(&message);
                most = most.max(used());
            }
            // One that reads gets all its messages.
            agent.send(&message);
            let mut received = None;
            while received.is_none() {
                agent.progress().unwrap();
                reader.progress().unwrap();
                received = reader.receive().unwrap();
            }
            let before = deaf.len();
            deaf.retain_mut(|[channel, _]| match channel.progress() {
                Ok(()) => true,
                Err(ChannelError::Unread(unsent)) => {
                    assert!((MIB / 2..5 * MIB).contains(&unsent), "{unsent}");
                    false
                }
                Err(error) => panic!("{error}"),
            });
            ended += before - deaf.len();
            if deaf.is_empty() {
                break;
            }
        }
        assert_eq!(ended, 7, "all that do not read");
        assert!((4 * MIB..=8 * MIB).contains(&most), "{most}");
        assert_eq!(used(), 0, "closed connections have given all back");
    }

    #[test]
    fn a_connection_alone_has_its_maximum() {
        let memory = SendMemory::default();
        assert!(memory.take(0, MOST_WAITING));
        assert!(!memory.take(MOST_WAITING, 1));
        // Each of many has less, and they never have more than there is.
        let mut all = vec![0; 100];
        for _ in 0..1_000 {
            for own in &mut all {
                *own += if memory.take(*own, MIB / 4) { MIB / 4 } else { 0 };
            }
        }
        let sum = MOST_WAITING + all.iter().sum::<usize>();
        assert_eq!(sum, memory.used.load(Ordering::Relaxed));
        assert!(sum <= MOST_WAITING_IN_ALL && sum > MOST_WAITING_IN_ALL / 10 * 9, "{sum}");
    }
}
