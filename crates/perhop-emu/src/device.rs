//! Network devices in the namespace of the calling thread, by ioctl(2): see netdevice(7).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// Asks the kernel something about a device.
type Request = libc::ifreq;

/// A device, and a socket by which its settings are changed.
#[derive(Debug)]
pub(crate) struct Device {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Device {
    /// Returns the device of this name, whether there is one or not.
    ///
    /// # Errors
    /// If no socket can be opened.
    ///
    /// # Panics
    /// If the name is longer than a device's can be: it is always ours.
    pub fn named(name: &str) -> io::Result<Self> {
        assert!(name.len() < libc::IFNAMSIZ, "{name} is no device's name");
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        let mut bytes = [0; libc::IFNAMSIZ];
        for (place, byte) in bytes.iter_mut().zip(name.bytes()) {
            *place = byte as libc::c_char;
        }
        Ok(Self { socket, name: bytes })
    }

    /// Has the device take part.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn set_up(&self) -> io::Result<()> {
        let mut request = self.request();
        ioctl(&self.socket, libc::SIOCGIFFLAGS as _, &mut request)?;
        #[allow(unsafe_code)]
        // SAFETY: the kernel has written the flags, and any bits are valid there.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
        ioctl(&self.socket, libc::SIOCSIFFLAGS as _, &mut request)
    }

    /// Returns the longest packet that it takes.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn set_mtu(&self, mtu: u32) -> io::Result<()> {
        let mut request = self.request();
        request.ifr_ifru.ifru_mtu = mtu as libc::c_int;
        ioctl(&self.socket, libc::SIOCSIFMTU as _, &mut request)
    }

    /// Its number.
    ///
    /// # Errors
    /// As the kernel says, above all if there is no such device.
    pub fn index(&self) -> io::Result<u32> {
        let mut request = self.request();
        ioctl(&self.socket, libc::SIOCGIFINDEX as _, &mut request)?;
        #[allow(unsafe_code)]
        // SAFETY: the kernel has written the number, and any bits are one.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        Ok(index as u32)
    }

    /// Returns a request about the device, nothing else being said.
    pub fn request(&self) -> Request {
        #[allow(unsafe_code)]
        // SAFETY: it consists of integers and pointers, for which zeros are valid.
        let mut request: Request = unsafe { mem::zeroed() };
        request.ifr_name = self.name;
        request
    }
}

/// Has the kernel read, or fill, `argument`, which is what it takes `request` to come with.
pub(crate) fn ioctl<T>(fd: &OwnedFd, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    #[allow(unsafe_code)]
    // SAFETY: the argument lives until the call returns; that it is of the type which the request
    // names is up to the callers, which are all in this crate.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(argument)) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Hands the kernel a number as what it takes `request` to come with.
pub(crate) fn ioctl_value(
    fd: &OwnedFd,
    request: libc::Ioctl,
    value: libc::c_uint,
) -> io::Result<()> {
    #[allow(unsafe_code)]
    // SAFETY: a number is no pointer, so that nothing is read or written of ours.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), request, libc::c_ulong::from(value)) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
