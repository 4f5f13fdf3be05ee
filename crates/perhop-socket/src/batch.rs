//! Batches of datagrams in one system call, with their control messages (recvmmsg(2), sendmmsg(2);
//! udp(7): `UDP_SEGMENT`, `UDP_GRO`).

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use crate::clock::with_clock_error;
use crate::raw::{Room, receive_many, send_many};
use crate::{Nanos, Socket};

/// Control data of a datagram. A field is `None` unless the socket has its option set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Time of arrival by the real-time clock, in nanoseconds.
    pub stamp: Option<Nanos>,
    /// Type of service or traffic class octet: DSCP and ECN.
    pub traffic_class: Option<u8>,
    /// Size in bytes of the datagrams that the kernel has merged into it (GRO); the last may be
    /// shorter.
    pub segment: Option<usize>,
    /// TTL or hop limit.
    pub ttl: Option<u8>,
    /// Destination address.
    pub to: Option<IpAddr>,
}

/// A received datagram, or several of one sender that the kernel has merged (GRO).
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Payload.
    pub bytes: &'a [u8],
    /// Address of the sender.
    pub from: Option<SocketAddr>,
    /// Control data from the kernel.
    pub control: Control,
}

/// Buffers for received datagrams.
pub struct Batch {
    bytes: Vec<u8>,
    size: usize,
    rooms: Vec<Room>,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rooms = self.rooms.len();
        f.debug_struct("Batch").field("rooms", &rooms).field("size", &self.size).finish()
    }
}

impl Batch {
    /// Returns buffers for `count` datagrams of `size` bytes.
    pub fn new(count: usize, size: usize) -> Self {
        Self { bytes: vec![0; count * size], size, rooms: vec![Room::default(); count] }
    }

    /// Receives the datagrams that have arrived, at most one per buffer, and returns their number.
    pub fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        receive_many(socket.as_fd(), (&mut self.bytes, self.size), &mut self.rooms)
    }

    /// Returns a datagram of the last call of [`receive`](Self::receive).
    pub fn get(&self, number: usize) -> Datagram<'_> {
        let room = &self.rooms[number];
        let bytes = &self.bytes[number * self.size..][..room.length.min(self.size)];
        let (address, control) = (octets(&room.address), octets(&room.control));
        Datagram {
            bytes,
            from: address.get(..room.address_length).and_then(address_of),
            control: control.get(..room.control_length).map_or_else(Control::default, control_of),
        }
    }
}

/// Returns the bytes of words in their order in memory.
fn octets(words: &[u64; 16]) -> [u8; 128] {
    let mut bytes = [0; 128];
    bytes.copy_from_slice(words.map(u64::to_ne_bytes).as_flattened());
    bytes
}

/// Returns the `N` bytes at an offset, or `None` if there are fewer.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Returns the address in a `struct sockaddr_in` or `sockaddr_in6`, or `None` if the family is
/// another one or the structure is truncated.
fn address_of(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(number(bytes, 2)?);
    let ip: IpAddr = match i32::from(u16::from_ne_bytes(number(bytes, 0)?)) {
        libc::AF_INET => Ipv4Addr::from(number::<4>(bytes, 4)?).into(),
        libc::AF_INET6 => Ipv6Addr::from(number::<16>(bytes, 8)?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Parses control messages (cmsg(3)). Each has a `struct cmsghdr` before its data, and is aligned
/// to a word.
fn control_of(mut bytes: &[u8]) -> Control {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    let mut control = Control::default();
    while let (Some(length), Some(level), Some(kind)) =
        (number(bytes, 0), number(bytes, HEADER - 8), number(bytes, HEADER - 4))
    {
        let length = usize::from_ne_bytes(length);
        let Some(data) = bytes.get(HEADER..length) else { break };
        let int = || number(data, 0).map(libc::c_int::from_ne_bytes);
        match (libc::c_int::from_ne_bytes(level), libc::c_int::from_ne_bytes(kind)) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                let part = |at| number(data, at).map(u64::from_ne_bytes);
                if let (Some(seconds), Some(nanos)) = (part(0), part(8)) {
                    let stamp = seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos);
                    control.stamp = Some(with_clock_error(stamp));
                }
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => control.traffic_class = data.first().copied(),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                control.traffic_class = int().map(|class| class as u8);
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                control.ttl = int().and_then(|ttl| u8::try_from(ttl).ok());
            }
            // `struct in_pktinfo`: the interface, the address to answer from, the destination.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                control.to = number::<4>(data, 4).map(|octets| Ipv4Addr::from(octets).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                control.to = number::<16>(data, 0).map(|octets| Ipv6Addr::from(octets).into());
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let size = int().and_then(|size| usize::try_from(size).ok());
                control.segment = size.filter(|&size| size > 0);
            }
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
    }
    control
}

/// Greatest number of datagrams in one segmented send (`UDP_MAX_SEGMENTS` before Linux 6.9).
const MAX_SEGMENTS: usize = 64;
/// Greatest number of bytes in one segmented send, headers included.
const MAX_BYTES: usize = 65_000;

/// A train of datagrams to send back to back.
#[derive(Debug, Default)]
pub struct Train {
    bytes: Vec<u8>,
    /// End offsets of the datagrams.
    ends: Vec<usize>,
}

impl Train {
    /// Returns an empty train.
    pub fn new() -> Self {
        Self { bytes: Vec::with_capacity(1 << 16), ends: Vec::with_capacity(MAX_SEGMENTS) }
    }

    /// Returns the number of datagrams.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the total size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the train is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Removes all datagrams.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Returns whether a datagram of `size` bytes fits.
    pub fn has_room(&self, size: usize) -> bool {
        self.is_empty() || (self.len() < MAX_SEGMENTS && self.bytes.len() + size <= MAX_BYTES)
    }

    /// Adds a datagram of `size` bytes that begins with `head`.
    pub fn push(&mut self, head: &[u8], size: usize) {
        let start = self.bytes.len();
        self.bytes.resize(start + size, 0);
        let kept = head.len().min(size);
        self.bytes[start..][..kept].copy_from_slice(&head[..kept]);
        self.ends.push(self.bytes.len());
    }

    /// Returns the common size of the datagrams, if they have one; the last may be shorter.
    fn segment(&self) -> Option<u16> {
        let size = *self.ends.first()?;
        let (last, others) = self.ends.split_last()?;
        let equal = others.iter().enumerate().all(|(number, &end)| end == size * (number + 1));
        (equal && last - size * others.len() <= size).then(|| u16::try_from(size).ok())?
    }

    /// Sends the datagrams after the first `skip` through a connected socket: in one segmented send
    /// if `segmented` is set and their sizes are equal. Returns the number of datagrams that the
    /// kernel accepted.
    pub fn send(&self, socket: &Socket, skip: usize, segmented: bool) -> io::Result<usize> {
        match self.segment() {
            Some(size) if segmented && skip == 0 && self.len() > 1 => {
                self.send_segmented(socket, size).map(|()| self.len())
            }
            _ => self.send_each(socket, skip),
        }
    }

    fn send_segmented(&self, socket: &Socket, size: u16) -> io::Result<()> {
        let (pieces, control) =
            ([IoSlice::new(&self.bytes)], [ControlMessage::UdpGsoSegments(&size)]);
        sendmsg::<()>(socket.as_raw_fd(), &pieces, &control, MsgFlags::empty(), None)?;
        Ok(())
    }

    fn send_each(&self, socket: &Socket, skip: usize) -> io::Result<usize> {
        let mut start = if skip == 0 { 0 } else { self.ends[skip - 1] };
        let piece = |&end: &usize| {
            let piece = IoSlice::new(&self.bytes[start..end]);
            start = end;
            piece
        };
        let pieces: Vec<IoSlice<'_>> = self.ends[skip..].iter().map(piece).collect();
        send_many(socket.as_fd(), &pieces)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use perhop_fuzz::fuzz;

    use super::*;

    /// Returns a control message as cmsg(3) lays it out.
    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (16 + data.len()).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&level.to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    fn messages() -> Vec<u8> {
        let stamp = [7_u64.to_ne_bytes(), 9_u64.to_ne_bytes()].concat();
        let class = message(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &0xb8_i32.to_ne_bytes());
        let segment = message(libc::SOL_UDP, libc::UDP_GRO, &1400_i32.to_ne_bytes());
        let ttl = message(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &61_i32.to_ne_bytes());
        let to = message(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &[1; 20]);
        [message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &stamp), class, segment, ttl, to].concat()
    }

    #[test]
    fn control_messages_are_read() {
        let stamp = Some(7_000_000_009);
        let to = Some(Ipv6Addr::from([1; 16]).into());
        let (traffic_class, segment, ttl) = (Some(0xb8), Some(1400), Some(61));
        let expected = Control { stamp, traffic_class, segment, ttl, to };
        assert_eq!(control_of(&messages()), expected);
        let four =
            message(libc::IPPROTO_IP, libc::IP_PKTINFO, &[0, 0, 0, 1, 10, 0, 0, 1, 9, 9, 9, 9]);
        assert_eq!(control_of(&four).to, Some(Ipv4Addr::new(10, 0, 0, 1).into()));
        let class = message(libc::IPPROTO_IP, libc::IP_TOS, &[0x28]);
        assert_eq!(control_of(&class).traffic_class, Some(0x28));
    }

    #[test]
    fn fuzz_control_messages() {
        fuzz("control messages", &[messages()], |bytes| {
            let _ = address_of(bytes);
            control_of(bytes) != Control::default()
        });
    }

    /// Control data of datagrams that were sent one by one, and in one segmented send.
    #[test]
    fn datagrams_arrive_as_they_were_sent() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            // Without IPv6 there is nothing to test.
            let Ok(probe) = UdpSocket::bind(at) else { continue };
            let to = probe.local_addr().unwrap();
            drop(probe);
            let receiver = Socket::like(to, libc::SOCK_DGRAM, 0).unwrap();
            receiver.set((libc::SOL_SOCKET, libc::SO_TIMESTAMPNS), 1).unwrap();
            receiver.bind(to).unwrap();
            let sender = Socket::like(to, libc::SOCK_DGRAM, 0).unwrap();
            let from = SocketAddr::new(to.ip(), 0);
            sender.bind(from).unwrap();
            sender.connect(to).unwrap();
            let mut train = Train::new();
            for (number, size) in [(1, 30), (2, 30), (3, 20)] {
                train.push(&[number; 4], size);
            }
            assert_eq!(train.send(&sender, 0, true).unwrap(), 3);
            assert_eq!(train.send(&sender, 1, false).unwrap(), 2);
            let (mut batch, mut seen) = (Batch::new(2, 25), Vec::new());
            let patience = Instant::now() + Duration::from_secs(5);
            while seen.len() < 5 && Instant::now() < patience {
                for number in 0..batch.receive(&receiver).unwrap_or(0) {
                    let datagram = batch.get(number);
                    assert_eq!(datagram.from.map(|from| from.ip()), Some(to.ip()));
                    assert!(datagram.control.stamp.is_some());
                    seen.push((datagram.bytes[0], datagram.bytes.len()));
                }
            }
            // No more than there are buffers.
            assert_eq!(seen, [(1, 25), (2, 25), (3, 20), (2, 25), (3, 20)]);
        }
    }
}
