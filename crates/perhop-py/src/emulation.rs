//! Emulations, for Python.

use perhop_emu::{EmulationPlan, PortReading, monotonic};
use perhop_measure::CapturePlan;
use perhop_plan::EffectPlan;
use perhop_queue::{Backlog, ClassCounters};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::namespaces::Namespaces;
use crate::plans::read;
use crate::{File, tables};

/// An emulation of a plan.
#[pyclass(module = "perhop._core")]
pub(crate) struct Emulation(perhop_emu::Emulation);

#[pymethods]
impl Emulation {
    /// Makes the hosts of a plan, given as JSON, and the network between them.
    #[new]
    fn new(py: Python<'_>, plan: &str) -> PyResult<Self> {
        let plan = read::<EmulationPlan>(plan)?;
        py.detach(|| perhop_emu::Emulation::new(&plan)).map(Self).map_err(|error| match error {
            perhop_emu::EmulationError::Plan(error) => PyValueError::new_err(error.to_string()),
            error => PyOSError::new_err(error.to_string()),
        })
    }

    /// Returns the monotonic clock, in nanoseconds.
    #[staticmethod]
    fn monotonic_ns() -> u64 {
        monotonic()
    }

    /// Returns the namespaces of the nodes, in order; routers have none.
    fn namespaces(&self) -> Namespaces {
        Namespaces(self.0.namespaces().to_vec())
    }

    /// Starts the clock at an instant of the monotonic clock.
    fn start(&mut self, zero_ns: u64) -> PyResult<()> {
        Ok(self.0.start(zero_ns)?)
    }

    /// Captures packets that pass some interfaces, given as JSON, to a file, from now on; returns
    /// the capture's number.
    fn capture(&mut self, py: Python<'_>, plan: &str, file: Py<PyAny>) -> PyResult<usize> {
        let plan = read::<CapturePlan>(plan)?;
        let sink = Box::new(File::new(file));
        py.detach(|| self.0.capture(&plan, sink))
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Ends a capture, and writes the rest of it to its file.
    fn end_capture(&mut self, py: Python<'_>, number: usize) -> PyResult<()> {
        Ok(py.detach(|| self.0.end_capture(number))?)
    }

    /// Returns the hosts whose devices were removed.
    fn without_device(&mut self, py: Python<'_>) -> Vec<String> {
        py.detach(|| self.0.without_device())
    }

    /// Writes all packets captured so far. Raises the error of a capture's file, or the error that
    /// has ended the emulation.
    fn check(&mut self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.0.write_captures()?;
            self.0.take_failure().map_or(Ok(()), Err)
        })?;
        Ok(())
    }

    /// Applies a change now, given as JSON like an effect of a plan.
    fn apply(&mut self, py: Python<'_>, effect: &str, seed: u64) -> PyResult<()> {
        let effect = read::<EffectPlan>(effect)?;
        py.detach(|| self.0.apply(&effect, seed))
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Returns the counters of links, by directed link.
    fn links<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let links = PyDict::new(py);
        for PortReading { name, link, .. } in py.detach(|| self.0.read()) {
            let counted = PyDict::new(py);
            for (name, count) in [
                ("sent_packets", link.packets),
                ("sent_bytes", link.bytes.get()),
                ("lost_packets", link.lost),
                ("duplicated_packets", link.duplicated),
                ("reordered_packets", link.reordered),
            ] {
                counted.set_item(name, count)?;
            }
            links.set_item(name, counted)?;
        }
        Ok(links)
    }

    /// Returns the counters by directed link and class, and the same of reserved classes.
    fn read<'py>(&mut self, py: Python<'py>) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        let (classes, reserved) = (PyDict::new(py), PyDict::new(py));
        for port in py.detach(|| self.0.read()) {
            classes.set_item(&port.name, counted(py, port.classes)?)?;
            reserved.set_item(&port.name, counted(py, port.reserved)?)?;
        }
        Ok((classes, reserved))
    }

    /// Ends the measurement now, and records the measurements so far.
    fn stop(&mut self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }

    #[getter]
    fn now_ps(&self) -> u64 {
        self.0.now().as_picos()
    }

    /// Returns the counters of the emulation itself, by name.
    fn counters<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counted = py.detach(|| self.0.counters());
        let packets = counted.packets;
        let by_name = PyDict::new(py);
        for (name, count) in [
            ("packet_hops", counted.packet_hops),
            ("packets_sent", packets.sent),
            ("packets_received", packets.received),
            ("reads", packets.reads),
            ("writes", packets.writes),
            ("refused", packets.refused),
            ("malformed", packets.malformed),
            ("foreign", packets.foreign),
            ("overflow", packets.overflow),
            ("overruns", counted.overruns),
            ("hosts_held_up", counted.backpressure[0]),
            ("hosts_not_held_up", counted.backpressure[1]),
            ("real_time", counted.real_time.into()),
            ("stalls", counted.stalls.number()),
            ("stalled_us", counted.stalls.total().as_picos() / 1_000_000),
        ] {
            by_name.set_item(name, count)?;
        }
        if let Some([median, most, worst]) = counted.lateness_ns {
            by_name.set_item("late_median_ns", median)?;
            by_name.set_item("late_p99_ns", most)?;
            by_name.set_item("late_max_ns", worst)?;
        }
        Ok(by_name)
    }

    /// Returns the tables of queues and links: columns by name, each as a memoryview of 64-bit
    /// integers or floats.
    fn tables<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.0.tables());
        tables(py, found)
    }
}

/// Returns the counters of classes, by name.
fn counted<'py>(
    py: Python<'py>,
    classes: Vec<(String, ClassCounters, Backlog)>,
) -> PyResult<Bound<'py, PyDict>> {
    let by_class = PyDict::new(py);
    for (name, counters, backlog) in classes {
        let counted = PyDict::new(py);
        for (name, count) in [
            ("sent_packets", counters.sent.packets),
            ("sent_bytes", counters.sent.bytes.get()),
            ("dropped_packets", counters.dropped_total()),
            ("marked_packets", counters.marked),
            ("conformed_packets", counters.conformed.packets),
            ("conformed_bytes", counters.conformed.bytes.get()),
            ("exceeded_packets", counters.exceeded.packets),
            ("exceeded_bytes", counters.exceeded.bytes.get()),
            ("violated_packets", counters.violated.packets),
            ("violated_bytes", counters.violated.bytes.get()),
            ("backlog_packets", backlog.packets),
            ("backlog_bytes", backlog.bytes.get()),
        ] {
            counted.set_item(name, count)?;
        }
        by_class.set_item(name, counted)?;
    }
    Ok(by_class)
}
