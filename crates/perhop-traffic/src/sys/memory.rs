//! Files in memory.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// A file without a name, in memory (memfd_create(2)).
pub(crate) fn memory_file() -> io::Result<File> {
    // SAFETY: takes a name and flags.
    match unsafe { libc::memfd_create(c"perhop".as_ptr(), libc::MFD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just given it to us.
        fd => Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) })),
    }
}
