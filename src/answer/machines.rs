//! The same model with the same knobs on several machines.

use std::sync::Arc;

use super::Goal;
use crate::engine::PlanRequest;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::settings::knob::Knob;

/// What one machine makes of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineResult {
    /// What the machine is called.
    pub name: String,
    /// The plan there, or why there is none, in one sentence.
    pub plan: Result<Box<Plan>, String>,
    /// The largest context with every layer on GPUs, in tokens; none where no context does it.
    pub context: Option<u64>,
}

impl PlanRequest {
    /// Plans for `machine` instead of this request's own, and looks how large its context can be there.
    pub fn on(&self, name: &str, machine: &Arc<Machine>) -> MachineResult {
        let request = self.on_machine(Arc::clone(machine));
        let plan = request.plan().map(Box::new).map_err(|error| error.to_string());
        let context = request.largest(Knob::Context, Goal::All).map(|largest| largest.value);
        MachineResult { name: name.to_owned(), plan, context }
    }
}
