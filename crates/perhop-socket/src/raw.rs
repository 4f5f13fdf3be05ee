//! System calls that the standard library, nix and socket2 lack: the only module with `unsafe`
//! code. Its functions are safe for any arguments.
//!
//! nix has recvmmsg(2) and sendmmsg(2), too. But the first does not restore the size of the control
//! buffers between calls, and the second reports the number of sent messages by an iterator over
//! uninitialised addresses.

#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::{Level, Nanos};

fn done(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Returns unpredictable bytes, at most 256 (getrandom(2)). It needs no device, which a root folder
/// of one file lacks.
///
/// # Errors
/// If the kernel lacks the system call.
pub fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    const { assert!(N <= 256, "more may be interrupted") };
    let mut bytes = [0; N];
    // SAFETY: the kernel writes at most `N` bytes of `bytes`, and any byte is a valid u8.
    match unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) } {
        written if usize::try_from(written).is_ok_and(|written| written == N) => Ok(bytes),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets an option of a socket (setsockopt(2)).
pub(crate) fn set_option(fd: BorrowedFd<'_>, option: Level, value: &[u8]) -> io::Result<()> {
    let (pointer, length) = (value.as_ptr().cast(), value.len() as libc::socklen_t);
    // SAFETY: the kernel reads `value.len()` bytes of `value`.
    done(unsafe { libc::setsockopt(fd.as_raw_fd(), option.0, option.1, pointer, length) })
        .map(|_| ())
}

/// Reads an option of a socket into `value` (getsockopt(2)).
pub(crate) fn get_option(fd: BorrowedFd<'_>, option: Level, value: &mut [u8]) -> io::Result<()> {
    let (pointer, mut length) = (value.as_mut_ptr().cast(), value.len() as libc::socklen_t);
    // The only option that reads pointers from the buffer and writes to them.
    if option == (libc::IPPROTO_TCP, libc::TCP_ZEROCOPY_RECEIVE) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: the kernel writes at most `value.len()` bytes, and any byte is a valid u8.
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
    // SAFETY: the length that is passed is that of the address.
    done(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(&address).cast(), length) }).map(|_| ())
}

/// Dissolves a connection (connect(2) with `AF_UNSPEC`).
pub(crate) fn disconnect(fd: BorrowedFd<'_>) -> io::Result<()> {
    let address =
        libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    let length = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the length that is passed is that of the address.
    done(unsafe { libc::connect(fd.as_raw_fd(), &raw const address, length) }).map(|_| ())
}

/// Waits for events for a given time (epoll_pwait2(2), Linux 5.11); returns the number of events.
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
    // SAFETY: the count that is passed is at most the length of `events`; no signal mask is given.
    done(unsafe { libc::epoll_pwait2(epoll, events.as_mut_ptr(), room, &timeout, ptr::null()) })
}

/// Buffer for the control messages of a datagram, in words for alignment.
pub(crate) type ControlRoom = [u64; 16];
/// Buffer for an address: `struct sockaddr_storage`, in words.
pub(crate) type AddressRoom = [u64; 16];

/// Buffers for a received datagram.
#[derive(Clone, Copy, Default)]
pub(crate) struct Room {
    pub address: AddressRoom,
    pub control: ControlRoom,
    /// Bytes that the kernel has written to each buffer, and of the datagram.
    pub address_length: usize,
    pub control_length: usize,
    pub length: usize,
}

const fn empty_header() -> libc::mmsghdr {
    // SAFETY: a mmsghdr has numbers and pointers, which may be zero.
    unsafe { mem::zeroed() }
}

/// Receives datagrams that have arrived, without blocking (recvmmsg(2)). Each takes one chunk of
/// `bytes` of `size` bytes and one of the other buffers. Returns the number of datagrams.
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
    // SAFETY: every header points to buffers of the stated lengths that outlive the call.
    let received =
        done(unsafe { libc::recvmmsg(fd.as_raw_fd(), pointer, count, flags, ptr::null_mut()) })?;
    for (room, header) in rooms.iter_mut().zip(&headers[..received]) {
        room.address_length = header.msg_hdr.msg_namelen as usize;
        room.control_length = header.msg_hdr.msg_controllen;
        room.length = header.msg_len as usize;
    }
    Ok(received)
}

/// Sends datagrams through a connected socket (sendmmsg(2)); returns the number that the kernel
/// accepted.
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
    // SAFETY: the headers that are passed are initialised, and point to buffers that outlive the
    // call and are only read.
    done(unsafe { libc::sendmmsg(fd.as_raw_fd(), pointer, count, 0) })
}

/// Returns whether the real-time clock is synchronised, and its maximum and its estimated error in
/// microseconds (adjtimex(2)).
pub(crate) fn clock_status() -> (bool, [u64; 2]) {
    // SAFETY: a timex has only numbers; with modes of zero the kernel only writes it.
    let (state, timex) = unsafe {
        let mut timex: libc::timex = mem::zeroed();
        (libc::adjtimex(&raw mut timex), timex)
    };
    let synchronized =
        (0..libc::TIME_ERROR).contains(&state) && timex.status & libc::STA_UNSYNC == 0;
    let errors = [timex.maxerror, timex.esterror].map(|error| u64::try_from(error).unwrap_or(0));
    (synchronized, errors)
}

/// `struct sched_attr` of sched_setattr(2), in its first version.
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

/// Sets the scheduling of the calling thread (sched_setattr(2)): the default policy with time
/// slices of `slice` nanoseconds, or real time with a priority. Returns false if the kernel refuses
/// it.
pub(crate) fn set_scheduling(slice: Nanos, real_time: Option<u32>) -> bool {
    // SAFETY: the arguments are numbers.
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
    // SAFETY: the kernel reads as many bytes as the field `size` of the structure states.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const scheduling, 0) == 0 }
}
