//! Socket addresses as system calls take them.

#![allow(unsafe_code)]

use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An IPv4 or IPv6 address with a port, in the kernel's form.
#[derive(Clone, Copy)]
pub(crate) struct SocketAddress {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl SocketAddress {
    /// Room for the kernel to write one to.
    pub fn empty() -> Self {
        // SAFETY: a sockaddr_storage is numbers, which may all be zero.
        let storage = unsafe { mem::zeroed() };
        Self { storage, length: mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    /// What a system call reads.
    pub fn as_ptr(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        (std::ptr::from_ref(&self.storage).cast(), self.length)
    }

    /// What a system call writes to.
    pub fn as_mut_ptr(&mut self) -> (*mut libc::sockaddr, &mut libc::socklen_t) {
        (std::ptr::from_mut(&mut self.storage).cast(), &mut self.length)
    }

    /// The address, unless it is of another family or cut off.
    pub fn get(&self) -> Option<SocketAddr> {
        let length = self.length as usize;
        match i32::from(self.storage.ss_family) {
            libc::AF_INET if length >= mem::size_of::<libc::sockaddr_in>() => {
                // SAFETY: a sockaddr_storage has room for, and the alignment of, every address; any
                // bytes are a sockaddr_in.
                let v4 = unsafe { *std::ptr::from_ref(&self.storage).cast::<libc::sockaddr_in>() };
                let address = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddr::new(address.into(), u16::from_be(v4.sin_port)))
            }
            libc::AF_INET6 if length >= mem::size_of::<libc::sockaddr_in6>() => {
                // SAFETY: as above.
                let v6 = unsafe { *std::ptr::from_ref(&self.storage).cast::<libc::sockaddr_in6>() };
                let address = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some(SocketAddr::new(address.into(), u16::from_be(v6.sin6_port)))
            }
            _ => None,
        }
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> Self {
        let mut own = Self::empty();
        match address.ip() {
            IpAddr::V4(ip) => {
                let v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
                    sin_zero: [0; 8],
                };
                own.length = mem::size_of_val(&v4) as libc::socklen_t;
                // SAFETY: a sockaddr_storage has room for, and the alignment of, every address.
                unsafe {
                    std::ptr::from_mut(&mut own.storage).cast::<libc::sockaddr_in>().write(v4)
                };
            }
            IpAddr::V6(ip) => {
                let v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr { s6_addr: ip.octets() },
                    sin6_scope_id: 0,
                };
                own.length = mem::size_of_val(&v6) as libc::socklen_t;
                // SAFETY: as above.
                unsafe {
                    std::ptr::from_mut(&mut own.storage).cast::<libc::sockaddr_in6>().write(v6);
                }
            }
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive() {
        for text in ["192.0.2.7:5001", "[2001:db8::7]:5001", "0.0.0.0:0", "[::]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(SocketAddress::from(address).get(), Some(address));
        }
        assert_eq!(SocketAddress::empty().get(), None);
    }
}
