//! Wires between namespaces, for Python.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use perhop_core::{Duration, Rate};
use perhop_emu::{WireEnd, Wires as Carried};
use perhop_net::{Gilbert, Wire};
use perhop_plan::NetworkPlan;
use pyo3::exceptions::{PyKeyError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::namespaces::Namespaces;
use crate::plans::read;

/// Wires with a TUN device at each end, carried by a thread until this object is dropped.
#[pyclass(module = "perhop._core", frozen)]
pub(crate) struct Wires {
    carried: Carried,
    settings: Mutex<Vec<Wire>>,
    /// Directed links, two for each wire.
    names: Vec<String>,
    /// Index of each directed link.
    places: BTreeMap<String, usize>,
}

#[pymethods]
impl Wires {
    /// Makes a wire for each link of a network, given as JSON, whose directed links have devices:
    /// their names in the namespaces of the senders, which are in the order of the network's nodes.
    #[new]
    fn new(
        py: Python<'_>,
        hosts: &Namespaces,
        plan: &str,
        devices: HashMap<String, String>,
    ) -> PyResult<Self> {
        let plan = read::<NetworkPlan>(plan)?;
        let wrong = |error: String| PyValueError::new_err(error);
        let numbers = plan.names().map_err(|error| wrong(error.to_string()))?;
        let (mut wires, mut names, mut places) = (Vec::new(), Vec::new(), BTreeMap::new());
        for link in &plan.links {
            let [Some(one), Some(two)] = [0, 1].map(|end| devices.get(&link.ends[end].name)) else {
                continue;
            };
            let end = |place: usize, name: &String| {
                let node = numbers.node(&link.ends[place].node);
                let node = node.map_err(|error| wrong(error.to_string()))?;
                let namespace = hosts.host(node.index())?.clone();
                PyResult::Ok(WireEnd { namespace, name: name.clone() })
            };
            for end in &link.ends {
                places.insert(end.name.clone(), names.len());
                names.push(end.name.clone());
            }
            let media = link.ends.each_ref().map(|end| end.medium.wire());
            wires.push(([end(0, one)?, end(1, two)?], media));
        }
        let carried = py.detach(|| Carried::new(&wires, plan.seed));
        let carried = carried.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let settings = Mutex::new(wires.iter().flat_map(|(_, both)| *both).collect());
        Ok(Self { carried, settings, names, places })
    }

    /// Returns `true` if the thread of the wires has real-time priority, which needs privileges.
    #[getter]
    fn real_time(&self) -> bool {
        self.carried.real_time()
    }

    /// Changes rate, delay and loss of a directed link, from now on. Correlated loss is
    /// `(p, r, good, bad)`, in parts per billion.
    fn change(
        &self,
        on: &str,
        rate: u64,
        delay: u64,
        loss: u32,
        gilbert: Option<[u32; 4]>,
    ) -> PyResult<()> {
        let place = *self.places.get(on).ok_or_else(|| PyKeyError::new_err(on.to_owned()))?;
        let mut settings =
            self.settings.lock().map_err(|e| PyValueError::new_err(e.to_string()))?;
        let own = &mut settings[place];
        own.rate = Rate::try_from(rate)
            .map_err(|error| PyValueError::new_err(format!("a wire's rate {error}")))?;
        own.delay = Duration::from_picos(delay);
        own.loss = loss;
        own.gilbert = gilbert.map(|[p, r, good, bad]| Gilbert { p, r, good, bad });
        self.carried.set(place, *own);
        Ok(())
    }

    /// Returns the counters of wires, by directed link.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let by_link = PyDict::new(py);
        for (name, one) in self.names.iter().zip(self.carried.counters()) {
            let counted = PyDict::new(py);
            for (name, count) in [
                ("sent_packets", one.carried.packets),
                ("sent_bytes", one.carried.bytes.get()),
                ("lost_packets", one.carried.lost),
                ("duplicated_packets", one.carried.duplicated),
                ("reordered_packets", one.carried.reordered),
                ("refused_packets", one.refused),
            ] {
                counted.set_item(name, count)?;
            }
            by_link.set_item(name, counted)?;
        }
        Ok(by_link)
    }
}
