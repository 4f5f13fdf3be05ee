//! Waiting for many sockets at once (epoll(7)).

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::Nanos;
use super::clock::monotonic;

/// What a socket is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// That something is to be read.
    Readable,
    /// That something can be written.
    Writable,
    /// That something is wrong, and nothing else.
    Errors,
}

impl Interest {
    fn events(self) -> u32 {
        (match self {
            Self::Readable => libc::EPOLLIN,
            Self::Writable => libc::EPOLLOUT,
            Self::Errors => 0,
        }) as u32
    }
}

/// A socket that is ready.
pub(crate) type Event = libc::epoll_event;

/// A set of sockets, each with a token.
#[derive(Debug)]
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes flags; what it returns, if anything, is a file descriptor of ours.
        match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) })),
        }
    }

    fn control(
        &self,
        what: libc::c_int,
        fd: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let mut event = Event { events: interest.events(), u64: token };
        // SAFETY: both are open; `event` is valid.
        match unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd.as_raw_fd(), &mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    pub fn change(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::Errors)
    }

    /// Waits until something is ready, or the monotonic clock shows `until`. Says how many of
    /// `events` it has written.
    pub fn wait(&self, events: &mut [Event], until: Nanos) -> io::Result<usize> {
        let left = until.saturating_sub(monotonic());
        let timeout = libc::timespec {
            tv_sec: (left / 1_000_000_000) as libc::time_t,
            tv_nsec: (left % 1_000_000_000) as libc::c_long,
        };
        let room = events.len() as libc::c_int;
        // SAFETY: there is room for so many events; no signal mask is given.
        let ready = unsafe {
            libc::epoll_pwait2(
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                room,
                &timeout,
                std::ptr::null(),
            )
        };
        match ready {
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                error => Err(error),
            },
            ready => Ok(ready as usize),
        }
    }
}
