//! Sockets.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::SocketAddress;

/// A level and an option at it.
pub(crate) type Level = (libc::c_int, libc::c_int);

/// A socket that never blocks.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

fn done(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl Socket {
    /// A socket in the calling thread's network namespace, in which it stays.
    pub fn new(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<Self> {
        let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: takes numbers.
        let fd = unsafe { libc::socket(family, kind, protocol) };
        let fd = done(fd as libc::ssize_t)? as RawFd;
        // SAFETY: the kernel has just given it to us.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// A socket for an address of this family.
    pub fn like(address: SocketAddr, kind: libc::c_int, protocol: libc::c_int) -> io::Result<Self> {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        Self::new(family, kind, protocol)
    }

    /// Whether less than half of the send buffer is in use, or an error waits: when Linux wakes who
    /// sleeps for room (`sock_writeable`).
    pub fn is_writable(&self) -> bool {
        let mut asked = libc::pollfd { fd: self.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one structure, which lives until the call returns.
        unsafe { libc::poll(&raw mut asked, 1, 0) != 0 }
    }

    /// Sets an option to what the bytes of `value` say. Only for plain numbers and structures of
    /// them.
    pub fn set<T: Copy>(&self, (level, option): Level, value: T) -> io::Result<()> {
        let length = mem::size_of::<T>() as libc::socklen_t;
        let value = std::ptr::from_ref(&value).cast();
        // SAFETY: `value` is as long as is said, and only read.
        let result = unsafe { libc::setsockopt(self.as_raw_fd(), level, option, value, length) };
        done(result as libc::ssize_t).map(|_| ())
    }

    pub fn set_bytes(&self, (level, option): Level, value: &[u8]) -> io::Result<()> {
        let length = value.len() as libc::socklen_t;
        let value = value.as_ptr().cast();
        // SAFETY: `value` is as long as is said, and only read.
        let result = unsafe { libc::setsockopt(self.as_raw_fd(), level, option, value, length) };
        done(result as libc::ssize_t).map(|_| ())
    }

    pub fn get(&self, (level, option): Level) -> io::Result<u32> {
        let mut value = 0_u32;
        let mut length = mem::size_of_val(&value) as libc::socklen_t;
        let into = std::ptr::from_mut(&mut value).cast();
        // SAFETY: there is room for as many bytes as is said, and every one is a number.
        let result =
            unsafe { libc::getsockopt(self.as_raw_fd(), level, option, into, &mut length) };
        done(result as libc::ssize_t).map(|_| value)
    }

    /// What went wrong since this was last asked.
    pub fn take_error(&self) -> Option<io::Error> {
        match self.get((libc::SOL_SOCKET, libc::SO_ERROR)) {
            Ok(0) => None,
            Ok(code) => Some(io::Error::from_raw_os_error(code as i32)),
            Err(error) => Some(error),
        }
    }

    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let address = SocketAddress::from(address);
        let (pointer, length) = address.as_ptr();
        // SAFETY: the address is as long as is said.
        let result = unsafe { libc::bind(self.as_raw_fd(), pointer, length) };
        done(result as libc::ssize_t).map(|_| ())
    }

    /// Has a packet socket take every packet that comes in on any device; none that goes out, as far
    /// as the kernel knows how to leave them out (Linux 4.20).
    pub fn bind_packets(&self) -> io::Result<()> {
        // linux/if_packet.h.
        const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
        let _ = self.set((libc::SOL_PACKET, PACKET_IGNORE_OUTGOING), 1);
        // SAFETY: a sockaddr_ll is numbers, which may all be zero.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        let length = mem::size_of_val(&address) as libc::socklen_t;
        let address = std::ptr::from_ref(&address).cast();
        // SAFETY: the address is as long as is said.
        let result = unsafe { libc::bind(self.as_raw_fd(), address, length) };
        done(result as libc::ssize_t).map(|_| ())
    }

    /// How many packets a packet socket had no room for since this was last asked.
    pub fn take_packets_dropped(&self) -> u64 {
        let mut counts = [0_u32; 2]; // struct tpacket_stats: packets, drops
        let mut length = mem::size_of_val(&counts) as libc::socklen_t;
        let (level, option) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        let into = counts.as_mut_ptr().cast();
        // SAFETY: there is room for as many bytes as is said, and every one is a number.
        let result =
            unsafe { libc::getsockopt(self.as_raw_fd(), level, option, into, &mut length) };
        if result == 0 { counts[1].into() } else { 0 }
    }

    /// Begins to connect; it is writable when that is done.
    pub fn connect(&self, address: SocketAddr) -> io::Result<()> {
        let address = SocketAddress::from(address);
        let (pointer, length) = address.as_ptr();
        // SAFETY: the address is as long as is said.
        let result = unsafe { libc::connect(self.as_raw_fd(), pointer, length) };
        match done(result as libc::ssize_t) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    pub fn listen(&self, backlog: i32) -> io::Result<()> {
        // SAFETY: takes numbers.
        let result = unsafe { libc::listen(self.as_raw_fd(), backlog) };
        done(result as libc::ssize_t).map(|_| ())
    }

    /// The next connection that somebody made, and who.
    pub fn accept(&self) -> io::Result<(Self, Option<SocketAddr>)> {
        let mut from = SocketAddress::empty();
        let (pointer, length) = from.as_mut_ptr();
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: there is room for every address.
        let fd = unsafe { libc::accept4(self.as_raw_fd(), pointer, length, flags) };
        let fd = done(fd as libc::ssize_t)? as RawFd;
        // SAFETY: the kernel has just given it to us.
        Ok((Self(unsafe { OwnedFd::from_raw_fd(fd) }), from.get()))
    }

    /// Says that nothing more will be written.
    pub fn end(&self) {
        // SAFETY: takes numbers. That the other end is gone is no error of ours.
        unsafe { libc::shutdown(self.as_raw_fd(), libc::SHUT_WR) };
    }

    /// Writes to it from the beginning of a file, without a copy on the way (sendfile(2)).
    pub fn send_file(&self, file: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
        let mut offset = 0;
        // SAFETY: `offset` is a number to read and write.
        done(unsafe { libc::sendfile(self.as_raw_fd(), file.as_raw_fd(), &mut offset, bytes) })
    }

    /// Takes up to so many bytes of a stream and throws them away, without a copy (`MSG_TRUNC`,
    /// tcp(7)).
    pub fn discard(&self, bytes: usize) -> io::Result<usize> {
        // SAFETY: with MSG_TRUNC nothing is written to the null pointer of a TCP socket.
        done(unsafe { libc::recv(self.as_raw_fd(), std::ptr::null_mut(), bytes, libc::MSG_TRUNC) })
    }

    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        let to = SocketAddress::from(to);
        let (pointer, length) = to.as_ptr();
        let (data, size) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: both buffers are as long as is said, and only read.
        done(unsafe { libc::sendto(self.as_raw_fd(), data, size, 0, pointer, length) })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
