//! A host's only device: a TUN device, whose packets the engine reads and writes.

use std::fs::{self, OpenOptions};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::sys::uio::writev;
use nix::unistd::{read, write};
use perhop_wire::VNET_HEADER;
use thiserror::Error;

use crate::device::{Device, ioctl, ioctl_value};
use crate::icmp::Addresses;
use crate::netlink::{add_address, add_route, set_queue_length};
use crate::netns::Namespace;

/// Name of the device in every host.
pub(crate) const NAME: &str = "perhop0";

/// Least MTU for IPv6, in bytes.
pub(crate) const LEAST_MTU_V6: u32 = 1280;

/// Number of packets that may wait in the kernel: as many as are sent in tens of milliseconds in
/// which the engine does not run.
const QUEUE: u32 = 10_000;

/// Segmentation offload of UDP, which not every libc defines.
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;

/// Reason why a host's device cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TunError {
    /// The kernel lacks the driver.
    #[error("there is no /dev/net/tun: load the module `tun`, or give the container the device")]
    NoDriver,
    /// The user may not use the driver.
    #[error("this user may not use /dev/net/tun: {0}")]
    NotPermitted(io::Error),
    /// The setup failed at this step.
    #[error("a TUN device cannot be {0}: {1}")]
    Setup(&'static str, io::Error),
}

/// Settings of a host's device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TunSettings<'a> {
    pub addresses: Addresses,
    pub mtu: u32,
    /// True if the host has an IPv6 address.
    pub v6: bool,
    pub offload: bool,
    /// Congestion control of TCP sockets that select none.
    pub control: Option<&'a str>,
    /// Destinations beside the default route.
    pub routes: &'a [(IpAddr, u8)],
    /// True if the namespace belongs to others: nothing but the device changes, and a default route
    /// that exists stays.
    pub attached: bool,
}

/// A TUN device in a namespace.
#[derive(Debug)]
pub(crate) struct Tun {
    fd: OwnedFd,
    /// True if packets have a header for checksum and segmentation offloads.
    pub offload: bool,
}

impl Tun {
    /// Makes the device of a host and sets it up.
    pub fn open(namespace: &Namespace, settings: &TunSettings<'_>) -> Result<Self, TunError> {
        let offload = settings.offload;
        let work = || {
            let fd = attach(NAME, offload)?;
            configure(settings)?;
            Ok(Self { fd, offload })
        };
        namespace.within(work).map_err(|error| TunError::Setup("made in a namespace", error))?
    }

    /// Makes a device with this name that is down, has no addresses, and no offloads.
    pub fn bare(namespace: &Namespace, name: &str) -> Result<Self, TunError> {
        let work = || Ok(Self { fd: attach(name, false)?, offload: false });
        namespace.within(work).map_err(|error| TunError::Setup("made in a namespace", error))?
    }

    /// Reads a packet with its header, if one waits; returns the number of bytes.
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

    /// Hands a packet with its header to the host; returns `true` if the host has taken it.
    pub fn write(&self, bytes: &[u8]) -> bool {
        loop {
            match write(&self.fd, bytes) {
                Err(Errno::EINTR) => {}
                result => return result.is_ok(),
            }
        }
    }

    /// Does the same for a packet in several pieces.
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

/// Makes a device with this name in the thread's namespace; returns its file descriptor.
fn attach(name: &str, offload: bool) -> Result<OwnedFd, TunError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => TunError::NoDriver,
            // The device file exists without a driver.
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
        // Kernels before 6.2 segment datagrams themselves.
        if ioctl_value(&fd, libc::TUNSETOFFLOAD, tcp | TUN_F_USO4 | TUN_F_USO6).is_err() {
            ioctl_value(&fd, libc::TUNSETOFFLOAD, tcp).map_err(setup("relieved"))?;
        }
    }
    Ok(fd)
}

/// Configures the device, and sets it up.
fn configure(settings: &TunSettings<'_>) -> Result<(), TunError> {
    let &TunSettings { addresses, mtu, v6, control, routes, attached, .. } = settings;
    let setup = |what| move |error| TunError::Setup(what, error);
    let device = Device::named(NAME).map_err(setup("found"))?;
    // There are no routers to discover, and addresses are assigned.
    let quiet = [("accept_ra", "0"), ("router_solicitations", "0"), ("addr_gen_mode", "1")];
    for (name, value) in quiet {
        // A kernel without IPv6 has no such settings.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{NAME}/{name}"), value);
    }
    for place in if attached { &[NAME][..] } else { &["all", NAME] } {
        // A host with one device need not check where replies would go.
        let _ = fs::write(format!("/proc/sys/net/ipv4/conf/{place}/rp_filter"), "0");
    }
    // All users of the host may ping, if groups are mapped here.
    let pingers = "/proc/sys/net/ipv4/ping_group_range";
    if !attached && fs::write(pingers, "0 2147483647").is_err() {
        let _ = fs::write(pingers, "0 0");
    }
    device.set_mtu(mtu).map_err(setup("given an MTU"))?;
    let index = device.index().map_err(setup("found"))?;
    set_queue_length(index, QUEUE).map_err(setup("given a queue"))?;
    device.set_up().map_err(setup("brought up"))?;
    let address = |address: IpAddr| {
        add_address(index, address).map_err(setup("given an address"))?;
        for &to in routes.iter().filter(|(to, _)| to.is_ipv4() == address.is_ipv4()) {
            add_route(index, to, control).map_err(setup("given a route"))?;
        }
        let everywhere = match address {
            IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), 0),
            IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), 0),
        };
        match add_route(index, everywhere, control) {
            Err(error) if attached && error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result.map_err(setup("given a route")),
        }
    };
    address(IpAddr::V4(addresses.v4))?;
    // IPv6 needs kernel support.
    if v6 && mtu >= LEAST_MTU_V6 && fs::exists("/proc/sys/net/ipv6").unwrap_or(false) {
        address(IpAddr::V6(addresses.v6))?;
    }
    Ok(())
}
