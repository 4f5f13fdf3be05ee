//! Readiness of many sockets (epoll(7)).

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::epoll::{Epoll as NixEpoll, EpollCreateFlags, EpollEvent, EpollFlags};

use crate::clock::monotonic;
use crate::{Nanos, raw};

/// Events to wait for at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data to read.
    Readable,
    /// Room to write.
    Writable,
    /// Data to read, and room to write.
    Both,
    /// Errors only.
    Errors,
}

impl Interest {
    fn event(self, token: u64) -> EpollEvent {
        let flags = match self {
            Self::Readable => EpollFlags::EPOLLIN,
            Self::Writable => EpollFlags::EPOLLOUT,
            Self::Both => EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT,
            Self::Errors => EpollFlags::empty(),
        };
        EpollEvent::new(flags, token)
    }
}

/// Readiness event of a socket.
pub type Event = libc::epoll_event;

/// Set of sockets, with a token for each.
#[derive(Debug)]
pub struct Epoll(NixEpoll);

impl Epoll {
    /// Returns an empty set.
    pub fn new() -> io::Result<Self> {
        Ok(Self(NixEpoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?))
    }

    /// Adds a socket.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(self.0.add(fd, interest.event(token))?)
    }

    /// Changes the events to wait for at a socket.
    pub fn change(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(self.0.modify(fd, &mut interest.event(token))?)
    }

    /// Removes a socket.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(self.0.delete(fd)?)
    }

    /// Waits until a socket is ready, or the monotonic clock reaches `until`. Returns the number of
    /// `events` that it has written. (The method of nix rounds to milliseconds.)
    pub fn wait(&self, events: &mut [Event], until: Nanos) -> io::Result<usize> {
        match raw::epoll_wait(self.0.0.as_fd(), events, until.saturating_sub(monotonic())) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            other => other,
        }
    }
}
