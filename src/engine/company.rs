//! What an engine does with a model that is to be loaded beside others: loads it too, or makes room for it first.

use super::{EngineError, EngineId, ollama, ollama_011, plan};
use crate::machine::Machine;
use crate::model::Model;
use crate::plan::Plan;
use crate::settings::Settings;

/// How a model is received where others are loaded already.
#[derive(Clone, Debug)]
pub enum Reception {
    /// It is loaded beside them, so.
    Welcome(Box<Plan>),
    /// One of the others has to go first, and then it is tried again; why, in one sentence without its full stop.
    OneGoes(String),
    /// All others have to go at once, and then it is tried once more.
    AllGo {
        /// Why, in one sentence without its full stop.
        why: String,
        /// The context that it is then tried with, where that is lowered.
        ctx: Option<u64>,
    },
    /// It is not loaded, and the others stay; why, in one sentence without its full stop.
    Refused(String),
}

/// How `engine` receives `model` on `machine`, which has free what the models that are loaded have left.
///
/// # Errors
/// As [`plan`].
pub fn receive(
    engine: EngineId,
    model: &Model,
    machine: &Machine,
    settings: &Settings,
) -> Result<Reception, EngineError> {
    let welcome = |plan: Plan| Reception::Welcome(Box::new(plan));
    let own = machine.alone();
    let alone = own.as_ref().unwrap_or(machine);
    match engine {
        EngineId::Ollama => {
            let objection = ollama::objection(model, alone, settings)?;
            objection.map_or_else(|| plan(engine, model, machine, settings).map(welcome), Ok)
        }
        EngineId::Ollama024 => {
            let plan = whole(engine, model, machine, settings)?;
            Ok(plan.refusal.clone().map_or_else(|| welcome(plan), Reception::OneGoes))
        }
        EngineId::Ollama011 => {
            let plan = whole(engine, model, machine, settings)?;
            let objection = ollama_011::objection(model, alone, settings, &plan)?;
            Ok(objection.unwrap_or_else(|| welcome(plan)))
        }
        EngineId::LlamaCpp => {
            // a server that knows nothing of the others
            let plan = plan(engine, model, machine, settings)?;
            Ok(plan.refusal.clone().map_or_else(|| welcome(plan), Reception::Refused))
        }
    }
}

/// The plan with nothing less than what was asked for on GPUs, as both old schedulers want it beside others.
fn whole(engine: EngineId, model: &Model, machine: &Machine, settings: &Settings) -> Result<Plan, EngineError> {
    plan(engine, model, machine, &Settings { require_full: true, ..settings.clone() })
}
