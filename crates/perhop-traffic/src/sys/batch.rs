//! Many datagrams in one system call, with what the kernel says of each (recvmmsg(2), sendmmsg(2);
//! udp(7): `UDP_SEGMENT`, `UDP_GRO`).

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::ptr;

use super::{Nanos, Socket, SocketAddress};

/// Room for what the kernel says of a datagram, in words, so that it is aligned.
type ControlRoom = [u64; 16];

/// What the kernel says of a datagram, as far as it was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    /// When it arrived, by the real-time clock.
    pub stamp: Option<Nanos>,
    /// Its type of service or traffic class: DSCP and ECN.
    pub traffic_class: Option<u8>,
    /// Datagrams of how many bytes it consists of; the last may be shorter.
    pub segment: Option<usize>,
}

/// A datagram that has arrived, or several of the same sender's, one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    pub bytes: &'a [u8],
    pub from: Option<SocketAddr>,
    pub control: Control,
}

/// Room for datagrams that arrive.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    size: usize,
    addresses: Vec<SocketAddress>,
    controls: Vec<ControlRoom>,
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
}

// SAFETY: the pointers inside are to the vectors beside them, set anew before every use.
unsafe impl Send for Batch {}

const fn empty_header() -> libc::mmsghdr {
    // SAFETY: a mmsghdr is numbers and pointers, which may be null.
    unsafe { mem::zeroed() }
}

impl Batch {
    /// Room for `count` datagrams of `size` bytes.
    pub fn new(count: usize, size: usize) -> Self {
        let nowhere = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self {
            bytes: vec![0; count * size],
            size,
            addresses: vec![SocketAddress::empty(); count],
            controls: vec![ControlRoom::default(); count],
            headers: (0..count).map(|_| empty_header()).collect(),
            vectors: vec![nowhere; count],
        }
    }

    /// Takes what has arrived, as far as there is room. Says how many datagrams that were.
    pub fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        for (number, header) in self.headers.iter_mut().enumerate() {
            self.addresses[number] = SocketAddress::empty();
            let base = self.bytes[number * self.size..].as_mut_ptr();
            self.vectors[number] = libc::iovec { iov_base: base.cast(), iov_len: self.size };
            let (address, length) = self.addresses[number].as_mut_ptr();
            let header = &mut header.msg_hdr;
            header.msg_name = address.cast();
            header.msg_namelen = *length;
            header.msg_iov = &mut self.vectors[number];
            header.msg_iovlen = 1;
            header.msg_control = ptr::from_mut(&mut self.controls[number]).cast();
            header.msg_controllen = mem::size_of::<ControlRoom>();
            header.msg_flags = 0;
        }
        let count = self.headers.len() as libc::c_uint;
        // SAFETY: every header points to what is as long as it says, and outlives the call.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count,
                libc::MSG_DONTWAIT | libc::MSG_TRUNC,
                ptr::null_mut(),
            )
        };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// One of those that came last.
    pub fn get(&self, number: usize) -> Datagram<'_> {
        let header = &self.headers[number];
        let kept = (header.msg_len as usize).min(self.size);
        let bytes = &self.bytes[number * self.size..][..kept];
        let from =
            if header.msg_hdr.msg_namelen == 0 { None } else { self.addresses[number].get() };
        Datagram { bytes, from, control: control(&header.msg_hdr) }
    }
}

fn control(header: &libc::msghdr) -> Control {
    let mut control = Control::default();
    // SAFETY: the kernel has written messages into the room that the header points to, and how much
    // of it they take; these functions stay inside. What is read is as long as the kernel makes it
    // for its kind, and read without regard to alignment.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(head) = message.as_ref() {
            let data = libc::CMSG_DATA(message);
            match (head.cmsg_level, head.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let stamp = data.cast::<libc::timespec>().read_unaligned();
                    control.stamp =
                        Some(stamp.tv_sec as u64 * 1_000_000_000 + stamp.tv_nsec as u64);
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => control.traffic_class = Some(data.read()),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    control.traffic_class = Some(data.cast::<libc::c_int>().read_unaligned() as u8);
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let size = data.cast::<libc::c_int>().read_unaligned();
                    control.segment = usize::try_from(size).ok().filter(|&size| size > 0);
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    control
}

/// How many datagrams the kernel takes as one (`UDP_MAX_SEGMENTS` of before Linux 6.9).
const MAX_SEGMENTS: usize = 64;
/// How many bytes it takes as one, headers included.
const MAX_BYTES: usize = 65_000;

/// Datagrams to be sent one behind the other.
#[derive(Debug)]
pub(crate) struct Train {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Train {
    /// No datagrams yet.
    pub fn new() -> Self {
        Self { bytes: Vec::with_capacity(1 << 16), ends: Vec::with_capacity(MAX_SEGMENTS) }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Whether another one of `size` bytes finds room.
    pub fn has_room(&self, size: usize) -> bool {
        self.len() == 0 || (self.len() < MAX_SEGMENTS && self.bytes.len() + size <= MAX_BYTES)
    }

    /// Adds one of `size` bytes, which begins with `head`.
    pub fn push(&mut self, head: &[u8], size: usize) {
        let start = self.bytes.len();
        self.bytes.resize(start + size, 0);
        let kept = head.len().min(size);
        self.bytes[start..][..kept].copy_from_slice(&head[..kept]);
        self.ends.push(self.bytes.len());
    }

    /// Their size, if they are equal, but for the last, which may be shorter.
    fn segment(&self) -> Option<u16> {
        let size = *self.ends.first()?;
        let (last, others) = self.ends.split_last()?;
        let equal = others.iter().enumerate().all(|(number, &end)| end == size * (number + 1));
        (equal && last - size * others.len() <= size).then(|| u16::try_from(size).ok())?
    }

    /// Sends those from the first `skip` on through a connected socket, as one if they are alike
    /// and `segmented`. Says how many the kernel took.
    pub fn send(&self, socket: &Socket, skip: usize, segmented: bool) -> io::Result<usize> {
        match self.segment() {
            Some(size) if segmented && skip == 0 && self.len() > 1 => {
                self.send_segmented(socket, size).map(|()| self.len())
            }
            _ => self.send_each(socket, skip),
        }
    }

    fn send_segmented(&self, socket: &Socket, size: u16) -> io::Result<()> {
        let mut vector = libc::iovec {
            iov_base: self.bytes.as_ptr().cast_mut().cast(),
            iov_len: self.bytes.len(),
        };
        let mut room = ControlRoom::default();
        let mut header = empty_header().msg_hdr;
        header.msg_iov = &mut vector;
        header.msg_iovlen = 1;
        header.msg_control = ptr::from_mut(&mut room).cast();
        // SAFETY: the room is larger than one message with a u16 and aligned, so that the first
        // header lies in it; the kernel only reads what the vector points to.
        let sent = unsafe {
            header.msg_controllen = libc::CMSG_SPACE(mem::size_of::<u16>() as u32) as usize;
            let message = &mut *libc::CMSG_FIRSTHDR(&header);
            message.cmsg_level = libc::SOL_UDP;
            message.cmsg_type = libc::UDP_SEGMENT;
            message.cmsg_len = libc::CMSG_LEN(mem::size_of::<u16>() as u32) as usize;
            libc::CMSG_DATA(message).cast::<u16>().write_unaligned(size);
            libc::sendmsg(socket.as_raw_fd(), &header, 0)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn send_each(&self, socket: &Socket, skip: usize) -> io::Result<usize> {
        let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MAX_SEGMENTS];
        let mut headers = [const { empty_header() }; MAX_SEGMENTS];
        let mut start = if skip == 0 { 0 } else { self.ends[skip - 1] };
        let mut count = 0;
        for &end in &self.ends[skip..] {
            let bytes = &self.bytes[start..end];
            vectors[count] =
                libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            headers[count].msg_hdr.msg_iov = &mut vectors[count];
            headers[count].msg_hdr.msg_iovlen = 1;
            start = end;
            count += 1;
        }
        let messages = headers.as_mut_ptr();
        // SAFETY: so many headers are set, and point to what outlives the call and is only read.
        let sent =
            unsafe { libc::sendmmsg(socket.as_raw_fd(), messages, count as libc::c_uint, 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}
