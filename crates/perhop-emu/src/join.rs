//! Joining the hosts of another process.

use std::fs::{self, File};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::sethostname;

const CHROOT: &str = "the root folder of this process is no mount point, as in a chroot, and Linux \
    lets nothing be mounted below it for one process alone; use pivot_root in place of chroot, as \
    containers do, or make the folder a mount point before: mount --bind FOLDER FOLDER";

/// Moves this process into the network namespace to which process `pid` holds the file descriptor
/// `link`, with the user namespace of that process, if that is another one (setns(2)). For this
/// process and its children, the machine is called `name`, and the first of each pair of `files`
/// replaces the second.
///
/// # Errors
/// If there is no such process or descriptor, or if it belongs to another user; or if this process
/// has threads, and the user namespace is another; or if its root folder is no mount point, as in a
/// chroot; or if one of the files does not exist.
pub fn join_namespaces(
    pid: u32,
    link: RawFd,
    name: &str,
    files: &[(PathBuf, PathBuf)],
) -> io::Result<()> {
    // Both are opened first: the permission to do so depends on the user namespace.
    let network = File::open(format!("/proc/{pid}/fd/{link}"))?;
    let theirs = format!("/proc/{pid}/ns/user");
    let user = File::open(&theirs)?;
    let identity = |path: &str| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    if identity(&theirs)? != identity("/proc/self/ns/user")? {
        setns(&user, CloneFlags::CLONE_NEWUSER)?;
    }
    setns(&network, CloneFlags::CLONE_NEWNET)?;
    // In separate namespaces, without effects on the others.
    let none: Option<&Path> = None;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS)?;
    sethostname(name)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(|errno| {
        // The call has no other argument that can be invalid.
        if errno == Errno::EINVAL { io::Error::other(CHROOT) } else { errno.into() }
    })?;
    for (file, place) in files {
        mount(Some(file), place, none, MsFlags::MS_BIND, none).map_err(|errno| {
            let shown = place.display();
            io::Error::other(format!("{shown} cannot be replaced there: {}", errno.desc()))
        })?;
    }
    Ok(())
}
