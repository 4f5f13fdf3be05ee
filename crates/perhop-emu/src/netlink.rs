//! Addresses, routes and queues, by rtnetlink(7), in the namespace of the calling thread.
//!
//! A few kinds of messages; running `ip` or `tc` for them would take a thousand times as long, and need it.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

const HEADER: usize = 16;

/// Has so many packets wait before a device. (The ioctl for it asks for rights outside of user
/// namespaces.)
///
/// # Errors
/// As the kernel says.
pub(crate) fn set_queue_length(device: u32, packets: u32) -> io::Result<()> {
    // struct ifinfomsg: family, padding, type, device, flags, and which of them change.
    let mut body = vec![0; 4];
    body.extend_from_slice(&device.to_ne_bytes());
    body.extend_from_slice(&[0; 8]);
    attribute(&mut body, libc::IFLA_TXQLEN, &packets.to_ne_bytes());
    request(libc::RTM_SETLINK, &body)
}

/// Gives a device an address that is a network of its own.
///
/// # Errors
/// As the kernel says.
pub(crate) fn add_address(device: u32, address: IpAddr) -> io::Result<()> {
    // struct ifaddrmsg: family, prefix, flags, scope, device.
    let mut body = vec![family(address), prefix(address), 0, 0];
    body.extend_from_slice(&device.to_ne_bytes());
    let octets = octets(address);
    attribute(&mut body, libc::IFA_LOCAL, &octets);
    attribute(&mut body, libc::IFA_ADDRESS, &octets);
    // Nobody else has it: there is nothing to detect (RFC 4862, section 5.4).
    attribute(&mut body, libc::IFA_FLAGS, &libc::IFA_F_NODAD.to_ne_bytes());
    request(libc::RTM_NEWADDR, &body)
}

/// Has everything go through a device that goes nowhere else, of the version of `address`.
///
/// # Errors
/// As the kernel says.
pub(crate) fn add_default_route(device: u32, address: IpAddr) -> io::Result<()> {
    // struct rtmsg: family, lengths of prefixes, type of service, table, origin, scope, kind, flags.
    let (table, origin) = (libc::RT_TABLE_MAIN, libc::RTPROT_STATIC);
    let (scope, kind) = (libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST);
    let mut body = vec![family(address), 0, 0, 0, table, origin, scope, kind, 0, 0, 0, 0];
    attribute(&mut body, libc::RTA_OIF, &device.to_ne_bytes());
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

/// A socket for requests about the namespace of the calling thread, from any thread.
///
/// # Errors
/// As the kernel says.
pub(crate) fn open() -> io::Result<OwnedFd> {
    Ok(socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?)
}

/// Makes something that there was not.
fn request(kind: u16, body: &[u8]) -> io::Result<()> {
    ask(&open()?, kind, libc::NLM_F_CREATE | libc::NLM_F_EXCL, body)
}

/// Sends a request, and waits for what becomes of it.
///
/// # Errors
/// As the kernel says.
pub(crate) fn ask(socket: &OwnedFd, kind: u16, flags: libc::c_int, body: &[u8]) -> io::Result<()> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags;
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&(flags as u16).to_ne_bytes());
    message.extend_from_slice(&[0; 8]); // sequence, port
    message.extend_from_slice(body);
    send(socket.as_raw_fd(), &message, MsgFlags::empty())?;
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
