//! The program on a live host, as Python has it.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// How often Python looks for signals while an agent runs.
const LOOK: Duration = Duration::from_millis(100);

/// Run `perhop-agent` with these arguments, and return its exit code. A signal's handler may raise:
/// then the agent goes on until the process ends.
#[pyfunction]
pub(crate) fn agent(py: Python<'_>, arguments: Vec<String>) -> PyResult<u8> {
    let running = thread::spawn(move || perhop_agent::main(&arguments));
    while !running.is_finished() {
        py.check_signals()?;
        py.detach(|| thread::sleep(LOOK));
    }
    // The code of a thread that has panicked is Rust's own.
    let code = running.join().unwrap_or(ExitCode::from(101));
    Ok((0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(1))
}
