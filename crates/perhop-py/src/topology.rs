//! Paths of a network, for Python.

use perhop_core::{Duration, NodeId};
use perhop_net::{NodeKind, PortId};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Nodes and links, as far as paths depend on them.
#[pyclass(module = "perhop._core")]
pub struct Topology {
    topology: perhop_net::Topology,
    links: usize,
}

#[pymethods]
impl Topology {
    /// Creates a network from nodes, with True for each router, and links: two nodes, and
    /// the delay from the first and back, in picoseconds.
    #[new]
    fn new(routers: Vec<bool>, links: Vec<(u16, u16, u64, u64)>) -> PyResult<Self> {
        let nodes = routers.len();
        if let Some((a, b, ..)) = links.iter().find(|(a, b, ..)| usize::from(*a.max(b)) >= nodes) {
            return Err(PyValueError::new_err(format!(
                "a link joins {a} and {b}, of {nodes} nodes"
            )));
        }
        let kind = |router| if router { NodeKind::Router } else { NodeKind::Host };
        let kinds: Vec<NodeKind> = routers.into_iter().map(kind).collect();
        let number = links.len();
        let links = links.into_iter().map(|(a, b, there, back)| {
            ([NodeId(a), NodeId(b)], [there, back].map(Duration::from_picos))
        });
        Ok(Self { topology: perhop_net::Topology::new(&kinds, links), links: number })
    }

    /// Sets a link up or down.
    fn set_up(&mut self, link: usize, up: bool) -> PyResult<()> {
        if link >= self.links {
            return Err(PyValueError::new_err(format!("there is no link {link}")));
        }
        self.topology.set_up(link, up);
        Ok(())
    }

    /// Returns, for each node, the directions of links that lead to a destination: `2 · link` from
    /// the link's first end, `2 · link + 1` back.
    fn next_hops(&self, py: Python<'_>, destination: u16) -> PyResult<Vec<Vec<u32>>> {
        if usize::from(destination) >= self.topology.nodes() {
            return Err(PyValueError::new_err(format!("there is no node {destination}")));
        }
        let ports = py.detach(|| self.topology.next_hops(NodeId(destination)));
        let numbers = |ports: Vec<PortId>| ports.into_iter().map(|port| port.0).collect();
        Ok(ports.into_iter().map(numbers).collect())
    }
}
