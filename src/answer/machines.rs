//! The same model with the same knobs on several machines.

use super::{Case, Goal};
use crate::machine::Machine;
use crate::plan::Plan;
use crate::settings::knob::Knob;

/// What one machine makes of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct OnMachine {
    /// What the machine is called.
    pub name: String,
    /// The plan there, or why there is none, in one sentence.
    pub plan: Result<Box<Plan>, String>,
    /// The largest context with every layer on GPUs, in tokens; none where no context does it.
    pub context: Option<u64>,
}

impl Case<'_> {
    /// Plans for `machine` instead of this case's own, and looks how large its context can be there.
    pub fn on(&self, name: &str, machine: &Machine) -> OnMachine {
        let case = Case { machine, ..*self };
        let plan = case.plan().map(Box::new).map_err(|error| error.to_string());
        let context = case.largest(Knob::Context, Goal::All).map(|largest| largest.value);
        OnMachine { name: name.to_owned(), plan, context }
    }
}
