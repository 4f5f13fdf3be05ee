//! Network namespaces without a name (network_namespaces(7)).
//!
//! A namespace lives as long as it is referred to: here by a file descriptor of this process, and
//! by the processes inside. Nothing is written to `/run/netns`: no entry stays behind, two runs
//! never collide, and the kernel removes devices, addresses, queues and rules together with the
//! process.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt,
};
use nix::unistd::{getegid, geteuid};
use thiserror::Error;

use crate::device::Device;

/// Reason why a network namespace cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The user may not make network namespaces.
    #[error(
        "this user may not make network namespaces; run as root, or allow unprivileged user \
         namespaces"
    )]
    NotPermitted,
    /// The kernel has no network namespaces.
    #[error("this kernel has no network namespaces; it needs CONFIG_NET_NS")]
    Unknown,
    /// There are too many namespaces.
    #[error("there are too many network namespaces: see /proc/sys/user/max_net_namespaces")]
    TooMany,
    /// Another error of the system.
    #[error("a network namespace cannot be made: {0}")]
    Other(#[from] io::Error),
}

impl From<Errno> for NamespaceError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::EPERM => Self::NotPermitted,
            Errno::EINVAL => Self::Unknown,
            Errno::ENOSPC => Self::TooMany,
            other => Self::Other(other.into()),
        }
    }
}

/// A network stack of its own: devices, addresses, routes, rules, settings, ports.
#[derive(Clone, Debug)]
pub struct Namespace {
    link: Arc<OwnedFd>,
}

impl Namespace {
    /// Makes a namespace with nothing but a loopback device.
    ///
    /// # Errors
    /// [`NamespaceError`] if the kernel does not support it, or the user lacks the privileges.
    pub fn new() -> Result<Self, NamespaceError> {
        // The thread only makes the namespace and ends, because it cannot return to the old one.
        in_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            Device::named("lo")?.set_up()?;
            let link = Arc::new(File::open("/proc/thread-self/ns/net")?.into());
            Ok(Self { link })
        })
    }

    /// Opens an existing namespace by its path, such as `/proc/PID/ns/net`.
    ///
    /// # Errors
    /// Those of open(2), and [`io::ErrorKind::InvalidInput`] if it is not a network namespace.
    pub fn open(path: &Path) -> io::Result<Self> {
        let link: OwnedFd = File::open(path)?.into();
        #[allow(unsafe_code)]
        // SAFETY: this request takes no argument and returns a number (ioctl_ns(2)).
        let kind = unsafe { libc::ioctl(link.as_raw_fd(), libc::NS_GET_NSTYPE) };
        if kind != libc::CLONE_NEWNET {
            let message = format!("{} is not a network namespace", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(Self { link: Arc::new(link) })
    }

    /// Moves the calling thread into the namespace: sockets and devices that it opens from now on
    /// are there. Those that it has opened before stay where they are.
    ///
    /// # Errors
    /// Those of setns(2).
    pub fn enter(&self) -> io::Result<()> {
        Ok(setns(&self.link, CloneFlags::CLONE_NEWNET)?)
    }

    /// Runs `work` in the namespace, in a thread of its own.
    ///
    /// # Errors
    /// Those of [`Namespace::enter`].
    ///
    /// # Panics
    /// If `work` does.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        in_thread(|| {
            self.enter()?;
            Ok(work())
        })
    }

    /// Returns a command that runs in the namespace. It is killed when the thread that starts it
    /// ends, so that it does not outlive this process.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let link = Arc::clone(&self.link);
        #[allow(unsafe_code)]
        // SAFETY: between fork and exec there are two system calls, and no memory is allocated.
        unsafe {
            command.pre_exec(move || {
                prctl::set_pdeathsig(Signal::SIGKILL)?;
                Ok(setns(&link, CloneFlags::CLONE_NEWNET)?)
            });
        }
        command
    }

    /// Opens a socket for datagrams to an address of the namespace. A program that also permits it
    /// (`SO_REUSEADDR`) may use the port of all addresses.
    ///
    /// # Errors
    /// Those of bind(2).
    pub fn datagrams(&self, address: SocketAddrV4) -> io::Result<OwnedFd> {
        self.within(|| {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            let opened = socket(AddressFamily::Inet, SockType::Datagram, flags, None)?;
            setsockopt(&opened, sockopt::ReuseAddr, &true)?;
            bind(opened.as_raw_fd(), &SockaddrIn::from(address))?;
            Ok(opened)
        })?
    }

    /// Writes a setting, such as `net.ipv4.ip_forward`. If a part of its name contains a dot,
    /// slashes divide the parts, as for sysctl(8).
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the kernel lacks the setting, and others of the kernel.
    pub fn write_sysctl(&self, name: &str, value: &str) -> io::Result<()> {
        let path = sysctl_path(name)?;
        self.within(|| OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes()))?
    }

    /// Reads a setting.
    ///
    /// # Errors
    /// Those of [`Namespace::write_sysctl`].
    pub fn read_sysctl(&self, name: &str) -> io::Result<String> {
        let path = sysctl_path(name)?;
        let text = self.within(|| fs::read_to_string(path))??;
        Ok(text.trim_end().to_owned())
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

impl AsRawFd for Namespace {
    fn as_raw_fd(&self) -> RawFd {
        self.link.as_raw_fd()
    }
}

/// Returns the file of a network setting, which is that of the namespace of the thread that opens
/// it.
fn sysctl_path(name: &str) -> io::Result<PathBuf> {
    let parts: Vec<&str> = name.split(if name.contains('/') { '/' } else { '.' }).collect();
    if parts[0] != "net" || parts.iter().any(|part| matches!(*part, "" | "." | "..")) {
        let message =
            format!("{name:?} is not a setting of the network, such as net.core.rmem_max");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(["/proc/sys"].into_iter().chain(parts).collect())
}

/// Runs `work` in a thread of its own.
fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let ended = thread::scope(|scope| scope.spawn(work).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Reason why this process cannot have its own user namespace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UserNamespaceError {
    /// The process has several threads.
    #[error(
        "a process that has threads already cannot enter a user namespace; use the command line, \
         or run as root"
    )]
    Threads,
    /// The user may not make user namespaces.
    #[error(
        "this user may not make user namespaces; run as root, or allow them: see \
         /proc/sys/user/max_user_namespaces, and on Debian and Ubuntu \
         /proc/sys/kernel/unprivileged_userns_clone and \
         /proc/sys/kernel/apparmor_restrict_unprivileged_userns; in a chroot nobody may make them"
    )]
    NotPermitted,
    /// Another error of the system.
    #[error("a user namespace cannot be entered: {0}")]
    Other(#[from] io::Error),
}

/// Ensures that this process may make network namespaces: if its user may not, it enters its own
/// user namespace, in which the user is root (user_namespaces(7)). Files that it writes belong to
/// the user as before.
///
/// # Errors
/// [`UserNamespaceError`]; for example if the process has threads, which cannot follow.
pub fn enter_user_namespace() -> Result<(), UserNamespaceError> {
    match Namespace::new() {
        Err(NamespaceError::NotPermitted) => {}
        // Other obstacles are reported when the first namespace is made.
        _ => return Ok(()),
    }
    let (user, group) = (geteuid(), getegid());
    await_threads();
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|errno| match errno {
        Errno::EINVAL => UserNamespaceError::Threads,
        Errno::EPERM | Errno::ENOSPC => UserNamespaceError::NotPermitted,
        other => UserNamespaceError::Other(other.into()),
    })?;
    // Without this, a process without privileges may not map a group.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    match Namespace::new() {
        Err(NamespaceError::NotPermitted) => Err(UserNamespaceError::NotPermitted),
        _ => Ok(()),
    }
}

/// Waits, for a short time at most, until joined threads are gone: they are joined when their work
/// is done, which is before the kernel has removed them.
fn await_threads() {
    for _ in 0..200 {
        match fs::read_dir("/proc/self/task").map(Iterator::count) {
            Ok(threads) if threads > 1 => thread::sleep(std::time::Duration::from_micros(500)),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_files_of_the_network_and_no_others() {
        let path = |name| sysctl_path(name).map(|path| path.display().to_string()).ok();
        let forward = "/proc/sys/net/ipv4/ip_forward";
        assert_eq!(path("net.ipv4.ip_forward").as_deref(), Some(forward));
        assert_eq!(path("net/ipv4/ip_forward").as_deref(), Some(forward));
        let vlan = path("net/ipv4/conf/eth0.5/forwarding");
        assert_eq!(vlan.as_deref(), Some("/proc/sys/net/ipv4/conf/eth0.5/forwarding"));
        for name in ["kernel.panic", "net/../kernel/panic", "net..x", "", "/net/core", "net/"] {
            assert_eq!(path(name), None, "{name}");
        }
    }
}
