//! Requests by netlink(7), in the namespace of the calling thread: addresses, routes and queues
//! (rtnetlink(7)), and dumps.
//!
//! These are a few kinds of messages; to run `ip` or `tc` instead would take a thousand times as
//! long, and require these programs.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

const HEADER: usize = 16;
/// A metric of routes, linux/rtnetlink.h.
const RTAX_CC_ALGO: u16 = 16;

/// Sets the length of a device's queue, in packets. (The ioctl for it needs privileges outside of
/// user namespaces.)
///
/// # Errors
/// Those of the kernel.
pub(crate) fn set_queue_length(device: u32, packets: u32) -> io::Result<()> {
    // struct ifinfomsg: family, padding, type, device, flags, and the mask of changed flags.
    let mut body = vec![0; 4];
    body.extend_from_slice(&device.to_ne_bytes());
    body.extend_from_slice(&[0; 8]);
    attribute(&mut body, libc::IFLA_TXQLEN, &packets.to_ne_bytes());
    request(libc::RTM_SETLINK, &body)
}

/// Adds an address to a device, with a prefix that contains only the address.
///
/// # Errors
/// Those of the kernel.
pub(crate) fn add_address(device: u32, address: IpAddr) -> io::Result<()> {
    // struct ifaddrmsg: family, prefix, flags, scope, device.
    let mut body = vec![family(address), prefix(address), 0, 0];
    body.extend_from_slice(&device.to_ne_bytes());
    let octets = octets(address);
    attribute(&mut body, libc::IFA_LOCAL, &octets);
    attribute(&mut body, libc::IFA_ADDRESS, &octets);
    // The address is unique, so that duplicate detection is not needed (RFC 4862, section 5.4).
    attribute(&mut body, libc::IFA_FLAGS, &libc::IFA_F_NODAD.to_ne_bytes());
    request(libc::RTM_NEWADDR, &body)
}

/// Adds a route through a device to the addresses that begin with a prefix, with the congestion
/// control `control` for TCP. (A namespace's default, `tcp_congestion_control`, must be one that
/// this machine permits to all users; a route's may be any.)
///
/// # Errors
/// Those of the kernel.
pub(crate) fn add_route(
    device: u32,
    (to, length): (IpAddr, u8),
    control: Option<&str>,
) -> io::Result<()> {
    // struct rtmsg: family, lengths of prefixes, type of service, table, origin, scope, kind,
    // flags.
    let (table, origin) = (libc::RT_TABLE_MAIN, libc::RTPROT_STATIC);
    let (scope, kind) = (libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST);
    let mut body = vec![family(to), length, 0, 0, table, origin, scope, kind, 0, 0, 0, 0];
    if length > 0 {
        attribute(&mut body, libc::RTA_DST, &octets(to));
    }
    attribute(&mut body, libc::RTA_OIF, &device.to_ne_bytes());
    if let Some(control) = control {
        let mut metrics = Vec::new();
        attribute(&mut metrics, RTAX_CC_ALGO, &[control.as_bytes(), &[0]].concat());
        attribute(&mut body, libc::RTA_METRICS, &metrics);
    }
    request(libc::RTM_NEWROUTE, &body)
}

fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

fn prefix(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub(crate) fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Opens a socket for requests about the namespace of the calling thread; any thread may use it.
///
/// # Errors
/// Those of the kernel.
pub(crate) fn open(protocol: SockProtocol) -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?)
}

/// Sends a request to create an object.
fn request(kind: u16, body: &[u8]) -> io::Result<()> {
    ask(&open(SockProtocol::NetlinkRoute)?, kind, libc::NLM_F_CREATE | libc::NLM_F_EXCL, body)
}

/// Sends a request, and waits for the acknowledgement.
///
/// # Errors
/// Those of the kernel.
pub(crate) fn ask(socket: &OwnedFd, kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<()> {
    send_request(socket, kind, libc::NLM_F_ACK | flags, body)?;
    let mut answer = [0; 1024];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let Some(&[.., a, b, c, d]) = answer[..length].first_chunk::<{ HEADER + 4 }>() else {
        return Err(io::Error::other("the kernel has answered with less than a message"));
    };
    match i32::from_ne_bytes([a, b, c, d]) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// Sends a request.
fn send_request(socket: &OwnedFd, kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<()> {
    let flags = libc::NLM_F_REQUEST | flags;
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&(flags as u16).to_ne_bytes());
    message.extend_from_slice(&[0; 8]); // sequence, port
    message.extend_from_slice(body);
    send(socket.as_raw_fd(), &message, MsgFlags::empty())?;
    Ok(())
}

/// Greatest length of a part of a dump, in bytes: the kernel sends up to 32 KiB.
const LONGEST: usize = 1 << 16;
/// Number of attempts at a dump that changes interrupt.
const ATTEMPTS: usize = 8;

/// Returns all objects of a kind: `read` converts the body of each message. A dump that a change
/// interrupted is requested again.
///
/// # Errors
/// Those of the kernel.
pub(crate) fn dump<T>(
    socket: &OwnedFd,
    (kind, body): (u16, &[u8]),
    read: impl Fn(&[u8], &mut Vec<T>),
) -> io::Result<Vec<T>> {
    let mut buffer = vec![0; LONGEST];
    for _ in 0..ATTEMPTS {
        send_request(socket, kind, libc::NLM_F_DUMP, body)?;
        let (mut found, mut whole) = (Vec::new(), true);
        loop {
            let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            let part = part(&buffer[..length], &mut |body| read(body, &mut found))?;
            whole &= !part.interrupted;
            if part.last {
                break;
            }
        }
        if whole {
            return Ok(found);
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

/// State of a dump after a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    last: bool,
    /// True if the objects changed meanwhile, so that the dump may be inconsistent.
    interrupted: bool,
}

/// Calls `each` with the body of every message in a part of a dump.
///
/// # Errors
/// The error that the kernel sent instead.
fn part(mut bytes: &[u8], each: &mut impl FnMut(&[u8])) -> io::Result<Part> {
    let mut found = Part::default();
    while let Some((length, kind, flags)) = header(bytes) {
        let body = &bytes[HEADER..length];
        found.interrupted |= flags & libc::NLM_F_DUMP_INTR != 0;
        match kind {
            libc::NLMSG_NOOP => {}
            libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                found.last = true;
                let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                if code < 0 {
                    return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                }
            }
            _ => each(body),
        }
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    Ok(found)
}

/// Returns the length, type and flags of the message at the beginning, if it is complete.
fn header(bytes: &[u8]) -> Option<(usize, i32, i32)> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let word = |at: usize| Some(u16::from_ne_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let (kind, flags) = (word(4)?, word(6)?);
    (HEADER..=bytes.len()).contains(&length).then_some((length, kind.into(), flags.into()))
}

/// Returns the attributes in these bytes, up to a truncated one.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes([*bytes.get(2)?, *bytes.get(3)?]);
        let value = bytes.get(4..length)?;
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
        Some((kind & libc::NLA_TYPE_MASK as u16, value))
    })
}

/// Returns the value of the first attribute of a kind; empty if there is none.
pub(crate) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(other, _)| *other == kind).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use perhop_fuzz::fuzz;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn attributes_are_read_as_they_are_written(
            written in prop::collection::vec(
                (0_u16..1000, prop::collection::vec(0_u8.., 0..40)),
                0..8,
            ),
        ) {
            let mut bytes = Vec::new();
            written.iter().for_each(|(kind, value)| attribute(&mut bytes, *kind, value));
            let read: Vec<_> = attributes(&bytes).map(|(k, value)| (k, value.to_vec())).collect();
            prop_assert_eq!(read, written);
        }
    }

    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER as u32 + body.len() as u32).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn fuzz_dumps() {
        let mut body = Vec::new();
        attribute(&mut body, 7, b"value");
        attribute(&mut body, 8, &[]);
        let done = message(libc::NLMSG_DONE as u16, 0, &0_i32.to_ne_bytes());
        let seeds = [[message(36, 0, &body), message(36, 0, &body), done].concat(), body];
        fuzz("dumps", &seeds, |bytes| {
            let (mut seen, mut found) = (0, 0);
            let part = part(bytes, &mut |body| {
                seen += HEADER + body.len();
                found += attributes(body).map(|(_, value)| 4 + value.len()).sum::<usize>();
            });
            assert!(seen <= bytes.len() && found <= seen);
            let own: usize = attributes(bytes).map(|(_, value)| 4 + value.len()).sum();
            assert!(own <= bytes.len());
            (part.is_ok() && found > 0) || own > 0
        });
    }

    #[test]
    fn a_dump_ends_and_says_whether_something_came_between() {
        let done = message(libc::NLMSG_DONE as u16, 0, &0_i32.to_ne_bytes());
        let interrupted = libc::NLM_F_DUMP_INTR as u16;
        let mut bodies = Vec::new();
        let mut read = |bytes: &[u8]| part(bytes, &mut |body| bodies.push(body.to_vec()));
        let both = [message(36, 0, b"more"), message(36, interrupted, b"last"), done].concat();
        assert_eq!(read(&both).unwrap(), Part { last: true, interrupted: true });
        assert_eq!(read(&message(36, 0, b"next")).unwrap(), Part::default());
        let refused = message(libc::NLMSG_ERROR as u16, 0, &(-libc::EPERM).to_ne_bytes());
        assert_eq!(read(&refused).unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert_eq!(bodies, [b"more", b"last", b"next"]);
    }
}
