//! A host's only device: a TUN, which hands its packets to us instead of to a wire.

use std::fs::{self, OpenOptions};
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::sys::uio::writev;
use nix::unistd::{read, write};
use perhop_wire::VNET_HEADER;
use thiserror::Error;

use crate::device::{Device, ioctl, ioctl_value};
use crate::icmp::Addresses;
use crate::netlink::{add_address, add_default_route, set_queue_length};
use crate::netns::Namespace;

/// The device's name in every host.
pub(crate) const NAME: &str = "perhop0";

/// The shortest MTU with which IPv6 works.
pub(crate) const LEAST_MTU_V6: u32 = 1280;

/// How many packets may wait for us in the kernel: as many as come while we are not let run for
/// tens of milliseconds.
const QUEUE: u32 = 10_000;

/// Cutting what is sent into packets, of UDP; not yet in every libc.
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;

/// Why a host has no device.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TunError {
    /// There is no such driver.
    #[error("there is no /dev/net/tun: load the module `tun`, or give the container the device")]
    NoDriver,
    /// The user may not use it.
    #[error("this user may not use /dev/net/tun: {0}")]
    NotPermitted(io::Error),
    /// Something went wrong when it was set up.
    #[error("a TUN device cannot be {0}: {1}")]
    Setup(&'static str, io::Error),
}

/// A TUN device in a namespace.
#[derive(Debug)]
pub(crate) struct Tun {
    fd: OwnedFd,
    /// True if packets have a header that tells of checksums and super-packets.
    pub offload: bool,
}

impl Tun {
    /// Makes the device of a host: up, with these addresses, and everything goes through it, TCP
    /// with this congestion control unless a socket asks for another.
    pub fn open(
        namespace: &Namespace,
        addresses: Addresses,
        mtu: u32,
        v6: bool,
        offload: bool,
        control: Option<&str>,
    ) -> Result<Self, TunError> {
        let work = || {
            let fd = attach(NAME, offload)?;
            configure(addresses, mtu, v6, control)?;
            Ok(Self { fd, offload })
        };
        namespace.within(work).map_err(|error| TunError::Setup("made in a namespace", error))?
    }

    /// Makes a device of this name that is down, has no addresses, and gives packets as they are.
    pub fn bare(namespace: &Namespace, name: &str) -> Result<Self, TunError> {
        let work = || Ok(Self { fd: attach(name, false)?, offload: false });
        namespace.within(work).map_err(|error| TunError::Setup("made in a namespace", error))?
    }

    /// Reads a packet with what precedes it, if one waits; returns how many bytes.
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match read(&self.fd, bytes) {
                Ok(length) => return Ok(Some(length)),
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Hands a packet to the host, with what precedes it; says whether the host has taken it.
    pub fn write(&self, bytes: &[u8]) -> bool {
        loop {
            match write(&self.fd, bytes) {
                Err(Errno::EINTR) => {}
                result => return result.is_ok(),
            }
        }
    }

    /// Returns the same in pieces.
    pub fn write_pieces(&self, pieces: &[IoSlice<'_>]) -> bool {
        loop {
            match writev(&self.fd, pieces) {
                Err(Errno::EINTR) => {}
                result => return result.is_ok(),
            }
        }
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns a device of this name in the thread's namespace, with us at its other end.
fn attach(name: &str, offload: bool) -> Result<OwnedFd, TunError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => TunError::NoDriver,
            // What there is no driver behind.
            _ if error.raw_os_error() == Some(libc::ENXIO) => TunError::NoDriver,
            _ => TunError::NotPermitted(error),
        })?;
    let fd = OwnedFd::from(file);
    let setup = |what| move |error| TunError::Setup(what, error);
    let mut request = Device::named(name).map_err(setup("named"))?.request();
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | if offload { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    ioctl(&fd, libc::TUNSETIFF, &mut request).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => TunError::NotPermitted(error),
        _ => TunError::Setup("made", error),
    })?;
    if offload {
        let mut length = VNET_HEADER as libc::c_int;
        ioctl(&fd, libc::TUNSETVNETHDRSZ, &mut length).map_err(setup("given headers"))?;
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        // Kernels before 6.2 cut datagrams themselves.
        if ioctl_value(&fd, libc::TUNSETOFFLOAD, tcp | TUN_F_USO4 | TUN_F_USO6).is_err() {
            ioctl_value(&fd, libc::TUNSETOFFLOAD, tcp).map_err(setup("relieved"))?;
        }
    }
    Ok(fd)
}

/// Gives the device its settings, and brings it up.
fn configure(
    addresses: Addresses,
    mtu: u32,
    v6: bool,
    control: Option<&str>,
) -> Result<(), TunError> {
    let setup = |what| move |error| TunError::Setup(what, error);
    let device = Device::named(NAME).map_err(setup("found"))?;
    // Nobody advertises routers or asks who is there.
    let quiet = [("accept_ra", "0"), ("router_solicitations", "0"), ("addr_gen_mode", "1")];
    for (name, value) in quiet {
        // Where there is no IPv6 there are no such settings.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{NAME}/{name}"), value);
    }
    for place in ["all", NAME] {
        // A host with one device need not ask where replies would go.
        let _ = fs::write(format!("/proc/sys/net/ipv4/conf/{place}/rp_filter"), "0");
    }
    // Any process may ping, as far as groups are known here.
    if fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647").is_err() {
        let _ = fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0");
    }
    device.set_mtu(mtu).map_err(setup("given an MTU"))?;
    let index = device.index().map_err(setup("found"))?;
    set_queue_length(index, QUEUE).map_err(setup("given a queue"))?;
    device.set_up().map_err(setup("brought up"))?;
    let address = |address| {
        add_address(index, address).map_err(setup("given an address"))?;
        add_default_route(index, address, control).map_err(setup("given a route"))
    };
    address(IpAddr::V4(addresses.v4))?;
    // IPv6 needs a kernel that has it.
    if v6 && mtu >= LEAST_MTU_V6 && fs::exists("/proc/sys/net/ipv6").unwrap_or(false) {
        address(IpAddr::V6(addresses.v6))?;
    }
    Ok(())
}
