//! Wires between namespaces, as Python has them.

use perhop_core::{Duration, Rate};
use perhop_emu::{WireEnd, Wires as Carried};
use perhop_net::Wire;
use perhop_plan::NetworkPlan;
use pyo3::exceptions::{PyIndexError, PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::namespaces::Namespaces;

/// Wires with a TUN device at each end, carried by a thread until this object ends.
#[pyclass(module = "perhop._core", frozen)]
pub(crate) struct Wires {
    carried: Carried,
    settings: std::sync::Mutex<Vec<Wire>>,
}

#[pymethods]
impl Wires {
    /// Makes a wire for some links of a network, given as JSON: each a link's number, and what the
    /// devices at its two ends are called.
    #[new]
    fn new(
        py: Python<'_>,
        hosts: &Namespaces,
        plan: &str,
        links: Vec<(usize, String, String)>,
    ) -> PyResult<Self> {
        let plan: NetworkPlan =
            serde_json::from_str(plan).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let mut wires = Vec::new();
        for (number, one, two) in links {
            let link = plan.links.get(number);
            let link = link.ok_or_else(|| PyIndexError::new_err(format!("no link {number}")))?;
            let wire = link.wire().map_err(|error| PyValueError::new_err(error.to_string()))?;
            let end = |place: usize, name| {
                let namespace = hosts.host(usize::from(link.ends[place]))?.clone();
                PyResult::Ok(WireEnd { namespace, name })
            };
            wires.push(([end(0, one)?, end(1, two)?], wire));
        }
        let carried = py.detach(|| Carried::new(&wires, plan.seed));
        let carried = carried.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let settings = std::sync::Mutex::new(wires.iter().map(|(_, wire)| *wire).collect());
        Ok(Self { carried, settings })
    }

    /// Whether the thread that carries them goes before all others, which needs rights.
    #[getter]
    fn real_time(&self) -> bool {
        self.carried.first_in_line()
    }

    /// From now on a wire, by its place among those that were given, has this rate, delay and loss.
    fn change(&self, wire: usize, rate: u64, delay: u64, loss_ppb: u32) -> PyResult<()> {
        let mut settings =
            self.settings.lock().map_err(|e| PyValueError::new_err(e.to_string()))?;
        let own = settings
            .get_mut(wire)
            .ok_or_else(|| PyIndexError::new_err(format!("there is no wire {wire}")))?;
        let rate = Rate::new(rate);
        own.rate = rate.ok_or_else(|| PyValueError::new_err("a wire's rate is zero"))?;
        own.delay = Duration::from_picos(delay);
        own.loss_ppb = loss_ppb;
        self.carried.set(wire, *own);
        Ok(())
    }

    /// What each direction of each wire has counted: packets, bytes, and packets lost, duplicated,
    /// delayed and refused.
    fn counters(&self) -> Vec<[u64; 6]> {
        let counted = self.carried.counters().into_iter();
        counted
            .map(|one| {
                let carried = one.carried;
                let bytes = carried.bytes.get();
                [
                    carried.packets,
                    bytes,
                    carried.lost,
                    carried.duplicated,
                    carried.detoured,
                    one.refused,
                ]
            })
            .collect()
    }
}
