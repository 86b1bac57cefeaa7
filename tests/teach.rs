//! The pages that teach: every figure on them is the plan's.

mod allocation;
mod caches;
mod formulas;
mod lessons;
mod never_panics;
mod schedule;
mod screens;

use plimsoll::engine::EngineId;
use plimsoll::engine::PlanRequest;
use plimsoll::engine::PreparedModel;
use plimsoll::machine::Machine;
use plimsoll::plan::Plan;
use plimsoll::settings::{Context, Settings};
use plimsoll::source::catalogue;
use plimsoll::teach::{Sheet, Topic};
use proptest::prelude::*;

use crate::laws;

/// A plan, and a page about it; none where the engine makes no plan. What can be planned can be explained.
fn shown(
    engine: EngineId,
    model: &PreparedModel,
    machine: &Machine,
    settings: &Settings,
    topic: Topic,
) -> Option<(Plan, Result<Sheet, String>)> {
    let request = PlanRequest::new(engine, model.clone(), machine.clone(), settings.clone());
    let plan = request.plan().ok()?;
    let sheet = topic.sheet(&request, &plan, &catalogue::model).map_err(|error| error.to_string());
    Some((plan, sheet))
}

/// Machines of up to four cards: more teach nothing new.
fn machine() -> impl Strategy<Value = Machine> {
    laws::machine().prop_map(|mut machine| {
        machine.gpus.truncate(4);
        machine
    })
}

/// Whether the plan's own graph is shown, and not one that stands in for an estimate.
const fn builds_a_graph(engine: EngineId) -> bool {
    matches!(engine, EngineId::LlamaCpp | EngineId::Ollama)
}

/// One sequence with so much context.
fn settings_of(ctx: u64) -> Settings {
    Settings { ctx: Context::Tokens(ctx), parallel: Some(1), ..Settings::default() }
}
