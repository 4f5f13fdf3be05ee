//! The system calls that neither the standard library nor nix nor socket2 has: the one module with
//! `unsafe` code. What it offers is safe to call with anything.
//!
//! nix has recvmmsg(2) and sendmmsg(2), too. But the first does not give control messages their
//! room back from call to call, and the second tells how many were sent by an iterator over
//! addresses that nobody has written.

#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::{Level, Nanos};

fn done(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Sets an option of a socket, whichever (setsockopt(2)).
pub(crate) fn set_option(fd: BorrowedFd<'_>, option: Level, value: &[u8]) -> io::Result<()> {
    let (pointer, length) = (value.as_ptr().cast(), value.len() as libc::socklen_t);
    // SAFETY: the kernel reads as many bytes as there are.
    done(unsafe { libc::setsockopt(fd.as_raw_fd(), option.0, option.1, pointer, length) })
        .map(|_| ())
}

/// Reads an option of a socket into `value` (getsockopt(2)).
pub(crate) fn get_option(fd: BorrowedFd<'_>, option: Level, value: &mut [u8]) -> io::Result<()> {
    let (pointer, mut length) = (value.as_mut_ptr().cast(), value.len() as libc::socklen_t);
    // The one option that reads addresses from what it is given, and writes there.
    if option == (libc::IPPROTO_TCP, libc::TCP_ZEROCOPY_RECEIVE) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: the kernel writes as many bytes as there is room for, and any bytes are a u8.
    done(unsafe { libc::getsockopt(fd.as_raw_fd(), option.0, option.1, pointer, &mut length) })
        .map(|_| ())
}

/// Binds a packet socket to all protocols on all devices (packet(7)).
pub(crate) fn bind_packets(fd: BorrowedFd<'_>) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: 0,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads an address that is as long as is said.
    done(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(&address).cast(), length) }).map(|_| ())
}

/// Dissolves a connection (connect(2) with `AF_UNSPEC`).
pub(crate) fn disconnect(fd: BorrowedFd<'_>) -> io::Result<()> {
    let address =
        libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    let length = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads an address that is as long as is said.
    done(unsafe { libc::connect(fd.as_raw_fd(), &raw const address, length) }).map(|_| ())
}

/// Waits for events for so long (epoll_pwait2(2), Linux 5.11); says how many it has written.
pub(crate) fn epoll_wait(
    epoll: BorrowedFd<'_>,
    events: &mut [libc::epoll_event],
    timeout: Nanos,
) -> io::Result<usize> {
    let timeout = libc::timespec {
        tv_sec: (timeout / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout % 1_000_000_000) as libc::c_long,
    };
    let (epoll, room) = (epoll.as_raw_fd(), events.len() as libc::c_int);
    // SAFETY: there is room for so many events; no signal mask is given.
    done(unsafe { libc::epoll_pwait2(epoll, events.as_mut_ptr(), room, &timeout, ptr::null()) })
}

/// Room for what the kernel says of a datagram, in words, so that it is aligned.
pub(crate) type ControlRoom = [u64; 16];
/// Room for an address: `struct sockaddr_storage`, in words.
pub(crate) type AddressRoom = [u64; 16];

/// Where a datagram goes that arrives.
#[derive(Clone, Copy, Default)]
pub(crate) struct Room {
    pub address: AddressRoom,
    pub control: ControlRoom,
    /// How many bytes of each the kernel has written, and of the datagram.
    pub address_length: usize,
    pub control_length: usize,
    pub length: usize,
}

const fn empty_header() -> libc::mmsghdr {
    // SAFETY: a mmsghdr is numbers and pointers, which may be null.
    unsafe { mem::zeroed() }
}

/// Takes what has arrived without waiting (recvmmsg(2)): each datagram into one piece of `bytes` of
/// `size` bytes, as far as there is one and a room for it; says how many.
pub(crate) fn receive_many(
    fd: BorrowedFd<'_>,
    (bytes, size): (&mut [u8], usize),
    rooms: &mut [Room],
) -> io::Result<usize> {
    let empty = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
    let mut vectors = vec![empty; rooms.len()];
    let mut headers = Vec::with_capacity(rooms.len());
    for ((piece, room), vector) in bytes.chunks_exact_mut(size).zip(&mut *rooms).zip(&mut vectors) {
        *vector = libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: size };
        let mut header = empty_header();
        header.msg_hdr.msg_name = ptr::from_mut(&mut room.address).cast();
        header.msg_hdr.msg_namelen = mem::size_of::<AddressRoom>() as libc::socklen_t;
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_control = ptr::from_mut(&mut room.control).cast();
        header.msg_hdr.msg_controllen = mem::size_of::<ControlRoom>();
        headers.push(header);
    }
    let (pointer, count) = (headers.as_mut_ptr(), headers.len() as libc::c_uint);
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: every header points to what is as long as it says, and outlives the call.
    let received =
        done(unsafe { libc::recvmmsg(fd.as_raw_fd(), pointer, count, flags, ptr::null_mut()) })?;
    for (room, header) in rooms.iter_mut().zip(&headers[..received]) {
        room.address_length = header.msg_hdr.msg_namelen as usize;
        room.control_length = header.msg_hdr.msg_controllen;
        room.length = header.msg_len as usize;
    }
    Ok(received)
}

/// Sends datagrams through a connected socket (sendmmsg(2)); says how many the kernel took.
pub(crate) fn send_many(fd: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    let header = |piece: &IoSlice<'_>| {
        let mut header = empty_header();
        // An IoSlice is an iovec, and the kernel only reads it.
        header.msg_hdr.msg_iov = ptr::from_ref(piece).cast_mut().cast();
        header.msg_hdr.msg_iovlen = 1;
        header
    };
    let mut headers: Vec<libc::mmsghdr> = pieces.iter().map(header).collect();
    let (pointer, count) = (headers.as_mut_ptr(), headers.len() as libc::c_uint);
    // SAFETY: so many headers are set, and point to what outlives the call and is only read.
    done(unsafe { libc::sendmmsg(fd.as_raw_fd(), pointer, count, 0) })
}

/// Whether the real-time clock is synchronised, and its largest error in microseconds
/// (adjtimex(2)).
pub(crate) fn clock_status() -> (bool, u64) {
    // SAFETY: a timex is numbers; with modes of zero the kernel only writes it.
    let (state, timex) = unsafe {
        let mut timex: libc::timex = mem::zeroed();
        (libc::adjtimex(&raw mut timex), timex)
    };
    let synchronized =
        (0..libc::TIME_ERROR).contains(&state) && timex.status & libc::STA_UNSYNC == 0;
    (synchronized, u64::try_from(timex.maxerror).unwrap_or(0))
}

/// `struct sched_attr` of sched_setattr(2), as first published.
#[repr(C)]
#[derive(Default)]
struct Scheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Sets how the calling thread is scheduled (sched_setattr(2)): with slices of so many nanoseconds
/// as others are, or in real time with a priority. Says whether it may.
pub(crate) fn set_scheduling(slice: Nanos, real_time: Option<u32>) -> bool {
    // SAFETY: takes numbers.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    let policy = if real_time.is_some() { libc::SCHED_FIFO } else { libc::SCHED_OTHER } as u32;
    let scheduling = Scheduling {
        size: mem::size_of::<Scheduling>() as u32,
        policy,
        nice: if real_time.is_some() { 0 } else { nice },
        priority: real_time.unwrap_or(0),
        runtime: if real_time.is_some() { 0 } else { slice },
        ..Scheduling::default()
    };
    // SAFETY: the kernel reads as much as the structure says that it has.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const scheduling, 0) == 0 }
}
