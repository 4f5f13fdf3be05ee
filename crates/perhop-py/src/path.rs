//! Probing of paths, as Python has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use perhop_path::{EndToEndSettings, Limits, ProbeError, Responder, Settings, trace};
use pyo3::exceptions::{PyOSError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use serde::Serialize;

use crate::plans::read;

/// Probe a path; settings and report are JSON. An OSError says what this machine lacks or what to
/// do, a TimeoutError that the time limit is over.
#[pyfunction]
pub(crate) fn trace_path(py: Python<'_>, settings: &str) -> PyResult<String> {
    let settings = read::<Settings>(settings)?;
    answer(py, |go_on| trace(&settings, go_on))
}

/// Measure policers and shapers on the path to a responder; settings and result are JSON.
#[pyfunction]
pub(crate) fn measure_end_to_end(py: Python<'_>, settings: &str) -> PyResult<String> {
    let settings = read::<EndToEndSettings>(settings)?;
    answer(py, |go_on| perhop_path::measure_end_to_end(&settings, go_on))
}

/// Measure the available bandwidth to a responder; settings and result are JSON.
#[pyfunction]
pub(crate) fn measure_available_bandwidth(py: Python<'_>, settings: &str) -> PyResult<String> {
    let settings = read::<EndToEndSettings>(settings)?;
    answer(py, |go_on| perhop_path::measure_available_bandwidth(&settings, go_on))
}

/// Answer trains on an address, given with its port, until a signal comes; limits are JSON.
#[pyfunction]
pub(crate) fn respond_path(py: Python<'_>, address: &str, limits: &str) -> PyResult<()> {
    let limits = read::<Limits>(limits)?;
    let at = address.parse().map_err(|_| PyValueError::new_err("not an address with a port"))?;
    answer(py, |go_on| Responder::bind(at, limits)?.run(go_on)).map(drop)
}

/// Greatest delay of the response to a signal.
const TURN: Duration = Duration::from_millis(20);

/// Run a measurement in a thread of its own, which has real-time priority if the user may, and
/// return what it finds as JSON. Python's signals are handled meanwhile.
fn answer<T: Serialize + Send>(
    py: Python<'_>,
    measure: impl FnOnce(perhop_path::GoOn) -> Result<T, ProbeError> + Send,
) -> PyResult<String> {
    let goes_on = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&goes_on);
    let found = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            perhop_path::reduce_wakeup_latency();
            measure(Box::new(move || asked.load(Ordering::Relaxed)))
        });
        while !worker.is_finished() {
            if let Err(signal) = py.check_signals() {
                goes_on.store(false, Ordering::Relaxed);
                py.detach(|| worker.join().map(drop).unwrap_or_default());
                return Err(signal);
            }
            py.detach(|| thread::sleep(TURN));
        }
        Ok(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    match found {
        Ok(found) => {
            serde_json::to_string(&found).map_err(|error| PyValueError::new_err(error.to_string()))
        }
        Err(ProbeError::Time(limit)) => {
            Err(PyTimeoutError::new_err(ProbeError::Time(limit).to_string()))
        }
        Err(error) => Err(PyOSError::new_err(error.to_string())),
    }
}
