//! The same model with the same knobs on several machines.

use std::sync::Arc;

use super::Goal;
use crate::engine::PlanRequest;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::settings::knob::Knob;

/// The plan on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineResult {
    /// Name of the machine.
    pub name: String,
    /// The plan there, or the engine's error in one sentence.
    pub plan: Result<Box<Plan>, String>,
    /// The largest context with every layer on GPUs, in tokens; `None` if no context does.
    pub context: Option<u64>,
}

impl PlanRequest {
    /// Plans for `machine` instead of this request's own, and finds the largest context there.
    pub fn on(&self, name: &str, machine: &Arc<Machine>) -> MachineResult {
        let request = self.on_machine(Arc::clone(machine));
        let plan = request.plan().map(Box::new).map_err(|error| error.to_string());
        let context = request.largest(Knob::Context, Goal::Vram).map(|largest| largest.value);
        MachineResult { name: name.to_owned(), plan, context }
    }
}
