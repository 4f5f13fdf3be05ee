//! The Python module `perhop._core`, the only interface between Rust and Python. It converts
//! values, releases the interpreter while Rust runs, and maps errors; it has no logic.

mod agent;
mod bookings;
mod calendar;
mod counts;
mod emulation;
mod namespaces;
mod path;
mod plans;
mod topology;
mod traffic;
mod wires;

use std::io;

use perhop_core::Time;
use perhop_measure::{CapturePlan, Column, Sink, Table};
use perhop_sim::Plan;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView};

use self::plans::read;

/// A simulation of a plan.
#[pyclass(module = "perhop._core")]
struct Simulation(perhop_sim::Simulation);

#[pymethods]
impl Simulation {
    /// Compiles a plan, given as JSON, to be run on at most `threads` threads.
    #[new]
    #[pyo3(signature = (plan, threads = 1))]
    fn new(py: Python<'_>, plan: &str, threads: usize) -> PyResult<Self> {
        py.detach(|| {
            let plan = read::<Plan>(plan)?;
            perhop_sim::Simulation::with_threads(&plan, threads)
                .map(Self)
                .map_err(|error| PyValueError::new_err(error.to_string()))
        })
    }

    /// Runs until `until_ps` or the end, whichever is first. Raises the error of a capture's file.
    fn advance(&mut self, py: Python<'_>, until_ps: u64) -> PyResult<()> {
        let failure = py.detach(|| {
            self.0.advance(Time::from_picos(until_ps));
            self.0.take_capture_failure()
        });
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Captures packets that pass some interfaces, given as JSON, to a file, from now on.
    fn capture(&mut self, plan: &str, file: Py<PyAny>) -> PyResult<()> {
        let plan = read::<CapturePlan>(plan)?;
        let sink = Box::new(File::new(file));
        self.0.capture(&plan, sink).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Ends the run now, and records the measurements so far.
    fn stop(&mut self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }

    #[getter]
    fn now_ps(&self) -> u64 {
        self.0.now().as_picos()
    }

    /// The number of threads that it is run on.
    #[getter]
    fn threads(&self) -> usize {
        self.0.parts()
    }

    /// The reason for which it is run on one thread, if that is so.
    #[getter]
    fn whole(&self) -> Option<String> {
        self.0.whole().map(|reason| reason.to_string())
    }

    #[getter]
    fn end_ps(&self) -> u64 {
        self.0.end().as_picos()
    }

    #[getter]
    fn events(&self) -> u64 {
        self.0.events()
    }

    #[getter]
    fn packet_hops(&self) -> u64 {
        self.0.packet_hops()
    }

    /// Returns the bytes that each flow has delivered so far, by name.
    fn delivered<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_name(py, self.0.flows(), self.0.delivered())
    }

    /// Returns the tables: by name, columns by name, each as a memoryview of 64-bit integers or
    /// floats, or names and a memoryview of indices.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.0.tables());
        tables(py, found)
    }
}

/// Returns values as a dictionary by name.
fn by_name<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    names: &[String],
    values: impl IntoIterator<Item = T>,
) -> PyResult<Bound<'py, PyDict>> {
    let by_name = PyDict::new(py);
    for (name, value) in names.iter().zip(values) {
        by_name.set_item(name, value)?;
    }
    Ok(by_name)
}

/// Returns tables as dictionaries.
fn tables<'py>(
    py: Python<'py>,
    tables: impl IntoIterator<Item = (&'static str, Table)>,
) -> PyResult<Bound<'py, PyDict>> {
    let by_name = PyDict::new(py);
    for (name, columns) in tables {
        let table = PyDict::new(py);
        for (name, column) in columns {
            match column {
                Column::Integers(values) => {
                    table.set_item(name, memory(py, "q", &values, i64::to_ne_bytes)?)?;
                }
                Column::Floats(values) => {
                    table.set_item(name, memory(py, "d", &values, f64::to_ne_bytes)?)?;
                }
                Column::Names(names, places) => {
                    let places = memory(py, "q", &places, i64::to_ne_bytes)?;
                    table.set_item(name, (&names[..], places))?;
                }
            }
        }
        by_name.set_item(name, table)?;
    }
    Ok(by_name)
}

/// An unbuffered Python file that is written from its beginning.
struct File {
    file: Py<PyAny>,
    length: u64,
}

impl Sink for File {
    fn take(&mut self, blocks: &[u8]) -> io::Result<()> {
        Python::attach(|py| self.write(py, blocks).inspect_err(|error| self.fail(py, error)))?;
        self.length += blocks.len() as u64;
        Ok(())
    }
}

impl File {
    fn new(file: Py<PyAny>) -> Self {
        Self { file, length: 0 }
    }

    fn write(&self, py: Python<'_>, mut blocks: &[u8]) -> PyResult<()> {
        while !blocks.is_empty() {
            let written = self.file.call_method1(py, "write", (PyBytes::new(py, blocks),))?;
            blocks = blocks.get(written.extract::<usize>(py)?..).unwrap_or_default();
        }
        Ok(())
    }

    /// Removes incomplete blocks from the file, if it can be truncated, and adds the file's name to
    /// the error.
    fn fail(&self, py: Python<'_>, error: &PyErr) {
        let _ = self.file.call_method1(py, "truncate", (self.length,));
        if error.is_instance_of::<PyOSError>(py) {
            let name = self.file.getattr(py, "name");
            let _ = name.and_then(|name| error.value(py).setattr("filename", name));
        }
    }
}

/// Returns a column as a memoryview with elements of this format. An array of NumPy would have the
/// same data, but a run would wait longer for NumPy's import than for the simulation.
fn memory<'py, T: Copy>(
    py: Python<'py>,
    format: &str,
    values: &[T],
    bytes: fn(T) -> [u8; 8],
) -> PyResult<Bound<'py, PyAny>> {
    let bytes: Vec<u8> = values.iter().flat_map(|&value| bytes(value)).collect();
    PyMemoryView::from(&PyBytes::new(py, &bytes))?.call_method1("cast", (format,))
}

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::Simulation;
    #[pymodule_export]
    use super::agent::{Live, agent};
    #[pymodule_export]
    use super::bookings::{
        Booking, CalendarLink, CalendarPath, Claim, Fit, HostPair, PacketSet, PathConstraints,
        Shortage, StoredDirection, StoredPath, StoredSelector, Stretch,
    };
    #[pymodule_export]
    use super::calendar::{Calendar, StoredReservations};
    #[pymodule_export]
    use super::counts::Counts;
    #[pymodule_export]
    use super::emulation::Emulation;
    #[pymodule_export]
    use super::namespaces::Namespaces;
    #[pymodule_export]
    use super::path::{measure_available_bandwidth, measure_end_to_end, respond_path, trace_path};
    #[pymodule_export]
    use super::plans::{plan_schemas, reread_plan};
    #[pymodule_export]
    use super::topology::Topology;
    #[pymodule_export]
    use super::traffic::Traffic;
    #[pymodule_export]
    use super::wires::Wires;

    /// Version of perhop that this module was built from.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// How this module was built: for release, or for development, which is many times slower.
    #[pymodule_export]
    const BUILD: &str = if cfg!(debug_assertions) { "development" } else { "release" };
}
