//! Python bindings of the agent and its controller.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use perhop_agent::{AgentFacts, default_file, open_identity};
use perhop_traffic::Job;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::plans::read;
use crate::{by_name, tables};

/// Interval at which Python checks for signals while an agent runs.
const LOOK: Duration = Duration::from_millis(100);

/// Run `perhop-agent` with these arguments, and return its exit code. If a signal handler raises an
/// exception, the agent continues until the process ends.
#[pyfunction]
pub(crate) fn agent(py: Python<'_>, arguments: Vec<String>) -> PyResult<u8> {
    let running = thread::spawn(move || perhop_agent::main(&arguments));
    while !running.is_finished() {
        py.check_signals()?;
        py.detach(|| thread::sleep(LOOK));
    }
    // Rust's exit code of a process whose main thread has panicked.
    let code = running.join().unwrap_or(ExitCode::from(101));
    Ok((0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(1))
}

fn failed(error: impl ToString) -> PyErr {
    PyOSError::new_err(error.to_string())
}

/// Flows and pings between hosts that have agents.
#[pyclass(module = "perhop._core")]
pub(crate) struct Live(perhop_agent::Live);

#[pymethods]
impl Live {
    /// Connect to agents, and have them prepare a job. The job and the agents of its nodes are
    /// JSON. The controller's key is in a file, which is created if missing. Raises OSError with
    /// the name of the agent that failed, and the remedy.
    #[new]
    fn new(py: Python<'_>, job: &str, agents: &str, key: Option<PathBuf>) -> PyResult<Self> {
        let job = read::<Job>(job)?;
        py.detach(|| {
            let path = key.map_or_else(default_file, Ok).map_err(failed)?;
            let identity = open_identity(&path).map_err(failed)?;
            perhop_agent::Live::new(&job, agents, &identity).map(Self).map_err(failed)
        })
    }

    /// Start the run: the scenario begins at the same instant on all hosts.
    fn start(&mut self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.start()).map_err(failed)
    }

    /// End the run now, and record the measurements so far.
    fn stop(&mut self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }

    #[getter]
    fn now_ps(&self) -> u64 {
        self.0.now().as_picos()
    }

    /// Return the instant up to which the tables extend.
    #[getter]
    fn recorded_ps(&self) -> u64 {
        self.0.recorded().as_picos()
    }

    #[getter]
    fn finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Return the reason for an early end of the run, if it ended early.
    fn failure(&self) -> Option<String> {
        self.0.failure()
    }

    /// Return the bytes that each flow has delivered so far, by name.
    fn delivered<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_name(py, self.0.flows(), self.0.delivered())
    }

    /// Return the greatest window that each flow's receivers have offered in bytes, by name; zero
    /// for datagrams.
    fn windows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_name(py, self.0.flows(), self.0.windows())
    }

    /// Return the greatest error bound of the clock offsets that correct each flow's one-way
    /// delays, in nanoseconds, by name.
    fn offset_bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        by_name(py, self.0.flows(), self.0.offset_bounds())
    }

    /// Return the counters of the agents, by name.
    fn counters(&self) -> HashMap<&'static str, u64> {
        self.0.counters().into_iter().collect()
    }

    /// Return the total duration of the stalls of each agent in microseconds, by node.
    fn stalled_us(&self) -> HashMap<String, u64> {
        self.0.stalled_us().into_iter().collect()
    }

    /// Return the warnings since the last call.
    fn take_warnings(&self) -> Vec<String> {
        self.0.take_warnings()
    }

    /// Return the measurements that were not possible, with the reasons.
    fn missing(&self) -> Vec<String> {
        self.0.missing()
    }

    /// Return facts about the agent of each node, by name.
    fn agents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let agents = PyDict::new(py);
        for AgentFacts { node, facts, start_bound } in self.0.agents() {
            let by_name = PyDict::new(py);
            for (name, fact) in facts {
                by_name.set_item(name, fact)?;
            }
            by_name.set_item("start_bound_us", start_bound.div_ceil(1_000))?;
            agents.set_item(node, by_name)?;
        }
        Ok(agents)
    }

    /// Return the tables by name, with columns by name, as `Traffic` does.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.0.tables());
        tables(py, found)
    }
}
