//! Network devices in the namespace of the calling thread, by ioctl(2): see netdevice(7).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// Argument of requests about a device.
type Request = libc::ifreq;

/// A device, and a socket for its settings.
#[derive(Debug)]
pub(crate) struct Device {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Device {
    /// Returns a handle of the device with this name, whether or not it exists.
    ///
    /// # Errors
    /// If no socket can be opened.
    ///
    /// # Panics
    /// If the name is longer than permitted; perhop chooses all names.
    pub fn named(name: &str) -> io::Result<Self> {
        assert!(name.len() < libc::IFNAMSIZ, "{name} is no device's name");
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        let mut bytes = [0; libc::IFNAMSIZ];
        for (place, byte) in bytes.iter_mut().zip(name.bytes()) {
            *place = byte as libc::c_char;
        }
        Ok(Self { socket, name: bytes })
    }

    /// Sets the device up.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn set_up(&self) -> io::Result<()> {
        let mut request = self.request();
        ioctl(&self.socket, libc::SIOCGIFFLAGS as _, &mut request)?;
        #[allow(unsafe_code)]
        // SAFETY: the kernel has written the flags, and any bits are valid there.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
        ioctl(&self.socket, libc::SIOCSIFFLAGS as _, &mut request)
    }

    /// Sets the MTU, in bytes.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn set_mtu(&self, mtu: u32) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_mtu = mtu as libc::c_int;
        ioctl(&self.socket, libc::SIOCSIFMTU as _, &mut request)
    }

    /// Returns the index of the device.
    ///
    /// # Errors
    /// Those of the kernel, for example if the device does not exist.
    pub fn index(&self) -> io::Result<u32> {
        let mut request = self.request();
        ioctl(&self.socket, libc::SIOCGIFINDEX as _, &mut request)?;
        #[allow(unsafe_code)]
        // SAFETY: the kernel has written the index, and any bits are valid there.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        Ok(index as u32)
    }

    /// Returns a request with the name of the device, otherwise zero.
    pub fn request(&self) -> Request {
        #[allow(unsafe_code)]
        // SAFETY: the structure consists of integers and pointers, for which zeros are valid.
        let mut request: Request = unsafe { mem::zeroed() };
        request.ifr_name = self.name;
        request
    }
}

/// Calls ioctl(2) with `argument`, which must have the type that `request` requires.
pub(crate) fn ioctl<T>(fd: &OwnedFd, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    #[allow(unsafe_code)]
    // SAFETY: the argument lives until the call returns; its type is the responsibility of the
    // callers, all of which are in this crate.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(argument)) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Calls ioctl(2) with a number, which `request` must require.
pub(crate) fn ioctl_value(
    fd: &OwnedFd,
    request: libc::Ioctl,
    value: libc::c_uint,
) -> io::Result<()> {
    #[allow(unsafe_code)]
    // SAFETY: the number is not a pointer, so that no memory is read or written.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), request, libc::c_ulong::from(value)) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
