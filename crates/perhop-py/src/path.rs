//! Probing of paths, as Python has it.

use std::sync::{Arc, Mutex, PoisonError};

use perhop_path::{ProbeError, Settings, trace};
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

/// Run a measurement without the interpreter's lock, and return what it finds as JSON.
fn answer<T: Serialize + Send>(
    py: Python<'_>,
    measure: impl FnOnce(perhop_path::GoOn) -> Result<T, ProbeError> + Send,
) -> PyResult<String> {
    let raised = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&raised);
    let go_on = move || {
        let signal = Python::attach(|py| py.check_signals()).err();
        let goes_on = signal.is_none();
        *keep.lock().unwrap_or_else(PoisonError::into_inner) = signal;
        goes_on
    };
    match py.detach(|| measure(Box::new(go_on))) {
        Ok(found) => {
            serde_json::to_string(&found).map_err(|error| PyValueError::new_err(error.to_string()))
        }
        Err(error) => {
            let signal = raised.lock().unwrap_or_else(PoisonError::into_inner).take();
            Err(signal.unwrap_or_else(|| match error {
                ProbeError::Time(_) => PyTimeoutError::new_err(error.to_string()),
                _ => PyOSError::new_err(error.to_string()),
            }))
        }
    }
}
