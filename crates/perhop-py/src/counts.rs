//! Linux's counters in a namespace, for Python.

use std::collections::HashMap;

use perhop_emu::LinuxCounts;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::namespaces::Namespaces;

/// Device index of a queue, its handle, its discipline, and its counters.
type Queue<'py> = (u32, u32, String, Bound<'py, PyDict>);

/// A reader of Linux's counters in one namespace, which keeps its sockets open and runs no process.
#[pyclass(module = "perhop._core", frozen)]
pub(crate) struct Counts(LinuxCounts);

#[pymethods]
impl Counts {
    /// Opens the reader for a host.
    #[new]
    fn new(hosts: &Namespaces, host: usize) -> PyResult<Self> {
        Ok(Self(LinuxCounts::new(hosts.host(host)?)?))
    }

    /// Returns the index of a device.
    fn device(&self, name: &str) -> PyResult<u32> {
        Ok(self.0.device(name)?)
    }

    /// Returns, for each queue: its device index, its handle, its discipline, and its counters by
    /// tc's names.
    fn queues<'py>(&self, py: Python<'py>) -> PyResult<Vec<Queue<'py>>> {
        let queues = py.detach(|| self.0.queues())?.into_iter();
        let row = |queue: perhop_emu::QueueCounts| {
            let counts = PyDict::new(py);
            for (name, value) in queue.counts {
                counts.set_item(name, value)?;
            }
            Ok((queue.device, queue.handle, queue.kind, counts))
        };
        queues.map(row).collect()
    }

    /// Returns, for each device: its index, and its counters by the names of ip(8) in JSON.
    fn devices(&self, py: Python<'_>) -> PyResult<Vec<(u32, HashMap<&'static str, u64>)>> {
        let row = |device: perhop_emu::DeviceCounts| {
            let counts = [
                ("rx_packets", device.received.packets),
                ("rx_bytes", device.received.bytes),
                ("tx_packets", device.sent.packets),
                ("tx_bytes", device.sent.bytes),
                ("tx_dropped", device.unsent),
                ("rx_frame_errors", device.frame_errors),
                ("tx_carrier_errors", device.carrier_errors),
            ];
            (device.device, HashMap::from(counts))
        };
        Ok(py.detach(|| self.0.devices())?.into_iter().map(row).collect())
    }

    /// Returns, for each named counter of nftables: its name, packets and bytes.
    fn rules(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, u64)>> {
        let rules = py.detach(|| self.0.rules())?.into_iter();
        Ok(rules.map(|(name, counted)| (name, counted.packets, counted.bytes)).collect())
    }

    /// Returns, for each action of a kind of tc's: its index, packets and bytes.
    fn actions(&self, py: Python<'_>, kind: &str) -> PyResult<Vec<(u32, u64, u64)>> {
        let actions = py.detach(|| self.0.actions(kind))?.into_iter();
        Ok(actions.map(|(number, counted)| (number, counted.packets, counted.bytes)).collect())
    }
}
