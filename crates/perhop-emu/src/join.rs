//! Joining the hosts of another process.

use std::fs::{self, File};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::sethostname;

/// Has this process make its sockets in the network namespace to which process `pid` holds the file
/// descriptor `link`, and see it as that process does: with its user namespace, where that is
/// another (setns(2)). For this process, and those that it starts, the machine is called `name`,
/// and the first of each pair of `files` takes the place of the second.
///
/// # Errors
/// If there is no such process or descriptor, or it is another user's; or if this process has
/// threads, and the user namespace is another.
pub fn join_namespaces(
    pid: u32,
    link: RawFd,
    name: &str,
    files: &[(PathBuf, PathBuf)],
) -> io::Result<()> {
    // Both are opened first: what may be looked at depends on the user namespace.
    let network = File::open(format!("/proc/{pid}/fd/{link}"))?;
    let theirs = format!("/proc/{pid}/ns/user");
    let user = File::open(&theirs)?;
    let identity = |path: &str| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    if identity(&theirs)? != identity("/proc/self/ns/user")? {
        setns(&user, CloneFlags::CLONE_NEWUSER)?;
    }
    setns(&network, CloneFlags::CLONE_NEWNET)?;
    // In namespaces of its own, from which nothing goes back to those of everyone.
    let none: Option<&Path> = None;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS)?;
    sethostname(name)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    for (file, place) in files {
        mount(Some(file), place, none, MsFlags::MS_BIND, none)?;
    }
    Ok(())
}
