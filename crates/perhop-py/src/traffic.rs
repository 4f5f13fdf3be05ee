//! Traffic on real sockets, for Python.

use std::collections::HashMap;
use std::io;

use perhop_traffic::Job;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::namespaces::Namespaces;
use crate::plans::read;
use crate::{by_name, tables};

/// Flows and pings between hosts with separate network stacks.
#[pyclass(module = "perhop._core")]
pub(crate) struct Traffic(perhop_traffic::Traffic);

#[pymethods]
impl Traffic {
    /// Opens every socket of a job, given as JSON, in these namespaces, or in the caller's if there
    /// are none. Raises OSError with the feature that this machine lacks.
    #[new]
    fn new(py: Python<'_>, job: &str, namespaces: Option<Bound<'_, Namespaces>>) -> PyResult<Self> {
        let job = read::<Job>(job)?;
        let hosts = namespaces.map_or(Vec::new(), |namespaces| namespaces.get().0.clone());
        let enter = |number: usize| match hosts.get(number) {
            Some(Some(host)) => host.enter(),
            None if hosts.is_empty() => Ok(()),
            _ => Err(io::Error::other(format!("there is no namespace {number}"))),
        };
        let traffic = py.detach(|| perhop_traffic::Traffic::new(&job, &enter));
        traffic.map(Self).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Starts the traffic: time zero of the scenario is `zero_ns` of the monotonic clock.
    fn start(&mut self, zero_ns: u64) -> PyResult<()> {
        self.0.start(zero_ns).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Ends the traffic now, and records the measurements so far.
    fn stop(&mut self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }

    #[getter]
    fn now_ps(&self) -> u64 {
        self.0.now().as_picos()
    }

    /// Returns the instant up to which the tables go.
    #[getter]
    fn recorded_ps(&self) -> u64 {
        self.0.recorded().as_picos()
    }

    #[getter]
    fn finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Returns the bytes that each flow has delivered so far, by name.
    fn delivered<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_name(py, self.0.flows(), self.0.delivered())
    }

    /// Returns the greatest window that the receivers of each flow have offered, by name; zero for
    /// datagrams.
    fn windows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_name(py, self.0.flows(), self.0.windows())
    }

    /// Returns the counters of the traffic itself, by name.
    fn counters(&self) -> HashMap<&'static str, u64> {
        self.0.counters().into_iter().collect()
    }

    /// Returns the warnings since the last call.
    fn take_warnings(&self) -> Vec<String> {
        self.0.take_warnings()
    }

    /// Returns the tables: by name, columns by name, each as a memoryview of 64-bit integers or
    /// floats, or names and a memoryview of indices.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.0.tables());
        tables(py, found)
    }
}
