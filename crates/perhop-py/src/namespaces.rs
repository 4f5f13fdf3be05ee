//! Namespaces of hosts, for Python.

use std::io::{self, Write};
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::thread;

use perhop_emu::{Namespace, enter_user_namespace, join_namespaces};
use pyo3::exceptions::{PyIndexError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Network namespaces without names, one for each host. They end with this object and the processes
/// in them.
#[pyclass(module = "perhop._core", frozen)]
pub(crate) struct Namespaces(pub(crate) Vec<Option<Namespace>>);

#[pymethods]
impl Namespaces {
    /// Makes `number` namespaces.
    #[new]
    fn new(py: Python<'_>, number: usize) -> PyResult<Self> {
        let made = py.detach(|| (0..number).map(|_| Namespace::new().map(Some)).collect());
        let made: Result<Vec<_>, _> = made;
        made.map(Self).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Enters a user namespace if the user may not make network namespaces otherwise. Only a
    /// process with one thread can do so.
    #[staticmethod]
    fn enable() -> PyResult<()> {
        enter_user_namespace().map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Joins the network namespace to which process `pid` holds the descriptor `link`, on a machine
    /// called `name`, on which the first of each pair of `files` replaces the second.
    #[staticmethod]
    fn join(pid: u32, link: RawFd, name: &str, files: Vec<(PathBuf, PathBuf)>) -> PyResult<()> {
        Ok(join_namespaces(pid, link, name, &files)?)
    }

    /// Returns the file descriptor of a host's namespace.
    fn fd(&self, host: usize) -> PyResult<RawFd> {
        Ok(self.host(host)?.as_raw_fd())
    }

    /// Opens a socket for datagrams to a port of an address of a host; returns its descriptor,
    /// which the caller closes.
    fn datagrams(&self, host: usize, address: &str, port: u16) -> PyResult<RawFd> {
        let address = address.parse().map_err(|_| PyValueError::new_err("not an IPv4 address"))?;
        Ok(self.host(host)?.datagrams(SocketAddrV4::new(address, port))?.into_raw_fd())
    }

    /// Runs a command in a host; returns its exit code, negative for a signal, its standard output
    /// and its standard error.
    fn run<'py>(
        &self,
        py: Python<'py>,
        host: usize,
        command: Vec<String>,
        stdin: &[u8],
    ) -> PyResult<(i32, Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let host = self.host(host)?;
        let Output { status, stdout, stderr } = py.detach(|| run(host, &command, stdin))?;
        let code = status.code().or(status.signal().map(|signal| -signal)).unwrap_or(-1);
        Ok((code, PyBytes::new(py, &stdout), PyBytes::new(py, &stderr)))
    }

    /// Writes a setting of a host, such as net.ipv4.ip_forward.
    fn write_sysctl(&self, host: usize, name: &str, value: &str) -> PyResult<()> {
        let written = self.host(host)?.write_sysctl(name, value);
        written.map_err(|error| named(name, &error).into())
    }

    /// Reads a setting of a host.
    fn read_sysctl(&self, host: usize, name: &str) -> PyResult<String> {
        let read = self.host(host)?.read_sysctl(name);
        read.map_err(|error| named(name, &error).into())
    }
}

impl Namespaces {
    /// Returns the namespace of a host.
    pub fn host(&self, host: usize) -> PyResult<&Namespace> {
        let host_at = self.0.get(host).and_then(Option::as_ref);
        host_at.ok_or_else(|| PyIndexError::new_err(format!("there is no host {host}")))
    }
}

/// Returns an error with the name of its object.
fn named(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn run(host: &Namespace, command: &[String], input: &[u8]) -> PyResult<Output> {
    let [program, arguments @ ..] = command else {
        return Err(PyValueError::new_err("a command needs a program"));
    };
    let mut command = host.command(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| named(program, &error))?;
    let mut stdin = child.stdin.take();
    let output: io::Result<Output> = thread::scope(|scope| {
        // A command that does not read its input breaks the pipe.
        scope.spawn(move || stdin.take().map(|mut stdin| stdin.write_all(input)));
        child.wait_with_output()
    });
    Ok(output?)
}
