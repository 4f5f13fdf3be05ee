//! Plans as JSON from Python.

use perhop_emu::EmulationPlan;
use perhop_measure::CapturePlan;
use perhop_plan::EffectPlan;
use perhop_sim::Plan;
use perhop_traffic::Job;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads a plan from JSON; an error has the path of the invalid value.
pub(crate) fn read<T: DeserializeOwned>(json: &str) -> PyResult<T> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

fn reread<T: DeserializeOwned + Serialize>(json: &str) -> PyResult<String> {
    let plan: T = read(json)?;
    serde_json::to_string(&plan).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Returns the JSON Schema of every kind of plan, by name, as JSON. The definitions are shared.
#[pyfunction]
pub(crate) fn plan_schemas() -> String {
    fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
        generator.subschema_for::<T>();
    }
    let mut generator = SchemaGenerator::default();
    add::<Plan>(&mut generator);
    add::<EmulationPlan>(&mut generator);
    add::<Job>(&mut generator);
    add::<CapturePlan>(&mut generator);
    add::<EffectPlan>(&mut generator);
    serde_json::Value::Object(generator.take_definitions(true)).to_string()
}

/// Reads a plan of a kind from JSON, and returns it as the core writes it.
#[pyfunction]
pub(crate) fn reread_plan(kind: &str, json: &str) -> PyResult<String> {
    match kind {
        "Plan" => reread::<Plan>(json),
        "EmulationPlan" => reread::<EmulationPlan>(json),
        "Job" => reread::<Job>(json),
        "CapturePlan" => reread::<CapturePlan>(json),
        "EffectPlan" => reread::<EffectPlan>(json),
        _ => Err(PyValueError::new_err(format!("unknown kind of plan: {kind}"))),
    }
}
