//! Damaged text in place of a plan causes an error, or a run.

use perhop_core::Time;
use perhop_fuzz::fuzz_slow;
use perhop_sim::{Plan, Simulation};

use crate::lab::*;
use crate::short_plans::expand;

#[test]
fn fuzz_plans() {
    let plans = [everything(1, &[1_000, MILLISECOND, SECOND]), plan("hr", &[], &[SECOND])];
    let seeds: Vec<Vec<u8>> =
        plans.iter().map(|plan| expand(plan).to_string().into_bytes()).collect();
    fuzz_slow("plans", &seeds, |bytes| {
        let Ok(plan) = serde_json::from_slice::<Plan>(bytes) else { return false };
        let Ok(mut simulation) = Simulation::new(&plan) else { return true };
        // For a short time only: a plan may request an event per picosecond, which is slow.
        simulation.advance(Time::from_picos(20_000));
        simulation.tables();
        simulation.stop();
        true
    });
}
