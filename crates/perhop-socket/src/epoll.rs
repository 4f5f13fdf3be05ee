//! Waiting for many sockets at once (epoll(7)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::epoll::{Epoll as NixEpoll, EpollCreateFlags, EpollEvent, EpollFlags};

use crate::clock::monotonic;
use crate::{Nanos, raw};

/// What a socket is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// That something is to be read.
    Readable,
    /// That something can be written.
    Writable,
    /// That something is wrong, and nothing else.
    Errors,
}

impl Interest {
    fn event(self, token: u64) -> EpollEvent {
        let flags = match self {
            Self::Readable => EpollFlags::EPOLLIN,
            Self::Writable => EpollFlags::EPOLLOUT,
            Self::Errors => EpollFlags::empty(),
        };
        EpollEvent::new(flags, token)
    }
}

/// A socket that is ready.
pub type Event = libc::epoll_event;

/// A set of sockets, each with a token.
#[derive(Debug)]
pub struct Epoll(NixEpoll);

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        Ok(Self(NixEpoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?))
    }

    /// Adds a socket.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(self.0.add(fd, interest.event(token))?)
    }

    /// Changes what is waited for at a socket.
    pub fn change(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(self.0.modify(fd, &mut interest.event(token))?)
    }

    /// Removes a socket.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(self.0.delete(fd)?)
    }

    /// Waits until something is ready, or the monotonic clock shows `until`. Says how many of
    /// `events` it has written. (nix waits for whole milliseconds.)
    pub fn wait(&self, events: &mut [Event], until: Nanos) -> io::Result<usize> {
        match raw::epoll_wait(self.0.0.as_fd(), events, until.saturating_sub(monotonic())) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            other => other,
        }
    }
}
