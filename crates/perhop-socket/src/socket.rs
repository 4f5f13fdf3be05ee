//! Non-blocking sockets.

use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::sendfile::sendfile;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrIn, SockaddrIn6, sendmsg};
use socket2::{Domain, Protocol, SockFilter, Type};

use crate::raw;

/// Level and name of a socket option.
pub type Level = (libc::c_int, libc::c_int);

/// Non-blocking socket.
#[derive(Debug)]
pub struct Socket(socket2::Socket);

impl Socket {
    /// Returns a socket in the network namespace of the calling thread, in which it stays.
    pub fn new(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<Self> {
        let (domain, kind) = (Domain::from(family), Type::from(kind).nonblocking());
        Ok(Self(socket2::Socket::new(domain, kind, Some(Protocol::from(protocol)))?))
    }

    /// Returns a socket of the family of an address.
    pub fn like(address: SocketAddr, kind: libc::c_int, protocol: libc::c_int) -> io::Result<Self> {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        Self::new(family, kind, protocol)
    }

    /// Returns whether less than half of the send buffer is in use, or an error is pending. That is
    /// the condition on which Linux wakes a writer (`sock_writeable`).
    pub fn is_writable(&self) -> bool {
        let mut asked = [PollFd::new(self.as_fd(), PollFlags::POLLOUT)];
        let _ = poll(&mut asked, PollTimeout::ZERO);
        // An error alone, such as that of an earlier attempt to connect, is no room to write.
        asked[0].revents().is_some_and(|ready| ready.contains(PollFlags::POLLOUT))
    }

    /// Sets an option to a number.
    pub fn set(&self, option: Level, value: libc::c_int) -> io::Result<()> {
        self.set_bytes(option, &value.to_ne_bytes())
    }

    /// Sets an option to bytes.
    pub fn set_bytes(&self, option: Level, value: &[u8]) -> io::Result<()> {
        raw::set_option(self.as_fd(), option, value)
    }

    /// Reads an option into `value`. Bytes that the kernel does not write stay as they are.
    pub fn get_bytes(&self, option: Level, value: &mut [u8]) -> io::Result<()> {
        raw::get_option(self.as_fd(), option, value)
    }

    /// Has the kernel drop packets that do not pass a filter.
    pub fn attach_filter(&self, program: &[SockFilter]) -> io::Result<()> {
        self.0.attach_filter(program)
    }

    /// Sets the DSCP and the ECN field of packets that it sends, as one octet (RFC 2474, RFC 3168).
    pub fn set_traffic_class(&self, like: IpAddr, octet: u8) -> io::Result<()> {
        match like {
            IpAddr::V4(_) => self.set((libc::IPPROTO_IP, libc::IP_TOS), octet.into()),
            IpAddr::V6(_) => self.set((libc::IPPROTO_IPV6, libc::IPV6_TCLASS), octet.into()),
        }
    }

    /// Has the kernel report the traffic class of each received packet.
    pub fn report_traffic_class(&self, like: IpAddr) -> io::Result<()> {
        match like {
            IpAddr::V4(_) => self.set((libc::IPPROTO_IP, libc::IP_RECVTOS), 1),
            IpAddr::V6(_) => self.set((libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS), 1),
        }
    }

    /// Has the kernel report the TTL or hop limit of each received packet.
    pub fn report_ttl(&self, like: IpAddr) -> io::Result<()> {
        match like {
            IpAddr::V4(_) => self.set((libc::IPPROTO_IP, libc::IP_RECVTTL), 1),
            IpAddr::V6(_) => self.set((libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT), 1),
        }
    }

    /// Has the kernel report the destination address of each received packet.
    pub fn report_destination(&self, like: IpAddr) -> io::Result<()> {
        match like {
            IpAddr::V4(_) => self.set((libc::IPPROTO_IP, libc::IP_PKTINFO), 1),
            IpAddr::V6(_) => self.set((libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO), 1),
        }
    }

    /// Sets the TTL or hop limit of packets that it sends.
    pub fn set_ttl(&self, like: IpAddr, ttl: u8) -> io::Result<()> {
        match like {
            IpAddr::V4(_) => self.set((libc::IPPROTO_IP, libc::IP_TTL), ttl.into()),
            IpAddr::V6(_) => self.set((libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS), ttl.into()),
        }
    }

    /// Has the kernel report the arrival time of each packet by the real-time clock.
    pub fn stamp_arrivals(&self) -> io::Result<()> {
        self.set((libc::SOL_SOCKET, libc::SO_TIMESTAMPNS), 1)
    }

    /// Sets the size of the send buffer in bytes, which the kernel doubles. With `CAP_NET_ADMIN` it
    /// may exceed the limit of the system.
    pub fn set_send_buffer(&self, bytes: u32) -> io::Result<()> {
        self.set_buffer(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, bytes)
    }

    /// Sets the size of the receive buffer in bytes, which the kernel doubles. With `CAP_NET_ADMIN`
    /// it may exceed the limit of the system.
    pub fn set_receive_buffer(&self, bytes: u32) -> io::Result<()> {
        self.set_buffer(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, bytes)
    }

    fn set_buffer(&self, force: libc::c_int, usual: libc::c_int, bytes: u32) -> io::Result<()> {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        self.set((libc::SOL_SOCKET, force), bytes)
            .or_else(|_| self.set((libc::SOL_SOCKET, usual), bytes))
    }

    /// Makes a raw ICMP socket accept only messages of these types (`ICMP_FILTER`, raw(7);
    /// `ICMP6_FILTER`, RFC 3542, section 3.2). In both bit maps of Linux, a one blocks a type.
    pub fn filter_icmp(&self, v6: bool, kinds: &[u8]) -> io::Result<()> {
        // linux/icmp.h and linux/icmpv6.h.
        const ICMP_FILTER: libc::c_int = 1;
        const ICMPV6_FILTER: libc::c_int = 1;
        let mut blocked = [u32::MAX; 8];
        for &kind in kinds {
            blocked[usize::from(kind / 32)] &= !(1 << (kind % 32));
        }
        let blocked = blocked.map(u32::to_ne_bytes);
        let blocked = blocked.as_flattened();
        match v6 {
            true => self.set_bytes((libc::IPPROTO_ICMPV6, ICMPV6_FILTER), blocked),
            false => self.set_bytes((libc::SOL_RAW, ICMP_FILTER), &blocked[..4]),
        }
    }

    /// Returns and clears the pending error (`SO_ERROR`).
    pub fn take_error(&self) -> Option<io::Error> {
        self.0.take_error().unwrap_or_else(Some)
    }

    /// Binds the socket to an address.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        self.0.bind(&address.into())
    }

    /// Makes a packet socket receive all incoming packets of all devices. Outgoing packets are left
    /// out if the kernel supports that (Linux 4.20).
    pub fn bind_packets(&self) -> io::Result<()> {
        // linux/if_packet.h.
        const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
        let _ = self.set((libc::SOL_PACKET, PACKET_IGNORE_OUTGOING), 1);
        raw::bind_packets(self.as_fd())
    }

    /// Returns the number of packets that a packet socket has dropped for lack of room since the
    /// last call.
    pub fn take_packets_dropped(&self) -> u64 {
        let mut counts = [0; 8]; // struct tpacket_stats: packets, drops
        let read = self.get_bytes((libc::SOL_PACKET, libc::PACKET_STATISTICS), &mut counts);
        let [.., a, b, c, d] = counts;
        read.map_or(0, |()| u32::from_ne_bytes([a, b, c, d]).into())
    }

    /// Returns the local address, and the address of the peer if the socket is connected.
    pub fn addresses(&self) -> io::Result<(SocketAddr, Option<SocketAddr>)> {
        let unknown = || io::Error::from(io::ErrorKind::Unsupported);
        let own = self.0.local_addr()?.as_socket().ok_or_else(unknown)?;
        Ok((own, self.0.peer_addr().ok().and_then(|peer| peer.as_socket())))
    }

    /// Aborts a connection: discards unsent data and sends a reset (connect(2) with `AF_UNSPEC`).
    pub fn abort(&self) {
        // A connection that has already ended is no error.
        let _ = raw::disconnect(self.as_fd());
    }

    /// Begins to connect. The socket is writable when that has finished.
    pub fn connect(&self, address: SocketAddr) -> io::Result<()> {
        match self.0.connect(&address.into()) {
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
            other => other,
        }
    }

    /// Listens for connections, of which `backlog` may wait to be accepted.
    pub fn listen(&self, backlog: i32) -> io::Result<()> {
        self.0.listen(backlog)
    }

    /// Accepts the next connection. Returns it with the address of the peer.
    pub fn accept(&self) -> io::Result<(Self, Option<SocketAddr>)> {
        let (socket, from) = self.0.accept4(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)?;
        Ok((Self(socket), from.as_socket()))
    }

    /// Shuts down the sending direction.
    pub fn end(&self) {
        // A peer that has already closed is no error.
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Writes from the beginning of a file, without copying (sendfile(2)). Returns the number of
    /// bytes.
    pub fn send_file(&self, file: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
        Ok(sendfile(self, file, Some(&mut 0), bytes)?)
    }

    /// Discards up to `room.len()` bytes of a TCP stream without copying (`MSG_TRUNC`, tcp(7));
    /// `room` is not written. Returns the number of bytes.
    pub fn discard(&self, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        self.0.recv_with_flags(room, libc::MSG_TRUNC)
    }

    /// Sends a datagram from one of this host's addresses, with its own DSCP and ECN field.
    pub fn send_from(
        &self,
        bytes: &[u8],
        from: Option<IpAddr>,
        to: SocketAddr,
        class: u8,
    ) -> io::Result<usize> {
        let pieces = [IoSlice::new(bytes)];
        let (fd, flags) = (self.as_raw_fd(), MsgFlags::empty());
        let wide = libc::c_int::from(class);
        let sent = match to {
            SocketAddr::V4(to) => {
                let to = SockaddrIn::from(to);
                let class = ControlMessage::Ipv4Tos(&class);
                match from {
                    Some(IpAddr::V4(from)) => {
                        let from = libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) };
                        let any = libc::in_addr { s_addr: 0 };
                        let from =
                            libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: from, ipi_addr: any };
                        let from = ControlMessage::Ipv4PacketInfo(&from);
                        sendmsg(fd, &pieces, &[class, from], flags, Some(&to))
                    }
                    _ => sendmsg(fd, &pieces, &[class], flags, Some(&to)),
                }
            }
            SocketAddr::V6(to) => {
                let to = SockaddrIn6::from(to);
                let class = ControlMessage::Ipv6TClass(&wide);
                match from {
                    Some(IpAddr::V6(from)) => {
                        let from = libc::in6_addr { s6_addr: from.octets() };
                        let from = libc::in6_pktinfo { ipi6_addr: from, ipi6_ifindex: 0 };
                        let from = ControlMessage::Ipv6PacketInfo(&from);
                        sendmsg(fd, &pieces, &[class, from], flags, Some(&to))
                    }
                    _ => sendmsg(fd, &pieces, &[class], flags, Some(&to)),
                }
            }
        };
        Ok(sent?)
    }

    /// Returns the local address and port.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        let address = self.0.local_addr()?;
        address.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    /// Sends a datagram through a connected socket, or as much of a stream as fits. Returns the
    /// number of bytes.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)
    }

    /// Writes as much of a stream as fits. With `more`, the kernel keeps the rest of a segment
    /// until more is written. Returns the number of bytes.
    pub fn write(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        let flags = if more { libc::MSG_MORE } else { 0 };
        self.0.send_with_flags(bytes, flags)
    }

    /// Reads data of a stream that has arrived, or a datagram of a connected socket. Returns the
    /// number of bytes.
    pub fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(room)
    }

    /// Sends a datagram.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.0.send_to(bytes, &to.into())
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn an_error_is_no_room_to_write() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let socket = Socket::like(at, libc::SOCK_STREAM, 0).unwrap();
        // The time stamps of sent packets lie in the error queue, which poll(2) reports.
        let stamps = libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        let level = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        socket.set(level, stamps as libc::c_int).unwrap();
        socket.connect(at).unwrap();
        let _other = listener.accept().unwrap();
        assert!(socket.is_writable());
        while socket.send(&[0; 65_536]).is_ok() {}
        let mut asked = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
        assert_eq!(poll(&mut asked, PollTimeout::ZERO), Ok(1));
        assert_eq!(asked[0].revents(), Some(PollFlags::POLLERR));
        assert!(!socket.is_writable());
    }
}
